"""outlark's CSV, other CSV files, and the fields that outlark's own formats (CSV, JSON lines, Parquet) share.

CSV has no comment lines, so that pandas, R and spreadsheets read it without options; columns of each row say which run
it comes from. Later versions of the schema may add fields at the end; existing ones keep name, place and meaning.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from outlark.annotations.annotation import About, Annotation
from outlark.annotations.column_mapping import Columns, Names
from outlark.annotations.delimited import (
    FREQUENCY_DIGITS,
    SCORE_DIGITS,
    TIME_DIGITS,
    Sheet,
    comma_line,
    decimal,
    guarded,
    key_of,
)
from outlark.annotations.files import encoded
from outlark.errors import AnnotationError
from outlark.files.strict_json import dumps, loads
from outlark.plain_text import visible_json

SCHEMA = 1
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
#: Columns that files of earlier versions do not have.
LATER = ("start_time", "remark")
#: What rows say about the run that they come from.
RUN = ("schema", "version", "model_sha256", "settings")
OWN_NAMES: Names = {name: (name,) for name in FIELDS}
#: Column names in files of other programs.
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
DIGITS = {
    "start_s": TIME_DIGITS,
    "end_s": TIME_DIGITS,
    "low_hz": FREQUENCY_DIGITS,
    "high_hz": FREQUENCY_DIGITS,
}
#: All columns in order; later ones stand last, so that nothing moves.
HEADER = [*(name for name in FIELDS if name not in LATER), *RUN, *LATER]


def read(
    sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None
) -> tuple[list[Annotation], Mapping[str, Any]]:
    """The annotations, and what the file says about its run."""
    if not is_own(sheet):
        return annotations_in(sheet.stripped(), label_column, own=False), about
    return annotations_in(sheet, label_column, own=True), about_in(sheet) or about


def write(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """All annotations, silence included."""
    more = other_columns(annotations, HEADER)
    yield encoded(comma_line([*HEADER, *map(guarded, more.values())]))
    run = run_values(about)
    for annotation in annotations:
        found = {**values(annotation), **run}
        cells = [_cell(name, found[name]) for name in HEADER]
        yield encoded(comma_line([*cells, *(guarded(annotation.more.get(key, "")) for key in more)]))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return decimal(value, DIGITS.get(name, SCORE_DIGITS))
    return guarded(value) if isinstance(value, str) else str(value)


def values(annotation: Annotation) -> dict[str, Any]:
    """The fields of an annotation by name, None for blank.

    >>> found = values(Annotation(start_s=0.5, end_s=1.0, label="a", sample_rate=8000))
    >>> found["start_sample"], found["end_sample"], found["score"]
    (4000, 8000, None)
    """
    rate = annotation.sample_rate
    samples = {
        "start_sample": None if rate is None else round(annotation.start_s * rate),
        "end_sample": None if rate is None else round(annotation.end_s * rate),
    }
    whole = {name: samples[name] if name in samples else getattr(annotation, name) for name in FIELDS}
    return {name: None if value == "" else value for name, value in whole.items()}


def run_values(about: About) -> dict[str, Any]:
    """What every row says about its run."""
    settings = dumps(dict(about.settings), "settings")
    return {"schema": SCHEMA, "version": about.version, "model_sha256": about.model_sha256, "settings": settings}


def is_own(sheet: Sheet) -> bool:
    """Whether outlark wrote the file."""
    return set(sheet.columns) >= set(FIELDS) - set(LATER)


def annotations_in(
    sheet: Sheet, label_column: str | int | None, *, own: bool, all_digits: bool = False
) -> list[Annotation]:
    """The annotations in a file of outlark or of another program; `all_digits` if times are not rounded."""
    names = OWN_NAMES if own else ANY_NAMES
    rounding = {"rounding_s": 0.0} if all_digits else {}
    columns = Columns.of(sheet, names, strict=own, drop=RUN if own else (), **rounding)
    columns.need("start_s", names, "the start")
    if "duration_s" not in columns.at:
        columns.need("end_s", names, "the end")
    return columns.annotations(label_column, guess=not own)


def about_in(sheet: Sheet) -> dict[str, Any]:
    """What the rows say about their run; empty, with a remark, if they come from several."""
    if not set(sheet.columns) >= set(RUN):
        return {}
    at = [sheet.columns.index(name) for name in RUN]
    # rows that somebody added in a spreadsheet are of no run
    runs = {run: row.line for row in sheet.rows if any(run := tuple(row.cells[i].strip() for i in at))}
    for (schema, *_), line in runs.items():
        check_schema(schema, f"{sheet.path}, {sheet.unit} {line}")
    if len(runs) != 1:
        if runs:
            sheet.remarks.append(f"rows of {len(runs)} runs of outlark, with different versions, models or settings")
        return {}
    ((_, version, model, settings),) = runs
    return {"version": version, "model_sha256": model or None, "settings": loads(settings or "{}", "settings")}


def check_schema(found: Any, where: str) -> None:
    """An error for files of a newer outlark."""
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
    """One line of JSON; control characters that a terminal would obey are escaped."""
    return visible_json(json.dumps(value, ensure_ascii=False, allow_nan=False)) + "\n"


def other_columns(annotations: Iterable[Annotation], own: Sequence[str]) -> dict[str, str]:
    """Key in `Annotation.more` → name of its column, in order of appearance; distinct from the columns in `own`.

    >>> other_columns([Annotation(start_s=0, end_s=1, more={"Site": "A", "label": "b"})], ["label"])
    {'Site': 'Site', 'label': 'label (more)'}
    """
    found: dict[str, str] = {}
    taken = {key_of(name) for name in own}
    for annotation in annotations:
        for key in annotation.more:
            if key not in found:
                name = key
                while key_of(name) in taken:
                    name += " (more)"
                found[key] = name
                taken.add(key_of(name))
    return found
