"""Precision and recall of each class over the score from which on it accepts, and the threshold for what is wanted."""

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from outlark.annotations import Mark
from outlark.commands.evaluate.comparison import Compared, event_scores, is_answer
from outlark.errors import InputError
from outlark.metrics import EventScores
from outlark.metrics.windows import ratio
from outlark.plain_text import number_of, visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Tables tell scores of notes that were accepted; so many thresholds are tried between the lowest and the highest.
N_FROM_TABLES = 57
#: Fewer detections than this say little about precision.
FEW = 10


class Point(NamedTuple):
    """What a class finds from one score on: the score, how many notes rightly and wrongly, how many it misses."""

    score: float
    found: int
    false: int
    missed: int

    @property
    def precision(self) -> float:
        """NaN where nothing is found."""
        return float(ratio(np.array(self.found), np.array(self.found + self.false)))

    @property
    def recall(self) -> float:
        """NaN where there is nothing to find."""
        return float(ratio(np.array(self.found), np.array(self.found + self.missed)))


@dataclass(frozen=True, kw_only=True)
class ClassCurve:
    """What a class finds over its threshold.

    Attributes
    ----------
    label : str
    points : tuple of Point
        By score, rising.
    now : Point or None
        At the threshold that the model has; None without a model.
    """

    label: str
    points: tuple[Point, ...]
    now: Point | None = None

    @property
    def notes(self) -> int:
        """How many there are to be found."""
        return self.points[0].found + self.points[0].missed

    @property
    def best_precision(self) -> Point | None:
        """The most precise point, of equals the one that finds most; None where nothing is found at all."""
        return max((p for p in self.points if p.found + p.false), key=lambda p: (p.precision, p.found), default=None)

    def suggested(self, precision: float) -> Point | None:
        """The point that misses least of those that are as precise as is wanted; None where none is.

        Many scores may give the same: then the present threshold, if it is among them, and the middle one otherwise,
        far from the notes that would be missed and from the sounds that would be false.

        >>> points = [Point(s, *n) for s, n in ((0.2, (9, 6, 1)), (0.3, (9, 0, 1)), (0.4, (9, 0, 1)), (0.5, (8, 0, 2)))]
        >>> ClassCurve(label="song", points=(*points, Point(0.6, 5, 0, 5))).suggested(0.95)
        Point(score=0.4, found=9, false=0, missed=1)
        """
        enough = [p for p in self.points if p.found and p.precision >= precision - 1e-12]
        if not enough:
            return None
        best = max(enough, key=lambda p: (p.found, -p.false))
        alike = [p for p in enough if p[1:] == best[1:]]
        return self.now if self.now in alike else alike[len(alike) // 2]


def curves(
    recordings: Iterable[tuple[Compared, Iterable[Sequence[Mark]]]],
    classes: Sequence[str],
    thresholds: np.ndarray,
    iou: float,
    *,
    now: int | None = None,
) -> list[ClassCurve]:
    """Count what is found at each threshold, class by class.

    Parameters
    ----------
    recordings : iterable of pairs
        A recording, and what is found in it at each of the thresholds.
    classes : sequence of str
    thresholds : ndarray (K, C)
    iou : float
        How much events must overlap to be the same.
    now : int, optional
        Which of the thresholds are the present ones.
    """
    sums: list[EventScores] | None = None
    for recording, found in recordings:
        counts = [event_scores(replace(recording, found=marks), classes, iou) for marks in found]
        sums = counts if sums is None else list(map(operator.add, sums, counts))
    if sums is None:
        raise InputError("no recordings to draw a curve from; give at least one that has truth")
    return [_of_class(c, label, sums, thresholds[:, c].tolist(), now) for c, label in enumerate(classes)]


def _of_class(c: int, label: str, sums: list[EventScores], scores: list[float], now: int | None) -> ClassCurve:
    points = [
        Point(score, int(s.true_positives[c]), int(s.false_positives[c]), int(s.false_negatives[c]))
        for score, s in zip(scores, sums, strict=True)
    ]
    return ClassCurve(label=label, points=tuple(sorted(set(points))), now=None if now is None else points[now])


def curves_of_tables(recordings: Sequence[Compared], classes: Sequence[str], iou: float) -> list[ClassCurve]:
    """The same from the scores that tables tell, which begin at the thresholds that they were made with.

    Raises
    ------
    InputError
        Where an answer has no score, or one that is not above 0.
    """
    answers = [mark for recording in recordings for mark in recording.found if is_answer(mark)]
    scores = [mark.score for mark in answers if mark.score is not None and 0.0 < mark.score < np.inf]
    if len(scores) < max(1, len(answers)):
        raise InputError(
            f"{len(answers) - len(scores)} of {len(answers)} detections have no score above 0, so that there is no "
            "curve; give --model, which finds the notes again at many thresholds"
        )
    steps = np.unique(np.append(np.geomspace(min(scores), max(scores), N_FROM_TABLES), min(scores)))
    steps[0] = min(scores)  # not a rounding above it
    pairs = ((r, [[m for m in r.found if (m.score or 0.0) >= step] for step in steps]) for r in recordings)
    return curves(pairs, classes, np.repeat(steps[:, np.newaxis], len(classes), axis=1), iou)


def learnt_from(recordings: Sequence[Compared], training: Iterable[str | None]) -> list[str]:
    """Names of the recordings whose notes the model was trained on, whose scores are higher than those of others."""
    names = {name for name in training if name is not None}
    return [r.name for r in recordings if r.sound is not None and r.sound.name in names]


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
