"""Landmarks: picking against the textbook; distances against dense formulas, refits, and the exact model at m = n."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.maths import description, landmarks
from outlark.maths.description import Distances, describe, distances, left_out_distances, score, shares
from outlark.maths.gp import squared_exponential
from outlark.maths.landmarks import (
    LandmarkDescription,
    Setting,
    describe_by_landmarks,
    describe_class,
    pick,
    project,
)


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
    monkeypatch.setattr(landmarks, "CANDIDATE_SAMPLES", 200)


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
    monkeypatch.setattr(landmarks, "CANDIDATE_SAMPLES", 3)
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
        monkeypatch.setattr(description, "TABLE_BLOCK_ROWS", size)
        for one, other in zip(whole, some(X, most=40), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)


ELL = 2.0


def dense(X, U, Z, ratio, center=False):
    """The formula of the module docstring with whole matrices; centred as the exact kernel is, with Q in its place."""
    K_UU, K_Un, k = (squared_exponential(U, other, ELL) for other in (U, X, Z))
    L = np.linalg.cholesky(K_UU + 1e-14 * np.eye(len(U)))
    A, q = np.linalg.solve(L, K_Un), np.linalg.solve(L, k)
    B = A @ A.T + ratio * np.eye(len(U))
    d = 1.0 - np.sum(q * q, axis=0) + ratio * np.sum(q * np.linalg.solve(B, q), axis=0)
    if center:
        P = np.linalg.inv(A.T @ A + ratio * np.eye(len(X)))
        d += (1.0 - P.sum(axis=0) @ (A.T @ q)) ** 2 / P.sum() - ratio / len(X)
    return d


def by_landmarks(X, m, ratio=0.1, center=False, seed=0):
    found = pick(X, ELL, ratio, most=m, enough=0.0, rng=np.random.default_rng(seed))
    return describe_by_landmarks(X, found, ELL, ratio, center)


@pytest.fixture
def X(rng):
    return rng.normal(size=(150, 3))


@pytest.fixture
def Z(X, rng):
    return np.concatenate([X[:10], rng.normal(size=(40, 3)), rng.normal(scale=20.0, size=(5, 3)), np.full((1, 3), 1e3)])


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-4, 0.01, 0.5])
@pytest.mark.parametrize("m", [1, 12, 60])
def test_distances_are_those_of_the_dense_formula(X, Z, m, ratio, center):
    model = by_landmarks(X, m, ratio, center)
    expected = dense(X, model.points, Z, ratio, center)
    np.testing.assert_allclose(distances(model, Z), expected, rtol=1e-6)
    np.testing.assert_allclose(Distances([model])(Z)[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-6, 1e-2, 0.5])
def test_with_all_samples_as_landmarks_it_is_exact(X, Z, ratio, center):
    model, exact = by_landmarks(X, len(X), ratio, center), describe(X, ELL, ratio, center)
    assert model.trace < 1e-6 * ratio * len(X)
    np.testing.assert_allclose(score(distances(model, Z)), score(distances(exact, Z)), atol=1e-5)
    parts = np.array_split(np.arange(150), 20)
    np.testing.assert_allclose(
        score(left_out_distances(model, parts)), score(left_out_distances(exact, parts)), atol=1e-5
    )
    assert model.far == pytest.approx(exact.far)
    near = Z[:50]
    by_sample = np.zeros((150, 50))
    by_sample[model.rows] = shares(model, near)
    if len(model.rows) == 150:  # with fewer, what nearly equal samples share can go to either
        np.testing.assert_allclose(by_sample, shares(exact, near), atol=1e-4)
    np.testing.assert_allclose(shares(model, Z).sum(axis=0), 1.0)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("m", [5, 40])
@pytest.mark.parametrize("ratio", [1e-4, 0.1])
def test_leaving_notes_out_equals_the_formula_without_them(X, center, m, ratio):
    """Parts of one sample, of some, and of more than there are landmarks; a landmark of the part stays a place."""
    model = by_landmarks(X, m, ratio, center)
    parts = [np.arange(7), np.array([7]), np.array([9, 30, 8]), np.arange(40, 120), np.arange(120, 150), np.arange(6)]
    for G, found in zip(parts, model.left_out(parts), strict=True):
        rest = np.delete(X, G, axis=0)
        np.testing.assert_allclose(found, dense(rest, model.points, X[G], ratio, center), rtol=1e-5)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 40),
    m=st.integers(1, 40),
    log_ell=st.floats(-2, 3),
    log_ratio=st.floats(-7, 0),
    copies=st.booleans(),
)
def test_never_negative_never_more_than_far_and_far_knows_nothing(seed, n, m, log_ell, log_ratio, copies):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X = np.concatenate([X, X[::2]]) if copies else X
    ell, ratio = np.exp(log_ell), 10.0**log_ratio
    found = pick(X, ell, ratio, most=m, enough=0.0, rng=rng)
    model = describe_by_landmarks(X, found, ell, ratio)
    Z = np.concatenate([X, rng.normal(size=(20, 2)), np.full((1, 2), 1e4)])
    d = distances(model, Z)
    assert np.all(d >= ratio / (len(X) + ratio))
    assert np.all(d <= 1.0 + 1e-9)
    assert d[-1] == 1.0
    left_out = np.concatenate(model.left_out([np.array([i]) for i in range(len(X))]))
    assert np.all(left_out > 0.0)
    assert np.all(left_out <= 1.0 + 1e-6)
    assert np.all(left_out >= distances(model, X) * (1 - 1e-5))  # without itself nothing is nearer


def test_fewer_landmarks_never_say_more_than_the_samples_do_far_from_them(rng):
    """Random features and the subset of regressors fail here: their variance falls to 0 far from the landmarks."""
    X = np.concatenate([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 30.0])
    model = by_landmarks(X, 1)
    elsewhere = X[np.abs(X - model.points).max(axis=1) > 20.0]
    np.testing.assert_allclose(distances(model, elsewhere), 1.0, atol=1e-9)


def test_the_certificate_bounds_the_error(rng):
    X, Z = rng.normal(size=(800, 4)), rng.normal(size=(300, 4))
    exact = score(distances(describe(X, 4.0, 0.1), Z))
    errors = []
    for enough in (0.05, 0.01, 0.002):
        found = pick(X, 4.0, 0.1, most=800, enough=enough * 0.1 * 800, rng=np.random.default_rng(0))
        model = describe_by_landmarks(X, found, 4.0, 0.1)
        errors.append(np.abs(score(distances(model, Z)) - exact))
        assert model.trace <= enough * 0.1 * 800
        assert np.median(errors[-1]) < 2 * enough
    assert np.median(errors[2]) < np.median(errors[0])


# ---------------------------------------------------------------- which model a class gets


def test_auto_is_exact_for_small_classes_and_takes_landmarks_for_large_ones(rng, monkeypatch):
    monkeypatch.setattr(landmarks, "EXACT_UP_TO", 300)
    monkeypatch.setattr(landmarks, "EXACT_IF_NEEDED", 400)
    setting = Setting(ELL, 0.1, landmarks="auto")
    easy, hard = rng.normal(size=(500, 1)), rng.normal(scale=30.0, size=(500, 6))
    assert len(describe_class(easy[:300], setting).points) == 300
    model = describe_class(easy[:400], setting)
    assert len(model.points) < 60
    assert model.trace <= landmarks.CERTIFICATE_SHARE * 0.1 * 400
    assert len(describe_class(hard[:400], setting).points) == 400  # landmarks would not do
    model = describe_class(hard, setting)
    assert len(model.points) == 500 // 3
    assert model.trace > landmarks.CERTIFICATE_SHARE * 0.1 * 500


@pytest.mark.parametrize(("n", "landmarks", "m"), [(50, None, 50), (50, 50, 50), (50, 49, 49), (50, 1, 1)])
def test_a_number_of_landmarks_is_kept_to(rng, n, landmarks, m):
    model = describe_class(rng.normal(size=(n, 4)), Setting(ELL, 0.1, landmarks=landmarks))
    assert len(model.rows) == m
    assert isinstance(model, LandmarkDescription) == (m < n)
    assert (model.trace > 0.0) == (m < n)


def test_memory_is_that_of_the_matrices():
    exact, auto, few = (Setting(1.0, 0.1, landmarks=landmarks) for landmarks in (None, "auto", 100))
    assert sum(exact.bytes_for(10_000)) == 4 * 8 * 10_000**2
    assert sum(auto.bytes_for(2_000)) == sum(exact.bytes_for(2_000))
    assert sum(auto.bytes_for(5_000)) == sum(exact.bytes_for(5_000))  # it may come to that
    assert sum(auto.bytes_for(10**6)) < 1e9
    assert sum(few.bytes_for(10**6)) < sum(auto.bytes_for(10**6)) / 10
