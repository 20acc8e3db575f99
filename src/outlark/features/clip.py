"""Clips that each hold one note, for `NoteClassifier`: described by spectra, or by an embedding.

Calls of one kind differ in pitch from bird to bird, and are cut differently. So a clip is described like a whole note
(`NoteFrontEnd.describe`) several times, cropped and shifted in pitch: its *views*. Bands are narrow, and lie where the
training clips have their energy.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outlark.audio.clips import Sound
from outlark.audio.sound import check_sample_rate
from outlark.errors import InputError
from outlark.estimators.open_set import check_count
from outlark.features.base import HIGHEST_SHARE
from outlark.features.note import ROUNDING, Spectrum, SpectrumSettings, above, root_of_change

#: Energy is searched for from here to `HIGHEST_SHARE` of the sample rate.
LOWEST_HZ = 150.0
#: This share of the sound of the training clips may lie below the bands, and as much above; see `_profile`.
OUTSIDE = 0.1
#: Octaves that the bands reach beyond that, and their least total width.
MARGIN, NARROWEST = 0.5, 1.0
LEAST_BANDS = 8
#: Quantile of the levels of a band that is taken as its noise floor.
FLOOR_QUANTILE = 0.1


class Range(NamedTuple):
    """The range of the bands in Hz."""

    low_hz: float
    high_hz: float


class ClipFrontEnd(BaseEstimator):
    """From a clip to the descriptions of its views.

    Parameters
    ----------
    window_s, hop_s : float
        Length of the (Hann) window, and distance between windows.
    low_hz, high_hz : float, optional
        Range of the bands; by default learnt from the training clips.
    bands_per_octave : int
        24 is a band per quarter tone.
    n_slices, change
        As in `NoteFrontEnd`.
    crops : sequence of (float, float)
        Start and end in shares of the length of the clip; beyond its ends is silence.
    shifts : sequence of int
        Bands to shift up or down.

    Attributes
    ----------
    range_ : Range
    n_bands_ : int
    sample_rate_ : int

    Examples
    --------
    >>> tone = np.sin(2 * np.pi * 3000 / 22050 * np.arange(2205)) * np.hanning(2205)
    >>> front_end = ClipFrontEnd().fit([tone], ["tone"], sample_rate=22050)
    >>> [round(hz) for hz in front_end.range_]
    [2014, 4522]
    >>> front_end.views(tone).shape
    (35, 224)
    """

    def __init__(
        self,
        window_s: float = 0.016,
        hop_s: float = 0.002,
        *,
        low_hz: float | None = None,
        high_hz: float | None = None,
        bands_per_octave: int = 24,
        n_slices: int = 8,
        change: float = 1.0,
        crops: Sequence[tuple[float, float]] = ((0.0, 1.0), (-0.1, 1.1), (0.1, 0.9), (-0.1, 0.9), (0.1, 1.1)),
        shifts: Sequence[int] = (0, -4, -2, -1, 1, 2, 4),
    ) -> None:
        self.window_s = window_s
        self.hop_s = hop_s
        self.low_hz = low_hz
        self.high_hz = high_hz
        self.bands_per_octave = bands_per_octave
        self.n_slices = n_slices
        self.change = change
        self.crops = crops
        self.shifts = shifts

    def fit(self, clips: Sequence[np.ndarray], labels: Sequence[Any], sample_rate: int) -> Self:
        """Find where the clips (n,), all at `sample_rate`, have their energy; all classes weigh the same."""
        self._check_parameters()
        self.sample_rate_ = check_sample_rate(sample_rate)
        low, high = self._widest()
        if self.low_hz is None or self.high_hz is None:
            wide = self._spectrum(low, high, self._bands_between(low, high))
            low, high = energy_range(np.array([_profile(wide, clip) for clip in clips]), np.array(labels), low, high)
        self.range_ = Range(low if self.low_hz is None else self.low_hz, high if self.high_hz is None else self.high_hz)
        self.n_bands_ = max(LEAST_BANDS, self._bands_between(*self.range_))
        # wider by the shifts, so that sound and not silence is shifted in
        step, self._reach = 2.0 ** (1.0 / self.bands_per_octave), max(abs(shift) for shift in self.shifts)
        self._shifted = self._spectrum(
            self.range_.low_hz / step**self._reach,
            self.range_.high_hz * step**self._reach,
            self.n_bands_ + 2 * self._reach,
        )
        here, next_one = root_of_change(self.n_slices, self.change)
        self._root = np.diag(here) + np.diag(next_one, 1)
        return self

    def views(self, clip: np.ndarray) -> np.ndarray:
        """The clip (n,) in each crop and shift, ``(n_crops·n_shifts, n_slices·n_bands_)``; 0 without sound."""
        check_is_fitted(self)
        levels = self._shifted.levels_of(clip)
        slices = self._slices(above(levels, _floor(levels)))
        changed, of_one = self._root @ slices, self._root.sum(axis=1)
        found = np.empty((len(slices), len(self.shifts), self.n_slices, self.n_bands_))
        for k, shift in enumerate(self.shifts):
            own = slice(self._reach + shift, self._reach + shift + self.n_bands_)
            means = slices[:, :, own].mean(axis=(1, 2))
            x = changed[:, :, own] - means[:, np.newaxis, np.newaxis] * of_one[:, np.newaxis]
            lengths = np.sqrt(np.einsum("ijk,ijk->i", x, x))
            factors = np.divide(1.0, lengths, out=np.zeros(len(x)), where=lengths > ROUNDING * means)
            found[:, k] = factors[:, np.newaxis, np.newaxis] * x
        return found.reshape(len(self.crops) * len(self.shifts), -1)

    def _slices(self, spectra: np.ndarray) -> np.ndarray:
        """The sum over each slice of each crop, (n_crops, n_slices, n_bands)."""
        n = len(spectra)
        starts, ends = np.array(self.crops, dtype=float).T[:, :, np.newaxis]
        edges = np.clip(n * (starts + (ends - starts) * np.arange(self.n_slices + 1) / self.n_slices), 0.0, n)
        sums = np.concatenate([np.zeros((1, spectra.shape[1])), np.cumsum(spectra, axis=0)])
        whole = np.minimum(edges.astype(int), n - 1)
        return np.diff(sums[whole] + (edges - whole)[:, :, np.newaxis] * spectra[whole], axis=1)

    def _check_parameters(self) -> None:
        check_count("bands_per_octave", self.bands_per_octave)
        for start, end in self.crops:
            if not start < end:
                raise InputError(f"crops hold {(start, end)!r}; give (start, end) with start < end, such as (0, 1)")
        if not len(self.crops) or not len(self.shifts):
            raise InputError("crops or shifts is empty; give at least ((0, 1),) and (0,)")

    def _widest(self) -> Range:
        highest = HIGHEST_SHARE * self.sample_rate_
        return Range(min(LOWEST_HZ, highest / 4), highest)

    def _bands_between(self, low_hz: float, high_hz: float) -> int:
        return round(self.bands_per_octave * float(np.log2(high_hz / low_hz)))

    def _spectrum(self, low_hz: float, high_hz: float, n_bands: int) -> Spectrum:
        settings = SpectrumSettings(
            window_s=self.window_s, hop_s=self.hop_s, low_hz=low_hz, high_hz=high_hz, n_bands=n_bands
        )
        return Spectrum(settings, self.sample_rate_)


class EmbeddedClips:
    """Clips described by an embedding in place of spectra: ``embedding(samples, sample_rate)`` → vector (d,).

    `n_features_` is d, known once something was embedded.

    >>> clips = EmbeddedClips(lambda samples, rate: [samples.mean(), 1.0])
    >>> clips.views(Sound(np.array([2.0]), 22050)).round(3)
    array([[0.894, 0.447]])
    """

    def __init__(self, embedding: Callable[[np.ndarray, int], ArrayLike]) -> None:
        self._embedding = embedding
        self.n_features_: int | None = None

    def views(self, sound: Sound) -> np.ndarray:
        """The embedding of a sound, scaled to length 1, (1, d); 0 for silence."""
        if not np.any(sound.samples):
            return np.zeros((1, self.n_features_ or 1))
        vector: Any = np.asarray(self._embedding(*sound), dtype=float)
        length = float(np.linalg.norm(vector))
        if vector.ndim != 1 or not 0.0 < length < np.inf:
            raise InputError(
                f"the embedding gives {vector!r:.60} of shape {vector.shape} for {len(sound.samples)} samples at "
                f"{sound.rate} Hz; it must give a vector (d,) of finite numbers, not all 0"
            )
        if self.n_features_ not in (None, len(vector)):
            raise InputError(f"the embedding gives {len(vector)} numbers, before it gave {self.n_features_}")
        self.n_features_ = len(vector)
        return vector[np.newaxis] / length


def energy_range(profiles: np.ndarray, labels: np.ndarray, low_hz: float, high_hz: float) -> Range:
    """The range that holds most of the sound of clips, with a margin.

    `profiles` (n_clips, n_bands) are shares in bands evenly spaced in pitch from `low_hz` to `high_hz`. The median over
    the clips of a class counts, so that wind in some clips does not.

    >>> profiles = np.zeros((1, 100))
    >>> profiles[0, 50:60] = 1.0
    >>> [round(hz) for hz in energy_range(profiles, np.array(["A"]), 100.0, 10000.0)]
    [707, 2241]
    """
    classes = [np.median(profiles[labels == label], axis=0) for label in np.unique(labels)]
    shares = np.sum([share / share.sum() for share in classes if share.any()], axis=0)
    if not np.any(shares):
        return Range(low_hz, high_hz)
    up_to = np.cumsum(shares) / shares.sum()
    ends = np.searchsorted(up_to, [OUTSIDE, 1.0 - OUTSIDE]) + np.array([0, 1])
    octaves = np.log2(high_hz / low_hz) * ends / len(up_to)
    middle, width = octaves.mean(), max(float(octaves[1] - octaves[0]) + 2 * MARGIN, NARROWEST)
    return Range(
        max(low_hz, float(low_hz * 2.0 ** (middle - width / 2))),
        min(high_hz, float(low_hz * 2.0 ** (middle + width / 2))),
    )


def _floor(levels: np.ndarray) -> np.ndarray:
    """The noise floor of each band in dB, (n_bands,); at most the median of all levels, for bands that always sound."""
    return np.minimum(np.quantile(levels, FLOOR_QUANTILE, axis=0), np.median(levels))


def _profile(spectrum: Spectrum, clip: np.ndarray) -> np.ndarray:
    """The share of the sound of a clip in each band, (n_bands,).

    Measured by the rise above the noise in dB, to the fourth power, so that a call outweighs wind and traffic, which
    have more energy.
    """
    levels = spectrum.levels_of(clip)
    rise = np.maximum(spectrum.rise(levels, _floor(levels)) - spectrum.noise_db, 0.0)
    share = (rise**4).mean(axis=0)
    return share / share.sum() if share.any() else share
