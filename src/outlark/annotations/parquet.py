"""Parquet through pyarrow: outlark's fields with their types, and the run in the metadata."""

import io
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from outlark.annotations.annotation import About, Annotation
from outlark.annotations.delimited import Row, Sheet, check_size
from outlark.annotations.files import encoded, needed, read_bytes
from outlark.annotations.outlark_csv import FIELDS, RUN, SCHEMA, check_schema, marks_in, other_columns, values
from outlark.errors import AnnotationError
from outlark.files.strict_json import dumps, loads

_KEY = b"outlark"
MAGIC = b"PAR1"
#: Rows converted at once; each takes about a thousand bytes of memory.
ROWS_AT_ONCE = 2**16


def read(
    path: Path, about: Mapping[str, Any], label_column: str | int | None, remarks: list[str]
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
    return marks_in(sheet, label_column, own=said is not None, all_digits=True), about


def write(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """All annotations, silence included; unknown columns as text."""
    arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    types = {str: arrow.string(), float: arrow.float64(), int: arrow.int64()}
    more = other_columns(annotations, [*FIELDS, *RUN])
    fields = [arrow.field(name, types[kind]) for name, kind in FIELDS.items()]
    fields += [arrow.field(_plain(name), arrow.string()) for name in more.values()]
    run = dumps({"schema": SCHEMA, **about.as_dict()}, "about")
    schema = arrow.schema(fields, metadata={_KEY: run})
    sink, rest = io.BytesIO(), iter(annotations)
    with parquet.ParquetWriter(sink, schema) as writer:
        while True:
            some = list(islice(rest, ROWS_AT_ONCE))
            rows = [values(annotation) for annotation in some]
            columns = [[_plain(row[name]) for row in rows] for name in FIELDS]
            columns += [[_plain(annotation.more.get(key)) for annotation in some] for key in more]
            arrays = [arrow.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            if len(some) < ROWS_AT_ONCE:
                break
    yield sink.getvalue()


def _plain(value: Any) -> Any:
    """Text that can be UTF-8."""
    return encoded(value).decode() if isinstance(value, str) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
