"""Precision, recall and F of each class against its threshold, and the threshold to choose."""

import math
import operator
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from outlark.annotations import Annotation
from outlark.commands.evaluation import Compared, event_scores, is_answer
from outlark.commands.figures import BLUE, GREEN, GREY, ORANGE, plain_axis
from outlark.detection.detector import NoteDetector
from outlark.detection.thresholds import sweep_thresholds, swept
from outlark.errors import InputError
from outlark.metrics import EventScores
from outlark.metrics.windows import wilson
from outlark.plain_text import Line, ProgressCallback, TextTable, number_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Thresholds tried between the lowest and the highest score in annotation files.
N_TABLE_THRESHOLDS = 57
#: Fewer detections than this say little about precision: no suggestion rests on fewer.
MIN_DETECTIONS = 10
#: One in this many thresholds is printed; --json has them all.
PRINTED_EVERY = 4


class Point(NamedTuple):
    """A threshold, with the number of correct, false and missed notes of a class."""

    score: float
    found: int
    false: int
    missed: int

    @property
    def detections(self) -> int:
        return self.found + self.false

    @property
    def notes(self) -> int:
        """True notes."""
        return self.found + self.missed

    @property
    def precision(self) -> float:
        """NaN without detections."""
        return _share(self.found, self.detections)

    @property
    def recall(self) -> float:
        """NaN without true notes."""
        return _share(self.found, self.notes)

    @property
    def f(self) -> float:
        """TP / (TP + (FP + FN) / 2); NaN without detections and notes.

        >>> Point(0.3, found=6, false=2, missed=4).f.__round__(3)
        0.667
        """
        return _share(2 * self.found, self.detections + self.notes)

    @property
    def precision_limits(self) -> tuple[float, float]:
        """95 % limits, as if detections were independent."""
        return wilson(self.found, self.detections)

    @property
    def recall_limits(self) -> tuple[float, float]:
        """95 % limits, as if notes were independent."""
        return wilson(self.found, self.notes)

    def __str__(self) -> str:
        detections, notes = number_of(self.detections, "detection"), number_of(self.notes, "note")
        found = f"{self.found} of {notes} found with {detections}"
        return f"F {self.f:.3f}, precision {self.precision:.3f}, recall {self.recall:.3f} ({found})"

    def as_json(self) -> dict[str, Any]:
        (precision_low, precision_high), (recall_low, recall_high) = self.precision_limits, self.recall_limits
        rates = {
            "precision": self.precision,
            "precision_low": precision_low,
            "precision_high": precision_high,
            "recall": self.recall,
            "recall_low": recall_low,
            "recall_high": recall_high,
            "f": self.f,
        }
        return {**self._asdict(), **{name: None if math.isnan(rate) else rate for name, rate in rates.items()}}

    def cells(self) -> Iterator[str]:
        """For a table: counts, precision and recall with their limits, F."""
        yield from (str(n) for n in self[1:])
        rates = (self.precision, self.precision_limits), (self.recall, self.recall_limits)
        for rate, (low, high) in rates:
            yield from ("", "") if math.isnan(rate) else (f"{rate:.3f}", f"({low:.2f}-{high:.2f})")
        yield "" if math.isnan(self.f) else f"{self.f:.3f}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


