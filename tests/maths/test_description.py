"""A class and the distance to it: scikit-learn's variance, 40 digits, refits; blocks and threads change nothing."""

import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from outlark.errors import InputError
from outlark.maths.description import (
    Distances,
    Kernel,
    blas_threads,
    describe,
    distances,
    left_out_distances,
    one_blas_thread,
    score,
    shares,
)
from outlark.maths.gp import learn, ratio_from_condition, squared_exponential


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
    np.testing.assert_allclose(score(Distances([description])(Z)[:, 0]), expected, atol=1e-6)


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


# ---------------------------------------------------------------- many rows, many classes

RNG = np.random.default_rng(7)
CLASSES = [RNG.normal(size=(70, 5)), RNG.normal(loc=2.0, size=(33, 5)), RNG.normal(size=(1, 5))]
ROWS = RNG.normal(loc=1.0, scale=2.0, size=(400, 5))


def descriptions(ratio=1e-2, ell=3.0, center=False):
    return [describe(X, ell, ratio, center) for X in CLASSES]


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-8, 1e-2, 1.0])
def test_equals_the_plain_form(center, ratio):
    found = Distances(descriptions(ratio, center=center), block_rows=64)(ROWS)
    plain = np.stack([distances(d, ROWS) for d in descriptions(ratio, center=center)], axis=1)
    np.testing.assert_allclose(score(found), score(plain), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(block_rows=st.integers(1, 500), ratio=st.sampled_from([1e-8, 1e-4, 1e-1]))
def test_any_block_size_gives_the_same_scores(block_rows, ratio):
    whole = Distances(descriptions(ratio), block_rows=1000)(ROWS)
    blocked = Distances(descriptions(ratio), block_rows=block_rows)(ROWS)
    np.testing.assert_allclose(score(blocked), score(whole), atol=1e-6)


@pytest.mark.parametrize("n_samples", [160, 1200])
def test_one_and_two_blas_threads_give_the_same_scores(n_samples):
    X = np.cumsum(np.random.default_rng(0).normal(size=(n_samples, 5)), axis=0) / 10
    ratio = ratio_from_condition(n_samples, 1e8)  # the smallest that the defaults allow
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(score(Distances([describe(X, 8.0, ratio)], block_rows=100)(X + 0.01)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_single_precision_is_close():
    exact, single = (Distances(descriptions(0.1), single=single)(ROWS) for single in (False, True))
    assert 0 < np.max(np.abs(score(single) - score(exact))) < 5e-5


@pytest.mark.parametrize(("n", "ratio"), [(70, 1e-4), (2000, 0.1)])
def test_single_precision_is_not_used_where_distances_are_too_small_for_it(n, ratio):
    X = np.random.default_rng(1).normal(size=(n, 2))
    description = describe(X, 2.0, ratio)
    found = Distances([description], single=True)(X)
    np.testing.assert_array_equal(found, Distances([description])(X))


@pytest.mark.parametrize("single", [False, True])
def test_values_beyond_all_bounds_are_far_and_nothing_else(single):
    assert np.all(Distances(descriptions(0.1), single=single)(np.full((2, 5), 1e200)) == 1.0)


@pytest.mark.parametrize("ell", [1e-3, 1e4])
@pytest.mark.parametrize("offset", [-10.0, 1e5])
def test_a_row_beyond_all_bounds_does_not_move_the_others(ell, offset):
    X = offset + np.random.default_rng(3).uniform(-5e3, 5e3, size=(20, 2))
    near = np.concatenate([X, X + 0.5 * ell, X - 2.0 * ell])
    model = [describe(X, ell, 0.1)]
    found = Distances(model)(np.concatenate([near, [[1e200, 0.0], [0.0, -1e200]]]))
    np.testing.assert_allclose(found[:-2, 0], distances(model[0], near), atol=1e-9)
    np.testing.assert_array_equal(found[-2:], 1.0)


def test_wide_classes_use_the_direct_distance():
    """‖a‖² + ‖b‖² - 2ab would lose the digits that a small regulariser needs."""
    X = np.concatenate([RNG.normal(size=(30, 2)), 1e6 + RNG.normal(size=(30, 2))])
    description = describe(X, 2.0, 1e-6)
    assert not Kernel(description.X, description.ell, description.ratio).by_product
    near = X[:5] + 0.1
    np.testing.assert_allclose(
        score(Distances([description])(near)[:, 0]), score(distances(description, near)), atol=1e-6
    )


def test_the_product_form_is_left_before_it_loses_digits():
    """A class some hundred length scales wide at a small ρ."""
    X = np.sort(RNG.uniform(0, 300, size=(200, 1)), axis=0)
    description = describe(X, 1.0, 1e-6)
    near = X + 1e-3
    np.testing.assert_allclose(
        score(Distances([description])(near)[:, 0]), score(distances(description, near)), atol=1e-6
    )


def test_an_offset_common_to_all_features_costs_no_accuracy():
    shift = 1e4
    moved = [describe(X + shift, 3.0, 1e-4) for X in CLASSES]
    np.testing.assert_allclose(
        score(Distances(moved)(ROWS + shift)), score(Distances(descriptions(1e-4))(ROWS)), atol=1e-6
    )


def test_memory_does_not_grow_with_the_number_of_rows():
    def peak(rows):
        data = np.zeros((rows, 5))
        tracemalloc.start()
        with threadpool_limits(1, user_api="blas"):  # with more threads the peak depends on how blocks overlap
            Distances(descriptions(), block_rows=256)(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak - rows * len(CLASSES) * 8  # less the result itself

    assert peak(20_000) < 1.2 * peak(2_000)


def test_no_rows():
    assert Distances(descriptions())(ROWS[:0]).shape == (0, 3)


def test_blas_is_held_to_one_thread_and_let_go():
    before = blas_threads()
    with one_blas_thread() as mine:
        assert mine
        assert blas_threads() == 1
        with one_blas_thread() as inner:
            assert not inner
            assert blas_threads() == 1
        assert blas_threads() == 1
    assert blas_threads() == before
