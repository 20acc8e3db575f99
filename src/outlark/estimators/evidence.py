"""Why a sample got its score, and what is odd about the training notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from outlark.maths.description import Description, distances, score, shares
from outlark.maths.notes import parts_of
from outlark.maths.robust import FEWEST_NOTES, mislabelled_notes, note_scores, odd_notes

#: Samples nearer to each other than this share of the length scale count as the same sample.
SAME_SAMPLE = 1e-6


@dataclass(frozen=True)
class Evidence:
    """A training note that speaks for a sample.

    Attributes
    ----------
    label, note : the class and the id of the note
    share : float
        Its part of what the class knows about the sample; the notes of a class sum to one. Negative where the note
        only corrects what its neighbours say too much.
    distance : float
        From the sample to the nearest sample of the note, in units of the length scale.
    """

    label: Any
    note: Any
    share: float
    distance: float


def evidence(label: Any, description: Description, notes: np.ndarray, z: np.ndarray) -> list[Evidence]:
    """The notes of a class, the one that speaks most for the sample z first."""
    contributions = shares(description, z)
    total = contributions.sum()
    gaps = np.linalg.norm(description.X - z, axis=1) / description.ell
    found = [
        Evidence(label, notes[G[0]], float(contributions[G].sum() / total) if total > 0 else 0.0, float(gaps[G].min()))
        for G in parts_of(notes)
    ]
    return sorted(found, key=lambda e: (-e.share, e.distance))


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
        "" | "suspected mislabel" (another class describes it better) | "odd one out" (far below the rest of its class)
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
        for c in self.classes:
            own = [note for note in self.notes if note.label == c]
            scores = [note.left_out_score for note in own]
            samples = sum(note.n_samples for note in own)
            lines.append(f"{c!s:<16} {len(own):>5}  {samples:>7}  {np.median(scores):.2f}, {min(scores):.2f}")
        lines += ["", "share of the notes of the row that the column accepts"]
        lines.append(" " * 16 + "".join(f"{c!s:>12.12}" for c in self.classes))
        for c, row in zip(self.classes, self.overlap, strict=True):
            lines.append(f"{c!s:<16.16}" + "".join(f"{value:>12.2f}" for value in row))
        lines += ["", "notes to look at" if self.suspects or self.duplicates else "no note stands out"]
        for note in self.suspects:
            few = "" if sum(n.label == note.label for n in self.notes) >= FEWEST_NOTES else " (few notes: not trimmed)"
            other = f"; {note.other_label}: {note.other_score:.2f}" if note.other_label is not None else ""
            lines.append(
                f"  {note.label} / {note.note}: {note.problem}{few}, left-out score {note.left_out_score:.2f}{other}"
            )
        for note in self.duplicates:
            same = ", ".join(f"{label} / {name}" for label, name in note.duplicates)
            lines.append(f"  {note.label} / {note.note}: same samples as {same}")
        return "\n".join(lines)


def examine(
    classes: np.ndarray,
    descriptions: Sequence[Description],
    notes: Sequence[np.ndarray],
    size_factors: np.ndarray,
    thresholds: np.ndarray,
) -> Health:
    """Judge every training note; see `Health`."""
    twins = _duplicates(classes, descriptions, notes)
    found: list[NoteHealth] = []
    overlap = np.zeros((len(classes), len(classes)))
    for c, label in enumerate(classes):
        scores = note_scores(c, descriptions[c].X, notes[c], descriptions)
        odd = odd_notes(scores) if len(scores.parts) > 1 else np.zeros(len(scores.parts), bool)
        mislabelled = mislabelled_notes(scores)
        overlap[c] = _accepted(c, scores.parts, scores.own, descriptions, size_factors, thresholds)
        for i, G in enumerate(scores.parts):
            name = notes[c][G[0]]
            b = scores.other_class[i]
            found.append(
                NoteHealth(
                    label=label,
                    note=name,
                    n_samples=len(G),
                    left_out_score=float(scores.own[i] * size_factors[c]),
                    other_label=classes[b] if b >= 0 else None,
                    other_score=float(scores.other[i] * size_factors[b]) if b >= 0 else 0.0,
                    problem="suspected mislabel" if mislabelled[i] else "odd one out" if odd[i] else "",
                    duplicates=tuple(sorted(twins.get((c, i), set()), key=str)),
                )
            )
    return Health(classes, found, overlap)


def _accepted(
    c: int,
    parts: Sequence[np.ndarray],
    own: np.ndarray,
    descriptions: Sequence[Description],
    size_factors: np.ndarray,
    thresholds: np.ndarray,
) -> np.ndarray:
    """For each class the share of the notes of class c whose mean score reaches its threshold."""
    accepted = np.empty(len(descriptions))
    for b, description in enumerate(descriptions):
        if b == c:
            means = own
        else:
            frame_scores = score(distances(description, descriptions[c].X))
            means = np.array([frame_scores[G].mean() for G in parts])
        accepted[b] = np.mean(means * size_factors[b] >= thresholds[b])
    return accepted


def _duplicates(
    classes: np.ndarray, descriptions: Sequence[Description], notes: Sequence[np.ndarray]
) -> dict[tuple[int, int], set[tuple[Any, Any]]]:
    """Notes of which at least half the samples occur in another note as well: (class, note number) → its twins."""
    owner, names, sizes = [], {}, {}
    for c, ids in enumerate(notes):
        number = np.empty(len(ids), int)
        for i, G in enumerate(parts_of(ids)):
            number[G] = i
            names[c, i], sizes[c, i] = (classes[c], ids[G[0]]), len(G)
        owner += [(c, int(i)) for i in number]
    Z = np.concatenate([d.X for d in descriptions])
    shared: dict[tuple[tuple[int, int], tuple[int, int]], set[int]] = {}
    for i, j in cKDTree(Z).query_pairs(SAME_SAMPLE * descriptions[0].ell):
        if owner[i] != owner[j]:
            shared.setdefault((owner[i], owner[j]), set()).add(i)
            shared.setdefault((owner[j], owner[i]), set()).add(j)
    twins: dict[tuple[int, int], set[tuple[Any, Any]]] = {}
    for (one, other), rows in shared.items():
        if 2 * len(rows) >= sizes[one]:
            twins.setdefault(one, set()).add(names[other])
    return twins
