"""One class: MDD-KM against its peers on 23 tables and 15 sets of image embeddings of ADBench.

    python benchmarks/adbench.py                            # everything, about ten minutes on one core
    python benchmarks/adbench.py --seeds 1 --sets wine glass
    python benchmarks/adbench.py --figure docs/pictures/adbench.png

The folder ``adbench-half`` is sought in $OUTLARK_DATA: ``NAME.npz`` with X and y (0 normal, 1 anomaly), from
github.com/Minqi824/ADBench. Half of the normal rows (at most 1,000) train, the others and the anomalies test (at most
3,000). Tables are standardised by the training rows, embeddings are taken as they are. A number is the mean AUROC over
the seeds; sets are the trials of the statistics.

The sets are divided at random into two halves, sets of one source on one side. The setting of MDD-KM (neighbours,
ridge, length scale) with the best mean rank on one half is the row "chosen on the other half"; the default is fixed.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import peers
import rank_statistics as statistics
from scipy.stats import skew
from sklearn.covariance import OAS, LedoitWolf
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances, roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler, normalize
from threadpoolctl import threadpool_limits

from outlark import MDDKM
from outlark.maths import local
from outlark.metrics.windows import aligned_table

MAX_TRAIN, MAX_TEST = 1000, 3000
EMBEDDING = "resnet18-"
#: Sets of one source.
SOURCES = (
    ("landsat", "satellite", "satimage-2"),
    ("cardio", "Cardiotocography"),
    ("annthyroid", "thyroid"),
    ("WBC", "breastw"),
)
#: Neighbours, ridge, ℓ/e*; the first is the default.
SETTINGS = [(5, 1.0, 4.0)] + [
    s for s in ((k, r, f) for k in (5, 10) for r in (0.1, 1.0) for f in (2.0, 4.0, 8.0)) if s != (5, 1.0, 4.0)
]
OURS, CHOSEN = "MDD-KM", "MDD-KM, chosen on the other half"
Scorer = Callable[[np.ndarray], np.ndarray]


def folder() -> Path:
    found = Path(os.environ.get("OUTLARK_DATA", "data")) / "adbench-half"
    if not found.is_dir():
        raise SystemExit(f"no folder {found}; set OUTLARK_DATA to the folder that holds adbench-half")
    return found


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, test rows, and which of the test rows are normal."""
    with np.load(folder() / f"{name}.npz") as stored:
        X, y = stored["X"].astype(float), stored["y"].ravel()
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(y == 0))
    n = min(len(normal) // 2, MAX_TRAIN)
    test = rng.permutation(np.concatenate([normal[n:], np.flatnonzero(y == 1)]))[:MAX_TEST]
    train, tested = X[normal[:n]], X[test]
    if not name.startswith(EMBEDDING):
        scaler = StandardScaler().fit(train)
        train, tested = scaler.transform(train), scaler.transform(tested)
    return train, tested, y[test] == 0


# ------------------------------------------------------------------ methods


def mddkm(X: np.ndarray, seed: int, **parameters: object) -> Scorer:
    return MDDKM(threshold=0.0, **parameters).fit(X, np.zeros(len(X), int)).score_samples


def with_setting(setting: tuple[int, float, float]) -> Callable[[np.ndarray, int], Scorer]:
    def fit(X: np.ndarray, seed: int) -> Scorer:
        default = local.NEIGHBOURS, local.RIDGE, local.SCALE
        local.NEIGHBOURS, local.RIDGE, local.SCALE = setting
        try:
            return mddkm(X, seed)
        finally:
            local.NEIGHBOURS, local.RIDGE, local.SCALE = default

    return fit


def nearest(k: int) -> Callable[[np.ndarray, int], Scorer]:
    """Minus the mean distance to the k nearest training rows."""

    def fit(X: np.ndarray, seed: int) -> Scorer:
        return lambda Z: -np.partition(pairwise_distances(Z, X), k - 1, axis=1)[:, :k].mean(axis=1)

    return fit


def gaussian_mixture(X: np.ndarray, seed: int) -> Scorer:
    """1 to 3 components by BIC; no full covariance of more than 100 features."""
    if X.shape[1] <= 100:
        return peers._gaussian_mixture(X, seed)
    floor = 0.1 * X.var(axis=0).mean()
    models = [
        GaussianMixture(k, covariance_type=shape, reg_covar=floor, random_state=seed).fit(X)
        for shape in ("diag", "spherical")
        for k in (1, 2, 3)
    ]
    return min(models, key=lambda model: model.bic(X)).score_samples


def tails(combine: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray, int], Scorer]:
    """Sums of minus log tail probabilities of each feature: ECOD and COPOD (Li et al. 2020, 2022), as PyOD has them.

    A tested row counts among the training rows.
    """

    def fit(X: np.ndarray, seed: int) -> Scorer:
        ordered, n = np.sort(X, axis=0), len(X)
        lopsided = np.nan_to_num(skew(X, axis=0))

        def score(Z: np.ndarray) -> np.ndarray:
            at_most = np.column_stack(
                [np.searchsorted(c, z, side="right") for c, z in zip(ordered.T, Z.T, strict=True)]
            )
            less = np.column_stack([np.searchsorted(c, z, side="left") for c, z in zip(ordered.T, Z.T, strict=True)])
            left, right = -np.log((at_most + 1) / (n + 1)), -np.log((n - less + 1) / (n + 1))
            skewed = -left * np.sign(lopsided - 1) + right * np.sign(lopsided + 1)
            return -combine(left, right, skewed).sum(axis=1)

        return score

    return fit


