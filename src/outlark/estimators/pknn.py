"""Possibilistic K-nearest neighbours as a scikit-learn classifier."""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.checks import check_groups, check_magnitude, check_one_kind, encode_labels, refuse
from outlark.estimators.open_set import OpenSetMixin, check_outlier_label, class_thresholds
from outlark.maths import pknn
from outlark.maths.notes import leave_out_folds, leave_out_parts, merge_copies

#: τ of Sec. 4.2. It is a possibility of the plain form, so it depends on the units of the features.
PAPER_THRESHOLD = 0.0015
MAX_REFITS = 10


class PKNN(OpenSetMixin, ClassifierMixin, BaseEstimator):
    r"""Possibilistic K-nearest neighbours: how much a sample resembles each class, whatever the other classes.

    .. math::

       π_c(x) = \frac1K \sum_{k=1}^{K} \frac{u_c(p_k)}{1 + [\max(0, ‖x - p_k‖ - η_1)/η_2]^{2/(m-1)}}

    over the K prototypes nearest to x. The prototypes are the units of one self-organising map for each class, u are
    fuzzy labels by Keller's rule. Distances are Euclidean: standardise features whose units differ.

    Parameters
    ----------
    n_neighbors : int
        K, for the prototypes near a sample and for the samples near a prototype. Reduced to what there is.
    n_prototypes : int, optional
        Prototypes for each class; a class with fewer distinct samples has as many as these. None: half as many as the
        smallest class has samples, at most 50; a class too small for `n_neighbors` does not count.
    eta : {"scaled", "plain"}
        "scaled": η₁ = mean, η₂ = 3·sd of the distance from a training sample to the nearest prototype of its class;
        possibilities do not depend on the units of the features. "plain": the same η₁, η₂ = 1.
    m : float
        Above 1; the smaller, the sharper the fall of the weight beyond η₁ + η₂.
    threshold : {"leave-note-out", "paper"}, number, sequence or mapping
        "leave-note-out": for each class the low end of `left_out_scores_`. "paper": .0015 (Sec. 4.2), made for
        ``eta="plain"``. Or one number for all classes, one for each, or a mapping from class to number.
    quantile : float
        For "leave-note-out": the share of new samples of a class that may be rejected; see `outlark.MDDKM`.
    outlier_label : label, optional
        What `predict` answers where no class accepts the sample. None: always the best class.
    random_state : int, RandomState or None
        Where the maps start and the order in which they see the samples.

    Attributes
    ----------
    classes_ : ndarray (C,)
    prototypes_ : ndarray (P_total, d)
    prototype_labels_ : ndarray (P_total,)
        The class that each prototype was found in.
    fuzzy_labels_ : ndarray (P_total, C)
    eta_ : (η₁, η₂)
    thresholds_ : ndarray (C,)
    left_out_scores_ : list of ndarray
        For each class the scores of its training samples under a model refitted without their note, with as many
        prototypes. Empty for a class of one sample.
    left_out_note_scores_ : list of ndarray
        For each class the mean left-out score of each of its notes.
    n_features_in_ : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (20, 2)), rng.normal(8, 1, (20, 2))])
    >>> model = PKNN(outlier_label="unknown").fit(X, ["a"] * 20 + ["b"] * 20)
    >>> model.predict([[0.0, 0.0], [8.0, 8.0], [4.0, 4.0]]).tolist()
    ['a', 'b', 'unknown']
    >>> model.class_scores([[0.0, 0.0], [4.0, 4.0]]).round(1)
    array([[0.9, 0. ],
           [0. , 0. ]])
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        n_prototypes: int | None = None,
        eta: Literal["scaled", "plain"] = "scaled",
        m: float = 2.0,
        threshold: str | float | Sequence[float] | Mapping[Any, float] = "leave-note-out",
        quantile: float = 0.1,
        outlier_label: Any = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_prototypes = n_prototypes
        self.eta = eta
        self.m = m
        self.threshold = threshold
        self.quantile = quantile
        self.outlier_label = outlier_label
        self.random_state = random_state

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """As published: plain weights and τ = .0015; `parameters` override.

        Both are in the units of the features: the same sound 300 times as loud, or as 16-bit integers, gives different
        answers (docs/paper-to-code.md). The defaults of `PKNN` do not depend on units.
        """
        return cls(**{"eta": "plain", "threshold": "paper", **parameters})

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, **unused: Any) -> Self:
        """Find prototypes, fuzzy labels, η and thresholds.

        Parameters
        ----------
        X : array-like (n, d)
        y : array-like (n,)
        groups : array-like (n,), optional
            Note ids: samples of one note are left out together. By default every sample is a note of its own.
        """
        refuse(unused, self)
        check_one_kind(y)
        samples, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        check_magnitude(samples)
        self._check_parameters()
        self.classes_, labels = encode_labels(np.asarray(y))
        check_outlier_label(self.outlier_label, self.classes_)
        parts = _notes(samples, labels, check_groups(groups, samples), self.classes_)
        counts = self._counts(np.bincount(labels))
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self._model = self._trained(samples, labels, counts, seed)
        self.prototypes_, owners, self.fuzzy_labels_, self.eta_ = self._model
        self.prototype_labels_ = self.classes_[owners]

        left_out = np.full(len(samples), np.nan)
        for out in leave_out_folds(parts, MAX_REFITS):
            model = self._trained(np.delete(samples, out, axis=0), np.delete(labels, out), counts, seed)
            left_out[out] = self._own_scores(model, samples[out], labels[out])
        self.left_out_scores_ = [left_out[(labels == c) & ~np.isnan(left_out)] for c in range(len(self.classes_))]
        self.left_out_note_scores_ = [np.array([left_out[note].mean() for note in notes]) for notes in parts]
        self.thresholds_ = class_thresholds(
            PAPER_THRESHOLD if isinstance(self.threshold, str) and self.threshold == "paper" else self.threshold,
            classes=self.classes_,
            left_out=self.left_out_scores_,
            best_on_train=_best_of_class(self._own_scores(self._model, samples, labels), labels),
            quantile=self.quantile,
        )
        return self

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """The possibility π_c of every sample for every class, in [0, 1], shape (n, C). Rows need not sum to one."""
        check_is_fitted(self)
        samples = validate_data(self, X, reset=False, dtype=np.float64)
        return pknn.possibilities(self._model, samples, K=self.n_neighbors, m=self.m)

    def _counts(self, class_sizes: np.ndarray) -> np.ndarray:
        if self.n_prototypes is None:
            return pknn.default_counts(class_sizes, self.n_neighbors)
        return np.full(len(class_sizes), self.n_prototypes)

    def _trained(self, X: np.ndarray, labels: np.ndarray, counts: np.ndarray, seed: int) -> pknn.Prototypes:
        return pknn.train(X, labels, counts.tolist(), K=self.n_neighbors, form=self.eta, seed=seed)

    def _own_scores(self, model: pknn.Prototypes, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return pknn.possibilities(model, X, K=self.n_neighbors, m=self.m)[np.arange(len(X)), labels]

    def _check_parameters(self) -> None:
        for name in ("n_neighbors", "n_prototypes"):
            value = getattr(self, name)
            if name == "n_prototypes" and value is None:
                continue
            if not isinstance(value, Integral) or int(value) < 1:
                raise InputError(f"{name}={value!r} must be a whole number of at least 1; omit it for the default")
        if self.eta not in ("scaled", "plain"):
            raise InputError(f"eta={self.eta!r} is not known; use 'scaled' or 'plain'")
        if not (isinstance(self.m, Real) and 1.0 < float(self.m) < np.inf):
            raise InputError(f"m={self.m!r} must be a finite number above 1; 2 is usual")
        if isinstance(self.threshold, str) and self.threshold not in ("leave-note-out", "paper"):
            raise InputError(
                f"threshold={self.threshold!r} is not known; use 'leave-note-out', 'paper', a number, or one number "
                "for each class"
            )


def _best_of_class(own_scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.array([own_scores[labels == c].max() for c in range(labels.max() + 1)])


def _notes(X: np.ndarray, labels: np.ndarray, groups: np.ndarray, classes: np.ndarray) -> list[list[np.ndarray]]:
    """For each class the row numbers of each of its notes; blocks where there is one note, nothing for one sample."""
    parts, single = [], []
    for c, name in enumerate(classes.tolist()):
        rows = np.flatnonzero(labels == c)
        parts.append([rows[part] for part in leave_out_parts(merge_copies(X[rows], groups[rows]))])
        if len(rows) > 1 and len(np.unique(groups[rows])) == 1:
            single.append(name)
    if single:
        warnings.warn(
            f"the classes {single} have a single note: blocks of its samples are left out instead, which makes their "
            "left-out scores too good; give at least two notes for each class",
            UserWarning,
            stacklevel=3,
        )
    return parts
