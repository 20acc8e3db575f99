"""What the training notes contribute: the evidence behind a score, notes that look wrong, and leaving those out.

One bad frame captures its whole neighbourhood: with c copies of a sample its distance falls to ``d·ρ/(c·d + ρ)``. So
whole **notes** are judged, by their score when left out, and dropped worst first (Sec. 1 of the paper leaves robustness
open). Two wrong notes that are alike vouch for each other, so a note is also judged without the note most like it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.spatial.distance import cdist

from outlark.maths.description import OneClass, score, scores, shares
from outlark.maths.gp import squared_exponential
from outlark.maths.notes import parts_of, same_samples

#: With fewer notes than this a class is not trimmed: an odd note may be one of two variants.
MIN_NOTES_TO_TRIM = 8
#: A note is odd when its score lies more than this many robust standard deviations below the median of its class.
ODD_DEVIATIONS = 3.5
#: The robust standard deviation is taken as no less than this share of the median.
MIN_DEVIATION_SHARE = 0.1
#: Rows on which the notes of a class are compared with each other; a class with more notes is not compared.
COMPARED_ROWS = 6000
#: In a class of more samples than this, dropping notes one by one would take too long: this share of those that may be
#: dropped goes at once.
MANY_SAMPLES, DROPPED_SHARE = 6000, 0.2
#: A sample that occurs in more notes than this, such as digital silence, is not a sign of copies.
MAX_TWINS = 20
#: How many notes of each kind `Health` prints.
MAX_LISTED_NOTES = 20


@dataclass(frozen=True)
class Evidence:
    """A training note as evidence for the class of a sample.

    Attributes
    ----------
    label, note : the class and the id of the note
    share : float
        Its share of the reduction of the distance (``1 - d``); the notes of a class sum to one. Negative where the note
        corrects its neighbours, whose shares may then exceed one.
    distance : float
        From the sample to the nearest sample of the note, in units of the length scale.
    """

    label: Any
    note: Any
    share: float
    distance: float


def evidence(label: Any, description: OneClass, notes: np.ndarray, Z: np.ndarray) -> list[list[Evidence]]:
    """For each row of Z the notes of a class, the most influential first; landmarks stand for the notes they are of."""
    notes = notes[description.rows]
    parts = parts_of(notes)
    names = [notes[G].tolist()[0] for G in parts]
    contributions = shares(description, Z)
    gaps = cdist(description.points, Z) / description.ell
    share = np.array([contributions[G].sum(axis=0) for G in parts])
    nearest = np.array([gaps[G].min(axis=0) for G in parts])
    found = []
    for m in range(len(Z)):
        order = np.lexsort((nearest[:, m], -share[:, m]))
        found.append([Evidence(label, names[i], float(share[i, m]), float(nearest[i, m])) for i in order])
    return found


@dataclass(frozen=True)
class NoteHealth:
    """One training note as its class sees it when it is left out.

    Attributes
    ----------
    label, note : the class and the id of the note
    n_samples : int
    left_out_score : float
        Mean score of its samples under its class without it; NaN when the class has no other note.
    other_label, other_score : the other class that describes it best (None with a single class), and its score there
    problem : str
        "" | "suspected mislabel" (another class describes it better) | "odd one out" (far below the rest of its class).
        In a class of 8 notes or more, two notes that resemble only each other are each judged without the other.
    duplicates : tuple of (label, note)
        Notes with the same samples.
    """

    label: Any
    note: Any
    n_samples: int
    left_out_score: float
    other_label: Any
    other_score: float
    problem: str
    duplicates: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Health:
    """The state of a training set: ``print(model.health())``.

    Attributes
    ----------
    classes : ndarray (C,)
    notes : list of NoteHealth
    overlap : ndarray (C, C)
        Share of the notes of the row's class that the column's class accepts (on the diagonal: when left out).
    """

    classes: np.ndarray
    notes: list[NoteHealth]
    overlap: np.ndarray

    @property
    def suspects(self) -> list[NoteHealth]:
        """The notes with a problem, worst first."""
        found = [note for note in self.notes if note.problem]
        return sorted(found, key=lambda note: note.left_out_score - note.other_score)

    @property
    def duplicates(self) -> list[NoteHealth]:
        """The notes with the same samples as another."""
        return [note for note in self.notes if note.duplicates]

    def __str__(self) -> str:
        lines = ["class            notes  samples  left-out score (median, lowest)"]
        for c in self.classes.tolist():
            own = [note for note in self.notes if note.label == c]
            left_out = [note.left_out_score for note in own if not np.isnan(note.left_out_score)]
            summary = f"{np.median(left_out):.2f}, {min(left_out):.2f}" if left_out else "-  (a single note)"
            lines.append(f"{c!s:<16.16} {len(own):>5}  {sum(n.n_samples for n in own):>7}  {summary}")
        lines += ["", "share of the notes of the row that the column accepts"]
        lines.append(" " * 16 + "".join(f"{c!s:>12.12}" for c in self.classes))
        for c, row in zip(self.classes, self.overlap, strict=True):
            lines.append(f"{c!s:<16.16}" + "".join("           -" if np.isnan(v) else f"{v:>12.2f}" for v in row))
        lines += ["", "notes to check" if self.suspects or self.duplicates else "no note stands out"]
        for note in self.suspects[:MAX_LISTED_NOTES]:
            few = (
                ""
                if sum(n.label == note.label for n in self.notes) >= MIN_NOTES_TO_TRIM
                else " (few notes: not trimmed)"
            )
            other = f"; {note.other_label}: {note.other_score:.2f}" if note.other_label is not None else ""
            lines.append(
                f"  {note.label} / {note.note}: {note.problem}{few}, left-out score {note.left_out_score:.2f}{other}"
            )
        for note in self.duplicates[:MAX_LISTED_NOTES]:
            same = ", ".join(f"{label} / {name}" for label, name in note.duplicates[:5])
            lines.append(f"  {note.label} / {note.note}: same samples as {same}")
        more = max(len(self.suspects) - MAX_LISTED_NOTES, 0) + max(len(self.duplicates) - MAX_LISTED_NOTES, 0)
        return "\n".join([*lines, f"  … and {more} more"] if more else lines)


def examine(
    classes: np.ndarray,
    descriptions: Sequence[OneClass],
    notes: Sequence[np.ndarray],
    size_factors: np.ndarray,
    thresholds: np.ndarray,
) -> Health:
    """Judge every training note; see `Health`."""
    twins = _duplicates(classes, descriptions, notes)
    labels = classes.tolist()
    found: list[NoteHealth] = []
    overlap = np.full((len(labels), len(labels)), np.nan)
    for c, label in enumerate(labels):
        scored = note_scores(c, notes[c], descriptions, size_factors)
        lonely = len(scored.parts) == 1
        overlap[c] = np.mean(scored.by_class >= thresholds, axis=0)
        overlap[c, c] = np.nan if lonely else np.mean(scored.own >= thresholds[c])
        for i, G in enumerate(scored.parts):
            b = int(scored.by_class[i].argmax())
            found.append(
                NoteHealth(
                    label=label,
                    note=notes[c][G].tolist()[0],
                    n_samples=len(G),
                    left_out_score=float(scored.own[i]),
                    other_label=labels[b] if len(labels) > 1 else None,
                    other_score=float(scored.other[i]),
                    problem="suspected mislabel" if scored.mislabelled[i] else "odd one out" if scored.odd[i] else "",
                    duplicates=twins[len(found)],
                )
            )
    return Health(classes, found, overlap)


def _duplicates(
    classes: np.ndarray, descriptions: Sequence[OneClass], notes: Sequence[np.ndarray]
) -> list[tuple[tuple[Any, Any], ...]]:
    """For each note, class by class, the (label, note) of others in which at least half its samples occur."""
    names: list[tuple[Any, Any]] = []
    numbers = []
    for label, ids in zip(classes.tolist(), notes, strict=True):
        number = np.empty(len(ids), int)
        for G in parts_of(ids):
            number[G] = len(names)
            names.append((label, ids[G].tolist()[0]))
        numbers.append(number)
    number = np.concatenate(numbers)
    row = same_samples(np.concatenate([description.X for description in descriptions]))
    times = coo_array((np.ones(len(row)), (number, row))).tocsr()  # how often each sample occurs in each note
    in_notes = np.bincount(times.indices, minlength=times.shape[1])
    times = times[:, np.flatnonzero((in_notes > 1) & (in_notes <= MAX_TWINS))]
    shared = (times @ (times > 0).astype(float).T).tocoo()
    twins: list[list[tuple[Any, Any]]] = [[] for _ in names]
    for one, other, n in zip(shared.row, shared.col, shared.data, strict=True):
        if one != other and 2 * n >= np.sum(number == one):
            twins[one].append(names[other])
    return [tuple(sorted(of_note, key=str)) for of_note in twins]


class JudgedNotes(NamedTuple):
    """The notes of one class and their mean scores.

    `parts` are their rows; `own`, when left out, NaN for a single note; `unaided`, with the note most like it left out
    as well (`own` in a class of few notes, or of more than `COMPARED_ROWS`); `by_class` under the other classes
    (n_notes, C), -inf in the column of its own.
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
        """Which notes lie far below the rest of their class, alone or with the one other that resembles them, bool."""
        return odd_notes(self.own) | odd_notes(self.unaided)

    @property
    def mislabelled(self) -> np.ndarray:
        """Which notes another class describes better, bool; those that rely on one other note count without it."""
        return self.other > np.where(odd_notes(self.unaided), self.unaided, self.own)

    @property
    def shortfall(self) -> np.ndarray:
        """How far odd or mislabelled notes lie below the score they should have, 0 for the others."""
        score = np.where(odd_notes(self.unaided), self.unaided, self.own)
        should = np.maximum(self.other, np.median(self.own))
        return np.where(self.odd | self.mislabelled, should - score, 0.0)


