"""How far a run is, how it ended, and the files about all its recordings: combined.csv, failures.csv, Parquet.

``OUT/parquet/segments/site=pond/date=2026-05-31/rows.parquet`` has the rows of outlark's CSV files, in folders by site
and day as DuckDB, Polars, Spark and Arrow read them; ``OUT/parquet/recordings/…`` says when and for how long recordings
were made, including those in which nothing was found. A file whose rows have not changed is not written again.
"""

import csv
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from urllib.parse import quote

from outlark.annotations import FORMATS, About, read_annotations
from outlark.annotations.files import comma_line, guarded, needed
from outlark.annotations.formats import COMBINED, read_about, side_path, write_about
from outlark.annotations.own_formats import FIELDS, RUN_COLUMNS, values, write_parquet_rows
from outlark.batch.journal import Journal, file_sha256, keep_if_edited
from outlark.batch.task import Sources, Task
from outlark.errors import InputError, Problem
from outlark.files.io import loads, sync_folder, written_aside

FAILURES_CSV, REMARKS_CSV = "failures.csv", "remarks.csv"


@dataclass(kw_only=True)
class State:
    """How far a run is, and at its end how it went.

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
    failures, partial, quality, remarks : list of Problem
        What could not be done; recordings analysed in part, because they were cut short, or written to meanwhile;
        those with digital silence, clipping, or channels that cancel each other; and what else is odd.
    changed : list of str
        Files that were done before, and again because they have changed.
    edited : list of str
        Files that somebody had edited, under the names that they have now because others replace them.
    segments : Counter
        How many of each verdict, including files that were done before.
    combined, parquet, failures_file, remarks_file : Path or None
        What was written about all recordings together.
    """

    total: int
    done: int = 0
    skipped: int = 0
    resumed: int = 0
    bytes_total: float = 0.0
    bytes_done: float = 0.0
    seconds: float = 0.0
    failures: list[Problem] = field(default_factory=list)
    partial: list[Problem] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)
    quality: list[Problem] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    segments: Counter[str] = field(default_factory=Counter)
    combined: Path | None = None
    parquet: Path | None = None
    failures_file: Path | None = None
    remarks_file: Path | None = None

    @property
    def finished(self) -> int:
        """Files that are done, were done before, or have failed."""
        return self.done + self.skipped + len(self.failures)


def finish(task: Task, sources: Sources, journal: Journal, state: State, *, combined: bool, parquet: bool) -> None:
    """Sort what happened, and write the files about all recordings together."""
    state.changed.sort()
    for found in (state.failures, state.partial, state.remarks, state.quality):
        found.sort(key=lambda problem: problem.where)
    state.segments = Counter({verdict: state.segments[verdict] for verdict in task.verdicts})
    if combined:
        state.edited += _keep_edited_combined(task)
    failed = {failure.where for failure in state.failures}
    listed = {source.name: source.listed for source in sources.files}
    # of this run and of earlier ones, as far as their CSV files are still there; the manifest of this run counts
    done = [{**entry, **listed.get(name, {})} for name, entry in sorted(journal.done.items()) if name not in failed]
    tables = [(entry, table) for entry in done for table in _tables_of(task, entry)]
    if combined:
        state.combined = write_combined(task, [table for _, table in tables])
    if parquet:
        state.parquet = write_partitions(task, (entry for entry, _ in tables))
    little = [Problem(where, f"remark: {message}") for where, message in state.quality]
    to_look_at = sorted([*state.failures, *state.partial, *little], key=lambda problem: problem.where)
    state.failures_file = _write_list(task, FAILURES_CSV, to_look_at)
    state.remarks_file = _write_list(task, REMARKS_CSV, state.remarks)


def _tables_of(task: Task, entry: Mapping[str, Any]) -> Iterator[Path]:
    """The CSV file of a line of the journal, as far as it is there."""
    paths = (Path(task.output, name) for name in entry["outputs"] if name.endswith(FORMATS["csv"].suffix))
    return (path for path in paths if path.exists())


