"""Open-set metrics against scikit-learn, brute force over thresholds, and what chance must give."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score, roc_curve

from outlark import metrics

CLASSES = np.array([3, 5, 8])
UNKNOWNS = (-1, 7)
# A busy machine is no failure.
patient = settings(deadline=None, max_examples=30)
Data = tuple[np.ndarray, np.ndarray, np.ndarray]
SCORE_METRICS = [
    metrics.auroc,
    metrics.oscr,
    metrics.fpr_at_tpr,
    metrics.ccr_at_fpr,
    metrics.accuracy_known,
]


@st.composite
def problems(draw: Callable, levels: int = 4) -> Data:
    """Labels with at least one known and one unknown, and scores of few levels, so that ties are the rule."""
    y = [*draw(st.lists(st.sampled_from([*CLASSES.tolist(), *UNKNOWNS]), max_size=20)), 3, 7]
    n = len(y) * len(CLASSES)
    scores = draw(st.lists(st.integers(0, levels - 1), min_size=n, max_size=n))
    return np.array(y), np.array(scores, dtype=float).reshape(len(y), -1), CLASSES


def random_problem(rng: np.random.Generator, n: int = 200) -> Data:
    y = rng.choice([*CLASSES, *UNKNOWNS], n)
    return y, rng.normal(size=(n, 3)) + 1.5 * (y[:, None] == CLASSES), CLASSES


def credit_of(y: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Expected correctness under a random choice among the best classes, sample by sample."""
    credit = []
    for label, row in zip(y, scores, strict=True):
        best = [c for c, s in zip(classes, row, strict=True) if s == max(row)]
        credit.append(best.count(label) / len(best))
    return np.array(credit)


@patient
@given(problems())
def test_auroc_is_that_of_scikit_learn(data: Data) -> None:
    y, scores, classes = data
    assert metrics.auroc(*data) == pytest.approx(roc_auc_score(np.isin(y, classes), scores.max(axis=1)))


@patient
@given(problems())
def test_oscr_curve_counts_what_each_threshold_accepts(data: Data) -> None:
    y, scores, classes = data
    known, best, credit = np.isin(y, classes), scores.max(axis=1), credit_of(*data)
    fpr, ccr, thresholds = metrics.oscr_curve(*data)
    assert thresholds.tolist() == [np.inf, *sorted(set(best), reverse=True)]
    for f, c, threshold in zip(fpr, ccr, thresholds, strict=True):
        assert f == pytest.approx(np.mean(best[~known] >= threshold))
        assert c == pytest.approx(np.mean((credit * (best >= threshold))[known]))


@patient
@given(problems())
def test_oscr_is_the_share_of_right_pairs(data: Data) -> None:
    """Area = mean over (known, unknown) pairs of: known is right and scores higher; a tie is half."""
    y, scores, classes = data
    known, best, credit = np.isin(y, classes), scores.max(axis=1), credit_of(*data)
    pairs = [
        c * (0.5 * (s == t) + (s > t)) for c, s in zip(credit[known], best[known], strict=True) for t in best[~known]
    ]
    assert metrics.oscr(*data) == pytest.approx(np.mean(pairs))


@patient
@given(problems(levels=1000), st.sampled_from([0.0, 0.3, 0.5, 0.95, 1.0]))
def test_fpr_at_tpr_is_the_first_point_of_the_roc_curve_when_nothing_ties(data: Data, tpr: float) -> None:
    y, scores, classes = data
    scores = scores + np.arange(len(y))[:, None] * 1e-4  # no two samples alike
    known = np.isin(y, classes)
    false_rate, rate, _ = roc_curve(known, scores.max(axis=1), drop_intermediate=False)
    assert metrics.fpr_at_tpr(y, scores, classes, tpr=tpr) == pytest.approx(false_rate[rate >= tpr].min())


@patient
@given(problems(levels=1000), st.sampled_from([0.0, 0.01, 0.3, 0.5, 1.0]))
def test_ccr_at_fpr_is_the_last_point_of_the_curve_when_nothing_ties(data: Data, fpr: float) -> None:
    y, scores, classes = data
    scores = scores + np.arange(len(y))[:, None] * 1e-4
    known, best = np.isin(y, classes), scores.max(axis=1)
    right = credit_of(y, scores, classes)
    allowed = [t for t in [np.inf, *best] if np.mean(best[~known] >= t) <= fpr]
    brute = max(np.mean((right * (best >= t))[known]) for t in allowed)
    assert metrics.ccr_at_fpr(y, scores, classes, fpr=fpr) == pytest.approx(brute)


