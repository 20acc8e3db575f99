r"""Patches: a frame is the shape of the sound around it, in time and pitch, whatever its loudness.

.. math:: p = \frac{v - \bar v}{‖v - \bar v‖},\quad v = (\bar a_1, …, \bar a_n);\qquad
          x = (V(p - μ),\ ‖(p - μ) - VᵀV(p - μ)‖)

with the mean spectra above the noise floor of n slices of equal length, and the mean μ and the principal components V
of the patches of the training notes (`outlark.features.components`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from outlark.audio.blocks import Reblock
from outlark.audio.framing import FrameStream
from outlark.audio.sound import check_sample_rate
from outlark.features.base import Frames, FrontEnd, joined
from outlark.features.channels import training_spans
from outlark.features.components import principal_components, projected
from outlark.features.noise_floor import check_seconds
from outlark.features.spectrum import (
    ROUNDING,
    Spectrum,
    SpectrumSettings,
    SpectrumSource,
    check_count,
    one_channel,
    unit_rows,
)
from outlark.segments import Segment

#: Patches that are made at once: the same blocks whatever came in, so the same numbers.
PATCHES_AT_ONCE = 64


class PatchFrontEnd(FrontEnd):
    """Each frame is a patch of the spectrogram around it: spectra above the noise floor, slices, unit length, PCA.

    Parameters
    ----------
    context_s : float
        The patch reaches from so many seconds before the middle of its frame to so many after it.
    n_slices : int
        Slices of equal length that the patch is averaged into.
    n_components : int
        Principal components that are kept; fewer if the training notes have fewer.
    step : int
        A patch for every so many spectra.
    window_s, hop_s, low_hz, high_hz, n_bands
        As in `SpectrumSettings`.

    Attributes
    ----------
    spectrum_ : Spectrum
    mean_ : ndarray (n_slices·n_bands,)
        μ
    components_ : ndarray (n_components, n_slices·n_bands)
        V
    those of `FrontEnd`; `n_features_` is the number of components and one more; `context_samples_` is that of the
    patch, the noise floor looks 13 s around

    Examples
    --------
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
    >>> clips = [np.pad(note.samples, 4000) for note in notes(counts={"tuti-F": 2})]
    >>> front_end = PatchFrontEnd().fit(clips, SAMPLE_RATE)
    >>> front_end.hop_samples_, front_end.components_.shape
    (88, (30, 480))
    >>> front_end.transform(clips[0][:8800]).features.shape
    (100, 31)
    """

    def __init__(
        self,
        context_s: float = 0.048,
        n_slices: int = 12,
        n_components: int = 30,
        *,
        step: int = 2,
        window_s: float = 0.016,
        hop_s: float = 0.002,
        low_hz: float = 500.0,
        high_hz: float = 10_000.0,
        n_bands: int = 40,
    ) -> None:
        self.context_s = context_s
        self.n_slices = n_slices
        self.n_components = n_components
        self.step = step
        self.window_s = window_s
        self.hop_s = hop_s
        self.low_hz = low_hz
        self.high_hz = high_hz
        self.n_bands = n_bands

    def fit(
        self,
        recordings: Sequence[np.ndarray],
        sample_rate: int,
        segments: Sequence[Sequence[Segment]] | None = None,
    ) -> Self:
        """Turn seconds into samples, and learn the principal components of the patches of the training notes.

        Patches that do not rise above the noise do not count, unless none does.

        Parameters
        ----------
        recordings : sequence of arrays (n,)
        sample_rate : int
        segments : for each recording the marked notes, optional
            Left out: each recording is one note.
        """
        self._set_lengths(sample_rate)
        signals = [one_channel(recording) for recording in recordings]
        spans = training_spans(signals, self.sample_rate_, segments)
        notes = joined([self._note_patches(x, some) for x, some in zip(signals, spans, strict=True)])
        heard = notes.activity > 0.0
        X = notes.features[heard] if heard.any() else notes.features
        self.mean_, self.components_ = principal_components(X, self.n_components)
        self.n_features_ = len(self.components_) + 1
        return self

    def stream(self) -> "PatchSource":
        """A fresh stream: `push` blocks of shape (n,), then `finish`; the same numbers whatever the blocks."""
        check_is_fitted(self)
        return PatchSource(self._patches(), self.mean_, self.components_)

    def _set_lengths(self, sample_rate: int) -> None:
        check_seconds("context_s", self.context_s)
        for name in ("n_slices", "n_components", "step"):
            check_count(name, getattr(self, name))
        self.sample_rate_ = check_sample_rate(sample_rate)
        spectrum = self.spectrum_ = Spectrum(SpectrumSettings.of(self), self.sample_rate_)
        self.hop_samples_, self.offset_samples_ = self.step * spectrum.hop, 0
        around = (len(self._weights()[0]) - self.step) // 2  # spectra before and after those of the frame itself
        before, after = spectrum.context
        self.context_samples_ = (around * spectrum.hop + before, around * spectrum.hop + after)
        self.delay_samples_ = spectrum.delay + spectrum.hop * (around + PATCHES_AT_ONCE * self.step)

    def _weights(self) -> np.ndarray:
        return slice_weights(self.context_s * self.spectrum_.frame_rate, self.n_slices, self.step)

    def _patches(self) -> "_Patches":
        return _Patches(SpectrumSource(self.spectrum_), self._weights(), self.step)

    def _note_patches(self, samples: np.ndarray, spans: Sequence[tuple[int, int]]) -> Frames:
        """The patches that speak for the notes of a recording."""
        wanted = np.zeros(-(-len(samples) // self.hop_samples_), dtype=bool)
        for start, end in spans:
            wanted[self.frame_at(start) : self.frame_at(end - 1) + 1] = True
        stream, at = self._patches(), 0
        taken = [_no_frames(self.n_slices * self.n_bands)]
        for patches in (*stream.push(samples), *stream.finish()):
            rows = np.flatnonzero(wanted[at : at + len(patches)])
            taken.append(Frames(patches.features[rows], patches.activity[rows]))
            at += len(patches)
        return joined(taken)


class PatchSource:
    """Frames of one recording; made by `PatchFrontEnd.stream`."""

    def __init__(self, patches: "_Patches", mean: np.ndarray, components: np.ndarray) -> None:
        self._patches, self._mean, self._components = patches, mean, components

    def push(self, samples: ArrayLike) -> Frames:
        """Samples (n,), as `mono` takes them, in; the frames that are ready out."""
        return self._described(self._patches.push(samples))

    def finish(self) -> Frames:
        """The rest of the frames."""
        return self._described(self._patches.finish())

    def _described(self, patches: Iterable[Frames]) -> Frames:
        parts = [Frames(projected(p.features, self._mean, self._components), p.activity) for p in patches]
        return joined([_no_frames(len(self._components) + 1), *parts])


class _Patches:
    """Samples in; patches of length 1, (T, n_slices·n_bands), and the mean activity of their own spectra out.

    They come in blocks whose sizes do not depend on the blocks that came in, so neither do products with them.
    """

    def __init__(self, spectra: SpectrumSource, weights: np.ndarray, step: int) -> None:
        self._spectra, self._weights, self._step = spectra, weights, step
        self._blocks = Reblock(PATCHES_AT_ONCE * step)
        self._windows = FrameStream(weights.shape[1], step)

    def push(self, samples: ArrayLike) -> Iterator[Frames]:
        return self._cut(self._spectra.push(samples))

    def finish(self) -> Iterator[Frames]:
        yield from self._cut(self._spectra.finish())
        rest = self._blocks.finish()
        if rest is not None:
            yield self._patches(self._windows.push(rest))
        windows = self._windows.finish()
        if len(windows):
            yield self._patches(windows)

    def _cut(self, spectra: Frames) -> Iterator[Frames]:
        # the last column tells what is there from the zeros around the recording
        packed = np.column_stack([*spectra, np.ones(len(spectra))])
        for block in self._blocks.push(packed):
            yield self._patches(self._windows.push(block))

    def _patches(self, windows: np.ndarray) -> Frames:
        """Windows (T, w, n_bands + 2) as patches."""
        slices = self._weights @ np.ascontiguousarray(windows[:, :, :-2])
        first = (windows.shape[1] - self._step) // 2
        own = np.ascontiguousarray(windows[:, first : first + self._step, -2:]).sum(axis=1)
        rows = slices.reshape(len(windows), slices.shape[1] * slices.shape[2])
        return Frames(unit_rows(rows), own[:, 0] / own[:, 1])


def slice_weights(context: float, n_slices: int, step: int) -> np.ndarray:
    """What each spectrum counts in each slice, (n_slices, step + 2·around): rows add up to 1.

    The patch is `context` spectra long on either side of the middle of the `step` spectra in the middle. A spectrum
    that lies across the edge of a slice counts by the part that lies within.

    >>> slice_weights(context=1.5, n_slices=2, step=2).round(2)
    array([[0.33, 0.67, 0.  , 0.  ],
           [0.  , 0.  , 0.67, 0.33]])
    """
    around = max(0, int(np.ceil(context - step / 2 - ROUNDING)))
    edges = around + step / 2 + context * np.linspace(-1.0, 1.0, n_slices + 1)[:, np.newaxis]
    spectra = np.arange(step + 2 * around)
    within = np.minimum(edges[1:], spectra + 1) - np.maximum(edges[:-1], spectra)
    return np.maximum(within, 0.0) * n_slices / (2.0 * context)


def _no_frames(width: int) -> Frames:
    return Frames(np.empty((0, width)), np.empty(0))
