"""A class by landmarks: the dense formula, the exact description at m = n, refits without a note are the oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.maths import sparse
from outlark.maths.description import describe, distances, left_out_distances, score, scores, shares
from outlark.maths.gp import squared_exponential
from outlark.maths.landmarks import pick
from outlark.maths.scoring import distances_to_all
from outlark.maths.sparse import LandmarkDescription, Setting, describe_by_landmarks, describe_class

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
    np.testing.assert_allclose(distances_to_all([model], Z)[:, 0], expected, rtol=1e-6)


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


def test_left_out_distances_are_put_back_where_they_belong(X):
    model = by_landmarks(X, 20)
    parts = [np.array([3, 80]), np.array([5]), np.arange(10, 60)]
    found = left_out_distances(model, parts)
    for G, d in zip(parts, model.left_out(parts), strict=True):
        np.testing.assert_array_equal(found[G], d)
    assert np.isnan(found).sum() == 150 - 53


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
    monkeypatch.setattr(sparse, "EXACT_UP_TO", 300)
    monkeypatch.setattr(sparse, "EXACT_IF_NEEDED", 400)
    setting = Setting(ELL, 0.1, landmarks="auto")
    easy, hard = rng.normal(size=(500, 1)), rng.normal(scale=30.0, size=(500, 6))
    assert len(describe_class(easy[:300], setting).points) == 300
    model = describe_class(easy[:400], setting)
    assert len(model.points) < 60
    assert model.trace <= sparse.ENOUGH * 0.1 * 400
    assert len(describe_class(hard[:400], setting).points) == 400  # landmarks would not do
    model = describe_class(hard, setting)
    assert len(model.points) == 500 // 3
    assert model.trace > sparse.ENOUGH * 0.1 * 500


def test_auto_scores_are_nearly_those_of_the_exact_model(rng, monkeypatch):
    monkeypatch.setattr(sparse, "EXACT_UP_TO", 300)
    monkeypatch.setattr(sparse, "EXACT_IF_NEEDED", 300)
    X, Z = rng.normal(size=(900, 2)), rng.normal(size=(200, 2))
    auto, exact = (describe_class(X, Setting(3.0, 0.1, landmarks=landmarks)) for landmarks in ("auto", None))
    assert len(auto.points) < 150
    assert np.median(np.abs(scores(auto, Z) - scores(exact, Z))) < 0.005


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
