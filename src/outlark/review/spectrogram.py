"""Spectrograms as tiles of bytes: fine levels are computed from the sound when asked for, coarse ones are kept.

A tile has `ROWS` frequencies × `COLUMNS` moments; byte b stands for `LOWEST_DB` + b · `DB_PER_STEP`. A column of a
fine level is one window. One of a kept level is the maximum over the windows that it stands for, so that short notes
do not vanish; what this lifts the background by is taken off row by row. The page maps bytes to colours.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.fft import rfft

from outlark.audio.sound import AudioFile
from outlark.commands.excerpt import Sound
from outlark.commands.plot.numbers import spectrogram_window

ROWS, COLUMNS = 256, 512
LOWEST_DB, DB_PER_STEP = -120.0, 0.5
#: Levels that are computed when asked for; the hop of the first is the window divided by 2 to this power.
FINE = 5
#: Share of the columns that are background in every row.
BACKGROUND = 0.3
#: Columns by which the background is judged.
JUDGED = 4096
#: Columns of the first kept level that are computed at once.
CHUNK = 1024
VERSION = 1


@dataclass(frozen=True)
class Levels:
    """The levels of a recording.

    Attributes
    ----------
    window : int
        Samples of a window.
    n_samples : int
    hops : tuple of int
        Samples from one column to the next, for each level.

    Examples
    --------
    >>> levels = Levels.of(22050, 22050 * 60)
    >>> levels.window, levels.hops
    (512, (16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
    """

    window: int
    n_samples: int
    hops: tuple[int, ...]

    @classmethod
    def of(cls, sample_rate: int, n_samples: int) -> "Levels":
        """For a recording of this rate and length."""
        window = max(2 * ROWS, spectrogram_window(sample_rate))
        hops = [window >> (FINE - k) for k in range(FINE + 1)]
        while hops[-1] * COLUMNS < n_samples:
            hops.append(2 * hops[-1])
        return cls(window, n_samples, tuple(hops))

    def columns(self, level: int) -> int:
        """How many columns a level has."""
        return -(-self.n_samples // self.hops[level])

    def tiles(self, level: int) -> int:
        """How many tiles a level has."""
        return -(-self.columns(level) // COLUMNS)

    def edge(self, level: int) -> float:
        """Where the left edge of column 0 is, in samples: half a window's hop before its centre."""
        return -min(self.hops[level], self.window // 2) / 2


def columns_of(sound: Sound, window: int, hop: int, first: int, n: int) -> np.ndarray:
    """Bytes (n, ROWS) of n windows, the first centred at sample first · hop; low frequencies first."""
    start = first * hop - window // 2
    samples = sound.part(start, start + (n - 1) * hop + window)
    lead = max(0, -start)
    padded = np.zeros((n - 1) * hop + window)
    padded[lead : lead + len(samples)] = samples
    return levels_of(padded, window, hop)


def levels_of(samples: np.ndarray, window: int, hop: int) -> np.ndarray:
    """Bytes (n, ROWS) of all windows that fit; a sine of full scale has 0 dB."""
    shape = np.hanning(window + 1)[:-1].astype(np.float32)
    shape *= 2.0 / shape.sum()
    windows = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float32), window)[::hop]
    spectra = rfft(windows * shape, axis=1)[:, 1:]
    power = spectra.real**2 + spectra.imag**2
    together = power.shape[1] // ROWS
    if together > 1:
        power = power.reshape(len(power), ROWS, together).max(axis=2)
    db = 10.0 * np.log10(np.maximum(power, 1e-13))
    return np.clip(np.rint((db - LOWEST_DB) / DB_PER_STEP), 0, 255).astype(np.uint8)


class Pyramid:
    """The kept levels of a recording, in a folder; built in the background, readable while it is.

    Parameters
    ----------
    path : Path
        The recording.
    folder : Path
        Where the levels are kept; may be deleted at any time when nobody has it open.
    levels : Levels
    """

    def __init__(self, path: Path, folder: Path, levels: Levels) -> None:
        self.levels, self._path, self._folder = levels, path, folder
        self.error: str | None = None
        self._kept: dict[int, np.ndarray] = {}
        self._lift = np.zeros((len(levels.hops), ROWS), dtype=np.int16)
        self._lock = threading.Lock()
        self.done = 0
        if (folder / "whole").exists():
            self._load()

    @property
    def whole(self) -> bool:
        """Whether all of it is built."""
        return self.done >= self.levels.columns(FINE)

    def build(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Compute and keep the coarse levels; can be asked for tiles meanwhile."""
        with self._lock:
            if self.whole:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            coarse = range(FINE, len(self.levels.hops))
            for level in coarse:
                shape = (self.levels.columns(level), ROWS)
                name = self._folder / f"{level}.npy"
                self._kept[level] = np.lib.format.open_memmap(name, mode="w+", dtype=np.uint8, shape=shape)
            singles = self._fill(cancelled)
            if singles is None:
                return
            self._judge(singles)
            np.save(self._folder / "lift.npy", self._lift)
            for kept in self._kept.values():
                kept.flush()  # type: ignore[attr-defined]
            (self._folder / "whole").write_text(str(VERSION))
            self.done = self.levels.columns(FINE)

    def _fill(self, cancelled: Callable[[], bool]) -> np.ndarray | None:
        """All kept levels from the sound; a sample of single windows, to judge the background by."""
        window, hop = self.levels.window, self.levels.window // 2
        need = CHUNK * 2 * hop
        held = np.zeros(window // 2)  # so that the first window is centred at sample 0
        singles: list[np.ndarray] = []
        done, last = 0, self.levels.columns(FINE)
        every = max(1, 2 * last // JUDGED)
        for block in self._blocks(need):
            held = np.concatenate([held, block])
            n = min((len(held) - window) // hop + 1, 2 * (last - done)) // 2
            if n <= 0:
                continue
            windows = levels_of(held[: (2 * n - 1) * hop + window], window, hop)
            singles.append(windows[::every])
            self._put(done, windows.reshape(n, 2, ROWS).max(axis=1))
            held, done = held[2 * n * hop :], done + n
            if len(singles) & (len(singles) - 1) == 0:
                self._judge(np.concatenate(singles), done)
            self.done = min(done, last - 1)
            if cancelled():
                return None
        return np.concatenate(singles)

    def _blocks(self, size: int):  # type: ignore[no-untyped-def]
        """The sound, and as much silence after it as the last windows reach into."""
        yield from AudioFile(self._path).blocks(size)
        yield np.zeros(2 * self.levels.window)

    def _put(self, first: int, columns: np.ndarray) -> None:
        """Columns of the first kept level, and what they mean for those above."""
        stop = first + len(columns)
        self._kept[FINE][first:stop] = columns
        for level in range(FINE + 1, len(self.levels.hops)):
            first, stop = first // 2, -(-stop // 2)
            below = self._kept[level - 1][2 * first : 2 * stop]
            if len(below) % 2:
                below = np.concatenate([below, below[-1:]])
            self._kept[level][first:stop] = below.reshape(-1, 2, ROWS).max(axis=1)

    def _judge(self, singles: np.ndarray, done: int | None = None) -> None:
        """How far the background of each level lies above that of single windows."""
        single = np.quantile(singles, BACKGROUND, axis=0)
        for level, kept in self._kept.items():
            have = len(kept) if done is None else max(1, done >> (level - FINE))
            columns = kept[: have : max(1, have // JUDGED)]
            self._lift[level] = np.rint(np.quantile(columns, BACKGROUND, axis=0) - single)

    def _load(self) -> None:
        coarse = range(FINE, len(self.levels.hops))
        self._kept = {level: np.load(self._folder / f"{level}.npy", mmap_mode="r") for level in coarse}
        self._lift = np.load(self._folder / "lift.npy")
        self.done = self.levels.columns(FINE)

    def tile(self, level: int, number: int) -> tuple[bytes, bool]:
        """The bytes of a tile, column after column, and whether they are final."""
        first = number * COLUMNS
        n = min(COLUMNS, self.levels.columns(level) - first)
        if level < FINE:
            columns = columns_of(Sound(self._path), self.levels.window, self.levels.hops[level], first, n)
            return columns.tobytes(), True
        if level not in self._kept:
            return bytes(n * ROWS), False
        columns = np.asarray(self._kept[level][first : first + n]).astype(np.int16) - self._lift[level]
        ready = self.whole or (first + n) << (level - FINE) <= self.done
        return np.clip(columns, 0, 255).astype(np.uint8).tobytes(), ready

    def colour_range(self) -> tuple[float, float]:
        """Bytes for the lightest and the darkest colour: from about the background to nearly the loudest."""
        kept = self._kept.get(FINE)
        if kept is None or not self.done:
            return 60.0, 200.0
        columns = (
            np.asarray(kept[: max(1, self.done) : max(1, self.done // JUDGED)]).astype(np.int16) - self._lift[FINE]
        )
        low, high = np.quantile(columns, 0.5), np.quantile(columns, 0.998)
        return float(low), float(max(high, low + 60.0))
