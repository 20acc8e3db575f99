"""Windows, notes and events against the truth over any number of recordings, and as named numbers."""

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outlark.annotations.delimited import comma_line, guarded
from outlark.commands.evaluate.comparison import REST, Compared, compare
from outlark.errors import InputError
from outlark.metrics import ConfusionMatrix, EventScores, FScores, TimeErrors, note_f
from outlark.metrics.windows import f_of_counts

IOUS = (0.5, 0.3)


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """All measures; for conventions see `comparison`.

    Attributes
    ----------
    classes : tuple of str
    recordings : int
    seconds : float
        Total duration.
    windows : FScores
        Of 5 ms windows.
    notes : FScores
        Of the true notes, each with the label that most of its windows received.
    events : dict of float to EventScores
        For each IoU.
    dcase : EventScores
        The rule of DCASE task 5: IoU above 0.3; detections at annotations without a label are not false.
    onsets : EventScores or None
        Events matched by onset within the tolerance.
    errors : dict of str to TimeErrors
        For each class, in seconds, for the first IoU.
    """

    classes: tuple[str, ...]
    recordings: int
    seconds: float
    windows: FScores
    notes: FScores
    events: dict[float, EventScores]
    dcase: EventScores
    onsets: EventScores | None
    errors: dict[str, TimeErrors]

    @property
    def all_errors(self) -> TimeErrors:
        """Of all classes together."""
        return _together(list(self.errors.values()))


def evaluate(
    recordings: Iterable[Compared],
    classes: Sequence[str],
    *,
    ious: Sequence[float] = IOUS,
    tolerance_s: float | None = None,
) -> Evaluation:
    """Compare detections with the truth.

    Parameters
    ----------
    recordings : iterable of Compared
    classes : sequence of str
        Other labels of the truth are unknown sound.
    ious : sequence of float
        Overlap from which events match, above 0 up to 1.
    tolerance_s : float, optional
        Also match events by their onsets alone, within this tolerance.

    Examples
    --------
    >>> from outlark.annotations import Annotation
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
    if tolerance_s is not None and not tolerance_s >= 0:
        raise InputError(f"tolerance_s={tolerance_s!r} must be 0 or more seconds")
    if not compared:
        raise InputError("no recordings to compare; give at least one that has truth")
    parts = [compare(recording, classes, ious, tolerance_s) for recording in compared]
    truth = [label for part in parts for label in part.note_truth]
    answers = [label for part in parts for label in part.note_answers]
    return Evaluation(
        classes=classes,
        recordings=len(compared),
        seconds=sum(recording.duration_s for recording in compared),
        windows=_f_scores(np.sum([part.windows for part in parts], axis=0), classes),
        notes=note_f(truth, answers, classes, REST),
        events={iou: _sum(part.events[i] for part in parts) for i, iou in enumerate(ious)},
        dcase=_sum(part.dcase for part in parts),
        onsets=_sum(part.onsets for part in parts if part.onsets is not None) if tolerance_s is not None else None,
        errors={label: _together([part.errors[c] for part in parts]) for c, label in enumerate(classes)},
    )


def _sum(scores: Iterable[EventScores]) -> EventScores:
    return functools.reduce(operator.add, scores)


def _together(errors: Sequence[TimeErrors]) -> TimeErrors:
    return TimeErrors(
        np.concatenate([error.onsets for error in errors]), np.concatenate([error.offsets for error in errors])
    )


def _f_scores(counts: NDArray[np.int64], classes: tuple[str, ...]) -> FScores:
    """As `outlark.metrics.window_f`, from counts: a thousand hours of window labels do not fit into memory."""
    return f_of_counts(counts, classes, ConfusionMatrix(counts, (*classes, REST), (*classes, REST)))


#: Names of values over all classes.
POOLED, MEAN, MEAN_ALL = "(pooled)", "(mean of classes)", "(mean with unknown)"
Measures = dict[str, dict[str, float | None]]


def measures(evaluation: Evaluation) -> Measures:
    """All values: measure → class, or name for all of them → value; None if undefined.

    >>> from outlark.commands.evaluate.comparison import Compared
    >>> from outlark.commands.evaluate.evaluation import evaluate
    >>> from outlark.annotations import Annotation
    >>> truth = [Annotation(start_s=1.0, end_s=1.5, label="a")]
    >>> found = measures(evaluate([Compared("night.wav", truth, truth, 10.0)], ["a", "b"]))
    >>> found["event_f_iou_0.5"]
    {'a': 1.0, 'b': None, '(pooled)': 1.0, '(mean of classes)': 1.0}
    """
    counts = evaluation.dcase.true_positives + evaluation.dcase.false_negatives
    found: Measures = {
        "notes": {**dict(zip(evaluation.classes, counts.tolist(), strict=True)), POOLED: int(counts.sum())}
    }
    for name, scores in (("window", evaluation.windows), ("note", evaluation.notes)):
        found[f"{name}_f"] = _f(scores)
        found[f"{name}_f_chance"] = {
            MEAN: _plain(scores.chance["macro_known"]),
            MEAN_ALL: _plain(scores.chance["macro_all"]),
        }
    for iou, events in evaluation.events.items():
        found |= _events("event", f"iou_{iou:g}", events)
    found |= _events("dcase", "", evaluation.dcase)
    if evaluation.onsets is not None:
        found |= _events("onset", "", evaluation.onsets)
    errors = {**evaluation.errors, POOLED: evaluation.all_errors}
    for i, border in enumerate(("onset", "offset")):
        found[f"{border}_error_ms"] = {label: _median_ms(error, i) for label, error in errors.items()}
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


def _f(scores: FScores) -> dict[str, float | None]:
    named = {**dict(zip(scores.classes, scores.per_class.tolist(), strict=True)), REST: scores.unknown}
    named |= {MEAN: scores.macro_known, MEAN_ALL: scores.macro_all}
    return {str(label): _plain(value) for label, value in named.items()}


def _events(name: str, end: str, scores: EventScores) -> Measures:
    found: Measures = {}
    for i, rate in enumerate(("precision", "recall", "f")):
        values = dict(zip(map(str, scores.classes), scores.per_class[i].tolist(), strict=True))
        values |= {POOLED: scores.pooled[i], MEAN: scores.macro[i]}
        found[_joined(name, rate, end)] = {label: _plain(value) for label, value in values.items()}
    for what in ("true_positives", "false_positives", "false_negatives", "absorbed"):
        counts = getattr(scores, what)
        whole: Mapping[str, float | None] = dict(zip(map(str, scores.classes), counts.tolist(), strict=True))
        found[_joined(name, what, end)] = {**whole, POOLED: int(counts.sum())}
    return found


def _joined(*parts: str) -> str:
    return "_".join(part for part in parts if part)


def _median_ms(errors: TimeErrors, border: int) -> float | None:
    return _plain(1000 * errors.median_absolute[border])


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
