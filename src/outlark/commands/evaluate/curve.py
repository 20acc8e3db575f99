"""Precision and recall of each class over the score from which on it accepts, and the threshold for what is wanted."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from outlark.annotations import Mark
from outlark.commands.evaluate.comparison import Compared, event_scores, is_answer
from outlark.errors import InputError
from outlark.metrics import EventScores
from outlark.metrics.windows import ratio

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
