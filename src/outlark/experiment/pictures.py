"""The pictures of the experiment: Figure 1, Table 2 as dots, and curves over a setting."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outlark.commands.figures import SMALL, TINY
from outlark.commands.plot.panels import COLOURS, LINES
from outlark.experiment.outcome import LEVELS
from outlark.experiment.results import OVERALL, Results
from outlark.experiment.stretch_picture import figure_1
from outlark.experiment.tables import LEVEL_TITLES, standard_error
from outlark.metrics.windows import mean_of_defined

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from outlark.experiment.sweep import Sweep

__all__ = ["bars", "curves", "figure_1"]

WIDTH, PANEL, ROW = 9.0, 2.6, 0.34
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#666666"
LONGEST = 38
#: Least distance between two names at the ends of curves, as a share of the panel's height.
APART = 0.065
#: Seeds are drawn around the middle of their row, so that equal ones do not hide each other.
SPREAD = (0.0, 0.14, -0.14, 0.07, -0.07, 0.21, -0.21)


def curves(sweep: "Sweep") -> "Figure":
    """Overall F by window and by note at each value of a setting: a line for each method, its standard error as a band.

    The values stand side by side at equal distances, whatever they are; None stands for nothing of the kind.

    Parameters
    ----------
    sweep : Sweep

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(len(LEVELS), PANEL)
    at = np.arange(len(sweep.values))
    for axis, level in zip(axes, LEVELS, strict=True):
        ends: list[tuple[float, str, str]] = []
        lowest = []
        for i, method in enumerate(sweep.results[0].methods):
            values = [results.overall(method.name, level) for results in sweep.results]
            means = np.array([mean_of_defined(one) for one in values])
            errors = np.nan_to_num([standard_error(one) for one in values])
            colour, line = COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)]
            axis.fill_between(at, means - errors, means + errors, color=colour, alpha=0.18, linewidth=0)
            axis.plot(at, means, color=colour, linestyle=line, marker=MARKERS[i % len(MARKERS)], markersize=4.5)
            lowest += (means - errors).tolist()
            ends.append((float(means[-1]), method.title, colour))
        axis.set_ylim(*_limits(lowest))
        _name_ends(axis, ends)
        _dress(axis, f"{LEVEL_TITLES[level]}: F, {OVERALL[level]}", at, sweep)
    axes[-1].set_xlabel(f"{sweep.title}{f', {sweep.unit}' if sweep.unit else ''}", fontsize=SMALL)
    return figure


def bars(results: Results) -> "Figure":
    """Overall F of each method by window and by note: the mean, its standard error, and each seed as a faint dot.

    The method with the best F by window is on top.
    """
    ranks = sorted(results.methods, key=lambda m: _rank(results.overall(m.name, "window")))
    figure, axes = _figure(1, 0.9 + ROW * len(ranks), columns=len(LEVELS))
    for axis, level in zip(axes, LEVELS, strict=True):
        for row, method in enumerate(ranks):
            values = results.overall(method.name, level)
            spread = [row + SPREAD[i % len(SPREAD)] for i in range(len(values))]
            axis.plot(values, spread, ".", color=GREY, alpha=0.5, markersize=5.5, markeredgewidth=0)
            error = standard_error(values)
            axis.errorbar(
                mean_of_defined(values), row, xerr=None if math.isnan(error) else error, fmt="o", color=COLOURS[0],
                markersize=6, capsize=3, linewidth=1.6,
            )  # fmt: skip
        axis.set_title(LEVEL_TITLES[level], fontsize=SMALL + 1, loc="left")
        axis.set_xlabel(f"F, {OVERALL[level]}", fontsize=SMALL)
        axis.set_yticks(range(len(ranks)), [_short(one.title) for one in ranks], fontsize=TINY)
        axis.set_ylim(-0.6, len(ranks) - 0.4)
        axis.tick_params(axis="x", labelsize=TINY)
        axis.locator_params(axis="x", nbins=5)
        axis.grid(axis="x", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
    for axis in axes[1:]:
        axis.tick_params(axis="y", labelleft=False)
    _plain_text(axes[0].get_yticklabels())
    return figure


def _figure(rows: int, height: float, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.style.context("default"):
        figure = Figure(figsize=(WIDTH, rows * height + 0.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, sharex=True, sharey=columns > 1, squeeze=False)
    return figure, list(axes.ravel())


def _name_ends(axis: "Axes", ends: Sequence[tuple[float, str, str]]) -> None:
    """The name of each curve to the right of its end, moved up or down as far as others are in the way."""
    low, high = axis.get_ylim()
    there = sorted((end for end in ends if not math.isnan(end[0])), key=lambda end: end[0])
    places = _moved_apart([(f - low) / (high - low) for f, *_ in there])
    for place, (f, title, colour) in zip(places, there, strict=True):
        at, to = (1.0, (f - low) / (high - low)), (1.04, place)
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0}
        axis.annotate(
            "", xy=at, xytext=to, xycoords="axes fraction", textcoords="axes fraction", arrowprops=line,
            annotation_clip=False,
        )  # fmt: skip
        name: dict[str, Any] = {"color": colour, "fontsize": TINY, "va": "center", "parse_math": False}
        axis.text(to[0] + 0.005, place, _short(title), transform=axis.transAxes, **name)


def _moved_apart(places: Sequence[float]) -> list[float]:
    """Ascending places between 0 and 1, at least `APART` from each other, as near to the given ones as that allows.

    >>> [round(place, 3) for place in _moved_apart([0.2, 0.2, 0.9])]
    [0.168, 0.233, 0.9]
    """
    groups: list[list[float]] = []  # sum of what the places would be without their neighbours, and how many
    for place in places:
        groups.append([place, 1.0])
        while (
            len(groups) > 1 and _middle(groups[-1]) - _middle(groups[-2]) < APART * (groups[-1][1] + groups[-2][1]) / 2
        ):
            total, n = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + n]
    wanted = [_middle(one) + APART * (i - (one[1] - 1) / 2) for one in groups for i in range(int(one[1]))]
    below = [min(place, 1.0 - APART * (len(wanted) - 1 - i)) for i, place in enumerate(wanted)]
    return [max(place, APART * i) for i, place in enumerate(below)]


def _middle(group: Sequence[float]) -> float:
    return group[0] / group[1]


def _dress(axis: "Axes", title: str, at: np.ndarray, sweep: "Sweep") -> None:
    axis.set_title(title, fontsize=SMALL + 1, loc="left")
    axis.set_ylabel("F", fontsize=SMALL)
    nothing = "no noise" if sweep.name == "snr" else "none"
    axis.set_xticks(at, [nothing if value is None else f"{value:g}" for value in sweep.values], fontsize=TINY)
    axis.set_xlim(-0.15, len(at) - 0.85)
    axis.tick_params(axis="y", labelsize=TINY)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """From a round number below the lowest to a little above 1."""
    lowest = min((value for value in values if not math.isnan(value)), default=0.0)
    return max(-0.02, math.floor(10 * lowest) / 10), 1.02


def _rank(values: np.ndarray) -> float:
    mean = mean_of_defined(values)
    return -1.0 if math.isnan(mean) else mean


def _short(title: str) -> str:
    return title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}…"


def _plain_text(texts: Sequence[object]) -> None:
    for text in texts:
        text.set_parse_math(False)  # type: ignore[attr-defined]
