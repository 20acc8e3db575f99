"""What the journal of an output folder says about a task: what is done already, and what does not go together."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outlark.batch.fingerprint import Print, fingerprint
from outlark.batch.journal import DONE, NAME, PART, Journal, entries_in
from outlark.batch.sources import Sources
from outlark.batch.task import WORKSHOP, Task
from outlark.errors import InputError
from outlark.files.places import is_url

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
            raise InputError(f"{task.output} holds results that were made otherwise ({name}: {changes}); {REMEDY}")
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
            f"{output} holds results of an earlier outlark, which knew recordings by size and time alone "
            f"({entry['recording']}), so that those of another recorder could pass for them; {REMEDY}"
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if before.get("arithmetic") != now.get("arithmetic"):
        before, now = ({**one, **one.get("arithmetic", {})} for one in (before, now))
    keys = [key for key in {**before, **now} if key != "arithmetic" and before.get(key) != now.get(key)]
    return ", ".join(f"{key} {_short(before.get(key))}, now {_short(now.get(key))}" for key in keys)


def _short(value: Any) -> str:
    return f"{value:.12}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else repr(value)
