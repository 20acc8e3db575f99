"""Events against events: one-to-one matching by overlap, F scores, onset and offset errors.

An event is a span [start, end) with a label; times are seconds or samples, the same on both sides. The overlap of two
spans is their intersection over union, IoU = ``|A ∩ B| / |A ∪ B|``.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from outlark.errors import InputError
from outlark.metrics.windows import (
    Floats,
    aligned_table,
    label_index,
    label_list,
    mean_of_defined,
    ratio,
    sorted_labels,
)

Ints = NDArray[np.int64]
RateT = TypeVar("RateT", Floats, float)
# What rounding may cost: times of a day in seconds move the IoU of a 10 ms note by some 1e-9, one sample more or less
# moves that of a long note by more than 1e-7. So seconds and samples decide alike.
_ROUNDING = 1e-8
# The solver takes time proportional to its rows for each row: it gets the graph in pieces of this size.
_EDGES_AT_ONCE = 500


@dataclass(frozen=True, eq=False)
class Events:
    """Labelled spans of time, in any order; they may overlap.

    Parameters
    ----------
    starts, ends : array-like (n,)
        Seconds (float) or samples (int); every end lies after its start. Kept as read-only arrays.
    labels : array-like (n,)

    Examples
    --------
    >>> len(Events([0.0, 1.0], [0.4, 1.5], ["a", "b"]))
    2
    """

    starts: NDArray
    ends: NDArray
    labels: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        starts, ends = _times(self.starts, "starts"), _times(self.ends, "ends")
        labels = label_list(self.labels, "labels")  # type: ignore[arg-type]
        if not len(starts) == len(ends) == len(labels):
            found = f"{len(starts)} starts, {len(ends)} ends and {len(labels)} labels"
            raise InputError(f"Events has {found}. Give one of each per event.")
        wrong = np.flatnonzero(ends <= starts)
        if len(wrong):
            first = wrong[0]
            raise InputError(
                f"{len(wrong)} of {len(starts)} events do not end after their start, first event {first}: "
                f"{starts[first]} to {ends[first]}. Check the order of the columns, or omit empty events."
            )
        for name, value in (("starts", starts), ("ends", ends), ("labels", tuple(labels))):
            object.__setattr__(self, name, value)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[float, float, Hashable]]) -> Self:
        """Events from (start, end, label) rows.

        >>> Events.from_rows([(0, 480, "a"), (960, 1500, "b")]).labels
        ('a', 'b')
        """
        starts, ends, labels = zip(*table, strict=True) if (table := list(rows)) else ((), (), ())
        return cls(starts, ends, labels)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.labels)


class Matching(NamedTuple):
    """Pairs of `match_events`: event ``reference[k]`` belongs to event ``estimated[k]``; ``reference`` is sorted."""

    reference: Ints
    estimated: Ints
    iou: Floats


def match_events(reference: Events, estimated: Events, min_iou: float = 0.5) -> Matching:
    """Pair every event with at most one of the other side that has its label and overlaps it enough.

    The pairing is optimal: as many pairs as possible and, among those pairings, the largest sum of IoU. A pair needs
    IoU >= ``min_iou``, up to rounding (1e-8). The program of DCASE task 5 requires IoU > 0.3; to exclude exact ties as
    it does, ask for 0.300001. Both sides are in the same unit of time.

    Examples
    --------
    >>> notes = Events.from_rows([(0.0, 1.0, "a"), (2.0, 3.0, "a")])
    >>> found = Events.from_rows([(2.0, 2.5, "a"), (0.0, 1.0, "b"), (0.2, 1.0, "a")])
    >>> match_events(notes, found, min_iou=0.5)
    Matching(reference=array([0, 1]), estimated=array([2, 0]), iou=array([0.8, 0.5]))
    """
    if not 0 < min_iou <= 1:
        raise InputError(f"min_iou is {min_iou}, expected more than 0 and at most 1. Usual are 0.3 and 0.5.")
    index = {label: code for code, label in enumerate(dict.fromkeys([*reference.labels, *estimated.labels]))}
    of_reference, of_estimated = _codes(reference, index), _codes(estimated, index)
    row, column, iou = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for code in np.intersect1d(of_reference, of_estimated):
        rows, columns = np.flatnonzero(of_reference == code), np.flatnonzero(of_estimated == code)
        pairs = _match_spans(reference, rows, estimated, columns, min_iou)
        row.append(pairs.reference)
        column.append(pairs.estimated)
        iou.append(pairs.iou)
    order = np.argsort(np.concatenate(row))
    return Matching(np.concatenate(row)[order], np.concatenate(column)[order], np.concatenate(iou)[order])


class Rates(NamedTuple, Generic[RateT]):
    """Precision, recall and F: arrays (C,) per class, or single numbers; NaN where undefined."""

    precision: RateT
    recall: RateT
    f: RateT


@dataclass(frozen=True, eq=False)
class EventScores:
    """Counts of `event_f`, for each class (C,). Those of several recordings add up: ``scores_a + scores_b``.

    `absorbed` are estimates matched to an unlabelled event, which count as neither true nor false.
    """

    classes: tuple[Hashable, ...]
    true_positives: Ints
    false_positives: Ints
    false_negatives: Ints
    absorbed: Ints

    @property
    def per_class(self) -> Rates[Floats]:
        """Precision TP/(TP + FP), recall TP/(TP + FN) and F = TP/(TP + (FP + FN)/2) of each class (C,)."""
        return _rates(self.true_positives, self.false_positives, self.false_negatives)

    @property
    def pooled(self) -> Rates[float]:
        """The same for the summed counts: every event has the same weight."""
        rates = _rates(self.true_positives.sum(), self.false_positives.sum(), self.false_negatives.sum())
        return Rates(*map(float, rates))

    @property
    def macro(self) -> Rates[float]:
        """Mean of each over the classes where it is defined: every class has the same weight."""
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
    rule of DCASE task 5 applies: in a second round the unmatched estimates are matched to the unlabelled events, one to
    one and whatever the labels; those that match one are not counted as false.

    Parameters
    ----------
    reference, estimated : Events
        In the same unit of time.
    min_iou : float
        In (0, 1]; see `match_events` about ties.
    unlabelled : Events, optional
        Events of uncertain label ("UNK"); their labels are not read.
    classes : array-like (C,), optional
        Labels to score, in this order; events with other labels (unknown notes, unknown answers) are ignored on both
        sides, so that an unknown note labelled c is a false positive of c. By default every label that occurs, sorted.

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
    names = sorted_labels({*reference.labels, *estimated.labels})
    index = {name: number for number, name in enumerate(names)} if classes is None else label_index(classes)
    pairs = match_events(reference, estimated, min_iou)
    of_reference, of_estimated = _codes(reference, index), _codes(estimated, index)
    false = of_estimated >= 0
    false[pairs.estimated] = False
    absorbed = np.empty(0, dtype=np.int64)
    if unlabelled is not None:
        rows = np.arange(len(unlabelled))
        absorbed = _match_spans(unlabelled, rows, estimated, np.flatnonzero(false), min_iou).estimated
        false[absorbed] = False
    n_reference, n_false, n_absorbed, hits = (
        np.bincount(codes[codes >= 0], minlength=len(index))
        for codes in (of_reference, of_estimated[false], of_estimated[absorbed], of_reference[pairs.reference])
    )
    return EventScores(tuple(index), hits, n_false, n_reference - hits, n_absorbed)


@dataclass(frozen=True, eq=False)
class TimeErrors:
    """Onset and offset errors of matched events (n_pairs,), estimated minus reference: positive is late."""

    onsets: NDArray
    offsets: NDArray

    @property
    def median_absolute(self) -> tuple[float, float]:
        """Median absolute error of the onsets and of the offsets; NaN without pairs."""
        onset, offset = (np.median(np.abs(e)) if len(e) else np.nan for e in (self.onsets, self.offsets))
        return float(onset), float(offset)


def onset_offset_errors(reference: Events, estimated: Events, min_iou: float = 0.3) -> TimeErrors:
    """How late the found events start and end, over the pairs of `match_events`, whose parameters it takes.

    Missed and false events have no error; read this together with `event_f`.

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


