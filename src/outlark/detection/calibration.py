"""Where a class begins to accept when the scale of its scores is not known, from the training recordings alone.

The low end of a class lies a few spreads below the middle of its own notes when left out. What else there is in the
training recordings scores below that; what scores above is taken for notes that nobody marked. The threshold lies
between the best of the rest and the low end of the class, nearer to the class: unknown notes will come that resemble
it more than anything in the training recordings does.
"""

from collections.abc import Sequence

import numpy as np

#: How many spreads below the middle of its own notes a class ends.
SPREADS = 4.0
#: The spread of a class is at least this share of its middle: a handful of notes may agree by chance.
LEAST_SPREAD = 0.02
#: How far from the best of the rest to the low end of the class the threshold lies.
WAY = 0.8
#: A class never ends below this share of its middle: notes that differ that much are marked wrongly, or are no class.
LEAST_LOW = 0.75
#: From so many left-out notes of a class on there are p-values: the smallest is then below .05.
ENOUGH_NOTES = 20


def note_thresholds(own: Sequence[np.ndarray], rest: Sequence[np.ndarray]) -> np.ndarray:
    """The threshold of each class, (C,).

    Parameters
    ----------
    own : for each class, the scores of its training notes when left out
    rest : for each class, the peaks of its score where none of its notes is marked: other notes, background

    Examples
    --------
    >>> own, rest = np.array([2.2, 2.3, 2.4]), np.array([0.3, 1.0, 2.25])
    >>> note_thresholds([own], [rest]).round(2)
    array([1.58])
    """
    spread = pooled_spread(own)
    thresholds = np.empty(len(own))
    for c, scores in enumerate(own):
        middle = float(np.median(scores))
        low = middle - SPREADS * max(spread, LEAST_SPREAD * abs(middle))
        low = max(low, LEAST_LOW * middle)
        best_of_the_rest = float(rest[c][rest[c] < low].max(initial=min(low, 0.0)))
        thresholds[c] = best_of_the_rest + WAY * (low - best_of_the_rest)
    return np.maximum(thresholds, np.finfo(float).eps)


def raised(thresholds: np.ndarray) -> np.ndarray:
    """Thresholds (C,) of which none is below their mean.

    Scores of all classes are on one scale. A class that would begin to accept well below the others does so because its
    few notes happen to differ, not because it is worth more false alarms.

    >>> raised(np.array([1.0, 2.0, 3.0]))
    array([2., 2., 3.])
    """
    return np.maximum(thresholds, thresholds.mean())


def note_p_values(scores: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Conformal p-values of notes with these scores (n,) under one class, (n,); see `NoteDetector.p_values`.

    Parameters
    ----------
    scores : ndarray (n,)
        NaN where there is none.
    left_out : ndarray (m,)
        The scores of the training notes of the class when left out, sorted.

    Returns
    -------
    ndarray (n,)
        ``(1 + #{left out ≤ score}) / (m + 1)``; NaN without a score, or with fewer than `ENOUGH_NOTES` notes.

    Examples
    --------
    >>> note_p_values(np.array([0.5, 10.0, 99.0, np.nan]), np.arange(1.0, 25.0))
    array([0.04, 0.44, 1.  ,  nan])
    >>> note_p_values(np.array([0.5]), np.arange(1.0, 20.0))
    array([nan])
    """
    if len(left_out) < ENOUGH_NOTES:
        return np.full(len(scores), np.nan)
    ranks = 1 + np.searchsorted(left_out, scores, side="right")
    return np.where(np.isnan(scores), np.nan, ranks / (len(left_out) + 1))


def pooled_spread(own: Sequence[np.ndarray]) -> float:
    """How much left-out notes of one class differ: a standard deviation, robust against a few odd notes.

    Scores are commensurable, so all classes tell it together.

    >>> round(pooled_spread([np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.1, 2.2])]), 3)
    0.182
    """
    deviations = [np.abs(scores - np.median(scores)) for scores in own if len(scores) > 1]
    freedom = sum(len(d) - 1 for d in deviations)
    if not freedom:
        return 0.0
    pooled = np.concatenate(deviations)
    # 1.4826: the median deviation of a normal distribution, as a standard deviation
    return 1.4826 * float(np.median(pooled)) * float(np.sqrt(len(pooled) / freedom))
