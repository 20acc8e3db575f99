"""Units of work: a recording, the scores of one, a part of a long one, or the whole from its parts."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from outlark.batch.journal import Journal
from outlark.batch.sources import Source
from outlark.batch.task import Print, Task, fingerprint
from outlark.errors import OutlarkError
from outlark.files.io import size_of

#: Seconds of audio in a part. Each part also analyses the five minutes before it, so shorter parts cost more.
PART_S = 1800.0
#: Recordings longer than this many parts are split.
LONG = 1.5
#: Smaller files, in bytes, cannot be that long: their headers are not read.
SMALL = 2**22


@dataclass(frozen=True)
class Part:
    """One of `of` parts of a recording, each of about `length_s` seconds."""

    number: int
    of: int
    length_s: float

    @property
    def seconds(self) -> tuple[float, float | None]:
        """Approximate start and end; None for the end of the recording.

        >>> Part(1, of=3, length_s=600.0).seconds, Part(2, of=3, length_s=600.0).seconds
        ((600.0, 1200.0), (1200.0, None))
        """
        last = self.number + 1 == self.of
        return self.number * self.length_s, None if last else (self.number + 1) * self.length_s


@dataclass(frozen=True)
class Unit:
    """What one process does in one go, and what is repeated if it dies.

    Attributes
    ----------
    part : Part, optional
        Only this part of the recording.
    parts : tuple of str
        The whole recording, from these files with the results of its parts.
    before : Print
        With parts: the recording when the first of them was started.
    """

    source: Source
    part: Part | None = None
    parts: tuple[str, ...] = ()
    before: Print = field(default=None, compare=False)


class Event(NamedTuple):
    """News of a unit.

    `what` is ``{"seconds", "share"}`` on the way; at the end ``{"done": …}``, ``{"failed": message}``, ``{"refused":
    message}`` if the task is impossible, or ``{"died": message}`` if the process has ended.
    """

    unit: Unit
    what: Mapping[str, Any]


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def n_parts(source: Source, length_s: float) -> int:
    """How many parts of about this length a recording is split into; 1 for short ones and for those without seeking."""
    from outlark.audio.recording import Recording

    try:
        if size_of(source.path) < SMALL:
            return 1
        audio = Recording(source.path)
    except (OSError, OutlarkError):  # the worker reports what is wrong
        return 1
    seconds = audio.n_samples / audio.sample_rate
    return max(1, round(seconds / length_s)) if audio.seekable and seconds > LONG * length_s else 1


class Long:
    """A long recording: which of its parts are done, and what comes next.

    Attributes
    ----------
    before : Print
        The recording before work on its parts began.
    message : str or None
        Why it failed, from the first part that did.
    """

    def __init__(self, task: Task, source: Source, n_parts: int, length_s: float) -> None:
        self.source, self.n_parts = source, n_parts
        self.before = fingerprint(source.path)
        self._task, self._length_s = task, length_s
        self._files: dict[int, str] = {}
        self._messages: dict[int, str] = {}
        self._waiting = list(range(n_parts))  # numbers of the parts that are not under way yet
        self._n_under_way = 0

    @property
    def message(self) -> str | None:
        return self._messages[min(self._messages)] if self._messages else None

    @property
    def under_way(self) -> bool:
        return self._n_under_way > 0 or bool(self._wanted())

    def recall(self, entries: Mapping[int, Mapping[str, Any]], identity: Mapping[str, Any]) -> int:
        """Take over the parts that an earlier run did in the same way; how many."""
        same = {"file": self.before, "of": self.n_parts, "length_s": self._length_s, "identity": identity}
        for number, entry in entries.items():
            (file,) = entry["outputs"]
            if all(entry[key] == value for key, value in same.items()) and Path(self._task.output, file).exists():
                self._files[number] = file
        self._waiting = [number for number in self._waiting if number not in self._files]
        return len(self._files)

    def units(self) -> Iterator[Unit]:
        """The parts that are left to do; the whole if none is."""
        if not self._waiting:
            yield self.whole()
        while self._wanted():
            self._n_under_way += 1
            part = Part(self._waiting.pop(0), self.n_parts, self._length_s)
            yield Unit(self.source, part, before=self.before)

    def ended(self, part: Part, what: Mapping[str, Any]) -> None:
        """A part has succeeded or failed."""
        self._n_under_way -= 1
        if "failed" in what:
            self._messages[part.number] = what["failed"]
        else:
            (self._files[part.number],) = what["done"]["outputs"]

    def whole(self) -> Unit:
        """What follows when all parts are done."""
        paths = (str(Path(self._task.output, self._files[number])) for number in range(self.n_parts))
        return Unit(self.source, parts=tuple(paths), before=self.before)

    def forget(self) -> None:
        """Delete the files of the parts."""
        shutil.rmtree(parts_folder(self._task, self.source.name), ignore_errors=True)
        _delete_if_empty(self._task)

    def _wanted(self) -> list[int]:
        """Parts worth doing: none after one that has failed."""
        first_bad = min(self._messages, default=self.n_parts)
        return [number for number in self._waiting if number < first_bad]


def parts_folder(task: Task, recording: str) -> Path:
    """Where the parts of a recording go; its own name may hold anything."""
    name = hashlib.sha256(recording.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]
    return task.workshop / "parts" / name


def forget_parts(task: Task, journal: Journal) -> None:
    """Delete files of parts that the journal does not list."""
    known = {parts_folder(task, name) for name in journal.parts}
    folder = task.workshop / "parts"
    for path in folder.iterdir() if folder.exists() else ():
        if path not in known:
            shutil.rmtree(path, ignore_errors=True)
    _delete_if_empty(task)


def _delete_if_empty(task: Task) -> None:
    folder = task.workshop / "parts"
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
