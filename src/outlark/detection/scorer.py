"""From spectra to class scores at note level: every possible note at every trial start.

The description of a whole note hardly changes if it starts a few milliseconds earlier, or lasts
longer. The few spectra
around an edge change a lot: `Edges` places onset and end by those of the training notes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from outlark.detection.confirmation import CONFIRMED_SHARE, Confirmation, joined, wide_surroundings
from outlark.detection.projections import Projections, SpanScores, no_spans
from outlark.detection.scores import ScoreBlock, joined_scores, spans_of
from outlark.features.base import Frames
from outlark.features.note import ROUNDING, NoteFrontEnd, SpectrumSource, cumulated

#: Frames with at least this activity, in dB, are sounds.
SOUND_DB = 6.0
#: The contrast is this quantile of the activity of sounds.
LOUD_QUANTILE = 0.9
#: Older sounds fade with this time constant, in seconds.
MEMORY_S = 60.0
#: Sounds of this age or more, in seconds, do not count: a frame depends only on the five minutes before it.
FORGOTTEN_S = 300.0
#: The contrast of the training counts as this many seconds of sound: recordings often start with small noises.
PRIOR_S = 0.1
#: More contrast than this, in dB, makes no difference.
MAX_CONTRAST_DB = 40.0
#: Scores are raised by the inverse of this at most: any more would raise noise to notes.
LEAST_SHARE_IN_NOISE = 0.4
#: Activity is counted in steps of 1 dB up to this.
MAX_ACTIVITY_DB = 120


def contrast_of(activity: np.ndarray, frame_rate: float) -> float:
    """How far the loud sounds of a recording rise above the noise, in dB; `MAX_CONTRAST_DB` at most, or without sounds.

    >>> contrast_of(np.repeat([0.0, 20.0, 30.0], [500, 80, 20]), frame_rate=500.0)
    30.0
    """
    sounds = activity[(activity >= SOUND_DB) & np.isfinite(activity)]
    if len(sounds) < PRIOR_S * frame_rate:
        return MAX_CONTRAST_DB
    return min(MAX_CONTRAST_DB, float(np.quantile(sounds, LOUD_QUANTILE)))


class Contrast:
    """Estimates how much noise lowers the scores of true notes, as a share of their score in training.

    Noise masks part of a note and adds to the rest, so a true note scores less in noise than clean examples suggest:
    half as much at 10 dB. How far the loud sounds of the last minute rise above the noise floor shows how noisy it is,
    whatever the gain of the recorder, and scores are raised to make up for it.

    `reference_db` is `contrast_of` the training recordings. What came more than `look_back` frames earlier makes no
    difference, to the last bit.

    >>> contrast = Contrast(reference_db=40.0, frame_rate=100.0)
    >>> contrast.push(np.full(10, 5.0)), contrast.push(np.full(1000, 30.0)), contrast.push(np.full(9000, 8.0))
    (1.0, 0.7530864197530864, 0.4)
    """

    def __init__(self, reference_db: float, frame_rate: float) -> None:
        self.reference_db, self._frame_rate = int(reference_db) + 0.5, frame_rate  # the middle of its step
        self._prior = np.zeros(MAX_ACTIVITY_DB + 1)
        self._prior[int(reference_db)] = PRIOR_S * frame_rate
        self.look_back = int(np.ceil(FORGOTTEN_S * frame_rate))
        # for each block that still counts, the frames since then and its sounds in each step
        self._ages, self._counts = np.empty(0), np.empty((0, MAX_ACTIVITY_DB + 1))

    def push(self, activity: np.ndarray) -> float:
        """The share after these frames, (T,)."""
        sounds = activity[(activity >= SOUND_DB) & np.isfinite(activity)]
        counts = np.bincount(np.minimum(sounds, MAX_ACTIVITY_DB).astype(int), minlength=MAX_ACTIVITY_DB + 1)
        kept = self._ages + len(activity) < self.look_back
        self._ages = np.append(self._ages[kept] + len(activity), 0.0)
        self._counts = np.vstack([self._counts[kept], counts])
        # summed afresh: what fades step by step never fades to the last bit
        counted = np.exp(-self._ages / (MEMORY_S * self._frame_rate)) @ self._counts
        up_to = np.cumsum(counted + self._prior)
        loud_db = int(np.searchsorted(up_to, LOUD_QUANTILE * up_to[-1])) + 0.5
        return float(np.clip(loud_db / self.reference_db, LEAST_SHARE_IN_NOISE, 1.0))


#: Spectra compared on each side of an edge.
LOOK = 12
#: An edge moves by this many frames at most.
MAX_EDGE_SHIFT = 5
#: Moves, the smallest first: of equals the first is taken.
MOVES = np.array(sorted(range(-MAX_EDGE_SHIFT, MAX_EDGE_SHIFT + 1), key=abs))


@dataclass(frozen=True, eq=False)
class Edges:
    """What the onsets and ends of the notes of each class look like."""

    #: Mean of the spectra around the edges of the training notes, each without its mean and of length 1. Either `LOOK`
    #: spectra before the edge and as many after it, n = 2·LOOK + 1, or for clips only those inside the note, n = LOOK +
    #: 1. The ends of clips then stay where they are: clips are cut somewhere in the echo, (C, n, n_bands).
    starts: np.ndarray
    ends: np.ndarray

    def moves(self, spectra: np.ndarray, starts: np.ndarray, ends: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """By how many frames to move the onset and end of notes to match those of their class best, (N, 2) of int.

        Starts, ends and classes are (N,) of int; outside the spectra (T, n_bands) there is silence.

        >>> spectra = np.zeros((60, 3))
        >>> spectra[20:40, 1] = 1.0
        >>> edges = Edges(edge_patches(spectra, [20.0], True), edge_patches(spectra, [40.0], False))
        >>> edges.moves(spectra, np.array([22]), np.array([37]), np.array([0]))
        array([[-2,  3]])
        """
        found, inside = np.zeros((len(starts), 2), dtype=np.int64), self.starts.shape[1] == LOOK + 1
        # from the first spectrum compared to the last
        reach = LOOK + MAX_EDGE_SHIFT
        low, high = int(min(starts.min(), ends.min())) - reach, int(max(starts.max(), ends.max())) + reach
        around = _between(spectra, low, high + 1)
        powers = around.sum(axis=1), (around**2).sum(axis=1)
        for c in np.unique(classes):
            rows = np.flatnonzero(classes == c)
            found[rows, 0] = _best_moves(around, powers, self.starts[c], _first(True, inside), starts[rows] - low)
            if not inside:
                found[rows, 1] = _best_moves(around, powers, self.ends[c], _first(False, inside), ends[rows] - low)
        return found


def learn_edges(
    edges_of: Sequence[tuple[np.ndarray, float, float, Any]], classes: Sequence[Any], *, inside: bool
) -> Edges:
    """The edges of training notes, given as spectra of the recording, onset and end in frames, and class.

    With `inside`, the surroundings of the notes are unknown.
    """
    of_class = [[note for note in edges_of if note[3] == label] for label in classes]
    starts = [edge_means([(s, a) for s, a, _, _ in notes], True, inside=inside) for notes in of_class]
    ends = [edge_means([(s, b) for s, _, b, _ in notes], False, inside=inside) for notes in of_class]
    return Edges(np.array(starts), np.array(ends))


def edge_means(edges: Sequence[tuple[np.ndarray, float]], at_start: bool, *, inside: bool) -> np.ndarray:
    """The mean of the spectra around edges, given as spectra and frame, (n, n_bands)."""
    return np.mean([edge_patches(s, [at], at_start, inside=inside)[0] for s, at in edges], axis=0)


def edge_patches(spectra: np.ndarray, edges: Sequence[float], at_start: bool, *, inside: bool = False) -> np.ndarray:
    """The spectra around each edge, without their mean and of length 1, (N, n, n_bands); 0 if flat."""
    first = _first(at_start, inside)
    around = first + np.arange(LOOK + 1 if inside else 2 * LOOK + 1)
    rows = np.rint(np.asarray(edges, dtype=float)[:, np.newaxis] + around).astype(int)
    patches = np.where(_there(rows, spectra)[..., np.newaxis], spectra[np.clip(rows, 0, len(spectra) - 1)], 0.0)
    return unit_rows(patches.reshape(len(patches), -1)).reshape(patches.shape)


def _between(spectra: np.ndarray, low: int, high: int) -> np.ndarray:
    """Spectra low … high - 1, with silence outside."""
    before, after = np.clip([-low, high - len(spectra)], 0, high - low)
    inside = spectra[max(low, 0) : max(high, 0)]
    return np.pad(inside, ((before, after), (0, 0))) if before or after else inside


def _best_moves(
    around: np.ndarray, powers: tuple[np.ndarray, np.ndarray], patch: np.ndarray, first: int, edges: np.ndarray
) -> np.ndarray:
    """For each edge (N,) the move whose surroundings match the patch (n, n_bands), of mean 0, best.

    `around` are all spectra it can be compared with, `powers` the sum of each and of its squares, (T,) both.
    """
    low = int(edges.min()) - MAX_EDGE_SHIFT + first
    span = slice(low, int(edges.max()) + MAX_EDGE_SHIFT + first + len(patch))
    # every spectrum with every row of the patch, then the diagonals: no copy of the spectra for every place
    products = around[span] @ patch.T
    row, column = products.strides
    n_places = len(products) - len(patch) + 1
    shared = as_strided(products, (n_places, len(patch)), (row, row + column), writeable=False).sum(axis=1)
    total, squares = (sliding_window_view(power[span], len(patch)).sum(axis=1) for power in powers)
    spread = squares - total**2 / patch.size
    alike = np.divide(
        shared, np.sqrt(np.maximum(spread, 0.0)), out=np.zeros(n_places), where=spread > ROUNDING * squares
    )
    places = edges[:, np.newaxis] + MOVES + first - low
    return MOVES[alike[places].argmax(axis=1)]


def _first(at_start: bool, inside: bool) -> int:
    """Where the spectra of an edge begin, in frames after the edge."""
    return 0 if inside and at_start else -LOOK


def _there(rows: np.ndarray, spectra: np.ndarray) -> np.ndarray:
    return (rows >= 0) & (rows < len(spectra))


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows (T, d) without their mean, scaled to length 1; constant rows, such as silence, become 0.

    >>> unit_rows(np.array([[1.0, 3.0], [0.0, 0.0], [0.7, 0.7]])).round(2)
    array([[-0.71,  0.71],
           [ 0.  ,  0.  ],
           [ 0.  ,  0.  ]])
    """
    means = rows.mean(axis=1, keepdims=True)
    shapes = rows - means
    lengths = np.sqrt(np.einsum("ij,ij->i", shapes, shapes))[:, np.newaxis]
    shaped = lengths > ROUNDING * np.abs(means)
    return np.where(shaped, shapes, 0.0) / np.where(shaped, lengths, 1.0)


