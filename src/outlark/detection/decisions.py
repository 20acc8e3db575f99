"""From class scores to segments: notes, and unknown sound and silence between them; the same live and in batch."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from outlark.detection.intervals import (
    ACTIVE,
    NEAR_FRAMES,
    NOTE,
    Decoded,
    Intervals,
    IntervalStream,
    RemainderStream,
    decode_notes,
    intervals_of,
    reach_of_edges,
)
from outlark.detection.scorer import MAX_EDGE_SHIFT
from outlark.detection.scores import Batch, BoundsStream, RegionStream, ScoreBlock, ScoreLayout, Scores
from outlark.errors import InputError
from outlark.estimators.open_set import is_number
from outlark.segments import AMBIGUOUS, KNOWN, SILENCE, UNKNOWN, Segment

#: Frames processed together: few enough for the cache. It does not change the result.
CHUNK_FRAMES = 2**14
#: "auto": the shortest note as a share of the shortest training note, and a gap as a share of that.
SHORTEST_NOTE_SHARE, BRIDGE_SHARE = 0.5, 0.25
#: Longer regions are decided in pieces of this length, or half as long again as the longest note, so that memory stays
#: bounded. A note that reaches beyond the cut is cut as well.
MAX_REGION_S = 60.0
#: Three years: longer durations are mistakes, and would not fit into numbers of frames.
MAX_DURATION_S = 1e8
#: Scores (C,) of a candidate, its first sample and the one after its last → those with the second stage, (C,).
Rescore = Callable[[np.ndarray, int, int], np.ndarray]


class Limits(NamedTuple):
    """Durations in frames, and the level of silence."""

    #: Shortest note; 0 at note level for "auto".
    least: int
    bridge: int
    unknown: int
    #: Longest region.
    most: int
    #: At note level: sound within the edges of notes is not a sound of its own.
    edges: bool
    activity_db: float | None


class Decisions(BaseEstimator):
    """How scores of notes become segments.

    Segments tile the recording: notes ("known", or "ambiguous" if a second class accepts them too), and between them
    "unknown" sound and "silence". Each gives its reason. Frames where some class reaches its threshold are grouped into
    regions, and a region is decided as soon as it is over: the notes without overlap that have the largest sum of
    (score - threshold) · length.

    Parameters
    ----------
    least_s : "auto" or float
        Shortest note in seconds; anything shorter is not a note. "auto": notes have the lengths of training notes.
    bridge_s : "auto" or float
        Silences of up to this long within unknown sound are bridged. "auto": a quarter of
        `least_s`, or an eighth of the shortest training note.
    activity_db : float or None
        Frames without a note are silence below this activity and unknown above. None: all of them are unknown.
    unknown_s : "auto" or float
        Unknown sound shorter than this counts as silence. "auto": `least_s`, or half of the shortest training note, and
        the remainders of notes then count as silence as well (`outlark.detection.intervals`).

    Examples
    --------
    >>> layout = ScoreLayout(
    ...     classes=np.array(["A", "B"]), thresholds=np.array([1.0, 1.0]), sample_rate=1000, hop_samples=10,
    ...     offset_samples=0, shortest_s=np.array([0.1, 0.1]), longest_s=np.array([0.2, 0.2]),
    ... )
    >>> values, lengths = np.zeros((30, 2)), np.full((30, 2), 10)
    >>> values[10] = 2.5, 0.4
    >>> block = ScoreBlock(values, np.repeat([2.0, 30.0, 2.0], 10), lengths)
    >>> for s in Decisions().decide(Scores(layout=layout, block=block, n_samples=300)):
    ...     print(s.start, s.end, s.verdict, s.label, "-", s.reason)
    0 100 silence None - activity 2.0 dB, less than 6 dB
    100 200 known A - A 2.50 ≥ 1.00; next B 0.40
    200 300 silence None - activity 2.0 dB, less than 6 dB
    """

    level: ClassVar[str] = "note"

    def __init__(
        self,
        *,
        least_s: float | str = "auto",
        bridge_s: float | str = "auto",
        activity_db: float | None = 6.0,
        unknown_s: float | str = "auto",
    ) -> None:
        self.least_s = least_s
        self.bridge_s = bridge_s
        self.activity_db = activity_db
        self.unknown_s = unknown_s

    def stream(
        self, layout: ScoreLayout, rescore: Rescore | None = None, sample_rate: int | None = None
    ) -> "DecisionStream":
        """A fresh stream: `push` any blocks, then `finish`; the same segments whatever the blocks.

        Segments are in samples at `sample_rate`, that of the layout by default. With `rescore`, notes that reach the
        candidate thresholds of the layout are scored again, and have to reach its thresholds then.
        """
        limits = self.limits(layout)
        lowest = layout.lowest_scores
        regions = RegionStream(lowest, gap=NEAR_FRAMES - 1, pad=MAX_EDGE_SHIFT, most=limits.most)
        verdicts = Verdicts(layout, limits, rescore)
        return DecisionStream(regions, RemainderStream(reach_of_edges(layout) * limits.edges), verdicts, sample_rate)

    def decide(self, scores: Scores) -> list[Segment]:
        """The segments of a whole recording."""
        if scores.layout.level != self.level:
            raise InputError(f"{type(self).__name__} decides on scores of {self.level}s, not of {scores.layout.level}s")
        scores.check()
        stream = self.stream(scores.layout)
        return [*stream.push(scores.block), *stream.finish(scores.n_samples)]

    def limits(self, layout: ScoreLayout) -> Limits:
        """The parameters in frames, or an error."""
        if self.activity_db is not None and not (is_number(self.activity_db) and math.isfinite(self.activity_db)):
            raise InputError(f"activity_db={self.activity_db!r} must be a number of decibels, or None for no silence")
        rate, shortest_s = layout.frame_rate, self.shortest_note_s(layout)
        # up, so that no note is shorter than asked for; rounding errors do not count
        least = 0 if isinstance(self.least_s, str) else math.ceil(shortest_s * rate - 1e-6)
        silence = self.activity_db is not None  # without it, short unknown sound cannot be part of it
        longest_s = np.asarray(layout.longest_s, dtype=float)
        longest = float(longest_s[np.isfinite(longest_s)].max(initial=0.0)) * rate
        unknown_s = check_duration("unknown_s", self.unknown_s, shortest_s)
        return Limits(
            least=least,
            bridge=round(check_duration("bridge_s", self.bridge_s, BRIDGE_SHARE * shortest_s) * rate),
            unknown=round(unknown_s * rate) if silence else 0,
            most=max(round(MAX_REGION_S * rate), int(1.5 * longest) + 1, least),
            edges=silence and isinstance(self.unknown_s, str),
            activity_db=self.activity_db,
        )

    def shortest_note_s(self, layout: ScoreLayout) -> float:
        """`least_s`, or for "auto" half of the shortest training note."""
        shortest = np.asarray(layout.shortest_s, dtype=float)
        if self.least_s == "auto" and not (np.isfinite(shortest) & (shortest > 0)).all():
            raise InputError(
                f"least_s='auto' takes the shortest training notes, but these last {shortest.tolist()} seconds; give "
                "least_s in seconds"
            )
        return check_duration("least_s", self.least_s, SHORTEST_NOTE_SHARE * float(shortest.min()))


def check_duration(name: str, value: Any, auto: float) -> float:
    """The value in seconds, or `auto` for "auto"."""
    if isinstance(value, str) and value == "auto":
        return auto
    if not is_number(value) or not 0 <= value < math.inf:
        raise InputError(f"{name}={value!r} must be 'auto' or a number of seconds, 0 or more")
    if value > MAX_DURATION_S:
        raise InputError(f"{name}={value!r:.40} must be a number of seconds, {MAX_DURATION_S:g} at most")
    return float(value)


class DecisionStream:
    """Blocks of scores in, final segments out; made by `Decisions.stream`. Holds one region at most."""

    def __init__(
        self, regions: RegionStream, remainders: RemainderStream, verdicts: "Verdicts", sample_rate: int | None
    ) -> None:
        self.layout, self.limits = verdicts.layout, verdicts.limits
        self._regions, self._remainders, self._verdicts = regions, remainders, verdicts
        self._intervals = IntervalStream(bridge=self.limits.bridge, least=self.limits.unknown)
        self._bounds = BoundsStream(self.layout.hop_samples, self.layout.offset_samples)
        self._sums = np.zeros(len(self.layout.classes) + 1)
        self.sample_rate = self.layout.sample_rate if sample_rate is None else sample_rate
        self._finished = False

    def push(self, block: ScoreBlock) -> list[Segment]:
        """Scores of the next frames; the segments that are now final, in order."""
        self._check_open()
        if not len(block):
            return []
        self._bounds.push(block.spans)
        segments: list[Segment] = []
        for start in range(0, len(block), CHUNK_FRAMES):
            frames = block.between(start, start + CHUNK_FRAMES)
            np.maximum(frames.values, 0.0, out=frames.values)  # a score below 0 is none
            for batch in self._regions.push(frames):
                segments += self._decide(batch)
        return at_rate(self._bounds.on(segments), self.sample_rate)

    @property
    def needed_from(self) -> int:
        """The first sample, at the rate of the layout, at which a later note may start."""
        n_decided = self._regions.n_frames - self._regions.n_held
        return self.layout.offset_samples + n_decided * self.layout.hop_samples if n_decided else 0

    def finish(self, n_model_samples: int, n_samples: int | None = None) -> list[Segment]:
        """The rest, given the length of the recording in samples at the rate of the layout, and at that of segments."""
        self._check_open()
        self._finished = True
        n_samples = n_model_samples if n_samples is None else n_samples
        if not self._regions.n_frames:
            return [self._verdicts.no_frame(n_samples, self.sample_rate)] if n_samples else []
        segments = [segment for batch in self._regions.finish() for segment in self._decide(batch)]
        rest = self._remainders.finish(self._intervals.finish())
        segments += self._segments(rest) if rest is not None else []
        segments[-1] = replace(segments[-1], end=n_model_samples)
        segments = [s for s in at_rate(self._bounds.on(segments), self.sample_rate) if s.start < n_samples]
        return [*segments[:-1], replace(segments[-1], end=n_samples)] if segments else []

    def _decide(self, batch: Batch) -> list[Segment]:
        limits, activity, lowest = self.limits, batch.block.activity, self._regions.thresholds
        active = np.ones(len(activity), dtype=bool) if limits.activity_db is None else activity >= limits.activity_db
        none = np.empty((0, 3), dtype=int)
        decoded = self._decoded(batch) if len(batch.regions) else Decoded(none, none[:, :2])
        intervals = intervals_of(batch, decoded.notes, active, lowest, self._sums, least=limits.least)
        self._sums = intervals.after[-1].copy()
        n_frames, classes = batch.start + len(batch.block), decoded.notes[:, 2]
        final = self._remainders.push(self._intervals.push(intervals), n_frames, classes)
        return list(self._segments(final, batch, decoded))

    def _decoded(self, batch: Batch) -> Decoded:
        return decode_notes(batch, self._regions.thresholds, least=self.limits.least)

    def _segments(
        self, intervals: Intervals, batch: Batch | None = None, decoded: Decoded | None = None
    ) -> Iterator[Segment]:
        """One for each interval; notes are those of the batch."""
        rows = zip(intervals.starts.tolist(), intervals.ends.tolist(), intervals.kinds.tolist(), strict=True)
        for (start, end, kind), means, highest in zip(rows, intervals.means, intervals.highest, strict=True):
            if kind < NOTE:
                yield self._verdicts.interval(start, end, kind == ACTIVE, means, highest)
            else:
                assert batch is not None
                assert decoded is not None
                label = int(decoded.notes[kind - NOTE, 2])
                yield self._verdicts.note(start, end, label, batch, decoded.scored[kind - NOTE])

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this stream of decisions is finished; make a new one for a new recording")


def at_rate(segments: list[Segment], rate: int) -> list[Segment]:
    """Segments in samples of a recording's own rate, in whole numbers: nothing drifts.

    >>> segment, = at_rate([Segment(start=3, end=4, sample_rate=8000)], 48000)
    >>> segment.start, segment.end
    (18, 24)
    """
    return [s if s.sample_rate == rate else _moved(s, rate) for s in segments]


def _moved(s: Segment, rate: int) -> Segment:
    start, end = ((2 * at * rate + s.sample_rate) // (2 * s.sample_rate) for at in (s.start, s.end))
    return replace(s, start=start, end=max(end, start + 1), sample_rate=rate)


def rival_scores(block: ScoreBlock, start: int, end: int, label: int, region: tuple[int, int]) -> np.ndarray:
    """The score of a note, and of the best note of each other class over about the same span, (C,).

    The two overlap by more than half of the longer one. -∞ for a class without such a note in the region.

    >>> block = ScoreBlock(np.array([[3.0, 1.0], [1.0, 2.0]]), np.zeros(2), lengths=np.array([[2, 1], [1, 1]]))
    >>> rival_scores(block, 0, 2, 0, (0, 2))
    array([  3., -inf])
    """
    assert block.lengths is not None
    own = end - start
    first, last = max(region[0], start - own), min(region[1], end)
    starts = np.arange(first, last)[:, None]
    lengths = block.lengths[first:last]
    shared = np.minimum(starts + lengths, end) - np.maximum(starts, start)
    near = 2 * shared > np.maximum(lengths, own)
    scores = np.where(near, block.values[first:last], -np.inf).max(axis=0)
    scores[label] = block.values[start, label]
    return scores


class Verdicts:
    """From a span of frames and its scores to a segment with its verdict and reason."""

    def __init__(self, layout: ScoreLayout, limits: Limits, rescore: Rescore | None = None) -> None:
        self.layout, self.limits, self._rescore = layout, limits, rescore
        self.lowest = layout.lowest_scores
        self.thresholds = self.lowest if rescore is None else np.asarray(layout.thresholds, dtype=float)
        self.labels = [label.item() if isinstance(label, np.generic) else label for label in layout.classes]

    def note(self, start: int, end: int, label: int, batch: Batch, scored: np.ndarray) -> Segment:
        """A note of class `label`, which was found in the frames `scored` of the batch.

        The best of the classes that accept it gets the note: scores share one scale, and a class that accepts too much
        must not take the notes of others.
        """
        first, stop = scored.tolist()
        region = batch.regions[np.searchsorted(batch.regions[:, 0], first, side="right") - 1]
        scores = rival_scores(batch.block, first, stop, label, region)
        if self._rescore is not None:
            scores = self._rescore(scores, *self._samples(start, end))
        accepting = (c for c in range(len(scores)) if self._accepts(c, scores))
        label = max(accepting, key=scores.__getitem__, default=label)
        if not self._accepts(label, scores):
            return self._refused(start, end, label, scores, f"joined score {self._below(label, scores)}")
        return self._named(start, end, label, scores)

    def _named(self, start: int, end: int, label: int, scores: np.ndarray, share: float = 1.0) -> Segment:
        """A note that some class accepts; it reaches the threshold in this share of its frames."""
        rival, thresholds = self._next_best(label, scores), self.thresholds
        own = _against(scores[label], thresholds[label], share)
        verdict, reason = KNOWN, f"{self.labels[label]} {own}"
        if rival is not None and self._accepts(rival, scores):
            theirs = _against(scores[rival], thresholds[rival])
            verdict, reason = AMBIGUOUS, f"between {self.labels[label]} ({own}) and {self.labels[rival]} ({theirs})"
        elif rival is not None:
            digits = _digits(scores[rival], thresholds[rival])
            reason += f"; next {self.labels[rival]} {scores[rival]:.{digits}f}"
        return self._segment(start, end, scores, label, rival, label=self.labels[label], verdict=verdict, reason=reason)

    def _refused(self, start: int, end: int, label: int, scores: np.ndarray, reason: str) -> Segment:
        """A candidate that is not a note after all."""
        rival = self._next_best(label, scores)
        return self._segment(start, end, scores, label, rival, verdict=UNKNOWN, reason=reason)

    def _below(self, label: int, scores: np.ndarray, thresholds: np.ndarray | None = None) -> str:
        least = float((self.thresholds if thresholds is None else thresholds)[label])
        digits = _digits(scores[label], least)
        return f"{scores[label]:.{digits}f} ({self.labels[label]}) < {least:.{digits}f}"

    def _accepts(self, c: int, scores: np.ndarray) -> bool:
        return bool(scores[c] >= self.thresholds[c])

    def interval(self, start: int, end: int, active: bool, means: np.ndarray, highest: np.ndarray) -> Segment:
        """An interval without a note; `means` (C + 1,) and `highest` (3C + 2,) as in `Intervals`.

        Its scores are below the thresholds: what reached one belongs to a better note beside it, or is too short, as
        the reason says.
        """
        scores = self._interval_scores(means[:-1], highest[: len(means) - 1])
        best = int(scores.argmax())
        others = np.where(np.arange(len(scores)) == best, -np.inf, scores)
        rival = int(others.argmax()) if len(scores) > 1 else None
        reason = self._why_unknown(scores, best, highest) if active else self._why_silent(float(means[-1]))
        verdict = UNKNOWN if active else SILENCE
        return self._segment(start, end, scores, best, rival, verdict=verdict, reason=reason)

    def _interval_scores(self, means: np.ndarray, below: np.ndarray) -> np.ndarray:
        return below  # notes are scored where they start, so a mean over starts says nothing

    def no_frame(self, n_samples: int, rate: int) -> Segment:
        """A recording shorter than one frame."""
        verdict = UNKNOWN if self.limits.activity_db is None else SILENCE
        return Segment(start=0, end=n_samples, sample_rate=rate, verdict=verdict, reason="shorter than one frame")

    def _segment(self, start: int, end: int, scores: np.ndarray, best: int, rival: int | None, **more: Any) -> Segment:
        first, stop = self._samples(start, end)
        if rival is not None:
            more.update(runner_up=self.labels[rival], runner_up_score=float(scores[rival]))
        rate, score = self.layout.sample_rate, float(scores[best])
        return Segment(start=first, end=stop, sample_rate=rate, score=score, **more)

    def _samples(self, start: int, end: int) -> tuple[int, int]:
        """The first sample of these frames, and the one after the last."""
        hop, offset = self.layout.hop_samples, self.layout.offset_samples
        return offset + start * hop if start else 0, offset + end * hop

    def _next_best(self, label: int, scores: np.ndarray) -> int | None:
        """The best other class; one that accepts comes before one that does not."""
        others = [c for c in range(len(scores)) if c != label and scores[c] > -np.inf]
        accepting = [c for c in others if self._accepts(c, scores)]
        return max(accepting or others, key=scores.__getitem__, default=None)

    def _why_unknown(self, scores: np.ndarray, best: int, highest: np.ndarray) -> str:
        n = len(scores)
        peaks, lasting = highest[n : 2 * n], highest[2 * n : 3 * n]
        below = f"best score {self._below(best, scores, self.lowest)}"
        return self._why_not_a_note(below, peaks, lasting) if lasting.any() else below

    def _why_not_a_note(self, below: str, peaks: np.ndarray, lasting: np.ndarray) -> str:
        """Why a note that reached its threshold was not accepted; `lasting` are lengths in frames."""
        least = self.limits.least
        long_enough = lasting >= max(1, least)
        c = int(np.where(long_enough if long_enough.any() else lasting > 0, peaks, -np.inf).argmax())
        if long_enough.any():
            return f"{below}; {self._reached(c, peaks)}, but such a note would overlap a better one"
        lasts = less_than(self._ms(lasting[c]), self._ms(least))
        return f"{below}; {self._reached(c, peaks)}, but such a note lasts {lasts}"

    def _reached(self, c: int, peaks: np.ndarray) -> str:
        return f"{self.labels[c]} reached {_against(peaks[c], self.lowest[c])}"

    def _why_silent(self, activity: float) -> str:
        assert self.limits.activity_db is not None
        if activity >= self.limits.activity_db:
            but = ", but for remainders of notes" if self.limits.edges else ""
            return f"never active for {self._ms(self.limits.unknown):.0f} ms or longer{but}"
        digits = _digits(activity, self.limits.activity_db, 1)
        return f"activity {activity:.{digits}f} dB, less than {self.limits.activity_db:g} dB"

    def _ms(self, frames: float) -> float:
        return 1e3 * frames / self.layout.frame_rate


def _against(score: float, threshold: float, share: float = 1.0) -> str:
    digits = _digits(score, threshold)
    if score >= threshold:
        return f"{score:.{digits}f} ≥ {threshold:.{digits}f}"
    return f"{score:.{digits}f}, ≥ {threshold:.{digits}f} in {100 * share:.0f} % of it"


def less_than(lasted_ms: float, least_ms: float) -> str:
    digits = _digits(lasted_ms, least_ms, 0)
    return f"{lasted_ms:.{digits}f} ms, less than {least_ms:.{digits}f} ms"


def _digits(value: float, limit: float, fewest: int = 2) -> int:
    """How many digits to print: two significant ones of the limit, and enough to show how the two compare.

    >>> _digits(2.31, 1.35), _digits(0.00172, 0.0015), _digits(1.3496, 1.35), _digits(9.6, 10.0, 0)
    (2, 4, 4, 1)
    """
    value, limit = float(value), float(limit)  # Python's are faster
    if not (math.isfinite(limit) and math.isfinite(value)):
        return fewest
    if fewest >= 2 and 0.0 < abs(limit) < 0.1:
        fewest = min(12, 1 - math.floor(math.log10(abs(limit))))
    for digits in range(fewest, 13):
        if (round(value, digits) < round(limit, digits)) == (value < limit):
            return digits
    return 12
