"""A run over many files: what is left to do, who does it, and the report."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outlark.batch.crew import Crew
from outlark.batch.edited import keep_edited
from outlark.batch.journal import DONE, FAILED, NAME, PART, Journal, TakenError, check_same, is_done, lock, prints_of
from outlark.batch.report import Report, State, report_of
from outlark.batch.sources import Failure, Source, Sources
from outlark.batch.task import Print, Task
from outlark.batch.unit import PART_S, Driver, Long, Part, Unit, forget_parts, n_parts
from outlark.errors import InputError
from outlark.files.places import size_of

#: Seconds to wait for the processes of a run that was killed a moment ago.
WAIT_S = 10.0


def run(
    task: Task,
    sources: Sources,
    *,
    driver: Driver | None = None,
    jobs: int = 1,
    resume: bool = True,
    combined: bool = False,
    parquet: bool = False,
    part_s: float = PART_S,
    watch: Callable[[State], None] = lambda state: None,
) -> Report:
    """Do the task for all files for which it has not been done.

    The results depend neither on the driver nor on how often the run was interrupted. A file that fails does not stop
    the others.

    Parameters
    ----------
    driver : Driver, optional
        Processes of this machine by default.
    jobs : int
        Number of these worker processes.
    resume : bool
        Skip what was done with the same model and settings, if the recording is unchanged (see `fingerprint`) and its
        annotation files are still there. False: do everything again. Files that somebody has edited since are kept
        under another name before they are replaced.
    combined : bool
        Write one annotation file for all; needs the format "csv".
    parquet : bool
        Write all rows and recordings as Parquet, in folders by site and day; needs the format "csv", too.
    part_s : float
        Clearly longer recordings are split into parts of this many seconds, which are analysed in parallel and resumed
        one by one. This does not change the results.
    watch : function
        Called whenever the state has changed.
    """
    with _workshop(task.workshop):
        journal = Journal(task.workshop / NAME)
        kept: list[str] = []
        if not resume:
            again = [journal.entries.get(source.name, {}) for source in sources.files]
            kept = keep_edited(task, again)  # the journal knows what was written, so it is cleared afterwards
            journal.clear()
        forget_parts(task, journal)
        prints = prints_of(sources, journal)
        check_same(task, sources, journal, prints)
        running = _Run(task, sources, journal, prints, watch, part_s)
        running.state.edited += kept
        running.work(Crew(task, jobs) if driver is None else driver)
        return report_of(task, sources, journal, running.state, combined=combined, parquet=parquet)


@contextmanager
def _workshop(folder: Path) -> Iterator[None]:
    """Have the folder for the journal and unfinished work to ourselves, tidied up."""
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
            f"{folder.parent}: another run is using this folder; wait for it to finish, or choose another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"{error.filename or folder.parent}: cannot be written ({error.strerror or error}); free some space, or "
            "choose a folder that you may write to, and give the same command again: what is done is kept"
        ) from error


class _Run:
    """One run, from the journal to the report."""

    def __init__(
        self,
        task: Task,
        sources: Sources,
        journal: Journal,
        prints: Mapping[str, Print],
        watch: Callable[[State], None],
        part_s: float,
    ) -> None:
        self.task, self.sources, self.journal, self.watch = task, sources, journal, watch
        self.state = State(total=len(sources.files) + len(sources.failures), failures=list(sources.failures))
        self._identity, self._part_s = task.identity, part_s
        self._to_do: dict[str, int] = {}  # bytes of the files that are left to do
        self._long: dict[str, Long] = {}  # recordings that are split
        self._died: set[Unit] = set()  # units whose process has died once
        self._counted: dict[Unit, tuple[float, float]] = {}  # bytes and seconds of a unit that are in the state
        for source in sources.files:
            self._sort_in(source, prints.get(source.name))
        self.state.edited += keep_edited(task, (journal.entries.get(name, {}) for name in self._to_do))

    def work(self, driver: Driver) -> None:
        self.state.bytes_total = float(sum(self._to_do.values()))
        self.watch(self.state)
        if not self._to_do:
            return
        with driver:
            splits = driver.start(len(self._to_do))
            first: deque[Unit] = deque()  # units that follow from others
            rest = self._units(splits)
            under_way = 0
            while True:
                while driver.n_free and (unit := first.popleft() if first else next(rest, None)) is not None:
                    driver.submit(unit)
                    under_way += 1
                if not under_way:
                    return
                for unit, what in driver.events():
                    under_way -= "share" not in what
                    first.extend(self._happened(unit, what))
                    self.watch(self.state)

    def _sort_in(self, source: Source, now: Print) -> None:
        entry = self.journal.entries.get(source.name, {})
        try:
            size = size_of(source.path)
        except OSError:
            self._failed(source, f"{source.path} cannot be found; it was there a moment ago")
            return
        if is_done(self.task, entry, now):
            self.state.skipped += 1
            self._count(source, entry)
            return
        self._to_do[source.name] = size
        if entry.get("state") == DONE and entry["file"] != now:
            self.state.changed.append(source.name)

    def _units(self, splits: bool) -> Iterator[Unit]:
        """What is left to do; a file is opened when its turn has come."""
        for source in self.sources.files:
            if source.name not in self._to_do:
                continue
            n = n_parts(source, self._part_s) if splits else 1
            if n == 1:
                yield Unit(source)
                continue
            long = Long(self.task, source, n, self._part_s)
            self._long[source.name] = long
            found = long.recall(self.journal.parts.get(source.name, {}), self._identity)
            self.state.bytes_total -= self._to_do[source.name] * found / n
            self.state.resumed += found
            yield from long.units()

    def _happened(self, unit: Unit, what: Mapping[str, Any]) -> list[Unit]:
        """Note an event; the units that follow from it."""
        if "refused" in what:
            raise InputError(what["refused"])
        if "share" in what:
            self._advance(unit, what["share"], what["seconds"])
            return []
        if "died" in what and unit not in self._died:
            self._died.add(unit)  # perhaps not its fault
            return [unit]
        if "died" in what:
            what = {"failed": f"{unit.source.path}: {what['died']}"}
        if unit.part is not None:
            return self._part_ended(self._long[unit.source.name], unit, unit.part, what)
        self._ended(unit, what)
        return []

    def _part_ended(self, long: Long, unit: Unit, part: Part, what: Mapping[str, Any]) -> list[Unit]:
        """A part has succeeded or failed: to the journal, then to the state; after the last, what follows."""
        if "done" in what:
            about = {"recording": unit.source.name, "path": str(unit.source.path), "state": PART}
            which = {"part": part.number, "of": part.of, "length_s": part.length_s, "file": long.before}
            outputs = what["done"]["outputs"]
            self.journal.add({**about, **which, "identity": self._identity, "outputs": outputs})
            self._advance(unit, 1.0, what["done"]["seconds"])
        long.ended(part, what)
        if long.under_way:
            return []
        if long.message is None:
            return [long.whole()]
        self._ended(Unit(unit.source), {"failed": long.message})
        return []

    def _ended(self, unit: Unit, what: Mapping[str, Any]) -> None:
        """A file has succeeded or failed: to the journal, then to the state."""
        task, source = self.task, unit.source
        about = {"recording": source.name, "path": str(source.path), **source.listed}
        if "failed" in what:
            self.journal.add({**about, "state": FAILED, "message": what["failed"]})
            if source.name not in self._long:
                self._advance(unit, 1.0, self._counted.get(unit, (0.0, 0.0))[1])
            elif what.get("damaged"):
                self._long[source.name].forget()
            self._failed(source, what["failed"])
            return
        wrote = {"formats": list(task.formats), "scores": task.keep_scores, "identity": self._identity}
        # what a manifest says of a recording counts more than what was found in the file
        self.journal.add({**about, "state": DONE, **wrote, **what["done"], **source.listed})
        if unit.parts:
            self._long.pop(source.name).forget()
        else:
            self._advance(unit, 1.0, what["done"]["seconds"])
        self.state.done += 1
        self._count(source, what["done"])

    def _advance(self, unit: Unit, share: float, seconds: float) -> None:
        """A share of a unit is done; a part is its share of the bytes, and joining parts is nothing."""
        n = 1 if unit.part is None else unit.part.of
        before = self._counted.get(unit, (0.0, 0.0))
        now = (0.0 if unit.parts else share * self._to_do[unit.source.name] / n, seconds)
        self.state.bytes_done += now[0] - before[0]
        self.state.seconds += now[1] - before[1]
        self._counted[unit] = now

    def _count(self, source: Source, entry: Mapping[str, Any]) -> None:
        """A file that is done, now or before."""
        self.state.segments.update(entry["segments"])
        if entry["partial"]:
            self.state.partial.append(Failure(source.name, entry["partial"]))
        self.state.remarks += [Failure(source.name, remark) for remark in entry["remarks"]]
        self.state.quality += [Failure(source.name, remark) for remark in entry.get("quality", ())]

    def _failed(self, source: Source, message: str) -> None:
        self.state.failures.append(Failure(source.name, message))
