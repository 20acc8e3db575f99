"""Counts, effort and rates of a tally, by site, day and hour."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outlark.field.intervals import Interval, rate_interval, share_interval
from outlark.field.tally import Tally
from outlark.verdict_names import AMBIGUOUS, KNOWN, REST, UNKNOWN

CLASS, SITE, DAY, HOUR = "class", "site", "day", "hour"
BY = (CLASS, SITE, DAY, HOUR)
SOUND = (KNOWN, AMBIGUOUS, UNKNOWN)
#: What stands for all classes where they are counted together.
ALL = "(known)"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Groups by site, day and hour, as far as they are asked for; counts with a row for each group.

    Attributes
    ----------
    by : tuple of str
        Of "site", "day" and "hour", those that tell the groups apart.
    groups : dict of str to array
        For each of `by`, its value in each group: names of sites; days as ordinals, and hours, -1 for "time unknown".
    classes : tuple of str
        Names of the columns of counts; the last is "(unknown)", for sounds of no class, if they were written.
    hours : array (groups,)
        Listened: recorder-hours.
    notes, ambiguous : array (groups, classes)
    recordings, clock_hours : array (groups,)
        That were listened to, at least in part. A clock hour is an hour of a day at a site.
    recordings_with, clock_hours_with : array (groups, classes)
        Of these, those in which a note of the class begins.
    confidence : float
        Of the intervals.
    verdicts : tuple of str
        Those that the tables hold. Without "unknown", there is no column for sounds of no class; without "ambiguous",
        zeros there say nothing.
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
        """Notes per hour; nan where nothing was listened to."""
        hours = self.hours[:, np.newaxis]
        return np.divide(self.notes, hours, out=np.full(self.notes.shape, np.nan), where=hours > 0)

    @property
    def rate_intervals(self) -> Interval:
        return rate_interval(self.notes, self.hours[:, np.newaxis], self.confidence)

    def shares(self, unit: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The share of "recordings" or "clock_hours" with a note, and the limits of its interval."""
        counts, totals = getattr(self, f"{unit}_with"), getattr(self, unit)[:, np.newaxis]
        share = np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)
        return share, *share_interval(counts, totals, self.confidence)


def summarise(
    tally: Tally,
    by: Sequence[str] = (CLASS, SITE),
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
    verdicts: Sequence[str] = SOUND,
) -> Summary:
    """Count what a tally holds.

    Parameters
    ----------
    tally : Tally
    by : sequence of "class", "site", "day" and "hour"
        What to count apart.
    classes : sequence of str, optional
        Count these only. Without it: all that were found, by name.
    confidence : float
        Of the intervals.
    verdicts : sequence of "known", "ambiguous" and "unknown"
        What the tables hold.

    Examples
    --------
    >>> from datetime import datetime
    >>> from outlark.field.tally import Listened, Notes
    >>> tally = Tally()
    >>> for hour in (4, 5):
    ...     at = Listened(recording=f"{hour}", site="pond", began=datetime(2023, 10, 24, hour), seconds=1800.0)
    ...     tally.add(at, Notes(["song"] * hour, ["known"] * hour, [0.5] * hour))
    >>> found = summarise(tally, ["class", "hour"])
    >>> found.groups["hour"].tolist(), found.classes, found.rates.tolist()
    ([4, 5], ('song', '(unknown)'), [[8.0, 0.0], [10.0, 0.0]])
    """
    apart = tuple(name for name in (SITE, DAY, HOUR) if name in by)
    effort, found = tally.effort(), tally.found()
    sites = sorted(tally.sites, key=natural)
    place = np.array([sites.index(site) for site in tally.sites], np.int64)
    for columns in (effort, found):
        columns["site"] = place[columns["site"]]
    names = sorted(set(tally.classes) - {REST}, key=natural) if classes is None else list(dict.fromkeys(classes))
    columns_of, shown = _columns(tally.classes, names, pooled=CLASS not in by, rest=UNKNOWN in verdicts)
    found["class"] = columns_of[found["class"]]
    found = {name: column[found["class"] >= 0] for name, column in found.items()}
    keys = np.stack([np.concatenate([effort[name], found[name]]) for name in apart] or [_zeros(effort, found)], axis=1)
    groups, which = np.unique(keys, axis=0, return_inverse=True)
    n_effort, shape = len(effort["hours"]), (len(groups), len(shown))
    of_effort, of_found = which.reshape(-1)[:n_effort], which.reshape(-1)[n_effort:]
    cells = of_found * len(shown) + found["class"]
    heard, known = effort["day"] >= 0, found["known"] > 0
    timed = known & (found["day"] >= 0)
    hour_of_effort, hour_of_found = _clock_hours(effort), _clock_hours(found)
    return Summary(
        by=apart,
        groups={name: _values(name, groups[:, i], sites) for i, name in enumerate(apart)},
        classes=shown,
        hours=np.bincount(of_effort, effort["hours"], len(groups)),
        notes=np.bincount(cells, found["known"], shape[0] * shape[1]).reshape(shape).astype(np.int64),
        ambiguous=np.bincount(cells, found["ambiguous"], shape[0] * shape[1]).reshape(shape).astype(np.int64),
        recordings=_distinct(of_effort, effort["recording"], len(groups)),
        recordings_with=_distinct(cells[known], found["recording"][known], shape[0] * shape[1]).reshape(shape),
        clock_hours=_distinct(of_effort[heard], hour_of_effort[heard], len(groups)),
        clock_hours_with=_distinct(cells[timed], hour_of_found[timed], shape[0] * shape[1]).reshape(shape),
        confidence=confidence,
        verdicts=tuple(verdicts),
    )


def natural(name: str) -> list[tuple[int, str]]:
    """A key to sort names by: numbers in them count as numbers.

    >>> sorted(["site 10", "site 9", "pond"], key=natural)
    ['pond', 'site 9', 'site 10']
    """
    return [(int(digits or -1), text) for digits, text in re.findall(r"([0-9]+)|([^0-9]+)", name)]


def _columns(
    there: Sequence[str], names: Sequence[str], *, pooled: bool, rest: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """For each class of a tally its column, -1 for none; and the names of the columns."""
    shown = (*((ALL,) if pooled else names), *((REST,) if rest else ()))
    at = {REST: len(shown) - 1 if rest else -1} | {name: 0 if pooled else i for i, name in enumerate(names)}
    return np.array([at.get(name, -1) for name in there], np.int64), shown


def _zeros(effort: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> np.ndarray:
    return np.zeros(len(effort["hours"]) + len(found["known"]), np.int64)


def _values(name: str, column: np.ndarray, sites: Sequence[str]) -> np.ndarray:
    return np.array(sites, dtype=object)[column] if name == SITE else column


def _clock_hours(columns: dict[str, np.ndarray]) -> np.ndarray:
    """One number for each site, day and hour."""
    return (columns["site"] * 4_000_000 + columns["day"]) * 24 + columns["hour"]  # days end with the year 9999


def _distinct(groups: np.ndarray, of: np.ndarray, n: int) -> np.ndarray:
    """How many different values of a column each group has."""
    pairs = np.unique(np.stack([groups, of], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=n)
