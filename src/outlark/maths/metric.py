"""The units in which distances are measured before Eq. (6).

The squared exponential kernel sums squared differences over the features, so a feature in millimetres weighs a million
times more than the same feature in metres. Either all features share a unit ("euclidean", the paper), or each
is divided by how much it varies *within* the classes ("within"), or their covariance within the classes is undone as
well ("whiten"). All classes share one metric, so their scores stay commensurable.
"""

import numpy as np

#: Below this share of features that effectively carry the distance, features are assumed to have different units.
PARTICIPATION_FLOOR = 0.25
#: A covariance matrix of the features is trusted from this many samples for each feature.
SAMPLES_PER_FEATURE = 5


def within_deviations(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """X less the mean of each sample's class, shape (n, d)."""
    W = X.astype(float, copy=True)
    for c in np.unique(labels):
        W[labels == c] -= X[labels == c].mean(axis=0)
    return W


def within_class_scale(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The fourth root of the mean fourth power of the deviations from the class mean, shape (d,).

    The fourth power rather than the second: a feature that is zero but for one sample in a hundred has a tiny standard
    deviation, and dividing by that would let it dominate every distance. Features that never vary get the root mean
    square of the other scales.

    Examples
    --------
    >>> X = np.array([[0.0, 100.0], [2.0, 300.0], [5.0, 0.0], [7.0, 200.0]])
    >>> within_class_scale(X, np.array([0, 0, 1, 1]))
    array([  1., 100.])
    """
    W = np.abs(within_deviations(X, labels))
    largest = W.max(axis=0)
    varies = largest > 1e-9 * np.abs(X).max(axis=0)
    scale = np.ones(X.shape[1])
    if not varies.any():
        return scale
    scale[varies] = largest[varies] * np.mean((W[:, varies] / largest[varies]) ** 4, axis=0) ** 0.25
    scale[~varies] = np.sqrt(np.mean(scale[varies] ** 2))
    return scale


def participation(X: np.ndarray, labels: np.ndarray) -> float:
    """The share of features that effectively carry Euclidean distances within classes: ``(Σv)²/(d Σv²)``, in (0, 1].

    1 when all features vary alike, 1/d when a single one dominates.

    >>> X = np.array([[0.0, 0.0], [1.0, 1000.0], [2.0, 0.0], [3.0, 1000.0]])
    >>> round(participation(X, np.zeros(4)), 2)
    0.5
    """
    v = np.mean(within_deviations(X, labels) ** 2, axis=0)
    total = v.sum()
    if total == 0.0:
        return 1.0
    v = v / total
    return float(1.0 / (len(v) * np.sum(v**2)))


def oas_covariance(W: np.ndarray) -> np.ndarray:
    """The covariance of deviations W (n, d), shrunk towards a multiple of the identity (Chen et al. 2010), (d, d)."""
    n, d = W.shape
    S = W.T @ W / n
    mean, alpha = np.trace(S) / d, np.mean(S**2)
    numerator, denominator = alpha + mean**2, (n + 1.0) * (alpha - mean**2 / d)
    shrinkage = 1.0 if denominator == 0.0 else min(1.0, numerator / denominator)
    S *= 1.0 - shrinkage
    S.flat[:: d + 1] += shrinkage * mean
    return S


def feature_map(metric: str, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What X is multiplied by before distances are taken: a vector (d,), or a matrix (d, d) for "whiten"."""
    if metric == "euclidean":
        return np.ones(X.shape[1])
    scale = within_class_scale(X, labels)
    if metric == "within":
        return 1.0 / scale
    S = oas_covariance(within_deviations(X / scale, labels))
    variances, directions = np.linalg.eigh(S)
    if variances[0] <= 0.0:  # nothing varies within the classes
        return 1.0 / scale
    return (directions / np.sqrt(variances)) / scale[:, np.newaxis]


def mapped(X: np.ndarray, by: np.ndarray) -> np.ndarray:
    """X in the units of the metric, shape (n, d).

    >>> mapped(np.array([[1.0, 2.0]]), np.array([1.0, 0.5]))
    array([[1., 1.]])
    """
    if by.ndim == 2:
        return X @ by
    return X if (by == 1.0).all() else X * by


def candidate_metrics(X: np.ndarray, labels: np.ndarray) -> list[str]:
    """The metrics to choose from, the one that wins a tie first.

    "euclidean" is not a candidate where a few features dominate the distances: two *known* classes can often be told
    apart by those few alone, an unknown one cannot. "whiten" needs enough samples for a covariance matrix. With a
    single class there is nothing to choose by.
    """
    one_unit = participation(X, labels) >= PARTICIPATION_FLOOR
    if len(np.unique(labels)) == 1:
        return ["euclidean"] if one_unit else ["within"]
    enough = len(X) >= SAMPLES_PER_FEATURE * X.shape[1]
    return ["whiten"] * enough + ["within"] + ["euclidean"] * one_unit
