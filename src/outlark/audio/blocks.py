"""Blocks of one size from blocks of any size, so that all that follows sees the same blocks, live or not."""

from collections.abc import Iterator

import numpy as np


class Reblock:
    """Rows in blocks of any size in, blocks of `size` rows out, counted from the first row.

    Sums and matrix products differ in the last bit with the shape of the arrays. Behind a `Reblock` shapes do not
    depend on how the rows came in, so neither do results.

    Examples
    --------
    >>> blocks = Reblock(4)
    >>> [b.tolist() for b in blocks.push(np.arange(3))], [b.tolist() for b in blocks.push(np.arange(3, 10))]
    ([], [[0, 1, 2, 3], [4, 5, 6, 7]])
    >>> blocks.finish().tolist()
    [8, 9]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._held: list[np.ndarray] = []
        self._n_held = 0

    def push(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """The blocks that are full."""
        start = 0
        while self._n_held + len(rows) - start >= self.size:
            end = start + self.size - self._n_held
            full = np.concatenate([*self._held, rows[start:end]])
            self._held, self._n_held, start = [], 0, end
            yield full
        if start < len(rows):
            self._held.append(rows[start:].copy())
            self._n_held += len(rows) - start

    def finish(self) -> np.ndarray | None:
        """What is left, or None."""
        return np.concatenate(self._held) if self._held else None
