"""The interface of all front ends: a signal goes in, block by block, and frames of features come out.

Frame k stands for its own span of the signal, the samples ``offset + k·hop … offset + (k + 1)·hop``. It may depend on
samples further away (`context_samples_`), and may be ready later than its span ends (`delay_samples_`).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import check_sample_rate, mono
from outlark.segments import Segment

#: Sound is used up to this share of the sample rate, where the filters of recorders and resamplers cut off.
HIGHEST_SHARE = 0.46


class Frames(NamedTuple):
    """Consecutive frames."""

    #: (T, d).
    features: np.ndarray
    #: Rise above the noise floor in dB; infinite if the front end does not measure it, (T,).
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
        """Samples as `FrontEnd.signal` gives them in; the frames that are ready out."""
        ...

    def finish(self) -> Frames:
        """The rest of the frames."""
        ...


class FrontEnd(BaseEstimator):
    """From a signal to frames. Subclasses define `fit` and `stream`.

    Attributes
    ----------
    sample_rate_ : int
        Of all signals, in training and later.
    window_samples_, hop_samples_ : int
        Length of a frame, and distance between frames.
    offset_samples_ : int
        First sample of the span of frame 0.
    context_samples_ : (int, int)
        Samples before and after its own span that a frame depends on; for recursive filters, the past ends where the
        weight of a sample falls below one percent.
    delay_samples_ : int
        Samples after the end of its own span at which a frame is ready, at most.
    n_features_ : int
    """

    #: Whether it describes whole notes, as `NoteFrontEnd` does, rather than single frames.
    note_level: ClassVar[bool] = False
    #: Sound has a band and may be resampled; a series of measurements has none and may not.
    is_sound: ClassVar[bool] = True

    sample_rate_: int
    window_samples_: int
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
        """Turn settings in seconds and hertz into samples, and learn what a front end learns.

        Parameters
        ----------
        recordings : sequence of arrays (n,) or (n, channels)
        sample_rate : int
            The same for all.
        segments : for each recording the annotated notes, optional
            By default each recording is one note.
        """
        raise TypeError("a subclass of FrontEnd defines fit")

    def stream(self) -> FrameSource:
        """A new stream: `push` blocks, then `finish`; results do not depend on the blocks, bit for bit."""
        raise TypeError("a subclass of FrontEnd defines stream")

    @staticmethod
    def signal(audio: ArrayLike, /) -> np.ndarray:
        """A recording, or a block of it, as streams take it: finite floats (n,), or (n, channels) for series."""
        return mono(audio)

    @staticmethod
    def check_rate(sample_rate: Any, /) -> int:
        """The sample rate, if it can be one."""
        return check_sample_rate(sample_rate)

    def for_clips(self) -> Self:
        """Set up for clips, each a note with nothing around it."""
        return self

    def transform(self, signal: np.ndarray) -> Frames:
        """The frames of a whole signal."""
        check_is_fitted(self)
        stream = self.stream()
        return joined([stream.push(self.signal(signal)), stream.finish()])

    def transform_clips(self, signal: np.ndarray) -> Frames:
        """The frames of joined clips, each a note without surroundings."""
        return self.transform(signal)

    def in_words(self) -> str:
        """What it describes."""
        return type(self).__name__

    @property
    def band_hz(self) -> tuple[float, float] | None:
        """The frequencies that it is set to; None if it takes all there are, or series."""
        return None

    @property
    def heard_hz(self) -> tuple[float, float]:
        """The frequencies of sound that it uses once fitted: the band, as far as the sample rate holds it."""
        low_hz, high_hz = self.band_hz or (0.0, np.inf)
        return low_hz, min(high_hz, HIGHEST_SHARE * self.sample_rate_)

    @property
    def measures_activity(self) -> bool:
        """Whether frames have their rise above the noise floor."""
        return True

    def silence(self, n_samples: int) -> np.ndarray:
        """A recording in which nothing happens."""
        return np.zeros(n_samples)

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate_ / self.hop_samples_

    def frame_at(self, sample: int) -> int:
        """The frame whose own span contains the sample; the first one for earlier samples."""
        return max(0, (sample - self.offset_samples_) // self.hop_samples_)
