"""Recording effort and notes by class, site, day and hour: counts, rates and exact confidence intervals.

Time is cut at every quarter of an hour of UTC, or of the recorder's clock if its zone is unknown: every zone differs
from UTC by whole quarters and changes its clocks at one, so a quarter always lies within one hour of the day. The hour
that summer time repeats in autumn can thus hold two hours of one recorder, and the one it skips in spring none.
"""

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaincinv

from outlark.annotations.files import comma_line, decimal, encoded, guarded, needed, write_bytes, written
from outlark.audio.header import CLOCK_TOLERANCE
from outlark.errors import InputError
from outlark.plain_text import writable
from outlark.segments import AMBIGUOUS, KNOWN, REST, UNKNOWN

QUARTER_US = 900 * 10**6
_EPOCH = datetime(1970, 1, 1)
Interval = tuple[np.ndarray, np.ndarray]
Columns = dict[str, np.ndarray]


class ClockHour(NamedTuple):
    """The day as an ordinal (`datetime.date.toordinal`), and the hour from 0 to 23; -1 if the time is unknown."""

    day: int
    hour: int


@dataclass(frozen=True, kw_only=True)
class AnalysedRecording:
    """A recording that was analysed: `began` is the time of its first sample, with a zone only if it is known;
    `seconds` of the file were analysed, and `expansion` of them make one second of real time. Of these, the first
    `covered_s` do not count, because other recordings of the site cover them.

    >>> began = datetime(2023, 10, 24, 23, 50)
    >>> analysed = AnalysedRecording(recording="a.wav", site="pond", began=began, seconds=1800.0)
    >>> [(str(datetime.fromordinal(at.day).date()), at.hour, hours) for at, hours in analysed.hours().items()]
    [('2023-10-24', 23, 0.16666666666666666), ('2023-10-25', 0, 0.3333333333333333)]
    """

    recording: str
    site: str
    began: datetime | None
    seconds: float
    expansion: float = 1.0
    covered_s: float = 0.0

    def hours(self, zone: tzinfo | None = None) -> dict[ClockHour, float]:
        """The hours of recording in each clock hour, in this zone or else in that of `began`."""
        if self.began is None:
            return {ClockHour(-1, -1): self.seconds / self.expansion / 3600.0}
        first, last = (self._clock_us(self.began, at_s) for at_s in (self.covered_s, self.seconds))
        found: dict[ClockHour, float] = {}
        for quarter in range(first // QUARTER_US, -(-last // QUARTER_US)):
            start, end = max(first, quarter * QUARTER_US), min(last, (quarter + 1) * QUARTER_US)
            at = _clock_hour(quarter, self.began.tzinfo and (zone or self.began.tzinfo))
            found[at] = found.get(at, 0.0) + (end - start) / 3.6e9
        return found

    def hour_at(self, time_s: float, zone: tzinfo | None = None) -> ClockHour:
        """The clock hour of a time in the file."""
        if self.began is None:
            return ClockHour(-1, -1)
        quarter = self._clock_us(self.began, time_s) // QUARTER_US
        return _clock_hour(quarter, self.began.tzinfo and (zone or self.began.tzinfo))

    def _clock_us(self, began: datetime, time_s: float) -> int:
        return _microseconds(began) + round(time_s / self.expansion * 1e6)


def counted_once(analysed: Iterable[AnalysedRecording]) -> tuple[list[AnalysedRecording], dict[str, float]]:
    """The recordings, each without the time that earlier ones of its site cover; and how many seconds that are.

    Recordings that are covered as a whole are left out. Clocks are compared only if both have a zone, or neither has.
    A few seconds, as files that follow each other may share, do not matter.

    >>> began = datetime(2024, 5, 11, 5)
    >>> one = AnalysedRecording(recording="a.wav", site="pond", began=began, seconds=600.0)
    >>> later = replace(one, recording="b.wav", began=began.replace(minute=5))
    >>> whole, shared = counted_once([later, one, replace(one, recording="copy.wav")])
    >>> [(of.recording, of.covered_s) for of in whole], shared
    ([('b.wav', 300.0), ('a.wav', 0.0)], {'copy.wav': 600.0, 'b.wav': 300.0})
    """
    recordings = list(analysed)
    of_site: dict[tuple[str, bool], list[tuple[int, str, AnalysedRecording]]] = defaultdict(list)
    for one in recordings:
        if one.began is not None:
            of_site[one.site, one.began.tzinfo is None].append((_microseconds(one.began), one.recording, one))
    shared: dict[str, float] = {}
    for timed in of_site.values():
        until = None
        for first, name, one in sorted(timed, key=lambda found: found[:2]):
            end = first + round(one.seconds / one.expansion * 1e6)
            common = 0 if until is None else min(until, end) - first
            if common > CLOCK_TOLERANCE.total_seconds() * 1e6:
                shared[name] = common / 1e6 * one.expansion
            until = end if until is None else max(until, end)
    kept = [replace(one, covered_s=shared.get(one.recording, 0.0)) for one in recordings]
    return [one for one in kept if one.covered_s < one.seconds or not one.covered_s], shared


def _microseconds(began: datetime) -> int:
    """Since 1970, in UTC or by a clock of unknown zone."""
    local = began if began.tzinfo is None else began.astimezone(UTC).replace(tzinfo=None)
    return (local - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=2**16)
def _clock_hour(quarter: int, zone: tzinfo | None) -> ClockHour:
    at = _EPOCH + timedelta(microseconds=quarter * QUARTER_US)
    local = at if zone is None else at.replace(tzinfo=UTC).astimezone(zone)
    return ClockHour(local.toordinal(), local.hour)


class Notes(NamedTuple):
    """The detections in one recording: labels or None, verdicts, and onsets in seconds of the file."""

    labels: Sequence[str | None]
    verdicts: Sequence[str]
    starts_s: Sequence[float]


EFFORT_COLUMNS = ("recording", "site", "day", "hour")
NOTE_COLUMNS = (*EFFORT_COLUMNS, "class", "known", "ambiguous")


class Tally:
    """Hours of recording and notes, for each recording and clock hour.

    `zone` is the zone of days and hours, for recordings whose own is known; by default that of each recorder.
    Recordings, sites and classes are in order of appearance.

    >>> tally = Tally()
    >>> began = datetime(2023, 10, 24, 23, 50)
    >>> recording = AnalysedRecording(recording="a.wav", site="pond", began=began, seconds=1800.0)
    >>> tally.add(recording, Notes(["song", None], ["known", "unknown"], [599.0, 601.0]))
    >>> tally.effort()["hour"].tolist(), tally.found()["hour"].tolist(), tally.classes
    ([23, 0], [23, 0], ['song', '(unknown)'])
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self.recordings: list[str] = []
        self._sites: dict[str, int] = {}
        self._classes: dict[str, int] = {}
        self._effort, self._hours, self._found = array("q"), array("d"), array("q")

    @property
    def sites(self) -> list[str]:
        return list(self._sites)

    @property
    def classes(self) -> list[str]:
        return list(self._classes)

    def add(self, analysed: AnalysedRecording, notes: Notes) -> None:
        """Count a recording and its detections, if any."""
        self.add_notes(self.add_effort(analysed), analysed, notes)

    def add_effort(self, analysed: AnalysedRecording) -> int:
        """Count the hours of a recording; returns its number, for `add_notes`."""
        number, site = len(self.recordings), self._sites.setdefault(analysed.site, len(self._sites))
        self.recordings.append(analysed.recording)
        for at, hours in analysed.hours(self._zone).items():
            self._effort.extend((number, site, *at))
            self._hours.append(hours)
        return number

    def add_notes(self, number: int, analysed: AnalysedRecording, notes: Notes) -> None:
        """Count detections in a recording with this number, or in a part of it."""
        counts: Counter[tuple[ClockHour, str, bool]] = Counter()
        for label, verdict, start_s in zip(*notes, strict=True):
            if verdict in (KNOWN, AMBIGUOUS, UNKNOWN) and start_s >= analysed.covered_s:
                if verdict == UNKNOWN or label is None:
                    label, verdict = REST, KNOWN
                elif label == REST:
                    raise InputError(f"a class is named {REST}, which is reserved for sounds of no class; rename it")
                counts[analysed.hour_at(start_s, self._zone), label, verdict == AMBIGUOUS] += 1
        site = self._sites[analysed.site]
        for (at, label, ambiguous), n in sorted(counts.items()):
            class_number = self._classes.setdefault(label, len(self._classes))
            self._found.extend((number, site, *at, class_number, *((0, n) if ambiguous else (n, 0))))

    def effort(self) -> Columns:
        """The effort, as columns: recording and site by number, day and hour (-1: time unknown), hours."""
        return {**_columns(EFFORT_COLUMNS, self._effort), "hours": np.array(self._hours)}

    def found(self) -> Columns:
        """The notes, as such columns with the class by number, and the numbers of known and ambiguous notes.

        Unknown sounds are "known" notes of the class "(unknown)".
        """
        return _columns(NOTE_COLUMNS, self._found)


def _columns(names: Sequence[str], values: array) -> Columns:
    return dict(zip(names, np.array(values, np.int64).reshape(-1, len(names)).T, strict=True))


# ------------------------------------------------------------------- intervals


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


# --------------------------------------------------------------------- summary

#: What can be counted by, in the order of the columns.
GROUPINGS = ("class", "site", "day", "hour")
ALL_CLASSES = "(known)"
#: Day and hour of recordings without a known start time.
TIME_UNKNOWN = "time unknown"
UNITS = ("recordings", "clock_hours")
#: Numeric columns and their types.
NUMBER_COLUMNS: dict[str, type] = {
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


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Counts for groups of recordings: by group (hours, recordings, clock_hours), or by group and class.

    `groups` has for each of "site", "day" and "hour" that define the groups its value in each group: names of sites;
    ordinals of days, and hours, -1 for "time unknown". The last of `classes` is "(unknown)", for sounds of no class, if
    they were written. `hours` are the effort. A clock hour is an hour of a day at a site; those `_with` a class are
    those in which a note of it starts. `verdicts` are those that the annotation files contain.
    """

    groups: Columns
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
        return _share(self.notes, self.hours)

    @property
    def rate_intervals(self) -> Interval:
        return rate_interval(self.notes, self.hours[:, np.newaxis], self.confidence)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each group and class, sorted; None if undefined or not written."""
        values: Columns = {"notes": self.notes, "ambiguous": self.ambiguous, "per_hour": self.rates}
        values["per_hour_low"], values["per_hour_high"] = self.rate_intervals
        for unit in UNITS:
            counts, totals = getattr(self, f"{unit}_with"), getattr(self, unit)
            low, high = share_interval(counts, totals[:, np.newaxis], self.confidence)
            values |= {f"{unit}_with": counts, f"{unit}_share": _share(counts, totals)}
            values |= {f"{unit}_share_low": low, f"{unit}_share_high": high}
        for i in range(len(self.hours)):
            group = {name: _group_value(name, column[i]) for name, column in self.groups.items()}
            shared = {name: getattr(self, name)[i] for name in ("hours", *UNITS)}
            for j, label in enumerate(self.classes):
                numbers = {**shared, **{name: value[i, j] for name, value in values.items()}}
                if label == REST or AMBIGUOUS not in self.verdicts:
                    numbers["ambiguous"] = None
                plain = {name: _plain(numbers[name], kind) for name, kind in NUMBER_COLUMNS.items()}
                yield {**group, "class": label, **plain}

    def write(self, path: Path) -> None:
        """Write the rows as CSV or Parquet, by suffix; completely or not at all."""
        check_suffix(path)
        names = [*self.groups, "class", *NUMBER_COLUMNS]
        if path.suffix.lower() == ".csv":
            lines = ([_cell(name, value) for name, value in row.items()] for row in self.rows())
            write_bytes(path, encoded("".join(map(comma_line, [names, *lines]))))
            return
        arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
        types = {"site": arrow.string(), "day": arrow.date32(), "hour": arrow.int64(), "class": arrow.string()}
        types |= {name: arrow.float64() if kind is float else arrow.int64() for name, kind in NUMBER_COLUMNS.items()}
        rows = [
            {key: writable(cell) if isinstance(cell, str) else cell for key, cell in row.items()} for row in self.rows()
        ]
        schema = arrow.schema([arrow.field(name, types[name]) for name in names])
        with written(path) as file:
            parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), file)


def summarise(
    tally: Tally,
    by: Sequence[str] = ("class", "site"),
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
    verdicts: Sequence[str] = (KNOWN, AMBIGUOUS, UNKNOWN),
) -> Summary:
    """Count by class, site, day and hour; by default all classes. The annotation files contain these `verdicts`.

    >>> tally = Tally()
    >>> for hour in (4, 5):
    ...     began = datetime(2023, 10, 24, hour)
    ...     at = AnalysedRecording(recording=f"{hour}", site="pond", began=began, seconds=1800.0)
    ...     tally.add(at, Notes(["song"] * hour, ["known"] * hour, [0.5] * hour))
    >>> found = summarise(tally, ["class", "hour"])
    >>> found.groups["hour"].tolist(), found.classes, found.rates.tolist()
    ([4, 5], ('song', '(unknown)'), [[8.0, 0.0], [10.0, 0.0]])
    """
    sites = sorted(tally.sites, key=natural)
    names = sorted(set(tally.classes) - {REST}, key=natural) if classes is None else list(dict.fromkeys(classes))
    shown = (*(names if "class" in by else (ALL_CLASSES,)), *((REST,) if UNKNOWN in verdicts else ()))
    effort, found = tally.effort(), tally.found()
    for columns in (effort, found):  # numbers of sites in the order of their names
        columns["site"] = np.array([sites.index(site) for site in tally.sites], np.int64)[columns["site"]]
    column_of = {name: j if "class" in by else 0 for j, name in enumerate(names)}
    column_of[REST] = shown.index(REST) if REST in shown else -1
    found["class"] = np.array([column_of.get(name, -1) for name in tally.classes], np.int64)[found["class"]]
    found = {name: column[found["class"] >= 0] for name, column in found.items()}
    both = {name: np.concatenate([effort[name], found[name]]) for name in GROUPINGS[1:]}
    apart = [name for name in GROUPINGS[1:] if name in by]
    _, first, which = np.unique(_numbered(both, apart), return_index=True, return_inverse=True)
    groups = {name: both[name][first] for name in apart}
    if "site" in groups:
        groups["site"] = np.array(sites, dtype=object)[groups["site"]]
    of_effort, of_found = np.split(which, [len(effort["hours"])])
    counts = _counted(of_effort, effort, of_found, found, (len(first), len(shown)))
    return Summary(groups=groups, classes=shown, confidence=confidence, verdicts=tuple(verdicts), **counts)


def _counted(
    of_effort: np.ndarray, effort: Columns, of_found: np.ndarray, found: Columns, shape: tuple[int, int]
) -> dict[str, Any]:
    """The counts of a summary, from columns and the number of the group of each row."""
    n, size = shape[0], shape[0] * shape[1]
    cells = of_found * shape[1] + found["class"]
    heard, known = effort["day"] >= 0, found["known"] > 0
    timed = known & (found["day"] >= 0)
    hour_of_effort, hour_of_found = (_numbered(columns, GROUPINGS[1:]) for columns in (effort, found))
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


def _numbered(columns: Columns, names: Sequence[str]) -> np.ndarray:
    """One number for each combination of the named site, day and hour, in their order."""
    number = np.zeros(len(columns["site"]), np.int64)
    for name, span in (("site", 1), ("day", 4_000_000), ("hour", 25)):  # days end with the year 9999
        number = number * span + (columns[name] + 1 if name in names else 0)
    return number


def _distinct(groups: np.ndarray, of: np.ndarray, n: int) -> np.ndarray:
    """The number of different values in each group."""
    values, which = np.unique(of, return_inverse=True)
    pairs = np.unique(groups * len(values) + which)
    return np.bincount(pairs // max(len(values), 1), minlength=n)


def _share(counts: np.ndarray, totals: np.ndarray) -> np.ndarray:
    whole = totals[:, np.newaxis]
    return np.divide(counts, whole, out=np.full(counts.shape, np.nan), where=whole > 0)


def check_suffix(path: Path) -> None:
    """Refuse any file but CSV and Parquet."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: a summary is written as .csv or .parquet; end its name with one of these")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return TIME_UNKNOWN if name in ("day", "hour") else ""
    if isinstance(value, float):
        return decimal(value, 6)
    return guarded(value) if isinstance(value, str) else str(value)


def _group_value(name: str, value: Any) -> Any:
    if name == "site":
        return value
    if value < 0:
        return None
    return date.fromordinal(int(value)) if name == "day" else int(value)


def _plain(value: Any, kind: type) -> Any:
    return None if value is None or (kind is float and math.isnan(value)) else kind(value)
