"""Choosing the metric and the regulariser from the training notes alone.

The paper's cost sets ℓ and σ but not σ_reg (its target has no noise), nor the units of the features. Both are chosen by
how well the model of a class separates its own *left-out* notes from left-out notes of the other classes, which stand
in for the unknowns.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from outlark.maths.description import describe, distances, mapped
from outlark.maths.gp import learn
from outlark.maths.local import local_map, oas_shrinkage
from outlark.maths.notes import in_order_of_appearance, leave_out_parts

#: Below this share of features that effectively carry the distance, features are assumed to have different units.
PARTICIPATION_FLOOR = 0.25
#: For "local" also where they are no fewer than this, as in embeddings, whose few hundred numbers have one unit.
MIN_CARRIERS = 16
#: A covariance matrix of the features is trusted from this many samples for each feature.
SAMPLES_PER_FEATURE = 5


def within_deviations(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """X less the mean of each sample's class, shape (n, d)."""
    W = X.astype(float, copy=True)
    for c in np.unique(labels):
        W[labels == c] -= X[labels == c].mean(axis=0)
    return W


def within_class_scale(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The fourth root of the mean fourth power of the deviations from the class mean, shape (d,).

    The fourth power rather than the second: a feature that is zero but for one sample in a hundred has a tiny standard
    deviation, and dividing by that would let it dominate every distance. Features that never vary get the root mean
    square of the other scales.

    >>> X = np.array([[0.0, 100.0], [2.0, 300.0], [5.0, 0.0], [7.0, 200.0]])
    >>> within_class_scale(X, np.array([0, 0, 1, 1]))
    array([  1., 100.])
    """
    W = np.abs(within_deviations(X, labels))
    largest = W.max(axis=0)
    varies = largest > 1e-9 * np.abs(X).max(axis=0)
    scale = np.ones(X.shape[1])
    if not varies.any():
        return scale
    scale[varies] = largest[varies] * np.mean((W[:, varies] / largest[varies]) ** 4, axis=0) ** 0.25
    scale[~varies] = np.sqrt(np.mean(scale[varies] ** 2))
    return scale


def participation(X: np.ndarray, labels: np.ndarray) -> float:
    """The share of features that effectively carry Euclidean distances within classes: ``(Σv)²/(d Σv²)``, in (0, 1].

    1 when all features vary alike, 1/d when a single one dominates.

    >>> X = np.array([[0.0, 0.0], [1.0, 1000.0], [2.0, 0.0], [3.0, 1000.0]])
    >>> round(participation(X, np.zeros(4)), 2)
    0.5
    """
    v = np.mean(within_deviations(X, labels) ** 2, axis=0)
    total = v.sum()
    if total == 0.0:
        return 1.0
    v = v / total
    return float(1.0 / (len(v) * np.sum(v**2)))


def oas_covariance(W: np.ndarray) -> np.ndarray:
    """The covariance of deviations W (n, d), shrunk towards a multiple of the identity (Chen et al. 2010), (d, d)."""
    n, d = W.shape
    S = W.T @ W / n
    shrinkage, mean = oas_shrinkage(W)
    S *= 1.0 - shrinkage
    S.flat[:: d + 1] += shrinkage * mean
    return S


def feature_map(
    metric: str,
    X: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray | None = None,
    n_notes: int | None = None,
) -> np.ndarray:
    """What X is multiplied by before distances are taken: a vector (d,), or a matrix (d, d) for "whiten" and "local".

    `groups` are note ids, by default a note for each sample; only "local" asks for them, and for `n_notes`,
    as `outlark.maths.local.local_map` has it.
    """
    if metric == "euclidean":
        return np.ones(X.shape[1])
    scale = within_class_scale(X, labels)
    if metric == "local":
        share = participation(X, labels)
        if share >= PARTICIPATION_FLOOR or share * X.shape[1] >= MIN_CARRIERS:
            scale = np.ones(X.shape[1])
        W = local_map(X / scale, labels, np.arange(len(X)) if groups is None else groups, n_notes)
        return 1.0 / scale if W is None else W / scale[:, np.newaxis]
    if metric == "within":
        return 1.0 / scale
    S = oas_covariance(within_deviations(X / scale, labels))
    variances, directions = np.linalg.eigh(S)
    if variances[0] <= 0.0:  # nothing varies within the classes
        return 1.0 / scale
    return (directions / np.sqrt(variances)) / scale[:, np.newaxis]


def candidate_metrics(metric: str, X: np.ndarray, labels: np.ndarray) -> list[str]:
    """The metrics to choose from for "auto" or "global", the one that wins a tie first; any other metric is the only.

    "euclidean" is not a candidate where a few features dominate the distances: two *known* classes can often be told
    apart by those few alone, an unknown one cannot. "whiten" needs enough samples for a covariance matrix. With a
    single class there is nothing to choose by: "auto" is "local".
    """
    one_class = len(np.unique(labels)) == 1
    if metric == "auto" and one_class:
        return ["local"]
    if metric not in ("auto", "global"):
        return [metric]
    one_unit = participation(X, labels) >= PARTICIPATION_FLOOR
    if one_class:
        return ["euclidean"] if one_unit else ["within"]
    enough = len(X) >= SAMPLES_PER_FEATURE * X.shape[1]
    return ["whiten"] * enough + ["within"] + ["euclidean"] * one_unit


#: The regularisers ρ = σ_reg²/σ² to try besides the smallest that the condition bound allows, largest first.
RATIOS = (1e-1, 1e-2, 1e-4)
#: ρ while the metric is chosen.
MIDDLE_RATIO = 1e-2
CHOICE_FOLDS = 5
#: A smaller ρ is only chosen if it lowers the error, 1 - AUC, below this share: less is chance with few notes.
MAX_ERROR_RATIO = 0.9


class ChoiceTrial(NamedTuple):
    """A setting, and the mean AUC over classes of left-out notes against those of other classes."""

    metric: str
    ratio: float
    auc: float


def auc(own: np.ndarray, others: np.ndarray) -> float:
    """The probability that a value of `own` is larger than one of `others`, ties counting half.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    ranks = rankdata(np.concatenate([own, others]))
    n = len(own)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * len(others)))


