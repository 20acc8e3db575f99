"""A front end for time series of any kind with any number of channels: accelerometers, radar, telemetry."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import FrameStream
from outlark.errors import InputError
from outlark.estimators.open_set import check_choice, check_count, check_seconds
from outlark.features.base import Frames, FrontEnd, joined
from outlark.features.noise_floor import ActivityStream, LevelFloor, decibels, noise_rise
from outlark.segments import Segment

#: window_s="auto" cuts the median training note into this many windows, without overlap.
WINDOWS_IN_A_NOTE = 16
#: Logarithms end this far below the mean power of a channel in the training notes: 60 dB.
POWER_FLOOR = 1e-6
#: Smallest scale of a feature: a share of the channel's spread for means, units of log for the others.
SMALLEST_SCALE = 0.01
#: floor_s="auto": seconds at least, and median notes.
FLOOR_S, FLOOR_NOTES = 10.0, 10
#: The power floor of a channel that never varied in training: any variation is then far from what was learnt.
NEVER_VARIED = 1e-12
#: Numbers cut into windows at once, to save memory.
CHUNK = 2**16


class ArrayFrontEnd(FrontEnd):
    """Each channel of each window as its mean, log variance and log power in bands.

    Features are standardised over the training notes, so that neither units nor offsets of the channels matter. Beyond
    the ends of a recording its first and last values are repeated.

    Parameters
    ----------
    window_s : float or "auto"
        Length of a window; "auto": a sixteenth of the median training note.
    hop_s : float or "auto"
        Distance between windows; "auto": half a window.
    n_bands : int
        Bands of the DCT of a window without its mean, wider at higher frequencies. A window has at least n_bands + 1
        samples.
    measure_activity : bool
        Whether to measure how far the variation of a window rises above the noise floor (`LevelFloor`); channels are
        weighted by their power in the training notes. Frames are then delayed by up to 0.3 `floor_s`. Otherwise the
        activity is infinite, or minus infinity where nothing varies.
    floor_s : float or "auto"
        How far back the noise floor looks; it must include times without a note. "auto": ten median training notes,
        at least 10 s.

    Attributes
    ----------
    n_channels_ : int
    window_samples_ : int
    floor_s_ : float
    power_ : ndarray (n_channels,)
        Mean power in the training notes, without the mean of each window.
    mean_, scale_ : ndarray (n_features,)
    and those of `FrontEnd`; `context_samples_` does not include the noise floor

    Examples
    --------
    >>> walks = [np.random.default_rng(seed).normal(size=(400, 3)) for seed in range(4)]
    >>> front_end = ArrayFrontEnd(n_bands=4).fit(walks, sample_rate=100)
    >>> front_end.window_samples_, front_end.hop_samples_, front_end.frame_rate
    (25, 12, 8.333333333333334)
    >>> front_end.transform(walks[0]).features.shape
    (34, 18)
    """

    is_sound = False

    @staticmethod
    def signal(audio: ArrayLike, /) -> np.ndarray:
        return as_columns(audio)

    @staticmethod
    def check_rate(sample_rate: Any, /) -> int:
        return check_series_rate(sample_rate)

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
        """Choose the window, and learn the mean and spread of the features over the training notes."""
        self._check_settings()
        rate = check_series_rate(sample_rate)
        signals = _training_signals(recordings)
        spans = _training_spans(signals, rate, segments)
        self.sample_rate_, self.n_channels_ = rate, signals[0].shape[1]
        self._set_lengths(float(np.median([end - start for some in spans for start, end in some])))
        means, powers = self._note_windows(signals, spans)
        self.power_ = powers.sum(axis=2).mean(axis=0)
        features = _features(means, powers, self.power_)
        self.mean_ = features.mean(axis=0)
        self.scale_ = _scale(features, self.power_)
        self.n_features_ = len(self.mean_)
        return self

    def stream(self) -> "ArraySource":
        check_is_fitted(self)
        return ArraySource(self)

    def silence(self, n_samples: int) -> np.ndarray:
        """A recording in which nothing happens."""
        return np.zeros((n_samples, self.n_channels_))

    def in_words(self) -> str:
        return "a series of numbers, not sound"

    @property
    def measures_activity(self) -> bool:
        return self.measure_activity

    def _check_settings(self) -> None:
        for name in ("window_s", "hop_s", "floor_s"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise InputError(f"{name}={value!r} must be 'auto' or a number of seconds")
            if not isinstance(value, str):
                check_seconds(name, value)
        check_count("n_bands", self.n_bands)
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
        """Set these lengths, and those that follow from them."""
        before = (window - hop) // 2
        self.window_samples_, self.hop_samples_, self.offset_samples_ = window, hop, 0
        self.context_samples_, self.floor_s_ = (before, window - hop - before), floor_s
        floor = self._floor()
        self.delay_samples_ = window - hop - before + hop * (floor.delay if floor else 0)

    def _floor(self) -> LevelFloor | None:
        if not self.measure_activity:
            return None
        return LevelFloor(self.frame_rate, self.floor_s_, ahead_s=self.floor_s_ / 5, chunk_s=self.floor_s_ / 10)

    def _frames(self) -> FrameStream:
        frames = FrameStream(self.window_samples_, self.hop_samples_, pad="edge")
        frames.push(np.empty((0, self.n_channels_)))
        return frames

    def _note_windows(
        self, signals: Sequence[np.ndarray], spans: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and powers of all windows within notes."""
        means, powers = [], []
        for signal, some in zip(signals, spans, strict=True):
            frames = self._frames()
            blocks = [*(frames.push(piece) for piece in _pieces(signal)), frames.finish()]
            whole = [described_windows(block, self.n_bands) for block in blocks]
            all_means, all_powers = (np.concatenate(parts) for parts in zip(*whole, strict=True))
            for start, end in some:
                own = slice(self.frame_at(start), self.frame_at(end - 1) + 1)
                means.append(all_means[own])
                powers.append(all_powers[own])
        return np.concatenate(means), np.concatenate(powers)


