"""A run over many files: what is to be done, what has been done, and what came of it."""

import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlark.batch.crew import Crew
from outlark.batch.fingerprint import Print
from outlark.batch.journal import DONE, FAILED, NAME, Journal
from outlark.batch.lock import TakenError, lock
from outlark.batch.results import FAILURES, REMARKS, write_combined, write_list
from outlark.batch.sources import Failure, Source, Sources
from outlark.batch.standing import check_same, is_done, prints_of
from outlark.batch.task import Task
from outlark.batch.unit import Unit
from outlark.errors import InputError

#: Seconds to wait for the processes of a run that was killed a moment ago.
WAIT_S = 10.0


@dataclass(kw_only=True)
class State:
    """How far a run is.

    Attributes
    ----------
    total, done, skipped : int
        Files: all, those that are finished (well or not), and of these such as had been done before.
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
    combined, failures_file, remarks_file : Path or None
    """

    recordings: int
    done: int
    skipped: int
    failures: tuple[Failure, ...]
    partial: tuple[Failure, ...]
    remarks: tuple[Failure, ...]
    changed: tuple[str, ...]
    segments: Mapping[str, int]
    seconds: float
    combined: Path | None
    failures_file: Path | None
    remarks_file: Path | None


def run(
    task: Task,
    sources: Sources,
    *,
    jobs: int = 1,
    resume: bool = True,
    combined: bool = False,
    watch: Callable[[State], None] = lambda state: None,
) -> Report:
    """Do the task to all files that it has not been done to, and tell what came of it.

    The results do not depend on `jobs`, nor on how often the run was interrupted and started again. A file that fails
    does not stop the others.

    Parameters
    ----------
    task : Task
    sources : Sources
    jobs : int
        How many processes work side by side.
    resume : bool
        Leave alone what has been done with the same model and settings, if the recording has not changed since (by its
        size, time and content, see `fingerprint`) and the tables are still there. False: do everything again.
    combined : bool
        Write one table of all; needs the format "csv".
    watch : function
        Called whenever there is something new.

    Raises
    ------
    InputError
        When the output folder cannot be used: another run is at work in it, or it holds results of another model, of
        other settings or of other recordings of the same name; when no file can be worked on.
    """
    with _workshop(task.workshop):
        journal = Journal(task.workshop / NAME)
        if not resume:
            journal.clear()
        prints = prints_of(sources, journal)
        check_same(task, sources, journal, prints)
        running = _Run(task, sources, journal, prints, watch)
        running.work(jobs)
        return running.report(combined)


