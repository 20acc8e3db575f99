"""What was listened to and what was found, recording by recording and hour by hour: all that a summary counts."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import numpy as np

from outlark.commands.summary.clock_hours import TIME_UNKNOWN, Clock, ClockHour
from outlark.errors import InputError
from outlark.verdict_names import AMBIGUOUS, KNOWN, REST, UNKNOWN


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
