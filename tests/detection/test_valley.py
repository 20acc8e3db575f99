"""Thresholds from recordings without labels: near t0, between the notes and the rest, and only where both are there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark import FrameDetector, NoteDetector, Segment
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.scores import ScoreBlock
from outlark.detection.thresholds import (
    LEAST_PEAKS,
    PEAK_BINS,
    SMOOTHING,
    VALLEY_SPAN,
    VALLEY_WIDTH,
    calibrated,
    emptiest,
    score_peaks,
    valley,
)
from outlark.errors import InputError
from outlark.estimators.pknn import PKNN
from outlark.model_file import load, save

T0 = 0.3


def naive_cost(t, peaks, prior, own):
    """The module's docstring, for one place."""
    near = sum(np.exp(-0.5 * (np.log(t / x) / SMOOTHING) ** 2) for x in peaks if x > 0)
    width = max(VALLEY_WIDTH, 0.5 * np.log(own / prior)) if t > prior else VALLEY_WIDTH
    return np.log(1 + near) + np.log(t / prior) ** 2 / (2 * width**2)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.just(0.0) | st.floats(0.001, 2.0), max_size=60), st.floats(0.05, 1.0), st.floats(1.0, 5.0))
def test_no_place_near_the_prior_is_emptier(peaks, prior, up):
    own = prior * up
    found = valley(np.array(peaks), prior, own)
    low, high = prior / VALLEY_SPAN, max(prior * VALLEY_SPAN, own)
    assert low - 1e-12 <= found <= high + 1e-12
    places = low * (high / low) ** (np.arange(161) / 160)
    assert naive_cost(found, peaks, prior, own) <= min(naive_cost(t, peaks, prior, own) for t in places) + 1e-9


def test_nothing_to_see_leaves_the_prior():
    assert valley(np.empty(0), T0, T0) == pytest.approx(T0)


