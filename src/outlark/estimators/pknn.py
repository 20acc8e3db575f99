r"""Possibilistic K-nearest neighbours (PKNN; Frigui and Gader, 2009), the method that the paper compares with.

.. math::

   π_c(x) = \frac1K \sum_{k=1}^{K} u_c(p_k)\, w(x, p_k), \qquad
   w(x, p) = \frac{1}{1 + [\max(0, ‖x - p‖ - η_1)/η_2]^{2/(m-1)}}

over the K prototypes nearest to x, of whatever class. A self-organising map finds the prototypes of each class, the
same number for all, so that a large class does not drown a small one; u are fuzzy labels by Keller's rule. A
possibility lies in [0, 1] and those of a sample need not sum to one: all low = unknown, several high = ambiguous.
"""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from minisom import MiniSom
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.open_set import (
    OpenSetMixin,
    check_count,
    check_groups,
    check_magnitude,
    check_one_kind,
    check_outlier_label,
    class_thresholds,
    encode_labels,
    refuse,
)
from outlark.maths.description import blocks
from outlark.maths.notes import leave_out_folds, leave_out_parts, merge_copies

EtaForm = Literal["scaled", "plain"]
PKNN_BLOCK_ROWS = 1024
#: Shares of Keller's rule: what a prototype's own class has in any case, and what its neighbours share out.
OWN_SHARE, NEIGHBOUR_SHARE = 0.51, 0.49
MAX_PROTOTYPES = 50
SAMPLES_PER_PROTOTYPE = 2
#: Steps of a map's training: five for each sample, within these bounds. Ten times as many moved AUROC by .001.
MIN_STEPS, MAX_STEPS = 500, 5000
#: τ of Sec. 4.2. It is a possibility of the plain form, so it depends on the units of the features.
PKNN_PAPER_THRESHOLD = 0.0015
#: Refits without some of the notes, for the left-out scores.
PKNN_REFITS = 10


class Eta(NamedTuple):
    """η₁, the distance up to which a sample is fully typical of a prototype, and η₂, the scale beyond it."""

    shift: float
    scale: float


class Prototypes(NamedTuple):
    """A trained PKNN."""

    #: (P_total, d).
    points: np.ndarray
    #: The number of the class that each prototype was found in, (P_total,).
    owners: np.ndarray
    #: Fuzzy labels u, (P_total, C).
    labels: np.ndarray
    eta: Eta


