"""One page about a season: notes per hour by day, by hour of the day and by site, with the recording effort.

Light means few and dark means many, in one order of lightness that works for colour-blind readers and in greyscale.
Hatched areas were not recorded, which is not the same as no notes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from outlark.commands.figures import TINY_FONT, plain_axis
from outlark.commands.summary import days_in_words
from outlark.commands.tally import Summary, Tally, summarise
from outlark.errors import InputError
from outlark.plain_text import number_of, visible
from outlark.segments import AMBIGUOUS, KNOWN, REST, UNKNOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure, SubFigure

#: Of more classes, only those with most notes are shown, and the foot says so.
CLASSES_SHOWN = 15
#: Inches.
PAGE_WIDTH, FOOT = 8.0, 0.25
Panel = tuple[str, float, Callable[["SubFigure"], None]]


def summary_figure(
    tally: Tally,
    classes: Sequence[str] | None = None,
    confidence: float = 0.95,
    verdicts: Sequence[str] = (KNOWN, AMBIGUOUS, UNKNOWN),
    clock: str = "the recorders' clocks",
) -> "Figure":
    """Plot days and hours of the day, if any start time is known, and sites.

    `classes`, `confidence` and `verdicts` are as for `summarise`; `clock` says whose hours these are.

    >>> from datetime import datetime
    >>> from outlark.commands.tally import AnalysedRecording, Notes
    >>> tally = Tally()
    >>> at = AnalysedRecording(recording="a.wav", site="pond", began=datetime(2023, 10, 24, 5), seconds=1800.0)
    >>> tally.add(at, Notes(["song"], ["known"], [1.0]))
    >>> print(*(part.get_suptitle() for part in summary_figure(tally).subfigs), sep="\\n")
    Notes per hour by day, 2023-10-24
    Notes per hour by hour of the day (the recorders' clocks)
    Notes per hour by site, with 95 % Poisson intervals
    """
    from matplotlib.figure import Figure

    if not tally.recordings:
        raise InputError("there is no recording to plot; check which recordings failed")
    summarised = partial(summarise, classes=classes, confidence=confidence, verdicts=verdicts)
    shown, foot = _shown(summarised(tally, ["class"]))
    parts = _parts(tally, partial(summarised, classes=shown), clock)
    figure = Figure(figsize=(PAGE_WIDTH, sum(height for _, height, _ in parts) + FOOT), layout="constrained")
    pieces = figure.subfigures(len(parts), 1, height_ratios=[height for _, height, _ in parts], squeeze=False)[:, 0]
    for piece, (title, _, draw) in zip(pieces, parts, strict=True):
        piece.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
        draw(piece)
    foot += _about_time(tally)
    if foot:
        figure.supxlabel("; ".join(foot), fontsize=8, x=0.02, ha="left", color="#444444")
    return figure


def _shown(whole: Summary) -> tuple[list[str], list[str]]:
    """The classes to show, and what the foot says about the others."""
    names = [name for name in whole.classes if name != REST]
    if len(names) <= CLASSES_SHOWN:
        return names, []
    most = sorted(range(len(names)), key=lambda i: -whole.notes[0, i])[:CLASSES_SHOWN]
    return [names[i] for i in sorted(most)], [f"the {CLASSES_SHOWN} classes with most notes, of {len(names)}"]


def _parts(tally: Tally, summarised: Callable[..., Summary], clock: str) -> list[Panel]:
    """Title, height and drawing function of each part of the page."""
    parts: list[Panel] = []
    days = tally.effort()["day"]
    if (days >= 0).any():
        strips = {
            f"Notes per hour by day, {days_in_words(days[days >= 0])}": days_of(summarised(tally, ["class", "day"])),
            f"Notes per hour by hour of the day ({clock})": hours_of(summarised(tally, ["class", "hour"])),
        }
        parts += [(title, strip.height, partial(draw_strip, strip=strip)) for title, strip in strips.items()]
    sites = summarised(tally, ["class", "site"])
    title = f"Notes per hour by site, with {100 * sites.confidence:g} % Poisson intervals"
    return [*parts, (title, _sites_height(sites), partial(_draw_sites, summary=sites))]


def _about_time(tally: Tally) -> list[str]:
    """What the foot says about days and hours."""
    n = int(np.count_nonzero(tally.effort()["day"] < 0))  # each has one row of effort
    unknown = [f"days and hours omit {number_of(n, 'recording')} without a known start time"] if n else []
    return unknown if n == len(tally.recordings) else ["hatched: not recorded", *unknown]


#: Inches: height of a row of the heat map, of the bars above and below, and of the margins.
ROW, BARS, AROUND = 0.3, 0.5, 1.15
COLOUR_MAP, EFFORT_COLOUR, UNKNOWN_COLOUR = "YlGnBu", "#9aa0a8", "#5f6670"
#: Cells with less than this share of the usual effort do not set the colour scale: a note in a minute is 60 per hour.
SCANT = 0.1
#: Up to this many columns, cells have white borders.
BORDERED = 62


@dataclass(frozen=True)
class Strip:
    """Effort, classes and unknown sounds over days or hours, with the edges of the columns."""

    edges: np.ndarray
    hours: np.ndarray
    rates: np.ndarray
    classes: tuple[str, ...]
    unknown: np.ndarray | None
    dates: bool

    @property
    def heights(self) -> list[float]:
        """Heights of the panels in inches."""
        heat = ROW * max(len(self.classes), 2)
        return [BARS, heat, BARS] if self.unknown is not None else [BARS, heat]

    @property
    def height(self) -> float:
        return AROUND + sum(self.heights)


def days_of(summary: Summary) -> Strip:
    """One column per day, from the first to the last."""
    days = summary.groups["day"]
    first, last = int(days[days >= 0].min()), int(days.max())
    return _strip(summary, days - first, last - first + 1, first, dates=True)


def hours_of(summary: Summary) -> Strip:
    """One column per hour of the day."""
    return _strip(summary, summary.groups["hour"], 24, 0, dates=False)


def _strip(summary: Summary, at: np.ndarray, n: int, first: int, *, dates: bool) -> Strip:
    """One column per day or hour, including those without effort; without unknown times."""
    timed = (next(iter(summary.groups.values())) >= 0) & (summary.hours > 0)
    hours, rates = np.zeros(n), np.full((len(summary.classes), n), np.nan)
    hours[at[timed]] = summary.hours[timed]
    rates[:, at[timed]] = summary.rates[timed].T
    rest = summary.classes[-1:] == (REST,)
    kept = len(summary.classes) - rest
    edges = first + np.arange(n + 1, dtype=float)
    return Strip(edges, hours, rates[:kept], summary.classes[:kept], rates[-1] if rest else None, dates)


def draw_strip(piece: "SubFigure", strip: Strip) -> None:
    """Effort above, classes as a heat map, unknown sounds below."""
    axes = piece.subplots(len(strip.heights), 1, sharex=True, height_ratios=strip.heights)
    _bars(axes[0], strip.edges, strip.hours, "hours\nrecorded", EFFORT_COLOUR)
    _heat(piece, axes[1], strip)
    if strip.unknown is not None:
        _bars(axes[2], strip.edges, np.nan_to_num(strip.unknown), "unknown\nper hour", UNKNOWN_COLOUR)
        piece.align_ylabels([axes[0], axes[2]])
    _time_axis(axes[-1], strip.edges, dates=strip.dates)
    for axis in axes[:-1]:
        axis.tick_params(labelbottom=False)


def _bars(axis: "Axes", edges: np.ndarray, values: np.ndarray, name: str, colour: str) -> None:
    axis.stairs(values, edges, fill=True, color=colour, lw=0)
    axis.set_ylim(0, max(float(values.max()) * 1.08, 1e-9))
    axis.set_ylabel(name, fontsize=TINY_FONT, rotation=0, ha="right", va="center")
    axis.tick_params(labelsize=TINY_FONT)
    axis.yaxis.set_major_locator(ticks(2))
    plain_axis(axis)


def ticks(n: int) -> Any:
    """A locator of at most n + 1 round numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(n)


def _heat(piece: "SubFigure", axis: "Axes", strip: Strip) -> None:
    from matplotlib.colors import PowerNorm

    edges, (top, more) = strip.edges, scale(strip.rates, strip.hours)
    rows = np.arange(len(strip.classes) + 1)
    lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.6} if len(edges) <= BORDERED else {}
    shown = axis.pcolormesh(
        edges, rows, np.ma.masked_invalid(strip.rates), cmap=COLOUR_MAP, norm=PowerNorm(0.5, 0, top), **lines
    )
    axis.patch.set(hatch="//////", edgecolor="#c8ccd2", facecolor="white")
    axis.set_ylim(len(strip.classes), 0)
    axis.set_yticks(rows[:-1] + 0.5, [visible(name) for name in strip.classes], fontsize=TINY_FONT, parse_math=False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=TINY_FONT)
    aspect = max(6.0, 2.2 * len(strip.classes))
    _key(piece.colorbar(shown, ax=axis, pad=0.01, fraction=0.05, aspect=aspect, extend=more))


