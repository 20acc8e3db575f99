"""What a trained detector was made from, and how it is set up."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from outlark.commands.doctor.doctor_notes import name_of
from outlark.commands.doctor.finding import GOOD, PROBLEM, WARNING, Finding, listing
from outlark.detection.scores import ScoreLayout
from outlark.features.noise_floor import is_number
from outlark.features.spectrum import HIGHEST_SHARE

#: With fewer notes than this the threshold of a class rests on next to nothing.
ENOUGH_NOTES = 3
#: The longest note of a class is usually no more than so many times as long as the shortest.
USUAL_RATIO = 4.0
#: Recordings that reach so many times higher than the front end listens are made for bats, and it may not be.
FAR_ABOVE = 3.0


def training_set(detector: Any) -> Iterator[Finding]:
    """How many notes there are of each class, and which of them are the same."""
    counts: dict[str, int] = defaultdict(int)
    same: dict[str, list[dict]] = defaultdict(list)
    for note in detector.training_:
        counts[note["label"]] += 1
        same[note["sha256"]].append(note)
    few = {label: n for label, n in counts.items() if n < ENOUGH_NOTES}
    for label, n in few.items():
        little = "which cannot tell how much they vary" if n == 1 else "which tell little of how much they vary"
        yield Finding(
            severity=WARNING,
            check="number of notes",
            what=f"{label!r} has {n} training note{'s' if n > 1 else ''}, {little}",
            advice=f"Give {ENOUGH_NOTES} or more, better five to ten, from different recordings",
        )
    if counts and not few:
        what = f"every class has {min(counts.values())} training notes or more"
        yield Finding(severity=GOOD, check="number of notes", what=what)
    yield from _copies(list(same.values()))


def _copies(same: list[list[dict[str, Any]]]) -> Iterator[Finding]:
    """`same`: notes with the same samples, together."""
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
                what=f"{len(names)} notes are examples of {' and of '.join(map(repr, labels))}: {listing(names)}",
                advice="Decide what each is, and take it out of the other class",
            )
        else:
            yield Finding(
                severity=WARNING,
                check="copies",
                what=f"{len(names)} notes of {labels[0]!r} are there more than once: {listing(names)}",
                advice="Leave the copies out: they say nothing new",
            )


def set_up(detector: Any) -> Iterator[Finding]:
    """Thresholds, silence, durations and what the front end listens to."""
    layout, front_end = detector.layout_, detector.front_end_
    for label, threshold in zip(layout.classes.tolist(), layout.thresholds.tolist(), strict=True):
        if not np.isfinite(threshold) or threshold < 1e-6:
            what = f"the threshold of {label!r} is {threshold:g}: it accepts {'all' if threshold < 1 else 'nothing'}"
            yield Finding(severity=PROBLEM, check="thresholds", what=what, advice="Give other notes, and train again")
    decisions = detector.decisions_
    if decisions.activity_db is None or not getattr(front_end, "measure_activity", True):
        yield Finding(
            severity=WARNING,
            check="silence",
            what="it does not tell silence from sound, so that background is judged as if it were notes",
            advice="Use NoteDetector() as it is, unless the method of the paper is what you are after",
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
                what=f"a note of {label!r} lasts {1e3 * low:.0f} ms, less than the {1e3 * window_s:.0f} ms of a window",
                advice="Give the front end a shorter window_s and hop_s, or mark such notes less closely",
            )
        if high > USUAL_RATIO * low:
            yield Finding(
                severity=WARNING,
                check="durations",
                what=f"notes of {label!r} last from {low:.3f} to {high:.3f} s",
                advice="See whether some are marked with the silence around them, several at once, or belong apart",
            )


def _band(detector: Any) -> Iterator[Finding]:
    """What the front end listens to, of what the recordings hold."""
    front_end, rate = detector.front_end_, detector.sample_rate_
    low_hz, high_hz = getattr(front_end, "low_hz", None), getattr(front_end, "high_hz", None)
    if low_hz is None or high_hz is None:
        yield Finding(severity=GOOD, check="band", what=f"it is for recordings at {rate} Hz, or resampled to that")
        return
    top_hz = min(high_hz, HIGHEST_SHARE * rate)
    what = f"it listens from {low_hz:.0f} to {top_hz:.0f} Hz, in recordings at {rate} Hz or resampled to that"
    if rate / 2 > FAR_ABOVE * high_hz:
        advice = (
            f"If notes lie above {high_hz:.0f} Hz, as those of bats do, train with a front end with a higher high_hz"
        )
        yield Finding(severity=WARNING, check="band", what=f"{what}, which hold up to {rate // 2} Hz", advice=advice)
    elif top_hz < 0.5 * high_hz:
        advice = "If notes reach higher, train from recordings with a higher sample rate"
        yield Finding(severity=WARNING, check="band", what=what, advice=advice)
    else:
        yield Finding(severity=GOOD, check="band", what=what)
