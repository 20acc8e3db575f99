"""Audacity label tracks, and CSV of Kaleidoscope (Wildlife Acoustics), BirdNET-Analyzer and DCASE's few-shot task.

Each has `Names`, which say what its columns hold, and `Cells`, which are written.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from outlark.annotations.annotation import About, Annotation, confidence, shown, taken_apart
from outlark.annotations.columns import (
    MIX,
    Cells,
    FieldColumns,
    Names,
    end_cell,
    label_index,
    mixed_cell,
    posix_path,
    rows_of,
    score_cell,
    seconds_cell,
    start_cell,
    text_cell,
    unless_blank,
)
from outlark.annotations.files import (
    FREQUENCY_DIGITS,
    SCORE_DIGITS,
    TIME_DIGITS,
    FirstLine,
    Reading,
    Sheet,
    comma_line,
    decimal,
    guarded,
    guarded_label,
    lines_of,
    number,
    one_line,
    optional_number,
    sheet_of,
    tab_cells,
    tab_line,
    unguarded,
)
from outlark.errors import AnnotationError, InputError
from outlark.segments import KNOWN, UNKNOWN


def _taken_apart(annotation: Annotation, text: str, **changes: Any) -> Annotation:
    """With label, verdict and runner-up from the text in its place."""
    label, verdict, runner_up = taken_apart(text)
    return replace(annotation, label=label, verdict=verdict, runner_up=runner_up, **changes)


# --------------------------------------- Audacity: start, end and text between tabs

_LABEL_AND_SCORE = re.compile(r"(?:(.*) )?(-?\d+\.\d\d)", flags=re.DOTALL | re.ASCII)


def recognises_audacity(first: FirstLine) -> bool:
    """Whether a file begins as a label track."""
    return first.separator == "\t" and all(map(_is_number, first.cells[:2]))


def _is_number(cell: str) -> bool:
    try:
        number(cell)
    except ValueError as error:
        return "could be" in str(error)
    return True


def read_audacity(reading: Reading) -> list[Annotation]:
    """The labels; if outlark wrote the file, scores are split from the text."""
    annotations: list[Annotation] = []
    label_refused = False
    lines = enumerate(lines_of(reading.text()), start=1)
    for line, cells in ((i, tab_cells(line)) for i, line in lines if line.strip()):
        try:
            if cells[0].strip() != "\\":
                label_refused = True
                annotations.append(_audacity_label(cells, line))
                label_refused = False
            elif not label_refused:
                _add_frequencies(annotations, cells)
        except (ValueError, InputError) as error:
            reading.refuse(f"line {line}", error)
    if reading.ours:
        return [_without_score(annotation) for annotation in annotations]
    scored = next((annotation.label for annotation in annotations if ends_in_score(annotation.label)), None)
    if scored is not None:
        reading.remarks.append(
            f"{scored!r} and the like are taken as labels; outlark's scores need the .about.json beside it"
        )
    return annotations


def ends_in_score(label: str | None) -> bool:
    """Whether a label ends as those that outlark writes: "song 0.50"."""
    return label is not None and _LABEL_AND_SCORE.fullmatch(label) is not None


def _audacity_label(cells: list[str], line: int) -> Annotation:
    if not 2 <= len(cells) <= 4:
        raise ValueError(f"{len(cells)} cells between tabs; expected start, end and text, as in '0.5\\t0.75\\tsong'")
    try:
        start_s, end_s = number(cells[0]), number(cells[1])
    except ValueError as error:
        raise ValueError(f"{error}; expected start and end in seconds such as 83.25") from None
    label = unguarded(cells[2].strip()) if len(cells) > 2 else ""
    try:
        score = optional_number(cells[3]) if len(cells) > 3 else None
    except ValueError as error:
        raise ValueError(f"the fourth cell, {error}; expected a score, or only three cells") from None
    return Annotation(start_s=start_s, end_s=end_s, label=label or None, score=score, line=line)


def _add_frequencies(annotations: list[Annotation], cells: list[str]) -> None:
    """The line that begins with a backslash belongs to the label before it; -1 means no bound."""
    if len(cells) != 3:
        raise ValueError(f"a frequency line of {len(cells)} cells; expected a backslash, low and high frequency")
    if not annotations:
        raise ValueError("a frequency line before any label")
    low, high = (number(cell) for cell in cells[1:])
    annotations[-1] = replace(annotations[-1], low_hz=low if low >= 0 else None, high_hz=high if high >= 0 else None)


def _without_score(annotation: Annotation) -> Annotation:
    found = _LABEL_AND_SCORE.fullmatch(annotation.label or "")
    text, score = (found[1] or "", float(found[2])) if found else (annotation.label or "", annotation.score)
    return _taken_apart(annotation, text, score=score)


def write_audacity(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """Three columns, and a second line with the frequencies where they are known."""
    for annotation in annotations:
        score = "" if annotation.score is None else f" {annotation.score:.2f}".replace("-0.00", "0.00")
        text = guarded_label((one_line(shown(annotation)) + score).lstrip())
        yield tab_line([start_cell(annotation), end_cell(annotation), text])
        if annotation.low_hz is not None and annotation.high_hz is not None:
            yield tab_line(["\\", *(decimal(hz, FREQUENCY_DIGITS) for hz in (annotation.low_hz, annotation.high_hz))])


# --------------------------------------------------------------------- Kaleidoscope

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
_CHANNEL_FROM_0 = re.compile(r"\d{1,4}", flags=re.ASCII)
KALEIDOSCOPE_CELLS: Cells = {
    "INDIR": lambda one: guarded(posixpath.dirname(posixpath.dirname(posix_path(one)))),
    "FOLDER": lambda one: guarded(posixpath.basename(posixpath.dirname(posix_path(one)))),
    "IN FILE": lambda one: guarded(posixpath.basename(posix_path(one))),
    "CHANNEL": lambda one: str((one.channel or 1) - 1),
    "OFFSET": start_cell,
    "DURATION": lambda one: seconds_cell(round(one.end_s, TIME_DIGITS) - round(one.start_s, TIME_DIGITS)),
    "Fmin": lambda one: decimal(one.low_hz, FREQUENCY_DIGITS),
    "Fmax": lambda one: decimal(one.high_hz, FREQUENCY_DIGITS),
    "TOP1MATCH": lambda one: "" if one.verdict is None else text_cell(one),
    "TOP1DIST": lambda one: decimal(_minus(one.score), SCORE_DIGITS),
    "MANUAL ID": lambda one: text_cell(one) if one.verdict is None else "",
}


def read_kaleidoscope(reading: Reading) -> list[Annotation]:
    """The rows; a manual label (MANUAL ID) overrides TOP1MATCH, which overrides AUTO ID."""
    sheet = sheet_of(reading).stripped()
    columns = FieldColumns.of(sheet, {**KALEIDOSCOPE_NAMES, **(_BAND if "top1match" in sheet.keys else {})})
    annotations = columns.annotations(reading.label_column, guess=False)
    if reading.label_column is not None:
        return [_completed(annotation, [], ours=False) for annotation in annotations]
    if "manual_id" in sheet.keys and any(annotation.label for annotation in annotations):
        reading.remarks.append("manual labels (MANUAL ID) override those of the program")
    column = dict(zip(reversed(sheet.keys), reversed(sheet.columns), strict=True))
    automatic = [column[key] for key in KALEIDOSCOPE_NAMES["label"][1:] if key in column]
    return [_completed(annotation, automatic, reading.ours) for annotation in annotations]


def _completed(annotation: Annotation, automatic: list[str], ours: bool) -> Annotation:
    """The path joined from its parts, the channel counted from 1, and the first label there is."""
    more = dict(annotation.more)
    parts = [more.pop(part, "").replace("\\", "/") for part in ("INDIR", "FOLDER")]
    found: dict[str, Any] = {"score": _minus(annotation.score), "more": more}
    found["recording"] = posixpath.join(*parts, annotation.recording) if annotation.recording else None
    if _CHANNEL_FROM_0.fullmatch(more.get("CHANNEL", "")):
        found["channel"] = int(more.pop("CHANNEL")) + 1
    if more.get("ANALYSED") == MIX:
        del more["ANALYSED"]
        found["channel"] = None
    label = annotation.label
    if label is None:
        label = next((more.pop(column) for column in automatic if column in more), None)
        if ours:
            return _taken_apart(annotation, label or "", **found)
    return replace(annotation, label=label, **found)


def write_kaleidoscope(
    annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]
) -> Iterator[str]:
    """The columns that Kaleidoscope's viewer uses; what people annotated is a manual label."""
    rest: Cells = {"ANALYSED": mixed_cell, "START TIME": lambda one: one.start_time or ""}
    return rows_of({**KALEIDOSCOPE_CELLS, **unless_blank(rest, annotations)}, annotations, comma_line)


