"""Comparing methods over data sets: mean ranks, Friedman's test, Wilcoxon's with Holm's correction, and a figure.

Sets are the trials: `values` (n_sets, n_methods), high is good. After Demšar (2006) and Benavoli et al. (2016).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, wilcoxon


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Mean rank of each method, 1 = best, ties share a rank; NaN is the last place.

    >>> mean_ranks(np.array([[0.9, 0.8, 0.7], [0.9, 0.9, 0.1]]))
    array([1.25, 1.75, 3.  ])
    """
    filled = np.where(np.isnan(values), -np.inf, values)
    return rankdata(-filled, axis=1).mean(axis=0)


def friedman(values: np.ndarray) -> float:
    """p of "all methods are alike"."""
    return float(friedmanchisquare(*values.T).pvalue)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values corrected for their number (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def against(values: np.ndarray, ours: int) -> np.ndarray:
    """p of Wilcoxon's signed-rank test of one method against each other, corrected by Holm; NaN for itself."""
    others = [m for m in range(values.shape[1]) if m != ours]
    found = np.full(values.shape[1], np.nan)
    found[others] = holm(np.array([_wilcoxon(values[:, ours], values[:, m]) for m in others]))
    return found


def _wilcoxon(one: np.ndarray, other: np.ndarray) -> float:
    return 1.0 if np.array_equal(one, other) else float(wilcoxon(one, other, zero_method="zsplit").pvalue)


def alike(values: np.ndarray, level: float = 0.05) -> np.ndarray:
    """Which pairs of methods do not differ significantly, bool (n_methods, n_methods); Holm over all pairs."""
    n = values.shape[1]
    pairs = [(i, j) for i in range(n) for j in range(i)]
    p = holm(np.array([_wilcoxon(values[:, i], values[:, j]) for i, j in pairs]))
    found = np.eye(n, dtype=bool)
    for (i, j), value in zip(pairs, p, strict=True):
        found[i, j] = found[j, i] = value >= level
    return found


def cliques(values: np.ndarray) -> list[tuple[int, int]]:
    """First and last place, by mean rank, of each longest run of methods none of which differ."""
    order = np.argsort(mean_ranks(values), kind="stable")
    same = alike(values)[np.ix_(order, order)]
    runs: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and same[first : last + 2, first : last + 2].all():
            last += 1
        if last > first and not any(start <= first and last <= end for start, end in runs):
            runs.append((first, last))
    return runs


def draw(panels: dict[str, np.ndarray], methods: Sequence[str], path: Path) -> None:
    """Critical-difference diagrams, one below the other: lines join methods that do not differ significantly."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 3.9 * len(panels)), squeeze=False)
    for axis, (title, values) in zip(axes[:, 0], panels.items(), strict=True):
        ranks = mean_ranks(values)
        order = np.argsort(ranks, kind="stable")
        runs = cliques(values)
        half, n = -(-len(methods) // 2), len(methods)
        axis.set(xlim=(-4.5, n + 5.5), ylim=(-half - 0.3 * len(runs) - 1.2, 1.6), title=title)
        axis.axis("off")
        axis.plot([1, n], [0, 0], color="black", lw=1)
        for tick in range(1, n + 1):
            axis.plot([tick, tick], [0, 0.12], color="black", lw=1)
            axis.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=8)
        top = 0.3 * len(runs) + 0.2
        for place, m in enumerate(order):
            left = place < half
            y = -top - (place if left else n - 1 - place) - 0.3
            end = 0.6 if left else n + 0.4
            axis.plot([ranks[m], ranks[m], end], [0, y, y], color="0.4", lw=0.8)
            text = f"{methods[m]}  {ranks[m]:.1f}" if left else f"{ranks[m]:.1f}  {methods[m]}"
            weight = "bold" if methods[m] == methods[0] else "normal"
            axis.text(end, y, f" {text} ", ha="right" if left else "left", va="center", fontsize=9, weight=weight)
        for i, (first, last) in enumerate(runs):
            y = -0.3 * (i + 1)
            axis.plot([ranks[order[first]] - 0.08, ranks[order[last]] + 0.08], [y, y], color="black", lw=3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
