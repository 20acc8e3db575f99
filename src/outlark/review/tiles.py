"""Tiles: spectrograms as bytes, and score curves as the least and largest score of each bin.

A spectrogram tile has `TILE_ROWS` frequencies × `TILE_COLUMNS` times; byte b stands for `BYTE_0_DB` + b ·
`DB_PER_STEP`. Fine levels are computed from the sound on request: a column is one window. Coarse levels are stored: a
column is the maximum over its windows, so that short notes do not vanish, minus what this adds to the background of
each row. The page maps bytes to colours.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.fft import rfft

from outlark.audio.recording import Recording
from outlark.commands.panels import curves, spectrogram_window
from outlark.detection.scores import ScoreBlock, ScoreLayout, joined_scores

TILE_ROWS, TILE_COLUMNS = 256, 512
BYTE_0_DB, DB_PER_STEP = -120.0, 0.5
#: Levels that are computed when asked for; the hop of the first is the window divided by 2 to this power.
FIRST_STORED_LEVEL = 5
#: Share of the columns that are background in every row.
BACKGROUND_QUANTILE = 0.3
#: Columns from which the background is estimated.
BACKGROUND_COLUMNS = 4096
#: Columns of the first kept level that are computed at once.
COLUMNS_AT_ONCE = 1024


@dataclass(frozen=True)
class Levels:
    """The levels of a recording.

    >>> levels = Levels.of(22050, 22050 * 60)
    >>> levels.window, levels.hops
    (512, (16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
    """

    window: int
    n_samples: int
    hops: tuple[int, ...]

    @classmethod
    def of(cls, sample_rate: int, n_samples: int) -> "Levels":
        window = max(2 * TILE_ROWS, spectrogram_window(sample_rate))
        hops = [window >> (FIRST_STORED_LEVEL - k) for k in range(FIRST_STORED_LEVEL + 1)]
        while hops[-1] * TILE_COLUMNS < n_samples:
            hops.append(2 * hops[-1])
        return cls(window, n_samples, tuple(hops))

    def columns(self, level: int) -> int:
        return -(-self.n_samples // self.hops[level])

    def tiles(self, level: int) -> int:
        return -(-self.columns(level) // TILE_COLUMNS)

    def edge(self, level: int) -> float:
        """The left edge of column 0, in samples: half a window's hop before its centre."""
        return -min(self.hops[level], self.window // 2) / 2


def columns_of(sound: Recording, window: int, hop: int, first: int, n: int) -> np.ndarray:
    """Bytes (n, TILE_ROWS) of n windows, the first centred at sample first · hop; low frequencies first."""
    start = first * hop - window // 2
    samples = sound.part(start, start + (n - 1) * hop + window)
    lead = max(0, -start)
    padded = np.zeros((n - 1) * hop + window)
    padded[lead : lead + len(samples)] = samples
    return levels_of(padded, window, hop)


def levels_of(samples: np.ndarray, window: int, hop: int) -> np.ndarray:
    """Bytes (n, TILE_ROWS) of all windows that fit; a sine of full scale has 0 dB."""
    shape = np.hanning(window + 1)[:-1].astype(np.float32)
    shape *= 2.0 / shape.sum()
    windows = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float32), window)[::hop]
    spectra = rfft(windows * shape, axis=1)[:, 1:]
    power = spectra.real**2 + spectra.imag**2
    together = power.shape[1] // TILE_ROWS
    if together > 1:
        power = power.reshape(len(power), TILE_ROWS, together).max(axis=2)
    db = 10.0 * np.log10(np.maximum(power, 1e-13))
    return np.clip(np.rint((db - BYTE_0_DB) / DB_PER_STEP), 0, 255).astype(np.uint8)


class Pyramid:
    """The stored levels of a recording, in a folder; readable while they are built in the background."""

    def __init__(self, path: Path, folder: Path, levels: Levels) -> None:
        self.levels, self._path, self._folder = levels, path, folder
        self.error: str | None = None
        self._kept: dict[int, np.ndarray] = {}
        self._lift = np.zeros((len(levels.hops), TILE_ROWS), dtype=np.int16)
        self._lock = threading.Lock()
        self.done = 0
        if (folder / "whole").exists():
            self._load()

    @property
    def whole(self) -> bool:
        return self.done >= self.levels.columns(FIRST_STORED_LEVEL)

    def build(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Compute and store the coarse levels."""
        with self._lock:
            if self.whole:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            coarse = range(FIRST_STORED_LEVEL, len(self.levels.hops))
            for level in coarse:
                shape = (self.levels.columns(level), TILE_ROWS)
                name = self._folder / f"{level}.npy"
                self._kept[level] = np.lib.format.open_memmap(name, mode="w+", dtype=np.uint8, shape=shape)
            singles = self._fill(cancelled)
            if singles is None:
                return
            self._judge(singles)
            np.save(self._folder / "lift.npy", self._lift)
            for kept in self._kept.values():
                kept.flush()  # type: ignore[attr-defined]
            (self._folder / "whole").touch()
            self.done = self.levels.columns(FIRST_STORED_LEVEL)

    def _fill(self, cancelled: Callable[[], bool]) -> np.ndarray | None:
        """Fill all stored levels; returns a sample of single windows for the background, or None if cancelled."""
        window, hop = self.levels.window, self.levels.window // 2
        need = COLUMNS_AT_ONCE * 2 * hop
        held = np.zeros(window // 2)  # so that the first window is centred at sample 0
        singles: list[np.ndarray] = []
        done, last = 0, self.levels.columns(FIRST_STORED_LEVEL)
        every = max(1, 2 * last // BACKGROUND_COLUMNS)
        for block in self._blocks(need):
            held = np.concatenate([held, block])
            n = min((len(held) - window) // hop + 1, 2 * (last - done)) // 2
            if n <= 0:
                continue
            windows = levels_of(held[: (2 * n - 1) * hop + window], window, hop)
            singles.append(windows[::every])
            self._put(done, windows.reshape(n, 2, TILE_ROWS).max(axis=1))
            held, done = held[2 * n * hop :], done + n
            if len(singles) & (len(singles) - 1) == 0:
                self._judge(np.concatenate(singles), done)
            self.done = min(done, last - 1)
            if cancelled():
                return None
        return np.concatenate(singles)

    def _blocks(self, size: int) -> Iterator[np.ndarray]:
        """The sound, followed by silence for the last windows."""
        yield from Recording(self._path).blocks(size)
        yield np.zeros(2 * self.levels.window)

    def _put(self, first: int, columns: np.ndarray) -> None:
        """Store columns of the first stored level, and update the levels above."""
        stop = first + len(columns)
        self._kept[FIRST_STORED_LEVEL][first:stop] = columns
        for level in range(FIRST_STORED_LEVEL + 1, len(self.levels.hops)):
            first, stop = first // 2, -(-stop // 2)
            below = self._kept[level - 1][2 * first : 2 * stop]
            if len(below) % 2:
                below = np.concatenate([below, below[-1:]])
            self._kept[level][first:stop] = below.reshape(-1, 2, TILE_ROWS).max(axis=1)

    def _judge(self, singles: np.ndarray, done: int | None = None) -> None:
        """Estimate how far the background of each level lies above that of single windows."""
        single = np.quantile(singles, BACKGROUND_QUANTILE, axis=0)
        for level, kept in self._kept.items():
            have = len(kept) if done is None else max(1, done >> (level - FIRST_STORED_LEVEL))
            columns = kept[: have : max(1, have // BACKGROUND_COLUMNS)]
            self._lift[level] = np.rint(np.quantile(columns, BACKGROUND_QUANTILE, axis=0) - single)

    def _load(self) -> None:
        coarse = range(FIRST_STORED_LEVEL, len(self.levels.hops))
        self._kept = {level: np.load(self._folder / f"{level}.npy", mmap_mode="r") for level in coarse}
        self._lift = np.load(self._folder / "lift.npy")
        self.done = self.levels.columns(FIRST_STORED_LEVEL)

    def tile(self, level: int, number: int) -> tuple[bytes, bool]:
        """The bytes of a tile, column after column, and whether they are final."""
        first = number * TILE_COLUMNS
        n = min(TILE_COLUMNS, self.levels.columns(level) - first)
        if level < FIRST_STORED_LEVEL:
            columns = columns_of(Recording(self._path), self.levels.window, self.levels.hops[level], first, n)
            return columns.tobytes(), True
        if level not in self._kept:
            return bytes(n * TILE_ROWS), False
        columns = np.asarray(self._kept[level][first : first + n]).astype(np.int16) - self._lift[level]
        ready = self.whole or (first + n) << (level - FIRST_STORED_LEVEL) <= self.done
        return np.clip(columns, 0, 255).astype(np.uint8).tobytes(), ready

    def colour_range(self) -> tuple[float, float]:
        """Bytes for the lightest and the darkest colour: about the background, and nearly the loudest."""
        kept = self._kept.get(FIRST_STORED_LEVEL)
        if kept is None or not self.done:
            return 60.0, 200.0
        columns = (
            np.asarray(kept[: max(1, self.done) : max(1, self.done // BACKGROUND_COLUMNS)]).astype(np.int16)
            - self._lift[FIRST_STORED_LEVEL]
        )
        low, high = np.quantile(columns, 0.5), np.quantile(columns, 0.998)
        return float(low), float(max(high, low + 60.0))


#: Bins that become one on the next level.
CURVE_FACTOR = 4
#: Bins of a tile.
CURVE_BINS = 512


class CurveKeeper:
    """Collects score curves block by block; a note that has not ended reaches into the next block."""

    def __init__(self, layout: ScoreLayout) -> None:
        # a note lasts at most half as long again as the longest training note
        self._reach = int(1.5 * float(np.max(layout.longest_s)) * layout.frame_rate) + 2
        self._before: ScoreBlock | None = None
        self._parts: list[np.ndarray] = []

    def push(self, block: ScoreBlock) -> None:
        if not len(block):
            return
        joined = block if self._before is None else joined_scores([self._before, block])
        n_before = len(joined) - len(block)
        self._parts.append(curves(joined)[n_before:].astype(np.float32))
        self._before = joined.between(max(0, len(joined) - self._reach), len(joined))

    def curves(self, n_classes: int) -> np.ndarray:
        """All of it, (T, C)."""
        return np.concatenate([np.empty((0, n_classes), dtype=np.float32), *self._parts])


def save_curves(values: np.ndarray, folder: Path) -> int:
    """Write all resolutions of curves (T, C) to a folder; returns how many.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     n = save_curves(np.arange(2049, dtype=np.float32)[:, np.newaxis], Path(folder))
    ...     n, np.load(f"{folder}/1.npy")[:2].tolist()
    (3, [[[0.0, 3.0]], [[4.0, 7.0]]])
    """
    folder.mkdir(parents=True, exist_ok=True)
    level, bins = 0, np.stack([values, values], axis=2)
    np.save(folder / "0.npy", bins)
    while len(bins) > CURVE_BINS:
        starts = np.arange(0, len(bins), CURVE_FACTOR)
        least = np.minimum.reduceat(bins[:, :, 0], starts, axis=0)
        most = np.maximum.reduceat(bins[:, :, 1], starts, axis=0)
        level, bins = level + 1, np.stack([least, most], axis=2)
        np.save(folder / f"{level}.npy", bins)
    return level + 1


def curve_tile(folder: Path, level: int, number: int) -> np.ndarray | None:
    """Bins of a tile, float32 (n, C, 2); None where there is no such tile."""
    try:
        bins = np.load(folder / f"{level}.npy", mmap_mode="r")
    except FileNotFoundError:
        return None
    found = np.array(bins[number * CURVE_BINS : (number + 1) * CURVE_BINS])
    return found if len(found) else None
