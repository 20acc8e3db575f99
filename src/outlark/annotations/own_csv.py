"""outlark's CSV, and the CSV tables of others.

No comment lines, so that pandas, R and spreadsheets read it without options: what a row must tell of its run stands in
columns of its own. Rows of many files and years can be put under each other and still say where they are from.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from outlark.annotations.cells import FREQUENCY_DIGITS, SCORE_DIGITS, TIME_DIGITS, comma_line, decimal, guarded
from outlark.annotations.files import encoded
from outlark.annotations.marks import About, Mark
from outlark.annotations.others import other_columns
from outlark.annotations.own import FIELDS, LATER, RUN, about_in, is_own, marks_in, run_values, values
from outlark.annotations.sheets import Sheet

DIGITS = {
    "start_s": TIME_DIGITS,
    "end_s": TIME_DIGITS,
    "low_hz": FREQUENCY_DIGITS,
    "high_hz": FREQUENCY_DIGITS,
}
#: All columns in their order: what came later stands last, so that nothing moves.
HEADER = [*(name for name in FIELDS if name not in LATER), *RUN, *LATER]


def read(
    sheet: Sheet, about: Mapping[str, Any], label_column: str | int | None
) -> tuple[list[Mark], Mapping[str, Any]]:
    """The marks of the table, and what it says of its run."""
    if not is_own(sheet):
        return marks_in(sheet.stripped(), label_column, own=False), about
    return marks_in(sheet, label_column, own=True), about_in(sheet) or about


def write(marks: Collection[Mark], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """All marks, also silence."""
    more = other_columns(marks, HEADER)
    yield encoded(comma_line([*HEADER, *map(guarded, more.values())]))
    run = run_values(about)
    for mark in marks:
        found = {**values(mark), **run}
        cells = [_cell(name, found[name]) for name in HEADER]
        yield encoded(comma_line([*cells, *(guarded(mark.more.get(key, "")) for key in more)]))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return decimal(value, DIGITS.get(name, SCORE_DIGITS))
    return guarded(value) if isinstance(value, str) else str(value)
