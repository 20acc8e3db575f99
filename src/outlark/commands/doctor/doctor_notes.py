"""What a trained detector says about its own training notes, each judged without itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.estimators.mddkm import MDDKM
from outlark.features.note import LENGTH_SLACK
from outlark.maths.description import Description, score, scores
from outlark.maths.notes import merge_copies, parts_of


@dataclass(frozen=True, kw_only=True)
class NoteScore:
    """A training note as its own class, without it, and the other classes see it.

    Attributes
    ----------
    label : class label
    name : str
        Where it is from.
    own : float
        Its score under its class as that would be without it; NaN for the only note of a class.
    threshold : float
        Where its class begins to accept.
    accepted_by : tuple of class labels
        The other classes that accept it.
    other, best_other : class label or None, float
        The other class that it resembles most, and its score there; -∞ with a single class.
    """

    label: Any
    name: str
    own: float
    threshold: float
    accepted_by: tuple[Any, ...] = ()
    other: Any = None
    best_other: float = -np.inf


def note_scores(detector: Any) -> list[NoteScore]:
    """Every training note of a detector, class by class; none where the describer does not tell."""
    describer = detector.describer_
    if not isinstance(describer, MDDKM):
        return _own_scores_only(detector)
    whole = detector.note_model_ is not None
    over_note = np.max if whole else np.mean
    # Copies in noise or of another pitch follow the shifts of a note (`outlark.detection.copies`): nobody sang them.
    n_own = len(detector.front_end_.shifts_s) if whole else None
    thresholds = _thresholds(detector)
    labels, found = describer.classes_.tolist(), []
    for c, label in enumerate(labels):
        X, notes = describer.descriptions_[c].X, describer.notes_[c]
        own = _left_out_scores(detector, c)
        others = np.column_stack(
            [f * scores(d, X) for d, f in zip(describer.descriptions_, describer.size_factors_, strict=True)]
        )
        others[:, c] = -np.inf
        for of_note in parts_of(notes):
            rows = of_note[:n_own]
            note = detector.training_[int(notes[rows[0]])]
            by_class = over_note(others[rows], axis=0)
            best = int(by_class.argmax())
            accepting = (by_class >= thresholds) & _fitting(detector, note)
            found.append(
                NoteScore(
                    label=label,
                    name=name_of(note),
                    own=float(over_note(own[rows])),
                    threshold=float(thresholds[c]),
                    accepted_by=tuple(labels[b] for b in np.flatnonzero(accepting)),
                    other=labels[best] if len(labels) > 1 else None,
                    best_other=float(by_class[best]),
                )
            )
    return found


def unused_notes(detector: Any) -> list[dict[str, Any]]:
    """Those of `training_` that were unlike all others of their class, so that training left them out."""
    if detector.note_model_ is None or not isinstance(detector.describer_, MDDKM):
        return []
    used = set(np.concatenate(detector.describer_.notes_).tolist())
    return [note for number, note in enumerate(detector.training_) if number not in used]


def _left_out_scores(detector: Any, c: int) -> np.ndarray:
    """The score of each sample of class c without its note, (n,); NaN where there is no other note.

    On the absolute scale thresholds are set by what left-out notes score, as it is: what a class loses by being smaller
    by one note is part of what they say. The thresholds of a describer of unknown scale, and those in files from before
    there was an absolute one, are of scores that make up for it (`left_out_by_refit` in
    `outlark.detection.learnt_thresholds`); so must scores that are held against them.
    """
    describer, model = detector.describer_, detector.note_model_
    description, factor = describer.descriptions_[c], float(describer.size_factors_[c])
    parts = parts_of(merge_copies(description.X, describer.notes_[c]))
    if len(parts) == 1:  # what the describer has left out instead are samples of the only note
        return np.full(len(description.X), np.nan)
    left_out = np.array(describer.left_out_scores_[c])
    exact = isinstance(description, Description) and not description.center
    if model is not None and model.contrast_db is None and exact:
        for rows in parts:
            left_out[rows] += factor * _loss(description, rows)
    return left_out


def _loss(description: Description, rows: np.ndarray) -> float:
    """By how much the score of the other samples falls when these rows are left out: the difference of the medians.

    A training sample has the distance ``ρ - ρ²P_ii``, and leaving out G makes ``P_BB - P_BG P_GG⁻¹ P_GB`` of P.
    """
    P, ratio = description.precision, description.ratio
    rest = np.setdiff1d(np.arange(len(P)), rows)
    if not len(rest):
        return 0.0
    P_GB = P[np.ix_(rows, rest)]
    fallen = np.einsum("ij,ij->j", P_GB, np.linalg.solve(P[np.ix_(rows, rows)], P_GB))
    diagonal = np.diag(P)[rest]
    before, after = (np.maximum(ratio - ratio**2 * d, description.floor) for d in (diagonal, diagonal - fallen))
    return float(np.median(score(before)) - np.median(score(after)))


def _fitting(detector: Any, note: Mapping[str, Any]) -> np.ndarray:
    """Which classes look for notes of this length, bool (C,): frames have none."""
    layout, duration_s = detector.layout_, note["end_s"] - note["start_s"]
    if detector.note_model_ is None:
        return np.ones(len(layout.classes), dtype=bool)
    return (duration_s >= layout.shortest_s / LENGTH_SLACK) & (duration_s <= layout.longest_s * LENGTH_SLACK)


def _thresholds(detector: Any) -> np.ndarray:
    """What a whole note is held against, (C,): by the first stage, where there are two."""
    layout = detector.layout_
    if detector.second_stage_ is not None:
        return np.asarray(detector.note_model_.thresholds, dtype=float)
    if layout.note_thresholds is None or not detector.decisions_.confirm:
        return np.asarray(layout.thresholds, dtype=float)
    return np.asarray(layout.note_thresholds, dtype=float)


def _own_scores_only(detector: Any) -> list[NoteScore]:
    """For describers that tell what left-out notes score, and no more."""
    told = getattr(detector.describer_, "left_out_note_scores_", [])
    return [
        NoteScore(label=label, name=f"note {i} of {label!r}", own=float(own), threshold=float(threshold))
        for label, of_class, threshold in zip(detector.classes_.tolist(), told, _thresholds(detector), strict=False)
        for i, own in enumerate(of_class)
    ]


def name_of(note: Mapping[str, Any]) -> str:
    """Where a training note is from: an entry of `NoteDetector.training_`.

    >>> name_of({"name": "a.wav", "recording": 0, "start_s": 1.5})
    'a.wav at 1.500 s'
    >>> name_of({"name": None, "recording": 3, "start_s": 0.0})
    'recording 3'
    """
    place = note["name"] or f"recording {note['recording']}"
    return f"{place} at {note['start_s']:.3f} s" if note["start_s"] else str(place)
