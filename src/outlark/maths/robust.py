"""Finding training notes that do not belong, and leaving them out.

One bad frame captures its whole neighbourhood: with c copies of a sample its distance falls to ``d·ρ/(c·d + ρ)``. So
whole **notes** are judged, by their score when left out, and dropped worst first (Sec. 1 of the paper leaves robustness
open).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outlark.maths.description import Description, describe, distances, left_out_distances, score
from outlark.maths.notes import parts_of

#: With fewer notes than this a class is not trimmed: an odd note may be one of its two ways of sounding.
FEWEST_NOTES = 8
#: A note is odd when its score lies more than this many robust standard deviations below the median of its class.
ODD_DEVIATIONS = 3.5
#: The robust standard deviation is taken as no less than this share of the median.
LEAST_DEVIATION = 0.1


class NoteScores(NamedTuple):
    """The notes of one class: their rows, mean score when left out, and mean score under the best other class."""

    parts: list[np.ndarray]
    own: np.ndarray
    other: np.ndarray
    other_class: np.ndarray


def note_scores(c: int, Z: np.ndarray, groups: np.ndarray, descriptions: Sequence[Description]) -> NoteScores:
    """Score each note of class c, once left out of its own class and once under every other class.

    `own` is NaN when the class has a single note.
    """
    parts = parts_of(groups)
    own = np.full(len(parts), np.nan)
    if len(parts) > 1:
        d = left_out_distances(descriptions[c], parts)
        own = np.array([score(d[G]).mean() for G in parts])
    others = [b for b in range(len(descriptions)) if b != c]
    if not others:
        return NoteScores(parts, own, np.zeros(len(parts)), np.full(len(parts), -1))
    by_class = np.array([score(distances(descriptions[b], Z)) for b in others])
    means = np.array([by_class[:, G].mean(axis=1) for G in parts])
    best = means.argmax(axis=1)
    return NoteScores(parts, own, means.max(axis=1), np.array(others)[best])


def odd_notes(scores: NoteScores) -> np.ndarray:
    """Which notes lie far below the rest of their class, bool (n_notes,).

    >>> scores = NoteScores([], np.array([1.0, 1.1, 0.9, 1.0, 0.1]), np.zeros(5), np.zeros(5, int))
    >>> odd_notes(scores)
    array([False, False, False, False,  True])
    """
    median = np.median(scores.own)
    deviation = max(1.4826 * float(np.median(np.abs(scores.own - median))), LEAST_DEVIATION * float(median))
    return scores.own < median - ODD_DEVIATIONS * deviation


def mislabelled_notes(scores: NoteScores) -> np.ndarray:
    """Which notes another class describes better than their own does without them, bool (n_notes,)."""
    return scores.other > scores.own


def trim(
    Z: Sequence[np.ndarray], groups: Sequence[np.ndarray], ell: float, ratio: float, share: float
) -> list[np.ndarray]:
    """Drop odd and mislabelled notes, the worst first, describing anew after each; at most `share` of a class's notes.

    Parameters
    ----------
    Z, groups : sequences with one entry for each class
    share : float
        The largest part of the notes of a class that may be dropped.

    Returns
    -------
    list of index arrays
        For each class the rows that are kept, ascending.
    """
    keep = [np.arange(len(z)) for z in Z]
    descriptions = [describe(z, ell, ratio) for z in Z]
    may_drop = [int(share * len(np.unique(g))) if len(np.unique(g)) >= FEWEST_NOTES else 0 for g in groups]
    while True:
        worst = _worst_note(Z, groups, keep, descriptions, may_drop)
        if worst is None:
            return keep
        c, rows = worst
        keep[c] = np.setdiff1d(keep[c], rows)
        descriptions[c] = describe(Z[c][keep[c]], ell, ratio)
        may_drop[c] -= 1


def _worst_note(
    Z: Sequence[np.ndarray],
    groups: Sequence[np.ndarray],
    keep: Sequence[np.ndarray],
    descriptions: Sequence[Description],
    may_drop: Sequence[int],
) -> tuple[int, np.ndarray] | None:
    """The class and rows of the note that lies furthest below what it should have, or None when all are in order."""
    worst, worst_gap = None, 0.0
    for c, allowed in enumerate(may_drop):
        if allowed <= 0:
            continue
        scores = note_scores(c, Z[c][keep[c]], groups[c][keep[c]], descriptions)
        bad = odd_notes(scores) | mislabelled_notes(scores)
        gaps = np.where(bad, np.maximum(scores.other, np.median(scores.own)) - scores.own, 0.0)
        note = int(gaps.argmax())
        if bad[note] and gaps[note] > worst_gap:
            worst, worst_gap = (c, keep[c][scores.parts[note]]), float(gaps[note])
    return worst
