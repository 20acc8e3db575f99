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

from outlark.commands.summary.effort import Tally
from outlark.commands.summary.results import days_in_words
from outlark.commands.summary.summary import CLASS, DAY, HOUR, SITE, SOUND, Summary, summarise
from outlark.errors import InputError
from outlark.plain_text import number_of, visible
from outlark.segments import REST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure, SubFigure

#: Of more classes, only those with most notes are shown, and the foot says so.
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
    """Plot days and hours of the day, if any start time is known, and sites.

    `classes`, `confidence` and `verdicts` are as for `summarise`; `clock` says whose hours these are.

    >>> from datetime import datetime
    >>> from outlark.commands.summary.effort import AnalysedRecording, Notes
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
    """The classes to show, and what the foot says about the others."""
    names = [name for name in whole.classes if name != REST]
    if len(names) <= MOST_CLASSES:
        return names, []
    most = sorted(range(len(names)), key=lambda i: -whole.notes[0, i])[:MOST_CLASSES]
    return [names[i] for i in sorted(most)], [f"the {MOST_CLASSES} classes with most notes, of {len(names)}"]


def _parts(tally: Tally, summarised: Callable[..., Summary], clock: str) -> list[Part]:
    """Title, height and drawing function of each part of the page."""
    parts: list[Part] = []
    days = tally.effort()["day"]
    if (days >= 0).any():
        strips = {
            f"Notes per hour by day, {days_in_words(days[days >= 0])}": days_of(summarised(tally, [CLASS, DAY])),
            f"Notes per hour by hour of the day ({clock})": hours_of(summarised(tally, [CLASS, HOUR])),
        }
        parts += [(title, strip.height, partial(draw_strip, strip=strip)) for title, strip in strips.items()]
    sites = summarised(tally, [CLASS, SITE])
    return [*parts, (sites_title(sites), sites_height(sites), partial(draw_sites, summary=sites))]


def _about_time(tally: Tally) -> list[str]:
    """What the foot says about days and hours."""
    n = int(np.count_nonzero(tally.effort()["day"] < 0))  # each has one row of effort
    unknown = [f"days and hours omit {number_of(n, 'recording')} without a known start time"] if n else []
    return unknown if n == len(tally.recordings) else ["hatched: not recorded", *unknown]


#: Inches: height of a row of the heat map, of the bars above and below, and of the margins.
ROW, BARS, AROUND = 0.3, 0.5, 1.15
TINY = 8
MAP, EFFORT, UNKNOWN_COLOUR = "YlGnBu", "#9aa0a8", "#5f6670"
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
    days = summary.groups[DAY]
    first, last = int(days[days >= 0].min()), int(days.max())
    return _strip(summary, days - first, last - first + 1, first, dates=True)


def hours_of(summary: Summary) -> Strip:
    """One column per hour of the day."""
    return _strip(summary, summary.groups[HOUR], 24, 0, dates=False)


def _strip(summary: Summary, at: np.ndarray, n: int, first: int, *, dates: bool) -> Strip:
    """One column per day or hour, including those without effort; without unknown times."""
    timed = (summary.groups[summary.by[0]] >= 0) & (summary.hours > 0)
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
    _bars(axes[0], strip.edges, strip.hours, "hours\nrecorded", EFFORT)
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
    axis.set_ylabel(name, fontsize=TINY, rotation=0, ha="right", va="center")
    axis.tick_params(labelsize=TINY)
    axis.yaxis.set_major_locator(ticks(2))
    axis.spines[["top", "right"]].set_visible(False)


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
        edges, rows, np.ma.masked_invalid(strip.rates), cmap=MAP, norm=PowerNorm(0.5, 0, top), **lines
    )
    axis.patch.set(hatch="//////", edgecolor="#c8ccd2", facecolor="white")
    axis.set_ylim(len(strip.classes), 0)
    axis.set_yticks(rows[:-1] + 0.5, [visible(name) for name in strip.classes], fontsize=TINY, parse_math=False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=TINY)
    aspect = max(6.0, 2.2 * len(strip.classes))
    _key(piece.colorbar(shown, ax=axis, pad=0.01, fraction=0.05, aspect=aspect, extend=more))


def _key(bar: "Colorbar") -> None:
    bar.ax.tick_params(labelsize=TINY)
    bar.set_label("per hour", fontsize=TINY)
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
    axis.tick_params(labelsize=TINY)
    if not dates:
        axis.set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
        return
    days = [date.fromordinal(int(edge)) for edge in edges[:-1]]
    step = next((step for step in (1, 2, 7, 14) if len(days) <= 9 * step), 0)
    shown = days[::step] if step else [day for day in days if day.day == 1 and (len(days) < 400 or day.month % 3 == 1)]
    axis.set_xticks([day.toordinal() + 0.5 for day in shown], [f"{day.day} {day:%b}" for day in shown])


#: More sites than this become a heat map.
FEW = 15
#: Panels of dots in a row.
ACROSS = 4
#: Inches: height of a site, and of the margins.
SITE_ROW, SITE_AROUND = 0.2, 0.8
DOT = "#1d4e89"


def sites_title(summary: Summary) -> str:
    interval = f", with {100 * summary.confidence:g} % Poisson intervals" if len(summary.hours) <= FEW else ""
    return f"Notes per hour by site{interval}"


def sites_height(summary: Summary) -> float:
    """Height of all panels in inches."""
    n_rows = math.ceil(len(summary.classes) / ACROSS) if len(summary.hours) <= FEW else 1
    return n_rows * (SITE_AROUND + SITE_ROW * len(summary.hours)) + 0.4


def draw_sites(piece: "SubFigure", summary: Summary) -> None:
    (_draw_dots if len(summary.hours) <= FEW else _draw_map)(piece, summary)


def _draw_dots(piece: "SubFigure", summary: Summary) -> None:
    """One panel per class: a dot for the rate at each site, and a line for its interval."""
    across = min(ACROSS, len(summary.classes))
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
        axis.set_title(visible(label), fontsize=TINY + 1, parse_math=False)
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(ticks(3))
        axis.grid(color="#e3e6ea", lw=0.8)
        _plain(axis)
    _name_sites(axes[0, 0], summary)


def _draw_map(piece: "SubFigure", summary: Summary) -> None:
    """Sites as rows, classes as columns; bars of the effort and of unknown sounds per hour."""
    from matplotlib.colors import PowerNorm

    rest = summary.classes[-1:] == (REST,)
    kept = len(summary.classes) - rest
    n_bars = 1 + rest
    axes = piece.subplots(1, 1 + n_bars, sharey=True, width_ratios=[max(kept, 2), *[2] * n_bars])
    rates, edges = summary.rates[:, :kept], np.arange(len(summary.hours) + 1) - 0.5
    top, more = scale(rates.T, summary.hours)
    columns = np.arange(kept + 1)
    shades = PowerNorm(0.5, 0, top)
    shown = axes[0].pcolormesh(columns, edges, rates, cmap=MAP, norm=shades, edgecolors="white", linewidth=0.6)
    names = [visible(name) for name in summary.classes[:kept]]
    axes[0].set_xticks(columns[:-1] + 0.5, names, fontsize=TINY, rotation=30, ha="right", parse_math=False)
    _key(piece.colorbar(shown, ax=axes[0], location="top", shrink=0.5, aspect=25, pad=0.01, extend=more))
    _site_bars(axes[1], summary.hours, "hours recorded", EFFORT)
    if rest:
        _site_bars(axes[2], np.nan_to_num(summary.rates[:, -1]), "unknown per hour", UNKNOWN_COLOUR)
    _name_sites(axes[0], summary)


def _site_bars(axis: "Axes", values: np.ndarray, name: str, colour: str) -> None:
    axis.barh(range(len(values)), values, color=colour, height=0.8)
    axis.set_xlabel(name, fontsize=TINY)
    axis.xaxis.set_major_locator(ticks(2))
    _plain(axis)


def _name_sites(axis: "Axes", summary: Summary) -> None:
    few = len(summary.hours) <= FEW
    hours = [f" ({hours:.3g} h)" if few else "" for hours in summary.hours]
    names = [f"{visible(str(site))}{more}" for site, more in zip(summary.groups[SITE], hours, strict=True)]
    axis.set_yticks(range(len(names)), names, fontsize=TINY, parse_math=False)
    axis.set_ylim(len(names) - 0.5, -0.5)


def _plain(axis: "Axes") -> None:
    axis.tick_params(labelsize=TINY)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