class PKNN(OpenSetMixin, ClassifierMixin, BaseEstimator):
    r"""Possibilistic K-nearest neighbours: how much a sample resembles each class, whatever the other classes.

    The possibility of a class (see `outlark.estimators.pknn`) is taken over the K prototypes nearest to x. These are
    the units of one self-organising map for each class, with fuzzy labels by Keller's rule. Distances are Euclidean:
    standardise features whose units differ.

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
        Where the maps start and the order in which they see the samples. Both are drawn by row number, so that another
        order of the rows, like another seed, moves prototypes: of 400 predictions near the borders a few change. The
        names and the order of classes do not matter.

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
        for out in leave_out_folds(parts, PKNN_REFITS):
            model = self._trained(np.delete(samples, out, axis=0), np.delete(labels, out), counts, seed)
            left_out[out] = self._own_scores(model, samples[out], labels[out])
        self.left_out_scores_ = [left_out[(labels == c) & ~np.isnan(left_out)] for c in range(len(self.classes_))]
        self.left_out_note_scores_ = [np.array([left_out[note].mean() for note in notes]) for notes in parts]
        self.thresholds_ = class_thresholds(
            PKNN_PAPER_THRESHOLD if isinstance(self.threshold, str) and self.threshold == "paper" else self.threshold,
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
        return possibilities(self._model, samples, K=self.n_neighbors, m=self.m)

    def _counts(self, class_sizes: np.ndarray) -> np.ndarray:
        if self.n_prototypes is None:
            return default_counts(class_sizes, self.n_neighbors)
        return np.full(len(class_sizes), self.n_prototypes)

    def _trained(self, X: np.ndarray, labels: np.ndarray, counts: np.ndarray, seed: int) -> Prototypes:
        return train(X, labels, counts.tolist(), K=self.n_neighbors, form=self.eta, seed=seed)

    def _own_scores(self, model: Prototypes, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return possibilities(model, X, K=self.n_neighbors, m=self.m)[np.arange(len(X)), labels]

    def _check_parameters(self) -> None:
        check_count("n_neighbors", self.n_neighbors)
        if self.n_prototypes is not None:
            check_count("n_prototypes", self.n_prototypes)
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


# ------------------------------------------------------------------ prototypes and possibilities


def default_counts(class_sizes: np.ndarray, K: int) -> np.ndarray:
    """How many prototypes each class gets: half as many as the smallest class has samples, at most 50, for all alike.

    Two samples to a prototype, so that it still averages: with four samples for each class and scaled weights, samples
    as their own prototypes had AUROC .91 against .93. A class too small for K prototypes gets as many as it can and
    does not take the others below K.

    >>> default_counts(np.array([40, 800]), K=5), default_counts(np.array([1, 6, 800]), K=5)
    (array([20, 20]), array([1, 3, 5]))
    """
    halves = np.maximum(1, np.asarray(class_sizes) // SAMPLES_PER_PROTOTYPE)
    return np.minimum(halves, min(MAX_PROTOTYPES, max(K, int(halves.min()))))


def grid_shape(P: int) -> tuple[int, int]:
    """The most nearly square grid of exactly P units.

    >>> grid_shape(12), grid_shape(7)
    ((3, 4), (1, 7))
    """
    rows = next(a for a in range(int(np.sqrt(P)), 0, -1) if P % a == 0)
    return rows, P // rows


def som_prototypes(X: np.ndarray, P: int, seed: int) -> np.ndarray:
    """The units of a self-organising map trained on the samples of one class.

    The samples are centred and divided by one number, their root mean square distance to the mean, so that neither
    units nor offset matter; the features keep their relative magnitude. The map starts from P distinct samples laid out
    along the two principal axes, its neighbourhood shrinks to a third and its learning rate falls to zero.

    With no more distinct samples than P, these samples: there is nothing to summarise. With P = 1, the mean.

    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> np.sort(som_prototypes(X, 2, seed=0).ravel()).round()
    array([0., 9.])
    """
    rng = np.random.default_rng(seed)
    n_steps = int(np.clip(5 * len(X), MIN_STEPS, MAX_STEPS))
    # MiniSom would walk through the first n_steps samples only.
    X = X[rng.permutation(len(X))[:n_steps]]
    distinct = np.unique(X, axis=0)
    if len(distinct) <= P:
        return distinct
    mean = X.mean(axis=0)
    if P == 1:
        return mean[np.newaxis]
    scale = np.sqrt(np.mean(np.sum((X - mean) ** 2, axis=1)))
    rows, columns = grid_shape(P)
    decay = "linear_decay_to_zero"
    som = MiniSom(rows, columns, X.shape[1], sigma=min(columns / 2, 1.5), decay_function=decay, random_seed=seed)
    Z = (X - mean) / scale
    start = (rng.permutation(distinct)[:P] - mean) / scale
    som.get_weights()[...] = _laid_out(start, rows, columns, axes=np.linalg.svd(Z, full_matrices=False)[2])
    som.train(Z, n_steps, random_order=True)
    return som.get_weights().reshape(P, -1) * scale + mean


def _laid_out(W: np.ndarray, rows: int, columns: int, axes: np.ndarray) -> np.ndarray:
    """W (P, d) on the grid (rows, columns, d): along the first axis by columns, along the second within a column."""
    by_column = W[np.argsort(W @ axes[0], kind="stable")].reshape(columns, rows, -1)
    second = axes[min(1, len(axes) - 1)]
    order = np.argsort(by_column @ second, axis=1, kind="stable")
    return np.take_along_axis(by_column, order[..., np.newaxis], axis=1).swapaxes(0, 1)


def keller_labels(
    points: np.ndarray, owners: np.ndarray, X: np.ndarray, labels: np.ndarray, n_classes: int, K: int
) -> np.ndarray:
    """Keller's rule: ``u_j = .51 [j own] + .49 n_j/K``, n_j of the K nearest training samples being of class j.

    Shape (P_total, n_classes); rows sum to one. K is reduced to n where there are fewer samples.

    >>> X, labels = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> keller_labels(np.array([[0.5]]), np.array([0]), X, labels, n_classes=2, K=4)
    array([[0.755, 0.245]])
    """
    K = min(K, len(X))
    u = np.empty((len(points), n_classes))
    for i, (p, own) in enumerate(zip(points, owners, strict=True)):
        d = cdist(p[np.newaxis], X)[0]
        u[i] = NEIGHBOUR_SHARE * np.bincount(labels[_nearest(d, K)], minlength=n_classes) / K
        u[i, own] += OWN_SHARE
    return u


def eta_of(points: np.ndarray, owners: np.ndarray, X: np.ndarray, labels: np.ndarray, form: EtaForm) -> Eta:
    """η₁ = mean and η₂ = 3·sd of the distance from a sample to the nearest prototype of its class; "plain" has η₂ = 1.

    Classes have equal weight. A prototype that is the sample itself does not count: it would make the distances vanish
    as P nears n_c. η₂ is at least η₁/4, for the sd of a handful of distances may be near 0 by chance.
    Where there are no distances (one distinct sample in each class) η₁ = 0 and η₂ is that of the nearest prototypes.

    >>> points, owners = np.array([[0.0], [3.0]]), np.array([0, 0])
    >>> X = np.array([[1.0], [-1.0], [6.0], [6.0]])
    >>> eta_of(points, owners, X, np.zeros(4), "scaled")
    Eta(shift=2.0, scale=3.0)
    """
    found = []
    for c in np.unique(owners):
        d = cdist(X[labels == c], points[owners == c])
        r = np.where(d > 0.0, d, np.inf).min(axis=1)
        found.append(r[np.isfinite(r)])
    share = np.concatenate([np.full(len(r), 1.0 / max(1, len(r))) for r in found])
    if not share.size:
        return Eta(0.0, 1.0 if form == "plain" else _least_distance(points))
    distance = np.concatenate(found)
    shift = float(np.average(distance, weights=share))
    sd = float(np.sqrt(np.average((distance - shift) ** 2, weights=share)))
    if form == "plain":
        return Eta(shift, 1.0)
    return Eta(shift, max(3.0 * sd, 0.25 * shift))


def _least_distance(points: np.ndarray) -> float:
    """The distance between the nearest two different points; 1 if there are none."""
    d = pdist(points)
    return float(np.min(d[d > 0.0])) if np.any(d > 0.0) else 1.0


def _nearest(d: np.ndarray, K: int) -> np.ndarray:
    """Where the K smallest of the last axis are, in no particular order."""
    return np.argpartition(d, K - 1, axis=-1)[..., :K]


def train(
    X: np.ndarray, labels: np.ndarray, counts: Sequence[int], *, K: int, form: EtaForm = "scaled", seed: int = 0
) -> Prototypes:
    """Prototypes, ``counts[c]`` of class c, their fuzzy labels, and η: `som_prototypes`, `keller_labels`, `eta_of`."""
    n_classes = len(counts)
    parts = [som_prototypes(X[labels == c], P, seed) for c, P in enumerate(counts)]
    points = np.concatenate(parts)
    owners = np.repeat(np.arange(n_classes), [len(part) for part in parts])
    u = keller_labels(points, owners, X, labels, n_classes, K)
    return Prototypes(points, owners, u, eta_of(points, owners, X, labels, form))


def typicality(d: np.ndarray, eta: Eta, m: float = 2.0) -> np.ndarray:
    """The weight ``w = 1/(1 + [max(0, d - η₁)/η₂]^{2/(m-1)})`` of a prototype at distance d, in [0, 1].

    >>> typicality(np.array([0.5, 1.0, 3.0, np.inf]), Eta(shift=1.0, scale=2.0))
    array([1. , 1. , 0.5, 0. ])
    """
    with np.errstate(over="ignore"):  # infinitely far is the right limit
        return 1.0 / (1.0 + (np.maximum(0.0, d - eta.shift) / eta.scale) ** (2.0 / (m - 1.0)))


def possibilities(
    model: Prototypes, Z: np.ndarray, *, K: int, m: float = 2.0, block_rows: int = PKNN_BLOCK_ROWS
) -> np.ndarray:
    """π_c of every row of Z for every class, shape (n, C), in blocks of rows. K is reduced to the prototypes there are.

    >>> points, owners = np.array([[0.0], [2.0]]), np.array([0, 1])
    >>> model = Prototypes(points, owners, np.eye(2), Eta(shift=1.0, scale=1.0))
    >>> possibilities(model, np.array([[0.0], [99.0]]), K=1).round(3)
    array([[1., 0.],
           [0., 0.]])
    """
    K = min(K, len(model.points))
    pi = np.empty((len(Z), model.labels.shape[1]))
    for block in blocks(len(Z), block_rows):
        d = cdist(Z[block], model.points)
        near = _nearest(d, K)
        w = typicality(np.take_along_axis(d, near, axis=1), model.eta, m)
        pi[block] = np.einsum("nk,nkc->nc", w, model.labels[near]) / K
    return np.minimum(pi, 1.0)  # .51 + .49 is one only to rounding
