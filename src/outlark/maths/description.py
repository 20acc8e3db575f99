r"""The model of one class and the distance to it (Sec. 3.2; Alg. 1, lines 7-9).

.. math::

   d_c(x_*) = κ(x_*, x_*) - κ(X_c, x_*)ᵀ κ_{reg}(X_c, X_c)^{-1} κ(X_c, x_*)                  (Eq. 11)

Everything here is in units of σ²: the kernel is one at distance zero, the regulariser is ``ρ = σ_reg²/σ²`` and every
distance lies between ``ρ/(n + ρ)`` (n copies of the sample itself) and 1 (nothing near).

`distances` is Eq. (11) for one class, as written. `Distances` gives the same for many samples and classes, only faster:
in blocks of rows, in constant memory, on all cores; squared distances come from a matrix product where that is accurate
enough, and the triangle of ``L⁻¹`` is used in two pieces so that its empty quarter is not multiplied.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dlauum, dtrtri
from scipy.spatial.distance import cdist
from threadpoolctl import ThreadpoolController

from outlark.maths.gp import regularised_factor, squared_exponential

#: Rows of a table that are computed with at once, and rows that are scored at once.
TABLE_BLOCK_ROWS, SCORING_BLOCK_ROWS = 4096, 1024
#: Rows of a triangle that are mirrored at once.
MIRRORED_ROWS = 512
#: Below this a centred distance is rounding.
CENTRED_FLOOR = 1e-12
#: Errors of the kernel below this share of ρ are not felt.
KERNEL_TOLERANCE = 1e-12
#: Relative error of a distance that the matrix-product form of ‖a - b‖² may cause before the direct form is used.
PRODUCT_TOLERANCE = 1e-8
#: Single precision is for classes whose distances cannot fall below this: its error in the score is about 1e-7/d.
SINGLE_FLOOR = 5e-4
#: Beyond this many length scales every kernel value is 0; there squares are still finite in single precision.
ZERO_KERNEL_LENGTHS = 1e6


def blocks(n: int, n_rows: int | None = None) -> Iterator[slice]:
    """The rows of a table, `n_rows` at a time, by default `TABLE_BLOCK_ROWS`.

    >>> [(block.start, block.stop) for block in blocks(5000)]
    [(0, 4096), (4096, 5000)]
    """
    n_rows = TABLE_BLOCK_ROWS if n_rows is None else n_rows
    return (slice(start, min(start + n_rows, n)) for start in range(0, n, n_rows))


def mapped(X: np.ndarray, by: np.ndarray) -> np.ndarray:
    """X in the units of the metric, shape (n, d).

    >>> mapped(np.array([[1.0, 2.0]]), np.array([1.0, 0.5]))
    array([[1., 1.]])
    """
    if by.ndim == 2:
        return X @ by
    return X if (by == 1.0).all() else X * by


@dataclass(frozen=True, kw_only=True, eq=False)
class OneClass(ABC):
    """The model of a class of n samples by m of them, its `points`: all (`Description`), or landmarks.

    The distance is ``d = 1 - ‖L_inv k‖²``, where k holds the kernel between the sample and the points.
    """

    #: The samples of the class, in the units in which ℓ is given, (n, d).
    X: np.ndarray
    ell: float
    #: ρ.
    ratio: float
    #: A lower triangle, (m, m).
    L_inv: np.ndarray
    #: Whether the kernel is centred in the feature space.
    center: bool = False

    @property
    def rows(self) -> np.ndarray:
        """Which of the samples are points, (m,)."""
        return np.arange(len(self.X))

    @property
    def points(self) -> np.ndarray:
        """Where the kernel is evaluated, (m, d)."""
        return self.X

    @property
    def trace(self) -> float:
        """``tr(K - Q)/σ²``, what the points miss of the samples; 0 when it is exact."""
        return 0.0

    @property
    def floor(self) -> float:
        """The smallest value that a distance can have: n copies of a sample leave it; centred, 0 up to rounding."""
        return CENTRED_FLOOR if self.center else self.ratio / (len(self.X) + self.ratio)

    @property
    def far(self) -> float:
        """The distance of a sample that resembles nothing: 1, and a little more when the kernel is centred."""
        return 1.0 + float(self.centring_term(np.zeros(1))[0]) if self.center else 1.0

    @property
    @abstractmethod
    def P_ones(self) -> np.ndarray:
        """The vector v for which ``vᵀk`` is 1ᵀPk, (m,)."""

    @property
    @abstractmethod
    def ones_P_ones(self) -> float:
        """1ᵀP1."""

    @abstractmethod
    def left_out(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each part the distances of its samples under the model without this part."""

    def centring_term(self, ones_P_k: np.ndarray) -> np.ndarray:
        """What centring adds to the distance; see `distances`."""
        return (1.0 - ones_P_k) ** 2 / self.ones_P_ones - self.ratio / len(self.X)


