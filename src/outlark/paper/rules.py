"""The six decision rules of the paper (Sec. 4.2), from class scores to one label for each step.

Scores are (T, C), at least 0. A decision is the number of a class, or `UNDECIDED`, which at the end means unknown.
"""

import numpy as np

from outlark.detection.intervals import Runs, run_lengths

UNDECIDED = -1


def decode(runs: Runs) -> np.ndarray:
    """The sequence that `run_lengths` took.

    >>> decode(run_lengths(np.array([7, 7, 0, 7])))
    array([7, 7, 0, 7])
    """
    return np.repeat(runs.values, runs.lengths)


def drop_short(mask: np.ndarray, least: int) -> np.ndarray:
    """A boolean sequence without its runs of True that are shorter than `least`.

    >>> drop_short(np.array([True, True, False, True]), 2)
    array([ True,  True, False, False])
    """
    runs = run_lengths(mask)
    return decode(runs._replace(values=runs.values & (runs.lengths >= least)))


def discard_low(scores: np.ndarray, thresholds: np.ndarray | float) -> np.ndarray:
    """Step 1: "all scores below threshold τ were discarded (set to 0)".

    >>> discard_low(np.array([[0.4, 2.0], [1.0, 0.9]]), 1.0)
    array([[0., 2.],
           [1., 0.]])
    """
    return np.where(scores >= thresholds, scores, 0.0)


def discard_short(scores: np.ndarray, least: int) -> np.ndarray:
    """Step 2: "all non-zero scores that lasted less than [least] consecutive time steps were discarded"."""
    kept = np.column_stack([drop_short(column > 0, least) for column in scores.T])
    return np.where(kept, scores, 0.0)


def decide_where_sure(scores: np.ndarray, longer_than: int) -> np.ndarray:
    """Step 3: "a class score that is larger than other class scores for longer than [longer_than] time steps is …
    final".
    """
    largest = _largest(scores)
    runs = run_lengths(largest)
    return decode(runs._replace(values=np.where(runs.lengths > longer_than, runs.values, UNDECIDED)))


def average_undecided(scores: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Step 4: "for the remaining undecided subsets, for each class, the mean (over the subset) class score is assigned
    to the whole segment".

    A subset is a maximal run of undecided steps at which some score is left.
    """
    averaged = scores.copy()
    runs = run_lengths((decisions == UNDECIDED) & (scores > 0).any(axis=1))
    for start, end in zip(runs.starts[runs.values], runs.ends[runs.values], strict=True):
        averaged[start:end] = scores[start:end].mean(axis=0)
    return averaged


def decide_by_largest(scores: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Step 5: "crisp decision for each time step is taken according to the max score"; what is final stays."""
    return np.where(decisions == UNDECIDED, _largest(scores), decisions)


def drop_short_decisions(decisions: np.ndarray, least: int) -> np.ndarray:
    """Step 6: "crisp decisions which last less than [least] time steps are removed … and declared as OOD"."""
    runs = run_lengths(decisions)
    return decode(runs._replace(values=np.where(runs.lengths >= least, runs.values, UNDECIDED)))


def decide(scores: np.ndarray, thresholds: np.ndarray | float, *, least: int, sure: int) -> np.ndarray:
    """All six steps; the paper's numbers are ``least=35`` and ``sure=60`` steps.

    >>> scores = np.repeat([[3.0, 0.0], [0.0, 0.2], [0.5, 2.0]], 4, axis=0)
    >>> decide(scores, 1.0, least=2, sure=3)
    array([ 0,  0,  0,  0, -1, -1, -1, -1,  1,  1,  1,  1])
    """
    scores = discard_short(discard_low(scores, thresholds), least)
    decisions = decide_where_sure(scores, sure)
    decisions = decide_by_largest(average_undecided(scores, decisions), decisions)
    return drop_short_decisions(decisions, least)


def _largest(scores: np.ndarray) -> np.ndarray:
    """The class with the largest score; `UNDECIDED` where all are 0."""
    return np.where((scores > 0).any(axis=1), scores.argmax(axis=1), UNDECIDED)
