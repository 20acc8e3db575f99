"""All open-set metrics at once, each beside its chance level."""

from collections.abc import Hashable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.metrics import open_set
from outlark.metrics.confusion import ConfusionMatrix, aligned_table, open_set_confusion_matrix
from outlark.metrics.labels import label_index, label_list


@dataclass(frozen=True)
class OpenSetReport:
    """What `open_set_report` found. NaN: not defined for these samples.

    Attributes
    ----------
    n_known, n_unknown : int
    auroc, oscr, fpr_at_95_tpr, ccr_at_1_fpr, ccr_at_10_fpr, aurc, augrc, accuracy_known : float
        See the functions of these names; the numbers are per cent.
    macro_f_classes, macro_f_open : float
        Mean F over the classes, and over the classes and the unknown category; NaN without predictions.
    chance : dict of str to float
        For each metric, its value for a scorer that knows nothing.
    confusion : ConfusionMatrix or None
    """

    n_known: int
    n_unknown: int
    auroc: float
    oscr: float
    fpr_at_95_tpr: float
    ccr_at_1_fpr: float
    ccr_at_10_fpr: float
    aurc: float
    augrc: float
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
            value = getattr(self, name)
            if not np.isnan(value):
                rows.append([_TITLES[name], f"{value:.3f}", f"{chance:.3f}", "low" if name in _LOW else "high"])
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
    """Every open-set metric of one scorer, with its chance level.

    Chance is a scorer that says the same of everything: its scores do not separate known from unknown, and it picks
    the right one of C classes once in C. For the F scores it is the same predictions in shuffled order: a label that
    is true for the share p and predicted for the share q has F = 2pq/(p + q).

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
        What ``y_pred`` says of a rejected sample; not needed when it rejects none.

    Returns
    -------
    OpenSetReport
        Prints as a table. What needs unknowns (or knowns) is NaN where there are none.

    Raises
    ------
    InputError
        If shapes do not fit, a score is NaN, or the predictions are refused by `open_set_confusion_matrix`.

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
    data = (y_true, class_scores, classes)
    values = {
        "aurc": open_set.aurc(*data),
        "augrc": open_set.augrc(*data),
        "accuracy_known": open_set.accuracy_known(*data) if n_known else np.nan,
        **(_separation(*data) if n_known and n_unknown else dict.fromkeys(_SEPARATION, np.nan)),
    }
    chance = _chance(n_known / (n_known + n_unknown), len(known))
    confusion = None
    f_scores = shuffled = np.full(len(known) + 1, np.nan)
    if y_pred is not None:
        confusion = open_set_confusion_matrix(y_true, y_pred, classes, unknown_label)
        f_scores, shuffled = _f_scores(confusion.counts)
    values |= {"macro_f_classes": f_scores[:-1].mean(), "macro_f_open": f_scores.mean()}
    chance |= {"macro_f_classes": float(shuffled[:-1].mean()), "macro_f_open": float(shuffled.mean())}
    numbers = {name: float(value) for name, value in values.items()}
    return OpenSetReport(n_known, n_unknown, **numbers, chance=chance, confusion=confusion)


_TITLES = {
    "auroc": "AUROC",
    "oscr": "OSCR",
    "fpr_at_95_tpr": "FPR at 95 % TPR",
    "ccr_at_1_fpr": "CCR at 1 % FPR",
    "ccr_at_10_fpr": "CCR at 10 % FPR",
    "aurc": "AURC",
    "augrc": "AUGRC",
    "accuracy_known": "accuracy on knowns",
    "macro_f_classes": "macro F, classes",
    "macro_f_open": "macro F, classes and unknown",
}
_LOW = ("fpr_at_95_tpr", "aurc", "augrc")
_SEPARATION = ("auroc", "oscr", "fpr_at_95_tpr", "ccr_at_1_fpr", "ccr_at_10_fpr")


def _separation(y_true: ArrayLike, class_scores: ArrayLike, classes: ArrayLike) -> dict[str, float]:
    data = (y_true, class_scores, classes)
    return {
        "auroc": open_set.auroc(*data),
        "oscr": open_set.oscr(*data),
        "fpr_at_95_tpr": open_set.fpr_at_tpr(*data, tpr=0.95),
        "ccr_at_1_fpr": open_set.ccr_at_fpr(*data, fpr=0.01),
        "ccr_at_10_fpr": open_set.ccr_at_fpr(*data, fpr=0.1),
    }


def _chance(known_share: float, n_classes: int) -> dict[str, float]:
    accuracy = 1 / n_classes
    error = 1 - known_share * accuracy
    return {
        "auroc": 0.5,
        "oscr": accuracy / 2,
        "fpr_at_95_tpr": 0.95,
        "ccr_at_1_fpr": 0.01 * accuracy,
        "ccr_at_10_fpr": 0.1 * accuracy,
        "aurc": error,
        "augrc": error / 2,
        "accuracy_known": accuracy,
    }


def _f_scores(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F = TP / (TP + (FP + FN)/2) per category, of these counts and of shuffled predictions; 0 where there is none."""
    true, predicted = counts.sum(axis=1), counts.sum(axis=0)
    half_sum = np.maximum((true + predicted) / 2, 0.5)
    return counts.diagonal() / half_sum, true * predicted / counts.sum() / half_sum
