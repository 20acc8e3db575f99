r"""How well scores tell classes apart *and* tell the known from the unknown.

Conventions
-----------
``y_true`` (n,) holds labels; every label that is not one of ``classes`` is an *unknown*. ``class_scores`` (n, C) are
high for members; column c belongs to ``classes[c]``. A sample's *confidence* is its best score, its predicted class the
column of the best score; a sample is *accepted* at threshold θ when its confidence is at least θ.

Ties never depend on the order of the samples or of the columns. Samples of equal confidence enter together, and a
curve is straight between its points. When m classes share the best score and the true one is among them, the sample
counts as 1/m correct. So a scorer that says the same of everything gets exactly the chance level of every metric.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.errors import InputError
from outlark.metrics.windows import (
    ConfusionMatrix,
    Floats,
    aligned_table,
    f_of_confusion,
    label_index,
    label_list,
    open_set_confusion_matrix,
)


def auroc(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike) -> float:
    r"""Area under the ROC curve of known against unknown.

    .. math:: P(s > s') + \tfrac12 P(s = s'), \quad s \text{ of a known},\ s' \text{ of an unknown sample}

    where s is the best score of a sample. Chance: .5; higher is better. Needs a known and an unknown sample. For
    ``y_true`` (n,), ``class_scores`` (n, C) and ``classes`` (C,) see the head of this module.

    Examples
    --------
    >>> auroc(["a", "b", "?", "?"], [[3, 0], [0, 2], [1, 1], [0, 2]], ["a", "b"])
    0.875
    """
    judged = _judge(y_true, class_scores, classes, need_both=True)
    _, known, unknown = _accepted(judged.confidence, judged.known, ~judged.known)
    return _area(unknown / unknown[-1], known / known[-1])


def oscr_curve(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike) -> tuple[Floats, Floats, Floats]:
    r"""Correct-classification rate of the knowns over the false-positive rate of the unknowns.

    .. math::
        \mathrm{CCR}(θ) = \frac{|\{\text{known, accepted, right class}\}|}{|\{\text{known}\}|}, \qquad
        \mathrm{FPR}(θ) = \frac{|\{\text{unknown, accepted}\}|}{|\{\text{unknown}\}|}

    Parameters are those of `auroc`.

    Returns
    -------
    fpr, ccr, thresholds : ndarray (m + 1,)
        One point per distinct confidence, from the strictest threshold (infinity: nothing accepted) to the laxest.

    Examples
    --------
    >>> fpr, ccr, thresholds = oscr_curve(["a", "b", "?"], [[3, 0], [1, 0], [2, 1]], ["a", "b"])
    >>> fpr.tolist(), ccr.tolist(), thresholds.tolist()
    ([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 0.5], [inf, 3.0, 2.0, 1.0])
    """
    judged = _judge(y_true, class_scores, classes, need_both=True)
    thresholds, correct, unknown = _accepted(judged.confidence, judged.credit, ~judged.known)
    return unknown / unknown[-1], correct / judged.known.sum(), thresholds


def oscr(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike) -> float:
    r"""Area under the open-set classification curve, :math:`\int \mathrm{CCR}\, d\,\mathrm{FPR}`.

    Never above the accuracy on the knowns, which it reaches when every unknown scores below every known.
    Chance: 1/(2C). Parameters are those of `auroc`; higher is better.

    Examples
    --------
    >>> oscr(["a", "b", "?"], [[3, 0], [1, 0], [2, 1]], ["a", "b"])
    0.5
    """
    fpr, ccr, _ = oscr_curve(y_true, class_scores, classes)
    return _area(fpr, ccr)


def fpr_at_tpr(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike, *, tpr: float = 0.95) -> float:
    """Share of the unknowns that is accepted where the share ``tpr`` of the knowns is.

    The smallest such share: the threshold is the highest that accepts enough knowns. When knowns and unknowns tie
    there, the part of the tied group that is needed is taken at random, in expectation. Chance: ``tpr``. Parameters
    are those of `auroc`, and ``tpr`` must be in [0, 1]; lower is better.

    Examples
    --------
    >>> fpr_at_tpr(["a", "a", "?", "?"], [[4], [2], [3], [1]], ["a"], tpr=0.95)
    0.5
    """
    _check_share(tpr, "tpr")
    judged = _judge(y_true, class_scores, classes, need_both=True)
    _, known, unknown = _accepted(judged.confidence, judged.known, ~judged.known)
    rate, false_rate = known / known[-1], unknown / unknown[-1]
    end = int(np.searchsorted(rate, tpr, side="left"))
    return _between(rate, false_rate, end, tpr) if end else 0.0


def ccr_at_fpr(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike, *, fpr: float = 0.01) -> float:
    """Share of the knowns that is accepted and rightly classified where the share ``fpr`` of the unknowns is accepted.

    The largest such share: the threshold is the lowest that accepts no more unknowns. Ties of knowns and unknowns as in
    `fpr_at_tpr`. Chance: ``fpr / C``. Parameters are those of `auroc`, and ``fpr`` must be in [0, 1];
    higher is better.

    Examples
    --------
    >>> ccr_at_fpr(["a", "a", "?", "?"], [[4], [2], [3], [1]], ["a"], fpr=0.01)
    0.5
    """
    _check_share(fpr, "fpr")
    false_rate, ccr, _ = oscr_curve(y_true, class_scores, classes)
    end = int(np.searchsorted(false_rate, fpr, side="right"))
    return _between(false_rate, ccr, end, fpr) if end < len(ccr) else float(ccr[-1])


def accuracy_known(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike) -> float:
    """Share of the known samples whose best score is that of their class (closed set: nothing is rejected).

    Chance: 1/C. Parameters are those of `auroc`, but no unknown is needed; higher is better.

    Examples
    --------
    >>> accuracy_known(["a", "b", "?"], [[3, 0], [1, 0], [2, 1]], ["a", "b"])
    0.5
    """
    judged = _judge(y_true, class_scores, classes)
    if not judged.known.any():
        raise InputError(_none_of("known", classes))
    return float(judged.credit.sum() / judged.known.sum())


#: In a report: the title of each metric of the scores, its value, and its chance level with one class.
_SCORE_METRICS: dict[str, tuple[str, Callable[..., float], float]] = {
    "auroc": ("AUROC", auroc, 0.5),
    "oscr": ("OSCR", oscr, 0.5),
    "fpr_at_95_tpr": ("FPR at 95 % TPR", fpr_at_tpr, 0.95),
    "ccr_at_1_fpr": ("CCR at 1 % FPR", ccr_at_fpr, 0.01),
    "ccr_at_10_fpr": ("CCR at 10 % FPR", partial(ccr_at_fpr, fpr=0.1), 0.1),
    "accuracy_known": ("accuracy on knowns", accuracy_known, 1.0),
}
_F_TITLES = {"macro_f_classes": "macro F, classes", "macro_f_open": "macro F, classes and unknown"}
#: Those that have nothing to do with the number of classes.
_OF_REJECTION = ("auroc", "fpr_at_95_tpr")


@dataclass(frozen=True)
class OpenSetReport:
    """What `open_set_report` returns. NaN: undefined for these samples.

    The metrics are the functions of these names (the numbers are per cent); `macro_f_classes` and `macro_f_open` are
    the mean F over the classes, and over the classes and the unknown category, of those that occur, NaN without
    predictions. `chance` holds the value of each metric for a constant scorer.
    """

    n_known: int
    n_unknown: int
    auroc: float
    oscr: float
    fpr_at_95_tpr: float
    ccr_at_1_fpr: float
    ccr_at_10_fpr: float
    accuracy_known: float
    macro_f_classes: float
    macro_f_open: float
    chance: dict[str, float]
    confusion: ConfusionMatrix | None

    def as_dict(self) -> dict[str, float]:
        """Flat, for a table row: the counts, every metric, and its chance level as ``<metric>_chance``."""
        numbers = {field.name: getattr(self, field.name) for field in fields(self)[:-2]}
        return numbers | {f"{name}_chance": value for name, value in self.chance.items()}

    def __str__(self) -> str:
        rows = [["", "value", "chance", "better"]]
        for name, chance in self.chance.items():
            title, value = _F_TITLES.get(name) or _SCORE_METRICS[name][0], getattr(self, name)
            if not np.isnan(value):
                rows.append([title, f"{value:.3f}", f"{chance:.3f}", "low" if name == "fpr_at_95_tpr" else "high"])
        head = f"{self.n_known} known and {self.n_unknown} unknown samples"
        tables = [aligned_table(rows)] if self.confusion is None else [aligned_table(rows), str(self.confusion)]
        return "\n\n".join([head, *tables])


def open_set_report(
    y_true: ArrayLike,
    class_scores: ArrayLike,
    classes: ArrayLike,
    y_pred: ArrayLike | None = None,
    unknown_label: Hashable = None,
) -> OpenSetReport:
    """Every open-set metric of one scorer, with its chance level; prints as a table.

    Chance is a constant scorer: its scores do not separate known from unknown, and it picks the right one of C classes
    once in C. For the F scores it is the same predictions in shuffled order: a label that is true for the share p and
    predicted for the share q has F = 2pq/(p + q). As in `window_f`, F means are over the categories that occur. What
    needs unknowns (or knowns) is NaN without them.

    Parameters
    ----------
    y_true : array-like (n,)
        True labels; every label that is not one of ``classes`` is an unknown.
    class_scores : array-like (n, C)
        High = member.
    classes : array-like (C,)
    y_pred : array-like (n,), optional
        Predicted labels, for the confusion matrix and the F scores.
    unknown_label : label, optional
        What ``y_pred`` calls a rejected sample; not needed when it rejects none.

    Examples
    --------
    >>> report = open_set_report(["a", "b", "?", "?"], [[3, 0], [0, 2], [1, 1], [0, 2]], ["a", "b"])
    >>> report.auroc, report.chance["auroc"]
    (0.875, 0.5)
    >>> print(str(report)[:95])
    2 known and 2 unknown samples
    <BLANKLINE>
                                    value  chance  better
    AUROC ...
    """
    known = label_index(classes)
    n_known = sum(label in known for label in label_list(y_true, "y_true"))
    n_unknown = len(label_list(y_true, "y_true")) - n_known
    values, chance = {}, {}
    for name, (_, metric, of_one_class) in _SCORE_METRICS.items():
        possible = n_known and (n_unknown or name == "accuracy_known")
        values[name] = metric(y_true, class_scores, classes) if possible else np.nan
        chance[name] = of_one_class / (1 if name in _OF_REJECTION else len(known))
    f = None
    if y_pred is not None:
        f = f_of_confusion(open_set_confusion_matrix(y_true, y_pred, classes, unknown_label))
    for name, ours in zip(_F_TITLES, ("macro_known", "macro_all"), strict=True):
        values[name], chance[name] = (np.nan, np.nan) if f is None else (getattr(f, ours), f.chance[ours])
    confusion = None if f is None else f.confusion
    return OpenSetReport(n_known, n_unknown, **values, chance=chance, confusion=confusion)


def _none_of(kind: str, classes: ArrayLike) -> str:
    return (
        f"y_true has no {kind} sample, expected at least one: known are the labels {label_list(classes, 'classes')}, "
        "unknown all others. Check that y_true and classes use the same labels."
    )


def _score_table(class_scores: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    """Scores as floats (n, C), none of them NaN; infinities are fine (the log of a density of 0)."""
    scores = np.asarray(class_scores, dtype=float)
    if scores.ndim != 2 or scores.shape[1] != n_classes:
        raise InputError(
            f"class_scores has shape {scores.shape}, expected (n_samples, {n_classes}): one column per class. "
            "Give a single class as one column, scores[:, None]."
        )
    if not len(scores):
        raise InputError("class_scores has no rows, expected at least one sample.")
    if np.isnan(scores).any():
        rows = np.flatnonzero(np.isnan(scores).any(axis=1))
        raise InputError(
            f"class_scores has NaN in {len(rows)} of {len(scores)} rows, first in row {rows[0]}. "
            "Fix the scorer or omit those samples."
        )
    return scores


def _check_share(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} is {value}, expected a share between 0 and 1.")


class _Judged(NamedTuple):
    confidence: Floats
    known: NDArray[np.bool_]
    credit: Floats


def _judge(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike, need_both: bool = False) -> _Judged:
    """Confidence (n,), is-known (n,) and share of correctness (n,) of every sample."""
    columns = label_index(classes)
    scores = _score_table(class_scores, len(columns))
    labels = label_list(y_true, "y_true")
    if len(labels) != len(scores):
        raise InputError(
            f"y_true has {len(labels)} labels but class_scores has {len(scores)} rows. Give one per sample."
        )
    column = np.array([columns.get(label, -1) for label in labels])
    known = column >= 0
    if need_both and not (known.any() and not known.all()):
        raise InputError(_none_of("unknown" if known.all() else "known", classes))
    confidence = scores.max(axis=1)
    best = scores == confidence[:, None]
    right = best[np.arange(len(scores)), column] & known
    return _Judged(confidence, known, right / best.sum(axis=1))


def _accepted(confidence: Floats, *amounts: ArrayLike) -> tuple[Floats, ...]:
    """The thresholds, strictest first, and the total of each amount over the samples accepted there."""
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    # The last sample of each tied group: only there may a threshold stand.
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    totals = [np.append(0.0, np.cumsum(np.asarray(a, dtype=float)[order])[ends]) for a in amounts]
    return np.append(np.inf, ordered[ends]), *totals


def _area(x: Floats, y: Floats) -> float:
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2)


def _between(x: Floats, y: Floats, end: int, at: float) -> float:
    """Y at ``at`` on the straight line from point ``end - 1`` to point ``end``."""
    part = (at - x[end - 1]) / (x[end] - x[end - 1])
    return float(y[end - 1] + part * (y[end] - y[end - 1]))