def _key(bar: "Colorbar") -> None:
    bar.ax.tick_params(labelsize=TINY_FONT)
    bar.set_label("per hour", fontsize=TINY_FONT)
    bar.locator = ticks(3)
    bar.update_ticks()


def scale(rates: np.ndarray, hours: np.ndarray) -> tuple[float, str]:
    """The rate of the darkest colour, and whether some exceed it."""
    enough = hours >= SCANT * np.median(hours[hours > 0])
    top = float(np.nanmax(rates[:, enough], initial=0.0))
    above = float(np.nanmax(rates, initial=0.0)) > top
    return (top or 1.0), "max" if above else "neither"


def _time_axis(axis: "Axes", edges: np.ndarray, *, dates: bool) -> None:
    axis.set_xlim(edges[0], edges[-1])
    axis.tick_params(labelsize=TINY_FONT)
    if not dates:
        axis.set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
        return
    days = [date.fromordinal(int(edge)) for edge in edges[:-1]]
    step = next((step for step in (1, 2, 7, 14) if len(days) <= 9 * step), 0)
    shown = days[::step] if step else [day for day in days if day.day == 1 and (len(days) < 400 or day.month % 3 == 1)]
    axis.set_xticks([day.toordinal() + 0.5 for day in shown], [f"{day.day} {day:%b}" for day in shown])


