"""The journal of an output folder: one line of JSON per recording, written to disk as soon as its results are.

A long recording has a line for each of its parts first. The last line about a recording counts. A line that was cut
short, because of a power cut or a full disk, or that repeats a key, is ignored: the recording is then done again.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from outlark.batch.sources import Sources
from outlark.batch.task import WORKSHOP, Print, Task, file_sha256, fingerprint
from outlark.errors import InputError
from outlark.files.io import is_url, sync_folders, without_doubles

DONE, FAILED, PART = "done", "failed", "part"
#: Required keys of a line about a finished file.
NEEDED = frozenset({"path", "file", "formats", "scores", "identity", "outputs", "segments"})
#: And of one about a part.
NEEDED_OF_PARTS = frozenset({"part", "of", "length_s", "file", "identity", "outputs"})
#: Of its file, in the workshop of an output folder.
NAME = "journal.jsonl"


class Journal:
    """The journal of a folder, created if it is missing.

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
    ...     journal = Journal(Path(folder, "journal.jsonl"))
    ...     journal.add({"recording": "a.wav", "state": "failed", "message": "empty"})
    ...     journal.add({"recording": "a.wav", "state": "failed", "message": "too short"})
    ...     Journal(Path(folder, "journal.jsonl")).entries
    {'a.wav': {'message': 'too short', 'recording': 'a.wav', 'state': 'failed'}}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.touch()
            sync_folders(path.parent, path.parents[min(2, len(path.parents) - 1)])  # .outlark and what it is in are new
        _cut_torn_line(path)
        self.entries: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, dict[int, dict[str, Any]]] = {}
        for entry in entries_in(path):
            self._take(entry)

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
        if entry.get("state") == PART:
            self.parts.setdefault(name, {})[entry["part"]] = entry
            return
        self.entries[name] = entry
        if entry.get("state") == DONE:
            self.parts.pop(name, None)


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
            if entry.get("state") in (DONE, PART):
                if not entry.keys() >= (NEEDED if entry["state"] == DONE else NEEDED_OF_PARTS):
                    continue
                if entry["identity"] != shared:
                    shared = entry["identity"]
                entry["identity"] = shared  # one object for all: there may be a million lines
            yield entry


def _cut_torn_line(path: Path) -> None:
    """Remove an incomplete last line."""
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 2**16)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                end = start + at + 1
                break
            end = start
        file.truncate(end)


REMEDY = "choose another output folder, or use --no-resume to process everything again"


def prints_of(sources: Sources, journal: Journal) -> dict[str, Print]:
    """Fingerprints, by name, of the files that are done according to the journal."""
    done = {name for name, entry in journal.entries.items() if entry.get("state") == DONE}
    return {source.name: fingerprint(source.path) for source in sources.files if source.name in done}


def last_lines(output: str | Path) -> dict[str, dict[str, Any]]:
    """The last line of each recording, by name, from the journal of an output folder, which is only read."""
    journal = Path(output, WORKSHOP, NAME)
    if not journal.is_file():
        raise InputError(f"{output} has no {WORKSHOP}/{NAME}; give the output folder of outlark detect or decide")
    lines = {entry["recording"]: entry for entry in entries_in(journal) if entry.get("state") != PART}
    return dict(sorted(lines.items()))


def is_done(task: Task, entry: Mapping[str, Any], now: Print) -> bool:
    """Whether everything that the task wants from a file, as it is now, is in the folder.

    The content of annotation files is not checked: they may have been edited since, in Raven for example.
    """
    if entry.get("state") != DONE or entry["file"] != now:
        return False
    wanted = set(task.formats) <= set(entry["formats"]) and entry["scores"] >= task.keep_scores
    return wanted and all(Path(task.output, name).exists() for name in entry["outputs"])


