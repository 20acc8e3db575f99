"""Limits of duration and level, and from a span of frames and its scores to a segment with its reason."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from outlark.detection.scores import ScoreBlock, ScoreLayout
from outlark.errors import InputError
from outlark.estimators.open_set import is_number
from outlark.segments import AMBIGUOUS, KNOWN, SILENCE, UNKNOWN, Segment

DECODERS = ("auto", "rules", "viterbi", "notes")
#: The paper's 35 and 60 time steps of 48 samples at 22 050 Hz, in seconds.
PAPER_LEAST_S, PAPER_SURE_S = 35 * 48 / 22050, 60 * 48 / 22050
#: "auto": the shortest note as a share of the shortest training note, a gap and unknown sound as shares of that.
LEAST_SHARE, BRIDGE_SHARE, UNKNOWN_SHARE = 0.5, 0.25, 1.0
#: Scores (C,), the first sample of a whole note and the one after its last → scores (C,).
Joined = Callable[[np.ndarray, int, int], np.ndarray]
#: Three years: longer durations are mistakes, and would not fit into numbers of frames.
LONGEST_S = 1e8


class Limits(NamedTuple):
    """Durations in frames."""

    #: Shortest note of each class; only with "viterbi" do they differ, (C,) of int.
    least: np.ndarray
    #: Shortest note at note level; 0 for "auto".
    least_note: int
    sure: int
    bridge: int
    unknown: int
    most: int
    #: At note level: sound within the edges of notes is not a sound of its own.
    edges: bool
    activity_db: float | None
    confirm: bool

    @classmethod
    def of(cls, layout: ScoreLayout, *, decoder: Any, least_s: Any, sure_s: Any, bridge_s: Any, activity_db: Any,
           unknown_s: Any, max_region_s: Any, confirm: Any) -> Self:  # fmt: skip
        """From the parameters of `Decisions`."""
        check_decoder(decoder)
        if activity_db is not None and not _is_number(activity_db):
            raise InputError(f"activity_db={activity_db!r} must be a number of decibels, or None for no silence")
        each_s = _least_s(layout, least_s, each=decoder == "viterbi")
        shortest, rate = float(each_s.min()), layout.frame_rate
        limits = cls(
            least=np.maximum(1, np.rint(each_s * rate).astype(int)),
            # up, so that no note is shorter than asked for; rounding errors do not count
            least_note=0 if isinstance(least_s, str) else math.ceil(shortest * rate - 1e-6),
            sure=round(_seconds("sure_s", sure_s, shortest * PAPER_SURE_S / PAPER_LEAST_S) * rate),
            bridge=round(_seconds("bridge_s", bridge_s, BRIDGE_SHARE * shortest) * rate),
            unknown=round(_seconds("unknown_s", unknown_s, UNKNOWN_SHARE * shortest) * rate),
            most=round(_seconds("max_region_s", max_region_s, None) * rate),
            edges=isinstance(unknown_s, str),
            activity_db=activity_db,
            confirm=bool(confirm),
        )
        if activity_db is None:  # without silence, short unknown sound cannot be part of it
            limits = limits._replace(unknown=0, edges=False)
        if limits.most < limits.least.max():
            raise InputError(
                f"max_region_s={max_region_s} is shorter than the shortest note, {each_s.max():.3g} s; give more"
            )
        return limits


def check_decoder(decoder: Any) -> None:
    """Refuse an unknown decoder."""
    if decoder not in DECODERS:
        raise InputError(f"decoder={decoder!r} must be one of {DECODERS}")


def _least_s(layout: ScoreLayout, least_s: Any, *, each: bool) -> np.ndarray:
    """Shortest note of each class in seconds, (C,); of each by itself, or the same for all."""
    shortest = np.asarray(layout.shortest_s, dtype=float)
    if isinstance(least_s, str) and least_s == "auto":
        if not (np.isfinite(shortest) & (shortest > 0)).all():
            raise InputError(
                f"least_s='auto' takes the shortest training notes, but these last {shortest.tolist()} seconds; give "
                "least_s in seconds"
            )
        return LEAST_SHARE * (shortest if each else np.full_like(shortest, shortest.min()))
    return np.full_like(shortest, _seconds("least_s", least_s, None))


def _seconds(name: str, value: Any, auto: float | None) -> float:
    """The value, or `auto` for "auto" if there is such a thing."""
    if auto is not None and isinstance(value, str) and value == "auto":
        return auto
    if not _is_number(value) or value < 0:
        or_auto = "" if name == "max_region_s" else "'auto' or "
        raise InputError(f"{name}={value!r} must be {or_auto}a number of seconds, 0 or more")
    if value > LONGEST_S:
        raise InputError(f"{name}={value!r:.40} must be a number of seconds, {LONGEST_S:g} at most")
    return float(value)


def _is_number(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def mean_scores(block: ScoreBlock, start: int, end: int) -> np.ndarray:
    """The mean of each class's score over frames start … end - 1, (C,)."""
    return block.values[start:end].mean(axis=0)


