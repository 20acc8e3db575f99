"""Metric, regulariser, subsets and size correction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.covariance import oas
from sklearn.metrics import roc_auc_score

from outlark.maths.choice import auc, choose, left_out_auc, note_folds
from outlark.maths.description import describe, distances
from outlark.maths.gp import target
from outlark.maths.metric import (
    candidate_metrics,
    feature_map,
    mapped,
    oas_covariance,
    participation,
    within_class_scale,
    within_deviations,
)
from outlark.maths.notes import balanced_subset, draw_notes, leave_out_parts, merge_copies, parts_of, same_samples
from outlark.maths.size import Setting, Size, mean_left_out_score, size_factor
from tests.toy_notes import notes


def test_auc_is_that_of_scikit_learn(rng):
    own, others = rng.integers(0, 6, 40), rng.integers(0, 5, 60)  # many ties
    expected = roc_auc_score(np.repeat([1, 0], [40, 60]), np.concatenate([own, others]))
    assert auc(own, others) == pytest.approx(expected)


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


def test_subset_is_balanced_and_keeps_notes_whole(rng):
    _, labels, groups = notes(rng, [20, 3, 20], n=10)
    rows = balanced_subset(labels, groups, 130, rng)
    counts = np.bincount(labels[rows])
    assert counts.sum() <= 130
    assert counts.tolist() == [50, 30, 50]
    for g in np.unique(groups[rows]):
        assert np.sum(groups[rows] == g) == 10
    np.testing.assert_array_equal(rows, np.sort(rows))


def test_drawing_thins_only_when_needed(rng):
    groups = np.repeat(np.arange(5), 4)
    assert len(draw_notes(groups, 2, 100, rng)) == 8
    assert len(np.unique(groups[draw_notes(groups, 3, 6, rng)])) <= 3
    assert len(draw_notes(groups, 3, 6, rng)) == 6


def test_what_is_left_out():
    assert [p.tolist() for p in leave_out_parts(np.array([1, 1, 2]))] == [[0, 1], [2]]
    assert len(leave_out_parts(np.zeros(23))) == 5
    assert leave_out_parts(np.zeros(1)) == []


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-4, 0.1])
def test_size_factor_brings_a_large_class_to_the_score_of_a_small_one(rng, center, ratio):
    large, small = rng.normal(size=(600, 2)), [rng.normal(size=(60, 2)) for _ in range(10)]
    setting = Setting(3.0, ratio, center)
    own_mean = mean_left_out_score(large, np.arange(600), setting)
    factor = size_factor(0, [large], [np.arange(600)], own_mean, Size(60, 60), setting)
    at_full = mean_left_out_score(large, np.arange(600), setting)
    at_small = np.mean([mean_left_out_score(Z, np.arange(60), setting) for Z in small])
    assert factor * at_full == pytest.approx(at_small, rel=0.04)
    assert at_full > 1.2 * at_small


def test_copies_are_one_note():
    X = np.arange(12.0).reshape(6, 2)
    assert merge_copies(X, np.arange(6)).tolist() == list(range(6))
    doubled = np.concatenate([X, X[:2]])
    assert merge_copies(doubled, np.arange(8)).tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    # notes of three samples: the second shares one with the first, the third two
    X = np.array([[0.0], [1.0], [2.0], [2.0], [3.0], [4.0], [0.0], [1.0], [9.0]])
    first, second, third = merge_copies(X, np.repeat([7, 8, 9], 3))[[0, 3, 6]]
    assert first == third != second


def test_the_same_samples_are_those_of_brute_force(rng):
    X = rng.normal(size=(60, 3))
    X = np.concatenate([X, X[:20] + 1e-6, X[:10]])
    limit = 1e-3 * np.median(cdist(X, X))
    number = same_samples(X)
    np.testing.assert_array_equal(number[:, None] == number, cdist(X, X) < limit)
    assert same_samples(np.zeros((3, 2))).tolist() == [0, 0, 0]


def test_a_sparse_feature_does_not_rule():
    """One sample in a hundred is lit: its scale is a good part of its range, not a tenth of it."""
    X = np.zeros((100, 2))
    X[0, 0] = 1.0
    X[:, 1] = np.linspace(-1, 1, 100)
    scale = within_class_scale(X, np.zeros(100))
    assert scale[0] == pytest.approx(0.31, abs=0.02)


def test_blocks_are_consecutive():
    parts = leave_out_parts(np.zeros(10))
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_parts_keep_the_order_of_appearance():
    parts = parts_of(np.array([5, 5, 2, 9, 2]))
    assert [part.tolist() for part in parts] == [[0, 1], [2, 4], [3]]
