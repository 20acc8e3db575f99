"""Picking landmarks: brute force and the textbook are the oracles; what is rare, blocks of any size, the same twice."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.maths import landmarks, rows
from outlark.maths.gp import squared_exponential
from outlark.maths.landmarks import pick, project


def some(X, ell=2.0, ratio=0.1, most=20, enough=0.0, seed=0):
    return pick(X, ell, ratio, most=most, enough=enough, rng=np.random.default_rng(seed))


def brute_force_trace(X, chosen, ell):
    """tr(K - K_nU K_UU⁻¹ K_Un): K with one landmark after the other eliminated, in extended precision."""
    X = X.astype(np.longdouble)
    K = np.exp(-((X[:, np.newaxis] - X) ** 2).sum(axis=2) / ell**2)
    for s in chosen:
        K = K - np.outer(K[:, s], K[s]) / K[s, s]
    return float(np.trace(K))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), most=st.integers(1, 25), ell=st.sampled_from([0.3, 1.0, 3.0])
)
def test_certificate_is_the_trace_and_no_landmark_raises_it(seed, n, most, ell):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    found = some(X, ell, most=most, seed=seed)
    assert len(found.rows) <= min(most, n)
    assert len(np.unique(found.rows)) == len(found.rows)
    assert found.residuals.sum() == pytest.approx(brute_force_trace(X, found.rows, ell), abs=1e-6)
    sizes = range(1, len(found.rows) + 1)
    traces = [project(X, found.rows[:m], found.L[:m, :m], ell, 0.1).residuals.sum() for m in sizes]
    assert np.all(np.diff(traces) <= 1e-9)


def test_factors_are_those_of_the_dense_matrices(rng):
    X = rng.normal(size=(200, 3))
    found = some(X, most=40)
    U = X[found.rows]
    np.testing.assert_allclose(found.L @ found.L.T, squared_exponential(U, U, 2.0), atol=1e-12)
    A = np.linalg.solve(found.L, squared_exponential(U, X, 2.0))
    np.testing.assert_allclose(found.AAT, A @ A.T, atol=1e-9)
    np.testing.assert_allclose(found.A_ones, A.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.residuals, 1 - np.sum(A * A, axis=0), atol=1e-9)


def test_it_stops_when_it_is_enough_and_not_before(rng):
    X = rng.normal(size=(1000, 2))
    found = some(X, most=500, enough=1.0)
    assert found.residuals.sum() <= 1.0
    m = len(found.rows) - landmarks.PROPOSALS  # they are taken so many at a time
    assert m < 0 or project(X, found.rows[:m], found.L[:m, :m], 2.0, 0.1).residuals.sum() > 1.0
    assert len(found.rows) < 200


def test_copies_are_landmarks_once():
    X = np.repeat(np.arange(4.0)[:, np.newaxis], 50, axis=0)
    found = some(X, most=100)
    assert sorted(X[found.rows, 0].tolist()) == [0.0, 1.0, 2.0, 3.0]
    assert found.residuals.sum() == pytest.approx(0.0, abs=1e-9)


def one_by_one(X, ell, m, rng):
    """Randomly pivoted Cholesky as it is written down (Chen et al. 2024, Alg. 2.1)."""
    F, residuals, chosen = np.zeros((len(X), m)), np.ones(len(X)), []
    for j in range(m):
        s = rng.choice(len(X), p=residuals / residuals.sum())
        g = squared_exponential(X, X[[s]], ell)[:, 0] - F[:, :j] @ F[s, :j]
        F[:, j] = g / np.sqrt(g[s])
        residuals = np.maximum(residuals - F[:, j] ** 2, 0.0)
        chosen.append(s)
    return residuals.sum()


def test_many_at_once_are_drawn_as_if_one_by_one(rng):
    """A cluster of 95 and one of 5: the traces that are left, and their spread, are those of the textbook."""
    X = np.concatenate([rng.normal(scale=0.5, size=(95, 2)), rng.normal(scale=0.5, size=(5, 2)) + 10.0])
    ours = [some(X, most=6, seed=i).residuals.sum() for i in range(400)]
    textbook = [one_by_one(X, 2.0, 6, np.random.default_rng(i)) for i in range(400)]
    error = np.std(textbook) * np.sqrt(2 / 400)
    assert abs(np.mean(ours) - np.mean(textbook)) < 4 * error
    assert np.std(ours) == pytest.approx(np.std(textbook), rel=0.25)


@pytest.fixture
def few_candidates(monkeypatch):
    monkeypatch.setattr(landmarks, "CANDIDATES", 200)


@pytest.mark.usefixtures("few_candidates")
def test_what_is_rare_is_found_among_all_samples(rng):
    """Five samples of 5,000 lie elsewhere: 200 candidates hold none of them four times out of five."""
    for seed in range(5):
        X = rng.normal(size=(5000, 2))
        X[rng.permutation(5000)[:5]] += 50.0
        found = some(X, most=60, enough=1.0, seed=seed)
        assert found.residuals.sum() <= 1.0
        assert np.any(X[found.rows] > 25.0)


@pytest.mark.usefixtures("few_candidates")
def test_some_landmarks_are_kept_for_what_is_rare(rng):
    """However few landmarks there may be, and however much the first candidates could still use."""
    for seed in range(5):
        X = 0.6 * rng.normal(size=(5000, 2))
        X[rng.permutation(5000)[:5]] = 50.0
        found = some(X, most=20, seed=seed)
        assert len(found.rows) == 20
        assert np.any(X[found.rows] == 50.0)


def test_no_candidate_is_left(rng, monkeypatch):
    monkeypatch.setattr(landmarks, "CANDIDATES", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = some(rng.normal(size=(40, 2)), most=30, ell=0.01)
    assert len(np.unique(found.rows)) == len(found.rows) > 3


@pytest.mark.usefixtures("few_candidates")
def test_drawn_candidates_stand_for_all_samples(rng):
    """What is left after more landmarks, estimated from the candidates alone, is about what is left of all samples."""
    X = rng.normal(size=(3000, 2))
    first = some(X, most=10)
    more = some(X, most=25, seed=1)
    after = project(X, more.rows, more.L, 2.0, 0.1).residuals
    estimates = []
    for seed in range(30):
        drawn, weights = landmarks._drawn(first.residuals, np.random.default_rng(seed))
        assert weights @ first.residuals[drawn] == pytest.approx(first.residuals.sum())
        estimates.append(weights @ after[drawn])
    assert np.mean(estimates) == pytest.approx(after.sum(), rel=0.1)


@pytest.mark.usefixtures("few_candidates")
def test_drawn_candidates_leave_about_as_little_as_all_of_them(rng, monkeypatch):
    X = rng.normal(size=(3000, 3))
    drawn = np.mean([some(X, most=50, seed=i).residuals.sum() for i in range(5)])
    monkeypatch.setattr(landmarks, "CANDIDATES", 3000)
    every = np.mean([some(X, most=50, seed=i).residuals.sum() for i in range(5)])
    assert drawn < 1.3 * every


@pytest.mark.usefixtures("few_candidates")
def test_the_same_seed_gives_the_same_landmarks(rng):
    X = rng.normal(size=(1000, 2))
    one, again, other = (some(X, most=30, seed=seed) for seed in (4, 4, 5))
    for mine, yours in zip(one, again, strict=True):
        np.testing.assert_array_equal(mine, yours)
    assert set(one.rows.tolist()) != set(other.rows.tolist())


def test_blocks_of_any_size_give_the_same(rng, monkeypatch):
    X = rng.normal(size=(500, 3))
    whole = some(X, most=40)
    for size in (1, 7, 499):
        monkeypatch.setattr(rows, "BLOCK_ROWS", size)
        for one, other in zip(whole, some(X, most=40), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
