"""Checks of labels and scores that the metrics share."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.errors import InputError


def label_list(labels: ArrayLike, name: str) -> list[Hashable]:
    """Labels as a list of Python values.

    Not an array: NumPy would turn ``[0, "unknown"]`` into text, and 0 would no longer be the class 0.

    Examples
    --------
    >>> label_list([0, "unknown"], "y_true")
    [0, 'unknown']
    """
    if np.ndim(np.asarray(labels, dtype=object)) != 1:
        shape = np.shape(np.asarray(labels, dtype=object))
        raise InputError(f"{name} has shape {shape}, expected one dimension: one label per sample. Flatten it first.")
    return list(labels.tolist() if hasattr(labels, "tolist") else labels)  # type: ignore[arg-type]


def label_index(classes: ArrayLike) -> dict[Hashable, int]:
    """Column of each class.

    Examples
    --------
    >>> label_index(["a", "b"])
    {'a': 0, 'b': 1}
    """
    names = label_list(classes, "classes")
    if not names:
        raise InputError("classes is empty, expected at least one known class. Give the labels of the score columns.")
    index = {name: column for column, name in enumerate(names)}
    if len(index) < len(names):
        raise InputError(
            f"classes has a label twice: {names}. Give each known class once, in the order of the columns."
        )
    return index


def score_table(class_scores: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    """Scores as floats (n, C), none of them NaN; infinities are fine (a log density of zero is one).

    Examples
    --------
    >>> score_table([[1, 0], [0, 2]], 2).shape
    (2, 2)
    """
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
            "Repair the scorer or leave those samples out."
        )
    return scores


def share(value: float, name: str) -> float:
    """A share, checked to be in [0, 1].

    Examples
    --------
    >>> share(0.95, "tpr")
    0.95
    """
    if not 0 <= value <= 1:
        raise InputError(f"{name} is {value}, expected a share between 0 and 1.")
    return float(value)
