"""Up to which frequency a recording holds sound, whatever its sample rate says.

A recording that was resampled upwards, or went through a codec that cuts off, ends where the original did. Above that
there is nothing but rounding, and a model that listens there hears other notes than those it was trained on.
"""

import sys
from collections.abc import Iterable
from typing import Self

import numpy as np

from outlark.features import spectrum
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd

#: Samples of a spectrum, and how many spectra are kept; of longer recordings every second, fourth … is taken.
WINDOW, SPECTRA = 1024, 256
#: Rounding to 16 bits in dB re full scale, and what dither adds to it: no microphone is as quiet in all bands.
ROUNDING_DB, DITHER_DB = 10.0 * np.log10(2.0**-30 / 12.0), 10.0
#: An edge: the level falls by so many dB from a little below to a little above it, which is given as a ratio.
FALL_DB, NEAR = 12.0, 1.12
#: Above this share of the sample rate every recorder's own filter closes.
HIGHEST_SHARE = 0.45
#: A model listens clearly higher than a recording ends if that ends below this share of where the model does.
CLEARLY = 0.9


class Bandwidth:
    """Listens to a recording, block by block, and tells where it ends.

    Parameters
    ----------
    sample_rate : int
    n_samples : int, optional
        Of the whole recording. With it a part of the recording may be listened to: the spectra of all parts together
        (`spectra`, `of_spectra`) are then those of the whole.
    part : (int, int)
        The samples in which spectra of that part begin.
    position : int
        The first sample that will be pushed.

    Examples
    --------
    >>> from outlark.audio.resampling import resample
    >>> noise = 0.01 * np.random.default_rng(0).normal(size=16000)
    >>> for samples in (noise, resample(noise, 8000, 16000)):
    ...     bandwidth = Bandwidth(16000)
    ...     bandwidth.push(samples)
    ...     end_hz = bandwidth.ends_hz()
    ...     print(end_hz and round(end_hz, -2))
    None
    4000.0
    """

    def __init__(
        self,
        sample_rate: int,
        n_samples: int | None = None,
        *,
        part: tuple[int, int] = (0, sys.maxsize),
        position: int = 0,
    ) -> None:
        self._rate, self._shape = sample_rate, spectrum.hann(WINDOW)
        self._shape = self._shape / np.sqrt((self._shape**2).sum())
        self._step = 1 if n_samples is None else _step_in(n_samples)
        self._held, self._position = np.empty(0), position  # samples that are not used up, and where they begin
        self._next, self._until = -(-part[0] // (self._step * WINDOW)) * self._step * WINDOW, part[1]
        self._taken: list[np.ndarray] = []  # one spectrum for each step, 0 for digital silence

    @classmethod
    def of_spectra(cls, sample_rate: int, spectra: Iterable[np.ndarray]) -> Self:
        """From the `spectra` of all parts of a recording, in their order."""
        whole = cls(sample_rate)
        whole._taken = [spectrum for of_part in spectra for spectrum in of_part]
        return whole

    @property
    def spectra(self) -> np.ndarray:
        """Powers (n, bins)."""
        return np.array(self._taken).reshape(-1, WINDOW // 2 + 1)

    def push(self, samples: np.ndarray) -> None:
        """The next samples (n,) of the recording."""
        self._held = np.concatenate([self._held, samples])
        while self._next < self._until and self._next + WINDOW <= self._position + len(self._held):
            self._take(self._held[self._next - self._position :][:WINDOW])
            self._next = (self._next // (self._step * WINDOW) + 1) * self._step * WINDOW
        used = min(max(0, self._next - self._position), len(self._held))
        self._held, self._position = self._held[used:], self._position + used

    def ends_hz(self) -> float | None:
        """Above which frequency there is nothing but rounding; None where sound reaches as high as it can, fades away
        without an edge, or is too quiet to tell."""
        heard = [spectrum for spectrum in self._taken if spectrum.any()]
        if not heard:
            return None
        levels = 10.0 * np.log10(np.median(heard, axis=0) + np.finfo(float).tiny)
        frequencies = np.fft.rfftfreq(WINDOW, 1.0 / self._rate)
        sounding = np.flatnonzero(levels > ROUNDING_DB + DITHER_DB)
        if not len(sounding) or frequencies[sounding[-1]] >= HIGHEST_SHARE * self._rate:
            return None
        end_hz = float(frequencies[sounding[-1]])
        below, above = np.interp([end_hz / NEAR, end_hz * NEAR], frequencies, levels)
        return end_hz if below - above >= FALL_DB else None

    def _take(self, window: np.ndarray) -> None:
        silent = window.min() == window.max()
        powers = np.abs(np.fft.rfft(window * self._shape)) ** 2
        self._taken.append(np.zeros_like(powers) if silent else powers)
        if len(self._taken) == SPECTRA:
            self._taken, self._step = self._taken[::2], 2 * self._step


def _step_in(n_samples: int) -> int:
    """From one spectrum to the next, in windows, when a recording of so many samples has been listened to.

    >>> _step_in(255 * WINDOW), _step_in(256 * WINDOW), _step_in(511 * WINDOW)
    (1, 2, 4)
    """
    step = 1
    while -(-(n_samples // WINDOW) // step) >= SPECTRA:
        step *= 2
    return step


def listens_up_to(front_end: FrontEnd) -> float | None:
    """Up to which frequency a fitted front end listens, in Hz; None for series that are no sound.

    >>> from outlark.features.note import NoteFrontEnd
    >>> [listens_up_to(NoteFrontEnd().fit([], sample_rate=rate)) for rate in (48000, 16000)]
    [10000.0, 7360.0]
    """
    if isinstance(front_end, ArrayFrontEnd):
        return None
    highest = spectrum.HIGHEST_SHARE * front_end.sample_rate_
    return min(highest, float(getattr(front_end, "high_hz", None) or highest))


def remark_on_bandwidth(sample_rate: int, ends_hz: float | None, listens_hz: float) -> str | None:
    """What to say of a recording that ends below what a model listens to; None if it does not.

    Parameters
    ----------
    sample_rate : int
        Of the recording.
    ends_hz : float or None
        As `Bandwidth.ends_hz` tells it.
    listens_hz : float
        Up to where the model listens.

    Examples
    --------
    >>> remark_on_bandwidth(8000, None, 10000.0)[:78]
    'ends at 4000 Hz (sample rate 8000 Hz), but the model listens up to 10000 Hz: n'
    >>> remark_on_bandwidth(44100, None, 10000.0)
    """
    if HIGHEST_SHARE * sample_rate < CLEARLY * listens_hz and ends_hz is None:
        ends = f"ends at {sample_rate / 2:.0f} Hz (sample rate {sample_rate} Hz)"
    elif ends_hz is not None and ends_hz < CLEARLY * listens_hz:
        ends = f"holds no sound above {ends_hz:.0f} Hz (resampled from a lower rate, or compressed)"
    else:
        return None
    return (
        f"{ends}, but the model listens up to {listens_hz:.0f} Hz: notes that reach higher are missed or taken for "
        "others; train on examples from such recordings"
    )
