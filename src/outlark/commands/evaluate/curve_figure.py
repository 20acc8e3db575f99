"""The figure of `outlark evaluate --curve`: for each class precision and recall over the score."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from outlark.commands.evaluate.curve import FEW, ClassCurve
from outlark.errors import InputError
from outlark.plain_text import number_of, visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Panels beside each other at most, and the inches of one.
COLUMNS, SIZE = 3, (3.3, 2.5)
PRECISION, RECALL, SUGGESTED, WANTED = "#3b7dd8", "#d9722e", "#2d8a4e", "#7f8894"


def curve_figure(curves: Sequence[ClassCurve], precision: float) -> "Figure":
    """One panel for each class, all with the same axes; with the present and the suggested threshold.

    Parameters
    ----------
    curves : sequence of ClassCurve
    precision : float
        That is wanted.

    Examples
    --------
    >>> from outlark.commands.evaluate.curve import Point
    >>> curve = ClassCurve(label="song", points=(Point(0.2, 9, 6, 1), Point(0.4, 8, 0, 2)))
    >>> curve_figure([curve], 0.95).axes[0].get_title(loc="left")
    'song (10 notes)'
    """
    from matplotlib.figure import Figure

    if not curves:
        raise InputError("no class to draw a curve of; give --class or --model")
    columns = min(COLUMNS, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure = Figure(figsize=(max(SIZE[0] * columns, 4.2), 0.9 + SIZE[1] * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axis, curve in zip(grid.flat, curves, strict=False):
        _panel(axis, curve, precision)
    for axis in grid.flat[len(curves) :]:
        axis.set_visible(False)
    for column in range(columns):
        lowest = grid[(len(curves) - 1 - column) // columns, column]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("score")
    for axis in grid[:, 0]:
        axis.set_ylabel("precision, recall")
    _scale(grid[0, 0], curves)
    shown: dict[str, Artist] = {}
    for axis in grid.flat[: len(curves)]:
        shown |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return figure


def _panel(axis: "Axes", curve: ClassCurve, precision: float) -> None:
    scores = [p.score for p in curve.points]
    precisions = [p.precision for p in curve.points]
    sure = [rate if p.found + p.false >= FEW else math.nan for p, rate in zip(curve.points, precisions, strict=True)]
    # pale where few detections tell it
    axis.plot(scores, sure, color=PRECISION, lw=1.8, label="precision")
    axis.plot(scores, precisions, color=PRECISION, lw=1.8, alpha=0.35, label=f"precision of fewer than {FEW}")
    axis.plot(scores, [p.recall for p in curve.points], color=RECALL, lw=1.8, ls="--", label="recall")
    axis.axhline(precision, color=WANTED, lw=1.0, ls=":", label=f"wanted precision {precision:g}")
    suggested, now = curve.suggested(precision), curve.now
    if now is not None:
        axis.axvline(now.score, color="black", lw=1.2, label="threshold now")
    if suggested is not None and suggested != now:
        axis.axvline(suggested.score, color=SUGGESTED, lw=1.5, ls="-.", label="suggested")
    label = f"{visible(curve.label)} ({number_of(curve.notes, 'note')})"
    axis.set_title(label, loc="left", fontsize=9, fontweight="bold", parse_math=False)
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.0}
    axis.text(0.02, 0.05, _in_words(curve, precision), transform=axis.transAxes, fontsize=8, bbox=box)
    axis.set_ylim(-0.02, 1.02)
    axis.spines[["top", "right"]].set_visible(False)


def _in_words(curve: ClassCurve, precision: float) -> str:
    """The threshold now and the suggested one."""
    suggested, now = curve.suggested(precision), curve.now
    then = "not reached" if suggested is None else f"{suggested.score:.3g}"
    if now is None:
        return then
    return f"{now.score:.3g}, as it is" if suggested == now else f"{now.score:.3g} → {then}"


def _scale(axis: "Axes", curves: Sequence[ClassCurve]) -> None:
    """Scores by ratio, as far as anything is found."""
    found = [p.score for curve in curves for p in curve.points if p.found + p.false]
    if not found:
        return
    axis.set_xscale("log")
    axis.set_xlim(0.95 * min(found), 1.05 * max(found))
    ticks = [t for t in np.outer(10.0 ** np.arange(-6, 7), (1, 2, 3, 5)).ravel() if min(found) <= t <= max(found)]
    axis.set_xticks(ticks or [min(found)], [f"{tick:g}" for tick in ticks or [min(found)]])
    axis.minorticks_off()
