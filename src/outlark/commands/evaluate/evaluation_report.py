"""An evaluation as numbers with names: for a table of them, and for JSON."""

import math
from collections.abc import Iterator, Mapping

from outlark.annotations.delimited import comma_line, guarded
from outlark.commands.evaluate.comparison import REST
from outlark.commands.evaluate.evaluation import Evaluation
from outlark.metrics import EventScores, FScores, TimeErrors

#: Names of numbers that are of all classes.
POOLED, MEAN, MEAN_ALL = "(pooled)", "(mean of classes)", "(mean with unknown)"
Measures = dict[str, dict[str, float | None]]


def measures(evaluation: Evaluation) -> Measures:
    """Every number: measure → class, or name for all of them → value; None where there is nothing to divide by.

    Examples
    --------
    >>> from outlark.commands.evaluate.comparison import Compared
    >>> from outlark.commands.evaluate.evaluation import evaluate
    >>> from outlark.annotations import Mark
    >>> truth = [Mark(start_s=1.0, end_s=1.5, label="a")]
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
    """True label of the notes → what most of their windows were called → how many."""
    confusion = evaluation.notes.confusion
    return {
        str(label): dict(zip(map(str, confusion.column_labels), row, strict=True))
        for label, row in zip(confusion.row_labels, confusion.counts.tolist(), strict=True)
    }


def csv_text(evaluation: Evaluation) -> str:
    """All numbers as a table: one line each. The measure "answers" counts notes by true label and answer."""
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
