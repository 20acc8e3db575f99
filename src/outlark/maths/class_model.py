"""What the model of one class is to all that use it: exact (`description`) or with landmarks (`sparse`)."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

#: Below this a centred distance is rounding.
CENTRED_FLOOR = 1e-12


class ClassModel(Protocol):
    """A class of n samples, told by m of them: all of them when the model is exact.

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
        """``tr(K - Q)/σ²``, what the points cannot tell of the samples; 0 when it is exact."""

    def left_out(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each part the distances of its samples under the model without this part."""


def lowest_distance(model: ClassModel) -> float:
    """What n copies of a sample leave of its distance; of a centred one, which is 0 at the mean, what rounding does."""
    return CENTRED_FLOOR if model.center else model.ratio / (len(model.X) + model.ratio)


def far_distance(model: ClassModel) -> float:
    """1, and a little more when the kernel is centred."""
    return 1.0 + float(centring_term(np.zeros(1), model)[0]) if model.center else 1.0


def centring_term(ones_P_k: np.ndarray, model: ClassModel) -> np.ndarray:
    """What centring adds to the distance; see `distances`."""
    return (1.0 - ones_P_k) ** 2 / model.ones_P_ones - model.ratio / len(model.X)
