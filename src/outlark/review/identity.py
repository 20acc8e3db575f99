"""Which recording of a project a file is.

A recording is known by its bytes and its sound, and by its place relative to the folder of the project. Folders are
renamed and moved, disks are mounted elsewhere, programs write metadata into files: the labels stay with the sound.
"""

import hashlib
import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from outlark.audio.recording import Recording
from outlark.audio.sound_files import parts_in_common
from outlark.batch.journal import fingerprint
from outlark.errors import AudioError, OutlarkError, Problem
from outlark.plain_text import as_named, writable
from outlark.review.store import Row, Store, insert

#: What follows the name of a recording in whose place another one is.
EARLIER = " (earlier recording)"
#: Longest recording, in samples: its size as a WAV must fit into 32 bits.
MAX_WAV_SAMPLES = 2**31 - 18
#: Excerpts of a recording by which its sound is recognised, and samples of each.
EXCERPTS, EXCERPT_SAMPLES = 16, 2**12


@dataclass(frozen=True)
class GivenFile:
    """A file that was given: where it really is, its name in the project, its place and its fingerprint."""

    path: Path
    name: str
    place: str
    print: Mapping[str, Any]

    @cached_property
    def measured(self) -> Row:
        """What only the sound tells, as columns of a recording; `AudioError` for a file that holds none."""
        rate, channels, n_samples = true_length(self.path)
        facts, sound = json.dumps(Recording(self.path).facts.as_dict()), ""
        with suppress(OutlarkError):  # damaged somewhere
            sound = sound_digest(self.path)
        return {"sample_rate": rate, "channels": channels, "n_samples": n_samples, "facts": facts, "sound": sound}

    @property
    def columns(self) -> Row:
        """Where it is and what it holds, as columns of a recording."""
        return {"path": writable(str(self.path)), "place": self.place, "print": json.dumps(self.print, sort_keys=True)}


def register(store: Store, folder: Path, files: Iterable[tuple[Path, str]]) -> list[Problem]:
    """Find each recording of the project among these files or elsewhere, and add the files that are new."""
    given, absent = _given(files, folder)
    _match(store.rows("SELECT * FROM recording"), given)  # measures files before others have to wait
    with store.writing() as db:
        rows = _rows(db)
        problems = _update(db, rows, given, folder)
    known = {row["name"] for row in rows}
    lost = [Problem(name, f"{path} does not exist; put it back, or open its folder") for path, name in absent]
    return [*(problem for problem in lost if problem.where not in known), *problems]


def add(store: Store, folder: Path, path: Path, name: str) -> list[Problem]:
    """Add one recording to a project that is open; if it is one of the missing ones, that is no longer missing."""
    given, _ = _given([(path, name)], folder)
    _match([], given)  # measures it before others have to wait
    with store.writing() as db:
        here = {file.path for file in given}
        return _update(db, [r for r in _rows(db) if path_of(r) in here or not path_of(r).is_file()], given, folder)


def path_of(row: Row) -> Path:
    return Path(as_named(row["path"]))


def content(print: Mapping[str, Any]) -> tuple[int, str]:
    """The part of a fingerprint that copying does not change."""
    return print["size"], print["sha256"]


def row_content(row: Row) -> tuple[int, str]:
    return content(json.loads(row["print"]))


def _rows(db: sqlite3.Connection) -> list[Row]:
    return [dict(row) for row in db.execute("SELECT * FROM recording ORDER BY id")]


def _given(files: Iterable[tuple[Path, str]], folder: Path) -> tuple[list[GivenFile], list[tuple[Path, str]]]:
    """Each file once, whatever links lead to it; and those that are not there."""
    given, absent = dict[Path, GivenFile](), list[tuple[Path, str]]()
    for path, name in files:
        real = Path(os.path.realpath(path))
        found = fingerprint(real)
        if found is None:
            absent.append((path, writable(name)))
        else:
            given.setdefault(real, GivenFile(real, writable(name), place_of(real, folder), found))
    return list(given.values()), absent


# ------------------------------------------------------------ files and rows


