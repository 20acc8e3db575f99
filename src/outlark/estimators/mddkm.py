"""MDD-KM as a scikit-learn classifier (Sec. 3, Alg. 1)."""

import numbers
import warnings
from collections.abc import Sequence
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.estimators.health import Evidence, Health, evidence, examine
from outlark.estimators.open_set import (
    OpenSetMixin,
    check_choice,
    check_groups,
    check_magnitude,
    check_memory,
    check_one_kind,
    check_outlier_label,
    encode_labels,
    refuse,
    temperature,
)
from outlark.estimators.training import doubts, taken_in, train
from outlark.maths.description import Distances, OneClass, mapped, one_blas_thread, score
from outlark.maths.landmarks import Setting
from outlark.maths.odds import distance_score, log_odds

#: "Well-conditioned" (Alg. 1, caption) for the method as published. Its τ = 1.8/μ is only useful where μ, the best
#: score of a training frame, is between 2 and 3: far above, everything is accepted, below 1.34 nothing. This bound
#: gives 2.4 (docs/decisions/006-synthetic-notes.md).
PAPER_CONDITION = 1e3
#: Prepared scorers of models that have been used, kept outside the models.
_PREPARED_SCORERS: "WeakKeyDictionary[MDDKM, Distances]" = WeakKeyDictionary()


