"""Finding training notes that do not belong, and leaving them out.

One bad frame captures its whole neighbourhood: with c copies of a sample its distance falls to ``d·ρ/(c·d + ρ)``. So
whole **notes** are judged, by their score when left out, and dropped worst first (Sec. 1 of the paper leaves robustness
open). Two wrong notes that are alike vouch for each other, so a note is also judged without the note that is most like
it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from outlark.maths.class_model import ClassModel
from outlark.maths.description import score, scores
from outlark.maths.gp import squared_exponential
from outlark.maths.notes import parts_of
from outlark.maths.rows import gathered

#: With fewer notes than this a class is not trimmed: an odd note may be one of its two ways of sounding.
FEWEST_NOTES = 8
#: A note is odd when its score lies more than this many robust standard deviations below the median of its class.
ODD_DEVIATIONS = 3.5
#: The robust standard deviation is taken as no less than this share of the median.
LEAST_DEVIATION = 0.1
#: Rows on which the notes of a class are compared with each other; with more notes than this they are not.
COMPARED_ROWS = 6000
#: In a class of more samples than this, one note after the other would take too long: up to so large a share of those
#: that may be dropped go at once.
MANY_SAMPLES, AT_ONCE = 6000, 0.2


class NoteScores(NamedTuple):
    """The notes of one class: their rows, mean score when left out, and mean score under every class.

    Attributes
    ----------
    parts : list of index arrays
    own : ndarray (n_notes,)
        NaN when the class has a single note.
    unaided : ndarray (n_notes,)
        The same with the note that is most like it left out as well; `own` in a class of fewer than `FEWEST_NOTES`, or
        of more than `COMPARED_ROWS`.
    by_class : ndarray (n_notes, C)
        Under the other classes; -inf in the class's own column.
    """

    parts: list[np.ndarray]
    own: np.ndarray
    unaided: np.ndarray
    by_class: np.ndarray

    @property
    def other(self) -> np.ndarray:
        """The score under the best other class, 0 where there is none."""
        return np.maximum(self.by_class.max(axis=1), 0.0)

    @property
    def odd(self) -> np.ndarray:
        """Which notes lie far below the rest of their class, alone or with the one other that is like them, bool."""
        return odd_notes(self.own) | odd_notes(self.unaided)

    @property
    def mislabelled(self) -> np.ndarray:
        """Which notes another class describes better, bool; those that lean on one other note count without it."""
        return self.other > np.where(odd_notes(self.unaided), self.unaided, self.own)

    @property
    def shortfall(self) -> np.ndarray:
        """How far the notes that are odd or mislabelled lie below what they should have, 0 for the others."""
        score = np.where(odd_notes(self.unaided), self.unaided, self.own)
        should = np.maximum(self.other, np.median(self.own))
        return np.where(self.odd | self.mislabelled, should - score, 0.0)


def note_scores(c: int, notes: np.ndarray, descriptions: Sequence[ClassModel], factors: np.ndarray) -> NoteScores:
    """Score each note of class c, once left out of its own class and once under every other class.

    `factors` are those of `outlark.maths.size`: a note is compared across classes that differ in size.
    """
    parts = parts_of(notes)
    by_class = np.full((len(parts), len(descriptions)), -np.inf)
    for b, description in enumerate(descriptions):
        if b != c:
            by_class[:, b] = _means(factors[b] * scores(description, descriptions[c].X), parts)
    return NoteScores(parts, *_left_out_means(descriptions[c], parts, factors[c]), by_class)


def odd_notes(own: np.ndarray) -> np.ndarray:
    """Which notes lie far below the rest of their class, bool (n_notes,).

    >>> odd_notes(np.array([1.0, 1.1, 0.9, 1.0, 0.1]))
    array([False, False, False, False,  True])
    """
    median = np.median(own)
    deviation = max(1.4826 * float(np.median(np.abs(own - median))), LEAST_DEVIATION * float(median))
    return own < median - ODD_DEVIATIONS * deviation


def trim(
    descriptions: Sequence[ClassModel],
    notes: Sequence[np.ndarray],
    factors: np.ndarray,
    describe: Callable[[np.ndarray], ClassModel],
    share: float,
) -> list[np.ndarray]:
    """Drop odd and mislabelled notes, the worst first, describing anew after each; at most `share` of a class's notes.

    A note is mislabelled when another class describes it better than its own does without it. In a class of more than
    `MANY_SAMPLES` several of its notes go at once.

    Returns
    -------
    list of index arrays
        For each class the rows that are kept, ascending.
    """
    descriptions = list(descriptions)
    keep = [np.arange(len(own)) for own in notes]
    may_drop = [_may_drop(own, share) for own in notes]
    at_once = [
        max(1, int(AT_ONCE * n)) if len(own) > MANY_SAMPLES else 1 for n, own in zip(may_drop, notes, strict=True)
    ]
    found = [note_scores(c, notes[c], descriptions, factors) for c in range(len(notes))]
    while True:
        c = _worst_class(found, may_drop)
        if c is None:
            return keep
        worst = _worst_notes(found[c], min(max(at_once[c], 1), may_drop[c]))
        kept = np.delete(np.arange(len(keep[c])), np.concatenate([found[c].parts[i] for i in worst]))
        keep[c] = keep[c][kept]
        may_drop[c] -= len(worst)
        descriptions[c] = describe(gathered(descriptions[c].X, kept))
        # Only what class c says has changed: of its own notes, and of those of the others.
        parts = parts_of(notes[c][keep[c]])
        remaining = np.delete(found[c].by_class, worst, axis=0)
        found[c] = NoteScores(parts, *_left_out_means(descriptions[c], parts, factors[c]), remaining)
        for b in range(len(notes)):
            if b != c and may_drop[b] > 0:
                found[b].by_class[:, c] = _means(
                    factors[c] * scores(descriptions[c], descriptions[b].X), found[b].parts
                )


def _may_drop(notes: np.ndarray, share: float) -> int:
    n = len(np.unique(notes))
    return min(int(share * n), n - 2) if n >= FEWEST_NOTES else 0


def _worst_class(found: Sequence[NoteScores], may_drop: Sequence[int]) -> int | None:
    """The class of the note that lies furthest below what it should have; None when all are in order."""
    gaps = [
        float(notes.shortfall.max()) if allowed > 0 else 0.0 for notes, allowed in zip(found, may_drop, strict=True)
    ]
    return int(np.argmax(gaps)) if max(gaps) > 0.0 else None


def _worst_notes(notes: NoteScores, most: int) -> np.ndarray:
    """The notes of the class that lie furthest below what they should have, at most so many."""
    gaps = notes.shortfall
    return np.argsort(-gaps, kind="stable")[: min(most, int(np.count_nonzero(gaps > 0.0)))]


def _left_out_means(model: ClassModel, parts: Sequence[np.ndarray], factor: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean score of each note without it, and without it and the note that is most like it."""
    if len(parts) == 1:
        return np.full(1, np.nan), np.full(1, np.nan)
    own = np.array([factor * score(d, model.far).mean() for d in model.left_out(parts)])
    if not FEWEST_NOTES <= len(parts) <= COMPARED_ROWS:
        return own, own
    pairs = [np.concatenate([G, parts[friend]]) for G, friend in zip(parts, _most_alike(model, parts), strict=True)]
    without_both = zip(parts, model.left_out(pairs), strict=True)
    return own, np.array([factor * score(d[: len(G)], model.far).mean() for G, d in without_both])


def _most_alike(model: ClassModel, parts: Sequence[np.ndarray]) -> np.ndarray:
    """For each note the number of the other note that its samples are nearest to, by their mean kernel, (n_notes,).

    Long notes of a large class are thinned.
    """
    if sum(map(len, parts)) > COMPARED_ROWS:
        parts = [G[:: -(-len(G) * len(parts) // COMPARED_ROWS)] for G in parts]
    X = model.X[np.concatenate(parts)]
    k = squared_exponential(X, X, model.ell)
    starts = np.cumsum([0, *(len(G) for G in parts[:-1])])
    nearest = np.maximum.reduceat(k, starts, axis=1)  # of each sample to each note
    alike = np.add.reduceat(nearest, starts, axis=0) / np.array([[len(G)] for G in parts])
    np.fill_diagonal(alike, -np.inf)
    return alike.argmax(axis=1)


def _means(values: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([values[G].mean() for G in parts])
