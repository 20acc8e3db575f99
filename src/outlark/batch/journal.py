"""What a run has done: the journal, digests and fingerprints by which files are recognised, edited files, locks.

The journal of an output folder has one line of JSON per recording, written to disk as soon as its results are. A long
recording has a line for each of its parts first. The last line about a recording counts. A line that was cut short,
because of a power cut or a full disk, or that repeats a key, is ignored: the recording is then done again.
"""

import csv
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

from outlark.batch.task import WORK_FOLDER, Fingerprint, Sources, Task
from outlark.errors import InputError, ModelFileError
from outlark.files.io import NOT_REGULAR, is_endless, is_url, mark_of, sync_folders, without_doubles, written_aside

#: The journal within an output folder, which it marks as that of a run.
JOURNAL = Path(WORK_FOLDER, "journal.jsonl")
#: States of the lines.
LINE_DONE, LINE_FAILED, LINE_PART = "done", "failed", "part"
#: Required keys of a line about a finished file, and of one about a part.
NEEDED = {
    LINE_DONE: {"path", "file", "formats", "scores", "identity", "outputs", "segments"},
    LINE_PART: {"part", "of", "length_s", "file", "identity", "outputs"},
}
OTHER_FOLDER = "choose another output folder, or use --no-resume to process everything again"


