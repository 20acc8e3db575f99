"""MDD-KM as a scikit-learn classifier (Sec. 3, Alg. 1)."""

import copy
import numbers
import warnings
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.checks import (
    check_choice,
    check_groups,
    check_hyper_parameters,
    check_magnitude,
    check_memory,
    check_one_kind,
    encode_labels,
    refuse,
    single_note_message,
)
from outlark.estimators.evidence import Evidence, Health, evidence, examine, plain
from outlark.estimators.open_set import OpenSetMixin, check_outlier_label, class_thresholds, temperature
from outlark.maths.choice import RATIOS, Trial, choose
from outlark.maths.description import Description, describe, left_out_scores, score, scores
from outlark.maths.gp import learn, ratio_from_condition, target
from outlark.maths.metric import feature_map, mapped
from outlark.maths.notes import balanced_subset, draw_notes, leave_out_parts, merge_copies
from outlark.maths.robust import trim
from outlark.maths.scoring import Distances
from outlark.maths.size import Setting, size_factor, size_of, smallest
from outlark.maths.threads import one_blas_thread

#: Samples on which the metric and the regulariser are chosen.
CHOICE_SAMPLES = 300
#: The largest share of a class's notes that ``trim=True`` leaves out.
TRIM_SHARE = 0.2
#: "Well-conditioned" (Alg. 1, caption) for the method to the letter. Its τ = 1.8/μ is of use only where μ, the best
#: score of a training frame, is between 2 and 3: far above, everything is accepted, below 1.34 nothing. This bound
#: gives 2.4 (docs/decisions/006-made-up-notes.md).
PAPER_CONDITION = 1e3
#: What is prepared for scoring, for models that have been used: made once, and not part of them.
_KEPT: "WeakKeyDictionary[MDDKM, Distances]" = WeakKeyDictionary()


