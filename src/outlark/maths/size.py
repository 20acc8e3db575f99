"""Making class scores commensurable when classes differ in size.

d_c shrinks as n_c grows, because the scatter in the feature space is a sum and not a mean: a class with more or
longer examples looks nearer to everything. The remedy keeps all samples and multiplies the class's score by

    a_c = m_c(reference size) / m_c(its own size),

where m_c(n) is the mean score of left-out notes of the class when it is described by n samples. A factor, so that 0
stays 0; and only the effect of size is taken out, not how compact a class is.
"""

from typing import NamedTuple

import numpy as np

from outlark.maths.description import describe, far_distance, left_out_distances, score
from outlark.maths.notes import draw_notes, leave_out_parts

#: Sizes that differ by less than this factor are taken as the same.
SAME_SIZE = 1.05


class Size(NamedTuple):
    """How much a class is described by."""

    n_notes: int
    n_samples: int


def size_of(groups: np.ndarray) -> Size:
    """The number of notes and of samples."""
    return Size(len(np.unique(groups)), len(groups))


def mean_left_out_score(Z: np.ndarray, groups: np.ndarray, ell: float, ratio: float, center: bool) -> float:
    """The mean score of the samples under the description without their note; 0 when nothing can be left out."""
    parts = leave_out_parts(groups)
    if not parts:
        return 0.0
    description = describe(Z, ell, ratio)
    d = left_out_distances(description, parts, center=center)
    return float(score(d, far_distance(description, center=center)).mean())


def score_at_size(
    Z: np.ndarray, groups: np.ndarray, size: Size, ell: float, ratio: float, center: bool, rng: np.random.Generator
) -> float:
    """m_c(size): the mean over random subsets of that size, enough of them to use each note about once."""
    own = size_of(groups)
    repeats = max(2, -(-own.n_notes // size.n_notes), -(-own.n_samples // size.n_samples))
    values = []
    for _ in range(min(repeats, 50)):
        rows = draw_notes(groups, size.n_notes, size.n_samples, rng)
        values.append(mean_left_out_score(Z[rows], groups[rows], ell, ratio, center))
    return float(np.mean(values))


def size_factor(
    Z: np.ndarray, groups: np.ndarray, reference: Size, ell: float, ratio: float, *, center: bool, seed: int
) -> float:
    """a_c for a class that is at least as large as the reference; 1 when it is as large.

    Examples
    --------
    >>> Z = np.random.default_rng(0).normal(size=(400, 2))
    >>> small, large = np.arange(40), np.arange(400)
    >>> size_factor(Z[small], small, Size(40, 40), 2.0, 0.1, center=False, seed=0)
    1.0
    >>> 0.4 < size_factor(Z[large], large, Size(40, 40), 2.0, 0.1, center=False, seed=0) < 0.8
    True
    """
    own = size_of(groups)
    if own.n_notes <= reference.n_notes and own.n_samples <= SAME_SIZE * reference.n_samples:
        return 1.0
    at_own = mean_left_out_score(Z, groups, ell, ratio, center)
    at_reference = score_at_size(Z, groups, reference, ell, ratio, center, np.random.default_rng(seed))
    return at_reference / at_own if at_own > 0.0 and at_reference > 0.0 else 1.0


def smallest(sizes: list[Size]) -> Size:
    """The reference size: the fewest notes and the fewest samples of any class."""
    return Size(min(s.n_notes for s in sizes), min(s.n_samples for s in sizes))