def check_same(task: Task, sources: Sources, journal: Journal, prints: Mapping[str, Print]) -> None:
    """Refuse to mix results of several models or settings, and to overwrite those of other recordings."""
    now = task.identity
    older = {key: value for key, value in now.items() if key != "arithmetic"}  # not in older journals
    done = {name: entry for name, entry in journal.entries.items() if entry.get("state") == DONE}
    for name, entry in done.items():
        check_age(entry, task.output)
        known = entry["identity"]
        wanted = now if "arithmetic" in known else older
        if known != wanted:
            changes = _changes(known, wanted)
            raise InputError(f"{task.output} holds results made with other settings ({name}: {changes}); {REMEDY}")
    for source in sources.files:
        before = done.get(source.name)
        if before and before["path"] != str(source.path) and not _moved(before, source.path, prints[source.name]):
            raise InputError(
                f"{task.output} holds results of another {source.name}, {before['path']}, and would now get those of "
                f"{source.path}; {REMEDY}"
            )


def _moved(before: Mapping[str, Any], path: Path | str, now: Print) -> bool:
    """Whether a file was done at another place. If it is still there, too, all bytes must agree."""
    if before["file"] != now:
        return False
    if is_url(path) or is_url(before["path"]):
        return is_url(path) and is_url(before["path"])  # by the checksums of the stores
    try:
        return file_sha256(before["path"]) == file_sha256(path)  # filecmp would trust size and time
    except OSError:
        return True


def check_age(entry: Mapping[str, Any], output: str | Path) -> None:
    """Refuse lines of early versions, without digests."""
    if not (isinstance(entry["file"], Mapping) and "sha256" in entry["file"] and isinstance(entry["outputs"], Mapping)):
        raise InputError(
            f"{output} holds results of an earlier version of outlark, which identified recordings by size and time "
            f"alone ({entry['recording']}) and could confuse two recorders; {REMEDY}"
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if before.get("arithmetic") != now.get("arithmetic"):
        before, now = ({**one, **one.get("arithmetic", {})} for one in (before, now))
    keys = [key for key in {**before, **now} if key != "arithmetic" and before.get(key) != now.get(key)]
    return ", ".join(f"{key} {_short(before.get(key))}, now {_short(now.get(key))}" for key in keys)


def _short(value: Any) -> str:
    return f"{value:.12}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else repr(value)


MISSING, CHANGED = "is missing", "is not what the run wrote"


@dataclass(frozen=True)
class Wrong:
    """A result file that is missing or changed."""

    recording: str
    file: str
    message: str


@dataclass(frozen=True)
class Verified:
    """How many recordings and files were checked, and what is wrong."""

    recordings: int
    files: int
    wrong: tuple[Wrong, ...]


def verify(output: str | Path, watch: Callable[[int, int], None] = lambda done, total: None) -> Verified:
    """Compare every file that the journal of an output folder lists with its digest; nothing is modified.

    `watch` gets the number of recordings checked so far, and of all.
    """
    done = {name: entry for name, entry in last_lines(output).items() if entry.get("state") == DONE}
    wrong, files = [], 0
    for number, (name, entry) in enumerate(done.items(), start=1):
        check_age(entry, output)
        for file, digest in entry["outputs"].items():
            files += 1
            trouble = _trouble(Path(output, file), digest)
            if trouble:
                wrong.append(Wrong(name, file, trouble))
        watch(number, len(done))
    return Verified(len(done), files, tuple(wrong))


def _trouble(path: Path, digest: str) -> str | None:
    try:
        return None if file_sha256(path) == digest else CHANGED
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"


#: Seconds between two attempts.
PAUSE_S = 0.05

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes], shared: bool) -> None:
        if not shared:  # all workers can have the file open, which is all that this system needs
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes], shared: bool) -> None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class TakenError(Exception):
    """Another process has the lock."""


@contextmanager
def lock(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock on a file, which is created if missing and stays; TakenError after `wait_s` seconds.

    The system releases it when the process ends, however that happens. Processes can hold a `shared` lock together.
    """
    give_up = time.monotonic() + wait_s
    with path.open("ab") as file:
        while True:
            try:
                _take(file, shared)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= give_up:
                    raise TakenError(str(path)) from None
                time.sleep(PAUSE_S)
        yield
