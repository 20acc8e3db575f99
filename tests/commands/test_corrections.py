"""What was deleted or relabelled in what had been found, and which of several files counts."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from outlark.annotations import Annotation, write_annotations
from outlark.commands.train.examples import find_examples, told_apart
from outlark.commands.train.retraining import AnnotationFiles, rejections, settled
from outlark.errors import InputError

FOUND = [(0.1, 0.2, "buzz"), (0.3, 0.4, "buzz"), (0.5, 0.6, "trill")]


def write(path, rows, recording="a.wav", format="csv"):
    path.parent.mkdir(exist_ok=True)
    annotations = [
        Annotation(start_s=row[0], end_s=row[1], label=row[2], verdict=(*row[3:], "known")[0], recording=recording)
        for row in rows
    ]
    write_annotations(path, annotations, format=format)


@pytest.fixture
def here(tmp_path):
    """found/ as it was written for two recordings, and corrected/, a copy of it."""
    for name in ("a.wav", "b.wav"):
        soundfile.write(tmp_path / name, np.ones(8000), 8000)
        write(tmp_path / "found" / f"{name}.csv", FOUND, name)
    shutil.copytree(tmp_path / "found", tmp_path / "corrected")
    return tmp_path


def files(here, name):
    folder = here / name
    return AnnotationFiles.of(find_examples([folder], audio=[here], any_verdict=True, may_be_none=True), [folder])


def gone(here):
    corrected, found = files(here, "corrected"), files(here, "found")
    rows = settled(corrected, found)
    told = told_apart(rows, classes=["buzz", "trill"])
    taken, remarks = rejections(found, corrected._replace(examples=replace(told, notes=rows.notes)))
    return [(n.recording.name, n.label, n.annotation.start_s) for n in taken], remarks


def test_what_was_not_touched_was_not_rejected(here):
    assert gone(here) == ([], [])


def test_deleted_and_relabelled_rows(here):
    write(here / "corrected" / "a.wav.csv", [(0.1, 0.2, "buzz"), (0.5, 0.6, "buzz")])
    assert gone(here) == ([("a.wav", "buzz", 0.3), ("a.wav", "trill", 0.5)], [])


def test_edges_that_were_moved_are_no_rejection(here):
    write(here / "corrected" / "a.wav.csv", [(0.12, 0.19, "buzz"), (0.36, 0.5, "buzz"), (0.45, 0.65, "trill")])
    assert gone(here)[0] == [("a.wav", "buzz", 0.3)]  # of which less than half is left


def test_a_minus_is_said_once(here):
    write(here / "corrected" / "a.wav.csv", [(0.1, 0.2, "-buzz"), *FOUND[1:]])
    assert gone(here) == ([], [])  # it is a negative already


def test_what_is_still_ambiguous_was_not_rejected(here):
    rows = [(0.1, 0.2, "buzz", "ambiguous"), *FOUND[1:]]
    for name in ("found", "corrected"):
        write(here / name / "a.wav.csv", rows)
    assert gone(here) == ([], [])
    write(here / "corrected" / "a.wav.csv", FOUND[1:])
    assert gone(here)[0] == [("a.wav", "buzz", 0.1)]


def test_all_rows_of_a_file(here):
    """A file without rows is known by its name."""
    write(here / "corrected" / "a.wav.csv", [])
    assert gone(here)[0] == [("a.wav", label, start_s) for start_s, _, label in FOUND]


def test_a_recording_that_nobody_went_through_says_nothing(here):
    (here / "corrected" / "b.wav.csv").unlink()
    assert gone(here) == ([], ["1 recording without a corrected annotation file: not used"])
    (here / "corrected" / "a.wav.csv").unlink()
    with pytest.raises(InputError, match="no recording has both an original and a corrected annotation file"):
        gone(here)


def combined(here, name):
    """The file that repeats those of all recordings."""
    annotations = [
        Annotation(start_s=start_s, end_s=end_s, label=label, verdict="known", recording=recording)
        for recording in ("a.wav", "b.wav")
        for start_s, end_s, label in FOUND
    ]
    write_annotations(here / name / "combined.csv", annotations, format="csv")


def test_rows_that_are_still_in_another_file_are_deleted_all_the_same(here):
    for name in ("found", "corrected"):
        combined(here, name)
    write(here / "corrected" / "a.wav.csv", FOUND[:1])
    write(here / "corrected" / "b.wav.csv", [])
    assert len(gone(here)[0]) == 2 + 3
    rows = settled(files(here, "corrected"), files(here, "found"))
    assert [(n.recording.name, n.label) for n in rows.notes] == [("a.wav", "buzz")]
    assert rows.remarks[-1] == "combined.csv skipped: other annotation files of its recordings are the corrected ones"


def test_the_file_that_was_changed_counts(here):
    for name in ("found", "corrected"):
        combined(here, name)
    write(here / "corrected" / "combined.csv", FOUND[:1])  # of a.wav alone
    assert len(gone(here)[0]) == 2 + 3
    assert len(settled(files(here, "corrected"), files(here, "found")).notes) == 1


def test_without_what_was_found_the_combined_file_comes_last(here):
    combined(here, "corrected")
    write(here / "corrected" / "a.wav.csv", FOUND[:1])
    assert len(settled(files(here, "corrected")).notes) == 1 + 3


def test_two_files_that_say_different_things(here):
    write(here / "corrected" / "a.wav.csv", FOUND[:1])
    write(here / "corrected" / "a.other.csv", FOUND[:2])
    for found in (None, files(here, "found")):
        with pytest.raises(InputError, match=r"a.other.csv and .*a.wav.csv disagree about a.wav; keep"):
            settled(files(here, "corrected"), found)
    write(here / "corrected" / "a.other.csv", FOUND[:1])
    assert len(settled(files(here, "corrected"), files(here, "found")).notes) == 1 + 3


def test_where_a_row_cannot_be_read_nothing_counts_as_deleted(here):
    """The row of a note that somebody kept, with a blank cell."""
    path = here / "corrected" / "a.wav.csv"
    lines = path.read_text().splitlines()
    cells = lines[2].split(",")
    cells[1] = ""
    path.write_text("\n".join([lines[0], lines[1], ",".join(cells)]) + "\n")
    rows, remarks = gone(here)
    assert rows == []
    assert any("a.wav" in remark for remark in remarks)
