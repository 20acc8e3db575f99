r"""The second stage: candidates found by their spectra are described again by an embedding, and both scores joined.

.. math:: s = \sqrt{s_1 s_2}, \quad \tau = \sqrt{\tau_1 \tau_2}

with the score :math:`s_1` of the spectra and their threshold :math:`\tau_1` (`outlark.detection.thresholds`), and the
score :math:`s_2` of the embedding under an MDD-KM with the same ℓ and ρ. Only candidates are embedded, a few per
minute, so a large model is affordable. Spectra distinguish the notes of one bird; an embedding trained on many birds
knows what stays the same across birds, places and recorders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.features.clip import Embedding, embedded
from outlark.segments import Segment

#: Candidates reach this share of the threshold of the spectra.
CANDIDATE_SHARE = 0.4
#: τ₂ of an embedding without an attribute ``threshold``. With BirdNET's inner layer, .09 to .12 is best for songs in
#: the field.
LEAST_ALIKE = 0.1


@dataclass(frozen=True, eq=False, kw_only=True)
class SecondStage:
    """Embeddings of the training notes, described."""

    #: ``embedding(samples, sample_rate)`` → vector (d,).
    embedding: Embedding
    class_model: MDDKM
    #: τ₂: the lowest score of a note of a class under the embedding.
    threshold: float

    @classmethod
    def fit(
        cls,
        embedding: Embedding,
        settings: dict[str, Any],
        recordings: Sequence[np.ndarray],
        notes: Sequence[tuple[int, Segment]],
    ) -> Self:
        """From the annotated notes, each with the number of its recording; `settings` are those of `MDDKM`."""
        X = np.array([embedded(embedding, recordings[r][s.start : s.end], s.sample_rate) for r, s in notes])
        y, groups = [s.label for _, s in notes], np.arange(len(notes))
        if len(X) == 1:  # a description needs two
            X, y, groups = np.repeat(X, 2, axis=0), 2 * y, np.zeros(2, dtype=int)
        threshold = check_threshold(getattr(embedding, "threshold", None))
        return cls(embedding=embedding, class_model=MDDKM(**settings).fit(X, y, groups=groups), threshold=threshold)

    def scores(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """s₂ of each class, (C,); 0 for digital silence."""
        if not np.any(samples):
            return np.zeros(len(self.class_model.classes_))
        return self.class_model.class_scores(embedded(self.embedding, samples, sample_rate)[np.newaxis])[0]

    def thresholds(self, of_spectra: np.ndarray) -> np.ndarray:
        """τ of each class, (C,)."""
        return np.sqrt(of_spectra * self.threshold)

    @property
    def identity(self) -> dict[str, Any]:
        """What a file keeps of the embedding instead of its code and weights: name, version, parameters."""
        return identity_of(self.embedding)

    def try_out(self, sample_rate: int) -> None:
        """Embed a moment of noise, so that anything missing shows now and not during the night."""
        self.scores(np.random.default_rng(0).standard_normal(sample_rate // 10), sample_rate)


class Memory:
    """The samples of a recording that the second stage of a stream may still need."""

    def __init__(self, stage: SecondStage, sample_rate: int) -> None:
        self._stage, self._sample_rate = stage, sample_rate
        self._blocks: list[np.ndarray] = []
        self._start = 0

    def begin(self, start: int) -> None:
        """The number of the first sample to be pushed, if not 0."""
        self._start = start

    def push(self, samples: np.ndarray) -> None:
        """The next samples."""
        if len(samples):
            self._blocks.append(np.array(samples))

    def scores(self, start: int, end: int) -> np.ndarray:
        """s₂ of each class for the candidate at these samples, (C,)."""
        if len(self._blocks) != 1:
            self._blocks = [np.concatenate([*self._blocks, np.empty(0)])]
        samples = self._blocks[0][max(0, start - self._start) : max(0, end - self._start)]
        return self._stage.scores(samples, self._sample_rate)

    def forget(self, before: int) -> None:
        """Drop all samples before this one."""
        while self._blocks and self._start + len(self._blocks[0]) <= before:
            self._start += len(self._blocks.pop(0))
        if self._blocks and self._start < before:
            self._blocks[0], self._start = self._blocks[0][before - self._start :], before


def joint_score(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """√(s₁ s₂) of each class, (C,); -∞ stays: no candidate.

    >>> joint_score(np.array([0.5, -np.inf]), np.array([0.08, 1.0]))
    array([ 0.2, -inf])
    """
    return np.where(first > -np.inf, np.sqrt(np.maximum(first, 0.0) * second), -np.inf)


def identity_of(embedding: Embedding) -> dict[str, Any]:
    """Name, version and parameters of an embedding.

    The version is its attribute ``version``; parameters are from scikit-learn's `get_params`, if it has that.

    >>> identity_of(np.fft.rfft)["name"]
    'numpy.fft.rfft'
    """
    named = embedding if hasattr(embedding, "__qualname__") else type(embedding)
    parameters = embedding.get_params() if hasattr(embedding, "get_params") else {}
    name = f"{named.__module__}.{named.__qualname__}"
    return {"name": name, "version": str(getattr(embedding, "version", "")), "parameters": parameters}


def check_threshold(threshold: Any) -> float:
    """τ₂ of an embedding: its attribute ``threshold``, if it has one."""
    if threshold is None:
        return LEAST_ALIKE
    if not isinstance(threshold, float) or not 0.0 < threshold < np.inf:
        raise InputError(f"the embedding's threshold is {threshold!r:.100}; it must be a number above 0, or None")
    return threshold
