"""Checks of parameters, samples, labels and groups that the estimators share, and samples that come in blocks."""

import numbers
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from outlark.errors import InputError
from outlark.maths.rows import spooled
from outlark.maths.sparse import Setting

#: xᵀx is squared in the cost: beyond these magnitudes it leaves the range of double precision.
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = 1e-75, 1e75
BLOCKS_HINT = "give blocks (X, y) or (X, y, groups)"


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


def is_number(value: Any) -> bool:
    """Whether it is a real number and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def check_seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """A finite number of seconds, above zero or from zero on."""
    if is_number(value) and 0.0 <= value < np.inf and (zero or value > 0.0):
        return float(value)
    raise InputError(f"{name}={value!r} must be a number of seconds, {'0 or more' if zero else 'more than 0'}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse anything but a whole number from `least` on."""
    try:
        number = least - 1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{name}={value!r} must be a whole number, {least} or more")


def check_landmarks(landmarks: Any) -> None:
    """Refuse a number of landmarks that is not one."""
    number = isinstance(landmarks, numbers.Integral) and not isinstance(landmarks, bool)
    if not (landmarks is None or landmarks == "auto" or (number and int(landmarks) >= 1)):
        raise InputError(f"landmarks={landmarks!r} must be 'auto', a whole number from 1 up, or None (exact)")


def check_magnitude(X: np.ndarray) -> None:
    """Refuse values for which the square of Eq. (8) leaves the range of double precision."""
    largest = max(float(X.max()), -float(X.min()))
    if largest > LARGEST_MAGNITUDE or 0.0 < largest < SMALLEST_MAGNITUDE:
        raise InputError(
            f"the largest value in X is {largest:.3g}: powers of it, which distances and the cost need, are outside "
            "double precision; multiply X by a constant (scores do not depend on it) or scale the features"
        )


def check_memory(
    class_sizes: Sequence[int], classes: Sequence[Any], sparse: Setting | None = None, n_features: int = 0
) -> None:
    """Refuse classes whose models do not fit into memory, before hours of work or a killed process.

    `sparse` is how classes are described if not exactly; `n_features` is 0 for samples on disk.
    """
    setting = Setting(1.0, 1.0) if sparse is None else sparse
    kept, more = np.array([setting.bytes_for(n) for n in class_sizes]).T
    needed = kept.sum() + more.max() + 8.0 * n_features * sum(class_sizes)
    free = free_memory()
    if needed <= free:
        return
    largest = int(np.argmax(kept))
    n, m = class_sizes[largest], setting.most(class_sizes[largest])
    if m is not None:
        remedy = f"give fewer than {m:,} landmarks, or keep X in a memory map"
    else:
        fits = int(np.sqrt(free / 8.0 / (len(class_sizes) + 3)))
        remedy = f"give at most about {fits:,} samples for each class, for example every tenth of a note"
        remedy += "" if sparse is None else ", or landmarks=1000"
    raise InputError(
        f"class {classes[largest]} has {n:,} samples: describing the classes takes about {needed / 1e9:,.1f} GB of "
        f"memory and {free / 1e9:,.1f} GB are free; {remedy}"
    )


