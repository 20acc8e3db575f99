"""Eq. (6) between fixed points and many rows, block by block, from a matrix product where that is accurate enough."""

import numpy as np
from scipy.spatial.distance import cdist

#: Relative error of a distance that the matrix-product form of ‖a - b‖² may cause before the direct form is used.
PRODUCT_TOLERANCE = 1e-8


class Kernel:
    """``exp(-‖z - x‖²/ℓ²)`` for the rows z of a block and fixed points x.

    Parameters
    ----------
    points : ndarray (n, d)
    ell : float
    ratio : float
        ρ: what is smaller than 1e-8 of it does not matter.
    single : bool
        Single precision, where the product form serves.

    Examples
    --------
    >>> Kernel(np.zeros((1, 2)), ell=1.0, ratio=0.1)(np.ones((1, 2))).round(4)
    array([[0.1353]])
    """

    def __init__(self, points: np.ndarray, ell: float, ratio: float, single: bool = False) -> None:
        self.points, self.ell = points, ell
        self.origin = points.mean(axis=0)
        X = (points - self.origin) / ell
        norms = np.einsum("ij,ij->i", X, X)
        # ‖z‖² + ‖x‖² - 2zx cancels: its error, eps · spread², is felt in d relative to ρ.
        self.by_product = np.finfo(float).eps * float(norms.max(initial=0.0)) < PRODUCT_TOLERANCE * ratio
        self.dtype = np.dtype(np.float32 if single and self.by_product else np.float64)
        # exp(-‖z - x‖²) = exp([z, 1, ‖z‖²] · [2x, -‖x‖², -1]): one product with the points as columns
        columns = np.column_stack([2.0 * X, -norms, -np.ones(len(X))]).T
        self._columns = np.ascontiguousarray(columns, self.dtype)

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """The kernel values of a block of rows, shape (rows, n)."""
        if not self.by_product:
            exponent = cdist(Z / self.ell, self.points / self.ell, "sqeuclidean")
            np.negative(exponent, out=exponent)
        else:
            row = np.empty((len(Z), Z.shape[1] + 2), self.dtype)
            np.subtract(Z, self.origin, out=row[:, :-2], casting="same_kind")
            row[:, :-2] *= 1.0 / self.ell
            row[:, -2] = 1.0
            np.einsum("ij,ij->i", row[:, :-2], row[:, :-2], out=row[:, -1])
            exponent = row @ self._columns
        return np.exp(exponent, out=exponent)
