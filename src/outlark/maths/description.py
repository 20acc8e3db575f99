r"""Describing one class and measuring the distance to it (Sec. 3.2; Alg. 1, lines 7-9).

.. math::

   d_c(x_*) = κ(x_*, x_*) - κ(X_c, x_*)ᵀ κ_{reg}(X_c, X_c)^{-1} κ(X_c, x_*)                  (Eq. 11)

Everything here is in units of σ²: the kernel is one at distance zero, the regulariser is ``ρ = σ_reg²/σ²`` and every
distance lies between ``ρ/(n + ρ)`` (n copies of the sample itself) and 1 (nothing near).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dlauum, dtrtri
from scipy.spatial.distance import cdist

from outlark.maths.gp import regularised_factor, squared_exponential
from outlark.maths.rows import blocks

#: Below this a centred distance is rounding.
CENTRED_FLOOR = 1e-12
#: Errors of the kernel below this share of ρ are not felt.
KERNEL_TOLERANCE = 1e-12
#: Rows of a triangle that are mirrored at once.
MIRRORED = 512


class OneClass(Protocol):
    """The model of a class of n samples by m of them: exact (m = n, `Description`) or by landmarks (`maths.sparse`).

    The distance is ``d = 1 - ‖L_inv k‖²``, where k holds the kernel between the sample and `points`.
    """

    @property
    def X(self) -> np.ndarray:
        """The samples of the class, in the units in which ℓ is given, (n, d)."""

    @property
    def rows(self) -> np.ndarray:
        """Which of the samples are `points`, (m,)."""

    @property
    def points(self) -> np.ndarray:
        """What the kernel is taken with, (m, d)."""

    @property
    def ell(self) -> float: ...

    @property
    def ratio(self) -> float:
        """ρ."""

    @property
    def L_inv(self) -> np.ndarray:
        """A lower triangle, (m, m)."""

    @property
    def center(self) -> bool:
        """Whether the kernel is centred in the feature space."""

    @property
    def P_ones(self) -> np.ndarray:
        """The vector v for which ``vᵀk`` is 1ᵀPk, (m,)."""

    @property
    def ones_P_ones(self) -> float:
        """1ᵀP1."""

    @property
    def floor(self) -> float:
        """The smallest value that a distance can have."""

    @property
    def far(self) -> float:
        """The distance of a sample that resembles nothing."""

    @property
    def trace(self) -> float:
        """``tr(K - Q)/σ²``, what the points miss of the samples; 0 when it is exact."""

    def left_out(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each part the distances of its samples under the model without this part."""


def lowest_distance(model: OneClass) -> float:
    """The distance that n copies of a sample leave; a centred one is 0 at the mean, up to rounding."""
    return CENTRED_FLOOR if model.center else model.ratio / (len(model.X) + model.ratio)


def far_distance(model: OneClass) -> float:
    """1, and a little more when the kernel is centred."""
    return 1.0 + float(centring_term(np.zeros(1), model)[0]) if model.center else 1.0


def centring_term(ones_P_k: np.ndarray, model: OneClass) -> np.ndarray:
    """What centring adds to the distance; see `distances`."""
    return (1.0 - ones_P_k) ** 2 / model.ones_P_ones - model.ratio / len(model.X)


