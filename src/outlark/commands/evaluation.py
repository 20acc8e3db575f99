"""Detections against the truth: windows, notes and events, over any number of recordings.

Conventions: an annotation is an answer if its verdict is known or ambiguous, or if it has a label and no verdict. True
annotations without a label are not scored, because nobody knows what they are. Points have no duration and are ignored
on both sides. Everything that is not one of the classes is the unknown category.
"""

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outlark.annotations import Annotation
from outlark.annotations.files import comma_line, guarded
from outlark.errors import InputError
from outlark.metrics import (
    ConfusionMatrix,
    Events,
    EventScores,
    FScores,
    TimeErrors,
    event_f,
    note_f,
    note_labels,
    onset_offset_errors,
)
from outlark.metrics.events import split_and_merged
from outlark.metrics.windows import f_of_counts
from outlark.segments import AMBIGUOUS, KNOWN, REST, SILENCE

IOUS = (0.5, 0.3)
#: Duration of a window.
EVALUATION_WINDOW_S = 0.005
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
class Evaluation:
    """All measures of all recordings, of `seconds` in total.

    `windows` are 5 ms long. `notes` are the true ones, each with the label that most of its windows received. `events`
    are matched at each IoU; `dcase` by the rule of DCASE task 5 (IoU above 0.3; detections at annotations without a
    label are not false). `errors` are those of the first IoU, for each class; `split` and `merged` count notes
    that were found in pieces, and detections that join several notes.
    """

    classes: tuple[str, ...]
    recordings: int
    seconds: float
    windows: FScores
    notes: FScores
    events: dict[float, EventScores]
    dcase: EventScores
    errors: dict[str, TimeErrors]
    split: NDArray[np.int64]
    merged: NDArray[np.int64]

    @property
    def all_errors(self) -> TimeErrors:
        """Of all classes together."""
        return _together(list(self.errors.values()))


def evaluate(
    recordings: Iterable[Compared],
    classes: Sequence[str],
    *,
    ious: Sequence[float] = IOUS,
) -> Evaluation:
    """Compare detections with the truth, whose other labels are unknown sound.

    Events match from an overlap of each of `ious` on.

    >>> truth = [Annotation(start_s=1.0, end_s=1.5, label="a"), Annotation(start_s=2.0, end_s=2.5, label="b")]
    >>> found = [Annotation(start_s=1.0, end_s=1.4, label="a"), Annotation(start_s=3.0, end_s=3.5, label="b")]
    >>> measured = evaluate([Compared("night.wav", truth, found, 10.0)], ["a", "b"])
    >>> measured.events[0.5].per_class.f, measured.windows.per_class.round(3)
    (array([1., 0.]), array([0.889, 0.   ]))
    """
    classes, compared = tuple(classes), list(recordings)
    if not classes or REST in classes or not ious:
        raise InputError(
            f"classes={list(classes)}, ious={list(ious)}; give at least one of each, and no class named {REST}"
        )
    if not compared:
        raise InputError("no recordings to compare; give at least one that has truth")
    parts = [_measured(recording, classes, ious) for recording in compared]
    windows = np.sum([part.windows for part in parts], axis=0)
    notes = [note for part in parts for note in part.notes]
    return Evaluation(
        classes=classes,
        recordings=len(compared),
        seconds=sum(recording.duration_s for recording in compared),
        # as `outlark.metrics.window_f`, but from counts: labels of all windows of a thousand hours do not fit in memory
        windows=f_of_counts(windows, classes, ConfusionMatrix(windows, (*classes, REST), (*classes, REST))),
        notes=note_f([true for true, _ in notes], [answer for _, answer in notes], classes, REST),
        events={iou: _sum(part.events[i] for part in parts) for i, iou in enumerate(ious)},
        dcase=_sum(part.dcase for part in parts),
        errors={label: _together([part.errors[c] for part in parts]) for c, label in enumerate(classes)},
        split=np.sum([part.split for part in parts], axis=0),
        merged=np.sum([part.merged for part in parts], axis=0),
    )


def _sum(scores: Iterable[EventScores]) -> EventScores:
    return functools.reduce(operator.add, scores)


