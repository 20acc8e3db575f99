"""What came of a run, with the files that tell so."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from outlark.batch.journal import DONE, Journal
from outlark.batch.partitions import write_partitions
from outlark.batch.results import FAILURES, REMARKS, ROWS, write_combined, write_list
from outlark.batch.sources import Failure, Source, Sources
from outlark.batch.state import Report, State
from outlark.batch.task import Task


def report_of(task: Task, sources: Sources, journal: Journal, state: State, *, combined: bool, parquet: bool) -> Report:
    """The report of a run that has ended so; the files of all recordings together are written."""
    failures, partial, remarks = map(_by_name, (state.failures, state.partial, state.remarks))
    failed = {failure.name for failure in failures}
    done = [source.name for source in sources.files if source.name not in failed]
    listed = {source.name: _listed(source) for source in sources.files}
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


def _listed(source: Source) -> dict[str, str]:
    """Site and day by a manifest."""
    return {name: value for name, value in (("site", source.site), ("date", source.date)) if value is not None}


def _tables(task: Task, entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Lines of the journal with the CSV table that they tell of, as far as it is there."""
    for entry in entries:
        for name in entry["outputs"]:
            if name.endswith(ROWS) and Path(task.output, name).exists():
                yield entry, name


def _by_name(told: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(sorted(told, key=lambda failure: failure.name))