def test_ties_at_the_operating_point_are_shared() -> None:
    y, scores = ["a", "a", "a", "a", "?", "?"], np.array([[2.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
    # The tied group at 1 brings two knowns and one unknown; half of it brings one and a half.
    assert metrics.fpr_at_tpr(y, scores, ["a"], tpr=0.75) == pytest.approx(0.5)
    assert metrics.fpr_at_tpr(y, scores, ["a"], tpr=0.5) == pytest.approx(0.25)
    assert metrics.ccr_at_fpr(y, scores, ["a"], fpr=0.25) == pytest.approx(0.5)


@patient
@given(problems())
def test_accuracy_shares_ties_between_the_classes(data: Data) -> None:
    known = np.isin(data[0], CLASSES)
    assert metrics.accuracy_known(*data) == pytest.approx(credit_of(*data)[known].mean())


@pytest.mark.parametrize("metric", SCORE_METRICS)
def test_neither_order_nor_a_monotone_map_nor_infinities_matter(metric: Callable, rng: np.random.Generator) -> None:
    y, scores, classes = random_problem(rng)
    value = metric(y, scores, classes)
    samples, columns = rng.permutation(len(y)), [2, 0, 1]
    assert metric(y[samples], scores[samples], classes) == pytest.approx(value)
    assert metric(y, scores[:, columns], classes[columns]) == pytest.approx(value)
    assert metric(y, np.exp(scores), classes) == pytest.approx(value)
    scores[scores == scores.max()] = np.inf
    scores[scores == scores.min()] = -np.inf
    assert metric(y, scores, classes) == pytest.approx(value)


@pytest.mark.parametrize("metric", SCORE_METRICS)
@pytest.mark.parametrize("container", [list, pd.Series, lambda y: np.array(y, dtype=object)])
def test_labels_may_be_mixed_and_of_any_container(metric: Callable, container: Callable) -> None:
    scores = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.5], [0.2, 0.1]])
    mixed = container([0, 1, "unknown", 0])
    assert metric(mixed, scores, [0, 1]) == metric(np.array([0, 1, -1, 0]), scores, [0, 1])


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_a_constant_scorer_is_at_chance_everywhere(n_classes: int, rng: np.random.Generator) -> None:
    classes = CLASSES[:n_classes]
    y = rng.choice([*classes, *UNKNOWNS], 57)
    report = metrics.open_set_report(y, np.full((57, n_classes), 2.5), classes, np.full(57, -1), -1)
    for name, chance in report.chance.items():
        assert getattr(report, name) == pytest.approx(chance), name


def test_a_perfect_scorer_reaches_the_best_values(rng: np.random.Generator) -> None:
    y = np.array([3, 5, 8, 7, 7, -1])
    scores = (y[:, None] == CLASSES) + 0.1 * rng.random((6, 3))
    report = metrics.open_set_report(y, scores, CLASSES, np.where(np.isin(y, CLASSES), y, -1), -1)
    best = {"fpr_at_95_tpr": 0.0}
    for name in report.chance:
        assert getattr(report, name) == pytest.approx(best.get(name, 1.0)), name


def test_report_holds_the_single_metrics_and_prints_them(rng: np.random.Generator) -> None:
    data = random_problem(rng)
    predicted = np.where(data[1].max(axis=1) > 0.5, CLASSES[data[1].argmax(axis=1)], -1)
    report = metrics.open_set_report(*data, predicted, -1)
    assert report.auroc == metrics.auroc(*data)
    assert report.oscr == metrics.oscr(*data)
    assert report.fpr_at_95_tpr == metrics.fpr_at_tpr(*data, tpr=0.95)
    assert report.ccr_at_1_fpr == metrics.ccr_at_fpr(*data, fpr=0.01)
    assert report.ccr_at_10_fpr == metrics.ccr_at_fpr(*data, fpr=0.1)
    assert report.accuracy_known == metrics.accuracy_known(*data)
    known = int(np.isin(data[0], CLASSES).sum())
    assert (report.n_known, report.n_unknown) == (known, 200 - known)
    text = str(report)
    assert text.startswith(f"{known} known and {200 - known} unknown samples\n")
    assert f"{report.oscr:.3f}   0.167    high" in text
    assert str(report.confusion) in text
    flat = report.as_dict()
    assert flat["oscr"] == report.oscr
    assert flat["oscr_chance"] == pytest.approx(1 / 6)
    assert {"n_known", "macro_f_open", "macro_f_open_chance"} <= set(flat)
    assert all(isinstance(value, float | int) for value in flat.values())


