"""Class models to compare MDD-KM with: each takes its place in `rival_detectors.LearntNoteDetector`.

Samples in, class scores out: the more a sample resembles a class the higher its score, and near 0 means that it
resembles nothing. Distances d become ``1/(1 + (d/s)²)``: 1 at a training sample, ½ at the distance s of silence, which
all front ends put at the origin. Each class is modelled alone or against the others, so **the scores of two classes are
not on one scale**, unlike those of `outlark.MDDKM`. Settings are the usual ones for few samples in many dimensions, the
same for all data.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import pairwise_distances
from sklearn.svm import SVC, OneClassSVM

from outlark.errors import InputError
from outlark.estimators.occgp import OCCGP
from outlark.estimators.open_set import class_thresholds
from outlark.maths.description import one_blas_thread, score
from outlark.maths.notes import balanced_subset, leave_out_folds, leave_out_parts, merge_copies

#: Folds for Platt's sigmoid.
PLATT_FOLDS = 5
#: A covariance is shrunk at least this much: with two samples the rule of Ledoit and Wolf sees no need to.
LEAST_SHRINKAGE = 1e-3
#: A GP classifier costs the cube of the number of samples, for every class and step: it gets this many, evenly drawn.
GP_SAMPLES = 300


class ClassModels(BaseEstimator):
    """What all of them share."""

    needs_two_classes = False

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Model the classes; `groups` are note ids, by default one for each sample."""
        samples = np.asarray(X, dtype=float)
        self.classes_, labels = np.unique(y, return_inverse=True)
        notes = np.arange(len(samples)) if groups is None else np.asarray(groups)
        if self.needs_two_classes and len(self.classes_) == 1:
            raise InputError(
                f"{type(self).__name__} separates classes from one another, but the only class is "
                f"{self.classes_.tolist()[0]!r}; give examples of a second one, or choose another method"
            )
        with one_blas_thread():
            self._fit(samples, labels, notes)
        return self

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """How much every sample resembles every class, at least 0, shape (n, C)."""
        return self._scores(np.asarray(X, dtype=float))

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        raise NotImplementedError

    def _scores(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class NearestNeighbour(ClassModels):
    """The Euclidean distance to the nearest sample of the class.

    >>> model = NearestNeighbour().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> model.class_scores([[0.0, 1.0], [0.0, 0.0]]).round(2)
    array([[1.  , 0.33],
           [0.5 , 0.5 ]])
    """

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", X, X))))
        self._of_class = [X[labels == c] for c in range(labels.max() + 1)]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([_similarity(pairwise_distances(X, c).min(axis=1), self._unit) for c in self._of_class])


class ClassMahalanobis(ClassModels):
    """The Mahalanobis distance from the mean of the class, with the covariance of Ledoit and Wolf."""

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._distances = [mahalanobis(X[labels == c]) for c in range(labels.max() + 1)]
        silence = np.zeros((1, X.shape[1]))
        # A member lies √d from the mean. Where the mean is near the origin this is the larger of the two.
        self._units = [float(np.hypot(distance(silence)[0], X.shape[1] ** 0.5)) for distance in self._distances]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        found = zip(self._distances, self._units, strict=True)
        return np.column_stack([_similarity(distance(X), unit) for distance, unit in found])


class ClassSVM(ClassModels):
    """A one-class SVM for each class, ν = .1; with this kernel (RBF) it is the same as SVDD, a ball in feature space.

    The score is ``Σ α_i k(x_i, x) / ρ``: 1 at the border of the class, 0 far away.
    """

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._machines = [one_class_svm(X[labels == c]) for c in range(labels.max() + 1)]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([machine.score_samples(X) / machine.offset_[0] for machine in self._machines])


class IndependentOCCGP(ClassModels):
    """One `outlark.OCCGP` for each class, each with its own hyper-parameters (Sec. 2.2): not commensurable.

    The score is MDD-KM's, ``-log √(d_c/σ_c²)``. Thresholds are from left-out notes, in closed form, with the
    hyper-parameters kept. `sigma`, `sigma_reg`, `metric` and `target` are those of `outlark.OCCGP`.
    """

    def __init__(
        self,
        *,
        sigma: float | None = None,
        sigma_reg: float | str = "auto",
        metric: str = "global",
        target: str = "centered",
    ) -> None:
        self.sigma = sigma
        self.sigma_reg = sigma_reg
        self.metric = metric
        self.target = target

    @classmethod
    def paper(cls) -> Self:
        """The settings of ``MDDKM.paper()``, with thresholds from left-out notes."""
        return cls(sigma_reg="condition", metric="euclidean", target="paper")

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        of_class = [labels == c for c in range(labels.max() + 1)]
        if min(own.sum() for own in of_class) == 1:
            raise InputError("a class has a single sample, too few to learn a length scale; give it a second one")
        self._models = [OCCGP(**self.get_params()).fit(X[own], groups=notes[own]) for own in of_class]
        scores = self._scores(X)
        self.thresholds_ = class_thresholds(
            "leave-note-out",
            classes=self.classes_,
            left_out=[score(-model.left_out_scores_) for model in self._models],
            best_on_train=np.array([scores[own, c].max() for c, own in enumerate(of_class)]),
            quantile=0.1,
        )

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([score(-model.score_samples(X)) for model in self._models])


class GPReject(ClassModels):
    """Probabilities of a GP classifier. They sum to 1, so a sample that resembles nothing has about 1/C, not 0."""

    needs_two_classes = True

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._classifier = gp_classifier(X, labels, notes)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return self._classifier.predict_proba(X)


class PlattReject(ClassModels):
    """For each class an SVM against the rest, with Platt's probability; they do not sum to 1."""

    needs_two_classes = True

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._machines = platt_svm(X, labels, notes)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return membership_probabilities(self._machines, X)


def mahalanobis(X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The Mahalanobis distance from the mean, or the Euclidean one where all samples are the same."""
    mean = X.mean(axis=0)
    S = (X - mean).T @ (X - mean) / len(X)
    shrinkage = max(float(ledoit_wolf_shrinkage(X)) if len(X) > 1 else 1.0, LEAST_SHRINKAGE)
    variance = float(np.trace(S)) / len(S)
    covariance = (1.0 - shrinkage) * S + shrinkage * variance * np.eye(len(S))
    root = np.eye(len(S)) if variance == 0.0 else solve_triangular(cholesky(covariance).T, np.eye(len(S)), lower=True)
    return partial(_length, mean, root)


def one_class_svm(X: np.ndarray) -> OneClassSVM:
    """ν = .1 and scikit-learn's default width; the zero of its decision function is the border of the class."""
    return OneClassSVM(gamma="scale", nu=0.1).fit(X)


def gp_classifier(X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> GaussianProcessClassifier:
    """Laplace GP classifiers, one against the rest; amplitude and length scale by marginal likelihood."""
    notes = np.arange(len(X)) if groups is None else groups
    rows = balanced_subset(y, notes, GP_SAMPLES, np.random.default_rng(0))
    start = float(np.median(pairwise_distances(X[rows]))) or 1.0
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(start, (start / 30, start * 30))
    classifier = GaussianProcessClassifier(kernel, random_state=0, copy_X_train=False)
    with warnings.catch_warnings():
        # A kernel parameter at the end of its range, where the likelihood is flat: the fit is as good as it gets.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.fit(X[rows], y[rows])


def platt_svm(X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> list[CalibratedClassifierCV]:
    """For each class an SVM against the rest, whose decisions Platt's sigmoid turns into a probability.

    Unlike the votes between pairs of classes of scikit-learn's multi-class SVM, these margins fall far away from a
    class. With groups the sigmoid is fitted to decisions on held-out notes; five stratified folds otherwise.
    """
    folds = None
    if groups is not None:
        _, number, counts = np.unique(y, return_inverse=True, return_counts=True)
        single = np.flatnonzero(counts[number] == 1)  # cannot be held out and kept: it is doubled
        X, y, groups = (np.concatenate([values, values[single]]) for values in (X, y, groups))
        every = np.arange(len(X))
        folds = [(np.setdiff1d(every, out), out) for out in leave_out_folds(note_parts(X, y, groups), PLATT_FOLDS)]
    machine = CalibratedClassifierCV(SVC(C=10.0, gamma="scale"), method="sigmoid", ensemble=False, cv=folds)
    return [clone(machine).fit(X, y == label) for label in np.unique(y)]


def membership_probabilities(machines: Sequence[CalibratedClassifierCV], X: np.ndarray) -> np.ndarray:
    return np.column_stack([machine.predict_proba(X)[:, 1] for machine in machines])


def note_parts(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[list[np.ndarray]]:
    """For each class the rows of each note with its copies; blocks of samples of a single note, nothing of a sample."""
    found = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rows = rows[np.argsort(groups[rows], kind="stable")]
        found.append([np.sort(rows[part]) for part in leave_out_parts(merge_copies(X[rows], groups[rows]))])
    return found


def _length(mean: np.ndarray, root: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.linalg.norm((Z - mean) @ root.T, axis=1)


def _similarity(distances: np.ndarray, unit: float) -> np.ndarray:
    """From 1 at no distance through ½ at the unit towards 0."""
    return 1.0 / (1.0 + (distances / (unit or 1.0)) ** 2)
