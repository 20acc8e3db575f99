"""What could stand in the place of MDD-KM in `NoteDetector(describer=…)`: the same samples in, class scores out.

The more a sample resembles a class the higher it scores, and near 0 means that it resembles nothing. Distances become
``1/(1 + (d/s)²)``: 1 at a training sample, ½ at the distance s of silence, which all front ends put at the origin. Each
class is described alone, or against the others: **the scores of two classes are not on one scale**, unlike those of
`outlark.MDDKM`, and the decoder, which takes the best of the classes that accept, has to bear with it.

Settings are the usual ones for few samples in many dimensions, the same for all data.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from outlark.errors import InputError
from outlark.estimators.occgp import OCCGP
from outlark.experiment import rivals
from outlark.experiment.describer_base import LEARNT, Describer
from outlark.maths.description import score


class NearestNeighbour(Describer):
    """The Euclidean distance to the nearest sample of the class.

    >>> model = NearestNeighbour(threshold=0.5).fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> model.class_scores([[0.0, 1.0], [0.0, 0.0]]).round(2)
    array([[1.  , 0.33],
           [0.5 , 0.5 ]])
    """

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", X, X))))
        self._nearest = [rivals.nearest_neighbour(X[labels == c]) for c in range(labels.max() + 1)]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([_alike(-score_of(X), self._unit) for score_of in self._nearest])


class ClassMahalanobis(Describer):
    """The Mahalanobis distance from the mean of the class, with its covariance shrunk as Ledoit and Wolf have it."""

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._distances = [rivals.mahalanobis(X[labels == c]) for c in range(labels.max() + 1)]
        silence = np.zeros((1, X.shape[1]))
        # A member lies √d from the mean. Where the mean is near the origin this is the larger of the two.
        self._units = [float(np.hypot(score_of(silence)[0], X.shape[1] ** 0.5)) for score_of in self._distances]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        found = zip(self._distances, self._units, strict=True)
        return np.column_stack([_alike(-score_of(X), unit) for score_of, unit in found])


class ClassSVM(Describer):
    """A one-class SVM for each class, ν = .1; with this kernel (RBF) it is the same as SVDD, a ball in feature space.

    The score is ``Σ α_i k(x_i, x) / ρ``: 1 at the border of the class, 0 far away.
    """

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._machines = [rivals.one_class_svm(X[labels == c]) for c in range(labels.max() + 1)]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([machine.score_samples(X) / machine.offset_[0] for machine in self._machines])


class IndependentOCCGP(Describer):
    """One `outlark.OCCGP` for each class, each with hyper-parameters of its own (Sec. 2.2): not commensurable.

    The score is MDD-KM's, ``-log √(d_c/σ_c²)``. Left-out scores are in closed form, with the hyper-parameters kept.

    Parameters
    ----------
    sigma, sigma_reg, metric, target
        As in `outlark.OCCGP`.
    threshold, quantile
        As in `Describer`.
    """

    def __init__(
        self,
        *,
        sigma: float | None = None,
        sigma_reg: float | str = "auto",
        metric: str = "auto",
        target: str = "centered",
        threshold: str | float | Sequence[float] | Mapping[Any, float] = LEARNT,
        quantile: float = 0.1,
    ) -> None:
        super().__init__(threshold=threshold, quantile=quantile)
        self.sigma = sigma
        self.sigma_reg = sigma_reg
        self.metric = metric
        self.target = target

    @classmethod
    def paper(cls) -> Self:
        """The settings of ``MDDKM.paper()``, with thresholds from left-out notes."""
        return cls(sigma_reg="condition", metric="euclidean", target="paper")

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        settings = {name: getattr(self, name) for name in ("sigma", "sigma_reg", "metric", "target")}
        rows = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
        if min(len(r) for r in rows) == 1:
            raise InputError(
                "a class has a single sample, of which no length scale can be learnt; give it a second one"
            )
        self._models = [OCCGP(**settings).fit(X[r], groups=notes[r]) for r in rows]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([score(-model.score_samples(X)) for model in self._models])

    def _left_out(
        self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray, parts: Sequence[Sequence[np.ndarray]]
    ) -> np.ndarray:
        found = np.full(len(X), np.nan)
        for c, model in enumerate(self._models):
            if len(parts[c]):
                found[labels == c] = score(-model.left_out_scores_)
        return found


class GPReject(Describer):
    """A Gaussian process classifier (Laplace), one class against the rest: its probabilities.

    They sum to 1, so what resembles nothing has about 1/C, not 0: far from all samples the process knows nothing.
    """

    needs_two_classes = True

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._classifier = rivals.gp_classifier(X, labels, notes)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return self._classifier.predict_proba(X)


class PlattReject(Describer):
    """For each class an SVM against the rest, with Platt's probability; they do not sum to 1.

    The sigmoids are fitted to decisions on notes that the SVM had not seen: shifted copies of one note are never on
    both sides. Where a class has one note, its samples have to be.
    """

    needs_two_classes = True

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._machines = rivals.platt_svm(X, labels, notes)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return rivals.membership_probabilities(self._machines, X)


def _alike(distances: np.ndarray, unit: float) -> np.ndarray:
    """From 1 at no distance through ½ at the unit towards 0."""
    return 1.0 / (1.0 + (distances / (unit or 1.0)) ** 2)