class Journal:
    """The journal of an output folder, created if it is missing.

    Attributes
    ----------
    entries : dict of str to dict
        The last line of each recording.
    parts : dict of str to dict of int to dict
        By recording and number of the part, the last line about it; none for recordings that are done.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     journal = Journal(folder)
    ...     journal.add({"recording": "a.wav", "state": "failed", "message": "empty"})
    ...     journal.add({"recording": "a.wav", "state": "failed", "message": "too short"})
    ...     Journal(folder).entries
    {'a.wav': {'message': 'too short', 'recording': 'a.wav', 'state': 'failed'}}
    """

    def __init__(self, output: str | Path) -> None:
        self.path = Path(output, JOURNAL)
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            sync_folders(self.path.parent, Path(output).parent)  # .outlark and what it is in are new
        self._end_torn_line()
        self.entries: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, dict[int, dict[str, Any]]] = {}
        for entry in entries_in(self.path):
            self._take(entry)

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The lines of the recordings that are done."""
        return {name: entry for name, entry in self.entries.items() if entry.get("state") == LINE_DONE}

    def add(self, *entries: Mapping[str, Any]) -> None:
        """Write a line about each ``entry["recording"]``; when this returns all are on the disk, else OSError."""
        lines = b"".join(json.dumps(entry, sort_keys=True).encode("ascii") + b"\n" for entry in entries)
        with self.path.open("ab", buffering=0) as file:
            written = file.write(lines)
            if written != len(lines):
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(file.fileno())
        for entry in entries:
            self._take(dict(entry))

    def clear(self) -> None:
        self.path.write_bytes(b"")
        self.entries, self.parts = {}, {}

    def _take(self, entry: dict[str, Any]) -> None:
        name = entry["recording"]
        if entry.get("state") == LINE_PART:
            self.parts.setdefault(name, {})[entry["part"]] = entry
            return
        self.entries[name] = entry
        if entry.get("state") == LINE_DONE:
            self.parts.pop(name, None)

    def _end_torn_line(self) -> None:
        """So that the next line does not continue a last line that was cut short."""
        with self.path.open("rb+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")


def entries_in(path: Path) -> Iterator[dict[str, Any]]:
    """The valid lines of a journal, in order; the file is only read."""
    shared = None
    with path.open("rb") as file:
        for line in file:
            try:
                entry = json.loads(line, object_pairs_hook=without_doubles)
            except ValueError:
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("recording"), str):
                continue
            if entry.get("state") in NEEDED:
                if not entry.keys() >= NEEDED[entry["state"]]:
                    continue
                if entry["identity"] != shared:
                    shared = entry["identity"]
                entry["identity"] = shared  # one object for all: there may be a million lines
            yield entry


def last_lines(output: str | Path) -> dict[str, dict[str, Any]]:
    """The last line of each recording, by name, from the journal of an output folder, which is only read."""
    journal = Path(output, JOURNAL)
    if not journal.is_file():
        raise InputError(f"{output} has no {JOURNAL.as_posix()}; give the output folder of outlark detect or decide")
    lines = {entry["recording"]: entry for entry in entries_in(journal) if entry.get("state") != LINE_PART}
    return dict(sorted(lines.items()))


def done_in(output: str | Path) -> dict[str, dict[str, Any]]:
    """Those about recordings that are done."""
    return {name: entry for name, entry in last_lines(output).items() if entry.get("state") == LINE_DONE}


# ----------------------------------------------------------------- what is done


def is_done(task: Task, entry: Mapping[str, Any], now: Fingerprint) -> bool:
    """Whether everything that the task wants from a file, as it is now, is in the folder.

    The content of annotation files is not checked: they may have been edited since, in Raven for example.
    """
    if entry.get("state") != LINE_DONE or entry["file"] != now:
        return False
    wanted = set(task.formats) <= set(entry["formats"]) and entry["scores"] >= task.keep_scores
    return wanted and all(Path(task.output, name).exists() for name in entry["outputs"])


def check_same(task: Task, sources: Sources, journal: Journal, now: Mapping[str, Fingerprint]) -> None:
    """Refuse to mix results of several models or settings, and to overwrite those of other recordings.

    `now` are the fingerprints, by name, of the files that are done according to the journal.
    """
    done, identity = journal.done, task.identity
    for name, entry in done.items():
        if entry["identity"] != identity:
            changes = _changes(entry["identity"], identity)
            raise InputError(
                f"{task.output} holds results made with other settings ({name}: {changes}); {OTHER_FOLDER}"
            )
    for source in sources.files:
        before = done.get(source.name)
        if before and before["path"] != str(source.path) and not _moved(before, source.path, now[source.name]):
            raise InputError(
                f"{task.output} holds results of another {source.name}, {before['path']}, and would now get those of "
                f"{source.path}; {OTHER_FOLDER}"
            )


def _moved(before: Mapping[str, Any], path: Path | str, now: Fingerprint) -> bool:
    """Whether a file was done at another place. If it is still there, too, all bytes must agree."""
    if before["file"] != now:
        return False
    if is_url(path) or is_url(before["path"]):
        return is_url(path) and is_url(before["path"])  # by the checksums of the stores
    try:
        return file_sha256(before["path"]) == file_sha256(path)  # filecmp would trust size and time
    except OSError:
        return True


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    before, now = ({**one, **one.get("arithmetic", {}), "arithmetic": None} for one in (before, now))
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return ", ".join(f"{key} {_short(before.get(key))}, now {_short(now.get(key))}" for key in keys)


def _short(value: Any) -> str:
    return f"{value:.12}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else repr(value)


class WrongFile(NamedTuple):
    """A result file that is missing or changed."""

    recording: str
    file: str
    message: str


class Verified(NamedTuple):
    """How many recordings and files were checked, and what is wrong."""

    recordings: int
    files: int
    wrong: list[WrongFile]


FILE_MISSING, FILE_CHANGED = "is missing", "is not what the run wrote"
COMBINED_DIFFERS = "does not have the same rows as the annotation files of the recordings"


def verify(output: str | Path, watch: Callable[[int, int], None] = lambda done, total: None) -> Verified:
    """Compare every file that the journal of an output folder lists, and the combined one, with its digest.

    The rows of the combined file have to be those of the others. Nothing is modified. `watch`
    gets the number of recordings checked so far, and of all.
    """
    done, wrong = done_in(output), []
    for number, (name, entry) in enumerate(done.items(), start=1):
        for file, digest in entry["outputs"].items():
            message = _wrong(Path(output, file), digest)
            if message is not None:
                wrong.append(WrongFile(name, file, message))
        watch(number, len(done))
    wrong += _wrong_combined(Path(output), done, wrong)
    return Verified(len(done), sum(len(entry["outputs"]) for entry in done.values()), wrong)


def _wrong(path: Path, digest: str) -> str | None:
    """What is wrong with a file of results."""
    try:
        return None if file_sha256(path) == digest else FILE_CHANGED
    except FileNotFoundError:
        return FILE_MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _wrong_combined(
    output: Path, done: Mapping[str, Mapping[str, Any]], wrong: Iterable[WrongFile]
) -> Iterator[WrongFile]:
    """What is wrong with the combined file; its rows are compared if all others are as they were written."""
    from outlark.annotations.formats import COMBINED, FORMATS  # slow to import

    noted, suffix = Path(output, WORK_FOLDER, f"{COMBINED}.sha256"), FORMATS["csv"].suffix
    if not noted.is_file():
        return
    message = _wrong(output / COMBINED, noted.read_text(encoding="ascii"))
    if message is None and not any(one.file.endswith(suffix) for one in wrong):
        tables = [output / file for entry in done.values() for file in entry["outputs"] if file.endswith(suffix)]
        message = None if _has_rows_of(output / COMBINED, tables) else COMBINED_DIFFERS
    if message is not None:
        yield WrongFile("", COMBINED, message)


def _has_rows_of(combined: Path, tables: Iterable[Path]) -> bool:
    """Whether the rows are those of the tables, one after the other; columns that it does not have do not count."""
    with _rows(combined) as own:
        columns = list(own.fieldnames or ())
        for table in tables:
            with _rows(table) as rows:
                if any({name: row.get(name) for name in columns} != next(own, None) for row in rows):
                    return False
        return next(own, None) is None


@contextmanager
def _rows(table: Path) -> Iterator["csv.DictReader[str]"]:
    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        yield csv.DictReader(file)


# ----------------------------------------------------------------- edited files


#: At the end of the name, so that commands which are given the folder do not take it for results.
EDITED_SUFFIX = ".edited"


def keep_edited(task: Task, entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Keep the annotation files that the task replaces and that are not what the journal says; their new names.

    They stay where they are, too, until the new ones are complete: a run may be interrupted. `entries` are
    the lines of the journal about the recordings that are done again.
    """
    from outlark.annotations.formats import FORMATS  # slow to import

    replaced = tuple(FORMATS[name].suffix for name in task.formats)
    kept = []
    for entry in entries:
        if entry.get("state") == LINE_DONE:
            for name, digest in entry["outputs"].items():
                kept += keep_if_edited(Path(task.output, name), digest) if name.endswith(replaced) else []
    return [path.relative_to(task.output).as_posix() for path in kept]


