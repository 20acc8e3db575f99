"""From the columns of a sheet to annotations, which column holds the labels, and columns to write (`Cells`)."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from outlark.annotations.annotation import Annotation, shown
from outlark.annotations.files import (
    BLANK_WORDS,
    SCORE_DIGITS,
    TIME_DIGITS,
    Sheet,
    SheetRow,
    decimal,
    guarded,
    key_of,
    number,
    optional_number,
)
from outlark.errors import AnnotationError, InputError
from outlark.segments import VERDICTS

#: Field of an annotation → column names as `key_of` spells them, the best first.
Names = Mapping[str, tuple[str, ...]]
#: Raven tables must give frequencies: measured ones, or the whole band if none are known.
MEASURED, WHOLE_BAND = "measured", "whole band"
#: Tables that must give a channel say so in a column of their own if the mean of all channels was analysed.
MIX = "mix"
#: Usual names of label columns, the most telling first.
LABEL_COLUMNS = (
    "label", "labels", "annotation", "species", "class", "type", "common_name", "name", "call_type", "note_type",
    "song_type", "note", "syllable", "syllable_type", "call", "sound", "tag", "category", "vocalization",
    "vocalisation", "species_code", "code", "scientific_name", "text",
)  # fmt: skip
#: Words in the names of text columns that hold something else.
_NO_LABEL = (
    "file", "path", "folder", "dir", "date", "time", "view", "selection", "channel", "comment", "comments", "notes",
    "remarks",
)  # fmt: skip


def _one_of(*words: str) -> Callable[[str], str | None]:
    def parse(cell: str) -> str | None:
        text = cell.strip().casefold()
        if text in BLANK_WORDS:
            return None
        if text not in words:
            raise ValueError(f"{cell!r:.60} is not one of {words}")
        return text

    return parse


def _whole(least: int) -> Callable[[str], int | None]:
    def parse(cell: str) -> int | None:
        value = optional_number(cell)
        if value is not None and (value != int(value) or value < least):
            raise ValueError(f"{cell!r:.60} is not a whole number from {least}")
        return None if value is None else int(value)

    return parse


def _text(cell: str) -> str | None:
    return cell or None


#: Fields that may be blank. A cell that does not parse counts as blank; a column most of whose cells do not is not what
#: its name says, and is kept unchanged.
_OPTIONAL: dict[str, Callable[[str], Any]] = {
    "verdict": _one_of(*VERDICTS),
    "score": optional_number,
    "runner_up": _text,
    "runner_up_score": optional_number,
    "low_hz": optional_number,
    "high_hz": optional_number,
    "channel": _whole(1),
    "sample_rate": _whole(1),
    "start_sample": _whole(0),
    "end_sample": _whole(0),
    "frequencies": _one_of(MEASURED, WHOLE_BAND),
    "analysed": _one_of(MIX),
    "start_time": _text,
}
#: Columns that qualify other fields.
_NO_FIELDS = ("start_sample", "end_sample", "frequencies", "analysed")
_TIMES = ("start_s", "end_s", "duration_s", "file_offset_s")
#: What every sheet must have, one of each.
_NEEDED = {"the start": ("start_s",), "the end": ("end_s", "duration_s")}


@dataclass(frozen=True)
class FieldColumns:
    """Where a sheet keeps the fields of an annotation: field → column, counted from 0.

    `dropped` columns are neither fields nor kept. Seconds within `rounding_s` of a whole sample mean that sample; it is
    0 where all digits are written.
    """

    sheet: Sheet
    at: dict[str, int]
    dropped: frozenset[int]
    rounding_s: float

    @classmethod
    def of(
        cls, sheet: Sheet, names: Names, *, strict: bool = False, drop: tuple[str, ...] = (), all_digits: bool = False
    ) -> "FieldColumns":
        """Find the columns by their names; in `strict` files, which outlark wrote, columns are what their names say."""
        keys = sheet.keys
        at: dict[str, int] = {}
        for field, wanted in names.items():
            found = next((keys.index(name) for name in wanted if name in keys), None)
            if found is not None and found not in at.values():
                at[field] = found
        for what, fields in _NEEDED.items():
            if not any(field in at for field in fields):
                usual = [name for field in fields for name in names.get(field, ())]
                raise sheet.error(
                    1, f"no column for {what}; expected one of {usual} in any spelling, found {sheet.listed}"
                )
        if "end_s" in at:
            at.pop("duration_s", None)
        for field in [f for f in at if f in _OPTIONAL]:
            if not _holds(sheet, at[field], _OPTIONAL[field], strict):
                del at[field]
        dropped = frozenset(i for i, key in enumerate(keys) if key in drop)
        return cls(sheet, at, dropped, 0.0 if all_digits else 10.0**-TIME_DIGITS)

    def annotations(self, label_column: str | int | None = None, *, guess: bool = True) -> list[Annotation]:
        """All rows as annotations; `guess` if the label column may have any name."""
        if guess or label_column is not None:
            self.at.pop("label", None)
            label = label_index(self.sheet, {*self.at.values(), *self.dropped}, label_column)
            if label is not None:
                self.at["label"] = label
        known = {*self.at.values(), *self.dropped}
        others = [(i, column) for i, column in enumerate(self.sheet.columns) if i not in known]
        annotations = []
        for row in self.sheet.rows:
            try:
                annotations.append(self._annotation(row, {c: row.cells[i] for i, c in others if row.cells[i]}))
            except (ValueError, InputError) as error:
                self.sheet.refuse(row.line, error)
        return annotations

    def _annotation(self, row: SheetRow, more: dict[str, str]) -> Annotation:
        """An annotation, or a ValueError or InputError if the row does not say where it is."""
        found = {field: self._optional(row, field, parse) for field, parse in _OPTIONAL.items() if field in self.at}
        start_s, end_s = self._span(row, found)
        if found.get("frequencies") == WHOLE_BAND:
            found |= {"low_hz": None, "high_hz": None}
        if found.get("analysed") == MIX:
            found["channel"] = None
        return Annotation(
            start_s=start_s,
            end_s=end_s,
            label=self.cell(row, "label") or None,
            recording=self._recording(row),
            reason=self.cell(row, "reason"),
            remark=self.cell(row, "remark"),
            more=more,
            line=row.line,
            **{field: value for field, value in found.items() if field not in _NO_FIELDS},
        )

    def _optional(self, row: SheetRow, field: str, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(row.cells[self.at[field]])
        except (ValueError, OverflowError):
            return None  # a remark says so

    def _recording(self, row: SheetRow) -> str | None:
        """The recording that a row names; if it names none, the one that all other rows name."""
        named = self.cell(row, "recording") or self._only_recording
        if not named and self._only_recording is None:
            column = self.sheet.columns[self.at["recording"]]
            raise ValueError(f"column {column!r}: the cell is blank, and other rows name several recordings")
        return named or None

    @cached_property
    def _only_recording(self) -> str | None:
        """The recording that all rows name; blank if none names one, None if they name several."""
        names = [self.cell(row, "recording") for row in self.sheet.rows]
        return only_one(names) if len({*names} - {""}) < 2 else None

    def cell(self, row: SheetRow, field: str) -> str:
        """The text of a field, blank if it has no column."""
        return row.cells[self.at[field]] if field in self.at else ""

    def _span(self, row: SheetRow, found: dict[str, Any]) -> tuple[float, float]:
        """Start and end in seconds within the recording."""
        times = {field: self.time(row, field) for field in _TIMES if field in self.at}
        rate = found.get("sample_rate")
        samples = [found.get(f"{end}_sample") for end in ("start", "end")]
        if rate and None not in samples:
            exact = {"start_s": samples[0] / rate, "end_s": samples[1] / rate}
            # seconds that differ by more than rounding were edited, or lie between samples: they count
            times |= {f: s for f, s in exact.items() if abs(times.get(f, s) - s) <= self.rounding_s}
        start_s = times["start_s"]
        end_s = times["end_s"] if "end_s" in times else round(start_s + times["duration_s"], 9)
        if "file_offset_s" in times:
            # in Raven, begin and end run over all open files, the offset counts within one
            start_s, end_s = times["file_offset_s"], round(times["file_offset_s"] + (end_s - start_s), 9)
        return start_s, end_s

    def time(self, row: SheetRow, field: str) -> float:
        """The seconds in a field that must not be blank; ValueError if it is."""
        try:
            return number(row.cells[self.at[field]])
        except ValueError as error:
            column = self.sheet.columns[self.at[field]]
            raise ValueError(f"column {column!r}: {error}; expected seconds such as 83.25") from None


def only_one(names: Iterable[str]) -> str:
    """The only name that is not blank; blank if there are several, or none."""
    found = {name for name in names if name.strip()}
    return found.pop() if len(found) == 1 else ""


def _holds(sheet: Sheet, i: int, parse: Callable[[str], Any], strict: bool) -> bool:
    """Whether a column holds what its name says; remarks on cells that do not."""
    bad = {row.line: why for row in sheet.rows if (why := _failure(row.cells[i], parse))}
    n_filled = sum(bool(row.cells[i].strip()) for row in sheet.rows)
    of_another_kind = not strict and 2 * len(bad) > n_filled
    done = "kept unchanged" if of_another_kind else "taken as blank"
    for line, why in list(bad.items())[: 1 if of_another_kind else None]:
        sheet.remark(f"column {sheet.columns[i]!r} {done}: {why} ({sheet.unit} {line})")
    return not of_another_kind


def _failure(cell: str, parse: Callable[[str], Any]) -> str:
    """Why a cell does not parse; blank if it does."""
    try:
        parse(cell)
    except (ValueError, OverflowError) as error:
        return str(error)
    return ""


def label_index(sheet: Sheet, taken: Container[int], wanted: str | int | None) -> int | None:
    """The label column, counted from 0, or None, with a remark; `wanted` is its name, or its number from 1."""
    if wanted is not None:
        return _wanted_column(sheet, str(wanted))
    keys = sheet.keys
    usual = [keys.index(name) for name in LABEL_COLUMNS if name in keys and keys.index(name) not in taken]
    others = [i for i in range(len(keys)) if i not in taken and i not in usual and _may_be_labels(sheet, i)]
    filled = [i for i in usual if not sheet.rows or any(row.cells[i].strip() for row in sheet.rows)]
    found = next(iter(filled + others + usual), None)
    if found is None:
        sheet.remark(f"no label column among {sheet.listed}; all labels are blank")
        return None
    also = [sheet.columns[i] for i in usual if i != found]
    hint = f" (not {also}; label_column= chooses)" if also else ""
    sheet.remark(f"labels from the column {sheet.columns[found]!r}{hint}")
    return found


def _wanted_column(sheet: Sheet, name: str) -> int:
    numbers = [str(i) for i in range(1, len(sheet.keys) + 1)]
    for names, wanted in ((sheet.columns, name), (sheet.keys, key_of(name)), (numbers, name)):
        if wanted in names:
            return names.index(wanted)
    raise AnnotationError(
        f"{sheet.reading.path}: there is no label column {name!r:.100}; give one of {sheet.listed}, or its number from "
        f"1 to {len(sheet.keys)}"
    )


def _may_be_labels(sheet: Sheet, i: int) -> bool:
    """Whether a column holds text, and its name does not say that it is something else."""
    if any(part in _NO_LABEL for part in sheet.keys[i].split("_")):
        return False
    return any(_failure(row.cells[i], optional_number) for row in sheet.rows)


# ------------------------------------------------------------ columns to write

#: The columns of a written table: header → function from an annotation to its cell.
Cells = dict[str, Callable[[Annotation], str]]


def rows_of(cells: Cells, annotations: Iterable[Annotation], line: Callable[[list[str]], str]) -> Iterator[str]:
    yield line(list(cells))
    for annotation in annotations:
        yield line([cell(annotation) for cell in cells.values()])


def unless_blank(cells: Cells, annotations: Iterable[Annotation]) -> Cells:
    """Those of the columns that are not blank throughout."""
    return {name: cell for name, cell in cells.items() if any(map(cell, annotations))}


def seconds_cell(value: float) -> str:
    return decimal(value, TIME_DIGITS)


def start_cell(annotation: Annotation) -> str:
    return seconds_cell(annotation.start_s)


def end_cell(annotation: Annotation) -> str:
    return seconds_cell(annotation.end_s)


def text_cell(annotation: Annotation) -> str:
    return guarded(shown(annotation))


def score_cell(annotation: Annotation) -> str:
    return decimal(annotation.score, SCORE_DIGITS)


def mixed_cell(annotation: Annotation) -> str:
    """Programs need a channel: where the mean of all was analysed, it is the first, and a column says so."""
    return MIX if annotation.channel is None else ""


def posix_path(annotation: Annotation) -> str:
    """Windows paths on Linux, and vice versa."""
    return (annotation.recording or "").replace("\\", "/")
