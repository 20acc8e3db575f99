"""Class scores of consecutive frames, what it takes to decide on them, the regions in which there is something, and the
frequency bounds of what is found there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from outlark.errors import InputError
from outlark.features.base import HIGHEST_SHARE, Frames
from outlark.features.note import EXPONENT, Spectrum
from outlark.segments import SILENCE, Segment

#: The smallest number above 0: a class with a threshold of 0 or less accepts any score above 0.
TINY = float(np.nextafter(0.0, 1.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreLayout:
    """What stays the same along a stream of scores; arrays are (C,)."""

    #: Whether scores are those of notes that start in a frame, or of the frame itself.
    level: Literal["note", "frame"] = "note"
    classes: np.ndarray
    #: τ: the lowest score that each class accepts, of a note or of a frame; with a second stage, of both together.
    thresholds: np.ndarray
    #: Frame k covers the samples ``offset + k·hop … offset + (k + 1)·hop``.
    sample_rate: int
    hop_samples: int
    offset_samples: int
    #: Of the training notes of each class.
    shortest_s: np.ndarray
    longest_s: np.ndarray
    #: With a second stage: the score of the first one from which on a note is a candidate.
    candidate_thresholds: np.ndarray | None = None
    #: For scores of frames: the lowest mean score of a whole note of the class, if known.
    mean_thresholds: np.ndarray | None = None

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop_samples

    @property
    def lowest_scores(self) -> np.ndarray:
        """What a note or a frame has to score to be looked at, (C,)."""
        lowest = self.thresholds if self.candidate_thresholds is None else self.candidate_thresholds
        lowest = np.asarray(lowest, dtype=float)
        if not len(lowest) or np.isnan(lowest).any() or len(lowest) != len(self.classes):
            raise InputError(f"thresholds={lowest} for classes {self.classes}; give one number for each class")
        return np.maximum(lowest, TINY)


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """Scores of consecutive frames; its length is their number."""

    #: The score of the frame or, at note level, the best score of a note that starts here, (T, C).
    values: np.ndarray
    #: dB above the noise floor; infinite where it is not measured, (T,).
    activity: np.ndarray
    #: At note level: how many frames the best note that starts here lasts, (T, C) of int.
    lengths: np.ndarray | None = None
    #: At note level: by how many frames its onset and end move once its edges are refined, (T, C, 2) of int.
    moves: np.ndarray | None = None
    #: Level, lowest and highest frequency of each frame (`spans_of`), (T, 3) of float32.
    spans: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The arrays that there are, by name."""
        return {name: column for name, column in vars(self).items() if column is not None}

    def between(self, start: int, end: int) -> "ScoreBlock":
        """Frames start … end - 1, a copy: it neither shares memory with this block nor keeps it alive."""
        return ScoreBlock(**{name: column[start:end].copy() for name, column in self.columns.items()})

    @property
    def note_lengths(self) -> np.ndarray:
        """At note level: how many frames each note lasts once its edges are refined, (T, C) of int.

        >>> block = ScoreBlock(np.ones((1, 1)), np.zeros(1), np.array([[9]]), np.array([[[1, -2]]]))
        >>> block.note_lengths
        array([[6]])
        """
        assert self.lengths is not None
        return self.lengths if self.moves is None else self.lengths + self.moves[..., 1] - self.moves[..., 0]


