"""The confusion matrix with an unknown category, and F scores of windows and notes (Sec. 4.3, Tables 1 and 2).

Also what all metrics share: labels as they take them, means, tables, confidence limits.

A category that is neither true nor predicted anywhere has an undefined F, NaN: there was nothing to get right and
nothing was got wrong, so 0 would punish and 1 would reward for no reason. Means are over the defined values.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.errors import InputError

Floats = NDArray[np.float64]
#: 95 % of a normal distribution lie within so many standard deviations.
NORMAL_95 = 1.959964


@dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of true labels (rows) by predicted labels (columns; the last column is the unknown category)."""

    counts: NDArray[np.int64]
    row_labels: tuple[Hashable, ...]
    column_labels: tuple[Hashable, ...]

    def __str__(self) -> str:
        rows = [["true \\ predicted", *map(str, self.column_labels)]]
        rows += [[str(label), *map(str, row)] for label, row in zip(self.row_labels, self.counts, strict=True)]
        return aligned_table(rows)


def open_set_confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    classes: ArrayLike,
    unknown_label: Hashable,
    *,
    rows: Literal["classes", "all"] = "classes",
) -> ConfusionMatrix:
    """Confusion matrix of C known classes and the unknown category.

    True labels that are not one of ``classes`` are unknowns: with ``rows="classes"`` they share the last row, with
    "all" each has its own, sorted, below the known classes. Predicted labels are ``classes`` and ``unknown_label``.

    Examples
    --------
    >>> print(open_set_confusion_matrix(["a", "b", "x", "y"], ["a", "?", "b", "?"], ["a", "b"], "?", rows="all"))
    true \\ predicted  a  b  ?
    a                 1  0  0
    b                 0  0  1
    x                 0  1  0
    y                 0  0  1
    """
    columns = _columns(classes, unknown_label)
    known = tuple(columns)[:-1]
    if rows not in ("classes", "all"):
        raise InputError(f"rows is {rows!r}, expected 'classes' or 'all'.")
    true, predicted = label_list(y_true, "y_true"), label_list(y_pred, "y_pred")
    if len(true) != len(predicted):
        raise InputError(f"y_true has {len(true)} labels but y_pred has {len(predicted)}. Give one of each per sample.")
    strange = sorted({repr(label) for label in predicted if label not in columns})
    if strange:
        raise InputError(
            f"y_pred has the labels {', '.join(strange)}, expected only {list(columns)}. "
            "Check classes and unknown_label."
        )
    others = sorted_labels(set(true) - set(known)) if rows == "all" else [unknown_label]
    row_of = {label: row for row, label in enumerate([*known, *others])}
    counts = np.zeros((len(row_of), len(columns)), dtype=np.int64)
    for label, answer in zip(true, predicted, strict=True):
        counts[row_of.get(label, len(known)), columns[answer]] += 1
    return ConfusionMatrix(counts, tuple(row_of), tuple(columns))