def _times(values: ArrayLike, name: str) -> NDArray:
    times = np.asarray(values)
    if times.ndim != 1:
        raise InputError(f"{name} has shape {times.shape}, expected one dimension: one time per event.")
    if len(times) and times.dtype.kind not in "iuf":
        raise InputError(
            f"{name} is of type {times.dtype}, expected numbers: seconds as floats or samples as integers."
        )
    # A copy, signed: differences of unsigned samples would wrap around.
    times = times.astype(np.int64 if times.dtype.kind in "iu" else np.float64)
    wrong = np.flatnonzero(~np.isfinite(times))
    if len(wrong):
        raise InputError(
            f"{name} has {len(wrong)} times that are not finite, first {times[wrong[0]]} at event {wrong[0]}. "
            "Give each event a start and an end."
        )
    times.setflags(write=False)
    return times


def _codes(events: Events, index: dict[Hashable, int]) -> Ints:
    """Number of each event's label; -1 for labels that are not in the index."""
    return np.array([index.get(label, -1) for label in events.labels], dtype=np.int64)


def _match_spans(reference: Events, rows: Ints, estimated: Events, columns: Ints, min_iou: float) -> Matching:
    """The optimal pairs between some reference and some estimated events, whatever their labels."""
    row, column, iou = _overlaps(
        reference.starts[rows], reference.ends[rows], estimated.starts[columns], estimated.ends[columns], min_iou
    )
    best = _best_edges(row, column, iou)
    return Matching(rows[row[best]], columns[column[best]], iou[best])


