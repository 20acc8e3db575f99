"""Training on whole notes: samples, trial lengths, and thresholds from what the training recordings tell."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter1d
from sklearn.base import clone

from outlark.errors import InputError
from outlark.notes.calibration import (
    SHARE_OF_A_CLIP,
    SHARE_OF_A_NOTE,
    bounded,
    note_p_values,
    note_thresholds,
    raised,
)
from outlark.notes.edges import Edges, learn_edges
from outlark.notes.front_ends.base import Frames
from outlark.notes.front_ends.note import NoteFrontEnd
from outlark.notes.scorers import NoteScorer
from outlark.notes.segments import Segment

#: At most so many times the describer is fitted without some of the notes.
FOLDS = 10
#: A left-out note is looked for this share of its length before and after its mark.
SEARCH = 0.3
#: A class of a single note cannot be left out: this share of the score of its own training samples stands in.
SINGLE_NOTE_SHARE = 0.9
#: Notes start at every so many frames.
STEP = 2


@dataclass(frozen=True, eq=False)
class MarkedNote:
    """A training note in frames: where it starts and how long it is, in the frames of its recording."""

    spectra: np.ndarray
    start: float
    length: float
    label: Any


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
        For each class the scores of its training notes when left out, sorted (of a single note: a guess); None in
        files from before they were kept.
    """

    describer: Any
    lengths: np.ndarray
    allowed: np.ndarray
    thresholds: np.ndarray
    edges: Edges | None = None
    left_out: list[np.ndarray] | None = None

    def scorer(self, front_end: NoteFrontEnd) -> NoteScorer:
        """A fresh stream of scores."""
        return NoteScorer(
            front_end, self.describer, self.lengths, self.allowed, STEP, edges=self.edges, thresholds=self.thresholds
        )


def fit_whole_notes(
    front_end: NoteFrontEnd,
    describer: Any,
    frames: Sequence[Frames],
    segments: Sequence[Sequence[Segment]],
    *,
    hold: bool = False,
    clips: bool = False,
) -> NoteModel:
    """Describe the marked notes and find where each class begins to accept.

    With `hold`, for a describer whose scale is known, thresholds stay near a share of what training notes score. With
    `clips`, nothing is known of what is around the notes.
    """
    notes = [
        MarkedNote(f.features, s.start / front_end.hop_samples_, (s.end - s.start) / front_end.hop_samples_, s.label)
        for f, marks in zip(frames, segments, strict=True)
        for s in marks
    ]
    X, y, groups = note_samples(front_end, notes)
    fitted = clone(describer).fit(X, y, groups=groups)
    lengths, allowed = trial_lengths(front_end, notes, fitted.classes_)
    model = NoteModel(describer=fitted, lengths=lengths, allowed=allowed, thresholds=np.zeros(len(fitted.classes_)))
    own = left_out_note_scores(front_end, describer, notes, model)
    rest = scores_of_the_rest(front_end, model, frames, segments)
    thresholds = raised(note_thresholds(own, rest))
    if hold:
        scores = fitted.class_scores(X)
        of_class = [np.flatnonzero(y == label) for label in fitted.classes_]
        levels = np.array([np.median(scores[rows, c]) for c, rows in enumerate(of_class)])
        counts = np.array([len(np.unique(groups[rows])) for rows in of_class])
        share = SHARE_OF_A_CLIP if clips else SHARE_OF_A_NOTE
        thresholds = bounded(thresholds, levels, counts, share=share)
    marked = [(note.spectra, note.start, note.start + note.length, note.label) for note in notes]
    edges = learn_edges(marked, fitted.classes_.tolist(), inside=clips)
    return replace(model, thresholds=thresholds, edges=edges, left_out=[np.sort(scores) for scores in own])


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


