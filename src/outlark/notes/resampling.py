"""Another sample rate for recordings: all at once, or block by block."""

import numpy as np
import soxr
from numpy.typing import ArrayLike

from outlark.errors import InputError
from outlark.notes.audio import CHUNK, check_sample_rate, mono


class Resampler:
    """Another sample rate for a stream of blocks (soxr, quality HQ).

    Output sample k stands at time k / rate_out, input sample i at i / rate_in: there is no delay. The numbers are the
    same, bit for bit, however the stream is cut into blocks. n samples in give round(n rate_out / rate_in) samples out,
    halves up. Equal rates pass the numbers through.

    Parameters
    ----------
    rate_in, rate_out : int
        Samples for each second.

    Examples
    --------
    >>> resampler = Resampler(44100, 22050)
    >>> ready, rest = resampler.push(np.ones(1001)), resampler.finish()
    >>> len(ready) + len(rest)
    501
    """

    def __init__(self, rate_in: float, rate_out: float) -> None:
        self.rate_in, self.rate_out = check_sample_rate(rate_in), check_sample_rate(rate_out)
        self._n_in = self._n_out = 0
        self._finished = False
        self._stream = None
        if self.rate_in != self.rate_out:
            self._stream = soxr.ResampleStream(self.rate_in, self.rate_out, 1, dtype="float64", quality="HQ")

    def push(self, block: ArrayLike) -> np.ndarray:
        """A block (n,) in, as `mono` takes it; the samples that are ready, (n',), out."""
        self._check_open()
        x = mono(block)
        if self._stream is None:
            return x
        # chunks: faster than all at once, and in little memory
        chunks = (x[start : start + CHUNK] for start in range(0, len(x), CHUNK))
        ready = np.concatenate([np.empty(0), *map(self._stream.resample_chunk, chunks)])
        self._n_in += len(x)
        self._n_out += len(ready)
        return ready

    def finish(self) -> np.ndarray:
        """The rest, as if silence followed the recording."""
        self._check_open()
        self._finished = True
        if self._stream is None:
            return np.empty(0)
        # soxr rounds the length its own way: two samples more than wanted, and cut
        silence = np.zeros(2 * (self.rate_in // self.rate_out + 1))
        rest = self._stream.resample_chunk(silence, last=True)
        wanted = (2 * self._n_in * self.rate_out + self.rate_in) // (2 * self.rate_in)
        return rest[: wanted - self._n_out]

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this resampler is finished; make a new Resampler for a new recording")


def resample(x: ArrayLike, rate_in: float, rate_out: float) -> np.ndarray:
    """A whole recording (n,) at another sample rate, the same numbers as from `Resampler`.

    Examples
    --------
    >>> resample(np.zeros(1000), 44100, 22050).shape
    (500,)
    """
    resampler = Resampler(rate_in, rate_out)
    return np.concatenate([resampler.push(x), resampler.finish()])
