"""Spans of time, verdicts, and labelled segments of a recording in whole samples so that times do not drift."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

from outlark.errors import InputError

#: Verdicts on segments.
KNOWN, AMBIGUOUS, UNKNOWN, SILENCE = "known", "ambiguous", "unknown", "silence"
VERDICTS = (KNOWN, AMBIGUOUS, UNKNOWN, SILENCE)
#: The class name of sounds that belong to no class, in tables.
REST = "(unknown)"
#: Two spans are the same note from this intersection over union on.
SAME_NOTE_IOU = 0.5


class Span(NamedTuple):
    """A stretch of time, both ends in seconds or both in samples.

    >>> Span(0, 10).overlap(Span(5, 15)), Span(0, 10).iou(Span(5, 15)), Span(0, 10).is_same_note(Span(2, 11))
    (5, 0.3333333333333333, True)
    """

    onset: float
    offset: float

    @property
    def length(self) -> float:
        """Offset minus onset."""
        return self.offset - self.onset

    def overlap(self, other: "Span") -> float:
        """What both share; if negative, the gap between them."""
        return min(self.offset, other.offset) - max(self.onset, other.onset)

    def iou(self, other: "Span") -> float:
        """Intersection over union."""
        shared = self.overlap(other)
        return shared / (max(self.offset, other.offset) - min(self.onset, other.onset)) if shared > 0 else 0.0

    def is_same_note(self, other: "Span") -> bool:
        """Whether a detection and an annotation, or two of either, are of one note."""
        return self.iou(other) >= SAME_NOTE_IOU

    def shares_half(self, other: "Span") -> bool:
        """Whether the spans share half of the shorter one, so that they are about the same sound."""
        return 2 * self.overlap(other) >= min(self.length, other.length)

    def is_close(self, other: "Span", tolerance: float) -> bool:
        """Whether both ends agree up to the tolerance."""
        return max(abs(self.onset - other.onset), abs(self.offset - other.offset)) <= tolerance

    def rounded(self) -> "Span":
        """Seconds to the microsecond: equal for rows of different files that mean the same."""
        return Span(round(self.onset, 6), round(self.offset, 6))


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A labelled span of a recording.

    Attributes
    ----------
    start, end : int
        First sample, and the one after the last.
    sample_rate : int
        Samples per second.
    label : class label, or None where no class accepts the span
    verdict : "known", "ambiguous", "unknown" or "silence"
    score : float
        Mean score of the label's class, or of the best class if there is no label.
    runner_up : the class with the second-best score, if any
    runner_up_score : float
    reason : str
        Why this verdict.
    low_hz, high_hz : float or None
        Frequency range; None if unknown.

    Examples
    --------
    >>> segment = Segment.from_seconds(0.5, 0.75, "tuti-D", sample_rate=22050)
    >>> segment.start, segment.end, segment.start_s
    (11025, 16538, 0.5)
    """

    start: int
    end: int
    sample_rate: int
    label: Any = None
    verdict: str = KNOWN
    score: float = 0.0
    runner_up: Any = None
    runner_up_score: float = 0.0
    reason: str = ""
    low_hz: float | None = None
    high_hz: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise InputError(
                f"a segment from sample {self.start} to {self.end}: it must start at 0 or later and not be empty"
            )
        if self.sample_rate <= 0:
            raise InputError(f"sample_rate={self.sample_rate!r} must be a positive number of samples per second")
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict={self.verdict!r} must be one of {VERDICTS}")

    @classmethod
    def from_seconds(cls, start_s: float, end_s: float, label: Any, sample_rate: int, **more: Any) -> Self:
        """A segment from times in seconds, each rounded to the nearest sample."""
        for name, value in (("start_s", start_s), ("end_s", end_s), ("sample_rate", sample_rate)):
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise InputError(f"{name}={value!r} must be a finite number; turn text from a table into float() first")
        return cls(
            start=round(start_s * sample_rate),
            end=round(end_s * sample_rate),
            sample_rate=sample_rate,
            label=label,
            **more,
        )

    @property
    def span(self) -> Span:
        """First sample, and the one after the last."""
        return Span(self.start, self.end)

    @property
    def start_s(self) -> float:
        """Seconds from the start of the recording."""
        return self.start / self.sample_rate

    @property
    def end_s(self) -> float:
        """Seconds from the start of the recording."""
        return self.end / self.sample_rate

    @property
    def duration_s(self) -> float:
        """Seconds."""
        return (self.end - self.start) / self.sample_rate


def in_order(segments: Iterable[Segment]) -> list[Segment]:
    """Sorted by start, then end, as everywhere in outlark."""
    return sorted(segments, key=lambda s: (s.start, s.end, str(s.label)))
