"""OCC-GP: one-class classification with a Gaussian process, the C = 1 case of MDD-KM (Kemmler et al. 2013; Sec. 2.2).

The process is trained on the value 1 at every sample and is 0 far from all of them. At a new sample its prediction has
the mean ``μ = 1ᵀPk`` and the variance ``d = 1 - kᵀPk`` (in units of σ²), ``P = (K/σ² + ρI)⁻¹``. Four measures, all high
for members, can be its score:

- ``mean``: μ
- ``variance``: -d, the measure of the paper
- ``ratio``: μ/√d
- ``probability``: the density of the value 1 under ``N(μ, d + ρ)``; variances in units of σ², whatever σ is
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_groups, low_end, refuse
from outlark.maths.description import Description
from outlark.maths.gp import squared_exponential
from outlark.maths.notes import leave_out_parts

MEASURES = ("mean", "variance", "ratio", "probability")


class OCCGP(OutlierMixin, BaseEstimator):
    """One-class Gaussian process: +1 for what resembles the training samples, -1 for what does not.

    The scores of two `OCCGP` models are **not** on one scale, because each learns hyper-parameters of its own; for
    several classes use `outlark.MDDKM`.

    Parameters
    ----------
    measure : "variance", "mean", "ratio" or "probability"
        The score; see `outlark.estimators.occgp`. "variance" is the paper's.
    sigma, length_scale, sigma_reg, metric, target, condition, max_samples, random_state
        As in `outlark.MDDKM`; with one class there is nothing to choose by, so ``sigma_reg="auto"`` is σ_reg² = .1 σ².
    quantile : float
        The share of new samples of the kind that may fall below `offset_`; see `outlark.MDDKM`.

    Attributes
    ----------
    sigma_, length_scale_, sigma_reg_ : float
    metric_ : str
    offset_ : float
    left_out_scores_ : ndarray (n,)
        The score of each training sample under a model without its note.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> OCCGP().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    def __init__(
        self,
        *,
        measure: str = "variance",
        sigma: float | None = None,
        length_scale: float | None = None,
        sigma_reg: float | str = "auto",
        metric: str = "global",
        target: str = "centered",
        quantile: float = 0.1,
        condition: float = 1e8,
        max_samples: int = 2000,
        random_state: int = 0,
    ) -> None:
        self.measure = measure
        self.sigma = sigma
        self.length_scale = length_scale
        self.sigma_reg = sigma_reg
        self.metric = metric
        self.target = target
        self.quantile = quantile
        self.condition = condition
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, groups: ArrayLike | None = None, **unused: Any) -> Self:
        """Learn Θ and describe the samples. `y` is ignored; `groups` are note ids, left out together."""
        refuse(unused, self)
        if self.measure not in MEASURES:
            raise InputError(f"measure={self.measure!r} must be one of {MEASURES}")
        samples = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        shared = {name: value for name, value in self.get_params().items() if name != "measure"}
        self._model = MDDKM(**shared, balance=None, landmarks=None, threshold=0.0)
        self._model.fit(samples, np.zeros(len(samples), int), check_groups(groups, samples))
        self.sigma_, self.length_scale_ = self._model.sigma_, self._model.length_scale_
        self.sigma_reg_, self.metric_ = self._model.sigma_reg_, self._model.metric_
        description = self._model.descriptions_[0]
        assert isinstance(description, Description)  # without landmarks it is exact
        self.description_ = description
        left_out = left_out_predict(description, leave_out_parts(self._model._together[0]))
        self.left_out_scores_ = measure(self.measure, *left_out, description.ratio)
        self.offset_ = low_end(self.left_out_scores_, self.quantile)
        return self

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """The chosen measure, shape (n,): high = like the training samples."""
        check_is_fitted(self)
        Z = self._model._mapped(validate_data(self, X, dtype=np.float64, reset=False))
        return measure(self.measure, *predict(self.description_, Z), self.description_.ratio)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """``score_samples - offset_``, shape (n,): negative = outlier."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """+1 for members, -1 for outliers, shape (n,)."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)


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
