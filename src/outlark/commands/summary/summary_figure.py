"""One page about a season: notes per hour by day, by hour of the day and by site, with the effort behind them."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from outlark.commands.summary.summary import CLASS, DAY, HOUR, SITE, SOUND, Summary, summarise
from outlark.commands.summary.summary_site_panels import draw_sites, sites_height, sites_title
from outlark.commands.summary.summary_time_panels import days_of, draw_strip, hours_of
from outlark.commands.summary.tally import Tally
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.verdict_names import REST

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

#: What fits on a page; of more classes, those with most notes are drawn, and the foot says so.
MOST_CLASSES = 15
#: Inches.
WIDTH, FOOT = 8.0, 0.25
Part = tuple[str, float, Callable[["SubFigure"], None]]


def summary_figure(
    tally: Tally,
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
    verdicts: Sequence[str] = SOUND,
    clock: str = "the recorders' clocks",
) -> "Figure":
    """Draw days, hours of the day and sites.

    Parameters
    ----------
    tally : Tally
    classes, confidence, verdicts
        As in `summarise`.
    clock : str
        Whose hours these are, for the title.

    Returns
    -------
    matplotlib.figure.Figure
        For `outlark.commands.plot.figure.save`. Days and hours are absent if no recording has a known start.

    Raises
    ------
    InputError
        For a tally without recordings.

    Examples
    --------
    >>> from datetime import datetime
    >>> from outlark.commands.summary.tally import Listened, Notes
    >>> tally = Tally()
    >>> at = Listened(recording="a.wav", site="pond", began=datetime(2023, 10, 24, 5), seconds=1800.0)
    >>> tally.add(at, Notes(["song"], ["known"], [1.0]))
    >>> print(*(part.get_suptitle() for part in summary_figure(tally).subfigs), sep="\\n")
    Notes per hour by day, 2023-10-24 to 2023-10-24
    Notes per hour by hour of the day (the recorders' clocks)
    Notes per hour by site, with 95 % Poisson intervals
    """
    from matplotlib.figure import Figure

    if not tally.recordings:
        raise InputError("there is no recording to draw; see which recordings failed")
    summarised = partial(summarise, classes=classes, confidence=confidence, verdicts=verdicts)
    shown, foot = _shown(summarised(tally, [CLASS]))
    parts = _parts(tally, partial(summarised, classes=shown), clock)
    figure = Figure(figsize=(WIDTH, sum(height for _, height, _ in parts) + FOOT), layout="constrained")
    pieces = figure.subfigures(len(parts), 1, height_ratios=[height for _, height, _ in parts], squeeze=False)[:, 0]
    for piece, (title, _, draw) in zip(pieces, parts, strict=True):
        piece.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
        draw(piece)
    foot += _about_time(tally)
    if foot:
        figure.supxlabel("; ".join(foot), fontsize=8, x=0.02, ha="left", color="#444444")
    return figure


def _shown(whole: Summary) -> tuple[list[str], list[str]]:
    """The classes to draw, in their order, and what the foot says of the others."""
    names = [name for name in whole.classes if name != REST]
    if len(names) <= MOST_CLASSES:
        return names, []
    most = sorted(range(len(names)), key=lambda i: -whole.notes[0, i])[:MOST_CLASSES]
    return [names[i] for i in sorted(most)], [f"the {MOST_CLASSES} classes with most notes, of {len(names)}"]


def _parts(tally: Tally, summarised: Callable[..., Summary], clock: str) -> list[Part]:
    """Title, height and what draws it, for each part of the page."""
    parts: list[Part] = []
    days = tally.effort()["day"]
    if (days >= 0).any():
        first, last = (date.fromordinal(int(day)) for day in (days[days >= 0].min(), days.max()))
        strips = {
            f"Notes per hour by day, {first} to {last}": days_of(summarised(tally, [CLASS, DAY])),
            f"Notes per hour by hour of the day ({clock})": hours_of(summarised(tally, [CLASS, HOUR])),
        }
        parts += [(title, strip.height, partial(draw_strip, strip=strip)) for title, strip in strips.items()]
    sites = summarised(tally, [CLASS, SITE])
    return [*parts, (sites_title(sites), sites_height(sites), partial(draw_sites, summary=sites))]


def _about_time(tally: Tally) -> list[str]:
    """What the foot says of days and hours."""
    n = int(np.count_nonzero(tally.effort()["day"] < 0))  # each has one row of effort
    unknown = [f"days and hours without {number_of(n, 'recording')} whose start is not known"] if n else []
    return unknown if n == len(tally.recordings) else ["hatched: not listened", *unknown]
