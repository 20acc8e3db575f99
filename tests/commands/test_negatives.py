"""Annotations that say what a sound is not: labels with a minus, and files of negatives."""

import numpy as np
import pytest
import soundfile

from outlark.annotations import Annotation, write_annotations
from outlark.commands.doctor import examine
from outlark.commands.train.examples import find_examples, told_apart, with_negatives
from outlark.commands.train.learning import learn
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.errors import InputError


def table(path, *annotations, format="csv", **more):
    """(start, end, label) or (start, end, label, verdict) each, in a.wav."""
    rows = [
        Annotation(
            start_s=m[0], end_s=m[1], label=m[2], verdict=m[3] if len(m) > 3 else None, recording="a.wav", **more
        )
        for m in annotations
    ]
    write_annotations(path, rows, format=format)
    return path


@pytest.fixture
def folder(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).normal(size=SAMPLE_RATE), SAMPLE_RATE)
    return tmp_path


def found_in(path, **more):
    return told_apart(find_examples([path], any_verdict=True), **more)


def test_a_minus_before_a_class_is_not_that_class(folder):
    found = found_in(table(folder / "t.csv", (0, 0.1, "buzz"), (0.3, 0.4, "-buzz"), (0.5, 0.6, "- buzz")))
    assert found.labels == ["buzz"]
    assert [(note.label, note.annotation.start_s) for note in found.negatives] == [("buzz", 0.3), ("buzz", 0.5)]
    assert "1 '-buzz' taken as not 'buzz' (if it is a class of its own, give --class=-buzz)" in found.remarks


def test_a_class_that_is_called_so_stays_one_and_it_is_said(folder):
    path = table(folder / "t.csv", (0, 0.1, "buzz"), (0.3, 0.4, "-song"))
    found = found_in(path)
    assert (found.labels, found.negatives) == (["-song", "buzz"], ())
    told = "'-song' is learnt as a class, because there is no class 'song' to be the negative of"
    assert told in found.remarks


def test_a_class_that_is_named_is_one(folder):
    path = table(folder / "t.csv", (0, 0.1, "song"), (0.3, 0.4, "-song"))
    assert [n.label for n in found_in(path).negatives] == ["song"]
    named = found_in(path, named=["-song", "song"])
    assert (named.labels, named.negatives) == (["-song", "song"], ())
    assert not any("-song" in remark for remark in named.remarks)
    of_a_model = found_in(path, classes=["-song"])
    assert (of_a_model.labels, of_a_model.negatives) == (["-song", "song"], ())
    assert [n.label for n in found_in(table(folder / "u.csv", (0, 0.1, "-x")), classes=["x"]).negatives] == ["x"]


def test_two_minuses_are_not_the_class_that_has_one(folder):
    path = table(folder / "t.csv", (0, 0.1, "-song"), (0.3, 0.4, "--song"))
    found = found_in(path)
    assert (found.labels, [n.label for n in found.negatives]) == (["-song"], ["-song"])


@pytest.mark.parametrize("verdict", ["known", "unknown", "ambiguous"])
def test_a_minus_counts_whatever_the_verdict_was(folder, verdict):
    """Who writes a minus over what was found leaves the verdict as it is."""
    found = found_in(
        table(folder / "t.csv", (0, 0.1, "buzz"), (0.3, 0.4, "-buzz", verdict), (0.5, 0.6, "a", "ambiguous"))
    )
    assert [n.label for n in found.negatives] == ["buzz"]
    assert found.labels == ["buzz"]
    assert "1 annotation skipped: verdict ambiguous" in found.remarks


@pytest.mark.parametrize("format", ["raven", "audacity", "csv", "jsonl", "kaleidoscope", "birdnet"])
def test_in_all_formats(folder, format):
    """Also where a spreadsheet would take the minus for a formula, and an apostrophe stands before it."""
    path = table(folder / "a.wav.txt", (0, 0.1, "buzz"), (0.3, 0.4, "-buzz"), format=format)
    assert ("'-buzz" in path.read_text(encoding="utf-8")) == (format in ("csv", "kaleidoscope", "birdnet"))
    found = told_apart(find_examples([path], any_verdict=True, format=format))
    assert (found.labels, [n.label for n in found.negatives]) == (["buzz"], ["buzz"])


def test_both_at_one_place_is_refused(folder):
    path = table(folder / "t.csv", (0, 0.1, "buzz"), (0.02, 0.09, "-buzz"))
    with pytest.raises(InputError, match=r"a.wav at 0.020 s \(.*t.csv\) is a negative of 'buzz', but a.wav at 0.000 s"):
        found_in(path)
    apart = found_in(table(folder / "u.csv", (0, 0.1, "buzz"), (0.08, 0.3, "-buzz")))
    assert len(apart.negatives) == 1


