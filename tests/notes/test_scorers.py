"""Scores of frames and of whole notes: the same as one by one, whatever the pushes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.notes.front_ends.base import Frames
from outlark.notes.front_ends.note import NoteFrontEnd
from outlark.notes.scorers import ACTIVE_SHARE, FRAMES_AT_ONCE, FrameScorer, NoteScorer
from outlark.notes.scores import joined_scores


class Likeness:
    """A describer that needs no training: how like a sample is to three fixed directions; a column too many."""

    def __init__(self, width):
        self.directions = np.random.default_rng(9).normal(size=(width, 3))

    def class_scores(self, X):
        # one row after the other, so that the number of rows cannot matter
        return np.abs(np.einsum("ij,jk->ik", X, self.directions))


@pytest.fixture(scope="module")
def front_end():
    return NoteFrontEnd(n_bands=5, n_slices=3).fit([], 8000)


def some_frames(rng, n, width=5):
    activity = np.where(rng.random(n) < 0.3, -5.0, 5.0)
    return Frames(rng.random((n, width)) * (activity > 0)[:, np.newaxis], activity)


LENGTHS = np.array([4.2, 9.0, 30.7])
ALLOWED = np.array([[True, False], [True, True], [False, True]])


def one_by_one(front_end, describer, frames, step):
    """Every start and every length by itself."""
    values = np.zeros((len(frames), 2))
    lengths = np.ones((len(frames), 2), dtype=int)
    for start in range(0, len(frames), step):
        for length, allowed in zip(LENGTHS, ALLOWED, strict=True):
            whole = round(length)
            if start + whole > len(frames) or (frames.activity[start : start + whole] > 0).sum() < ACTIVE_SHARE * whole:
                continue
            sample = front_end.describe(frames.features, start=float(start), n_starts=1, length=length)
            scores = describer.class_scores(sample)[0, :2]
            for c in np.flatnonzero(allowed & (scores > values[start])):
                values[start, c], lengths[start, c] = scores[c], whole
    return values, lengths


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 3, 40, FRAMES_AT_ONCE - 1, 2 * FRAMES_AT_ONCE + 77])
def test_whole_notes_are_those_of_a_transcription(front_end, rng, step, n):
    describer, frames = Likeness(15), some_frames(rng, n)
    scorer = NoteScorer(front_end, describer, LENGTHS, ALLOWED, step)
    found = joined_scores([scorer.push(frames), scorer.finish()])
    values, lengths = one_by_one(front_end, describer, frames, step)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_array_equal(found.lengths[found.values > 0], lengths[found.values > 0])
    np.testing.assert_array_equal(found.activity, frames.activity)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 1500), max_size=6))
def test_pushes_do_not_matter(front_end, cuts):
    frames = some_frames(np.random.default_rng(0), 1500)
    for make in (
        lambda: NoteScorer(front_end, Likeness(15), LENGTHS, ALLOWED, 2),
        lambda: FrameScorer(Likeness(5), 2),
    ):
        whole, pieces = make(), make()
        expected = joined_scores([whole.push(frames), whole.finish()])
        edges = [0, *sorted(cuts), 1500]
        parts = [pieces.push(frames.between(a, b)) for a, b in itertools.pairwise(edges)]
        found = joined_scores([*parts, pieces.finish()])
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.activity, expected.activity)


def test_frames_that_do_not_rise_above_the_noise_score_nothing(rng):
    frames, describer = some_frames(rng, 700), Likeness(5)
    scorer = FrameScorer(describer, 2)
    found = joined_scores([scorer.push(frames), scorer.finish()])
    heard = frames.activity > 0
    np.testing.assert_allclose(found.values[heard], describer.class_scores(frames.features)[heard, :2])
    assert found.values[~heard].max() == 0.0
