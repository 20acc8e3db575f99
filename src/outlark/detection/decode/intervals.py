"""Intervals of sound or silence between notes, as frames come in; of any length, in little memory.

Sound beside a note may be the rest of its onset or its decay. To refine the edges of a note, `outlark.detection.edges`
compares `LOOK` spectra on either side of them with those of the training notes, so this sound was treated as part of
the note, and a person would not annotate it separately. Sound that lies entirely within that reach of the notes beside
it therefore counts as silence. So does sound that lies entirely within notes that reached their threshold and gave way
to a better one, which they overlap: a class explains all of it. Neither becomes part of the note, whose edges were
placed with care.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outlark.detection.decode.regions import Batch
from outlark.detection.decode.rules import encode
from outlark.detection.edges import LOOK
from outlark.detection.front_end_choice import WINDOW_SHARE
from outlark.detection.scores import ScoreBlock, ScoreLayout
from outlark.features.note import NoteFrontEnd

SILENT, ACTIVE, NOTE = 0, 1, 2
#: Activity is averaged within these bounds, in dB: digital silence is infinitely far below any floor.
LOWEST_DB, HIGHEST_DB = -120.0, 120.0


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
    runs = encode(kinds)
    summands = np.column_stack([block.values, np.clip(block.activity, LOWEST_DB, HIGHEST_DB)])
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
    lasting = [np.repeat(runs.lengths * runs.values, runs.lengths) for runs in map(encode, hot.T)]
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
            rows = joined([self._held, new])
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


def joined(parts: Sequence[Intervals]) -> Intervals:
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
        return self._settled(joined(parts), np.inf, np.empty(0, dtype=int)) if parts and self._most else rest

    def _settled(self, new: Intervals, n_frames: float, classes: np.ndarray) -> Intervals:
        rows = joined([*self._held, new])
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
        the last note of all reaches, which precedes whatever is held: notes never wait."""
        at, places = np.flatnonzero(rows.kinds >= NOTE), np.arange(len(rows.kinds))
        reach = self.reach[classes[rows.kinds[at] - NOTE]]
        ends = np.append(self._last_edge, rows.ends[at] + reach)
        starts = np.append(rows.starts[at] - reach, np.inf)
        return ends[np.searchsorted(at, places)], starts[np.searchsorted(at, places, side="right")], float(ends[-1])
