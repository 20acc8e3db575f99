"""Which hours of which days a recording covers, and in which of them a note begins.

Time is cut at every quarter of an hour of UTC, or of the recorder's clock where no zone is known: every zone differs
from UTC by whole quarters, and changes its clocks at one, so that a quarter lies in one hour of the day. The hour that
summer time repeats in autumn can thus hold two hours of one recorder, and the one that it skips in spring none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np

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
