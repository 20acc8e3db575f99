"""CSV of the DCASE task on few-shot bioacoustic events: annotations with POS, UNK and NEG, and predictions."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from outlark.annotations.annotation import About, Annotation, is_known
from outlark.annotations.column_mapping import Columns, Names, label_index
from outlark.annotations.delimited import TIME_DIGITS, Sheet, comma_line, decimal, guarded
from outlark.annotations.files import encoded
from outlark.errors import AnnotationError
from outlark.segments import KNOWN, UNKNOWN

NAMES: Names = {"recording": ("audiofilename",), "start_s": ("starttime",), "end_s": ("endtime",)}
HEADER = ["Audiofilename", "Starttime", "Endtime"]
POS, UNK, NEG = "POS", "UNK", "NEG"


def read(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Annotation]:
    """One annotation per POS, labelled with its column; UNK without any POS is unknown, NEG alone is skipped.

    Predictions have no such columns; they are annotations without a label.
    """
    columns = Columns.of(sheet, NAMES)
    for field, what in (("recording", "the sound file"), ("start_s", "the start"), ("end_s", "the end")):
        columns.need(field, NAMES, what)
    classes = _class_columns(sheet, set(columns.at.values()), label_column)
    annotations = columns.annotations(guess=False)
    if not classes:
        return annotations
    found = [annotation for row in annotations for annotation in _labelled(row, classes)]
    only_neg = sum(not _labelled(row, classes) for row in annotations)
    if only_neg:
        sheet.remarks.append(f"{only_neg} rows skipped: neither POS nor UNK in {classes}")
    return found


def write(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """Predictions: three columns, known notes only, file names without folders."""
    yield encoded(comma_line(HEADER))
    for annotation in filter(is_known, annotations):
        if annotation.recording is None:
            raise AnnotationError(
                f"an annotation at {annotation.start_s} s has no recording, which DCASE predictions need; give "
                "Annotation(recording=…)"
            )
        name = PurePosixPath(annotation.recording.replace("\\", "/")).name
        times = [decimal(annotation.start_s, TIME_DIGITS), decimal(annotation.end_s, TIME_DIGITS)]
        yield encoded(comma_line([guarded(name), *times]))


def _class_columns(sheet: Sheet, taken: set[int], wanted: str | int | None) -> list[str]:
    """The columns of POS, UNK and NEG, or the one that was asked for."""
    chosen = [i for i in range(len(sheet.columns)) if i not in taken]
    if wanted is not None:
        chosen = [i for i in [label_index(sheet, taken, wanted)] if i is not None]
    found = []
    for i in chosen:
        said = [(row.line, row.cells[i].upper()) for row in sheet.rows]
        if wanted is None and not any(cell in (POS, UNK, NEG) for _, cell in said):
            continue
        odd = next(((line, cell) for line, cell in said if cell not in (POS, UNK, NEG, "")), None)
        if odd:
            raise sheet.wrong(odd[0], f"column {sheet.columns[i]!r} is {odd[1]!r:.60}; expected POS, UNK or NEG")
        found.append(sheet.columns[i])
    return found


def _labelled(row: Annotation, classes: list[str]) -> list[Annotation]:
    said = {c: row.more.get(c, "").upper() for c in classes}
    rest = {key: cell for key, cell in row.more.items() if key not in classes}
    positive = [c for c in classes if said[c] == POS]
    if positive:
        return [replace(row, label=c, verdict=KNOWN, more=rest) for c in positive]
    unsure = {c: UNK for c in classes if said[c] == UNK}
    return [replace(row, verdict=UNKNOWN, more=rest | unsure)] if unsure else []
