"""Sound as arrays: one channel of finite floats (`mono`), resampled (`Resampler`), in frames and in blocks.

All streams give the same numbers, bit for bit, however the sound is cut into the blocks that come in.
"""

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import soxr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, DTypeLike

from outlark.errors import InputError

#: Full scale of integer samples, by kind and size in bytes. 24 bits come left-justified in 32.
FULL_SCALE = {("u", 1): 2.0**7, ("i", 2): 2.0**15, ("i", 4): 2.0**31}
#: Samples decoded or processed at once.
DECODED_AT_ONCE = 2**16
#: More columns than this, and more than rows, mean that channels and samples are swapped.
MANY_CHANNELS = 64
LOWEST_RATE, HIGHEST_RATE = 100, 10_000_000
#: No sample of sound is larger: floats lie within ±1, or hold integers of up to 32 bits.
LARGEST_SAMPLE = 2.0**32
#: Seconds after which a new soxr stream takes over. The last bits of soxr's output depend on where its stream began;
#: with streams that begin at fixed times, a recording can be resampled from any minute on.
RENEW_S = 60
#: No output depends on input further away than this, in samples of the lower rate.
REACH = 512


def mono(audio: ArrayLike, channel: int | str = "mix") -> np.ndarray:
    """One channel of audio (n,) or (n, channels) as finite float64, contiguous; it may share memory, so do not write.

    Floats are not scaled. Integers are scaled to [-1, 1): int16, int32 (including 24 bits left-justified, as soundfile
    gives them) and uint8, whose zero is 128. `channel` is "mix", the mean of all, or one of them, counted from 0.

    >>> mono(np.array([[16384, 0], [-32768, 0]], dtype=np.int16))
    array([ 0.25, -0.5 ])
    >>> mono([[0.5, 0.0], [0.25, 1.0]], channel=1)
    array([0., 1.])
    """
    x = _as_columns(audio)
    chosen = check_channel(channel, x.shape[1])
    one = one_channel(x, chosen)
    bad = first_bad(one)
    if bad is not None:
        n = int((~(np.abs(one) <= LARGEST_SAMPLE)).sum())
        raise InputError(
            f"{n} of {len(one)} samples are NaN, infinite or far too large, the first is sample {bad} ({one[bad]:g}); "
            "cut them out or set them to 0"
        )
    return one


def check_channel(channel: Any, channels: int) -> int | None:
    """The number of an existing channel; None for "mix".

    >>> check_channel(1, channels=2)
    1
    >>> check_channel("mix", channels=2)
    """
    if isinstance(channel, str) and channel == "mix":
        return None
    try:
        number = -1 if isinstance(channel, bool | np.bool_) else operator.index(channel)
    except TypeError:
        number = -1
    if not 0 <= number < channels:
        raise InputError(
            f"channel={channel!r}, but the audio has {channels} channel{'s' if channels > 1 else ''}; give 'mix' or a "
            f"whole number from 0 to {channels - 1}"
        )
    return number


def check_sample_rate(rate: Any) -> int:
    """A whole number of samples per second, from 100 Hz to 10 MHz.

    >>> check_sample_rate(22050.0)
    22050
    """
    number = isinstance(rate, int | float | np.integer | np.floating)  # True is 1 and too low
    if number and LOWEST_RATE <= rate <= HIGHEST_RATE and rate == int(rate):
        return int(rate)
    raise InputError(
        f"sample_rate={rate!r} must be a whole number of samples per second, from {LOWEST_RATE} to {HIGHEST_RATE}"
    )


def _as_columns(audio: ArrayLike) -> np.ndarray:
    """Audio as (n, channels), not yet scaled."""
    try:
        x = np.asarray(audio)
    except (ValueError, TypeError) as error:
        raise InputError(f"audio is not an array ({error}); give numbers of shape (n,) or (n, channels)") from error
    kind, size = x.dtype.kind, x.dtype.itemsize
    if kind != "f" and (kind, size) not in FULL_SCALE:
        why = "have no agreed full scale" if kind in "iu" else "are not sound"
        raise InputError(
            f"audio of type {x.dtype}: such values {why}; give floats within ±1, or int16, int32 or uint8 as sound "
            "files hold them"
        )
    if x.ndim not in (1, 2):
        raise InputError(f"audio has {x.ndim} dimensions, shape {x.shape}; give (n,) or (n, channels)")
    x = x[:, None] if x.ndim == 1 else x
    n, channels = x.shape
    if channels == 0:
        raise InputError(f"audio of shape {x.shape} has no channels; give (n,) or (n, channels)")
    if channels > MANY_CHANNELS and channels > n:
        raise InputError(
            f"audio of shape {x.shape} would be {n} samples of {channels} channels; rows must be samples: give audio.T"
        )
    return x


