"""The noise floor of a recording, followed over time, and how far levels rise above it."""

from collections import deque
from collections.abc import Sequence
from math import ceil

import numpy as np
from scipy.stats import chi2

from outlark.features.base import Frames

#: Frames below this level (dB re full scale) are digital silence. The rounding noise of 16 bits lies at -101 dB.
SILENCE_DB = -110.0
#: The floor if the whole window is digital silence: above `SILENCE_DB`, so that silence is never active.
SILENT_FLOOR_DB = -90.0
#: More frames per second than this are thinned out before the quantile is taken.
ENOUGH_FRAMES_PER_SECOND = 100.0
#: The quantile is first sought among the lowest of each chunk, this many times its share.
LOOKED_THROUGH = 4.0
#: Smallest power, so that every level is finite: -300 dB.
SMALLEST_POWER = 1e-30


def decibels(power: np.ndarray) -> np.ndarray:
    """Power as a level in dB, at least -300.

    >>> decibels(np.array([1.0, 0.01, 0.0]))
    array([   0.,  -20., -300.])
    """
    return 10.0 * np.log10(np.maximum(power, SMALLEST_POWER))


def noise_rise(n_numbers: int, quantile: float = 0.1) -> float:
    """How far the power of `n_numbers` samples of white noise rises above its floor 99 % of the time, in dB.

    >>> round(noise_rise(95), 1)
    2.2
    """
    return float(10.0 * np.log10(chi2.ppf(0.99, n_numbers) / chi2.ppf(quantile, n_numbers)))


