"""Cutting streams: overlapping frames (`FrameStream`), and blocks of one size (`Reblock`)."""

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, DTypeLike

from outlark.errors import InputError

PADS = ("centre", "edge", "none")


class FrameStream:
    """Frames of `window` samples, one every `hop` samples; the same for any cut into blocks, bit for bit.

    Every frame stands for its own span, the `hop` samples in its middle; the spans tile the recording. No more than a
    window and a block are held.

    Parameters
    ----------
    window, hop : int
        Samples; hop ≤ window.
    pad : "centre", "edge" or "none"
        "centre": frame k starts at sample k·hop - (window - hop)//2, with zeros outside the recording; n samples give
        ⌈n / hop⌉ frames, whose own spans start at sample 0. "edge": the same, with the first and the last sample
        repeated instead of zeros. "none": frame k starts at sample k·hop; only complete frames count.
    dtype : float64 or float32
        Of the frames.

    Examples
    --------
    >>> frames = FrameStream(window=4, hop=2)
    >>> frames.push([1, 2, 3, 4])
    array([[0., 1., 2., 3.]])
    >>> frames.push([5]), frames.finish()
    (array([[2., 3., 4., 5.]]), array([[4., 5., 0., 0.]]))
    """

    def __init__(self, window: int, hop: int, *, pad: str = "centre", dtype: DTypeLike = np.float64) -> None:
        self.window, self.hop = _positive(window=window), _positive(hop=hop)
        if self.hop > self.window:
            raise InputError(
                f"hop={hop} is longer than window={window}, so that samples would be skipped; give a shorter hop or "
                "a longer window"
            )
        if pad not in PADS:
            raise InputError(f"pad={pad!r} must be one of {PADS}")
        self.pad, self._dtype = pad, np.dtype(dtype)
        self._before = (self.window - self.hop) // 2
        self._held: np.ndarray | None = None  # from the start of the next frame on
        self._last = np.empty(0)
        self._n_samples = self._n_frames = 0
        self._finished = False

    @property
    def offset(self) -> int:
        """First sample of frame 0's own span."""
        return self._before if self.pad == "none" else 0

    def push(self, block: ArrayLike) -> np.ndarray:
        """Samples (n,) or (n, channels) in; the frames that are ready, (T', window) or (T', window, channels), out.

        The frames are a read-only view of memory that they share where they overlap; it does not change later.
        """
        self._check_open()
        x = self._checked(block)
        if self._held is None:
            self._held = np.zeros((self._before if self.pad == "centre" else 0, *x.shape[1:]), self._dtype)
        first = np.repeat(x[:1], self._before, axis=0) if self.pad == "edge" and self._n_samples == 0 else x[:0]
        self._n_samples += len(x)
        self._last = x[-1:].copy() if len(x) or not len(self._last) else self._last
        return self._cut(np.concatenate([first, x]) if len(first) else x)

    def finish(self) -> np.ndarray:
        """The frames that reach past the end of the recording; none without padding."""
        self._check_open()
        self._finished = True
        if self._held is None:
            return np.empty((0, self.window), self._dtype)
        if self.pad == "none":
            return self._cut(self._held[:0])
        rest = -(-self._n_samples // self.hop) - self._n_frames
        missing = max(0, (rest - 1) * self.hop + self.window - len(self._held))
        if self.pad == "edge":
            return self._cut(np.repeat(self._last, missing, axis=0))
        return self._cut(np.zeros((missing, *self._held.shape[1:]), self._dtype))

    def _cut(self, x: np.ndarray) -> np.ndarray:
        assert self._held is not None
        joined = np.concatenate([self._held, x])  # always a copy: the caller may reuse the block
        n_frames = max(0, (len(joined) - self.window) // self.hop + 1)
        self._n_frames += n_frames
        if not n_frames:
            self._held = joined
            return np.empty((0, self.window, *joined.shape[1:]), self._dtype)
        self._held = joined[n_frames * self.hop :].copy()  # a copy, to release the block
        frames = sliding_window_view(joined, self.window, axis=0)[:: self.hop]
        return np.moveaxis(frames, -1, 1)

    def _checked(self, block: ArrayLike) -> np.ndarray:
        x = np.asarray(block)
        if x.dtype.kind not in "fiu" or x.ndim not in (1, 2):
            raise InputError(f"a block of type {x.dtype} and shape {x.shape}; give real numbers, (n,) or (n, channels)")
        if self._held is not None and x.shape[1:] != self._held.shape[1:]:
            raise InputError(
                f"a block of shape {x.shape} after blocks of shape {('n', *self._held.shape[1:])}; all blocks of a "
                "stream must have the same number of channels"
            )
        return x.astype(self._dtype, copy=False)

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this stream of frames is finished; make a new FrameStream for a new recording")


class Reblock:
    """Rows in blocks of any size in, blocks of `size` rows out, counted from the first row.

    Sums and matrix products depend in the last bit on the shape of the arrays. After a `Reblock`, shapes, and so
    results, do not depend on the blocks that came in.

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


def _positive(**named: Any) -> int:
    """The one value, if it is a whole number above 0."""
    ((name, value),) = named.items()
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"{name}={value!r} must be a whole number of samples, 1 or more")
    return number