def mahalanobis(estimator: type, unit: bool = False) -> Callable[[np.ndarray, int], Scorer]:
    """Minus the distance by a shrunk covariance, of rows or of rows divided by their length."""

    def fit(X: np.ndarray, seed: int) -> Scorer:
        prepare = normalize if unit else np.asarray
        model = estimator().fit(prepare(X))
        return lambda Z: -model.mahalanobis(prepare(Z))

    return fit


def reconstruction(X: np.ndarray, seed: int) -> Scorer:
    """Minus the error of a reconstruction by the principal components that hold 95 % of the variance."""
    model = PCA(0.95, svd_solver="full").fit(X)
    return lambda Z: -np.sum((Z - model.inverse_transform(model.transform(Z))) ** 2, axis=1)


METHODS: dict[str, Callable[[np.ndarray, int], Scorer]] = {
    OURS: mddkm,
    "MDD-KM, metric global": lambda X, seed: mddkm(X, seed, metric="global"),
    "OCC-GP as published": lambda X, seed: MDDKM.paper(threshold=0.0).fit(X, np.zeros(len(X), int)).score_samples,
    "1-NN": nearest(1),
    "5-NN, mean": nearest(5),
    "LOF": peers._local_outlier_factor,
    "one-class SVM": peers._one_class_svm,
    "isolation forest": peers._isolation_forest,
    "KDE": peers._kernel_density,
    "GMM": gaussian_mixture,
    "ECOD": tails(lambda left, right, skewed: np.maximum(np.maximum(left, right), skewed)),
    "COPOD": tails(lambda left, right, skewed: np.maximum(skewed, (left + right) / 2)),
    "Mahalanobis, Ledoit-Wolf": mahalanobis(LedoitWolf),
    "Mahalanobis, OAS": mahalanobis(OAS),
    "Mahalanobis, length-1 rows": mahalanobis(LedoitWolf, unit=True),
    "PCA reconstruction": reconstruction,
}


# ------------------------------------------------------------------ runs


