"""Training and scoring frame by frame: which frames describe a class, and what a whole note of it scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outlark.audio.sound import Reblock
from outlark.detection.learnt_thresholds import note_thresholds
from outlark.detection.scores import ScoreBlock, joined_scores
from outlark.detection.training import ClassModel, Material
from outlark.features.base import Frames, FrontEnd
from outlark.segments import Segment

#: Frames scored at once: always the same blocks, whatever was pushed, and so the same scores.
FRAMES_AT_ONCE = 512


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameModel:
    """Class models of single frames."""

    front_end: FrontEnd
    #: Its thresholds are those of frames.
    class_model: ClassModel
    #: For the mean over a note; None if the class model does not keep the scores of left-out notes, (C,).
    note_thresholds: np.ndarray | None

    @property
    def thresholds(self) -> np.ndarray:
        """Those of frames, as trained, (C,)."""
        return self.class_model.thresholds_

    def scorer(self) -> "FrameScorer":
        """A fresh stream of scores."""
        return FrameScorer(self.class_model, len(self.class_model.classes_))


def fit_frames(
    front_end: FrontEnd, class_model: ClassModel, frames: Sequence[Frames], material: Material
) -> FrameModel:
    """Describe the frames of the annotated notes."""
    X, y, groups = frame_samples(front_end, frames, material)
    fitted = class_model.fit(X, y, groups=groups)
    left_out = getattr(fitted, "left_out_note_scores_", None)
    of_notes = None
    if left_out is not None and all(len(scores) for scores in left_out):
        of_notes = note_thresholds(left_out, scores_of_other_notes(fitted, X, y, groups))
    return FrameModel(front_end=front_end, class_model=fitted, note_thresholds=of_notes)


def frame_samples(
    front_end: FrontEnd, frames: Sequence[Frames], material: Material
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, groups: the frames of every note that rise above the noise, or all of them if none does."""
    X, y, groups = [], [], []
    for number, (r, segment) in enumerate(material.notes):
        rows = note_frames(front_end, frames[r], segment)
        active = rows[frames[r].activity[rows] > 0.0]
        rows = active if len(active) else rows
        X.append(frames[r].features[rows])
        y += [segment.label] * len(rows)
        groups += [number] * len(rows)
    return np.concatenate(X), np.array(y), np.array(groups)


def note_frames(front_end: FrontEnd, frames: Frames, segment: Segment) -> np.ndarray:
    """The numbers of the frames whose middle lies in the note; if there is none, the frame nearest its middle."""
    hop, offset = front_end.hop_samples_, front_end.offset_samples_
    first = max(0, -(-(segment.start - offset - hop // 2) // hop))
    end = min(len(frames), -(-(segment.end - offset - hop // 2) // hop))
    if first < end:
        return np.arange(first, end)
    nearest = ((segment.start + segment.end) // 2 - offset) // hop
    return np.array([min(max(nearest, 0), len(frames) - 1)]) if len(frames) else np.empty(0, dtype=int)


def scores_of_other_notes(
    class_model: ClassModel, X: np.ndarray, y: np.ndarray, groups: np.ndarray
) -> list[np.ndarray]:
    """For each class its mean score over each training note of the other classes."""
    scores, notes = class_model.class_scores(X), np.unique(groups)
    means = np.array([scores[groups == note].mean(axis=0) for note in notes])
    labels = np.array([y[groups == note][0] for note in notes])
    return [means[labels != label, c] for c, label in enumerate(class_model.classes_)]


class FrameScorer:
    """Each frame is a sample. Frames within the noise floor score 0."""

    def __init__(self, class_model: ClassModel, n_classes: int) -> None:
        self._class_model, self._n_classes = class_model, n_classes
        self._blocks = Reblock(FRAMES_AT_ONCE)

    def push(self, frames: Frames) -> ScoreBlock:
        """The scores of the blocks that are complete."""
        packed = np.column_stack([frames.features, frames.activity])
        return joined_scores([self.none(), *map(self._scored, self._blocks.push(packed))])

    def finish(self) -> ScoreBlock:
        """The scores of the rest."""
        rest = self._blocks.finish()
        return self.none() if rest is None else self._scored(rest)

    def none(self) -> ScoreBlock:
        """Scores of no frames."""
        return ScoreBlock(np.empty((0, self._n_classes)), np.empty(0))

    def _scored(self, packed: np.ndarray) -> ScoreBlock:
        features, activity = packed[:, :-1], packed[:, -1]
        values = np.zeros((len(packed), self._n_classes))
        active = activity > 0.0
        if active.any():
            values[active] = self._class_model.class_scores(features[active])[:, : self._n_classes]
        return ScoreBlock(values, activity)
