"""What has been done in an output folder: one line of JSON for each recording, safe on the disk before the next.

A long recording has a line for each of its parts before. Of several lines about a recording the last one counts. A line
that was cut short, because the power went or the disk was full, or that says two things under one name, counts for
nothing: the recording is then done again.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outlark.batch.identity import Print, fingerprint
from outlark.batch.sources import Sources
from outlark.batch.task import WORKSHOP, Task
from outlark.errors import InputError
from outlark.files.aside import sync_folders
from outlark.files.places import is_url
from outlark.files.strict_json import without_doubles

DONE, FAILED, PART = "done", "failed", "part"
#: What a line about a file that is done has to say.
NEEDED = frozenset({"path", "file", "formats", "scores", "identity", "outputs", "segments"})
#: And one about a part.
NEEDED_OF_PARTS = frozenset({"part", "of", "length_s", "file", "identity", "outputs"})
#: Where in the workshop of an output folder it is.
NAME = "journal.jsonl"


class Journal:
    """The journal of a folder: what its lines say, and where the next goes.

    Parameters
    ----------
    path : Path
        Made if it is not there.

    Attributes
    ----------
    entries : dict of str to dict
        By recording, its last line.
    parts : dict of str to dict of int to dict
        By recording, and by the number of the part, the last line about it; none for recordings that are done.

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

    def add(self, entry: Mapping[str, Any]) -> None:
        """Write a line about ``entry["recording"]``; it is on the disk when this returns, or an OSError is raised."""
        line = json.dumps(entry, sort_keys=True).encode("ascii") + b"\n"
        with self.path.open("ab", buffering=0) as file:
            written = file.write(line)
            if written != len(line):
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(file.fileno())
        self._take(dict(entry))

    def clear(self) -> None:
        """Forget all."""
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
    """The lines of a journal that say something, in their order; the file is only read."""
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
    """So that the next line begins where a line begins."""
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


REMEDY = "choose another output folder, or --no-resume to do all again"


def prints_of(sources: Sources, journal: Journal) -> dict[str, Print]:
    """By name, how the files are now that the journal calls done; of the others nothing has to be known."""
    done = {name for name, entry in journal.entries.items() if entry.get("state") == DONE}
    return {source.name: fingerprint(source.path) for source in sources.files if source.name in done}


def last_lines(output: str | Path) -> dict[str, dict[str, Any]]:
    """By recording, in order, its last line in the journal of an output folder, which is only read.

    Raises
    ------
    InputError
        When there is no journal.
    """
    journal = Path(output, WORKSHOP, NAME)
    if not journal.is_file():
        raise InputError(f"{output} has no {WORKSHOP}/{NAME}; give the output folder of outlark detect or decide")
    # those about parts are for the run alone
    lines = {entry["recording"]: entry for entry in entries_in(journal) if entry.get("state") != PART}
    return dict(sorted(lines.items()))


def is_done(task: Task, entry: Mapping[str, Any], now: Print) -> bool:
    """Whether, by the journal and the folder, all is there that the task wants of a file as it is now.

    What a table says is not looked at, because it may have been worked on since, in Raven for example.
    """
    if entry.get("state") != DONE or entry["file"] != now:
        return False
    wanted = set(task.formats) <= set(entry["formats"]) and entry["scores"] >= task.keep_scores
    return wanted and all(Path(task.output, name).exists() for name in entry["outputs"])


def check_same(task: Task, sources: Sources, journal: Journal, prints: Mapping[str, Print]) -> None:
    """Refuse to mix results of several models or settings, and to overwrite those of other recordings.

    Raises
    ------
    InputError
        With what was found and what differs.
    """
    now = task.identity
    older = {key: value for key, value in now.items() if key != "arithmetic"}  # journals of before do not tell it
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
    """Whether a file is one that was done at another place. If that one is still there too, all bytes have to agree."""
    if before["file"] != now:
        return False
    if is_url(path) or is_url(before["path"]):
        return is_url(path) and is_url(before["path"])  # by what the stores say of the content
    try:
        return _digest(before["path"]) == _digest(path)
    except OSError:
        return True


def _digest(path: str | Path) -> str:
    with open(path, "rb") as file:  # filecmp would take size and time for the content once more
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_age(entry: Mapping[str, Any], output: str | Path) -> None:
    """Refuse a line of a journal that knows neither recordings nor tables by what is in them.

    Raises
    ------
    InputError
    """
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
