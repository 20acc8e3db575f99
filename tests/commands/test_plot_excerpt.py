"""Which stretch a picture shows, and which annotations belong to it."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from outlark import NoteDetector
from outlark.annotations import Annotation, Table
from outlark.commands.plot import annotations_of_recording, shown_excerpt
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.errors import AnnotationError
from tests.recordings_on_disk import song


@pytest.fixture(scope="module")
def detector():
    known = notes(counts={"tuti-D": 3, "cach-Z": 3})
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


def save(path, *parts):
    noise = np.random.default_rng(0).normal(0, 1e-3, 12 * SAMPLE_RATE)
    soundfile.write(path, np.concatenate([noise, *parts, noise]), SAMPLE_RATE)
    return path


def test_what_is_given_is_kept(detector, tmp_path):
    path = save(tmp_path / "a.wav")
    assert shown_excerpt(detector, path, 3.0, 5.0)[:2] == (3.0, 5.0)
    assert shown_excerpt(detector, path, 3.0)[:2] == (3.0, 13.0)
    assert shown_excerpt(detector, path, end_s=5.0)[:2] == (0.0, 5.0)
    assert shown_excerpt(detector, path, 20.0)[:2] == (20.0, 24.0)
    assert shown_excerpt(detector, path, 50.0)[:2] == (50.0, 50.0)


def test_without_times_it_begins_before_the_first_note(detector, tmp_path):
    path = save(tmp_path / "a.wav", song(4), song(0), song(5))  # the first one is unknown
    first = next(s for s in detector.detect(path) if s.label is not None)
    assert first.start_s > 12.4
    start, end, why = shown_excerpt(detector, path)
    assert (start, end) == (first.start_s - 1.0, first.start_s + 9.0)
    assert why == "from one second before the first note"


def test_a_note_that_is_final_only_at_the_end(detector, tmp_path):
    soundfile.write(tmp_path / "a.wav", song(0), SAMPLE_RATE)
    assert shown_excerpt(detector, tmp_path / "a.wav") == (
        0.0, len(song(0)) / SAMPLE_RATE, "from one second before the first note",
    )  # fmt: skip


def test_without_notes_it_is_the_beginning(detector, tmp_path):
    start, end, why = shown_excerpt(detector, save(tmp_path / "a.wav"))
    assert (start, end, why) == (0.0, 10.0, "no note in the first 10 minutes; the first ten seconds")
    path = save(tmp_path / "b.wav", song(0))
    assert shown_excerpt(detector, path)[0] > 10.0
    assert shown_excerpt(detector, path, searched_s=3.0)[0] == 0.0


def table(*names):
    annotations = tuple(Annotation(start_s=i, end_s=i + 1, label="a", recording=name) for i, name in enumerate(names))
    return Table(path=Path("t.csv"), format="csv", annotations=annotations)


def test_marks_of_a_recording():
    found = annotations_of_recording(
        table("x/night.wav", r"C:\y\NIGHT.flac", "night", "night2.wav", None), "z/night.mp3"
    )
    assert [annotation.start_s for annotation in found] == [0, 1, 2, 4]
    assert annotations_of_recording(table(), "a.wav") == []
    with pytest.raises(AnnotationError, match=r"t.csv: no annotations of c.wav, only of a.wav, b.wav; give the"):
        annotations_of_recording(table("a.wav", "b.wav"), "x/c.wav")
