"""What `ArrayFrontEnd` builds on: checked series of several channels, and the means and powers of their windows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct

from outlark.audio.framing import FrameStream
from outlark.errors import InputError
from outlark.segments import Segment

#: Numbers that are turned into windows at once: the windows of a long recording would not fit into memory.
CHUNK = 2**16


class Windows(NamedTuple):
    """Consecutive windows.

    Attributes
    ----------
    means : ndarray (T, channels)
    powers : ndarray (T, channels, bands)
        Power in each band, without the mean; they add up to the variance.
    """

    means: np.ndarray
    powers: np.ndarray


class ChannelWindows:
    """A stream of windows of several channels; the same for any cut into blocks, bit for bit.

    n samples give ⌈n / hop⌉ windows, each around its own `hop` samples. Outside the recording its first and last
    values are repeated, so that an offset makes no step.

    Parameters
    ----------
    window, hop, n_channels, n_bands : int

    Examples
    --------
    >>> stream = ChannelWindows(window=4, hop=2, n_channels=1, n_bands=1)
    >>> stream.push(np.array([[5.0], [5.0], [5.0], [7.0]])).means.ravel()
    array([5.])
    >>> last = stream.finish()
    >>> last.means.ravel(), last.powers.ravel().round(3)
    (array([6.]), array([1.]))
    """

    def __init__(self, window: int, hop: int, n_channels: int, n_bands: int) -> None:
        self._frames = FrameStream(window, hop, pad="none")
        self._edges = band_edges(window, n_bands)
        self._before = (window - hop) // 2
        self._last = np.empty((0, n_channels))
        self._n_samples = 0

    def push(self, x: np.ndarray) -> Windows:
        """Samples (n, channels) in; the windows that are whole out."""
        first = np.repeat(x[:1], self._before, axis=0) if self._n_samples == 0 else x[:0]
        parts = [self._cut(first)]
        step = max(1, CHUNK // x.shape[1])
        parts.extend(self._cut(x[start : start + step]) for start in range(0, len(x), step))
        self._n_samples += len(x)
        self._last = x[-1:].copy() if len(x) else self._last
        return Windows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def finish(self) -> Windows:
        """The windows that reach past the end."""
        window, hop = self._frames.window, self._frames.hop
        n_windows = -(-self._n_samples // hop)
        missing = (n_windows - 1) * hop + window - self._before - self._n_samples
        rest = self._cut(np.repeat(self._last, max(0, missing), axis=0))
        self._frames.finish()
        return rest

    def _cut(self, x: np.ndarray) -> Windows:
        # channels before samples, in a row: sums then run in the same order whatever the block
        frames = np.ascontiguousarray(np.moveaxis(self._frames.push(x), 1, 2))
        shifted = frames - frames[:, :, :1]  # exact for a constant, precise beside a large offset
        means = frames[:, :, 0] + shifted.mean(axis=2)
        power = dct(shifted, type=2, norm="ortho", axis=2) ** 2 / self._frames.window
        return Windows(means, np.add.reduceat(power, self._edges[:-1], axis=2))


def band_edges(window: int, n_bands: int) -> np.ndarray:
    """Where the bands of a DCT of `window` coefficients start, from 1 on (0 is the mean), and where the last one ends.

    The higher the wider: each is about the same factor above the one before, and one coefficient wide at least.

    >>> band_edges(32, 4).tolist()
    [1, 2, 5, 13, 32]
    """
    edges = np.floor(np.geomspace(1, window, n_bands + 1) + 1e-9).astype(int)
    for i in range(1, len(edges)):
        edges[i] = max(edges[i], edges[i - 1] + 1)
    return edges


def as_columns(signal: ArrayLike, n_channels: int | None = None) -> np.ndarray:
    """A series as floats, (n, channels); errors for what cannot be used.

    >>> as_columns([1, 2]).tolist()
    [[1.0], [2.0]]
    """
    x = np.asarray(signal)
    if x.dtype.kind not in "fiu" or x.ndim not in (1, 2) or 0 in x.shape[1:]:
        raise InputError(
            f"a signal of type {x.dtype} and shape {x.shape}; give real numbers, (n,) or (n, channels), rows in time"
        )
    x = (x[:, np.newaxis] if x.ndim == 1 else x).astype(np.float64, copy=False)
    if n_channels is not None and x.shape[1] != n_channels:
        hint = "rows are samples: give signal.T" if len(x) == n_channels else "give the same channels, in their order"
        raise InputError(
            f"a signal of shape {x.shape} has {x.shape[1]} channels, {n_channels} were expected, as in training; {hint}"
        )
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        raise InputError(
            f"{bad.sum()} of {len(x)} samples hold NaN or infinity, the first is sample {bad.argmax()}; fill the gaps "
            "(numpy.interp) or cut them out"
        )
    return x


def training_signals(recordings: Sequence[ArrayLike]) -> list[np.ndarray]:
    """All recordings as (n, channels), with one number of channels."""
    signals: list[np.ndarray] = []
    for i, recording in enumerate(recordings):
        try:
            signals.append(as_columns(recording, signals[0].shape[1] if signals else None))
        except InputError as error:
            raise InputError(f"recording {i}: {error}") from error
    return signals


def training_spans(
    signals: Sequence[np.ndarray], rate: int, segments: Sequence[Sequence[Segment]] | None
) -> list[list[tuple[int, int]]]:
    """For each recording the first sample of each note and the one after its last; whole recordings without segments.

    >>> training_spans([np.zeros((5, 1)), np.zeros((9, 1))], 10, None)
    [[(0, 5)], [(0, 9)]]
    """
    if segments is None:
        spans = [[(0, len(x))] if len(x) else [] for x in signals]
    elif len(segments) != len(signals):
        raise InputError(f"segments for {len(segments)} recordings, but {len(signals)} recordings; give one list each")
    else:
        spans = [[_span(s, len(signals[i]), rate, i) for s in marked] for i, marked in enumerate(segments)]
    if not any(spans):
        raise InputError("there is no training note: give at least one recording that is not empty, or one segment")
    return spans


def _span(segment: Segment, n_samples: int, rate: int, i: int) -> tuple[int, int]:
    if segment.sample_rate != rate or segment.end > n_samples:
        raise InputError(
            f"recording {i} has {n_samples} samples at {rate} Hz, but a segment of it ends at sample {segment.end} at "
            f"{segment.sample_rate} Hz; make segments with the sample rate of the recording, and within it"
        )
    return segment.start, segment.end


def check_series_rate(rate: Any) -> int:
    """A whole number of samples for each second, 1 or more.

    >>> check_series_rate(50.0)
    50
    """
    number = isinstance(rate, int | float | np.integer | np.floating) and not isinstance(rate, bool)
    if number and 1 <= rate < np.inf and rate == int(rate):
        return int(rate)
    raise InputError(
        f"sample_rate={rate!r} must be a whole number of samples for each second, 1 or more; count time in a longer "
        "unit, such as minutes, if samples are rarer"
    )