@dataclass(frozen=True, kw_only=True)
class ClassCurve:
    """The points of a class by rising score, and the one at the threshold of the model (None without a model)."""

    label: str
    points: tuple[Point, ...]
    now: Point | None = None
    #: The suggestions of all classes together would find less than the present thresholds.
    withheld: bool = False

    @property
    def notes(self) -> int:
        """The number of true notes."""
        return self.points[0].notes

    @property
    def reliable(self) -> list[Point]:
        """The points that rest on at least `MIN_DETECTIONS` detections, some of them correct."""
        return [p for p in self.points if p.detections >= MIN_DETECTIONS and p.found]

    @property
    def best_f(self) -> Point | None:
        """The reliable point with the highest F, or None; the present threshold if none has a higher F."""
        best = self._chosen(self.reliable, key=lambda p: p.f)
        return self.now if best is not None and self.now is not None and self.now.f >= best.f else best

    @property
    def best_precision(self) -> Point | None:
        """The most precise reliable point, among equals the one that finds most; or None."""
        return self._chosen(self.reliable, key=lambda p: (p.precision, p.found))

    def suggested(self, precision: float | None = None) -> Point | None:
        """The threshold to choose, or None: the best F, or among those with this precision the one that finds most.

        Only `reliable` points count. Among equals it is the present threshold or else the middle one, far from both
        missed notes and false alarms.

        >>> counts = (0.2, (19, 6, 1)), (0.3, (19, 0, 1)), (0.4, (19, 0, 1)), (0.5, (18, 0, 2)), (0.6, (5, 0, 15))
        >>> curve = ClassCurve(label="song", points=tuple(Point(score, *n) for score, n in counts))
        >>> curve.suggested()
        Point(score=0.4, found=19, false=0, missed=1)
        """
        if self.withheld:
            return None
        if precision is None:
            return self.best_f
        enough = [p for p in self.reliable if p.precision >= precision - 1e-12]
        return self._chosen(enough, key=lambda p: (p.found, -p.false))

    def why_not(self, precision: float | None) -> str:
        """Why there is no suggestion."""
        if self.withheld:
            return "the thresholds with the best F of each class find less together than the present ones"
        most, best = max(point.detections for point in self.points), self.best_precision
        if most < MIN_DETECTIONS:
            few = f"{number_of(most, 'detection')} at most, and fewer than {MIN_DETECTIONS} say little"
            return f"{few}; annotate more recordings"
        if best is None:
            return "no correct detections"
        found = f"it is {best.precision:.3f} at most, at a threshold of {best.score:.3f}"
        return f"a precision of {precision:g} is not reached; with {MIN_DETECTIONS} detections or more {found}"

    def _chosen(self, points: Sequence[Point], key: Callable[[Point], Any]) -> Point | None:
        if not points:
            return None
        best = max(points, key=key)
        alike = [p for p in points if p[1:] == best[1:]]
        return self.now if self.now in alike else alike[len(alike) // 2]


def curves(
    recordings: Iterable[tuple[Compared, Iterable[Sequence[Annotation]]]],
    classes: Sequence[str],
    thresholds: np.ndarray,
    iou: float,
    *,
    now: int | None = None,
) -> list[ClassCurve]:
    """Count detections at each threshold (K, C), by class.

    `recordings` are pairs of a recording and its detections at each threshold; `now` is the row of the present ones.
    """
    sums: list[EventScores] | None = None
    for recording, found in recordings:
        counts = [event_scores(replace(recording, found=annotations), classes, iou) for annotations in found]
        sums = counts if sums is None else list(map(operator.add, sums, counts))
    return [_of_class(c, label, sums or [], thresholds[:, c].tolist(), now) for c, label in enumerate(classes)]


def _of_class(c: int, label: str, sums: list[EventScores], scores: list[float], now: int | None) -> ClassCurve:
    points = [
        Point(score, int(s.true_positives[c]), int(s.false_positives[c]), int(s.false_negatives[c]))
        for score, s in zip(scores, sums, strict=True)
    ]
    return ClassCurve(label=label, points=tuple(sorted(set(points))), now=None if now is None else points[now])


def pooled_f(points: Iterable[Point]) -> float:
    """F of all classes together, every event with the same weight.

    >>> pooled_f([Point(0.3, 6, 2, 4), Point(0.5, 2, 0, 0)]).__round__(3)
    0.727
    """
    return Point(math.nan, *map(sum, zip(*(p[1:] for p in points), strict=True))).f


def curves_of_tables(recordings: Sequence[Compared], classes: Sequence[str], iou: float) -> list[ClassCurve]:
    """The same from the scores in annotation files, which start at the thresholds of the run."""
    answers = [m for recording in recordings for m in recording.found if is_answer(m)]
    scores = [m.score for m in answers if m.score is not None and 0.0 < m.score < np.inf]
    if len(scores) < max(1, len(answers)):
        raise InputError(
            f"{len(answers) - len(scores)} of {len(answers)} detections have no score above 0, so there is no curve; "
            "give --model to detect the notes again at many thresholds"
        )
    steps = np.unique(np.append(np.geomspace(min(scores), max(scores), N_TABLE_THRESHOLDS), min(scores)))
    steps[0] = min(scores)  # not slightly above it by rounding
    pairs = ((r, [[m for m in r.found if (m.score or 0.0) >= step] for step in steps]) for r in recordings)
    return curves(pairs, classes, np.repeat(steps[:, np.newaxis], len(classes), axis=1), iou)


def curves_of_model(
    recordings: Sequence[Compared],
    classes: Sequence[str],
    iou: float,
    detector: NoteDetector,
    heard: Callable[[Compared], Any],
    *,
    precision: float | None = None,
    watch: ProgressCallback = lambda done, total: None,
) -> list[ClassCurve]:
    """The same from detecting notes again at many thresholds; `heard` gives the sound or the scores of a recording."""

    def at(thresholds: np.ndarray, now: int | None = None) -> list[ClassCurve]:
        return curves(pairs(thresholds), classes, thresholds, iou, now=now)

    def pairs(thresholds: np.ndarray) -> Iterator[tuple[Compared, Iterator[list[Annotation]]]]:
        for number, recording in enumerate(recordings, start=1):
            found = swept(detector, heard(recording), thresholds)
            yield recording, ([Annotation.from_segment(s, recording.name) for s in segments] for segments in found)
            watch(number, len(recordings))

    thresholds = sweep_thresholds(detector)
    found = at(thresholds, len(thresholds) - 1)
    return found if precision is not None else tried_together(found, at)


def tried_together(found: list[ClassCurve], at: Callable[[np.ndarray], list[ClassCurve]]) -> list[ClassCurve]:
    """Withhold the suggestions if together they find less: on a curve all thresholds move, and notes compete.

    `at` gives the curves at other thresholds, (n, C).
    """
    now = [curve.now for curve in found if curve.now is not None]
    chosen = [curve.suggested() or point for curve, point in zip(found, now, strict=True)]
    if sum(point != before for point, before in zip(chosen, now, strict=True)) < 2:
        return found
    together = at(np.array([[point.score for point in chosen]]))
    if pooled_f(curve.points[0] for curve in together) >= pooled_f(now):
        return found
    return [replace(curve, withheld=True) for curve in found]


@dataclass(frozen=True)
class Curves:
    """The curves of all classes, for people and programs; suggestions are for a precision, or for the best F."""

    classes: Sequence[ClassCurve]
    iou: float
    precision: float | None = None

    def as_json(self) -> dict[str, Any]:
        """All points."""
        return {"precision": self.precision, "classes": [self._class_json(curve) for curve in self.classes]}

    def _class_json(self, curve: ClassCurve) -> dict[str, Any]:
        marked = {"now": curve.now, "best_f": curve.best_f, "suggested": curve.suggested(self.precision)}
        return {
            "label": curve.label,
            **{name: None if point is None else point.as_json() for name, point in marked.items()},
            "points": [point.as_json() for point in curve.points],
        }

    def lines(self) -> Iterator[Line]:
        """Some points of each curve, then the suggestions."""
        rows = [["class", "score", "found", "false", "missed", "precision", "", "recall", "", "F", ""]]
        for curve in self.classes:
            marked = (("now", curve.now), ("best F", curve.best_f), ("suggested", curve.suggested(self.precision)))
            last = max((number for number, point in enumerate(curve.points) if point.detections), default=0)
            for number, point in enumerate(curve.points):
                said = [word for word, of in marked if point == of]
                if said or (number % PRINTED_EVERY == 0 and number <= last + 1):
                    rows.append([curve.label, f"{point.score:.3f}", *point.cells(), ", ".join(said)])
        yield ""
        yield TextTable(rows, f"each class against its threshold; events match at an IoU of {self.iou:g}")
        yield "in brackets: 95 % intervals (Wilson) of that many detections and notes, as if they were independent"
        yield ""
        yield from self._advice()

    def _advice(self) -> Iterator[str]:
        options = []
        for curve in self.classes:
            suggested = curve.suggested(self.precision)
            if suggested is None:
                yield f"{curve.label}: no suggestion: {curve.why_not(self.precision)}"
            elif suggested == curve.now:
                yield f"{curve.label}: the present threshold stays: {suggested}"
            else:
                options.append(f"--threshold {shlex.quote(curve.label)}={suggested.score:.4g}")
                before = "" if curve.now is None else f"; now: {curve.now}"
                yield f"{curve.label}: {suggested.score:.4g}: {suggested}{before}"
        if options:
            caution = "chosen on these recordings and will be a little worse on others: check them there"
            yield f"these thresholds were {caution}"
            aim = "the best F" if self.precision is None else f"a precision of {self.precision:g} or more"
            yield f"for {aim} of each class: {' '.join(options)}"


#: Most panels in a row, and the inches of one.
MAX_PANELS_PER_ROW, CURVE_PANEL_INCHES = 3, (3.3, 2.5)


def curve_figure(curves: Curves) -> "Figure":
    """One panel per class: precision, recall and F against the score, the present and the suggested threshold.

    >>> curve = ClassCurve(label="song", points=(Point(0.2, 9, 6, 1), Point(0.4, 8, 0, 2)))
    >>> curve_figure(Curves([curve], iou=0.5)).axes[0].get_title(loc="left")
    'song (10 notes)'
    """
    from matplotlib.figure import Figure

    shown = curves.classes
    columns = min(MAX_PANELS_PER_ROW, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(
        figsize=(max(CURVE_PANEL_INCHES[0] * columns, 4.2), 0.9 + CURVE_PANEL_INCHES[1] * rows), layout="constrained"
    )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axis, curve in zip(grid.flat, shown, strict=False):
        _panel(axis, curve, curves.precision)
    for axis in grid.flat[len(shown) :]:
        axis.set_visible(False)
    for column in range(columns):
        lowest = grid[(len(shown) - 1 - column) // columns, column]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("score")
    for axis in grid[:, 0]:
        axis.set_ylabel("precision, recall, F")
    _scale(grid[0, 0], shown)
    named: dict[str, Artist] = {}
    for axis in grid.flat[: len(shown)]:
        named |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    ncols = min(3, columns + 1)  # as many as fit above the panels
    figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=ncols, frameon=False, fontsize=8)
    return figure


def _panel(axis: "Axes", curve: ClassCurve, precision: float | None) -> None:
    scores = [p.score for p in curve.points]
    precisions = [p.precision for p in curve.points]
    sure = [p.precision if p.detections >= MIN_DETECTIONS else math.nan for p in curve.points]
    for limits, color in (("precision_limits", BLUE), ("recall_limits", ORANGE)):
        low, high = zip(*(getattr(p, limits) for p in curve.points), strict=True)
        axis.fill_between(scores, low, high, color=color, alpha=0.12, lw=0)
    # pale where it rests on few detections
    axis.plot(scores, sure, color=BLUE, lw=1.8, label="precision")
    axis.plot(scores, precisions, color=BLUE, lw=1.8, alpha=0.35, label=f"precision of fewer than {MIN_DETECTIONS}")
    axis.plot(scores, [p.recall for p in curve.points], color=ORANGE, lw=1.8, ls="--", label="recall")
    axis.plot(scores, [p.f for p in curve.points], color=GREY, lw=1.2, label="F")
    if precision is not None:
        axis.axhline(precision, color=GREY, lw=1.0, ls=":", label=f"wanted precision {precision:g}")
    suggested, now = curve.suggested(precision), curve.now
    if now is not None:
        axis.axvline(now.score, color="black", lw=1.2, label="present threshold")
    if suggested is not None and suggested != now:
        axis.axvline(suggested.score, color=GREEN, lw=1.5, ls="-.", label="suggested")
    plain_axis(axis, f"{curve.label} ({number_of(curve.notes, 'note')})")
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.0}
    axis.text(0.02, 0.05, _in_words(curve, precision), transform=axis.transAxes, fontsize=8, bbox=box)
    axis.set_ylim(-0.02, 1.02)


def _in_words(curve: ClassCurve, precision: float | None) -> str:
    """The present and the suggested threshold."""
    suggested, now = curve.suggested(precision), curve.now
    if suggested is None:
        return "no suggestion" if now is None else f"{now.score:.3g}, no suggestion"
    if now is None:
        return f"{suggested.score:.3g}"
    return f"{now.score:.3g}, unchanged" if suggested == now else f"{now.score:.3g} → {suggested.score:.3g}"


def _scale(axis: "Axes", curves: Sequence[ClassCurve]) -> None:
    """A logarithmic scale as far as there are detections."""
    found = [p.score for curve in curves for p in curve.points if p.found + p.false]
    if not found:
        return
    axis.set_xscale("log")
    axis.set_xlim(0.95 * min(found), 1.05 * max(found))
    ticks = [t for t in np.outer(10.0 ** np.arange(-6, 7), (1, 2, 3, 5)).ravel() if min(found) <= t <= max(found)]
    axis.set_xticks(ticks or [min(found)], [f"{tick:g}" for tick in ticks or [min(found)]])
    axis.minorticks_off()