def _together(errors: Sequence[TimeErrors]) -> TimeErrors:
    return TimeErrors(*(np.concatenate([getattr(e, edge) for e in errors]) for edge in ("onsets", "offsets")))


# --------------------------------------------------------------- one recording


class _Part(NamedTuple):
    """One recording: windows by true and detected class (C + 1, C + 1), of which the last is the unknown category; the
    label and the answer of each true note; events for each IoU, and errors for each class."""

    windows: NDArray[np.int64]
    notes: list[tuple[str, str]]
    events: list[EventScores]
    dcase: EventScores
    errors: list[TimeErrors]
    split: NDArray[np.int64]
    merged: NDArray[np.int64]


def _measured(recording: Compared, classes: Sequence[str], ious: Sequence[float]) -> _Part:
    notes, unnamed, answers = _sorted_out(recording)
    reference, estimated = _both_sides(notes, unnamed, answers, classes)
    split, merged = split_and_merged(reference, estimated, classes)
    windows, votes = _windows(recording.duration_s, notes, answers, unnamed, classes)
    return _Part(
        windows=windows,
        notes=[(str(note.label), vote) for note, vote in zip(notes, votes, strict=True)],
        events=[event_f(reference, estimated, iou, classes=classes) for iou in ious],
        dcase=event_f(reference, _events(answers), DCASE_IOU, _events(unnamed), classes=classes),
        errors=[onset_offset_errors(_of(reference, label), _of(estimated, label), ious[0]) for label in classes],
        split=split,
        merged=merged,
    )


def event_scores(recording: Compared, classes: Sequence[str], iou: float) -> EventScores:
    """Only the events of one recording, as `evaluate` counts them."""
    reference, estimated = _both_sides(*_sorted_out(recording), classes)
    return event_f(reference, estimated, iou, classes=classes)


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


def _sorted_out(recording: Compared) -> tuple[list[Annotation], list[Annotation], list[Annotation]]:
    """True annotations with a label, those without, and answers; no points."""
    spans = [m for m in recording.truth if is_span(m) and m.verdict != SILENCE]
    notes, unnamed = [m for m in spans if is_answer(m)], [m for m in spans if not is_answer(m)]
    return notes, unnamed, [m for m in recording.found if is_answer(m) and is_span(m)]


def _both_sides(
    notes: Sequence[Annotation], unnamed: Sequence[Annotation], answers: Sequence[Annotation], classes: Sequence[str]
) -> tuple[Events, Events]:
    """True and detected events; detections at annotations without a label count neither way."""
    reference = _events(annotation for annotation in notes if annotation.label in classes)
    return reference, _events(annotation for annotation in answers if not _is_within(annotation, unnamed))


def _windows(
    duration_s: float,
    notes: Sequence[Annotation],
    answers: Sequence[Annotation],
    unnamed: Sequence[Annotation],
    classes: Sequence[str],
) -> tuple[NDArray[np.int64], list[str]]:
    """Counts by true and detected class, and for each note the class that most of its windows received."""
    times = (np.arange(int(duration_s / EVALUATION_WINDOW_S)) + 0.5) * EVALUATION_WINDOW_S
    index = {label: number for number, label in enumerate(classes)}
    n = len(index) + 1
    true, found = _painted(times, [m for m in notes if m.label in index], index), _painted(times, answers, index)
    scored = np.ones(len(times), dtype=bool)
    for annotation in unnamed:
        scored[_inside(times, annotation)] = False
    counts = np.bincount(true[scored] * n + found[scored], minlength=n * n).reshape(n, n)
    of_notes = [found[_inside(times, note)][scored[_inside(times, note)]] for note in notes]
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
    return slice(*np.searchsorted(times, [annotation.start_s, annotation.end_s]))


def _events(annotations: Iterable[Annotation]) -> Events:
    return Events.from_rows((annotation.start_s, annotation.end_s, annotation.label) for annotation in annotations)


def _of(events: Events, label: str) -> Events:
    own = [i for i, other in enumerate(events.labels) if other == label]
    return Events(events.starts[own], events.ends[own], [label] * len(own))  # type: ignore[arg-type]


