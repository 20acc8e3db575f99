"""outlark's own formats: CSV, which also reads the CSV of others, and JSON lines and Parquet, which keep all digits.

CSV has no comment lines, so that pandas, R and spreadsheets read it without options; columns of each row say which run
it comes from. Later versions of the schema may add fields at the end; existing ones keep name, place and meaning.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

from outlark.annotations.annotation import About, Annotation
from outlark.annotations.columns import FieldColumns, Names
from outlark.annotations.files import (
    FREQUENCY_DIGITS,
    SCORE_DIGITS,
    TIME_DIGITS,
    FirstLine,
    Reading,
    Sheet,
    SheetRow,
    check_size,
    comma_line,
    decimal,
    guarded,
    key_of,
    needed,
    read_bytes,
    sheet_of,
)
from outlark.errors import AnnotationError
from outlark.files.io import RepeatedKeyError, dumps, loads, without_doubles
from outlark.plain_text import visible_json, writable

TABLE_SCHEMA = 1
FIELDS: dict[str, type] = {
    "recording": str, "start_s": float, "end_s": float, "label": str, "verdict": str, "score": float, "runner_up": str,
    "runner_up_score": float, "reason": str, "start_sample": int, "end_sample": int, "sample_rate": int, "channel": int,
    "low_hz": float, "high_hz": float, "start_time": str, "remark": str,
}  # fmt: skip
#: The last columns, which a file may lack.
LATER = ("start_time", "remark")
#: What rows say about the run that they come from.
RUN_COLUMNS = ("schema", "version", "model_sha256", "settings")
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
    **{name: (name,) for name in ("verdict", "runner_up", "runner_up_score", "reason", "channel")},
    "score": ("score", "confidence", "probability"),
    "low_hz": ("low_hz", "low_freq_hz", "low_freq", "freq_low", "bottom_freq", "min_freq", "low_f", "fmin"),
    "high_hz": ("high_hz", "high_freq_hz", "high_freq", "freq_high", "top_freq", "max_freq", "high_f", "fmax"),
    "sample_rate": ("sample_rate", "samplerate", "sampling_rate"),
    "start_sample": ("start_sample", "onset_sample"),
    "end_sample": ("end_sample", "offset_sample"),
}  # fmt: skip
FIELD_DIGITS = {"start_s": TIME_DIGITS, "end_s": TIME_DIGITS, "low_hz": FREQUENCY_DIGITS, "high_hz": FREQUENCY_DIGITS}
#: All columns in order; later ones stand last, so that nothing moves.
HEADER = [*(name for name in FIELDS if name not in LATER), *RUN_COLUMNS, *LATER]


def values(annotation: Annotation) -> dict[str, Any]:
    """The fields of an annotation by name, None for blank.

    >>> found = values(Annotation(start_s=0.5, end_s=1.0, label="a", sample_rate=8000))
    >>> found["start_sample"], found["end_sample"], found["score"]
    (4000, 8000, None)
    """
    found = {name: getattr(annotation, name, None) for name in FIELDS}
    rate = annotation.sample_rate
    if rate is not None:
        found |= {"start_sample": round(annotation.start_s * rate), "end_sample": round(annotation.end_s * rate)}
    return {name: None if value == "" else value for name, value in found.items()}


def other_columns(annotations: Iterable[Annotation], own: Sequence[str]) -> dict[str, str]:
    """Key in `Annotation.more` → name of its column, distinct from the columns in `own`."""
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


def _annotations_in(sheet: Sheet, *, own: bool, all_digits: bool = False) -> list[Annotation]:
    """The annotations in a file of outlark or of another program; `all_digits` if times are not rounded."""
    names, drop = (OWN_NAMES, RUN_COLUMNS) if own else (ANY_NAMES, ())
    columns = FieldColumns.of(sheet, names, strict=own, drop=drop, all_digits=all_digits)
    return columns.annotations(sheet.reading.label_column, guess=not own)


# -------------------------------------------------------------------------------- CSV


def recognises_csv(first: FirstLine) -> bool:
    """Whether a file begins with a header that names a start and an end or duration."""
    starts, ends = {*ANY_NAMES["start_s"]}, {*ANY_NAMES["end_s"], *ANY_NAMES["duration_s"]}
    return bool(first.keys & starts and first.keys & ends)


def read_csv(reading: Reading) -> list[Annotation]:
    """The annotations, and what the rows say about their run."""
    sheet = sheet_of(reading)
    if not set(sheet.columns) >= set(FIELDS) - set(LATER):
        return _annotations_in(sheet.stripped(), own=False)
    reading.about = _about_in(sheet) or reading.about
    return _annotations_in(sheet, own=True)


def write_csv(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """All annotations, silence included."""
    more = other_columns(annotations, HEADER)
    yield comma_line([*HEADER, *map(guarded, more.values())])
    run = {"schema": TABLE_SCHEMA, "version": about.version, "model_sha256": about.model_sha256}
    run["settings"] = dumps(dict(about.settings), "settings")
    for annotation in annotations:
        found = {**values(annotation), **run}
        cells = [_csv_cell(name, found[name]) for name in HEADER]
        yield comma_line([*cells, *(guarded(annotation.more.get(key, "")) for key in more)])


def _csv_cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return decimal(value, FIELD_DIGITS.get(name, SCORE_DIGITS))
    return guarded(value) if isinstance(value, str) else str(value)


def _about_in(sheet: Sheet) -> dict[str, Any]:
    """What the rows say about their run; empty, with a remark, if they come from several."""
    if not set(sheet.columns) >= set(RUN_COLUMNS):
        return {}
    at = [sheet.columns.index(name) for name in RUN_COLUMNS]
    # rows that somebody added in a spreadsheet are of no run
    runs = {run: row.line for row in sheet.rows if any(run := tuple(row.cells[i].strip() for i in at))}
    for (schema, *_), line in runs.items():
        _check_schema(schema, f"{sheet.reading.path}, {sheet.unit} {line}")
    if len(runs) != 1:
        if runs:
            sheet.remark(f"rows of {len(runs)} runs of outlark, with different versions, models or settings")
        return {}
    ((_, version, model, settings),) = runs
    return {"version": version, "model_sha256": model or None, "settings": loads(settings or "{}", "settings")}


def _check_schema(found: Any, where: str) -> None:
    """An error for files of a newer outlark."""
    try:
        newer = int(found) > TABLE_SCHEMA
    except (TypeError, ValueError, OverflowError):
        raise AnnotationError(f"{where}: schema {found!r:.60}; expected a whole number") from None
    if newer:
        raise AnnotationError(
            f"{where}: schema {found!r:.60}, written by a newer outlark; this one reads up to {TABLE_SCHEMA}: pip "
            "install -U outlark"
        )


# ------------------------------- JSON lines: one about the run, then one per annotation

#: The key of the first line.
RUN_KEY = "outlark"


def read_json_lines(reading: Reading) -> list[Annotation]:
    """The annotations, and what the first line says about the run."""
    objects = _objects(reading)
    own = bool(objects) and RUN_KEY in objects[0][1]
    if own:
        line, head = objects.pop(0)
        reading.about = _json_run(head[RUN_KEY], f"{reading.path}, line {line}")
    columns = tuple(FIELDS) if own else tuple(dict.fromkeys(key for _, found in objects for key in found))
    check_size(reading.path, len(columns), len(objects))
    sheet = Sheet(reading=reading, columns=columns, rows=[])
    for line, found in objects:
        nested = next((key for key in columns if key != "more" and isinstance(found.get(key), dict | list)), None)
        if nested is not None:
            sheet.refuse(line, f"{nested!r} is {found[nested]!r:.60}; expected text, a number or null")
        elif own and not _is_texts(found.get("more") or {}):
            sheet.refuse(line, f"'more' is {found['more']!r:.60}; expected an object of texts")
        else:
            sheet.rows.append(
                SheetRow(line, tuple("" if key == "more" else _exact_cell(found.get(key)) for key in columns))
            )
    if not own and not objects:
        if reading.refused:
            return []
        raise AnnotationError(f"{reading.path} is empty; expected one JSON object per line")
    annotations = _annotations_in(sheet, own=own, all_digits=True)
    if own:
        at_line = dict(objects)
        annotations = [replace(m, more=at_line[m.line or 0].get("more") or {}) for m in annotations]
    return annotations


def write_json_lines(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """All annotations, silence included."""
    yield head_line(about)
    yield from map(annotation_line, annotations)


def head_line(about: About) -> str:
    """The first line: how the annotations came about.

    >>> head_line(About(version="1.0"))
    '{"outlark": {"schema": 1, "version": "1.0", "model_sha256": null, "settings": {}}}\\n'
    """
    dumps(dict(about.settings), "settings")
    return _json_line({RUN_KEY: {"schema": TABLE_SCHEMA, **about.as_dict()}})


def annotation_line(annotation: Annotation) -> str:
    """The line of one annotation, for writing line by line."""
    return _json_line({**values(annotation), **({"more": dict(annotation.more)} if annotation.more else {})})


def _json_line(value: Mapping[str, Any]) -> str:
    """Control characters that a terminal would obey are escaped."""
    return visible_json(json.dumps(value, ensure_ascii=False, allow_nan=False)) + "\n"


def _objects(reading: Reading) -> list[tuple[int, dict[str, Any]]]:
    """Line number and object of each line."""
    found = []
    lines = reading.text().split("\n")
    for i, line in ((i, line) for i, line in enumerate(lines, start=1) if line.strip()):
        try:
            value = json.loads(line, parse_constant=_refuse, object_pairs_hook=without_doubles)
        except RepeatedKeyError as error:
            reading.refuse(f"line {i}", f"{error}; keep only one of them")
        except (ValueError, RecursionError) as error:
            if i == len(lines):
                reading.remarks.append(f"the last line ({i}) was cut off and is skipped")
            else:
                reading.refuse(f"line {i}", f"not JSON ({error}); expected one object per line")
        else:
            if isinstance(value, dict):
                found.append((i, value))
            else:
                reading.refuse(f"line {i}", f"{line!r:.60}; expected a JSON object, as in {{…}}")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _json_run(head: Any, where: str) -> dict[str, Any]:
    if not isinstance(head, dict):
        raise AnnotationError(f"{where}: {head!r:.60}; expected an object with schema, version and settings")
    _check_schema(head.get("schema"), where)
    return {key: value for key, value in head.items() if key != "schema"}


def _is_texts(more: Any) -> bool:
    return isinstance(more, dict) and all(isinstance(value, str) for value in more.values())


def _exact_cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------- Parquet

_PARQUET_KEY = b"outlark"
PARQUET_MAGIC = b"PAR1"
#: Rows converted at once; each takes about a thousand bytes of memory.
ROWS_AT_ONCE = 2**16


def read_parquet(reading: Reading) -> list[Annotation]:
    """The annotations, and what the metadata says about the run."""
    arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    path = reading.path
    blob = read_bytes(path)
    try:
        opened = parquet.ParquetFile(io.BytesIO(blob))
        # before reading: a constant column takes no space in the file but does in memory
        check_size(path, max(opened.metadata.num_columns, len(opened.schema_arrow)), opened.metadata.num_rows)
        table = opened.read()
        columns = [column.to_pylist() for column in table.columns]
    except AnnotationError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise AnnotationError(f"{path}: not a Parquet file, or damaged ({error!s:.200}); get another copy") from None
    said = (table.schema.metadata or {}).get(_PARQUET_KEY)
    if said is not None:
        reading.about = _json_run(loads(said, f"{path}: its metadata"), str(path))
    rows = [SheetRow(i, tuple(map(_exact_cell, cells))) for i, cells in enumerate(zip(*columns, strict=True), start=1)]
    sheet = Sheet(reading=reading, columns=tuple(map(str, table.column_names)), rows=rows, unit="row")
    return _annotations_in(sheet, own=said is not None, all_digits=True)


def write_parquet(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """All annotations, silence included; unknown columns as text."""
    more = {key: writable(name) for key, name in other_columns(annotations, [*FIELDS, *RUN_COLUMNS]).items()}
    run = dumps({"schema": TABLE_SCHEMA, **about.as_dict()}, "about")
    rows = (
        {**values(annotation), **{name: annotation.more.get(key) for key, name in more.items()}}
        for annotation in annotations
    )
    sink = io.BytesIO()
    write_parquet_rows(sink, FIELDS | dict.fromkeys(more.values(), str), rows, {_PARQUET_KEY: run})
    yield sink.getvalue()


def write_parquet_rows(
    sink: Any, kinds: Mapping[str, type], rows: Iterable[Mapping[str, Any]], metadata: Mapping[bytes, str | bytes]
) -> None:
    """Write rows to a path or an open file; `kinds` are the columns with their types, str, float or int."""
    arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    types = {str: arrow.string(), float: arrow.float64(), int: arrow.int64()}
    schema = arrow.schema([arrow.field(name, types[kind]) for name, kind in kinds.items()], metadata=metadata)
    rest = iter(rows)
    with parquet.ParquetWriter(sink, schema) as writer:
        while True:
            some = list(islice(rest, ROWS_AT_ONCE))
            columns = [[_writable(row[name]) for row in some] for name in kinds]
            arrays = [arrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            if len(some) < ROWS_AT_ONCE:
                break


def _writable(value: Any) -> Any:
    return writable(value) if isinstance(value, str) else value
