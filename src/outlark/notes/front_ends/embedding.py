r"""Embeddings: a frame is what a model of others makes of the seconds around it; for songs, which last that long.

.. math:: x = \frac{f(s)}{‖f(s)‖}

with the window s around the span of the frame, and any function f from a sound to a vector.
"""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from outlark.errors import InputError
from outlark.notes.audio import check_sample_rate
from outlark.notes.background import check_seconds
from outlark.notes.blocks import Reblock
from outlark.notes.framing import FrameStream
from outlark.notes.front_ends.base import Frames, FrontEnd
from outlark.notes.front_ends.channels import training_spans
from outlark.notes.front_ends.embedded import EmbeddedClips
from outlark.notes.front_ends.span_activity import LEAST_STEP, SpanActivity, activity_of
from outlark.notes.front_ends.spectrum import one_channel
from outlark.notes.loading import Sound
from outlark.notes.segments import Segment
from outlark.notes.training import note_frames


class EmbeddingFrontEnd(FrontEnd):
    """Each frame is the embedding of the window around it, of length 1; 0 where the window is digital silence.

    Parameters
    ----------
    embedding : callable
        ``embedding(samples, sample_rate)`` → vector (d,). `outlark.embeddings.front_end` has BirdNET here.
    window_s : float
        Length of the sound that is embedded; beyond the ends of the recording it is digital silence.
    hop_s : float
        From one frame to the next, and the length of the span that a frame speaks for.

    Attributes
    ----------
    window_samples_ : int
    and those of `FrontEnd`; `context_samples_` is that of the features, the noise floor looks 13 s around

    Examples
    --------
    >>> front_end = EmbeddingFrontEnd(lambda samples, rate: [samples.std(), 1.0], window_s=0.5, hop_s=0.1)
    >>> front_end.fit([np.ones(8000)], sample_rate=8000).n_features_
    2
    >>> front_end.transform(np.ones(8000)).features.shape
    (10, 2)
    """

    def __init__(
        self, embedding: Callable[[np.ndarray, int], ArrayLike], window_s: float = 3.0, hop_s: float = 1.0
    ) -> None:
        self.embedding = embedding
        self.window_s = window_s
        self.hop_s = hop_s

    def __sklearn_clone__(self) -> Self:
        """With the same embedding, not a copy of it: models are large, and many cannot be copied."""
        return type(self)(**self.get_params(deep=False))

    def fit(
        self,
        recordings: Sequence[np.ndarray],
        sample_rate: int,
        segments: Sequence[Sequence[Segment]] | None = None,
    ) -> Self:
        """Turn seconds into samples, and embed the first sound to see how many numbers that gives.

        Parameters
        ----------
        recordings : sequence of arrays (n,)
        sample_rate : int
        segments : for each recording the marked notes, optional
            Left out: each recording is one note.
        """
        self._set_lengths(check_sample_rate(sample_rate))
        signals = [one_channel(recording) for recording in recordings]
        spans = training_spans(signals, self.sample_rate_, segments)
        self._marked = [(len(x), some) for x, some in zip(signals, spans, strict=True)]
        self.n_features_ = self._width(signals)
        return self

    def stream(self) -> "EmbeddingSource":
        """A fresh stream: `push` blocks of shape (n,), then `finish`; the same numbers whatever the blocks."""
        check_is_fitted(self)
        frames = FrameStream(self.window_samples_, self.hop_samples_)
        activity = SpanActivity(self.hop_samples_, self.sample_rate_)
        return EmbeddingSource(frames, self._described, activity, self.n_features_)

    def transform_clips(self, signal: np.ndarray) -> Frames:
        """The frames of the joined clips that `fit` was given: of each clip by itself, in digital silence.

        The gaps between clips are shorter than a window, which would hold several of them.
        """
        check_is_fitted(self)
        x = one_channel(signal)
        if [n for n, _ in self._marked] != [len(x)]:
            raise InputError(f"{len(x)} samples that fit was not given; transform_clips takes the clips of fit, joined")
        activity = activity_of(x, self.hop_samples_, self.sample_rate_)
        frames = Frames(np.zeros((len(activity), self.n_features_)), activity)
        owner: dict[int, int] = {}
        for number, (start, end) in enumerate(self._marked[0][1]):
            clip = Segment(start=start, end=end, sample_rate=self.sample_rate_)
            for k in note_frames(self, frames, clip).tolist():
                if k in owner:
                    raise InputError(
                        f"clips {owner[k]} and {number} lie in one frame of {self.hop_s:g} s; join clips with longer "
                        f"gaps, NoteDetector(gap_s={self.hop_s:g}), or give a shorter hop_s"
                    )
                owner[k] = number
                frames.features[k] = self._described(self._window(x, k, start, end))
        return frames

    def _set_lengths(self, rate: int) -> None:
        window_s, hop_s = check_seconds("window_s", self.window_s), check_seconds("hop_s", self.hop_s)
        if not callable(self.embedding) or isinstance(self.embedding, type):
            raise InputError(
                f"embedding={self.embedding!r:.100} must be a function from (samples, sample_rate) to a vector (d,), "
                "or an object that can be called so, such as BirdNET()"
            )
        window, hop = round(window_s * rate), round(hop_s * rate)
        if not LEAST_STEP <= hop <= window:
            raise InputError(
                f"hop_s={hop_s!r} is {hop} samples at {rate} Hz and window_s={window_s!r} is {window}; give a hop of "
                f"{LEAST_STEP} samples or more, and a window that is no shorter"
            )
        self.sample_rate_, self.window_samples_, self.hop_samples_, self.offset_samples_ = rate, window, hop, 0
        before = (window - hop) // 2
        self.context_samples_ = before, window - hop - before
        waits = -(-self.context_samples_[1] // hop), SpanActivity(hop, rate).delay
        self.delay_samples_ = hop * max(waits)

    def _width(self, signals: Sequence[np.ndarray]) -> int:
        for x in signals:
            stream = FrameStream(self.window_samples_, self.hop_samples_)
            for frame in (*stream.push(x), *stream.finish()):
                if frame.any():
                    return self._embedded(None, frame).shape[1]
        raise InputError(
            f"{len(signals)} recordings of digital silence: it takes a sound to see how many numbers the embedding "
            "gives; give at least one recording with sound"
        )

    def _described(self, window: np.ndarray) -> np.ndarray:
        return self._embedded(self.n_features_, window)[0]

    def _embedded(self, n_features: int | None, window: np.ndarray) -> np.ndarray:
        clips = EmbeddedClips(self.embedding)
        clips.n_features_ = n_features
        # a copy: what is embedded is contiguous whatever the blocks, and may be written to
        return clips.views(Sound(np.array(window), self.sample_rate_))

    def _window(self, x: np.ndarray, k: int, start: int, end: int) -> np.ndarray:
        """The window of frame k; digital silence but for samples start … end - 1."""
        window, first = np.zeros(self.window_samples_), k * self.hop_samples_ - self.context_samples_[0]
        low, high = max(first, start), min(first + len(window), end)
        window[low - first : high - first] = x[low:high]
        return window


class EmbeddingSource:
    """Frames of one recording; made by `EmbeddingFrontEnd.stream`."""

    def __init__(
        self,
        frames: FrameStream,
        described: Callable[[np.ndarray], np.ndarray],
        activity: SpanActivity,
        n_features: int,
    ) -> None:
        self._frames, self._described, self._spans = frames, described, activity
        self._n_features = n_features
        self._blocks = Reblock(frames.hop)  # block k is the span of frame k
        self._features: list[np.ndarray] = []
        self._activity: list[float] = []

    def push(self, samples: ArrayLike) -> Frames:
        """Samples (n,), as `mono` takes them, in; the frames that are ready out."""
        x = one_channel(samples)
        self._frames.push(x[:0])  # says so if the stream is finished
        for block in self._blocks.push(x):
            self._take(block)
        return self._ready()

    def finish(self) -> Frames:
        """The rest of the frames."""
        rest = self._blocks.finish()
        if rest is not None:
            self._take(rest)
        self._features += map(self._described, self._frames.finish())
        self._activity += self._spans.finish()
        return self._ready()

    def _take(self, block: np.ndarray) -> None:
        self._features += map(self._described, self._frames.push(block))
        self._activity += self._spans.push(block)

    def _ready(self) -> Frames:
        n = min(len(self._features), len(self._activity))
        found = Frames(np.reshape(self._features[:n], (n, self._n_features)), np.array(self._activity[:n], dtype=float))
        del self._features[:n], self._activity[:n]
        return found
