r"""The lengths of the descriptions of many spans, from squared distances between cumulated spectra.

With the cumulated spectra S at the edges of the slices of a span, and a sum over pairs of them with fixed weights M,

.. math:: ‖U(v - \bar v)‖² = -\sum_{i<j} M_{ij} ‖S(e_i) - S(e_j)‖² - \frac{(Σ_b S_b(e_n) - Σ_b S_b(e_0))²}{n·n_{bands}}

Distances, not products, because loud sound elsewhere must not drown quiet sound here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

#: Spectra whose shape is smaller than this share of their mean are flat; its square is the size of rounding errors.
FLAT = 1e-6


class SpanLengths:
    """‖U(v - v̄)‖ of spans (see `outlark.features.note`); prepared once for a model.

    Parameters
    ----------
    whole, part : ndarrays (L, edges)
        The edges of the slices of a span of each length, in frames after its start: whole frames and the fraction.
    U : ndarray (slices, slices)
    step : int
        Starts are multiples of it.

    >>> lengths = SpanLengths(np.array([[0, 1, 2]]), np.zeros((1, 3)), np.eye(2), step=1)
    >>> sums = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0], [4.0, 2.0], [4.0, 2.0]])
    >>> lengths(sums, [np.array([0, 1])]).round(3)  # of (3, 0 | 0, 1) and (0, 1 | 1, 1), without their means
    array([2.449, 0.866])
    """

    def __init__(self, whole: np.ndarray, part: np.ndarray, U: np.ndarray, step: int) -> None:
        self._whole, self._part, self._step, self._n_slices = whole, part, step, len(U)
        self._pairs = [_pairs_of(*edges, U) for edges in zip(whole, part, strict=True)]

    def __call__(self, sums: np.ndarray, starts: Sequence[np.ndarray]) -> np.ndarray:
        """Of all spans, one length after the other; 0 for what is flat.

        Parameters
        ----------
        sums : ndarray (T, bands)
            `cumulated` spectra.
        starts : for each length an ascending array of int
        """
        used = [number for number, own in enumerate(starts) if len(own)]
        apart = np.unique(np.concatenate([self._pairs[number].apart for number in used]))
        squares = _squared_distances(sums, apart).ravel()
        found = []
        for number in used:
            own, (first, frames, weights) = starts[number], self._pairs[number]
            # row i: i frames after each start
            rows = _shifted(squares, int(own[0]), int(own[-1] - own[0]) // self._step + 1, self._step)
            at = np.searchsorted(apart, frames) * len(sums) + first
            found.append((weights @ rows[at])[(own - own[0]) // self._step])
        of_shape = np.concatenate(found)
        of_mean = self._totals(sums.sum(axis=1), starts) ** 2 / (self._n_slices * sums.shape[1])
        of_shape -= of_mean
        return np.sqrt(np.where(of_shape > FLAT**2 * of_mean, of_shape, 0.0))

    def _totals(self, totals: np.ndarray, starts: Sequence[np.ndarray]) -> np.ndarray:
        """The sum over each span."""
        number_of, joined = np.repeat(np.arange(len(starts)), [len(own) for own in starts]), np.concatenate(starts)
        ends = []
        for edge in (0, -1):
            at = joined + self._whole[number_of, edge]
            ends.append(totals[at] + self._part[number_of, edge] * (totals[at + 1] - totals[at]))
        return ends[1] - ends[0]


class _Pairs(NamedTuple):
    """‖Uv‖² of a span as a sum over pairs of frames: the first of each, how far apart they are, and its weight."""

    first: np.ndarray
    apart: np.ndarray
    weights: np.ndarray


def _pairs_of(whole: np.ndarray, part: np.ndarray, U: np.ndarray) -> _Pairs:
    """From the edges of the slices: ‖Σ c_i S_i‖² = -Σ_{i<j} c_i c_j ‖S_i - S_j‖² if Σ c_i = 0."""
    points = np.concatenate([whole, whole + 1])
    reading = np.hstack([np.diag(1.0 - part), np.diag(part)])
    slices = U @ np.diff(np.eye(len(whole)), axis=0) @ reading
    weights = -(slices.T @ slices)
    i, j = np.triu_indices(len(points), 1)
    first, apart = np.minimum(points[i], points[j]), np.abs(points[i] - points[j])
    used = (weights[i, j] != 0.0) & (apart > 0)
    pairs, of_pair = np.unique(np.stack([first[used], apart[used]]), axis=1, return_inverse=True)
    added = np.bincount(of_pair.ravel(), weights[i, j][used], minlength=pairs.shape[1])
    return _Pairs(pairs[0], pairs[1], added)


def _squared_distances(sums: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """‖S(t + δ) - S(t)‖² for each δ of `apart` and each t, (δ, T); the last δ of a row are not set."""
    squares, buffer, ones = np.empty((len(apart), len(sums))), np.empty_like(sums), np.ones(sums.shape[1])
    for row, frames in enumerate(apart.tolist()):
        between = np.subtract(sums[frames:], sums[:-frames], out=buffer[frames:])
        np.matmul(np.multiply(between, between, out=between), ones, out=squares[row, : len(between)])
    return squares


def _shifted(x: np.ndarray, first: int, n: int, step: int) -> np.ndarray:
    """Row i: x at first + i, and n - 1 more in steps; a view.

    >>> _shifted(np.arange(8), 1, 3, 2)
    array([[1, 3, 5],
           [2, 4, 6],
           [3, 5, 7]])
    """
    n_rows = len(x) - first - (n - 1) * step
    size = x.strides[0]
    return as_strided(x[first:], shape=(n_rows, n), strides=(size, step * size), writeable=False)
