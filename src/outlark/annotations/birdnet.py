"""The CSV of BirdNET-Analyzer."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from outlark.annotations.annotation import About, Annotation, is_sound, shown, taken_apart
from outlark.annotations.column_mapping import Columns, Names
from outlark.annotations.delimited import SCORE_DIGITS, TIME_DIGITS, Sheet, comma_line, decimal, guarded
from outlark.annotations.files import encoded

NAMES: Names = {
    "start_s": ("start_s",),
    "end_s": ("end_s",),
    "label": ("common_name", "scientific_name"),
    "score": ("confidence",),
    "recording": ("file", "filepath"),
}
HEADER = ["Start (s)", "End (s)", "Scientific name", "Common name", "Confidence", "File"]


def read(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Annotation]:
    """The rows, labelled with the common name."""
    columns = Columns.of(sheet, NAMES)
    columns.need("start_s", NAMES, "the start of a detection")
    columns.need("end_s", NAMES, "its end")
    annotations = columns.annotations(label_column, guess=False)
    if label_column is None and "label" in columns.at:
        sheet.remarks.append(f"labels from the column {sheet.columns[columns.at['label']]!r}")
    if about.get("format") != "birdnet" or label_column is not None:
        return annotations
    return [_taken_apart(annotation) for annotation in annotations]


def write(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """BirdNET's columns, without silence; the label is written as both names, the score is outlark's."""
    yield encoded(comma_line(HEADER))
    for annotation in filter(is_sound, annotations):
        times = [decimal(annotation.start_s, TIME_DIGITS), decimal(annotation.end_s, TIME_DIGITS)]
        text = guarded(shown(annotation))
        score = decimal(annotation.score, SCORE_DIGITS)
        yield encoded(comma_line([*times, text, text, score, guarded(annotation.recording or "")]))


def _taken_apart(annotation: Annotation) -> Annotation:
    label, verdict, runner_up = taken_apart(annotation.label or "")
    more = {key: cell for key, cell in annotation.more.items() if key != "Scientific name"}
    return replace(annotation, label=label, verdict=verdict, runner_up=runner_up, more=more)
