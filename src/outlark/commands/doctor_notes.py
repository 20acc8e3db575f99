"""Scores of the training notes of a detector, each judged by the others.

Unlike `MDDKM.health`, they are scores of whole notes, as detection would compute and compare them with thresholds.
"""

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
    """A training note: its class, its recording and onset, and its scores.

    `own` is its score under its own class without it, NaN for the only note of a class; `threshold` that of its class.
    `accepted_by` are other classes that accept it; `other` is the most similar one, with the score `best_other`, -∞
    with a single class.
    """

    label: Any
    name: str
    own: float
    threshold: float
    accepted_by: tuple[Any, ...] = ()
    other: Any = None
    best_other: float = -np.inf


def note_scores(detector: Any) -> list[NoteScore]:
    """Every training note of a detector, by class; none if its class model cannot say."""
    class_model = detector.class_model_
    if not isinstance(class_model, MDDKM):
        return _own_scores_only(detector)
    whole = detector.note_model_ is not None
    over_note = np.max if whole else np.mean
    # synthetic copies, in noise or at another pitch, follow the shifts of a note (`outlark.detection.absolute_scale`)
    n_own = len(detector.front_end_.shifts_s) if whole else None
    thresholds = _thresholds(detector)
    labels, found = class_model.classes_.tolist(), []
    for c, label in enumerate(labels):
        X, notes = class_model.descriptions_[c].X, class_model.notes_[c]
        own = _left_out_scores(detector, c)
        others = np.column_stack(
            [f * scores(d, X) for d, f in zip(class_model.descriptions_, class_model.size_factors_, strict=True)]
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
    """Notes that training omitted, because they are unlike all others of their class."""
    if detector.note_model_ is None or not isinstance(detector.class_model_, MDDKM):
        return []
    used = set(np.concatenate(detector.class_model_.notes_).tolist())
    return [note for number, note in enumerate(detector.training_) if number not in used]


def _left_out_scores(detector: Any, c: int) -> np.ndarray:
    """The score of each sample of class c without its note, (n,); NaN where there is no other note.

    Thresholds on the absolute scale refer to left-out scores as they are. Those of a class model of unknown scale, and
    those in older files, refer to scores corrected for the smaller class (`left_out_by_refit` in
    `outlark.detection.learnt_thresholds`), so the same correction is applied here.
    """
    class_model, model = detector.class_model_, detector.note_model_
    description, factor = class_model.descriptions_[c], float(class_model.size_factors_[c])
    parts = parts_of(merge_copies(description.X, class_model.notes_[c]))
    if len(parts) == 1:  # left-out scores are then of samples of the only note
        return np.full(len(description.X), np.nan)
    left_out = np.array(class_model.left_out_scores_[c])
    exact = isinstance(description, Description) and not description.center
    if model is not None and model.contrast_db is None and exact:
        for rows in parts:
            left_out[rows] += factor * _loss(description, rows)
    return left_out


def _loss(description: Description, rows: np.ndarray) -> float:
    """How much the median score of the other samples falls when these rows are left out.

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
    """Which classes accept notes of this duration, bool (C,); all, at frame level."""
    layout, duration_s = detector.layout_, note["end_s"] - note["start_s"]
    if detector.note_model_ is None:
        return np.ones(len(layout.classes), dtype=bool)
    return (duration_s >= layout.shortest_s / LENGTH_SLACK) & (duration_s <= layout.longest_s * LENGTH_SLACK)


def _thresholds(detector: Any) -> np.ndarray:
    """Thresholds of notes, (C,); of the first stage if there are two."""
    layout = detector.layout_
    if detector.second_stage_ is not None:
        return np.asarray(detector.note_model_.thresholds, dtype=float)
    if layout.note_thresholds is None or not detector.decisions_.confirm:
        return np.asarray(layout.thresholds, dtype=float)
    return np.asarray(layout.note_thresholds, dtype=float)


def _own_scores_only(detector: Any) -> list[NoteScore]:
    """For class models that know nothing but left-out scores."""
    told = getattr(detector.class_model_, "left_out_note_scores_", [])
    return [
        NoteScore(label=label, name=f"note {i} of {label!r}", own=float(own), threshold=float(threshold))
        for label, of_class, threshold in zip(detector.classes_.tolist(), told, _thresholds(detector), strict=False)
        for i, own in enumerate(of_class)
    ]


def name_of(note: Mapping[str, Any]) -> str:
    """The recording and onset of an entry of `NoteDetector.training_`.

    >>> name_of({"name": "a.wav", "recording": 0, "start_s": 1.5})
    'a.wav at 1.500 s'
    >>> name_of({"name": None, "recording": 3, "start_s": 0.0})
    'recording 3'
    """
    place = note["name"] or f"recording {note['recording']}"
    return f"{place} at {note['start_s']:.3f} s" if note["start_s"] else str(place)
