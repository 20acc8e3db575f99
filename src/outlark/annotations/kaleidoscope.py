"""Kaleidoscope's cluster and ID tables (Wildlife Acoustics): CSV with offset and duration of each detection."""

import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from outlark.annotations.annotation import About, Mark, is_sound, shown, taken_apart
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


def read(sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None) -> list[Mark]:
    """The rows; a manual label (MANUAL ID) overrides TOP1MATCH, which overrides AUTO ID."""
    columns = Columns.of(sheet, NAMES)
    columns.need("start_s", NAMES, "the offset of a detection")
    columns.need("duration_s", NAMES, "its duration")
    marks = columns.marks(label_column, guess=False)
    automatic = [c for key in NAMES["label"][1:] for c, k in zip(sheet.columns, sheet.keys, strict=True) if k == key]
    by_hand = label_column is None and "manual_id" in sheet.keys
    if by_hand:
        sheet.remarks.append("manual labels (MANUAL ID) override those of the program")
    ours = about.get("format") == "kaleidoscope" and label_column is None
    return [_completed(mark, automatic if label_column is None else [], ours) for mark in marks]


def write(marks: Collection[Mark], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """The columns that Kaleidoscope shows, without silence."""
    when = any(mark.start_time for mark in filter(is_sound, marks))
    yield encoded(comma_line([*HEADER, WHEN] if when else HEADER))
    for mark in filter(is_sound, marks):
        folder, name = posixpath.split((mark.recording or "").replace("\\", "/"))
        start_s, end_s = (round(time, TIME_DIGITS) for time in (mark.start_s, mark.end_s))
        cells = [guarded(part) for part in (*posixpath.split(folder), name)]
        cells += [decimal(start_s, TIME_DIGITS), decimal(end_s - start_s, TIME_DIGITS)]
        cells += [guarded(shown(mark)), decimal(_minus(mark.score), SCORE_DIGITS)]
        yield encoded(comma_line([*cells, mark.start_time or ""] if when else cells))


def _completed(mark: Mark, automatic: list[str], ours: bool) -> Mark:
    """The path joined from its parts, and the first label there is."""
    parts = [mark.more.get(part, "") for part in _FOLDERS]
    more = {key: cell for key, cell in mark.more.items() if key not in _FOLDERS}
    recording = posixpath.join(*(part.replace("\\", "/") for part in parts), mark.recording) if mark.recording else None
    label, verdict, runner_up = mark.label, None, None
    if label is None:
        label = next((more.pop(column) for column in automatic if column in more), None)
    if ours:
        label, verdict, runner_up = taken_apart(label or "")
    score = _minus(mark.score)
    return replace(mark, label=label, verdict=verdict, runner_up=runner_up, score=score, recording=recording, more=more)


def _minus(score: float | None) -> float | None:
    """TOP1DIST is a distance: minus the score, so that sorting by it puts the best first."""
    return None if score is None else -score
