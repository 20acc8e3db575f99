"""Log odds against extended precision and refits."""

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outlark.maths.description import Distances, describe, distances
from outlark.maths.landmarks import Setting, describe_class
from outlark.maths.odds import distance_score, left_out_log_similarities, log_odds


def exact_log_q(X, z, ell, ratio):
    """log kᵀ(K + ρI)⁻¹k with 400 digits."""
    with mpmath.workdps(400):

        def kernel(a, b):
            gap = sum((mpmath.mpf(float(u)) - mpmath.mpf(float(v))) ** 2 for u, v in zip(a, b, strict=True))
            return mpmath.exp(-gap / mpmath.mpf(ell) ** 2)

        n = len(X)
        K = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                K[i, j] = kernel(X[i], X[j]) + (mpmath.mpf(ratio) if i == j else 0)
        k = mpmath.matrix([kernel(x, z) for x in X])
        return float(mpmath.log((k.T * mpmath.lu_solve(K, k))[0]))


def test_similarities_in_extended_precision_near_and_far(rng):
    X = rng.normal(size=(8, 2))
    Z = np.array([X[0], [0.3, 0.1], [9.0, -9.0], [60.0, 80.0]])
    found = Distances([describe(X, 1.5, 0.1)]).log_similarities(Z)[:, 0]
    np.testing.assert_allclose(found, [exact_log_q(X, z, 1.5, 0.1) for z in Z], rtol=1e-9)
    assert found[3] < -4000  # where 1 - d is 0 in double precision


def test_odds_follow_from_the_distance_where_that_is_exact(rng):
    X, Z = rng.normal(size=(60, 3)), rng.normal(scale=1.5, size=(40, 3))
    model = describe(X, 2.0, 0.1)
    d = distances(model, Z)
    found = log_odds(Distances([model]).log_similarities(Z)[:, 0])
    np.testing.assert_allclose(found, 0.5 * np.log((1 - d) / d), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(distance_score(found), -0.5 * np.log(d), rtol=1e-8)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_the_size_factor_multiplies_the_score_of_the_distance(factor):
    q = np.array([1e-9, 0.01, 0.5, 0.99])
    scaled = distance_score(log_odds(np.log(q), factor))
    np.testing.assert_allclose(scaled, factor * -0.5 * np.log1p(-q), rtol=1e-7)
    both_sides = log_odds(np.array([-30.0 - 1e-9, -30.0 + 1e-9]), factor)
    assert np.ptp(both_sides) < 1e-8


@pytest.mark.parametrize("parts", [[[0], [1], [2], [7]], [[0, 1], [5, 6, 7]]])
def test_left_out_similarities_in_extended_precision(rng, parts):
    X = rng.normal(size=(8, 2))
    X[7] = [40.0, 0.0]  # without its note it resembles nothing
    parts = [np.array(G) for G in parts]
    found = left_out_log_similarities(describe(X, 1.5, 0.1), parts)
    for G in parts:
        rest = np.delete(X, G, axis=0)
        np.testing.assert_allclose(found[G], [exact_log_q(rest, X[i], 1.5, 0.1) for i in G], rtol=1e-7)


def test_left_out_similarities_of_landmarks_end_at_rounding(rng):
    X = np.concatenate([rng.normal(size=(300, 2)), [[50.0, 50.0]]])
    parts = [np.array([i]) for i in range(301)]
    by_landmarks = left_out_log_similarities(describe_class(X, Setting(1.5, 0.1, landmarks=80)), parts)
    exact = left_out_log_similarities(describe(X, 1.5, 0.1), parts)
    assert exact[300] < -1000 < -28 < by_landmarks[300] < -20
    inside = exact > np.log(0.5)
    np.testing.assert_allclose(by_landmarks[inside], exact[inside], atol=0.05)


def test_single_precision_keeps_the_order(rng):
    X = rng.normal(size=(100, 3))
    Z = np.linspace(0, 30, 50)[:, None] * np.ones(3)
    model = describe(X, 2.0, 0.1)
    double, single = (Distances([model], single=single).log_similarities(Z)[:, 0] for single in (False, True))
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4)
    assert (np.diff(double[5:]) < 0).all()
    assert cdist(Z[-1:], X).min() > 20
