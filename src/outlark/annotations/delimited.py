"""Delimited text: cells, lines, and files with a header line in any separator and quoting."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from outlark.annotations.files import Reading
from outlark.errors import AnnotationError

#: Decimals of seconds: a nanosecond separates the samples of any recording (2.6 µs at 384 kHz).
TIME_DIGITS = 9
SCORE_DIGITS = 6
FREQUENCY_DIGITS = 3
#: What stands for "no value" where a number is optional.
NOTHING = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})
#: Larger tables are a mistake, or made to fill the memory. Cells count because short rows are filled up to full width.
MOST_COLUMNS, MOST_ROWS, MOST_CELLS = 1_000, 5_000_000, 50_000_000
#: Columns that a message lists.
_LISTED = 30
#: Spreadsheets take text that begins like this for a formula; an apostrophe before it says that it is text.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NEGATIVE = re.compile(r"-\w[\w .-]*")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", flags=re.ASCII)
_COMMA = re.compile(r"([+-]?\d+),(\d+)", flags=re.ASCII)
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')
_LINE_END = re.compile(r"\r\n|\n|\r")


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
    if _NUMBER.fullmatch(text):
        return float(text)
    comma = _COMMA.fullmatch(text)
    if comma:
        if len(comma[2]) == 3 and comma[1].lstrip("+-") != "0":
            plain = float(f"{comma[1]}.{comma[2]}")
            raise ValueError(f"{text!r} could be {plain:g} or {comma[1]}{comma[2]}; write it with a point")
        return float(f"{comma[1]}.{comma[2]}")
    raise ValueError(f"{cell!r:.60} is not a number" if text else "the cell is blank")


def optional_number(cell: str) -> float | None:
    """The number in a cell that may be blank.

    >>> optional_number("NA"), optional_number("0.5")
    (None, 0.5)
    """
    return None if cell.strip().casefold() in NOTHING else number(cell)


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
    return text if _NEGATIVE.fullmatch(text) else guarded(text)


def unguarded(text: str) -> str:
    """The text before `guarded`.

    >>> unguarded("'=1+1"), unguarded("'o"), unguarded(guarded("'-"))
    ('=1+1', "'o", "'-")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def one_line(text: str) -> str:
    r"""Text for a file without quotes: tabs and line breaks become spaces.

    >>> one_line("a\tb\r\n")
    'a b'
    """
    return re.sub(r"[\t\n\r]+", " ", text).strip()


# ------------------------------------------------------------------------ lines


def comma_line(cells: list[str]) -> str:
    r"""A line of comma-separated text.

    >>> print(comma_line(["a", "b,c", 'a "d" note']), end="")
    a,"b,c","a ""d"" note"
    """
    return ",".join(_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells) + "\n"


def tab_line(cells: list[str]) -> str:
    r"""A line of tab-separated text; only cells that begin with a quotation mark are quoted.

    >>> tab_line(['the "long" song', '"A"']).count('"')
    8
    """
    return "\t".join(_quoted(cell) if cell.startswith('"') else cell for cell in cells) + "\n"


def tab_cells(line: str) -> list[str]:
    r"""The cells of a tab-separated line. Quotes count only where they enclose the whole cell.

    >>> tab_cells('1\t"a ""b"" c"\t"d')
    ['1', 'a "b" c', '"d']
    """
    return [_unquoted(cell) for cell in line.split("\t")]


def lines_of(text: str) -> list[str]:
    r"""Lines by any of the three line ends, and by nothing else.

    >>> lines_of("a\r\nb\rc\n")
    ['a', 'b', 'c', '']
    """
    return _LINE_END.split(text)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _unquoted(cell: str) -> str:
    inner = cell[1:-1]
    whole = len(cell) >= 2 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else cell


# ----------------------------------------------------------------------- sheets


class Row(NamedTuple):
    """One row: its first line, and as many cells as the sheet has columns."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Rows and columns of text; `columns` as in the header, made unique; `unit` is what `Row.line` counts."""

    reading: Reading
    columns: tuple[str, ...]
    rows: list[Row]
    unit: str = "line"

    @cached_property
    def keys(self) -> list[str]:
        """The columns as `key_of` spells them."""
        return [key_of(column) for column in self.columns]

    @property
    def listed(self) -> str:
        """The columns for a message, at most a few dozen."""
        n = len(self.columns)
        return f"{list(self.columns[:_LISTED])}" + (f" and {n - _LISTED} more" if n > _LISTED else "")

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
        return self.with_rows([Row(row.line, tuple(cell.strip() for cell in row.cells)) for row in self.rows])

    def with_rows(self, rows: list[Row]) -> "Sheet":
        """The same sheet with other rows."""
        return replace(self, rows=rows)


def key_of(column: str) -> str:
    """The name of a column without spelling differences between programs.

    >>> key_of("Begin Time (s)"), key_of("begin_time_s"), key_of("AUTO ID*")
    ('begin_time_s', 'begin_time_s', 'auto_id')
    """
    return re.sub(r"[\W_]+", "_", column.casefold()).strip("_")


def check_size(path: Path, columns: int, rows: int = 0) -> None:
    """An error for more columns, rows or cells than an annotation file can have.

    >>> check_size(Path("a"), columns=100_000)
    Traceback (most recent call last):
    outlark.errors.AnnotationError: a has 100,000 columns, at most 1,000 are read; remove columns, or split it
    """
    sizes = (("columns", columns, MOST_COLUMNS), ("rows", rows, MOST_ROWS), ("cells", columns * rows, MOST_CELLS))
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
    separator = FirstLine.of(next((line for line in lines_of(text[:100_000]) if line.strip()), "")).separator
    records = _tab_records(text) if separator == "\t" else _comma_records(text, separator, path)
    filled = ((line, cells) for line, cells in records if any(cell.strip() for cell in cells))
    _, header = next(filled, (1, []))
    if not header:
        raise AnnotationError(f"{path} is empty; expected a header line and rows")
    n = len(header)
    check_size(path, n)
    sheet = Sheet(reading=reading, columns=_different([cell.strip() for cell in header]), rows=[])
    most = min(MOST_ROWS, MOST_CELLS // n)
    for line, cells in filled:
        if len(sheet.rows) == most:
            check_size(path, n, most + 1 + sum(1 for _ in filled))
        if any(cell.strip() for cell in cells[n:]):
            extra = f"the first extra cell is {cells[n]!r:.60}. Check whether a label contains the separator"
            sheet.refuse(line, f"{len(cells)} cells, but the header has {n} columns; {extra}")
        else:  # programs omit blank cells at the end
            sheet.rows.append(Row(line, (*map(unguarded, cells[:n]), *[""] * (n - len(cells)))))
    return sheet


def _tab_records(text: str) -> Iterator[tuple[int, list[str]]]:
    for i, line in enumerate(lines_of(text), start=1):
        yield i, tab_cells(line)


def _comma_records(text: str, separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    start = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise AnnotationError(
                f"{path}, line {start}: the row that begins here cannot be read ({error}); check whether a quotation "
                "mark is missing"
            ) from None
        yield start, cells
        start = reader.line_num + 1


def _different(columns: list[str]) -> tuple[str, ...]:
    """Names for all columns, none twice.

    >>> _different(["a", "", "a"])
    ('a', 'column 2', 'a (2)')
    """
    found: dict[str, None] = {}
    last: Counter[str] = Counter()  # the number given last to columns of a name
    for i, column in enumerate(columns, start=1):
        name = unguarded(column) or f"column {i}"
        while name in found:
            last[column] += 1
            name = f"{column} ({last[column] + 1})"
        found[name] = None
    return tuple(found)