def two_kinds(n_own=40):
    """Another kind of note around t0, and so many notes of the class that score far higher."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(0.2, 0.45, 60), rng.uniform(0.8, 1.1, n_own)])


def test_another_kind_is_refused_when_own_notes_score_higher_and_there_is_a_gap():
    assert 0.45 < emptiest(two_kinds(), T0, np.array([0.8, 0.9, 1.0])) < 0.8
    # own notes that score no higher, or are not known, give no reason to look further up
    for left_out in (np.array([0.2, 0.3]), np.empty(0)):
        assert emptiest(two_kinds(), T0, left_out) <= T0 * np.exp(2 * VALLEY_WIDTH)


def test_far_up_a_gap_needs_notes_above_it():
    left_out = np.array([0.8, 0.9, 1.0])
    assert emptiest(two_kinds(LEAST_PEAKS - 1), T0, left_out) == valley(two_kinds(LEAST_PEAKS - 1), T0, T0)
    even = np.geomspace(0.2, 1.1, 200)  # no gap anywhere
    assert emptiest(even, T0, left_out) <= T0 * np.exp(2 * VALLEY_WIDTH)


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(1, 9)), max_size=25)


@settings(deadline=None, max_examples=200)
@given(spans, st.integers(1, 61))
def test_peaks_are_what_plain_suppression_keeps_whatever_the_blocks(rows, size):
    values, lengths = np.zeros((61, 1)), np.ones((61, 1), dtype=int)
    for start, length, score in rows:
        values[start], lengths[start] = score / 10, length
    left = [(-values[s, 0], s, s + lengths[s, 0]) for s in range(61) if values[s, 0] >= 0.2]
    kept = []
    for score, start, end in sorted(left):
        if all(min(end, b) - max(start, a) <= 0.3 * min(end - start, b - a) for _, a, b in kept):
            kept.append((score, start, end))
    blocks = [
        ScoreBlock(values[at : at + size], np.zeros(len(values[at : at + size])), lengths=lengths[at : at + size])
        for at in range(0, 61, size)
    ]
    np.testing.assert_array_equal(score_peaks(blocks, np.array([0.2]))[0], sorted(-score for score, _, _ in kept))


def test_it_moves_out_of_the_notes_and_out_of_the_rest():
    rng = np.random.default_rng(0)
    rest, own = rng.uniform(0.1, 0.24, 60), rng.uniform(0.32, 0.8, 60)
    assert 0.24 < calibrated("A", T0, np.concatenate([rest, own])).threshold < 0.32
    rest, own = rng.uniform(0.1, 0.33, 60), rng.uniform(0.42, 0.8, 60)
    assert 0.33 < calibrated("A", T0, np.concatenate([rest, own])).threshold < 0.42


@pytest.mark.parametrize(("n_below", "n_above"), [(0, 99), (99, 0), (LEAST_PEAKS - 1, 99), (99, LEAST_PEAKS - 1)])
def test_too_few_peaks_on_one_side_are_refused(n_below, n_above):
    found = calibrated("A", T0, [0.2] * n_below + [0.31] * n_above)
    assert (found.threshold, found.moved) == (T0, False)
    assert "10 of each are needed; give more recordings" in found.in_words
    enough = calibrated("A", T0, [0.2] * LEAST_PEAKS + [0.31] * LEAST_PEAKS)
    assert enough.moved
    assert enough.threshold != T0


@given(st.lists(st.floats(0.0, 50.0), max_size=30))
def test_the_histogram_holds_every_peak(peaks):
    found = calibrated("A", T0, peaks)
    assert sum(found.counts) == len(peaks)
    assert len(found.counts) == len(PEAK_BINS) - 1


@pytest.fixture(scope="module")
def detector():
    known = notes(counts={"tuti-F": 4, "cach-D": 4})
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def songs():
    rng = np.random.default_rng(0)
    return [concatenate(notes(seed=seed), gap_s=0.1, rng=rng)[0] for seed in range(1, 4)]


def test_calibration_starts_from_the_thresholds_of_the_training(detector, songs):
    priors = detector.layout_.thresholds.copy()
    try:
        found = detector.calibrate(songs, SAMPLE_RATE).calibration_
        assert [c.label for c in found] == detector.classes_.tolist()
        np.testing.assert_array_equal([c.prior for c in found], priors)
        np.testing.assert_array_equal(detector.layout_.thresholds, [c.threshold for c in found])
        np.testing.assert_array_equal(detector.trained_thresholds, priors)
    finally:
        detector.set_thresholds(None)


def test_every_note_that_is_found_is_a_peak(detector, songs):
    for song in songs:
        found = [s for s in detector.detect(song, SAMPLE_RATE) if s.label is not None]
        peaks = dict(zip(detector.classes_.tolist(), detector.peaks(song, SAMPLE_RATE), strict=True))
        assert found
        # a note gives way to a longer one, a peak never to a lower one
        assert all(s.score in peaks[s.label] or peaks[s.label].max() > s.score for s in found)
        assert sum(s.score in peaks[s.label] for s in found) >= 0.8 * len(found)


def test_calibrating_again_starts_from_the_training_and_from_scores_it_is_the_same(detector, songs):
    try:
        first = detector.calibrate(songs, SAMPLE_RATE).calibration_
        assert detector.calibrate(songs, SAMPLE_RATE).calibration_ == first
        detector.set_thresholds(None)
        kept = [detector.scores(song, SAMPLE_RATE) for song in songs]
        assert detector.calibrate(kept).calibration_ == first
    finally:
        detector.set_thresholds(None)


def test_a_calibrated_model_is_kept(detector, songs, tmp_path):
    try:
        detector.calibrate(songs, SAMPLE_RATE)
        save(detector, tmp_path / "m")
        again = load(tmp_path / "m")
        assert again.calibration_ == detector.calibration_
        assert again.detect(songs[0], SAMPLE_RATE) == detector.detect(songs[0], SAMPLE_RATE)
    finally:
        detector.set_thresholds(None)


def test_what_is_not_on_the_absolute_scale_is_refused(songs):
    known = notes(counts={"tuti-F": 3, "cach-D": 3})
    other = FrameDetector(class_model=PKNN(random_state=0))
    other.fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    with pytest.raises(InputError, match="on the absolute scale"):
        other.calibrate(songs, SAMPLE_RATE)


@pytest.mark.parametrize("thresholds", [[0.1], [0.1, 0.0], [0.1, np.nan], [0.1, np.inf], [[0.1, 0.2]]])
def test_thresholds_that_cannot_be_are_refused(detector, thresholds):
    with pytest.raises(InputError, match="give a number above 0 for each class"):
        detector.set_thresholds(thresholds)


def test_thresholds_that_are_set_decide(detector):
    audio, _ = concatenate(notes(seed=5, counts={"cach-D": 2}), gap_s=0.3, rng=np.random.default_rng(0))

    def found() -> list[Segment]:
        return [s for s in detector.detect(audio, SAMPLE_RATE) if s.label is not None]

    assert len(found()) == 2
    try:
        detector.set_thresholds([9.0, 9.0])
        assert not found()
    finally:
        detector.set_thresholds(None)