def rival_scores(block: ScoreBlock, start: int, end: int, label: int, region: tuple[int, int]) -> np.ndarray:
    """At note level: the score of a note, and of the best note of each other class over about the same span, (C,).

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
    """Makes segments.

    For a second stage, `joined` turns the scores (C,) of a whole note, its first sample and the one after its last into
    the joined scores, which have the `note_thresholds` of the layout.
    """

    def __init__(self, layout: ScoreLayout, limits: Limits, *, whole_notes: bool, joined: Joined | None = None) -> None:
        self.layout, self.limits, self.whole_notes, self.joined = layout, limits, whole_notes, joined
        self.thresholds = np.asarray(layout.thresholds, dtype=float)
        confirmed = joined is not None or (limits.confirm and not whole_notes)
        self.note_thresholds = layout.note_thresholds if confirmed else None
        self.labels = [label.item() if isinstance(label, np.generic) else label for label in layout.classes]

    def note(self, start: int, end: int, label: int, scores: np.ndarray, share: float) -> Segment:
        """A note of class `label` with these scores (C,), which reaches its threshold in this share of its frames.

        At note level, the best of the classes that accept it gets the note: scores share one scale, and a class that
        accepts too much must not take the notes of others.
        """
        if self.joined is not None:
            scores = self.joined(scores, *self._samples(start, end))
        if self.whole_notes:
            accepting = (c for c in range(len(scores)) if self._accepts(c, scores))
            label = max(accepting, key=scores.__getitem__, default=label)
        if self.note_thresholds is not None and scores[label] < self.note_thresholds[label]:
            return self._unconfirmed(start, end, label, scores)
        rival = self._next_best(label, scores)
        thresholds = self.thresholds if self.joined is None else self.note_thresholds
        assert thresholds is not None
        own = self._against(scores[label], thresholds[label], share)
        verdict, reason = KNOWN, f"{self.labels[label]} {own}"
        if rival is not None and self._accepts(rival, scores):
            theirs = self._against(scores[rival], thresholds[rival], 1.0)
            verdict, reason = AMBIGUOUS, f"between {self.labels[label]} ({own}) and {self.labels[rival]} ({theirs})"
        elif rival is not None:
            reason += f"; next {self.labels[rival]} {_number(scores[rival], thresholds[rival])}"
        return self._segment(start, end, scores, label, rival, label=self.labels[label], verdict=verdict, reason=reason)

    def _unconfirmed(self, start: int, end: int, label: int, scores: np.ndarray) -> Segment:
        """A span that resembles class `label` frame by frame, but not as a whole."""
        assert self.note_thresholds is not None
        least = float(self.note_thresholds[label])
        digits = _digits(scores[label], least)
        score = f"{scores[label]:.{digits}f} ({self.labels[label]}) < {least:.{digits}f}"
        reason = f"mean score {score} of whole notes" if self.joined is None else f"joined score {score}"
        rival = self._next_best(label, scores)
        return self._segment(start, end, scores, label, rival, verdict=UNKNOWN, reason=reason)

    def _accepts(self, c: int, scores: np.ndarray) -> bool:
        confirmed = self.note_thresholds is None or scores[c] >= self.note_thresholds[c]
        return bool(confirmed and (self.joined is not None or scores[c] >= self.thresholds[c]))

    def interval(self, start: int, end: int, active: bool, means: np.ndarray, highest: np.ndarray) -> Segment:
        """An interval without a note; `means` (C + 1,) and `highest` (3C + 2,) as in `Intervals`.

        Its scores are below the thresholds: what reached one belongs to a better note beside it, or is too short, as
        the reason says.
        """
        below = highest[: len(means) - 1]
        # notes are scored where they start, so a mean over starts says nothing
        scores = below if self.whole_notes else np.where(means[:-1] < self.thresholds, means[:-1], below)
        best = int(scores.argmax())
        others = np.where(np.arange(len(scores)) == best, -np.inf, scores)
        rival = int(others.argmax()) if len(scores) > 1 else None
        reason = self._why_unknown(scores, best, highest) if active else self._why_silent(float(means[-1]))
        verdict = UNKNOWN if active else SILENCE
        return self._segment(start, end, scores, best, rival, verdict=verdict, reason=reason)

    def no_frame(self, n_samples: int) -> Segment:
        """A recording shorter than one frame."""
        verdict = UNKNOWN if self.limits.activity_db is None else SILENCE
        rate = self.layout.sample_rate
        return Segment(start=0, end=n_samples, sample_rate=rate, verdict=verdict, reason="shorter than one frame")

    def _segment(self, start: int, end: int, scores: np.ndarray, best: int, rival: int | None, **more: Any) -> Segment:
        first, stop = self._samples(start, end)
        if rival is not None:
            more.update(runner_up=self.labels[rival], runner_up_score=float(scores[rival]))
        return Segment(
            start=first,
            end=stop,
            sample_rate=self.layout.sample_rate,
            score=float(scores[best]),
            **more,
        )

    def _samples(self, start: int, end: int) -> tuple[int, int]:
        """The first sample of these frames, and the one after the last."""
        hop, offset = self.layout.hop_samples, self.layout.offset_samples
        return offset + start * hop if start else 0, offset + end * hop

    def _next_best(self, label: int, scores: np.ndarray) -> int | None:
        """The best other class; one that accepts comes before one that does not."""
        others = [c for c in range(len(scores)) if c != label and scores[c] > -np.inf]
        accepting = [c for c in others if self._accepts(c, scores)]
        return max(accepting or others, key=scores.__getitem__, default=None)

    def _against(self, score: float, threshold: float, share: float) -> str:
        digits = _digits(score, threshold)
        if score >= threshold:
            return f"{score:.{digits}f} ≥ {threshold:.{digits}f}"
        return f"{score:.{digits}f}, ≥ {threshold:.{digits}f} in {100 * share:.0f} % of it"

    def _why_unknown(self, scores: np.ndarray, best: int, highest: np.ndarray) -> str:
        n = len(scores)
        peaks, lasting = highest[n : 2 * n], highest[2 * n : 3 * n]
        digits = _digits(scores[best], self.thresholds[best])
        below = f"best score {scores[best]:.{digits}f} ({self.labels[best]}) < {self.thresholds[best]:.{digits}f}"
        if not lasting.any():
            return below
        if self.whole_notes:
            return f"{below}; {self._why_not_a_note(peaks, lasting)}"
        c = int(np.lexsort((peaks, lasting))[-1])
        lasted, least = self._ms(lasting[c]), self._ms(self.limits.least[c])
        if lasted >= least:
            return f"{self._reached(c, peaks)} for {lasted:.0f} ms, but not clearly enough"
        return f"{self._reached(c, peaks)}, but for {_less(lasted, least)}"

    def _why_not_a_note(self, peaks: np.ndarray, lasting: np.ndarray) -> str:
        """At note level: why a note that reached its threshold was not accepted; `lasting` are lengths in frames."""
        least = self.limits.least_note
        long_enough = lasting >= max(1, least)
        c = int(np.where(long_enough if long_enough.any() else lasting > 0, peaks, -np.inf).argmax())
        if long_enough.any():
            return f"{self._reached(c, peaks)}, but such a note would overlap a better one"
        return f"{self._reached(c, peaks)}, but such a note lasts {_less(self._ms(lasting[c]), self._ms(least))}"

    def _reached(self, c: int, peaks: np.ndarray) -> str:
        return f"{self.labels[c]} reached {self._against(peaks[c], self.thresholds[c], 1.0)}"

    def _why_silent(self, activity: float) -> str:
        assert self.limits.activity_db is not None
        if activity >= self.limits.activity_db:
            but = ", but for remainders of notes" if self.whole_notes and self.limits.edges else ""
            return f"never active for {self._ms(self.limits.unknown):.0f} ms or longer{but}"
        digits = _digits(activity, self.limits.activity_db, 1)
        return f"activity {activity:.{digits}f} dB, less than {self.limits.activity_db:g} dB"

    def _ms(self, frames: float) -> float:
        return 1e3 * frames / self.layout.frame_rate


def _less(lasted_ms: float, least_ms: float) -> str:
    digits = _digits(lasted_ms, least_ms, 0)
    return f"{lasted_ms:.{digits}f} ms, less than {least_ms:.{digits}f} ms"


def _number(value: float, beside: float) -> str:
    return f"{value:.{_digits(value, beside)}f}"


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
