"""What a trained detector knows and can be asked without sound: attributes, thresholds, p-values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from outlark.detection.model import DetectorModel
from outlark.detection.note_level import NoteModel, check_segments
from outlark.detection.scores import ScoreLayout
from outlark.detection.second_stage import SecondStage
from outlark.detection.thresholds import ClassCalibration, by_class
from outlark.features.base import FrontEnd
from outlark.segments import Segment


class Trained:
    """The part of a detector that needs no sound: its model, attributes, thresholds and p-values."""

    model_: DetectorModel

    @property
    def classes_(self) -> np.ndarray:
        """The labels, (C,)."""
        return self.model_.classes

    @property
    def sample_rate_(self) -> int:
        """Of the training recordings; others are resampled to it."""
        return self.model_.first_stage.front_end.sample_rate_

    @property
    def front_end_(self) -> FrontEnd:
        """The fitted front end."""
        return self.model_.first_stage.front_end

    @property
    def class_model_(self) -> Any:
        """The fitted class model."""
        return self.model_.first_stage.class_model

    @property
    def layout_(self) -> ScoreLayout:
        """Thresholds in use, durations, frame rate; with an embedding, thresholds are those of joined scores."""
        return self.model_.layout

    @property
    def note_model_(self) -> NoteModel | None:
        """At note level: the class models of whole notes."""
        return self.model_.first_stage if isinstance(self.model_.first_stage, NoteModel) else None

    @property
    def second_stage_(self) -> SecondStage | None:
        """With an embedding."""
        return self.model_.second_stage

    @property
    def threshold_sources_(self) -> list[str]:
        """Where the threshold of each class comes from: "examples", "calibration" or "hand"."""
        return self.model_.threshold_sources

    @property
    def calibration_(self) -> list[ClassCalibration]:
        """What `calibrate` did to the threshold of each class; empty before."""
        return self.model_.calibration_in_use

    @property
    def training_(self) -> list[dict[str, Any]]:
        """The training notes; see `training_record`."""
        return self.model_.training

    @property
    def negatives_(self) -> list[dict[str, Any]]:
        """The same for what `reject` was given, with the best "score" of the class that they were rejected for."""
        return self.model_.negatives

    @property
    def lineage_(self) -> list[dict[str, Any]]:
        """The models it was trained from, oldest first; see `outlark.commands.train.retraining`."""
        return self.model_.lineage

    @lineage_.setter
    def lineage_(self, lineage: list[dict[str, Any]]) -> None:
        self.model_ = replace(self.model_, lineage=lineage)

    @property
    def choice_(self) -> list[str]:
        """Why the front end has its settings; empty if it was given."""
        return self.model_.choice

    def calibrate_peaks(self, peaks: Sequence[Sequence[np.ndarray]]) -> Self:
        """Calibrate on what `peaks` returned for each recording, so that a night can be analysed piece by piece."""
        self._check_scale()
        self.model_ = self.model_.calibrated_on(peaks)
        return self

    def set_thresholds(self, thresholds: ArrayLike | Mapping[Any, float] | None) -> Self:
        """Set the lowest score that classes accept; with an embedding, the lowest joined score.

        Parameters
        ----------
        thresholds : mapping of class to number, array (C,), or None
            For some of the classes, or for all in the order of `classes_`. None: back to those of the training.

        Examples
        --------
        >>> from outlark import NoteDetector
        >>> from outlark.data.synthetic import SAMPLE_RATE, notes
        >>> known = notes(counts={"tuti-F": 2, "cach-D": 2})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> detector.set_thresholds({"tuti-F": 0.5}).layout_.thresholds.round(3)
        array([0.185, 0.5  ])
        >>> detector.threshold_sources_
        ['examples', 'hand']
        """
        check_is_fitted(self)
        if thresholds is None:
            self.model_ = replace(self.model_, by_hand={}, calibration=())
        else:
            given = by_class(thresholds, self.classes_.tolist())
            self.model_ = replace(self.model_, by_hand={**self.model_.by_hand, **given})
        return self

    @property
    def trained_thresholds(self) -> np.ndarray:
        """The thresholds of the training, (C,), before any calibration or setting by hand."""
        check_is_fitted(self)
        return self.model_.trained_thresholds

    def p_values(self, segments: Iterable[Segment]) -> np.ndarray:
        """How typical each detected note is of its class, (n,): its rank among the left-out training notes.

        ``p = (1 + #{notes of the class that score no higher when left out}) / (n_notes + 1)``. This bounds the share
        of known notes that are *missed*: if new notes of a class are exchangeable with its training notes, ``p ≤ a``
        for at most a share a of them. It says nothing about how many unknown notes are accepted. A left-out note is
        scored by a model that lacks this one note, so the bound is not exact: detected notes score a little higher.

        Parameters
        ----------
        segments : iterable of Segment
            From `detect`, `decide` or a stream of this detector.

        Returns
        -------
        ndarray (n,)
            From ``1 / (n_notes + 1)`` to 1. NaN for a segment without label or score, for a class with fewer than
            `outlark.detection.note_level.ENOUGH_NOTES` (20) training notes, and for front ends of frames.

        Examples
        --------
        >>> from outlark import NoteDetector
        >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
        >>> known = notes(counts={"tuti-F": 20, "cach-D": 4})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> played = notes(seed=1, counts={"tuti-F": 2, "cach-D": 1})
        >>> audio, truth = concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(0))
        >>> found = [s for s in detector.detect(audio, SAMPLE_RATE) if s.label is not None]
        >>> for segment, p in zip(found, detector.p_values(found), strict=True):
        ...     print(segment.label, p.round(2))
        tuti-F 0.24
        tuti-F 0.81
        cach-D nan
        """
        check_is_fitted(self)
        if self.note_model_ is None:
            return np.full(len(check_segments(segments)), np.nan)
        return self.note_model_.p_values(segments)

    def _check_scale(self) -> None:
        check_is_fitted(self)
        self.model_.on_the_absolute_scale()
