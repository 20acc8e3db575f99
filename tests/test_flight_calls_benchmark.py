"""The benchmark on flight calls runs, and no bird is on both sides."""

import csv

import flight_calls
import numpy as np
import pytest
import real_note_tasks
from clip_views import ClipViews
from flight_call_rivals import MfccNeighbour, Templates

from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.features.clip import ClipFeatures


@pytest.fixture
def folder():
    try:
        return real_note_tasks.data_folder("clo-flight-calls")
    except SystemExit as error:
        pytest.skip(str(error))


def test_no_group_is_on_both_sides(folder):
    with (folder / "clips.csv").open(encoding="utf-8", newline="") as file:
        groups = {row["file"]: (row["label"], row["source_group"]) for row in csv.DictReader(file)}
    for seed in range(20):
        for task in flight_calls.TASKS.values():
            drawn = flight_calls.draw(task, seed, 5)
            assert not {groups[file] for file, _ in drawn.train} & {groups[file] for file, _ in drawn.test}
            assert len({label for _, label in drawn.train}) == task.known
            assert len({label for _, label in drawn.test}) == task.known + task.unknown
    assert flight_calls.draw(task, 3, 5) == flight_calls.draw(task, 3, 5) != flight_calls.draw(task, 4, 5)


def test_it_prints_its_tables(folder, capsys, tmp_path):
    arguments = ["--draws", "2", "--rows", "spectra", "spectra-knn", "mfcc", "templates"]
    flight_calls.main([*arguments, "--csv", str(tmp_path / "a.csv"), "--markdown"])
    printed = capsys.readouterr().out
    assert "python benchmarks/flight_calls.py --draws 2" in printed
    assert printed.count("| template matching |") == 4
    assert "| chance | 0.200 |" in printed
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + 2 * 4 * (1 + 3)


@pytest.mark.parametrize("method", [MfccNeighbour, Templates])
def test_rivals_tell_notes_apart(method):
    known, new = (notes(seed=seed, counts={"tuti-F": 6, "cach-D": 6}) for seed in (0, 7))
    model = method().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    scores = model.class_scores([n.samples for n in new], SAMPLE_RATE)
    assert np.mean(model.classes_[scores.argmax(axis=1)] == [n.label for n in new]) > 0.8


def test_the_first_view_is_the_clip_as_it_is_and_remembering_changes_no_number():
    known = notes(seed=0, counts={"tuti-F": 2, "cach-D": 2})
    clips, labels = [n.samples for n in known], [n.label for n in known]
    plain = ClipFeatures(SAMPLE_RATE).fit(clips, labels)
    first = ClipViews().fit(clips, labels, SAMPLE_RATE).views(clips[1])
    # the wider spectrum of the views has other bands at its ends
    assert (first[0] * plain.transform(clips[1:2])[0]).sum() > 0.99
    np.testing.assert_array_equal(ClipViews().fit(clips, labels, SAMPLE_RATE).views(clips[1]), first)
    assert ClipViews().fit(clips[:2], labels[:2], SAMPLE_RATE).range_ != plain.front_end_.band_hz