def _overlaps(starts: NDArray, ends: NDArray, other_starts: NDArray, other_ends: NDArray, min_iou: float) -> Matching:
    """All pairs with IoU >= min_iou."""
    order = np.argsort(other_starts, kind="stable")
    other_starts, other_ends = other_starts[order], other_ends[order]
    # Sorted by start, the candidates of a span are neighbours: they start before its end; not all before them have
    # ended; and they do not start so early that the span would be too small a share of the union.
    reach = (ends - starts) / max(min_iou - _ROUNDING, _ROUNDING)
    first = np.maximum(
        np.searchsorted(np.maximum.accumulate(other_ends), starts, side="right"),
        np.searchsorted(other_starts, ends - reach, side="left"),
    )
    n_candidates = np.maximum(np.searchsorted(other_starts, ends, side="left") - first, 0)
    row = np.repeat(np.arange(len(starts)), n_candidates)
    column = np.arange(len(row)) + np.repeat(first - np.cumsum(n_candidates) + n_candidates, n_candidates)
    common = np.minimum(ends[row], other_ends[column]) - np.maximum(starts[row], other_starts[column])
    union = np.maximum(ends[row], other_ends[column]) - np.minimum(starts[row], other_starts[column])
    iou = common / union
    near = (common > 0) & (iou >= min_iou - _ROUNDING)
    return Matching(row[near], order[column[near]], iou[near])


def _best_edges(row: Ints, column: Ints, iou: Floats) -> Ints:
    """The edges of the bipartite matching with most edges and, among these, the largest sum of IoU."""
    if not len(row):
        return np.empty(0, dtype=np.int64)
    n_rows, n_nodes = row.max() + 1, row.max() + column.max() + 2
    graph = coo_array((np.ones(len(row)), (row, n_rows + column)), shape=(n_nodes, n_nodes))
    component = connected_components(graph, directed=False)[1][row]
    size = np.bincount(component)
    lone = size[component] == 1
    # Whole components, one after the other, until a piece is full.
    piece = np.cumsum(np.where(size > 1, size, 0))[component] // _EDGES_AT_ONCE
    rest = np.flatnonzero(~lone)
    rest = rest[np.argsort(piece[rest], kind="stable")]
    pieces = np.split(rest, np.flatnonzero(np.diff(piece[rest])) + 1) if len(rest) else []
    return np.concatenate(
        [np.flatnonzero(lone), *(edges[_assign(row[edges], column[edges], iou[edges])] for edges in pieces)]
    )


def _assign(row: Ints, column: Ints, iou: Floats) -> NDArray[np.bool_]:
    """Which edges the assignment of least cost takes, when an edge costs 2 - IoU and no edge more than all of them."""
    row, column = np.unique(row, return_inverse=True)[1], np.unique(column, return_inverse=True)[1]
    n_rows, n_columns = row.max() + 1, column.max() + 1
    # Every row has a column of its own that means "no edge"; with it a full matching exists.
    every = np.arange(n_rows)
    cost = np.concatenate([2 - iou, np.full(n_rows, n_rows + 2.0)])
    ends = (np.concatenate([row, every]), np.concatenate([column, n_columns + every]))
    graph = csr_array((cost, ends), shape=(n_rows, n_columns + n_rows))
    taken = min_weight_full_bipartite_matching(graph)
    return np.isin(row * n_columns + column, (taken[0] * n_columns + taken[1])[taken[1] < n_columns])


def split_and_merged(reference: Events, estimated: Events, classes: Iterable[Hashable]) -> tuple[Ints, Ints]:
    """For each class how many notes were found in pieces, and how many detections join several notes; (C,) each.

    A note is split if the middles of two or more detections of its class lie within it, and a detection merges notes if
    two or more of their middles lie within it.

    >>> notes = Events.from_rows([(0, 10, "a"), (20, 24, "a"), (26, 30, "a")])
    >>> found = Events.from_rows([(0, 4, "a"), (6, 10, "a"), (20, 30, "a")])
    >>> split_and_merged(notes, found, ["a", "b"])
    (array([1, 0]), array([1, 0]))
    """
    both = [(_with_label(reference, label), _with_label(estimated, label)) for label in classes]
    split = [int((_middles_within(*notes, *found) > 1).sum()) for notes, found in both]
    merged = [int((_middles_within(*found, *notes) > 1).sum()) for notes, found in both]
    return np.array(split, dtype=np.int64), np.array(merged, dtype=np.int64)


def _with_label(events: Events, label: Hashable) -> tuple[NDArray, NDArray]:
    own = np.array([other == label for other in events.labels], dtype=bool)
    return events.starts[own], events.ends[own]


def _middles_within(starts: NDArray, ends: NDArray, other_starts: NDArray, other_ends: NDArray) -> Ints:
    """How many of the others have their middle in each span."""
    middles = np.sort((other_starts + other_ends) / 2)
    return np.searchsorted(middles, ends) - np.searchsorted(middles, starts)


def _rates(hits: ArrayLike, false: ArrayLike, missed: ArrayLike) -> Rates[Floats]:
    hits, false, missed = np.asarray(hits), np.asarray(false), np.asarray(missed)
    return Rates(ratio(hits, hits + false), ratio(hits, hits + missed), ratio(hits, hits + (false + missed) / 2))