def joined_scores(blocks: Sequence[ScoreBlock]) -> ScoreBlock:
    """Consecutive blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    columns: dict[str, list[np.ndarray]] = {}
    for block in blocks:
        for name, column in block.columns.items():
            columns.setdefault(name, []).append(column)
    return ScoreBlock(**{name: np.concatenate(parts) for name, parts in columns.items()})


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The scores of a whole recording: from `NoteDetector.scores`, for `NoteDetector.decide`."""

    layout: ScoreLayout
    block: ScoreBlock
    #: The length of the recording.
    n_samples: int

    @property
    def times_s(self) -> np.ndarray:
        """The middle of each frame, (T,)."""
        frames = np.arange(len(self.block)) + 0.5
        return (self.layout.offset_samples + frames * self.layout.hop_samples) / self.layout.sample_rate

    def check(self) -> None:
        """Refuse arrays that do not belong together, and numbers that are none; scores of a detector need no check."""
        layout, block = self.layout, self.block
        shape = (len(block), len(layout.classes))
        shapes = {"values": shape, "activity": shape[:1]}
        if layout.level == "note":
            shapes |= {"lengths": shape, "moves": (*shape, 2), "spans": (len(block), 3)}
        found = {name: np.shape(column) for name, column in block.columns.items()}
        expected = {name: shapes.get(name) for name in found}
        if found != expected or (layout.level == "note" and block.lengths is None):
            raise InputError(f"arrays of the shapes {found} for scores of {layout.level}s; expected {shapes}")
        if np.isnan(block.values).any() or np.isposinf(block.values).any() or np.isnan(block.activity).any():
            raise InputError("scores or activity with NaN, or infinite scores; look for them in the signal")
        if block.spans is not None and not np.isfinite(block.spans).all():
            raise InputError("spans with NaN or infinite numbers; take those of scores()")
        for whole in (block.lengths, block.moves):
            if whole is not None and whole.dtype.kind not in "iu":
                raise InputError("lengths and moves must be whole numbers of frames")
        if block.lengths is not None and block.lengths[block.values >= TINY].min(initial=1) < 1:
            raise InputError("lengths must be 1 or more where a note has a score")
        last = layout.offset_samples + (len(block) - 1) * layout.hop_samples
        if len(block) and self.n_samples <= last:
            raise InputError(
                f"n_samples={self.n_samples}, but the last of {len(block)} frames starts at sample {last}; give the "
                "length of the recording that the scores belong to"
            )


# ------------------------------------------------------------------------ regions


class Batch(NamedTuple):
    """Consecutive frames with whole regions only."""

    #: Number of the first frame, counted from the start of the stream.
    start: int
    block: ScoreBlock
    #: First frame of each region and the one after its last, counted from `start`; in order, without overlap, (R, 2).
    regions: np.ndarray


class Groups(NamedTuple):
    """Groups of spans: the number of the first span of each (G,), how far it reaches (G,), and whether it was cut off
    from the next one for being too long (G,)."""

    first: np.ndarray
    reach: np.ndarray
    forced: np.ndarray


