"""The exact onset and end of a note, by the spectra around its edges in the training notes; its frequency bounds.

The description of a whole note hardly changes if it is taken a few milliseconds earlier or longer. The few spectra
around an edge change a lot.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from outlark.features.base import HIGHEST_SHARE, Frames
from outlark.features.note import EXPONENT, ROUNDING, Spectrum
from outlark.segments import SILENCE, Segment

#: Spectra compared on each side of an edge.
LOOK = 12
#: An edge moves by this many frames at most.
MAX_EDGE_SHIFT = 5
#: Moves, the smallest first: of equals the first is taken.
MOVES = np.array(sorted(range(-MAX_EDGE_SHIFT, MAX_EDGE_SHIFT + 1), key=abs))


@dataclass(frozen=True, eq=False)
class Edges:
    """What the onsets and ends of the notes of each class look like."""

    #: Mean of the spectra around the edges of the training notes, each without its mean and of length 1. Either `LOOK`
    #: spectra before the edge and as many after it, n = 2·LOOK + 1, or for clips only those inside the note, n = LOOK +
    #: 1. The ends of clips then stay where they are: clips are cut somewhere in the echo, (C, n, n_bands).
    starts: np.ndarray
    ends: np.ndarray

    def moves(self, spectra: np.ndarray, starts: np.ndarray, ends: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """By how many frames to move the onset and end of notes to match those of their class best, (N, 2) of int.

        Starts, ends and classes are (N,) of int; outside the spectra (T, n_bands) there is silence.

        >>> spectra = np.zeros((60, 3))
        >>> spectra[20:40, 1] = 1.0
        >>> edges = Edges(edge_patches(spectra, [20.0], True), edge_patches(spectra, [40.0], False))
        >>> edges.moves(spectra, np.array([22]), np.array([37]), np.array([0]))
        array([[-2,  3]])
        """
        found, inside = np.zeros((len(starts), 2), dtype=np.int64), self.starts.shape[1] == LOOK + 1
        # from the first spectrum compared to the last
        reach = LOOK + MAX_EDGE_SHIFT
        low, high = int(min(starts.min(), ends.min())) - reach, int(max(starts.max(), ends.max())) + reach
        around = _between(spectra, low, high + 1)
        powers = around.sum(axis=1), (around**2).sum(axis=1)
        for c in np.unique(classes):
            rows = np.flatnonzero(classes == c)
            found[rows, 0] = _best_moves(around, powers, self.starts[c], _first(True, inside), starts[rows] - low)
            if not inside:
                found[rows, 1] = _best_moves(around, powers, self.ends[c], _first(False, inside), ends[rows] - low)
        return found


def learn_edges(
    edges_of: Sequence[tuple[np.ndarray, float, float, Any]], classes: Sequence[Any], *, inside: bool
) -> Edges:
    """The edges of training notes, given as spectra of the recording, onset and end in frames, and class.

    With `inside`, the surroundings of the notes are unknown.
    """
    of_class = [[note for note in edges_of if note[3] == label] for label in classes]
    starts = [edge_means([(s, a) for s, a, _, _ in notes], True, inside=inside) for notes in of_class]
    ends = [edge_means([(s, b) for s, _, b, _ in notes], False, inside=inside) for notes in of_class]
    return Edges(np.array(starts), np.array(ends))


def edge_means(edges: Sequence[tuple[np.ndarray, float]], at_start: bool, *, inside: bool) -> np.ndarray:
    """The mean of the spectra around edges, given as spectra and frame, (n, n_bands)."""
    return np.mean([edge_patches(s, [at], at_start, inside=inside)[0] for s, at in edges], axis=0)


def edge_patches(spectra: np.ndarray, edges: Sequence[float], at_start: bool, *, inside: bool = False) -> np.ndarray:
    """The spectra around each edge, without their mean and of length 1, (N, n, n_bands); 0 if flat."""
    first = _first(at_start, inside)
    around = first + np.arange(LOOK + 1 if inside else 2 * LOOK + 1)
    rows = np.rint(np.asarray(edges, dtype=float)[:, np.newaxis] + around).astype(int)
    patches = np.where(_there(rows, spectra)[..., np.newaxis], spectra[np.clip(rows, 0, len(spectra) - 1)], 0.0)
    return unit_rows(patches.reshape(len(patches), -1)).reshape(patches.shape)


def _between(spectra: np.ndarray, low: int, high: int) -> np.ndarray:
    """Spectra low … high - 1, with silence outside."""
    before, after = np.clip([-low, high - len(spectra)], 0, high - low)
    inside = spectra[max(low, 0) : max(high, 0)]
    return np.pad(inside, ((before, after), (0, 0))) if before or after else inside


def _best_moves(
    around: np.ndarray, powers: tuple[np.ndarray, np.ndarray], patch: np.ndarray, first: int, edges: np.ndarray
) -> np.ndarray:
    """For each edge (N,) the move whose surroundings match the patch (n, n_bands), of mean 0, best.

    `around` are all spectra it can be compared with, `powers` the sum of each and of its squares, (T,) both.
    """
    low = int(edges.min()) - MAX_EDGE_SHIFT + first
    span = slice(low, int(edges.max()) + MAX_EDGE_SHIFT + first + len(patch))
    # every spectrum with every row of the patch, then the diagonals: no copy of the spectra for every place
    products = around[span] @ patch.T
    row, column = products.strides
    n_places = len(products) - len(patch) + 1
    shared = as_strided(products, (n_places, len(patch)), (row, row + column), writeable=False).sum(axis=1)
    total, squares = (sliding_window_view(power[span], len(patch)).sum(axis=1) for power in powers)
    spread = squares - total**2 / patch.size
    alike = np.divide(
        shared, np.sqrt(np.maximum(spread, 0.0)), out=np.zeros(n_places), where=spread > ROUNDING * squares
    )
    places = edges[:, np.newaxis] + MOVES + first - low
    return MOVES[alike[places].argmax(axis=1)]


def _first(at_start: bool, inside: bool) -> int:
    """Where the spectra of an edge begin, in frames after the edge."""
    return 0 if inside and at_start else -LOOK


def _there(rows: np.ndarray, spectra: np.ndarray) -> np.ndarray:
    return (rows >= 0) & (rows < len(spectra))


#: Bands at most this far below the loudest of their frame belong to the sound. In dB, like all levels here.
WITHIN_DB = 20.0
#: Frames at most this far below the loudest of their note determine its bounds.
LOUD_DB = 20.0
#: This share of them may reach beyond each bound: a click, or another bird for a moment.
BEYOND_SHARE = 0.1
#: The level of a frame within the noise floor.
NO_SOUND = -1000.0


def spans_of(frames: Frames, spectrum: Spectrum) -> np.ndarray:
    """Level of the loudest band (whole dB), lowest and highest frequency (Hz) of the bands nearly as loud, (T, 3).

    The features of the frames are spectra above the noise floor (T, n_bands). Stored with the scores as float32, so
    that whatever span is later decided to be a note has its frequency bounds.

    >>> from outlark.features.note import SpectrumSettings
    >>> spectrum = Spectrum(SpectrumSettings(n_bands=4, low_hz=1000.0, high_hz=32000.0), sample_rate=96000)
    >>> features = np.array([[0.0, 1.0, 0.5, 0.1], [0.0, 0.0, 0.0, 0.0]])
    >>> spans_of(Frames(features, np.array([9.0, -3.0])), spectrum).round().tolist()
    [[0.0, 2828.0, 11314.0], [-1000.0, 0.0, 0.0]]
    """
    edges = band_edges(spectrum)
    found = np.zeros((len(frames), 3), dtype=np.float32)
    found[:, 0] = NO_SOUND
    peaks = frames.features.max(axis=1, initial=0.0)
    sounding = np.flatnonzero((frames.activity > 0.0) & (peaks > 0.0))
    if not len(sounding):
        return found
    features, peaks = frames.features[sounding], peaks[sounding]
    # features grow with the power γ of the power
    near = features >= (10.0 ** (-EXPONENT * WITHIN_DB / 10.0) * peaks)[:, np.newaxis]
    found[sounding, 0] = np.round(10.0 / EXPONENT * np.log10(peaks))
    found[sounding, 1] = edges[near.argmax(axis=1)]
    found[sounding, 2] = edges[near.shape[1] - near[:, ::-1].argmax(axis=1)]
    return found


def band_edges(spectrum: Spectrum) -> np.ndarray:
    """The limits between bands: half way, in pitch, between their centres, (n_bands + 1,) in Hz."""
    settings = spectrum.settings
    highest = min(settings.high_hz, HIGHEST_SHARE * spectrum.sample_rate)
    middles = np.geomspace(settings.low_hz, highest, settings.n_bands + 2)
    return np.sqrt(middles[:-1] * middles[1:])


def bounds_of(spans: np.ndarray) -> tuple[float, float] | None:
    """Lowest and highest frequency of a note, in whole Hz, from the spans (n, 3) of its frames; None without sound.

    >>> bounds_of(np.array([[-30.0, 2000.0, 5000.0], [-60.0, 500.0, 9000.0], [NO_SOUND, 0.0, 0.0]]))
    (2000.0, 5000.0)
    """
    levels = spans[:, 0]
    loud = spans[(levels > NO_SOUND) & (levels >= levels.max(initial=NO_SOUND) - LOUD_DB)]
    if not len(loud):
        return None
    # quantiles, rounded outwards; np.quantile takes ten times as long for so few
    last = len(loud) - 1
    low, high = np.sort(loud[:, 1])[int(BEYOND_SHARE * last)], np.sort(loud[:, 2])[ceil((1.0 - BEYOND_SHARE) * last)]
    return float(np.round(low)), float(np.round(high))


class BoundsStream:
    """Adds frequency bounds to segments as they become final, from the spans of frames."""

    def __init__(self, hop_samples: int, offset_samples: int) -> None:
        self._hop, self._offset = hop_samples, offset_samples
        self._n_frames = 0
        # numbers and spans of frames with sound: silence, which may last for hours, takes no memory
        self._held: list[tuple[np.ndarray, np.ndarray]] = []

    def push(self, spans: np.ndarray | None) -> None:
        """Spans of the next frames; None if the front end has no bands."""
        if spans is not None:
            sounding = np.flatnonzero(spans[:, 0] > NO_SOUND)
            self._held.append((sounding + self._n_frames, spans[sounding]))
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


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows (T, d) without their mean, scaled to length 1; constant rows, such as silence, become 0.

    >>> unit_rows(np.array([[1.0, 3.0], [0.0, 0.0], [0.7, 0.7]])).round(2)
    array([[-0.71,  0.71],
           [ 0.  ,  0.  ],
           [ 0.  ,  0.  ]])
    """
    means = rows.mean(axis=1, keepdims=True)
    shapes = rows - means
    lengths = np.sqrt(np.einsum("ij,ij->i", shapes, shapes))[:, np.newaxis]
    shaped = lengths > ROUNDING * np.abs(means)
    return np.where(shaped, shapes, 0.0) / np.where(shaped, lengths, 1.0)
