"""How good what was found is: by sliding window and by note (Sec. 4.3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from outlark.experiment.dataset import OOD
from outlark.experiment.protocol import Draw
from outlark.metrics import Events, event_f, note_f, note_labels, window_f
from outlark.metrics.windows import FScores
from outlark.segments import Segment

#: The paper's sliding window and the step from one to the next, s: 96 and 48 samples at 22,050 Hz, for all methods.
WINDOW_S, STEP_S = 96 / 22050, 48 / 22050
MIDDLE_S = 47.5 / 22050
MIN_IOU = 0.5
LEVELS = ("window", "note")


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """One method on one seed.

    Attributes
    ----------
    method : str
    seed : int
    known : tuple of str
    f : mapping from "window" and "note" to FScores
        F of each class, of `OOD`, and their means.
    event_f : float
        At IoU .5, all classes pooled.
    settings : mapping
        What the method learnt: thresholds, hyper-parameters.
    """

    method: str
    seed: int
    known: tuple[str, ...]
    f: Mapping[str, FScores]
    event_f: float
    settings: Mapping[str, object] = field(default_factory=dict)

    def overall(self, level: str) -> float:
        """The mean that the paper reports: over the classes and OOD for windows, over the classes for notes."""
        return self.f[level].macro_all if level == "window" else self.f[level].macro_known

    def categories(self, level: str) -> dict[str, float]:
        """F of each known class, then of `OOD`."""
        scores = self.f[level]
        return {**dict(zip(self.known, scores.per_class.tolist(), strict=True)), OOD: scores.unknown}


def outcome(
    method: str, seed: int, drawn: Draw, found: Sequence[Segment], settings: Mapping[str, object] | None = None
) -> Outcome:
    """Judge what a method found in the test clip. A segment counts for its label when it is known or ambiguous.

    Examples
    --------
    >>> from outlark.experiment.dataset import Dataset
    >>> from outlark.experiment.protocol import Protocol, draw
    >>> drawn = draw(Dataset.synthetic(), Protocol(), seed=1)
    >>> right = [segment for segment in drawn.truth if segment.label in drawn.known]
    >>> judged = outcome("the truth", 1, drawn, right)
    >>> judged.overall("window"), judged.overall("note"), judged.event_f
    (1.0, 1.0, 1.0)
    """
    notes = [segment for segment in found if segment.verdict in ("known", "ambiguous")]
    wanted = [segment for segment in drawn.truth if segment.label in drawn.known]
    times = window_times(len(drawn.audio) / drawn.sample_rate)
    answers = labels_at(times, notes)
    numbers = np.full(len(times), -1)
    for number, segment in enumerate(drawn.truth):
        numbers[inside(times, segment)] = number
    votes = note_labels(answers, numbers, drawn.known, OOD, n_notes=len(drawn.truth))
    by_level = {
        "window": window_f(labels_at(times, wanted), answers, drawn.known, OOD),
        "note": note_f(np.array([s.label for s in drawn.truth]), np.array(votes), drawn.known, OOD),
    }
    events = event_f(events_of(wanted), events_of(notes), MIN_IOU, classes=drawn.known)
    return Outcome(
        method=method, seed=seed, known=drawn.known, f=by_level, event_f=events.pooled.f, settings=dict(settings or {})
    )


def window_times(seconds: float) -> np.ndarray:
    """The middle of each sliding window of a clip, s: between two samples, so never on the edge of a note."""
    return MIDDLE_S + STEP_S * np.arange(max(0, int((seconds - WINDOW_S) / STEP_S) + 1))


def inside(times: np.ndarray, segment: Segment) -> np.ndarray:
    """Which times lie in the segment."""
    return (times >= segment.start_s) & (times < segment.end_s)


def labels_at(times: np.ndarray, segments: Iterable[Segment]) -> np.ndarray:
    """The label of the segment at each time, else `OOD`."""
    labels = np.full(len(times), OOD, dtype=object)
    for segment in segments:
        labels[inside(times, segment)] = segment.label
    return labels


def events_of(segments: Iterable[Segment]) -> Events:
    """Start, end and label of each segment."""
    return Events.from_rows((s.start_s, s.end_s, s.label) for s in segments)
