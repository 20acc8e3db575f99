"""The cost and its minimum: scikit-learn's Gaussian process and numeric differences are the oracles."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist, pdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from outlark.errors import InputError
from outlark.maths.gp import (
    HyperParameters,
    cost,
    learn,
    length_scale_bounds,
    profile_cost,
    ratio_from_condition,
    squared_exponential,
    target,
)

THETA = HyperParameters(sigma=1.7, length_scale=2.3, sigma_reg=0.4)


@pytest.fixture
def X(rng):
    return rng.normal(size=(50, 4))


def test_cost_is_the_likelihood_of_scikit_learn(X):
    y = target(X)
    # no ½ in the paper's kernel: ℓ = √2 · scikit-learn's length scale
    kernel = ConstantKernel(THETA.sigma**2) * RBF(THETA.length_scale / np.sqrt(2)) + WhiteKernel(THETA.sigma_reg**2)
    likelihood = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y).log_marginal_likelihood_value_
    g, _ = cost(X, y, THETA)
    assert g == pytest.approx(-2 * likelihood - len(X) * np.log(2 * np.pi), rel=1e-9)


def test_cost_is_equation_7_written_out(X):
    y = target(X)
    K_reg = THETA.sigma**2 * np.exp(-(cdist(X, X) ** 2) / THETA.length_scale**2) + THETA.sigma_reg**2 * np.eye(50)
    g, _ = cost(X, y, THETA)
    assert g == pytest.approx(y @ np.linalg.inv(K_reg) @ y + np.log(np.linalg.det(K_reg)), rel=1e-9)


def test_gradient_agrees_with_differences(X):
    y = target(X)

    def g(log_theta):
        return cost(X, y, HyperParameters(*np.exp(log_theta)))[0]

    log_theta = np.log(THETA)
    numeric = approx_fprime(log_theta, g, 1e-6)
    np.testing.assert_allclose(cost(X, y, THETA)[1], numeric, rtol=1e-4)


def test_profiled_cost_is_the_minimum_over_sigma(X):
    y, ratio = target(X), 0.05
    profiled, sigma2 = profile_cost(cdist(X, X, "sqeuclidean"), y, THETA.length_scale, ratio)

    def g(sigma):
        return cost(X, y, HyperParameters(sigma, THETA.length_scale, sigma * np.sqrt(ratio)))[0]

    best = np.sqrt(sigma2)
    assert g(best) == pytest.approx(profiled, rel=1e-10)
    assert g(best * 1.01) > profiled < g(best / 1.01)


@pytest.mark.parametrize("ratio", [1e-8, 1e-4, 1e-2, 0.5])
def test_learnt_length_scale_is_stationary_or_on_its_bound(X, ratio):
    theta = learn(X, ratio=ratio)
    assert theta.ratio == pytest.approx(ratio)
    low, high = length_scale_bounds(X)
    gradient = cost(X, target(X), theta)[1]
    # ρ is held fixed, so only ℓ moves on its own; σ and σ_reg move together.
    assert gradient[0] + gradient[2] == pytest.approx(0.0, abs=1e-4)
    on_bound = min(theta.length_scale / low, high / theta.length_scale) < 1.01
    assert on_bound or abs(gradient[1]) < 1e-2


def test_the_bounds_are_a_hundredth_and_ten_times_the_median_distance(X):
    distances = pdist(X)
    np.testing.assert_allclose(length_scale_bounds(X), np.median(distances) * np.array([0.01, 10.0]))
    doubled = np.concatenate([X, X])  # distances of 0 do not count
    assert length_scale_bounds(doubled)[1] == pytest.approx(10.0 * np.median(pdist(doubled)[pdist(doubled) > 0]))


def test_a_target_that_only_grows_flatter_ends_at_the_upper_bound(X):
    """A constant target is best explained by the largest length scale; the search stops at its bound, not before."""
    theta = learn(X, ratio=1e-2, y=np.ones(len(X)))
    assert theta.length_scale == pytest.approx(10.0 * np.median(pdist(X)), rel=1e-3)


def test_learnt_length_scale_is_the_best_of_a_fine_grid(X):
    ratio = 1e-3
    theta = learn(X, ratio=ratio)
    D2, y = cdist(X, X, "sqeuclidean"), target(X)
    grid = np.geomspace(*length_scale_bounds(X), 400)
    lowest = min(profile_cost(D2, y, ell, ratio)[0] for ell in grid)
    assert profile_cost(D2, y, theta.length_scale, ratio)[0] <= lowest + 1e-6


def test_more_samples_than_the_grid_uses_still_end_in_the_minimum(rng):
    X = rng.normal(size=(700, 3))
    theta = learn(X, ratio=1e-2)
    D2, y = cdist(X, X, "sqeuclidean"), target(X)
    here = profile_cost(D2, y, theta.length_scale, 1e-2)[0]
    for factor in (0.9, 0.97, 1.03, 1.1):
        assert here < profile_cost(D2, y, factor * theta.length_scale, 1e-2)[0]


def test_fixed_values_stay_and_the_rest_is_optimal(X):
    y = target(X)
    assert learn(X, sigma=1.0, length_scale=2.0, sigma_reg=0.1) == HyperParameters(1.0, 2.0, pytest.approx(0.1))
    sigma_free = learn(X, length_scale=2.0, sigma_reg=0.1)
    assert sigma_free[1:] == (2.0, pytest.approx(0.1))
    assert cost(X, y, sigma_free)[1][0] == pytest.approx(0.0, abs=0.05)
    ell_free = learn(X, sigma=5.0, sigma_reg=0.1)
    assert cost(X, y, ell_free)[1][1] == pytest.approx(0.0, abs=0.05)
    both_free = learn(X, sigma_reg=0.5)
    assert both_free.sigma_reg == 0.5
    np.testing.assert_allclose(cost(X, y, both_free)[1][:2], 0.0, atol=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 7.0])
def test_scaling_the_samples_scales_theta(X, scale):
    theta, scaled = learn(X, ratio=1e-2), learn(scale * X, ratio=1e-2)
    assert scaled.length_scale == pytest.approx(scale * theta.length_scale, rel=1e-4)
    assert scaled.sigma == pytest.approx(scale**2 * theta.sigma, rel=1e-3)


def test_condition_bound_holds(X):
    ratio = ratio_from_condition(len(X), 1e6)
    K = squared_exponential(X, X, 30.0)
    assert np.linalg.cond(K + ratio * np.eye(len(X))) <= 1e6
    assert np.linalg.cond(K) > 1e10


def test_the_condition_bound_is_reached_by_samples_that_are_all_alike():
    K = np.ones((12, 12)) + ratio_from_condition(12, 1e4) * np.eye(12)
    assert np.linalg.cond(K) == pytest.approx(1e4)


@pytest.mark.parametrize("sigma_reg", [1e-9, 1e-3])
def test_sigma_stays_within_what_double_precision_can_factor(X, sigma_reg):
    theta = learn(X, sigma_reg=sigma_reg)
    assert 0.0 < np.log(theta.sigma / sigma_reg) <= 13.0 + 1e-9


def test_identical_samples_are_refused_with_the_knob_to_turn():
    with pytest.raises(InputError, match=r"all training samples are the same.*length_scale="):
        learn(np.ones((5, 2)), ratio=0.1)


def test_neither_ratio_nor_sigma_reg(X):
    with pytest.raises(InputError, match="ratio or sigma_reg"):
        learn(X)