def hot_spans(block: ScoreBlock, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frames where some class reaches its threshold, and the end of the longest span that starts there, (H,) both.

    Without `block.lengths` a span is one frame.

    >>> block = ScoreBlock(np.array([[0.0], [2.0], [1.0]]), np.zeros(3), lengths=np.array([[4], [5], [6]]))
    >>> hot_spans(block, np.array([1.0]))
    (array([1, 2]), array([6, 8]))
    """
    hot = block.values >= thresholds
    starts = np.flatnonzero(hot.any(axis=1))
    if block.lengths is None:
        return starts, starts + 1
    return starts, starts + np.where(hot[starts], block.lengths[starts], 1).max(axis=1)


def group_spans(starts: np.ndarray, ends: np.ndarray, *, gap: int, most: int) -> Groups:
    """Group spans (H,), sorted by start, with gaps of at most `gap` that start less than `most` after the first.

    >>> group_spans(np.array([0, 2, 9]), np.array([3, 4, 10]), gap=1, most=100)
    Groups(first=array([0, 2]), reach=array([ 4, 10]), forced=array([False, False]))
    """
    if not len(starts):
        return Groups(starts, ends, np.empty(0, dtype=bool))
    reach = np.maximum.accumulate(ends)
    first = np.concatenate([[0], np.flatnonzero(starts[1:] > reach[:-1] + gap) + 1])
    stop = np.append(first[1:], len(starts))
    if (starts[stop - 1] - starts[first] < most).all():
        return Groups(first, reach[stop - 1], np.zeros(len(first), dtype=bool))
    rows = [row for i, j in zip(first, stop, strict=True) for row in _cut_up(starts, ends, i, j, gap, most)]
    return Groups(*(np.array(column) for column in zip(*rows, strict=True)))


def _cut_up(starts: np.ndarray, ends: np.ndarray, i: int, j: int, gap: int, most: int) -> list[tuple[int, int, bool]]:
    """Spans i … j - 1, a group that may be too long, as rows of `Groups`."""
    rows = []
    while i < j:
        stop = min(j, int(np.searchsorted(starts, starts[i] + most)))
        reach = np.maximum.accumulate(ends[i:stop])
        # an earlier piece may have bridged gaps of this one: look for them again
        breaks = np.flatnonzero(starts[i + 1 : stop] > reach[:-1] + gap)
        if len(breaks):
            stop = i + 1 + int(breaks[0])
        end = int(reach[stop - i - 1])
        rows.append((i, end, stop < j and bool(starts[stop] <= end + gap)))
        i = stop
    return rows


class RegionStream:
    """Blocks of scores in, batches of whole regions out; every frame comes out once, in order.

    A region is a maximal group of hot frames (of spans, where blocks have lengths) with gaps of at most `gap` frames,
    and `pad` frames before and after. It ends `most` frames after its first hot frame at the latest. Regions do not
    depend on how frames were divided into blocks; only the cuts between batches do. At most one region is held.

    >>> stream = RegionStream(np.array([1.0]), gap=1, pad=0, most=100)
    >>> values = np.array([0, 0, 2, 2, 0, 2, 0, 0, 0, 0.0])[:, None]
    >>> [(b.start, len(b.block), b.regions.tolist()) for b in stream.push(ScoreBlock(values[:6], np.zeros(6)))]
    [(0, 2, [])]
    >>> [(b.start, len(b.block), b.regions.tolist()) for b in stream.push(ScoreBlock(values[6:], np.zeros(4)))]
    [(2, 8, [[0, 4]])]
    """

    def __init__(self, thresholds: np.ndarray, *, gap: int, pad: int, most: int) -> None:
        self.thresholds, self.gap, self.pad, self.most = thresholds, gap, pad, most
        self.n_frames = 0
        self._given = 0  # frames released
        self._held: list[ScoreBlock] = []  # frames _given … n_frames - 1
        self._open: tuple[int, int] | None = None  # first hot frame and reach of the open region

    @property
    def n_held(self) -> int:
        """How many frames are held."""
        return self.n_frames - self._given

    def push(self, block: ScoreBlock) -> list[Batch]:
        """Scores of the next frames, which must not be written to afterwards."""
        starts, ends = hot_spans(block, self.thresholds)
        starts, ends = starts + self.n_frames, ends + self.n_frames + self.pad
        self.n_frames += len(block)
        self._held.append(block)
        return self._release(starts, ends, finished=False)

    def finish(self) -> list[Batch]:
        """The rest."""
        none = np.empty(0, dtype=int)
        return self._release(none, none, finished=True)

    def _release(self, starts: np.ndarray, ends: np.ndarray, *, finished: bool) -> list[Batch]:
        if self._open is not None:
            starts, ends = np.append(self._open[0], starts), np.append(self._open[1], ends)
        groups = group_spans(starts, ends, gap=self.gap + self.pad, most=self.most)
        hot = starts[groups.first]
        region_ends = np.minimum(np.minimum(groups.reach, hot + self.most), self.n_frames)
        earliest = np.concatenate([[self._given], region_ends[:-1]])[: len(hot)]
        regions = np.column_stack([np.maximum(hot - self.pad, earliest), region_ends])
        self._open, safe = None, self.n_frames if finished else max(self.n_frames - self.pad, self._given)
        if len(hot):
            # one frame more than needed, so that the last of a recording comes out with `finish` only
            closes = min(groups.reach[-1] + self.gap + self.pad, hot[-1] + self.most)
            if finished or self.n_frames > closes:
                safe = max(safe, int(regions[-1, 1]))
            else:
                self._open = int(hot[-1]), int(groups.reach[-1])
                safe, regions = int(regions[-1, 0]), regions[:-1]
        cuts = regions[groups.forced[: len(regions)], 1]
        return self._batches(regions, [*cuts.tolist(), safe])

    def _batches(self, regions: np.ndarray, stops: list[int]) -> list[Batch]:
        if stops[-1] == self._given:
            return []
        block, first = joined_scores(self._held), self._given
        self._held = [block.between(stops[-1] - first, len(block))]
        batches = []
        for stop in stops:
            if stop > self._given:
                here = regions[(regions[:, 0] >= self._given) & (regions[:, 0] < stop)] - self._given
                batches.append(Batch(self._given, block.between(self._given - first, stop - first), here))
                self._given = stop
        return batches


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
