"""The methods that MDD-KM is compared with, each fitted in one call: on the samples of a class, or of all classes.

Settings are the usual ones for a few dozen samples per class, the same for all data.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import pairwise_distances
from sklearn.svm import SVC, OneClassSVM

from outlark.maths.notes import balanced_subset, leave_out_parts, merge_copies

#: Samples (n, d) to scores (n,), high = member.
Scorer = Callable[[np.ndarray], np.ndarray]
#: A covariance is shrunk at least this much: with two samples Ledoit and Wolf's rule sees no need to.
LEAST_SHRINKAGE = 1e-3
#: A GP classifier takes the cube of the number of samples, for every class and step: it gets so many, drawn evenly.
GP_SAMPLES = 300
PLATT_FOLDS = 5


def nearest_neighbour(X: np.ndarray) -> Scorer:
    """Minus the Euclidean distance to the nearest sample."""
    return partial(_minus_nearest, X)


def mahalanobis(X: np.ndarray) -> Scorer:
    """Minus the Mahalanobis distance from the mean, with the covariance of Ledoit and Wolf.

    Minus the Euclidean distance where all samples are the same.
    """
    mean = X.mean(axis=0)
    S = (X - mean).T @ (X - mean) / len(X)
    shrinkage = max(float(ledoit_wolf_shrinkage(X)) if len(X) > 1 else 1.0, LEAST_SHRINKAGE)
    variance = float(np.trace(S)) / len(S)
    covariance = (1.0 - shrinkage) * S + shrinkage * variance * np.eye(len(S))
    root = np.eye(len(S)) if variance == 0.0 else solve_triangular(cholesky(covariance).T, np.eye(len(S)), lower=True)
    return partial(_minus_length, mean, root)


def one_class_svm(X: np.ndarray) -> OneClassSVM:
    """ν = .1 and scikit-learn's usual width; the zero of its decision function is the border of the class."""
    return OneClassSVM(gamma="scale", nu=0.1).fit(X)


def gp_classifier(X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> GaussianProcessClassifier:
    """Laplace GP classifiers, one against the rest; amplitude and one length scale by marginal likelihood.

    The search starts at the median distance, with no restarts: a restart costs as much again and the start is good.
    """
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

    Margins of one class against the rest fall far away from it. The votes between pairs of classes, of which
    scikit-learn makes the decisions of a single SVM for all, do not: they are as sure of a note that nobody knows.

    With groups the sigmoid is fitted to decisions on notes that were held out; five stratified folds otherwise.
    """
    folds = None
    if groups is not None:
        _, number, counts = np.unique(y, return_inverse=True, return_counts=True)
        single = np.flatnonzero(counts[number] == 1)  # cannot be held out and kept: it stands for two
        X, y, groups = (np.concatenate([values, values[single]]) for values in (X, y, groups))
        folds = _folds(note_parts(X, y, groups), len(X))
    machine = CalibratedClassifierCV(SVC(C=10.0, gamma="scale"), method="sigmoid", ensemble=False, cv=folds)
    return [clone(machine).fit(X, y == label) for label in np.unique(y)]


def membership_probabilities(machines: Sequence[CalibratedClassifierCV], X: np.ndarray) -> np.ndarray:
    """The probability that each sample is of the class of each machine, (n, C); rows need not sum to 1."""
    return np.column_stack([machine.predict_proba(X)[:, 1] for machine in machines])


def note_parts(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[list[np.ndarray]]:
    """For each class the rows of each of its notes, a note together with its copies, in the order of the note ids.

    Blocks of its samples where a class has one note; nothing for a single sample.
    """
    found = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rows = rows[np.argsort(groups[rows], kind="stable")]
        found.append([np.sort(rows[part]) for part in leave_out_parts(merge_copies(X[rows], groups[rows]))])
    return found


def _minus_nearest(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return -pairwise_distances(Z, X).min(axis=1)


def _minus_length(mean: np.ndarray, root: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return -np.linalg.norm((Z - mean) @ root.T, axis=1)


def _folds(parts: Sequence[Sequence[np.ndarray]], n_samples: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Train and test rows: notes are held out whole, and some of each class is always kept."""
    fold = np.empty(n_samples, dtype=int)
    n_folds = min(PLATT_FOLDS, max(len(of_class) for of_class in parts))
    for of_class in parts:
        for i, part in enumerate(of_class):
            fold[part] = i % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
