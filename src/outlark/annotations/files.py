"""Annotation files as bytes and text: encodings, atomic writes, cells, lines, and files with a header line (`Sheet`).

Readers get a `Reading`, which collects remarks and refused rows; a row that cannot be read does not cost the others.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from outlark.errors import AnnotationError, OutlarkError
from outlark.files.io import NOT_REGULAR, is_endless, opened_aside, starts_a_model
from outlark.plain_text import first_bytes

#: Larger files are a mistake, or made to fill the memory. Cells count because short rows are filled up to full width.
MAX_BYTES, MAX_COLUMNS, MAX_ROWS, MAX_CELLS = 2**30, 1_000, 5_000_000, 50_000_000
#: Decimals of seconds: a nanosecond separates the samples of any recording (2.6 µs at 384 kHz).
TIME_DIGITS = 9
SCORE_DIGITS = 6
FREQUENCY_DIGITS = 3
#: What stands for "no value" where a number is optional.
BLANK_WORDS = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})
#: Columns that a message lists.
_COLUMNS_LISTED = 30
#: Bytes and characters from which encoding and separator are guessed.
_ENCODING_BYTES, _SEPARATOR_CHARACTERS = 2**16, 100_000
#: Spreadsheets take text that begins like this for a formula; an apostrophe before it says that it is text.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NEGATIVE_EXAMPLE = re.compile(r"-\w[\w .-]*")
_DECIMAL_POINT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", flags=re.ASCII)
_DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d+)", flags=re.ASCII)
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass
class Reading:
    """A file while it is read: what its reader has to know, and what it says about the file.

    `label_column` is the one that somebody chose; `about` is what the file, or one beside it, says about its origin;
    `ours` says whether outlark wrote it in this format. `refused` are rows that cannot be read: where, and why.
    """

    path: Path
    label_column: str | int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False
    remarks: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def refuse(self, where: str, why: object) -> None:
        """Leave out a row, and say so."""
        self.refused.append(f"{self.path}, {where}: {why}")

    def text(self) -> str:
        """The text of the file."""
        return read_text(self.path, self.remarks)


def needed(module: str, extra: str) -> Any:
    """A module of an optional package, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise AnnotationError(
            f'this format needs the package {package} ({error}); install it with: pip install "outlark[{extra}]"'
        ) from None


# ------------------------------------------------------------------------ bytes


def read_bytes(path: Path) -> bytes:
    """The content of a file that is not too large."""
    with errors_about(path, "read", "check that it exists and that you may read it"):
        if path.is_dir():
            raise AnnotationError(f"{path} is a folder; give the path of one annotation file")
        if is_endless(path):
            raise AnnotationError(f"{path} {NOT_REGULAR}")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise AnnotationError(
                f"{path} has {size} bytes, too many for an annotation file; is it a recording? Otherwise split it"
            )
        return path.read_bytes()


def read_text(path: Path, remarks: list[str]) -> str:
    """The text of a file: UTF-8 or UTF-16, with or without byte order mark, else Windows-1252, with a remark."""
    blob = read_bytes(path)
    encoding = _encoding(blob)
    if encoding is None:
        if starts_a_model(blob, len(blob)):
            raise AnnotationError(f"{path} is a model; give an annotation file")
        raise AnnotationError(
            f"{path} is not a text file: it begins with {first_bytes(blob)}; give an annotation file, not a recording"
        )
    try:
        text = blob.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            raise AnnotationError(
                f"{path} begins like {encoding} text but is not ({error}); save it as UTF-8"
            ) from None
        text = blob.decode("cp1252", errors="replace")
        remarks.append("not UTF-8; read as Windows-1252 (Latin-1)")
    before, zero, _ = text.partition("\0")
    if zero:
        line = before.count("\n") + 1
        raise AnnotationError(f"{path}, line {line}: a zero byte; the file is damaged, get another copy")
    return text


def _encoding(blob: bytes) -> str | None:
    """None for binary content."""
    head = blob[:_ENCODING_BYTES]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" not in head:
        return "utf-8-sig"
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if even == 0 and odd > 0.35 * len(head):
        return "utf-16-le"
    if odd == 0 and even > 0.35 * len(head):
        return "utf-16-be"
    # text damaged by a power cut, say, has complete lines before its zeros
    return "utf-8-sig" if re.match(rb"[^\0\r\n]*[\r\n]", head) else None


def encoded(text: str) -> bytes:
    """UTF-8; bytes of file names that are not UTF-8 are escaped."""
    return text.encode("utf-8", errors="backslashreplace")


