"""A front end for series of any kind and number of channels: accelerometers, radar, telemetry."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from outlark.errors import InputError
from outlark.estimators.checks import check_choice
from outlark.features.base import Frames, FrontEnd, joined
from outlark.features.channels import (
    ChannelWindows,
    Windows,
    as_columns,
    check_series_rate,
    training_signals,
    training_spans,
)
from outlark.features.noise_floor import ActivityStream, LevelFloor, check_seconds, decibels, noise_rise
from outlark.segments import Segment

#: window_s="auto" cuts the median training note into this many windows, without overlap.
WINDOWS_IN_A_NOTE = 16
#: Logarithms end this far below the mean power of a channel in the training notes: 60 dB.
POWER_FLOOR = 1e-6
#: No feature is stretched beyond this: part of a channel's spread for means, units of log for the others.
SMALLEST_SCALE = 0.01
#: floor_s="auto" is this long, or this many median notes if they take longer.
FLOOR_S, FLOOR_NOTES = 10.0, 10
#: The power floor of a channel that never varied in training: any variation is then far from what was learnt.
NEVER_VARIED = 1e-12


class ArrayFrontEnd(FrontEnd):
    """Each channel of each window as its mean, the log of its variance and of its power in bands.

    The features are then brought to mean 0 and standard deviation 1 over the training notes. So neither the units of
    the channels nor their offsets matter. Outside the recording its first and last values are repeated.

    Parameters
    ----------
    window_s : float or "auto"
        Length of a window; "auto": a sixteenth of the median training note.
    hop_s : float or "auto"
        From one window to the next; "auto": half a window.
    n_bands : int
        Bands of the DCT of a window without its mean, the higher the wider. A window has at least n_bands + 1
        samples.
    measure_activity : bool
        Whether to measure how far the variation of a window rises above the noise floor (`LevelFloor`). Channels count
        in proportion to their power in the training notes. Frames then wait for the floor, up to 0.3 `floor_s`;
        otherwise the activity is infinite, minus infinity where nothing varies.
    floor_s : float or "auto"
        How far back the noise floor looks; it must see times without a note. "auto": ten median training notes, 10 s
        at least.

    Attributes
    ----------
    n_channels_ : int
    window_samples_ : int
    floor_s_ : float
    power_ : ndarray (n_channels,)
        Mean power, without the mean of each window, in the training notes.
    mean_, scale_ : ndarray (n_features,)
    and those of `FrontEnd`; `context_samples_` is that of the features, the noise floor looks further

    Examples
    --------
    >>> walks = [np.random.default_rng(seed).normal(size=(400, 3)) for seed in range(4)]
    >>> front_end = ArrayFrontEnd(n_bands=4).fit(walks, sample_rate=100)
    >>> front_end.window_samples_, front_end.hop_samples_, front_end.frame_rate
    (25, 12, 8.333333333333334)
    >>> front_end.transform(walks[0]).features.shape
    (34, 18)
    """

    resamples, signal, check_rate = False, staticmethod(as_columns), staticmethod(check_series_rate)

    def __init__(
        self,
        window_s: float | str = "auto",
        hop_s: float | str = "auto",
        *,
        n_bands: int = 4,
        measure_activity: bool = True,
        floor_s: float | str = "auto",
    ) -> None:
        self.window_s = window_s
        self.hop_s = hop_s
        self.n_bands = n_bands
        self.measure_activity = measure_activity
        self.floor_s = floor_s

    def fit(
        self,
        recordings: Sequence[np.ndarray],
        sample_rate: int,
        segments: Sequence[Sequence[Segment]] | None = None,
    ) -> Self:
        """Choose the window and learn the mean and spread of the features over the training notes.

        Parameters
        ----------
        recordings : sequence of arrays (n,) or (n, channels)
        sample_rate : int
            The same for all; 1 or more for each second.
        segments : for each recording the marked notes, optional
            Left out: each recording is one note.
        """
        self._check_settings()
        rate = check_series_rate(sample_rate)
        signals = training_signals(recordings)
        spans = training_spans(signals, rate, segments)
        self.sample_rate_, self.n_channels_ = rate, signals[0].shape[1]
        self._set_lengths(float(np.median([end - start for some in spans for start, end in some])))
        windows = self._windows_of(signals, spans)
        self.power_ = windows.powers.sum(axis=2).mean(axis=0)
        features = _features(windows, self.power_)
        self.mean_ = features.mean(axis=0)
        self.scale_ = _scale(features, self.power_)
        self.n_features_ = len(self.mean_)
        return self

    def stream(self) -> "ArraySource":
        """A fresh stream: `push` blocks of shape (n, channels), then `finish`; the same whatever the blocks."""
        check_is_fitted(self)
        return ArraySource(self)

    def silence(self, n_samples: int) -> np.ndarray:
        """A recording in which nothing happens."""
        return np.zeros((n_samples, self.n_channels_))

    def _check_settings(self) -> None:
        for name in ("window_s", "hop_s", "floor_s"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise InputError(f"{name}={value!r} must be 'auto' or a number of seconds")
            if not isinstance(value, str):
                check_seconds(name, value)
        if isinstance(self.n_bands, bool) or not isinstance(self.n_bands, int | np.integer) or self.n_bands < 1:
            raise InputError(f"n_bands={self.n_bands!r} must be a whole number of bands, 1 or more")
        check_choice(self, "measure_activity", (True, False))

    def _set_lengths(self, note: float) -> None:
        """Seconds to samples; `note` is the median training note in samples."""
        rate, shortest = self.sample_rate_, self.n_bands + 1
        if isinstance(self.window_s, str):
            window = max(shortest, round(note / WINDOWS_IN_A_NOTE))
        else:
            window = round(self.window_s * rate)
        hop = max(1, window // 2 if isinstance(self.hop_s, str) else round(self.hop_s * rate))
        if window < shortest or hop > window:
            raise InputError(
                f"window_s={self.window_s!r} is {window} samples at {rate} Hz, hop_s={self.hop_s!r} is {hop}; a window "
                f"needs n_bands + 1 = {shortest} samples or more, and a hop no more than the window: give a longer "
                "window_s, a shorter hop_s or fewer n_bands"
            )
        auto = isinstance(self.floor_s, str)
        self._set_samples(window, hop, max(FLOOR_S, FLOOR_NOTES * note / rate) if auto else float(self.floor_s))

    def _set_samples(self, window: int, hop: int, floor_s: float) -> None:
        """Take these lengths, and what follows from them."""
        before = (window - hop) // 2
        self.window_samples_, self.hop_samples_, self.offset_samples_ = window, hop, 0
        self.context_samples_, self.floor_s_ = (before, window - hop - before), floor_s
        floor = self._floor()
        self.delay_samples_ = window - hop - before + hop * (floor.delay if floor else 0)

    def _floor(self) -> LevelFloor | None:
        if not self.measure_activity:
            return None
        return LevelFloor(self.frame_rate, self.floor_s_, ahead_s=self.floor_s_ / 5, chunk_s=self.floor_s_ / 10)

    def _windows(self) -> ChannelWindows:
        return ChannelWindows(self.window_samples_, self.hop_samples_, self.n_channels_, self.n_bands)

    def _windows_of(self, signals: Sequence[np.ndarray], spans: Sequence[Sequence[tuple[int, int]]]) -> Windows:
        """All windows that speak for a note."""
        parts = []
        for signal, some in zip(signals, spans, strict=True):
            stream = self._windows()
            whole = _joined([stream.push(signal), stream.finish()])
            for start, end in some:
                own = slice(self.frame_at(start), self.frame_at(end - 1) + 1)
                parts.append(Windows(whole.means[own], whole.powers[own]))
        return _joined(parts)


class ArraySource:
    """Frames of one recording; made by `ArrayFrontEnd.stream`."""

    def __init__(self, front_end: ArrayFrontEnd) -> None:
        self._fitted = front_end
        self._windows = front_end._windows()
        self._activity = ActivityStream(
            front_end.n_features_,
            front_end._floor(),
            noise_rise((front_end.window_samples_ - 1) * max(1, int((front_end.power_ > 0.0).sum()))),
        )

    def push(self, samples: ArrayLike) -> Frames:
        """Samples (n, channels), or (n,) for one channel, in; the frames that are ready out."""
        return self._described(self._windows.push(as_columns(samples, self._fitted.n_channels_)))

    def finish(self) -> Frames:
        """The rest of the frames."""
        return joined([self._described(self._windows.finish()), self._activity.finish()])

    def _described(self, windows: Windows) -> Frames:
        fitted = self._fitted
        features = (_features(windows, fitted.power_) - fitted.mean_) / fitted.scale_
        return self._activity.push(features, _levels(windows.powers, fitted.power_))


def _features(windows: Windows, power: np.ndarray) -> np.ndarray:
    """Mean, log of the variance, log power of each band; channel after channel, (T, d)."""
    means, powers = windows
    floor = np.where(power > 0.0, POWER_FLOOR * power, NEVER_VARIED)
    spread = np.log(powers.sum(axis=2) + floor)
    bands = np.log(powers + floor[:, np.newaxis])
    both = np.stack([means, spread], axis=2)
    return np.concatenate([both, bands], axis=2).reshape(len(means), means.shape[1] * (2 + powers.shape[2]))


def _scale(features: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The standard deviation of each feature, (d,), but what hardly varied in training must not be blown up."""
    smallest = np.full((len(power), features.shape[1] // len(power)), SMALLEST_SCALE)
    rounding = 1e-9 * np.abs(features).max(axis=0).reshape(smallest.shape)[:, 0]
    smallest[:, 0] = np.maximum(SMALLEST_SCALE * np.sqrt(power), rounding)
    scale = np.maximum(features.std(axis=0), smallest.ravel())
    return np.where(scale > 0.0, scale, 1.0)


def _levels(powers: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Variation of each window in dB, (T,): 0 is that of the training notes, every channel counts the same."""
    varies = power > 0.0  # a channel that never varied has no unit to count in
    parts = np.ascontiguousarray(powers.sum(axis=2)[:, varies] / power[varies])
    return decibels(parts.sum(axis=1) / max(1, int(varies.sum())))


def _joined(parts: Sequence[Windows]) -> Windows:
    return Windows(np.concatenate([p.means for p in parts]), np.concatenate([p.powers for p in parts]))