#: Starts scored at once, or a multiple of it where notes are long: always the same blocks, and so the same scores.
STARTS_AT_ONCE = 512
#: The edges of notes that reach this share of their threshold are refined.
REFINED_SHARE = 0.5
#: At least this share of the frames of a note must rise above the noise floor.
ACTIVE_SHARE = 0.5


class Scorer(Protocol):
    """Frames in, scores out: `NoteScorer`, or an `outlark.paper.detector.FrameScorer`."""

    #: Parts of a recording may start at a multiple of this many frames; None if it must be scored as a whole.
    grain: int | None

    def push(self, frames: Frames) -> ScoreBlock:
        """The scores that are ready."""
        ...

    def finish(self) -> ScoreBlock:
        """The scores of the rest."""
        ...

    def none(self) -> ScoreBlock:
        """Scores of no frames."""
        ...


class ClassScorer(Protocol):
    """A fitted class model: scores (n, C) for samples (n, d)."""

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """High = member."""
        ...


class NoteScorer:
    """Every span of a trial length is a sample; the best length of each start and class is kept.

    `lengths` (L,) are in frames, `allowed` (L, C) says which class can have which, and starts are `step` frames apart.
    With `edges`, those of notes that reach half of their threshold are refined, so that thresholds may be lowered
    afterwards. `contrast` makes up for more noise than the training notes had, and `confirmation` adds what is around
    notes.

    Starts are scored in blocks of `grain` frames, and a part of a recording begins with a multiple of it. It depends on
    `look_back` frames before its first start, also a multiple of the grain; see `run_in`.
    """

    def __init__(
        self,
        front_end: NoteFrontEnd,
        class_model: ClassScorer,
        lengths: np.ndarray,
        allowed: np.ndarray,
        step: int,
        edges: Edges | None = None,
        thresholds: np.ndarray | None = None,
        contrast: Contrast | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        self._front_end, self._class_model = front_end, class_model
        self._lengths, self._allowed, self._step = lengths, allowed, step
        self._frames = np.array([_whole(length) for length in lengths])
        self._edges, self._thresholds, self._contrast = edges, thresholds, contrast
        self._confirmation = confirmation
        surroundings = front_end.surroundings if confirmation is None else wide_surroundings(front_end, lengths.max())
        # spectra needed before and after a note: its surroundings, and those around its edges
        self._around = max(LOOK + MAX_EDGE_SHIFT, int(np.ceil(surroundings)) + 1)
        self._after = int(np.ceil(lengths.max())) + 2 + self._around
        self._chunk = max(step, STARTS_AT_ONCE - STARTS_AT_ONCE % step)
        # what follows a block is projected twice: no more of it than of the block
        self._at_once = self._chunk * -(-self._after // self._chunk)
        depends_on = max(self._around, 0 if contrast is None else contrast.look_back)
        self.grain: int | None = self._at_once
        self.look_back = -(-depends_on // self._at_once) * self._at_once
        self._held, self._activity = np.empty((0, front_end.n_features_)), np.empty(0)
        self._before = np.zeros((self._around, front_end.n_features_))  # silence before the recording
        self._projections = Projections.of(front_end, class_model, lengths, allowed, step, self._around)

    def source_from(self, first: int) -> SpectrumSource:
        """A fresh stream of frames from this frame of a recording on."""
        return self._front_end.stream(first)

    def run_in(self, frames: Frames) -> None:
        """Frames before the first start, which get no scores: `look_back` in all, or as many as there are."""
        self._before = np.concatenate([self._before, frames.features])[-self._around :]
        if self._contrast is not None:
            self._activity = np.concatenate([self._activity, frames.activity])
            whole = len(self._activity) // self._chunk * self._chunk
            for at in range(0, whole, self._chunk):
                self._contrast.push(self._activity[at : at + self._chunk])
            self._activity = self._activity[whole:]

    def push(self, frames: Frames) -> ScoreBlock:
        """The scores of the starts whose longest note is complete."""
        if not len(frames):
            return self.none()
        self._held = np.concatenate([self._held, frames.features])
        self._activity = np.concatenate([self._activity, frames.activity])
        n_ready = max(0, len(self._held) - self._after) // self._at_once * self._at_once
        blocks = [self._block_at(at) for at in range(0, n_ready, self._at_once)]
        if n_ready:
            self._before = np.concatenate([self._before, self._held[:n_ready]])[-self._around :]
        self._held, self._activity = self._held[n_ready:], self._activity[n_ready:]
        return joined_scores([self.none(), *blocks])

    def finish(self) -> ScoreBlock:
        """The scores of the rest; notes that reach beyond the end score 0."""
        blocks = [self._block_at(at) for at in range(0, len(self._held), self._at_once)]
        return joined_scores([self.none(), *blocks])

    def _block_at(self, at: int) -> ScoreBlock:
        """Scores of the block of starts that begins `at` frames after the first one held."""
        end = at + self._at_once + self._after
        before = np.concatenate([self._before, self._held[max(0, at - self._around) : at]])[-self._around :]
        spectra = np.concatenate([before, self._held[at:end]])
        block = self._scored(spectra, self._activity[at:end])
        shares = np.ones(len(block))
        if self._contrast is not None:
            for first in range(0, len(block), self._chunk):
                chunk = slice(first, first + self._chunk)
                shares[chunk] = self._contrast.push(block.activity[chunk])
            block.values[...] /= shares[:, np.newaxis]
        if self._confirmation is not None:
            self._confirm(block, spectra, shares)
        spans = spans_of(Frames(self._held[at : at + len(block)], block.activity), self._front_end.spectrum_)
        moves = None if self._edges is None else self._moves(block, spectra)
        return ScoreBlock(block.values, block.activity, block.lengths, moves, spans)

    def _confirm(self, block: ScoreBlock, spectra: np.ndarray, shares: np.ndarray) -> None:
        """Join the scores of spans that come near their threshold with those of their wide surroundings."""
        assert self._confirmation is not None
        assert self._thresholds is not None
        assert block.lengths is not None
        for c, least in enumerate(CONFIRMED_SHARE * self._thresholds):
            starts = np.flatnonzero(block.values[:, c] >= least)
            if len(starts):
                wide = self._confirmation.scores(spectra, self._around + starts, block.lengths[starts, c], c)
                block.values[starts, c] = joined(block.values[starts, c], wide / shares[starts])

    def _moves(self, block: ScoreBlock, spectra: np.ndarray) -> np.ndarray:
        """Refined edges of a block of starts, from the spectra around it."""
        assert self._edges is not None
        assert self._thresholds is not None
        assert block.lengths is not None
        moves = np.zeros((*block.values.shape, 2), dtype=np.int64)
        starts, classes = np.nonzero(block.values >= REFINED_SHARE * self._thresholds)
        if len(starts):
            ends = starts + block.lengths[starts, classes]
            found = self._edges.moves(spectra, self._around + starts, self._around + ends, classes)
            moves[starts, classes] = found
        return moves

    def _scored(self, spectra: np.ndarray, activity: np.ndarray) -> ScoreBlock:
        """Scores of a block of starts, from the spectra around it and the activity from its first frame on."""
        values = np.zeros((min(self._at_once, len(activity)), self._allowed.shape[1]))
        lengths = np.ones(values.shape, dtype=np.int64)
        starts = self._starts(activity > 0.0, len(values))
        if any(map(len, starts)):
            # silence after the end of the recording
            spectra = np.concatenate([spectra, np.zeros((self._around, spectra.shape[1]))])
            scored = self._described if self._projections is None else self._projections.best
            found = scored(spectra, starts, len(values))
            values[...] = found.values
            lengths[...] = np.where(found.numbers >= 0, self._frames[found.numbers], 1)
        return ScoreBlock(values, activity[: len(values)], lengths)

    def _starts(self, active: np.ndarray, n_starts: int) -> list[np.ndarray]:
        """For each length the starts of the spans that rise above the noise floor."""
        n_active = np.concatenate([[0], np.cumsum(active)])
        starts = np.arange(0, n_starts, self._step)
        found = []
        for whole in self._frames.tolist():
            fitting = starts[: max(0, len(active) - whole) // self._step + 1] if whole <= len(active) else starts[:0]
            found.append(fitting[n_active[fitting + whole] - n_active[fitting] >= ACTIVE_SHARE * whole])
        return found

    def _described(self, spectra: np.ndarray, starts: Sequence[np.ndarray], n_starts: int) -> SpanScores:
        """The same as `Projections.best`, for any class model: every span is described."""
        found = no_spans(n_starts, self._allowed.shape[1])
        sums = cumulated(spectra)
        samples = [self._samples(spectra, sums, number, own) for number, own in enumerate(starts)]
        # one call for all lengths: calls cost more than rows
        scores = self._class_model.class_scores(np.concatenate(samples))
        ends = np.cumsum([len(own) for own in starts])
        for number, (own, of_length) in enumerate(zip(starts, np.split(scores, ends[:-1]), strict=True)):
            of_classes = np.where(self._allowed[number], of_length[:, : self._allowed.shape[1]], 0.0)
            better = of_classes > found.values[own]
            found.values[own] = np.where(better, of_classes, found.values[own])
            found.numbers[own] = np.where(better, number, found.numbers[own])
        return found

    def _samples(self, spectra: np.ndarray, sums: np.ndarray, number: int, starts: np.ndarray) -> np.ndarray:
        """The descriptions of the spans of one length."""
        if not len(starts):
            return np.empty((0, self._front_end.n_slices * spectra.shape[1]))
        first, last = int(starts[0]), int(starts[-1])
        samples = self._front_end.describe(
            spectra,
            start=float(self._around + first),
            n_starts=(last - first) // self._step + 1,
            length=float(self._lengths[number]),
            step=self._step,
            sums=sums,
        )
        return samples[(starts - first) // self._step]

    def none(self) -> ScoreBlock:
        """Scores of no starts."""
        n_classes = self._allowed.shape[1]
        lengths, moves = np.empty((0, n_classes), dtype=np.int64), np.empty((0, n_classes, 2), dtype=np.int64)
        spans = np.empty((0, 3), dtype=np.float32)
        return ScoreBlock(np.empty((0, n_classes)), np.empty(0), lengths, None if self._edges is None else moves, spans)


def _whole(length: float) -> int:
    """Frames of a note of this length."""
    return max(1, round(float(length)))
