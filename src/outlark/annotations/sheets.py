"""Delimited text with a header line, of whatever separator and quoting, as rows of cells."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from outlark.annotations.cells import tab_cells, unguarded
from outlark.errors import AnnotationError

_LINE_END = re.compile(r"\r\n|\n|\r")
#: More than these no table of labels has: it is a mistake, or a file that was made to fill the memory. Cells count too,
#: because rows that leave out blank cells at their end are filled up to the width of the header.
MOST_COLUMNS, MOST_ROWS, MOST_CELLS = 1000, 5_000_000, 50_000_000
#: Columns that a message lists.
_LISTED = 30


class Row(NamedTuple):
    """One row: where it begins, and as many cells as the sheet has columns."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table of text.

    Attributes
    ----------
    path : Path
    columns : tuple of str
        As the header has them, made different from each other.
    rows : list of Row
    remarks : list of str
        Readers add to it.
    unit : str
        What `Row.line` counts.
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[Row]
    remarks: list[str] = field(default_factory=list)
    unit: str = "line"

    @cached_property
    def keys(self) -> list[str]:
        """The columns in small letters, digits and underscores."""
        return [key_of(column) for column in self.columns]

    @property
    def listed(self) -> str:
        """The columns for a message, not more than a few dozen."""
        return listed(self.columns)

    def wrong(self, line: int, what: object) -> AnnotationError:
        """An error at a line of the file."""
        return AnnotationError(f"{self.path}, {self.unit} {line}: {what}")

    def stripped(self) -> "Sheet":
        """The same sheet without spaces around its cells: other programs and people do not mean them."""
        return self.with_rows([Row(row.line, tuple(cell.strip() for cell in row.cells)) for row in self.rows])

    def with_rows(self, rows: list[Row]) -> "Sheet":
        """The same sheet with other rows."""
        return replace(self, rows=rows)


def key_of(column: str) -> str:
    """The name of a column without what differs between programs.

    >>> key_of("Begin Time (s)"), key_of("begin_time_s"), key_of("AUTO ID*")
    ('begin_time_s', 'begin_time_s', 'auto_id')
    """
    return re.sub(r"[\W_]+", "_", column.casefold()).strip("_")


def listed(columns: Sequence[str]) -> str:
    """Names of columns for a message, not more than a few dozen.

    >>> listed(("start", "end"))
    "['start', 'end']"
    """
    more = f" and {len(columns) - _LISTED} more" if len(columns) > _LISTED else ""
    return f"{list(columns[:_LISTED])}{more}"


def check_size(path: Path, columns: int, rows: int = 0) -> None:
    """An error for more columns, rows or cells than a table of labels can have.

    >>> check_size(Path("a"), columns=100_000)
    Traceback (most recent call last):
    outlark.errors.AnnotationError: a has 100,000 columns, at most 1,000 are read; leave out those that are no labels
    """
    if columns > MOST_COLUMNS:
        raise AnnotationError(
            f"{path} has {columns:,} columns, at most {MOST_COLUMNS:,} are read; leave out those that are no labels"
        )
    if rows > MOST_ROWS:
        raise AnnotationError(f"{path} has {rows:,} rows, at most {MOST_ROWS:,} are read; split it")
    if rows * columns > MOST_CELLS:
        raise AnnotationError(
            f"{path} has {rows:,} rows of {columns:,} columns, at most {MOST_CELLS:,} cells are read; leave out "
            "columns that are no labels, or split it"
        )


def lines_of(text: str) -> list[str]:
    r"""Lines by any of the three line ends, and by nothing else.

    >>> lines_of("a\r\nb\rc\n")
    ['a', 'b', 'c', '']
    """
    return _LINE_END.split(text)


def separator_of(header: str) -> str:
    r"""The separator of a header line.

    >>> separator_of("start_s;end_s;label"), separator_of("a\tb,c")
    (';', '\t')
    """
    if "\t" in header:
        return "\t"
    return ";" if header.count(";") > header.count(",") else ","


def sheet_of(text: str, path: Path, remarks: list[str]) -> Sheet:
    """The table in a text with a header line, its cells as they are."""
    records = _records(text, path)
    line, header = next(records, (1, []))
    if not header:
        raise AnnotationError(f"{path} is empty; expected a table with a header line")
    check_size(path, len(header))
    columns = _different([cell.strip() for cell in header])
    sheet = Sheet(path=path, columns=columns, rows=[], remarks=remarks)
    most = min(MOST_ROWS, MOST_CELLS // len(columns))
    for line, cells in records:
        if len(sheet.rows) == most:
            check_size(path, len(columns), len(sheet.rows) + 1 + sum(1 for _ in records))
        sheet.rows.append(Row(line, _fitted(sheet, line, cells)))
    return sheet


def _fitted(sheet: Sheet, line: int, cells: list[str]) -> tuple[str, ...]:
    """As many cells as there are columns: programs leave out blank ones at the end."""
    n = len(sheet.columns)
    if any(cell.strip() for cell in cells[n:]):
        raise sheet.wrong(
            line,
            f"{len(cells)} cells, but the header has {n} columns; the first too many is {cells[n]!r:.60}. See whether "
            "a label holds the separator",
        )
    return (*map(unguarded, cells[:n]), *[""] * (n - len(cells)))


def _records(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank."""
    first = next((line for line in lines_of(text[:100_000]) if line.strip()), "")
    separator = separator_of(first)
    for line, cells in _tab_records(text) if separator == "\t" else _comma_records(text, separator, path):
        if any(cell.strip() for cell in cells):
            yield line, cells


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
                f"{path}, line {start}: the row that begins here cannot be read ({error}); see whether a quotation "
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
    last: Counter[str] = Counter()  # the number that was given last to columns of a name
    for i, column in enumerate(columns, start=1):
        name = unguarded(column) or f"column {i}"
        while name in found:
            last[column] += 1
            name = f"{column} ({last[column] + 1})"
        found[name] = None
    return tuple(found)
