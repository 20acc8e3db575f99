"""One recording: detections against the truth.

Conventions: an annotation is an answer if its verdict is known or ambiguous, or if it has a label and no verdict. True
annotations without a label are not scored, because nobody knows what they are. Points have no duration and are ignored
on both sides. Everything that is not one of the classes is the unknown category.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from outlark.annotations import Annotation
from outlark.metrics import Events, EventScores, TimeErrors, event_f, note_labels, onset_offset_errors
from outlark.segments import AMBIGUOUS, KNOWN, SILENCE
from outlark.verdict_names import REST

#: Duration of a window.
WINDOW_S = 0.005
#: DCASE task 5 requires an IoU above 0.3.
DCASE_IOU = 0.300001


@dataclass(frozen=True)
class Compared:
    """One recording: name, true and detected annotations, duration, and its file if available."""

    name: str
    truth: Sequence[Annotation]
    found: Sequence[Annotation]
    duration_s: float
    sound: Path | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """The measures of one recording, to be summed.

    Attributes
    ----------
    windows : ndarray (C + 1, C + 1) of int
        Windows by true and detected class; the last is the unknown category.
    note_truth, note_answers : list of str
        The label of each true note, and the class that most of its windows received.
    events : list of EventScores
        For each IoU.
    errors : list of TimeErrors
        For each class.
    """

    windows: NDArray[np.int64]
    note_truth: list[str]
    note_answers: list[str]
    events: list[EventScores]
    dcase: EventScores
    onsets: EventScores | None
    errors: list[TimeErrors]


def is_answer(annotation: Annotation) -> bool:
    """Whether an annotation names a class.

    >>> named, other = Annotation(start_s=0, end_s=1, label="a"), Annotation(start_s=0, end_s=1, verdict="unknown")
    >>> is_answer(named), is_answer(other)
    (True, False)
    """
    return annotation.label is not None and annotation.verdict in (None, KNOWN, AMBIGUOUS)


def is_span(annotation: Annotation) -> bool:
    """Whether an annotation has a duration."""
    return annotation.start_s < annotation.end_s


def compare(recording: Compared, classes: Sequence[str], ious: Sequence[float], tolerance_s: float | None) -> Part:
    """All measures of one recording; parameters as for `evaluation.evaluate`."""
    notes, unnamed, answers = _sorted_out(recording)
    reference, estimated = _both_sides(notes, unnamed, answers, classes)
    windows, votes = _windows(recording.duration_s, notes, answers, unnamed, classes)
    return Part(
        windows=windows,
        note_truth=[str(annotation.label) for annotation in notes],
        note_answers=votes,
        events=[event_f(reference, estimated, iou, classes=classes) for iou in ious],
        dcase=event_f(reference, _events(answers), DCASE_IOU, _events(unnamed), classes=classes),
        onsets=None if tolerance_s is None else onset_scores(reference, estimated, tolerance_s, classes),
        errors=[onset_offset_errors(_of(reference, label), _of(estimated, label), ious[0]) for label in classes],
    )


def event_scores(recording: Compared, classes: Sequence[str], iou: float) -> EventScores:
    """Only the events of one recording, as `compare` counts them."""
    reference, estimated = _both_sides(*_sorted_out(recording), classes)
    return event_f(reference, estimated, iou, classes=classes)


def _sorted_out(recording: Compared) -> tuple[list[Annotation], list[Annotation], list[Annotation]]:
    """True annotations with a label, those without, and answers; no points."""
    spans = [annotation for annotation in recording.truth if is_span(annotation) and annotation.verdict != SILENCE]
    notes, unnamed = (
        [annotation for annotation in spans if is_answer(annotation)],
        [annotation for annotation in spans if not is_answer(annotation)],
    )
    return (
        notes,
        unnamed,
        [annotation for annotation in recording.found if is_answer(annotation) and is_span(annotation)],
    )


def _both_sides(
    notes: Sequence[Annotation], unnamed: Sequence[Annotation], answers: Sequence[Annotation], classes: Sequence[str]
) -> tuple[Events, Events]:
    """True and detected events; detections at annotations without a label count neither way."""
    reference = _events(annotation for annotation in notes if annotation.label in classes)
    return reference, _events(annotation for annotation in answers if not _is_within(annotation, unnamed))


def onset_scores(reference: Events, estimated: Events, tolerance_s: float, classes: Sequence[str]) -> EventScores:
    """Events matched by onset alone: as many pairs with the same label as possible within the tolerance.

    >>> notes = Events.from_rows([(1.0, 1.1, "a"), (1.05, 1.2, "a")])
    >>> found = Events.from_rows([(1.04, 3.0, "a"), (1.06, 3.0, "a"), (9.0, 9.1, "a")])
    >>> scores = onset_scores(notes, found, 0.05, ["a"])
    >>> scores.true_positives, scores.false_positives, scores.false_negatives
    (array([2]), array([1]), array([0]))
    """
    hits, n_reference, n_estimated = [], [], []
    for label in classes:
        true, found = np.sort(_of(reference, label).starts), np.sort(_of(estimated, label).starts)
        hits.append(_pairs(true, found, tolerance_s))
        n_reference.append(len(true))
        n_estimated.append(len(found))
    pairs = np.array(hits)
    return EventScores(
        tuple(classes), pairs, np.array(n_estimated) - pairs, np.array(n_reference) - pairs, np.zeros_like(pairs)
    )


def _pairs(true: np.ndarray, found: np.ndarray, tolerance: float) -> int:
    """The largest number of pairs of sorted times within the tolerance."""
    i = j = n = 0
    while i < len(true) and j < len(found):
        late = found[j] - true[i]
        # times of day in seconds are exact to about 1e-11
        if abs(late) <= tolerance + 1e-9:
            n, i, j = n + 1, i + 1, j + 1
        elif late < 0:
            j += 1
        else:
            i += 1
    return n


def _windows(
    duration_s: float,
    notes: Sequence[Annotation],
    answers: Sequence[Annotation],
    unnamed: Sequence[Annotation],
    classes: Sequence[str],
) -> tuple[NDArray[np.int64], list[str]]:
    """Counts by true and detected class, and for each note the class that most of its windows received."""
    times = (np.arange(int(duration_s / WINDOW_S)) + 0.5) * WINDOW_S
    index = {label: number for number, label in enumerate(classes)}
    n = len(index) + 1
    true, found = (
        _painted(times, annotations, index) for annotations in ([m for m in notes if m.label in index], answers)
    )
    scored = np.ones(len(times), dtype=bool)
    for annotation in unnamed:
        scored[_inside(times, annotation)] = False
    counts = np.bincount(true[scored] * n + found[scored], minlength=n * n).reshape(n, n)
    of_notes = [found[_inside(times, annotation)][scored[_inside(times, annotation)]] for annotation in notes]
    numbers = np.repeat(np.arange(len(of_notes)), [len(of_note) for of_note in of_notes])
    joined = np.concatenate([np.empty(0, dtype=np.int64), *of_notes])
    names = [*classes, REST]
    votes = note_labels([names[i] for i in joined], numbers, classes, REST, n_notes=len(of_notes))
    return counts, [str(vote) for vote in votes]


def _painted(times: np.ndarray, annotations: Iterable[Annotation], index: dict[str, int]) -> NDArray[np.int64]:
    """The number of the class of each window; after the last for none of them."""
    codes = np.full(len(times), len(index), dtype=np.int64)
    for annotation in annotations:
        codes[_inside(times, annotation)] = index.get(str(annotation.label), len(index))
    return codes


def _inside(times: np.ndarray, annotation: Annotation) -> slice:
    first, end = np.searchsorted(times, [annotation.start_s, annotation.end_s])
    return slice(first, end)


def _events(annotations: Iterable[Annotation]) -> Events:
    return Events.from_rows((annotation.start_s, annotation.end_s, annotation.label) for annotation in annotations)


def _of(events: Events, label: str) -> Events:
    own = [i for i, other in enumerate(events.labels) if other == label]
    return Events(events.starts[own], events.ends[own], [label] * len(own))  # type: ignore[arg-type]


def _is_within(annotation: Annotation, spans: Sequence[Annotation]) -> bool:
    """Whether more than half of an annotation lies in one of the spans."""
    shared = (min(annotation.end_s, span.end_s) - max(annotation.start_s, span.start_s) for span in spans)
    return max(shared, default=0.0) > (annotation.end_s - annotation.start_s) / 2
