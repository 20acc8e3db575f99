"""Resampling recordings, all at once or block by block."""

from collections.abc import Iterator

import numpy as np
import soxr
from numpy.typing import ArrayLike

from outlark.audio.sound import CHUNK, check_sample_rate, mono
from outlark.errors import InputError

#: Seconds after which a new soxr stream takes over. The last bits of soxr's output depend on where its stream began;
#: with streams that begin at fixed times, a recording can be resampled from any minute on.
RENEW_S = 60
#: No output depends on input further away than this, in samples of the lower rate.
REACH = 512


class Resampler:
    """Resamples a stream of blocks (soxr, quality HQ), without delay.

    The output is the same, bit for bit, however the stream is cut into blocks, and wherever it starts. n samples in
    give round(n rate_out / rate_in) samples out, halves up. Equal rates leave samples unchanged.

    Parameters
    ----------
    rate_in, rate_out : int
        Samples per second.
    first : int
        The first output sample wanted, counted from the start of the recording.

    Attributes
    ----------
    first_in : int
        The sample of the recording to push first.

    Examples
    --------
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
        self._finished = False
        self._minutes: list[_Minute] = []  # the current one, and near its end the next one as well
        self._next = first // (RENEW_S * self.rate_out)
        self.first_in = first if self.rate_in == self.rate_out else self._first_in(self._next)
        self._n_in, self._n_out = self.first_in, first

    def push(self, block: ArrayLike) -> np.ndarray:
        """A block (n,), as for `mono`, in; the samples that are ready, (n',), out."""
        self._check_open()
        x = mono(block)
        if self.rate_in == self.rate_out:
            return x
        # in chunks: faster than all at once, and needs little memory
        ready = [np.empty(0), *(self._pushed(x[start : start + CHUNK]) for start in range(0, len(x), CHUNK))]
        return np.concatenate(ready)

    def finish(self) -> np.ndarray:
        """The rest, as if silence followed the recording."""
        self._check_open()
        self._finished = True
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

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this resampler is finished; make a new Resampler for a new recording")


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
    """A whole recording (n,) at another sample rate, the same numbers as from `Resampler`.

    Examples
    --------
    >>> resample(np.zeros(1000), 44100, 22050).shape
    (500,)
    """
    resampler = Resampler(rate_in, rate_out)
    return np.concatenate([resampler.push(x), resampler.finish()])