def write_bytes(path: Path, blob: bytes) -> None:
    """Write a file in one step; see `written`."""
    with written(path) as file:
        file.write(blob)


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that replaces `path` at the end, completely or not at all."""
    remedy = "give the name of a file that you may write, or free some space"
    with errors_about(path, "written", remedy), opened_aside(path) as file:
        yield file


@contextmanager
def errors_about(path: Path, done: str, remedy: str) -> Iterator[None]:
    """Turns errors of the operating system into AnnotationErrors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        folder = "" if done == "read" else f" cannot be {done}: {path.parent}"
        raise AnnotationError(f"{path}{folder} does not exist; check the name") from error
    except OSError as error:
        raise AnnotationError(f"{path} cannot be {done} ({error.strerror or error}); {remedy}") from error
    except ValueError as error:
        if isinstance(error, OutlarkError):
            raise
        raise AnnotationError(f"{str(path)!r} cannot be {done} ({error}); choose another name") from error


# ------------------------------------------------------------------------ cells


def decimal(value: float | None, digits: int) -> str:
    """A number with a decimal point, at most `digits` decimals and no exponent; None is blank.

    >>> decimal(0.3, 9), decimal(2, 9), decimal(154.3877927674, 9), decimal(-1e-12, 9), decimal(None, 9)
    ('0.3', '2.0', '154.387792767', '0.0', '')
    """
    if value is None:
        return ""
    text = f"{value:.{digits}f}".rstrip("0")
    text += "0" if text.endswith(".") else ""
    return "0.0" if text == "-0.0" else text


def number(cell: str) -> float:
    """The number in a cell; a decimal comma is accepted where it cannot be a thousands separator.

    >>> number(" 12.5 "), number("3"), number("0,500"), number("1,25")
    (12.5, 3.0, 0.5, 1.25)
    >>> number("1,500")
    Traceback (most recent call last):
    ValueError: '1,500' could be 1.5 or 1500; write it with a point
    """
    text = cell.strip()
    if _DECIMAL_POINT.fullmatch(text):
        return float(text)
    comma = _DECIMAL_COMMA.fullmatch(text)
    if comma is None:
        raise ValueError(f"{cell!r:.60} is not a number" if text else "the cell is blank")
    value = float(f"{comma[1]}.{comma[2]}")
    if len(comma[2]) == 3 and comma[1].lstrip("+-") != "0":
        raise ValueError(f"{text!r} could be {value:g} or {comma[1]}{comma[2]}; write it with a point")
    return value


def optional_number(cell: str) -> float | None:
    """The number in a cell that may be blank, or "NA"."""
    return None if cell.strip().casefold() in BLANK_WORDS else number(cell)


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> guarded("=1+1"), guarded("tuti-D"), guarded("'=")
    ("'=1+1", 'tuti-D', "''=")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def guarded_label(text: str) -> str:
    """A label for Raven and Audacity, where a negative example such as ``-song`` stays readable.

    >>> guarded_label("-song 0.50"), guarded_label("-1+1"), guarded_label("=1")
    ('-song 0.50', "'-1+1", "'=1")
    """
    return text if _NEGATIVE_EXAMPLE.fullmatch(text) else guarded(text)


def unguarded(text: str) -> str:
    """The text before `guarded`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def one_line(text: str) -> str:
    """Text for a file without quotes: tabs and line breaks become spaces."""
    return re.sub(r"[\t\n\r]+", " ", text).strip()


# ------------------------------------------------------------------------ lines


def comma_line(cells: list[str]) -> str:
    r"""A line of comma-separated text.

    >>> print(comma_line(["a", "b,c", 'a "d" note']), end="")
    a,"b,c","a ""d"" note"
    """
    return ",".join(_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells) + "\n"


def tab_line(cells: list[str]) -> str:
    """A line of tab-separated text; only cells that begin with a quotation mark are quoted."""
    return "\t".join(_quoted(cell) if cell.startswith('"') else cell for cell in cells) + "\n"


def tab_cells(line: str) -> list[str]:
    r"""The cells of a tab-separated line. Quotes count only where they enclose the whole cell.

    >>> tab_cells('1\t"a ""b"" c"\t"d')
    ['1', 'a "b" c', '"d']
    """
    return [_unquoted(cell) for cell in line.split("\t")]


def lines_of(text: str) -> list[str]:
    """Lines by any of the three line ends, and by nothing else."""
    return _LINE_END.split(text)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _unquoted(cell: str) -> str:
    inner = cell[1:-1]
    whole = len(cell) >= 2 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else cell


# ----------------------------------------------------------------------- sheets


class SheetRow(NamedTuple):
    """One row: its first line, and as many cells as the sheet has columns."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Rows and columns of text; `columns` as in the header, made unique; `unit` is what `SheetRow.line` counts."""

    reading: Reading
    columns: tuple[str, ...]
    rows: list[SheetRow]
    unit: str = "line"

    @cached_property
    def keys(self) -> list[str]:
        """The columns as `key_of` spells them."""
        return [key_of(column) for column in self.columns]

    @property
    def listed(self) -> str:
        """The columns for a message, at most a few dozen."""
        more = len(self.columns) - _COLUMNS_LISTED
        return f"{list(self.columns[:_COLUMNS_LISTED])}" + (f" and {more} more" if more > 0 else "")

    def error(self, line: int, what: object) -> AnnotationError:
        """An error at a line of the file."""
        return AnnotationError(f"{self.reading.path}, {self.unit} {line}: {what}")

    def refuse(self, line: int, why: object) -> None:
        """Leave out the row at a line of the file, and say so."""
        self.reading.refuse(f"{self.unit} {line}", why)

    def remark(self, text: str) -> None:
        """Say something about the file."""
        self.reading.remarks.append(text)

    def stripped(self) -> "Sheet":
        """The same sheet without spaces around its cells, for files of other programs."""
        return replace(self, rows=[SheetRow(row.line, tuple(cell.strip() for cell in row.cells)) for row in self.rows])


