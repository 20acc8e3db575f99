"""What was listened to and what was found, recording by recording and hour by hour: all that a summary counts."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from outlark.errors import InputError
from outlark.verdict_names import AMBIGUOUS, KNOWN, REST, UNKNOWN

QUARTER_US = 900 * 10**6
_EPOCH = datetime(1970, 1, 1)


class ClockHour(NamedTuple):
    """An hour of a day: the day as the proleptic Gregorian ordinal of `datetime.date`, the hour from 0 to 23."""

    day: int
    hour: int


#: For recordings of which nobody knows when they were made.
TIME_UNKNOWN = ClockHour(-1, -1)


@dataclass(frozen=True)
class Clock:
    """The clock of a recording.

    Attributes
    ----------
    began : datetime
        The first sample; without a zone if none is known.
    expansion : float
        How many seconds of the file one second took.
    zone : tzinfo, optional
        The zone whose days and hours count, where that of `began` is known. Without it: the zone of `began`.

    Examples
    --------
    >>> clock = Clock(datetime(2023, 10, 24, 23, 50))
    >>> [(str(datetime.fromordinal(at.day).date()), at.hour, hours) for at, hours in clock.hours(1800.0).items()]
    [('2023-10-24', 23, 0.16666666666666666), ('2023-10-25', 0, 0.3333333333333333)]
    """

    began: datetime
    expansion: float = 1.0
    zone: tzinfo | None = None

    def hours(self, seconds: float) -> Mapping[ClockHour, float]:
        """How many hours of each hour of the day so many seconds of the file cover; in order."""
        first = self._microsecond(0.0)
        last = self._microsecond(seconds)
        found: dict[ClockHour, float] = {}
        for quarter in range(first // QUARTER_US, -(-last // QUARTER_US)):
            begin, end = max(first, quarter * QUARTER_US), min(last, (quarter + 1) * QUARTER_US)
            at = self._of_quarter(quarter)
            found[at] = found.get(at, 0.0) + (end - begin) / 3.6e9
        return found

    def hours_at(self, starts_s: np.ndarray) -> tuple[list[ClockHour], np.ndarray]:
        """The hours in which so many seconds of the file lie, each once, and for each time which of them it is."""
        offsets = np.rint(np.asarray(starts_s, float) / self.expansion * 1e6).astype(np.int64)
        quarters, which = np.unique((self._microsecond(0.0) + offsets) // QUARTER_US, return_inverse=True)
        return [self._of_quarter(int(quarter)) for quarter in quarters], which

    def _microsecond(self, seconds: float) -> int:
        began = self.began if self.began.tzinfo is None else self.began.astimezone(UTC).replace(tzinfo=None)
        return (began - _EPOCH) // timedelta(microseconds=1) + round(seconds / self.expansion * 1e6)

    def _of_quarter(self, quarter: int) -> ClockHour:
        own = self.began.tzinfo
        return _clock_hour(quarter, None if own is None else self.zone or own)


@lru_cache(maxsize=2**16)
def _clock_hour(quarter: int, zone: tzinfo | None) -> ClockHour:
    at = _EPOCH + timedelta(microseconds=quarter * QUARTER_US)
    local = at if zone is None else at.replace(tzinfo=UTC).astimezone(zone)
    return ClockHour(local.toordinal(), local.hour)


@dataclass(frozen=True, kw_only=True)
class Listened:
    """A recording that was listened to.

    Attributes
    ----------
    recording : str
    site : str
    began : datetime or None
        Its first sample, with a zone only if one is known; None where nobody knows.
    seconds : float
        Of the file, as far as it was heard.
    expansion : float
        How many seconds of the file one second took.
    """

    recording: str
    site: str
    began: datetime | None
    seconds: float
    expansion: float = 1.0


@dataclass(frozen=True)
class Notes:
    """What was found in one recording: labels (None without one), verdicts, and onsets in its seconds."""

    labels: Sequence[str | None]
    verdicts: Sequence[str]
    starts_s: Sequence[float]


class Tally:
    """Hours listened and notes found, for each recording and hour of the day.

    Parameters
    ----------
    zone : tzinfo, optional
        The zone whose days and hours count, for recordings whose own is known. Without it: that of each recorder.

    Attributes
    ----------
    recordings, sites, classes : list of str
        In the order in which they came.

    Examples
    --------
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
        """Count a recording with all that was found in it, which may be nothing."""
        self.find(self.listen(listened), listened, notes)

    def listen(self, listened: Listened) -> int:
        """Count the hours of a recording; its number, for `find`."""
        number, site = len(self.recordings), self._sites.setdefault(listened.site, len(self._sites))
        self.recordings.append(listened.recording)
        effort = {TIME_UNKNOWN: listened.seconds / listened.expansion / 3600.0}
        if listened.began is not None:
            effort = dict(Clock(listened.began, listened.expansion, self._zone).hours(listened.seconds))
        for hour, hours in effort.items():
            _append(self._effort, number, site, *hour)
            self._hours.append(hours)
        return number

    def find(self, number: int, listened: Listened, notes: Notes) -> None:
        """Count what was found in a recording of this number, or a part of it."""
        at, which = [TIME_UNKNOWN], np.zeros(len(notes.starts_s), np.int64)
        if listened.began is not None:
            clock = Clock(listened.began, listened.expansion, self._zone)
            at, which = clock.hours_at(np.asarray(notes.starts_s, float))
        self._count(number, self._sites[listened.site], at, which, notes)

    def effort(self) -> dict[str, np.ndarray]:
        """The hours listened, as columns: recording and site by number, day and hour (-1: time unknown), hours."""
        return {**_columns(self._effort), "hours": np.array(self._hours)}

    def found(self) -> dict[str, np.ndarray]:
        """The notes found, as such columns with class by number and how many are known and ambiguous.

        Sounds of no class are in the class "(unknown)", as if they were known.
        """
        return _columns(self._found)

    def _count(self, number: int, site: int, at: list[ClockHour], which: np.ndarray, notes: Notes) -> None:
        counts: dict[tuple[int, str, bool], int] = {}
        for index, label, verdict in zip(which.tolist(), notes.labels, notes.verdicts, strict=True):
            if verdict in (KNOWN, AMBIGUOUS, UNKNOWN):
                if verdict == UNKNOWN or label is None:
                    label, verdict = REST, KNOWN
                elif label == REST:
                    raise InputError(f"a class is called {REST}, which stands for sounds of no class; rename it")
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