def keep_if_edited(path: Path, digest: str) -> list[Path]:
    """Give a file that is not the one that was written a second name; that one, if so."""
    if not path.is_file() or (now := file_sha256(path)) == digest:
        return []
    names = (f"{path.name}{'' if number == 1 else f'.{number}'}{EDITED_SUFFIX}" for number in count(1))
    for kept in map(path.with_name, names):
        if not kept.exists():
            _copy(path, kept)
            return [kept]
        if file_sha256(kept) == now:  # of a run that was interrupted
            return [kept]
    raise AssertionError  # names do not end


def _copy(path: Path, kept: Path) -> None:
    """A second name of a file, or where file systems have no such thing a copy of it."""
    try:
        os.link(path, kept)
    except OSError:
        with written_aside(kept) as aside:
            shutil.copy2(path, aside)


# --------------------------------------------------------- digests, fingerprints


def file_sha256(path: str | PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: str | Path) -> str:
    """The digest of a model file, which identifies the model in everything that is written."""
    if is_endless(path):
        raise ModelFileError(f"{path}: {NOT_REGULAR}")
    try:
        return file_sha256(path)
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror}); give the path of a model that outlark saved"
        raise ModelFileError(message) from error


#: Bytes of a fingerprint: at the head and at the tail, and in each of the blocks between, which are evenly spread.
#: Files up to 192 KiB are read as a whole.
END_BYTES, SAMPLED_BYTES, SAMPLED_BLOCKS = 2**16, 2**12, 16


def fingerprint(path: str | PathLike[str]) -> Fingerprint:
    """Size, time and a digest of head, tail and some blocks of a file; None if it is missing, or a pipe.

    Recorders that are switched on together write files of the same name, size and time, but a few blocks tell them
    apart, so that a terabyte is checked in seconds. At a URL, the checksum of the store replaces the blocks.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a", "b"):
    ...         _ = Path(folder, name).write_bytes(b"recorder " + name.encode())
    ...         os.utime(Path(folder, name), (0, 0))
    ...     a, b = (fingerprint(Path(folder, name)) for name in ("a", "b"))
    >>> a["size"] == b["size"], a["mtime_ns"] == b["mtime_ns"], a["sha256"] == b["sha256"]
    (True, True, False)
    """
    if is_endless(path):
        return None
    try:
        if is_url(path):
            return mark_of(str(path))
        with open(path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            digest = hashlib.sha256()
            for start, size in _sampled(found.st_size):
                file.seek(start)
                digest.update(file.read(size))
    except OSError:
        return None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": digest.hexdigest()}


def _sampled(size: int) -> list[tuple[int, int]]:
    """Start and length of what is read of a file of this size.

    >>> _sampled(100), len(_sampled(10**9))
    ([(0, 100)], 18)
    """
    between = size - 2 * END_BYTES
    if between <= SAMPLED_BLOCKS * SAMPLED_BYTES:
        return [(0, size)]
    starts = (END_BYTES + i * (between - SAMPLED_BYTES) // (SAMPLED_BLOCKS - 1) for i in range(SAMPLED_BLOCKS))
    return [(0, END_BYTES), *((start, SAMPLED_BYTES) for start in starts), (size - END_BYTES, END_BYTES)]


# ------------------------------------------------------------------------ locks

#: Seconds between two attempts.
PAUSE_S = 0.05

if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes], shared: bool) -> None:
        if not shared:  # all workers can have the file open, which is all that this system needs
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes], shared: bool) -> None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class LockedError(Exception):
    """Another process has the lock."""


@contextmanager
def lock(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock on a file, which is created if missing and stays; LockedError after `wait_s` seconds.

    The system releases it when the process ends, however that happens. Processes can hold a `shared` lock together.
    """
    give_up = time.monotonic() + wait_s
    with path.open("ab") as file:
        while True:
            try:
                _lock(file, shared)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= give_up:
                    raise LockedError(str(path)) from None
                time.sleep(PAUSE_S)
        yield
