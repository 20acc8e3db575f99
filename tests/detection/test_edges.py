"""Edges looked at closely: against a naive transcription, and in whole streams."""

from dataclasses import replace

import numpy as np
import pytest

from outlark import NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.intervals import moved
from outlark.detection.scorer import LOOK, MAX_EDGE_SHIFT, Edges, edge_patches, learn_edges
from outlark.detection.scores import Scores


def naive_moves(spectra, patch, first, edge):
    """Every move in turn, nearest first: the correlation of what is around the edge with the patch."""
    best, found = -np.inf, 0
    padded = np.vstack([np.zeros((100, spectra.shape[1])), spectra, np.zeros((100, spectra.shape[1]))])
    for move in sorted(range(-MAX_EDGE_SHIFT, MAX_EDGE_SHIFT + 1), key=abs):
        at = 100 + edge + move + first
        around = padded[at : at + len(patch)]
        around = around - around.mean()
        length = np.linalg.norm(around)
        alike = (around * patch).sum() / length if length > 1e-6 else 0.0
        if alike > best + 1e-12:
            best, found = alike, move
    return found


@pytest.mark.parametrize("inside", [False, True])
def test_moves_are_those_of_a_naive_search(inside):
    rng = np.random.default_rng(3)
    spectra = rng.gamma(1.0, size=(200, 4))
    classes = ["a", "b"]
    marked = [(spectra, 20.0, 50.0, "a"), (spectra, 120.4, 160.0, "b"), (spectra, 70.0, 101.7, "a")]
    edges = learn_edges(marked, classes, inside=inside)
    assert edges.starts.shape == edges.ends.shape == (2, LOOK + 1 if inside else 2 * LOOK + 1, 4)
    starts, numbers = rng.integers(-3, 190, 40), rng.integers(0, 2, 40)
    ends = starts + rng.integers(1, 40, 40)
    moves = edges.moves(spectra, starts, ends, numbers)
    for start, end, c, found in zip(starts, ends, numbers, moves, strict=True):
        wanted = (
            naive_moves(spectra, edges.starts[c], 0 if inside else -LOOK, start),
            0 if inside else naive_moves(spectra, edges.ends[c], -LOOK, end),
        )
        assert tuple(found) == wanted


def test_silence_moves_nothing():
    edges = Edges(np.ones((1, LOOK + 1, 3)), np.ones((1, LOOK + 1, 3)))
    assert edges.moves(np.zeros((50, 3)), np.array([20]), np.array([30]), np.array([0])).tolist() == [[0, 0]]
    assert not edge_patches(np.full((50, 3), 0.7), [25.0], True).any()


def test_loudness_and_a_steady_level_change_nothing():
    spectra = np.random.default_rng(0).gamma(1.0, size=(90, 5))
    patches = edge_patches(spectra, [40.0], True)
    np.testing.assert_allclose(edge_patches(7.0 * spectra + 2.0, [40.0], True), patches, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(patches), 1.0)


def test_notes_that_would_overlap_meet_half_way():
    moves = np.zeros((40, 2, 2), dtype=int)
    moves[10, 0], moves[20, 1] = (-5, 5), (-1, 5)
    found = moved(np.array([[10, 20, 0], [20, 30, 1]]), moves, np.array([[8, 33], [8, 33]]))
    assert found.tolist() == [[8, 22, 0], [22, 33, 1]]


def test_no_edge_passes_the_middle_of_a_short_note():
    moves = np.zeros((40, 1, 2), dtype=int)
    moves[10, 0], moves[13, 0] = (5, -5), (-5, 5)
    found = moved(np.array([[10, 13, 0], [13, 15, 0]]), moves, np.array([[5, 20], [5, 20]]))
    assert found.tolist() == [[11, 12, 0], [12, 20, 0]]
    assert (found[:, 1] > found[:, 0]).all()


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    recording, annotations = concatenate(notes(counts={"tuti-F": 4, "cach-D": 4}), edge_s=0.3, gap_s=0.15, rng=rng)
    detector = NoteDetector().fit_recordings([recording], [annotations], SAMPLE_RATE)
    more = notes(seed=1, counts={"cach-D": 6, "tuti-F": 6})
    audio, truth = concatenate(more, edge_s=0.3, gap_s=0.15, rng=rng)
    return detector, audio, truth


def test_edges_come_nearer_to_the_truth(trained):
    detector, audio, truth = trained
    scores = detector.scores(audio, SAMPLE_RATE)
    assert scores.block.moves.any()

    def errors(block):
        found = [s for s in detector.decide(Scores(layout=scores.layout, block=block, n_samples=len(audio))) if s.label]
        pairs = [(s, t) for s in found for t in truth if s.start < t.end and t.start < s.end]
        assert len(pairs) == len(found) >= 9
        return np.mean([abs(s.start - t.start) + abs(s.end - t.end) for s, t in pairs])

    assert errors(scores.block) < 0.8 * errors(replace(scores.block, moves=None, spans=None))


def test_the_same_segments_whatever_the_blocks(trained):
    detector, audio, _ = trained
    whole = detector.scores(audio, SAMPLE_RATE)
    stream, found, moves = detector.stream(SAMPLE_RATE), [], []
    rng, at = np.random.default_rng(5), 0
    while at < len(audio):
        n = int(rng.integers(1, 9000))
        got = stream.push(audio[at : at + n])
        found, at = found + got.segments, at + n
        moves.append(got.scores.moves)
    got = stream.finish()
    np.testing.assert_array_equal(np.concatenate([*moves, got.scores.moves]), whole.block.moves)
    assert found + got.segments == detector.detect(audio, SAMPLE_RATE)
