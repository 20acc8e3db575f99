"""The metric and the regulariser: scikit-learn's covariance, cross-validation written out, what data make it choose."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import oas
from sklearn.metrics import roc_auc_score

from outlark.maths import choice
from outlark.maths.choice import (
    ChoiceTrial,
    auc,
    candidate_metrics,
    choose,
    feature_map,
    left_out_auc,
    note_folds,
    oas_covariance,
    participation,
    within_class_scale,
    within_deviations,
)
from outlark.maths.description import describe, distances, mapped
from outlark.maths.gp import target
from tests.toy_notes import notes


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
    assert candidate_metrics("auto", X, labels) == ["whiten", "within", "euclidean"]
    assert candidate_metrics("auto", X[:15], labels[:15]) == ["within", "euclidean"]
    assert candidate_metrics("within", X, labels) == ["within"]
    assert candidate_metrics("global", X, labels) == ["whiten", "within", "euclidean"]
    assert candidate_metrics("auto", X, np.zeros(100)) == ["local"]
    assert candidate_metrics("global", X, np.zeros(100)) == ["euclidean"]
    skewed = rng.normal(size=(100, 8)) * [1e4, 1, 1, 1, 1, 1, 1, 1]
    assert participation(skewed, labels) == pytest.approx(1 / 8, rel=1e-3)
    assert candidate_metrics("auto", skewed, labels) == ["whiten", "within"]
    assert candidate_metrics("global", skewed, np.zeros(100)) == ["within"]


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
    assert ("euclidean" in candidate_metrics("auto", X, labels)) == together


def test_enough_samples_for_a_covariance_are_five_for_each_feature(rng):
    X, labels = rng.normal(size=(20, 4)), np.arange(20) % 2
    assert candidate_metrics("auto", X, labels)[0] == "whiten"
    assert candidate_metrics("auto", X[:19], labels[:19])[0] == "within"


def test_nothing_varies_within_the_classes():
    X, labels = np.repeat([[0.0, 0.0], [1.0, 2.0]], 3, axis=0), np.repeat([0, 1], 3)
    assert participation(X, labels) == 1.0
    np.testing.assert_array_equal(feature_map("whiten", X, labels), np.ones(2))


def test_auc_is_that_of_scikit_learn(rng):
    own, others = rng.integers(0, 6, 40), rng.integers(0, 5, 60)  # many ties
    expected = roc_auc_score(np.repeat([1, 0], [40, 60]), np.concatenate([own, others]))
    assert auc(own, others) == pytest.approx(expected)


def test_left_out_auc_is_cross_validation_written_out(rng):
    X, labels, groups = notes(rng, [4, 4], spread=2.5)
    fold = note_folds(labels, groups, rng)
    found = left_out_auc(X, labels, fold, "within", 2.0, 0.01)
    scores = np.empty((len(X), 2))
    for f in np.unique(fold):
        inside = fold != f
        scale = within_class_scale(X[inside], labels[inside])
        for c in (0, 1):
            description = describe(X[inside & (labels == c)] / scale, 2.0, 0.01)
            scores[~inside, c] = -distances(description, X[~inside] / scale)
    assert found == pytest.approx(np.mean([roc_auc_score(labels == c, scores[:, c]) for c in (0, 1)]))
    assert found < 0.99


@settings(max_examples=30, deadline=None)
@given(counts=st.lists(st.integers(2, 8), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_folds_keep_notes_whole_and_leave_something_of_every_class(counts, seed):
    rng = np.random.default_rng(seed)
    _, labels, groups = notes(rng, counts, n=3)
    fold = note_folds(labels, groups, rng)
    for g in np.unique(groups):
        assert len(np.unique(fold[groups == g])) == 1
    for f in np.unique(fold):
        assert set(labels[fold != f]) == set(labels)


def test_notes_are_dealt_out_over_five_folds(rng):
    _, labels, groups = notes(rng, [3, 5, 12], n=2)
    fold = note_folds(labels, groups, rng)
    assert [len(np.unique(fold[labels == c])) for c in range(3)] == [3, 5, 5]
    assert np.bincount(fold[labels == 2]).tolist() == [6, 6, 4, 4, 4]  # samples of 12 notes


def test_noise_asks_for_a_larger_regulariser_than_smooth_notes(rng):
    """ρ follows the data: overlapping clouds need smoothing, clean paths do not."""
    ratios = (1e-1, 1e-6)
    settings_ = {"metric": "euclidean", "ratios": ratios, "target_of": lambda Z: target(Z - Z.mean(axis=0))}
    fixed = {"sigma": None, "length_scale": None}
    clouds = np.concatenate([rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) + 1.5])
    labels = np.repeat([0, 1], 150)
    winner, trials = choose(clouds, labels, np.arange(300), **settings_, fixed=fixed, rng=np.random.default_rng(0))
    assert winner.ratio == 1e-1
    assert [t.ratio for t in trials] == list(ratios)
    # two rings close to each other: only an exact description keeps them apart
    angle = rng.uniform(0, 2 * np.pi, size=300)
    rings = np.column_stack([np.cos(angle), np.sin(angle)]) * np.repeat([1.0, 1.1], 150)[:, np.newaxis]
    winner, _ = choose(rings, labels, np.arange(300), **settings_, fixed=fixed, rng=np.random.default_rng(0))
    assert winner.ratio == 1e-6


def chosen_ratio(aucs, monkeypatch):
    """The ρ that is chosen when each has this AUC."""
    ratios = tuple(aucs)
    monkeypatch.setattr(choice, "left_out_auc", lambda X, labels, fold, metric, ell, ratio: aucs[ratio])
    X, labels = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    winner, trials = choose(
        X, labels, np.arange(20), metric="euclidean", ratios=ratios, target_of=target,
        fixed={"sigma": 1.0, "length_scale": 1.0}, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert {t.ratio for t in trials} == set(ratios)
    return winner.ratio


def test_a_smaller_regulariser_must_earn_its_place(monkeypatch):
    """Only where it lowers the error by more than a tenth; the largest wins ties and near ties."""
    assert chosen_ratio({0.1: 0.90, 0.01: 0.90, 1e-4: 0.90}, monkeypatch) == 0.1
    assert chosen_ratio({0.1: 0.90, 0.01: 0.905, 1e-4: 0.90}, monkeypatch) == 0.1  # .095 of error is not below .09
    assert chosen_ratio({0.1: 0.90, 0.01: 0.915, 1e-4: 0.92}, monkeypatch) == 0.01
    assert chosen_ratio({0.1: 0.90, 0.01: 0.80, 1e-4: 0.92}, monkeypatch) == 1e-4


def test_one_class_has_nothing_to_choose_by(rng):
    winner, trials = choose(
        rng.normal(size=(20, 3)), np.zeros(20, int), np.arange(20), metric="auto", ratios=(0.1, 0.01),
        target_of=target, fixed={"sigma": None, "length_scale": None}, rng=rng,
    )  # fmt: skip
    assert (winner.metric, winner.ratio, trials) == ("local", 0.1, [])
    assert np.isnan(winner.auc)
    assert isinstance(winner, ChoiceTrial)
