"""Kaleidoscope's cluster and ID tables (Wildlife Acoustics): CSV with offset and duration of each detection."""

import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from outlark.annotations.annotation import About, Annotation, is_sound, shown, taken_apart
from outlark.annotations.column_mapping import Columns, Names
from outlark.annotations.delimited import SCORE_DIGITS, TIME_DIGITS, Sheet, comma_line, decimal, guarded
from outlark.annotations.files import encoded

NAMES: Names = {
    "recording": ("in_file",),
    "start_s": ("offset",),
    "duration_s": ("duration",),
    "label": ("manual_id", "top1match", "auto_id"),
    "score": ("top1dist",),
    "start_time": ("start_time",),
}
HEADER = ["INDIR", "FOLDER", "IN FILE", "OFFSET", "DURATION", "TOP1MATCH", "TOP1DIST"]
#: Added by outlark if it is known when the recordings began.
WHEN = "START TIME"
_FOLDERS = ("INDIR", "FOLDER")


def read(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Annotation]:
    """The rows; a manual label (MANUAL ID) overrides TOP1MATCH, which overrides AUTO ID."""
    columns = Columns.of(sheet, NAMES)
    columns.need("start_s", NAMES, "the offset of a detection")
    columns.need("duration_s", NAMES, "its duration")
    annotations = columns.annotations(label_column, guess=False)
    automatic = [c for key in NAMES["label"][1:] for c, k in zip(sheet.columns, sheet.keys, strict=True) if k == key]
    by_hand = label_column is None and "manual_id" in sheet.keys
    if by_hand:
        sheet.remarks.append("manual labels (MANUAL ID) override those of the program")
    ours = about.get("format") == "kaleidoscope" and label_column is None
    return [_completed(annotation, automatic if label_column is None else [], ours) for annotation in annotations]


def write(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """The columns that Kaleidoscope shows, without silence."""
    when = any(annotation.start_time for annotation in filter(is_sound, annotations))
    yield encoded(comma_line([*HEADER, WHEN] if when else HEADER))
    for annotation in filter(is_sound, annotations):
        folder, name = posixpath.split((annotation.recording or "").replace("\\", "/"))
        start_s, end_s = (round(time, TIME_DIGITS) for time in (annotation.start_s, annotation.end_s))
        cells = [guarded(part) for part in (*posixpath.split(folder), name)]
        cells += [decimal(start_s, TIME_DIGITS), decimal(end_s - start_s, TIME_DIGITS)]
        cells += [guarded(shown(annotation)), decimal(_minus(annotation.score), SCORE_DIGITS)]
        yield encoded(comma_line([*cells, annotation.start_time or ""] if when else cells))


def _completed(annotation: Annotation, automatic: list[str], ours: bool) -> Annotation:
    """The path joined from its parts, and the first label there is."""
    parts = [annotation.more.get(part, "") for part in _FOLDERS]
    more = {key: cell for key, cell in annotation.more.items() if key not in _FOLDERS}
    recording = (
        posixpath.join(*(part.replace("\\", "/") for part in parts), annotation.recording)
        if annotation.recording
        else None
    )
    label, verdict, runner_up = annotation.label, None, None
    if label is None:
        label = next((more.pop(column) for column in automatic if column in more), None)
    if ours:
        label, verdict, runner_up = taken_apart(label or "")
    score = _minus(annotation.score)
    return replace(
        annotation, label=label, verdict=verdict, runner_up=runner_up, score=score, recording=recording, more=more
    )


def _minus(score: float | None) -> float | None:
    """TOP1DIST is a distance: minus the score, so that sorting by it puts the best first."""
    return None if score is None else -score
