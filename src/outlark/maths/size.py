"""Making class scores commensurable when classes differ in size.

d_c shrinks as n_c grows, because the scatter in the feature space is a sum, not a mean: a class with more or longer
examples looks nearer to everything. The remedy keeps all samples and multiplies the score of the class by

    a_c = m_c(reference size) / m_c(its own size),

where m_c(n) is the mean score of left-out notes of the class when n samples describe it. A factor keeps 0 at 0, and
removes only the effect of size, not how compact a class is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outlark.maths.description import left_out_scores
from outlark.maths.notes import draw_notes, leave_out_parts
from outlark.maths.rows import gathered
from outlark.maths.sparse import EXACT_UP_TO, Setting, describe_class

#: Sizes that differ by less than this factor count as the same.
SAME_SIZE = 1.05
#: Most random subsets of a class to describe, and most samples that those of a large class have together.
MOST_SUBSETS, ENOUGH_SAMPLES = 50, 20_000


class Size(NamedTuple):
    """The size of the description of a class."""

    n_notes: int
    n_samples: int


def size_of(groups: np.ndarray) -> Size:
    return Size(len(np.unique(groups)), len(groups))


def mean_left_out_score(Z: np.ndarray, notes: np.ndarray, setting: Setting) -> float:
    """The mean score of the samples under the description without their note; 0 when nothing can be left out."""
    parts = leave_out_parts(notes)
    if not parts:
        return 0.0
    return float(left_out_scores(describe_class(Z, setting), parts).mean())


def score_at_size(Z: np.ndarray, notes: np.ndarray, size: Size, setting: Setting) -> float:
    """m_c(size): the mean over random subsets of that size, enough of them to use each note about once."""
    own = size_of(notes)
    rng = np.random.default_rng(setting.seed)
    repeats = min(MOST_SUBSETS, max(2, -(-own.n_notes // size.n_notes), -(-own.n_samples // size.n_samples)))
    if own.n_samples > EXACT_UP_TO:
        repeats = min(repeats, max(1, ENOUGH_SAMPLES // size.n_samples))
    values = []
    for _ in range(repeats):
        rows = draw_notes(notes, size.n_notes, size.n_samples, rng)
        values.append(mean_left_out_score(gathered(Z, rows), notes[rows], setting))
    return float(np.mean(values))


def size_factor(
    c: int,
    samples: Sequence[np.ndarray],
    notes: Sequence[np.ndarray],
    own_mean: float,
    reference: Size,
    setting: Setting,
) -> float:
    """a_c: 1 for a class of the reference size, less for a larger one, more for a smaller one.

    Parameters
    ----------
    c : number of the class
    samples, notes : one entry for each class
    own_mean : float
        The `mean_left_out_score` of the class.
    reference : Size
        At least as large as the smallest class but for those that came later or have a single note.

    Examples
    --------
    >>> Z = np.random.default_rng(0).normal(size=(400, 2))
    >>> samples, notes = [Z[:40], Z], [np.arange(40), np.arange(400)]
    >>> setting = Setting(ell=2.0, ratio=0.1)
    >>> means = [mean_left_out_score(*of_class, setting) for of_class in zip(samples, notes)]
    >>> size_factor(0, samples, notes, means[0], Size(40, 40), setting)
    1.0
    >>> 0.4 < size_factor(1, samples, notes, means[1], Size(40, 40), setting) < 0.8
    True
    """
    own = size_of(notes[c])
    if own.n_notes < reference.n_notes or own.n_samples < reference.n_samples:
        return _growth(c, samples, notes, reference, setting)
    if max(own.n_notes / reference.n_notes, own.n_samples / reference.n_samples) <= SAME_SIZE:
        return 1.0
    return _quotient(score_at_size(samples[c], notes[c], reference, setting), own_mean)


def _growth(
    c: int, samples: Sequence[np.ndarray], notes: Sequence[np.ndarray], reference: Size, setting: Setting
) -> float:
    """The factor of a class smaller than the reference, from how the scores of the others grow with size."""
    own = size_of(notes[c])
    if own.n_notes == 1:  # two notes, of which one is left out, are described by one
        own = Size(2, 2 * own.n_samples)
    own = smallest([own, reference])
    others = [b for b in range(len(notes)) if b != c and size_of(notes[b]).n_notes >= reference.n_notes]
    factors = [
        _quotient(*(score_at_size(samples[b], notes[b], size, setting) for size in (reference, own))) for b in others
    ]
    return float(np.mean(factors)) if factors else 1.0


def _quotient(at_reference: float, at_own: float) -> float:
    return at_reference / at_own if at_own > 0.0 and at_reference > 0.0 else 1.0


def smallest(sizes: Sequence[Size]) -> Size:
    """The fewest notes and the fewest samples of any of the sizes."""
    return Size(min(s.n_notes for s in sizes), min(s.n_samples for s in sizes))
