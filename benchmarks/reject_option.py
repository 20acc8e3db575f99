"""Any classifier with a reject option, to compare with a data description on equal terms."""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import LeaveOneOut, StratifiedKFold, check_cv
from sklearn.utils import Tags, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.open_set import OpenSetMixin, check_outlier_label

METHODS = ("class_scores", "decision_function", "predict_proba")


class RejectOption(OpenSetMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Classifier that answers ``outlier_label`` when its best score is below one threshold for all classes.

    Parameters
    ----------
    estimator : classifier
        Has ``class_scores``, ``decision_function`` or ``predict_proba``. It is cloned, never changed.
    outlier_label : label, optional
        Answer for a rejected sample, not one of the classes. None: nothing is rejected (closed set).
    threshold : float or "quantile"
        "quantile": the ``quantile`` of the best scores of the training samples, each scored by a clone fitted without
        it.
    quantile : float
        Share of the training samples that the threshold would reject, in [0, 1].
    cv : int, splitter or iterable, optional
        Folds for "quantile", as in scikit-learn. By default five stratified folds, fewer if the smallest class has
        fewer samples; leave-one-out if it has fewer and there are at most 100 samples; the only sample of a class is
        never held out.
    method : {"auto", "class_scores", "decision_function", "predict_proba"}
        Where the scores come from. "auto": the first of these that the estimator has.

    Attributes
    ----------
    estimator_ : the fitted clone
    classes_, thresholds_ : ndarray (C,)
    offset_ : float
        The threshold.
    method_ : str

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> model = RejectOption(GaussianNB(), outlier_label="unknown", threshold=0.9)
    >>> model.fit([[0.0], [1.0], [9.0], [10.0]], ["a", "a", "b", "b"]).predict([[0.5], [5.0]]).tolist()
    ['a', 'unknown']
    """

    def __init__(
        self,
        estimator: Any,
        *,
        outlier_label: Hashable = None,
        threshold: float | Literal["quantile"] = "quantile",
        quantile: float = 0.1,
        cv: Any = None,
        method: str = "auto",
    ) -> None:
        self.estimator = estimator
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.quantile = quantile
        self.cv = cv
        self.method = method

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit a clone of the estimator and find the threshold."""
        samples, labels = validate_data(self, X, y, **self._accepted_input())
        check_classification_targets(labels)
        check_outlier_label(self.outlier_label, np.unique(labels))
        self._check_parameters()
        self.estimator_ = clone(self.estimator).fit(samples, labels)
        self.method_ = _method_of(self.estimator_, self.method)
        self.classes_ = self.estimator_.classes_
        _check_columns(self.estimator_, self.method_, samples[:1])
        by_quantile = self.threshold == "quantile"
        threshold = self._held_out_quantile(samples, labels) if by_quantile else float(self.threshold)
        self.thresholds_ = np.full(len(self.classes_), threshold)
        self.left_out_scores_ = self.left_out_note_scores_ = [np.empty(0)] * len(self.classes_)  # p-values are unknown
        return self

    def class_scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score of every class (n, C), high = member; a two-class ``decision_function`` f becomes [-f, f]."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._accepted_input())
        return _class_scores(self.estimator_, self.method_, X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags = replace(inner.classifier_tags, multi_label=False)
        tags.non_deterministic = inner.non_deterministic
        return tags

    def _accepted_input(self) -> dict[str, Any]:
        accepted = get_tags(self.estimator).input_tags
        return {"accept_sparse": "csr" if accepted.sparse else False, "ensure_all_finite": not accepted.allow_nan}

    def _check_parameters(self) -> None:
        if self.method not in ("auto", *METHODS):
            raise InputError(f"method is {self.method!r}, expected 'auto' or one of {METHODS}.")
        if not 0 <= self.quantile <= 1:
            raise InputError(f"quantile is {self.quantile}, expected a share between 0 and 1.")
        is_number = isinstance(self.threshold, Real) and not np.isnan(float(self.threshold))
        if not is_number and self.threshold != "quantile":
            raise InputError(f"threshold is {self.threshold!r}, expected a number or 'quantile'.")

    def _held_out_quantile(self, X: Any, y: NDArray[Any]) -> float:
        pairwise = get_tags(self).input_tags.pairwise
        best = []
        for train, test in _splits(X, y, self.cv):
            kept, held_out = (X[rows][:, train] if pairwise else X[rows] for rows in (train, test))
            model = clone(self.estimator).fit(kept, y[train])
            best.append(_class_scores(model, self.method_, held_out).max(axis=1))
        return float(np.quantile(np.concatenate(best), self.quantile))


def _method_of(estimator: Any, method: str) -> str:
    found = [name for name in (METHODS if method == "auto" else (method,)) if hasattr(estimator, name)]
    if not found:
        wanted = METHODS if method == "auto" else method
        raise InputError(f"{type(estimator).__name__} has no {wanted}. Give a classifier that has, or another method.")
    return found[0]


def _class_scores(estimator: Any, method: str, X: Any) -> NDArray[np.float64]:
    scores = np.asarray(getattr(estimator, method)(X), dtype=float)
    if scores.ndim == 1:
        return np.column_stack([-scores, scores]) if len(estimator.classes_) == 2 else scores[:, None]
    return scores


def _check_columns(estimator: Any, method: str, X: Any) -> None:
    n_classes, n_columns = len(estimator.classes_), _class_scores(estimator, method, X).shape[1]
    # Three classes have three pairs: the number of columns does not tell one score per pair from one per class.
    shapes = [v for name, v in estimator.get_params().items() if name.endswith("decision_function_shape")]
    if n_columns != n_classes or (method == "decision_function" and n_classes == 3 and "ovo" in shapes):
        raise InputError(
            f"{type(estimator).__name__} gives {n_columns} scores per sample, expected one for each of the "
            f"{n_classes} classes. Use decision_function_shape='ovr' or method='predict_proba'."
        )


def _splits(X: Any, y: NDArray[Any], cv: Any) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Train and test indices; by default the only sample of a class is always in the training part."""
    if cv is not None:
        yield from check_cv(cv, y, classifier=True).split(X, y)
        return
    _, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    several, single = np.flatnonzero(counts[inverse] > 1), np.flatnonzero(counts[inverse] == 1)
    if not len(several):
        raise InputError(
            "every class has only one sample, so none can be held out to find the threshold. "
            "Give the threshold as a number, or more samples."
        )
    fewest = int(counts[counts > 1].min())
    folds = StratifiedKFold(min(5, fewest), shuffle=True, random_state=0)
    if fewest < 5 and len(several) <= 100:
        folds = LeaveOneOut()
    for train, test in folds.split(several, y[several]):
        yield np.sort(np.concatenate([several[train], single])), several[test]
