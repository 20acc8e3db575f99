r"""Scores of all spans of a block without describing them one by one.

Before it is normalised, a description is linear in the cumulated spectra S at the edges :math:`e_0 < … < e_n` of its
slices, so its product with a training sample b is a sum over the edges, and its length follows from the distances
between cumulated spectra:

.. math:: ⟨U(v - \bar v), b⟩ = \sum_j ⟨S(e_j), B_j⟩, \quad
   ‖U(v - \bar v)‖² = -\sum_{i<j} M_{ij} ‖S(e_i) - S(e_j)‖² - \frac{(Σ_b S_b(e_n) - Σ_b S_b(e_0))²}{n·n_{bands}}

One matrix product of the cumulated spectra with the :math:`B_j` of a class then serves all starts and all lengths; what
is left for a span is to add up few numbers for each training sample. The sums over edges, which lie between frames, are
products with sparse matrices. The numbers are those of `NoteFrontEnd.describe` and `MDDKM.class_scores` to about 1e-12
(docs/decisions/011-fast-scan.md).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.sparse import csr_array

from outlark.estimators.mddkm import MDDKM
from outlark.maths.description import Description, score
from outlark.notes.front_ends.note import NoteFrontEnd, cumulated, root_of_change

#: Spectra whose shape is smaller than this share of their mean are flat; the square of it is what rounding leaves.
FLAT = 1e-6
#: Training samples that are projected at once: bounds the memory, and stays in the cache.
SAMPLES_AT_ONCE = 64
#: exp(2⟨x, b⟩/ℓ²) must stay a number; ℓ = 1 is usual, and gives 2.
LARGEST_EXPONENT = 50.0
#: From so many samples on the empty quarter of a triangle is worth being left out of a product.
LARGE_TRIANGLE = 64


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
    """One class, ready for projections.

    Attributes
    ----------
    numbers : ndarray of int
        The lengths that it may have.
    pieces : list of ndarray (bands, edges·samples)
        2B/ℓ², some samples after the other.
    triangles : list of (n, ndarray (n, n'))
        exp(-‖b‖²/ℓ²) times L⁻¹ᵀ, some columns after the other; each needs the first n rows.
    """

    description: Description
    size_factor: float
    numbers: np.ndarray
    pieces: list[np.ndarray]
    triangles: list[tuple[int, np.ndarray]]


class _Spans(NamedTuple):
    """The spans of a run, one length after the other.

    Attributes
    ----------
    ends : ndarray (L + 1,)
        Those of length number l are ``ends[l] … ends[l + 1] - 1``.
    starts, number_of : ndarrays (N,)
        Where they start, and the number of their length.
    columns, weights : ndarrays (N, 2·edges)
        What projections of cumulated spectra are to be added up, and how they count.
    flat : ndarray (N,) of bool
        Which have no shape.
    """

    ends: np.ndarray
    starts: np.ndarray
    number_of: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    flat: np.ndarray


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
    step : int
        From one start to the next.
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
        step: int,
        before: int,
    ) -> None:
        self._n_numbers, self._step = front_end.n_slices * front_end.n_features_, step
        around = front_end.surroundings
        edges = before + np.array([np.linspace(-around, n + around, front_end.n_slices + 1) for n in lengths])
        self._whole = edges.astype(int)
        self._part = edges - self._whole
        first, n_edges = int(self._whole.min()), self._whole.shape[1]
        here = (self._whole - first) * n_edges + np.arange(n_edges)
        self._columns = np.hstack([here, here + n_edges]).astype(np.int32)
        self._weights = np.hstack([1.0 - self._part, self._part])
        here, next_one = root_of_change(front_end.n_slices, front_end.change)
        U = np.diag(here) + np.diag(next_one, 1)
        self._classes = [
            _prepared(describer.descriptions_[c], X, np.flatnonzero(allowed[:, c]), U, describer.size_factors_[c])
            for c, X in enumerate(samples)
        ]
        self._pairs = [_pairs_of(whole - first, part, U) for whole, part in zip(self._whole, self._part, strict=True)]

    @classmethod
    def of(
        cls,
        front_end: NoteFrontEnd,
        describer: Any,
        lengths: np.ndarray,
        allowed: np.ndarray,
        step: int,
        before: int,
    ) -> Self | None:
        """None for a class model whose scores are not functions of distances to single training samples.

        They are kept as long as the class model is.
        """
        samples = describer.plain_samples() if type(describer) is MDDKM else None
        if samples is None or 2.0 * _longest(samples) > LARGEST_EXPONENT * describer.length_scale_**2:
            return None
        made_of = [id(part) for part in (front_end, describer.descriptions_, lengths, allowed)] + [step, before]
        kept = _KEPT.get(describer)
        if kept is None or kept[0] != made_of:
            kept = _KEPT[describer] = made_of, cls(front_end, describer, samples, lengths, allowed, step, before)
        return kept[1]

    def best(self, spectra: np.ndarray, starts: Sequence[np.ndarray], n_starts: int) -> SpanScores:
        """The best of the spans that begin at these starts, for each length by itself, in frames after `before`.

        Parameters
        ----------
        spectra : ndarray (T, bands)
            From `before` frames before the first start to the end of the longest span with its surroundings.
        starts : for each length an ascending array of int below `n_starts`, all of them multiples of `step`
        n_starts : int
        """
        found = no_spans(n_starts, len(self._classes))
        for first, last in self._runs(starts):
            sums = cumulated(spectra[first + self._whole.min() : last + self._whole.max() + 1])
            in_run = [own[np.searchsorted(own, first) : np.searchsorted(own, last, "right")] - first for own in starts]
            spans = self._spans(sums, in_run)
            for c, of_class in enumerate(self._classes):
                self._choose(of_class, sums, spans, SpanScores(found.values[first:, c], found.numbers[first:, c]))
        return found

    def _runs(self, starts: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
        """First and last start of what has no part in common with the next."""
        every = np.unique(np.concatenate(starts))
        cuts = np.flatnonzero(np.diff(every) > np.ptp(self._whole) + 2)
        yield from zip(every[[0, *(cuts + 1)]].tolist(), every[[*cuts, -1]].tolist(), strict=True)

    def _spans(self, sums: np.ndarray, starts: Sequence[np.ndarray]) -> _Spans:
        """Sums are from the first edge of all lengths on."""
        ends = np.cumsum([0, *map(len, starts)])
        number_of, joined = np.repeat(np.arange(len(starts)), np.diff(ends)), np.concatenate(starts)
        lengths = self._lengths(sums, starts, number_of)
        factors = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0.0)
        columns, weights = self._columns.take(number_of, axis=0), self._weights.take(number_of, axis=0)
        columns += (joined * self._whole.shape[1]).astype(np.int32)[:, np.newaxis]
        weights *= factors[:, np.newaxis]
        return _Spans(ends, joined, number_of, columns, weights, lengths == 0.0)

    def _lengths(self, sums: np.ndarray, starts: Sequence[np.ndarray], number_of: np.ndarray) -> np.ndarray:
        """‖U(v - v̄)‖ of all spans, one length after the other; 0 for what is flat."""
        used = [number for number, own in enumerate(starts) if len(own)]
        apart = np.unique(np.concatenate([self._pairs[number].apart for number in used]))
        squares, buffer, ones = np.empty((len(apart), len(sums))), np.empty_like(sums), np.ones(sums.shape[1])
        for row, frames in enumerate(apart.tolist()):
            between = np.subtract(sums[frames:], sums[:-frames], out=buffer[frames:])
            np.matmul(np.multiply(between, between, out=between), ones, out=squares[row, : len(between)])
        found = []
        for number in used:
            own, (first, between_them, weights) = starts[number], self._pairs[number]
            # every row what follows in steps; of these those that are needed
            rows = _shifted(squares.ravel(), int(own[0]), int(own[-1] - own[0]) // self._step + 1, self._step)
            at = np.searchsorted(apart, between_them) * len(sums) + first
            found.append((weights @ rows[at])[(own - own[0]) // self._step])
        of_shape = np.concatenate(found)
        of_mean = self._totals(sums @ ones, np.concatenate(starts), number_of) ** 2 / self._n_numbers
        of_shape -= of_mean
        return np.sqrt(np.where(of_shape > FLAT**2 * of_mean, of_shape, 0.0))

    def _totals(self, totals: np.ndarray, starts: np.ndarray, number_of: np.ndarray) -> np.ndarray:
        """The sum of all that lies in each span."""
        low, high = (
            totals[at] + part * (totals[at + 1] - totals[at])
            for at, part in (
                (starts + (self._whole[:, edge] - self._whole.min())[number_of], self._part[number_of, edge])
                for edge in (0, -1)
            )
        )
        return high - low

    def _choose(self, of_class: _Class, sums: np.ndarray, spans: _Spans, into: SpanScores) -> None:
        """The best length of a class for each start."""
        numbers = of_class.numbers
        rows = slice(spans.ends[numbers[0]], spans.ends[numbers[-1] + 1])  # the lengths of a class are neighbours
        starts = spans.starts[rows]
        if not len(starts):
            return
        scores = self._scores(of_class, sums, spans, rows)
        n = int(starts.max()) // self._step + 1
        table = np.zeros((numbers[-1] + 1 - numbers[0], n))
        table[spans.number_of[rows] - numbers[0], starts // self._step] = scores
        table = table[numbers - numbers[0]]
        best = table.argmax(axis=0)  # of equals the shortest
        values = table[best, np.arange(n)]
        at = slice(0, (n - 1) * self._step + 1, self._step)
        into.values[at] = values
        into.numbers[at] = np.where(values > 0.0, numbers[best], -1)

    def _scores(self, of_class: _Class, sums: np.ndarray, spans: _Spans, rows: slice) -> np.ndarray:
        """What the spans in these rows score by a class."""
        columns, weights = spans.columns[rows], spans.weights[rows]
        ends = np.arange(0, columns.size + 1, columns.shape[1], dtype=np.int32)
        n_edges, description = columns.shape[1] // 2, of_class.description
        reading = csr_array((weights.ravel(), columns.ravel(), ends), shape=(len(columns), len(sums) * n_edges))
        found = [reading @ (sums @ piece).reshape(len(sums) * n_edges, -1) for piece in of_class.pieces]
        k = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
        np.exp(k, out=k)
        nearness = np.zeros(len(k))
        for n, triangle in of_class.triangles:
            V = k[:, :n] @ triangle
            nearness += np.einsum("ij,ij->i", V, V)
        # descriptions have length 1, or 0 where they are flat
        nearness *= np.where(spans.flat[rows], 1.0, np.exp(-2.0 / description.ell**2))
        return score(np.maximum(1.0 - nearness, description.floor)) * of_class.size_factor


_KEPT: WeakKeyDictionary[MDDKM, tuple[list[int], Any]] = WeakKeyDictionary()


def _longest(samples: Sequence[np.ndarray]) -> float:
    return max(float(np.linalg.norm(X, axis=1).max()) for X in samples)


def _prepared(
    description: Description, X: np.ndarray, numbers: np.ndarray, U: np.ndarray, size_factor: float
) -> _Class:
    """B of a class, with the mean taken off: ⟨v - v̄, W⟩ = ⟨v, W - W̄⟩ for W = Uᵀb."""
    W = np.einsum("kj,nkb->njb", U, X.reshape(len(X), len(U), -1))
    W -= W.mean(axis=(1, 2), keepdims=True)
    B = np.diff(W, axis=1, prepend=0.0, append=0.0) * (-2.0 / description.ell**2)
    pieces = [
        np.ascontiguousarray(B[at : at + SAMPLES_AT_ONCE].transpose(2, 1, 0)).reshape(B.shape[2], -1)
        for at in range(0, len(B), SAMPLES_AT_ONCE)
    ]
    scaled = description.L_inv * np.exp(-np.einsum("ij,ij->i", X, X) / description.ell**2)
    half = len(X) // 2 if len(X) >= LARGE_TRIANGLE else len(X)
    triangles = [(half, np.ascontiguousarray(scaled[:half, :half].T))]
    if half < len(X):
        triangles.append((len(X), np.ascontiguousarray(scaled[half:].T)))
    return _Class(description, size_factor, numbers, pieces, triangles)


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