def note_folds(labels: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A fold number for each sample: the notes of every class dealt out over at most `CHOICE_FOLDS` folds.

    >>> note_folds(np.zeros(4, int), np.array([3, 3, 8, 8]), np.random.default_rng(0)).tolist()
    [0, 0, 1, 1]
    """
    fold = np.zeros(len(labels), int)
    for c in in_order_of_appearance(labels):
        rows = np.flatnonzero(labels == c)
        parts = leave_out_parts(groups[rows])
        for i, j in enumerate(rng.permutation(len(parts))):
            fold[rows[parts[j]]] = i % CHOICE_FOLDS
    return fold


def left_out_auc(X: np.ndarray, labels: np.ndarray, fold: np.ndarray, metric: str, ell: float, ratio: float) -> float:
    """Cross-validated over `fold`, metric and descriptions made anew each time, ℓ and ρ held fixed."""
    classes = in_order_of_appearance(labels)
    d = np.full((len(X), len(classes)), np.nan)
    for f in np.unique(fold):
        out = fold == f
        if out.all():  # one sample for each class: nothing is left to describe
            continue
        by = feature_map(metric, X[~out], labels[~out])
        Z_in, Z_out = mapped(X[~out], by), mapped(X[out], by)
        for i, c in enumerate(classes):
            if (own := labels[~out] == c).any():
                d[out, i] = distances(describe(Z_in[own], ell, ratio), Z_out)
    values = []
    for i, c in enumerate(classes):
        scored = ~np.isnan(d[:, i])
        own, others = scored & (labels == c), scored & (labels != c)
        if own.any() and others.any():
            values.append(auc(-d[own, i], -d[others, i]))
    return float(np.mean(values)) if values else 0.5


def choose(
    X: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray,
    *,
    metric: str,
    ratios: tuple[float, ...],
    target_of: Callable[[np.ndarray], np.ndarray],
    fixed: dict[str, float | None],
    rng: np.random.Generator,
) -> tuple[ChoiceTrial, list[ChoiceTrial]]:
    """Choose the metric first, at an intermediate ρ, then ρ, from the largest down.

    With a single class there is nothing to choose by: the largest ρ. `metric` is "auto", "global" or the only
    candidate, `ratios` are the ρ to choose from, largest first, `target_of` gives y of Eq. (8) from the mapped samples,
    and `fixed` hyper-parameters are as in `outlark.maths.gp.learn`. Returns the winner, and all settings tried.
    """
    trials: list[ChoiceTrial] = []
    fold = note_folds(labels, groups, rng)
    one_class = len(np.unique(labels)) == 1

    def attempt(name: str, ratio: float) -> ChoiceTrial:
        Z = mapped(X, feature_map(name, X, labels, groups))
        ell = learn(Z, ratio=ratio, y=target_of(Z), **fixed).length_scale
        trials.append(ChoiceTrial(name, ratio, left_out_auc(X, labels, fold, name, ell, ratio)))
        return trials[-1]

    metrics = candidate_metrics(metric, X, labels)
    if one_class or (len(metrics) == 1 and len(ratios) == 1):
        return ChoiceTrial(metrics[0], ratios[0], np.nan), trials
    middle = MIDDLE_RATIO if MIDDLE_RATIO in ratios else ratios[0]
    best = max([attempt(name, middle) for name in metrics], key=lambda trial: trial.auc)
    attempts = [best if ratio == middle else attempt(best.metric, ratio) for ratio in ratios]
    winner = attempts[0]
    for trial in attempts[1:]:
        if 1.0 - trial.auc < MAX_ERROR_RATIO * (1.0 - winner.auc):
            winner = trial
    return winner, trials
