"""What a run leaves besides the tables of each file: one table of all, what failed, and what is odd."""

import csv
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from outlark.batch.sources import Failure
from outlark.batch.task import Task
from outlark.errors import InputError
from outlark.files.aside import sync_folder

COMBINED, FAILURES, REMARKS = "combined.csv", "failures.csv", "remarks.csv"
#: How outlark's own tables of each file end; `outlark.annotations.FORMATS["csv"].suffix`, which is slow to import.
ROWS = ".outlark.csv"


def write_combined(task: Task, outputs: Iterable[str]) -> Path:
    """One table of all: the rows of outlark's own tables, in the order of the files.

    What all rows say alike of the run that they are from, which is several hundred bytes, stands once in the file
    beside it. The tables are copied row by row, so that they may be of any size.
    """
    tables = [Path(task.output, name) for name in outputs if name.endswith(ROWS)]
    runs = {run for run in map(_run_of, tables) if run is not None}
    aside, target = task.workshop / COMBINED, Path(task.output, COMBINED)
    with aside.open("w", encoding="utf-8", errors="surrogateescape", newline="") as combined:
        header: list[str] = []
        for table in tables:
            header = _copy_rows(table, combined, header, with_run=len(runs) > 1)
        combined.flush()
        os.fsync(combined.fileno())
    _write_run(target, tables, runs)
    os.replace(aside, target)
    sync_folder(target.parent)
    return target


def _copy_rows(table: Path, combined: TextIO, header: list[str], *, with_run: bool) -> list[str]:
    """The rows of a table, after the header if none is written yet; the header of the table."""
    from outlark.annotations.delimited import comma_line
    from outlark.annotations.outlark_csv import RUN

    try:
        with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = csv.reader(file)
            first = next(rows, [])
            if first != (header or first):
                raise InputError(f"{table}: has other columns than the rest; delete it, and it is made again")
            kept = [i for i, name in enumerate(first) if with_run or name not in RUN]
            for row in chain([] if header else [first], rows):
                combined.write(comma_line([row[i] if i < len(row) else "" for i in kept]))
    except csv.Error as error:
        raise InputError(f"{table}: cannot be read ({error}); delete it, and it is made again") from None
    return first


def _write_run(combined: Path, tables: Sequence[Path], runs: set[tuple[str, ...]]) -> None:
    """What all tables say alike of their run, beside the table of all; nothing if they differ: then the rows say it."""
    from outlark.annotations.annotation import About
    from outlark.annotations.files import encoded, read_side, side_path, side_text, write_bytes
    from outlark.files.strict_json import loads

    if len(runs) == 1:
        ((_, version, model, settings),) = runs
        about: dict[str, Any] = {
            "version": version,
            "model_sha256": model or None,
            "settings": loads(settings or "{}", "settings"),
        }
    else:
        told = read_side(tables[0], []) if tables and not runs else {}
        about = {name: told[name] for name in ("version", "model_sha256", "settings") if name in told}
    if "version" in about:
        write_bytes(side_path(combined), encoded(side_text(About(**about), "csv")))
    else:
        side_path(combined).unlink(missing_ok=True)


def _run_of(table: Path) -> tuple[str, ...] | None:
    """What the rows of a table say of their run; None without rows."""
    from outlark.annotations.outlark_csv import RUN

    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        row = next(csv.DictReader(file), None)
    return None if row is None else tuple(str(row.get(name)) for name in RUN)


def write_list(task: Task, name: str, told: Sequence[Failure]) -> Path | None:
    """A table of recordings and of what is told of each; none, and none left from before, if there is nothing."""
    aside, target = task.workshop / name, Path(task.output, name)
    if not told:
        target.unlink(missing_ok=True)
        return None
    with aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["recording", "message"])
        writer.writerows([_guarded(failure.name), _guarded(failure.message)] for failure in told)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, target)
    sync_folder(target.parent)
    return target


def _guarded(text: str) -> str:
    """The text such that no spreadsheet takes it for a formula, as in all tables."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
