"""The system as published (Sec. 4.2): every frame is a sample, and six rules turn frames into notes.

`FrameDetector.paper()` is the literal system: the top layer of HLDS (`outlark.estimators.hlds`), MDD-KM with τ = 1.8/μ
(`outlark.estimators.mddkm`), six rules (`outlark.paper.decisions`). With `ArrayFrontEnd` it takes series of other
sensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import clone

from outlark.audio.sound import Reblock
from outlark.detection.detector import GAP_S, NoteDetector, check_kind
from outlark.detection.model import DetectorModel
from outlark.detection.note_training import of_any_model
from outlark.detection.scores import ScoreBlock, ScoreLayout, joined_scores
from outlark.detection.training import Material, check_material
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_seconds
from outlark.features.base import Frames, FrontEnd
from outlark.paper.decisions import Rules
from outlark.paper.front_end import HLDSFrontEnd
from outlark.segments import Segment

#: How many spreads below the median of its own notes a class ends.
SPREADS = 4.0
#: The spread of a class is at least this share of its median: a handful of notes may agree by chance.
LEAST_SPREAD = 0.02
#: The threshold lies at this share of the way from the best of the rest to the low end of the class.
NEAR_THE_CLASS = 0.8
#: A class never ends below this share of its median: notes that differ more are mislabelled, or not a class.
LEAST_LOW = 0.75
#: Frames scored at once: always the same blocks, whatever was pushed, and so the same scores.
FRAMES_TOGETHER = 512


class ClassModel(Protocol):
    """A class model: learns from samples (n, d) and then scores others."""

    classes_: np.ndarray
    thresholds_: np.ndarray

    def fit(self, X: np.ndarray, y: Any, groups: Any = None) -> Self:
        """Learn the classes; `groups` are the numbers of the notes that the samples are from."""
        ...

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """(n, C), high = member."""
        ...


class FrameDetector(NoteDetector):
    """Finds notes frame by frame; for series of other sensors, and the system as published.

    Parameters
    ----------
    front_end : FrontEnd, optional
        From a signal to frames, such as `ArrayFrontEnd`; `HLDSFrontEnd` by default.
    class_model : estimator, optional
        From frames to class scores; `MDDKM` by default. Any estimator with `fit(X, y, groups)`, `classes_`,
        `thresholds_` and `class_scores(X)`.
    decisions : Rules, optional
        From class scores to segments.
    gap_s : float
        Digital silence between training clips.

    Examples
    --------
    >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
    >>> known = notes(counts={"tuti-F": 4, "cach-D": 4})
    >>> detector = FrameDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, truth = concatenate(notes(seed=1, counts={"cach-D": 1}), edge_s=0.5, rng=np.random.default_rng(0))
    >>> [s.label for s in detector.detect(audio, SAMPLE_RATE) if s.verdict == "known"]
    ['cach-D']
    """

    def __init__(
        self,
        front_end: FrontEnd | None = None,
        class_model: ClassModel | None = None,
        decisions: Rules | None = None,
        *,
        gap_s: float = GAP_S,
    ) -> None:
        self.front_end = front_end
        self.class_model = class_model
        self.decisions = decisions
        self.gap_s = gap_s

    embedding = None

    @classmethod
    def paper(cls, class_model: ClassModel | None = None) -> Self:
        """The system as published (Sec. 4.2): top layer of HLDS, literal MDD-KM, six rules."""
        class_model = MDDKM.paper() if class_model is None else class_model
        return cls(HLDSFrontEnd.paper(), class_model, Rules.paper(), gap_s=0.0)

    @property
    def decisions_(self) -> Rules:
        return self.decisions if isinstance(self.decisions, Rules) else Rules()

    def _fit(self, material: Material) -> "FrameModel":
        class_model = MDDKM(metric="global") if self.class_model is None else clone(self.class_model)
        front_end = HLDSFrontEnd() if self.front_end is None else clone(self.front_end)
        return fit_frames(front_end, class_model, material)

    def _check_parameters(self) -> None:
        check_kind("front_end", self.front_end, FrontEnd)
        check_kind("decisions", self.decisions, Rules)
        check_seconds("gap_s", self.gap_s, zero=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameModel(DetectorModel):
    """Class models of single frames, whose thresholds are those of frames."""

    level = "frame"

    #: For the mean over a note; None if the class model does not keep the scores of left-out notes, (C,).
    mean_thresholds: np.ndarray | None

    @property
    def trained_thresholds(self) -> np.ndarray:
        return np.array(self.class_model.thresholds_, dtype=float)

    @property
    def layout(self) -> ScoreLayout:
        return replace(super().layout, mean_thresholds=self.mean_thresholds)

    def scorer(self) -> "FrameScorer":
        return FrameScorer(self.class_model)


def fit_frames(front_end: FrontEnd, class_model: ClassModel, material: Material) -> FrameModel:
    """Describe the frames of the annotated notes."""
    check_material(material)
    X, y, groups = frame_samples(front_end, material.frames(front_end), material)
    fitted = class_model.fit(X, y, groups=groups)
    if getattr(fitted, "has_log_odds_", False):
        raise InputError(
            "the scores of this class model are log odds, which may be negative, but frames of silence score 0; give "
            'MDDKM(metric="global") as class_model'
        )
    left_out = getattr(fitted, "left_out_note_scores_", None)
    of_notes = None
    if left_out is not None and all(len(scores) for scores in left_out):
        of_notes = note_thresholds(left_out, scores_of_other_notes(fitted, X, y, groups))
    return FrameModel(front_end=front_end, class_model=fitted, mean_thresholds=of_notes, **of_any_model(material))


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


def note_thresholds(own: Sequence[np.ndarray], rest: Sequence[np.ndarray]) -> np.ndarray:
    """The threshold of each class, (C,), from the scores of its `own` training notes when left out, and the peaks of
    its score in the `rest`, where none of its notes is annotated: other notes, background.

    A class ends a few spreads below the median of its own notes. Whatever else there is scores below that; what scores
    above is taken for notes that nobody annotated. The threshold lies between the best of the rest and the low end of
    the class, nearer to the class: unknown notes to come will resemble it more than anything in the training
    recordings does.

    >>> own, rest = np.array([2.2, 2.3, 2.4]), np.array([0.3, 1.0, 2.25])
    >>> note_thresholds([own], [rest]).round(2)
    array([1.58])
    """
    spread = pooled_spread(own)
    thresholds = np.empty(len(own))
    for c, scores in enumerate(own):
        middle = float(np.median(scores))
        low = middle - SPREADS * max(spread, LEAST_SPREAD * abs(middle))
        low = max(low, LEAST_LOW * middle)
        best_of_the_rest = float(rest[c][rest[c] < low].max(initial=min(low, 0.0)))
        thresholds[c] = best_of_the_rest + NEAR_THE_CLASS * (low - best_of_the_rest)
    return np.maximum(thresholds, np.finfo(float).eps)


def pooled_spread(own: Sequence[np.ndarray]) -> float:
    """How much left-out notes of one class differ: a robust standard deviation, pooled over the classes.

    >>> round(pooled_spread([np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.1, 2.2])]), 3)
    0.182
    """
    deviations = [np.abs(scores - np.median(scores)) for scores in own if len(scores) > 1]
    freedom = sum(len(d) - 1 for d in deviations)
    if not freedom:
        return 0.0
    pooled = np.concatenate(deviations)
    # 1.4826: the median deviation of a normal distribution, as a standard deviation
    return 1.4826 * float(np.median(pooled)) * float(np.sqrt(len(pooled) / freedom))


class FrameScorer:
    """Each frame is a sample. Frames within the noise floor score 0."""

    grain: int | None = None

    def __init__(self, class_model: ClassModel) -> None:
        self._class_model, self._n_classes = class_model, len(class_model.classes_)
        self._blocks = Reblock(FRAMES_TOGETHER)

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
