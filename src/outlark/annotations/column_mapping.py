"""From the columns of a sheet to annotations: which column holds which field, and which one holds the labels."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from outlark.annotations.annotation import Annotation
from outlark.annotations.delimited import NOTHING, TIME_DIGITS, Row, Sheet, key_of, number, optional_number
from outlark.errors import AnnotationError, InputError
from outlark.verdict_names import VERDICTS

#: Field of an annotation → column names as `key_of` spells them, the best first.
Names = Mapping[str, tuple[str, ...]]
#: Raven tables must give frequencies: measured ones, or the whole band if none are known.
MEASURED, WHOLE_BAND = "measured", "whole band"
#: Tables that must give a channel say so in a column of their own if the mean of all channels was analysed.
MIX = "mix"
#: Usual names of label columns, the most telling first.
USUAL = (
    "label", "labels", "annotation", "species", "class", "type", "common_name", "name", "call_type", "note_type",
    "song_type", "note", "syllable", "syllable_type", "call", "sound", "tag", "category", "vocalization",
    "vocalisation", "species_code", "code", "scientific_name", "text",
)  # fmt: skip
#: Words in the names of text columns that hold something else.
_NO_LABEL = (
    "file", "path", "folder", "dir", "date", "time", "view", "selection", "channel", "comment", "comments", "notes",
    "remarks",
)  # fmt: skip


def _verdict(cell: str) -> str | None:
    text = cell.strip().casefold()
    if text in NOTHING:
        return None
    if text not in VERDICTS:
        raise ValueError(f"{cell!r:.60} is not one of {VERDICTS}")
    return text


def _whole(cell: str) -> int | None:
    value = optional_number(cell)
    if value is None:
        return None
    if value != int(value) or value < 1:
        raise ValueError(f"{cell!r:.60} is not a whole number from 1")
    return int(value)


def _sample(cell: str) -> int | None:
    value = optional_number(cell)
    if value is not None and (value != int(value) or value < 0):
        raise ValueError(f"{cell!r:.60} is not a whole number of samples")
    return None if value is None else int(value)


def _text(cell: str) -> str | None:
    return cell or None


def _frequencies(cell: str) -> str | None:
    if cell not in ("", MEASURED, WHOLE_BAND):
        raise ValueError(f"{cell!r:.60} is neither {MEASURED!r} nor {WHOLE_BAND!r}")
    return cell or None


def _analysed(cell: str) -> str | None:
    if cell not in ("", MIX):
        raise ValueError(f"{cell!r:.60} is not {MIX!r}")
    return cell or None


#: Fields that may be blank. A cell that does not parse counts as blank; a column most of whose cells do not is not what
#: its name says, and is kept unchanged.
_OPTIONAL: dict[str, Callable[[str], Any]] = {
    "verdict": _verdict,
    "score": optional_number,
    "runner_up": _text,
    "runner_up_score": optional_number,
    "low_hz": optional_number,
    "high_hz": optional_number,
    "channel": _whole,
    "sample_rate": _whole,
    "start_sample": _sample,
    "end_sample": _sample,
    "frequencies": _frequencies,
    "analysed": _analysed,
    "start_time": _text,
}
#: Columns that qualify other fields.
_NO_FIELDS = ("start_sample", "end_sample", "frequencies", "analysed")
_TIMES = ("start_s", "end_s", "duration_s", "file_offset_s")


@dataclass(frozen=True)
class Columns:
    """Where a sheet keeps the fields of an annotation.

    Attributes
    ----------
    sheet : Sheet
    at : dict of str to int
        Field → column, counted from 0.
    dropped : frozenset of int
        Columns that are neither fields nor kept.
    rounding_s : float
        Seconds within this distance of a whole sample mean that sample; 0 where all digits are written.
    """

    sheet: Sheet
    at: dict[str, int]
    dropped: frozenset[int]
    rounding_s: float = 10.0**-TIME_DIGITS

    @classmethod
    def of(
        cls,
        sheet: Sheet,
        names: Names,
        *,
        strict: bool = False,
        drop: tuple[str, ...] = (),
        rounding_s: float = 10.0**-TIME_DIGITS,
    ) -> "Columns":
        """Find the columns by their names; in `strict` files, which outlark wrote, columns are what their names say."""
        keys = sheet.keys
        at: dict[str, int] = {}
        for field, wanted in names.items():
            found = next((keys.index(name) for name in wanted if name in keys), None)
            if found is not None and found not in at.values():
                at[field] = found
        if "end_s" in at:
            at.pop("duration_s", None)
        for field in [f for f in at if f in _OPTIONAL]:
            column, bad = sheet.columns[at[field]], _bad_cells(sheet, at[field], _OPTIONAL[field])
            if not bad:
                continue
            n_filled = sum(bool(row.cells[at[field]].strip()) for row in sheet.rows)
            of_another_kind = not strict and 2 * len(bad) > n_filled
            done = "kept unchanged" if of_another_kind else "taken as blank"
            for line, why in list(bad.items())[: 1 if of_another_kind else None]:
                sheet.remarks.append(f"column {column!r} {done}: {why} ({sheet.unit} {line})")
            if of_another_kind:
                del at[field]
        return cls(sheet, at, frozenset(i for i, key in enumerate(keys) if key in drop), rounding_s)

    def need(self, field: str, names: Names, what: str) -> None:
        """An error if a field has no column."""
        if field not in self.at:
            raise AnnotationError(
                f"{self.sheet.path}, {self.sheet.unit} 1: no column for {what}; expected one of {list(names[field])} "
                f"in any spelling, found {self.sheet.listed}"
            )

    def annotations(self, label_column: str | int | None = None, *, guess: bool = True) -> list[Annotation]:
        """All rows as annotations; `guess` if the label column may have any name."""
        if guess or label_column is not None:
            taken = {i for field, i in self.at.items() if field != "label"} | self.dropped
            self.at.pop("label", None)
            label = label_index(self.sheet, taken, label_column)
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

    def _annotation(self, row: Row, more: dict[str, str]) -> Annotation:
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

    def _optional(self, row: Row, field: str, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(row.cells[self.at[field]])
        except (ValueError, OverflowError):
            return None  # a remark says so

    def _recording(self, row: Row) -> str | None:
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

    def cell(self, row: Row, field: str) -> str:
        """The text of a field, blank if it has no column."""
        return row.cells[self.at[field]] if field in self.at else ""

    def _span(self, row: Row, found: dict[str, Any]) -> tuple[float, float]:
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

    def time(self, row: Row, field: str) -> float:
        """The seconds in a field that must not be blank; ValueError if it is."""
        try:
            return number(row.cells[self.at[field]])
        except ValueError as error:
            column = self.sheet.columns[self.at[field]]
            raise ValueError(f"column {column!r}: {error}; expected seconds such as 83.25") from None


def only_one(names: Iterable[str]) -> str:
    """The only name that is not blank; blank if there are several, or none.

    >>> only_one(["", "a.wav", "a.wav"]), only_one(["a.wav", "b.wav"])
    ('a.wav', '')
    """
    found = {name for name in names if name.strip()}
    return found.pop() if len(found) == 1 else ""


def _bad_cells(sheet: Sheet, i: int, parse: Callable[[str], Any]) -> dict[int, str]:
    """The lines whose cells in a column do not parse, and why."""
    found = {}
    for row in sheet.rows:
        try:
            parse(row.cells[i])
        except (ValueError, OverflowError) as error:
            found[row.line] = str(error)
    return found


def label_index(sheet: Sheet, taken: Container[int], wanted: str | int | None) -> int | None:
    """The label column, counted from 0, or None; adds a remark on the choice.

    `taken` columns are known to hold something else; `wanted` is a name, or a number from 1.
    """
    if wanted is not None:
        return _wanted_column(sheet, wanted)
    keys = sheet.keys
    usual = [keys.index(name) for name in USUAL if name in keys and keys.index(name) not in taken]
    others = [i for i in range(len(keys)) if i not in taken and i not in usual and _may_be_labels(sheet, i)]
    found = next((i for i in usual if not sheet.rows or _filled(sheet, i)), None)
    if found is None:
        found = next(iter(others + usual), None)
    if found is None:
        sheet.remarks.append(f"no label column among {sheet.listed}; all labels are blank")
        return None
    also = [sheet.columns[i] for i in usual if i != found]
    hint = f" (not {also}; label_column= chooses)" if also else ""
    sheet.remarks.append(f"labels from the column {sheet.columns[found]!r}{hint}")
    return found


def _wanted_column(sheet: Sheet, wanted: str | int) -> int:
    name = str(wanted)
    keys = sheet.keys
    if name in sheet.columns:
        return sheet.columns.index(name)
    if key_of(name) in keys:
        return keys.index(key_of(name))
    numbers = [str(number) for number in range(1, len(keys) + 1)]  # int(name) fails for thousands of digits
    if name in numbers:
        return numbers.index(name)
    raise AnnotationError(
        f"{sheet.path}: there is no label column {wanted!r:.100}; give one of {sheet.listed}, or its number "
        f"from 1 to {len(keys)}"
    )


def _filled(sheet: Sheet, i: int) -> bool:
    return any(row.cells[i].strip() for row in sheet.rows)


def _may_be_labels(sheet: Sheet, i: int) -> bool:
    """Whether a column holds text, and its name does not say that it is something else."""
    if any(part in _NO_LABEL for part in sheet.keys[i].split("_")):
        return False
    return any(not _is_number(row.cells[i]) for row in sheet.rows)


def _is_number(cell: str) -> bool:
    try:
        optional_number(cell)
    except ValueError:
        return False
    return True
