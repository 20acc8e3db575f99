"""What outlark's own formats (CSV, JSON lines, Parquet) have in common: their fields, in a stable order.

Version 1 of the schema. Later versions may add columns at the end of `FIELDS`; what is there keeps name, place and
meaning.
"""

import json
from collections.abc import Mapping
from typing import Any

from outlark.annotations.columns import Columns, Names
from outlark.annotations.marks import About, Mark
from outlark.annotations.sheets import Sheet
from outlark.errors import AnnotationError
from outlark.files.strict_json import dumps, loads
from outlark.plain_text import visible_json

SCHEMA = 1
#: Text, whole numbers and the others, by name.
FIELDS: dict[str, type] = {
    "recording": str,
    "start_s": float,
    "end_s": float,
    "label": str,
    "verdict": str,
    "score": float,
    "runner_up": str,
    "runner_up_score": float,
    "reason": str,
    "start_sample": int,
    "end_sample": int,
    "sample_rate": int,
    "channel": int,
    "low_hz": float,
    "high_hz": float,
    "start_time": str,
    "remark": str,
}
#: Columns that tables of earlier versions do not have.
LATER = ("start_time", "remark")
#: What rows say of the run that they are from.
RUN = ("schema", "version", "model_sha256", "settings")
OWN_NAMES: Names = {name: (name,) for name in FIELDS}
#: Tables of others: whatever names the columns have.
ANY_NAMES: Names = {
    "recording": (
        "recording", "file", "filename", "file_name", "filepath", "file_path", "path", "audio", "audio_file",
        "audio_path", "audiofile", "audiofilename", "soundfile", "sound_file", "sound_files", "source_file",
        "notated_path", "begin_path", "begin_file", "wav", "in_file",
    ),
    "start_s": (
        "start_s", "begin_s", "onset_s", "start_time_s", "begin_time_s", "start_time", "begin_time", "start_seconds",
        "start_sec", "starttime", "start", "begin", "onset",
    ),
    "end_s": (
        "end_s", "stop_s", "offset_s", "end_time_s", "stop_time_s", "end_time", "stop_time", "end_seconds",
        "stop_seconds", "end_sec", "endtime", "end", "stop", "offset",
    ),
    "duration_s": ("duration_s", "duration", "length_s", "dur"),
    "verdict": ("verdict",),
    "score": ("score", "confidence", "probability"),
    "runner_up": ("runner_up",),
    "runner_up_score": ("runner_up_score",),
    "reason": ("reason",),
    "channel": ("channel",),
    "low_hz": ("low_hz", "low_freq_hz", "low_freq", "freq_low", "bottom_freq", "min_freq", "low_f", "fmin"),
    "high_hz": ("high_hz", "high_freq_hz", "high_freq", "freq_high", "top_freq", "max_freq", "high_f", "fmax"),
    "sample_rate": ("sample_rate", "samplerate", "sampling_rate"),
    "start_sample": ("start_sample", "onset_sample"),
    "end_sample": ("end_sample", "offset_sample"),
}  # fmt: skip


def values(mark: Mark) -> dict[str, Any]:
    """The fields of a mark by name, None for blank.

    >>> found = values(Mark(start_s=0.5, end_s=1.0, label="a", sample_rate=8000))
    >>> found["start_sample"], found["end_sample"], found["score"]
    (4000, 8000, None)
    """
    rate = mark.sample_rate
    samples = {
        "start_sample": None if rate is None else round(mark.start_s * rate),
        "end_sample": None if rate is None else round(mark.end_s * rate),
    }
    whole = {name: samples[name] if name in samples else getattr(mark, name) for name in FIELDS}
    return {name: None if value == "" else value for name, value in whole.items()}


def run_values(about: About) -> dict[str, Any]:
    """What every row says of its run."""
    settings = dumps(dict(about.settings), "settings")
    return {"schema": SCHEMA, "version": about.version, "model_sha256": about.model_sha256, "settings": settings}


def is_own(sheet: Sheet) -> bool:
    """Whether outlark wrote the table: with what it is to say of the run in every row, or in the file beside it."""
    return set(sheet.columns) >= set(FIELDS) - set(LATER)


def marks_in(sheet: Sheet, label_column: str | int | None, *, own: bool, all_digits: bool = False) -> list[Mark]:
    """The marks in a table of ours, or in one of others with whatever columns; `all_digits` if it holds them all."""
    names = OWN_NAMES if own else ANY_NAMES
    rounding = {"rounding_s": 0.0} if all_digits else {}
    columns = Columns.of(sheet, names, strict=own, drop=RUN if own else (), **rounding)
    columns.need("start_s", names, "the start of a mark")
    if "duration_s" not in columns.at:
        columns.need("end_s", names, "its end")
    return columns.marks(label_column, guess=not own)


def about_in(sheet: Sheet) -> dict[str, Any]:
    """What the rows say of their run; empty, with a remark, where they are from several."""
    if not set(sheet.columns) >= set(RUN):
        return {}
    at = [sheet.columns.index(name) for name in RUN]
    runs = {tuple(row.cells[i] for i in at): row.line for row in sheet.rows}
    for (schema, *_), line in runs.items():
        check_schema(schema, f"{sheet.path}, {sheet.unit} {line}")
    if len(runs) != 1:
        if runs:
            sheet.remarks.append(f"rows of {len(runs)} runs of outlark, with other versions, models or settings")
        return {}
    ((_, version, model, settings),) = runs
    return {"version": version, "model_sha256": model or None, "settings": loads(settings or "{}", "settings")}


def check_schema(found: Any, where: str) -> None:
    """An error for what a newer outlark wrote."""
    try:
        newer = int(found) > SCHEMA
    except (TypeError, ValueError, OverflowError):
        raise AnnotationError(f"{where}: schema {found!r:.60}; expected a whole number") from None
    if newer:
        raise AnnotationError(
            f"{where}: schema {found!r:.60}, written by a newer outlark; this one reads up to {SCHEMA}: pip install -U "
            "outlark"
        )


def json_line(value: Mapping[str, Any]) -> str:
    """One line of JSON, keys in their order; what a terminal would obey is spelt as JSON spells it."""
    return visible_json(json.dumps(value, ensure_ascii=False, allow_nan=False)) + "\n"
