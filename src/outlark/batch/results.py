"""What a run leaves besides the tables of each file: one table of all, and what failed."""

import csv
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from outlark.aside import sync_folder
from outlark.batch.sources import Failure
from outlark.batch.task import Task
from outlark.errors import InputError

COMBINED, FAILURES = "combined.csv", "failures.csv"
#: How outlark's own tables of each file end; `outlark.notes.formats.FORMATS["csv"].suffix`, which is slow to import.
ROWS = ".outlark.csv"


def write_combined(task: Task, outputs: Iterable[str]) -> Path:
    """One table of all: the rows of outlark's own tables, in the order of the files.

    The tables are copied piece by piece, so that they may be of any size.
    """
    aside, target = task.workshop / COMBINED, Path(task.output, COMBINED)
    with aside.open("wb") as combined:
        header = b""
        for output in (name for name in outputs if name.endswith(ROWS)):
            with Path(task.output, output).open("rb") as table:
                first = table.readline()
                if first != (header or first):
                    raise InputError(f"{table.name}: has other columns than the rest; delete it, and it is made again")
                combined.write(b"" if header else first)
                header = first
                shutil.copyfileobj(table, combined)
        combined.flush()
        os.fsync(combined.fileno())
    os.replace(aside, target)
    sync_folder(target.parent)
    return target


def write_failures(task: Task, failures: Sequence[Failure]) -> Path | None:
    """A table of what failed; none, and none left from before, if nothing did."""
    aside, target = task.workshop / FAILURES, Path(task.output, FAILURES)
    if not failures:
        target.unlink(missing_ok=True)
        return None
    with aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["recording", "message"])
        writer.writerows([_guarded(failure.name), _guarded(failure.message)] for failure in failures)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, target)
    sync_folder(target.parent)
    return target


def _guarded(text: str) -> str:
    """The text such that no spreadsheet takes it for a formula, as in all tables."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