def free_memory() -> float:
    """Bytes that this process may still allocate; infinite where the system does not say."""
    found = [np.inf]
    with suppress(OSError, ValueError, AttributeError):  # not on every system
        found.append(os.sysconf("SC_PHYS_PAGES") * float(os.sysconf("SC_PAGE_SIZE")))
    with suppress(OSError, StopIteration, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024.0 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    return min(found)


def check_one_kind(y: Any, name: str = "y") -> None:
    """Refuse labels of several kinds: NumPy would silently turn ``[1, "a"]`` into text."""
    values = y if isinstance(y, list | tuple) else y.tolist() if getattr(y, "dtype", None) == np.dtype("O") else []
    kinds = {_kind(label) for label in values}
    if len(kinds) > 1:
        raise InputError(f"{name} mixes labels of different kinds ({', '.join(sorted(kinds))}); use one kind")


def _kind(label: Any) -> str:
    number = isinstance(label, numbers.Number) and not isinstance(label, bool | np.bool_)
    return "number" if number else "str" if isinstance(label, str) else type(label).__name__


def refuse(unused: dict[str, Any], estimator: BaseEstimator) -> None:
    """Refuse arguments of `fit` that it does not use."""
    name = type(estimator).__name__
    if "sample_weight" in unused:
        raise InputError(
            f"{name} does not use sample_weight: all training samples describe their class equally; omit the "
            "samples that should not count, or let outlark find odd ones with MDDKM(trim=True)"
        )
    if unused:
        raise TypeError(f"{name}.fit() got an unexpected keyword argument {next(iter(unused))!r}")


def encode_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes and the number of the class of each sample."""
    check_one_kind(y)
    classes, labels = np.unique(y, return_inverse=True)
    return classes, labels


def check_groups(groups: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    """One note id for each sample; by default every sample is a note of its own."""
    if groups is None:
        return np.arange(len(X))
    notes = np.asarray(groups)
    if notes.ndim != 1 or any(note is None for note in notes.tolist()):
        raise InputError("groups must be one note id for each sample: a flat sequence without None")
    if len(notes) != len(X):
        raise InputError(f"groups has {len(notes)} entries for {len(X)} samples; give one note id for each sample")
    return notes


def single_note_message(label: Any, n_samples: int) -> str:
    """The warning that a threshold cannot be learnt by leaving notes out."""
    if n_samples == 1:
        return (
            f"class {label} has a single sample: its threshold cannot be learnt and is half the score of that sample; "
            "give more examples or threshold="
        )
    return (
        f"class {label} has a single note: its threshold is learnt by leaving out blocks of that note, which "
        "flatters it; give a second note or threshold="
    )


def inexact_message(label: Any, n_landmarks: int, lost: float) -> str:
    """The warning that there are too few landmarks; `lost` is tr(K - Q) as a share of ρn."""
    return (
        f"class {label}: {n_landmarks} landmarks miss {lost:.2g} of what the regulariser allows for (tr(K - Q)/ρn), "
        "which is about the error of its scores; give more landmarks=, a larger sigma_reg=, or landmarks=None (exact)"
    )


def collected(
    blocks: Iterable[Any], validated: Callable[[ArrayLike, bool], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """All blocks (X, y) or (X, y, groups) as one table: X in an unnamed file, y and groups in memory.

    `validated` takes X and whether it is the first, and returns it as an array (n, d) of finite numbers.
    """
    y: list[np.ndarray] = []
    groups: list[np.ndarray] = []

    def samples() -> Iterator[np.ndarray]:
        for number, block in enumerate(blocks, start=1):
            X, labels, notes = _entries(block, number)
            if np.shape(X)[:1] == (0,):
                continue
            try:
                rows = validated(X, not y)
                y.append(_column(labels, len(rows)))
                if notes is not None:
                    groups.append(check_groups(notes, rows))
            except ValueError as error:
                raise InputError(f"block {number}: {error}") from error
            if len(groups) not in (0, len(y)):
                raise InputError(f"block {number}: some blocks have groups and others do not; {BLOCKS_HINT}, all alike")
            yield rows

    X = spooled(samples())
    if len(X) == 1:
        raise InputError("the blocks contain a single sample; give at least two")
    # NumPy would silently turn blocks of numbers and of text into text.
    for name, columns in (("y", y), ("groups", groups)):
        check_one_kind([column.tolist()[0] for column in columns], f"{name} of the blocks")
    return X, np.concatenate(y), np.concatenate(groups) if groups else None


def _entries(block: Any, number: int) -> tuple[Any, Any, Any]:
    if not isinstance(block, tuple | list) or len(block) not in (2, 3):
        found = f"{len(block)} entries" if isinstance(block, tuple | list) else type(block).__name__
        raise InputError(f"block {number}: found {found}; {BLOCKS_HINT}")
    return (*block, None) if len(block) == 2 else tuple(block)


def _column(labels: ArrayLike, n: int) -> np.ndarray:
    check_one_kind(labels)
    column = np.asarray(labels)
    if column.shape != (n,):
        raise InputError(f"y has the shape {column.shape} for {n} samples; give one label for each sample")
    return column


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value
