"""Panels of notes per hour over days or hours of the day: effort above, classes as a heat map, unknown sounds below.

Light means few and dark means many, in one order of lightness that colour-blind readers and grey copies keep. Hatched
is where nobody listened, which is not the same as nothing heard.
"""

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from outlark.commands.summary.summary import DAY, HOUR, Summary
from outlark.plain_text import visible
from outlark.verdict_names import REST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

#: Inches: height of a row of the heat map, of the bars above and below, and of what is around.
ROW, BARS, AROUND = 0.3, 0.5, 1.15
TINY = 8
MAP, EFFORT, UNKNOWN_COLOUR = "YlGnBu", "#9aa0a8", "#5f6670"
#: Cells with less than this share of the usual effort do not set the scale of colours: a note in a minute is 60 per h.
SCANT = 0.1
#: Up to so many columns, cells have white borders.
BORDERED = 62


@dataclass(frozen=True)
class Strip:
    """Effort, classes and unknown sounds over days or hours: edges of the columns, and a value for each."""

    edges: np.ndarray
    hours: np.ndarray
    rates: np.ndarray
    classes: tuple[str, ...]
    unknown: np.ndarray | None
    dates: bool

    @property
    def heights(self) -> list[float]:
        """Inches of the panels."""
        heat = ROW * max(len(self.classes), 2)
        return [BARS, heat, BARS] if self.unknown is not None else [BARS, heat]

    @property
    def height(self) -> float:
        return AROUND + sum(self.heights)


def days_of(summary: Summary) -> Strip:
    """A column for each day, from the first to the last."""
    days = summary.groups[DAY]
    first, last = int(days[days >= 0].min()), int(days.max())
    return _strip(summary, days - first, last - first + 1, first, dates=True)


def hours_of(summary: Summary) -> Strip:
    """A column for each hour of the day."""
    return _strip(summary, summary.groups[HOUR], 24, 0, dates=False)


def _strip(summary: Summary, at: np.ndarray, n: int, first: int, *, dates: bool) -> Strip:
    """One column for each day or hour, also where nobody listened; without those whose time is not known."""
    timed = (summary.groups[summary.by[0]] >= 0) & (summary.hours > 0)
    hours, rates = np.zeros(n), np.full((len(summary.classes), n), np.nan)
    hours[at[timed]] = summary.hours[timed]
    rates[:, at[timed]] = summary.rates[timed].T
    rest = summary.classes[-1:] == (REST,)
    kept = len(summary.classes) - rest
    edges = first + np.arange(n + 1, dtype=float)
    return Strip(edges, hours, rates[:kept], summary.classes[:kept], rates[-1] if rest else None, dates)


def draw_strip(piece: "SubFigure", strip: Strip) -> None:
    """Hours listened above, classes as a heat map, unknown sounds below."""
    axes = piece.subplots(len(strip.heights), 1, sharex=True, height_ratios=strip.heights)
    _bars(axes[0], strip.edges, strip.hours, "hours\nlistened", EFFORT)
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
    """A locator of round numbers, not more than so many and one."""
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
    bar = piece.colorbar(
        shown, ax=axis, pad=0.01, fraction=0.05, aspect=max(6.0, 2.2 * len(strip.classes)), extend=more
    )
    bar.ax.tick_params(labelsize=TINY)
    bar.set_label("per hour", fontsize=TINY)
    bar.locator = ticks(3)
    bar.update_ticks()


def scale(rates: np.ndarray, hours: np.ndarray) -> tuple[float, str]:
    """The rate of the darkest colour, and whether some are above it."""
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