def _is_within(annotation: Annotation, spans: Sequence[Annotation]) -> bool:
    """Whether more than half of an annotation lies in one of the spans."""
    return any(annotation.span.overlap(other.span) > annotation.span.length / 2 for other in spans)


# ------------------------------------------------------------ as named numbers

#: Names of values over all classes.
POOLED, MEAN, MEAN_ALL = "(pooled)", "(mean of classes)", "(mean with unknown)"
Measures = dict[str, dict[str, float | None]]


def measures(evaluation: Evaluation) -> Measures:
    """All values: measure → class, or name for all of them → value; None if undefined.

    >>> truth = [Annotation(start_s=1.0, end_s=1.5, label="a")]
    >>> found = measures(evaluate([Compared("night.wav", truth, truth, 10.0)], ["a", "b"]))
    >>> found["event_f_iou_0.5"]
    {'a': 1.0, 'b': None, '(pooled)': 1.0, '(mean of classes)': 1.0}
    """
    counts = evaluation.dcase.true_positives + evaluation.dcase.false_negatives
    found: Measures = {"notes": {**_by_class(evaluation, counts), POOLED: int(counts.sum())}}
    for name, scores in (("window", evaluation.windows), ("note", evaluation.notes)):
        values = {**_by_class(scores, scores.per_class), REST: scores.unknown}
        found[f"{name}_f"] = _plain({**values, MEAN: scores.macro_known, MEAN_ALL: scores.macro_all})
        chance = {MEAN: scores.chance["macro_known"], MEAN_ALL: scores.chance["macro_all"]}
        found[f"{name}_f_chance"] = _plain(chance)
    for iou, events in evaluation.events.items():
        found |= _of_events("event_{}" + f"_iou_{iou:g}", events)
    found |= _of_events("dcase_{}", evaluation.dcase)
    for name, counts in (("split_notes", evaluation.split), ("merging_detections", evaluation.merged)):
        found[name] = {**_by_class(evaluation, counts), POOLED: int(counts.sum())}
    errors = {**evaluation.errors, POOLED: evaluation.all_errors}
    for i, edge in enumerate(("onset", "offset")):
        found[f"{edge}_error_ms"] = _plain({label: 1000 * of.median_absolute[i] for label, of in errors.items()})
    return found


def answers(evaluation: Evaluation) -> dict[str, dict[str, int]]:
    """True label of the notes → label that most of their windows received → number."""
    confusion = evaluation.notes.confusion
    return {
        str(label): dict(zip(map(str, confusion.column_labels), row, strict=True))
        for label, row in zip(confusion.row_labels, confusion.counts.tolist(), strict=True)
    }


def csv_text(evaluation: Evaluation) -> str:
    """All values as CSV, one per line; the measure "answers" counts notes by true label and answer."""
    return comma_line(["measure", "class", "answer", "value"]) + "".join(_lines(evaluation))


def _lines(evaluation: Evaluation) -> Iterator[str]:
    for measure, values in measures(evaluation).items():
        for label, value in values.items():
            yield comma_line([measure, guarded(label), "", "" if value is None else repr(value)])
    for label, counts in answers(evaluation).items():
        for answer, n in counts.items():
            yield comma_line(["answers", guarded(label), guarded(answer), str(n)])


def _of_events(name: str, scores: EventScores) -> Measures:
    found: Measures = {}
    for i, rate in enumerate(("precision", "recall", "f")):
        values = {**_by_class(scores, scores.per_class[i]), POOLED: scores.pooled[i], MEAN: scores.macro[i]}
        found[name.format(rate)] = _plain(values)
    for what in ("true_positives", "false_positives", "false_negatives", "absorbed"):
        counts = getattr(scores, what)
        found[name.format(what)] = {**_by_class(scores, counts), POOLED: int(counts.sum())}
    return found


def _by_class(of: Evaluation | FScores | EventScores, values: np.ndarray) -> dict[str, float]:
    return dict(zip(map(str, of.classes), values.tolist(), strict=True))


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {label: None if math.isnan(value) else float(value) for label, value in values.items()}
