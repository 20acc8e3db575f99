"""Speed of the describers, as ratios within one run: the machine may be noisy, both sides suffer alike.

    python benchmarks/describers.py

- fit: MDDKM (all defaults, and the paper's settings) on 1,500 x 36 against scikit-learn's GaussianProcessRegressor
  with the same kernel and free hyper-parameters.
- score: 200,000 frames against 3 x 160 training frames, against GaussianProcessRegressor.predict(return_std=True) for
  each class and against a plain SciPy transcription of Alg. 1, line 8.
- memory: the peak while scoring twice as many frames.
"""

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from outlark import MDDKM
from outlark.maths.scoring import distances_to_all

CLASSES, PER_CLASS, FEATURES = 3, 160, 36


def frames(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Frames of three classes, near in time = near in space, as the features of notes are."""
    y = np.arange(n) * CLASSES // n
    steps = rng.normal(size=(n, FEATURES)).cumsum(axis=0)
    return 0.1 * steps + rng.normal(size=(CLASSES, FEATURES))[y] + 0.3 * rng.normal(size=(n, FEATURES)), y


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def best_of(repeats: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest of several times, and the result."""
    runs = [timed(function) for _ in range(repeats)]
    return min(run[0] for run in runs), runs[-1][1]


def gp(model: MDDKM) -> Any:
    kernel = ConstantKernel(model.sigma_**2) * RBF(model.length_scale_ / np.sqrt(2)) + WhiteKernel(model.sigma_reg_**2)
    return lambda X: GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, np.zeros(len(X)))


def plain_scipy(model: MDDKM, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Alg. 1, line 8, as one would write it down."""
    d = []
    for c in range(CLASSES):
        K = model.sigma_**2 * np.exp(-cdist(X[y == c], X[y == c], "sqeuclidean") / model.length_scale_**2)
        k = model.sigma_**2 * np.exp(-cdist(X[y == c], Z, "sqeuclidean") / model.length_scale_**2)
        factor = cho_factor(K + model.sigma_reg_**2 * np.eye(len(K)))
        d.append(model.sigma_**2 - np.sum(k * cho_solve(factor, k), axis=0))
    return np.stack(d, axis=1)


def fit_speed(repeats: int) -> None:
    X, y = frames(1500, np.random.default_rng(0))

    def free() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            kernel = ConstantKernel(1.0, (1e-9, 1e9)) * RBF(10.0, (1e-2, 1e4)) + WhiteKernel(1e-2, (1e-9, 1e3))
            return GaussianProcessRegressor(kernel).fit(X, np.einsum("ij,ij->i", X, X))

    theirs, _ = best_of(repeats, free)
    for name, model in (("defaults", MDDKM()), ("paper", MDDKM.paper())):
        ours, _ = best_of(repeats, lambda model=model: model.fit(X, y))
        print(
            f"fit 1,500 x {FEATURES}, MDDKM {name:<9} {ours:6.2f} s   GaussianProcessRegressor {theirs:6.2f} s   "
            f"{theirs / ours:5.1f} times faster"
        )


def score_speed(n_frames: int, repeats: int) -> None:
    rng = np.random.default_rng(1)
    X, y = frames(CLASSES * PER_CLASS, rng)
    Z = X[rng.integers(len(X), size=n_frames)] + 0.5 * rng.normal(size=(n_frames, FEATURES))
    model = MDDKM(metric="euclidean", sigma_reg="auto").fit(X, y)
    make = gp(model)

    def scikit_learn() -> np.ndarray:
        variances = [make(X[y == c]).predict(Z, return_std=True)[1] ** 2 for c in range(CLASSES)]
        return np.stack(variances, axis=1) - model.sigma_reg_**2

    theirs, d_theirs = best_of(repeats, scikit_learn)
    plain, d_plain = best_of(repeats, lambda: plain_scipy(model, X, y, Z))
    for precision in ("double", "single"):
        model.set_params(precision=precision)
        ours, d = best_of(repeats, lambda: model.distances(Z))
        for name, seconds, other in (("GaussianProcessRegressor", theirs, d_theirs), ("plain SciPy", plain, d_plain)):
            gap = np.max(np.abs(np.log(d / np.maximum(other, 1e-300)))) / 2
            print(
                f"score {n_frames:,} frames, MDDKM {precision} {ours:5.2f} s   {name:<24} {seconds:5.2f} s   "
                f"{seconds / ours:5.1f} times faster   largest difference in score {gap:.0e}"
            )


def memory() -> None:
    rng = np.random.default_rng(2)
    X, y = frames(CLASSES * PER_CLASS, rng)
    model = MDDKM(metric="euclidean").fit(X, y)
    peaks = []
    for n in (50_000, 200_000):
        Z = rng.normal(size=(n, FEATURES))
        tracemalloc.start()
        distances_to_all(model.descriptions_, Z)
        peaks.append((tracemalloc.get_traced_memory()[1] - 8 * n * CLASSES) / 1e6)
        tracemalloc.stop()
    print(f"memory besides the result: {peaks[0]:.1f} MB for 50,000 frames, {peaks[1]:.1f} MB for 200,000")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    fit_speed(options.repeats)
    score_speed(options.frames, options.repeats)
    memory()
