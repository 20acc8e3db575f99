"""The highest frequency in a recording, whatever its sample rate says.

A recording that was upsampled or compressed ends where the original did. Above that there is only rounding noise, and
a model that uses these frequencies meets other notes than those it was trained on.
"""

import sys
from collections.abc import Iterable
from typing import Self

import numpy as np

#: Samples per spectrum, and spectra kept; of longer recordings every second, fourth … one.
WINDOW_SAMPLES, SPECTRA = 1024, 256
#: Rounding noise of 16 bits in dB re full scale, and what dither adds: no microphone is as quiet in all bands.
ROUNDING_DB, DITHER_DB = 10.0 * np.log10(2.0**-30 / 12.0), 10.0
#: An edge: the level falls by this many dB from this ratio below it to as far above it.
EDGE_FALL_DB, EDGE_RATIO = 12.0, 1.12
#: A recording with sound up to this share of its sample rate is complete: recorders' own filters cut off from here on.
COMPLETE_SHARE = 0.45
#: A recording clearly lacks part of a model's range if it ends below this share of its upper limit.
CLEAR_LACK = 0.9


class Bandwidth:
    """Finds the highest frequency in a recording, block by block.

    To process it in parts, give the length of the whole, the samples in which spectra of this `part` start, and the
    `position` of the first sample pushed: the `spectra` of all parts together are those of the whole (`of_spectra`).

    >>> from outlark.audio.sound import resample
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
        shape = 0.5 - 0.5 * np.cos(2.0 * np.pi / WINDOW_SAMPLES * np.arange(WINDOW_SAMPLES))  # Hann
        self._rate, self._shape = sample_rate, shape / np.sqrt((shape**2).sum())
        self._step = 1 if n_samples is None else _step_in(n_samples)
        self._held, self._position = np.empty(0), position  # unused samples, and the position of the first
        self._next, self._until = -(-part[0] // (self._step * WINDOW_SAMPLES)) * self._step * WINDOW_SAMPLES, part[1]
        self._taken: list[np.ndarray] = []  # one spectrum per step, 0 for digital silence

    @classmethod
    def of_spectra(cls, sample_rate: int, spectra: Iterable[np.ndarray]) -> Self:
        """From the `spectra` of all parts of a recording, in their order."""
        whole = cls(sample_rate)
        whole._taken = [spectrum for of_part in spectra for spectrum in of_part]
        return whole

    @property
    def spectra(self) -> np.ndarray:
        """Powers (n, bins)."""
        return np.array(self._taken).reshape(-1, WINDOW_SAMPLES // 2 + 1)

    def push(self, samples: np.ndarray) -> None:
        """The next samples (n,) of the recording."""
        self._held = np.concatenate([self._held, samples])
        while self._next < self._until and self._next + WINDOW_SAMPLES <= self._position + len(self._held):
            self._take(self._held[self._next - self._position :][:WINDOW_SAMPLES])
            self._next = (self._next // (self._step * WINDOW_SAMPLES) + 1) * self._step * WINDOW_SAMPLES
        used = min(max(0, self._next - self._position), len(self._held))
        self._held, self._position = self._held[used:], self._position + used

    def ends_hz(self) -> float | None:
        """The frequency above which there is only rounding noise.

        None if sound reaches as high as the sample rate allows, fades without an edge, or is too quiet.
        """
        sounding_spectra = [spectrum for spectrum in self._taken if spectrum.any()]
        if not sounding_spectra:
            return None
        levels = 10.0 * np.log10(np.median(sounding_spectra, axis=0) + np.finfo(float).tiny)
        frequencies = np.fft.rfftfreq(WINDOW_SAMPLES, 1.0 / self._rate)
        sounding = np.flatnonzero(levels > ROUNDING_DB + DITHER_DB)
        if not len(sounding) or frequencies[sounding[-1]] >= COMPLETE_SHARE * self._rate:
            return None
        end_hz = float(frequencies[sounding[-1]])
        below, above = np.interp([end_hz / EDGE_RATIO, end_hz * EDGE_RATIO], frequencies, levels)
        return end_hz if below - above >= EDGE_FALL_DB else None

    def _take(self, window: np.ndarray) -> None:
        silent = window.min() == window.max()
        powers = np.abs(np.fft.rfft(window * self._shape)) ** 2
        self._taken.append(np.zeros_like(powers) if silent else powers)
        if len(self._taken) == SPECTRA:
            self._taken, self._step = self._taken[::2], 2 * self._step


def _step_in(n_samples: int) -> int:
    """Distance of spectra in windows once a recording of this many samples has been processed.

    >>> _step_in(255 * WINDOW_SAMPLES), _step_in(256 * WINDOW_SAMPLES), _step_in(511 * WINDOW_SAMPLES)
    (1, 2, 4)
    """
    step = 1
    while -(-(n_samples // WINDOW_SAMPLES) // step) >= SPECTRA:
        step *= 2
    return step


def remark_on_bandwidth(sample_rate: int, ends_hz: float | None, listens_hz: float) -> str | None:
    """A remark on a recording (`Bandwidth.ends_hz`) that ends below the upper limit of a model, `listens_hz`, or None.

    >>> remark_on_bandwidth(8000, None, 10000.0)[:78]
    'ends at 4000 Hz (sample rate 8000 Hz), but the model uses sound up to 10000 Hz'
    >>> remark_on_bandwidth(44100, None, 10000.0)
    """
    if COMPLETE_SHARE * sample_rate < CLEAR_LACK * listens_hz and ends_hz is None:
        ends = f"ends at {sample_rate / 2:.0f} Hz (sample rate {sample_rate} Hz)"
    elif ends_hz is not None and ends_hz < CLEAR_LACK * listens_hz:
        ends = f"holds no sound above {ends_hz:.0f} Hz (resampled from a lower rate, or compressed)"
    else:
        return None
    return (
        f"{ends}, but the model uses sound up to {listens_hz:.0f} Hz: higher notes are missed or mistaken for others; "
        "train on examples from such recordings"
    )
