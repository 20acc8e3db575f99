"""Units of distances: scikit-learn's covariance, invariances, and which metrics are candidates."""

import numpy as np
import pytest
from sklearn.covariance import oas

from outlark.maths.choice import (
    candidate_metrics,
    feature_map,
    mapped,
    oas_covariance,
    participation,
    within_class_scale,
    within_deviations,
)


def test_shrunk_covariance_is_that_of_scikit_learn(rng):
    W = rng.normal(size=(30, 6)) @ rng.normal(size=(6, 6))
    np.testing.assert_allclose(oas_covariance(W), oas(W, assume_centered=True)[0])


def test_whitening_makes_the_covariance_within_classes_round(rng):
    X = rng.normal(size=(4000, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 40.0]])
    labels = np.arange(4000) % 2
    X[labels == 1] += 7.0
    covariance = np.cov(within_deviations(mapped(X, feature_map("whiten", X, labels)), labels).T)
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(3), atol=0.05)


def test_within_scale_ignores_the_distance_between_classes(rng):
    X = rng.normal(size=(300, 2)) * [1.0, 10.0]
    labels = np.arange(300) % 3
    moved = X + 1000.0 * labels[:, np.newaxis]
    np.testing.assert_allclose(within_class_scale(moved, labels), within_class_scale(X, labels), rtol=1e-9)
    assert within_class_scale(X, labels)[1] / within_class_scale(X, labels)[0] == pytest.approx(10, rel=0.15)


def test_constant_features_get_the_scale_of_the_others(rng):
    X = np.column_stack([rng.normal(size=(50, 2)), np.full(50, 3.0)])
    scale = within_class_scale(X, np.zeros(50))
    assert scale[2] == pytest.approx(np.sqrt(np.mean(scale[:2] ** 2)))
    assert within_class_scale(np.ones((5, 2)), np.zeros(5)).tolist() == [1.0, 1.0]


def test_candidates(rng):
    X, labels = rng.normal(size=(100, 4)), np.arange(100) % 2
    assert candidate_metrics(X, labels) == ["whiten", "within", "euclidean"]
    assert candidate_metrics(X[:15], labels[:15]) == ["within", "euclidean"]
    assert candidate_metrics(X, np.zeros(100)) == ["euclidean"]
    skewed = rng.normal(size=(100, 8)) * [1e4, 1, 1, 1, 1, 1, 1, 1]
    assert participation(skewed, labels) == pytest.approx(1 / 8, rel=1e-3)
    assert candidate_metrics(skewed, labels) == ["whiten", "within"]
    assert candidate_metrics(skewed, np.zeros(100)) == ["within"]


def test_a_sparse_feature_does_not_rule():
    """One sample in a hundred is lit: its scale is a good part of its range, not a tenth of it."""
    X = np.zeros((100, 2))
    X[0, 0] = 1.0
    X[:, 1] = np.linspace(-1, 1, 100)
    scale = within_class_scale(X, np.zeros(100))
    assert scale[0] == pytest.approx(0.31, abs=0.02)


def test_the_scale_is_a_fourth_moment(rng):
    X, labels = rng.normal(size=(50, 3)) * [1.0, 5.0, 0.1], np.arange(50) % 2
    W = within_deviations(X, labels)
    np.testing.assert_allclose(within_class_scale(X, labels), np.mean(W**4, axis=0) ** 0.25)


@pytest.mark.parametrize("metric", ["within", "whiten"])
def test_units_do_not_matter(rng, metric):
    X, labels = rng.normal(size=(60, 3)), np.arange(60) % 2
    units = np.array([1e-3, 1.0, 1e3])
    one, other = (mapped(Z, feature_map(metric, Z, labels)) for Z in (X, X * units))
    np.testing.assert_allclose(other @ other.T, one @ one.T, atol=1e-9)


@pytest.mark.parametrize(("share", "together"), [(0.24, False), (0.26, True)])
def test_features_share_a_unit_while_a_quarter_of_them_carries_the_distance(rng, share, together):
    """Of 100 features that vary alike, a share varies and the others hardly do."""
    X, labels = rng.choice([-1.0, 1.0], size=(400, 100)), np.arange(400) % 2
    X[:, round(100 * share) :] *= 1e-6
    assert participation(X, labels) == pytest.approx(share, rel=0.01)
    assert ("euclidean" in candidate_metrics(X, labels)) == together


def test_enough_samples_for_a_covariance_are_five_for_each_feature(rng):
    X, labels = rng.normal(size=(20, 4)), np.arange(20) % 2
    assert candidate_metrics(X, labels)[0] == "whiten"
    assert candidate_metrics(X[:19], labels[:19])[0] == "within"


def test_nothing_varies_within_the_classes():
    X, labels = np.repeat([[0.0, 0.0], [1.0, 2.0]], 3, axis=0), np.repeat([0, 1], 3)
    assert participation(X, labels) == 1.0
    np.testing.assert_array_equal(feature_map("whiten", X, labels), np.ones(2))
