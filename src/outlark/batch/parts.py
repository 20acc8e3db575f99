"""A recording that is worked on in parts: which of them are done, and what follows when all are."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outlark.batch.identity import fingerprint
from outlark.batch.journal import Journal
from outlark.batch.sources import Source
from outlark.batch.task import Task
from outlark.batch.unit import Part, Unit, parts_folder


class Long:
    """One long recording on its way.

    Parameters
    ----------
    task : Task
    source : Source
    n_parts : int
    length_s : float
        Of a part.

    Attributes
    ----------
    before : Print
        The recording as it is now, before its parts are worked on.
    message : str or None
        Why it cannot be done, by the first of the parts that could not.
    """

    def __init__(self, task: Task, source: Source, n_parts: int, length_s: float) -> None:
        self.source, self.n_parts = source, n_parts
        self.before = fingerprint(source.path)
        self._task, self._length_s = task, length_s
        self._files: dict[int, str] = {}
        self._messages: dict[int, str] = {}
        self._waiting = list(range(n_parts))  # numbers of parts that nobody works on yet
        self._n_under_way = 0

    @property
    def message(self) -> str | None:
        return self._messages[min(self._messages)] if self._messages else None

    @property
    def under_way(self) -> bool:
        """Whether parts are still to come."""
        return self._n_under_way > 0 or bool(self._wanted())

    def recall(self, entries: Mapping[int, Mapping[str, Any]], identity: Mapping[str, Any]) -> int:
        """Take over parts that an earlier run has done to the same recording in the same way; how many."""
        same = {"file": self.before, "of": self.n_parts, "length_s": self._length_s, "identity": identity}
        for number, entry in entries.items():
            (file,) = entry["outputs"]
            if all(entry[key] == value for key, value in same.items()) and Path(self._task.output, file).exists():
                self._files[number] = file
        self._waiting = [number for number in self._waiting if number not in self._files]
        return len(self._files)

    def units(self) -> Iterator[Unit]:
        """The parts that are left to do; the whole, if none is."""
        if not self._waiting:
            yield self.whole()
        while self._wanted():
            self._n_under_way += 1
            part = Part(self._waiting.pop(0), self.n_parts, self._length_s)
            yield Unit(self.source, part, before=self.before)

    def ended(self, part: Part, what: Mapping[str, Any]) -> None:
        """A part is finished, well or not."""
        self._n_under_way -= 1
        if "failed" in what:
            self._messages[part.number] = what["failed"]
        else:
            (self._files[part.number],) = what["done"]["outputs"]

    def whole(self) -> Unit:
        """What follows when all parts are there."""
        paths = (str(Path(self._task.output, self._files[number])) for number in range(self.n_parts))
        return Unit(self.source, parts=tuple(paths), before=self.before)

    def forget(self) -> None:
        """Delete the files of the parts."""
        shutil.rmtree(self._task.workshop / "parts" / parts_folder(self.source.name), ignore_errors=True)
        _delete_if_empty(self._task)

    def _wanted(self) -> list[int]:
        """Parts that are worth doing: after one that could not be done, none is."""
        first_bad = min(self._messages, default=self.n_parts)
        return [number for number in self._waiting if number < first_bad]


def forget_parts(task: Task, journal: Journal) -> None:
    """Delete files of parts that no journal knows of."""
    known = {parts_folder(name) for name in journal.parts}
    folder = task.workshop / "parts"
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in known:
            shutil.rmtree(path, ignore_errors=True)
    _delete_if_empty(task)


def _delete_if_empty(task: Task) -> None:
    folder = task.workshop / "parts"
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
