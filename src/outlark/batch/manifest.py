"""Manifests: tables that list recordings, with the site and the day of each where these are known."""

import csv
import os
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from outlark.errors import InputError
from outlark.files.places import as_place, is_endless, is_url

SUFFIXES = (".csv", ".parquet")
PATH, SITE, DATE = "path", "site", "date"


class Listed(NamedTuple):
    """A line of a manifest."""

    path: Path | str
    site: str | None
    date: str | None


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a manifest, by its ending.

    >>> is_manifest("night.csv"), is_manifest("night.wav")
    (True, False)
    """
    return os.fspath(path).lower().endswith(SUFFIXES) and not os.path.isdir(path)


def read_manifest(path: Path) -> Iterator[Listed]:
    """The recordings that a manifest lists.

    Parameters
    ----------
    path : path of a CSV or Parquet file
        With a column "path", whose paths count from the folder of the manifest, or are URLs, and, if there are such,
        columns "site" and "date" (2026-05-31). Capitals do not matter, other columns do no harm.

    Raises
    ------
    InputError
        Names the manifest, the line, what was found and what was expected.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "season.csv")
    ...     _ = path.write_text("Path,Site\\na.wav,pond\\ns3://b/c.wav,\\n")
    ...     [(listed.site, str(listed.path).removeprefix(folder)) for listed in read_manifest(path)]
    [('pond', '/a.wav'), (None, 's3://b/c.wav')]
    """
    if is_endless(path):
        raise InputError(f"{path} is a device or a pipe; give a manifest in a file")
    rows = _parquet_rows(path) if path.name.lower().endswith(".parquet") else _csv_rows(path)
    for number, row in rows:
        found = row[PATH]
        if not isinstance(found, str) or not found.strip():
            raise InputError(f"{path}, line {number}: no path ({found!r:.60}); give one in each line")
        where = as_place(found.strip() if is_url(found.strip()) else path.parent / found.strip())
        yield Listed(where, _text(row.get(SITE)), _day(row.get(DATE), f"{path}, line {number}"))


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            names = _columns(rows.fieldnames or [], path)
            for row in rows:
                yield rows.line_num, {key: row[name] for key, name in names.items()}
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path}: cannot be read ({why}); check the path and that you may read it") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a manifest ({error}); give a CSV file in UTF-8") from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    from outlark.annotations.files import needed

    pyarrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            names = _columns(file.schema_arrow.names, path)
            number = 0
            for batch in file.iter_batches(columns=list(names.values())):
                for row in batch.to_pylist():
                    number += 1
                    yield number, {key: row[name] for key, name in names.items()}
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as a manifest ({error!s:.200}); give a Parquet file") from None


def _columns(found: Any, path: Path) -> dict[str, str]:
    """The names of our columns in the file."""
    names = {str(name).strip().lower(): name for name in found}
    if PATH not in names:
        listed = ", ".join(map(str, found)) or "none"
        raise InputError(
            f"{path}: a manifest has a column {PATH!r}, and this one has {listed}; rename the column that holds the "
            "recordings (annotation files are for train and evaluate)"
        )
    return {key: names[key] for key in (PATH, SITE, DATE) if key in names}


def _text(value: Any) -> str | None:
    return str(value).strip() or None if value is not None else None


def _day(value: Any, where: str) -> str | None:
    if isinstance(value, date):
        return (value.date() if isinstance(value, datetime) else value).isoformat()
    text = _text(value)
    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        raise InputError(f"{where}: the date {text!r:.60}; write it as 2026-05-31, or omit it") from None
