"""The smallest distance among candidates, by bounds: that of computing all of them, and of far fewer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.maths import nearest
from outlark.maths.description import describe, distances
from outlark.maths.nearest import nearest_without


def paths(rng, n_parts, m, d):
    """Candidates that change little from one to the next, as those of a note do."""
    steps = rng.normal(scale=0.2, size=(n_parts, m, d)) / np.sqrt(d)
    return list(rng.normal(size=(n_parts, 1, d)) / np.sqrt(d) + np.cumsum(steps, axis=1))


def by_refitting(X, parts, candidates, ratio):
    return [distances(describe(np.delete(X, G, axis=0), 1.0, ratio), Z) for G, Z in zip(parts, candidates, strict=True)]


def check(found, expected):
    for d, number, of_candidates in zip(*found, expected, strict=True):
        np.testing.assert_allclose(d, of_candidates.min(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(of_candidates[number], of_candidates.min(), rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 4), st.integers(1, 30), st.sampled_from([0.01, 0.1, 1.0])
)
def test_the_least_distance_is_that_of_refitting_for_all_candidates(seed, n_parts, size, m, ratio):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_parts * size, 3)) / np.sqrt(3)
    parts = np.split(rng.permutation(len(X)), n_parts)
    candidates = paths(rng, n_parts, m, 3)
    check(nearest_without(describe(X, 1.0, ratio), parts, candidates), by_refitting(X, parts, candidates, ratio))


@pytest.mark.parametrize("most_bytes", [1, 10**9])
def test_searches_that_share_products_or_do_not_find_the_same(rng, monkeypatch, most_bytes):
    monkeypatch.setattr(nearest, "MAX_SHARED_BYTES", most_bytes)
    X, candidates = rng.normal(size=(40, 5)) / np.sqrt(5), paths(rng, 10, 25, 5)
    parts = np.split(np.arange(40), 10)
    check(nearest_without(describe(X, 1.0, 0.1), parts, candidates), by_refitting(X, parts, candidates, 0.1))


def test_equal_candidates_and_copies_of_samples_are_no_trouble(rng):
    X = rng.normal(size=(6, 4))
    candidates = [np.repeat(X[[i]], 12, axis=0) for i in range(6)]
    twice = np.concatenate([X, X])
    parts = [np.array([i]) for i in range(6)]
    check(nearest_without(describe(twice, 1.0, 0.1), parts, candidates), by_refitting(twice, parts, candidates, 0.1))


def test_most_candidates_are_not_computed(rng, monkeypatch):
    """What makes training with many examples fast: products with the matrix of the class, n² each, are few."""
    computed = []
    learn = nearest._NearestSearch.learn

    def counted(self, Pk):
        computed.append(len(Pk))
        learn(self, Pk)

    monkeypatch.setattr(nearest._NearestSearch, "learn", counted)
    X = rng.normal(size=(50, 6)) / np.sqrt(6)
    candidates = [X[[i]] + 0.3 * np.linspace(0, 1, 200)[:, np.newaxis] for i in range(10)]
    nearest_without(describe(X, 1.0, 0.1), [np.array([i]) for i in range(10)], candidates)
    assert sum(computed) < 0.1 * 10 * 200
