"""Notes as groups of samples: copies against all distances, what is left out together, and balanced subsets."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist, pdist

from outlark.maths.notes import (
    SAME_SAMPLE,
    balanced_subset,
    draw_notes,
    leave_out_folds,
    leave_out_parts,
    merge_copies,
    same_samples,
)
from tests.toy_notes import notes


def by_all_distances(X):
    typical = np.median(pdist(np.unique(X, axis=0))) if len(np.unique(X, axis=0)) > 1 else 0.0
    number = connected_components(cdist(X, X) <= SAME_SAMPLE * typical, directed=False)[1]
    return np.argsort(np.argsort(np.unique(number, return_index=True)[1]))[number]


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 25),
    d=st.integers(1, 9),
    n_copies=st.integers(0, 15),
    jitter=st.sampled_from([0.0, 1e-9, 1e-5, 0.1]),
)
def test_the_same_samples_are_those_at_no_distance(seed, n, d, n_copies, jitter):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4)
    copies = X[rng.integers(0, n, n_copies)]
    X = np.concatenate([X, copies + jitter * np.abs(X).max() * rng.normal(size=copies.shape)])[
        rng.permutation(n + n_copies)
    ]
    # neighbours by chance, which are told from copies by how many there are: the next test
    apart, typical = pdist(X), np.median(pdist(np.unique(X, axis=0))) if len(np.unique(X, axis=0)) > 1 else 0.0
    assume(not np.any((apart > SAME_SAMPLE * typical / 10) & (apart <= SAME_SAMPLE * typical)))
    np.testing.assert_array_equal(same_samples(X), by_all_distances(X))


@pytest.mark.parametrize("d", [1, 2])
def test_neighbours_in_a_large_class_are_no_copies(rng, d):
    """A thousandth of the median distance holds many of 30,000 samples, and none of them is a copy."""
    X = rng.normal(size=(30_000, d))
    groups = np.arange(30_000)
    together = merge_copies(X, groups)
    assert len(np.unique(together)) > 0.9 * len(X)


def test_copies_in_a_large_class_are_found(rng):
    X = rng.normal(size=(10_000, 2))
    X = np.concatenate([X, X[:3000] + 1e-9 * rng.normal(size=(3000, 2)), X[:50]])
    together = merge_copies(X, np.arange(len(X)))
    np.testing.assert_array_equal(together[:3000], together[10_000:13_000])
    np.testing.assert_array_equal(together[:50], together[13_000:])


def test_subset_is_balanced_and_keeps_notes_whole(rng):
    _, labels, groups = notes(rng, [20, 3, 20], n=10)
    rows = balanced_subset(labels, groups, 130, rng)
    counts = np.bincount(labels[rows])
    assert counts.sum() <= 130
    assert counts.tolist() == [50, 30, 50]
    for g in np.unique(groups[rows]):
        assert np.sum(groups[rows] == g) == 10
    np.testing.assert_array_equal(rows, np.sort(rows))


def test_drawing_thins_only_when_needed(rng):
    groups = np.repeat(np.arange(5), 4)
    assert len(draw_notes(groups, 2, 100, rng)) == 8
    assert len(np.unique(groups[draw_notes(groups, 3, 6, rng)])) <= 3
    assert len(draw_notes(groups, 3, 6, rng)) == 6


def test_what_is_left_out():
    assert [p.tolist() for p in leave_out_parts(np.array([1, 1, 2]))] == [[0, 1], [2]]
    assert len(leave_out_parts(np.zeros(23))) == 5
    assert leave_out_parts(np.zeros(1)) == []


def test_copies_are_one_note():
    X = np.arange(12.0).reshape(6, 2)
    assert merge_copies(X, np.arange(6)).tolist() == list(range(6))
    doubled = np.concatenate([X, X[:2]])
    assert merge_copies(doubled, np.arange(8)).tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    # notes of three samples: the second shares one with the first, the third two
    X = np.array([[0.0], [1.0], [2.0], [2.0], [3.0], [4.0], [0.0], [1.0], [9.0]])
    first, second, third = merge_copies(X, np.repeat([7, 8, 9], 3))[[0, 3, 6]]
    assert first == third != second


def test_folds_leave_out_a_note_of_each_class_at_a_time():
    parts = [[np.array([0, 1]), np.array([4])], [np.array([2]), np.array([3]), np.array([5])]]
    assert [out.tolist() for out in leave_out_folds(parts, 10)] == [[0, 1, 2], [3, 4], [5]]
    assert [out.tolist() for out in leave_out_folds(parts, 2)] == [[0, 1, 2, 5], [3, 4]]
    assert list(leave_out_folds([[], []], 10)) == []