class ArraySource:
    """Frames of one recording; made by `ArrayFrontEnd.stream`."""

    def __init__(self, front_end: ArrayFrontEnd) -> None:
        self._fitted, self._frames = front_end, front_end._frames()
        n_numbers = (front_end.window_samples_ - 1) * max(1, int((front_end.power_ > 0.0).sum()))
        self._activity = ActivityStream(front_end.n_features_, front_end._floor(), noise_rise(n_numbers))

    def push(self, samples: ArrayLike) -> Frames:
        """Samples (n, channels), or (n,) for one channel, in; the frames that are ready out."""
        x = as_columns(samples, self._fitted.n_channels_)
        return joined([self._described(self._frames.push(piece)) for piece in _pieces(x)])

    def finish(self) -> Frames:
        """The rest of the frames."""
        return joined([self._described(self._frames.finish()), self._activity.finish()])

    def _described(self, frames: np.ndarray) -> Frames:
        fitted = self._fitted
        means, powers = described_windows(frames, fitted.n_bands)
        features = (_features(means, powers, fitted.power_) - fitted.mean_) / fitted.scale_
        return self._activity.push(features, _levels(powers, fitted.power_))


def described_windows(frames: np.ndarray, n_bands: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows (T, window, channels) → means (T, channels), and powers (T, channels, n_bands) that add up to variances.

    >>> means, powers = described_windows(np.array([[[5.0], [5.0], [7.0], [7.0]]]), n_bands=1)
    >>> means.ravel(), powers.ravel().round(3)
    (array([6.]), array([1.]))
    """
    window = frames.shape[1]
    # channels before samples, contiguous: sums then run in the same order whatever the block
    rows = np.ascontiguousarray(np.moveaxis(frames, 1, 2))
    shifted = rows - rows[:, :, :1]  # exact for a constant, precise beside a large offset
    means = rows[:, :, 0] + shifted.mean(axis=2)
    power = dct(shifted, type=2, norm="ortho", axis=2) ** 2 / window
    return means, np.add.reduceat(power, band_edges(window, n_bands)[:-1], axis=2)


def band_edges(window: int, n_bands: int) -> np.ndarray:
    """Where the bands of a DCT of `window` coefficients start, from 1 on (0 is the mean), and where the last one ends.

    Each is wider than the one before by about the same factor, and at least one coefficient wide.

    >>> band_edges(32, 4).tolist()
    [1, 2, 5, 13, 32]
    """
    edges = np.floor(np.geomspace(1, window, n_bands + 1) + 1e-9).astype(int)
    for i in range(1, len(edges)):
        edges[i] = max(edges[i], edges[i - 1] + 1)
    return edges


def _pieces(x: np.ndarray) -> list[np.ndarray]:
    step = max(1, CHUNK // x.shape[1])
    return [x[start : start + step] for start in range(0, max(1, len(x)), step)]


def _features(means: np.ndarray, powers: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Mean, log variance, log power of each band; channel after channel, (T, d)."""
    floor = np.where(power > 0.0, POWER_FLOOR * power, NEVER_VARIED)
    spread = np.log(powers.sum(axis=2) + floor)
    bands = np.log(powers + floor[:, np.newaxis])
    both = np.stack([means, spread], axis=2)
    return np.concatenate([both, bands], axis=2).reshape(len(means), means.shape[1] * (2 + powers.shape[2]))


def _scale(features: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The standard deviation of each feature, (d,), limited so that nearly constant features are not blown up."""
    smallest = np.full((len(power), features.shape[1] // len(power)), SMALLEST_SCALE)
    rounding = 1e-9 * np.abs(features).max(axis=0).reshape(smallest.shape)[:, 0]
    smallest[:, 0] = np.maximum(SMALLEST_SCALE * np.sqrt(power), rounding)
    scale = np.maximum(features.std(axis=0), smallest.ravel())
    return np.where(scale > 0.0, scale, 1.0)


def _levels(powers: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Variation of each window in dB, (T,), relative to the training notes; all channels weigh the same."""
    varies = power > 0.0  # a channel that never varied has no unit to count in
    parts = np.ascontiguousarray(powers.sum(axis=2)[:, varies] / power[varies])
    return decibels(parts.sum(axis=1) / max(1, int(varies.sum())))


# ------------------------------------------------------------------------ input


def as_columns(signal: ArrayLike, n_channels: int | None = None) -> np.ndarray:
    """A series as finite floats, (n, channels).

    >>> as_columns([1, 2]).tolist()
    [[1.0], [2.0]]
    """
    x = np.asarray(signal)
    if x.dtype.kind not in "fiu" or x.ndim not in (1, 2) or 0 in x.shape[1:]:
        raise InputError(
            f"a signal of type {x.dtype} and shape {x.shape}; give real numbers, (n,) or (n, channels), rows in time"
        )
    x = (x[:, np.newaxis] if x.ndim == 1 else x).astype(np.float64, copy=False)
    if n_channels is not None and x.shape[1] != n_channels:
        hint = "rows are samples: give signal.T" if len(x) == n_channels else "give the same channels, in their order"
        raise InputError(
            f"a signal of shape {x.shape} has {x.shape[1]} channels, {n_channels} were expected, as in training; {hint}"
        )
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        raise InputError(
            f"{bad.sum()} of {len(x)} samples hold NaN or infinity, the first is sample {bad.argmax()}; fill the gaps "
            "(numpy.interp) or cut them out"
        )
    return x


def check_series_rate(rate: Any) -> int:
    """A whole number of samples per second, 1 or more.

    >>> check_series_rate(50.0)
    50
    """
    number = isinstance(rate, int | float | np.integer | np.floating) and not isinstance(rate, bool)
    if number and 1 <= rate < np.inf and rate == int(rate):
        return int(rate)
    raise InputError(
        f"sample_rate={rate!r} must be a whole number of samples per second, 1 or more; for slower sampling, count "
        "time in a longer unit, such as minutes"
    )


def _training_signals(recordings: Sequence[ArrayLike]) -> list[np.ndarray]:
    """All recordings as (n, channels), with the same number of channels."""
    signals: list[np.ndarray] = []
    for i, recording in enumerate(recordings):
        try:
            signals.append(as_columns(recording, signals[0].shape[1] if signals else None))
        except InputError as error:
            raise InputError(f"recording {i}: {error}") from error
    return signals


def _training_spans(
    signals: Sequence[np.ndarray], rate: int, segments: Sequence[Sequence[Segment]] | None
) -> list[list[tuple[int, int]]]:
    """For each recording the first sample of each note and the one after its last; without segments, all of it."""
    if segments is None:
        spans = [[(0, len(x))] if len(x) else [] for x in signals]
    elif len(segments) != len(signals):
        raise InputError(f"segments for {len(segments)} recordings, but {len(signals)} recordings; give one list each")
    else:
        spans = [[_span(s, len(signals[i]), rate, i) for s in marked] for i, marked in enumerate(segments)]
    if not any(spans):
        raise InputError("there is no training note: give at least one recording that is not empty, or one segment")
    return spans


def _span(segment: Segment, n_samples: int, rate: int, i: int) -> tuple[int, int]:
    if segment.sample_rate != rate or segment.end > n_samples:
        raise InputError(
            f"recording {i} has {n_samples} samples at {rate} Hz, but a segment of it ends at sample {segment.end} at "
            f"{segment.sample_rate} Hz; make segments with the sample rate of the recording, and within it"
        )
    return segment.start, segment.end
