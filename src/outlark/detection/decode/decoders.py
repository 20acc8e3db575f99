"""Decoders: from the scores of a batch of regions to the notes in it. Each region is decided by itself."""

from typing import NamedTuple

import numpy as np

from outlark.detection.decode import rules
from outlark.detection.decode.regions import Batch
from outlark.detection.decode.rules import decode, encode

#: The smallest number above 0: a class with a threshold of 0 or less accepts any score above 0.
TINY = float(np.nextafter(0.0, 1.0))
#: Among starts of one class within this many frames, the best is a candidate.
NEAR = 2
#: Notes may overlap by this share of their length at each end, because lengths are tried in steps. Up to .15, results
#: on booth recordings stay the same; songs in the field lose .01.
GIVE = 0.05
#: In units of the median threshold of the classes: the most that one frame counts for or against a class, the cost of
#: calling an active frame silent or an inactive one unknown, and the cost of a change of state.
BOUND, WRONG, SWITCH = 1.0, 0.25, 0.5


class Decoded(NamedTuple):
    """The notes of a batch (N, 3): first frame, the one after the last, number of the class; which frames are active,
    (T,) of bool; and at note level the frames of each note as it was scored, (N, 2)."""

    notes: np.ndarray
    active: np.ndarray
    scored: np.ndarray | None = None


def decode_rules(batch: Batch, active: np.ndarray, thresholds: np.ndarray, *, least: int, sure: int,
                 bridge: int) -> Decoded:  # fmt: skip
    """The paper's six rules; a class continues if it falls below its threshold for up to `bridge` frames.

    Deciding all regions of the batch at once changes nothing. Between two regions every score is below its threshold,
    and step 1 sets it to 0. All runs, those of non-zero scores (step 2), of one leading class (step 3), of undecided
    steps with some score left (step 4) and of equal decisions (step 6), end there, and step 5 looks at single frames.
    The gap is longer than `bridge`, so bridging carries nothing across either.
    """
    speaks = np.column_stack([_bridged(column, bridge) for column in (batch.block.values >= thresholds).T])
    scores = np.where(speaks, np.maximum(batch.block.values, TINY), 0.0)
    labels = rules.decide(scores, TINY, least=least, sure=sure)
    return Decoded(_notes(bridge_labels(labels, bridge)), active)


def decode_viterbi(batch: Batch, active: np.ndarray, thresholds: np.ndarray, *, least: np.ndarray,
                   bridge: int) -> Decoded:  # fmt: skip
    """The best sequence of classes, unknown and silence in each region, where a class lasts at least `least` (C,)."""
    n_classes = len(thresholds)
    labels, active = np.full(len(batch.block), rules.UNDECIDED), active.copy()
    durations = np.append(least, [1, 1])
    for start, end in batch.regions:
        gains = frame_gains(batch.block.values[start:end], thresholds, active[start:end])
        states = viterbi(gains, durations, SWITCH)
        labels[start:end] = np.where(states < n_classes, states, rules.UNDECIDED)
        active[start:end] = states == n_classes
    return Decoded(_notes(bridge_labels(labels, bridge)), active)


def decode_notes(batch: Batch, active: np.ndarray, thresholds: np.ndarray, *, least: int = 0) -> Decoded:
    """The best set of whole notes that overlap at most a little at their edges, where they meet half way.

    A candidate gains (score - threshold) · length: the evidence above the threshold, summed over its frames. Without
    the length, two short notes within a long one would beat it, however weak. A candidate has at least `least` frames,
    and is dropped if the next note leaves it fewer.
    """
    values, lengths = batch.block.values, batch.block.lengths
    assert lengths is not None
    if least:
        values = np.where(batch.block.note_lengths >= least, values, 0.0)
    starts, classes = np.nonzero(candidates(values, thresholds))
    groups = np.searchsorted(batch.regions[:, 0], starts, side="right") - 1
    # notes that reach beyond a region that was cut are cut as well
    ends = np.minimum(starts + lengths[starts, classes], batch.regions[groups, 1])
    gains = (values[starts, classes] - thresholds[classes]) * (ends - starts)
    give = (GIVE * (ends - starts)).astype(int)
    order = np.lexsort((classes, starts + give, ends - give))
    chosen = order[best_intervals((starts + give)[order], (ends - give)[order], gains[order], groups[order])]
    notes = np.column_stack([starts, ends, classes])[chosen]
    moves = np.zeros((*values.shape, 2), dtype=np.int64) if batch.block.moves is None else batch.block.moves
    at_edges = moved(notes, moves, batch.regions[groups[chosen]])
    lasting = at_edges[:, 1] - at_edges[:, 0] >= least
    return Decoded(at_edges[lasting], active, notes[lasting, :2])