def _minus(score: float | None) -> float | None:
    """TOP1DIST is a distance: minus the score, so that sorting by it puts the best first."""
    return None if score is None else -score


# -------------------------------------------------------------------------- BirdNET

BIRDNET_NAMES: Names = {
    "start_s": ("start_s",),
    "end_s": ("end_s",),
    "label": ("common_name", "scientific_name"),
    "score": ("score", "confidence"),
    "recording": ("file", "filepath"),
}
#: The last one is added by outlark, whose scores have no upper limit.
BIRDNET_CELLS: Cells = {
    "Start (s)": start_cell,
    "End (s)": end_cell,
    "Scientific name": text_cell,
    "Common name": text_cell,
    "Confidence": lambda one: decimal(confidence(one), SCORE_DIGITS),
    "File": lambda one: guarded(one.recording or ""),
    "Score": score_cell,
}


def read_birdnet(reading: Reading) -> list[Annotation]:
    """The rows, labelled with the common name."""
    sheet = sheet_of(reading).stripped()
    columns = FieldColumns.of(
        sheet, BIRDNET_NAMES, drop=("confidence",) if reading.ours and "score" in sheet.keys else ()
    )
    annotations = columns.annotations(reading.label_column, guess=False)
    if reading.label_column is not None:
        return annotations
    if "label" in columns.at:
        sheet.remark(f"labels from the column {sheet.columns[columns.at['label']]!r}")
    if not reading.ours:
        return annotations
    return [
        _taken_apart(one, one.label or "", more={k: c for k, c in one.more.items() if k != "Scientific name"})
        for one in annotations
    ]