class LevelFloor:
    """The noise floor of a stream of levels; the same for any cut into blocks, bit for bit.

    Frames are grouped into chunks, counted from the start of the recording. The floor of a chunk is, in each column, a
    low quantile of the levels from `window_s` before it to `ahead_s` after it. Frames of digital silence, whose powers
    add up to less than `SILENCE_DB`, do not count. The floor is never below `SILENCE_DB`, and `SILENT_FLOOR_DB` where
    there is nothing but digital silence. No more than the window is held.

    Times are rounded to whole chunks of `chunk` frames. The floor of a frame depends on `look_back` frames
    before its chunk, and is known after `delay` frames at most. If the levels start with another chunk of the recording
    than its first, floors equal those of the whole recording from `look_back` frames later on.

    >>> floor = LevelFloor(frame_rate=2, window_s=2.0, ahead_s=0.0, chunk_s=1.0, quantile=0.0)
    >>> levels = np.array([[-60.0], [-20.0], [-50.0], [-55.0], [-300.0], [-40.0], [-30.0]])
    >>> floor.push(levels).ravel()
    array([-60., -60., -60., -60., -60., -60.])
    >>> floor.finish().ravel()
    array([-55.])
    """

    def __init__(
        self,
        frame_rate: float,
        window_s: float = 10.0,
        ahead_s: float = 2.0,
        chunk_s: float = 1.0,
        quantile: float = 0.1,
        *,
        first_chunk: int = 0,
    ) -> None:
        self.chunk = max(1, round(chunk_s * frame_rate))
        self._n_before = round(window_s * frame_rate / self.chunk)
        self._n_ahead = round(ahead_s * frame_rate / self.chunk)
        self.look_back = self.chunk * self._n_before
        self.delay = self.chunk * (self._n_ahead + 1) - 1
        self.quantile = quantile
        self._thinning = max(1, int(frame_rate // ENOUGH_FRAMES_PER_SECOND))
        # levels that count, (columns, n): of the chunks still needed, and of the current chunk
        self._chunks: deque[np.ndarray] = deque(maxlen=self._n_before + 1 + self._n_ahead)
        self._pieces: list[np.ndarray] = []
        self._n_frames = first_chunk * self.chunk
        self._n_closed = self._n_given = first_chunk
        self._columns = 1

    def push(self, levels: np.ndarray) -> np.ndarray:
        """Levels in dB, (T, columns), in; the floors that are known, (T', columns), out."""
        self._columns = levels.shape[1]
        floors = [np.empty((0, self._columns))]
        start = 0
        while start < len(levels):
            piece = levels[start : start + self.chunk - self._n_frames % self.chunk]
            self._keep(piece)
            start += len(piece)
            self._n_frames += len(piece)
            if self._n_frames % self.chunk == 0:
                floors.extend(self._close())
        return np.concatenate(floors)

    def finish(self) -> np.ndarray:
        """The rest of the floors."""
        floors = [np.empty((0, self._columns))]
        if self._n_frames % self.chunk:
            floors.extend(self._close())
        while self._n_given < self._n_closed:
            floors.append(self._next())
        return np.concatenate(floors)

    def _keep(self, piece: np.ndarray) -> None:
        """Keep the levels of a piece of the current chunk that count: thinned out, without silence."""
        counted = np.ascontiguousarray(piece[-self._n_frames % self._thinning :: self._thinning])
        together = decibels(np.exp(counted * (np.log(10.0) / 10.0)).sum(axis=1)) if counted.shape[1] > 1 else counted
        self._pieces.append(counted[together.ravel() >= SILENCE_DB].T)

    def _close(self) -> list[np.ndarray]:
        """End the current chunk; the floors that are known from now on, if any."""
        self._chunks.append(np.sort(np.concatenate(self._pieces, axis=1), axis=1))
        self._pieces = []
        self._n_closed += 1
        return [self._next()] if self._n_closed - self._n_given > self._n_ahead else []

    def _next(self) -> np.ndarray:
        """The floors of the next chunk, (frames, columns)."""
        c, first = self._n_given, self._n_closed - len(self._chunks)
        window = list(self._chunks)[max(0, c - self._n_before - first) :]
        self._n_given += 1
        n_frames, columns = min(self.chunk, self._n_frames - c * self.chunk), len(window[0])
        n_levels = sum(levels.shape[1] for levels in window)
        floor = np.full(columns, SILENT_FLOOR_DB)
        if n_levels:
            floor = np.maximum(_ranked(window, int(self.quantile * (n_levels - 1)), self.quantile), SILENCE_DB)
        return np.broadcast_to(floor, (n_frames, columns))


def _ranked(window: Sequence[np.ndarray], rank: int, share: float) -> np.ndarray:
    """The level with this rank, about this share of all, in each column of all sorted chunks (columns, n) together.

    It is nearly always among the lowest of its chunk; if it may not be, all levels are searched.

    >>> _ranked([np.array([[1.0, 4.0], [1.0, 2.0]]), np.array([[2.0, 3.0], [3.0, 4.0]])], 1, 0.25)
    array([2., 2.])
    """
    chunks = [levels for levels in window if levels.shape[1]]
    lowest = [levels[:, : max(1, ceil(LOOKED_THROUGH * share * levels.shape[1]))] for levels in chunks]
    found, sure = np.empty(len(chunks[0])), np.zeros(len(chunks[0]), dtype=bool)
    if sum(levels.shape[1] for levels in lowest) > rank:
        found = np.partition(np.concatenate(lowest, axis=1), rank, axis=1)[:, rank]
        sure = found <= np.min([levels[:, -1] for levels in lowest], axis=0)
    if not sure.all():
        rest = np.concatenate([levels[~sure] for levels in chunks], axis=1)
        found[~sure] = np.partition(rest, rank, axis=1)[:, rank]
    return found


class ActivityStream:
    """Features and levels in, `Frames` out: features wait until the floor of their frame is known.

    Without a floor nothing waits, and the activity is infinite, or minus infinity in digital silence. Activity 0 is the
    rise of steady noise above its own floor, `noise_db` (`noise_rise`).

    >>> stream = ActivityStream(n_features=1, floor=LevelFloor(frame_rate=1, ahead_s=1.0))
    >>> len(stream.push(np.ones((1, 1)), np.array([-60.0])))
    0
    >>> stream.push(np.ones((1, 1)), np.array([-20.0])).activity, stream.finish().activity
    (array([0.]), array([40.]))
    """

    def __init__(self, n_features: int, floor: LevelFloor | None, noise_db: float = 0.0) -> None:
        self._floor, self._noise_db = floor, noise_db
        self._features, self._levels = _Queue((n_features,)), _Queue(())
        self._activity = _Queue(())

    def push(self, features: np.ndarray, levels: np.ndarray) -> Frames:
        """The next features (T, d) and levels in dB (T',) in, either may be ahead; the frames that are ready out."""
        self._features.add(features)
        if self._floor is None:
            self._activity.add(np.where(levels < SILENCE_DB, -np.inf, np.inf))
            return self._ready()
        self._levels.add(levels)
        self._rise(self._floor.push(levels[:, np.newaxis]))
        return self._ready()

    def finish(self) -> Frames:
        """The rest."""
        if self._floor is not None:
            self._rise(self._floor.finish())
        return self._ready()

    def _rise(self, floors: np.ndarray) -> None:
        self._activity.add(self._levels.take(len(floors)) - floors[:, 0] - self._noise_db)

    def _ready(self) -> Frames:
        n = min(self._features.size, self._activity.size)
        return Frames(self._features.take(n), self._activity.take(n))


class _Queue:
    """Rows in order; cheap for many small pieces."""

    def __init__(self, row: tuple[int, ...]) -> None:
        self._none = np.empty((0, *row))
        self._pieces: list[np.ndarray] = []
        self.size = 0

    def add(self, rows: np.ndarray) -> None:
        if len(rows):
            self._pieces.append(rows)
            self.size += len(rows)

    def take(self, n: int) -> np.ndarray:
        if n == 0:
            return self._none
        rows = np.concatenate(self._pieces)
        self._pieces = [rows[n:].copy()]  # a copy, to release the rest
        self.size -= n
        return rows[:n]
