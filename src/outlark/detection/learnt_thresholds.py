"""Thresholds of a describer whose scale is not known: what its left-out notes score, and the rest of the recordings."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from scipy.ndimage import maximum_filter1d
from sklearn.base import clone

from outlark.detection.copies import MarkedNote, note_samples
from outlark.detection.scorers import NoteScorer
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.segments import Segment

#: At most so many times the describer is fitted without some of the notes.
FOLDS = 10
#: A left-out note is looked for this share of its length before and after its mark, at every so many frames.
SEARCH, STEP = 0.3, 2
#: A class of a single note cannot be left out: this share of the score of its own training samples stands in.
SINGLE_NOTE_SHARE = 0.9


class ModelOfNotes(Protocol):
    """What is needed of `outlark.detection.note_level.NoteModel`."""

    @property
    def describer(self) -> Any: ...
    @property
    def lengths(self) -> np.ndarray: ...
    @property
    def allowed(self) -> np.ndarray: ...

    def scorer(self, front_end: NoteFrontEnd) -> NoteScorer:
        """A fresh stream of scores."""
        ...


def left_out_by_refit(
    front_end: NoteFrontEnd, describer: Any, notes: Sequence[MarkedNote], model: ModelOfNotes
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
    front_end: NoteFrontEnd, model: ModelOfNotes, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]]
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


def _guess(front_end: NoteFrontEnd, model: ModelOfNotes, note: MarkedNote, c: int) -> float:
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
