"""Counts, effort and rates by site, day and hour, with exact confidence intervals."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaincinv

from outlark.annotations.files import comma_line, decimal, encoded, guarded, needed, write_bytes, written
from outlark.commands.summary.effort import Tally
from outlark.errors import InputError
from outlark.plain_text import writable
from outlark.segments import AMBIGUOUS, KNOWN, REST, UNKNOWN

Interval = tuple[np.ndarray, np.ndarray]


def rate_interval(counts: ArrayLike, hours: ArrayLike, confidence: float = 0.95) -> Interval:
    """The exact interval of a Poisson rate per hour (Garwood 1936); NaN without hours.

    >>> low, high = rate_interval([0, 10], [2.0, 2.0])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 2.398], [1.844, 9.195])
    """
    counts, hours = np.broadcast_arrays(np.asarray(counts, float), np.asarray(hours, float))
    tail = (1.0 - confidence) / 2.0
    low = np.where(counts > 0, gammaincinv(np.maximum(counts, 1.0), tail), 0.0)
    high = gammaincinv(counts + 1.0, 1.0 - tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        return tuple(np.where(hours > 0, limit / hours, np.nan) for limit in (low, high))  # type: ignore[return-value]


def share_interval(counts: ArrayLike, totals: ArrayLike, confidence: float = 0.95) -> Interval:
    """The exact interval of a proportion (Clopper and Pearson 1934); NaN if the total is 0.

    >>> low, high = share_interval([0, 3, 10], 10)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.067, 0.692], [0.308, 0.652, 1.0])
    """
    counts, totals = np.broadcast_arrays(np.asarray(counts, float), np.asarray(totals, float))
    tail, rest = (1.0 - confidence) / 2.0, totals - counts
    low = np.where(counts > 0, betaincinv(np.maximum(counts, 1.0), rest + 1.0, tail), 0.0)
    high = np.where(rest > 0, betaincinv(counts + 1.0, np.maximum(rest, 1.0), 1.0 - tail), 1.0)
    return tuple(np.where(totals > 0, limit, np.nan) for limit in (low, high))  # type: ignore[return-value]


CLASS, SITE, DAY, HOUR = "class", "site", "day", "hour"
Columns = dict[str, np.ndarray]
SOUND = (KNOWN, AMBIGUOUS, UNKNOWN)
#: All classes together.
ALL = "(known)"


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


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Counts for groups of recordings: by group (hours, recordings, clock_hours), or by group and class.

    `by` are those of "site", "day" and "hour" that define the groups; `groups` has for each of them its value in each
    group: names of sites; ordinals of days, and hours, -1 for "time unknown". The last of `classes` is "(unknown)", for
    sounds of no class, if they were written. `hours` are the effort. A clock hour is an hour of a day at a site; those
    `_with` a class are those in which a note of it starts. `verdicts` are those that the
    annotation files contain.
    """

    by: tuple[str, ...]
    groups: dict[str, np.ndarray]
    classes: tuple[str, ...]
    hours: np.ndarray
    notes: np.ndarray
    ambiguous: np.ndarray
    recordings: np.ndarray
    recordings_with: np.ndarray
    clock_hours: np.ndarray
    clock_hours_with: np.ndarray
    confidence: float
    verdicts: tuple[str, ...]

    @property
    def rates(self) -> np.ndarray:
        """Notes per hour; NaN without effort."""
        hours = self.hours[:, np.newaxis]
        return np.divide(self.notes, hours, out=np.full(self.notes.shape, np.nan), where=hours > 0)

    @property
    def rate_intervals(self) -> Interval:
        return rate_interval(self.notes, self.hours[:, np.newaxis], self.confidence)

    def shares(self, unit: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The proportion of "recordings" or "clock_hours" with a note, and the limits of its interval."""
        counts, totals = getattr(self, f"{unit}_with"), getattr(self, unit)[:, np.newaxis]
        share = np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)
        return share, *share_interval(counts, totals, self.confidence)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each group and class, sorted; None if undefined or not written."""
        values: dict[str, Any] = {"notes": self.notes, "ambiguous": self.ambiguous, "per_hour": self.rates}
        values["per_hour_low"], values["per_hour_high"] = self.rate_intervals
        for unit in UNITS:
            values[f"{unit}_with"] = getattr(self, f"{unit}_with")
            shares = self.shares(unit)
            values |= {f"{unit}_share{end}": share for end, share in zip(("", "_low", "_high"), shares, strict=True)}
        for i in range(len(self.hours)):
            group = {name: _group_value(name, self.groups[name][i]) for name in self.by}
            shared = {name: getattr(self, name)[i] for name in ("hours", *UNITS)}
            for j, label in enumerate(self.classes):
                numbers = {**shared, **{name: value[i, j] for name, value in values.items()}}
                if label == REST or AMBIGUOUS not in self.verdicts:
                    numbers["ambiguous"] = None
                yield {**group, "class": label, **{name: _plain(numbers[name], kind) for name, kind in NUMBERS.items()}}

    def write(self, path: Path) -> None:
        """Write the rows as CSV or Parquet, by suffix; completely or not at all."""
        check_suffix(path)
        if path.suffix.lower() == ".csv":
            lines = ([_cell(name, value) for name, value in row.items()] for row in self.rows())
            write_bytes(path, encoded("".join(map(comma_line, [[*self.by, "class", *NUMBERS], *lines]))))
        else:
            _write_parquet(self, path)


def summarise(
    tally: Tally,
    by: Sequence[str] = (CLASS, SITE),
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
    verdicts: Sequence[str] = SOUND,
) -> Summary:
    """Count by class, site, day and hour; by default all classes.

    `verdicts` are those that the annotation files contain.

    >>> from datetime import datetime
    >>> from outlark.commands.summary.effort import AnalysedRecording, Notes
    >>> tally = Tally()
    >>> for hour in (4, 5):
    ...     began = datetime(2023, 10, 24, hour)
    ...     at = AnalysedRecording(recording=f"{hour}", site="pond", began=began, seconds=1800.0)
    ...     tally.add(at, Notes(["song"] * hour, ["known"] * hour, [0.5] * hour))
    >>> found = summarise(tally, ["class", "hour"])
    >>> found.groups["hour"].tolist(), found.classes, found.rates.tolist()
    ([4, 5], ('song', '(unknown)'), [[8.0, 0.0], [10.0, 0.0]])
    """
    apart = tuple(name for name in (SITE, DAY, HOUR) if name in by)
    sites = sorted(tally.sites, key=natural)
    names = sorted(set(tally.classes) - {REST}, key=natural) if classes is None else list(dict.fromkeys(classes))
    columns, shown = _columns(tally.classes, names, pooled=CLASS not in by, rest=UNKNOWN in verdicts)
    effort, found = _with_sites(tally.effort(), tally.sites, sites), _with_sites(tally.found(), tally.sites, sites)
    found["class"] = columns[found["class"]]
    found = {name: column[found["class"] >= 0] for name, column in found.items()}
    both = {name: np.concatenate([effort[name], found[name]]) for name in (SITE, DAY, HOUR)}
    _, first, which = np.unique(_numbered(both, apart), return_index=True, return_inverse=True)
    of_effort, of_found = np.split(which, [len(effort["hours"])])
    groups = {name: both[name][first] for name in apart}
    if SITE in groups:
        groups[SITE] = np.array(sites, dtype=object)[groups[SITE]]
    counts = _counted(of_effort, effort, of_found, found, (len(first), len(shown)))
    how = {"confidence": confidence, "verdicts": tuple(verdicts)}
    return Summary(by=apart, groups=groups, classes=shown, **counts, **how)  # type: ignore[arg-type]


def _counted(
    of_effort: np.ndarray, effort: Columns, of_found: np.ndarray, found: Columns, shape: tuple[int, int]
) -> dict[str, np.ndarray]:
    """The counts of a summary, from columns and the number of the group of each row."""
    n, size = shape[0], shape[0] * shape[1]
    cells = of_found * shape[1] + found["class"]
    heard, known = effort["day"] >= 0, found["known"] > 0
    timed = known & (found["day"] >= 0)
    hour_of_effort, hour_of_found = (_numbered(columns, (SITE, DAY, HOUR)) for columns in (effort, found))
    of_cells = {
        "notes": np.bincount(cells, found["known"], size).astype(np.int64),
        "ambiguous": np.bincount(cells, found["ambiguous"], size).astype(np.int64),
        "recordings_with": _distinct(cells[known], found["recording"][known], size),
        "clock_hours_with": _distinct(cells[timed], hour_of_found[timed], size),
    }
    return {
        "hours": np.bincount(of_effort, effort["hours"], n),
        "recordings": _distinct(of_effort, effort["recording"], n),
        "clock_hours": _distinct(of_effort[heard], hour_of_effort[heard], n),
        **{name: counts.reshape(shape) for name, counts in of_cells.items()},
    }


def natural(name: str) -> list[tuple[int, str]]:
    """A key to sort names with numbers in them.

    >>> sorted(["site 10", "site 9", "pond"], key=natural)
    ['pond', 'site 9', 'site 10']
    """
    return [(int(digits or -1), text) for digits, text in re.findall(r"([0-9]+)|([^0-9]+)", name)]


def _columns(
    there: Sequence[str], names: Sequence[str], *, pooled: bool, rest: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The column of each class of a tally, -1 for none; and the names of the columns."""
    shown = (*((ALL,) if pooled else names), *((REST,) if rest else ()))
    at = {REST: len(shown) - 1 if rest else -1} | {name: 0 if pooled else i for i, name in enumerate(names)}
    return np.array([at.get(name, -1) for name in there], np.int64), shown


def _with_sites(columns: Columns, there: Sequence[str], sites: Sequence[str]) -> Columns:
    """The columns of a tally with sites in another order."""
    at = {site: i for i, site in enumerate(sites)}
    return {**columns, SITE: np.array([at[site] for site in there], np.int64)[columns[SITE]]}


def _numbered(columns: Columns, names: Sequence[str]) -> np.ndarray:
    """One number for each combination of the named site, day and hour, in their order."""
    number = np.zeros(len(columns[SITE]), np.int64)
    for name, span in ((SITE, 1), (DAY, 4_000_000), (HOUR, 25)):  # days end with the year 9999
        number = number * span + (columns[name] + 1 if name in names else 0)
    return number


def _distinct(groups: np.ndarray, of: np.ndarray, n: int) -> np.ndarray:
    """The number of different values in each group."""
    values, which = np.unique(of, return_inverse=True)
    pairs = np.unique(groups * len(values) + which)
    return np.bincount(pairs // max(len(values), 1), minlength=n)


def check_suffix(path: Path) -> None:
    """Refuse any file but CSV and Parquet."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: a summary is written as .csv or .parquet; end its name with one of these")


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
    schema = arrow.schema([arrow.field(name, types[name]) for name in (*summary.by, "class", *NUMBERS)])
    listed = [
        {key: writable(value) if isinstance(value, str) else value for key, value in r.items()} for r in summary.rows()
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
