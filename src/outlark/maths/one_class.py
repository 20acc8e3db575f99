"""Four ways to read a Gaussian process as a one-class model (Kemmler et al. 2013; Sec. 2.2 of the paper).

The process is told that every training sample has the value 1 and knows 0 everywhere else. At a new sample its
prediction has the mean ``μ = 1ᵀPk`` and the variance ``d = 1 - kᵀPk`` (in units of σ²), ``P = (K/σ² + ρI)⁻¹``:

- ``mean``: μ
- ``variance``: -d, the measure of the paper
- ``ratio``: μ/√d
- ``probability``: the density of the value 1 under ``N(μ, d + ρ)``; variances in units of σ², whatever σ is

All are high for members.
"""

from collections.abc import Sequence

import numpy as np

from outlark.maths.description import Description
from outlark.maths.gp import squared_exponential

MEASURES = ("mean", "variance", "ratio", "probability")


def measure(name: str, mean: np.ndarray, variance: np.ndarray, ratio: float) -> np.ndarray:
    """One of `MEASURES` from the predictive mean and variance.

    >>> measure("ratio", np.array([0.8]), np.array([0.16]), 0.1)
    array([2.])
    """
    if name == "mean":
        return mean
    if name == "variance":
        return -variance
    if name == "ratio":
        return mean / np.sqrt(variance)
    total = variance + ratio
    return np.exp(-0.5 * (1.0 - mean) ** 2 / total) / np.sqrt(2.0 * np.pi * total)


def predict(description: Description, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predictive mean and variance at the rows of Z, each (m,)."""
    V = description.L_inv @ squared_exponential(description.X, Z, description.ell)
    mean = description.L_inv.sum(axis=1) @ V
    return mean, np.maximum(1.0 - np.einsum("ij,ij->j", V, V), description.floor)


def left_out_predict(description: Description, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same at the training samples, each under the process without its part.

    Closed form: ``μ₋G = 1 - (P_GG)⁻¹ (P1)_G`` and ``Cov₋G = (P_GG)⁻¹ - ρI``.
    """
    P = description.precision
    P_ones = P.sum(axis=1)
    mean, variance = np.empty(len(P)), np.empty(len(P))
    for G in parts:
        P_GG_inv = np.linalg.inv(P[np.ix_(G, G)])
        mean[G] = 1.0 - P_GG_inv @ P_ones[G]
        variance[G] = np.diag(P_GG_inv) - description.ratio
    return mean, np.maximum(variance, description.floor)
