"""Clips scored in several views, cropped and shifted in pitch: what `flight_calls.py` measures.

Calls of one kind differ in pitch from bird to bird, and are cut differently. The score of a class is the best of any
view under a class model that was trained on the clips as they are.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from outlark import MDDKM
from outlark.audio.clips import Sound
from outlark.features.clip import ClipFeatures, clip_floor, embedded
from outlark.features.note import ROUNDING, Spectrum, SpectrumSettings, above, root_of_change

#: Start and end of each crop in shares of the length of a clip, and bands to shift up or down.
CROPS = ((0.0, 1.0), (-0.1, 1.1), (0.1, 0.9), (-0.1, 0.9), (0.1, 1.1))
SHIFTS = (0, -4, -2, -1, 1, 2, 4)
REACH = max(SHIFTS)
#: MDD-KM for descriptions of length 1. At ℓ = .7, two clips whose descriptions correlate by ¾ have a kernel of 1/e; any
#: value from .5 to 1.5 does about as well.
CLIP_SETTINGS: dict[str, Any] = {
    "metric": "euclidean",
    "sigma": 1.0,
    "sigma_reg": 0.1**0.5,
    "length_scale": 0.7,
    "balance": None,
    "threshold": 0.0,
}
#: Descriptions that are kept: more than the clips of a draw.
REMEMBERED = 500


class ClipViews:
    """From a clip to the descriptions of its views; what was worked out of late is remembered."""

    _learnt: ClassVar[dict[bytes, ClipFeatures]] = {}
    _seen: ClassVar[dict[tuple[Any, ...], np.ndarray]] = {}

    def fit(self, clips: Sequence[np.ndarray], labels: Sequence[Any], sample_rate: int) -> Self:
        key = b"".join(clip.tobytes() for clip in clips) + repr((list(labels), sample_rate)).encode()
        if key not in self._learnt:
            self._learnt.clear()
            self._learnt[key] = ClipFeatures(sample_rate).fit(clips, labels)
        features = self._learnt[key]
        front_end = features.front_end_
        self.range_ = front_end.band_hz
        # wider by the shifts, so that sound and not silence is shifted in
        step = 2.0 ** (REACH / features.bands_per_octave)
        self._n_slices, self._n_bands = front_end.n_slices, front_end.n_bands
        wide = {"low_hz": self.range_[0] / step, "high_hz": self.range_[1] * step, "n_bands": self._n_bands + 2 * REACH}
        self._spectrum = Spectrum(SpectrumSettings(**wide), sample_rate)
        here, next_one = root_of_change(self._n_slices, front_end.change)
        self._root = np.diag(here) + np.diag(next_one, 1)
        return self

    def views(self, clip: np.ndarray) -> np.ndarray:
        """The clip (n,) in each crop and shift, ``(n_crops·n_shifts, d)``; the first is the clip as it is."""
        key = (*self.range_, clip.tobytes())
        if key not in self._seen:
            if len(self._seen) > REMEMBERED:
                self._seen.clear()
            self._seen[key] = self._views(clip)
        return self._seen[key]

    def _views(self, clip: np.ndarray) -> np.ndarray:
        levels = self._spectrum.levels_of(clip)
        slices = self._slices(above(levels, clip_floor(levels)))
        changed, of_one = self._root @ slices, self._root.sum(axis=1)
        found = np.empty((len(CROPS), len(SHIFTS), self._n_slices, self._n_bands))
        for k, shift in enumerate(SHIFTS):
            own = slice(REACH + shift, REACH + shift + self._n_bands)
            means = slices[:, :, own].mean(axis=(1, 2))
            x = changed[:, :, own] - means[:, np.newaxis, np.newaxis] * of_one[:, np.newaxis]
            lengths = np.sqrt(np.einsum("ijk,ijk->i", x, x))
            factors = np.divide(1.0, lengths, out=np.zeros(len(x)), where=lengths > ROUNDING * means)
            found[:, k] = factors[:, np.newaxis, np.newaxis] * x
        return found.reshape(len(CROPS) * len(SHIFTS), -1)

    def _slices(self, spectra: np.ndarray) -> np.ndarray:
        """The sum over each slice of each crop, (n_crops, n_slices, n_bands)."""
        n = len(spectra)
        starts, ends = np.array(CROPS).T[:, :, np.newaxis]
        edges = np.clip(n * (starts + (ends - starts) * np.arange(self._n_slices + 1) / self._n_slices), 0.0, n)
        sums = np.concatenate([np.zeros((1, spectra.shape[1])), np.cumsum(spectra, axis=0)])
        whole = np.minimum(edges.astype(int), n - 1)
        return np.diff(sums[whole] + (edges - whole)[:, :, np.newaxis] * spectra[whole], axis=1)


class BestView:
    """The best score of any view, or that of an embedding, which has one view."""

    def __init__(self, class_model: Any = None, embedding: Callable[[np.ndarray, int], Any] | None = None) -> None:
        self.class_model, self.embedding = class_model or MDDKM(**CLIP_SETTINGS), embedding

    def fit(self, clips: Sequence[np.ndarray], labels: Sequence[Any], sample_rate: int) -> Self:
        self._views = ClipViews()
        if self.embedding is None:
            self._views.fit(clips, labels, sample_rate)
        X = np.array([self._of(Sound(clip, sample_rate))[0] for clip in clips])
        with warnings.catch_warnings():  # about single notes: thresholds are not used
            warnings.simplefilter("ignore", UserWarning)
            self.class_model.fit(X, labels, groups=np.arange(len(X)))
        self.classes_ = self.class_model.classes_
        return self

    def class_scores(self, clips: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
        views = [self._of(Sound(clip, sample_rate)) for clip in clips]
        scores = self.class_model.class_scores(np.concatenate(views))
        starts = np.cumsum([0, *(len(of_clip) for of_clip in views[:-1])])
        sounding = np.array([of_clip.any() for of_clip in views])
        return np.where(sounding[:, np.newaxis], np.maximum.reduceat(scores, starts, axis=0), 0.0)

    def _of(self, sound: Sound) -> np.ndarray:
        if self.embedding is None:
            return self._views.views(sound.samples)
        return embedded(self.embedding, *sound)[np.newaxis]
