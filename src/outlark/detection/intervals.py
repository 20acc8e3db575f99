"""The notes of a batch of regions, and the intervals of sound or silence between them, in little memory.

Of the notes that reach their threshold, the best set without overlap is taken. Sound beside a note may be the rest of
its onset or its decay: to refine the edges of a note, `outlark.detection.scorer` compares `LOOK` spectra on either side
of them with those of the training notes, so a person would not annotate it separately. Sound that lies entirely within
that reach of the notes beside it therefore counts as silence. So does sound that lies entirely within notes that gave
way to a better one, which they overlap: a class explains all of it. Neither becomes part of the note, whose edges were
placed with care.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outlark.detection.front_end_choice import WINDOW_SHARE
from outlark.detection.scorer import LOOK
from outlark.detection.scores import Batch, ScoreBlock, ScoreLayout
from outlark.features.note import NoteFrontEnd

#: Non-maximum suppression: among starts of one class within this many frames, the best is a candidate.
NEAR_FRAMES = 2
#: Notes may overlap by this share of their length at each end, because lengths are tried in steps. Up to .15, results
#: on booth recordings stay the same; songs in the field lose .01.
OVERLAP_SHARE = 0.05
SILENT, ACTIVE, NOTE = 0, 1, 2
#: Activity is averaged within these bounds, in dB: digital silence is infinitely far below any floor.
ACTIVITY_BOUNDS_DB = (-120.0, 120.0)


class Runs(NamedTuple):
    """Maximal runs of equal values: items ``starts[i]`` to ``ends[i]`` of the sequence are all ``values[i]``."""

    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return self.ends - self.starts


def run_lengths(values: np.ndarray) -> Runs:
    """Run-length encoding of a sequence (T,).

    >>> run_lengths(np.array([7, 7, 0, 7])).lengths
    array([2, 1, 1])
    """
    if len(values) == 0:
        none = np.empty(0, dtype=int)
        return Runs(none, none, values)
    borders = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = np.concatenate([[0], borders])
    return Runs(starts, np.concatenate([borders, [len(values)]]), values[starts])


class Decoded(NamedTuple):
    """The notes of a batch (N, 3): first frame, the one after the last, number of the class; and the frames of each
    note as it was scored, before its edges were refined, (N, 2)."""

    notes: np.ndarray
    scored: np.ndarray


def decode_notes(batch: Batch, thresholds: np.ndarray, *, least: int = 0) -> Decoded:
    """The best set of whole notes that overlap at most a little at their edges, where they meet half way.

    A candidate gains (score - threshold) · length: the evidence above the threshold, summed over its frames. Without
    the length, two short notes within a long one would beat it, however weak. A candidate has at least `least` frames,
    and is dropped if the next note leaves it fewer.
    """
    values, lengths = batch.block.values, batch.block.lengths
    assert lengths is not None
    if least:
        values = np.where(batch.block.note_lengths >= least, values, 0.0)
    starts, classes = np.nonzero(candidates(values, thresholds))
    groups = np.searchsorted(batch.regions[:, 0], starts, side="right") - 1
    # notes that reach beyond a region that was cut are cut as well
    ends = np.minimum(starts + lengths[starts, classes], batch.regions[groups, 1])
    gains = (values[starts, classes] - thresholds[classes]) * (ends - starts)
    give = (OVERLAP_SHARE * (ends - starts)).astype(int)
    order = np.lexsort((classes, starts + give, ends - give))
    chosen = order[best_intervals((starts + give)[order], (ends - give)[order], gains[order], groups[order])]
    notes = np.column_stack([starts, ends, classes])[chosen]
    moves = np.zeros((*values.shape, 2), dtype=np.int64) if batch.block.moves is None else batch.block.moves
    at_edges = moved(notes, moves, batch.regions[groups[chosen]])
    lasting = at_edges[:, 1] - at_edges[:, 0] >= least
    return Decoded(at_edges[lasting], notes[lasting, :2])


def moved(notes: np.ndarray, moves: np.ndarray, regions: np.ndarray) -> np.ndarray:
    """Notes (N, 3), in order, that overlap by less than half, with edges moved and without overlap.

    An edge stays on its side of the middle of its note and within its region (N, 2). Notes that would overlap meet half
    way.

    >>> moves = np.zeros((9, 1, 2), dtype=int)
    >>> moves[[1, 5], 0] = [[-1, 2], [-1, -1]]
    >>> moved(np.array([[1, 5, 0], [5, 9, 0]]), moves, np.array([[0, 9], [0, 9]]))
    array([[0, 5, 0],
           [5, 8, 0]])
    """
    starts, ends, classes = notes.T
    middles = (starts + ends) // 2
    new_starts = np.clip(starts + moves[starts, classes, 0], regions[:, 0], middles)
    new_ends = np.clip(ends + moves[starts, classes, 1], middles + 1, regions[:, 1])
    both = np.flatnonzero(new_ends[:-1] > new_starts[1:])
    meeting = np.clip((new_ends[both] + new_starts[both + 1]) // 2, middles[both] + 1, middles[both + 1])
    new_ends[both] = new_starts[both + 1] = meeting
    return np.column_stack([new_starts, new_ends, classes])


def candidates(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Starts (T, C) of bool that reach the threshold, after non-maximum suppression; of equals the first.

    >>> candidates(np.array([[1.0], [3.0], [3.0], [2.0], [2.5]]), np.array([2.0])).ravel()
    array([False,  True, False, False, False])
    """
    best = values >= thresholds
    for k in range(1, NEAR_FRAMES + 1):
        best[k:] &= values[k:] > values[:-k]
        best[:-k] &= values[:-k] >= values[k:]
    return best


