"""Stretches of sound or silence between notes, as frames come in. They may be of any length and take little memory."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outlark.detection.decode.regions import Batch
from outlark.detection.scores import ScoreBlock
from outlark.maths.runs import encode

SILENT, ACTIVE, NOTE = 0, 1, 2
#: Activity is averaged within these bounds, in dB: digital silence is infinitely far below any floor.
LOWEST_DB, HIGHEST_DB = -120.0, 120.0


class Stretches(NamedTuple):
    """Consecutive stretches of frames, each of one kind.

    Attributes
    ----------
    starts, ends : ndarrays (N,) of int
        Frames, counted from the start of the stream.
    kinds : ndarray (N,) of int
        `SILENT`, `ACTIVE`, or ``NOTE + k`` for note k of the batch.
    before, after : ndarrays (N, C + 1)
        Sums of the class scores and of the activity over all frames of the stream up to the start and the end.
    highest : ndarray (N, 2C + 1)
        The highest score of each class; the most frames on end that the class was at or above its threshold, or of
        whole notes that are, the most frames of one (0 where there is none); and the highest activity.
    """

    starts: np.ndarray
    ends: np.ndarray
    kinds: np.ndarray
    before: np.ndarray
    after: np.ndarray
    highest: np.ndarray

    def part(self, start: int, stop: int) -> "Stretches":
        """Stretches start … stop - 1."""
        return Stretches(*(column[start:stop] for column in self))

    @property
    def lengths(self) -> np.ndarray:
        """Frames."""
        return self.ends - self.starts

    @property
    def means(self) -> np.ndarray:
        """Mean class scores and activity, (N, C + 1)."""
        return (self.after - self.before) / self.lengths[:, None]


def stretches_of(
    batch: Batch, notes: np.ndarray, active: np.ndarray, thresholds: np.ndarray, before: np.ndarray
) -> Stretches:
    """The stretches of one batch with these notes (N, 3), of which these frames (T,) are active.

    Sums run on from `before` (C + 1,), those up to the first frame. They are added frame by frame and never in another
    order, so that they are the same to the last bit for any cut into batches.

    >>> block = ScoreBlock(np.array([[1.0], [3.0], [3.0]]), np.array([0.0, 9.0, 9.0]))
    >>> batch, active = Batch(5, block, np.array([[1, 3]])), np.array([False, True, True])
    >>> stretches_of(batch, np.array([[1, 2, 0]]), active, np.array([2.0]), np.zeros(2)).kinds
    array([0, 2, 1])
    """
    (start, block, _), kinds = batch, active.astype(int)
    for k, (first, stop, _) in enumerate(notes):
        kinds[first:stop] = NOTE + k
    runs = encode(kinds)
    summands = np.column_stack([block.values, np.clip(block.activity, LOWEST_DB, HIGHEST_DB)])
    sums = np.cumsum(np.vstack([before, summands]), axis=0)
    highest = np.maximum.reduceat(_heights(block, thresholds), runs.starts)
    return Stretches(runs.starts + start, runs.ends + start, runs.values, sums[runs.starts], sums[runs.ends], highest)


def _heights(block: ScoreBlock, thresholds: np.ndarray) -> np.ndarray:
    """For each frame what `Stretches.highest` is the highest of, (T, 2C + 1)."""
    hot = block.values >= thresholds
    if not hot.any():
        return np.column_stack([block.values, np.zeros(hot.shape), block.activity])
    if block.lengths is not None:
        return np.column_stack([block.values, np.where(hot, block.note_lengths, 0), block.activity])
    lasting = [np.repeat(runs.lengths * runs.values, runs.lengths) for runs in map(encode, hot.T)]
    return np.column_stack([block.values, *lasting, block.activity])


class StretchStream:
    """Joins the stretches of consecutive batches and gives out those that cannot change any more.

    Silences of at most `bridge` frames inside activity are part of it. Activity shorter than `least` frames is silence,
    unless activity was not measured there. No more than three stretches are held.

    Parameters
    ----------
    bridge, least : int
        Frames.
    """

    def __init__(self, *, bridge: int, least: int) -> None:
        self.bridge, self.least = bridge, least
        self._held: Stretches | None = None

    def push(self, new: Stretches) -> Stretches:
        """The stretches that are final; notes always are."""
        all_ = self._settled(new, finished=False)
        n_final = len(all_.kinds) - self._n_open(all_)
        self._held = Stretches(*(column.copy() for column in all_.part(n_final, len(all_.kinds))))
        return all_.part(0, n_final)

    def finish(self) -> Stretches | None:
        """The rest, if there is any."""
        if self._held is None or not len(self._held.kinds):
            return None
        held, self._held = self._held, None
        return self._settled(held, finished=True)

    def _settled(self, new: Stretches, *, finished: bool) -> Stretches:
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

    def _n_open(self, rows: Stretches) -> int:
        """How many of the last stretches may still change."""
        kinds, lengths = rows.kinds, rows.lengths
        if kinds[-1] >= NOTE:
            return 0
        n = 1
        if kinds[-1] == SILENT and lengths[-1] <= self.bridge and len(kinds) > 1 and kinds[-2] == ACTIVE:
            n = 2  # the silence may be bridged
        if kinds[-n] == ACTIVE and lengths[-n] < self.least and len(kinds) > n and kinds[-n - 1] == SILENT:
            n += 1  # the activity may be too short, and then belongs to the silence before it
        return n


def joined(parts: Sequence[Stretches]) -> Stretches:
    """Stretches that follow each other, as one."""
    return Stretches(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def merged(rows: Stretches) -> Stretches:
    """With neighbours of one kind as one stretch; two notes are never of one kind."""
    if not len(rows.kinds):
        return rows
    first = np.flatnonzero(np.append(True, rows.kinds[1:] != rows.kinds[:-1]))
    last = np.append(first[1:], len(rows.kinds)) - 1
    return Stretches(
        rows.starts[first],
        rows.ends[last],
        rows.kinds[first],
        rows.before[first],
        rows.after[last],
        np.maximum.reduceat(rows.highest, first),
    )
