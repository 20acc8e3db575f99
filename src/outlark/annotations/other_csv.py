"""CSV of other programs: Kaleidoscope (Wildlife Acoustics), BirdNET-Analyzer, and the few-shot task of DCASE."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from outlark.annotations.annotation import About, Annotation, confidence, is_known, is_sound, shown, taken_apart
from outlark.annotations.column_mapping import MIX, Columns, Names, label_index
from outlark.annotations.delimited import (
    FREQUENCY_DIGITS,
    SCORE_DIGITS,
    TIME_DIGITS,
    Sheet,
    comma_line,
    decimal,
    guarded,
)
from outlark.annotations.files import encoded
from outlark.errors import AnnotationError
from outlark.verdict_names import KNOWN, UNKNOWN

KALEIDOSCOPE_NAMES: Names = {
    "recording": ("in_file",),
    "start_s": ("offset",),
    "duration_s": ("duration",),
    "label": ("manual_id", "top1match", "auto_id"),
    "score": ("top1dist",),
    "start_time": ("start_time",),
}
#: In Hz beside clusters (TOP1MATCH), in kHz beside the calls of bats (AUTO ID): only the former are read.
_BAND: Names = {"low_hz": ("fmin",), "high_hz": ("fmax",)}
KALEIDOSCOPE_HEADER = [
    "INDIR", "FOLDER", "IN FILE", "CHANNEL", "OFFSET", "DURATION", "Fmin", "Fmax", "TOP1MATCH", "TOP1DIST", "MANUAL ID",
]  # fmt: skip
#: Added by outlark if the mean of all channels was analysed, and if it is known when the recordings began.
ANALYSED, WHEN = "ANALYSED", "START TIME"
_FOLDERS = ("INDIR", "FOLDER")
_CHANNEL = "CHANNEL"
_DIGITS = re.compile(r"\d{1,4}", flags=re.ASCII)


def read_kaleidoscope(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Annotation]:
    """The rows; a manual label (MANUAL ID) overrides TOP1MATCH, which overrides AUTO ID."""
    names = {**KALEIDOSCOPE_NAMES, **(_BAND if "top1match" in sheet.keys else {})}
    columns = Columns.of(sheet, names)
    columns.need("start_s", names, "the offset of a detection")
    columns.need("duration_s", names, "its duration")
    annotations = columns.annotations(label_column, guess=False)
    automatic = [
        c for key in KALEIDOSCOPE_NAMES["label"][1:] for c, k in zip(sheet.columns, sheet.keys, strict=True) if k == key
    ]
    by_hand = label_column is None and "manual_id" in sheet.keys
    if by_hand and any(annotation.label for annotation in annotations):
        sheet.remarks.append("manual labels (MANUAL ID) override those of the program")
    ours = about.get("format") == "kaleidoscope" and label_column is None
    return [_completed(annotation, automatic if label_column is None else [], ours) for annotation in annotations]


def write_kaleidoscope(
    annotations: Collection[Annotation], about: About, durations: Mapping[str, float]
) -> Iterator[bytes]:
    """The columns that Kaleidoscope's viewer uses, without silence; what people annotated is a manual label."""
    mixed = any(annotation.channel is None for annotation in filter(is_sound, annotations))
    when = any(annotation.start_time for annotation in filter(is_sound, annotations))
    yield encoded(comma_line([*KALEIDOSCOPE_HEADER, *[ANALYSED] * mixed, *[WHEN] * when]))
    for annotation in filter(is_sound, annotations):
        cells = _kaleidoscope_cells(annotation)
        cells += [MIX if annotation.channel is None else ""] * mixed
        yield encoded(comma_line([*cells, *[annotation.start_time or ""] * when]))


def _kaleidoscope_cells(annotation: Annotation) -> list[str]:
    folder, name = posixpath.split((annotation.recording or "").replace("\\", "/"))
    start_s, end_s = (round(time, TIME_DIGITS) for time in (annotation.start_s, annotation.end_s))
    text = guarded(shown(annotation))
    by_program, by_hand = ("", text) if annotation.verdict is None else (text, "")
    return [
        *(guarded(part) for part in (*posixpath.split(folder), name)),
        str((annotation.channel or 1) - 1),  # counted from 0
        decimal(start_s, TIME_DIGITS),
        decimal(end_s - start_s, TIME_DIGITS),
        decimal(annotation.low_hz, FREQUENCY_DIGITS),
        decimal(annotation.high_hz, FREQUENCY_DIGITS),
        by_program,
        decimal(_minus(annotation.score), SCORE_DIGITS),
        by_hand,
    ]


