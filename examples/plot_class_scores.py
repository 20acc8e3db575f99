"""Why scores of classes can be compared, how to set a threshold without outliers, and where a density does better.

python examples/plot_class_scores.py --output demo
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

from outlark import MDDKM, OCCGP

OWN, OTHER, LINE = "#2a78b5", "#d9742b", "#333333"


def comparable(path: Path) -> None:
    """Two kinds of wine that are known: one model of both, and a model for each of them on its own."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    rng = np.random.default_rng(0)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:28] for c in (0, 1)])
    test = np.setdiff1d(np.flatnonzero(y < 2), train)
    together = MDDKM().fit(X[train], y[train]).class_scores(X[test])
    alone = np.column_stack([OCCGP().fit(X[train][y[train] == c]).score_samples(X[test]) for c in (0, 1)])
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.3), layout="constrained")
    titles = "MDD-KM: one feature space", "two one-class models, each with its own kernel"
    for axis, scores, title in zip(axes, (together, alone), titles, strict=True):
        for c, colour in ((0, OWN), (1, OTHER)):
            axis.scatter(*scores[y[test] == c].T, s=9, color=colour, label=f"wine {c}")
        low, high = scores.min(), scores.max()
        axis.plot([low, high], [low, high], color=LINE, lw=0.8, label="equal scores")
        right = np.mean(scores.argmax(axis=1) == y[test])
        axis.set(
            title=f"{title}\nthe higher score is right for {right:.1%}",
            xlabel="score of wine 0",
            ylabel="score of wine 1",
        )
    axes[1].legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def threshold(path: Path) -> None:
    """Left-out scores of 200 samples of one class, and the p-values of new ones and of outliers."""
    rng = np.random.default_rng(1)
    train, fresh = rng.normal(size=(200, 5)), rng.normal(size=(2000, 5))
    odd = rng.normal(size=(2000, 5)) * 1.5 + 1.5
    model = MDDKM(quantile=0.05).fit(train, np.zeros(200))
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    scores = [model.left_out_scores_[0], model.score_samples(odd)]
    bins = np.linspace(min(map(np.min, scores)), max(map(np.max, scores)), 50)
    axes[0].hist(scores[0], bins, density=True, color=OWN, alpha=0.6, label="training samples, left out")
    axes[0].hist(scores[1], bins, density=True, color=OTHER, alpha=0.5, label="outliers (never used)")
    axes[0].axvline(model.offset_, color=LINE, label="threshold: 5 % of the left-out scores")
    axes[0].set(title="The threshold comes from left-out scores", xlabel="score (log odds)", ylabel="density")
    axes[0].legend(frameon=False, fontsize=8)
    levels = np.linspace(0, 0.5, 51)
    for Z, colour, name in ((fresh, OWN, "new samples of the class"), (odd, OTHER, "outliers")):
        p = model.p_values(Z)[:, 0]
        axes[1].plot(levels, [np.mean(p <= level) for level in levels], color=colour, label=name)
    axes[1].plot([0, 0.5], [0, 0.5], color=LINE, lw=0.8, ls="--", label="promised for the class")
    axes[1].set(title="Rejecting p ≤ ε", xlabel="ε", ylabel="share rejected", ylim=(0, 1))
    axes[1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def widths(path: Path) -> None:
    """A narrow and a wide class share one kernel: unknowns near the narrow class are as near as members of the wide."""
    rng = np.random.default_rng(2)
    X = np.concatenate([[-2.5, 0] + 0.15 * rng.normal(size=(60, 2)), [2.5, 0] + 1.3 * rng.normal(size=(60, 2))])
    y = np.repeat([0, 1], 60)
    members = np.concatenate([[-2.5, 0] + 0.15 * rng.normal(size=(300, 2)), [2.5, 0] + 1.3 * rng.normal(size=(300, 2))])
    angle = rng.uniform(0, 2 * np.pi, 600)
    unknown = [-2.5, 0] + 0.9 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.08 * rng.normal(size=(600, 2))
    Z, truth = np.concatenate([members, unknown]), np.repeat([1, 0], 600)
    one_kernel = MDDKM().fit(X, y).score_samples
    densities = [KernelDensity(bandwidth=h).fit(X[y == c]) for c, h in ((0, 0.08), (1, 0.6))]

    def own_kernels(points: np.ndarray) -> np.ndarray:
        return np.max([density.score_samples(points) for density in densities], axis=0)

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.1), sharey=True, layout="constrained")
    across, up = np.meshgrid(np.linspace(-4.5, 6.5, 220), np.linspace(-4, 4, 160))
    grid = np.column_stack([across.ravel(), up.ravel()])
    shown = (
        ("MDD-KM: one kernel for all classes", one_kernel),
        ("a density with its own width for each class", own_kernels),
    )
    for axis, (title, score) in zip(axes, shown, strict=True):
        level = np.quantile(score(members), 0.05)
        accepted = (score(grid) >= level).reshape(across.shape)
        axis.contourf(across, up, accepted, levels=[0.5, 1.5], colors=[OWN], alpha=0.3)
        axis.scatter(*unknown[::4].T, s=5, color=OTHER, label="unknown")
        axis.scatter(*X.T, s=7, color=OWN, label="training samples")
        axis.set(title=f"{title}\nAUROC {roc_auc_score(truth, score(Z)):.3f}", xlabel="feature 1", aspect="equal")
    axes[0].set_ylabel("feature 2")
    axes[0].legend(frameon=False, loc="upper right", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for draw in (comparable, threshold, widths):
        path = output / f"class_scores_{draw.__name__}.png"
        draw(path)
        print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().output)
