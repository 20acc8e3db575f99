"""A run over many files: what is left to do, who does it, and the report."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from outlark.batch import report
from outlark.batch.journal import (
    LINE_DONE,
    LINE_FAILED,
    LINE_PART,
    Journal,
    LockedError,
    check_same,
    fingerprint,
    is_done,
    keep_edited,
    lock,
)
from outlark.batch.pool import LOCK_WAIT_S, WorkerPool
from outlark.batch.report import State
from outlark.batch.task import PART_S, Event, Fingerprint, RecordingPart, Source, Sources, Task, Unit
from outlark.errors import InputError, OutlarkError, Problem
from outlark.files.io import size_of

if TYPE_CHECKING:
    from outlark.batch.parts import LongRecording

#: Limits of a bundle of short recordings: units, and bytes (about a minute of audio).
BUNDLE_UNITS, BUNDLE_BYTES = 50, 2**22
#: Recordings longer than this many parts are split.
SPLIT_FROM = 1.5
#: Smaller files, in bytes, cannot be that long: their headers are not read.
SPLIT_BYTES = 2**22


class Driver(Protocol):
    """A context manager that has units done; its end is the end of everything under way."""

    def start(self, n_units: int) -> bool:
        """Prepare for this many units; whether recordings can be split. InputError if the task is impossible."""
        ...

    @property
    def n_workers(self) -> int:
        """How many bundles are worked on at the same time."""
        ...

    @property
    def n_free(self) -> int:
        """How many bundles can be submitted now."""
        ...

    def submit(self, bundle: Sequence[Unit]) -> None:
        """Have units done by one process, one after the other; `events` reports the outcome of each."""
        ...

    def events(self) -> Iterator[Event]:
        """News of the submitted units; waits for some, but not for long."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


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
) -> State:
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
    with _locked(task.work_folder):
        journal = Journal(task.output)
        kept: list[str] = []
        if not resume:
            again = [journal.entries.get(source.name, {}) for source in sources.files]
            kept = keep_edited(task, again)  # the journal knows what was written, so it is cleared afterwards
            journal.clear()
        if (task.work_folder / "parts").exists():
            from outlark.batch.parts import delete_unlisted_parts

            delete_unlisted_parts(task, journal)
        done = journal.done
        now = {source.name: fingerprint(source.path) for source in sources.files if source.name in done}
        check_same(task, sources, journal, now)
        running = _Run(task, sources, journal, now, watch, part_s)
        running.state.edited += kept
        running.work(WorkerPool(task, jobs) if driver is None else driver)
        report.finish(task, sources, journal, running.state, combined=combined, parquet=parquet)
        return running.state


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder for the journal and unfinished work, and tidy it up."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / "lock"):
            with lock(folder / "workers", wait_s=LOCK_WAIT_S):
                shutil.rmtree(folder / "partial", ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(folder / "partial", ignore_errors=True)
    except LockedError:
        raise InputError(
            f"{folder.parent}: another run is using this folder; wait for it to finish, or choose another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"{error.filename or folder.parent}: cannot be written ({error.strerror or error}); free some space, or "
            "choose a folder that you may write to, and give the same command again: what is done is kept"
        ) from error


def n_parts(source: Source, length_s: float) -> int:
    """How many parts of about this length a recording is split into; 1 for short ones and for those without seeking."""
    from outlark.audio.recording import Recording

    try:
        if size_of(source.path) < SPLIT_BYTES:
            return 1
        audio = Recording(source.path)
    except (OSError, OutlarkError):  # the worker reports what is wrong
        return 1
    seconds = audio.n_samples / audio.sample_rate
    return max(1, round(seconds / length_s)) if audio.seekable and seconds > SPLIT_FROM * length_s else 1


class _Run:
    """One run, from the journal to the report."""

    def __init__(
        self,
        task: Task,
        sources: Sources,
        journal: Journal,
        now: Mapping[str, Fingerprint],
        watch: Callable[[State], None],
        part_s: float,
    ) -> None:
        self.task, self.sources, self.journal, self.watch = task, sources, journal, watch
        self.state = State(total=len(sources.files) + len(sources.failures), failures=list(sources.failures))
        self._identity, self._part_s = task.identity, part_s
        self._to_do: dict[str, int] = {}  # bytes of the files that are left to do
        self._long: dict[str, LongRecording] = {}  # recordings that are split
        self._alone: deque[Unit] = deque()  # units that are to be done next, each by itself
        self._under_way = self._n_left = 0  # units that are handed out, and files that are not
        self._died: set[Unit] = set()  # units whose process has died once
        self._counted: dict[Unit, tuple[float, float]] = {}  # bytes and seconds of a unit that are in the state
        for source in sources.files:
            self._sort_in(source, now.get(source.name))
        self.state.edited += keep_edited(task, (journal.entries.get(name, {}) for name in self._to_do))

    def work(self, driver: Driver) -> None:
        self.state.bytes_total = float(sum(self._to_do.values()))
        self._n_left = len(self._to_do)
        self.watch(self.state)
        if not self._to_do:
            return
        with driver:
            rest = self._units(driver.start(len(self._to_do)))
            while True:
                self._hand_out(driver, rest)
                if not self._under_way:
                    return
                events = list(driver.events())
                self._under_way -= sum("share" not in what for _, what in events)
                if not any("died" in what for _, what in events):  # what has died is tried again first
                    self._hand_out(driver, rest)  # the processes go on while the journal is written
                self._note(events)

    def _hand_out(self, driver: Driver, rest: Iterator[Unit]) -> None:
        while driver.n_free and (bundle := self._bundle(rest, driver.n_workers)):
            driver.submit(bundle)
            self._under_way += len(bundle)

    def _bundle(self, rest: Iterator[Unit], n_workers: int) -> list[Unit]:
        """The next units for one process: several short recordings, which then wait for the disk only once.

        Towards the end there are fewer in a bundle, so that all processes end at about the same time.
        """
        if self._alone:
            return [self._alone.popleft()]
        bundle, n_bytes = list[Unit](), 0
        for unit in islice(rest, max(1, min(BUNDLE_UNITS, self._n_left // (2 * n_workers)))):
            n_bytes += BUNDLE_BYTES if unit.part or unit.parts else self._to_do[unit.source.name]
            if bundle and n_bytes > BUNDLE_BYTES:
                self._alone.append(unit)
                break
            bundle.append(unit)
        return bundle

    def _sort_in(self, source: Source, now: Fingerprint) -> None:
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
        if entry.get("state") == LINE_DONE and entry["file"] != now:
            self.state.changed.append(source.name)

    def _units(self, splits: bool) -> Iterator[Unit]:
        """What is left to do; a file is opened when its turn has come."""
        for source in self.sources.files:
            if source.name not in self._to_do:
                continue
            self._n_left -= 1
            n = n_parts(source, self._part_s) if splits else 1
            if n == 1:
                yield Unit(source)
                continue
            from outlark.batch.parts import LongRecording  # imports all that detects

            long = LongRecording(self.task, source, n, self._part_s)
            self._long[source.name] = long
            found = long.recall(self.journal.parts.get(source.name, {}), self._identity)
            self.state.bytes_total -= self._to_do[source.name] * found / n
            self.state.resumed += found
            yield from long.units()

    def _note(self, events: Sequence[Event]) -> None:
        """Note what happened: in the journal all at once, then in the state."""
        events = [Event(unit, self._judged(unit, what)) for unit, what in events]
        lines = [
            self._line(unit, what) for unit, what in events if "done" in what or ("failed" in what and not unit.part)
        ]
        if lines:
            self.journal.add(*lines)
        for unit, what in events:
            self._happened(unit, what)
            self.watch(self.state)

    def _judged(self, unit: Unit, what: Mapping[str, Any]) -> Mapping[str, Any]:
        """A unit has failed if its process has died twice: the first time it was perhaps not its fault."""
        if "died" in what and unit in self._died:
            return {"failed": f"{unit.source.path}: {what['died']}"}
        return what

    def _line(self, unit: Unit, what: Mapping[str, Any]) -> dict[str, Any]:
        """The line of the journal about a unit that has succeeded, or a recording that has failed."""
        source, part = unit.source, unit.part
        about = {"recording": source.name, "path": str(source.path)}
        if part is not None:
            which = {"part": part.number, "of": part.of, "length_s": part.length_s, "file": unit.before}
            return {
                **about,
                "state": LINE_PART,
                **which,
                "identity": self._identity,
                "outputs": what["done"]["outputs"],
            }
        if "failed" in what:
            return {**about, **source.listed, "state": LINE_FAILED, "message": what["failed"]}
        wrote = {"formats": list(self.task.formats), "scores": self.task.keep_scores, "identity": self._identity}
        # what a manifest says of a recording counts more than what was found in the file
        return {**about, "state": LINE_DONE, **wrote, **what["done"], **source.listed}

    def _happened(self, unit: Unit, what: Mapping[str, Any]) -> None:
        """Note an event in the state, once the journal has it."""
        if "share" in what:
            self._advance(unit, what["share"], what["seconds"])
        elif "died" in what:
            self._died.add(unit)
            self._alone.append(unit)
        elif unit.part is not None:
            self._part_ended(self._long[unit.source.name], unit, unit.part, what)
        else:
            self._ended(unit, what)

    def _part_ended(self, long: "LongRecording", unit: Unit, part: RecordingPart, what: Mapping[str, Any]) -> None:
        """A part has succeeded or failed; after the last, what follows."""
        if "done" in what:
            self._advance(unit, 1.0, what["done"]["seconds"])
        long.ended(part, what)
        if long.under_way:
            return
        if long.message is None:
            self._alone.append(long.whole())
        else:
            whole, failed = Unit(unit.source), {"failed": long.message}
            self.journal.add(self._line(whole, failed))
            self._ended(whole, failed)

    def _ended(self, unit: Unit, what: Mapping[str, Any]) -> None:
        """A file has succeeded or failed."""
        source = unit.source
        if "failed" in what:
            if source.name not in self._long:
                self._advance(unit, 1.0, self._counted.get(unit, (0.0, 0.0))[1])
            elif what.get("damaged"):
                self._long[source.name].delete_files()
            self._failed(source, what["failed"])
            return
        if unit.parts:
            self._long.pop(source.name).delete_files()
        else:
            self._advance(unit, 1.0, what["done"]["seconds"])
        self.state.done += 1
        self._count(source, what["done"])

    def _advance(self, unit: Unit, share: float, seconds: float) -> None:
        """A share of a unit is done; a part is its share of the bytes, and joining parts counts as no progress."""
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
            self.state.partial.append(Problem(source.name, entry["partial"]))
        self.state.remarks += [Problem(source.name, remark) for remark in entry["remarks"]]
        self.state.quality += [Problem(source.name, remark) for remark in entry.get("quality", ())]

    def _failed(self, source: Source, message: str) -> None:
        self.state.failures.append(Problem(source.name, message))
