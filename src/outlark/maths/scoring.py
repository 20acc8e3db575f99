"""Eqs. (6) and (11) for many samples and many classes: in blocks of rows, in constant memory, on all cores.

`Distances` gives what `outlark.maths.description.distances` gives for each class, only faster: squared distances come
from a matrix product where that is accurate enough, the kernel is computed in place in a buffer that stays in the
cache, and the triangle of ``L⁻¹`` is used in two pieces so that its empty quarter is not multiplied.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.spatial.distance import cdist

from outlark.maths.description import OneClass, centring_term
from outlark.maths.rows import blas_threads, one_blas_thread

BLOCK_ROWS = 1024
#: Relative error of a distance that the matrix-product form of ‖a - b‖² may cause before the direct form is used.
PRODUCT_TOLERANCE = 1e-8
#: Single precision is for classes whose distances cannot fall below this: its error in the score is about 1e-7/d.
SINGLE_FLOOR = 5e-4
#: Beyond this many length scales every kernel value is 0; there squares are still finite in single precision.
FAR = 1e6


class Kernel:
    """``exp(-‖z - x‖²/ℓ²)`` for the rows z of a block and fixed points x (n, d).

    Errors below 1e-8 of the ratio ρ do not matter. With `single`, in single precision where the product form is
    accurate enough.

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


class _Scorer:
    """One class, prepared for scoring blocks of rows."""

    def __init__(self, model: OneClass, single: bool = False) -> None:
        self.model = model
        self.kernel = Kernel(model.points, model.ell, model.ratio, single and model.floor >= SINGLE_FLOOR)
        n = len(model.points)
        half = n // 2
        pieces = [slice(0, half), slice(half, n)] if half >= 32 else [slice(0, n)]
        self.pieces = [(p, np.ascontiguousarray(model.L_inv[p, : p.stop].T, self.kernel.dtype)) for p in pieces]
        self.P_ones = model.P_ones if model.center else None

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        k = self.kernel(Z)
        d = np.ones(len(Z))
        for piece, triangle in self.pieces:
            V = k[:, : piece.stop] @ triangle
            d -= np.einsum("ij,ij->i", V, V)  # Alg. 1, line 8
        if self.P_ones is not None:
            d += centring_term(k @ self.P_ones, self.model)
        return np.maximum(d, self.model.floor, out=d)


class Distances:
    """The distance of rows to every class, in units of σ²; prepared once, for many calls.

    Uses as many threads as BLAS is allowed to use (``OMP_NUM_THREADS``, threadpoolctl). With `single`, classes whose
    distances cannot fall below `SINGLE_FLOOR` are scored in single precision: twice as fast, the error in the score is
    typically 1e-5 and at worst 1e-3.

    >>> from outlark.maths.description import describe
    >>> classes = [describe(np.array([[0.0]]), 1.0, 0.1), describe(np.array([[3.0]]), 1.0, 0.1)]
    >>> Distances(classes)(np.array([[0.0], [3.0]])).round(3)
    array([[0.091, 1.   ],
           [1.   , 0.091]])
    """

    def __init__(self, descriptions: Sequence[OneClass], *, single: bool = False, block_rows: int = BLOCK_ROWS) -> None:
        self.descriptions, self.single, self._block_rows = descriptions, single, block_rows
        self._scorers = [_Scorer(description, single) for description in descriptions]
        self._centre = np.mean([scorer.kernel.origin for scorer in self._scorers], axis=0)
        spread = max(float(np.abs(description.points - self._centre).max()) for description in descriptions)
        self._reach = spread + FAR * max(description.ell for description in descriptions)

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Of every row of Z (m, d), shape (m, C)."""
        Z = self._within_reach(Z)
        d = np.empty((len(Z), len(self._scorers)))

        def score_block(start: int) -> None:
            block = slice(start, start + self._block_rows)
            for c, scorer in enumerate(self._scorers):
                d[block, c] = scorer(Z[block])

        starts = range(0, len(Z), self._block_rows)
        threads = min(blas_threads(), len(starts))
        with one_blas_thread() as mine:
            if mine and threads > 1:
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(score_block, starts))
            else:
                for start in starts:
                    score_block(start)
        return d

    def _within_reach(self, Z: np.ndarray) -> np.ndarray:
        """Z with values whose squares would overflow clipped to where every kernel value is 0 as well."""
        centre, reach = self._centre, self._reach
        if Z.size == 0 or max(Z.max() - centre.min(), centre.max() - Z.min()) <= reach:
            return Z
        return np.clip(Z, centre - reach, centre + reach)


def distances_to_all(
    descriptions: Sequence[OneClass],
    Z: np.ndarray,
    *,
    single: bool = False,
    block_rows: int = BLOCK_ROWS,
) -> np.ndarray:
    """`Distances` for a single call, shape (m, C)."""
    return Distances(descriptions, single=single, block_rows=block_rows)(Z)
