"""Events against events: one-to-one matching by overlap, F scores, onset and offset errors.

Conventions: an event is a span [start, end) with a label; times are seconds or samples, the same on both sides. The
overlap of two spans is their intersection over union, IoU = |A ∩ B| / |A ∪ B|.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlark.metrics.confusion import aligned_table
from outlark.metrics.labels import label_index
from outlark.metrics.matching import Events, Floats, Ints, codes, match_events, match_spans, occurring
from outlark.metrics.windows import mean_of_defined, ratio

Number = TypeVar("Number", Floats, float)


class Rates(NamedTuple, Generic[Number]):
    """Precision, recall and F: arrays (C,) per class, or single numbers. NaN: nothing to divide by."""

    precision: Number
    recall: Number
    f: Number


@dataclass(frozen=True, eq=False)
class EventScores:
    """Counts of `event_f`. The counts of several recordings add up: ``scores_a + scores_b``.

    Attributes
    ----------
    classes : tuple (C,)
    true_positives, false_positives, false_negatives : ndarray (C,) of int
    absorbed : ndarray (C,) of int
        Estimates that an unlabelled event took; they are neither true nor false.
    """

    classes: tuple[Hashable, ...]
    true_positives: Ints
    false_positives: Ints
    false_negatives: Ints
    absorbed: Ints

    @property
    def per_class(self) -> Rates[Floats]:
        """Precision TP/(TP + FP), recall TP/(TP + FN) and F = TP/(TP + (FP + FN)/2) of each class (C,).

        NaN where there is nothing to divide by: no estimate, no reference, or neither of them.
        """
        return _rates(self.true_positives, self.false_positives, self.false_negatives)

    @property
    def pooled(self) -> Rates[float]:
        """The same of the summed counts: every event weighs the same."""
        rates = _rates(self.true_positives.sum(), self.false_positives.sum(), self.false_negatives.sum())
        return Rates(*map(float, rates))

    @property
    def macro(self) -> Rates[float]:
        """Mean of each over the classes where it is not NaN: every class weighs the same."""
        return Rates(*map(mean_of_defined, self.per_class))

    def __add__(self, other: "EventScores") -> "EventScores":
        classes = tuple(dict.fromkeys([*self.classes, *other.classes]))
        row_of = {label: row for row, label in enumerate(classes)}
        counts = np.zeros((4, len(classes)), dtype=np.int64)
        for part in (self, other):
            counts[:, [row_of[label] for label in part.classes]] += part._counts()
        return EventScores(classes, *counts)

    def _counts(self) -> Ints:
        return np.array([self.true_positives, self.false_positives, self.false_negatives, self.absorbed])

    def __str__(self) -> str:
        rows = [["", "TP", "FP", "FN", "absorbed", "precision", "recall", "F"]]
        counts = self._counts()
        for label, numbers, *rates in zip(self.classes, counts.T, *self.per_class, strict=True):
            rows.append([str(label), *map(str, numbers), *(f"{rate:.3f}" for rate in rates)])
        rows.append(["pooled", *map(str, counts.sum(axis=1)), *(f"{rate:.3f}" for rate in self.pooled)])
        rows.append(["macro", "", "", "", "", *(f"{rate:.3f}" for rate in self.macro)])
        return aligned_table(rows)


def event_f(
    reference: Events,
    estimated: Events,
    min_iou: float = 0.5,
    unlabelled: Events | None = None,
    *,
    classes: ArrayLike | None = None,
) -> EventScores:
    r"""Precision, recall and F of found events, per class, pooled and averaged.

    .. math:: F = \frac{TP}{TP + (FP + FN)/2}

    TP are the pairs of `match_events`, FP the other estimates, FN the other reference events. With ``unlabelled`` the
    rule of DCASE task 5 holds: in a second round the estimates without a pair are matched to the unlabelled events,
    one to one and whatever the labels; those that find one are not counted as false.

    Parameters
    ----------
    reference, estimated : Events
        In the same unit of time.
    min_iou : float
        In (0, 1]; see `match_events` about ties.
    unlabelled : Events, optional
        Events of uncertain label ("UNK"); their labels are not read.
    classes : array-like (C,), optional
        Labels to score, in this order; events of other labels (unknown notes, unknown answers) are left out on both
        sides, so that an unknown note labelled c is a false positive of c. By default every label that occurs, sorted.

    Returns
    -------
    EventScores
        Prints as a table.

    Raises
    ------
    InputError
        If ``min_iou`` is not in (0, 1], or ``classes`` is empty or has a label twice.

    Examples
    --------
    >>> notes = Events.from_rows([(0.0, 1.0, "a"), (2.0, 3.0, "a"), (4.0, 5.0, "b")])
    >>> found = Events.from_rows([(0.1, 1.0, "a"), (4.0, 5.2, "b"), (6.0, 7.0, "b"), (8.0, 9.0, "b")])
    >>> print(event_f(notes, found, unlabelled=Events([6.1], [7.0], ["?"])))
            TP  FP  FN  absorbed  precision  recall      F
    a        1   0   1         0      1.000   0.500  0.667
    b        1   1   0         1      0.500   1.000  0.667
    pooled   2   1   1         1      0.667   0.667  0.667
    macro                             0.750   0.750  0.667
    """
    index = occurring(reference, estimated) if classes is None else label_index(classes)
    pairs = match_events(reference, estimated, min_iou)
    of_reference, of_estimated = codes(reference, index), codes(estimated, index)
    false = of_estimated >= 0
    false[pairs.estimated] = False
    absorbed = np.empty(0, dtype=np.int64)
    if unlabelled is not None:
        rows = np.arange(len(unlabelled))
        absorbed = match_spans(unlabelled, rows, estimated, np.flatnonzero(false), min_iou).estimated
        false[absorbed] = False
    n_reference, n_false, n_absorbed, hits = (
        np.bincount(codes[codes >= 0], minlength=len(index))
        for codes in (of_reference, of_estimated[false], of_estimated[absorbed], of_reference[pairs.reference])
    )
    return EventScores(tuple(index), hits, n_false, n_reference - hits, n_absorbed)


@dataclass(frozen=True, eq=False)
class TimeErrors:
    """Errors of the borders of matched events, estimated minus reference: positive is late.

    Attributes
    ----------
    onsets, offsets : ndarray (n_pairs,)
        In the unit of the events.
    """

    onsets: NDArray
    offsets: NDArray

    @property
    def median_absolute(self) -> tuple[float, float]:
        """Median of |error| of the onsets and of the offsets; NaN without pairs."""
        return _of_absolute(np.median, self.onsets), _of_absolute(np.median, self.offsets)

    @property
    def mean_absolute(self) -> tuple[float, float]:
        """Mean of |error| of the onsets and of the offsets; NaN without pairs."""
        return _of_absolute(np.mean, self.onsets), _of_absolute(np.mean, self.offsets)


def onset_offset_errors(reference: Events, estimated: Events, min_iou: float = 0.3) -> TimeErrors:
    """How late the found events begin and end, over the pairs of `match_events`.

    Missed and false events have no error; read this beside `event_f`.

    Parameters and errors are those of `match_events`.

    Returns
    -------
    TimeErrors
        In the order of the reference.

    Examples
    --------
    >>> errors = onset_offset_errors(Events([0, 100], [50, 160], [1, 2]), Events([4, 98], [50, 150], [1, 2]))
    >>> errors.onsets, errors.offsets
    (array([ 4, -2]), array([  0, -10]))
    >>> errors.median_absolute
    (3.0, 5.0)
    """
    pairs = match_events(reference, estimated, min_iou)
    return TimeErrors(
        estimated.starts[pairs.estimated] - reference.starts[pairs.reference],
        estimated.ends[pairs.estimated] - reference.ends[pairs.reference],
    )


def _rates(hits: ArrayLike, false: ArrayLike, missed: ArrayLike) -> Rates[Floats]:
    hits, false, missed = np.asarray(hits), np.asarray(false), np.asarray(missed)
    return Rates(ratio(hits, hits + false), ratio(hits, hits + missed), ratio(hits, hits + (false + missed) / 2))


def _of_absolute(statistic: Callable[[NDArray], np.floating], errors: NDArray) -> float:
    return float(statistic(np.abs(errors))) if len(errors) else float("nan")
