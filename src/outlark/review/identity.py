"""Which recording of a project a file is.

A recording is known by its bytes and its sound, and by its place relative to the folder of the project. Folders are
renamed and moved, disks are mounted elsewhere, programs write metadata into files: the labels stay with the sound.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlark.audio.recording import Recording
from outlark.audio.sound_files import parts_in_common
from outlark.batch.task import fingerprint
from outlark.errors import OutlarkError
from outlark.plain_text import as_named, writable
from outlark.review.media import sound_print, true_length
from outlark.review.store import Row

#: A problem of opening, with "name" and "message".
Problem = dict[str, str]


@dataclass(frozen=True)
class Given:
    """A file that was given: where it really is, its name in the project, and its fingerprint."""

    path: Path
    name: str
    print: Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """What only the sound of a file tells."""

    sample_rate: int
    channels: int
    n_samples: int
    sound: str
    facts: str

    @property
    def length(self) -> tuple[int, int]:
        return self.sample_rate, self.n_samples

    @property
    def identity(self) -> tuple[int, int, str] | None:
        """None if nothing can be heard by which to tell it from others."""
        return (*self.length, self.sound) if self.sound else None


@dataclass
class Matches:
    """Row id → its file, files that are new, and what went wrong."""

    known: dict[int, Given] = field(default_factory=dict)
    new: list[Given] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Files:
    """The files that were given, each once, whatever links lead to it; each is measured at most once."""

    def __init__(self, files: Iterable[tuple[Path, str]]) -> None:
        self.given: list[Given] = []
        self.absent: list[tuple[Path, str]] = []
        self._measured: dict[Path, Measured] = {}
        seen = set()
        for path, name in files:
            real = Path(os.path.realpath(path))
            if real in seen:
                continue
            seen.add(real)
            found = fingerprint(real)
            if found is None:
                self.absent.append((path, writable(name)))
            else:
                self.given.append(Given(real, writable(name), found))

    def measured(self, path: Path) -> Measured:
        """Raises `AudioError` for a file that holds no sound."""
        if path not in self._measured:
            rate, channels, n_samples = true_length(path)
            facts = json.dumps(Recording(path).facts.as_dict())
            self._measured[path] = Measured(rate, channels, n_samples, self.sound(path), facts)
        return self._measured[path]

    def sound(self, path: Path) -> str:
        try:
            return sound_print(path)
        except OutlarkError:  # damaged somewhere
            return ""


def content(print: Mapping[str, Any]) -> tuple[int, str]:
    """The part of a fingerprint that copying does not change."""
    return print["size"], print["sha256"]


def place_of(path: Path, folder: Path) -> str:
    """A path relative to the folder of the project; absolute on another drive of Windows.

    >>> place_of(Path("/disk/season/a.wav"), Path("/disk/season/outlark-review"))
    '../a.wav'
    """
    with suppress(ValueError):
        return writable(Path(os.path.relpath(path, os.path.realpath(folder))).as_posix())
    return writable(path.as_posix())


def at_place(place: str, folder: Path) -> Path:
    """The reverse of `place_of`."""
    return Path(os.path.normpath(Path(os.path.realpath(folder), as_named(place))))


def path_of(row: Row) -> Path:
    return Path(as_named(row["path"]))


def new_key(row: Mapping[str, Any]) -> str:
    """A name for the folder of what is computed from a recording, and kept while its sound is the same."""
    return hashlib.sha256(f"{row['path']}|{row['print']}".encode(errors="surrogateescape")).hexdigest()[:16]


def cache_key(row: Row) -> str:
    return row["key"] or new_key(row)


def match(rows: Iterable[Row], files: Files, folder: Path) -> Matches:
    """The row of each file: the one with its bytes, else with its sound, else the one in its place if none can tell."""
    found, taken = Matches(), set[Path]()
    waiting, free = list(files.given), list(rows)

    def take(pairs: Iterable[tuple[Given, Row]]) -> None:
        nonlocal waiting, free
        for file, row in pairs:
            if row["id"] not in found.known and file.path not in taken:
                found.known[row["id"]] = file
                taken.add(file.path)
        waiting = [file for file in waiting if file.path not in taken]
        free = [row for row in free if row["id"] not in found.known]

    take(_alike(waiting, free, lambda file: content(file.print), row_content, folder))
    waiting, found.problems = _with_sound(waiting, files)
    take(_alike(waiting, free, lambda file: files.measured(file.path).identity, row_sound, folder))
    for file, row in _in_place(waiting, free, files, folder):
        take([(file, row)])
        message = "the file has changed since it was labelled; check that its labels still fit"
        found.problems.append({"name": file.name, "message": message})
    found.new = waiting
    return found


def _with_sound(waiting: Sequence[Given], files: Files) -> tuple[list[Given], list[Problem]]:
    readable, problems = [], []
    for file in waiting:
        try:
            files.measured(file.path)
            readable.append(file)
        except (OutlarkError, OSError) as error:
            problems.append({"name": file.name, "message": str(error)})
    return readable, problems


def _alike(
    files: Sequence[Given], rows: Sequence[Row], of_file: Callable[[Given], Hashable],
    of_row: Callable[[Row], Hashable], folder: Path,
) -> list[tuple[Given, Row]]:  # fmt: skip
    """Pairs with one content, those in one place first, then those whose paths end alike."""
    by_content: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        by_content[of_row(row)].append(row)
    pairs = []
    for file in files:
        key = of_file(file)
        same = by_content.get(key, []) if key is not None else []
        pairs += [(file, row) for row in same if row["place"] == place_of(file.path, folder)][:1] or [
            (file, row) for row in same
        ]
    return sorted(pairs, key=lambda pair: _nearness(pair[0], pair[1], folder), reverse=True)


def _nearness(file: Given, row: Row, folder: Path) -> tuple[bool, bool, int]:
    """Whether a file is where a recording was, relative to the project or not; how many parts of their paths agree."""
    before = path_of(row)
    return place_of(file.path, folder) == row["place"], file.path == before, parts_in_common(file.path, before)


def _in_place(waiting: Sequence[Given], rows: Sequence[Row], files: Files, folder: Path) -> list[tuple[Given, Row]]:
    """Files as long as the recording in their place, if it is silent, or from before sounds were compared."""
    by_place = {path_of(row): row for row in rows}
    by_place |= {at_place(row["place"], folder): row for row in rows if row["place"] is not None}
    pairs = []
    for file in waiting:
        row, measured = by_place.get(file.path), files.measured(file.path)
        if row is not None and measured.length == row_length(row) and row["sound"] in (None, measured.sound):
            pairs.append((file, row))
    return pairs


def row_content(row: Row) -> tuple[int, str] | None:
    kept = json.loads(row["print"])
    return None if kept is None else content(kept)


def row_length(row: Row) -> tuple[int, int]:
    return row["sample_rate"], row["n_samples"]


def row_sound(row: Row) -> tuple[int, int, str] | None:
    return (*row_length(row), row["sound"]) if row["sound"] else None


def located(row: Row, folder: Path, taken: Container[Path]) -> tuple[Path, bool]:
    """Where a recording is that was not given: near the project, else where it was last; if neither, where to put it.

    Also whether something else is there. The path then does not exist, so that nobody hears another recording with
    these labels.
    """
    last = path_of(row)
    places = [last, folder / "uploads" / last.name] if row["place"] is None else [at_place(row["place"], folder), last]
    for path in places:
        if path not in taken and is_recording(row, path):
            return path, False
    expected = places[0]
    if expected in taken or expected.is_file():
        return expected.parent / f"missing (recording {row['id']})" / expected.name, True
    return expected, False


def is_recording(row: Row, path: Path) -> bool:
    """Whether a file has the bytes or the sound of a recording; unreadable files are what they were."""
    found = fingerprint(path)
    if found is None:
        return False
    if content(found) == row_content(row):
        return True
    try:
        rate, _, n_samples = true_length(path)
    except (OutlarkError, OSError):
        return True
    return (rate, n_samples) == row_length(row) and row["sound"] in (None, sound_print(path))