def moved(notes: np.ndarray, moves: np.ndarray, regions: np.ndarray) -> np.ndarray:
    """Notes (N, 3), in order, that overlap by less than half, with edges moved and without overlap.

    An edge stays on its side of the middle of its note and within its region (N, 2). Notes that would overlap meet half
    way.

    >>> moves = np.zeros((9, 1, 2), dtype=int)
    >>> moves[[1, 5], 0] = [[-1, 2], [-1, -1]]
    >>> moved(np.array([[1, 5, 0], [5, 9, 0]]), moves, np.array([[0, 9], [0, 9]]))
    array([[0, 5, 0],
           [5, 8, 0]])
    """
    starts, ends, classes = notes.T
    middles = (starts + ends) // 2
    new_starts = np.clip(starts + moves[starts, classes, 0], regions[:, 0], middles)
    new_ends = np.clip(ends + moves[starts, classes, 1], middles + 1, regions[:, 1])
    both = np.flatnonzero(new_ends[:-1] > new_starts[1:])
    meeting = np.clip((new_ends[both] + new_starts[both + 1]) // 2, middles[both] + 1, middles[both + 1])
    new_ends[both] = new_starts[both + 1] = meeting
    return np.column_stack([new_starts, new_ends, classes])


def candidates(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Starts (T, C) of bool that reach the threshold and that no start within `NEAR` frames beats; of equals the first.

    >>> candidates(np.array([[1.0], [3.0], [3.0], [2.0], [2.5]]), np.array([2.0])).ravel()
    array([False,  True, False, False, False])
    """
    best = values >= thresholds
    for k in range(1, NEAR + 1):
        best[k:] &= values[k:] > values[:-k]
        best[:-k] &= values[:-k] >= values[k:]
    return best


def best_intervals(starts: np.ndarray, ends: np.ndarray, gains: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Weighted interval scheduling (segmental Viterbi): intervals without overlap that have the largest total gain.

    Of intervals sorted by end, the numbers of those chosen, in order. Intervals of different groups do not overlap, and
    sums restart in each group: rounding in one does not affect another.

    >>> starts, ends, gains = np.array([0, 2, 5]), np.array([4, 6, 9]), np.array([2.0, 3.0, 2.0])
    >>> best_intervals(starts, ends, gains, np.zeros(3, dtype=int))
    array([0, 2])
    """
    before = np.searchsorted(ends, starts, side="right").tolist()  # how many end before this one starts
    best, taken, group = [0.0] * (len(starts) + 1), [], None
    for i, (gain, here) in enumerate(zip(gains.tolist(), groups.tolist(), strict=True)):
        if here != group:
            best[i], group = 0.0, here
        with_it = best[before[i]] + gain
        taken.append(with_it >= best[i])
        best[i + 1] = max(with_it, best[i])
    chosen, i = [], len(starts)
    while i > 0:
        if taken[i - 1]:
            chosen.append(i - 1)
        i = before[i - 1] if taken[i - 1] else i - 1
    return np.array(chosen[::-1], dtype=int)


def frame_gains(values: np.ndarray, thresholds: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The gain of each frame for each class, for unknown and for silence, (T, C + 2); 0 at the threshold.

    >>> frame_gains(np.array([[3.0], [1.5]]), np.array([2.0]), np.array([True, False]))
    array([[ 0.5 ,  0.  , -0.25],
           [-0.25, -0.25,  0.  ]])
    """
    usual = thresholds[(thresholds > TINY) & np.isfinite(thresholds)]
    unit = np.median(usual) if len(usual) else 1.0
    classes = np.clip((values - thresholds) / unit, -BOUND, BOUND)
    return np.column_stack([classes, np.where(active, 0.0, -WRONG), np.where(active, -WRONG, 0.0)])


def viterbi(gains: np.ndarray, least: np.ndarray, switch: float) -> np.ndarray:
    """The sequence of states (T,) with the largest sum of gains (T, S), less `switch` > 0 for each change of state.

    A state lasts `least` frames (S,) or more; at least one of these is 1.

    >>> viterbi(np.array([[0, 1], [0, 1], [0, -9], [0, 1.0]]), np.array([1, 2]), 0.1)
    array([1, 1, 0, 0])
    """
    n, n_states = gains.shape
    total = np.vstack([np.zeros(n_states), np.cumsum(gains, axis=0)])
    begin = np.maximum(np.arange(n + 1)[:, None] - least, 0)  # onset of a state that has lasted its least at t
    since = np.where(np.arange(n + 1)[:, None] < least, -np.inf, total - np.take_along_axis(total, begin, axis=0))
    entry, origin = (
        np.zeros(n + 1),
        np.zeros(n + 1, dtype=int),
    )  # best total if a state starts at t, and the one before
    fresh = np.zeros((n + 1, n_states), dtype=bool)
    best = np.full(n_states, -np.inf)  # best total of t frames that end in state s, once it has lasted its least
    for t in range(1, n + 1):
        best += gains[t - 1]
        new = entry[begin[t]] + since[t]
        np.greater(new, best, out=fresh[t])
        np.maximum(new, best, out=best)
        origin[t] = last = best.argmax()
        entry[t] = best[last] - switch
    return _path(fresh, origin, least)


def _path(fresh: np.ndarray, origin: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Back from the end: `fresh[t, s]` where state s has lasted its least at t; it then came from `origin`."""
    t = len(fresh) - 1
    path, state = np.empty(t, dtype=int), origin[t]
    while t > 0:
        begins = fresh[t, state]
        step = least[state] if begins else 1
        path[t - step : t] = state
        t -= step
        state = origin[t] if begins else state
    return path


def bridge_labels(labels: np.ndarray, bridge: int) -> np.ndarray:
    """Decisions (T,) with gaps of up to `bridge` undecided frames within one class filled.

    >>> bridge_labels(np.array([1, -1, 1, -1, 0, -1, -1, 0]), 1)
    array([ 1,  1,  1, -1,  0, -1, -1,  0])
    """
    runs = encode(labels)
    inner = np.flatnonzero((runs.values[1:-1] == rules.UNDECIDED) & (runs.lengths[1:-1] <= bridge)) + 1
    inner = inner[runs.values[inner - 1] == runs.values[inner + 1]]
    runs.values[inner] = runs.values[inner - 1]
    return decode(runs)


def _bridged(mask: np.ndarray, bridge: int) -> np.ndarray:
    """A mask (T,) without its gaps of up to `bridge`."""
    return bridge_labels(np.where(mask, 1, rules.UNDECIDED), bridge) == 1 if bridge else mask


def _notes(labels: np.ndarray) -> np.ndarray:
    """Runs of decisions (T,) as notes (N, 3)."""
    runs = encode(labels)
    return np.column_stack(runs)[runs.values != rules.UNDECIDED]
