"""Whether there is anything to hear in a recording: digital silence, clipping, and channels that cancel each other.

Everything is counted in windows on one grid from the first sample on, so that a recording that is read in parts gives
the same counts as a whole.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from outlark.audio.sound import AudioFile

#: Duration of a window in seconds.
WINDOW_S = 0.01
#: Full scale: the largest value of 8 and of 16 bits.
FULL_8, FULL_16 = 127 / 128, 32767 / 32768
#: Channels are compared in every eighth window; they cancel if their mean has less than this share of their power.
COMPARED, CANCELLED = 8, 0.01
#: Shares of the time from which a recording is remarked on, and from which it does not count as effort.
REMARKED, SPOILT = 0.05, 0.5
#: What is counted: samples, those in windows of digital silence, those in windows with samples at full scale, these
#: samples themselves (of any channel), windows in which channels were compared, and those in which they cancel.
COUNTS = ("samples", "silent", "clipped", "at_full_scale", "compared", "cancelling")


class Quality:
    """Counts while a recording is decoded, of the channel that is analysed, or of all if it is their mean.

    To process a recording in parts, give the samples in which windows of this `part` start, and the `position` of the
    first sample pushed; then join their `counts` (`of_parts`).

    >>> import soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.zeros(8000), 8000)
    ...     quality = Quality(AudioFile(f"{folder}/a.wav"))
    >>> quality.push(np.zeros((8000, 1)))
    >>> quality.remarks, quality.is_spoilt
    (('100 % of it is digital silence: check the microphone and the recorder',), True)
    """

    def __init__(self, audio: AudioFile, *, part: tuple[int, int] = (0, sys.maxsize), position: int = 0) -> None:
        self._window = max(1, round(WINDOW_S * audio.sample_rate))
        self._full = FULL_8 if audio.subtype in ("PCM_U8", "PCM_S8") else FULL_16
        self._floats = audio.subtype in ("FLOAT", "DOUBLE")
        self._chosen, self._mixed = audio.chosen, audio.chosen is None and audio.channels > 1
        self._channels = audio.channels if audio.chosen is None else 1
        self._held, self._position = np.empty((self._channels, 0)), position  # from the next window on
        self._next, self._until = -(-part[0] // self._window) * self._window, part[1]
        self._counts, self._peak = np.zeros(len(COUNTS), np.int64), 0.0

    @property
    def counts(self) -> np.ndarray:
        """Of all windows so far, and the peak; float64, exact."""
        counts, peak = self._counted()
        return np.append(counts.astype(float), peak)

    def _counted(self) -> tuple[np.ndarray, float]:
        """With the last window, which may be shorter."""
        if not self._held.shape[1] or self._position != self._next or self._next >= self._until:
            return self._counts, self._peak
        counts, peak = self._of_windows(self._held[:, np.newaxis], self._next // self._window)
        return self._counts + counts, max(self._peak, peak)

    @classmethod
    def of_parts(cls, audio: AudioFile, counts: Iterable[np.ndarray]) -> Self:
        """From the `counts` of all parts."""
        whole, found = cls(audio), np.array(list(counts))
        whole._counts, whole._peak = found[:, :-1].sum(axis=0).astype(np.int64), float(found[:, -1].max())
        return whole

    def push(self, x: np.ndarray) -> None:
        """The next samples, (n, channels)."""
        channels = np.ascontiguousarray((x if self._chosen is None else x[:, [self._chosen]]).T)
        held = self._held.shape[1]
        start = min(max(0, self._next - self._position - held), channels.shape[1])
        if held:  # first the window that has begun
            start = min(self._window - held, channels.shape[1])
            self._held = np.concatenate([self._held, channels[:, :start]], axis=1)
            if self._held.shape[1] < self._window:
                return
            self._take(self._held)
        else:
            self._position += start
        n = (channels.shape[1] - start) // self._window
        rest = start + n * self._window
        self._take(channels[:, start:rest])
        self._held = channels[:, rest:].copy()

    def _take(self, channels: np.ndarray) -> None:
        """Whole windows from the next one on, (channels, n); those that start after the part do not count."""
        n, after = channels.shape[1] // self._window, -(-(self._until - self._next) // self._window)
        counted = channels[:, : max(0, min(n, after)) * self._window]
        if counted.shape[1]:
            windows = counted.reshape(len(counted), -1, self._window)
            counts, peak = self._of_windows(windows, self._next // self._window)
            self._counts, self._peak = self._counts + counts, max(self._peak, peak)
        self._next += n * self._window
        self._position += n * self._window

    def _of_windows(self, windows: np.ndarray, number: int) -> tuple[np.ndarray, float]:
        """Counts of windows (channels, n, samples), of which the first has this number on the grid; and the peak."""
        _, n, size = windows.shape
        high, low = windows.max(axis=2), windows.min(axis=2)
        silent, loud = (high == low).all(axis=0), np.maximum(high, -low) >= self._full
        at_full_scale = int((np.abs(windows[loud]) >= self._full).sum())
        cancelling = _cancel(windows[:, -number % COMPARED :: COMPARED]) if self._mixed else np.zeros(0, bool)
        counts = [n * size, silent.sum() * size, loud.any(axis=0).sum() * size, at_full_scale]
        return np.array([*counts, len(cancelling), cancelling.sum()], np.int64), float(max(high.max(), -low.min()))

    # ------------------------------------------------------------ what it means

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the time: digital silence, clipping, and cancelling channels; and of samples at full scale."""
        *counted, peak = self.counts.tolist()
        named = dict(zip(COUNTS, counted, strict=True))
        n = max(1.0, named["samples"])
        clips = not (self._floats and peak > 1.0)  # floats have no full scale
        return {
            "silent": named["silent"] / n,
            "clipped": clips * named["clipped"] / n,
            "cancelling": named["cancelling"] / max(1.0, named["compared"]),
            "at_full_scale": clips * named["at_full_scale"] / (n * self._channels),
        }

    @property
    def is_spoilt(self) -> bool:
        """Whether half of the recording or more cannot be listened to."""
        return max(self.shares[name] for name in ("silent", "clipped", "cancelling")) >= SPOILT

    @property
    def remarks(self) -> tuple[str, ...]:
        """On each kind that lasts long enough."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        shares = self.shares
        if shares["silent"] >= REMARKED:
            yield f"{_percent(shares['silent'])} of it is digital silence: check the microphone and the recorder"
        if shares["clipped"] >= REMARKED:
            yield f"clipped: {_percent(shares['clipped'])} of it reaches full scale; notes are distorted there"
        if shares["cancelling"] >= REMARKED:
            yield (
                f"its channels cancel each other in {_percent(shares['cancelling'])} of it, so that their mean is "
                "nearly silent; analyse one of them (--channel 1)"
            )


def _cancel(windows: np.ndarray) -> np.ndarray:
    """In which windows, (channels, n, samples), the mean of all channels has much less power than they."""
    power = windows.var(axis=2).mean(axis=0)
    return (power > 0.0) & (windows.mean(axis=0).var(axis=1) < CANCELLED * power)


def _percent(share: float) -> str:
    """Never 100 % unless it is all.

    >>> _percent(0.9999), _percent(1.0), _percent(0.0149)
    ('99 %', '100 %', '1 %')
    """
    return f"{int(100.0 * share)} %"
