r"""Scores of all spans of a block without describing them one by one.

Before it is normalised, a description is linear in the cumulated spectra S at the edges :math:`e_0 < … < e_n` of its
slices, so its product with a training sample b is a sum over the edges, and its length follows from the distances
between cumulated spectra:

.. math:: ⟨U(v - \bar v), b⟩ = \sum_j ⟨S(e_j), B_j⟩, \quad
   ‖U(v - \bar v)‖² = -\sum_{i<j} M_{ij} ‖S(e_i) - S(e_j)‖² - \frac{(Σ_b S_b(e_n) - Σ_b S_b(e_0))²}{n·n_{bands}}

One matrix product of the cumulated spectra with the :math:`B_j` of a class then serves all starts and all lengths; what
is left for a span is to add up few numbers for each training sample. The sums over edges, which lie between frames, are
products with sparse matrices. The numbers are those of `NoteFrontEnd.describe` and `MDDKM.class_scores` to about 1e-12.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from outlark.estimators.mddkm import MDDKM
from outlark.maths.description import Description, score
from outlark.notes.front_ends.note import NoteFrontEnd, cumulated, root_of_change

#: Spectra whose shape is smaller than this share of their mean are flat; the square of it is what rounding leaves.
FLAT = 1e-6
#: Training samples that are projected at once: bounds the memory, and stays in the cache.
SAMPLES_AT_ONCE = 64


class SpanScores(NamedTuple):
    """The best score of each start and class, (S, C), and the number of the length that has it; -1 for none."""

    values: np.ndarray
    numbers: np.ndarray


def no_spans(n_starts: int, n_classes: int) -> SpanScores:
    """Before any span is scored.

    >>> no_spans(1, 2)
    SpanScores(values=array([[0., 0.]]), numbers=array([[-1, -1]]))
    """
    return SpanScores(np.zeros((n_starts, n_classes)), np.full((n_starts, n_classes), -1))


class _Class(NamedTuple):
    """One class, ready for projections: which lengths it may have, and its B in pieces (bands, edges·samples)."""

    description: Description
    numbers: np.ndarray
    pieces: list[np.ndarray]
    squares: np.ndarray
    size_factor: float


class Projections:
    """Scores of the spans of a block of spectra by `MDDKM`; prepared once for a model.

    Parameters
    ----------
    front_end : NoteFrontEnd, fitted
    describer : MDDKM, fitted
    samples : its `plain_samples`
    lengths : ndarray (L,)
        In frames.
    allowed : ndarray (L, C) of bool
    before : int
        Spectra of a block before its first start.
    """

    def __init__(
        self,
        front_end: NoteFrontEnd,
        describer: MDDKM,
        samples: Sequence[np.ndarray],
        lengths: np.ndarray,
        allowed: np.ndarray,
        before: int,
    ) -> None:
        self._n_slices, self._n_bands = front_end.n_slices, front_end.n_features_
        around = front_end.surroundings
        edges = before + np.array([np.linspace(-around, n + around, self._n_slices + 1) for n in lengths])
        self._whole = edges.astype(int)
        self._part = edges - self._whole
        here, next_one = root_of_change(front_end.n_slices, front_end.change)
        U = np.diag(here) + np.diag(next_one, 1)
        self._classes = [
            _prepared(describer.descriptions_[c], X, np.flatnonzero(allowed[:, c]), U, describer.size_factors_[c])
            for c, X in enumerate(samples)
        ]
        self._norms = [_norm_terms(whole, part, U) for whole, part in zip(self._whole, self._part, strict=True)]

    @classmethod
    def of(
        cls, front_end: NoteFrontEnd, describer: Any, lengths: np.ndarray, allowed: np.ndarray, before: int
    ) -> Self | None:
        """None for a class model whose scores are not functions of distances to single training samples."""
        samples = describer.plain_samples() if type(describer) is MDDKM else None
        return None if samples is None else cls(front_end, describer, samples, lengths, allowed, before)

    def best(self, spectra: np.ndarray, starts: Sequence[np.ndarray], n_starts: int) -> SpanScores:
        """The best of the spans that begin at these starts, for each length by itself, in frames after `before`.

        Parameters
        ----------
        spectra : ndarray (T, bands)
            From `before` frames before the first start to the end of the longest span with its surroundings.
        starts : for each length an ascending array of int below `n_starts`
        n_starts : int
        """
        found = no_spans(n_starts, len(self._classes))
        sums = cumulated(spectra)
        factors = self._factors(sums, starts)
        for c, of_class in enumerate(self._classes):
            numbers = [number for number in of_class.numbers.tolist() if len(starts[number])]
            if not numbers:
                continue
            scores = self._class_scores(of_class, sums, numbers, starts, np.concatenate([factors[n] for n in numbers]))
            table = np.zeros((len(numbers), n_starts))
            rows = np.repeat(np.arange(len(numbers)), [len(starts[n]) for n in numbers])
            table[rows, np.concatenate([starts[n] for n in numbers])] = scores
            best = table.argmax(axis=0)  # of equals the shortest
            values = table[best, np.arange(n_starts)]
            found.values[:, c] = values
            found.numbers[:, c] = np.where(values > 0.0, np.array(numbers)[best], -1)
        return found

    def _class_scores(
        self,
        of_class: _Class,
        sums: np.ndarray,
        numbers: Sequence[int],
        starts: Sequence[np.ndarray],
        factors: np.ndarray,
    ) -> np.ndarray:
        """The scores of all spans of these lengths, one length after the other."""
        reading = self._reading(numbers, starts, len(sums))
        n = len(of_class.squares)
        k = np.empty((len(factors), n))
        for at, piece in zip(range(0, n, SAMPLES_AT_ONCE), of_class.pieces, strict=True):
            projected = (sums @ piece).reshape(len(sums) * (self._n_slices + 1), -1)
            k[:, at : at + SAMPLES_AT_ONCE] = reading @ projected
        description = of_class.description
        k *= (2.0 * factors)[:, np.newaxis]
        k -= of_class.squares
        k -= (factors > 0.0)[:, np.newaxis]  # the square of the length of a description: 1, or 0 where it is flat
        k *= 1.0 / description.ell**2
        V = np.exp(k, out=k) @ description.L_inv.T
        d = np.maximum(1.0 - np.einsum("ij,ij->i", V, V), description.floor)
        return score(d, description.far) * of_class.size_factor

    def _reading(self, numbers: Sequence[int], starts: Sequence[np.ndarray], n_sums: int) -> csr_array:
        """Sums over the edges of each span, which lie between frames: (spans, frames·edges)."""
        n_edges = self._n_slices + 1
        columns, weights = [], []
        for number in numbers:
            here = self._whole[number] * n_edges + np.arange(n_edges)
            both, part = np.concatenate([here, here + n_edges]), self._part[number]
            columns.append((starts[number][:, np.newaxis] * n_edges + both).ravel())
            weights.append(np.tile(np.concatenate([1.0 - part, part]), len(starts[number])))
        indices, values = np.concatenate(columns).astype(np.int32), np.concatenate(weights)
        ends = np.arange(0, len(values) + 1, 2 * n_edges, dtype=np.int32)
        return csr_array((values, indices, ends), shape=(len(ends) - 1, n_sums * n_edges))

    def _factors(self, sums: np.ndarray, starts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the slices of each span are to be multiplied by, for each length: one over their length; 0 if flat."""
        apart = sorted({apart for (of_length, _), own in zip(self._norms, starts, strict=True) if len(own)
                        for apart in np.unique(of_length[1]).tolist()})  # fmt: skip
        squares, row_of = np.zeros((len(apart), len(sums))), np.zeros(max(apart, default=0) + 1, dtype=int)
        row_of[apart] = np.arange(len(apart))
        for row, frames in enumerate(apart):
            between = sums[frames:] - sums[:-frames]
            np.einsum("ij,ij->i", between, between, out=squares[row, : len(between)])
        totals, flat = sums.sum(axis=1), squares.ravel()
        found = []
        for number, own in enumerate(starts):
            if not len(own):
                found.append(np.empty(0))
                continue
            (first, between), weights = self._norms[number]
            reading = csr_array(
                (
                    np.tile(weights, len(own)),
                    (own[:, np.newaxis] + (row_of[between] * len(sums) + first)).ravel(),
                    np.arange(0, len(own) * len(weights) + 1, len(weights)),
                ),
                shape=(len(own), len(flat)),
            )
            found.append(_factors_of(reading @ flat, self._total(totals, number, own), self._n_slices * self._n_bands))
        return found

    def _total(self, totals: np.ndarray, number: int, starts: np.ndarray) -> np.ndarray:
        """The sum of all that lies in each span of a length."""
        low, high = (
            totals[starts + whole] * (1.0 - part) + totals[starts + whole + 1] * part
            for whole, part in ((self._whole[number, at], self._part[number, at]) for at in (0, -1))
        )
        return high - low


