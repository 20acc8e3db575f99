"""Labels and scores as the metrics take them, checked."""

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.errors import InputError


def label_list(labels: ArrayLike, name: str) -> list[Hashable]:
    """Labels as a list of Python values; an array would turn ``[0, "unknown"]`` into text.

    >>> label_list([0, "unknown"], "y_true")
    [0, 'unknown']
    """
    if np.ndim(np.asarray(labels, dtype=object)) != 1:
        shape = np.shape(np.asarray(labels, dtype=object))
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


def score_table(class_scores: ArrayLike, n_classes: int) -> NDArray[np.float64]:
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


def share(value: float, name: str) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{name} is {value}, expected a share between 0 and 1.")
    return float(value)


def sorted_labels(labels: Iterable[Hashable]) -> list[Hashable]:
    """Sorted by type first, since a text and a number cannot be compared."""
    return sorted(set(labels), key=lambda label: (type(label).__name__, label))
