"""Alg. 1 for `MDDKM`: metric, regulariser and Θ, then class models, size factors, left-out scores and thresholds.

**Class size.** d_c shrinks as n_c grows, because the scatter in the feature space is a sum, not a mean: a class with
more or longer examples looks nearer to everything. To make scores commensurable (Sec. 3.3), the score of a class is
multiplied by

    a_c = m_c(reference size) / m_c(its own size),

where m_c(n) is the mean score of left-out notes of the class when n samples describe it. A factor keeps 0 at 0, and
removes only the effect of size, not how compact a class is.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from outlark.estimators.health import trim
from outlark.estimators.open_set import class_thresholds
from outlark.maths.choice import RATIOS, ChoiceTrial, choose, feature_map
from outlark.maths.description import Distances, left_out_scores, mapped, scores
from outlark.maths.gp import learn, ratio_from_condition, target
from outlark.maths.landmarks import EXACT_UP_TO, Setting, describe_class
from outlark.maths.local import likelihood_length_scale
from outlark.maths.notes import (
    balanced_subset,
    canonical_order,
    draw_notes,
    leave_out_folds,
    leave_out_parts,
    merge_copies,
)
from outlark.maths.odds import left_out_log_similarities, log_odds

#: With fewer notes for each feature, left-out scores of one class in the local metric are made by so many refits.
SAMPLES_PER_DIMENSION, METRIC_REFITS = 10, 5
#: Samples on which the metric and the regulariser are chosen.
CHOICE_SAMPLES = 300
#: The smallest regulariser, as a share of σ², that "auto" considers for classes too large for exact models.
MIN_RATIO_OF_LARGE = 1e-2
#: At most this many samples are used, evenly from the classes; Θ itself is learnt on `max_samples` of them.
MAX_LEARNING_SAMPLES = 20_000
#: The largest share of a class's notes that ``trim=True`` drops.
TRIM_SHARE = 0.2
#: Landmarks whose ``tr(K - Q)`` is a larger share of ρn than this are worth a warning.
DOUBTFUL_SHARE = 0.05
#: Sizes that differ by less than this factor count as the same.
SAME_SIZE_FACTOR = 1.05
#: Most random subsets of a class to describe, and most samples that those of a large class have together.
MAX_SUBSETS, MAX_SUBSET_SAMPLES = 50, 20_000
_SINGLE_SAMPLE = (
    "class {} has a single sample: its threshold cannot be learnt and is half the score of that sample; "
    "give more examples or threshold="
)
_SINGLE_NOTE = (
    "class {} has a single note: its threshold is learnt by leaving out blocks of that note, which flatters it; "
    "give a second note or threshold="
)
_INEXACT = (
    "class {}: {} landmarks miss {:.2g} of what the regulariser allows for (tr(K - Q)/ρn), which is about the error of "
    "its scores; give more landmarks=, a larger sigma_reg=, or landmarks=None (exact)"
)


def train(model: Any, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
    """Alg. 1."""
    _learn_all(model, X, labels, notes)
    every = [np.flatnonzero(labels == c) for c in range(len(model.classes_))]
    if model.trim:  # notes are judged by the models made from them
        _describe_classes(model, X, every, notes)
    rows = _kept_rows(model, every, notes)
    fewer = sum(map(len, rows)) < len(X)
    if model.trim and fewer:
        _relearn(model, X, np.sort(np.concatenate(rows)), labels, notes)
    if not model.trim or fewer:
        _describe_classes(model, X, rows, notes)
    model.thresholds_ = _thresholds(model)


def taken_in(model: Any, place: slice, Z: np.ndarray, notes: np.ndarray, classes: np.ndarray) -> Any:
    """A copy of the model with a class made of Z in the place of one class, or of none; the others are unchanged."""
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
    """Warnings about classes whose threshold is a guess, or whose landmarks are too few."""
    learnt = isinstance(model.threshold, str) and model.threshold == "leave-note-out"
    for c in classes:
        description, label = model.descriptions_[c], model.classes_[c]
        if learnt and len(np.unique(model.notes_[c])) == 1:
            yield _SINGLE_SAMPLE.format(label) if len(model.notes_[c]) == 1 else _SINGLE_NOTE.format(label)
        lost = description.trace / (description.ratio * len(description.X))
        if lost > DOUBTFUL_SHARE:
            yield _INEXACT.format(label, len(description.rows), lost)


def _learn_all(model: Any, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
    few = _subset(model, labels, notes)
    samples = X[few]
    largest = int(np.bincount(labels).max())
    _choose_metric_and_ratio(model, samples, labels[few], notes[few], len(X), largest)
    _learn_theta(model, samples, labels[few], notes[few])


def _relearn(model: Any, X: np.ndarray, rows: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
    """Θ again, from these rows alone; the metric and the ratio stay."""
    few = rows[_subset(model, labels[rows], notes[rows])]
    _learn_theta(model, X[few], labels[few], notes[few])


def _choose_metric_and_ratio(
    model: Any, X: np.ndarray, labels: np.ndarray, groups: np.ndarray, n_samples: int, largest: int
) -> None:
    """Alg. 1, lines 2-5: set `metric_`, `_ratio` (None: σ_reg is given) and `trials_`, by leave-note-out for "auto"."""
    given = (model.sigma, model.length_scale, None if isinstance(model.sigma_reg, str) else model.sigma_reg)
    metric = "euclidean" if model.metric in ("auto", "global") and any(v is not None for v in given) else model.metric
    trials: list[ChoiceTrial] = []
    model.metric_, model._ratio, model.trials_ = metric, None, trials
    if not isinstance(model.sigma_reg, str):
        return
    floor = ratio_from_condition(n_samples, model.condition)
    ratios = (*(r for r in RATIOS if r > floor), floor) if model.sigma_reg == "auto" else (floor,)
    if largest > EXACT_UP_TO:
        # a smaller regulariser asks for more landmarks than there may be; exact models of such classes do the same,
        # so that scores do not depend on `landmarks`
        ratios = tuple(r for r in ratios if r >= MIN_RATIO_OF_LARGE) or ratios[:1]
    rng = np.random.default_rng(model.random_state)
    order = canonical_order(X)  # folds and subsets are drawn in it, so that the order of rows does not matter
    X, labels, groups = X[order], labels[order], groups[order]
    apart = _left_out_together(X, labels, groups)
    rows = balanced_subset(labels, apart, max(CHOICE_SAMPLES, 4 * len(model.classes_)), rng)
    winner, model.trials_ = choose(
        X[rows],
        labels[rows],
        apart[rows],
        metric=metric,
        ratios=ratios,
        target_of=lambda Z: _target(model, Z),
        fixed={"sigma": model.sigma, "length_scale": model.length_scale},
        rng=rng,
    )
    model.metric_, model._ratio = winner.metric, winner.ratio


def _learn_theta(model: Any, X: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> None:
    """Alg. 1, line 6: set `feature_map_`, `_origin` and Θ from the samples of all classes."""
    rows = balanced_subset(labels, groups, model.max_samples, np.random.default_rng(model.random_state))
    local = model.metric_ == "local"
    if local:  # neighbours are sought among as many samples as Θ is learnt from
        apart = _left_out_together(X[rows], labels[rows], groups[rows])
        model.feature_map_ = feature_map("local", X[rows], labels[rows], apart)
    else:
        model.feature_map_ = feature_map(model.metric_, X, labels)
    model._origin = X.mean(axis=0)
    Z, length_scale = mapped(X[rows] - model._origin, model.feature_map_), model.length_scale
    if local and length_scale is None and len(model.classes_) == 1:
        length_scale = likelihood_length_scale(Z, apart)
    theta = learn(
        Z,
        y=_target(model, mapped(X[rows], model.feature_map_)),
        ratio=model._ratio,
        sigma=model.sigma,
        length_scale=length_scale,
        sigma_reg=None if isinstance(model.sigma_reg, str) else float(model.sigma_reg),
    )
    model.sigma_, model.length_scale_, model.sigma_reg_ = theta


def _left_out_together(X: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Numbers of the notes of each class: copies have one, and the blocks of a class of one note have their own."""
    apart = np.zeros(len(X), int)
    for c in np.unique(labels):
        own = np.flatnonzero(labels == c)
        for number, part in enumerate(leave_out_parts(merge_copies(X[own], groups[own]))):
            apart[own[part]] = number
    return apart


