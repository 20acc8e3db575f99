"""Alg. 1, lines 2-6 for `MDDKM`: the metric, the regulariser and Θ, from an even subset of the training samples."""

from typing import Any

import numpy as np

from outlark.maths.choice import RATIOS, Trial, choose
from outlark.maths.gp import learn, ratio_from_condition, target
from outlark.maths.metric import feature_map, mapped
from outlark.maths.notes import balanced_subset, merge_copies

#: Samples on which the metric and the regulariser are chosen.
CHOICE_SAMPLES = 300
#: At most so many samples are looked at, evenly from the classes; Θ itself is learnt on `max_samples` of them.
MOST_SAMPLES = 20_000


def learn_all(model: Any, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
    """Set all that describing a class needs; see `choose_metric_and_ratio` and `learn_theta`."""
    few = _subset(model, labels, notes)
    samples = np.asarray(X[few], dtype=np.float64)
    choose_metric_and_ratio(model, samples, labels[few], notes[few], n_samples=len(X))
    learn_theta(model, samples, labels[few], notes[few])


def relearn(model: Any, X: np.ndarray, rows: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
    """Θ once more, from these rows alone; the metric and the ratio stay."""
    few = rows[_subset(model, labels[rows], notes[rows])]
    learn_theta(model, np.asarray(X[few], dtype=np.float64), labels[few], notes[few])


def choose_metric_and_ratio(model: Any, X: np.ndarray, labels: np.ndarray, groups: np.ndarray, n_samples: int) -> None:
    """Set `metric_`, `_ratio` (None: σ_reg is given) and `trials_`; by leave-note-out where they are "auto"."""
    given = (model.sigma, model.length_scale, None if isinstance(model.sigma_reg, str) else model.sigma_reg)
    metric = "euclidean" if model.metric == "auto" and any(v is not None for v in given) else model.metric
    trials: list[Trial] = []
    model.metric_, model._ratio, model.trials_ = metric, None, trials
    if not isinstance(model.sigma_reg, str):
        return
    floor = ratio_from_condition(n_samples, model.condition)
    ratios = (*(r for r in RATIOS if r > floor), floor) if model.sigma_reg == "auto" else (floor,)
    rng = np.random.default_rng(model.random_state)
    apart = np.empty(len(X), int)
    for c in range(len(model.classes_)):
        own = labels == c
        apart[own] = np.unique(merge_copies(X[own], groups[own]), return_inverse=True)[1]
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


def learn_theta(model: Any, X: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> None:
    """Set `feature_map_`, `_origin` and Θ from the samples of all classes."""
    model.feature_map_ = feature_map(model.metric_, X, labels)
    model._origin = X.mean(axis=0)
    rows = balanced_subset(labels, groups, model.max_samples, np.random.default_rng(model.random_state))
    theta = learn(
        mapped(X[rows] - model._origin, model.feature_map_),
        y=_target(model, mapped(X[rows], model.feature_map_)),
        ratio=model._ratio,
        sigma=model.sigma,
        length_scale=model.length_scale,
        sigma_reg=None if isinstance(model.sigma_reg, str) else float(model.sigma_reg),
    )
    model.sigma_, model.length_scale_, model.sigma_reg_ = theta


def _target(model: Any, Z: np.ndarray) -> np.ndarray:
    return target(Z if model.target == "paper" else Z - Z.mean(axis=0))


def _subset(model: Any, labels: np.ndarray, notes: np.ndarray) -> np.ndarray:
    return balanced_subset(labels, notes, MOST_SAMPLES, np.random.default_rng(model.random_state))
