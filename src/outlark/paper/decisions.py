"""From scores of frames to segments, by the six rules of the paper (Sec. 4.2).

The rules decide on one label for each step. Scores are (T, C), at least 0. A decision is the number of a class, or
`UNDECIDED`, which at the end means unknown.
"""

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from outlark.detection.decisions import Decisions, DecisionStream, Limits, Rescore, Verdicts, check_duration, less_than
from outlark.detection.intervals import Decoded, RemainderStream, Runs, run_lengths
from outlark.detection.scores import TINY, Batch, RegionStream, ScoreLayout
from outlark.segments import Segment

#: The paper's 35 and 60 time steps of 48 samples at 22 050 Hz, in seconds.
PAPER_LEAST_S, PAPER_SURE_S = 35 * 48 / 22050, 60 * 48 / 22050
UNDECIDED = -1


class Rules(Decisions):
    """How scores of frames become segments: by the six rules of the paper.

    Parameters
    ----------
    least_s : "auto" or float
        Shortest note in seconds. "auto": half of the shortest training note.
    sure_s : "auto" or float
        A class that leads for longer than this is final. "auto": 60/35 of `least_s`, as in the paper.
    bridge_s : "auto" or float
        Gaps of up to this long between two pieces of one class are bridged, and so are silences within unknown sound.
        "auto": a quarter of `least_s`.
    activity_db : float or None
        Frames without a note are silence below this activity and unknown above. None: all of them are unknown.
    unknown_s : "auto" or float
        Unknown sound shorter than this counts as silence. "auto": `least_s`.
    confirm : bool
        The mean score of a note over its frames must also reach that of left-out training notes; otherwise it is
        unknown.

    Examples
    --------
    >>> from outlark.detection.scores import ScoreBlock, Scores
    >>> layout = ScoreLayout(
    ...     level="frame", classes=np.array(["A", "B"]), thresholds=np.array([1.0, 1.0]), sample_rate=1000,
    ...     hop_samples=10, offset_samples=0, shortest_s=np.array([0.1, 0.1]), longest_s=np.array([0.2, 0.2]),
    ... )
    >>> values = np.repeat([[0.0, 0.2], [2.5, 0.4], [0.0, 0.1]], 10, axis=0)
    >>> block = ScoreBlock(values, np.repeat([2.0, 30.0, 20.0], 10))
    >>> for s in Rules().decide(Scores(layout=layout, block=block, n_samples=300)):
    ...     print(s.start, s.end, s.verdict, s.label, "-", s.reason)
    0 100 silence None - activity 2.0 dB, less than 6 dB
    100 200 known A - A 2.50 ≥ 1.00; next B 0.40
    200 300 unknown None - best score 0.10 (B) < 1.00
    """

    level: ClassVar[str] = "frame"

    def __init__(
        self,
        *,
        least_s: float | str = "auto",
        sure_s: float | str = "auto",
        bridge_s: float | str = "auto",
        activity_db: float | None = 6.0,
        unknown_s: float | str = "auto",
        confirm: bool = True,
    ) -> None:
        super().__init__(least_s=least_s, bridge_s=bridge_s, activity_db=activity_db, unknown_s=unknown_s)
        self.sure_s = sure_s
        self.confirm = confirm

    @classmethod
    def paper(cls) -> Self:
        """As published: 35 and 60 of its time steps, no bridging, no silence."""
        return cls(least_s=PAPER_LEAST_S, sure_s=PAPER_SURE_S, bridge_s=0.0, activity_db=None, confirm=False)

    def stream(
        self, layout: ScoreLayout, rescore: Rescore | None = None, sample_rate: int | None = None
    ) -> DecisionStream:
        shortest_s, limits = self.shortest_note_s(layout), self.limits(layout)
        sure_s = check_duration("sure_s", self.sure_s, shortest_s * PAPER_SURE_S / PAPER_LEAST_S)
        regions = RegionStream(layout.lowest_scores, gap=limits.bridge, pad=0, most=limits.most)
        remainders = RemainderStream(np.zeros(len(layout.classes), dtype=int))
        verdicts = FrameVerdicts(layout if self.confirm else replace(layout, mean_thresholds=None), limits)
        return FrameDecisionStream(regions, remainders, verdicts, sample_rate, round(sure_s * layout.frame_rate))

    def limits(self, layout: ScoreLayout) -> Limits:
        limits = super().limits(layout)
        least = max(1, round(self.shortest_note_s(layout) * layout.frame_rate))
        return limits._replace(least=least, most=max(limits.most, least), edges=False)


