"""What came of a run, with the files that tell so."""

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from outlark.batch.journal import DONE, Journal
from outlark.batch.partitions import write_partitions
from outlark.batch.sources import Failure, Sources
from outlark.batch.task import ROWS, Task
from outlark.errors import InputError
from outlark.files.aside import sync_folder


@dataclass(kw_only=True)
class State:
    """How far a run is.

    Attributes
    ----------
    total, done, skipped : int
        Files: all, those that are finished (well or not), and of these such as had been done before.
    resumed : int
        Parts of long recordings that had been done before.
    bytes_total, bytes_done : float
        Of the files that had to be done, so that the time left can be told; those under way count in part.
    seconds : float
        Of sound that was worked on.
    failures : list of Failure
        What could not be done.
    partial : list of Failure
        What was done in part: recordings that were cut short, or written to meanwhile.
    remarks : list of Failure
        What else is odd about recordings that are done.
    changed : list of str
        Files that had been done before, and were done again because they are not what they were.
    segments : Counter
        How many of each verdict, also of files that had been done before.
    """

    total: int
    done: int = 0
    skipped: int = 0
    resumed: int = 0
    bytes_total: float = 0.0
    bytes_done: float = 0.0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    partial: list[Failure] = field(default_factory=list)
    remarks: list[Failure] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    segments: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a run.

    Attributes
    ----------
    recordings, done, skipped : int
        All; those that this run did; those that had been done before.
    resumed : int
        Parts of long recordings that had been done before.
    failures : tuple of Failure
        What could not be done, by name.
    partial, remarks : tuple of Failure
        What was done in part, and what else is odd about recordings that are done; by name, also of earlier runs.
    changed : tuple of str
        What had been done before and was done again, because the file had changed.
    segments : dict of str to int
        How many of each verdict were written.
    seconds : float
        Of sound that this run worked on.
    combined, parquet, failures_file, remarks_file : Path or None
    """

    recordings: int
    done: int
    skipped: int
    resumed: int
    failures: tuple[Failure, ...]
    partial: tuple[Failure, ...]
    remarks: tuple[Failure, ...]
    changed: tuple[str, ...]
    segments: Mapping[str, int]
    seconds: float
    combined: Path | None
    parquet: Path | None
    failures_file: Path | None
    remarks_file: Path | None


COMBINED, FAILURES, REMARKS = "combined.csv", "failures.csv", "remarks.csv"


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
                raise InputError(
                    f"{table}: its columns differ from those of the others; delete it and run again to recreate it"
                )
            kept = [i for i, name in enumerate(first) if with_run or name not in RUN]
            for row in chain([] if header else [first], rows):
                combined.write(comma_line([row[i] if i < len(row) else "" for i in kept]))
    except csv.Error as error:
        raise InputError(f"{table}: cannot be read ({error}); delete it and run again to recreate it") from None
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


def report_of(task: Task, sources: Sources, journal: Journal, state: State, *, combined: bool, parquet: bool) -> Report:
    """The report of a run that has ended so; the files of all recordings together are written."""
    failures, partial, remarks = map(_by_name, (state.failures, state.partial, state.remarks))
    failed = {failure.name for failure in failures}
    done = [source.name for source in sources.files if source.name not in failed]
    listed = {source.name: source.listed for source in sources.files}
    # of this run and of those before it, as far as they are still there; what a manifest says counts from now on
    done_before = ((name, entry) for name, entry in sorted(journal.entries.items()) if entry.get("state") == DONE)
    kept = [{**entry, **listed.get(name, {})} for name, entry in done_before if name not in failed]
    tables = [table for _, table in _tables(task, kept)]
    return Report(
        recordings=state.total,
        done=len(done) - state.skipped,
        skipped=state.skipped,
        resumed=state.resumed,
        failures=failures,
        partial=partial,
        remarks=remarks,
        changed=tuple(sorted(state.changed)),
        segments={verdict: state.segments[verdict] for verdict in task.verdicts},
        seconds=state.seconds,
        combined=write_combined(task, tables) if combined else None,
        parquet=write_partitions(task, (entry for entry, _ in _tables(task, kept))) if parquet else None,
        failures_file=write_list(task, FAILURES, _by_name([*failures, *partial])),
        remarks_file=write_list(task, REMARKS, remarks),
    )


def _tables(task: Task, entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Lines of the journal with the CSV table that they tell of, as far as it is there."""
    for entry in entries:
        for name in entry["outputs"]:
            if name.endswith(ROWS) and Path(task.output, name).exists():
                yield entry, name


def _by_name(told: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(sorted(told, key=lambda failure: failure.name))