@contextmanager
def _workshop(folder: Path) -> Iterator[None]:
    """The folder for the journal and unfinished work, to ourselves and tidied up."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / "lock"):
            with lock(folder / "workers", wait_s=WAIT_S):
                shutil.rmtree(folder / "partial", ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(folder / "partial", ignore_errors=True)
    except TakenError:
        raise InputError(
            f"{folder.parent}: another run is at work in this folder; wait until it has ended, or choose another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"{error.filename or folder.parent}: cannot be written ({error.strerror or error}); free some space, or "
            "choose a folder that you may write to, and give the same command again: what is done is kept"
        ) from error


class _Run:
    """One run, from what the journal says to the report."""

    def __init__(
        self,
        task: Task,
        sources: Sources,
        journal: Journal,
        prints: Mapping[str, Print],
        watch: Callable[[State], None],
    ) -> None:
        self.task, self.sources, self.journal, self.watch = task, sources, journal, watch
        self.state = State(total=len(sources.files) + len(sources.failures), failures=list(sources.failures))
        self.state.done = len(sources.failures)
        self._identity = task.identity
        self._sizes: dict[str, int] = {}  # of the files that are left to do
        self._died: set[Unit] = set()  # whose process has died once
        self._under_way: dict[str, tuple[float, float]] = {}  # bytes and seconds of a file that are in the state
        for source in sources.files:
            self._sort_in(source, prints.get(source.name))

    def work(self, jobs: int) -> None:
        """Do what is left to do."""
        self.state.bytes_total = float(sum(self._sizes.values()))
        self.watch(self.state)
        waiting = deque(Unit(source) for source in self.sources.files if source.name in self._sizes)
        if not waiting:
            return
        with Crew(self.task, jobs) as crew:
            crew.start(len(waiting))
            under_way = 0
            while waiting or under_way:
                while waiting and crew.n_free:
                    crew.submit(waiting.popleft())
                    under_way += 1
                for unit, what in crew.events():
                    under_way -= "share" not in what
                    waiting.extendleft(self._told(unit, what))
                    self.watch(self.state)

    def _told(self, unit: Unit, what: Mapping[str, Any]) -> list[Unit]:
        """Something happened to a unit; the units that are to be done because of that."""
        source = unit.source
        if "refused" in what:
            raise InputError(what["refused"])
        if "share" in what:
            self._advance(source.name, what["share"], what["seconds"])
        elif "died" in what and unit not in self._died:
            self._died.add(unit)  # it may not have been its fault
            return [unit]
        else:
            self._end(source, {"failed": f"{source.path}: {what['died']}"} if "died" in what else what)
        return []

    def report(self, combined: bool) -> Report:
        """What came of it, with the files that tell so."""
        state = self.state
        failures, partial, remarks = map(_by_name, (state.failures, state.partial, state.remarks))
        failed = {failure.name for failure in failures}
        done = [source.name for source in self.sources.files if source.name not in failed]
        # of this run and of those before it, as far as they are still there
        kept = [entry for name, entry in sorted(self.journal.entries.items()) if name not in failed]
        outputs = [output for entry in kept if entry.get("state") == DONE for output in entry["outputs"]]
        tables = [output for output in outputs if Path(self.task.output, output).exists()]
        return Report(
            recordings=state.total,
            done=len(done) - state.skipped,
            skipped=state.skipped,
            failures=failures,
            partial=partial,
            remarks=remarks,
            changed=tuple(sorted(state.changed)),
            segments={verdict: state.segments[verdict] for verdict in self.task.verdicts},
            seconds=state.seconds,
            combined=write_combined(self.task, tables) if combined else None,
            failures_file=write_list(self.task, FAILURES, _by_name([*failures, *partial])),
            remarks_file=write_list(self.task, REMARKS, remarks),
        )

    def _sort_in(self, source: Source, now: Print) -> None:
        entry = self.journal.entries.get(source.name, {})
        try:
            size = source.path.stat().st_size
        except OSError:
            self._failed(source, f"{source.path} cannot be found; it was there a moment ago")
            return
        if is_done(self.task, entry, now):
            self.state.skipped += 1
            self._done(source, entry)
            return
        self._sizes[source.name] = size
        if entry.get("state") == DONE and entry["file"] != now:
            self.state.changed.append(source.name)

    def _advance(self, name: str, share: float, seconds: float) -> None:
        before = self._under_way.get(name, (0.0, 0.0))
        now = (share * self._sizes[name], seconds)
        self.state.bytes_done += now[0] - before[0]
        self.state.seconds += now[1] - before[1]
        self._under_way[name] = now

    def _end(self, source: Source, what: Mapping[str, Any]) -> None:
        """A file is finished, well or not: to the journal, then to the state."""
        task, about = self.task, {"recording": source.name, "path": str(source.path)}
        if "failed" in what:
            self.journal.add({**about, "state": FAILED, "message": what["failed"]})
            self._advance(source.name, 1.0, self._under_way.get(source.name, (0.0, 0.0))[1])
            self._failed(source, what["failed"])
            return
        wrote = {"formats": list(task.formats), "scores": task.keep_scores, "identity": self._identity}
        self.journal.add({**about, "state": DONE, **wrote, **what["done"]})
        self._advance(source.name, 1.0, what["done"]["seconds"])
        self._done(source, what["done"])

    def _done(self, source: Source, entry: Mapping[str, Any]) -> None:
        """What is to be told of a file that is done, now or before."""
        self.state.segments.update(entry["segments"])
        self.state.done += 1
        if entry["partial"]:
            self.state.partial.append(Failure(source.name, entry["partial"]))
        self.state.remarks += [Failure(source.name, remark) for remark in entry["remarks"]]

    def _failed(self, source: Source, message: str) -> None:
        self.state.failures.append(Failure(source.name, message))
        self.state.done += 1


def _by_name(told: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(sorted(told, key=lambda failure: failure.name))