def measured(name: str, n_seeds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean AUROC and CPU seconds of each method, and AUROC of each setting of ours."""
    found, seconds, of_settings = [], [], []
    for seed in range(n_seeds):
        X, Z, normal = split(name, seed)
        row, times = [], []
        for fit in METHODS.values():
            start = time.process_time()
            row.append(roc_auc_score(normal, fit(X, seed)(Z)))
            times.append(time.process_time() - start)
        found.append(row)
        seconds.append(times)
        of_settings.append([row[0], *(roc_auc_score(normal, with_setting(s)(X, seed)(Z)) for s in SETTINGS[1:])])
    return np.mean(found, axis=0), np.mean(seconds, axis=0), np.mean(of_settings, axis=0)


def halves(sets: Sequence[str]) -> np.ndarray:
    """Which sets are in the first half, bool; sets of one source together."""
    source = {name: group[0] for group in SOURCES for name in group}
    groups = sorted({source.get(name, name) for name in sets})
    first = set(np.random.default_rng(0).permutation(groups)[: len(groups) // 2].tolist())
    return np.array([source.get(name, name) in first for name in sets])


def chosen(of_settings: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """For each set the AUROC with the setting that ranks best on the other half; the settings of both halves."""
    best = [int(statistics.mean_ranks(of_settings[half]).argmin()) for half in (~first, first)]
    return np.where(first, of_settings[:, best[0]], of_settings[:, best[1]]), best


def report(title: str, sets: Sequence[str], values: np.ndarray, of_settings: np.ndarray) -> str:
    """Means, ranks and p-values of all methods, over all sets and over the judged half.

    The last row takes the place of ours: its rank is among the other methods.
    """
    first = halves(sets)
    column, best = chosen(of_settings, first)
    replaced = np.column_stack([column, values[:, 1:]])
    cells = []
    for rows in (np.full(len(sets), True), ~first):
        ranks = [*statistics.mean_ranks(values[rows]), statistics.mean_ranks(replaced[rows])[0]]
        means = [*values[rows].mean(axis=0), column[rows].mean()]
        p = [*statistics.against(values[rows], 0), np.nan]
        cells.append(
            [
                [f"{mean:.4f}", f"{rank:.2f}", "-" if np.isnan(q) else f"{q:.2g}"]
                for mean, rank, q in zip(means, ranks, p, strict=True)
            ]
        )
    head = ["", "AUROC", "mean rank", "p", "judged half: AUROC", "mean rank", "p"]
    body = [[name, *of_all, *judged] for name, of_all, judged in zip([*METHODS, CHOSEN], *cells, strict=True)]
    first_choice, other_choice = SETTINGS[best[1]], SETTINGS[best[0]]
    return "\n".join(
        [
            f"{title}: {len(sets)} sets, {int((~first).sum())} of them judged; Friedman p = "
            f"{statistics.friedman(values):.1g}; p: Wilcoxon against {OURS}, corrected by Holm",
            aligned_table([head, *body]),
            f"neighbours, ridge, ℓ/e* chosen on the first half: {first_choice}, on the judged half: {other_choice}",
            "judged: "
            + ", ".join(name.removeprefix(EMBEDDING) for name, other in zip(sets, first, strict=True) if not other),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", metavar="SET", help="these alone")
    parser.add_argument("--figure", type=Path, help="draw critical-difference diagrams here")
    options = parser.parse_args(arguments)
    every = sorted(path.stem for path in folder().glob("*.npz"))
    if unknown := sorted(set(options.sets or []) - set(every)):
        raise SystemExit(f"no sets {unknown} in {folder()}; there are {', '.join(every)}")
    panels = {}
    for title, embeddings in (("tables", False), ("image embeddings", True)):
        sets = [name for name in options.sets or every if name.startswith(EMBEDDING) == embeddings]
        if not sets:
            continue
        found = []
        for name in sets:
            with threadpool_limits(1):
                found.append(measured(name, options.seeds))
            print(f"{name}: {found[-1][0][0]:.4f}", file=sys.stderr, flush=True)
        values, seconds, of_settings = (np.array(part) for part in zip(*found, strict=True))
        if len(sets) > 3:
            print(report(title, sets, values, of_settings) + "\n")
        body = [
            [name, *(f"{v:.3f}" for v in values[:, m]), f"{seconds[:, m].mean():.2f}"] for m, name in enumerate(METHODS)
        ]
        print(
            aligned_table([["AUROC", *(name.removeprefix(EMBEDDING + "MVTec-AD_") for name in sets), "CPU s"], *body])
            + "\n"
        )
        panels[f"{title}: mean rank over {len(sets)} sets"] = values
    if options.figure:
        statistics.draw(panels, list(METHODS), options.figure)


if __name__ == "__main__":
    main(sys.argv[1:])
