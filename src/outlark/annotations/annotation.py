"""An annotation (`Annotation`), an annotation file (`Table`), what a written file says about its origin (`About`).

Formats with a single text field show verdict and runner-up in it (`shown`); `taken_apart` and `behind` reverse that.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from outlark.audio.sound import HIGHEST_RATE
from outlark.errors import AnnotationError, InputError
from outlark.plain_text import writable
from outlark.segments import AMBIGUOUS, KNOWN, SILENCE, UNKNOWN, VERDICTS, Segment, Span

#: Three years: a later time cannot be in seconds.
LATEST_S = 1e8
#: What the header of a WAV file can hold.
MAX_CHANNELS = 2**16 - 1


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """One annotation: a labelled span of a recording, in seconds because annotation files have no sample rate.

    Attributes
    ----------
    start_s, end_s : float
        Seconds from the start of the recording; equal for a point label.
    label : str or None
        None: blank in the file, or no class accepts the span.
    recording : str or None
        Path or name of the sound file, as written in the annotation file.
    verdict : "known", "ambiguous", "unknown", "silence" or None
        None if the file does not say.
    score, runner_up, runner_up_score, reason
        As in `Segment`; None if the file does not say.
    channel : int or None
        Counted from 1; None: the mean of all channels, as outlark analyses them by default, or the file does not say.
    low_hz, high_hz : float or None
    sample_rate : int or None
        Of the recording. If given, the times stand for whole samples.
    start_time : str or None
        Date and time of the start, ISO 8601, if it is known when the recording began.
    remark : str
        Anything unusual about the recording, such as that it was cut short.
    more : mapping of str to str
        Columns that have no place above.
    line : int or None
        Line (or row) of the file.

    Examples
    --------
    >>> annotation = Annotation(start_s=0.5, end_s=0.75, label="tuti-D")
    >>> annotation.segment(sample_rate=22050).start
    11025
    >>> Annotation(start_s=2.0, end_s=1.0)
    Traceback (most recent call last):
    outlark.errors.InputError: the end, 1.0 s, is before the start, 2.0 s; check whether the columns are swapped
    """

    start_s: float
    end_s: float
    label: str | None = None
    recording: str | None = None
    verdict: str | None = None
    score: float | None = None
    runner_up: str | None = None
    runner_up_score: float | None = None
    reason: str = ""
    channel: int | None = None
    low_hz: float | None = None
    high_hz: float | None = None
    sample_rate: int | None = None
    start_time: str | None = None
    remark: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None

    def __post_init__(self) -> None:
        for name in ("start_s", "end_s", "score", "runner_up_score", "low_hz", "high_hz"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _finite(name, value))
        for name in ("label", "runner_up"):
            value = getattr(self, name)
            if isinstance(value, str):  # so that a class has one name in all formats
                object.__setattr__(self, name, writable(value))
        if self.start_s < 0:
            raise InputError(f"the start, {self.start_s} s, is negative; times count from the start of the recording")
        if self.end_s < self.start_s:
            raise InputError(
                f"the end, {self.end_s} s, is before the start, {self.start_s} s; check whether the columns are swapped"
            )
        if self.end_s > LATEST_S:
            raise InputError(f"the end, {self.end_s:g} s, is years away; times must be in seconds, not samples or ms")
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise InputError(f"verdict={self.verdict!r} must be one of {VERDICTS}, or None")
        if self.low_hz is not None and self.high_hz is not None and self.low_hz > self.high_hz:
            raise InputError(f"the low frequency, {self.low_hz:g} Hz, is above the high one, {self.high_hz:g} Hz")
        for name, most in (("channel", MAX_CHANNELS), ("sample_rate", HIGHEST_RATE)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise InputError(f"{name}={value!r:.40} must be from 1 to {most}")

    @classmethod
    def from_segment(cls, segment: Segment, recording: str | None = None) -> Self:
        """What a detector found, as an annotation.

        >>> Annotation.from_segment(Segment(start=0, end=100, sample_rate=1000, label="a"), "night.flac").end_s
        0.1
        """
        rival = segment.runner_up
        return cls(
            start_s=segment.start_s,
            end_s=segment.end_s,
            label=None if segment.label is None else str(segment.label),
            recording=recording,
            runner_up=None if rival is None else str(rival),
            runner_up_score=None if rival is None else segment.runner_up_score,
            **{
                name: getattr(segment, name)
                for name in ("verdict", "score", "sample_rate", "reason", "low_hz", "high_hz")
            },
        )

    @property
    def span(self) -> Span:
        """Start and end in seconds."""
        return Span(self.start_s, self.end_s)

    @property
    def implied_verdict(self) -> str:
        """The verdict; if the file does not say, known with a label and unknown without."""
        return self.verdict or (UNKNOWN if self.label is None else KNOWN)

    def segment(self, sample_rate: int) -> Segment:
        """The span in samples, each time rounded to the nearest; AnnotationError if it is shorter than a sample."""
        try:
            return Segment.from_seconds(
                self.start_s,
                self.end_s,
                self.label,
                sample_rate,
                verdict=self.implied_verdict,
                score=self.score or 0.0,
                runner_up=self.runner_up,
                runner_up_score=self.runner_up_score or 0.0,
                reason=self.reason,
                low_hz=self.low_hz,
                high_hz=self.high_hz,
            )
        except InputError as error:
            where = f"line {self.line}: " if self.line is not None else ""
            what = "a point label" if self.start_s == self.end_s else "an annotation"
            raise AnnotationError(
                f"{where}{what} ({self.label!r} at {self.start_s} s) has no samples at {sample_rate} Hz ({error}); "
                "annotate a longer span, or omit it"
            ) from None


@dataclass(frozen=True, kw_only=True)
class Table:
    """An annotation file that was read: its annotations in file order, and its format, one of `FORMATS`.

    `remarks` say what was guessed, skipped or unusual. `about` is what the file says about version, model and settings.
    `refused` are rows that could not be read: file, line, what was found and what was expected.
    """

    path: Path
    format: str
    annotations: tuple[Annotation, ...]
    remarks: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class About:
    """How a written file came about, stored in the file or beside it: version of outlark, model file, settings.

    `recording` tells about the recording, if the file covers only one: when it began, anything unusual. CSV has columns
    for that instead. Settings and recording hold JSON values.

    >>> About(version="1.0").as_dict()
    {'version': '1.0', 'model_sha256': None, 'settings': {}}
    """

    version: str
    model_sha256: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    recording: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """All of it as a JSON object."""
        run = {"version": self.version, "model_sha256": self.model_sha256, "settings": dict(self.settings)}
        return {**run, **({"recording": dict(self.recording)} if self.recording else {})}


def is_sound(annotation: Annotation) -> bool:
    """Whether programs that display notes get this annotation: all but silence."""
    return annotation.verdict != SILENCE


def is_known(annotation: Annotation) -> bool:
    """Whether this is a note of a known class."""
    return annotation.verdict == KNOWN or (annotation.verdict is None and annotation.label is not None)


def shown(annotation: Annotation) -> str:
    """The label, or why there is none.

    >>> shown(Annotation(start_s=0, end_s=1, label="tuti-D", verdict="known"))
    'tuti-D'
    >>> shown(Annotation(start_s=0, end_s=1, label="tuti-D", verdict="ambiguous", runner_up="tuti-F"))
    'tuti-D or tuti-F?'
    >>> shown(Annotation(start_s=0, end_s=1, verdict="unknown"))
    'unknown'
    """
    if annotation.label is None:
        return "" if annotation.verdict in (None, KNOWN) else str(annotation.verdict)
    if annotation.verdict != AMBIGUOUS:
        return annotation.label
    return f"{annotation.label}?" if annotation.runner_up is None else f"{annotation.label} or {annotation.runner_up}?"


def confidence(annotation: Annotation) -> float | None:
    """The score for formats in which it lies between 0 and 1.

    Scores of outlark have no upper limit: what a class accepts has .5 or more, anything else less, and the order within
    each is kept. Scores of other programs between 0 and 1 stay what they are.

    >>> [round(confidence(Annotation(start_s=0, end_s=1, verdict=v, score=1.19)), 3) for v in ("known", "unknown")]
    [0.848, 0.348]
    >>> confidence(Annotation(start_s=0, end_s=1, label="a", score=0.87))
    0.87
    """
    score, verdict = annotation.score, annotation.verdict
    if score is None or (verdict is None and 0.0 <= score <= 1.0):
        return score
    return within_one(score, accepted=verdict not in (UNKNOWN, SILENCE))


def within_one(score: float, *, accepted: bool) -> float:
    return (accepted + 1.0 - math.exp(-max(score, 0.0))) / 2.0


def behind(text: str | None, verdict: str | None, runner_up: str | None) -> tuple[str | None, str | None]:
    """Label and verdict, from the text of `shown` and the verdict and runner-up beside it.

    Whoever edits an ambiguous label has settled it: there is no verdict then.

    >>> behind("tuti-D or tuti-F?", "ambiguous", "tuti-F"), behind("tuti-D", "ambiguous", "tuti-F")
    (('tuti-D', 'ambiguous'), ('tuti-D', None))
    """
    if text is None or (text == verdict and verdict != KNOWN):
        return None, verdict
    if verdict != AMBIGUOUS:
        return text, verdict
    label = text.removesuffix("?" if runner_up is None else f" or {runner_up}?")
    return label, None if label == text else verdict


def taken_apart(text: str) -> tuple[str | None, str | None, str | None]:
    """Label, verdict and runner-up, as far as the text from `shown` alone reveals them.

    >>> taken_apart("tuti-D or tuti-F?")
    ('tuti-D', 'ambiguous', 'tuti-F')
    >>> taken_apart("unknown"), taken_apart("tuti-D")
    ((None, 'unknown', None), ('tuti-D', None, None))
    """
    if text in (UNKNOWN, AMBIGUOUS):
        return None, text, None
    # test the end first: the pattern takes long to fail on a text full of "or"
    found = text.endswith("?") and re.fullmatch(r"(.+?)(?: or (.+))?\?", text, flags=re.DOTALL)
    if found:
        return found[1], AMBIGUOUS, found[2]
    return text or None, None, None


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, str) or not math.isfinite(number):
        raise InputError(f"{name}={value!r} must be a finite number")
    return number
