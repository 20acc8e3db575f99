"""All that a trained detector knows, in one object: the detector holds it, and a model file keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import clone

from outlark.detection.frame_level import FrameModel, FrameScorer, fit_frames
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.negatives import as_good_as_notes, check_negatives, take_in
from outlark.detection.note_level import NOTE_SETTINGS, NoteModel, fit_notes
from outlark.detection.scorers import LOOKED_AT, NoteScorer
from outlark.detection.scores import ScoreLayout
from outlark.detection.second_stage import CANDIDATE, Embedding, SecondStage
from outlark.detection.thresholds import CALIBRATION, EXAMPLES, HAND, ClassCalibration, calibrated
from outlark.detection.training import ClassModel, Material, check_material, training_record
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.features.base import FrontEnd
from outlark.features.note import NoteFrontEnd


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectorModel:
    """A trained detector.

    Thresholds in use are those set by hand, then those that were calibrated, then those of the training: each is kept
    once, and `thresholds` puts them together.
    """

    #: Front end, class model and the thresholds of the training.
    first_stage: NoteModel | FrameModel
    #: Of the training notes of each class, (C,).
    shortest_s: np.ndarray
    longest_s: np.ndarray
    #: With an embedding.
    second_stage: SecondStage | None = None
    #: One for each class; empty without calibration.
    calibration: tuple[ClassCalibration, ...] = ()
    #: Thresholds set by hand.
    by_hand: Mapping[Any, float] = field(default_factory=dict)
    #: See `training_record`; negatives have their best "score" as well.
    training: list[dict[str, Any]] = field(default_factory=list)
    negatives: list[dict[str, Any]] = field(default_factory=list)
    #: The models it was trained from, oldest first.
    lineage: list[dict[str, Any]] = field(default_factory=list)
    #: Why the front end has its settings.
    choice: list[str] = field(default_factory=list)

    @property
    def classes(self) -> np.ndarray:
        """The labels, (C,)."""
        return self.first_stage.class_model.classes_

    @property
    def trained_thresholds(self) -> np.ndarray:
        """The thresholds of the training, (C,)."""
        trained = np.array(self.first_stage.thresholds, dtype=float)
        return trained if self.second_stage is None else self.second_stage.thresholds(trained)

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
            HAND if label in self.by_hand else CALIBRATION if by_peaks else EXAMPLES
            for label, by_peaks in zip(self.classes.tolist(), moved, strict=True)
        ]

    @property
    def calibration_in_use(self) -> list[ClassCalibration]:
        """What calibration found for each class, with the thresholds that were set by hand since."""
        return [
            replace(c, threshold=self.by_hand[c.label], by_hand=True) if c.label in self.by_hand else c
            for c in self.calibration
        ]

    @property
    def layout(self) -> ScoreLayout:
        """For scores, with the thresholds in use."""
        front_end = self.first_stage.front_end
        return ScoreLayout(
            classes=self.classes,
            thresholds=self.thresholds,
            note_thresholds=self.first_stage.note_thresholds,
            sample_rate=front_end.sample_rate_,
            hop_samples=front_end.hop_samples_,
            offset_samples=front_end.offset_samples_,
            shortest_s=self.shortest_s,
            longest_s=self.longest_s,
        )

    @property
    def score_layout(self) -> ScoreLayout:
        """For the scores of the first stage."""
        if self.second_stage is None:
            return self.layout
        return replace(self.layout, thresholds=self.first_stage.thresholds)

    def decision_layout(self, layout: ScoreLayout | None = None) -> ScoreLayout:
        """For decisions, with the thresholds in use or those of another layout; with a second stage, for candidates."""
        layout = self.layout if layout is None else layout
        if self.second_stage is None:
            return layout
        return self.second_stage.layout(layout, self.first_stage.thresholds)

    def scorer(self) -> FrameScorer | NoteScorer:
        """A fresh stream of scores. Edges are refined for the lower of the thresholds of the training and in use."""
        stage = self.first_stage
        if isinstance(stage, NoteModel) and self.second_stage is None:
            stage = replace(stage, thresholds=np.minimum(stage.thresholds, self.thresholds))
        return stage.scorer()

    def on_the_absolute_scale(self) -> NoteModel:
        """The first stage, or an error if the scale of its scores is its own."""
        if not isinstance(self.first_stage, NoteModel) or self.first_stage.contrast_db is None:
            raise InputError(
                "only a note-level detector with the default class model is on the absolute scale and can be "
                "calibrated or learn from negatives; train one without front_end and class_model"
            )
        return self.first_stage

    def calibrated_on(self, peaks: Sequence[Sequence[np.ndarray]]) -> Self:
        """With thresholds calibrated on the peaks of several recordings."""
        self.on_the_absolute_scale()
        of_class = [np.concatenate([*(p[c] for p in peaks), []]) for c in range(len(self.classes))]
        priors = self.trained_thresholds.tolist()
        found = tuple(calibrated(*each) for each in zip(self.classes.tolist(), priors, of_class, strict=True))
        return replace(self, calibration=found)

    def rejecting(self, material: Material) -> tuple[Self, list[str]]:
        """With these negatives, and warnings about those that score as high as notes."""
        model = self.on_the_absolute_scale()
        check_negatives(material, self.classes.tolist())
        # what would be found depends on the thresholds in use, what is a candidate on those of the training
        used, share = self.thresholds, LOOKED_AT
        if self.second_stage is not None:
            used, share = model.thresholds, CANDIDATE
        taken, records = take_in(replace(model, thresholds=used), material, share)
        taken = replace(taken, thresholds=model.thresholds)
        found = replace(self, first_stage=taken, negatives=[*self.negatives, *records])
        return found, list(as_good_as_notes(taken, records))


def fit_model(
    material: Material, front_end: FrontEnd | None, class_model: ClassModel | None, embedding: Embedding | None
) -> DetectorModel:
    """Train on annotated notes; None stands for the defaults."""
    check_material(material)
    own, choice = choose_front_end(material) if front_end is None else (clone(front_end), [])
    if material.clips:
        own.for_clips()
    own.fit(material.recordings, material.sample_rate, material.segments)
    transform = own.transform_clips if material.clips else own.transform
    frames = [transform(recording) for recording in material.recordings]
    stage: NoteModel | FrameModel
    if own.note_level:
        stage = fit_notes(cast("NoteFrontEnd", own), class_model, frames, material.segments, clips=material.clips)
    else:
        stage = fit_frames(own, MDDKM() if class_model is None else clone(class_model), frames, material)
    durations = material.durations_s.values()
    return DetectorModel(
        first_stage=stage,
        shortest_s=np.array([min(d) for d in durations]),
        longest_s=np.array([max(d) for d in durations]),
        second_stage=None if embedding is None else _second_stage(embedding, stage, material),
        training=training_record(material),
        choice=list(choice),
    )


def _second_stage(embedding: Embedding, stage: Any, material: Material) -> SecondStage:
    """Trained on the notes that the first stage has used."""
    used = np.unique(np.concatenate(stage.class_model.notes_))
    return SecondStage.fit(embedding, NOTE_SETTINGS, material.recordings, [material.notes[i] for i in used.tolist()])
