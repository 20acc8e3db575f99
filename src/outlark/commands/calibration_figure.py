"""The figure of a calibration: for each class how its scores are spread, and where its threshold was and is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from outlark.detection.thresholds import BINS, WIDTH, ClassCalibration
from outlark.errors import InputError
from outlark.plain_text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: width of the figure, height of each class.
SIZE = 7.0, 1.7
BELOW, ABOVE, PRIOR = "#b7bcc4", "#3b7dd8", "#e0a93b"


def calibration_figure(calibration: Sequence[ClassCalibration]) -> "Figure":
    """One panel for each class: a histogram of the peaks of its score, the threshold, and where it was looked for.

    Raises
    ------
    InputError
        For a model that was not calibrated.

    Examples
    --------
    >>> from outlark.detection.thresholds import calibrated
    >>> figure = calibration_figure([calibrated("A", 0.3, np.linspace(0.1, 0.9, 50))])
    >>> figure.axes[0].get_title(loc="left")
    'A'
    """
    from matplotlib.figure import Figure

    if not calibration:
        raise InputError("the model was not calibrated; run 'outlark calibrate MODEL RECORDINGS' first")
    figure = Figure(figsize=(SIZE[0], 0.7 + SIZE[1] * len(calibration)), layout="constrained")
    axes = figure.subplots(len(calibration), 1, squeeze=False, sharex=True)[:, 0]
    for axis, of_class in zip(axes, calibration, strict=True):
        edges, counts = BINS * of_class.prior, np.array(of_class.counts)
        accepted = edges[:-1] >= of_class.threshold
        axis.bar(edges[:-1], counts, np.diff(edges), align="edge", color=np.where(accepted, ABOVE, BELOW))
        reach = of_class.prior * np.exp(WIDTH * np.array([-1.0, 1.0]))
        axis.axvspan(*reach, color=PRIOR, alpha=0.18, lw=0)
        axis.axvline(of_class.prior, color=PRIOR, lw=1.2, ls="--", label=f"from training {of_class.prior:.2f}")
        axis.axvline(of_class.threshold, color="black", lw=1.5, label=f"threshold {of_class.threshold:.2f}")
        axis.set_xscale("log")
        axis.set_title(visible(str(of_class.label)), loc="left", fontsize=10, fontweight="bold", parse_math=False)
        axis.set_ylabel("peaks")
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="upper right", frameon=False, fontsize=8)
        if not of_class.moved:
            axis.text(0.01, 0.9, "too few peaks: kept", transform=axis.transAxes, fontsize=8, va="top")
    ticks = [0.1, 0.2, 0.3, 0.5, 1.0, 2.0]
    axes[-1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[-1].minorticks_off()
    axes[-1].set_xlabel("score")
    return figure
