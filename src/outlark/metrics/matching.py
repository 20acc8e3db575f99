"""Spans of time with labels, and the best one-to-one matching between two lists of them.

An event is a span [start, end) with a label; times are seconds or samples, the same on both sides.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from outlark.errors import InputError
from outlark.metrics.labels import label_list

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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

    Raises
    ------
    InputError
        If the lengths differ, or a time is no finite number, or an event does not end after its start.

    Examples
    --------
    >>> Events([0.0, 1.0], [0.4, 1.5], ["a", "b"]).durations
    array([0.4, 0.5])
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
                f"{starts[first]} to {ends[first]}. Check the order of the columns, or leave empty events out."
            )
        for name, value in (("starts", starts), ("ends", ends), ("labels", tuple(labels))):
            object.__setattr__(self, name, value)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[float, float, Hashable]]) -> Self:
        """Events from (start, end, label) rows.

        Examples
        --------
        >>> Events.from_rows([(0, 480, "a"), (960, 1500, "b")]).labels
        ('a', 'b')
        """
        table = [tuple(row) for row in rows]
        odd = [row for row in table if len(row) != 3]
        if odd:
            raise InputError(f"A row has {len(odd[0])} values: {odd[0]}. Expected three: start, end, label.")
        starts, ends, labels = zip(*table, strict=True) if table else ((), (), ())
        return cls(starts, ends, labels)  # type: ignore[arg-type]

    @property
    def durations(self) -> NDArray:
        """End minus start (n,)."""
        return self.ends - self.starts

    def __len__(self) -> int:
        return len(self.labels)


class Matching(NamedTuple):
    """Pairs of `match_events`: event ``reference[k]`` belongs to event ``estimated[k]``; ``reference`` is sorted."""

    reference: Ints
    estimated: Ints
    iou: Floats


def match_events(reference: Events, estimated: Events, min_iou: float = 0.5) -> Matching:
    """Pair every event with at most one of the other side that has its label and overlaps it enough.

    The pairing is optimal: as many pairs as can be and, among the pairings with that many, the largest sum of IoU (so
    that the errors of the pairs do not depend on chance). A pair needs IoU >= ``min_iou``, up to rounding (1e-8). The
    program of DCASE task 5 asks for IoU > 0.3; to leave out exact ties like it, ask for 0.300001.

    Only overlapping pairs are looked at: 100,000 events of a recording take seconds.

    Parameters
    ----------
    reference, estimated : Events
        In the same unit of time.
    min_iou : float
        In (0, 1].

    Returns
    -------
    Matching

    Raises
    ------
    InputError
        If ``min_iou`` is not in (0, 1].

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
    of_reference, of_estimated = codes(reference, index), codes(estimated, index)
    row, column, iou = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for code in np.intersect1d(of_reference, of_estimated):
        rows, columns = np.flatnonzero(of_reference == code), np.flatnonzero(of_estimated == code)
        pairs = match_spans(reference, rows, estimated, columns, min_iou)
        row.append(pairs.reference)
        column.append(pairs.estimated)
        iou.append(pairs.iou)
    order = np.argsort(np.concatenate(row))
    return Matching(np.concatenate(row)[order], np.concatenate(column)[order], np.concatenate(iou)[order])


def _times(values: ArrayLike, name: str) -> NDArray:
    times = np.asarray(values)
    if times.ndim != 1:
        raise InputError(f"{name} has shape {times.shape}, expected one dimension: one time per event.")
    if len(times) and times.dtype.kind not in "iuf":
        raise InputError(
            f"{name} is of type {times.dtype}, expected numbers. Give seconds as floats or samples as integers."
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


def codes(events: Events, index: dict[Hashable, int]) -> Ints:
    """Number of each event's label; -1 for labels that are not in the index."""
    return np.array([index.get(label, -1) for label in events.labels], dtype=np.int64)


def match_spans(reference: Events, rows: Ints, estimated: Events, columns: Ints, min_iou: float) -> Matching:
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


def occurring(reference: Events, estimated: Events) -> dict[Hashable, int]:
    """Number of each label that occurs, sorted; by type first, since a text and a number cannot be compared."""
    labels = sorted({*reference.labels, *estimated.labels}, key=lambda label: (type(label).__name__, label))
    return {label: number for number, label in enumerate(labels)}
