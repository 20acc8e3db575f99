r"""Scores of all spans of a block without describing them one by one.

Before it is normalised, a description is linear in the cumulated spectra S at the edges :math:`e_0 < … < e_n` of its
slices, so its product with a training sample b is a sum over the edges:

.. math:: ⟨U(v - \bar v), b⟩ = \sum_j ⟨S(e_j), B_j⟩

One matrix product of the cumulated spectra with the :math:`B_j` of a class then serves all starts and lengths; a span
only adds up a few numbers for each training sample. The sums over edges, which lie between frames, are products with
sparse matrices. `SpanLengths` gives the lengths they are divided by. The results equal those of `NoteFrontEnd.describe`
and `MDDKM.class_scores` to about 1e-12 (docs/decisions/011-fast-scan.md).
"""

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.sparse import csr_array

from outlark.estimators.mddkm import MDDKM
from outlark.features.note import NoteFrontEnd, cumulated, root_of_change
from outlark.maths.description import OneClass, score

#: Training samples projected at once: bounds the memory and stays in the cache.
SAMPLES_AT_ONCE = 64
#: Numbers projected at once, about what a cache holds, and the fewest frames.
CACHE, FEWEST_FRAMES = 250_000, 256
#: exp(2⟨x, b⟩/ℓ²) must stay a number; ℓ = 1 is usual, and gives 2.
LARGEST_EXPONENT = 50.0
#: From this many samples on, skipping the empty quarter of a triangle pays off.
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
    """One class, ready for projections."""

    description: OneClass
    size_factor: float
    #: Of the lengths that it may have.
    numbers: np.ndarray
    #: First and last of its edges, in frames after the first edge of all classes.
    first: int
    last: int
    #: Starts that are scored at once.
    frames_at_once: int
    #: 2B/ℓ² (bands, edges·samples), some samples after the other.
    pieces: list[np.ndarray]
    #: exp(-‖b‖²/ℓ²) times L⁻¹ᵀ, some columns after the other; each needs the first n rows.
    triangles: list[tuple[int, np.ndarray]]


class _Spans(NamedTuple):
    """The spans of a run, one length after the other."""

    #: Those of length number l are ``ends[l] … ends[l + 1] - 1``; (L + 1,).
    ends: np.ndarray
    #: Where they start, and the number of their length, (N,).
    starts: np.ndarray
    number_of: np.ndarray
    #: What projections of cumulated spectra are to be added up, and how they count, (N, 2·edges).
    columns: np.ndarray
    weights: np.ndarray
    #: Which have no shape, (N,) of bool.
    flat: np.ndarray


class Projections:
    """Scores of the spans of a block of spectra by `MDDKM`; prepared once for a model.

    `samples` are its `plain_samples`, and `before` is the number of spectra of a block before its first start; the rest
    is as in `NoteScorer`.
    """

    def __init__(
        self,
        front_end: NoteFrontEnd,
        class_model: MDDKM,
        samples: Sequence[np.ndarray],
        lengths: np.ndarray,
        allowed: np.ndarray,
        step: int,
        before: int,
    ) -> None:
        self._step, around = step, front_end.surroundings
        edges = before + np.array([np.linspace(-around, n + around, front_end.n_slices + 1) for n in lengths])
        whole = edges.astype(int)
        part = edges - whole
        self._first, self._reach, self._n_edges = int(whole.min()), int(np.ptp(whole)), whole.shape[1]
        whole -= self._first
        here = whole * self._n_edges + np.arange(self._n_edges)
        self._columns = np.hstack([here, here + self._n_edges]).astype(np.int32)
        self._weights = np.hstack([1.0 - part, part])
        here, next_one = root_of_change(front_end.n_slices, front_end.change)
        U = np.diag(here) + np.diag(next_one, 1)
        self._classes = [
            _prepared(class_model, c, X, np.flatnonzero(allowed[:, c]), whole, U) for c, X in enumerate(samples)
        ]
        self._lengths = SpanLengths(whole, part, U, step)

    @classmethod
    def of(
        cls,
        front_end: NoteFrontEnd,
        class_model: Any,
        lengths: np.ndarray,
        allowed: np.ndarray,
        step: int,
        before: int,
    ) -> Self | None:
        """None for a class model whose scores are not functions of distances to single training samples.

        Kept as long as the class model exists, with references to what they were made of.
        """
        if type(class_model) is not MDDKM:
            return None
        made_of = (front_end, class_model.descriptions_, lengths, allowed), (step, before)
        kept = _KEPT.get(class_model)
        if kept is not None and kept[1] == made_of[1] and all(map(is_, kept[0], made_of[0])):
            return kept[2]
        samples = class_model.plain_samples()
        if samples is None or 2.0 * _longest(samples) > LARGEST_EXPONENT * class_model.length_scale_**2:
            return None
        made = cls(front_end, class_model, samples, lengths, allowed, step, before)
        _KEPT[class_model] = (*made_of, made)
        return made

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
            sums = cumulated(spectra[first + self._first : last + self._first + self._reach + 1])
            in_run = [own[np.searchsorted(own, first) : np.searchsorted(own, last, "right")] - first for own in starts]
            spans = self._spans(sums, in_run)
            for c, of_class in enumerate(self._classes):
                self._choose(of_class, sums, spans, SpanScores(found.values[first:, c], found.numbers[first:, c]))
        return found

    def _runs(self, starts: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
        """First and last start of each run of spans that share nothing with the next run."""
        every = np.unique(np.concatenate(starts))
        cuts = np.flatnonzero(np.diff(every) > self._reach + 2)
        yield from zip(every[[0, *(cuts + 1)]].tolist(), every[[*cuts, -1]].tolist(), strict=True)

    def _spans(self, sums: np.ndarray, starts: Sequence[np.ndarray]) -> _Spans:
        """Sums are from the first edge of all lengths on."""
        ends = np.cumsum([0, *map(len, starts)])
        number_of, joined = np.repeat(np.arange(len(starts)), np.diff(ends)), np.concatenate(starts)
        lengths = self._lengths(sums, starts)
        factors = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0.0)
        columns, weights = self._columns.take(number_of, axis=0), self._weights.take(number_of, axis=0)
        columns += (joined * self._n_edges).astype(np.int32)[:, np.newaxis]
        weights *= factors[:, np.newaxis]
        return _Spans(ends, joined, number_of, columns, weights, lengths == 0.0)

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
        """The scores of the spans in these rows under a class."""
        starts, found = spans.starts[rows], np.empty(rows.stop - rows.start)
        part_of = starts // of_class.frames_at_once
        for part in np.unique(part_of).tolist():
            own = rows.start + np.flatnonzero(part_of == part)
            found[own - rows.start] = self._nearness(of_class, sums, spans, own)
        description = of_class.description
        # descriptions have length 1, or 0 where they are flat
        found *= np.where(spans.flat[rows], 1.0, np.exp(-2.0 / description.ell**2))
        return score(np.maximum(1.0 - found, description.floor)) * of_class.size_factor

    def _nearness(self, of_class: _Class, sums: np.ndarray, spans: _Spans, rows: np.ndarray) -> np.ndarray:
        """kᵀ(K + ρI)⁻¹k of these spans, for kernel values k without the length of the description."""
        starts, n_edges = spans.starts[rows], self._n_edges
        first = int(starts.min()) + of_class.first
        last = min(int(starts.max()) + of_class.last + 2, len(sums))
        columns, weights = spans.columns.take(rows, axis=0), spans.weights.take(rows, axis=0)
        columns -= first * n_edges
        ends = np.arange(0, columns.size + 1, 2 * n_edges, dtype=np.int32)
        reading = csr_array((weights.ravel(), columns.ravel(), ends), shape=(len(rows), (last - first) * n_edges))
        used = sums[first:last]
        found = [reading @ (used @ piece).reshape(len(used) * n_edges, -1) for piece in of_class.pieces]
        k = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
        np.exp(k, out=k)
        nearness = np.zeros(len(k))
        for n, triangle in of_class.triangles:
            V = k[:, :n] @ triangle
            nearness += np.einsum("ij,ij->i", V, V)
        return nearness


