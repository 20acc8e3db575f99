"""The front end of the paper (Sec. 2.1, 4.2): frames, magnitudes of the DCT, hierarchical linear dynamical system."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from scipy.fft import dct
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import DECODED_AT_ONCE, FrameStream, check_sample_rate
from outlark.errors import InputError
from outlark.estimators.hlds import HLDS, SETTLING_STEPS
from outlark.estimators.open_set import check_choice, check_seconds
from outlark.features.base import Frames, FrontEnd, joined
from outlark.features.noise_floor import ActivityStream, LevelFloor, decibels, noise_rise
from outlark.segments import Segment

#: What `compress` can do to the magnitudes.
COMPRESSIONS = ("none", "root", "log")
#: Magnitudes well below this stay linear under compress="log": noise of -60 dB re full scale.
LOG_FLOOR = 1e-3
#: "auto" layers are the window, a quarter and an eighth of it.
DIVISIBLE_BY = 8
#: The past of a recursive filter ends where the weight of a frame falls below this part of its largest.
FORGOTTEN = 0.01


class HLDSFrontEnd(FrontEnd):
    """Each band of the spectrum as level, slope and curvature in time.

    The magnitudes of the orthonormal DCT-II of overlapping frames go through `HLDS`, a causal filter. At 22,050 Hz the
    defaults are the paper's 96 samples, 48 overlapping, layers of 96, 24 and 12.

    Parameters
    ----------
    window_s : float
        Length of a frame; the nearest multiple of 8 samples, or exactly the bottom layer if `layers` are given.
    hop_s : float
        Distance between frames; they overlap in samples as they do in seconds.
    layers, output
        As in `HLDS`.
    lag_s : float
        Delay of the smoother; 0 is the paper's filter.
    pad : "centre" or "none"
        As in `FrameStream`: every sample has its frame, or complete frames only.
    compress : "none", "root" or "log"
        Magnitudes m as they are (the paper's), √m, or log(1 + m / 0.001), which keeps the loud frames of a note from
        outweighing the others.
    measure_activity : bool
        Whether to measure how far a frame, without its mean (DC), rises above the noise floor (`LevelFloor`). Frames
        are then delayed by up to 3 s. Otherwise the activity is infinite, or minus infinity in digital silence.

    Attributes
    ----------
    window_samples_ : int
    layers_ : tuple of int
    lag_steps_ : int
    and those of `FrontEnd`; `context_samples_` does not include the noise floor

    Examples
    --------
    >>> front_end = HLDSFrontEnd().fit([], sample_rate=22050)
    >>> front_end.window_samples_, front_end.hop_samples_, front_end.layers_
    (96, 48, (96, 24, 12))
    >>> front_end.transform(np.zeros(22050)).features.shape
    (460, 36)
    """

    def __init__(
        self,
        window_s: float = 96 / 22050,
        hop_s: float = 48 / 22050,
        layers: str | Sequence[int] = "auto",
        *,
        output: str | Sequence[int] = "all",
        lag_s: float = 0.0,
        pad: str = "centre",
        compress: str = "log",
        measure_activity: bool = True,
    ) -> None:
        self.window_s = window_s
        self.hop_s = hop_s
        self.layers = layers
        self.output = output
        self.lag_s = lag_s
        self.pad = pad
        self.compress = compress
        self.measure_activity = measure_activity

    @classmethod
    def paper(cls) -> Self:
        """As published: top layer only, no smoother, complete frames only, activity not measured.

        >>> HLDSFrontEnd.paper().fit([], 22050).n_features_
        12
        """
        return cls(output="top", pad="none", compress="none", measure_activity=False)

    def fit(
        self,
        recordings: Sequence[np.ndarray],
        sample_rate: int,
        segments: Sequence[Sequence[Segment]] | None = None,
    ) -> Self:
        """Turn seconds into samples; nothing is learnt from the recordings."""
        self._check_settings()
        rate = check_sample_rate(sample_rate)
        window = self._window(rate)
        self.hop_samples_ = max(1, round(window * self.hop_s / self.window_s))
        self.lag_steps_ = round(self.lag_s * rate / self.hop_samples_)
        self.sample_rate_, self.window_samples_ = rate, window
        self.offset_samples_ = FrameStream(window, self.hop_samples_, pad=self.pad).offset
        hlds = self._hlds()
        self.layers_ = hlds.layers_
        response = _response(hlds)
        self.n_features_ = response.shape[1]
        before = (window - self.hop_samples_) // 2
        after = window - self.hop_samples_ - before
        hop = self.hop_samples_
        self.context_samples_ = (before + _memory(response) * hop, after + self.lag_steps_ * hop)
        floor = self._floor()
        self.delay_samples_ = after + hop * max(self.lag_steps_, floor.delay if floor else 0)
        return self

    def stream(self) -> "HLDSSource":
        check_is_fitted(self)
        frames = FrameStream(self.window_samples_, self.hop_samples_, pad=self.pad)
        return HLDSSource(
            frames,
            self._hlds(),
            self.compress,
            ActivityStream(self.n_features_, self._floor(), noise_rise(self.window_samples_ - 1)),
        )

    def in_words(self) -> str:
        span = f"{1e3 * self.window_s:.3g} ms every {1e3 * self.hop_s:.3g} ms"
        return f"frames of {span}: level, slope and curvature of each band, as in the paper"

    @property
    def measures_activity(self) -> bool:
        return self.measure_activity

    def _check_settings(self) -> None:
        window_s, hop_s = check_seconds("window_s", self.window_s), check_seconds("hop_s", self.hop_s)
        check_seconds("lag_s", self.lag_s, zero=True)
        if hop_s > window_s:
            raise InputError(
                f"hop_s={hop_s!r} is longer than window_s={window_s!r}, so that samples would be skipped; give a "
                "shorter hop or a longer window"
            )
        check_choice(self, "pad", ("centre", "none"))
        check_choice(self, "compress", COMPRESSIONS)
        check_choice(self, "measure_activity", (True, False))

    def _window(self, rate: int) -> int:
        samples = self.window_s * rate
        if isinstance(self.layers, str):
            return max(1, round(samples / DIVISIBLE_BY)) * DIVISIBLE_BY
        if len(self.layers) == 0 or self.layers[0] != round(samples):
            raise InputError(
                f"layers={self.layers!r}, but window_s={self.window_s:.6g} is {round(samples)} samples at {rate} Hz; "
                f"the bottom layer must be as wide as the window: give layers='auto', layers=({round(samples)}, …), or "
                "window_s as samples / sample rate"
            )
        return round(samples)

    def _hlds(self) -> HLDS:
        hlds = HLDS(self.layers, output=self.output, lag=self.lag_steps_)
        return hlds.fit(np.zeros((1, self.window_samples_)))

    def _floor(self) -> LevelFloor | None:
        return LevelFloor(self.frame_rate) if self.measure_activity else None


class HLDSSource:
    """Frames of one recording; made by `HLDSFrontEnd.stream`."""

    def __init__(self, frames: FrameStream, hlds: HLDS, compress: str, activity: ActivityStream) -> None:
        self._frames, self._hlds, self._activity = frames, hlds.stream(), activity
        self._compress = compress

    def push(self, x: np.ndarray) -> Frames:
        """Samples (n,) in; the frames that are ready out."""
        # in pieces, because the spectra of a long block would not fit into memory
        pieces = [x[start : start + DECODED_AT_ONCE] for start in range(0, max(1, len(x)), DECODED_AT_ONCE)]
        return joined([self._activity.push(*self._described(self._frames.push(piece))) for piece in pieces])

    def finish(self) -> Frames:
        """The rest of the frames."""
        features, levels = self._described(self._frames.finish())
        features = np.concatenate([features, self._hlds.finish()])
        return joined([self._activity.push(features, levels), self._activity.finish()])

    def _described(self, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The features that are ready, (T', d), and the level of each frame without its mean, (T,) in dB."""
        spectra = dct(frames, type=2, norm="ortho", axis=1)
        levels = decibels((spectra[:, 1:] ** 2).sum(axis=1) / self._frames.window)
        return self._hlds.push(compressed(np.abs(spectra), self._compress)), levels


def compressed(magnitudes: np.ndarray, how: str) -> np.ndarray:
    """Magnitudes m as "none": m, "root": √m, or "log": log(1 + m / 0.001).

    >>> compressed(np.array([0.0, 4.0]), "root")
    array([0., 2.])
    """
    if how == "root":
        return np.sqrt(magnitudes)
    return np.log1p(magnitudes / LOG_FLOOR) if how == "log" else magnitudes


def _response(hlds: HLDS) -> np.ndarray:
    """The impulse response of each feature of the settled filter, (steps, d)."""
    impulse = np.zeros((SETTLING_STEPS * 4, hlds.n_features_in_))
    impulse[2 * SETTLING_STEPS] = 1.0
    return hlds.transform(impulse)[2 * SETTLING_STEPS :]


def _memory(response: np.ndarray) -> int:
    """The last step at which any feature exceeds `FORGOTTEN` of its largest response."""
    size = np.abs(response)
    return int(np.flatnonzero((size > FORGOTTEN * size.max(axis=0)).any(axis=1))[-1])
