"""Why a sample got its score, and what is odd about the training notes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from outlark.files.fields import plain
from outlark.maths.class_model import ClassModel
from outlark.maths.description import shares
from outlark.maths.notes import parts_of, same_samples
from outlark.maths.robust import FEWEST_NOTES, note_scores

#: A sample that occurs in more notes than this says nothing about copies.
MOST_TWINS = 20
#: How many notes of a kind `Health` prints.
LISTED = 20


@dataclass(frozen=True)
class Evidence:
    """A training note that speaks for a sample.

    Attributes
    ----------
    label, note : the class and the id of the note
    share : float
        Its part of what the class takes off the distance of the sample (``1 - d``); the notes of a class sum to one.
        Negative where the note corrects what its neighbours say too much, so that others may exceed one.
    distance : float
        From the sample to the nearest sample of the note, in units of the length scale.
    """

    label: Any
    note: Any
    share: float
    distance: float


def evidence(label: Any, description: ClassModel, notes: np.ndarray, Z: np.ndarray) -> list[list[Evidence]]:
    """For each row of Z the notes of a class, the one that speaks most for it first.

    Where a class is described by landmarks, these speak, each for the note that it is of.
    """
    notes = notes[description.rows]
    parts = parts_of(notes)
    names = [plain(notes[G[0]]) for G in parts]
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
        In a class of 8 notes or more also of two notes that are alike and like none of the others: each is then judged
        without the other.
    duplicates : tuple of (label, note)
        Notes that hold the same samples.
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
        """The notes that hold the same samples as another."""
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
        lines += ["", "notes to look at" if self.suspects or self.duplicates else "no note stands out"]
        for note in self.suspects[:LISTED]:
            few = "" if sum(n.label == note.label for n in self.notes) >= FEWEST_NOTES else " (few notes: not trimmed)"
            other = f"; {note.other_label}: {note.other_score:.2f}" if note.other_label is not None else ""
            lines.append(
                f"  {note.label} / {note.note}: {note.problem}{few}, left-out score {note.left_out_score:.2f}{other}"
            )
        for note in self.duplicates[:LISTED]:
            same = ", ".join(f"{label} / {name}" for label, name in note.duplicates[:5])
            lines.append(f"  {note.label} / {note.note}: same samples as {same}")
        more = max(len(self.suspects) - LISTED, 0) + max(len(self.duplicates) - LISTED, 0)
        return "\n".join([*lines, f"  … and {more} more"] if more else lines)


def examine(
    classes: np.ndarray,
    descriptions: Sequence[ClassModel],
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
                    note=plain(notes[c][G[0]]),
                    n_samples=len(G),
                    left_out_score=float(scored.own[i]),
                    other_label=labels[b] if len(labels) > 1 else None,
                    other_score=float(scored.other[i]),
                    problem="suspected mislabel" if scored.mislabelled[i] else "odd one out" if scored.odd[i] else "",
                    duplicates=tuple(sorted(twins.get((c, i), set()), key=str)),
                )
            )
    return Health(classes, found, overlap)


def _duplicates(
    classes: np.ndarray, descriptions: Sequence[ClassModel], notes: Sequence[np.ndarray]
) -> dict[tuple[int, int], set[tuple[Any, Any]]]:
    """Notes of which at least half the samples occur in another note as well: (class, note number) → its twins."""
    numbers, names, sizes = [], {}, {}
    for c, ids in enumerate(notes):
        number = np.empty(len(ids), int)
        for i, G in enumerate(parts_of(ids)):
            number[G] = i
            names[c, i], sizes[c, i] = (plain(classes[c]), plain(ids[G[0]])), len(G)
        numbers.append(number)
    of_class = np.repeat(np.arange(len(notes)), [len(ids) for ids in notes])
    row, number = same_samples(*(d.X for d in descriptions)), np.concatenate(numbers)
    several = np.flatnonzero(np.bincount(row)[row] > 1)
    shared: Counter[tuple[tuple[int, int], tuple[int, int]]] = Counter()
    for same in parts_of(row[several]) if len(several) else []:
        owners = Counter((int(of_class[i]), int(number[i])) for i in several[same])
        # A sample that is everywhere, such as digital silence, makes no two notes the same.
        if 1 < len(owners) <= MOST_TWINS:
            for one, other in permutations(sorted(owners), 2):
                shared[one, other] += owners[one]
    twins: dict[tuple[int, int], set[tuple[Any, Any]]] = {}
    for (one, other), rows in shared.items():
        if 2 * rows >= sizes[one]:
            twins.setdefault(one, set()).add(names[other])
    return twins
