"""Classification of clips that each hold one note: which of the known classes, or none?"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from outlark.audio.clips import Sound, loaded_sounds
from outlark.audio.sound import resample
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import OpenSetMixin, check_groups, check_outlier_label, class_thresholds, encode_labels
from outlark.features.clip import ClipFrontEnd, EmbeddedClips

#: MDD-KM for descriptions of length 1. At ℓ = .7, two clips whose descriptions correlate by ¾ have a kernel of 1/e; any
#: value from .5 to 1.5 does about as well. Scores are not corrected for the size of a class: a handful of clips does
#: not show by how much.
CLIP_SETTINGS: dict[str, Any] = {
    "metric": "euclidean",
    "sigma": 1.0,
    "sigma_reg": 0.1**0.5,
    "length_scale": 0.7,
    "balance": None,
    "threshold": 0.0,
}
#: The class model is refitted without some of the clips at most this many times.
FOLDS = 10
#: Clips scored at once.
AT_ONCE = 64


class NoteClassifier(OpenSetMixin, ClassifierMixin, BaseEstimator):
    """Identifies the known note in a clip, or none of them; also for notes of different birds.

    A clip is described in several views, trimmed and shifted a little (`ClipFrontEnd`), or by an embedding. The score
    of a class is the best of any view under `MDDKM`, trained on the clips as they are.

    Parameters
    ----------
    embedding : callable, optional
        ``embedding(samples, sample_rate)`` → vector (d,): describes a clip instead of its spectra.
        `outlark.embeddings.BirdNET` is one.
    front_end : ClipFrontEnd, optional
        From clips to spectra; not used with an embedding.
    class_model : estimator, optional
        The class model: from descriptions to class scores; `MDDKM` by default. Any estimator with `fit(X, y, groups)`,
        `classes_` and `class_scores(X)`.
    threshold : "leave-note-out", float, sequence or mapping
        The lowest score that a class accepts. By default the `quantile` of the scores of left-out training clips under
        their own class, pooled over the classes because each has only a handful.
    quantile : float
        The share of known clips that may be missed.
    outlier_label : label, optional
        What `predict` answers when no class accepts a clip. None: always one of the classes.

    Attributes
    ----------
    classes_ : ndarray (C,)
    thresholds_ : ndarray (C,)
    class_model_, front_end_ : fitted
    sample_rate_ : int
        The lowest of the training clips; assumed for arrays without one.
    left_out_scores_ : list of ndarray
        For each class, the scores of its clips under a class model that has not seen them; empty with a given
        `threshold`.

    Examples
    --------
    >>> from outlark.data.synthetic import SAMPLE_RATE, notes
    >>> known = notes(counts={"tuti-F": 4, "cach-D": 4})
    >>> classifier = NoteClassifier().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> new = notes(seed=1, counts={"tuti-F": 1, "cach-Z": 1})
    >>> classifier.predict([n.samples for n in new], SAMPLE_RATE).tolist()
    ['tuti-F', 'unknown']
    """

    def __init__(
        self,
        embedding: Callable[[np.ndarray, int], ArrayLike] | None = None,
        front_end: ClipFrontEnd | None = None,
        class_model: Any = None,
        *,
        threshold: Any = "leave-note-out",
        quantile: float = 0.1,
        outlier_label: Any = "unknown",
    ) -> None:
        self.embedding = embedding
        self.front_end = front_end
        self.class_model = class_model
        self.threshold = threshold
        self.quantile = quantile
        self.outlier_label = outlier_label

    def fit(
        self,
        clips: Sequence[Any],
        labels: Sequence[Any],
        sample_rate: int | Sequence[int] | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from clips that each hold one note.

        Parameters
        ----------
        clips : sequence of arrays (n,) or (n, channels), or paths
        labels : sequence
            The class of each clip.
        sample_rate : int or sequence of int
            Of the arrays; files have their own. The lowest becomes the model's.
        groups : array-like (n,), optional
            Ids of birds or recordings: their clips are left out together when the threshold is learnt, which then
            holds for other birds. By default every clip on its own.
        """
        self._check_parameters()
        sounds, y = loaded_sounds(clips, sample_rate, "clips"), np.asarray(labels)
        if len(sounds) != len(y):
            raise InputError(f"{len(sounds)} clips but {len(y)} labels; give one label for each clip")
        if not len(sounds):
            raise InputError("no clips; give at least one example of a class")
        self.classes_, numbers = encode_labels(y)
        check_outlier_label(self.outlier_label, self.classes_)
        self.sample_rate_ = min(sound.rate for sound in sounds)
        self.front_end_ = self._fitted_front_end(sounds, y)
        views = [self._views(sound) for sound in sounds]
        silent = [i for i, of_clip in enumerate(views) if not of_clip[0].any()]
        if silent:
            raise InputError(f"clip {silent[0]} ({labels[silent[0]]!r}) holds no sound; omit it")
        self.class_model_ = self._described(views, y)
        self._calibrate(views, y, numbers, check_groups(groups, y))
        return self

    def class_scores(self, clips: Any, sample_rate: int | Sequence[int] | None = None) -> np.ndarray:
        """A score for every class, (n, C), high = member; 0 = resembles nothing, or holds no sound.

        Parameters
        ----------
        clips : sequence of arrays (n,) or (n, channels), or paths
        sample_rate : int or sequence of int
            Of the arrays; files have their own. By default that of the training clips.
        """
        sounds = self._sounds(clips, sample_rate)
        parts = (sounds[at : at + AT_ONCE] for at in range(0, len(sounds), AT_ONCE))
        scores = [_best_scores(self.class_model_, [self._views(sound) for sound in part]) for part in parts]
        return np.concatenate([np.empty((0, len(self.classes_))), *scores])

    def score_samples(self, X: Any, sample_rate: int | Sequence[int] | None = None) -> np.ndarray:
        """The score of the best class, (n,)."""
        return super().score_samples(self._sounds(X, sample_rate))

    def predict(self, X: Any, sample_rate: int | Sequence[int] | None = None) -> np.ndarray:
        """The best among the classes that accept each clip of X, (n,), and `outlier_label` where none does."""
        return super().predict(self._sounds(X, sample_rate))

    def membership(self, X: Any, sample_rate: int | Sequence[int] | None = None) -> np.ndarray:
        """Which classes accept the clip, (n, C): ``class_scores ≥ thresholds_``."""
        return super().membership(self._sounds(X, sample_rate))

    def verdicts(self, X: Any, sample_rate: int | Sequence[int] | None = None) -> np.ndarray:
        """ "known" (one class accepts the clip), "ambiguous" (several do) or "unknown" (none does), (n,)."""
        return super().verdicts(self._sounds(X, sample_rate))

    # ------------------------------------------------------------------ inside

    def _check_parameters(self) -> None:
        if self.embedding is not None and not callable(self.embedding):
            raise InputError(f"embedding={self.embedding!r} must be callable: embedding(samples, sample_rate) -> (d,)")
        if self.front_end is not None and not isinstance(self.front_end, ClipFrontEnd):
            raise InputError(f"front_end={self.front_end!r} must be a ClipFrontEnd, such as ClipFrontEnd(), or None")

    def _sounds(self, clips: Any, sample_rate: int | Sequence[int] | None) -> Any:
        """The clips as a list of `Sound`, which all methods take instead of clips and a rate."""
        check_is_fitted(self)
        return loaded_sounds(clips, self.sample_rate_ if sample_rate is None else sample_rate, "clips")

    def _fitted_front_end(self, sounds: Sequence[Sound], y: np.ndarray) -> ClipFrontEnd | EmbeddedClips:
        if self.embedding is not None:
            return EmbeddedClips(self.embedding)
        front_end = ClipFrontEnd() if self.front_end is None else clone(self.front_end)
        return front_end.fit([self._at_rate(sound) for sound in sounds], y.tolist(), self.sample_rate_)

    def _at_rate(self, sound: Sound) -> np.ndarray:
        return sound.samples if sound.rate == self.sample_rate_ else resample(*sound, self.sample_rate_)

    def _views(self, sound: Sound) -> np.ndarray:
        """The descriptions of a clip, (n_views, d); the first is of the clip as it is."""
        front_end: Any = self.front_end_
        return front_end.views(sound if isinstance(front_end, EmbeddedClips) else self._at_rate(sound))

    def _described(self, views: Sequence[np.ndarray], y: np.ndarray) -> Any:
        class_model = MDDKM(**CLIP_SETTINGS) if self.class_model is None else clone(self.class_model)
        with warnings.catch_warnings():  # about single notes: its own thresholds are not used
            warnings.simplefilter("ignore", UserWarning)
            return class_model.fit(np.array([of_clip[0] for of_clip in views]), y, groups=np.arange(len(y)))

    def _calibrate(self, views: Sequence[np.ndarray], y: np.ndarray, numbers: np.ndarray, groups: np.ndarray) -> None:
        """Left-out scores and thresholds. A left-out clip is scored in all its views, like a new one."""
        left_out: list[list[float]] = [[] for _ in self.classes_]
        learnt = isinstance(self.threshold, str) and self.threshold == "leave-note-out"
        for held_out, seen in _folds(numbers, groups) if learnt else ():
            class_model = self._described([views[i] for i in seen], y[seen])
            for i, scores in zip(held_out, _best_scores(class_model, [views[i] for i in held_out]), strict=True):
                left_out[numbers[i]].append(float(scores[numbers[i]]))
        self.left_out_scores_ = self.left_out_note_scores_ = [np.array(scores) for scores in left_out]
        on_train = _best_scores(self.class_model_, views)
        # all classes share one scale, and each has a handful of clips: together they give one threshold
        pooled = np.concatenate(self.left_out_scores_)
        if learnt and not len(pooled):
            warnings.warn(
                "no class has a second clip, or group, to leave out: thresholds are half the score of the training "
                "clips, a guess; give two or more, or threshold=",
                stacklevel=3,
            )
        self.thresholds_ = class_thresholds(
            self.threshold,
            classes=self.classes_,
            left_out=[pooled] * len(self.classes_),
            best_on_train=np.array([on_train[numbers == c, c].max() for c in range(len(self.classes_))]),
            quantile=self.quantile,
        )