def _factors_of(squares: np.ndarray, totals: np.ndarray, n_numbers: int) -> np.ndarray:
    of_mean = totals**2 / n_numbers
    squares = squares - of_mean
    return np.where(squares > FLAT**2 * of_mean, 1.0 / np.sqrt(np.maximum(squares, np.finfo(float).tiny)), 0.0)


def _prepared(
    description: Description, X: np.ndarray, numbers: np.ndarray, U: np.ndarray, size_factor: float
) -> _Class:
    """B of a class, with the mean taken off: ⟨v - v̄, W⟩ = ⟨v, W - W̄⟩ for W = Uᵀb."""
    W = np.einsum("kj,nkb->njb", U, X.reshape(len(X), len(U), -1))
    W -= W.mean(axis=(1, 2), keepdims=True)
    B = -np.diff(W, axis=1, prepend=0.0, append=0.0)
    pieces = [
        np.ascontiguousarray(B[at : at + SAMPLES_AT_ONCE].transpose(2, 1, 0)).reshape(B.shape[2], -1)
        for at in range(0, len(B), SAMPLES_AT_ONCE)
    ]
    return _Class(description, numbers, pieces, np.einsum("ij,ij->i", X, X), size_factor)


def _norm_terms(whole: np.ndarray, part: np.ndarray, U: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """‖Uv‖² of a span as a sum over pairs of frames: the first of each, how far apart they are, and its weight."""
    n_edges = len(whole)
    points = np.concatenate([whole, whole + 1])
    reading = np.hstack([np.diag(1.0 - part), np.diag(part)])
    slices = U @ np.diff(np.eye(n_edges), axis=0) @ reading
    weights = -(slices.T @ slices)
    first, second = np.triu_indices(len(points), 1)
    low, high = np.minimum(points[first], points[second]), np.maximum(points[first], points[second])
    used = (np.abs(weights[first, second]) > 0.0) & (high > low)
    pairs, of_pair = np.unique(np.stack([low[used], (high - low)[used]]), axis=1, return_inverse=True)
    added = np.bincount(of_pair.ravel(), weights[first, second][used], minlength=pairs.shape[1])
    return (pairs[0], pairs[1]), added
