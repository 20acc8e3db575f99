"""The rows of the open-set benchmark: each a function ``fit(X, y, seed)`` that returns ``class_scores(X)`` → (n, C).

Settings are the usual ones for a few dozen samples per class, the same for every data set; none was tuned on the test
samples. A method that cannot do with one class returns None for it.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import rivals
from scipy.special import logsumexp
from sklearn.covariance import OAS
from sklearn.ensemble import IsolationForest
from sklearn.metrics import pairwise_distances
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor

from outlark import MDDKM, OCCGP, PKNN
from outlark.estimators.pknn import default_counts, possibilities, train

#: Samples (n, d) to scores (n,) or (n, C), high = member.
Scorer = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray, int], Scorer | None]


def _per_class(describe: Callable[[np.ndarray, int], Scorer]) -> Fit:
    """A one-class method, fitted to each class alone; the columns are in the order of the sorted labels."""

    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> Scorer:
        scorers = [describe(X[y == label], seed) for label in np.unique(y)]
        return lambda X_test: np.column_stack([score(X_test) for score in scorers])

    return fit


def _mddkm(X: np.ndarray, y: np.ndarray, seed: int) -> Scorer:
    return MDDKM().fit(X, y).class_scores


def _mddkm_literal(X: np.ndarray, y: np.ndarray, seed: int) -> Scorer:
    return MDDKM.paper().fit(X, y).class_scores


def _occgp(X: np.ndarray, seed: int) -> Scorer:
    return OCCGP().fit(X).score_samples


def _pknn(X: np.ndarray, y: np.ndarray, seed: int) -> Scorer:
    """The class scores of `PKNN()`, without the ten refits for its thresholds, which the tables do not use."""
    settings = PKNN().get_params()
    K, m = settings["n_neighbors"], settings["m"]
    labels = np.unique(y, return_inverse=True)[1]
    counts = default_counts(np.bincount(labels), K).tolist()
    prototypes = train(X, labels, counts, K=K, form=settings["eta"], seed=seed)
    return lambda X_test: possibilities(prototypes, X_test, K=K, m=m)


def _local_outlier_factor(X: np.ndarray, seed: int) -> Scorer:
    return LocalOutlierFactor(n_neighbors=min(20, len(X) - 1), novelty=True).fit(X).score_samples


def _isolation_forest(X: np.ndarray, seed: int) -> Scorer:
    return IsolationForest(n_estimators=100, random_state=seed).fit(X).score_samples


def _gaussian_mixture(X: np.ndarray, seed: int) -> Scorer:
    """Log density; 1 to 3 components, full, diagonal or spherical, by BIC.

    The variance floor, a tenth of the mean variance of a feature, keeps features that are constant in a few dozen
    samples from deciding alone.
    """
    floor = 0.1 * X.var(axis=0).mean()
    models = (
        GaussianMixture(k, covariance_type=shape, reg_covar=floor, random_state=seed).fit(X)
        for shape in ("full", "diag", "spherical")
        for k in (1, 2, 3)
    )
    return min(models, key=lambda model: model.bic(X)).score_samples


def _kernel_density(X: np.ndarray, seed: int) -> Scorer:
    """Log density with a Gaussian kernel, its width by the likelihood of left-out samples."""
    squared = pairwise_distances(X, metric="sqeuclidean")
    np.fill_diagonal(squared, np.inf)
    typical = np.sqrt(np.median(squared.min(axis=1))) or 1.0

    def left_out(width: float) -> float:
        return float(np.mean(logsumexp(-squared / (2 * width**2), axis=1)) - X.shape[1] * np.log(width))

    width = max(typical * np.geomspace(0.2, 5.0, 25), key=left_out)
    return KernelDensity(bandwidth=width).fit(X).score_samples


def _conformal(X: np.ndarray, seed: int) -> Scorer:
    """Conformal p-value of the distance to the nearest neighbour, among the leave-one-out distances of the class.

    (#{i: a_i ≥ a} + t)/(n + 1), where t = m/(m + a) in (0, 1], m the median of the a_i, takes the place of the random
    tie-break: p-values have only n + 1 steps, and beyond the last one all would be alike.
    """
    distances = pairwise_distances(X)
    np.fill_diagonal(distances, np.inf)
    own = np.sort(distances.min(axis=1))
    median = max(float(np.median(own)), np.finfo(float).tiny)  # 0 in a table with many copies

    def score(X_test: np.ndarray) -> np.ndarray:
        found = pairwise_distances(X_test, X).min(axis=1)
        at_least = len(own) - np.searchsorted(own, found, side="left")
        return (at_least + median / (median + found)) / (len(own) + 1)

    return score


def _one_class_svm(X: np.ndarray, seed: int) -> Scorer:
    """The decision function, whose zero is the border of the class, makes the classes comparable."""
    return rivals.one_class_svm(X).decision_function


def _mahalanobis(X: np.ndarray, seed: int) -> Scorer:
    distance = rivals.mahalanobis(X)
    return lambda X_test: -distance(X_test)


def _gp_classifier(X: np.ndarray, y: np.ndarray, seed: int) -> Scorer | None:
    return rivals.gp_classifier(X, y).predict_proba if len(np.unique(y)) > 1 else None


def _platt_svm(X: np.ndarray, y: np.ndarray, seed: int) -> Scorer | None:
    return partial(rivals.membership_probabilities, rivals.platt_svm(X, y)) if len(np.unique(y)) > 1 else None


def _gaussian_oas(X: np.ndarray, seed: int) -> Scorer:
    """Log density of a Gaussian with a covariance shrunk by OAS: quadratic discriminant analysis, without priors."""
    model = OAS().fit(X)
    log_volume = np.linalg.slogdet(model.covariance_)[1]
    return lambda X_test: -0.5 * (model.mahalanobis(X_test) + log_volume)


METHODS: dict[str, Fit] = {
    "MDD-KM": _mddkm,
    "MDD-KM literal": _mddkm_literal,
    "OCC-GP ensemble": _per_class(_occgp),
    "PKNN": _pknn,
    "k-NN": _per_class(lambda X, seed: lambda Z: -pairwise_distances(Z, X).min(axis=1)),
    "one-class SVM": _per_class(_one_class_svm),
    "LOF": _per_class(_local_outlier_factor),
    "isolation forest": _per_class(_isolation_forest),
    "Mahalanobis": _per_class(_mahalanobis),
    "QDA, OAS": _per_class(_gaussian_oas),
    "GMM": _per_class(_gaussian_mixture),
    "KDE": _per_class(_kernel_density),
    "GP classifier": _gp_classifier,
    "SVM-Platt": _platt_svm,
    "conformal k-NN": _per_class(_conformal),
}
