"""What `MDDKM` makes of its training samples: class models, what their sizes do, left-out scores, thresholds."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from outlark.estimators.checks import inexact_message, single_note_message
from outlark.estimators.hyper_parameters import learn_all, relearn
from outlark.estimators.open_set import class_thresholds
from outlark.maths.description import left_out_scores, scores
from outlark.maths.notes import draw_notes, leave_out_parts, merge_copies
from outlark.maths.robust import trim
from outlark.maths.rows import gathered
from outlark.maths.size import size_factor, size_of, smallest
from outlark.maths.sparse import describe_class

#: The largest share of a class's notes that ``trim=True`` leaves out.
TRIM_SHARE = 0.2
#: Landmarks of which ``tr(K - Q)`` is a larger share of ρn than this are worth a warning.
DOUBTFUL = 0.05


def train(model: Any, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
    """Alg. 1. X may be a memory map: its rows are taken in blocks."""
    learn_all(model, X, labels, notes)
    every = [np.flatnonzero(labels == c) for c in range(len(model.classes_))]
    if model.trim:  # it judges notes by the models that they make
        _describe_classes(model, X, every, notes)
    rows = _kept_rows(model, every, notes)
    fewer = sum(map(len, rows)) < len(X)
    if model.trim and fewer:
        relearn(model, X, np.sort(np.concatenate(rows)), labels, notes)
    if not model.trim or fewer:
        _describe_classes(model, X, rows, notes)
    model.thresholds_ = _thresholds(model)


def taken_in(model: Any, place: slice, Z: np.ndarray, notes: np.ndarray, classes: np.ndarray) -> Any:
    """A copy of the model with a class made of Z in the place of one class, or of none; the others as they were."""
    new = copy.copy(model)
    for name in ("descriptions_", "notes_", "_together", "left_out_scores_", "left_out_note_scores_"):
        entries = list(getattr(model, name))
        entries[place] = [None]
        setattr(new, name, entries)
    c = place.start
    left_out = _describe_class(new, c, Z, notes)
    factors = model.size_factors_.tolist()
    factors[place] = [_size_factor(new, c, left_out)]
    new.size_factors_, new.classes_ = np.array(factors), classes
    _keep_left_out(new, c, left_out)
    new.thresholds_ = _thresholds(new)
    return new


def doubts(model: Any, classes: Sequence[int]) -> Iterator[str]:
    """What is to be told of classes whose threshold is a guess, or whose landmarks leave out too much."""
    learnt = isinstance(model.threshold, str) and model.threshold == "leave-note-out"
    for c in classes:
        description, label = model.descriptions_[c], model.classes_[c]
        if learnt and len(np.unique(model.notes_[c])) == 1:
            yield single_note_message(label, len(model.notes_[c]))
        lost = description.trace / (description.ratio * len(description.X))
        if lost > DOUBTFUL:
            yield inexact_message(label, len(description.rows), lost)


def _describe_classes(model: Any, X: np.ndarray, rows: Sequence[np.ndarray], notes: np.ndarray) -> None:
    """Alg. 1, line 7: every class on its own, and what its size does to its score."""
    C = len(rows)
    for name in ("descriptions_", "notes_", "_together", "left_out_scores_", "left_out_note_scores_"):
        setattr(model, name, [None] * C)
    left_out = [_describe_class(model, c, gathered(X, rows[c], model._mapped), notes[rows[c]]) for c in range(C)]
    sizes = [size_of(together) for together in model._together]
    # A single note is no size to compare at: nothing of its kind can be left out.
    model.reference_size_ = smallest([size for size in sizes if size.n_notes > 1] or sizes)
    model.size_factors_ = np.array([_size_factor(model, c, left_out[c]) for c in range(C)])
    for c in range(C):
        _keep_left_out(model, c, left_out[c])


def _describe_class(model: Any, c: int, Z: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """Set the model of class c, and return the scores of its samples without their note."""
    description = describe_class(Z, model._setting)
    # A note and its copies are left out together.
    together = merge_copies(description.X, notes)
    model.descriptions_[c], model.notes_[c], model._together[c] = description, notes, together
    parts = leave_out_parts(together)
    return left_out_scores(description, parts) if parts else np.empty(0)


def _keep_left_out(model: Any, c: int, left_out: np.ndarray) -> None:
    scored = model.size_factors_[c] * left_out
    model.left_out_scores_[c] = scored
    model.left_out_note_scores_[c] = np.array([scored[G].mean() for G in leave_out_parts(model._together[c])])


def _size_factor(model: Any, c: int, left_out: np.ndarray) -> float:
    """What the score of class c is multiplied by; see `outlark.maths.size`."""
    if model.balance != "size":
        return 1.0
    samples = [description.X for description in model.descriptions_]
    own_mean = float(left_out.mean()) if len(left_out) else 0.0
    return size_factor(c, samples, model._together, own_mean, model.reference_size_, model._setting)


def _kept_rows(model: Any, rows: Sequence[np.ndarray], notes: np.ndarray) -> list[np.ndarray]:
    """The rows of each class that describe: all of them but for `trim` and ``balance="subsample"``."""
    kept, model.trimmed_ = list(rows), []
    if model.trim:
        share = TRIM_SHARE if model.trim is True else float(model.trim)
        places = trim(
            model.descriptions_,
            model.notes_,
            model.size_factors_,
            lambda Z: describe_class(Z, model._setting),
            share,
        )
        kept = [r[k] for r, k in zip(rows, places, strict=True)]
        for label, r, k in zip(model.classes_.tolist(), rows, kept, strict=True):
            model.trimmed_ += [(label, note) for note in np.setdiff1d(notes[r], notes[k]).tolist()]
    if model.balance == "subsample":
        size = smallest([size_of(notes[r]) for r in kept])
        rng = np.random.default_rng(model.random_state)
        kept = [r[draw_notes(notes[r], size.n_notes, size.n_samples, rng)] for r in kept]
    return kept


def _thresholds(model: Any) -> np.ndarray:
    learnt = isinstance(model.threshold, str) and model.threshold == "leave-note-out"
    # The best score of a training sample is computed where it counts: that takes as long as leaving notes out.
    best_on_train = [
        np.nan if learnt and len(left_out) else factor * scores(description, description.X).max()
        for description, left_out, factor in zip(
            model.descriptions_, model.left_out_scores_, model.size_factors_, strict=True
        )
    ]
    return class_thresholds(
        model.threshold,
        classes=model.classes_,
        left_out=model.left_out_scores_,
        best_on_train=np.array(best_on_train),
        quantile=model.quantile,
        log_sigma=float(np.log(model.sigma_)),
    )