@dataclass(frozen=True, kw_only=True, eq=False)
class Description(OneClass):
    """The exact model of a class: ``L_inv`` is the inverse Cholesky factor of ``K/σ² + ρI``.

    An explicit inverse factor is as accurate here as triangular solves and turns scoring into one matrix product.
    """

    @property
    def precision(self) -> np.ndarray:
        """``P = (K/σ² + ρI)⁻¹``, shape (n, n)."""
        P, _ = dlauum(self.L_inv.T)  # the upper triangle of L⁻ᵀL⁻¹, in a sixth of the time of a full product
        for block in blocks(len(P), MIRRORED_ROWS):
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
    return Description(
        X=np.ascontiguousarray(X), ell=ell, ratio=ratio, L_inv=np.ascontiguousarray(upper.T), center=center
    )


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
            d[block] += model.centring_term(model.P_ones @ k)
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
        exponent = self.exponents(Z)
        return np.exp(exponent, out=exponent)

    def exponents(self, Z: np.ndarray) -> np.ndarray:
        """Their logarithms."""
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
        return exponent


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
            d += self.model.centring_term(k @ self.P_ones)
        return np.maximum(d, self.model.floor, out=d)

    def log_similarity(self, Z: np.ndarray) -> np.ndarray:
        """log(1 - d), without the difference: the kernel is taken relative to the nearest point."""
        k = self.kernel.exponents(Z)
        nearest = k.max(axis=1)
        k -= nearest[:, np.newaxis]
        np.exp(k, out=k)
        q = np.zeros(len(Z))
        for piece, triangle in self.pieces:
            V = k[:, : piece.stop] @ triangle
            q += np.einsum("ij,ij->i", V, V)
        return np.minimum(np.log(q) + 2.0 * nearest.astype(float), np.log1p(-self.model.floor))


class Distances:
    """The distance of rows to every class, in units of σ²; prepared once, for many calls.

    Uses as many threads as BLAS is allowed to use (``OMP_NUM_THREADS``, threadpoolctl). With `single`, classes whose
    distances cannot fall below `SINGLE_FLOOR` are scored in single precision: twice as fast, the error in the score is
    typically 1e-5 and at worst 1e-3.

    >>> classes = [describe(np.array([[0.0]]), 1.0, 0.1), describe(np.array([[3.0]]), 1.0, 0.1)]
    >>> Distances(classes)(np.array([[0.0], [3.0]])).round(3)
    array([[0.091, 1.   ],
           [1.   , 0.091]])
    """

    def __init__(
        self, descriptions: Sequence[OneClass], *, single: bool = False, block_rows: int = SCORING_BLOCK_ROWS
    ) -> None:
        self.descriptions, self.single, self._block_rows = descriptions, single, block_rows
        self._scorers = [_Scorer(description, single) for description in descriptions]
        self._centre = np.mean([scorer.kernel.origin for scorer in self._scorers], axis=0)
        spread = max(float(np.abs(description.points - self._centre).max()) for description in descriptions)
        self._reach = spread + ZERO_KERNEL_LENGTHS * max(description.ell for description in descriptions)

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Of every row of Z (m, d), shape (m, C)."""
        return self._in_blocks(Z, list(self._scorers))

    def log_similarities(self, Z: np.ndarray) -> np.ndarray:
        """log(1 - d) of every row, shape (m, C), however small; for kernels that are not centred.

        >>> Distances([describe(np.array([[0.0]]), 1.0, 0.1)]).log_similarities(np.array([[100.0]])).round(2)
        array([[-20000.1]])
        """
        return self._in_blocks(Z, [scorer.log_similarity for scorer in self._scorers])

    def _in_blocks(self, Z: np.ndarray, functions: Sequence[Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
        """Each function of the rows of Z, a block of them at a time, shape (m, len(functions))."""
        Z = self._within_reach(Z)
        d = np.empty((len(Z), len(functions)))

        def score_block(start: int) -> None:
            block = slice(start, start + self._block_rows)
            for c, function in enumerate(functions):
                d[block, c] = function(Z[block])

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


_BLAS = ThreadpoolController().select(user_api="blas")
_LIMITED = threading.Lock()


def blas_threads() -> int:
    """The number of threads that BLAS may use now (``OMP_NUM_THREADS``, threadpoolctl)."""
    return max((library.num_threads for library in _BLAS.lib_controllers), default=1)


@contextmanager
def one_blas_thread() -> Iterator[bool]:
    """Hold BLAS to one thread; True if it is this call that does so.

    The number of BLAS threads is that of the whole process, so only one call at a time may set it; others leave it as
    it is.
    """
    if not _LIMITED.acquire(blocking=False):
        yield False
        return
    try:
        with _BLAS.limit(limits=1):
            yield True
    finally:
        _LIMITED.release()
