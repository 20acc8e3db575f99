"""The frequency bounds of a note, from its level in each band.

Three numbers are kept for every frame above the noise floor: the level of its loudest band, and the lowest and highest
frequency of the bands nearly as loud. They are stored with the scores, so that whatever span is later decided to be a
note has its bounds.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

import numpy as np

from outlark.features.base import Frames
from outlark.features.spectrum import EXPONENT, HIGHEST_SHARE, Spectrum
from outlark.segments import Segment
from outlark.verdict_names import SILENCE

#: Bands at most this far below the loudest of their frame belong to the sound. In dB, like all levels here.
WITHIN_DB = 20.0
#: Frames at most this far below the loudest of their note determine its bounds.
LOUD_DB = 20.0
#: This share of them may reach beyond each bound: a click, or another bird for a moment.
OUTSIDE = 0.1
#: The level of a frame within the noise floor.
NOTHING = -1000.0


def spans_of(frames: Frames, spectrum: Spectrum) -> np.ndarray:
    """Level (whole dB), lowest and highest frequency (Hz) of each frame, (T, 3) float32.

    Parameters
    ----------
    frames : Frames
        Whose features are spectra above the noise floor (T, n_bands).
    spectrum : Spectrum
        That gave them.

    >>> from outlark.features.spectrum import SpectrumSettings
    >>> spectrum = Spectrum(SpectrumSettings(n_bands=4, low_hz=1000.0, high_hz=32000.0), sample_rate=96000)
    >>> features = np.array([[0.0, 1.0, 0.5, 0.1], [0.0, 0.0, 0.0, 0.0]])
    >>> spans_of(Frames(features, np.array([9.0, -3.0])), spectrum).round().tolist()
    [[0.0, 2828.0, 11314.0], [-1000.0, 0.0, 0.0]]
    """
    edges = band_edges(spectrum)
    found = np.zeros((len(frames), 3), dtype=np.float32)
    found[:, 0] = NOTHING
    peaks = frames.features.max(axis=1, initial=0.0)
    heard = np.flatnonzero((frames.activity > 0.0) & (peaks > 0.0))
    if not len(heard):
        return found
    features, peaks = frames.features[heard], peaks[heard]
    # features grow with the power γ of the power
    near = features >= (10.0 ** (-EXPONENT * WITHIN_DB / 10.0) * peaks)[:, np.newaxis]
    found[heard, 0] = np.round(10.0 / EXPONENT * np.log10(peaks))
    found[heard, 1] = edges[near.argmax(axis=1)]
    found[heard, 2] = edges[near.shape[1] - near[:, ::-1].argmax(axis=1)]
    return found


def band_edges(spectrum: Spectrum) -> np.ndarray:
    """The limits between bands: half way, in pitch, between their centres, (n_bands + 1,) in Hz."""
    settings = spectrum.settings
    highest = min(settings.high_hz, HIGHEST_SHARE * spectrum.sample_rate)
    middles = np.geomspace(settings.low_hz, highest, settings.n_bands + 2)
    return np.sqrt(middles[:-1] * middles[1:])


def bounds_of(spans: np.ndarray) -> tuple[float, float] | None:
    """Lowest and highest frequency of a note, in whole Hz, from the spans (n, 3) of its frames; None without sound.

    >>> bounds_of(np.array([[-30.0, 2000.0, 5000.0], [-60.0, 500.0, 9000.0], [NOTHING, 0.0, 0.0]]))
    (2000.0, 5000.0)
    """
    levels = spans[:, 0]
    loud = spans[(levels > NOTHING) & (levels >= levels.max(initial=NOTHING) - LOUD_DB)]
    if not len(loud):
        return None
    # quantiles, rounded outwards; np.quantile takes ten times as long for so few
    last = len(loud) - 1
    low, high = np.sort(loud[:, 1])[int(OUTSIDE * last)], np.sort(loud[:, 2])[ceil((1.0 - OUTSIDE) * last)]
    return float(np.round(low)), float(np.round(high))


class BoundsStream:
    """Adds bounds to segments as they become final, from the spans of frames.

    Parameters
    ----------
    hop_samples, offset_samples : int
        Frame k covers the samples ``offset + k·hop … offset + (k + 1)·hop``.
    """

    def __init__(self, hop_samples: int, offset_samples: int) -> None:
        self._hop, self._offset = hop_samples, offset_samples
        self._n_frames = 0
        # numbers and spans of frames with sound: silence, which may last for hours, takes no memory
        self._held: list[tuple[np.ndarray, np.ndarray]] = []

    def push(self, spans: np.ndarray | None) -> None:
        """Spans of the next frames; None if the front end has no bands."""
        if spans is not None:
            heard = np.flatnonzero(spans[:, 0] > NOTHING)
            self._held.append((heard + self._n_frames, spans[heard]))
            self._n_frames += len(spans)

    def on(self, segments: Iterable[Segment]) -> list[Segment]:
        """The segments, in order, with their bounds; silence has none."""
        listed = list(segments)
        if not listed or not self._held:
            return listed
        numbers, spans = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        ends = np.searchsorted(numbers, [[self._frame(s.start), self._frame(s.end)] for s in listed])
        found = []
        for segment, (first, end) in zip(listed, ends.tolist(), strict=True):
            bounds = None if segment.verdict == SILENCE else bounds_of(spans[first:end])
            found.append(segment if bounds is None else replace(segment, low_hz=bounds[0], high_hz=bounds[1]))
        used = int(ends[-1, 1])
        self._held = [(numbers[used:].copy(), spans[used:].copy())]
        return found

    def _frame(self, sample: int) -> int:
        """The first frame whose span begins at this sample or later."""
        return max(0, -(-(sample - self._offset) // self._hop))
