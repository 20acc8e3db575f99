"""Thresholds of a class model whose scale is not known, from the training recordings alone.

A class ends a few spreads below the median score of its own notes when left out. Whatever else is in the training
recordings scores below that; what scores above is taken for notes that nobody annotated. The threshold lies between
the best of the rest and the low end of the class, nearer to the class: the unknown notes to come will resemble it more
than anything in the training recordings does.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter1d
from sklearn.base import clone

from outlark.detection.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.detection.model import NoteModel
from outlark.detection.note_training import (
    AnnotatedNote,
    annotated_notes,
    note_samples,
    of_any_model,
    transformed,
    trial_lengths,
)
from outlark.detection.scorer import learn_edges
from outlark.detection.training import Material
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.segments import Segment

#: How many spreads below the median of its own notes a class ends.
SPREADS = 4.0
#: The spread of a class is at least this share of its median: a handful of notes may agree by chance.
LEAST_SPREAD = 0.02
#: The threshold lies at this share of the way from the best of the rest to the low end of the class.
NEAR_THE_CLASS = 0.8
#: A class never ends below this share of its median: notes that differ more are mislabelled, or not a class.
LEAST_LOW = 0.75
#: The class model is refitted without some of the notes at most this many times.
MAX_REFIT_FOLDS = 10
#: A left-out note is searched for within this share of its length around its annotation, every SEARCH_STEP frames.
SEARCH_AROUND, SEARCH_STEP = 0.3, 2
#: The only note of a class cannot be left out: this share of the score of its own samples stands in.
SINGLE_NOTE_SHARE = 0.9


class LearntNoteDetector(NoteDetector):
    """A `NoteDetector` with another class model, to compare it with MDD-KM: nothing else differs.

    The scale of its scores is unknown, so thresholds are learnt from leave-one-out scores and from the rest of the
    training recordings. It cannot be calibrated, learn from negatives, or be saved.

    Parameters
    ----------
    class_model : estimator
        Any estimator with `fit(X, y, groups)`, `classes_` and `class_scores(X)`.
    front_end, decisions
        As in `NoteDetector`.
    """

    def __init__(
        self, class_model: Any, front_end: NoteFrontEnd | None = None, decisions: Decisions | None = None
    ) -> None:
        super().__init__(front_end, decisions)
        self.class_model = class_model

    def _fit(self, material: Material) -> NoteModel:
        frames, front_end, choice = transformed(material, self.front_end)
        notes = annotated_notes(front_end, frames, material.segments, clips=material.clips)
        X, y, groups = note_samples(front_end, notes)
        fitted = clone(self.class_model).fit(X, y, groups=groups)
        lengths, allowed = trial_lengths(front_end, notes, fitted.classes_)
        model = NoteModel(
            front_end=front_end, class_model=fitted, lengths=lengths, allowed=allowed, choice=choice,
            spectral_thresholds=np.zeros(len(fitted.classes_)), **of_any_model(material),
        )  # fmt: skip
        own = left_out_by_refit(self.class_model, notes, model)
        thresholds = raised(note_thresholds(own, scores_of_the_rest(model, frames, material.segments)))
        spans = [(note.spectra, note.start, note.start + note.length, note.label) for note in notes]
        edges = learn_edges(spans, fitted.classes_.tolist(), inside=material.clips)
        left_out = [np.sort(scores) for scores in own]
        return replace(model, spectral_thresholds=thresholds, left_out=left_out, edges=edges)


def note_thresholds(own: Sequence[np.ndarray], rest: Sequence[np.ndarray]) -> np.ndarray:
    """The threshold of each class, (C,), from the scores of its `own` training notes when left out, and the peaks of
    its score in the `rest`, where none of its notes is annotated: other notes, background.

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


def raised(thresholds: np.ndarray) -> np.ndarray:
    """Thresholds (C,), none below their mean.

    All classes share one scale. A class whose threshold lies well below the others has it because its few notes happen
    to differ, not because it is worth more false alarms.

    >>> raised(np.array([1.0, 2.0, 3.0]))
    array([2., 2., 3.])
    """
    return np.maximum(thresholds, thresholds.mean())


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


