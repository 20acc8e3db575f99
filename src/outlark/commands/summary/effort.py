"""Recording effort and notes for each recording and hour: all that a summary counts.

Time is cut at every quarter of an hour of UTC, or of the recorder's clock if its zone is unknown: every zone differs
from UTC by whole quarters and changes its clocks at one, so a quarter always lies within one hour of the day. The hour
that summer time repeats in autumn can thus hold two hours of one recorder, and the one it skips in spring none.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from outlark.audio.header import CLOCK_TOLERANCE
from outlark.errors import InputError
from outlark.segments import AMBIGUOUS, KNOWN, REST, UNKNOWN

QUARTER_US = 900 * 10**6
_EPOCH = datetime(1970, 1, 1)


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


#: Columns of a tally: recording, site and class are numbers, in order of appearance.
EFFORT = ("recording", "site", "day", "hour")
FOUND = (*EFFORT, "class", "known", "ambiguous")


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

    def effort(self) -> dict[str, np.ndarray]:
        """The effort, as columns: recording and site by number, day and hour (-1: time unknown), hours."""
        return {**_columns(EFFORT, self._effort), "hours": np.array(self._hours)}

    def found(self) -> dict[str, np.ndarray]:
        """The notes, as such columns with the class by number, and the numbers of known and ambiguous notes.

        Unknown sounds are "known" notes of the class "(unknown)".
        """
        return _columns(FOUND, self._found)


def _columns(names: Sequence[str], values: array) -> dict[str, np.ndarray]:
    return dict(zip(names, np.array(values, np.int64).reshape(-1, len(names)).T, strict=True))
