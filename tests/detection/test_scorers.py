"""Scores of frames and of whole notes: the same as one by one, whatever the pushes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.scorer import (
    ACTIVE_SHARE,
    LOOK,
    MAX_EDGE_SHIFT,
    STARTS_AT_ONCE,
    Contrast,
    NoteScorer,
    learn_edges,
)
from outlark.detection.scores import joined_scores
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.paper.detector import FrameScorer


class Likeness:
    """A class_model that needs no training: how like a sample is to three fixed directions; a column too many."""

    def __init__(self, width):
        self.classes_ = np.array(["a", "b"])
        self.directions = np.random.default_rng(9).normal(size=(width, 3))

    def class_scores(self, X):
        # one row after the other, so that the number of rows cannot matter
        return np.abs(np.einsum("ij,jk->ik", X, self.directions))


@pytest.fixture(scope="module", params=[0.0, 0.02, 0.1], ids="{:g} s around".format)
def front_end(request):
    """Without surroundings, with those that are usual, and with more than is looked at around edges."""
    return NoteFrontEnd(n_bands=5, n_slices=3, surroundings_s=request.param).fit([], 8000)


def some_frames(rng, n, width=5):
    """A third of them in silence, the others at 1 to 20 dB."""
    activity = np.where(rng.random(n) < 0.3, -5.0, rng.uniform(1.0, 20.0, n))
    return Frames(rng.random((n, width)) * (activity > 0)[:, np.newaxis], activity)


LENGTHS = np.array([4.2, 9.0, 30.7])
ALLOWED = np.array([[True, False], [True, True], [False, True]])


def one_by_one(front_end, class_model, frames, step):
    """Every start and every length by itself."""
    values = np.zeros((len(frames), 2))
    lengths = np.ones((len(frames), 2), dtype=int)
    for start in range(0, len(frames), step):
        for length, allowed in zip(LENGTHS, ALLOWED, strict=True):
            whole = round(length)
            if start + whole > len(frames) or (frames.activity[start : start + whole] > 0).sum() < ACTIVE_SHARE * whole:
                continue
            sample = front_end.describe(frames.features, start=float(start), n_starts=1, length=length)
            scores = class_model.class_scores(sample)[0, :2]
            for c in np.flatnonzero(allowed & (scores > values[start])):
                values[start, c], lengths[start, c] = scores[c], whole
    return values, lengths


@pytest.mark.parametrize("step", [1, 2, 3, 7, STARTS_AT_ONCE + 88])
@pytest.mark.parametrize("n", [0, 1, 3, 40, STARTS_AT_ONCE - 1, 2 * STARTS_AT_ONCE + 77])
def test_whole_notes_are_those_of_a_transcription(front_end, rng, step, n):
    class_model, frames = Likeness(15), some_frames(rng, n)
    scorer = NoteScorer(front_end, class_model, LENGTHS, ALLOWED, step)
    found = joined_scores([scorer.push(frames), scorer.finish()])
    values, lengths = one_by_one(front_end, class_model, frames, step)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_array_equal(found.lengths[found.values > 0], lengths[found.values > 0])
    np.testing.assert_array_equal(found.activity, frames.activity)


@pytest.mark.parametrize("step", [2, 7, STARTS_AT_ONCE + 88])
def test_scores_are_raised_by_what_noise_takes_off(front_end, rng, step):
    """Block by block: by the share after its own frames."""
    class_model, frames = Likeness(15), some_frames(rng, 4 * STARTS_AT_ONCE)
    scorer = NoteScorer(front_end, class_model, LENGTHS, ALLOWED, step, contrast=Contrast(38.0, front_end.frame_rate))
    found = joined_scores([scorer.push(frames), scorer.finish()])
    values, lengths = one_by_one(front_end, class_model, frames, step)
    contrast, shares = Contrast(38.0, front_end.frame_rate), []
    at_once = max(step, STARTS_AT_ONCE // step * step)
    for at in range(0, len(frames), at_once):
        shares.append(contrast.push(frames.activity[at : at + at_once]))
        values[at : at + at_once] /= shares[-1]
    assert shares[0] > shares[-1]
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_array_equal(found.lengths[found.values > 0], lengths[found.values > 0])


def test_edges_are_looked_at_from_half_the_threshold_on(front_end, rng):
    """So that thresholds may be lowered afterwards; and raised scores are what counts."""
    class_model, frames = Likeness(15), some_frames(rng, 4 * STARTS_AT_ONCE)
    annotations = [(frames.features, at, at + 25.0, label) for at, label in ((100.0, "a"), (300.0, "b"), (500.0, "a"))]
    edges = learn_edges(annotations, ["a", "b"], inside=False)
    found = []
    for contrast in (None, Contrast(38.0, front_end.frame_rate)):
        for thresholds in (np.zeros(2), np.full(2, 4.0)):
            scorer = NoteScorer(front_end, class_model, LENGTHS, ALLOWED, 2, edges, thresholds, contrast)
            found.append(joined_scores([scorer.push(frames), scorer.finish()]))
    plain, plain_high, raised, raised_high = found
    assert plain.moves.any(axis=2).sum() > 100
    for everywhere, high in ((plain, plain_high), (raised, raised_high)):
        looked_at = high.values >= 2.0
        assert looked_at.any()
        np.testing.assert_array_equal(high.moves, np.where(looked_at[..., np.newaxis], everywhere.moves, 0))
    assert (raised.values >= 2.0).sum() > (plain.values >= 2.0).sum()


def test_moves_are_those_of_the_whole_recording(front_end, rng):
    class_model, frames = Likeness(15), some_frames(rng, 2 * STARTS_AT_ONCE + 77)
    annotations = [(frames.features, at, at + 25.0, label) for at, label in ((100.0, "a"), (300.0, "b"), (500.0, "a"))]
    edges = learn_edges(annotations, ["a", "b"], inside=False)
    scorer = NoteScorer(front_end, class_model, LENGTHS, ALLOWED, 2, edges, np.zeros(2))
    found = joined_scores([scorer.push(frames), scorer.finish()])
    around = np.zeros((LOOK + MAX_EDGE_SHIFT + 40, 5))
    spectra = np.concatenate([around, frames.features, around])
    starts, classes = np.nonzero(found.values > 0.0)
    ends = starts + found.lengths[starts, classes]
    expected = edges.moves(spectra, len(around) + starts, len(around) + ends, classes)
    inside = ends + LOOK + MAX_EDGE_SHIFT <= len(frames)  # what is beyond the end is for edges to judge
    np.testing.assert_array_equal(found.moves[starts, classes][inside], expected[inside])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 1500), max_size=6))
def test_pushes_do_not_matter(front_end, cuts):
    frames = some_frames(np.random.default_rng(0), 1500)
    for make in (
        lambda: NoteScorer(front_end, Likeness(15), LENGTHS, ALLOWED, 2),
        lambda: NoteScorer(front_end, Likeness(15), LENGTHS, ALLOWED, 2, contrast=Contrast(38.0, front_end.frame_rate)),
        lambda: FrameScorer(Likeness(5)),
    ):
        whole, pieces = make(), make()
        expected = joined_scores([whole.push(frames), whole.finish()])
        edges = [0, *sorted(cuts), 1500]
        parts = [pieces.push(frames.between(a, b)) for a, b in itertools.pairwise(edges)]
        found = joined_scores([*parts, pieces.finish()])
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.activity, expected.activity)


def test_frames_that_do_not_rise_above_the_noise_score_nothing(rng):
    frames, class_model = some_frames(rng, 700), Likeness(5)
    scorer = FrameScorer(class_model)
    found = joined_scores([scorer.push(frames), scorer.finish()])
    heard = frames.activity > 0
    np.testing.assert_allclose(found.values[heard], class_model.class_scores(frames.features)[heard, :2])
    assert found.values[~heard].max() == 0.0


@pytest.mark.parametrize(("n_active", "scored"), [(9, False), (10, True)])
def test_half_of_a_note_must_rise_above_the_noise(n_active, scored):
    front_end = NoteFrontEnd(n_bands=6, surroundings_s=0.0).fit([], 22050)
    features = np.random.default_rng(0).gamma(1.0, size=(20, 6))
    activity = np.where(np.arange(20) < n_active, 3.0, -3.0)
    scorer = NoteScorer(front_end, Likeness(front_end.n_slices * 6), np.array([20.0]), np.ones((1, 2), dtype=bool), 2)
    blocks = [scorer.push(Frames(features, activity)), scorer.finish()]
    assert (np.concatenate([block.values for block in blocks])[0].max() > 0.0) == scored


def test_a_frame_must_rise_above_the_noise_floor_to_have_a_score():
    class_model = Likeness(5)
    scorer = FrameScorer(class_model)
    frames = Frames(np.ones((4, 5)), np.array([-1.0, 0.0, 1e-6, np.inf]))
    values = np.concatenate([scorer.push(frames).values, scorer.finish().values])
    np.testing.assert_array_equal(values[:2], 0.0)
    np.testing.assert_array_equal(values[2:], class_model.class_scores(np.ones((2, 5)))[:, :2])
    assert (values[2:] > 0.0).any()