def _write_list(task: Task, name: str, problems: Sequence[Problem]) -> Path | None:
    """A CSV file of recordings and messages; deleted if there are none."""
    target = Path(task.output, name)
    if not problems:
        target.unlink(missing_ok=True)
        return None
    with _replaced(task, target, errors="backslashreplace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["recording", "message"])
        writer.writerows([guarded(problem.where), guarded(problem.message)] for problem in problems)
    return target


@contextmanager
def _replaced(task: Task, target: Path, errors: str) -> Iterator[TextIO]:
    """A file in the work folder that replaces `target` at the end, in one step."""
    aside = task.work_folder / target.name
    with aside.open("w", encoding="utf-8", errors=errors, newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, target)
    sync_folder(target.parent)


# ---------------------------------------------------------------- combined.csv


def write_combined(task: Task, tables: Sequence[Path]) -> Path:
    """Join outlark's own CSV files, in the order of the recordings, row by row, so that they may be of any size.

    The provenance, several hundred bytes, is written once, in a file beside it, if it is the same in all rows.
    """
    runs = {run for run in map(_run_of, tables) if run is not None}
    target = Path(task.output, COMBINED)
    with _replaced(task, target, errors="surrogateescape") as combined:
        header: list[str] = []
        for table in tables:
            header = _copy_rows(table, combined, header, with_run=len(runs) > 1)
        _write_run(target, tables, runs)
    with written_aside(_digest_of_combined(task)) as noted:  # whole, or not at all: disks get full
        noted.write_text(file_sha256(target), encoding="ascii")
    return target


def _keep_edited_combined(task: Task) -> list[str]:
    """Keep the combined file if somebody has edited it; its new name, if so."""
    noted = _digest_of_combined(task)
    if not noted.is_file():
        return []
    kept = keep_if_edited(Path(task.output, COMBINED), noted.read_text(encoding="ascii"))
    noted.unlink()  # until the file is written anew, so that after a crash it is not taken for an edited one
    return [path.name for path in kept]


def _digest_of_combined(task: Task) -> Path:
    return task.work_folder / f"{COMBINED}.sha256"


def _copy_rows(table: Path, combined: TextIO, header: list[str], *, with_run: bool) -> list[str]:
    """Copy the rows of a file, and its header if none is written yet; returns its header."""
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
    about: dict[str, Any] = {}
    if len(runs) == 1:
        ((_, version, model, settings),) = runs
        about = {"version": version, "model_sha256": model or None, "settings": loads(settings or "{}", "settings")}
    elif tables and not runs:  # no rows: the first table has it beside it
        side = read_about(tables[0], "csv", [])
        about = {name: side[name] for name in ("version", "model_sha256", "settings") if name in side}
    if "version" in about:
        write_about(combined, About(**about), "csv")
    else:
        side_path(combined).unlink(missing_ok=True)


def _run_of(table: Path) -> tuple[str, ...] | None:
    """The provenance in the rows of a file; None without rows."""
    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        row = next(csv.DictReader(file), None)
    return None if row is None else tuple(str(row.get(name)) for name in RUN_COLUMNS)


# --------------------------------------------------------------------- Parquet

PARQUET_SEGMENTS = Path("parquet", "segments")
#: Folders of an unknown site or day: all programs read this one as null, but Arrow and pandas cannot tell the type of a
#: column of nulls, and refuse it; so it is the second if no site, or no day, is known.
NULL_FOLDER, ALL_UNKNOWN_FOLDER = "__HIVE_DEFAULT_PARTITION__", "unknown"
RECORDING_FIELDS = ("recording", "start_time", "seconds", "partial", "model_sha256", "version")
DIGEST_KEY = b"outlark_sources"


class RecordingDay(NamedTuple):
    """A recording on one day: its journal entry, site, day, start on that day and duration in seconds."""

    entry: Mapping[str, Any]
    site: str | None
    date: str | None
    began: str | None
    seconds: float


def write_partitions(task: Task, entries: Iterable[Mapping[str, Any]]) -> Path:
    """Write the recordings of these journal entries, whose CSV files are there; returns the folder."""
    root = Path(task.output, PARQUET_SEGMENTS).parent
    partitions: dict[tuple[str | None, str | None], list[RecordingDay]] = {}
    for entry in entries:
        for of_day in days_of(entry):
            partitions.setdefault((of_day.site, of_day.date), []).append(of_day)
    none_known = [all(key[level] is None for key in partitions) for level in (0, 1)]
    unnamed = [ALL_UNKNOWN_FOLDER if none else NULL_FOLDER for none in none_known]
    wanted = set()
    for key, days in partitions.items():
        site, date = (no if name is None else quote(name, safe="") for name, no in zip(key, unnamed, strict=True))
        wanted.add(folder := f"site={site}/date={date}")
        digest = _digest(task, days)
        of_recordings: dict[str, type] = {**dict.fromkeys(RECORDING_FIELDS, str), "seconds": float}
        _write(root / "segments" / folder, digest, FIELDS, partial(_segments, task, days))
        _write(root / "recordings" / folder, digest, of_recordings, partial(map, _recording, days))
    for other in root.glob("*/site=*/date=*"):
        if "/".join(other.parts[-2:]) not in wanted:
            shutil.rmtree(other)
            with suppress(OSError):  # other days of the site are still there
                other.parent.rmdir()
    return root


def days_of(entry: Mapping[str, Any]) -> Iterator[RecordingDay]:
    """A recording, day by day.

    >>> entry = {"recording": "pond/a.wav", "seconds": 7200.0, "began": "2026-05-31T23:30:00"}
    >>> [(of_day.site, of_day.date, of_day.seconds) for of_day in days_of(entry)]
    [('pond', '2026-05-31', 1800.0), ('pond', '2026-06-01', 5400.0)]
    """
    from outlark.audio.sound_files import NO_SITE, site_of  # imports all that reads sound

    seconds = float(entry["seconds"])
    name = entry.get("site") or site_of(entry["recording"], str(entry.get("path", "")))
    site = None if name == NO_SITE else name
    if entry.get("began") is None:
        yield RecordingDay(entry, site, entry.get("date"), None, seconds)
        return
    began, left = datetime.fromisoformat(entry["began"]), seconds / entry.get("expansion", 1.0)
    if "date" in entry:
        yield RecordingDay(entry, site, entry["date"], began.isoformat(), left)
        return
    while True:
        midnight = datetime.combine(began.date() + timedelta(days=1), datetime.min.time(), began.tzinfo)
        here = min(left, (midnight - began).total_seconds())
        yield RecordingDay(entry, site, began.date().isoformat(), began.isoformat(), here)
        began, left = midnight, left - here
        if left <= 0.0:
            return


def _segments(task: Task, days: Iterable[RecordingDay]) -> Iterator[dict[str, Any]]:
    """The rows of recordings that belong to the day."""
    for of_day in days:
        table = next(_tables_of(task, of_day.entry))
        for annotation in read_annotations(table, format="csv").annotations:
            if "date" in of_day.entry or annotation.start_time is None or annotation.start_time[:10] == of_day.date:
                yield values(annotation)


def _recording(of_day: RecordingDay) -> dict[str, Any]:
    entry, identity = of_day.entry, of_day.entry["identity"]
    return {
        "recording": entry["recording"],
        "start_time": of_day.began,
        "seconds": of_day.seconds,
        "partial": entry.get("partial"),
        "model_sha256": identity["model_sha256"],
        "version": identity["version"],
    }


def _digest(task: Task, days: Iterable[RecordingDay]) -> bytes:
    """Identifies the sources of a file; a CSV file that somebody has edited has another size."""
    sources = []
    for entry, *_, seconds in days:
        table = next(_tables_of(task, entry))
        written = entry["outputs"][table.relative_to(task.output).as_posix()]
        sources.append([entry["recording"], written, table.stat().st_size, seconds])
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest().encode()


def _write(
    folder: Path, digest: bytes, kinds: Mapping[str, type], rows: Callable[[], Iterable[dict[str, Any]]]
) -> None:
    """Write rows, unless the file has them already."""
    path, parquet = folder / "rows.parquet", needed("pyarrow.parquet", "parquet")
    if path.exists() and (parquet.read_schema(path).metadata or {}).get(DIGEST_KEY) == digest:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside:
        write_parquet_rows(aside, kinds, rows(), {DIGEST_KEY: digest})
