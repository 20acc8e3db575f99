"""A summary as rows with names: for CSV, Parquet, JSON and the terminal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from outlark.annotations.delimited import comma_line, decimal, guarded
from outlark.annotations.files import encoded, needed, write_bytes, written
from outlark.commands.summary.summary import DAY, HOUR, SITE, Summary
from outlark.errors import InputError
from outlark.plain_text import writable
from outlark.verdict_names import AMBIGUOUS, REST

#: Day and hour of recordings without a known start time.
TIME_UNKNOWN = "time unknown"
UNITS = ("recordings", "clock_hours")
#: Numeric columns and their types.
NUMBERS: dict[str, type] = {
    "hours": float,
    "notes": int,
    "per_hour": float,
    "per_hour_low": float,
    "per_hour_high": float,
    "ambiguous": int,
    **{
        f"{unit}{what}": kind
        for unit in UNITS
        for what, kind in {"": int, "_with": int, "_share": float, "_share_low": float, "_share_high": float}.items()
    },
}
DIGITS = 6
Row = Mapping[str, Any]


def rows(summary: Summary) -> Iterator[Row]:
    """A row for each group and class, sorted; None if undefined or not written.

    >>> from datetime import datetime
    >>> from outlark.commands.summary.summary import summarise
    >>> from outlark.commands.summary.tally import Listened, Notes, Tally
    >>> tally = Tally()
    >>> at = Listened(recording="a.wav", site="pond", began=datetime(2023, 10, 24, 5), seconds=1800.0)
    >>> tally.add(at, Notes(["song"] * 3, ["known", "known", "ambiguous"], [1.0, 2.0, 3.0]))
    >>> first, _ = rows(summarise(tally, ["class", "day"]))
    >>> first["day"], first["class"], first["notes"], first["ambiguous"], first["per_hour"]
    (datetime.date(2023, 10, 24), 'song', 2, 1, 4.0)
    """
    values: dict[str, Any] = {"notes": summary.notes, "ambiguous": summary.ambiguous, "per_hour": summary.rates}
    values["per_hour_low"], values["per_hour_high"] = summary.rate_intervals
    for unit in UNITS:
        values[f"{unit}_with"] = getattr(summary, f"{unit}_with")
        shares = summary.shares(unit)
        values |= {f"{unit}_share{end}": share for end, share in zip(("", "_low", "_high"), shares, strict=True)}
    for i in range(len(summary.hours)):
        group = {name: _group_value(name, summary.groups[name][i]) for name in summary.by}
        shared = {name: getattr(summary, name)[i] for name in ("hours", *UNITS)}
        for j, label in enumerate(summary.classes):
            numbers = {**shared, **{name: value[i, j] for name, value in values.items()}}
            if label == REST or AMBIGUOUS not in summary.verdicts:
                numbers["ambiguous"] = None
            yield {**group, "class": label, **{name: _plain(numbers[name], kind) for name, kind in NUMBERS.items()}}


def json_rows(summary: Summary) -> list[dict[str, Any]]:
    """The rows as JSON values, with days as ISO 8601."""
    return [{name: _iso(value) for name, value in row.items()} for row in rows(summary)]


def write_summary(summary: Summary, path: Path) -> None:
    """Write the rows as CSV or Parquet, by suffix; completely or not at all."""
    check_suffix(path)
    if path.suffix.lower() == ".csv":
        write_bytes(path, encoded("".join(_csv_lines(summary))))
    else:
        _write_parquet(summary, path)


def check_suffix(path: Path) -> None:
    """Refuse any file but CSV and Parquet."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: a summary is written as .csv or .parquet; end its name with one of these")


def _csv_lines(summary: Summary) -> Iterator[str]:
    yield comma_line([*summary.by, "class", *NUMBERS])
    for row in rows(summary):
        yield comma_line([_cell(name, value) for name, value in row.items()])


def _cell(name: str, value: Any) -> str:
    if value is None:
        return TIME_UNKNOWN if name in (DAY, HOUR) else ""
    if isinstance(value, float):
        return decimal(value, DIGITS)
    return guarded(value) if isinstance(value, str) else str(value)


def _write_parquet(summary: Summary, path: Path) -> None:
    arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    types = {SITE: arrow.string(), DAY: arrow.date32(), HOUR: arrow.int64(), "class": arrow.string()}
    types |= {name: arrow.float64() if kind is float else arrow.int64() for name, kind in NUMBERS.items()}
    columns: Sequence[str] = [*summary.by, "class", *NUMBERS]
    schema = arrow.schema([arrow.field(name, types[name]) for name in columns])
    listed = [
        {key: writable(value) if isinstance(value, str) else value for key, value in r.items()} for r in rows(summary)
    ]
    with written(path) as file:
        parquet.write_table(arrow.Table.from_pylist(listed, schema=schema), file)


def _group_value(name: str, value: Any) -> Any:
    if name == SITE:
        return value
    if value < 0:
        return None
    return date.fromordinal(int(value)) if name == DAY else int(value)


def _plain(value: Any, kind: type) -> Any:
    return None if value is None or (kind is float and math.isnan(value)) else kind(value)


def _iso(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