_KEPT: WeakKeyDictionary[MDDKM, tuple[tuple[Any, ...], tuple[int, int], Any]] = WeakKeyDictionary()


def _longest(samples: Sequence[np.ndarray]) -> float:
    return max(float(np.linalg.norm(X, axis=1).max()) for X in samples)


def _prepared(
    class_model: MDDKM, c: int, X: np.ndarray, numbers: np.ndarray, whole: np.ndarray, U: np.ndarray
) -> _Class:
    """B of class c, without its mean: ⟨v - v̄, W⟩ = ⟨v, W - W̄⟩ for W = Uᵀb."""
    description = class_model.descriptions_[c]
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
    first, last = int(whole[numbers].min()), int(whole[numbers].max())
    in_cache = CACHE // (whole.shape[1] * min(len(X), SAMPLES_AT_ONCE)) - (last - first)
    at_once = max(FEWEST_FRAMES, last - first, in_cache)
    return _Class(description, class_model.size_factors_[c], numbers, first, last, at_once, pieces, triangles)


#: Spectra whose shape is smaller than this share of their mean are flat; its square is the size of rounding errors.
FLAT = 1e-6


class SpanLengths:
    r"""‖U(v - v̄)‖ of spans (see `outlark.features.note`), from squared distances between cumulated spectra.

    With the cumulated spectra S at the edges of the slices of a span, and a sum over pairs of them with weights M,

    .. math:: ‖U(v-\bar v)‖² = -\sum_{i<j} M_{ij} ‖S(e_i) - S(e_j)‖² - \frac{(Σ_b (S_b(e_n) - S_b(e_0)))²}{n n_{bands}}

    Distances, not products, because loud sound elsewhere must not drown quiet sound here. The edges of the slices of a
    span of each length, in frames after its start, are `whole` frames and a `part`, (L, edges) both; starts are
    multiples of `step`.

    >>> lengths = SpanLengths(np.array([[0, 1, 2]]), np.zeros((1, 3)), np.eye(2), step=1)
    >>> sums = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0], [4.0, 2.0], [4.0, 2.0]])
    >>> lengths(sums, [np.array([0, 1])]).round(3)  # of (3, 0 | 0, 1) and (0, 1 | 1, 1), without their means
    array([2.449, 0.866])
    """

    def __init__(self, whole: np.ndarray, part: np.ndarray, U: np.ndarray, step: int) -> None:
        self._whole, self._part, self._step, self._n_slices = whole, part, step, len(U)
        self._pairs = [_pairs_of(*edges, U) for edges in zip(whole, part, strict=True)]

    def __call__(self, sums: np.ndarray, starts: Sequence[np.ndarray]) -> np.ndarray:
        """Of all spans, one length after the other, from `cumulated` spectra (T, bands) and the ascending starts of
        each length; 0 for what is flat.
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