def note_scores(c: int, notes: np.ndarray, descriptions: Sequence[OneClass], factors: np.ndarray) -> JudgedNotes:
    """Score each note of class c, left out of its own class, and under every other class.

    `factors` are the size factors: notes are compared across classes of different size.
    """
    parts = parts_of(notes)
    by_class = np.full((len(parts), len(descriptions)), -np.inf)
    for b, description in enumerate(descriptions):
        if b != c:
            by_class[:, b] = _means(factors[b] * scores(description, descriptions[c].X), parts)
    return JudgedNotes(parts, *_left_out_means(descriptions[c], parts, factors[c]), by_class)


def odd_notes(own: np.ndarray) -> np.ndarray:
    """Which notes lie far below the rest of their class, bool (n_notes,).

    >>> odd_notes(np.array([1.0, 1.1, 0.9, 1.0, 0.1]))
    array([False, False, False, False,  True])
    """
    median = np.median(own)
    deviation = max(1.4826 * float(np.median(np.abs(own - median))), MIN_DEVIATION_SHARE * float(median))
    return own < median - ODD_DEVIATIONS * deviation


def trim(
    descriptions: Sequence[OneClass],
    notes: Sequence[np.ndarray],
    factors: np.ndarray,
    describe: Callable[[np.ndarray], OneClass],
    share: float,
) -> list[np.ndarray]:
    """Drop odd and mislabelled notes, the worst first, describing anew after each; at most `share` of a class's notes.

    Returns for each class the rows that are kept, ascending.
    """
    descriptions = list(descriptions)
    keep = [np.arange(len(own)) for own in notes]
    may_drop = [_may_drop(own, share) for own in notes]
    at_once = [
        max(1, int(DROPPED_SHARE * n)) if len(own) > MANY_SAMPLES else 1 for n, own in zip(may_drop, notes, strict=True)
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
        descriptions[c] = describe(descriptions[c].X[kept])
        # Only the scores under class c have changed: of its own notes, and of those of the others.
        parts = parts_of(notes[c][keep[c]])
        remaining = np.delete(found[c].by_class, worst, axis=0)
        found[c] = JudgedNotes(parts, *_left_out_means(descriptions[c], parts, factors[c]), remaining)
        for b in range(len(notes)):
            if b != c and may_drop[b] > 0:
                found[b].by_class[:, c] = _means(
                    factors[c] * scores(descriptions[c], descriptions[b].X), found[b].parts
                )


def _may_drop(notes: np.ndarray, share: float) -> int:
    n = len(np.unique(notes))
    return min(int(share * n), n - 2) if n >= MIN_NOTES_TO_TRIM else 0


def _worst_class(found: Sequence[JudgedNotes], may_drop: Sequence[int]) -> int | None:
    """The class of the note with the largest shortfall; None when all are in order."""
    gaps = [
        float(notes.shortfall.max()) if allowed > 0 else 0.0 for notes, allowed in zip(found, may_drop, strict=True)
    ]
    return int(np.argmax(gaps)) if max(gaps) > 0.0 else None


def _worst_notes(notes: JudgedNotes, most: int) -> np.ndarray:
    """The notes of the class with the largest shortfall, at most this many."""
    gaps = notes.shortfall
    return np.argsort(-gaps, kind="stable")[: min(most, int(np.count_nonzero(gaps > 0.0)))]


def _left_out_means(model: OneClass, parts: Sequence[np.ndarray], factor: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean score of each note without it, and without it and the note most like it."""
    if len(parts) == 1:
        return np.full(1, np.nan), np.full(1, np.nan)
    own = np.array([factor * score(d, model.far).mean() for d in model.left_out(parts)])
    if not MIN_NOTES_TO_TRIM <= len(parts) <= COMPARED_ROWS:
        return own, own
    pairs = [np.concatenate([G, parts[friend]]) for G, friend in zip(parts, _most_alike(model, parts), strict=True)]
    without_both = zip(parts, model.left_out(pairs), strict=True)
    return own, np.array([factor * score(d[: len(G)], model.far).mean() for G, d in without_both])


def _most_alike(model: OneClass, parts: Sequence[np.ndarray]) -> np.ndarray:
    """For each note the number of the note most like it, by the mean kernel of its samples, (n_notes,)."""
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
