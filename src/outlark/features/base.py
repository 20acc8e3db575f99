"""What every front end shares: a signal goes in, block by block, and frames of features come out.

Frame k speaks for its own span of the signal, the samples ``offset + k·hop … offset + (k + 1)·hop``; what it looks at
may reach further (`context_samples`), and it may come later than its span ends (`delay_samples`).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import check_sample_rate, mono
from outlark.segments import Segment


class Frames(NamedTuple):
    """Consecutive frames.

    Attributes
    ----------
    features : ndarray (T, d)
    activity : ndarray (T,)
        How far the frame rises above the noise floor in dB; infinite where the front end does not measure it.
    """

    features: np.ndarray
    activity: np.ndarray

    def __len__(self) -> int:
        return len(self.features)

    def between(self, start: int, end: int) -> "Frames":
        """Frames start … end - 1."""
        return Frames(self.features[start:end], self.activity[start:end])


def joined(parts: Sequence[Frames]) -> Frames:
    """Consecutive pieces as one."""
    return Frames(np.concatenate([p.features for p in parts]), np.concatenate([p.activity for p in parts]))


class FrameSource(Protocol):
    """A stream of frames from a stream of samples; made by `FrontEnd.stream`."""

    def push(self, samples: np.ndarray) -> Frames:
        """Samples (n,), or (n, channels) for series of several channels, in; the frames that are ready out."""
        ...

    def finish(self) -> Frames:
        """The rest of the frames: the signal has ended."""
        ...


class FrontEnd(BaseEstimator):
    """From a signal to frames. A subclass has `fit` (settings in samples, learning) and `stream`.

    Attributes
    ----------
    sample_rate_ : int
        Of the signals it was fitted on, and of every signal it takes.
    hop_samples_ : int
        Distance between frames.
    offset_samples_ : int
        First sample of the span of frame 0.
    context_samples_ : (int, int)
        How many samples before and after its own span a frame looks at; the past is endless for recursive filters,
        and is then given as the samples after which a sample's weight has fallen below one percent.
    delay_samples_ : int
        How many samples after the end of its own span a frame is ready, at most.
    n_features_ : int
    """

    #: Whether it describes whole notes, as `NoteFrontEnd` does, rather than single frames.
    note_level: ClassVar[bool] = False
    #: Whether a signal at another rate may be resampled: sound may, a series of measurements may not.
    resamples: ClassVar[bool] = True

    sample_rate_: int
    hop_samples_: int
    offset_samples_: int
    context_samples_: tuple[int, int]
    delay_samples_: int
    n_features_: int

    def fit(
        self,
        recordings: Sequence[np.ndarray],
        sample_rate: int,
        segments: Sequence[Sequence[Segment]] | None = None,
    ) -> Self:
        """Turn settings in seconds and hertz into samples, and learn what there is to learn.

        Parameters
        ----------
        recordings : sequence of arrays (n,) or (n, channels)
        sample_rate : int
            The same for all.
        segments : for each recording the marked notes, optional
            Left out: each recording is one note.
        """
        raise TypeError("a subclass of FrontEnd defines fit")

    def stream(self) -> FrameSource:
        """A fresh stream: `push` any blocks, then `finish`; the same numbers whatever the blocks."""
        raise TypeError("a subclass of FrontEnd defines stream")

    @staticmethod
    def signal(audio: ArrayLike, /) -> np.ndarray:
        """A recording as `stream` takes it."""
        return mono(audio)

    @staticmethod
    def check_rate(sample_rate: Any, /) -> int:
        """The sample rate, if it can be one."""
        return check_sample_rate(sample_rate)

    def silence(self, n_samples: int) -> np.ndarray:
        """A recording in which nothing happens."""
        return np.zeros(n_samples)

    def for_clips(self) -> Self:
        """Set up for clips, each a note with nothing around it."""
        return self

    def transform(self, signal: np.ndarray) -> Frames:
        """The frames of a whole signal."""
        check_is_fitted(self)
        stream = self.stream()
        return joined([stream.push(signal), stream.finish()])

    def transform_clips(self, signal: np.ndarray) -> Frames:
        """The frames of clips that were joined, each a note with nothing around it."""
        return self.transform(signal)

    @property
    def frame_rate(self) -> float:
        """Frames for each second."""
        return self.sample_rate_ / self.hop_samples_

    def frame_at(self, sample: int) -> int:
        """The frame whose own span holds the sample; the first or next to last one for samples before it."""
        return max(0, (sample - self.offset_samples_) // self.hop_samples_)
