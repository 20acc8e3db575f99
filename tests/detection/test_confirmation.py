"""Confirmation with wide surroundings: against a naive transcription, refitting, and songs that do not end."""

from dataclasses import replace

import numpy as np
import pytest

from outlark import NoteDetector
from outlark.detection.confirmation import CONFIRMED_SHARE, wide_surroundings
from outlark.detection.note_training import LENGTH_SCALE, MASKS, RATIO, AnnotatedNote, left_out_scores, note_samples
from outlark.features.note import NoteFrontEnd, cumulated
from outlark.maths.description import describe, distances, score
from outlark.model_file import load, save
from outlark.segments import Segment

RATE = 16000


def sweep(length_s, rng, low=2000.0, high=4000.0):
    """A tone that rises and falls every 60 ms: any piece of it looks like any other."""
    t = np.arange(round(length_s * RATE)) / RATE
    f = low + (high - low) * 0.5 * (1.0 - np.cos(2 * np.pi * t / 0.06))
    return np.sin(2 * np.pi * np.cumsum(f) / RATE) * 0.3


def recording(rng, lengths_s):
    """Trills of these lengths in a little noise, and where each starts and ends."""
    audio, spans = [rng.normal(scale=1e-3, size=RATE)], []
    for length_s in lengths_s:
        start = sum(map(len, audio))
        audio.append(sweep(length_s, rng))
        spans.append((start, start + len(audio[-1])))
        audio.append(np.zeros(RATE))
    samples = np.concatenate(audio)
    return samples + rng.normal(scale=1e-3, size=len(samples)), spans


@pytest.fixture(scope="module")
def detector():
    rng = np.random.default_rng(1)
    samples, spans = recording(rng, [0.3, 0.3, 0.31, 0.29, 0.3])
    notes = [Segment(start=start, end=end, sample_rate=RATE, label="trill") for start, end in spans]
    return NoteDetector().fit_recordings([samples], [notes], RATE)


def test_spans_are_described_as_by_a_front_end_with_these_surroundings(rng):
    spectra = rng.random((120, 40))
    narrow = NoteFrontEnd(n_bands=40).fit([], RATE)
    for frames in (0.0, 7.0, 31.0):
        other = NoteFrontEnd(n_bands=40, surroundings_s=frames / narrow.frame_rate).fit([], RATE)
        starts = np.array([35.0, 40.25, 52.5])
        found = narrow.describe_spans(cumulated(spectra), starts, 23.5, frames)
        expected = [other.describe(spectra, start=start, n_starts=1, length=23.5)[0] for start in starts]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_scores_near_the_threshold_are_joined_and_others_are_not(detector):
    samples, _ = recording(np.random.default_rng(2), [0.3, 0.9])
    model = detector.note_model_
    confirmed = detector.scores(samples, RATE).block
    detector.model_ = replace(model, wide=None)
    narrow = detector.scores(samples, RATE).block
    detector.model_ = model
    np.testing.assert_array_equal(confirmed.lengths, narrow.lengths)
    low = narrow.values < CONFIRMED_SHARE * model.thresholds
    np.testing.assert_allclose(confirmed.values[low], narrow.values[low], rtol=1e-12)
    assert (~low).sum() > 20
    spectra = model.front_end.transform(samples).features
    for start in np.flatnonzero(~low[:, 0])[::7].tolist():
        length = int(narrow.lengths[start, 0])
        around = wide_surroundings(model.front_end, length)
        z = model.front_end.describe_spans(cumulated(spectra), np.array([float(start)]), length, around)
        # the contrast of these recordings is that of the training: nothing is made up for
        wide = float(score(distances(model.wide[0], z))[0])
        np.testing.assert_allclose(confirmed.values[start, 0], np.sqrt(narrow.values[start, 0] * wide), rtol=1e-9)


def test_pieces_of_longer_songs_score_less_than_notes(detector):
    samples, spans = recording(np.random.default_rng(3), [0.3, 0.9, 0.3])
    model = detector.note_model_

    def best():
        """The best score in each song."""
        found = [s for s in detector.detect(samples, RATE) if s.label == "trill"]
        return [max(s.score for s in found if s.end > start and s.start < end) for start, end in spans]

    note, piece, other_note = best()
    detector.model_ = replace(model, wide=None)
    narrow = best()
    detector.model_ = model
    assert narrow[1] > 0.8 * min(narrow)
    assert piece < 0.7 * min(note, other_note)


def test_left_out_notes_are_confirmed_by_the_others(rng):
    front_end = NoteFrontEnd().fit([], RATE)
    spectra = front_end.transform(recording(rng, [0.2, 0.22, 0.2, 0.5])[0]).features
    notes = [AnnotatedNote(spectra, start, 100.0, "a") for start in (500.0, 1100.0, 1712.0)]
    lengths = np.array([90.0, 100.0])
    plain = left_out_scores(front_end, notes, [lengths], pitch=False)[0]
    found = left_out_scores(front_end, notes, [lengths], pitch=False, confirmed=True)[0]
    places = [_best_place(front_end, notes, i, lengths) for i in range(3)]
    for i, (best, wide) in enumerate(places):
        np.testing.assert_allclose(plain[i], best, rtol=1e-9)
        np.testing.assert_allclose(found[i], np.sqrt(best * wide), rtol=1e-9)


def _best_place(front_end, notes, i, lengths):
    """By brute force: the best score of a note under the others, and the wide score at the same place."""
    others = notes[:i] + notes[i + 1 :]
    narrow, wide = (
        describe(note_samples(front_end, others, masks=MASKS, wide=is_wide)[0], LENGTH_SCALE, RATIO)
        for is_wide in (False, True)
    )
    sums, tried = cumulated(notes[i].spectra), []
    for length in lengths.tolist():
        for number in range(15):
            start = np.array([notes[i].start + 4 * (number - 7)])
            d = distances(narrow, front_end.describe_spans(sums, start, length))
            around = wide_surroundings(front_end, length)
            d_wide = distances(wide, front_end.describe_spans(sums, start, length, around))
            tried.append((float(score(d)[0]), float(score(d_wide)[0])))
    return max(tried)


def test_a_model_file_keeps_it_and_clips_have_none(detector, tmp_path):
    save(detector, tmp_path / "m.outlark")
    again = load(tmp_path / "m.outlark")
    samples, spans = recording(np.random.default_rng(4), [0.3, 0.9])
    np.testing.assert_array_equal(again.scores(samples, RATE).block.values, detector.scores(samples, RATE).block.values)
    clips = [samples[start:end] for start, end in spans]
    assert NoteDetector().fit(clips, ["a", "b"], RATE).note_model_.wide is None
