"""How far a run is, how it ended, and the files about all its recordings."""

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from outlark.batch.edited import keep_if_edited
from outlark.batch.journal import DONE, Journal
from outlark.batch.partitions import write_partitions
from outlark.batch.sources import Failure, Sources
from outlark.batch.task import ROWS, Task, file_sha256
from outlark.errors import InputError
from outlark.files.io import sync_folder, written_aside

COMBINED, FAILURES, REMARKS = "combined.csv", "failures.csv", "remarks.csv"


@dataclass(kw_only=True)
class State:
    """How far a run is.

    Attributes
    ----------
    total, done, skipped : int
        Files: all, those that this run has done, and those that were done before.
    resumed : int
        Parts of long recordings that were done before.
    bytes_total, bytes_done : float
        Of the files to do, so that the remaining time can be estimated; those under way count in part.
    seconds : float
        Of audio that this run has analysed.
    failures : list of Failure
        What could not be done.
    partial : list of Failure
        Recordings analysed in part: they were cut short, or written to meanwhile.
    remarks : list of Failure
        What else is odd about recordings that are done.
    quality : list of Failure
        Recordings with digital silence, clipping, or channels that cancel each other.
    changed : list of str
        Files that were done before, and again because they have changed.
    edited : list of str
        Files that somebody had edited, under the names that they have now because others replace them.
    segments : Counter
        How many of each verdict, including files that were done before.
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
    quality: list[Failure] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    segments: Counter[str] = field(default_factory=Counter)

    @property
    def finished(self) -> int:
        """Files that are done, were done before, or have failed."""
        return self.done + self.skipped + len(self.failures)


@dataclass(kw_only=True)
class Report(State):
    """How a run ended, with the files written about all recordings together."""

    combined: Path | None
    parquet: Path | None
    failures_file: Path | None
    remarks_file: Path | None


def write_combined(task: Task, outputs: Iterable[str]) -> Path:
    """Join outlark's own CSV files, in the order of the recordings, row by row, so that they may be of any size.

    The provenance, several hundred bytes, is written once, in a file beside it, if it is the same in all rows.
    """
    tables = [Path(task.output, name) for name in outputs if name.endswith(ROWS)]
    runs = {run for run in map(_run_of, tables) if run is not None}
    target = Path(task.output, COMBINED)
    with _written(task, target, errors="surrogateescape") as combined:
        header: list[str] = []
        for table in tables:
            header = _copy_rows(table, combined, header, with_run=len(runs) > 1)
        _write_run(target, tables, runs)
    with written_aside(_digest_of_combined(task)) as noted:  # whole, or not at all: disks get full
        noted.write_text(file_sha256(target), encoding="ascii")
    return target


def keep_edited_combined(task: Task) -> list[str]:
    """Rename the combined file if somebody has edited it; its new name, if so."""
    noted = _digest_of_combined(task)
    if not noted.is_file():
        return []
    kept = keep_if_edited(Path(task.output, COMBINED), {noted.read_text(encoding="ascii")})
    noted.unlink()  # until the file is written anew, so that after a crash it is not taken for an edited one
    return [path.name for path in kept]


def _digest_of_combined(task: Task) -> Path:
    return task.workshop / f"{COMBINED}.sha256"


@contextmanager
def _written(task: Task, target: Path, errors: str) -> Iterator[TextIO]:
    """A file in the workshop that replaces `target` at the end, in one step."""
    aside = task.workshop / target.name
    with aside.open("w", encoding="utf-8", errors=errors, newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, target)
    sync_folder(target.parent)


def _copy_rows(table: Path, combined: TextIO, header: list[str], *, with_run: bool) -> list[str]:
    """Copy the rows of a file, and its header if none is written yet; returns its header."""
    from outlark.annotations.files import comma_line
    from outlark.annotations.own_formats import RUN_COLUMNS

    try:
        with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = csv.reader(file)
            first = next(rows, [])
            if first != (header or first):
                raise InputError(
                    f"{table}: its columns differ from those of the others; delete it and run again to recreate it"
                )
            kept = [i for i, name in enumerate(first) if with_run or name not in RUN_COLUMNS]
            for row in chain([] if header else [first], rows):
                combined.write(comma_line([row[i] if i < len(row) else "" for i in kept]))
    except csv.Error as error:
        raise InputError(f"{table}: cannot be read ({error}); delete it and run again to recreate it") from None
    return first


def _write_run(combined: Path, tables: Sequence[Path], runs: set[tuple[str, ...]]) -> None:
    """Write the provenance beside the combined file, if all rows share it."""
    from outlark.annotations.annotation import About
    from outlark.annotations.formats import read_about, side_path, write_about
    from outlark.files.io import loads

    if len(runs) == 1:
        ((_, version, model, settings),) = runs
        about: dict[str, Any] = {
            "version": version,
            "model_sha256": model or None,
            "settings": loads(settings or "{}", "settings"),
        }
    else:
        side = read_about(tables[0], "csv", []) if tables and not runs else {}
        about = {name: side[name] for name in ("version", "model_sha256", "settings") if name in side}
    if "version" in about:
        write_about(combined, About(**about), "csv")
    else:
        side_path(combined).unlink(missing_ok=True)


def _run_of(table: Path) -> tuple[str, ...] | None:
    """The provenance in the rows of a file; None without rows."""
    from outlark.annotations.own_formats import RUN_COLUMNS

    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        row = next(csv.DictReader(file), None)
    return None if row is None else tuple(str(row.get(name)) for name in RUN_COLUMNS)


def write_list(task: Task, name: str, failures: Sequence[Failure]) -> Path | None:
    """A CSV file of recordings and messages; deleted if there are none."""
    from outlark.annotations.files import guarded

    target = Path(task.output, name)
    if not failures:
        target.unlink(missing_ok=True)
        return None
    with _written(task, target, errors="backslashreplace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["recording", "message"])
        writer.writerows([guarded(failure.name), guarded(failure.message)] for failure in failures)
    return target


def report_of(task: Task, sources: Sources, journal: Journal, state: State, *, combined: bool, parquet: bool) -> Report:
    """The report of a run that has ended; writes the files about all recordings together."""
    state.changed.sort()
    for found in (state.failures, state.partial, state.remarks, state.quality):
        found.sort(key=_name)
    state.segments = Counter({verdict: state.segments[verdict] for verdict in task.verdicts})
    if combined:
        state.edited += keep_edited_combined(task)
    failed = {failure.name for failure in state.failures}
    listed = {source.name: source.listed for source in sources.files}
    # of this run and of earlier ones, as far as they are still there; the manifest of this run counts
    done_before = ((name, entry) for name, entry in sorted(journal.entries.items()) if entry.get("state") == DONE)
    kept = [{**entry, **listed.get(name, {})} for name, entry in done_before if name not in failed]
    tables = list(_tables(task, kept))
    return Report(
        **vars(state),
        combined=write_combined(task, [table for _, table in tables]) if combined else None,
        parquet=write_partitions(task, (entry for entry, _ in tables)) if parquet else None,
        failures_file=write_list(task, FAILURES, sorted(_to_look_at(state), key=_name)),
        remarks_file=write_list(task, REMARKS, state.remarks),
    )


def _to_look_at(state: State) -> list[Failure]:
    """What failed or was analysed in part, and recordings in which there is little to hear."""
    said = [replace(failure, message=f"remark: {failure.message}") for failure in state.quality]
    return [*state.failures, *state.partial, *said]


def _tables(task: Task, entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Lines of the journal with their CSV file, as far as it is there."""
    for entry in entries:
        for name in entry["outputs"]:
            if name.endswith(ROWS) and Path(task.output, name).exists():
                yield entry, name


def _name(failure: Failure) -> str:
    return failure.name
