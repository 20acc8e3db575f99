"""The confusion matrix with an unknown category."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.errors import InputError
from outlark.metrics.labels import label_index, label_list


@dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of true labels (rows) by predicted labels (columns; the last column is the unknown category).

    Attributes
    ----------
    counts : ndarray (n_rows, C + 1) of int
    row_labels : tuple (n_rows,)
    column_labels : tuple (C + 1,)
    """

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

    Parameters
    ----------
    y_true : array-like (n,)
        True labels; every label that is not one of ``classes`` is an unknown.
    y_pred : array-like (n,)
        Predicted labels: ``classes`` and ``unknown_label``, nothing else.
    classes : array-like (C,)
    unknown_label : label
        What ``y_pred`` says of a rejected sample.
    rows : {"classes", "all"}
        "classes": the unknowns share the last row, so that the counts are (C + 1, C + 1). "all": each unknown label
        that occurs has a row of its own, sorted, below the known classes.

    Returns
    -------
    ConfusionMatrix

    Raises
    ------
    InputError
        If the lengths differ, ``unknown_label`` is a class, a predicted label is neither, or ``rows`` is another word.

    Examples
    --------
    >>> print(open_set_confusion_matrix(["a", "b", "x", "y"], ["a", "?", "b", "?"], ["a", "b"], "?", rows="all"))
    true \\ predicted  a  b  ?
    a                 1  0  0
    b                 0  0  1
    x                 0  1  0
    y                 0  0  1
    """
    known = label_index(classes)
    if rows not in ("classes", "all"):
        raise InputError(f"rows is {rows!r}, expected 'classes' or 'all'.")
    if unknown_label in known:
        raise InputError(f"unknown_label {unknown_label!r} is one of the classes {list(known)}. Choose another label.")
    true, predicted = _paired(y_true, y_pred)
    columns = {**known, unknown_label: len(known)}
    strange = sorted({repr(label) for label in predicted if label not in columns})
    if strange:
        raise InputError(
            f"y_pred has the labels {', '.join(strange)}, expected only {list(columns)}. "
            "Check classes and unknown_label."
        )
    others = _sorted({label for label in true if label not in known}) if rows == "all" else [unknown_label]
    row_of = {label: row for row, label in enumerate([*known, *others])}
    counts = np.zeros((len(row_of), len(columns)), dtype=np.int64)
    for label, answer in zip(true, predicted, strict=True):
        counts[row_of.get(label, len(known)), columns[answer]] += 1
    return ConfusionMatrix(counts, tuple(row_of), tuple(columns))


def aligned_table(rows: list[list[str]]) -> str:
    """Rows of cells as text: the first column to the left, the others to the right.

    Examples
    --------
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


def _paired(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[list[Hashable], list[Hashable]]:
    true, predicted = label_list(y_true, "y_true"), label_list(y_pred, "y_pred")
    if len(true) != len(predicted):
        raise InputError(f"y_true has {len(true)} labels but y_pred has {len(predicted)}. Give one of each per sample.")
    return true, predicted


def _sorted(labels: set[Hashable]) -> list[Hashable]:
    # By type first: a text and a number cannot be compared.
    return sorted(labels, key=lambda label: (type(label).__name__, label))
