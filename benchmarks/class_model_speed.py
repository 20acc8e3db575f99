"""The child of `speed` that runs one class model: fits the training frames, scores the others.

    python benchmarks/class_model_speed.py NAME FOLDER

FOLDER holds the ``frames.npz`` of `speed_data.write_frames`. Distances of the same formula are kept there, to be
compared (`largest_difference`). A peer may run in an environment of its own, so that nothing but NumPy and the standard
library may be imported at the top.

- MDD-KM: "same" has the Euclidean metric; the rows that compute its distances in another way take its hyper-parameters.
- Gaussian processes "of labels" regress the indicators of the classes on the frames and learn their hyper-parameters
  by the marginal likelihood, with what their documentation starts from: L-BFGS in scikit-learn, Adam in GPyTorch.
- One-class models: one for each class.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from costs import Costs, peak_mb

#: GPyTorch: steps of the exact process, rounds through the data and frames at once of the sparse one, its inducing
#: points, and frames that are scored at once.
STEPS, ROUNDS, BATCH, POINTS, BLOCK = 50, 20, 256, 100, 4096


class Model(Protocol):
    """Made by importing what it needs."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None: ...

    def score(self, Z: np.ndarray) -> np.ndarray: ...


class MDDKM:
    """Distances of `outlark.MDDKM`; "same" leaves its hyper-parameters to the rows that compare."""

    def __init__(self, kept: Path | None = None, *, paper: bool = False, **parameters: Any) -> None:
        import outlark

        self.model = outlark.MDDKM.paper(**parameters) if paper else outlark.MDDKM(**parameters)
        self.kept = kept

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.fit(X, y)
        if self.kept is not None:
            found = [self.model.sigma_, self.model.length_scale_, self.model.sigma_reg_]
            self.kept.write_text(json.dumps(found), encoding="utf-8")

    def score(self, Z: np.ndarray) -> np.ndarray:
        return self.model.distances(Z)


class PlainSciPy:
    """Alg. 1, line 8, as one would write it down."""

    def __init__(self, kept: Path) -> None:
        from scipy.linalg import cho_factor, cho_solve
        from scipy.spatial.distance import cdist

        self.factor, self.solve, self.cdist = cho_factor, cho_solve, cdist
        self.sigma, self.length, self.reg = json.loads(kept.read_text(encoding="utf-8"))

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.of_class = [X[y == c] for c in np.unique(y)]
        self.factors = [self.factor(self.kernel(A, A) + self.reg**2 * np.eye(len(A))) for A in self.of_class]

    def score(self, Z: np.ndarray) -> np.ndarray:
        found = []
        for A, factor in zip(self.of_class, self.factors, strict=True):
            k = self.kernel(A, Z)
            found.append(self.sigma**2 - np.sum(k * self.solve(factor, k), axis=0))
        return np.stack(found, axis=1)

    def kernel(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self.sigma**2 * np.exp(-self.cdist(A, B, "sqeuclidean") / self.length**2)


class SameGP:
    """scikit-learn's Gaussian process for each class, with the hyper-parameters of MDD-KM: its variance is d."""

    def __init__(self, kept: Path) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        sigma, length, self.reg = json.loads(kept.read_text(encoding="utf-8"))
        kernel = ConstantKernel(sigma**2) * RBF(length / np.sqrt(2)) + WhiteKernel(self.reg**2)
        self.make = lambda: GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.models = [self.make().fit(X[y == c], np.zeros((y == c).sum())) for c in np.unique(y)]

    def score(self, Z: np.ndarray) -> np.ndarray:
        variances = [model.predict(Z, return_std=True)[1] ** 2 for model in self.models]
        return np.stack(variances, axis=1) - self.reg**2


class LabelGP:
    """scikit-learn's Gaussian process of labels."""

    def __init__(self) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        kernel = ConstantKernel(1.0, (1e-9, 1e9)) * RBF(10.0, (1e-2, 1e4)) + WhiteKernel(1e-2, (1e-9, 1e3))
        self.model = GaussianProcessRegressor(kernel)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the optimiser may end at a bound
            self.model.fit(X, _indicators(y))

    def score(self, Z: np.ndarray) -> np.ndarray:
        return self.model.predict(Z, return_std=True)[0]


class OneForEachClass:
    """A one-class model of scikit-learn for each class."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.models = [self.make().fit(X[y == c]) for c in np.unique(y)]

    def score(self, Z: np.ndarray) -> np.ndarray:
        return np.stack([model.decision_function(Z) for model in self.models], axis=1)


def _one_class_svm() -> Model:
    from sklearn.svm import OneClassSVM

    return OneForEachClass(lambda: OneClassSVM(nu=0.1))


def _local_outlier_factor() -> Model:
    from sklearn.neighbors import LocalOutlierFactor

    return OneForEachClass(lambda: LocalOutlierFactor(novelty=True))


def _gpytorch(name: str) -> Model:
    import gpytorch_models

    return getattr(gpytorch_models, name)()


def _indicators(y: np.ndarray) -> np.ndarray:
    return (y[:, np.newaxis] == np.unique(y)).astype(float)


def models(folder: Path) -> dict[str, Callable[[], Model]]:
    kept = folder / "hyper-parameters.json"
    return {
        "mddkm": MDDKM,
        "mddkm-paper": lambda: MDDKM(paper=True),
        "mddkm-same": lambda: MDDKM(kept, metric="euclidean"),
        "mddkm-single": lambda: MDDKM(metric="euclidean", precision="single"),
        "scipy": lambda: PlainSciPy(kept),
        "gp-same": lambda: SameGP(kept),
        "gp-labels": LabelGP,
        "gpytorch-exact": lambda: _gpytorch("Exact"),
        "gpytorch-svgp": lambda: _gpytorch("Sparse"),
        "one-class-svm": _one_class_svm,
        "lof": _local_outlier_factor,
    }


#: Rows that compute the distances of "mddkm-same".
ALIKE = ("mddkm-same", "mddkm-single", "scipy", "gp-same")


def measured(name: str, folder: Path) -> Costs:
    """Processor seconds for fit and score; peak memory, and how much of it came after the imports."""
    model = models(folder)[name]()
    with np.load(folder / "frames.npz") as file:
        X, y, Z = file["X"], file["y"], file["Z"]
    before = peak_mb()
    costs = {}
    start = time.process_time()
    model.fit(X, y)
    costs["fit"] = time.process_time() - start
    start = time.process_time()
    scores = model.score(Z)
    costs["score"] = time.process_time() - start
    if name in ALIKE:
        np.save(folder / f"{name}.npy", scores)
    return costs | {"MB": peak_mb(), "own MB": peak_mb() - before}


def largest_difference(name: str, folder: Path) -> float:
    """In the score, -½ log d, between a row and MDD-KM."""
    ours, other = (np.load(folder / f"{row}.npy") for row in (ALIKE[0], name))
    return float(np.max(np.abs(np.log(ours / np.maximum(other, 1e-300))))) / 2


if __name__ == "__main__":
    print("\n" + json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