def write_birdnet(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """BirdNET's columns and the score; the label is written as both names."""
    return rows_of(BIRDNET_CELLS, annotations, comma_line)


# ---------------------------------------------------------------------------- DCASE

DCASE_NAMES: Names = {"recording": ("audiofilename",), "start_s": ("starttime",), "end_s": ("endtime",)}
POS, UNK, NEG = "POS", "UNK", "NEG"


def read_dcase(reading: Reading) -> list[Annotation]:
    """One annotation per POS, labelled with its column; UNK without any POS is unknown, NEG alone is skipped.

    Predictions have no such columns; they are annotations without a label.
    """
    sheet = sheet_of(reading).stripped()
    columns = FieldColumns.of(sheet, DCASE_NAMES)
    classes = _class_columns(sheet, set(columns.at.values()))
    annotations = columns.annotations(guess=False)
    if not classes:
        return annotations
    found = [_labelled(row, classes) for row in annotations]
    if [] in found:
        reading.remarks.append(f"{found.count([])} rows skipped: neither POS nor UNK in {classes}")
    return [annotation for of_row in found for annotation in of_row]


def _class_columns(sheet: Sheet, taken: set[int]) -> list[str]:
    """The columns of POS, UNK and NEG, or the one that was asked for; rows with anything else there are refused."""
    wanted = sheet.reading.label_column
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


def write_dcase(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """Predictions: three columns, file names without folders."""
    return rows_of({"Audiofilename": _named, "Starttime": start_cell, "Endtime": end_cell}, annotations, comma_line)


def _named(annotation: Annotation) -> str:
    if annotation.recording is None:
        raise AnnotationError(
            f"an annotation at {annotation.start_s} s has no recording, which DCASE predictions need; give "
            "Annotation(recording=…)"
        )
    return guarded(posixpath.basename(posix_path(annotation)))