def left_out_by_refit(class_model: Any, notes: Sequence[AnnotatedNote], model: NoteModel) -> list[np.ndarray]:
    """For each class the best score of each of its notes, near its annotation, under a model that has not seen it.

    A model that has seen fewer notes gives lower scores for that reason alone. The notes that both have seen show by
    how much, and the scores are corrected for it.
    """
    front_end = model.front_end
    classes = model.class_model.classes_.tolist()
    own: list[list[float]] = [[] for _ in classes]
    for held_out, seen in _folds(notes, classes):
        X, y, groups = note_samples(front_end, [notes[i] for i in seen])
        with warnings.catch_warnings():  # about single notes: its own thresholds are not used
            warnings.simplefilter("ignore", UserWarning)
            fitted = clone(class_model).fit(X, y, groups=groups)
        for i in held_out:
            c = classes.index(notes[i].label)
            both = X[y == notes[i].label]
            gain = np.median(model.class_model.class_scores(both)[:, c]) - np.median(fitted.class_scores(both)[:, c])
            own[c].append(_best_near(front_end, fitted, notes[i], model.lengths[model.allowed[:, c]], c) + float(gain))
    for c, label in enumerate(classes):
        if not own[c]:
            own[c].append(_guess(model, next(n for n in notes if n.label == label), c))
    return [np.array(scores) for scores in own]


def scores_of_the_rest(
    model: NoteModel, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]]
) -> list[np.ndarray]:
    """For each class the peaks of its scores in the training recordings where none of its notes is annotated."""
    classes = model.class_model.classes_.tolist()
    found: list[list[np.ndarray]] = [[np.zeros(1)] for _ in classes]
    for recording, annotations in zip(frames, segments, strict=True):
        scorer = model.scorer()
        values = np.concatenate([scorer.push(recording).values, scorer.finish().values])
        for c, label in enumerate(classes):
            column = values[:, c].copy()
            for annotation in (m for m in annotations if m.label == label):
                length = (annotation.end - annotation.start) / model.front_end.hop_samples_
                start = annotation.start / model.front_end.hop_samples_
                column[max(0, int(start - length)) : int(start + length) + 1] = 0.0
            width = int(model.lengths[model.allowed[:, c]].min()) | 1
            found[c].append(column[(column > 0.0) & (column == maximum_filter1d(column, width))])
    return [np.concatenate(peaks) for peaks in found]


def _folds(notes: Sequence[AnnotatedNote], classes: Sequence[Any]) -> Iterator[tuple[list[int], list[int]]]:
    """Notes to leave out and notes to keep; of every class the same number at a time, and never all of a class."""
    of_class = [[i for i, note in enumerate(notes) if note.label == label] for label in classes]
    n_folds = min(MAX_REFIT_FOLDS, max(len(numbers) for numbers in of_class))
    for fold in range(n_folds):
        held_out = [i for numbers in of_class if len(numbers) > 1 for i in numbers[fold::n_folds]]
        if held_out:
            yield held_out, [i for i in range(len(notes)) if i not in held_out]


def _guess(model: NoteModel, note: AnnotatedNote, c: int) -> float:
    """A guess at what the only note of class c would score when left out."""
    warnings.warn(
        f"class {note.label!r} has a single training note, so its threshold is a guess; give two or more",
        stacklevel=2,
    )
    return SINGLE_NOTE_SHARE * _best_near(
        model.front_end, model.class_model, note, model.lengths[model.allowed[:, c]], c
    )


def _best_near(front_end: NoteFrontEnd, class_model: Any, note: AnnotatedNote, lengths: np.ndarray, c: int) -> float:
    """The best score of class c for a span near the annotation of the note."""
    first = np.floor(note.start - SEARCH_AROUND * note.length)
    n_starts = int(2 * SEARCH_AROUND * note.length / SEARCH_STEP) + 2
    return max(
        float(
            class_model.class_scores(
                front_end.describe(note.spectra, start=first, n_starts=n_starts, length=length, step=SEARCH_STEP)
            )[:, c].max()
        )
        for length in lengths
    )
