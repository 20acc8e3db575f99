"""What each command does, without the command line."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outlark.errors import InputError

if TYPE_CHECKING:
    from outlark.annotations import Annotation, Table
    from outlark.audio.sound_files import SoundFiles

#: Names that `listing` shows.
LISTED = 5


def listing(names: Sequence[str]) -> str:
    """The first few names, separated by commas.

    >>> listing(["a", "b"]), listing(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def check_labels(asked: Sequence[str], there: Collection[str], what: str = "annotation") -> None:
    """Refuse the name of a class that nothing has."""
    for name in asked:
        if name not in there:
            raise InputError(
                f"no {what} has the label {name!r}; the labels are {', '.join(sorted(there)) or 'none at all'}"
            )


def recording_of(table: "Table", annotation: "Annotation", sounds: "SoundFiles") -> Path:
    """The recording of an annotation: the one that it names, or the one that its file belongs to."""
    if annotation.recording is None:
        return sounds.of_table(table.path)
    return sounds.named(annotation.recording, table.path, annotation.line)
