"""Checks that the estimators share: what was found, what was expected, what to do."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from outlark.errors import InputError

#: xᵀx is squared in the cost: beyond these magnitudes it leaves the range of double precision.
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = 1e-75, 1e75


def check_hyper_parameters(model: BaseEstimator) -> None:
    """Refuse kernel parameters that cannot be used."""
    for name in ("sigma", "length_scale", "sigma_reg"):
        value = getattr(model, name)
        words = ("auto", "condition") if name == "sigma_reg" else (None,)
        if value in words:
            continue
        if not isinstance(value, numbers.Real) or not 0.0 < float(value) < np.inf:
            raise InputError(f"{name}={value!r} must be a positive number or {' or '.join(map(repr, words))}")
    check_choice(model, "metric", ("auto", "euclidean", "within", "whiten"))
    check_choice(model, "target", ("centered", "paper"))
    if not 10.0 <= model.condition <= 1e15:
        raise InputError(f"condition={model.condition!r} must lie between 10 and 1e15 (double precision ends there)")
    if model.max_samples < 2:
        raise InputError(f"max_samples={model.max_samples!r} must be at least 2")
    if not isinstance(model.quantile, numbers.Real) or not 0.0 <= float(model.quantile) <= 1.0:
        raise InputError(f"quantile={model.quantile!r} must lie between 0 and 1")


def check_choice(model: BaseEstimator, name: str, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is not one of those allowed."""
    value = getattr(model, name)
    if value not in allowed:
        raise InputError(f"{name}={value!r} must be one of {allowed}")


def check_magnitude(X: np.ndarray) -> None:
    """Refuse values for which the square of Eq. (8) leaves the range of double precision."""
    largest = float(np.abs(X).max())
    if largest > LARGEST_MAGNITUDE or 0.0 < largest < SMALLEST_MAGNITUDE:
        raise InputError(
            f"the largest value in X is {largest:.3g}: its fourth power, which the cost needs, is outside double "
            "precision; multiply X by a constant (scores do not depend on it) or scale the features"
        )


def encode_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes and the number of the class of each sample."""
    try:
        classes, labels = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise InputError(f"y mixes labels of different kinds ({', '.join(kinds)}); use one kind") from None
    return classes, labels


def check_groups(groups: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    """One note id for each sample; every sample its own note when left out."""
    if groups is None:
        return np.arange(len(X))
    notes = np.asarray(groups)
    if notes.ndim != 1 or any(note is None for note in notes.tolist()):
        raise InputError("groups must be one note id for each sample: a flat sequence without None")
    if len(notes) != len(X):
        raise InputError(f"groups has {len(notes)} entries for {len(X)} samples; give one note id for each sample")
    return notes


def single_note_message(label: Any, n_samples: int) -> str:
    """What to tell when a threshold cannot be learnt by leaving notes out."""
    if n_samples == 1:
        return (
            f"class {label} has a single sample: its threshold cannot be learnt and is half the score of that sample; "
            "give more examples or threshold="
        )
    return (
        f"class {label} has a single note: its threshold is learnt by leaving out blocks of that note, which "
        "flatters it; give a second note or threshold="
    )
