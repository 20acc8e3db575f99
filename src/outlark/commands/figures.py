"""What all figures share: colours, plain axes and saving; and the figure of `outlark calibrate`."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from outlark.detection.thresholds import PEAK_BINS, VALLEY_WIDTH, ClassCalibration
from outlark.errors import InputError
from outlark.files.io import opened_aside
from outlark.plain_text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: File formats by suffix, and the metadata that would make two identical figures differ.
FIGURE_KINDS: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
DOTS_PER_INCH = 130
BLUE, ORANGE, GREEN, YELLOW, GREY, PALE_GREY = "#3b7dd8", "#d9722e", "#2d8a4e", "#e0a93b", "#7f8894", "#b7bcc4"
BLACK = "#222222"
#: Of classes, safe for colour-blind readers; further classes reuse them with other line styles.
CLASS_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255", "#999933")
CLASS_LINES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1.5, 1.5)))
CLASS_HATCHES = ("", "////", "xxxx")
#: Font sizes.
SMALL_FONT, TINY_FONT = 9, 8
#: Inches: width of the calibration figure, height of each class.
CALIBRATION_SIZE = 7.0, 1.7


def save_figure(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure as PNG, SVG or PDF, by its suffix, replacing a file that exists.

    The same figure gives the same bytes. The folder must exist.
    """
    import matplotlib.style

    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FIGURE_KINDS:
        raise InputError(f"{path}: figures can be saved as {', '.join(FIGURE_KINDS)}; change the end of the file name")
    if path.is_dir() or not path.parent.is_dir():
        wrong = "is a folder" if path.is_dir() else f"the folder {path.parent} does not exist"
        raise InputError(f"{path}: {wrong}; give the name of a file in a folder that exists")
    with opened_aside(path) as file, matplotlib.style.context(["default", {"svg.hashsalt": "outlark"}]):
        figure.savefig(file, format=kind[1:], dpi=DOTS_PER_INCH, metadata=FIGURE_KINDS[kind])


def plain_axis(axis: "Axes", title: str | None = None) -> None:
    """No spines at the top and right; a bold title on the left, which may hold anything."""
    axis.spines[["top", "right"]].set_visible(False)
    if title is not None:
        axis.set_title(visible(title), loc="left", fontsize=SMALL_FONT, fontweight="bold", parse_math=False)


def calibration_figure(calibration: Sequence[ClassCalibration]) -> "Figure":
    """One panel per class: a histogram of the peaks of its score, the threshold, and where it was looked for.

    >>> from outlark.detection.thresholds import calibrated
    >>> figure = calibration_figure([calibrated("A", 0.3, np.linspace(0.1, 0.9, 50))])
    >>> figure.axes[0].get_title(loc="left")
    'A'
    """
    from matplotlib.figure import Figure

    if not calibration:
        raise InputError("the model has not been calibrated; run 'outlark calibrate MODEL RECORDINGS' first")
    size = CALIBRATION_SIZE[0], 0.7 + CALIBRATION_SIZE[1] * len(calibration)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(calibration), 1, squeeze=False, sharex=True)[:, 0]
    for axis, of_class in zip(axes, calibration, strict=True):
        _calibration_panel(axis, of_class)
    ticks = [0.1, 0.2, 0.3, 0.5, 1.0, 2.0]
    axes[-1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[-1].minorticks_off()
    axes[-1].set_xlabel("score")
    return figure


def _calibration_panel(axis: "Axes", of_class: ClassCalibration) -> None:
    edges, counts = PEAK_BINS * of_class.prior, np.array(of_class.counts)
    accepted = edges[:-1] >= of_class.threshold
    axis.bar(edges[:-1], counts, np.diff(edges), align="edge", color=np.where(accepted, BLUE, PALE_GREY))
    reach = of_class.prior * np.exp(VALLEY_WIDTH * np.array([-1.0, 1.0]))
    axis.axvspan(*reach, color=YELLOW, alpha=0.18, lw=0)
    axis.axvline(of_class.prior, color=YELLOW, lw=1.2, ls="--", label=f"from training {of_class.prior:.2f}")
    axis.axvline(of_class.threshold, color="black", lw=1.5, label=f"threshold {of_class.threshold:.2f}")
    axis.set_xscale("log")
    plain_axis(axis, str(of_class.label))
    axis.set_ylabel("peaks")
    axis.locator_params(axis="y", integer=True)
    axis.legend(loc="upper right", frameon=False, fontsize=TINY_FONT)
    if not of_class.moved:
        axis.text(0.01, 0.9, "too few peaks: unchanged", transform=axis.transAxes, fontsize=TINY_FONT, va="top")
