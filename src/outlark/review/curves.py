"""Score curves of a recording at several resolutions: each bin has its least and its largest score."""

from pathlib import Path

import numpy as np

from outlark.commands.plot.figure_numbers import curves
from outlark.detection.scores import ScoreBlock, ScoreLayout, joined_scores

#: From one level to the next so many bins become one.
FACTOR = 4
#: Bins of a tile.
BINS = 512


class CurveKeeper:
    """Collects score curves block by block; whole notes that are still sounding reach into the next block.

    Parameters
    ----------
    layout : ScoreLayout
    """

    def __init__(self, layout: ScoreLayout) -> None:
        # a note lasts at most half as long again as the longest training note
        self._reach = int(1.5 * float(np.max(layout.longest_s)) * layout.frame_rate) + 2
        self._before: ScoreBlock | None = None
        self._parts: list[np.ndarray] = []

    def push(self, block: ScoreBlock) -> None:
        """The scores of the next frames."""
        if not len(block):
            return
        joined = block if self._before is None else joined_scores([self._before, block])
        n_before = len(joined) - len(block)
        self._parts.append(curves(joined)[n_before:].astype(np.float32))
        self._before = joined.between(max(0, len(joined) - self._reach), len(joined))

    def curves(self, n_classes: int) -> np.ndarray:
        """All of it, (T, C)."""
        return np.concatenate([np.empty((0, n_classes), dtype=np.float32), *self._parts])


def save_levels(values: np.ndarray, folder: Path) -> int:
    """Write all resolutions of curves (T, C) to a folder; how many there are.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     n = save_levels(np.arange(2049, dtype=np.float32)[:, np.newaxis], Path(folder))
    ...     n, np.load(f"{folder}/1.npy")[:2].tolist()
    (3, [[[0.0, 3.0]], [[4.0, 7.0]]])
    """
    folder.mkdir(parents=True, exist_ok=True)
    level, bins = 0, np.stack([values, values], axis=2)
    np.save(folder / "0.npy", bins)
    while len(bins) > BINS:
        starts = np.arange(0, len(bins), FACTOR)
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
    found = np.array(bins[number * BINS : (number + 1) * BINS])
    return found if len(found) else None