#: Panels of dots in a row.
PANELS_ACROSS = 4
#: Inches: height of a site, and of the margins.
SITE_ROW, SITE_AROUND = 0.2, 0.8
DOT = "#1d4e89"


def _sites_height(summary: Summary) -> float:
    """Height of all panels in inches."""
    n_rows = math.ceil(len(summary.classes) / PANELS_ACROSS)
    return n_rows * (SITE_AROUND + SITE_ROW * len(summary.hours)) + 0.4


def _draw_sites(piece: "SubFigure", summary: Summary) -> None:
    """One panel per class: a dot for the rate at each site, and a line for its interval."""
    across = min(PANELS_ACROSS, len(summary.classes))
    axes = piece.subplots(math.ceil(len(summary.classes) / across), across, squeeze=False, sharey=True)
    rates, (low, high) = summary.rates, summary.rate_intervals
    for axis in axes.flat[len(summary.classes) :]:
        axis.set_visible(False)
    for j, (axis, label) in enumerate(zip(axes.flat, summary.classes, strict=False)):
        whiskers = np.clip([rates[:, j] - low[:, j], high[:, j] - rates[:, j]], 0.0, None)
        colour = UNKNOWN_COLOUR if label == REST else DOT
        axis.errorbar(
            rates[:, j], range(len(rates)), xerr=whiskers, fmt="o", ms=4, lw=1.3, capsize=2, color=colour, zorder=3
        )
        axis.set_title(visible(label), fontsize=TINY_FONT + 1, parse_math=False)
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(ticks(3))
        axis.grid(color="#e3e6ea", lw=0.8)
        axis.tick_params(labelsize=TINY_FONT)
        axis.set_axisbelow(True)
        plain_axis(axis)
    labelled = zip(summary.groups["site"], summary.hours, strict=True)
    names = [f"{visible(str(site))} ({hours:.3g} h)" for site, hours in labelled]
    axes[0, 0].set_yticks(range(len(names)), names, fontsize=TINY_FONT, parse_math=False)
    axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
