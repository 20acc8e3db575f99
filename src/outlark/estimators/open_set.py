"""What the open-set classifiers share: checks of their input, thresholds, and from class scores to answers.

A subclass of `OpenSetMixin` has, once fitted, ``classes_`` (C,), ``thresholds_`` (C,), ``left_out_scores_`` (the scores
of the training samples under a model that has not seen their note) and a method ``class_scores(X)`` → (n, C), high =
member.
"""

import numbers
import operator
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator

from outlark.errors import InputError
from outlark.maths.landmarks import Setting
from outlark.maths.notes import parts_of
from outlark.segments import AMBIGUOUS, KNOWN, UNKNOWN

#: xᵀx is squared in the cost: beyond these magnitudes it leaves the range of double precision.
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = 1e-75, 1e75


class OpenSetMixin:
    """Decisions from class scores; see the module docstring for what a subclass provides."""

    classes_: np.ndarray
    thresholds_: np.ndarray
    #: One array for each class: the left-out score of each of its training samples, and the means over its notes.
    left_out_scores_: list[np.ndarray]
    left_out_note_scores_: list[np.ndarray]
    outlier_label: Any

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        raise NotImplementedError

    @property
    def offset_(self) -> float:
        """The lowest of `thresholds_`: a sample below it is unknown whatever the class."""
        return float(np.min(self.thresholds_))

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """The score of the best class, shape (n,): the larger, the more the sample resembles a known class."""
        return self.class_scores(X).max(axis=1)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """``class_scores - offset_``, shape (n, C).

        With two classes, by scikit-learn's convention, shape (n,): the score of the second minus that of the first.
        With one class, shape (n,): ``score_samples - offset_``.
        """
        scores = self.class_scores(X)
        if len(self.classes_) == 2:
            return scores[:, 1] - scores[:, 0]
        return (scores - self.offset_)[:, 0] if len(self.classes_) == 1 else scores - self.offset_

    def membership(self, X: ArrayLike) -> np.ndarray:
        """Which classes accept the sample, shape (n, C), bool: ``class_scores ≥ thresholds_``."""
        return self.class_scores(X) >= self.thresholds_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The label of the best class, shape (n,).

        With ``outlier_label=None`` always one of ``classes_``, the first where all score 0. Otherwise the best among
        the classes that accept the sample, and `outlier_label` where none does.
        """
        scores = self.class_scores(X)
        if self.outlier_label is None:
            return self.classes_[scores.argmax(axis=1)]
        check_outlier_label(self.outlier_label, self.classes_)  # it may have been set since the fit
        accepted = scores >= self.thresholds_
        best = np.where(accepted, scores, -np.inf).argmax(axis=1)
        return with_outliers(self.classes_, best, np.logical_not(accepted.any(axis=1)), self.outlier_label)

    def verdicts(self, X: ArrayLike) -> np.ndarray:
        """ "known" (one class accepts the sample), "ambiguous" (several do) or "unknown" (none does), shape (n,)."""
        accepting = self.membership(X).sum(axis=1)
        return np.array([UNKNOWN, KNOWN, AMBIGUOUS])[np.minimum(accepting, 2)]

    def p_values(self, X: ArrayLike, groups: ArrayLike | None = None) -> np.ndarray:
        """Conformal p-values: how common a score this low is among the left-out training notes of the class.

        ``p_c = (1 + #{notes of c that score no higher}) / (n_notes + 1)``: accepting where ``p_c > ε`` misses about a
        share ε of the true notes of class c. There is no guarantee for unknown notes. The smallest value is
        ``1/(n_notes + 1)``: p-values are of little use below about 20 notes for each class.

        Parameters
        ----------
        X : array-like (n, d)
        groups : array-like (n,), optional
            Note ids: the rows of one note are averaged and compared with the left-out notes, and the result has a row
            for each note, in order of appearance. By default every row is compared with the left-out samples.

        Returns
        -------
        ndarray (n, C), or (n_notes, C) with groups
            NaN for a class of which nothing could be left out.
        """
        scores, left_out = self.class_scores(X), self.left_out_scores_
        if groups is not None:
            notes = check_groups(groups, scores)
            scores = np.array([scores[rows].mean(axis=0) for rows in parts_of(notes)])
            left_out = self.left_out_note_scores_
        p = np.full(scores.shape, np.nan)
        for c, known in enumerate(left_out):
            if len(known):
                p[:, c] = (1 + np.searchsorted(np.sort(known), scores[:, c], side="right")) / (len(known) + 1)
        return p


def with_outliers(classes: np.ndarray, index: np.ndarray, outlying: np.ndarray, outlier_label: Any) -> np.ndarray:
    """``classes[index]`` with `outlier_label` where `outlying`, in a dtype that fits both.

    >>> with_outliers(np.array(["A", "B"]), np.array([0, 1]), np.array([False, True]), "unknown")
    array(['A', 'unknown'], dtype='<U7')
    """
    label = np.asarray(outlier_label)
    same_kind = label.dtype.kind == classes.dtype.kind or {label.dtype.kind, classes.dtype.kind} <= set("biuf")
    labels = classes[index].astype(np.result_type(classes, label) if same_kind else object)
    labels[outlying] = outlier_label
    return labels


def check_outlier_label(outlier_label: Any, classes: np.ndarray) -> None:
    if outlier_label is not None and any(outlier_label == c for c in classes.tolist()):
        raise InputError(
            f"outlier_label={outlier_label!r} is also a class in y; choose a label that is not one of "
            f"{classes.tolist()}"
        )


def class_thresholds(
    threshold: Any,
    *,
    classes: np.ndarray,
    left_out: Sequence[np.ndarray],
    best_on_train: np.ndarray,
    quantile: float,
    log_sigma: float | None = None,
    lowest: float = float(np.finfo(float).eps),
) -> np.ndarray:
    """The threshold τ_c of each class, shape (C,).

    Parameters
    ----------
    threshold : str, number, sequence or mapping
        - ``"leave-note-out"``: the `low_end` of the scores that the class's own training samples get from a model
          that has not seen their note. Needs no unknowns.
        - ``"paper"``: ``1.8/μ`` with μ the highest score of a training sample under its own class (Sec. 4.2).
        - ``"paper-normalized"``: another reading of the same line, ``score/μ ≥ 1.8/μ``, so 1.8.
        - ``"paper-raw"``: ``1.8/μ`` where scores and μ are ``-log √d`` as printed, not divided by σ², so that it
          depends on the loudness of the sound. For `MDDKM` only.
        - a number for all classes, a sequence in the order of `classes`, or a mapping from class to number.
    left_out : sequence of arrays
        For each class the left-out scores of its samples; empty where they could not be computed.
    best_on_train : ndarray (C,)
        For each class the highest score of its own training samples.
    log_sigma : float, optional
        log σ, by which the scores exceed ``-log √d``.
    lowest : float
        No threshold is learnt below: where everything far away scores 0, a threshold of 0 would accept it.
    """
    if isinstance(threshold, str):
        if threshold == "leave-note-out":
            return np.maximum(_left_out_quantiles(left_out, best_on_train, quantile), lowest)
        if threshold == "paper":
            mu = float(np.max(best_on_train))
            return np.full(len(classes), 1.8 / mu if mu > 0 else np.inf)
        if threshold == "paper-normalized":
            return np.full(len(classes), 1.8)
        if threshold == "paper-raw" and log_sigma is not None:
            mu = float(np.max(best_on_train)) - log_sigma
            return np.full(len(classes), 1.8 / mu + log_sigma if mu != 0 else np.inf)
        names = ("leave-note-out", "paper", "paper-normalized", *(("paper-raw",) if log_sigma is not None else ()))
        raise InputError(
            f"threshold={threshold!r} is not known; use {', '.join(map(repr, names))}, a number, or one number for "
            "each class"
        )
    if isinstance(threshold, Mapping):
        missing = [c for c in classes.tolist() if c not in threshold]
        if missing:
            raise InputError(f"threshold has no value for the classes {missing}; give one for each class")
        threshold = [threshold[c] for c in classes.tolist()]
    values = np.asarray(threshold, dtype=float)
    if values.shape not in ((), (len(classes),)) or not np.all(np.isfinite(values)):
        raise InputError(
            f"threshold={threshold!r} must be a finite number or {len(classes)} of them, one for each class of "
            f"{classes.tolist()}"
        )
    return np.broadcast_to(values, (len(classes),)).copy()


def low_end(scores: np.ndarray, quantile: float) -> float:
    """The score below which a new sample of the class falls with a probability of at most `quantile`.

    It is the ⌊q(n + 1)⌋-th smallest of the n left-out scores: a new one is equally likely to take any of the n + 1
    places among them. The quantile of the n scores themselves would reject .17 of new samples instead of .10 at n = 10.
    With fewer than 1/q - 1 scores it is the lowest, below which 1/(n + 1) fall.

    >>> low_end(np.arange(1.0, 20.0), 0.1), low_end(np.arange(1.0, 6.0), 0.1)
    (2.0, 1.0)
    """
    place = int(quantile * (len(scores) + 1) + 1e-9)  # .29 · 100 is 28.999…
    return float(np.sort(scores)[min(max(place, 1), len(scores)) - 1])


def temperature(left_out: Sequence[np.ndarray], thresholds: np.ndarray) -> float:
    """T that makes left-out samples most probable, ``P = 1/(1 + exp(-(score - τ)/T))``; classes have equal weight.

    >>> round(temperature([np.array([0.0, 1.0, 2.0, 3.0])], np.array([0.5])), 2)
    0.65
    """
    margins = [scores - tau for scores, tau in zip(left_out, thresholds, strict=True) if len(scores)]
    if not margins:
        raise InputError(
            "probabilities need left-out scores, and no class has a second sample to leave out; give more examples"
        )
    x, weight = np.concatenate(margins), np.concatenate([np.full(len(m), 1.0 / len(m)) for m in margins])
    spread = max(float(np.max(np.abs(x))), np.finfo(float).tiny)

    def surprise(log_t: float) -> float:
        return float(np.average(np.logaddexp(0.0, -x / np.exp(log_t)), weights=weight))

    # Where all margins are positive a smaller T is always better: a hundredth of the largest margin is small enough.
    bounds = np.log(0.01 * spread), np.log(10.0 * spread)
    return float(np.exp(minimize_scalar(surprise, bounds=bounds, method="bounded").x))


def _left_out_quantiles(left_out: Sequence[np.ndarray], best_on_train: np.ndarray, quantile: float) -> np.ndarray:
    if not 0.0 <= quantile <= 1.0:
        raise InputError(f"quantile={quantile!r} must lie between 0 and 1")
    tau = np.array([low_end(scores, quantile) if len(scores) else np.nan for scores in left_out])
    # A class of a single sample has nothing to leave out: half the score of that sample is a guess (with a warning).
    return np.where(np.isnan(tau), 0.5 * best_on_train, tau)


# ------------------------------------------------------------------ checks


def check_choice(model: BaseEstimator, name: str, allowed: tuple[Any, ...]) -> None:
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


def check_magnitude(X: np.ndarray) -> None:
    """Refuse values for which the square of Eq. (8) leaves the range of double precision."""
    largest = max(float(X.max()), -float(X.min()))
    if largest > LARGEST_MAGNITUDE or 0.0 < largest < SMALLEST_MAGNITUDE:
        raise InputError(
            f"the largest value in X is {largest:.3g}: powers of it, which distances and the cost need, are outside "
            "double precision; multiply X by a constant (scores do not depend on it) or scale the features"
        )


def check_memory(class_sizes: Sequence[int], classes: Sequence[Any], setting: Setting, n_features: int) -> None:
    """Refuse classes whose models do not fit into memory, before hours of work or a killed process."""
    kept, more = np.array([setting.bytes_for(n) for n in class_sizes]).T
    needed = kept.sum() + more.max() + 8.0 * n_features * sum(class_sizes)
    free = free_memory()
    if needed <= free:
        return
    largest = int(np.argmax(kept))
    n, m = class_sizes[largest], setting.most(class_sizes[largest])
    if m is not None:
        remedy = f"give fewer than {m:,} landmarks"
    else:
        fits = int(np.sqrt(free / 8.0 / (len(class_sizes) + 3)))
        remedy = f"give at most about {fits:,} samples for each class, or use MDDKM(landmarks=1000)"
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


def check_one_kind(y: Any) -> None:
    """Refuse labels of several kinds: NumPy would silently turn ``[1, "a"]`` into text."""
    values = y if isinstance(y, list | tuple) else y.tolist() if getattr(y, "dtype", None) == np.dtype("O") else []
    kinds = {_kind(label) for label in values}
    if len(kinds) > 1:
        raise InputError(f"y mixes labels of different kinds ({', '.join(sorted(kinds))}); use one kind")


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
