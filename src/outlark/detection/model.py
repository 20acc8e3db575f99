"""All that a trained detector knows, in one object: the detector holds it, and a model file keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from outlark.detection.confirmation import Confirmation
from outlark.detection.negatives import Rejecting, as_good_as_notes, check_negatives, negatives_within, rejected_by
from outlark.detection.scorer import REFINED_SHARE, ClassScorer, Contrast, Edges, NoteScorer, Scorer
from outlark.detection.scores import ScoreLayout
from outlark.detection.second_stage import CANDIDATE_SHARE, SecondStage
from outlark.detection.thresholds import CALIBRATED, FROM_EXAMPLES, SET_BY_HAND, ClassCalibration, calibrated
from outlark.detection.training import Material
from outlark.errors import InputError
from outlark.features.base import FrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.maths.description import Description
from outlark.segments import Segment

#: Trial starts lie a fortieth of the shortest note apart, but never less than this many frames.
STARTS_PER_NOTE, LEAST_STEP = 40, 2
#: A class has p-values from this many left-out notes on: the smallest is then below .05.
LEAST_NOTES_FOR_P = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectorModel:
    """A trained detector: at note level a `NoteModel`, frame by frame an `outlark.paper.detector.FrameModel`.

    Thresholds in use are those set by hand, then those that were calibrated, then those of the training: each is kept
    once, and `thresholds` puts them together.
    """

    level: ClassVar[Literal["note", "frame"]]

    front_end: FrontEnd
    class_model: Any
    #: Of the training notes of each class, (C,).
    shortest_s: np.ndarray
    longest_s: np.ndarray
    #: With an embedding.
    second_stage: SecondStage | None = None
    #: One for each class; empty without calibration.
    calibration: tuple[ClassCalibration, ...] = ()
    #: Thresholds set by hand.
    by_hand: Mapping[Any, float] = field(default_factory=dict)
    #: See `outlark.detection.training.training_record`; negatives have their best "score" as well.
    training: Sequence[Mapping[str, Any]] = ()
    negatives: Sequence[Mapping[str, Any]] = ()
    #: The models it was trained from, oldest first.
    lineage: Sequence[Mapping[str, Any]] = ()
    #: Why the front end has its settings; empty if it was given.
    choice: Sequence[str] = ()

    @property
    def classes(self) -> np.ndarray:
        """The labels, (C,)."""
        return self.class_model.classes_

    @property
    def trained_thresholds(self) -> np.ndarray:
        """The thresholds of the training, (C,)."""
        raise NotImplementedError

    @property
    def thresholds(self) -> np.ndarray:
        """The thresholds in use, (C,)."""
        found = [c.threshold for c in self.calibration] or self.trained_thresholds.tolist()
        return np.array([self.by_hand.get(label, t) for label, t in zip(self.classes.tolist(), found, strict=True)])

    @property
    def threshold_sources(self) -> list[str]:
        """Where each threshold in use comes from."""
        moved = [c.moved for c in self.calibration] or [False] * len(self.classes)
        return [
            SET_BY_HAND if label in self.by_hand else CALIBRATED if by_peaks else FROM_EXAMPLES
            for label, by_peaks in zip(self.classes.tolist(), moved, strict=True)
        ]

    @property
    def layout(self) -> ScoreLayout:
        """For decisions, with the thresholds in use."""
        return ScoreLayout(
            level=self.level,
            classes=self.classes,
            thresholds=self.thresholds,
            sample_rate=self.front_end.sample_rate_,
            hop_samples=self.front_end.hop_samples_,
            offset_samples=self.front_end.offset_samples_,
            shortest_s=self.shortest_s,
            longest_s=self.longest_s,
        )

    @property
    def score_layout(self) -> ScoreLayout:
        """For the scores of the first stage."""
        return self.layout

    def scorer(self) -> Scorer:
        """A fresh stream of scores."""
        raise NotImplementedError

    def p_values(self, segments: Sequence[Segment]) -> np.ndarray:
        """The p-value of each segment under its label, (n,); see `NoteDetector.p_values`."""
        return np.full(len(segments), np.nan)

    def on_the_absolute_scale(self) -> "NoteModel":
        """The model, or an error if the scale of its scores is its own."""
        raise InputError(
            "only a note-level detector with the default class model is on the absolute scale and can be calibrated or "
            "learn from negatives; train a NoteDetector"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class NoteModel(DetectorModel):
    """A detector of whole notes."""

    level = "note"

    front_end: NoteFrontEnd
    #: Trial lengths in frames, (L,), and which of them each class may have, (L, C) of bool.
    lengths: np.ndarray
    allowed: np.ndarray
    #: As trained, of the scores of the first stage, (C,).
    spectral_thresholds: np.ndarray
    #: What onsets and ends look like; None before they are learnt.
    edges: Edges | None = None
    #: For each class the leave-one-out scores of its training notes, confirmed and sorted; none for one note.
    left_out: Sequence[np.ndarray] = ()
    #: How far loud sounds stand out in the training recordings; None if scores are not on the absolute scale.
    contrast_db: float | None = None
    #: For each class the sounds known not to be notes of it (`outlark.detection.negatives`).
    rejected: Sequence[Description | None] | None = None
    #: The notes of each class with wide surroundings (`outlark.detection.confirmation`); None for clips.
    wide: Sequence[Description] | None = None

    @property
    def trained_thresholds(self) -> np.ndarray:
        trained = np.array(self.spectral_thresholds, dtype=float)
        return trained if self.second_stage is None else self.second_stage.thresholds(trained)

    @property
    def layout(self) -> ScoreLayout:
        if self.second_stage is None:
            return super().layout
        return replace(super().layout, candidate_thresholds=CANDIDATE_SHARE * self.spectral_thresholds)

    @property
    def score_layout(self) -> ScoreLayout:
        if self.second_stage is None:
            return self.layout
        return replace(self.layout, thresholds=self.spectral_thresholds, candidate_thresholds=None)

    @property
    def confirmation(self) -> Confirmation | None:
        """Scores with wide surroundings, if the examples show what is around them."""
        return None if self.wide is None else Confirmation(self.front_end, self.wide)

    @property
    def step(self) -> int:
        """From one trial start to the next, in frames."""
        return max(LEAST_STEP, int(self.lengths.min() / STARTS_PER_NOTE))

    def scorer(self) -> NoteScorer:
        """A fresh stream of scores. Edges are refined for the lower of the thresholds of the training and in use."""
        thresholds = self.spectral_thresholds
        if self.second_stage is None:
            thresholds = np.minimum(thresholds, self.thresholds)
        contrast = None if self.contrast_db is None else Contrast(self.contrast_db, self.front_end.frame_rate)
        class_model: ClassScorer = self.class_model
        if self.rejected is not None:
            class_model = Rejecting(class_model, self.rejected)
        return NoteScorer(
            self.front_end, class_model, self.lengths, self.allowed, self.step,
            edges=self.edges, thresholds=thresholds, contrast=contrast, confirmation=self.confirmation,
        )  # fmt: skip

    def p_values(self, segments: Sequence[Segment]) -> np.ndarray:
        p = np.full(len(segments), np.nan)
        scores = np.array([segment.score for segment in segments], dtype=float)
        scores[scores == 0.0] = np.nan  # as in annotations made by hand; a detected note scores more
        numbers = {label: c for c, label in enumerate(self.classes.tolist())}
        of_class = np.array([numbers.get(segment.label, -1) for segment in segments])
        for c, left_out in enumerate(self.left_out):
            p[of_class == c] = note_p_values(scores[of_class == c], left_out)
        return p

    def on_the_absolute_scale(self) -> "NoteModel":
        return self if self.contrast_db is not None else super().on_the_absolute_scale()

    def calibrated_on(self, peaks: Sequence[Sequence[np.ndarray]]) -> Self:
        """With thresholds calibrated on the peaks of several recordings."""
        of_class = [np.concatenate([*(p[c] for p in peaks), []]) for c in range(len(self.classes))]
        priors = self.trained_thresholds.tolist()
        # joined scores of a second stage are on another scale than those of left-out notes
        none = self.second_stage is not None or not self.left_out
        left_out: Sequence[ArrayLike] = [()] * len(priors) if none else self.left_out
        found = tuple(calibrated(*each) for each in zip(self.classes.tolist(), priors, of_class, left_out, strict=True))
        return replace(self, calibration=found)

    def rejecting(self, material: Material) -> tuple[Self, list[str]]:
        """With these negatives, and warnings about those that score as high as notes."""
        check_negatives(material, self.classes.tolist())
        # what would be found depends on the thresholds in use, what is a candidate on those of the training
        least = REFINED_SHARE * self.thresholds
        if self.second_stage is not None:
            least = CANDIDATE_SHARE * self.spectral_thresholds
        found, records = negatives_within(self, material, least)
        taken = replace(self, rejected=rejected_by(self, found), negatives=[*self.negatives, *records])
        return taken, list(as_good_as_notes(taken, records))


def note_p_values(scores: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Conformal p-values of notes with these scores (n,) under one class, (n,); see `NoteDetector.p_values`.

    `left_out` are the sorted leave-one-out scores of the training notes. NaN for a score of NaN, or with fewer than
    `LEAST_NOTES_FOR_P` notes.

    >>> note_p_values(np.array([0.5, 10.0, 99.0, np.nan]), np.arange(1.0, 25.0))
    array([0.04, 0.44, 1.  ,  nan])
    >>> note_p_values(np.array([0.5]), np.arange(1.0, 20.0))
    array([nan])
    """
    if len(left_out) < LEAST_NOTES_FOR_P:
        return np.full(len(scores), np.nan)
    ranks = 1 + np.searchsorted(left_out, scores, side="right")
    return np.where(np.isnan(scores), np.nan, ranks / (len(left_out) + 1))
