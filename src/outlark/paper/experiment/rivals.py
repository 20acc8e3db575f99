"""The rivals of MDD-KM: class models that take its place in a detector, and template matching.

A class model stands in for MDD-KM in `LearntNoteDetector(class_model)`: samples in, class scores out. The more a sample
resembles a class the higher its score, and near 0 means that it resembles nothing. Distances d become
``1/(1 + (d/s)²)``: 1 at a training sample, ½ at the distance s of silence, which all front ends put at the origin. Each
class is modelled alone or against the others, so **the scores of two classes are not on one scale**, unlike those of
`outlark.MDDKM`. Settings are the usual ones for few samples in many dimensions, the same for all data.

`TemplateMatching` is a detector by itself. Its spectra, decisions and the way thresholds are learnt are those of
note-level detection, so only the score differs.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.ndimage import maximum_filter1d
from scipy.signal import oaconvolve
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import pairwise_distances
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.audio.sound import mono, resample
from outlark.detection.decisions import Decisions
from outlark.detection.detector import GAP_S
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.scores import ScoreBlock, ScoreLayout, Scores
from outlark.detection.training import Material, at_one_rate, check_annotations, check_material, join_clips
from outlark.errors import InputError
from outlark.estimators.occgp import OCCGP
from outlark.estimators.open_set import check_groups, class_thresholds, encode_labels
from outlark.features.base import Frames
from outlark.maths.description import one_blas_thread, score
from outlark.maths.notes import balanced_subset, leave_out_folds, leave_out_parts, merge_copies
from outlark.paper.learnt_thresholds import SEARCH_AROUND, SINGLE_NOTE_SHARE, note_thresholds, raised
from outlark.segments import Segment

LEARNT = "leave-note-out"
#: Refits without some of the notes, for the thresholds, and folds for Platt's sigmoid.
MAX_REFITS, PLATT_FOLDS = 10, 5
#: A covariance is shrunk at least this much: with two samples the rule of Ledoit and Wolf sees no need to.
LEAST_SHRINKAGE = 1e-3
#: A GP classifier costs the cube of the number of samples, for every class and step: it gets this many, evenly drawn.
GP_SAMPLES = 300
#: A patch weaker than this share of the strongest is rounding error and has no shape to compare.
LEAST_PATCH_NORM = 1e-4


class ClassModels(BaseEstimator):
    """What all rivals of MDD-KM share: `fit`, thresholds from left-out notes, and `class_scores`.

    The threshold "leave-note-out" is for each class the `quantile` of the scores of its samples under a model fitted
    without their note (without a block of samples where a class has a single note, which flatters it). A number saves
    the refits: note-level detectors have thresholds of their own.
    """

    needs_two_classes = False

    def __init__(self, *, threshold: str | float = LEARNT, quantile: float = 0.1) -> None:
        self.threshold = threshold
        self.quantile = quantile

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Model the classes; `groups` are note ids, by default one for each sample."""
        samples, targets = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(targets)
        self.classes_, labels = encode_labels(targets)
        notes = check_groups(groups, samples)
        if self.needs_two_classes and len(self.classes_) == 1:
            raise InputError(
                f"{type(self).__name__} separates classes from one another, but the only class is "
                f"{self.classes_.tolist()[0]!r}; give examples of a second one, or choose another method"
            )
        parts = note_parts(samples, labels, notes)
        learnt = isinstance(self.threshold, str)
        with one_blas_thread():
            self._fit(samples, labels, notes)
            left_out = self._left_out(samples, labels, notes, parts) if learnt else np.full(len(samples), np.nan)
            own = _own(self._scores(samples), labels)
        if learnt:
            self.left_out_note_scores_ = [np.array([left_out[note].mean() for note in of_class]) for of_class in parts]
        self.thresholds_ = class_thresholds(
            self.threshold,
            classes=self.classes_,
            left_out=[left_out[(labels == c) & ~np.isnan(left_out)] for c in range(len(self.classes_))],
            best_on_train=np.array([own[labels == c].max() for c in range(len(self.classes_))]),
            quantile=self.quantile,
        )
        return self

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """How much every sample resembles every class, at least 0, shape (n, C)."""
        check_is_fitted(self)
        return self._scores(validate_data(self, X, reset=False, dtype=np.float64))

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        raise NotImplementedError

    def _scores(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _left_out(
        self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray, parts: Sequence[Sequence[np.ndarray]]
    ) -> np.ndarray:
        """The score of each sample for its own class without its part, (n,); NaN where nothing can be left out."""
        found = np.full(len(X), np.nan)
        for out in leave_out_folds(parts, MAX_REFITS):
            kept = np.setdiff1d(np.arange(len(X)), out)
            refitted = clone(self)
            refitted._fit(X[kept], labels[kept], notes[kept])
            found[out] = _own(refitted._scores(X[out]), labels[out])
        return found


class NearestNeighbour(ClassModels):
    """The Euclidean distance to the nearest sample of the class.

    >>> model = NearestNeighbour(threshold=0.5).fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> model.class_scores([[0.0, 1.0], [0.0, 0.0]]).round(2)
    array([[1.  , 0.33],
           [0.5 , 0.5 ]])
    """

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", X, X))))
        self._of_class = [X[labels == c] for c in range(labels.max() + 1)]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([_similarity(pairwise_distances(X, c).min(axis=1), self._unit) for c in self._of_class])


class ClassMahalanobis(ClassModels):
    """The Mahalanobis distance from the mean of the class, with the covariance of Ledoit and Wolf."""

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._distances = [mahalanobis(X[labels == c]) for c in range(labels.max() + 1)]
        silence = np.zeros((1, X.shape[1]))
        # A member lies √d from the mean. Where the mean is near the origin this is the larger of the two.
        self._units = [float(np.hypot(distance(silence)[0], X.shape[1] ** 0.5)) for distance in self._distances]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        found = zip(self._distances, self._units, strict=True)
        return np.column_stack([_similarity(distance(X), unit) for distance, unit in found])


class ClassSVM(ClassModels):
    """A one-class SVM for each class, ν = .1; with this kernel (RBF) it is the same as SVDD, a ball in feature space.

    The score is ``Σ α_i k(x_i, x) / ρ``: 1 at the border of the class, 0 far away.
    """

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._machines = [one_class_svm(X[labels == c]) for c in range(labels.max() + 1)]

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([machine.score_samples(X) / machine.offset_[0] for machine in self._machines])


class IndependentOCCGP(ClassModels):
    """One `outlark.OCCGP` for each class, each with its own hyper-parameters (Sec. 2.2): not commensurable.

    The score is MDD-KM's, ``-log √(d_c/σ_c²)``. Left-out scores are in closed form, with the hyper-parameters kept.
    `sigma`, `sigma_reg`, `metric` and `target` are those of `outlark.OCCGP`.
    """

    def __init__(
        self,
        *,
        sigma: float | None = None,
        sigma_reg: float | str = "auto",
        metric: str = "auto",
        target: str = "centered",
        threshold: str | float = LEARNT,
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
            raise InputError("a class has a single sample, too few to learn a length scale; give it a second one")
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


class GPReject(ClassModels):
    """Probabilities of a GP classifier. They sum to 1, so a sample that resembles nothing has about 1/C, not 0."""

    needs_two_classes = True

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._classifier = gp_classifier(X, labels, notes)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return self._classifier.predict_proba(X)


class PlattReject(ClassModels):
    """For each class an SVM against the rest, with Platt's probability; they do not sum to 1."""

    needs_two_classes = True

    def _fit(self, X: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._machines = platt_svm(X, labels, notes)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return membership_probabilities(self._machines, X)


def mahalanobis(X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The Mahalanobis distance from the mean, or the Euclidean one where all samples are the same."""
    mean = X.mean(axis=0)
    S = (X - mean).T @ (X - mean) / len(X)
    shrinkage = max(float(ledoit_wolf_shrinkage(X)) if len(X) > 1 else 1.0, LEAST_SHRINKAGE)
    variance = float(np.trace(S)) / len(S)
    covariance = (1.0 - shrinkage) * S + shrinkage * variance * np.eye(len(S))
    root = np.eye(len(S)) if variance == 0.0 else solve_triangular(cholesky(covariance).T, np.eye(len(S)), lower=True)
    return partial(_length, mean, root)


def one_class_svm(X: np.ndarray) -> OneClassSVM:
    """ν = .1 and scikit-learn's default width; the zero of its decision function is the border of the class."""
    return OneClassSVM(gamma="scale", nu=0.1).fit(X)


def gp_classifier(X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> GaussianProcessClassifier:
    """Laplace GP classifiers, one against the rest; amplitude and length scale by marginal likelihood."""
    notes = np.arange(len(X)) if groups is None else groups
    rows = balanced_subset(y, notes, GP_SAMPLES, np.random.default_rng(0))
    start = float(np.median(pairwise_distances(X[rows]))) or 1.0
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(start, (start / 30, start * 30))
    classifier = GaussianProcessClassifier(kernel, random_state=0, copy_X_train=False)
    with warnings.catch_warnings():
        # A kernel parameter at the end of its range, where the likelihood is flat: the fit is as good as it gets.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.fit(X[rows], y[rows])


def platt_svm(X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> list[CalibratedClassifierCV]:
    """For each class an SVM against the rest, whose decisions Platt's sigmoid turns into a probability.

    Unlike the votes between pairs of classes of scikit-learn's multi-class SVM, these margins fall far away from a
    class. With groups the sigmoid is fitted to decisions on held-out notes; five stratified folds otherwise.
    """
    folds = None
    if groups is not None:
        _, number, counts = np.unique(y, return_inverse=True, return_counts=True)
        single = np.flatnonzero(counts[number] == 1)  # cannot be held out and kept: it is doubled
        X, y, groups = (np.concatenate([values, values[single]]) for values in (X, y, groups))
        every = np.arange(len(X))
        folds = [(np.setdiff1d(every, out), out) for out in leave_out_folds(note_parts(X, y, groups), PLATT_FOLDS)]
    machine = CalibratedClassifierCV(SVC(C=10.0, gamma="scale"), method="sigmoid", ensemble=False, cv=folds)
    return [clone(machine).fit(X, y == label) for label in np.unique(y)]


def membership_probabilities(machines: Sequence[CalibratedClassifierCV], X: np.ndarray) -> np.ndarray:
    return np.column_stack([machine.predict_proba(X)[:, 1] for machine in machines])


def note_parts(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[list[np.ndarray]]:
    """For each class the rows of each note with its copies; blocks of samples of a single note, nothing of a sample."""
    found = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rows = rows[np.argsort(groups[rows], kind="stable")]
        found.append([np.sort(rows[part]) for part in leave_out_parts(merge_copies(X[rows], groups[rows]))])
    return found


def _length(mean: np.ndarray, root: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.linalg.norm((Z - mean) @ root.T, axis=1)


def _similarity(distances: np.ndarray, unit: float) -> np.ndarray:
    """From 1 at no distance through ½ at the unit towards 0."""
    return 1.0 / (1.0 + (distances / (unit or 1.0)) ** 2)


def _own(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The score of each sample for its own class."""
    return scores[np.arange(len(labels)), labels]


class Template(NamedTuple):
    """An example: its spectra (n, bands), its class, and where it comes from (recording, first frame)."""

    spectra: np.ndarray
    label: Any
    recording: int
    start: int


class TemplateMatching(BaseEstimator):
    """Every example slides along the recording; the best normalised cross-correlation is the score of its class.

    `threshold` is the same for all classes; by default thresholds are learnt from the training recordings.
    """

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def fit(self, clips: Sequence[ArrayLike], labels: Sequence[Any], sample_rate: int) -> Self:
        return self._fit(join_clips([mono(c) for c in clips], list(labels), sample_rate, GAP_S))

    def fit_recordings(
        self,
        recordings: Sequence[ArrayLike],
        segments: Sequence[Iterable[Segment]],
        sample_rate: int | Sequence[int],
    ) -> Self:
        """Learn from notes annotated in longer recordings."""
        rates = np.broadcast_to(sample_rate, len(recordings)).tolist()
        annotations = check_annotations(segments, len(recordings))
        return self._fit(at_one_rate([mono(r) for r in recordings], rates, annotations, min(rates)))

    def detect(self, audio: ArrayLike, sample_rate: int) -> list[Segment]:
        """The segments of a recording, in samples at the rate of the training recordings."""
        check_is_fitted(self)
        samples = resample(mono(audio), sample_rate, self.front_end_.sample_rate_)
        block = self._scores(self.front_end_.transform(samples))
        return Decisions().decide(Scores(layout=self.layout_, block=block, n_samples=len(samples)))

    def _fit(self, material: Material) -> Self:
        check_material(material)
        self.front_end_ = choose_front_end(material).front_end.fit(material.recordings, material.sample_rate)
        transform = self.front_end_.transform_clips if material.clips else self.front_end_.transform
        frames = [transform(recording) for recording in material.recordings]
        self.classes_ = sorted({segment.label for _, segment in material.notes})
        self.templates_ = [_template(frames[r], r, s, self.front_end_.hop_samples_) for r, s in material.notes]
        thresholds: Any = self.threshold
        if thresholds is None:
            own = [self._left_out_scores(label, frames) for label in self.classes_]
            thresholds = raised(note_thresholds(own, self._scores_of_the_rest(frames)))
        durations = [[s.duration_s for _, s in material.notes if s.label == label] for label in self.classes_]
        self.layout_ = ScoreLayout(
            classes=np.array(self.classes_),
            thresholds=np.broadcast_to(thresholds, len(self.classes_)).astype(float),
            sample_rate=material.sample_rate,
            hop_samples=self.front_end_.hop_samples_,
            offset_samples=self.front_end_.offset_samples_,
            shortest_s=np.array([min(d) for d in durations]),
            longest_s=np.array([max(d) for d in durations]),
        )
        return self

    def _scores(self, frames: Frames) -> ScoreBlock:
        """For every start and class the best example and its length."""
        values = np.zeros((len(frames), len(self.classes_)))
        lengths = np.ones(values.shape, dtype=np.int64)
        for template in self.templates_:
            c = self.classes_.index(template.label)
            found = correlations(frames.features, template.spectra)
            better = np.flatnonzero(found > values[: len(found), c])
            values[better, c], lengths[better, c] = found[better], len(template.spectra)
        return ScoreBlock(values, frames.activity, lengths)

    def _left_out_scores(self, label: Any, frames: Sequence[Frames]) -> np.ndarray:
        """The best score that the other examples of its class give each example near its annotation."""
        examples = [t for t in self.templates_ if t.label == label]
        if len(examples) == 1:
            return np.array([SINGLE_NOTE_SHARE])
        found = []
        for example in examples:
            slack = int(SEARCH_AROUND * len(example.spectra)) + 1
            others = [t.spectra for t in examples if t is not example]
            spectra = frames[example.recording].features
            found.append(max(_best_near(spectra, other, example.start, slack) for other in others))
        return np.array(found)

    def _scores_of_the_rest(self, frames: Sequence[Frames]) -> list[np.ndarray]:
        """For each class the peaks of its scores in the training recordings outside its annotated notes."""
        found = [[np.zeros(1)] for _ in self.classes_]
        for r, recording in enumerate(frames):
            values = self._scores(recording).values
            for c, label in enumerate(self.classes_):
                column, examples = values[:, c].copy(), [t for t in self.templates_ if t.label == label]
                for t in (t for t in examples if t.recording == r):
                    column[max(0, t.start - len(t.spectra)) : t.start + len(t.spectra) + 1] = 0.0
                width = min(len(t.spectra) for t in examples) | 1
                found[c].append(column[(column > 0.0) & (column == maximum_filter1d(column, width))])
        return [np.concatenate(peaks) for peaks in found]


def correlations(spectra: np.ndarray, template: np.ndarray) -> np.ndarray:
    """Normalised cross-correlation of the template (n, bands) with every patch of the spectra; 0 where it is flat.

    >>> ramp = np.arange(6.0)[:, np.newaxis]
    >>> correlations(ramp, ramp[2:4]).round(6)
    array([1., 1., 1., 1., 1.])
    """
    n, size = len(template), template.size
    if len(spectra) < n:
        return np.empty(0)
    shape = template - template.mean()
    shape /= max(float(np.linalg.norm(shape)), LEAST_PATCH_NORM)
    products = oaconvolve(spectra, shape[::-1], mode="valid", axes=0).sum(axis=1)
    sums, squares = _sums_over(spectra.sum(axis=1), n), _sums_over(np.einsum("ij,ij->i", spectra, spectra), n)
    norms = np.sqrt(np.maximum(squares - sums**2 / size, 0.0))
    audible = norms > LEAST_PATCH_NORM * max(norms.max(), LEAST_PATCH_NORM)
    return np.divide(products, norms, out=np.zeros(len(products)), where=audible)


def _sums_over(values: np.ndarray, n: int) -> np.ndarray:
    totals = np.concatenate([[0.0], np.cumsum(values)])
    return totals[n:] - totals[:-n]


def _template(frames: Frames, recording: int, segment: Segment, hop: int) -> Template:
    start = min(round(segment.start / hop), len(frames) - 1)
    end = max(round(segment.end / hop), start + 1)
    return Template(frames.features[start:end], segment.label, recording, start)


def _best_near(spectra: np.ndarray, template: np.ndarray, start: int, slack: int) -> float:
    """The best score of the template at a start within `slack` frames."""
    first = max(0, start - slack)
    found = correlations(spectra[first : start + slack + len(template)], template)
    return float(found.max(initial=0.0))
