"""Recording effort and notes for each recording and hour: all that a summary counts.

Time is cut at every quarter of an hour of UTC, or of the recorder's clock if its zone is unknown: every zone differs
from UTC by whole quarters and changes its clocks at one, so a quarter always lies within one hour of the day. The hour
that summer time repeats in autumn can thus hold two hours of one recorder, and the one it skips in spring none.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

import numpy as np

from outlark.errors import InputError
from outlark.verdict_names import AMBIGUOUS, KNOWN, REST, UNKNOWN

QUARTER_US = 900 * 10**6
_EPOCH = datetime(1970, 1, 1)


class ClockHour(NamedTuple):
    """The day as an ordinal (`datetime.date.toordinal`), and the hour from 0 to 23."""

    day: int
    hour: int


#: For recordings without a known start time.
TIME_UNKNOWN = ClockHour(-1, -1)


@dataclass(frozen=True, kw_only=True)
class Listened:
    """A recording that was analysed: `began` is the time of its first sample, with a zone only if it is known;
    `seconds` of the file were analysed, and `expansion` of them make one second of real time. Of these, the first
    `covered_s` do not count, because other recordings of the site cover them.

    >>> began = datetime(2023, 10, 24, 23, 50)
    >>> listened = Listened(recording="a.wav", site="pond", began=began, seconds=1800.0)
    >>> [(str(datetime.fromordinal(at.day).date()), at.hour, hours) for at, hours in listened.hours().items()]
    [('2023-10-24', 23, 0.16666666666666666), ('2023-10-25', 0, 0.3333333333333333)]
    """

    recording: str
    site: str
    began: datetime | None
    seconds: float
    expansion: float = 1.0
    covered_s: float = 0.0

    @property
    def first_us(self) -> int | None:
        """When it began, in microseconds since 1970 in UTC, or by its clock if the zone is unknown."""
        return None if self.began is None else _microseconds(self.began)

    def hours(self, zone: tzinfo | None = None) -> dict[ClockHour, float]:
        """The hours of recording in each clock hour, in this zone or else in that of `began`."""
        if self.began is None:
            return {TIME_UNKNOWN: self.seconds / self.expansion / 3600.0}
        first, last = (
            _microseconds(self.began) + round(at_s / self.expansion * 1e6) for at_s in (self.covered_s, self.seconds)
        )
        found: dict[ClockHour, float] = {}
        for quarter in range(first // QUARTER_US, -(-last // QUARTER_US)):
            start, end = max(first, quarter * QUARTER_US), min(last, (quarter + 1) * QUARTER_US)
            at = _clock_hour(quarter, self.began.tzinfo and (zone or self.began.tzinfo))
            found[at] = found.get(at, 0.0) + (end - start) / 3.6e9
        return found

    def hours_at(self, starts_s: Sequence[float], zone: tzinfo | None = None) -> tuple[list[ClockHour], np.ndarray]:
        """The clock hours of times in the file, each once, and the index of the hour of each time."""
        if self.began is None:
            return [TIME_UNKNOWN], np.zeros(len(starts_s), np.int64)
        offsets = np.rint(np.asarray(starts_s, float) / self.expansion * 1e6).astype(np.int64)
        quarters, which = np.unique((_microseconds(self.began) + offsets) // QUARTER_US, return_inverse=True)
        own = self.began.tzinfo and (zone or self.began.tzinfo)
        return [_clock_hour(int(quarter), own) for quarter in quarters], which


def _microseconds(began: datetime) -> int:
    """Since 1970, in UTC or by a clock of unknown zone."""
    local = began if began.tzinfo is None else began.astimezone(UTC).replace(tzinfo=None)
    return (local - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=2**16)
def _clock_hour(quarter: int, zone: tzinfo | None) -> ClockHour:
    at = _EPOCH + timedelta(microseconds=quarter * QUARTER_US)
    local = at if zone is None else at.replace(tzinfo=UTC).astimezone(zone)
    return ClockHour(local.toordinal(), local.hour)


@dataclass(frozen=True)
class Notes:
    """The detections in one recording: labels or None, verdicts, and onsets in seconds of the file."""

    labels: Sequence[str | None]
    verdicts: Sequence[str]
    starts_s: Sequence[float]


class Tally:
    """Hours of recording and notes, for each recording and clock hour.

    `zone` is the zone of days and hours, for recordings whose own is known; by default that of each recorder.
    Recordings, sites and classes are in order of appearance.

    >>> tally = Tally()
    >>> recording = Listened(recording="a.wav", site="pond", began=datetime(2023, 10, 24, 23, 50), seconds=1800.0)
    >>> tally.add(recording, Notes(["song", None], ["known", "unknown"], [599.0, 601.0]))
    >>> tally.effort()["hour"].tolist(), tally.found()["hour"].tolist(), tally.classes
    ([23, 0], [23, 0], ['song', '(unknown)'])
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self.recordings: list[str] = []
        self._sites: dict[str, int] = {}
        self._classes: dict[str, int] = {}
        self._effort = {name: array("q") for name in ("recording", "site", "day", "hour")}
        self._hours = array("d")
        self._found = {name: array("q") for name in (*self._effort, "class", "known", "ambiguous")}

    @property
    def sites(self) -> list[str]:
        return list(self._sites)

    @property
    def classes(self) -> list[str]:
        return list(self._classes)

    def add(self, listened: Listened, notes: Notes) -> None:
        """Count a recording and its detections, if any."""
        self.find(self.listen(listened), listened, notes)

    def listen(self, listened: Listened) -> int:
        """Count the hours of a recording; returns its number, for `find`."""
        number, site = len(self.recordings), self._sites.setdefault(listened.site, len(self._sites))
        self.recordings.append(listened.recording)
        for hour, hours in listened.hours(self._zone).items():
            _append(self._effort, number, site, *hour)
            self._hours.append(hours)
        return number

    def find(self, number: int, listened: Listened, notes: Notes) -> None:
        """Count detections in a recording with this number, or in a part of it."""
        if listened.covered_s:
            counts = [start_s >= listened.covered_s for start_s in notes.starts_s]
            kept = (list(compress(column, counts)) for column in (notes.labels, notes.verdicts, notes.starts_s))
            notes = Notes(*kept)  # type: ignore[arg-type]
        at, which = listened.hours_at(notes.starts_s, self._zone)
        self._count(number, self._sites[listened.site], at, which, notes)

    def effort(self) -> dict[str, np.ndarray]:
        """The effort, as columns: recording and site by number, day and hour (-1: time unknown), hours."""
        return {**_columns(self._effort), "hours": np.array(self._hours)}

    def found(self) -> dict[str, np.ndarray]:
        """The notes, as such columns with the class by number, and the numbers of known and ambiguous notes.

        Unknown sounds are "known" notes of the class "(unknown)".
        """
        return _columns(self._found)

    def _count(self, number: int, site: int, at: list[ClockHour], which: np.ndarray, notes: Notes) -> None:
        counts: dict[tuple[int, str, bool], int] = {}
        for index, label, verdict in zip(which.tolist(), notes.labels, notes.verdicts, strict=True):
            if verdict in (KNOWN, AMBIGUOUS, UNKNOWN):
                if verdict == UNKNOWN or label is None:
                    label, verdict = REST, KNOWN
                elif label == REST:
                    raise InputError(f"a class is named {REST}, which is reserved for sounds of no class; rename it")
                key = index, label, verdict == AMBIGUOUS
                counts[key] = counts.get(key, 0) + 1
        for (index, label, ambiguous), n in sorted(counts.items()):
            class_number = self._classes.setdefault(label, len(self._classes))
            _append(self._found, number, site, *at[index], class_number, *((0, n) if ambiguous else (n, 0)))


def _append(columns: dict[str, array], *values: int) -> None:
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


def _columns(columns: dict[str, array]) -> dict[str, np.ndarray]:
    return {name: np.array(column, np.int64) for name, column in columns.items()}
