"""Training at note level: samples, trial lengths, thresholds and edges of whole notes."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from outlark.detection import absolute_scale
from outlark.detection.absolute_scale import MASKS, AnnotatedNote, note_samples
from outlark.detection.edges import Edges, learn_edges
from outlark.detection.learnt_thresholds import left_out_by_refit, note_thresholds, raised, scores_of_the_rest
from outlark.detection.scorers import ClassScorer, Contrast, NoteScorer, contrast_of
from outlark.detection.second_stage import CANDIDATE
from outlark.detection.training import ClassModel
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.maths.description import Description, Distances, score
from outlark.segments import Segment

#: Trial starts lie a fortieth of the shortest note apart, but never less than STEP frames.
STEP, PLACES = 2, 40
#: MDD-KM for descriptions of length 1, on the scale of `absolute_scale`. Sizes are not balanced, because t0 grows with
#: the number of notes; thresholds are those of whole notes, not of samples.
NOTE_SETTINGS: dict[str, Any] = {
    "metric": "euclidean",
    "sigma": 1.0,
    "sigma_reg": absolute_scale.RATIO**0.5,
    "length_scale": absolute_scale.LENGTH_SCALE,
    "balance": None,
    "threshold": 0.0,
    "landmarks": None,
}
#: Nothing below this score is a note or, with a second stage, a candidate: weaker scores need no comparison.
WEAK = CANDIDATE * absolute_scale.LOWEST * absolute_scale.LEAST_SHARE
#: A class has p-values from this many left-out notes on: the smallest is then below .05.
ENOUGH_NOTES = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class NoteModel:
    """Class models of whole notes."""

    front_end: NoteFrontEnd
    class_model: Any
    #: Frames, (L,).
    lengths: np.ndarray
    #: (L, C) of bool.
    allowed: np.ndarray
    #: As trained, (C,).
    thresholds: np.ndarray
    #: What onsets and ends look like; None before they are learnt.
    edges: Edges | None = None
    #: For each class the scores of its training notes when left out, sorted; none for a class of one note.
    left_out: list[np.ndarray] = field(default_factory=list)
    #: How far loud sounds stand out in the training recordings, for scores on the absolute scale.
    contrast_db: float | None = None
    #: For each class the sounds known not to be notes of it (`outlark.detection.negatives`).
    rejected: list[Description | None] | None = None

    #: For the mean over a note, which only models of frames need.
    note_thresholds = None

    def scorer(self) -> NoteScorer:
        """A fresh stream of scores."""
        contrast = None if self.contrast_db is None else Contrast(self.contrast_db, self.front_end.frame_rate)
        class_model: ClassScorer = (
            self.class_model if self.rejected is None else Rejecting(self.class_model, self.rejected)
        )
        return NoteScorer(
            self.front_end, class_model, self.lengths, self.allowed, self.step,
            edges=self.edges, thresholds=self.thresholds, contrast=contrast,
        )  # fmt: skip

    @property
    def step(self) -> int:
        """From one trial start to the next, in frames."""
        return max(STEP, int(self.lengths.min() / PLACES))

    def p_values(self, segments: Iterable[Segment]) -> np.ndarray:
        """The p-value of each segment under its label, (n,); see `NoteDetector.p_values`."""
        found = check_segments(segments)
        p = np.full(len(found), np.nan)
        scores = np.array([segment.score for segment in found], dtype=float)
        scores[scores == 0.0] = np.nan  # as in annotations made by hand; a detected note scores more
        numbers = {label: c for c, label in enumerate(self.class_model.classes_.tolist())}
        of_class = np.array([numbers.get(segment.label, -1) for segment in found])
        for c, left_out in enumerate(self.left_out):
            p[of_class == c] = note_p_values(scores[of_class == c], left_out)
        return p


class Rejecting:
    """The scores of a class model, but 0 for a sound that is nearer to one rejected for the class than to the class.

    `rejected` describes for each class the sounds that are not notes of it, if any, with the kernel of the classes, so
    that scores are comparable.

    >>> from outlark.estimators.mddkm import MDDKM
    >>> from outlark.maths.description import describe
    >>> settings = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5, "length_scale": 1.0}
    >>> class_model = MDDKM(**settings, balance=None, threshold=0.1).fit([[0.0], [0.1]], ["a", "a"])
    >>> rejecting = Rejecting(class_model, [describe(np.array([[1.0]]), 1.0, 0.1)])
    >>> near = np.array([[0.0], [0.9]])
    >>> class_model.class_scores(near).round(2).ravel(), rejecting.class_scores(near).round(2).ravel()
    (array([1.48, 0.15]), array([1.48, 0.  ]))
    """

    def __init__(self, class_model: ClassScorer, rejected: Sequence[Description | None]) -> None:
        self._class_model, self._rejected = class_model, rejected

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """High = member, (n, C)."""
        found = np.array(self._class_model.class_scores(X))
        for c, description in enumerate(self._rejected):
            rows = np.flatnonzero(found[:, c] >= WEAK) if description is not None else ()
            if description is not None and len(rows):
                nearer = score(Distances([description])(X[rows])[:, 0]) > found[rows, c]
                found[rows[nearer], c] = 0.0
        return found


def fit_notes(
    front_end: NoteFrontEnd,
    class_model: ClassModel | None,
    frames: Sequence[Frames],
    segments: Sequence[Sequence[Segment]],
    *,
    clips: bool = False,
) -> NoteModel:
    """Describe the annotated notes and find the threshold of each class.

    By default with `MDDKM` on the absolute scale. The scale of any other class model is unknown and is learnt from
    the scores of left-out notes and of the rest of the recordings. With `clips`, the surroundings are unknown.
    """
    notes = annotated_notes(front_end, frames, segments, clips=clips)
    model, used = (
        _on_the_absolute_scale(front_end, notes, frames)
        if class_model is None
        else (_learnt(front_end, class_model, notes, frames, segments), notes)
    )
    spans = [(note.spectra, note.start, note.start + note.length, note.label) for note in used]
    return replace(model, edges=learn_edges(spans, model.class_model.classes_.tolist(), inside=clips))


def annotated_notes(
    front_end: NoteFrontEnd, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]], *, clips: bool = False
) -> list[AnnotatedNote]:
    """The annotated notes in frames. Every clip counts as a recording."""
    hop = front_end.hop_samples_
    found = [
        AnnotatedNote(f.features, s.start / hop, (s.end - s.start) / hop, s.label, r)
        for r, (f, own) in enumerate(zip(frames, segments, strict=True))
        for s in own
    ]
    return [replace(note, origin=number) for number, note in enumerate(found)] if clips else found


def _on_the_absolute_scale(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], frames: Sequence[Frames]
) -> tuple[NoteModel, Sequence[AnnotatedNote]]:
    """The model, and the notes that it has learnt from."""
    classes = np.unique([note.label for note in notes])
    lengths, allowed = trial_lengths(front_end, notes, classes)
    of_class = [lengths[column] for column in allowed.T]
    pitch = absolute_scale.pitch_matters(front_end, notes, of_class)
    left_out = absolute_scale.left_out_scores(front_end, notes, of_class, pitch=pitch)
    t0 = _absolute_thresholds(front_end, notes, classes, pitch)
    kept = _without_odd_ones(notes, classes, left_out, t0)
    own = [notes[i] for i in kept]
    if len(own) < len(notes):
        lengths, allowed = trial_lengths(front_end, own, classes)
        of_class = [lengths[column] for column in allowed.T]
        left_out = absolute_scale.left_out_scores(front_end, own, of_class, pitch=pitch)
        t0 = _absolute_thresholds(front_end, own, classes, pitch)
    X, y, groups = note_samples(front_end, own, masks=MASKS, pitch=pitch)
    model = NoteModel(
        front_end=front_end,
        class_model=MDDKM(**NOTE_SETTINGS).fit(X, y, groups=np.array(kept)[groups]),
        lengths=lengths,
        allowed=allowed,
        thresholds=absolute_scale.thresholds(t0, left_out),
        left_out=[np.sort(of_notes) for of_notes in left_out],
        contrast_db=float(np.median([contrast_of(f.activity, front_end.frame_rate) for f in frames])),
    )
    return model, own


def _without_odd_ones(
    notes: Sequence[AnnotatedNote], classes: np.ndarray, left_out: Sequence[np.ndarray], t0: np.ndarray
) -> list[int]:
    """The numbers of the notes to keep: all but at most one odd note of each class, which a warning names."""
    kept: list[int] = []
    for c, (label, of_notes) in enumerate(zip(classes.tolist(), left_out, strict=True)):
        own = [i for i, note in enumerate(notes) if note.label == label]
        odd = absolute_scale.odd_one(of_notes, t0[c])
        kept += [i for number, i in enumerate(own) if number != odd]
        if odd is not None:
            warnings.warn(
                f"note {odd + 1} of the {len(own)} examples of {label!r} is unlike all the others and is not used, "
                "because the class would then accept other sounds; give a second one like it, or a class of its own",
                stacklevel=2,
            )
    return sorted(kept)


def _absolute_thresholds(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], classes: np.ndarray, pitch: bool
) -> np.ndarray:
    """t0 of each class, (C,)."""
    of_class = [[n.length / front_end.frame_rate for n in notes if n.label == label] for label in classes.tolist()]
    return np.array([absolute_scale.absolute_threshold(len(d), float(np.median(d)), pitch=pitch) for d in of_class])


def _learnt(
    front_end: NoteFrontEnd,
    class_model: ClassModel,
    notes: Sequence[AnnotatedNote],
    frames: Sequence[Frames],
    segments: Sequence[Sequence[Segment]],
) -> NoteModel:
    X, y, groups = note_samples(front_end, notes)
    fitted = clone(class_model).fit(X, y, groups=groups)
    lengths, allowed = trial_lengths(front_end, notes, fitted.classes_)
    no_thresholds = np.zeros(len(fitted.classes_))
    model = NoteModel(
        front_end=front_end, class_model=fitted, lengths=lengths, allowed=allowed, thresholds=no_thresholds
    )
    own = left_out_by_refit(class_model, notes, model)
    rest = scores_of_the_rest(model, frames, segments)
    return replace(model, thresholds=raised(note_thresholds(own, rest)), left_out=[np.sort(scores) for scores in own])


def check_segments(segments: Any) -> list[Segment]:
    """A list of `Segment`, or an error."""
    if not isinstance(segments, Iterable):
        raise InputError(f"segments is {segments!r:.200}; give a list of Segment objects, as returned by detect()")
    found = list(segments)
    strange = next((i for i, segment in enumerate(found) if not isinstance(segment, Segment)), None)
    if strange is not None:
        raise InputError(
            f"segments[{strange}] is {found[strange]!r:.200}; give Segment objects, as returned by detect()"
        )
    return found


def note_p_values(scores: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Conformal p-values of notes with these scores (n,) under one class, (n,); see `NoteDetector.p_values`.

    `left_out` are the sorted scores of the m training notes when left out. NaN for a score of NaN, or with fewer than
    `ENOUGH_NOTES` notes.

    >>> note_p_values(np.array([0.5, 10.0, 99.0, np.nan]), np.arange(1.0, 25.0))
    array([0.04, 0.44, 1.  ,  nan])
    >>> note_p_values(np.array([0.5]), np.arange(1.0, 20.0))
    array([nan])
    """
    if len(left_out) < ENOUGH_NOTES:
        return np.full(len(scores), np.nan)
    ranks = 1 + np.searchsorted(left_out, scores, side="right")
    return np.where(np.isnan(scores), np.nan, ranks / (len(left_out) + 1))


def trial_lengths(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Trial lengths in frames, and which of them each class may have: about those of its training notes."""
    durations = [note.length / front_end.frame_rate for note in notes]
    lengths = front_end.lengths(durations)
    allowed = np.zeros((len(lengths), len(classes)), dtype=bool)
    for c, label in enumerate(classes.tolist()):
        own = front_end.lengths([d for d, note in zip(durations, notes, strict=True) if note.label == label])
        # the slack is wider than a step between lengths, so that every class has one
        allowed[:, c] = (lengths >= own[0] * (1 - 1e-9)) & (lengths <= own[-1] * (1 + 1e-9))
    used = allowed.any(axis=1)
    return lengths[used], allowed[used]
