"""What the describers of the comparison share: checks, columns, and thresholds from notes that were left out."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.checks import check_groups, encode_labels
from outlark.estimators.open_set import class_thresholds
from outlark.experiment.rivals import note_parts
from outlark.maths.threads import one_blas_thread

#: At most so many times a describer is fitted without some of the notes.
MAX_REFITS = 10
LEARNT = "leave-note-out"


class Describer(BaseEstimator):
    """What all describers share: `fit`, thresholds from left-out notes, and the columns of `class_scores`.

    Parameters
    ----------
    threshold : "leave-note-out", number, sequence or mapping
        "leave-note-out": for each class the `quantile` of the scores of its samples under a describer that was fitted
        without their note; blocks of consecutive samples stand in for the notes of a class that has one only, which
        flatters it. A number saves the refits: whole notes have thresholds of their own.
    quantile : float
        Share of left-out training samples that "leave-note-out" rejects.

    Attributes
    ----------
    classes_ : ndarray (C,)
    thresholds_ : ndarray (C,)
    left_out_note_scores_ : list of ndarray
        With "leave-note-out": for each class the mean left-out score of each of its notes.
    n_features_in_ : int
    """

    #: Whether a single class can be described.
    needs_two_classes = False

    def __init__(
        self, *, threshold: str | float | Sequence[float] | Mapping[Any, float] = LEARNT, quantile: float = 0.1
    ) -> None:
        self.threshold = threshold
        self.quantile = quantile

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Describe the classes.

        Parameters
        ----------
        X : array-like (n, d)
        y : array-like (n,)
        groups : array-like (n,), optional
            The note that each sample comes from. By default each sample is a note of its own.

        Raises
        ------
        InputError
            For a threshold that is not known, or a single class where the method needs two.
        """
        samples, targets = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(targets)
        self.classes_, labels = encode_labels(targets)
        notes = check_groups(groups, samples)
        self._check(labels)
        parts = note_parts(samples, labels, notes)
        learnt = isinstance(self.threshold, str)
        with one_blas_thread():
            self._fit(samples, labels, notes)
            left_out = self._left_out(samples, labels, notes, parts) if learnt else np.full(len(samples), np.nan)
            own = _own(self._scores(samples), labels)
        if learnt:
            self.left_out_note_scores_ = [np.array([left_out[note].mean() for note in of_class]) for of_class in parts]
        self.thresholds_ = class_thresholds(
            self.threshold,
            classes=self.classes_,
            left_out=[left_out[(labels == c) & ~np.isnan(left_out)] for c in range(len(self.classes_))],
            best_on_train=np.array([own[labels == c].max() for c in range(len(self.classes_))]),
            quantile=self.quantile,
        )
        return self

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """How much every sample resembles every class, at least 0, shape (n, C)."""
        check_is_fitted(self)
        return self._scores(validate_data(self, X, reset=False, dtype=np.float64))

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        """Describe the classes 0 … C - 1."""
        raise TypeError("a subclass of Describer defines _fit")

    def _scores(self, X: np.ndarray) -> np.ndarray:
        raise TypeError("a subclass of Describer defines _scores")

    def _left_out(
        self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray, parts: Sequence[Sequence[np.ndarray]]
    ) -> np.ndarray:
        """The score of each sample for its own class without its part, (n,); NaN where there is nothing to leave out.

        Part i of every class is in fold ``i mod n_folds``, so that a class loses one note at a time up to ten notes.
        """
        found = np.full(len(X), np.nan)
        n_folds = min(MAX_REFITS, max(len(of_class) for of_class in parts))
        for fold in range(n_folds):
            out = np.sort(np.concatenate([part for of_class in parts for part in of_class[fold::n_folds]]))
            kept = np.setdiff1d(np.arange(len(X)), out)
            refitted = clone(self)
            refitted._fit(X[kept], labels[kept], notes[kept])
            found[out] = _own(refitted._scores(X[out]), labels[out])
        return found

    def _check(self, labels: np.ndarray) -> None:
        if isinstance(self.threshold, str) and self.threshold != LEARNT:
            raise InputError(
                f"threshold={self.threshold!r} is not known; use {LEARNT!r}, a number, or one number for each class"
            )
        if self.needs_two_classes and len(self.classes_) == 1:
            raise InputError(
                f"{type(self).__name__} tells classes from one another, but the only class is "
                f"{self.classes_.tolist()[0]!r}; give examples of a second one, or take another method"
            )


def _own(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The score of each sample for its own class."""
    return scores[np.arange(len(labels)), labels]
