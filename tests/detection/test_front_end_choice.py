"""The front end that chooses itself: usual notes keep the usual settings, others get those that suit them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from outlark import NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.training import at_one_rate, join_clips
from outlark.features.note import NoteFrontEnd
from outlark.model_file import load, save
from outlark.segments import Segment

USUAL = NoteFrontEnd()
USUAL_FOR_CLIPS = NoteFrontEnd(surroundings_s=0.0)  # nothing is known of what surrounds them


def sweep(low_hz, high_hz, rate, duration_s, noise=0.001, seed=0):
    """A note that rises from one frequency to the other, in noise."""
    n = round(duration_s * rate)
    hz = np.geomspace(low_hz, high_hz, n)
    quiet = noise * np.random.default_rng(seed).normal(size=n)
    return 0.3 * np.sin(2 * np.pi * np.cumsum(hz) / rate) * np.hanning(n) + quiet


def chosen(clips, rate, labels=None):
    return choose_front_end(join_clips(clips, labels or ["a"] * len(clips), rate, 0.1))


@pytest.mark.parametrize(("low", "high", "rate"), [(1000, 4000, 22050), (600, 1500, 22050), (2000, 9000, 48000)])
def test_usual_notes_keep_the_usual_settings(low, high, rate):
    choice = chosen([sweep(low, high, rate, 0.1, seed=s) for s in range(3)], rate)
    assert choice.front_end.get_params() == USUAL_FOR_CLIPS.get_params()
    assert choice.why[0].startswith("most of their sound lies between")
    assert re.search(r"; the usual span, 500 to 10000 Hz, holds \d+ % of it and is kept$", choice.why[0])


def test_bats():
    choice = chosen([sweep(80_000, 30_000, 256_000, 0.006, seed=s) for s in range(3)], 256_000)
    front_end = choice.front_end
    assert 500.0 < front_end.low_hz < 30_000
    assert front_end.high_hz > 60_000
    assert front_end.window_s < 0.004
    assert front_end.hop_s == pytest.approx(front_end.window_s / 8)
    assert np.ptp(front_end.shifts_s) == pytest.approx(0.5 * front_end.window_s)
    assert "only" in choice.why[0]
    assert "where 16 are usual, because of where it listens" in choice.why[1]


def test_low_and_long():
    front_end = chosen([sweep(80, 160, 8000, 0.8, seed=s) for s in range(3)], 8000).front_end
    assert front_end.low_hz < 80
    assert front_end.window_s > 0.016


def test_short_notes_have_short_windows():
    choice = chosen([sweep(3000, 5000, 22050, 0.012, seed=s) for s in range(3)], 22050)
    assert choice.front_end.window_s == pytest.approx(0.006, rel=0.01)
    assert choice.front_end.low_hz == 500.0
    assert "because the shortest notes last 12 ms" in choice.why[1]


def test_wind_does_not_move_it():
    """Rumble below the notes, between them as well."""
    rate, rng = 22050, np.random.default_rng(0)
    rumble = np.convolve(rng.normal(size=6 * rate), np.hanning(200), mode="same") / 20
    recording, annotations = rumble * (1 + np.sin(np.arange(6 * rate) / 3000)), []
    for k in range(5):
        at, note = (k + 1) * rate, sweep(2000, 3000, rate, 0.2)
        recording[at : at + len(note)] += note
        annotations.append(Segment(start=at, end=at + len(note), sample_rate=rate, label="a"))
    choice = choose_front_end(at_one_rate([recording], [rate], [annotations], rate))
    assert choice.front_end.get_params() == USUAL.get_params()


def test_surroundings_change_with_the_windows():
    rate, quiet = 22050, 0.001 * np.random.default_rng(1).normal(size=22050)
    note = sweep(3000, 5000, rate, 0.012)
    annotation = Segment(start=rate, end=rate + len(note), sample_rate=rate, label="a")
    front_end = choose_front_end(
        at_one_rate([np.concatenate([quiet, note, quiet])], [rate], [[annotation]], rate)
    ).front_end
    assert front_end.window_s < 0.007
    for name in ("hop_s", "surroundings_s"):
        assert getattr(front_end, name) / getattr(USUAL, name) == pytest.approx(front_end.window_s / USUAL.window_s)


def test_a_voice_does_not_move_it():
    """Loud below the usual span, but told apart by what is in it."""
    rate = 22050
    clips = [sweep(150, 450, rate, 0.3, seed=s) + sweep(600, 2500, rate, 0.3, seed=9 + s) for s in range(3)]
    choice = chosen(clips, rate)
    assert choice.front_end.get_params() == USUAL_FOR_CLIPS.get_params()
    assert int(re.search(r"holds (\d+) % of it", choice.why[0])[1]) < 80


def test_silence_tells_nothing():
    choice = chosen([np.zeros(4000), np.zeros(4000)], 22050)
    assert choice.front_end.get_params() == USUAL_FOR_CLIPS.get_params()
    assert choice.why[0].startswith("they hardly rise above noise")


@pytest.mark.parametrize("speed", [0.125, 8.0])
def test_notes_are_found_at_any_speed(speed):
    """The same samples at another sample rate."""
    rate = round(SAMPLE_RATE * speed)
    known = notes(counts={"tuti-F": 3, "cach-D": 3})
    detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], rate)
    more = notes(seed=1, counts={"cach-D": 3, "tuti-F": 3})
    audio, truth = concatenate(more, edge_s=0.3, gap_s=0.2, rng=np.random.default_rng(0))
    found = [s for s in detector.detect(audio, rate) if s.label is not None]
    hits = [t for t in truth if any(s.label == t.label and s.start < t.end and t.start < s.end for s in found)]
    assert len(hits) >= 5
    assert len(found) <= 7


def test_the_choice_is_kept_and_given_settings_are_not_changed(tmp_path):
    known = notes(counts={"tuti-F": 2, "cach-D": 2})
    train = [n.samples for n in known], [n.label for n in known], SAMPLE_RATE
    detector = NoteDetector().fit(*train)
    assert detector.model_.choice == choose_front_end(join_clips(*train, 0.1)).why
    save(detector, tmp_path / "m.outlark")
    assert load(tmp_path / "m.outlark").model_.choice == detector.model_.choice
    given = NoteDetector(NoteFrontEnd(low_hz=700.0)).fit(*train)
    assert given.front_end_.low_hz == 700.0
    assert given.model_.choice == []


# ------------------------------------------------------------ frequencies that are annotated


def recorded(played, seed):
    """Notes in a recording, and their annotations."""
    gap = np.zeros(round(0.4 * SAMPLE_RATE))
    pieces, annotations, at = [gap], [], len(gap)
    for note in played:
        annotations.append(Segment(start=at, end=at + len(note.samples), sample_rate=SAMPLE_RATE, label=note.label))
        pieces += [note.samples, gap]
        at = annotations[-1].end + len(gap)
    audio = np.concatenate(pieces)
    return audio + 1e-3 * np.random.default_rng(seed).normal(size=len(audio)), annotations


@pytest.mark.parametrize("box", [(2000.0, 9000.0), (3000.0, 3300.0), (0.0, SAMPLE_RATE / 2), (120.0, 200.0)])
def test_annotated_frequencies_do_not_change_the_model(box):
    audio, annotations = recorded(notes(counts={"tuti-F": 3, "cach-D": 3}), 0)
    boxes = [replace(annotation, low_hz=box[0], high_hz=box[1]) for annotation in annotations]
    free, boxed = (NoteDetector().fit_recordings([audio], [own], SAMPLE_RATE) for own in (annotations, boxes))
    assert boxed.front_end_.get_params() == free.front_end_.get_params()
    assert boxed.model_.choice == free.model_.choice
    assert boxed.layout_.thresholds.tolist() == free.layout_.thresholds.tolist()
    test, _ = recorded(notes(seed=1, counts={"tuti-F": 3, "cach-D": 3}), 1)
    assert boxed.detect(test, SAMPLE_RATE) == free.detect(test, SAMPLE_RATE)
    assert {(note["low_hz"], note["high_hz"]) for note in boxed.model_.training} == {box}