def key_of(column: str) -> str:
    """The name of a column without spelling differences between programs.

    >>> key_of("Begin Time (s)"), key_of("begin_time_s"), key_of("AUTO ID*")
    ('begin_time_s', 'begin_time_s', 'auto_id')
    """
    return re.sub(r"[\W_]+", "_", column.casefold()).strip("_")


def check_size(path: Path, columns: int, rows: int = 0) -> None:
    """An error for more columns, rows or cells than an annotation file can have."""
    sizes = (("columns", columns, MAX_COLUMNS), ("rows", rows, MAX_ROWS), ("cells", columns * rows, MAX_CELLS))
    for what, found, most in sizes:
        if found > most:
            raise AnnotationError(
                f"{path} has {found:,} {what}, at most {most:,} are read; remove columns, or split it"
            )


class FirstLine(NamedTuple):
    """The first line of a text file: its separator, its cells, and these as `key_of` spells them."""

    separator: str
    cells: list[str]
    keys: set[str]

    @classmethod
    def of(cls, line: str) -> "FirstLine":
        r"""The separator is a tab, else the more frequent of semicolon and comma.

        >>> FirstLine.of("Start_s;end_s;label").cells, FirstLine.of("a\tb,c").separator
        (['Start_s', 'end_s', 'label'], '\t')
        """
        separator = "\t" if "\t" in line else ";" if line.count(";") > line.count(",") else ","
        cells = tab_cells(line) if separator == "\t" else [cell.strip(' "') for cell in line.split(separator)]
        return cls(separator, cells, {key_of(cell) for cell in cells})


def sheet_of(reading: Reading) -> Sheet:
    """The sheet in a text with a header line, cells unchanged but for the guard against formulas."""
    text, path = reading.text(), reading.path
    first = next((line for line in lines_of(text[:_SEPARATOR_CHARACTERS]) if line.strip()), "")
    separator = FirstLine.of(first).separator
    records = _tab_records(text) if separator == "\t" else _comma_records(text, separator, path)
    filled = ((line, cells) for line, cells in records if any(cell.strip() for cell in cells))
    _, header = next(filled, (1, []))
    if not header:
        raise AnnotationError(f"{path} is empty; expected a header line and rows")
    n = len(header)
    check_size(path, n)
    sheet = Sheet(reading=reading, columns=_different([cell.strip() for cell in header]), rows=[])
    most = min(MAX_ROWS, MAX_CELLS // n)
    for line, cells in filled:
        if len(sheet.rows) == most:
            check_size(path, n, most + 1 + sum(1 for _ in filled))
        if any(cell.strip() for cell in cells[n:]):
            extra = f"the first extra cell is {cells[n]!r:.60}. Check whether a label contains the separator"
            sheet.refuse(line, f"{len(cells)} cells, but the header has {n} columns; {extra}")
        else:  # programs omit blank cells at the end
            sheet.rows.append(SheetRow(line, (*map(unguarded, cells[:n]), *[""] * (n - len(cells)))))
    return sheet


def _tab_records(text: str) -> Iterator[tuple[int, list[str]]]:
    for i, line in enumerate(lines_of(text), start=1):
        yield i, tab_cells(line)


def _comma_records(text: str, separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise AnnotationError(
            f"{path}, line {start}: the row that begins here cannot be read ({error}); check whether a quotation mark "
            "is missing"
        ) from None


def _different(columns: list[str]) -> tuple[str, ...]:
    """Names for all columns, none twice: "a", "column 2", "a (3)" for "a", "", "a"."""
    found: dict[str, None] = {}
    for i, column in enumerate(columns, start=1):
        name = unguarded(column) or f"column {i}"
        while name in found:
            name += f" ({i})"
        found[name] = None
    return tuple(found)