def _best_scores(class_model: Any, views: Sequence[np.ndarray]) -> np.ndarray:
    """For each clip and class the best score of a view, (n, C); 0 for a clip without sound."""
    if not views:
        return np.empty((0, len(class_model.classes_)))
    scores = class_model.class_scores(np.concatenate(views))
    starts = np.cumsum([0, *(len(of_clip) for of_clip in views[:-1])])
    sounding = np.array([of_clip.any() for of_clip in views])
    return np.where(sounding[:, np.newaxis], np.maximum.reduceat(scores, starts, axis=0), 0.0)


def _folds(numbers: np.ndarray, groups: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Clips to leave out and clips to keep; whole groups, and never all of a class.

    >>> [held_out.tolist() for held_out, _ in _folds(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2]))]
    [[0, 1], [2]]
    """
    rank, several = np.empty(len(numbers), dtype=int), np.zeros(len(numbers), dtype=bool)
    for c in np.unique(numbers):
        own = numbers == c
        _, rank[own] = np.unique(groups[own], return_inverse=True)
        several[own] = rank[own].max() > 0
    n_folds = min(FOLDS, int(rank.max()) + 1)
    for fold in range(n_folds):
        out = several & (rank % n_folds == fold)
        if out.any():
            yield np.flatnonzero(out), np.flatnonzero(~out)
