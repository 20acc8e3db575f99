"""Whether the results of a run are what the run left: each file that its journal lists, by its digest."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outlark.batch.journal import DONE, check_age, last_lines

MISSING, CHANGED = "is missing", "is not what the run wrote"


@dataclass(frozen=True)
class Wrong:
    """A file of results that is not as it was left: of which recording, its name, and what is wrong with it."""

    recording: str
    file: str
    message: str


@dataclass(frozen=True)
class Verified:
    """What came of it: recordings that are done by the journal, files that were looked at, and what is wrong."""

    recordings: int
    files: int
    wrong: tuple[Wrong, ...]


def verify(output: str | Path, watch: Callable[[int, int], None] = lambda done, total: None) -> Verified:
    """Compare every file that the journal of an output folder lists with its digest there; nothing is changed.

    Parameters
    ----------
    output : path
    watch : function of two numbers, optional
        Is told how many recordings of how many have been looked at.

    Raises
    ------
    InputError
        When the folder has no journal, or one of an earlier version without digests.
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
        with path.open("rb") as file:
            return None if hashlib.file_digest(file, "sha256").hexdigest() == digest else CHANGED
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