def note_samples(front_end: NoteFrontEnd, notes: Sequence[MarkedNote]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, groups: every note at every shift."""
    shifts = np.array(front_end.shifts_s) * front_end.frame_rate
    X = [
        front_end.describe(note.spectra, start=note.start + shift, n_starts=1, length=note.length)[0]
        for note in notes
        for shift in shifts
    ]
    y = np.repeat(np.array([note.label for note in notes]), len(shifts))
    return np.array(X), y, np.repeat(np.arange(len(notes)), len(shifts))


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


def left_out_note_scores(
    front_end: NoteFrontEnd, describer: Any, notes: Sequence[MarkedNote], model: NoteModel
) -> list[np.ndarray]:
    """For each class the best score of each of its notes, near its mark, under a describer that has not seen it.

    A describer that has seen fewer notes gives lower scores for that reason alone. The notes that both have seen tell
    by how much; this is made up for.
    """
    classes = model.describer.classes_.tolist()
    own: list[list[float]] = [[] for _ in classes]
    for held_out, seen in _folds(notes, classes):
        X, y, groups = note_samples(front_end, [notes[i] for i in seen])
        with warnings.catch_warnings():  # of single notes: the describer's own thresholds are not used
            warnings.simplefilter("ignore", UserWarning)
            fitted = clone(describer).fit(X, y, groups=groups)
        for i in held_out:
            c = classes.index(notes[i].label)
            both = X[y == notes[i].label]
            gain = np.median(model.describer.class_scores(both)[:, c]) - np.median(fitted.class_scores(both)[:, c])
            own[c].append(_best_near(front_end, fitted, notes[i], model.lengths[model.allowed[:, c]], c) + float(gain))
    for c, label in enumerate(classes):
        if not own[c]:
            own[c].append(_guess(front_end, model, next(n for n in notes if n.label == label), c))
    return [np.array(scores) for scores in own]


def scores_of_the_rest(
    front_end: NoteFrontEnd, model: NoteModel, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]]
) -> list[np.ndarray]:
    """For each class the peaks of its scores in the training recordings where none of its notes is marked."""
    classes = model.describer.classes_.tolist()
    found: list[list[np.ndarray]] = [[np.zeros(1)] for _ in classes]
    for recording, marks in zip(frames, segments, strict=True):
        scorer = model.scorer(front_end)
        values = np.concatenate([scorer.push(recording).values, scorer.finish().values])
        for c, label in enumerate(classes):
            column = values[:, c].copy()
            for mark in (m for m in marks if m.label == label):
                length = (mark.end - mark.start) / front_end.hop_samples_
                start = mark.start / front_end.hop_samples_
                column[max(0, int(start - length)) : int(start + length) + 1] = 0.0
            width = int(model.lengths[model.allowed[:, c]].min()) | 1
            found[c].append(column[(column > 0.0) & (column == maximum_filter1d(column, width))])
    return [np.concatenate(peaks) for peaks in found]


def _folds(notes: Sequence[MarkedNote], classes: Sequence[Any]) -> Iterator[tuple[list[int], list[int]]]:
    """Notes to leave out and notes to keep; of every class the same number at a time, and never all of a class."""
    of_class = [[i for i, note in enumerate(notes) if note.label == label] for label in classes]
    n_folds = min(FOLDS, max(len(numbers) for numbers in of_class))
    for fold in range(n_folds):
        held_out = [i for numbers in of_class if len(numbers) > 1 for i in numbers[fold::n_folds]]
        if held_out:
            yield held_out, [i for i in range(len(notes)) if i not in held_out]


def _guess(front_end: NoteFrontEnd, model: NoteModel, note: MarkedNote, c: int) -> float:
    """What the only note of class c might score if it could be left out."""
    warnings.warn(
        f"class {note.label!r} has a single training note, so its threshold is a guess; give two or more",
        stacklevel=2,
    )
    return SINGLE_NOTE_SHARE * _best_near(front_end, model.describer, note, model.lengths[model.allowed[:, c]], c)


def _best_near(front_end: NoteFrontEnd, describer: Any, note: MarkedNote, lengths: np.ndarray, c: int) -> float:
    """The best score of class c for a span near the mark of the note."""
    first = np.floor(note.start - SEARCH * note.length)
    n_starts = int(2 * SEARCH * note.length / STEP) + 2
    return max(
        float(
            describer.class_scores(
                front_end.describe(note.spectra, start=first, n_starts=n_starts, length=length, step=STEP)
            )[:, c].max()
        )
        for length in lengths
    )