class FrameDecisionStream(DecisionStream):
    """Scores of frames in, final segments out; `sure` is in frames."""

    def __init__(
        self, regions: RegionStream, remainders: RemainderStream, verdicts: Verdicts, rate: int | None, sure: int
    ) -> None:
        super().__init__(regions, remainders, verdicts, rate)
        self._sure = sure

    def _decoded(self, batch: Batch) -> Decoded:
        limits = self.limits
        notes = decode_rules(batch, self._regions.thresholds, least=limits.least, sure=self._sure, bridge=limits.bridge)
        return Decoded(notes, notes[:, :2])


class FrameVerdicts(Verdicts):
    """Verdicts on spans whose score is the mean over their frames."""

    def note(self, start: int, end: int, label: int, batch: Batch, scored: np.ndarray) -> Segment:
        values, means = batch.block.values[slice(*scored)], self.layout.mean_thresholds
        scores = values.mean(axis=0)
        if means is not None and scores[label] < means[label]:
            reason = f"mean score {self._below(label, scores, means)} of whole notes"
            return self._refused(start, end, label, scores, reason)
        share = float((values[:, label] >= self.lowest[label]).mean())
        return self._named(start, end, label, scores, share)

    def _accepts(self, c: int, scores: np.ndarray) -> bool:
        means = self.layout.mean_thresholds
        return bool((means is None or scores[c] >= means[c]) and scores[c] >= self.thresholds[c])

    def _interval_scores(self, means: np.ndarray, below: np.ndarray) -> np.ndarray:
        return np.where(means < self.thresholds, means, below)

    def _why_not_a_note(self, below: str, peaks: np.ndarray, lasting: np.ndarray) -> str:
        c = int(np.lexsort((peaks, lasting))[-1])
        lasted, least = self._ms(lasting[c]), self._ms(self.limits.least)
        if lasted >= least:
            return f"{self._reached(c, peaks)} for {lasted:.0f} ms, but not clearly enough"
        return f"{self._reached(c, peaks)}, but for {less_than(lasted, least)}"


def decode(runs: Runs) -> np.ndarray:
    """The sequence that `run_lengths` took.

    >>> decode(run_lengths(np.array([7, 7, 0, 7])))
    array([7, 7, 0, 7])
    """
    return np.repeat(runs.values, runs.lengths)


def drop_short(mask: np.ndarray, least: int) -> np.ndarray:
    """A boolean sequence without its runs of True that are shorter than `least`.

    >>> drop_short(np.array([True, True, False, True]), 2)
    array([ True,  True, False, False])
    """
    runs = run_lengths(mask)
    return decode(runs._replace(values=runs.values & (runs.lengths >= least)))


def discard_low(scores: np.ndarray, thresholds: np.ndarray | float) -> np.ndarray:
    """Step 1: "all scores below threshold τ were discarded (set to 0)".

    >>> discard_low(np.array([[0.4, 2.0], [1.0, 0.9]]), 1.0)
    array([[0., 2.],
           [1., 0.]])
    """
    return np.where(scores >= thresholds, scores, 0.0)


def discard_short(scores: np.ndarray, least: int) -> np.ndarray:
    """Step 2: "all non-zero scores that lasted less than [least] consecutive time steps were discarded"."""
    kept = np.column_stack([drop_short(column > 0, least) for column in scores.T])
    return np.where(kept, scores, 0.0)


def decide_where_sure(scores: np.ndarray, longer_than: int) -> np.ndarray:
    """Step 3: "a class score that is larger than other class scores for longer than [longer_than] time steps is …
    final".
    """
    largest = _largest(scores)
    runs = run_lengths(largest)
    return decode(runs._replace(values=np.where(runs.lengths > longer_than, runs.values, UNDECIDED)))


