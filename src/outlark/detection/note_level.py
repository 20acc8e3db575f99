"""Training on whole notes: samples, trial lengths, thresholds and edges."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from outlark.detection import absolute_scale
from outlark.detection.calibration import note_p_values, note_thresholds, raised
from outlark.detection.contrast import Contrast, contrast_of
from outlark.detection.copies import MASKS, MarkedNote, note_samples
from outlark.detection.edges import Edges, learn_edges
from outlark.detection.learnt_thresholds import left_out_by_refit, scores_of_the_rest
from outlark.detection.rejecting import Rejecting
from outlark.detection.scorers import ClassScorer, NoteScorer
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.maths.description import Description
from outlark.segments import Segment

#: Notes start at every so many frames at least, and at so many places along the shortest note.
STEP, PLACES = 2, 40
#: MDD-KM for descriptions of length 1, on the scale of `absolute_scale`: sizes are not balanced, because
#: t0 grows with the number of notes, and thresholds are not those of samples but of whole notes.
NOTE_SETTINGS: dict[str, Any] = {
    "metric": "euclidean",
    "sigma": 1.0,
    "sigma_reg": absolute_scale.RATIO**0.5,
    "length_scale": absolute_scale.LENGTH_SCALE,
    "balance": None,
    "threshold": 0.0,
    "landmarks": None,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class NoteModel:
    """Whole notes, learnt.

    Attributes
    ----------
    describer : fitted
    lengths : ndarray (L,)
        Frames.
    allowed : ndarray (L, C) of bool
    thresholds : ndarray (C,)
    edges : Edges or None
        What starts and ends look like; None in files from before there were any.
    left_out : list of ndarray, or None
        For each class the scores of its training notes when left out, sorted; empty for a class of one note, None in
        files from before they were kept.
    contrast_db : float or None
        How far loud sounds stand out in the training recordings, for scores on the absolute scale.
    rejected : list of Description or None, optional
        For each class the sounds that are known not to be notes of it (`outlark.detection.negatives`).
    """

    describer: Any
    lengths: np.ndarray
    allowed: np.ndarray
    thresholds: np.ndarray
    edges: Edges | None = None
    left_out: list[np.ndarray] | None = None
    contrast_db: float | None = None
    rejected: list[Description | None] | None = None

    def scorer(self, front_end: NoteFrontEnd) -> NoteScorer:
        """A fresh stream of scores."""
        contrast = None if self.contrast_db is None else Contrast(self.contrast_db, front_end.frame_rate)
        describer: ClassScorer = self.describer if self.rejected is None else Rejecting(self.describer, self.rejected)
        return NoteScorer(
            front_end, describer, self.lengths, self.allowed, self.step,
            edges=self.edges, thresholds=self.thresholds, contrast=contrast,
        )  # fmt: skip

    @property
    def step(self) -> int:
        """From one start that is tried to the next, in frames."""
        return max(STEP, int(self.lengths.min() / PLACES))


def fit_whole_notes(
    front_end: NoteFrontEnd,
    describer: Any,
    frames: Sequence[Frames],
    segments: Sequence[Sequence[Segment]],
    *,
    clips: bool = False,
) -> NoteModel:
    """Describe the marked notes and find where each class begins to accept.

    Without a describer, by `MDDKM` on the absolute scale. The scale of any other one is not known and is learnt from
    what left-out notes and the rest of the recordings score. With `clips`, nothing is known of the surroundings.
    """
    notes = marked_notes(front_end, frames, segments, clips=clips)
    model, used = (
        _on_the_absolute_scale(front_end, notes, frames)
        if describer is None
        else (_learnt(front_end, describer, notes, frames, segments), notes)
    )
    marked = [(note.spectra, note.start, note.start + note.length, note.label) for note in used]
    return replace(model, edges=learn_edges(marked, model.describer.classes_.tolist(), inside=clips))


def marked_notes(
    front_end: NoteFrontEnd, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]], *, clips: bool = False
) -> list[MarkedNote]:
    """The marked notes in frames. Every clip is a recording of its own."""
    hop = front_end.hop_samples_
    found = [
        MarkedNote(f.features, s.start / hop, (s.end - s.start) / hop, s.label, r)
        for r, (f, marks) in enumerate(zip(frames, segments, strict=True))
        for s in marks
    ]
    return [replace(note, origin=number) for number, note in enumerate(found)] if clips else found


def _on_the_absolute_scale(
    front_end: NoteFrontEnd, notes: Sequence[MarkedNote], frames: Sequence[Frames]
) -> tuple[NoteModel, Sequence[MarkedNote]]:
    """The model, and the notes that it was learnt from."""
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
        describer=MDDKM(**NOTE_SETTINGS).fit(X, y, groups=np.array(kept)[groups]),
        lengths=lengths,
        allowed=allowed,
        thresholds=absolute_scale.thresholds(t0, left_out),
        left_out=[np.sort(of_notes) for of_notes in left_out],
        contrast_db=float(np.median([contrast_of(f.activity, front_end.frame_rate) for f in frames])),
    )
    return model, own


def _without_odd_ones(
    notes: Sequence[MarkedNote], classes: np.ndarray, left_out: Sequence[np.ndarray], t0: np.ndarray
) -> list[int]:
    """The numbers of the notes that are like another one of their class; which are not is told in a warning."""
    kept: list[int] = []
    for c, (label, of_notes) in enumerate(zip(classes.tolist(), left_out, strict=True)):
        own = [i for i, note in enumerate(notes) if note.label == label]
        odd = absolute_scale.odd_one(of_notes, t0[c])
        kept += [i for number, i in enumerate(own) if number != odd]
        if odd is not None:
            warnings.warn(
                f"of the {len(own)} notes of {label!r}, in their order, number {odd + 1} is unlike all the others and "
                "is not used: it would open the class to other sounds; give a second one like it, or its own class",
                stacklevel=2,
            )
    return sorted(kept)


def _absolute_thresholds(
    front_end: NoteFrontEnd, notes: Sequence[MarkedNote], classes: np.ndarray, pitch: bool
) -> np.ndarray:
    """t0 of each class, (C,)."""
    of_class = [[n.length / front_end.frame_rate for n in notes if n.label == label] for label in classes.tolist()]
    return np.array([absolute_scale.absolute_threshold(len(d), float(np.median(d)), pitch=pitch) for d in of_class])


def _learnt(
    front_end: NoteFrontEnd,
    describer: Any,
    notes: Sequence[MarkedNote],
    frames: Sequence[Frames],
    segments: Sequence[Sequence[Segment]],
) -> NoteModel:
    X, y, groups = note_samples(front_end, notes)
    fitted = clone(describer).fit(X, y, groups=groups)
    lengths, allowed = trial_lengths(front_end, notes, fitted.classes_)
    model = NoteModel(describer=fitted, lengths=lengths, allowed=allowed, thresholds=np.zeros(len(fitted.classes_)))
    own = left_out_by_refit(front_end, describer, notes, model)
    rest = scores_of_the_rest(front_end, model, frames, segments)
    return replace(model, thresholds=raised(note_thresholds(own, rest)), left_out=[np.sort(scores) for scores in own])


def segment_p_values(model: NoteModel | None, segments: Iterable[Segment]) -> np.ndarray:
    """The p-value of each segment under its label, (n,); see `NoteDetector.p_values`. NaN for all without a model."""
    if not isinstance(segments, Iterable):
        raise InputError(f"segments is {segments!r:.200}; give a list of Segment, such as detect() gives")
    found = list(segments)
    strange = next((i for i, segment in enumerate(found) if not isinstance(segment, Segment)), None)
    if strange is not None:
        raise InputError(f"segments[{strange}] is {found[strange]!r:.200}; give Segment, such as detect() gives")
    p = np.full(len(found), np.nan)
    if model is None or model.left_out is None:
        return p
    scores = np.array([segment.score for segment in found], dtype=float)
    scores[scores == 0.0] = np.nan  # as in marks made by hand; a note that is found has more
    numbers = {label: c for c, label in enumerate(model.describer.classes_.tolist())}
    of_class = np.array([numbers.get(segment.label, -1) for segment in found])
    for c, left_out in enumerate(model.left_out):
        p[of_class == c] = note_p_values(scores[of_class == c], left_out)
    return p


def trial_lengths(
    front_end: NoteFrontEnd, notes: Sequence[MarkedNote], classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths in frames, and which class may have which: about those of its training notes."""
    durations = [note.length / front_end.frame_rate for note in notes]
    lengths = front_end.lengths(durations)
    allowed = np.zeros((len(lengths), len(classes)), dtype=bool)
    for c, label in enumerate(classes.tolist()):
        own = front_end.lengths([d for d, note in zip(durations, notes, strict=True) if note.label == label])
        # the slack is wider than a step between lengths, so that every class has one
        allowed[:, c] = (lengths >= own[0] * (1 - 1e-9)) & (lengths <= own[-1] * (1 + 1e-9))
    used = allowed.any(axis=1)
    return lengths[used], allowed[used]
