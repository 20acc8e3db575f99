"""Findings of the doctor, and those about the training set and the settings."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.commands import listing
from outlark.commands.doctor.notes import name_of
from outlark.detection.scores import ScoreLayout
from outlark.errors import InputError
from outlark.features.noise_floor import is_number
from outlark.features.spectrum import HIGHEST_SHARE
from outlark.plain_text import number_of

GOOD, WARNING, PROBLEM = "good", "warning", "problem"
SEVERITIES = (GOOD, WARNING, PROBLEM)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was checked ("white noise", "left-out notes", …), what was found, and what to do about it."""

    severity: str
    check: str
    what: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise InputError(f"severity={self.severity!r} must be one of {SEVERITIES}")

    def __str__(self) -> str:
        return f"{self.severity}: {self.what}" + (f". {self.advice}" if self.advice else "")


#: With fewer notes than this the threshold of a class rests on almost nothing.
ENOUGH_NOTES = 3
#: The longest note of a class is rarely more than this many times as long as the shortest.
USUAL_RATIO = 4.0
#: Recordings that reach this many times higher than the model's band are probably made for bats.
FAR_ABOVE = 3.0


def training_set(detector: Any) -> Iterator[Finding]:
    """Number of notes per class, and copies."""
    counts: dict[str, int] = defaultdict(int)
    same: dict[str, list[dict]] = defaultdict(list)
    for note in detector.training_:
        counts[note["label"]] += 1
        same[note["sha256"]].append(note)
    few = {label: n for label, n in counts.items() if n < ENOUGH_NOTES}
    for label, n in few.items():
        little = "which says nothing about variation" if n == 1 else "which say little about variation"
        yield Finding(
            severity=WARNING,
            check="number of notes",
            what=f"{label!r} has {n} training note{'s' if n > 1 else ''}, {little}",
            advice=f"Give at least {ENOUGH_NOTES}, preferably five to ten, from different recordings",
        )
    if counts and not few:
        what = f"every class has at least {min(counts.values())} training notes"
        yield Finding(severity=GOOD, check="number of notes", what=what)
    yield from _copies(list(same.values()))


def _copies(same: list[list[dict[str, Any]]]) -> Iterator[Finding]:
    """`same`: groups of notes with the same samples."""
    shared: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for copies in same:
        if len(copies) > 1:
            shared[tuple(sorted({note["label"] for note in copies}))].append(
                " = ".join(dict.fromkeys(name_of(note) for note in copies))
            )
    for labels, names in shared.items():
        if len(labels) > 1:
            yield Finding(
                severity=PROBLEM,
                check="copies",
                what=f"{number_of(len(names), 'note')} labelled {' and '.join(map(repr, labels))}: {listing(names)}",
                advice="Decide what each is, and remove it from the other class",
            )
        else:
            yield Finding(
                severity=WARNING,
                check="copies",
                what=f"{number_of(len(names), 'note')} of {labels[0]!r} repeated: {listing(names)}",
                advice="Remove the copies: they add nothing",
            )


def set_up(detector: Any) -> Iterator[Finding]:
    """Thresholds, silence, durations and frequency band."""
    layout, front_end = detector.layout_, detector.front_end_
    for label, threshold in zip(layout.classes.tolist(), layout.thresholds.tolist(), strict=True):
        if not np.isfinite(threshold) or threshold < 1e-6:
            what = f"the threshold of {label!r} is {threshold:g}: it accepts {'all' if threshold < 1 else 'nothing'}"
            yield Finding(severity=PROBLEM, check="thresholds", what=what, advice="Train again on other notes")
    decisions = detector.decisions_
    if decisions.activity_db is None or not getattr(front_end, "measure_activity", True):
        yield Finding(
            severity=WARNING,
            check="silence",
            what="the model does not distinguish silence from sound, so it judges background noise as if it were notes",
            advice="Use the default model unless you need the method as published",
        )
    window_s = getattr(front_end, "window_s", 0.0)
    yield from _durations(layout, window_s if is_number(window_s) else 0.0)
    yield from _band(detector)


def _durations(layout: ScoreLayout, window_s: float) -> Iterator[Finding]:
    for label, low, high in zip(layout.classes.tolist(), layout.shortest_s, layout.longest_s, strict=True):
        if low < window_s:
            yield Finding(
                severity=WARNING,
                check="durations",
                what=f"a note of {label!r} lasts {1e3 * low:.0f} ms, less than one window of {1e3 * window_s:.0f} ms",
                advice="Use shorter windows (window_s and hop_s of the front end), or annotate such notes less tightly",
            )
        if high > USUAL_RATIO * low:
            yield Finding(
                severity=WARNING,
                check="durations",
                what=f"the duration of {label!r} varies from {low:.3f} to {high:.3f} s",
                advice="Check whether some annotations include silence or several notes, or belong to another class",
            )


def _band(detector: Any) -> Iterator[Finding]:
    """The frequency band, compared with that of the recordings."""
    front_end, rate = detector.front_end_, detector.sample_rate_
    low_hz, high_hz = getattr(front_end, "low_hz", None), getattr(front_end, "high_hz", None)
    if low_hz is None or high_hz is None:
        yield Finding(
            severity=GOOD, check="band", what=f"the model is for recordings at {rate} Hz, or resampled to that"
        )
        return
    top_hz = min(high_hz, HIGHEST_SHARE * rate)
    what = f"the model uses {low_hz:.0f} to {top_hz:.0f} Hz, in recordings at {rate} Hz or resampled to that"
    if rate / 2 > FAR_ABOVE * high_hz:
        advice = (
            f"If there are notes above {high_hz:.0f} Hz, such as those of bats, use a front end with a higher high_hz"
        )
        yield Finding(severity=WARNING, check="band", what=f"{what}, which reach {rate // 2} Hz", advice=advice)
    elif top_hz < 0.5 * high_hz:
        advice = "If notes reach higher, train on recordings with a higher sample rate"
        yield Finding(severity=WARNING, check="band", what=what, advice=advice)
    else:
        yield Finding(severity=GOOD, check="band", what=what)