def average_undecided(scores: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Step 4: "for the remaining undecided subsets, for each class, the mean (over the subset) class score is assigned
    to the whole segment".

    A subset is a maximal run of undecided steps at which some score is left.
    """
    averaged = scores.copy()
    runs = run_lengths((decisions == UNDECIDED) & (scores > 0).any(axis=1))
    for start, end in zip(runs.starts[runs.values], runs.ends[runs.values], strict=True):
        averaged[start:end] = scores[start:end].mean(axis=0)
    return averaged


def decide_by_largest(scores: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Step 5: "crisp decision for each time step is taken according to the max score"; what is final stays."""
    return np.where(decisions == UNDECIDED, _largest(scores), decisions)


def drop_short_decisions(decisions: np.ndarray, least: int) -> np.ndarray:
    """Step 6: "crisp decisions which last less than [least] time steps are removed … and declared as OOD"."""
    runs = run_lengths(decisions)
    return decode(runs._replace(values=np.where(runs.lengths >= least, runs.values, UNDECIDED)))


def decide(scores: np.ndarray, thresholds: np.ndarray | float, *, least: int, sure: int) -> np.ndarray:
    """All six steps; the paper's numbers are ``least=35`` and ``sure=60`` steps.

    >>> scores = np.repeat([[3.0, 0.0], [0.0, 0.2], [0.5, 2.0]], 4, axis=0)
    >>> decide(scores, 1.0, least=2, sure=3)
    array([ 0,  0,  0,  0, -1, -1, -1, -1,  1,  1,  1,  1])
    """
    scores = discard_short(discard_low(scores, thresholds), least)
    decisions = decide_where_sure(scores, sure)
    decisions = decide_by_largest(average_undecided(scores, decisions), decisions)
    return drop_short_decisions(decisions, least)


def _largest(scores: np.ndarray) -> np.ndarray:
    """The class with the largest score; `UNDECIDED` where all are 0."""
    return np.where((scores > 0).any(axis=1), scores.argmax(axis=1), UNDECIDED)


def decode_rules(batch: Batch, thresholds: np.ndarray, *, least: int, sure: int, bridge: int) -> np.ndarray:
    """The notes (N, 3) of a batch by the six rules; a class continues below its threshold for up to `bridge` frames.

    Deciding all regions of the batch at once changes nothing. Between two regions every score is below its threshold,
    and step 1 sets it to 0. All runs, those of non-zero scores (step 2), of one leading class (step 3), of undecided
    steps with some score left (step 4) and of equal decisions (step 6), end there, and step 5 looks at single frames.
    The gap is longer than `bridge`, so bridging carries nothing across either.
    """
    speaks = np.column_stack([_bridged(column, bridge) for column in (batch.block.values >= thresholds).T])
    scores = np.where(speaks, np.maximum(batch.block.values, TINY), 0.0)
    runs = run_lengths(bridge_labels(decide(scores, TINY, least=least, sure=sure), bridge))
    return np.column_stack(runs)[runs.values != UNDECIDED]


def bridge_labels(labels: np.ndarray, bridge: int) -> np.ndarray:
    """Decisions (T,) with gaps of up to `bridge` undecided frames within one class filled.

    >>> bridge_labels(np.array([1, -1, 1, -1, 0, -1, -1, 0]), 1)
    array([ 1,  1,  1, -1,  0, -1, -1,  0])
    """
    runs = run_lengths(labels)
    inner = np.flatnonzero((runs.values[1:-1] == UNDECIDED) & (runs.lengths[1:-1] <= bridge)) + 1
    inner = inner[runs.values[inner - 1] == runs.values[inner + 1]]
    runs.values[inner] = runs.values[inner - 1]
    return decode(runs)


def _bridged(mask: np.ndarray, bridge: int) -> np.ndarray:
    """A mask (T,) without its gaps of up to `bridge`."""
    return bridge_labels(np.where(mask, 1, UNDECIDED), bridge) == 1 if bridge else mask
