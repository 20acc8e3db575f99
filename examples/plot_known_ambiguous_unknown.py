"""Known, ambiguous and unknown: MDD-KM beside two probabilistic classifiers on a problem in two dimensions.

Two classes overlap. A sample between them may be either; a sample far away is neither. Probabilities that must sum to
one cannot tell these two cases apart, class scores that need not can.

    python examples/plot_known_ambiguous_unknown.py --output demo
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.svm import SVC

from outlark import MDDKM

A, B, BOTH, NONE = "#2a78b5", "#d9742b", "#8e5ba6", "#f1f0ec"
POINTS = {"a member of A": (-1.9, 0.1), "between A and B": (0.1, 0.0), "far from both": (4.6, 4.3)}
SURE = 0.9  # a probability below this is taken as "not sure"


def two_classes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A crescent-shaped class A and a round class B that touch; 60 samples each."""
    angle = rng.uniform(0.35 * np.pi, 1.65 * np.pi, 60)
    crescent = 1.9 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.22 * rng.normal(size=(60, 2))
    crescent[:12] = [0.2, 0.0] + [0.45, 0.3] * rng.normal(size=(12, 2))
    ball = [1.0, 0.0] + [0.6, 0.55] * rng.normal(size=(60, 2))
    return np.concatenate([crescent, ball]), np.repeat(["A", "B"], 60)


def draw(ax, title: str, regions: np.ndarray, extent: tuple[float, ...], X: np.ndarray, y: np.ndarray) -> None:
    """`regions` holds 0 nothing, 1 A, 2 B, 3 both, for each pixel."""
    ax.imshow(
        regions, origin="lower", extent=extent, cmap=ListedColormap([NONE, A, B, BOTH]), vmin=0, vmax=3, alpha=0.45
    )
    for label, colour in (("A", A), ("B", B)):
        ax.scatter(*X[y == label].T, s=12, color=colour, edgecolor="white", linewidth=0.4)
    ax.set(title=title, xlabel="feature 1", aspect="equal", xlim=extent[:2], ylim=extent[2:])


def annotation(ax, words: dict[str, str]) -> None:
    """Write what a model says at each of the three points."""
    for name, (x, y) in POINTS.items():
        ax.plot(x, y, marker="*", markersize=13, color="black", markeredgecolor="white")
        place = {"a member of A": (-4.6, 3.0), "between A and B": (0.6, -3.7), "far from both": (-0.6, 4.4)}[name]
        ax.annotate(
            words[name],
            (x, y),
            xytext=place,
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 0.7},
            bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "#999999", "linewidth": 0.5},
        )


def main(output: Path) -> None:
    X, y = two_classes(np.random.default_rng(4))
    stars = np.array(list(POINTS.values()))
    model = MDDKM(outlier_label="unknown").fit(X, y)
    gp = GaussianProcessClassifier(ConstantKernel(1.0) * RBF(1.0), random_state=0).fit(X, y)
    svm = CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y)  # Platt scaling

    extent = (-5.0, 6.0, -5.0, 6.0)
    axis = np.linspace(extent[0], extent[1], 320)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    accepted = model.membership(grid)
    figure, axes = plt.subplots(1, 3, figsize=(12.6, 4.9), sharey=True, layout="constrained")
    regions = (accepted[:, 0] + 2 * accepted[:, 1]).reshape(320, 320)
    draw(axes[0], "MDD-KM (outlark)", regions, extent, X, y)
    scores, verdicts = model.class_scores(stars), model.verdicts(stars)
    annotation(
        axes[0],
        {n: f"{v}\nscores A {s[0]:.2f}, B {s[1]:.2f}" for n, s, v in zip(POINTS, scores, verdicts, strict=True)},
    )
    for ax, name, peer in ((axes[1], "Gaussian process classification", gp), (axes[2], "SVM with Platt scaling", svm)):
        p = peer.predict_proba(grid)
        sure = np.where(p[:, 0] >= SURE, 1, np.where(p[:, 1] >= SURE, 2, 3)).reshape(320, 320)
        draw(ax, name, sure, extent, X, y)
        annotation(
            ax, {n: f"P(A) {q[0]:.2f}, P(B) {q[1]:.2f}" for n, q in zip(POINTS, peer.predict_proba(stars), strict=True)}
        )
    axes[0].set_ylabel("feature 2")
    patches = [Patch(color=c, alpha=0.45) for c in (A, B, BOTH)] + [Patch(facecolor=NONE, edgecolor="#999999")]
    labels = ["A", "B", f"ambiguous (MDD-KM) / not sure, P < {SURE} (the others)", "unknown: none of these"]
    figure.legend(patches, labels, loc="outside lower center", ncols=4, frameon=False)
    output.mkdir(parents=True, exist_ok=True)
    path = output / "known_ambiguous_unknown.png"
    figure.savefig(path, dpi=130)

    print(f"MDD-KM chose metric {model.metric_!r}, σ_reg²/σ² = {(model.sigma_reg_ / model.sigma_) ** 2:.1e}")
    print(f"{'':<18}{'MDD-KM scores':<18}{'verdict':<12}{'GP P(A)':>9}{'SVM P(A)':>10}")
    for i, name in enumerate(POINTS):
        print(
            f"{name:<18}A {scores[i, 0]:<5.2f} B {scores[i, 1]:<8.2f}{verdicts[i]:<12}"
            f"{gp.predict_proba(stars[i : i + 1])[0, 0]:>9.2f}{svm.predict_proba(stars[i : i + 1])[0, 0]:>10.2f}"
        )
    print(f"\npicture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the picture")
    main(parser.parse_args().output)
