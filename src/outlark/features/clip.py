"""Clips that each hold one note, as rows of features for any estimator: described by spectra, or by an embedding."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from outlark.audio.clips import Sound, loaded_sounds
from outlark.audio.sound import resample
from outlark.errors import InputError
from outlark.estimators.open_set import check_count
from outlark.features.base import HIGHEST_SHARE
from outlark.features.note import NoteFrontEnd, Spectrum, SpectrumSettings, above

#: Energy is searched for from here to `HIGHEST_SHARE` of the sample rate.
LOWEST_ENERGY_HZ = 150.0
#: This share of the sound of the training clips may lie below the bands, and as much above; see `_profile`.
SHARE_OUTSIDE = 0.1
#: Octaves that the bands reach beyond that, and their least total width.
MARGIN_OCTAVES, LEAST_OCTAVES = 0.5, 1.0
LEAST_BANDS = 8
#: Quantile of the levels of a band that is taken as its noise floor.
FLOOR_QUANTILE = 0.1
#: ``embedding(samples, sample_rate)`` → vector (d,).
Embedding = Callable[[np.ndarray, int], ArrayLike]


class ClipFeatures(TransformerMixin, BaseEstimator):
    """A transformer of clips with one note each, for a scikit-learn `Pipeline`.

    A clip is described as a whole note (`NoteFrontEnd.describe`), in narrow bands that lie where the training clips
    have their energy; or by an embedding. Rows have length 1, so loudness does not matter; a clip without sound is 0.

    Parameters
    ----------
    sample_rate : int, optional
        Of clips that are arrays; files have their own.
    embedding : callable, optional
        ``embedding(samples, sample_rate)`` → vector (d,), in place of spectra. `outlark.embeddings.BirdNET` is one.
    low_hz, high_hz : float, optional
        Range of the bands; by default learnt from the training clips.
    bands_per_octave : int
        24 is a band per quarter tone.
    n_slices, change
        As in `NoteFrontEnd`.

    Attributes
    ----------
    sample_rate_ : int
        The lowest of the training clips.
    front_end_ : NoteFrontEnd
        With the range of the bands; not with an embedding.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from outlark import MDDKM
    >>> from outlark.data.synthetic import SAMPLE_RATE, notes
    >>> known, new = notes(counts={"tuti-F": 5, "cach-D": 5}), notes(seed=1, counts={"tuti-F": 1, "cach-Z": 1})
    >>> model = make_pipeline(ClipFeatures(SAMPLE_RATE), MDDKM(outlier_label="unknown"))
    >>> model = model.fit([n.samples for n in known], [n.label for n in known])
    >>> model.predict([n.samples for n in new]).tolist()
    ['tuti-F', 'unknown']
    """

    def __init__(
        self,
        sample_rate: int | None = None,
        embedding: Embedding | None = None,
        *,
        low_hz: float | None = None,
        high_hz: float | None = None,
        bands_per_octave: int = 24,
        n_slices: int = 8,
        change: float = 1.0,
    ) -> None:
        self.sample_rate = sample_rate
        self.embedding = embedding
        self.low_hz = low_hz
        self.high_hz = high_hz
        self.bands_per_octave = bands_per_octave
        self.n_slices = n_slices
        self.change = change

    def fit(self, clips: Sequence[Any], y: Any = None) -> Self:
        """Find where the clips have their energy; with labels y, all classes weigh the same.

        Parameters
        ----------
        clips : sequence of arrays (n,) or (n, channels), paths, or `Sound`
        y : sequence, optional
            The class of each clip.
        """
        sounds = loaded_sounds(clips, self.sample_rate, "clips")
        if not sounds:
            raise InputError("no clips; give at least one")
        check_count("bands_per_octave", self.bands_per_octave)
        self.sample_rate_ = min(sound.rate for sound in sounds)
        self._widths: set[int] = set()
        if self.embedding is None:
            self._fit_bands(sounds, np.zeros(len(sounds)) if y is None else np.asarray(y))
        return self

    def transform(self, clips: Sequence[Any]) -> np.ndarray:
        """A row for each clip, (n, d)."""
        check_is_fitted(self)
        sounds = loaded_sounds(clips, self.sample_rate, "clips")
        if self.embedding is None:
            return np.array([self._described(self._at_rate(sound)) for sound in sounds])
        rows = [embedded(self.embedding, *sound) if np.any(sound.samples) else None for sound in sounds]
        widths = {len(row) for row in rows if row is not None} | self._widths
        if len(widths) > 1:
            raise InputError(f"the embedding gives vectors of {sorted(widths)} numbers; they must be equally long")
        self._widths = widths
        silence = np.zeros(next(iter(widths), 1))
        return np.array([silence if row is None else row for row in rows])

    def _fit_bands(self, sounds: Sequence[Sound], labels: np.ndarray) -> None:
        highest = HIGHEST_SHARE * self.sample_rate_
        low, high = min(LOWEST_ENERGY_HZ, highest / 4), highest
        if self.low_hz is None or self.high_hz is None:
            settings = SpectrumSettings(low_hz=low, high_hz=high, n_bands=self._n_bands(low, high))
            wide = Spectrum(settings, self.sample_rate_)
            profiles = np.array([_profile(wide, self._at_rate(sound)) for sound in sounds])
            low, high = energy_range(profiles, labels, low, high)
        low = low if self.low_hz is None else self.low_hz
        high = high if self.high_hz is None else self.high_hz
        front_end = NoteFrontEnd(low_hz=low, high_hz=high, n_bands=max(LEAST_BANDS, self._n_bands(low, high)))
        front_end.set_params(n_slices=self.n_slices, change=self.change, surroundings_s=0.0)
        self.front_end_ = front_end.fit([], self.sample_rate_)

    def _n_bands(self, low_hz: float, high_hz: float) -> int:
        return round(self.bands_per_octave * float(np.log2(high_hz / low_hz)))

    def _at_rate(self, sound: Sound) -> np.ndarray:
        return sound.samples if sound.rate == self.sample_rate_ else resample(*sound, self.sample_rate_)

    def _described(self, samples: np.ndarray) -> np.ndarray:
        levels = self.front_end_.spectrum_.levels_of(samples)
        spectra = above(levels, clip_floor(levels))
        return self.front_end_.describe(spectra, start=0.0, n_starts=1, length=float(len(spectra)))[0]


def embedded(embedding: Embedding, samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """The embedding of a sound, scaled to length 1, (d,).

    >>> embedded(lambda samples, rate: [samples.mean(), 1.0], np.array([2.0]), 22050).round(3)
    array([0.894, 0.447])
    """
    vector: Any = np.asarray(embedding(np.array(samples), sample_rate), dtype=float)
    length = float(np.linalg.norm(vector))
    if vector.ndim != 1 or not 0.0 < length < np.inf:
        raise InputError(
            f"the embedding gives {vector!r:.60} of shape {vector.shape} for {len(samples)} samples at {sample_rate} "
            "Hz; it must give a vector (d,) of finite numbers, not all 0"
        )
    return vector / length


def energy_range(profiles: np.ndarray, labels: np.ndarray, low_hz: float, high_hz: float) -> tuple[float, float]:
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
        return low_hz, high_hz
    up_to = np.cumsum(shares) / shares.sum()
    ends = np.searchsorted(up_to, [SHARE_OUTSIDE, 1.0 - SHARE_OUTSIDE]) + np.array([0, 1])
    octaves = np.log2(high_hz / low_hz) * ends / len(up_to)
    middle, width = octaves.mean(), max(float(octaves[1] - octaves[0]) + 2 * MARGIN_OCTAVES, LEAST_OCTAVES)
    lowest, highest = (float(low_hz * 2.0 ** (middle + side * width / 2)) for side in (-1, 1))
    return max(low_hz, lowest), min(high_hz, highest)


def clip_floor(levels: np.ndarray) -> np.ndarray:
    """The noise floor of each band in dB, (n_bands,); at most the median of all levels, for bands that always sound."""
    return np.minimum(np.quantile(levels, FLOOR_QUANTILE, axis=0), np.median(levels))


def _profile(spectrum: Spectrum, clip: np.ndarray) -> np.ndarray:
    """The share of the sound of a clip in each band, (n_bands,).

    Measured by the rise above the noise in dB, to the fourth power, so that a call outweighs wind and traffic, which
    have more energy.
    """
    levels = spectrum.levels_of(clip)
    rise = np.maximum(spectrum.rise(levels, clip_floor(levels)) - spectrum.noise_db, 0.0)
    share = (rise**4).mean(axis=0)
    return share / share.sum() if share.any() else share