def first_bad(one: np.ndarray) -> int | None:
    """The first sample that is NaN, infinite or too large for sound, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dot(one, one) <= LARGEST_SAMPLE**2:  # the fastest way to say that all are fine; False for NaN
            return None
        bad = ~(np.abs(one) <= LARGEST_SAMPLE)
    return int(bad.argmax()) if bad.any() else None


def one_channel(x: np.ndarray, chosen: int | None) -> np.ndarray:
    """One column of (n, channels), or for None their mean, as contiguous float64; may hold NaN."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for NaN and infinity
        if chosen is not None or x.shape[1] == 1:
            return np.ascontiguousarray(_scaled(x[:, chosen or 0]))
        # column after column: fast, and the same bits whatever the number of rows
        total = _scaled(x[:, 0]) + _scaled(x[:, 1])
        for k in range(2, x.shape[1]):
            total += _scaled(x[:, k])
        return total / x.shape[1]


def _scaled(x: np.ndarray) -> np.ndarray:
    """Native float64; integers to [-1, 1)."""
    floats = x.astype(np.float64, copy=False)
    if x.dtype.kind == "f":
        return floats
    if x.dtype.kind == "u":
        floats = floats - 128.0
    return floats / FULL_SCALE[x.dtype.kind, x.dtype.itemsize]


# ------------------------------------------------------------------ resampling


