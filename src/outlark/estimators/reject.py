"""Any classifier with a reject option, so that it can be compared with a data description on equal terms."""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import BaseCrossValidator, LeaveOneOut, StratifiedKFold, check_cv
from sklearn.utils import Tags, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.open_set import check_outlier_label, with_outliers

METHODS = ("class_scores", "decision_function", "predict_proba")


class RejectOption(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Classifier that answers ``outlier_label`` when its best score is below a threshold.

    .. math::
        \hat y(x) = \begin{cases} \arg\max_c s_c(x) & \max_c s_c(x) \ge θ \\
        \text{outlier\_label} & \text{otherwise} \end{cases}

    Parameters
    ----------
    estimator : classifier
        Has ``class_scores``, ``decision_function`` or ``predict_proba``. It is cloned, never changed.
    outlier_label : label, optional
        Answer for a rejected sample, not one of the classes. None: nothing is rejected (closed set).
    threshold : float or "quantile"
        θ, or "quantile": the ``quantile`` of the best scores of the training samples, each scored by a clone that was
        fitted without it.
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
    classes_ : ndarray (C,)
    offset_ : float
        The threshold θ.
    method_ : str
        Where the scores come from.
    n_features_in_ : int

    Raises
    ------
    InputError
        In `fit`: a parameter out of its range, an ``outlier_label`` that is a class, an estimator without the method or
        with scores that are not one per class, or "quantile" when every class has only one sample.

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
        """Fit a clone of the estimator and find the threshold.

        Parameters
        ----------
        X : array-like (n, n_features)
        y : array-like (n,)

        Returns
        -------
        self
        """
        samples, labels = validate_data(self, X, y, **self._accepted_input())
        check_classification_targets(labels)
        check_outlier_label(self.outlier_label, np.unique(labels))
        self._check_parameters()
        self.estimator_ = clone(self.estimator).fit(samples, labels)
        self.method_ = _method_of(self.estimator_, self.method)
        self.classes_ = self.estimator_.classes_
        _check_columns(self.estimator_, self.method_, samples[:1])
        by_quantile = self.threshold == "quantile"
        self.offset_ = self._held_out_quantile(samples, labels) if by_quantile else float(self.threshold)
        return self

    def class_scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score of every class, high = member.

        A two-class ``decision_function`` f becomes the columns [-f, f]; all else comes as the estimator gives it.

        Parameters
        ----------
        X : array-like (n, n_features)

        Returns
        -------
        ndarray (n, C)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._accepted_input())
        return _class_scores(self.estimator_, self.method_, X)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Best score of each sample (n,): what the threshold is compared with."""
        return self.class_scores(X).max(axis=1)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class scores minus the threshold (n, C): all entries negative means rejected.

        Two classes, by scikit-learn's convention: score of the second minus score of the first, (n,). The threshold
        cancels there; ask `score_samples` whether a sample is rejected. One class: (n,).
        """
        scores = self.class_scores(X)
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return (scores - self.offset_)[:, 0] if scores.shape[1] == 1 else scores - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of the best score (n,), or ``outlier_label`` where that score is below the threshold."""
        scores = self.class_scores(X)
        if self.outlier_label is None:
            return self.classes_[scores.argmax(axis=1)]
        rejected = scores.max(axis=1) < self.offset_
        return with_outliers(self.classes_, scores.argmax(axis=1), rejected, self.outlier_label)

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
        best = []
        for train, test in _splits(X, y, self.cv):
            model = clone(self.estimator).fit(_part(self, X, train, train), y[train])
            best.append(_class_scores(model, self.method_, _part(self, X, test, train)).max(axis=1))
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
    # Three classes have three pairs: there the number of columns does not tell one score per pair from one per class.
    ovo = method == "decision_function" and n_classes == 3 and _is_set(estimator, "decision_function_shape", "ovo")
    if n_columns != n_classes or ovo:
        raise InputError(
            f"{type(estimator).__name__} gives {n_columns} scores per sample, expected one for each of the "
            f"{n_classes} classes. Use decision_function_shape='ovr' or method='predict_proba'."
        )


def _is_set(estimator: Any, parameter: str, value: str) -> bool:
    """Whether the estimator, or one inside it, has this parameter at this value."""
    found = [v for name, v in estimator.get_params().items() if name == parameter or name.endswith(f"__{parameter}")]
    return any(isinstance(v, str) and v == value for v in found)


def _splits(X: Any, y: NDArray[Any], cv: Any) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Train and test indices; by default the only sample of a class is in every training part."""
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
    for train, test in _default_folds(counts[counts > 1]).split(several, y[several]):
        yield np.sort(np.concatenate([several[train], single])), several[test]


def _default_folds(counts: NDArray[np.int64]) -> BaseCrossValidator:
    if counts.min() < 5 and counts.sum() <= 100:
        return LeaveOneOut()
    return StratifiedKFold(int(min(5, counts.min())), shuffle=True, random_state=0)


def _part(estimator: Any, X: Any, rows: NDArray[np.intp], train: NDArray[np.intp]) -> Any:
    part = X[rows]
    return part[:, train] if get_tags(estimator).input_tags.pairwise else part
