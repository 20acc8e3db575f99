"""Text for people: the lines of what a command found (`Result`), and foreign text made safe to show and write.

Labels and file names may contain terminal commands (ESC, CSI), characters that reverse the direction of writing, and
lone surrogates, which stand for bytes that are not UTF-8.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

#: Control characters except tab and line feed, direction annotations, line separators, lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: An escaped byte that is not UTF-8, such as \udce9.
_BYTE = re.compile(r"\\u(dc[89a-f][0-9a-f])")
_NUMERIC = re.compile(r"[-+±.,/<*–\s\d]*")


def visible(text: str) -> str:
    r"""The text with such characters escaped.

    >>> print(visible("so\x1b[31mng \u202egnos caf\udce9 \tMönchsgrasmücke"))
    so\x1b[31mng \u202egnos caf\udce9   Mönchsgrasmücke
    """
    return _UNSAFE.sub(lambda found: _spelt(found[0]), text)


def visible_json(text: str) -> str:
    r"""Equivalent JSON with such characters escaped.

    >>> print(visible_json('{"label": "so\x9bng"}'))
    {"label": "so\u009bng"}
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def writable(text: str) -> str:
    r"""Text that can be encoded as UTF-8: lone surrogates are escaped.

    >>> print(writable("caf\udce9"))
    caf\udce9
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def as_named(text: str) -> str:
    r"""The reverse of `writable`, for file names in annotation files.

    >>> as_named(writable("caf\udce9.wav")) == "caf\udce9.wav"
    True
    """
    return _BYTE.sub(lambda found: chr(int(found[1], 16)), text)


def number_of(n: int, what: str) -> str:
    """A count with its noun.

    >>> number_of(1, "class"), number_of(2, "class"), number_of(0, "note")
    ('1 class', '2 classes', '0 notes')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}{'es' if what.endswith('s') else 's'}"


def looks_numeric(cell: str) -> bool:
    """Whether a cell belongs in a column of numbers, which is flush right.

    >>> [looks_numeric(cell) for cell in ("-0.25 ± 0.01*", "3/4", "< 0.001", "–", "", "A4")]
    [True, True, True, True, True, False]
    """
    return _NUMERIC.fullmatch(cell) is not None


def first_bytes(blob: bytes) -> str:
    r"""The first eight bytes of a file, as text if they are text and otherwise in hexadecimal.

    >>> print(first_bytes(b"label,st"), first_bytes(b"\x89PNG\r\n"), sep=", ")
    'label,st', the bytes 89 50 4e 47 0d 0a
    """
    blob = blob[:8]
    text = " ".join(blob.decode("utf-8", "replace").split())
    shown = text and text.isprintable() and "\ufffd" not in text
    return f"'{text}'" if shown else f"the bytes {blob.hex(' ')}"


def is_text(start: bytes) -> bool:
    r"""Whether a file that starts like this holds text.

    >>> is_text("Mönch,1.5\n".encode()), is_text(b"RIFF\x04\x00\x00\x00WAVE"), is_text(b"")
    (True, False, False)
    """
    text = start.decode("utf-8", "ignore")
    return bool(text) and all(letter.isprintable() or letter in "\t\r\n" for letter in text)


def _spelt(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# ------------------------------------------------------------------- results

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
    """Rows of cells on stdout, the first of which is the header; what a reader must know of them is in the notes."""

    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()


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
