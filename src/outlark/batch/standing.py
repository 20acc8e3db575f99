"""What the journal of an output folder says about a task: what is done already, and what does not go together."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outlark.batch.journal import DONE, Journal
from outlark.batch.sources import Source, Sources
from outlark.batch.task import Task
from outlark.errors import InputError

REMEDY = "choose another output folder, or --no-resume to do all again"


def fingerprint(source: Source) -> dict[str, int] | None:
    """By which a changed file is known: its size and time; None if it is not there."""
    try:
        found = os.stat(source.path)
    except OSError:
        return None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}


def is_done(task: Task, entry: Mapping[str, Any], now: Mapping[str, int]) -> bool:
    """Whether, by the journal and the folder, all is there that the task wants of a file as it is now.

    What a table says is not looked at, because it may have been worked on since, in Raven for example.
    """
    if entry.get("state") != DONE or entry["file"] != now:
        return False
    wanted = set(task.formats) <= set(entry["formats"]) and entry["scores"] >= task.keep_scores
    return wanted and all(Path(task.output, name).exists() for name in entry["outputs"])


def check_same(task: Task, sources: Sources, journal: Journal) -> None:
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
        before = entry["identity"]
        if before != (now if "arithmetic" in before else older):
            changes = _changes(before, now if "arithmetic" in before else older)
            raise InputError(f"{task.output} holds results that were made otherwise ({name}: {changes}); {REMEDY}")
    for source in sources.files:
        before = done.get(source.name)
        if before and before["path"] != str(source.path) and before["file"] != fingerprint(source):
            raise InputError(
                f"{task.output} holds results of another {source.name}, {before['path']}, and would now get those of "
                f"{source.path}; {REMEDY}"
            )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if before.get("arithmetic") != now.get("arithmetic"):
        before, now = ({**one, **one.get("arithmetic", {})} for one in (before, now))
    keys = [key for key in now if key != "arithmetic" and before.get(key) != now[key]]
    return ", ".join(f"{key} {_short(before.get(key))}, now {_short(now[key])}" for key in keys)


def _short(value: Any) -> str:
    return f"{value:.12}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else repr(value)
