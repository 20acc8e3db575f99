"""Distances to a class: scikit-learn, refits, the textbook formula and 40-digit arithmetic are the oracles."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from outlark.errors import InputError
from outlark.maths.description import (
    describe,
    distances,
    left_out_distances,
    score,
    shares,
)
from outlark.maths.gp import learn, ratio_from_condition, squared_exponential
from outlark.maths.scoring import distances_to_all


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 3))


@pytest.fixture
def Z(rng):
    return np.concatenate([rng.normal(size=(30, 3)), rng.normal(scale=20.0, size=(5, 3))])


def test_distance_is_the_variance_that_scikit_learn_predicts(X, Z):
    model = GaussianProcessRegressor(RBF(2.0 / np.sqrt(2)), alpha=0.01, optimizer=None).fit(X, np.zeros(len(X)))
    _, std = model.predict(Z, return_std=True)
    np.testing.assert_allclose(distances(describe(X, 2.0, 0.01), Z), std**2, atol=1e-9)


def extended_precision_distances(X, Z, ell, ratio):
    with mpmath.workdps(40):

        def k(a, b):
            gaps = (mpmath.mpf(p) - mpmath.mpf(q) for p, q in zip(a, b, strict=True))
            return mpmath.exp(-sum(gap**2 for gap in gaps) / mpmath.mpf(ell) ** 2)

        K = mpmath.matrix(len(X), len(X))
        for i in range(len(X)):
            for j in range(i + 1):
                K[i, j] = K[j, i] = k(X[i], X[j]) + (mpmath.mpf(ratio) if i == j else 0)
        L = mpmath.cholesky(K)
        found = []
        for z in Z:
            v = mpmath.lu_solve(L, mpmath.matrix([k(x, z) for x in X]))
            found.append(float(1 - mpmath.fdot(v, v)))
    return np.array(found)


@pytest.mark.parametrize("condition", [1e8, 1e6])
def test_scores_agree_with_extended_precision_at_the_smallest_regulariser(rng, condition):
    """The hardest case that the defaults allow: σ_reg from the condition bound, samples on top of training samples."""
    X = np.cumsum(rng.normal(size=(40, 3)), axis=0) / 5  # neighbours in time are near, as frames are
    Z = np.concatenate([X[:3], X[:4] + 0.01 * rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), [[50.0, 0.0, 0.0]]])
    ratio = ratio_from_condition(len(X), condition)
    ell = learn(X, ratio=ratio).length_scale
    expected = score(extended_precision_distances(X, Z, ell, ratio))
    description = describe(X, ell, ratio)
    np.testing.assert_allclose(score(distances(description, Z)), expected, atol=1e-6)
    np.testing.assert_allclose(score(distances_to_all([description], Z)[:, 0]), expected, atol=1e-6)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-6, 1e-2, 0.5])
def test_leaving_notes_out_equals_refitting_without_them(X, center, ratio):
    parts = [np.arange(0, 7), np.arange(7, 8), np.arange(8, 40)]
    found = left_out_distances(describe(X, 1.5, ratio, center), parts)
    for G in parts:
        refitted = describe(np.delete(X, G, axis=0), 1.5, ratio, center)
        np.testing.assert_allclose(found[G], distances(refitted, X[G]), rtol=1e-6)


def test_leave_one_out_is_its_closed_form(X):
    description = describe(X, 1.5, 0.1)
    singles = [np.array([i]) for i in range(len(X))]
    P = np.linalg.inv(squared_exponential(X, X, 1.5) + 0.1 * np.eye(len(X)))
    np.testing.assert_allclose(left_out_distances(description, singles), 1 / np.diag(P) - 0.1, rtol=1e-9)


@pytest.mark.parametrize("ell", [2.0, 20.0])
def test_centred_distance_is_the_kernel_mahalanobis_distance(X, Z, ell):
    """d²_RC = λ⁻¹[k̃** - k̃*ᵀ(K̃ + nλI)⁻¹k̃*] with the kernel centred by hand; d_centred = (s²/n)·d²_RC."""
    Z = np.concatenate([Z, X.mean(axis=0, keepdims=True)])  # near the mean it is smaller than any plain distance
    n, s2 = len(X), 0.05
    K, k = squared_exponential(X, X, ell), squared_exponential(X, Z, ell)
    H = np.eye(n) - np.ones((n, n)) / n
    K_c = H @ K @ H
    k_c = H @ (k - K.mean(axis=1, keepdims=True))
    k_cc = 1.0 - 2.0 * k.mean(axis=0) + K.mean()
    lam = s2 / n
    d2_rc = (k_cc - np.einsum("ij,ij->j", k_c, np.linalg.solve(K_c + n * lam * np.eye(n), k_c))) / lam
    np.testing.assert_allclose(distances(describe(X, ell, s2, center=True), Z), lam * d2_rc, atol=1e-10)


def test_training_samples_are_within_the_regulariser(X):
    ratio = 1e-3
    description = describe(X, 1.5, ratio)
    on_train = distances(description, X)
    assert np.all(on_train <= ratio)
    np.testing.assert_allclose(on_train, ratio - ratio**2 * np.diag(description.precision), rtol=1e-6)


@pytest.mark.parametrize("center", [False, True])
def test_far_away_knows_nothing(X, center):
    description = describe(X, 1.5, 0.1, center)
    d = distances(description, np.full((1, 3), 1e3))
    assert d == pytest.approx(description.far)
    assert score(d, description.far) == 0.0
    assert (description.far > 1.0) == center


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    log_ell=st.floats(-2, 3),
    log_ratio=st.floats(-9, 0),
)
def test_adding_a_sample_never_raises_the_distance_and_bounds_hold(seed, n, log_ell, log_ratio):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n + 1, 2)), rng.normal(size=(8, 2))
    ell, ratio = np.exp(log_ell), 10.0**log_ratio
    less, more = (distances(describe(part, ell, ratio), Z) for part in (X[:n], X))
    assert np.all(more <= less * (1 + 1e-5))  # 1e-5: what ρ = 1e-9 leaves of double precision
    floor = ratio / (n + 1 + ratio)
    assert np.all(more >= floor)
    assert np.all(more <= 1)


def test_n_copies_of_a_sample_reach_the_floor():
    description = describe(np.zeros((9, 2)), 1.0, 0.01)
    assert distances(description, np.zeros((1, 2))) == pytest.approx(description.floor)


def test_shares_sum_to_what_the_class_knows(X, Z):
    description = describe(X, 2.0, 0.01)
    k = squared_exponential(description.X, Z, description.ell)
    taken = k * np.linalg.solve(squared_exponential(X, X, description.ell) + description.ratio * np.eye(len(X)), k)
    known = distances(description, Z) < 0.999
    expected = taken[:, known] / (1 - distances(description, Z[known]))
    np.testing.assert_allclose(shares(description, Z)[:, known], expected, atol=1e-9)
    np.testing.assert_allclose(shares(description, Z + 1e9).sum(axis=0), 1.0)
    np.testing.assert_allclose(shares(description, Z + 1e200).sum(axis=0), 1.0)


def test_too_small_a_regulariser_names_the_knob():
    with pytest.raises(InputError, match=r"not positive definite.*sigma_reg"):
        describe(np.zeros((5, 2)), 1.0, 1e-18)


def test_precision_is_the_inverse_of_the_kernel_matrix(rng):
    X = rng.normal(size=(1100, 4))  # more than one block of rows
    P = describe(X, 1.5, 0.1).precision
    np.testing.assert_allclose(P, np.linalg.inv(squared_exponential(X, X, 1.5) + 0.1 * np.eye(len(X))), atol=1e-11)
    np.testing.assert_array_equal(P, P.T)


def test_the_kernel_by_a_product_is_that_of_differences_where_it_may_be(rng):
    """Rows of length 1 may be multiplied; rows far from the origin may not, and are not."""
    X = rng.normal(size=(60, 30))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(
        squared_exponential(X, X, 1.0, tolerance=1e-12), squared_exponential(X, X, 1.0), rtol=0, atol=1e-14
    )
    far = X + 1e6
    np.testing.assert_array_equal(
        squared_exponential(far, far, 1.0, tolerance=1e-12), squared_exponential(far, far, 1.0)
    )
