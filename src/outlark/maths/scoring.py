"""Eq. (11) for many samples and many classes: blocks of rows, memory that does not grow, all cores.

`Distances` gives what `outlark.maths.description.distances` gives for each class, only faster: squared
distances come from a matrix product, the kernel is computed in place in a buffer that stays in the cache, and the
triangle of ``L⁻¹`` is used in two pieces so that its empty quarter is not multiplied.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from outlark.maths.class_model import ClassModel, centring_term
from outlark.maths.kernel import Kernel
from outlark.maths.threads import blas_threads, one_blas_thread

BLOCK_ROWS = 1024
#: Single precision is for classes whose distances cannot fall below this: its error in the score is about 1e-7/d.
SINGLE_FLOOR = 5e-4
#: Beyond this many length scales every kernel value is 0; there squares are still finite in single precision.
FAR = 1e6


class _Scorer:
    """One class, prepared for scoring blocks of rows."""

    def __init__(self, model: ClassModel, single: bool = False) -> None:
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

    Examples
    --------
    >>> from outlark.maths.description import describe
    >>> classes = [describe(np.array([[0.0]]), 1.0, 0.1), describe(np.array([[3.0]]), 1.0, 0.1)]
    >>> Distances(classes)(np.array([[0.0], [3.0]])).round(3)
    array([[0.091, 1.   ],
           [1.   , 0.091]])
    """

    def __init__(
        self, descriptions: Sequence[ClassModel], *, single: bool = False, block_rows: int = BLOCK_ROWS
    ) -> None:
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
        """Z with values so large that their squares would overflow brought in to where every kernel value is 0, too."""
        centre, reach = self._centre, self._reach
        if Z.size == 0 or max(Z.max() - centre.min(), centre.max() - Z.min()) <= reach:
            return Z
        return np.clip(Z, centre - reach, centre + reach)


def distances_to_all(
    descriptions: Sequence[ClassModel],
    Z: np.ndarray,
    *,
    single: bool = False,
    block_rows: int = BLOCK_ROWS,
) -> np.ndarray:
    """What `Distances` gives for one call, shape (m, C).

    Examples
    --------
    >>> from outlark.maths.description import describe
    >>> distances_to_all([describe(np.array([[0.0]]), 1.0, 0.1)], np.array([[0.0], [3.0]])).round(3)
    array([[0.091],
           [1.   ]])
    """
    return Distances(descriptions, single=single, block_rows=block_rows)(Z)