class Resampler:
    """Resamples a stream of blocks (soxr, quality HQ), without delay.

    The output is the same, bit for bit, however the stream is cut into blocks, and wherever it starts: `first` is the
    first output sample wanted, and `first_in` the sample of the recording to push first. n samples in give
    round(n rate_out / rate_in) samples out, halves up. Equal rates leave samples unchanged.

    >>> resampler = Resampler(44100, 22050)
    >>> ready, rest = resampler.push(np.ones(1001)), resampler.finish()
    >>> len(ready) + len(rest)
    501
    >>> Resampler(44100, 22050, first=22050 * 90).first_in / 44100  # a second before the minute
    59.0
    """

    def __init__(self, rate_in: float, rate_out: float, first: int = 0) -> None:
        self.rate_in, self.rate_out = check_sample_rate(rate_in), check_sample_rate(rate_out)
        self._margin_s = -(-REACH // min(self.rate_in, self.rate_out))
        self._minutes: list[_Minute] = []  # the current one, and near its end the next one as well
        self._next = first // (RENEW_S * self.rate_out)
        self.first_in = first if self.rate_in == self.rate_out else self._first_in(self._next)
        self._n_in, self._n_out = self.first_in, first

    def push(self, x: np.ndarray) -> np.ndarray:
        """Finite float64 (n,), as `mono` gives, in; the samples that are ready, (n',), out."""
        if self.rate_in == self.rate_out:
            return x
        # in chunks: faster than all at once, and needs little memory
        ready = [
            np.empty(0),
            *(self._pushed(x[start : start + DECODED_AT_ONCE]) for start in range(0, len(x), DECODED_AT_ONCE)),
        ]
        return np.concatenate(ready)

    def finish(self) -> np.ndarray:
        """The rest, as if silence followed the recording."""
        # soxr rounds the length differently: get two samples too many, and cut
        silence = np.zeros(2 * (self.rate_in // self.rate_out + 1))
        wanted = resampled_length(self._n_in, self.rate_in, self.rate_out) - self._n_out
        for minute in self._minutes:
            minute.push(silence, last=True)
        rest = np.concatenate([np.empty(0), *(minute.take() for minute in self._minutes)])
        return rest[: max(0, wanted)]

    def _pushed(self, x: np.ndarray) -> np.ndarray:
        ready = [np.empty(0)]
        while len(x):
            until = self._first_in(self._next)
            if self._n_in == until:
                self._minutes.append(self._minute(self._next))
                self._next += 1
                until = self._first_in(self._next)
            piece, x = x[: until - self._n_in], x[until - self._n_in :]
            self._n_in += len(piece)
            for minute in self._minutes:
                minute.push(piece)
            ready += self._given()
        self._n_out += sum(map(len, ready))
        return np.concatenate(ready)

    def _given(self) -> Iterator[np.ndarray]:
        """What the first minute has ready, and the next one if the first is complete."""
        while self._minutes:
            yield self._minutes[0].take()
            if self._minutes[0].wanted:
                return
            self._minutes.pop(0)

    def _minute(self, number: int) -> "_Minute":
        begin, end = (minute * RENEW_S * self.rate_out for minute in (number, number + 1))
        wanted_from = max(begin, self._n_out)  # later than its start only for the first one
        skipped = wanted_from - self._first_in(number) // self.rate_in * self.rate_out
        stream = soxr.ResampleStream(self.rate_in, self.rate_out, 1, dtype="float64", quality="HQ")
        return _Minute(stream, skipped, end - wanted_from)

    def _first_in(self, minute: int) -> int:
        """The first sample that the stream of a minute needs."""
        return max(0, minute * RENEW_S - self._margin_s) * self.rate_in


class _Minute:
    """A soxr stream: some of its output is skipped, then a number of samples are wanted."""

    def __init__(self, stream: soxr.ResampleStream, skipped: int, wanted: int) -> None:
        self._stream, self._skipped, self.wanted = stream, skipped, wanted
        self._ready: list[np.ndarray] = []

    def push(self, x: np.ndarray, *, last: bool = False) -> None:
        """The next samples."""
        y = self._stream.resample_chunk(x, last=last)
        n_skipped = min(self._skipped, len(y))
        self._skipped -= n_skipped
        self._ready.append(y[n_skipped : n_skipped + self.wanted])
        self.wanted -= len(self._ready[-1])

    def take(self) -> np.ndarray:
        """What is ready."""
        ready, self._ready = np.concatenate([np.empty(0), *self._ready]), []
        return ready


def resampled_length(n: int, rate_in: int, rate_out: int) -> int:
    """Number of samples that n samples become; halves up.

    >>> resampled_length(3, 44100, 22050)
    2
    """
    return (2 * n * rate_out + rate_in) // (2 * rate_in)


def resample(x: ArrayLike, rate_in: float, rate_out: float) -> np.ndarray:
    """A whole recording, as for `mono`, at another sample rate; the same numbers as from `Resampler`.

    >>> resample(np.zeros(1000), 44100, 22050).shape
    (500,)
    """
    resampler = Resampler(rate_in, rate_out)
    return np.concatenate([resampler.push(mono(x)), resampler.finish()])


# ------------------------------------------------------------------ frames and blocks


class FrameStream:
    """Frames of `window` samples, one every `hop` samples; the same for any cut into blocks, bit for bit.

    Every frame stands for its own span, the `hop` samples in its middle; the spans tile the recording. No more than a
    window and a block are held. With pad "centre", frame k starts at sample k·hop - (window - hop)//2, with zeros
    outside the recording; n samples give ⌈n / hop⌉ frames, whose own spans start at sample 0. With "edge", the first
    and the last sample are repeated instead. With "none", frame k starts at sample k·hop; only complete frames count.

    >>> frames = FrameStream(window=4, hop=2)
    >>> frames.push([1, 2, 3, 4])
    array([[0., 1., 2., 3.]])
    >>> frames.push([5]), frames.finish()
    (array([[2., 3., 4., 5.]]), array([[4., 5., 0., 0.]]))
    """

    def __init__(self, window: int, hop: int, *, pad: str = "centre", dtype: DTypeLike = np.float64) -> None:
        self.window, self.hop, self.pad, self._dtype = window, hop, pad, np.dtype(dtype)
        self._before = (window - hop) // 2
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
        x = np.asarray(block, self._dtype)
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

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this stream of frames is finished; make a new one for a new recording")


def hann(n: int) -> np.ndarray:
    """A periodic Hann window of n samples; scipy.signal, which has it too, is slow to import.

    >>> hann(4).round(12)
    array([0. , 0.5, 1. , 0.5])
    """
    return 0.5 - 0.5 * np.cos(2.0 * np.pi / n * np.arange(n))


class Reblock:
    """Rows in blocks of any size in, blocks of `size` rows out, counted from the first row.

    Sums and matrix products depend in the last bit on the shape of the arrays. After a `Reblock`, shapes, and so
    results, do not depend on the blocks that came in.

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
