r"""What one class has in place of the choice by other classes: a local metric, and ℓ by left-out likelihood.

**Metric.** Samples of a class may form clusters, and the covariance of all of them then says how the clusters lie, not
how far a sample may stray. So only differences between neighbours count: with the mean :math:`m_i` of the k nearest
samples of other notes of the class,

.. math:: r_i = \sqrt{k/(k+1)} (x_i - m_i), \quad W = (S + λ \tfrac{\mathrm{tr} S}{d} I)^{-1/2}, \quad z = xW,

where S is the shrunk covariance (OAS) of the :math:`r_i`. λ = 1 keeps directions in which samples hardly vary from
deciding alone. With n ≪ d it is close to a Mahalanobis distance.

**Scale.** Of all widths e the one under which each sample is most likely, given the other notes:

.. math:: e^* = \arg\max_e \sum_i \log \sum_{j ∉ G(i)} \exp(-‖z_i - z_j‖²/e²) - n d \log e, \quad ℓ = 4e^*.

A density is not what Eq. (11) needs: its own ℓ is longer, so that samples support each other.

**Few samples** tell little about either: towards `FEW` notes λ and ℓ grow. Copies of a sample, and samples of its own
note, are neither its neighbours nor evidence for it: with them e* would be 0 in a table of few distinct rows.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from outlark.errors import InputError

#: k, λ and ℓ/e* of many samples.
NEIGHBOURS, RIDGE, SCALE = 5, 1.0, 4.0
#: With this many notes or fewer λ is larger by `FEW_RIDGE`, and ℓ/e* times ``1 + FEW_SCALE``; beyond, both fall with
#: the square of the number (docs/decisions/017-one-class.md).
FEW, FEW_RIDGE, FEW_SCALE = 30, 12.0, 3.0
#: Neighbours that differ in distance by less than this share are equally near, and all count.
SAME_DISTANCE = 1e-9
#: e* is sought between these multiples of the median distance to the nearest sample of another note.
WIDTH_BOUNDS, WIDTH_POINTS, WIDTH_TOLERANCE = (2.0**-4, 2.0**5), 10, 1e-3


def fewness(n_notes: int) -> float:
    """1 up to `FEW` notes, then falling with the square of their number.

    >>> fewness(20), fewness(60)
    (1.0, 0.25)
    """
    return min(1.0, (FEW / n_notes) ** 2)


def local_map(X: np.ndarray, labels: np.ndarray, notes: np.ndarray, n_notes: int | None = None) -> np.ndarray | None:
    """W, (d, d); None where no sample differs from its neighbours. Neighbours are of the same class.

    λ is that of `n_notes`, by default as many as there are.

    >>> X = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 9.0]
    >>> W = local_map(X, np.zeros(500), np.arange(500))
    >>> variances = X.var(axis=0), (X @ W).var(axis=0)  # the ridge takes away part of the difference, not all of it
    >>> [round(float(v[1] / v[0])) for v in variances]
    [78, 41]
    """
    parts = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    r = np.concatenate([local_deviations(X[rows], notes[rows]) for rows in parts])
    if not len(r) or not r.any():
        return None
    n_notes = n_notes or sum(len(np.unique(notes[rows])) for rows in parts)
    return _inverse_root(r, RIDGE + FEW_RIDGE * fewness(n_notes))


def local_deviations(X: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """``√(k/(k+1)) (x - mean of its k nearest samples of other notes)``, a row for each sample that has any, (≤ n, d).

    Of neighbours that are equally near all count, so that the order of rows does not matter.

    >>> local_deviations(np.array([[0.0], [1.0], [5.0]]), np.arange(3)).ravel().round(2)
    array([-2.45, -1.22,  3.67])
    """
    gaps = gaps_to_other_notes(X, notes)
    near = np.zeros(gaps.shape)
    for own in np.unique(notes):
        rows = np.flatnonzero(notes == own)
        k = min(NEIGHBOURS, len(X) - len(rows))
        if k:
            farthest = np.partition(gaps[rows], k - 1, axis=1)[:, k - 1 : k]
            near[rows] = gaps[rows] <= farthest * (1.0 + SAME_DISTANCE)
    count = near.sum(axis=1)
    near, found = near[count > 0], count[count > 0, np.newaxis]
    return (X[count > 0] - near @ X / found) * np.sqrt(found / (found + 1.0))


def gaps_to_other_notes(Z: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """``‖z_i - z_j‖²`` between samples of different notes, infinite within a note, (n, n)."""
    Z = Z - Z.mean(axis=0)
    norms = np.einsum("ij,ij->i", Z, Z)
    gaps = Z @ (-2.0 * Z.T)
    gaps += norms
    gaps += norms[:, np.newaxis]
    np.maximum(gaps, 0.0, out=gaps)
    number = np.unique(notes, return_inverse=True)[1]
    gaps[number[:, np.newaxis] == number] = np.inf
    return gaps


def _inverse_root(r: np.ndarray, ridge: float) -> np.ndarray:
    """``(S + ridge · tr(S)/d · I)^(-1/2)`` of the shrunk covariance S of the deviations, (d, d).

    With fewer samples than features S is a multiple of the identity plus a matrix of their rank.
    """
    n, d = r.shape
    shrinkage, mean = oas_shrinkage(r)
    least = (shrinkage + ridge) * mean
    if d <= n:
        variances, directions = np.linalg.eigh(r.T @ r / n)
    else:
        variances, inner = np.linalg.eigh(r @ r.T / n)
        kept = variances > np.finfo(float).eps * n * variances[-1]
        variances = variances[kept]
        directions = r.T @ (inner[:, kept] / np.sqrt(n * variances))
    roots = 1.0 / np.sqrt((1.0 - shrinkage) * np.maximum(variances, 0.0) + least) - 1.0 / np.sqrt(least)
    W = (directions * roots) @ directions.T
    W.flat[:: d + 1] += 1.0 / np.sqrt(least)
    return W


def oas_shrinkage(r: np.ndarray) -> tuple[float, float]:
    """How far the covariance of deviations r (n, d) is shrunk towards a multiple of the identity, and that multiple.

    Oracle approximating shrinkage (Chen et al. 2010), ``(1 - shrinkage) S + shrinkage · mean · I``.
    """
    n, d = r.shape
    S = r.T @ r / n if d <= n else r @ r.T / n  # both have the same trace and the same sum of squares
    mean, alpha = float(np.trace(S)) / d, float(np.sum(S**2)) / d**2
    numerator, denominator = alpha + mean**2, (n + 1.0) * (alpha - mean**2 / d)
    return (1.0 if denominator <= 0.0 else min(1.0, numerator / denominator)), mean


def likelihood_length_scale(Z: np.ndarray, notes: np.ndarray) -> float:
    """ℓ of one class of samples in the units of the metric, (n, d).

    >>> Z = np.random.default_rng(0).normal(size=(400, 3))
    >>> 1.0 < likelihood_length_scale(Z, np.arange(400)) < 4.0
    True
    """
    return SCALE * (1.0 + FEW_SCALE * fewness(len(np.unique(notes)))) * likelihood_width(Z, notes)


def likelihood_width(Z: np.ndarray, notes: np.ndarray) -> float:
    """e*, by a coarse grid and then Brent's method."""
    gaps = gaps_to_other_notes(Z, notes)
    nearest = gaps.min(axis=1)
    if not np.isfinite(nearest).all() or not (nearest > 0.0).any():
        raise InputError(
            "all training samples are the same, so the length scale cannot be learnt; "
            "give length_scale=… or add samples that differ"
        )
    gaps -= nearest[:, np.newaxis]
    far = float(nearest.mean())

    def minus_log_likelihood(log_e: float) -> float:
        terms = np.multiply(gaps, -np.exp(-2.0 * log_e))
        np.exp(terms, out=terms)
        mean = float(np.log(terms.sum(axis=1)).mean()) - far * np.exp(-2.0 * log_e)
        return Z.shape[1] * log_e - mean

    typical = 0.5 * float(np.log(np.median(nearest[nearest > 0.0])))
    grid = typical + np.log(np.geomspace(*WIDTH_BOUNDS, WIDTH_POINTS))
    best = int(np.argmin([minus_log_likelihood(log_e) for log_e in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(minus_log_likelihood, bounds=bounds, method="bounded", options={"xatol": WIDTH_TOLERANCE})
    return float(np.exp(found.x))
