"""Formats that keep all digits: JSON lines (a first line about the run, then one object per annotation) and Parquet."""

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from outlark.annotations.annotation import About, Annotation, Remarks
from outlark.annotations.delimited import Row, Sheet, check_size
from outlark.annotations.files import encoded, needed, read_bytes
from outlark.annotations.outlark_csv import (
    FIELDS,
    RUN,
    SCHEMA,
    annotations_in,
    check_schema,
    json_line,
    other_columns,
    values,
)
from outlark.errors import AnnotationError
from outlark.files.strict_json import RepeatedKeyError, dumps, loads, without_doubles

#: The key of the first line.
HEAD = "outlark"


def read_json_lines(
    path: Path, text: str, about: Mapping[str, Any], label_column: str | int | None, remarks: Remarks
) -> tuple[list[Annotation], Mapping[str, Any]]:
    """The annotations, and what the first line says about the run."""
    objects = _objects(path, text, remarks)
    own = bool(objects) and HEAD in objects[0][1]
    if own:
        line, head = objects.pop(0)
        about = _json_run(head[HEAD], f"{path}, line {line}")
    columns = tuple(FIELDS) if own else tuple(dict.fromkeys(key for _, found in objects for key in found))
    check_size(path, len(columns), len(objects))
    sheet = Sheet(path=path, columns=columns, rows=[], remarks=remarks)
    for line, found in objects:
        nested = next((key for key in columns if key != "more" and isinstance(found.get(key), dict | list)), None)
        if nested is not None:
            sheet.refuse(line, f"{nested!r} is {found[nested]!r:.60}; expected text, a number or null")
        elif own and not _is_texts(found.get("more") or {}):
            sheet.refuse(line, f"'more' is {found['more']!r:.60}; expected an object of texts")
        else:
            sheet.rows.append(Row(line, tuple("" if key == "more" else _cell(found.get(key)) for key in columns)))
    if not own and not objects:
        if remarks.refused:
            return [], about
        raise AnnotationError(f"{path} is empty; expected one JSON object per line")
    annotations = annotations_in(sheet, label_column, own=own, all_digits=True)
    if own:
        at_line = dict(objects)
        annotations = [replace(m, more=at_line[m.line or 0].get("more") or {}) for m in annotations]
    return annotations, about


def write_json_lines(
    annotations: Collection[Annotation], about: About, durations: Mapping[str, float]
) -> Iterator[bytes]:
    """All annotations, silence included."""
    yield encoded(head_line(about))
    for annotation in annotations:
        yield encoded(annotation_line(annotation))


def head_line(about: About) -> str:
    """The first line: how the annotations came about.

    >>> head_line(About(version="1.0"))
    '{"outlark": {"schema": 1, "version": "1.0", "model_sha256": null, "settings": {}}}\\n'
    """
    dumps(dict(about.settings), "settings")
    return json_line({HEAD: {"schema": SCHEMA, **about.as_dict()}})


def annotation_line(annotation: Annotation) -> str:
    """The line of one annotation, for writing line by line."""
    return json_line({**values(annotation), **({"more": dict(annotation.more)} if annotation.more else {})})


def _objects(path: Path, text: str, remarks: Remarks) -> list[tuple[int, dict[str, Any]]]:
    """Line number and object of each line."""
    found = []
    lines = text.split("\n")
    for i, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = json.loads(line, parse_constant=_refuse, object_pairs_hook=without_doubles)
            except RepeatedKeyError as error:
                remarks.refused.append(f"{path}, line {i}: {error}; keep only one of them")
                continue
            except (ValueError, RecursionError) as error:
                if i == len(lines):
                    remarks.append(f"the last line ({i}) was cut off and is skipped")
                else:
                    remarks.refused.append(f"{path}, line {i}: not JSON ({error}); expected one object per line")
                continue
            if isinstance(value, dict):
                found.append((i, value))
            else:
                remarks.refused.append(f"{path}, line {i}: {line!r:.60}; expected a JSON object, as in {{…}}")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _json_run(head: Any, where: str) -> dict[str, Any]:
    if not isinstance(head, dict):
        raise AnnotationError(f"{where}: {head!r:.60}; expected an object with schema, version and settings")
    check_schema(head.get("schema"), where)
    return {key: value for key, value in head.items() if key != "schema"}


def _is_texts(more: Any) -> bool:
    return isinstance(more, dict) and all(isinstance(value, str) for value in more.values())


_KEY = b"outlark"
PARQUET_MAGIC = b"PAR1"
#: Rows converted at once; each takes about a thousand bytes of memory.
ROWS_AT_ONCE = 2**16


def read_parquet(
    path: Path, about: Mapping[str, Any], label_column: str | int | None, remarks: Remarks
) -> tuple[list[Annotation], Mapping[str, Any]]:
    """The annotations, and what the metadata says about the run."""
    arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
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
    said = (table.schema.metadata or {}).get(_KEY)
    if said is not None:
        run = loads(said, f"{path}: its metadata")
        check_schema(run.pop("schema", None), str(path))
        about = run
    rows = [Row(i, tuple(map(_cell, cells))) for i, cells in enumerate(zip(*columns, strict=True), start=1)]
    names = tuple(str(name) for name in table.column_names)
    sheet = Sheet(path=path, columns=names, rows=rows, remarks=remarks, unit="row")
    return annotations_in(sheet, label_column, own=said is not None, all_digits=True), about


def write_parquet(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """All annotations, silence included; unknown columns as text."""
    more = {key: _plain(name) for key, name in other_columns(annotations, [*FIELDS, *RUN]).items()}
    run = dumps({"schema": SCHEMA, **about.as_dict()}, "about")
    rows = (
        {**values(annotation), **{name: annotation.more.get(key) for key, name in more.items()}}
        for annotation in annotations
    )
    sink = io.BytesIO()
    write_parquet_rows(sink, FIELDS | dict.fromkeys(more.values(), str), rows, {_KEY: run})
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
            columns = [[_plain(row[name]) for row in some] for name in kinds]
            arrays = [arrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            if len(some) < ROWS_AT_ONCE:
                break


def _plain(value: Any) -> Any:
    """Text that can be UTF-8."""
    return encoded(value).decode() if isinstance(value, str) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