def test_folders_of_clips(folder):
    for name in ("buzz", "-buzz"):
        (folder / "clips" / name).mkdir(parents=True)
        soundfile.write(folder / "clips" / name / "1.wav", np.ones(100), SAMPLE_RATE)
    found = found_in(folder / "clips")
    assert (found.labels, [n.label for n in found.negatives]) == (["buzz"], ["buzz"])


def test_files_of_negatives(folder):
    examples = found_in(table(folder / "t.csv", (0, 0.1, "buzz")))
    path = table(folder / "n.csv", (0.3, 0.4, "buzz", "ambiguous"), (0.5, 0.6, "-buzz"), (0.7, 0.8, "wren"))
    found = with_negatives(examples, find_examples([path], any_verdict=True), {"buzz"}, chosen=True)
    assert [(n.label, n.annotation.start_s) for n in found.negatives] == [("buzz", 0.3), ("buzz", 0.5)]
    assert found.remarks[-1] == "1 negative skipped: there is no class 'wren'"
    with pytest.raises(InputError, match=r"the negatives are of 'wren', which is not a class; the classes are buzz"):
        with_negatives(examples, find_examples([table(folder / "w.csv", (0.7, 0.8, "wren"))]), {"buzz"})


def test_at_most_and_classes_hold_for_negatives_too(folder):
    rows = [(0.1 * i, 0.1 * i + 0.05, label) for i, label in enumerate(["a", "b", "-a", "-a", "-a", "-b"])]
    found = found_in(table(folder / "t.csv", *rows))
    assert [n.label for n in found.at_most(1).negatives] == ["a", "b"]
    assert [n.label for n in found.of_classes(["b"]).negatives] == ["b"]


def test_a_detector_learns_them(tmp_path):
    """Annotations far apart in a long recording, of which only what is around them is heard, and a clip."""
    known, foreign = notes(counts={"tuti-D": 3}), notes(seed=1, counts={"cach-C": 2})
    audio, truth = concatenate([*known, *foreign], gap_s=0.5, edge_s=0.5, rng=np.random.default_rng(0))
    far = np.concatenate([audio, 1e-3 * np.random.default_rng(1).normal(size=700 * SAMPLE_RATE), audio])
    soundfile.write(tmp_path / "a.wav", far, SAMPLE_RATE, subtype="FLOAT")
    moved_s = (len(far) - len(audio)) / SAMPLE_RATE
    rows = [(t.start_s, t.end_s, "tuti-D") for t in truth[:3]]
    rows += [(moved_s + t.start_s, moved_s + t.end_s, "-tuti-D") for t in truth[3:]]
    found = found_in(table(tmp_path / "t.csv", *rows))
    learnt = learn(found)
    assert [n["label"] for n in learnt.detector.model_.negatives] == ["tuti-D", "tuti-D"]
    assert [round(n["start_s"] - moved_s, 3) for n in learnt.detector.model_.negatives] == [
        round(t.start_s, 3) for t in truth[3:]
    ]
    assert {n["name"] for n in learnt.detector.model_.negatives} == {"a.wav"}
    assert (learnt.classes[0].examples, learnt.classes[0].negatives) == (3, 2)


def test_a_note_that_is_rejected_is_told_by_its_file(tmp_path):
    audio, truth = concatenate(notes(counts={"tuti-D": 4}), gap_s=0.5, edge_s=0.5, rng=np.random.default_rng(0))
    soundfile.write(tmp_path / "a.wav", audio, SAMPLE_RATE, subtype="FLOAT")
    rows = [(t.start_s, t.end_s, "tuti-D") for t in truth[:3]]
    last = truth[3]
    learnt = learn(found_in(table(tmp_path / "t.csv", *rows, (last.start_s, last.end_s, "-tuti-D"))))
    told = "1 of 1 negatives of 'tuti-D' cannot be told apart from its notes by their score, such as the one at "
    told += f"{last.start_s:.3f} s of a.wav"
    assert [remark for remark in learnt.remarks if remark.startswith(told)]
    (finding,) = [finding for finding in examine(learnt.detector) if finding.check == "negatives"]
    assert (finding.severity, finding.what.startswith(told)) == ("warning", True)


def test_negatives_that_are_clips(tmp_path):
    clips = notes(counts={"tuti-D": 3}) + notes(seed=1, counts={"cach-C": 1})
    for i, note in enumerate(clips):
        name = "tuti-D" if note.label == "tuti-D" else "-tuti-D"
        (tmp_path / name).mkdir(exist_ok=True)
        quiet = np.zeros(SAMPLE_RATE // 10)
        soundfile.write(tmp_path / name / f"{i}.wav", np.concatenate([quiet, note.samples]), SAMPLE_RATE)
    learnt = learn(found_in(tmp_path))
    (negative,) = learnt.detector.model_.negatives
    assert (negative["name"], negative["clip"]) == ("3.wav", True)
    assert negative["start_s"] == pytest.approx(0.1, abs=1e-3)  # digital silence is not part of it
    (finding,) = [finding for finding in examine(learnt.detector) if finding.check == "negatives"]
    assert finding.severity == "good"