class MDDKM(OpenSetMixin, ClassifierMixin, BaseEstimator):
    r"""Multiclass data description by kernel Mahalanobis distance.

    Every class is described on its own, in one feature space that all share, so that the scores of all classes lie on
    one scale and a sample that resembles none of them scores 0 for each:

    .. math:: score_c(x) = -\log\sqrt{d_c(x)/σ²},\quad
              d_c(x) = κ(x, x) - κ(X_c, x)ᵀ (κ(X_c, X_c) + σ_{reg}² I)^{-1} κ(X_c, x)

    with ``κ(a, b) = σ² exp(-‖a - b‖²/ℓ²)``. With one class there are no others to choose the metric by: it is local, ℓ
    follows from the likelihood of left-out samples, and scores are log odds, which go on falling far away
    (docs/decisions/017-one-class.md). ``MDDKM.paper()`` is the method as published; the defaults are what
    works best (docs/decisions says what differs and why).

    Parameters
    ----------
    sigma, length_scale : float, optional
        σ and ℓ in the paper's meaning; learnt by minimising the cost (Eq. 7) by default, ℓ of one class in the local
        metric by left-out likelihood (`outlark.maths.local`).
    sigma_reg : "auto", "condition" or float
        σ_reg. "auto" chooses the ratio σ_reg²/σ² by leave-note-out among a few; "condition" takes the smallest that
        keeps the condition number of the kernel matrix below `condition` (the caption of Alg. 1).
    metric : "auto", "global", "local", "euclidean", "within" or "whiten"
        "euclidean" takes features as they are; "within" divides each by its spread within the classes; "whiten" undoes
        their covariance within the classes, "local" that of the differences between neighbours, in part; with it scores
        are log odds. "global" chooses among the first three by leaving notes out, and with one class takes "within"
        where units seem to differ. "auto" is "local" with one class and "global" with several; it is "euclidean"
        when σ, ℓ or σ_reg is given, because these are in the units of X.
    target : "centered" or "paper"
        y of Eq. (8): ``‖x - x̄‖²``, which does not depend on where the origin lies, or ``xᵀx``.
    center : bool
        Centre the kernel in the feature space: the distance is then the kernel Mahalanobis distance proper.
    balance : "size", "subsample" or None
        How to treat classes of different size, which score differently for that reason alone. "size" corrects the
        scores; "subsample" keeps as many notes and samples of each class as the smallest has; None is the paper.
    trim : bool or float
        Drop odd and mislabelled training notes, at most this share of a class (True: 0.2). Classes with fewer than 8
        notes are never trimmed. `health` reports such notes in any case.
    threshold : "leave-note-out", "paper", "paper-normalized", "paper-raw", float, sequence or mapping
        The score from which a class accepts; see `outlark.estimators.open_set.class_thresholds`. Takes effect in `fit`.
    quantile : float
        For "leave-note-out": the share of new samples of a class that may fall below its threshold; with fewer than
        1/quantile - 1 training samples it is 1/(n + 1) on average, and varies a good deal.
    outlier_label : label, optional
        What `predict` answers when no class accepts the sample. None: always one of the classes.
    condition : float
        Bound on the condition number of the kernel matrix. At 1e8 the scores agree to 1e-6 on any BLAS; at 1e10 no
        longer (docs/decisions).
    landmarks : "auto", int or None
        The number of samples that describe a class. All n of them cost n³ time and n² memory; m landmarks cost n m² and
        m². "auto" is exact up to 3,000 samples of a class and then takes as many landmarks as its certificate asks for,
        at most 2,000 (docs/decisions/012-landmarks.md); None is always exact, and so is a class of no more samples than
        landmarks.
    precision : "double" or "single"
        "single" scores about twice as fast, with an error in the score of typically 1e-5 and at worst 1e-3. It has no
        effect on large classes or a small ρ, where the error would be larger.
    max_samples : int
        Hyper-parameters are learnt on at most this many samples, evenly from the classes.
    random_state : int
        Seed for random subsets and landmarks.

    Attributes
    ----------
    classes_ : ndarray (C,)
    sigma_, length_scale_, sigma_reg_ : float
        The learnt Θ; `length_scale_` is in the units of the metric.
    metric_ : str
    has_log_odds_ : bool
    feature_map_ : ndarray (d,) or (d, d)
        What the features are multiplied by before distances are taken.
    thresholds_ : ndarray (C,)
    size_factors_ : ndarray (C,)
        The factor of the score of each class that corrects for its size.
    descriptions_ : list of Description or LandmarkDescription
    n_landmarks_ : ndarray (C,)
        The number of samples that describe each class: all of them where it is exact.
    certificates_ : ndarray (C,)
        ``tr(K - Q)/σ²`` of each class, what its landmarks miss of its samples; 0 where it is exact. Scores are those of
        the exact model to about ``certificates_ / (n σ_reg²/σ²)`` for a class of n samples.
    left_out_scores_ : list of ndarray
        For each class, the scores of its training samples under a model without their note.
    left_out_note_scores_ : list of ndarray
        The same, averaged over each note.
    trials_ : list of ChoiceTrial
        The settings tried and their leave-note-out AUC.
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

    descriptions_: list[OneClass]
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
        landmarks: str | int | None = "auto",
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
        self.landmarks = landmarks
        self.precision = precision
        self.max_samples = max_samples
        self.random_state = random_state

    @classmethod
    def paper(cls, **parameters: Any) -> Self:
        """The method as published: Alg. 1 with σ_reg from a condition bound, unbalanced, exact, τ = 1.8/μ."""
        literal: dict[str, Any] = {
            "sigma_reg": "condition",
            "condition": PAPER_CONDITION,
            "metric": "euclidean",
            "target": "paper",
            "balance": None,
            "threshold": "paper",
            "landmarks": None,
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
            Note ids: samples of one note are left out together. By default every sample is a note of its own.
        """
        refuse(unused, self)
        self._check_parameters()
        check_one_kind(y)
        samples, targets = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        self.classes_, labels = encode_labels(targets)
        check_classification_targets(targets)
        check_magnitude(samples)
        check_outlier_label(self.outlier_label, self.classes_)
        notes = check_groups(groups, samples)
        sizes = np.bincount(labels)
        if self.balance == "subsample" and not self.trim:
            sizes = np.minimum(sizes, sizes.min())
        setting = Setting(1.0, 1.0, landmarks=self.landmarks)
        check_memory(sizes.tolist(), self.classes_.tolist(), setting, samples.shape[1])
        with one_blas_thread():
            train(self, samples, labels, notes)
        return self._warned(range(len(self.classes_)))

    def distances(self, X: ArrayLike) -> np.ndarray:
        """d_c of Eq. (11), shape (n, C): low = near; σ² far from everything."""
        Z = self._validated(X)
        return self.sigma_**2 * self._prepared()(Z)

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """``-log √(d_c/σ²)``, shape (n, C), corrected for class size (`size_factors_`): 0 = resembles nothing.

        In the local metric, the default with one class, ``½ (log q - log(1 - q))`` with ``q = 1 - d_c/σ²``: nearly the
        same near the class, but below 0 and falling on where q < ½.
        """
        Z = self._validated(X)
        if self.has_log_odds_:
            return log_odds(self._prepared().log_similarities(Z), self.size_factors_)
        d = self._prepared()(Z)
        return score(d, np.array([description.far for description in self.descriptions_])) * self.size_factors_

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        r"""How probable each class is, shape (n, C), with "none of these" as one more answer.

        .. math:: P(c|x) = \frac{e^{s_c/T}}{\sum_b e^{s_b/T} + e^{τ/T}},\quad P(none|x) = 1 - \sum_c P(c|x)

        "None of these" has the score that the best class needs to accept, τ; T maximises the probability with which
        left-out training samples are accepted. No unknowns are used, so the probability of "none" is that of unknowns
        as frequent as a class; where they are rarer or more frequent, it is too large or too small.

        With ``outlier_label=None`` there is no such answer and the rows sum to one. Otherwise they sum to less, and
        the rest is the probability of `outlier_label`.

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
        """For each sample the most influential training notes of its best class, with their share of the score.

        The shares of all notes of the class sum to one. In a class with landmarks, each landmark counts for the note it
        is of, and notes without any have no share.
        """
        best = self.class_scores(X).argmax(axis=1)
        Z = self._validated(X)
        found: list[list[Evidence]] = [[] for _ in Z]
        for c in np.unique(best):
            rows = np.flatnonzero(best == c)
            of_class = evidence(self.classes_.tolist()[c], self.descriptions_[c], self.notes_[c], Z[rows])
            for row, notes in zip(rows, of_class, strict=True):
                found[row] = notes[:n_notes]
        return found

    def plain_samples(self) -> list[np.ndarray] | None:
        """The samples that describe each class, (n, d), if scores depend only on distances to them, else None."""
        check_is_fitted(self)
        if self.center or self.feature_map_.ndim != 1 or (self.feature_map_ != 1.0).any():
            return None
        return [description.points + self._origin for description in self.descriptions_]

    def health(self) -> Health:
        """Left-out scores (``-log √(d_c/σ²)``), suspected mislabels, duplicates and class overlap of the notes."""
        check_is_fitted(self)
        thresholds = self.thresholds_
        if self.has_log_odds_:  # a sample that is as good as the threshold stays so after rounding
            thresholds = distance_score(thresholds) * (1.0 - 1e-12)
        return examine(self.classes_, self.descriptions_, self.notes_, self.size_factors_, thresholds)

    def add_class(self, X: ArrayLike, name: Any, groups: ArrayLike | None = None) -> Self:
        """Describe one more class with Θ frozen: the scores of the other classes do not move."""
        Z = self._validated(X)
        if any(name == c for c in self.classes_.tolist()):
            raise InputError(f"{name!r} is a class already; use add_note to give it more examples")
        check_outlier_label(self.outlier_label, np.array([name]))
        if isinstance(name, str) != isinstance(self.classes_.tolist()[0], str):
            raise InputError(
                f"{name!r} is not of the type of the classes {self.classes_.tolist()}; give a label of that type"
            )
        every = sorted([*self.classes_.tolist(), name])
        classes = np.array(every, dtype=object if self.classes_.dtype.kind == "O" else None)
        c = every.index(name)
        self._take_in(slice(c, c), Z, check_groups(groups, Z), classes)
        return self._warned([c])

    def add_note(self, X: ArrayLike, name: Any, note: Any = None) -> Self:
        """Give class `name` one more training note with Θ frozen: the scores of the other classes do not move.

        `note` is the id of the note; a new one is made by default.
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
        self._take_in(slice(c, c + 1), samples, np.concatenate([notes, np.full(len(Z), note)]), self.classes_)
        return self._warned([c])

    @property
    def has_log_odds_(self) -> bool:
        """Whether scores are log odds; see `class_scores`."""
        return bool(self.metric_ == "local" and not self.center)

    @property
    def n_landmarks_(self) -> np.ndarray:
        return np.array([len(description.rows) for description in self.descriptions_])

    @property
    def certificates_(self) -> np.ndarray:
        return np.array([description.trace for description in self.descriptions_])

    # ------------------------------------------------------------------ inside

    def _check_parameters(self) -> None:
        for name in ("sigma", "length_scale", "sigma_reg"):
            value = getattr(self, name)
            words = ("auto", "condition") if name == "sigma_reg" else (None,)
            if value not in words and not (isinstance(value, numbers.Real) and 0.0 < float(value) < np.inf):
                raise InputError(f"{name}={value!r} must be a positive number or {' or '.join(map(repr, words))}")
        check_choice(self, "metric", ("auto", "global", "local", "euclidean", "within", "whiten"))
        check_choice(self, "target", ("centered", "paper"))
        check_choice(self, "balance", ("size", "subsample", None))
        check_choice(self, "precision", ("double", "single"))
        if not 10.0 <= self.condition <= 1e15:
            raise InputError(f"condition={self.condition!r} must lie between 10 and 1e15 (double precision ends there)")
        if self.max_samples < 2:
            raise InputError(f"max_samples={self.max_samples!r} must be at least 2")
        if not isinstance(self.quantile, numbers.Real) or not 0.0 <= float(self.quantile) <= 1.0:
            raise InputError(f"quantile={self.quantile!r} must lie between 0 and 1")
        if not isinstance(self.trim, bool | numbers.Real) or not 0.0 <= float(self.trim) <= 1.0:
            raise InputError(f"trim={self.trim!r} must be True, False or a share between 0 and 1")
        number = isinstance(self.landmarks, numbers.Integral) and not isinstance(self.landmarks, bool)
        if not (self.landmarks in (None, "auto") or (number and int(self.landmarks) >= 1)):
            raise InputError(f"landmarks={self.landmarks!r} must be 'auto', a whole number from 1 up, or None (exact)")

    def _take_in(self, place: slice, Z: np.ndarray, notes: np.ndarray, classes: np.ndarray) -> None:
        """Put a class made of Z in the place of one class, or of none, and leave the others alone."""
        with one_blas_thread():
            new = taken_in(self, place, Z, notes, classes)
        self.__dict__.update(new.__dict__)  # if anything fails before, this model is unchanged

    def _warned(self, classes: Sequence[int]) -> Self:
        for message in doubts(self, classes):
            warnings.warn(message, UserWarning, stacklevel=3)  # where fit, add_class or add_note was called
        return self

    @property
    def _setting(self) -> Setting:
        """How a class is described."""
        ratio = (self.sigma_reg_ / self.sigma_) ** 2
        return Setting(self.length_scale_, ratio, self.center, self.landmarks, self.random_state)

    def _mapped(self, X: np.ndarray) -> np.ndarray:
        return mapped(X - self._origin, self.feature_map_)

    def _validated(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self._mapped(validate_data(self, X, dtype=np.float64, reset=False))

    def _prepared(self) -> Distances:
        single = self.precision == "single"
        kept = _PREPARED_SCORERS.get(self)
        if kept is None or kept.descriptions is not self.descriptions_ or kept.single != single:
            kept = _PREPARED_SCORERS[self] = Distances(self.descriptions_, single=single)
        return kept
