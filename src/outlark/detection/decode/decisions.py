"""From class scores to segments: notes, and unknown sound and silence between them; the same live and in batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator

from outlark.detection.decode.decoders import NEAR, TINY, Decoded, decode_notes, decode_rules, decode_viterbi
from outlark.detection.decode.intervals import (
    ACTIVE,
    NOTE,
    Intervals,
    IntervalStream,
    RemainderStream,
    intervals_of,
    reach_of_edges,
)
from outlark.detection.decode.regions import Batch, RegionStream
from outlark.detection.decode.verdicts import (
    PAPER_LEAST_S,
    PAPER_SURE_S,
    Joined,
    Limits,
    Verdicts,
    mean_scores,
    rival_scores,
)
from outlark.detection.edges import MOST, BoundsStream
from outlark.detection.scores import ScoreBlock, ScoreLayout, Scores
from outlark.errors import InputError
from outlark.segments import Segment

#: Frames processed together: few enough for the cache. It does not change the result.
CHUNK = 2**14


class Decisions(BaseEstimator):
    """How class scores become segments.

    Segments tile the recording: notes ("known", or "ambiguous" if a second class accepts them too), and between them
    "unknown" sound and "silence". Each gives its reason. Frames where some class reaches its threshold are grouped into
    regions, and a region is decided as soon as it is over.

    Parameters
    ----------
    decoder : "auto", "rules", "viterbi" or "notes"
        "rules": the six rules of the paper. "viterbi": the best sequence of classes, unknown and silence, in which
        each class lasts its `least_s`. "notes", for note-level scores: the notes without overlap that have the largest
        sum of (score - threshold) · length. "auto": "notes" for note-level scores, else "rules".
    least_s : "auto" or float
        Shortest note in seconds. "auto": half of the shortest training note; with "viterbi", for each class. At note
        level, notes then have their own lengths; with a number, anything shorter is not a note.
    sure_s : "auto" or float
        Rules: a class that leads for longer than this is final. "auto": 60/35 of `least_s`, as in the paper.
    bridge_s : "auto" or float
        Gaps of up to this long between two pieces of one class are bridged, and so are silences within unknown sound.
        "auto": a quarter of `least_s`. At note level, notes are never joined.
    activity_db : float or None
        Frames without a note are silence below this activity and unknown above. None: all of them are unknown.
    unknown_s : "auto" or float
        Unknown sound shorter than this counts as silence. "auto": `least_s`; at note level, the remainders of notes
        then count as silence as well (`outlark.detection.decode.intervals`).
    max_region_s : float
        Longer regions are decided in pieces of this length, so that memory stays bounded. A note that reaches beyond
        the cut is cut as well.
    confirm : bool
        Rules and "viterbi": the mean score of a note over its frames must also reach that of left-out training notes;
        otherwise it is unknown.

    Examples
    --------
    >>> layout = ScoreLayout(
    ...     classes=np.array(["A", "B"]), thresholds=np.array([1.0, 1.0]), sample_rate=1000, hop_samples=10,
    ...     offset_samples=0, shortest_s=np.array([0.1, 0.1]), longest_s=np.array([0.2, 0.2]),
    ... )
    >>> values = np.repeat([[0.0, 0.2], [2.5, 0.4], [0.0, 0.1]], 10, axis=0)
    >>> block = ScoreBlock(values, np.repeat([2.0, 30.0, 20.0], 10))
    >>> for s in Decisions().decide(Scores(layout=layout, block=block, n_samples=300)):
    ...     print(s.start, s.end, s.verdict, s.label, "-", s.reason)
    0 100 silence None - activity 2.0 dB, less than 6 dB
    100 200 known A - A 2.50 ≥ 1.00; next B 0.40
    200 300 unknown None - best score 0.10 (B) < 1.00
    """

    def __init__(
        self, *, decoder: str = "auto", least_s: float | str = "auto", sure_s: float | str = "auto",
        bridge_s: float | str = "auto", activity_db: float | None = 6.0, unknown_s: float | str = "auto",
        max_region_s: float = 60.0, confirm: bool = True,
    ) -> None:  # fmt: skip
        self.decoder = decoder
        self.least_s = least_s
        self.sure_s = sure_s
        self.bridge_s = bridge_s
        self.activity_db = activity_db
        self.unknown_s = unknown_s
        self.max_region_s = max_region_s
        self.confirm = confirm

    @classmethod
    def paper(cls) -> Self:
        """As published: six rules, 35 and 60 of its time steps, no bridging, no silence."""
        return cls(
            decoder="rules", least_s=PAPER_LEAST_S, sure_s=PAPER_SURE_S, bridge_s=0.0, activity_db=None, confirm=False
        )

    def stream(self, layout: ScoreLayout, joined: Joined | None = None) -> "DecisionStream":
        """A fresh stream: `push` any blocks, then `finish`; the same segments whatever the blocks.

        With `joined`, at note level, the thresholds of the layout are those of candidates, and joined scores have to
        reach its `note_thresholds` (`outlark.detection.second_stage`).
        """
        return DecisionStream(self, layout, joined)

    def decide(self, scores: Scores) -> list[Segment]:
        """The segments of a whole recording."""
        stream = self.stream(scores.layout)
        return [*stream.push(scores.block), *stream.finish(scores.n_samples)]


class DecisionStream:
    """Blocks of scores in, final segments out; made by `Decisions.stream`. Holds one region at most."""

    def __init__(self, settings: Decisions, layout: ScoreLayout, joined: Joined | None = None) -> None:
        self._joined = joined
        self.layout, self.limits = layout, Limits.of(layout, **settings.get_params())
        self._decoder = settings.decoder
        thresholds = np.asarray(layout.thresholds, dtype=float)
        if not len(thresholds) or np.isnan(thresholds).any() or len(thresholds) != len(layout.classes):
            raise InputError(f"thresholds={thresholds} for classes {layout.classes}; give one number for each class")
        self._thresholds = np.maximum(thresholds, TINY)
        self._regions: RegionStream | None = (
            None  # made with the first frames, which show whether scores are note-level
        )
        self._intervals = IntervalStream(bridge=self.limits.bridge, least=self.limits.unknown)
        self._sums = np.zeros(len(thresholds) + 1)
        self._bounds = BoundsStream(layout.hop_samples, layout.offset_samples)
        self._finished = False

    def push(self, block: ScoreBlock) -> list[Segment]:
        """Scores of the next frames; the segments that are now final, in order."""
        self._check_open()
        if not len(block):
            return []
        self._bounds.push(_checked_spans(block.spans, len(block)))
        block = self._checked(block)
        if self._regions is None:
            self._start(whole_notes=block.lengths is not None)
        assert self._regions is not None
        segments: list[Segment] = []
        for start in range(0, len(block), CHUNK):
            for batch in self._regions.push(block.between(start, start + CHUNK)):
                segments += self._decide(batch)
        return self._bounds.on(segments)

    @property
    def needed_from(self) -> int:
        """The first sample at which a later note may start."""
        if self._regions is None:
            return 0
        n_decided = self._regions.n_frames - self._regions.n_held
        return self.layout.offset_samples + n_decided * self.layout.hop_samples if n_decided else 0

    def finish(self, n_samples: int) -> list[Segment]:
        """The rest of the segments, given the length of the recording in samples."""
        self._check_open()
        if self._regions is None:
            self._start(whole_notes=False)
            self._finished = True
            return [self._verdicts.no_frame(n_samples)] if n_samples else []
        n_frames = self._regions.n_frames
        last = self.layout.offset_samples + (n_frames - 1) * self.layout.hop_samples
        if n_samples <= last:
            raise InputError(
                f"n_samples={n_samples}, but the last of {n_frames} frames starts at sample {last}; give the length of "
                "the recording that the scores belong to"
            )
        self._finished = True
        segments: list[Segment] = []
        for batch in self._regions.finish():
            segments += self._decide(batch)
        rest = self._remainders.finish(self._intervals.finish())
        segments += self._segments(rest) if rest is not None else []
        segments[-1] = replace(segments[-1], end=n_samples)
        return self._bounds.on(segments)

    def _start(self, *, whole_notes: bool) -> None:
        if self._decoder == "auto":
            self._decoder = "notes" if whole_notes else "rules"
        self._whole_notes, limits = whole_notes, self.limits
        self._regions = RegionStream(
            self._thresholds,
            gap=NEAR - 1 if whole_notes else limits.bridge,
            pad=self._pad(whole_notes),
            most=self._most_of_whole_notes() if whole_notes else limits.most,
        )
        reach = reach_of_edges(self.layout) * (whole_notes and limits.edges)
        self._remainders = RemainderStream(reach)
        layout = replace(self.layout, thresholds=self._thresholds)
        self._verdicts = Verdicts(layout, limits, whole_notes=whole_notes, joined=self._joined)

    def _pad(self, whole_notes: bool) -> int:
        """Frames before and after a region in which its notes may start and end."""
        if whole_notes:
            return MOST
        # a class may have to last longer than it is above its threshold
        return int(self.limits.least.max()) if self._decoder == "viterbi" else 0

    def _decide(self, batch: Batch) -> Iterator[Segment]:
        decoded = self._decoded(batch)
        least = self.limits.least_note
        intervals = intervals_of(batch, decoded.notes, decoded.active, self._thresholds, self._sums, least=least)
        self._sums = intervals.after[-1].copy()
        n_frames, classes = batch.start + len(batch.block), decoded.notes[:, 2]
        final = self._remainders.push(self._intervals.push(intervals), n_frames, classes)
        return self._segments(final, batch, decoded)

    def _decoded(self, batch: Batch) -> Decoded:
        limits, block, thresholds = self.limits, batch.block, self._thresholds
        active = np.ones(len(block), dtype=bool) if limits.activity_db is None else block.activity >= limits.activity_db
        if not len(batch.regions):
            return Decoded(np.empty((0, 3), dtype=int), active)
        if self._decoder == "notes":
            return decode_notes(batch, active, thresholds, least=limits.least_note)
        if self._decoder == "viterbi":
            return decode_viterbi(batch, active, thresholds, least=limits.least, bridge=limits.bridge)
        least = int(limits.least.min())
        return decode_rules(batch, active, thresholds, least=least, sure=limits.sure, bridge=limits.bridge)

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
                yield self._note(start, end, kind - NOTE, decoded, batch)

    def _note(self, start: int, end: int, number: int, decoded: Decoded, batch: Batch) -> Segment:
        first, stop, label = start - batch.start, end - batch.start, int(decoded.notes[number, 2])
        if decoded.scored is not None:
            first, stop = decoded.scored[number].tolist()
            region = batch.regions[np.searchsorted(batch.regions[:, 0], first, side="right") - 1]
            return self._verdicts.note(start, end, label, rival_scores(batch.block, first, stop, label, region), 1.0)
        share = float((batch.block.values[first:stop, label] >= self._thresholds[label]).mean())
        return self._verdicts.note(start, end, label, mean_scores(batch.block, first, stop), share)

    def _checked(self, block: ScoreBlock) -> ScoreBlock:
        """With scores of at least 0; -∞ may stand for "no note starts here"."""
        values = np.maximum(np.asarray(block.values, dtype=float, order="C"), 0.0)
        activity = np.asarray(block.activity, dtype=float)
        n_classes = len(self._thresholds)
        if values.ndim != 2 or values.shape[1] != n_classes or activity.shape != (len(values),):
            raise InputError(
                f"values of shape {values.shape} and activity of shape {activity.shape}; expected (T, {n_classes}), a "
                "column for each class of the layout, and (T,)"
            )
        if not np.isfinite(values).all() or np.isnan(activity).any():
            raise InputError("scores or activity with NaN, or infinite scores; look for them in the signal")
        lengths = self._checked_lengths(block.lengths, values)
        return ScoreBlock(values, activity, lengths, _checked_moves(block.moves, values, lengths))

    def _checked_lengths(self, lengths: np.ndarray | None, values: np.ndarray) -> np.ndarray | None:
        if self._regions is not None and self._whole_notes != (lengths is not None):
            raise InputError("blocks with and without lengths in one stream; give all blocks of one front end")
        if lengths is None:
            if self._decoder == "notes":
                raise InputError("decoder='notes' needs scores of whole notes, with lengths; take 'rules' or 'viterbi'")
            return None
        if self._decoder in ("rules", "viterbi"):
            raise InputError(
                f"decoder={self._decoder!r} works only with frame-level models, and this one is note-level; use 'notes'"
            )
        lengths = np.asarray(lengths)
        if lengths.shape != values.shape or lengths.dtype.kind not in "iu":
            raise InputError(f"lengths {lengths.dtype} {lengths.shape}; expected whole numbers, {values.shape}")
        used = lengths[values >= self._thresholds]
        most = self._most_of_whole_notes()
        if len(used) and not 1 <= used.min() <= used.max() <= most:
            raise InputError(
                f"notes of {used.min()} to {used.max()} frames; expected 1 to {most}: max_region_s, or half as long "
                "again as the longest training note"
            )
        return lengths.astype(int)

    def _most_of_whole_notes(self) -> int:
        """The longest region in frames: a whole note must fit in, whatever max_region_s."""
        longest_s = np.asarray(self.layout.longest_s, dtype=float)
        longest = float(longest_s[np.isfinite(longest_s)].max(initial=0.0)) * self.layout.frame_rate
        return max(self.limits.most, int(1.5 * longest) + 1)

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this stream of decisions is finished; make a new one for a new recording")


def _checked_spans(spans: np.ndarray | None, n_frames: int) -> np.ndarray | None:
    if spans is not None and (np.shape(spans) != (n_frames, 3) or not np.isfinite(spans).all()):
        raise InputError(f"spans of shape {np.shape(spans)}; expected finite numbers, {(n_frames, 3)}")
    return spans


def _checked_moves(moves: np.ndarray | None, values: np.ndarray, lengths: np.ndarray | None) -> np.ndarray | None:
    if moves is None:
        return None
    moves = np.asarray(moves)
    fits = lengths is not None and moves.shape == (*values.shape, 2) and moves.dtype.kind in "iu"
    if not fits or np.abs(moves, dtype=np.int64).max(initial=0) > MOST:
        raise InputError(
            f"moves {moves.dtype} {moves.shape}; expected, with lengths, whole numbers of at most {MOST}, "
            f"{(*values.shape, 2)}"
        )
    return moves.astype(int)
