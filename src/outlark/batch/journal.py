"""What has been done in an output folder: one line of JSON for each recording, safe on the disk before the next.

A long recording has a line for each of its parts before. Of several lines about a recording the last one counts. A line
that was cut short, because the power went or the disk was full, or that says two things under one name, counts for
nothing: the recording is then done again.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outlark.files.aside import sync_folders
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