@patient
@given(problems())
def test_macro_f_is_that_of_scikit_learn(data: Data) -> None:
    y, scores, classes = data
    predicted = np.where(scores.max(axis=1) > 1, classes[scores.argmax(axis=1)], -1)
    report = metrics.open_set_report(*data, predicted, -1)
    true = np.where(np.isin(y, classes), y, -1)
    for labels, value in [(classes, report.macro_f_classes), ([*classes, -1], report.macro_f_open)]:
        expected = f1_score(true, predicted, labels=labels, average="macro", zero_division=np.nan)
        assert value == pytest.approx(expected, nan_ok=True)


def test_a_category_that_does_not_occur_has_no_f_in_any_metric() -> None:
    """Neither punished nor rewarded: the mean is over what occurs, in the report as in `window_f` and `note_f`."""
    y, predicted, scores = ["a", "a", "?"], ["a", "a", "?"], [[2.0, 0.0], [2.0, 0.0], [0.0, 0.0]]
    report = metrics.open_set_report(y, scores, ["a", "b"], predicted, "?")
    assert (report.macro_f_classes, report.macro_f_open) == (1.0, 1.0)
    for function in (metrics.window_f, metrics.note_f):
        found = function(y, predicted, ["a", "b"], "?")
        assert np.isnan(found.per_class[1])
        assert (found.macro_known, found.macro_all) == (1.0, 1.0)
        assert report.chance["macro_f_open"] == found.chance["macro_all"]
    closed = metrics.open_set_report(["a", "b"], scores[:2], ["a", "b"], ["a", "a"], "?")
    assert closed.macro_f_classes == closed.macro_f_open == pytest.approx(1 / 3)


def test_report_without_unknowns_or_without_knowns_says_what_it_can() -> None:
    scores = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    closed = metrics.open_set_report(["a", "b", "b"], scores, ["a", "b"])
    assert np.isnan([closed.auroc, closed.oscr, closed.fpr_at_95_tpr, closed.ccr_at_1_fpr]).all()
    assert closed.accuracy_known == pytest.approx(2 / 3)
    assert "AUROC" not in str(closed)
    none = metrics.open_set_report(["?", "?", "?"], scores, ["a", "b"])
    assert np.isnan([none.auroc, none.accuracy_known]).all()
    assert none.confusion is None
    assert "macro F" not in str(none)


def test_confusion_matrix_is_that_of_scikit_learn(rng: np.random.Generator) -> None:
    y, predicted = rng.choice([*CLASSES, *UNKNOWNS], 100), rng.choice([*CLASSES, -1], 100)
    matrix = metrics.open_set_confusion_matrix(y, predicted, CLASSES, -1)
    merged = np.where(np.isin(y, CLASSES), y, -1)
    np.testing.assert_array_equal(matrix.counts, confusion_matrix(merged, predicted, labels=[*CLASSES, -1]))
    assert matrix.row_labels == matrix.column_labels == (3, 5, 8, -1)


def test_confusion_matrix_can_keep_each_unknown_class_as_a_row() -> None:
    matrix = metrics.open_set_confusion_matrix(
        ["b", "a", "z", "x", "x", "b"], ["b", "?", "a", "?", "?", "a"], ["a", "b"], "?", rows="all"
    )
    assert matrix.row_labels == ("a", "b", "x", "z")
    assert matrix.column_labels == ("a", "b", "?")
    assert matrix.counts.tolist() == [[0, 0, 1], [1, 1, 0], [0, 0, 2], [1, 0, 0]]
