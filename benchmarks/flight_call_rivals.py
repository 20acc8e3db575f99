"""What clips are told apart by elsewhere: nearest neighbour on MFCC, and spectrograms laid over each other."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from rival_detectors import correlations
from scipy.fft import dct

from outlark.features.note import NoteFrontEnd, Spectrum, SpectrumSettings

#: MFCC: bands, and coefficients of them that are kept.
N_BANDS, N_COEFFICIENTS = 40, 20


class MfccNeighbour:
    """Mean and spread over the clip of each coefficient, in units of their spread over the examples; 1-NN."""

    def fit(self, clips: Sequence[np.ndarray], labels: Sequence[Any], sample_rate: int) -> Self:
        settings = SpectrumSettings(window_s=0.023, hop_s=0.006, n_bands=N_BANDS)
        self._spectrum = Spectrum(settings, sample_rate)
        X = np.array([self._coefficients(clip) for clip in clips])
        self._mean, self._scale = X.mean(axis=0), X.std(axis=0) + 1e-9
        self._X, self._y, self.classes_ = (X - self._mean) / self._scale, np.array(labels), np.unique(labels)
        return self

    def class_scores(self, clips: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
        Z = (np.array([self._coefficients(clip) for clip in clips]) - self._mean) / self._scale
        distances = np.linalg.norm(Z[:, np.newaxis] - self._X, axis=2)
        return np.column_stack([-distances[:, self._y == label].min(axis=1) for label in self.classes_])

    def _coefficients(self, clip: np.ndarray) -> np.ndarray:
        levels = self._spectrum.levels_of(clip)
        found = dct(np.maximum(levels, levels.max() - 80.0), norm="ortho", axis=1)[:, 1 : N_COEFFICIENTS + 1]
        return np.concatenate([found.mean(axis=0), found.std(axis=0)])


class Templates:
    """The largest normalised cross-correlation of the spectra with those of any example, the shorter in the longer."""

    def fit(self, clips: Sequence[np.ndarray], labels: Sequence[Any], sample_rate: int) -> Self:
        self._front_end = NoteFrontEnd().fit([], sample_rate)
        self._examples = [self._front_end.transform(clip).features for clip in clips]
        self._y, self.classes_ = np.array(labels), np.unique(labels)
        return self

    def class_scores(self, clips: Sequence[np.ndarray], sample_rate: int) -> np.ndarray:
        spectra = [self._front_end.transform(clip).features for clip in clips]
        best = np.array([[_best(own, example) for example in self._examples] for own in spectra])
        return np.column_stack([best[:, self._y == label].max(axis=1) for label in self.classes_])


def _best(a: np.ndarray, b: np.ndarray) -> float:
    short, long = sorted((a, b), key=len)
    return float(correlations(long, short).max())
