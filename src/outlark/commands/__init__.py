"""What each command does, without the command line: `Result` is what a command found, for programs and for people."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from outlark.errors import InputError

if TYPE_CHECKING:
    from outlark.annotations import Annotation, Table
    from outlark.audio.sound_files import SoundFiles

#: Names that `listing` shows in a line, and lines that `listed` shows.
NAMES_SHOWN, LINES_SHOWN = 5, 20
#: Called with the number of files or recordings done so far and in total.
ProgressCallback = Callable[[int, int], None]


class Remark(str):
    """A line on stderr that --quiet leaves out."""


class Alert(str):
    """A line on stderr that is always printed: something could not be processed."""


@dataclass(frozen=True)
class TextTable:
    """Rows of cells on stdout, the first of which is the header."""

    rows: Sequence[Sequence[str]]
    title: str = ""


Line = str | TextTable


class Result(Protocol):
    """What a command found. `outlark.cli.terminal.finish` prints it and ends with the exit code for it."""

    @property
    def incomplete(self) -> bool:
        """Whether something could not be processed (exit code 3)."""

    def as_json(self) -> Mapping[str, Any]:
        """For --json: the answer for programs."""

    def lines(self) -> Iterable[Line]:
        """For people: plain lines and tables on stdout, unless --json is given; `Remark` and `Alert` on stderr."""


def listing(names: Sequence[str]) -> str:
    """The first few names, separated by commas.

    >>> listing(["a", "b"]), listing(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def listed(lines: Sequence[str], see: str = "") -> list[str]:
    """The first lines, and how many more there are; `see` says where.

    >>> listed([*map(str, range(22))], "; --json lists them all")[18:]
    ['18', '19', '… and 2 more; --json lists them all']
    """
    more = [f"… and {len(lines) - LINES_SHOWN} more{see}"] if len(lines) > LINES_SHOWN else []
    return [*lines[:LINES_SHOWN], *more]


def on_failures(failures: Sequence[tuple[str, str]], file: object, what: str = "failed") -> Iterator[Alert]:
    """The first names and messages; the rest is in the file."""
    if failures:
        yield Alert(f"{len(failures)} {what}, see {file}:")
        yield from (Alert(f"  {line}") for line in listed([f"{name}: {message}" for name, message in failures]))


def on_refused(refused: Sequence[str]) -> Iterator[Alert]:
    """The first rows of annotation files that were left out; the rest is in --json."""
    if refused:
        s = "s"[: len(refused) > 1]
        yield Alert(f"left out: {len(refused)} row{s} or file{s} of annotations that cannot be used")
        yield from (Alert(f"  {line}") for line in listed(refused, "; --json lists them all"))


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