class Description(NamedTuple):
    """The exact model of a class: its samples and the inverse Cholesky factor of ``K/σ² + ρI``."""

    #: The samples of the class, in the units in which ℓ is given, (n, d).
    X: np.ndarray
    ell: float
    #: ρ.
    ratio: float
    #: ``L⁻¹`` with ``L Lᵀ = K/σ² + ρI``. An explicit inverse factor is as accurate here as triangular solves and turns
    #: scoring into one matrix product, (n, n).
    L_inv: np.ndarray
    #: Whether the kernel is centred in the feature space.
    center: bool = False

    @property
    def points(self) -> np.ndarray:
        return self.X

    @property
    def rows(self) -> np.ndarray:
        return np.arange(len(self.X))

    @property
    def precision(self) -> np.ndarray:
        """``P = (K/σ² + ρI)⁻¹``, shape (n, n)."""
        P, _ = dlauum(self.L_inv.T)  # the upper triangle of L⁻ᵀL⁻¹, in a sixth of the time of a full product
        for block in blocks(len(P), MIRRORED):
            P[block, : block.start] = P[: block.start, block].T
            P[block, block] += np.triu(P[block, block], 1).T
        return P

    @property
    def P_ones(self) -> np.ndarray:
        return self.L_inv.T @ self.L_inv.sum(axis=1)

    @property
    def ones_P_ones(self) -> float:
        u = self.L_inv.sum(axis=1)
        return float(u @ u)

    @property
    def floor(self) -> float:
        return lowest_distance(self)

    @property
    def far(self) -> float:
        return far_distance(self)

    @property
    def trace(self) -> float:
        return 0.0

    def left_out(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each part the distances of its samples under the description **without this part**.

        Closed form: for a part G (the samples of one note) and the rest B, ``Cov₋G = (P_GG)⁻¹ - ρI``. With parts of
        one sample it is leave-one-out, ``d₋i = 1/P_ii - ρ``. No refitting.
        """
        P_ones = self.P_ones
        return [self._without(P_ones, G) for G in parts]

    def _without(self, P_ones: np.ndarray, G: np.ndarray) -> np.ndarray:
        columns = self.L_inv[:, G]
        P_GG = columns.T @ columns
        P_GG_inv = np.linalg.inv(P_GG)
        d = np.diag(P_GG_inv) - self.ratio
        if self.center:
            # 1ᵀK_BB⁻¹K_BG = -1ᵀP_BG (P_GG)⁻¹ and 1ᵀK_BB⁻¹1 = 1ᵀP_BB1 - 1ᵀP_BG (P_GG)⁻¹ P_GB1
            u = P_ones[G] - P_GG.sum(axis=0)
            total = P_ones.sum() - 2.0 * u.sum() - P_GG.sum() - u @ P_GG_inv @ u
            d = d + (1.0 + u @ P_GG_inv) ** 2 / total - self.ratio / (len(self.X) - len(G))
        return np.maximum(d, self.floor)


def describe(X: np.ndarray, ell: float, ratio: float, center: bool = False) -> Description:
    """Factor ``K/σ² + ρI`` of the samples of one class.

    >>> description = describe(np.array([[0.0], [1.0]]), ell=1.0, ratio=0.1)
    >>> distances(description, np.array([[0.0], [0.5], [99.0]])).round(3)
    array([0.09 , 0.174, 1.   ])
    """
    L = regularised_factor(squared_exponential(X, X, ell, KERNEL_TOLERANCE * ratio), ratio)
    upper, _ = dtrtri(L.T, lower=0, overwrite_c=1)  # L.T and its inverse are in the order of LAPACK, L⁻¹ in that of C
    return Description(np.ascontiguousarray(X), ell, ratio, np.ascontiguousarray(upper.T), center)


def distances(model: OneClass, Z: np.ndarray) -> np.ndarray:
    """Eq. (11) in units of σ², for every row of Z.

    With a kernel centred in the feature space, the predictive variance *is* the kernel Mahalanobis distance. Centring
    costs one vector: ``d + (1 - 1ᵀPk)² / (1ᵀP1) - ρ/n``, ``P = (K/σ² + ρI)⁻¹``.
    """
    d = np.ones(len(Z))
    for block in blocks(len(Z)):
        k = squared_exponential(model.points, Z[block], model.ell)
        V = model.L_inv @ k
        d[block] -= np.einsum("ij,ij->j", V, V)  # Alg. 1, line 8
        if model.center:
            d[block] += centring_term(model.P_ones @ k, model)
    return np.maximum(d, model.floor)


def left_out_distances(model: OneClass, parts: Sequence[np.ndarray]) -> np.ndarray:
    """The distance of each training sample under the model **without the part that it belongs to**.

    Parts are the rows of samples that are left out together. They are disjoint, and none is the whole class. A sample
    in no part gets NaN.

    >>> X = np.array([[0.0], [0.1], [5.0]])
    >>> one_by_one = [np.array([i]) for i in range(3)]
    >>> left_out_distances(describe(X, 1.0, 0.1), one_by_one).round(3)
    array([0.109, 0.109, 1.   ])
    """
    d = np.full(len(model.X), np.nan)
    for G, of_part in zip(parts, model.left_out(parts), strict=True):
        d[G] = of_part
    return d


def score(d: np.ndarray, far: float | np.ndarray = 1.0) -> np.ndarray:
    """``-log √(d/σ²)`` ≥ 0: zero for a sample that resembles nothing, larger nearer to the class."""
    return np.maximum(-0.5 * np.log(d / far), 0.0)


def scores(model: OneClass, Z: np.ndarray) -> np.ndarray:
    """The score of every row of Z for the class, (m,)."""
    return score(distances(model, Z), model.far)


def left_out_scores(model: OneClass, parts: Sequence[np.ndarray]) -> np.ndarray:
    """The score of every training sample under the model without its part, (n,)."""
    return score(left_out_distances(model, parts), model.far)


def shares(model: OneClass, Z: np.ndarray) -> np.ndarray:
    """How much each of the `points` reduces the distance of each row of Z, as a share of the whole, (m, rows of Z).

    For the plain kernel the reductions are ``k_i (L_invᵀ L_inv k)_i``, in all ``1 - d``. Shares do not depend on the
    scale of k, so it is taken relative to the nearest point: however far a row lies, its column sums to one.

    >>> description = describe(np.array([[0.0], [1.0]]), ell=1.0, ratio=0.1)
    >>> np.abs(shares(description, np.array([[0.5], [99.0]]))).round(3)
    array([[0.5, 0. ],
           [0.5, 1. ]])
    """
    gaps = np.minimum(cdist(model.points, Z, "sqeuclidean") / model.ell**2, np.finfo(float).max)
    k = np.exp(gaps.min(axis=0) - gaps)
    taken = k * (model.L_inv.T @ (model.L_inv @ k))
    return taken / taken.sum(axis=0)