def _match(
    rows: Iterable[Row], given: Sequence[GivenFile]
) -> tuple[dict[int, GivenFile], list[GivenFile], list[Problem]]:
    """The file of each row, by its bytes, else by its sound; the files that are new; and those that hold no sound."""
    known: dict[int, GivenFile] = {}
    rows = list(rows)
    waiting = _take(known, given, rows, lambda file: content(file.print), row_content)
    readable, problems = list[GivenFile](), list[Problem]()
    for file in waiting:
        try:
            _ = file.measured
            readable.append(file)
        except (OutlarkError, OSError) as error:
            problems.append(Problem(file.name, str(error)))
    new = _take(known, readable, rows, lambda file: _sound_of({**file.measured, "place": file.place}), _sound_of)
    return known, new, problems


def _take(
    known: dict[int, GivenFile], files: Sequence[GivenFile], rows: Sequence[Row],
    of_file: Callable[[GivenFile], Hashable], of_row: Callable[[Row], Hashable],
) -> list[GivenFile]:  # fmt: skip
    """Pair files and rows with one content: those in one place first, then those whose paths end alike. The rest."""
    alike: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        if row["id"] not in known:
            alike[of_row(row)].append(row)
    pairs = [(file, row) for file in files for row in alike.get(of_file(file), ())]
    taken = set[Path]()
    for file, row in sorted(pairs, key=lambda pair: _nearness(*pair), reverse=True):
        if row["id"] not in known and file.path not in taken:
            known[row["id"]] = file
            taken.add(file.path)
    return [file for file in files if file.path not in taken]


def _sound_of(row: Row) -> tuple[int, int, str]:
    """Length and sound; silent recordings are told apart by their places."""
    return row["sample_rate"], row["n_samples"], row["sound"] or f"silent {row['place']}"


def _nearness(file: GivenFile, row: Row) -> tuple[bool, bool, int]:
    """Whether a file is where a recording was, relative to the project or not; how many parts of their paths agree."""
    before = path_of(row)
    return file.place == row["place"], file.path == before, parts_in_common(file.path, before)


def place_of(path: Path, folder: Path) -> str:
    """A path relative to the folder of the project; absolute on another drive of Windows.

    >>> place_of(Path("/disk/season/a.wav"), Path("/disk/season/outlark-review"))
    '../a.wav'
    """
    with suppress(ValueError):
        return writable(Path(os.path.relpath(path, os.path.realpath(folder))).as_posix())
    return writable(path.as_posix())


def _located(row: Row, folder: Path, taken: Container[Path]) -> tuple[Path, bool]:
    """Where a recording is that was not given: near the project, else where it was last; if neither, where to put it.

    Also whether something else is there. The path then does not exist, so that nobody hears another recording with
    these labels.
    """
    near = Path(os.path.normpath(Path(os.path.realpath(folder), as_named(row["place"]))))
    for path in (near, path_of(row)):
        if path not in taken and _is_recording(row, path):
            return path, False
    if near in taken or near.is_file():
        return near.parent / f"missing (recording {row['id']})" / near.name, True
    return near, False


def _is_recording(row: Row, path: Path) -> bool:
    """Whether a file has the bytes or the sound of a recording; unreadable files are what they were."""
    found = fingerprint(path)
    if found is None or content(found) == row_content(row):
        return found is not None
    try:
        rate, _, n_samples = true_length(path)
        same_length = (rate, n_samples) == (row["sample_rate"], row["n_samples"])
        return same_length and sound_digest(path) == row["sound"]
    except (OutlarkError, OSError):
        return True


# ------------------------------------------------------------ the table


def _update(db: sqlite3.Connection, rows: Sequence[Row], given: Sequence[GivenFile], folder: Path) -> list[Problem]:
    """Bring rows up to date with the files that are there, and add new ones; what went wrong."""
    known, new, problems = _match(rows, given)
    taken = {file.path for file in (*known.values(), *new)}
    values = {
        row["id"]: _found(row, known[row["id"]]) if row["id"] in known else _elsewhere(row, folder, taken)
        for row in rows
    }
    for number in values:  # two recordings may swap their paths, which are unique
        db.execute("UPDATE recording SET path = ? WHERE id = ?", (f"recording {number}", number))
    for number, one in values.items():
        columns = ", ".join(f"{name} = ?" for name in one)
        db.execute(f"UPDATE recording SET {columns} WHERE id = ?", (*one.values(), number))
    for file in new:
        row = {"name": file.name, **file.columns, **file.measured}
        key = hashlib.sha256(f"{row['path']}|{row['print']}".encode(errors="surrogateescape")).hexdigest()[:16]
        insert(db, "recording", {**row, "key": key})
    _name_apart(db)
    return problems


