"""The choice of metric and regulariser: cross-validation written out, and what data make it choose."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from outlark.maths import choice
from outlark.maths.choice import Trial, auc, choose, left_out_auc, note_folds, within_class_scale
from outlark.maths.description import describe, distances
from outlark.maths.gp import target
from tests.toy_notes import notes


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
    assert (winner.metric, winner.ratio, trials) == ("euclidean", 0.1, [])
    assert np.isnan(winner.auc)
    assert isinstance(winner, Trial)
