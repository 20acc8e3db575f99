"""Samples that are the same: all distances are the oracle; many samples close together are no copies of each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist, pdist

from outlark.maths import rows
from outlark.maths.notes import SAME_SAMPLE, merge_copies, same_samples


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
    cut=st.integers(0, 40),
    at_once=st.integers(1, 50),
)
def test_the_same_samples_are_those_at_no_distance(seed, n, d, n_copies, jitter, cut, at_once):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4)
    copies = X[rng.integers(0, n, n_copies)]
    X = np.concatenate([X, copies + jitter * np.abs(X).max() * rng.normal(size=copies.shape)])[
        rng.permutation(n + n_copies)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BLOCK_ROWS", at_once)
        np.testing.assert_array_equal(same_samples(X), by_all_distances(X))
        tables = [part for part in (X[:cut], X[cut:]) if len(part)]
        np.testing.assert_array_equal(same_samples(*tables), same_samples(X))


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
