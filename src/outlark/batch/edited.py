"""Files of a run that somebody has edited since: kept under another name before a run replaces them."""

import os
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from outlark.batch.journal import DONE
from outlark.batch.task import Task, file_sha256

#: At the end of the name, so that commands which are given the folder do not take it for results.
SUFFIX = ".edited"


def keep_edited(task: Task, entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rename the annotation files that the task replaces and that are not what the journal says; their new names.

    `entries` are the lines of the journal about the recordings that are done again.
    """
    from outlark.annotations import FORMATS  # slow to import, and the help of a command does not need it

    replaced = tuple(FORMATS[name].suffix for name in task.formats)
    kept = []
    for entry in entries:
        if entry.get("state") != DONE or not isinstance(entry["outputs"], Mapping):
            continue
        for name, digest in entry["outputs"].items():
            if name.endswith(replaced):
                kept += keep_if_edited(Path(task.output, name), {digest})
    return [path.relative_to(task.output).as_posix() for path in kept]


def keep_if_edited(path: Path, digests: set[str]) -> list[Path]:
    """Rename a file that is none of those written; its new path, if so."""
    if not path.is_file() or file_sha256(path) in digests:
        return []
    kept = next(free for free in _names(path) if not free.exists())
    os.rename(path, kept)
    return [kept]


def _names(path: Path) -> Iterable[Path]:
    yield path.with_name(path.name + SUFFIX)
    for number in count(2):
        yield path.with_name(f"{path.name}.{number}{SUFFIX}")
