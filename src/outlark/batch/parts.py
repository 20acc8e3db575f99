"""A recording that is worked on in parts: which of them are done, and what follows when all are."""

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outlark.batch.identity import fingerprint
from outlark.batch.journal import Journal
from outlark.batch.sources import Source
from outlark.batch.task import Task
from outlark.batch.unit import Part, Unit, parts_folder
from outlark.detection.parts import Second
from outlark.detection.scores import ScoreBlock, joined_scores
from outlark.detection.scores_file import block_arrays, block_of
from outlark.errors import OutlarkError

#: Frames that are kept together, about a minute.
FRAMES = 2**15
_ABOUT = "about.json"


class DamagedPartError(OutlarkError):
    """A file of a part that is not there, or not what was written."""


class PartWriter:
    """Writes the scores of a part as they come; for use in a ``with`` block."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w")
        self._waiting: list[ScoreBlock] = []
        self._n_waiting = self._n_blocks = 0

    def add(self, block: ScoreBlock) -> None:
        """The next scores."""
        if len(block):
            self._waiting.append(block)
            self._n_waiting += len(block)
        if self._n_waiting >= FRAMES:
            self._write()

    def finish(self, about: Mapping[str, Any], second: Second, spectra: np.ndarray) -> None:
        """All scores were added; what else there is to say of the part."""
        if self._waiting:
            self._write()
        self._add("spectra", spectra)
        self._add("second_at", np.array(list(second), dtype=np.int64).reshape(-1, 2))
        self._add("second", np.array(list(second.values())))
        self._zip.writestr(zipfile.ZipInfo(_ABOUT), json.dumps({**about, "blocks": self._n_blocks}))

    def _write(self) -> None:
        for name, array in block_arrays(joined_scores(self._waiting)).items():
            self._add(f"{self._n_blocks}.{name}", array)
        self._waiting, self._n_waiting = [], 0
        self._n_blocks += 1

    def _add(self, name: str, array: np.ndarray) -> None:
        # an entry of its own has no time, so that the same scores are the same bytes
        with self._zip.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()


class PartFile:
    """What a `PartWriter` wrote.

    Attributes
    ----------
    about : dict

    Raises
    ------
    DamagedPartError
        From all that reads it.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        with self._opened() as arrays:
            self.about: dict[str, Any] = json.loads(arrays.zip.read(_ABOUT))

    def blocks(self, n_classes: int) -> Iterator[ScoreBlock]:
        """The scores, about a minute at a time."""
        with self._opened() as arrays:
            of_block: list[dict[str, str]] = [{} for _ in range(self.about["blocks"])]
            for name in arrays.files:
                number, _, column = name.partition(".")
                if number.isdecimal():
                    of_block[int(number)][column] = name
            for names in of_block:
                yield block_of({column: arrays[name] for column, name in names.items()}, n_classes)

    def rest(self) -> tuple[Second, np.ndarray]:
        """What a second stage made of the candidates, and the spectra for the bandwidth."""
        with self._opened() as arrays:
            places = ((start, end) for start, end in arrays["second_at"].tolist())
            return dict(zip(places, arrays["second"], strict=True)), arrays["spectra"]

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with np.load(self._path, allow_pickle=False) as arrays:
                yield arrays
        except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DamagedPartError(
                f"{self._path}: a part of a recording that cannot be read any more ({error!s:.200}); give the same "
                "command again, and its recording is worked on from its start"
            ) from error


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