class MDDKM(OpenSetMixin, ClassifierMixin, BaseEstimator):
    r"""Multiclass data description by kernel Mahalanobis distance.

    Every class is described on its own, in one feature space that all share, so that the scores of all classes lie on
    one scale and a sample that resembles none of them scores 0 for each:

    .. math:: score_c(x) = -\log\sqrt{d_c(x)/σ²},\quad
              d_c(x) = κ(x, x) - κ(X_c, x)ᵀ (κ(X_c, X_c) + σ_{reg}² I)^{-1} κ(X_c, x)

    with ``κ(a, b) = σ² exp(-‖a - b‖²/ℓ²)``. ``MDDKM.paper()`` is the method to the letter of the paper; the defaults
    are what works best (docs/decisions say what differs and why).

    Parameters
    ----------
    sigma, length_scale : float, optional
        σ and ℓ in the paper's meaning; learnt by minimising the cost (Eq. 7) when left out.
    sigma_reg : "auto", "condition" or float
        σ_reg. "auto" chooses the ratio σ_reg²/σ² by leave-note-out among a few; "condition" takes the smallest that
        keeps the condition number of the kernel matrix below `condition` (the caption of Alg. 1).
    metric : "auto", "euclidean", "within" or "whiten"
        "euclidean" takes features as they are; "within" divides each by its spread within the classes; "whiten" undoes
        their covariance within the classes. "auto" chooses by leaving notes out; it means "euclidean" when σ, ℓ or
        σ_reg is given, because these are in the units of X.
    target : "centered" or "paper"
        y of Eq. (8): ``‖x - x̄‖²``, which does not depend on where the origin lies, or ``xᵀx``.
    center : bool
        Centre the kernel in the feature space: the distance is then the kernel Mahalanobis distance proper.
    balance : "size", "subsample" or None
        What to do about classes of different size, which score differently for that reason alone. "size" corrects the
        scores; "subsample" keeps as many notes and samples of each class as the smallest has; None is the paper.
    trim : bool or float
        Leave out odd and mislabelled training notes, at most this share of a class (True: 0.2). Classes with fewer
        than 8 notes are never trimmed. `health` reports them in any case.
    threshold : "leave-note-out", "paper", "paper-normalized", "paper-raw", float, sequence or mapping
        Where a class begins to accept; see `outlark.estimators.open_set.class_thresholds`. Takes effect in `fit`.
    quantile : float
        For "leave-note-out": the share of new samples of a class that may fall below its threshold; with fewer than
        1/quantile - 1 training samples it is 1/(n + 1) on average, and varies a good deal.
    outlier_label : label, optional
        What `predict` answers when no class accepts the sample. None: always one of the classes.
    condition : float
        Bound on the condition number of the kernel matrix. At 1e8 the scores are the same to 1e-6 on any BLAS; at 1e10
        no longer (docs/decisions).
    precision : "double" or "single"
        "single" scores about twice as fast, with an error in the score of typically 1e-5 and at worst 1e-3. It changes
        nothing for large classes or a small ρ, where the error would be larger.
    max_samples : int
        Hyper-parameters are learnt on at most this many samples, evenly from the classes. All samples describe.
    random_state : int
        Seed of the subsets that are drawn.

    Attributes
    ----------
    classes_ : ndarray (C,)
    sigma_, length_scale_, sigma_reg_ : float
        The learnt Θ; `length_scale_` is in the units of the metric.
    metric_ : str
    feature_map_ : ndarray (d,) or (d, d)
        What the features are multiplied by before distances are taken.
    thresholds_ : ndarray (C,)
    size_factors_ : ndarray (C,)
        What the score of each class is multiplied by on account of its size.
    descriptions_ : list of Description
    left_out_scores_ : list of ndarray
        For each class, the scores of its training samples under a description without their note.
    left_out_note_scores_ : list of ndarray
        The same, averaged over each note.
    trials_ : list of Trial
        The settings that were tried and their leave-note-out AUC.
    trimmed_ : list of (label, note)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MDDKM(outlier_label=-1).fit(X[y < 2], y[y < 2])
    >>> model.predict([[5.0, 3.4, 1.5, 0.2], [9.0, 9.0, 9.0, 9.0]])
    array([ 0, -1])
    >>> model.verdicts([[5.0, 3.4, 1.5, 0.2], [9.0, 9.0, 9.0, 9.0]]).tolist()
    ['known', 'unknown']
    """

    descriptions_: list[Description]
    notes_: list[np.ndarray]
    size_factors_: np.ndarray

    def __init__(
        self,
        *,
        sigma: float | None = None,
        length_scale: float | None = None,
        sigma_reg: float | str = "auto",
        metric: str = "auto",
        target: str = "centered",
        center: bool = False,
        balance: str | None = "size",
        trim: bool | float = False,
        threshold: Any = "leave-note-out",
        quantile: float = 0.1,
        outlier_label: Any = None,
        condition: float = 1e8,
        precision: str = "double",
        max_samples: int = 2000,
        random_state: int = 0,
    ) -> None:
        self.sigma = sigma
        self.length_scale = length_scale
        self.sigma_reg = sigma_reg
        self.metric = metric
        self.target = target
        self.center = center
        self.balance = balance
        self.trim = trim
        self.threshold = threshold
        self.quantile = quantile
        self.outlier_label = outlier_label
        self.condition = condition
        self.precision = precision
        self.max_samples = max_samples
        self.random_state = random_state

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """The method to the letter: Alg. 1 with σ_reg from a condition bound, nothing balanced, τ = 1.8/μ."""
        literal: dict[str, Any] = {
            "sigma_reg": "condition",
            "condition": PAPER_CONDITION,
            "metric": "euclidean",
            "target": "paper",
            "balance": None,
            "threshold": "paper",
        }
        return cls(**(literal | parameters))

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, **unused: Any) -> Self:
        """Learn Θ from all classes together, then describe each class (Alg. 1).

        Parameters
        ----------
        X : array-like (n, d)
        y : array-like (n,)
            Class labels.
        groups : array-like (n,), optional
            Note ids: samples of one note are left out together. Left out: every sample is a note of its own.

        Raises
        ------
        InputError
            When a parameter or the data cannot be used; the message says which and what to do.
        """
        refuse(unused, self)
        check_hyper_parameters(self)
        check_choice(self, "balance", ("size", "subsample", None))
        check_choice(self, "precision", ("double", "single"))
        if not isinstance(self.trim, bool | numbers.Real) or not 0.0 <= float(self.trim) <= 1.0:
            raise InputError(f"trim={self.trim!r} must be True, False or a share between 0 and 1")
        check_one_kind(y)
        samples, targets = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        self.classes_, labels = encode_labels(targets)
        check_classification_targets(targets)
        check_magnitude(samples)
        check_outlier_label(self.outlier_label, self.classes_)
        notes = check_groups(groups, samples)
        sizes = np.bincount(labels)
        subsampled = self.balance == "subsample" and not self.trim
        check_memory((np.minimum(sizes, sizes.min()) if subsampled else sizes).tolist(), self.classes_.tolist())

        with one_blas_thread():
            self._fit(samples, labels, notes)
        return self

    def distances(self, X: ArrayLike) -> np.ndarray:
        """d_c of Eq. (11), shape (n, C): low = near; σ² far from everything."""
        return self.sigma_**2 * self._unit_distances(X)

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """``-log √(d_c/σ²)``, shape (n, C), corrected for class size (`size_factors_`): 0 = resembles nothing."""
        d = self._unit_distances(X)
        return score(d, np.array([description.far for description in self.descriptions_])) * self.size_factors_

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        r"""How probable each class is, shape (n, C), with "none of these" as one more answer.

        .. math:: P(c|x) = \frac{e^{s_c/T}}{\sum_b e^{s_b/T} + e^{τ/T}},\quad P(none|x) = 1 - \sum_c P(c|x)

        "None of these" scores what the best class needs to accept, τ; T is the one number with which left-out training
        samples are accepted with the highest probability. No unknowns are used, so the mass of "none" is what it would
        be if unknowns were as frequent as a class; where they are rarer or more frequent, it is too large or too small.

        With ``outlier_label=None`` there is no such answer and the rows sum to one. Otherwise they sum to less, and
        what is missing is the probability of `outlier_label`.

        Raises
        ------
        InputError
            When no training sample could be left out.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [6.0]], 20, axis=0)
        >>> model = MDDKM(outlier_label="none").fit(X, np.repeat(["a", "b"], 20))
        >>> model.predict_proba([[0.0, 0.0], [6.0, 6.0], [99.0, 0.0]]).round(1)
        array([[1., 0.],
               [0., 1.],
               [0., 0.]])
        """
        class_scores = self.class_scores(X)
        needed = self.thresholds_[class_scores.argmax(axis=1)]
        if self.outlier_label is None:
            needed = np.full(len(class_scores), -np.inf)
        T = temperature(self.left_out_scores_, self.thresholds_)
        exponents = np.column_stack([class_scores, needed]) / T
        return softmax(exponents, axis=1)[:, :-1]

    def explain(self, X: ArrayLike, n_notes: int = 3) -> list[list[Evidence]]:
        """For each sample the training notes of its best class that speak most for it, with their share of the score.

        The shares of all notes of the class sum to one.
        """
        best = self.class_scores(X).argmax(axis=1)
        Z = self._validated(X)
        found: list[list[Evidence]] = [[] for _ in Z]
        for c in np.unique(best):
            rows = np.flatnonzero(best == c)
            told = evidence(plain(self.classes_[c]), self.descriptions_[c], self.notes_[c], Z[rows])
            for row, notes in zip(rows, told, strict=True):
                found[row] = notes[:n_notes]
        return found

    def plain_samples(self) -> list[np.ndarray] | None:
        """The samples (n, d) of each class as they were given, if scores depend on nothing but distances to them.

        None for a metric that changes distances, and for a centred kernel.
        """
        check_is_fitted(self)
        if self.center or self.feature_map_.ndim != 1 or (self.feature_map_ != 1.0).any():
            return None
        return [description.X + self._origin for description in self.descriptions_]

    def health(self) -> Health:
        """What is odd about the training notes: left-out scores, suspected mislabels, duplicates, class overlap."""
        check_is_fitted(self)
        return examine(self.classes_, self.descriptions_, self.notes_, self.size_factors_, self.thresholds_)

    def add_class(self, X: ArrayLike, name: Any, groups: ArrayLike | None = None) -> Self:
        """Describe one more class with Θ frozen: the scores of the other classes do not move."""
        Z = self._validated(X)
        if any(name == c for c in self.classes_.tolist()):
            raise InputError(f"{name!r} is a class already; use add_note to give it more examples")
        check_outlier_label(self.outlier_label, np.array([name]))
        if isinstance(name, str) != isinstance(self.classes_.tolist()[0], str):
            raise InputError(f"{name!r} is not of the kind of the classes {self.classes_.tolist()}; name it alike")
        every = sorted([*self.classes_.tolist(), name])
        classes = np.array(every, dtype=object if self.classes_.dtype.kind == "O" else None)
        c = every.index(name)
        return self._take_in(slice(c, c), Z, check_groups(groups, Z), classes)

    def add_note(self, X: ArrayLike, name: Any, note: Any = None) -> Self:
        """Give class `name` one more training note with Θ frozen: the scores of the other classes do not move.

        `note` is the id of the note; a fresh one is made up when it is left out.
        """
        Z = self._validated(X)
        if name not in self.classes_.tolist():
            raise InputError(f"{name!r} is not one of the classes {self.classes_.tolist()}; use add_class")
        c = self.classes_.tolist().index(name)
        notes = self.notes_[c]
        if note is None:
            note = np.max(notes) + 1 if notes.dtype.kind in "iuf" else f"added-{len(np.unique(notes))}"
        if np.any(notes == note):
            raise InputError(f"class {name!r} has a note {note!r} already; give the new note an id of its own")
        samples = np.concatenate([self.descriptions_[c].X, Z])
        return self._take_in(slice(c, c + 1), samples, np.concatenate([notes, np.full(len(Z), note)]), self.classes_)

    # ------------------------------------------------------------------ inside

    def _fit(self, samples: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        self._choose_metric_and_ratio(samples, labels, notes)
        self._learn(samples, labels, notes)
        if self.trim:  # it judges notes by the descriptions that they make
            self._describe_classes(self._mapped(samples), labels, notes)
        kept = self._kept_rows(labels, notes)
        if self.trim and len(kept) < len(samples):
            self._learn(samples[kept], labels[kept], notes[kept])
        if not self.trim or len(kept) < len(samples):
            self._describe_classes(self._mapped(samples[kept]), labels[kept], notes[kept])
        self._calibrate()

    def _describe_classes(self, Z: np.ndarray, labels: np.ndarray, notes: np.ndarray) -> None:
        """Alg. 1, line 7: every class on its own, and what its size does to its score."""
        C = range(len(self.classes_))
        self.descriptions_ = [self._described(Z[labels == c]) for c in C]
        self.notes_ = [notes[labels == c] for c in C]
        # A note and its copies are left out together.
        self._together = [merge_copies(self.descriptions_[c].X, self.notes_[c]) for c in C]
        sizes = [size_of(together) for together in self._together]
        # A single note is no size to compare at: nothing of its kind can be left out.
        self.reference_size_ = smallest([size for size in sizes if size.n_notes > 1] or sizes)
        self.size_factors_ = np.array([self._size_factor(c) for c in C])

    def _take_in(self, place: slice, Z: np.ndarray, notes: np.ndarray, classes: np.ndarray) -> Self:
        """Put a class made of Z in the place of one class, or of none, and leave the others alone."""
        new = copy.copy(self)  # changed aside: whatever goes wrong, this model stays as it was
        with one_blas_thread():
            for name, entry in (
                ("descriptions_", self._described(Z)),
                ("notes_", notes),
                ("_together", merge_copies(Z, notes)),
            ):
                entries = list(getattr(self, name))
                entries[place] = [entry]
                setattr(new, name, entries)
            factors = self.size_factors_.tolist()
            factors[place] = [new._size_factor(place.start)]
            new.size_factors_, new.classes_ = np.array(factors), classes
            new._calibrate()
        self.__dict__.update(new.__dict__)
        return self

    def _described(self, Z: np.ndarray) -> Description:
        return describe(Z, *self._kernel, self.center)

    def _choose_metric_and_ratio(self, X: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> None:
        """Set `metric_` and `_ratio` (None: σ_reg is given); by leave-note-out where they are "auto"."""
        given = (self.sigma, self.length_scale, None if isinstance(self.sigma_reg, str) else self.sigma_reg)
        metric = "euclidean" if self.metric == "auto" and any(v is not None for v in given) else self.metric
        self.trials_: list[Trial] = []
        if not isinstance(self.sigma_reg, str):
            self.metric_, self._ratio = metric, None
            return
        floor = ratio_from_condition(len(X), self.condition)
        ratios = (*(r for r in RATIOS if r > floor), floor) if self.sigma_reg == "auto" else (floor,)
        rng = np.random.default_rng(self.random_state)
        apart = np.empty(len(X), int)
        for c in range(len(self.classes_)):
            own = labels == c
            apart[own] = np.unique(merge_copies(X[own], groups[own]), return_inverse=True)[1]
        rows = balanced_subset(labels, apart, max(CHOICE_SAMPLES, 4 * len(self.classes_)), rng)
        winner, self.trials_ = choose(
            X[rows],
            labels[rows],
            apart[rows],
            metric=metric,
            ratios=ratios,
            target_of=self._target,
            fixed={"sigma": self.sigma, "length_scale": self.length_scale},
            rng=rng,
        )
        self.metric_, self._ratio = winner.metric, winner.ratio

    def _learn(self, X: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> None:
        """Alg. 1, lines 2-6: Θ from the samples of all classes."""
        self.feature_map_ = feature_map(self.metric_, X, labels)
        self._origin = X.mean(axis=0)
        rows = balanced_subset(labels, groups, self.max_samples, np.random.default_rng(self.random_state))
        theta = learn(
            self._mapped(X[rows]),
            y=self._target(mapped(X[rows], self.feature_map_)),
            ratio=self._ratio,
            sigma=self.sigma,
            length_scale=self.length_scale,
            sigma_reg=None if isinstance(self.sigma_reg, str) else float(self.sigma_reg),
        )
        self.sigma_, self.length_scale_, self.sigma_reg_ = theta

    def _target(self, Z: np.ndarray) -> np.ndarray:
        return target(Z if self.target == "paper" else Z - Z.mean(axis=0))

    def _kept_rows(self, labels: np.ndarray, notes: np.ndarray) -> np.ndarray:
        """The rows that describe: all of them but for `trim` and ``balance="subsample"``."""
        rows = [np.flatnonzero(labels == c) for c in range(len(self.classes_))]
        self.trimmed_: list[tuple[Any, Any]] = []
        if self.trim:
            share = TRIM_SHARE if self.trim is True else float(self.trim)
            kept = trim(self.descriptions_, self.notes_, self.size_factors_, self._described, share)
            for label, r, k in zip(self.classes_.tolist(), rows, kept, strict=True):
                self.trimmed_ += [(label, note) for note in np.setdiff1d(notes[r], notes[r[k]]).tolist()]
            rows = [r[k] for r, k in zip(rows, kept, strict=True)]
        if self.balance == "subsample":
            size = smallest([size_of(notes[r]) for r in rows])
            rng = np.random.default_rng(self.random_state)
            rows = [r[draw_notes(notes[r], size.n_notes, size.n_samples, rng)] for r in rows]
        return np.sort(np.concatenate(rows))

    def _size_factor(self, c: int) -> float:
        """What the score of class c is multiplied by; see `outlark.maths.size`."""
        if self.balance != "size":
            return 1.0
        samples = [description.X for description in self.descriptions_]
        setting = Setting(*self._kernel, self.center, self.random_state)
        return size_factor(c, samples, self._together, self.reference_size_, setting)

    def _calibrate(self) -> None:
        """Left-out scores of all training samples, and the thresholds that follow from them."""
        self.left_out_scores_, self.left_out_note_scores_, best_on_train = [], [], []
        learnt = isinstance(self.threshold, str) and self.threshold == "leave-note-out"
        for c, description in enumerate(self.descriptions_):
            if learnt and len(np.unique(self.notes_[c])) == 1:
                message = single_note_message(self.classes_[c], len(self.notes_[c]))
                warnings.warn(message, UserWarning, stacklevel=4)  # where fit, add_class or add_note was called
            parts = leave_out_parts(self._together[c])
            left_out = self.size_factors_[c] * (left_out_scores(description, parts) if parts else np.empty(0))
            self.left_out_scores_.append(left_out)
            self.left_out_note_scores_.append(np.array([left_out[G].mean() for G in parts]))
            best_on_train.append(self.size_factors_[c] * scores(description, description.X).max())
        self.thresholds_ = class_thresholds(
            self.threshold,
            classes=self.classes_,
            left_out=self.left_out_scores_,
            best_on_train=np.array(best_on_train),
            quantile=self.quantile,
            log_sigma=float(np.log(self.sigma_)),
        )

    @property
    def _kernel(self) -> tuple[float, float]:
        """ℓ and ρ, all that a description needs."""
        return self.length_scale_, (self.sigma_reg_ / self.sigma_) ** 2

    def _mapped(self, X: np.ndarray) -> np.ndarray:
        return mapped(X - self._origin, self.feature_map_)

    def _validated(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self._mapped(validate_data(self, X, dtype=np.float64, reset=False))

    def _unit_distances(self, X: ArrayLike) -> np.ndarray:
        Z, single = self._validated(X), self.precision == "single"
        kept = _KEPT.get(self)
        if kept is None or kept.descriptions is not self.descriptions_ or kept.single != single:
            kept = _KEPT[self] = Distances(self.descriptions_, single=single)
        return kept(Z)