def _completed(annotation: Annotation, automatic: list[str], ours: bool) -> Annotation:
    """The path joined from its parts, the channel counted from 1, and the first label there is."""
    parts = [annotation.more.get(part, "").replace("\\", "/") for part in _FOLDERS]
    more = {key: cell for key, cell in annotation.more.items() if key not in _FOLDERS}
    recording = posixpath.join(*parts, annotation.recording) if annotation.recording else None
    channel = int(more.pop(_CHANNEL)) + 1 if _DIGITS.fullmatch(more.get(_CHANNEL, "")) else None
    if more.get(ANALYSED) == MIX:
        del more[ANALYSED]
        channel = None
    label, verdict, runner_up = annotation.label, None, None
    if label is None:
        label = next((more.pop(column) for column in automatic if column in more), None)
        if ours:
            label, verdict, runner_up = taken_apart(label or "")
    found: dict[str, Any] = {"label": label, "verdict": verdict, "runner_up": runner_up}
    found |= {"score": _minus(annotation.score), "recording": recording, "channel": channel}
    return replace(annotation, **found, more=more)


def _minus(score: float | None) -> float | None:
    """TOP1DIST is a distance: minus the score, so that sorting by it puts the best first."""
    return None if score is None else -score


BIRDNET_NAMES: Names = {
    "start_s": ("start_s",),
    "end_s": ("end_s",),
    "label": ("common_name", "scientific_name"),
    "score": ("score", "confidence"),
    "recording": ("file", "filepath"),
}
#: The last one is added by outlark, whose scores have no upper limit.
BIRDNET_HEADER = ["Start (s)", "End (s)", "Scientific name", "Common name", "Confidence", "File", "Score"]


def read_birdnet(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Annotation]:
    """The rows, labelled with the common name."""
    ours = about.get("format") == "birdnet"
    columns = Columns.of(sheet, BIRDNET_NAMES, drop=("confidence",) if ours and "score" in sheet.keys else ())
    columns.need("start_s", BIRDNET_NAMES, "the start of a detection")
    columns.need("end_s", BIRDNET_NAMES, "its end")
    annotations = columns.annotations(label_column, guess=False)
    if label_column is None and "label" in columns.at:
        sheet.remarks.append(f"labels from the column {sheet.columns[columns.at['label']]!r}")
    if not ours or label_column is not None:
        return annotations
    return [_taken_apart_birdnet(annotation) for annotation in annotations]


def write_birdnet(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """BirdNET's columns and the score, without silence; the label is written as both names."""
    yield encoded(comma_line(BIRDNET_HEADER))
    for annotation in filter(is_sound, annotations):
        times = [decimal(annotation.start_s, TIME_DIGITS), decimal(annotation.end_s, TIME_DIGITS)]
        text = guarded(shown(annotation))
        sure, score = (decimal(value, SCORE_DIGITS) for value in (confidence(annotation), annotation.score))
        yield encoded(comma_line([*times, text, text, sure, guarded(annotation.recording or ""), score]))


def _taken_apart_birdnet(annotation: Annotation) -> Annotation:
    label, verdict, runner_up = taken_apart(annotation.label or "")
    more = {key: cell for key, cell in annotation.more.items() if key != "Scientific name"}
    return replace(annotation, label=label, verdict=verdict, runner_up=runner_up, more=more)


DCASE_NAMES: Names = {"recording": ("audiofilename",), "start_s": ("starttime",), "end_s": ("endtime",)}
DCASE_HEADER = ["Audiofilename", "Starttime", "Endtime"]
POS, UNK, NEG = "POS", "UNK", "NEG"


def read_dcase(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Annotation]:
    """One annotation per POS, labelled with its column; UNK without any POS is unknown, NEG alone is skipped.

    Predictions have no such columns; they are annotations without a label.
    """
    columns = Columns.of(sheet, DCASE_NAMES)
    for field, what in (("recording", "the sound file"), ("start_s", "the start"), ("end_s", "the end")):
        columns.need(field, DCASE_NAMES, what)
    classes = _class_columns(sheet, set(columns.at.values()), label_column)
    annotations = columns.annotations(guess=False)
    if not classes:
        return annotations
    found = [annotation for row in annotations for annotation in _labelled(row, classes)]
    only_neg = sum(not _labelled(row, classes) for row in annotations)
    if only_neg:
        sheet.remarks.append(f"{only_neg} rows skipped: neither POS nor UNK in {classes}")
    return found


def write_dcase(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """Predictions: three columns, known notes only, file names without folders."""
    yield encoded(comma_line(DCASE_HEADER))
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
    """The columns of POS, UNK and NEG, or the one that was asked for; rows with anything else there are refused."""
    chosen = [i for i in range(len(sheet.columns)) if i not in taken]
    if wanted is not None:
        chosen = [i for i in [label_index(sheet, taken, wanted)] if i is not None]
    found = []
    for i in chosen:
        said = [(row.line, row.cells[i].upper()) for row in sheet.rows]
        if wanted is None and not any(cell in (POS, UNK, NEG) for _, cell in said):
            continue
        odd = {line: cell for line, cell in said if cell not in (POS, UNK, NEG, "")}
        for line, cell in odd.items():
            sheet.refuse(line, f"column {sheet.columns[i]!r} is {cell!r:.60}; expected POS, UNK or NEG")
        sheet.rows[:] = [row for row in sheet.rows if row.line not in odd]
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