def best_intervals(starts: np.ndarray, ends: np.ndarray, gains: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Weighted interval scheduling (segmental Viterbi): intervals without overlap that have the largest total gain.

    Of intervals sorted by end, the numbers of those chosen, in order. Intervals of different groups do not overlap, and
    sums restart in each group: rounding in one does not affect another.

    >>> starts, ends, gains = np.array([0, 2, 5]), np.array([4, 6, 9]), np.array([2.0, 3.0, 2.0])
    >>> best_intervals(starts, ends, gains, np.zeros(3, dtype=int))
    array([0, 2])
    """
    before = np.searchsorted(ends, starts, side="right").tolist()  # how many end before this one starts
    best, taken, group = [0.0] * (len(starts) + 1), [], None
    for i, (gain, here) in enumerate(zip(gains.tolist(), groups.tolist(), strict=True)):
        if here != group:
            best[i], group = 0.0, here
        with_it = best[before[i]] + gain
        taken.append(with_it >= best[i])
        best[i + 1] = max(with_it, best[i])
    chosen, i = [], len(starts)
    while i > 0:
        if taken[i - 1]:
            chosen.append(i - 1)
        i = before[i - 1] if taken[i - 1] else i - 1
    return np.array(chosen[::-1], dtype=int)


class Intervals(NamedTuple):
    """Consecutive intervals of frames, each of one kind."""

    #: Frames, counted from the start of the stream, (N,) of int.
    starts: np.ndarray
    ends: np.ndarray
    #: `SILENT`, `ACTIVE`, or ``NOTE + k`` for note k of the batch, (N,).
    kinds: np.ndarray
    #: Sums of the class scores and of the activity over all frames up to the start and to the end, (N, C + 1).
    before: np.ndarray
    after: np.ndarray
    #: Of each class the highest score below its threshold, the highest of all, and the longest run of frames at or
    #: above the threshold or, at note level, the frames of the longest note that reaches it; then 1 if some active
    #: frame is outside of the notes that gave way to a better one, else 0; and the highest activity, (N, 3C + 2).
    highest: np.ndarray

    def part(self, start: int, stop: int) -> "Intervals":
        """Intervals start … stop - 1."""
        return Intervals(*(column[start:stop] for column in self))

    @property
    def lengths(self) -> np.ndarray:
        """Frames."""
        return self.ends - self.starts

    @property
    def means(self) -> np.ndarray:
        """Mean class scores and activity, (N, C + 1)."""
        return (self.after - self.before) / self.lengths[:, None]


def intervals_of(
    batch: Batch,
    notes: np.ndarray,
    active: np.ndarray,
    thresholds: np.ndarray,
    before: np.ndarray,
    *,
    least: int = 0,
) -> Intervals:
    """The intervals of a batch with these notes (N, 3) and active frames (T,); whole notes last `least` frames or more.

    Sums continue from `before` (C + 1,). They are added frame by frame, always in the same order, so that they are the
    same to the last bit for any division into batches.

    >>> block = ScoreBlock(np.array([[1.0], [3.0], [3.0]]), np.array([0.0, 9.0, 9.0]))
    >>> batch, active = Batch(5, block, np.array([[1, 3]])), np.array([False, True, True])
    >>> intervals_of(batch, np.array([[1, 2, 0]]), active, np.array([2.0]), np.zeros(2)).kinds
    array([0, 2, 1])
    """
    (start, block, _), kinds = batch, active.astype(int)
    for k, (first, stop, _) in enumerate(notes):
        kinds[first:stop] = NOTE + k
    runs = run_lengths(kinds)
    summands = np.column_stack([block.values, np.clip(block.activity, *ACTIVITY_BOUNDS_DB)])
    sums = np.cumsum(np.vstack([before, summands]), axis=0)
    outside = active & ~_given_way(block, kinds >= NOTE, thresholds, least)
    highest = np.maximum.reduceat(_heights(block, thresholds, outside), runs.starts)
    return Intervals(runs.starts + start, runs.ends + start, runs.values, sums[runs.starts], sums[runs.ends], highest)


def _given_way(block: ScoreBlock, in_note: np.ndarray, thresholds: np.ndarray, least: int) -> np.ndarray:
    """The frames of whole notes that reach their threshold and overlap one that was chosen, (T,) of bool."""
    n = len(in_note)
    if block.lengths is None or not in_note.any():
        return np.zeros(n, dtype=bool)
    starts, classes = np.nonzero((block.values >= thresholds) & (block.note_lengths >= least))
    ends = np.minimum(starts + block.lengths[starts, classes], n)
    chosen = np.append(0, np.cumsum(in_note))
    overlapping = chosen[ends] > chosen[starts]
    changes = np.zeros(n + 1, dtype=int)
    np.add.at(changes, starts[overlapping], 1)
    np.add.at(changes, ends[overlapping], -1)
    return np.cumsum(changes)[:-1] > 0


def _heights(block: ScoreBlock, thresholds: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """The values of each frame whose maximum is `Intervals.highest`, (T, 3C + 2)."""
    values, hot = block.values, block.values >= thresholds
    if not hot.any():
        return np.column_stack([values, values, np.zeros(hot.shape), outside, block.activity])
    below = np.where(hot, 0.0, values)
    if block.lengths is not None:
        return np.column_stack([below, values, np.where(hot, block.note_lengths, 0), outside, block.activity])
    lasting = [np.repeat(runs.lengths * runs.values, runs.lengths) for runs in map(run_lengths, hot.T)]
    return np.column_stack([below, values, *lasting, outside, block.activity])


class IntervalStream:
    """Joins the intervals of consecutive batches and releases those that are final.

    Silences of at most `bridge` frames within activity are part of it. Activity shorter than `least` frames is silence,
    unless activity was not measured there. At most three intervals are held.
    """

    def __init__(self, *, bridge: int, least: int) -> None:
        self.bridge, self.least = bridge, least
        self._held: Intervals | None = None

    def push(self, new: Intervals) -> Intervals:
        """The intervals that are final; notes always are."""
        all_ = self._settled(new, finished=False)
        n_final = len(all_.kinds) - self._n_open(all_)
        self._held = Intervals(*(column.copy() for column in all_.part(n_final, len(all_.kinds))))
        return all_.part(0, n_final)

    def finish(self) -> Intervals | None:
        """The rest, if there is any."""
        if self._held is None or not len(self._held.kinds):
            return None
        held, self._held = self._held, None
        return self._settled(held, finished=True)

    def _settled(self, new: Intervals, *, finished: bool) -> Intervals:
        rows = new
        if self._held is not None:
            rows = concatenated([self._held, new])
        rows = merged(rows)
        quiet, active = rows.kinds == SILENT, rows.kinds == ACTIVE
        inner = np.flatnonzero(quiet[1:-1] & active[:-2] & active[2:] & (rows.lengths[1:-1] <= self.bridge)) + 1
        rows.kinds[inner] = ACTIVE
        rows = merged(rows)
        brief = (rows.kinds == ACTIVE) & (rows.lengths < self.least) & np.isfinite(rows.highest[:, -1])
        if not finished:
            brief[-1] = False
            brief[-2:] &= rows.kinds[-1] != SILENT or rows.lengths[-1] > self.bridge
        rows.kinds[brief] = SILENT
        return merged(rows)

    def _n_open(self, rows: Intervals) -> int:
        """How many of the last intervals may still change."""
        kinds, lengths = rows.kinds, rows.lengths
        if kinds[-1] >= NOTE:
            return 0
        n = 1
        if kinds[-1] == SILENT and lengths[-1] <= self.bridge and len(kinds) > 1 and kinds[-2] == ACTIVE:
            n = 2  # the silence may be bridged
        if kinds[-n] == ACTIVE and lengths[-n] < self.least and len(kinds) > n and kinds[-n - 1] == SILENT:
            n += 1  # the activity may be too short, and then belongs to the silence before it
        return n


def concatenated(parts: Sequence[Intervals]) -> Intervals:
    """Intervals that follow each other, as one."""
    return Intervals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def merged(rows: Intervals) -> Intervals:
    """With neighbours of one kind as one interval; two notes are never of one kind."""
    if not len(rows.kinds):
        return rows
    first = np.flatnonzero(np.append(True, rows.kinds[1:] != rows.kinds[:-1]))
    last = np.append(first[1:], len(rows.kinds)) - 1
    return Intervals(
        rows.starts[first],
        rows.ends[last],
        rows.kinds[first],
        rows.before[first],
        rows.after[last],
        np.maximum.reduceat(rows.highest, first),
    )


def reach_of_edges(layout: ScoreLayout) -> np.ndarray:
    """How far sound beside a note belongs to its edges, in frames, for each class, (C,) of int.

    How far `LOOK` spectra reach depends on the shortest of all training notes (`choose_front_end`). Beside a note of
    another class they reach as far as in a model of that class alone.

    >>> layout = ScoreLayout(
    ...     classes=np.array(["trill", "song"]), thresholds=np.ones(2), sample_rate=32000, hop_samples=16,
    ...     offset_samples=0, shortest_s=np.array([0.008, 0.2]), longest_s=np.array([0.01, 0.3]),
    ... )
    >>> reach_of_edges(layout)
    array([12, 48])
    """
    usual = NoteFrontEnd()
    share = np.minimum(1.0, WINDOW_SHARE * np.asarray(layout.shortest_s, dtype=float) / usual.window_s)
    return np.maximum(LOOK, np.rint(LOOK * usual.hop_s * share * layout.frame_rate).astype(int))


class RemainderStream:
    """Turns the remainders of notes in a stream of intervals into silence; the same for any division into pushes.

    Sound that reaches beyond the edges of its neighbours, and beyond notes that gave way to a better one, stays
    unknown, all of it. Only what lies within twice the longest reach is held, and the silence before it. `reach` is
    that of the edges of each class, in frames, (C,); if all are 0, nothing changes.
    """

    def __init__(self, reach: np.ndarray) -> None:
        self.reach, self._most = reach, int(reach.max())
        self._held: list[Intervals] = []
        self._last_edge = -np.inf  # how far the last note reaches

    def push(self, new: Intervals, n_frames: int, classes: np.ndarray) -> Intervals:
        """The intervals that are final.

        All notes that start before frame `n_frames` have been pushed by now; `classes` (N,) are those of the new ones,
        of the kinds ``NOTE + k``.
        """
        return self._settled(new, float(n_frames), classes) if self._most else new

    def finish(self, rest: Intervals | None) -> Intervals | None:
        """The rest, with the very last intervals, which are not notes."""
        parts = [*self._held, *([] if rest is None else [rest])]
        self._held = []
        return self._settled(concatenated(parts), np.inf, np.empty(0, dtype=int)) if parts and self._most else rest

    def _settled(self, new: Intervals, n_frames: float, classes: np.ndarray) -> Intervals:
        rows = concatenated([*self._held, new])
        before, after, self._last_edge = self._edges_around(rows, classes)
        sound = (rows.kinds == ACTIVE) & np.isfinite(rows.highest[:, -1])
        near = (rows.ends <= before) | (rows.starts >= after) | (before >= after) | (rows.highest[:, -2] == 0)
        # it may be near a note still to come, which starts at n_frames or later
        could = np.isinf(after) & (np.maximum(rows.starts, before) >= n_frames - self._most)
        is_open = sound & ~near & could
        rows.kinds[sound & near] = SILENT
        n_final = len(rows.kinds)
        if n_frames < np.inf:  # silence is not over while what follows may turn out to be silence as well
            n_final = int(is_open.argmax()) if is_open.any() else n_final
            n_final = int(np.flatnonzero(rows.kinds[:n_final] != SILENT).max(initial=-1)) + 1
        self._held = [Intervals(*(column.copy() for column in rows.part(n_final, len(rows.kinds))))]
        return merged(rows.part(0, n_final))

    def _edges_around(self, rows: Intervals, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """How far the note before each interval reaches, from where the next one does (infinite if none), and how far
        the last note of all reaches, which precedes whatever is held: notes are released at once."""
        at, places = np.flatnonzero(rows.kinds >= NOTE), np.arange(len(rows.kinds))
        reach = self.reach[classes[rows.kinds[at] - NOTE]]
        ends = np.append(self._last_edge, rows.ends[at] + reach)
        starts = np.append(rows.starts[at] - reach, np.inf)
        return ends[np.searchsorted(at, places)], starts[np.searchsorted(at, places, side="right")], float(ends[-1])
