"""Training on frames: which frames describe a class, and what a whole note of it scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.detection.calibration import note_thresholds
from outlark.detection.training import Material, note_frames
from outlark.features.base import Frames, FrontEnd


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameModel:
    """Frames, learnt.

    Attributes
    ----------
    describer : fitted
    thresholds : ndarray (C,)
        Of frames.
    note_thresholds : ndarray (C,) or None
        Of the mean over a note; None where the describer does not tell what left-out notes score.
    """

    describer: Any
    thresholds: np.ndarray
    note_thresholds: np.ndarray | None


def fit_frames(front_end: FrontEnd, describer: Any, frames: Sequence[Frames], material: Material) -> FrameModel:
    """Describe the frames of the marked notes; thresholds of frames are the describer's own."""
    X, y, groups = frame_samples(front_end, frames, material)
    fitted = describer.fit(X, y, groups=groups)
    left_out = getattr(fitted, "left_out_note_scores_", None)
    of_notes = None
    if left_out is not None and all(len(scores) for scores in left_out):
        of_notes = note_thresholds(left_out, scores_of_other_notes(fitted, X, y, groups))
    return FrameModel(describer=fitted, thresholds=fitted.thresholds_, note_thresholds=of_notes)


def frame_samples(
    front_end: FrontEnd, frames: Sequence[Frames], material: Material
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, groups: the frames of every marked note that rise above the noise, all of them if none does."""
    X, y, groups = [], [], []
    for number, (r, segment) in enumerate(material.notes):
        rows = note_frames(front_end, frames[r], segment)
        heard = rows[frames[r].activity[rows] > 0.0]
        rows = heard if len(heard) else rows
        X.append(frames[r].features[rows])
        y += [segment.label] * len(rows)
        groups += [number] * len(rows)
    return np.concatenate(X), np.array(y), np.array(groups)


def scores_of_other_notes(describer: Any, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[np.ndarray]:
    """For each class its mean score over each training note of the other classes."""
    scores, notes = describer.class_scores(X), np.unique(groups)
    means = np.array([scores[groups == note].mean(axis=0) for note in notes])
    labels = np.array([y[groups == note][0] for note in notes])
    return [means[labels != label, c] for c, label in enumerate(describer.classes_)]
