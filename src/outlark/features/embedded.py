"""Clips described by an embedding, any function from a sound to a vector, in place of spectra."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outlark.audio.loading import Sound
from outlark.errors import InputError


class EmbeddedClips:
    """Embeddings of length 1.

    Parameters
    ----------
    embedding : callable
        ``embedding(samples, sample_rate)`` → vector (d,).

    Attributes
    ----------
    n_features_ : int or None
        d, once something was embedded.

    Examples
    --------
    >>> clips = EmbeddedClips(lambda samples, rate: [samples.mean(), 1.0])
    >>> clips.views(Sound(np.array([2.0]), 22050)).round(3)
    array([[0.894, 0.447]])
    """

    def __init__(self, embedding: Callable[[np.ndarray, int], ArrayLike]) -> None:
        self._embedding = embedding
        self.n_features_: int | None = None

    def views(self, sound: Sound) -> np.ndarray:
        """The description of a sound, (1, d); 0 for silence, which is not shown to the embedding."""
        if not np.any(sound.samples):
            return np.zeros((1, self.n_features_ or 1))
        vector: Any = np.asarray(self._embedding(*sound), dtype=float)
        length = float(np.linalg.norm(vector))
        if vector.ndim != 1 or not 0.0 < length < np.inf:
            raise InputError(
                f"the embedding gives {vector!r:.60} of shape {vector.shape} for {len(sound.samples)} samples at "
                f"{sound.rate} Hz; it must give a vector (d,) of finite numbers, not all 0"
            )
        if self.n_features_ not in (None, len(vector)):
            raise InputError(f"the embedding gives {len(vector)} numbers, before it gave {self.n_features_}")
        self.n_features_ = len(vector)
        return vector[np.newaxis] / length