def _target(model: Any, Z: np.ndarray) -> np.ndarray:
    return target(Z if model.target == "paper" else Z - Z.mean(axis=0))


def _subset(model: Any, labels: np.ndarray, notes: np.ndarray) -> np.ndarray:
    return balanced_subset(labels, notes, MAX_LEARNING_SAMPLES, np.random.default_rng(model.random_state))


def _describe_classes(model: Any, X: np.ndarray, rows: Sequence[np.ndarray], notes: np.ndarray) -> None:
    """Alg. 1, line 7: every class on its own, and the effect of its size on its score."""
    C = len(rows)
    for name in ("descriptions_", "notes_", "_together", "left_out_scores_", "left_out_note_scores_"):
        setattr(model, name, [None] * C)
    left_out = [_describe_class(model, c, model._mapped(X[rows[c]]), notes[rows[c]]) for c in range(C)]
    sizes = [size_of(together) for together in model._together]
    # A single note is not a reference: it cannot be left out.
    model.reference_size_ = smallest([size for size in sizes if size.n_notes > 1] or sizes)
    model.size_factors_ = np.array([_size_factor(model, c, left_out[c]) for c in range(C)])
    for c in range(C):
        _keep_left_out(model, c, left_out[c])


def _describe_class(model: Any, c: int, Z: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """Set the model of class c and return the scores of its samples without their note."""
    description = describe_class(Z, model._setting)
    # A note and its copies are left out together.
    together = merge_copies(description.X, notes)
    model.descriptions_[c], model.notes_[c], model._together[c] = description, notes, together
    parts = leave_out_parts(together)
    return left_out_scores(description, parts) if parts else np.empty(0)


def _keep_left_out(model: Any, c: int, left_out: np.ndarray) -> None:
    parts, scored = leave_out_parts(model._together[c]), model.size_factors_[c] * left_out
    if model.has_log_odds_ and parts:
        few = 2 < len(parts) < SAMPLES_PER_DIMENSION * model.n_features_in_
        if few and len(model.descriptions_) == 1:
            log_q = refitted_log_similarities(model, parts)
        else:
            log_q = left_out_log_similarities(model.descriptions_[c], parts)
        scored = log_odds(log_q, model.size_factors_[c])
    model.left_out_scores_[c] = scored
    model.left_out_note_scores_[c] = np.array([scored[G].mean() for G in parts])


def refitted_log_similarities(model: Any, parts: Sequence[np.ndarray]) -> np.ndarray:
    """log q of every training sample of a model of one class, its metric learnt anew without a fifth of the parts.

    With fewer than about ten samples for each feature the local metric shortens exactly the directions in which these
    samples differ: left out of the description alone they would score far better than new samples, nearly all of which
    were rejected with 128 samples of 512 features.
    """
    X, by = model.descriptions_[0].X, model.feature_map_
    X = X / by if by.ndim == 1 else np.linalg.solve(by.T, X.T).T
    notes = np.zeros(len(X), int)
    for number, part in enumerate(parts):
        notes[part] = number
    log_q = np.empty(len(X))
    for out in leave_out_folds([parts], METRIC_REFITS):
        kept = np.delete(np.arange(len(X)), out)[: model.max_samples]
        by = feature_map("local", X[kept], np.zeros(len(kept)), notes[kept], len(parts))
        Z = mapped(X, by)
        without = describe_class(Z[kept], model._setting)
        log_q[out] = Distances([without]).log_similarities(Z[out])[:, 0]
    return log_q


def _size_factor(model: Any, c: int, left_out: np.ndarray) -> float:
    if model.balance != "size":
        return 1.0
    samples = [description.X for description in model.descriptions_]
    own_mean = float(left_out.mean()) if len(left_out) else 0.0
    return size_factor(c, samples, model._together, own_mean, model.reference_size_, model._setting)


def _kept_rows(model: Any, rows: Sequence[np.ndarray], notes: np.ndarray) -> list[np.ndarray]:
    """The rows that describe each class: all of them but for `trim` and ``balance="subsample"``."""
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
        # every class with a generator of its own, so that names do not matter
        draws = [(r, np.random.default_rng(model.random_state)) for r in kept]
        kept = [r[draw_notes(notes[r], size.n_notes, size.n_samples, rng)] for r, rng in draws]
    return kept


def _thresholds(model: Any) -> np.ndarray:
    given = not isinstance(model.threshold, str)
    learnt = not given and model.threshold == "leave-note-out"
    # The best score of a training sample is computed only where needed: it takes longer than leaving notes out.
    best_on_train = [
        np.nan if given or (learnt and len(left_out)) else _best_on_train(model, c)
        for c, left_out in enumerate(model.left_out_scores_)
    ]
    return class_thresholds(
        model.threshold,
        classes=model.classes_,
        left_out=model.left_out_scores_,
        best_on_train=np.array(best_on_train),
        quantile=model.quantile,
        log_sigma=float(np.log(model.sigma_)),
        lowest=-np.inf if model.has_log_odds_ else float(np.finfo(float).eps),
    )


def _best_on_train(model: Any, c: int) -> float:
    """The highest score of a training sample of class c under its class."""
    description, factor = model.descriptions_[c], model.size_factors_[c]
    if model.has_log_odds_:
        return float(log_odds(Distances([description]).log_similarities(description.X), factor).max())
    return float(factor * scores(description, description.X).max())


# ------------------------------------------------------------------ class size


class Size(NamedTuple):
    """The size of the description of a class."""

    n_notes: int
    n_samples: int


def size_of(groups: np.ndarray) -> Size:
    return Size(len(np.unique(groups)), len(groups))


def mean_left_out_score(Z: np.ndarray, notes: np.ndarray, setting: Setting) -> float:
    """The mean score of the samples under the description without their note; 0 when nothing can be left out."""
    parts = leave_out_parts(notes)
    if not parts:
        return 0.0
    return float(left_out_scores(describe_class(Z, setting), parts).mean())


def score_at_size(Z: np.ndarray, notes: np.ndarray, size: Size, setting: Setting) -> float:
    """m_c(size): the mean over random subsets of that size, enough of them to use each note about once."""
    own = size_of(notes)
    order = canonical_order(Z)
    Z, notes = Z[order], notes[order]
    rng = np.random.default_rng(setting.seed)
    repeats = min(MAX_SUBSETS, max(2, -(-own.n_notes // size.n_notes), -(-own.n_samples // size.n_samples)))
    if own.n_samples > EXACT_UP_TO:
        repeats = min(repeats, max(1, MAX_SUBSET_SAMPLES // size.n_samples))
    values = []
    for _ in range(repeats):
        rows = draw_notes(notes, size.n_notes, size.n_samples, rng)
        values.append(mean_left_out_score(Z[rows], notes[rows], setting))
    return float(np.mean(values))


def size_factor(
    c: int,
    samples: Sequence[np.ndarray],
    notes: Sequence[np.ndarray],
    own_mean: float,
    reference: Size,
    setting: Setting,
) -> float:
    """a_c of class c: 1 for a class of the reference size, less for a larger one, more for a smaller one.

    `samples` and `notes` have an entry for each class, `own_mean` is the `mean_left_out_score` of this one.

    >>> Z = np.random.default_rng(0).normal(size=(400, 2))
    >>> samples, notes, setting = [Z[:40], Z], [np.arange(40), np.arange(400)], Setting(ell=2.0, ratio=0.1)
    >>> means = [mean_left_out_score(*of_class, setting) for of_class in zip(samples, notes)]
    >>> size_factor(0, samples, notes, means[0], Size(40, 40), setting)
    1.0
    >>> 0.4 < size_factor(1, samples, notes, means[1], Size(40, 40), setting) < 0.8
    True
    """
    own = size_of(notes[c])
    if own.n_notes < reference.n_notes or own.n_samples < reference.n_samples:
        return _growth(c, samples, notes, reference, setting)
    if max(own.n_notes / reference.n_notes, own.n_samples / reference.n_samples) <= SAME_SIZE_FACTOR:
        return 1.0
    return _quotient(score_at_size(samples[c], notes[c], reference, setting), own_mean)


def _growth(
    c: int, samples: Sequence[np.ndarray], notes: Sequence[np.ndarray], reference: Size, setting: Setting
) -> float:
    """The factor of a class smaller than the reference, from how the scores of the others grow with size."""
    own = size_of(notes[c])
    if own.n_notes == 1:  # two notes, of which one is left out, are described by one
        own = Size(2, 2 * own.n_samples)
    own = smallest([own, reference])
    others = [b for b in range(len(notes)) if b != c and size_of(notes[b]).n_notes >= reference.n_notes]
    factors = [
        _quotient(*(score_at_size(samples[b], notes[b], size, setting) for size in (reference, own))) for b in others
    ]
    return float(np.mean(factors)) if factors else 1.0


def _quotient(at_reference: float, at_own: float) -> float:
    return at_reference / at_own if at_own > 0.0 and at_reference > 0.0 else 1.0


def smallest(sizes: Sequence[Size]) -> Size:
    """The fewest notes and the fewest samples of any of the sizes."""
    return Size(min(s.n_notes for s in sizes), min(s.n_samples for s in sizes))