def aligned_table(rows: list[list[str]]) -> str:
    """Rows of cells as text: the first column left-aligned, the others right-aligned.

    >>> print(aligned_table([["", "hits"], ["robin", "12"]]))
           hits
    robin    12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True, eq=False)
class FScores:
    """F per class, of the unknown category, and their means; NaN for a category that does not occur.

    `macro_known` is the mean over the classes (lower half of Table 2), `macro_all` that over the classes and the
    unknown category (upper half). `chance` holds both for the same predictions in shuffled order: a label that is
    true for the share p and predicted for the share q has F = 2pq/(p + q).
    """

    classes: tuple[Hashable, ...]
    per_class: Floats
    unknown: float
    macro_known: float
    macro_all: float
    chance: dict[str, float]
    confusion: ConfusionMatrix

    def __str__(self) -> str:
        names = [str(label) for label in self.confusion.column_labels]
        rows = [["", "F", "chance"]]
        rows += [[name, f"{f:.3f}", ""] for name, f in zip(names, [*self.per_class, self.unknown], strict=True)]
        rows.append(["macro, classes", f"{self.macro_known:.3f}", f"{self.chance['macro_known']:.3f}"])
        rows.append(["macro, classes and unknown", f"{self.macro_all:.3f}", f"{self.chance['macro_all']:.3f}"])
        return f"{aligned_table(rows)}\n\n{self.confusion}"


def window_f(true: ArrayLike, predicted: ArrayLike, classes: ArrayLike, unknown_label: Hashable = "unknown") -> FScores:
    r"""F score of every class and of the unknown category, window by window.

    .. math:: F_c = \frac{TP_c}{TP_c + (FP_c + FN_c)/2}

    A note that is found late, or left early, loses windows: segmentation counts as well as classification. Every label
    that is not one of ``classes`` counts as unknown; ``unknown_label`` is the name of that category in print. Unknowns
    share one row of the confusion matrix.

    Examples
    --------
    >>> scores = window_f(list("aaaabb.."), list("aaa.bbb."), ["a", "b"])
    >>> scores.per_class.round(3), scores.unknown
    (array([0.857, 0.8  ]), 0.5)
    >>> round(scores.macro_known, 3), round(scores.macro_all, 3)
    (0.829, 0.719)
    """
    return _f_scores(true, predicted, classes, unknown_label, rows="classes")


def note_labels(
    predicted: ArrayLike,
    note_of_window: ArrayLike,
    classes: ArrayLike,
    unknown_label: Hashable = "unknown",
    *,
    n_notes: int | None = None,
) -> list[Hashable]:
    """One label per true note: the one that most of its windows have.

    The unknown category votes like every class. When it ties with a class, the class wins; when classes tie, the first
    in the order of ``classes``. A note without windows is unknown: nothing was found there. ``note_of_window`` is the
    number of the true note that contains each window, 0 ... n_notes - 1, and -1 outside the notes; ``n_notes`` is by
    default one more than the largest of them.

    Examples
    --------
    >>> note_labels(list("aa..b?a"), [0, 0, 0, -1, 1, 1, -1], ["a", "b"], n_notes=3)
    ['a', 'b', 'unknown']
    """
    columns = _columns(classes, unknown_label)
    answers = label_list(predicted, "predicted")
    note = _note_numbers(note_of_window, len(answers), n_notes)
    n_notes = int(note.max(initial=-1)) + 1 if n_notes is None else n_notes
    column = np.array([columns.get(label, len(columns) - 1) for label in answers], dtype=np.int64)
    inside = note >= 0
    votes = np.bincount(note[inside] * len(columns) + column[inside], minlength=n_notes * len(columns))
    votes = votes.reshape(n_notes, len(columns))
    votes[votes.sum(axis=1) == 0, -1] = 1
    names = list(columns)
    # The first of the largest: classes in their order, the unknown category last.
    return [names[best] for best in votes.argmax(axis=1)]


def note_f(
    true_notes: ArrayLike, predicted_notes: ArrayLike, classes: ArrayLike, unknown_label: Hashable = "unknown"
) -> FScores:
    r"""F score of every class and of the unknown category as in `window_f`, note by note (see `note_labels`).

    An unknown note that is labelled c is a false positive of c. The paper reports ``macro_known``. Each unknown label
    has its own row of the confusion matrix, as in Table 1.

    Examples
    --------
    >>> scores = note_f(["a", "a", "b", "x", "y"], ["a", "a", "b", "b", "?"], ["a", "b"], "?")
    >>> scores.per_class.round(3), round(scores.macro_known, 3)
    (array([1.   , 0.667]), 0.833)
    >>> print(scores.confusion)
    true \ predicted  a  b  ?
    a                 2  0  0
    b                 0  1  0
    x                 0  1  0
    y                 0  0  1
    """
    return _f_scores(true_notes, predicted_notes, classes, unknown_label, rows="all")


def ratio(part: ArrayLike, whole: ArrayLike) -> Floats:
    """Part of the whole; NaN where the whole is zero.

    >>> ratio([1, 0], [2, 0])
    array([0.5, nan])
    """
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)


def mean_of_defined(values: Floats) -> float:
    """Mean of the values that are not NaN; NaN when there are none.

    >>> mean_of_defined(np.array([1.0, np.nan, 0.5]))
    0.75
    """
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _f_scores(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    classes: ArrayLike,
    unknown_label: Hashable,
    rows: Literal["classes", "all"],
) -> FScores:
    columns = _columns(classes, unknown_label)
    predicted = [label if label in columns else unknown_label for label in label_list(y_pred, "the predicted labels")]
    return f_of_confusion(open_set_confusion_matrix(y_true, predicted, classes, unknown_label, rows=rows))  # type: ignore[arg-type]


def f_of_confusion(confusion: ConfusionMatrix) -> FScores:
    """F from a confusion matrix; the rows below those of the classes are all unknown."""
    classes = confusion.column_labels[:-1]
    counts = confusion.counts[: len(classes)]
    return f_of_counts(np.vstack([counts, confusion.counts[len(classes) :].sum(axis=0)]), classes, confusion)


def f_of_counts(counts: NDArray[np.int64], classes: tuple[Hashable, ...], confusion: ConfusionMatrix) -> FScores:
    """F from the counts of each answer to each label, (C + 1, C + 1): the classes, then all the rest."""
    n_true, n_predicted = counts.sum(axis=1), counts.sum(axis=0)
    # F = TP / (TP + (FP + FN)/2): the denominator is the mean of the two totals.
    f = ratio(counts.diagonal(), (n_true + n_predicted) / 2)
    shuffled = ratio(n_true * n_predicted / max(counts.sum(), 1), (n_true + n_predicted) / 2)
    return FScores(
        classes=classes,
        per_class=f[:-1],
        unknown=float(f[-1]),
        macro_known=mean_of_defined(f[:-1]),
        macro_all=mean_of_defined(f),
        chance={"macro_known": mean_of_defined(shuffled[:-1]), "macro_all": mean_of_defined(shuffled)},
        confusion=confusion,
    )


def label_list(labels: ArrayLike, name: str) -> list[Hashable]:
    """Labels as a list of Python values; an array would turn ``[0, "unknown"]`` into text.

    >>> label_list([0, "unknown"], "y_true")
    [0, 'unknown']
    """
    shape = np.asarray(labels, dtype=object).shape
    if len(shape) != 1:
        raise InputError(f"{name} has shape {shape}, expected one dimension: one label per sample. Flatten it first.")
    return list(labels.tolist() if hasattr(labels, "tolist") else labels)  # type: ignore[arg-type]


def label_index(classes: ArrayLike) -> dict[Hashable, int]:
    """Column of each class."""
    names = label_list(classes, "classes")
    if not names:
        raise InputError("classes is empty, expected at least one known class. Give the labels of the score columns.")
    index = {name: column for column, name in enumerate(names)}
    if len(index) < len(names):
        raise InputError(
            f"classes has a label twice: {names}. Give each known class once, in the order of the columns."
        )
    return index


def sorted_labels(labels: Iterable[Hashable]) -> list[Hashable]:
    """Sorted by type first, since a text and a number cannot be compared."""
    return sorted(set(labels), key=lambda label: (type(label).__name__, label))


def wilson(right: int, n: int) -> tuple[float, float]:
    """95 % limits of a share (Wilson 1927); NaN of nothing.

    >>> tuple(round(limit, 3) for limit in wilson(9, 10))
    (0.596, 0.982)
    """
    if not n:
        return math.nan, math.nan
    share, z2 = right / n, NORMAL_95 * NORMAL_95
    centre, spread = share + z2 / (2 * n), NORMAL_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (centre - spread) / (1 + z2 / n)), min(1.0, (centre + spread) / (1 + z2 / n))


def _columns(classes: ArrayLike, unknown_label: Hashable) -> dict[Hashable, int]:
    """Column of each class, then of the unknown category."""
    known = label_index(classes)
    if unknown_label in known:
        raise InputError(f"unknown_label {unknown_label!r} is one of the classes {list(known)}. Choose another label.")
    return {**known, unknown_label: len(known)}


def _note_numbers(note_of_window: ArrayLike, n_windows: int, n_notes: int | None) -> NDArray[np.int64]:
    note, end = np.asarray(note_of_window), np.inf if n_notes is None else n_notes
    whole = note.shape == (n_windows,) and (not n_windows or note.dtype.kind in "iu")
    if not whole or ((note < -1) | (note >= end)).any():
        raise InputError(
            f"note_of_window is {note.dtype} of shape {note.shape}; give for each of {n_windows} windows "
            f"the number of its note, from 0 {'on' if n_notes is None else f'to {n_notes - 1}'}, or -1 outside."
        )
    return note.astype(np.int64)
