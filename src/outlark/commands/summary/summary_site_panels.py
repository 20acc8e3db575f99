"""Panels of notes per hour by site: a few sites as dots with their intervals, many as a heat map."""

import math
from typing import TYPE_CHECKING

import numpy as np

from outlark.commands.summary.summary import SITE, Summary
from outlark.commands.summary.summary_time_panels import EFFORT, MAP, TINY, UNKNOWN_COLOUR, scale, ticks
from outlark.plain_text import visible
from outlark.verdict_names import REST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

#: More sites than this are drawn as a heat map.
FEW = 15
#: Panels of dots beside each other.
ACROSS = 4
#: Inches: height of a site, and of what is around.
ROW, AROUND = 0.2, 0.8
DOT = "#1d4e89"


def sites_title(summary: Summary) -> str:
    interval = f", with {100 * summary.confidence:g} % Poisson intervals" if len(summary.hours) <= FEW else ""
    return f"Notes per hour by site{interval}"


def sites_height(summary: Summary) -> float:
    """Inches of all panels."""
    n_rows = math.ceil(len(summary.classes) / ACROSS) if len(summary.hours) <= FEW else 1
    return n_rows * (AROUND + ROW * len(summary.hours)) + 0.4


def draw_sites(piece: "SubFigure", summary: Summary) -> None:
    """Dots or a heat map."""
    (_draw_dots if len(summary.hours) <= FEW else _draw_map)(piece, summary)


def _draw_dots(piece: "SubFigure", summary: Summary) -> None:
    """A panel for each class: a dot for the rate at each site, and a line for its interval."""
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
    """Sites as rows, classes as columns; bars of the hours listened, and of unknown sounds per hour."""
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
    bar = piece.colorbar(shown, ax=axes[0], location="top", shrink=0.5, aspect=25, pad=0.01, extend=more)
    bar.ax.tick_params(labelsize=TINY)
    bar.set_label("per hour", fontsize=TINY)
    bar.locator = ticks(3)
    bar.update_ticks()
    _bars(axes[1], summary.hours, "hours listened", EFFORT)
    if rest:
        _bars(axes[2], np.nan_to_num(summary.rates[:, -1]), "unknown per hour", UNKNOWN_COLOUR)
    _name_sites(axes[0], summary)


def _bars(axis: "Axes", values: np.ndarray, name: str, colour: str) -> None:
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