def _found(row: Row, file: GivenFile) -> Row:
    """The new values of a recording whose file was given."""
    name = row["name"] if row["name"].endswith(f"/{file.name}") else file.name
    same = content(file.print) == row_content(row)
    more = {} if same else {name: file.measured[name] for name in ("sound", "channels", "facts")}
    return {"name": name, **file.columns, **more}


def _elsewhere(row: Row, folder: Path, taken: Container[Path]) -> Row:
    """The new values of a recording whose file was not given."""
    path, displaced = _located(row, folder, taken)
    place = place_of(path, folder) if path.is_file() else row["place"]
    name = row["name"].removesuffix(EARLIER) + (EARLIER if displaced else "")
    return {"path": writable(str(path)), "place": place, "name": name}


def _name_apart(db: sqlite3.Connection) -> None:
    """Recordings of one name get as many of their folders as tell them apart; else their number."""
    rows = _rows(db)
    names = {row["id"]: row["name"] for row in rows}
    while True:
        n_of = Counter(names.values())
        longer = {row["id"]: _with_folder(names[row["id"]], path_of(row)) for row in rows if n_of[names[row["id"]]] > 1}
        if all(names[number] == name for number, name in longer.items()):
            break
        names |= longer
    seen = set[str]()
    for row in rows:
        name = names[row["id"]]
        apart = f"{name} ({row['id']})" if name in seen else name
        seen.add(apart)
        if apart != row["name"]:
            db.execute("UPDATE recording SET name = ? WHERE id = ?", (apart, row["id"]))


def _with_folder(name: str, path: Path) -> str:
    """The name with one more of the folders of its path, as far as there are any.

    >>> _with_folder("1.wav", Path("/data/night/1.wav")), _with_folder("b.wav", Path("/data/a.wav"))
    ('night/1.wav', 'b.wav')
    """
    n = name.count("/") + 1
    parts = [writable(part) for part in path.parts[1:]]
    return "/".join(parts[-n - 1 :]) if "/".join(parts[-n:]) == name and len(parts) > n else name


# ------------------------------------------------------------ sound


def true_length(path: Path) -> tuple[int, int, int]:
    """Sample rate, channels and number of samples; counted where the file only estimates it.

    >>> import soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.zeros((2500, 2)), 8000)
    ...     true_length(Path(folder, "a.wav"))
    (8000, 2, 2500)
    """
    audio = Recording(path)
    n_samples = audio.n_samples if audio.seekable else sum(map(len, audio.blocks(2**16)))
    if not n_samples:
        raise AudioError(f"{path} holds no samples; record it again")
    if n_samples > MAX_WAV_SAMPLES:
        raise AudioError(f"{path} is longer than {MAX_WAV_SAMPLES} samples; cut it into shorter files")
    return audio.sample_rate, audio.channels, n_samples


def sound_digest(path: Path) -> str:
    """A digest of samples all over the recording, or of the first ones where seeking is slow; "" if they are silent.

    Metadata, lossless compression and the name of the file do not change it.

    >>> import soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a.wav", "a.flac"):
    ...         soundfile.write(f"{folder}/{name}", np.arange(30_000, dtype=np.int16), 8000)
    ...     sound_digest(Path(folder, "a.wav")) == sound_digest(Path(folder, "a.flac"))
    True
    """
    sound = Recording(path)
    n, most = sound.n_samples, EXCERPTS * EXCERPT_SAMPLES
    places = [(i * (n - EXCERPT_SAMPLES) // (EXCERPTS - 1), EXCERPT_SAMPLES) for i in range(EXCERPTS)]
    if n <= most or not sound.seekable:
        places = [(0, most)]
    samples = np.concatenate([sound.part(start, start + length) for start, length in places])
    return hashlib.sha256(samples.astype("<f4").tobytes()).hexdigest() if np.ptp(samples) else ""
