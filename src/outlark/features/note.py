r"""Spectra above the noise floor, and notes described by them, whatever their length and loudness.

.. math:: a_{tb} = \max(0, P_{tb}^γ - (ν_b F_{tb})^γ)

with the power P of band b at time t, its noise floor F, and γ = 0.2. Steady noise stays below ν times its floor 90 % of
the time; ν is large for bands of few bins. A louder note has the same shape, only larger, and noise is mostly 0.

.. math:: x = \frac{U (v - \bar v)}{‖U (v - \bar v)‖},\quad v = (\bar a_1, …, \bar a_n),\quad U^⊤U = I + κ D^⊤D

with the mean spectra :math:`\bar a` of n slices of equal length of a note, and D the differences of successive slices.
Inner products, all that a kernel uses, are then those of the slices and of √κ times their differences side by side, in
half as many numbers. The slices cover the note and a little of its surroundings: a note must have an onset and an end,
so that a short one is not found repeatedly inside a longer sound.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.ndimage import minimum_filter1d, uniform_filter1d
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import FrameStream, Reblock, check_sample_rate, hann
from outlark.errors import InputError
from outlark.estimators.open_set import check_count, check_seconds, is_number
from outlark.features.base import HIGHEST_SHARE, Frames, FrontEnd, joined
from outlark.features.noise_floor import LevelFloor, decibels
from outlark.segments import Segment

#: γ: perceived loudness grows with about this exponent of the power.
EXPONENT = 0.2
#: Frames transformed at once.
FRAMES_AT_ONCE = 256
#: Of windows and spectra.
DTYPE = np.float32
#: Neighbouring bands that a sound must fill to count as activity: a single band is as likely to be noise.
ACTIVE_BANDS = 3

#: A rise is never below minus this, so that digital silence does not dominate the mean of its neighbours.
SILENT_RISE_DB = 60.0
#: Windows of white noise that measure how far noise rises above its own floor.
NOISE_FRAMES = 2000
#: Noise stays below what is subtracted this share of the time.
NOISE_SHARE = 0.9
#: Relative lengths below this are rounding and count as 0.
ROUNDING = 1e-9
#: Ratio of successive trial lengths.
LENGTH_STEP = 1.13
#: Notes may be shorter or longer than the training notes by this factor.
LENGTH_SLACK = 1.3
#: Shortest length in frames that is searched for.
SHORTEST = 3.0


@dataclass(frozen=True, kw_only=True)
class SpectrumSettings:
    """How spectra are taken."""

    #: Length of the (Hann) window, and distance between windows.
    window_s: float = 0.016
    hop_s: float = 0.002
    #: Range of the bands; `high_hz` is lowered to what the sample rate allows.
    low_hz: float = 500.0
    high_hz: float = 10_000.0
    #: Evenly spaced in pitch.
    n_bands: int = 40

    def __post_init__(self) -> None:
        window_s, hop_s = check_seconds("window_s", self.window_s), check_seconds("hop_s", self.hop_s)
        if hop_s > window_s:
            raise InputError(f"hop_s={hop_s!r} is longer than window_s={window_s!r}; give a shorter hop")
        if not 0.0 < self.low_hz < self.high_hz:
            raise InputError(
                f"bands from low_hz={self.low_hz!r} to high_hz={self.high_hz!r}: give 0 < low_hz < high_hz"
            )
        check_count("n_bands", self.n_bands, least=ACTIVE_BANDS)

    @classmethod
    def of(cls, front_end: Any) -> Self:
        """The settings among the parameters of a front end."""
        return cls(**{field.name: getattr(front_end, field.name) for field in fields(cls)})


class Spectrum:
    """Window, transform and bands at a sample rate.

    >>> spectrum = Spectrum(SpectrumSettings(), sample_rate=22050)
    >>> spectrum.hop, spectrum.window, spectrum.bands.shape
    (44, 353, (181, 40))
    """

    def __init__(self, settings: SpectrumSettings, sample_rate: int) -> None:
        self.settings, self.sample_rate = settings, sample_rate
        highest = min(settings.high_hz, HIGHEST_SHARE * sample_rate)
        if settings.low_hz >= highest:
            raise InputError(
                f"bands from low_hz={settings.low_hz:g}: a sample rate of {sample_rate} Hz holds no sound above "
                f"{HIGHEST_SHARE * sample_rate:g} Hz; give a lower low_hz, or recordings with a higher sample rate"
            )
        self.hop = max(1, round(settings.hop_s * sample_rate))
        self.window = max(self.hop, 4, round(settings.window_s * sample_rate))
        self.n_fft = next_fast_len(self.window, real=True)
        shape = hann(self.window)
        self.shape = shape / np.sqrt((shape**2).sum())
        self.bands = band_matrix(self.n_fft, sample_rate, settings.low_hz, highest, settings.n_bands)
        used = np.flatnonzero(self.bands.any(axis=1))
        self._bins = slice(used[0], used[-1] + 1)
        # single precision; real and imaginary parts side by side
        self._shape, self._bands = self.shape.astype(DTYPE), np.repeat(self.bands[self._bins], 2, axis=0).astype(DTYPE)
        self.bands_in_an_octave = max(1, round(settings.n_bands / np.log2(highest / settings.low_hz)))
        self.noise_db, self.margin_db = self._noise_levels()

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop

    @property
    def context(self) -> tuple[int, int]:
        """Samples before and after its own span that a spectrum depends on."""
        before = (self.window - self.hop) // 2
        return before, self.window - self.hop - before

    @property
    def delay(self) -> int:
        """Longest delay of a spectrum in samples: for its block, and for the noise floor."""
        return self.window + self.hop * (FRAMES_AT_ONCE + LevelFloor(self.frame_rate).delay)

    def levels_of(self, signal: np.ndarray) -> np.ndarray:
        """The levels of a short signal (n,), (T, n_bands)."""
        frames = FrameStream(self.window, self.hop)
        return self.levels(np.concatenate([frames.push(signal), frames.finish()]))

    def levels(self, frames: np.ndarray) -> np.ndarray:
        """Windows (T, window) → the level of each band in dB, (T, n_bands).

        In single precision: amplitudes are exact to a millionth of the loudest in their window.
        """
        windows = np.multiply(frames, self._shape, dtype=DTYPE, casting="same_kind")
        parts = rfft(windows, self.n_fft, axis=1, overwrite_x=True)[:, self._bins].view(DTYPE)
        return decibels((np.square(parts) @ self._bands).astype(np.float64))

    def rise(self, levels: np.ndarray, floors: np.ndarray) -> np.ndarray:
        """Rise of each group of neighbouring bands above the floor, in dB, (T, n_bands)."""
        above = np.maximum(levels - floors, -SILENT_RISE_DB)
        return uniform_filter1d(above, ACTIVE_BANDS, axis=1, mode="nearest")

    def activity(self, levels: np.ndarray, floors: np.ndarray) -> np.ndarray:
        """Rise of the highest group of bands above what noise reaches there, in dB, (T,)."""
        return (self.rise(levels, floors) - self.noise_db).max(axis=1)

    def _noise_levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The rise of steady noise above its floor, in dB: in low bands, of few bins, it fluctuates most.

        First for each group of bands, such that any group exceeds it 1 % of the time; then ν for each band.
        """
        rng = np.random.default_rng(0)
        # in pieces, because windows are long at high sample rates
        sizes = [min(FRAMES_AT_ONCE, NOISE_FRAMES - at) for at in range(0, NOISE_FRAMES, FRAMES_AT_ONCE)]
        levels = np.concatenate([self.levels(rng.normal(size=(size, self.window))) for size in sizes])
        floors = np.quantile(levels, LevelFloor(1.0).quantile, axis=0)
        rise = self.rise(levels, floors)
        usual = np.quantile(rise, 0.99, axis=0)
        somewhere = usual + np.quantile((rise - usual).max(axis=1), 0.99)
        return somewhere, np.quantile(levels, NOISE_SHARE, axis=0) - floors


def band_matrix(n_fft: int, sample_rate: int, low_hz: float, high_hz: float, n_bands: int) -> np.ndarray:
    """Triangular bands, evenly spaced in pitch, as weights of the bins, (n_fft // 2 + 1, n_bands).

    A band narrower than a bin takes the nearest bin.

    >>> band_matrix(16, 16000, 1000.0, 8000.0, 3).sum(axis=0)
    array([1., 1., 1.])
    """
    frequencies = np.fft.rfftfreq(n_fft, 1.0 / sample_rate)[:, np.newaxis]
    edges = np.geomspace(low_hz, high_hz, n_bands + 2)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.minimum((frequencies - low) / (middle - low), (high - frequencies) / (high - middle))
    weights = np.maximum(weights, 0.0)
    empty = np.flatnonzero(weights.sum(axis=0) < 0.5)
    weights[:, empty] = 0.0
    weights[np.abs(frequencies - middle[empty]).argmin(axis=0), empty] = 1.0
    return weights / weights.sum(axis=0)


class SpectrumSource:
    """Samples in, spectra above the noise floor out: `Frames` whose features are the a of the module's docstring.

    In `clips` cut closely around notes, a band may sound all the time. The floor of a band is then that of the quietest
    band within an octave of it.

    With `first`, frames start at this number, bit for bit those of a stream from the start of the recording; samples
    must be pushed from `first_sample` on.
    """

    def __init__(self, spectrum: Spectrum, *, clips: bool = False, first: int = 0) -> None:
        self._spectrum, self._clips = spectrum, clips
        self._blocks = Reblock(FRAMES_AT_ONCE * spectrum.hop)
        self._frames = FrameStream(spectrum.window, spectrum.hop, dtype=DTYPE)
        floor = LevelFloor(spectrum.frame_rate)
        chunk = max(0, first - floor.look_back) // floor.chunk
        # Blocks are counted from the start of the recording. The first block has another shape, and the first
        # window reaches back before the first sample pushed.
        unlike = max(FRAMES_AT_ONCE, -(-spectrum.window // spectrum.hop))
        begin = max(0, chunk * floor.chunk - unlike) // FRAMES_AT_ONCE * FRAMES_AT_ONCE
        self.first_sample = begin * spectrum.hop
        self._floor = LevelFloor(spectrum.frame_rate, first_chunk=chunk)
        self._unused, self._early = chunk * floor.chunk - begin, first - chunk * floor.chunk
        self._waiting = np.empty((0, spectrum.settings.n_bands))

    def push(self, samples: np.ndarray) -> Frames:
        """Samples (n,) in; the frames whose noise floor is known out."""
        self._frames.push(samples[:0])  # raises if the stream is finished
        return joined([self._none(), *[self._take(self._frames.push(block)) for block in self._blocks.push(samples)]])

    def finish(self) -> Frames:
        """The rest of the frames."""
        rest = self._blocks.finish()
        parts = [self._none()] if rest is None else [self._take(self._frames.push(rest))]
        parts.append(self._take(self._frames.finish()))
        return joined([*parts, self._above(self._floor.finish())])

    def _take(self, frames: np.ndarray) -> Frames:
        levels = self._spectrum.levels(frames)
        unused = min(self._unused, len(levels))
        levels, self._unused = levels[unused:], self._unused - unused
        self._waiting = np.concatenate([self._waiting, levels])
        return self._above(self._floor.push(levels))

    def _above(self, floors: np.ndarray) -> Frames:
        levels, floors = self._next(floors)
        early = min(self._early, len(levels))
        levels, floors, self._early = levels[early:], floors[early:], self._early - early
        activity = self._spectrum.activity(levels, floors)
        return Frames(above(levels, floors + self._spectrum.margin_db), activity)

    def _next(self, floors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The levels that these floors belong to, and the floors to use."""
        levels, self._waiting = self._waiting[: len(floors)], self._waiting[len(floors) :]
        if self._clips:
            floors = minimum_filter1d(floors, 2 * self._spectrum.bands_in_an_octave + 1, axis=1)
        return levels, floors

    def _none(self) -> Frames:
        return Frames(np.empty((0, self._spectrum.settings.n_bands)), np.empty(0))


def above(levels: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """How far levels rise above those of noise, both in dB: the a of the module's docstring.

    >>> above(np.array([0.0, -50.0]), np.array([-50.0, 0.0])).round(3)
    array([0.9, 0. ])
    """
    tenth = EXPONENT / 10.0 * np.log(10.0)
    return np.maximum(np.exp(tenth * levels) - np.exp(tenth * noise), 0.0)


class NoteFrontEnd(FrontEnd):
    """Frames are spectra above the noise floor; notes are spans of them (`describe`).

    Parameters
    ----------
    window_s, hop_s, low_hz, high_hz, n_bands
        As in `SpectrumSettings`.
    n_slices : int
        Slices per note.
    change : float
        κ: weight of the change from slice to slice beside the slices.
    surroundings_s : float
        How much before and after a note its description covers. `NoteDetector.fit` sets it to 0, because the
        surroundings of clips are not known.
    shifts_s : sequence of float
        Every training note is also used at each of these shifts, because annotations are never exact.

    Attributes
    ----------
    those of `FrontEnd`; `n_features_` is the width of a frame

    Examples
    --------
    >>> front_end = NoteFrontEnd().fit([], sample_rate=22050)
    >>> frames = front_end.transform(np.random.default_rng(0).normal(size=22050))
    >>> frames.features.shape, front_end.describe(frames.features, start=100.0, n_starts=3, length=40.0).shape
    ((502, 40), (3, 480))
    """

    note_level = True

    def __init__(
        self,
        window_s: float = 0.016,
        hop_s: float = 0.002,
        *,
        low_hz: float = 500.0,
        high_hz: float = 10_000.0,
        n_bands: int = 40,
        n_slices: int = 12,
        change: float = 1.0,
        surroundings_s: float = 0.02,
        shifts_s: Sequence[float] = (-0.004, 0.0, 0.004),
    ) -> None:
        self.window_s = window_s
        self.hop_s = hop_s
        self.low_hz = low_hz
        self.high_hz = high_hz
        self.n_bands = n_bands
        self.n_slices = n_slices
        self.change = change
        self.surroundings_s = surroundings_s
        self.shifts_s = shifts_s

    def fit(
        self,
        recordings: Sequence[np.ndarray],
        sample_rate: int,
        segments: Sequence[Sequence[Segment]] | None = None,
    ) -> Self:
        """Turn seconds into samples; nothing is learnt from the recordings."""
        check_count("n_slices", self.n_slices)
        if not is_number(self.change) or not 0.0 <= self.change < np.inf:
            raise InputError(f"change={self.change!r} must be a number, 0 or more")
        check_seconds("surroundings_s", self.surroundings_s, zero=True)
        settings = SpectrumSettings.of(self)
        self.sample_rate_ = check_sample_rate(sample_rate)
        spectrum = self.spectrum_ = Spectrum(settings, self.sample_rate_)
        self.hop_samples_, self.offset_samples_, self.n_features_ = spectrum.hop, 0, settings.n_bands
        self.window_samples_, self.context_samples_, self.delay_samples_ = (
            spectrum.window,
            spectrum.context,
            spectrum.delay,
        )
        self._root = root_of_change(self.n_slices, self.change)
        return self

    def stream(self, first: int = 0) -> SpectrumSource:
        """A new stream of spectra above the noise floor; with `first`, from this frame on (`SpectrumSource`)."""
        check_is_fitted(self)
        return SpectrumSource(self.spectrum_, first=first)

    def for_clips(self) -> Self:
        """Without surroundings: the silence between joined clips is not evidence."""
        return self.set_params(surroundings_s=0.0)

    def transform_clips(self, signal: np.ndarray) -> Frames:
        check_is_fitted(self)
        stream = SpectrumSource(self.spectrum_, clips=True)
        return joined([stream.push(self.signal(signal)), stream.finish()])

    def in_words(self) -> str:
        """What it describes.

        >>> NoteFrontEnd(surroundings_s=0.0).in_words()
        'note-level, 12 slices per note; spectra of 40 bands, 500 to 10000 Hz, 16 ms every 2 ms'
        """
        around = f" and {1e3 * self.surroundings_s:.3g} ms around it" if self.surroundings_s else ""
        spectra = f"spectra of {self.n_bands} bands, {self.low_hz:g} to {self.high_hz:g} Hz"
        span = f"{1e3 * self.window_s:g} ms every {1e3 * self.hop_s:g} ms"
        return f"note-level, {self.n_slices} slices per note{around}; {spectra}, {span}"

    @property
    def band_hz(self) -> tuple[float, float]:
        return self.low_hz, self.high_hz

    @property
    def surroundings(self) -> float:
        """Frames before and after a note that its description covers."""
        return self.surroundings_s * self.frame_rate

    def lengths(self, durations_s: Iterable[float]) -> np.ndarray:
        """Lengths in frames at which to search for notes of these durations."""
        frames = np.maximum(np.array(list(durations_s)) * self.frame_rate, SHORTEST)
        low, high = frames.min() / LENGTH_SLACK, frames.max() * LENGTH_SLACK
        n_steps = int(np.ceil(np.log(high / low) / np.log(LENGTH_STEP)))
        return np.geomspace(low, high, n_steps + 1)

    def describe(
        self,
        spectra: np.ndarray,
        *,
        start: float,
        n_starts: int,
        length: float,
        step: int = 1,
        sums: np.ndarray | None = None,
    ) -> np.ndarray:
        """Notes of one length at successive starts.

        Parameters
        ----------
        spectra : ndarray (T, n_bands)
        start : float
            Frame at which the first note starts; the others follow every `step` frames. Outside the spectra is
            silence.
        n_starts : int
        length : float
            Frames.
        step : int
        sums : ndarray, optional
            `cumulated` spectra, to describe many lengths; notes with their surroundings must then lie within the
            spectra.

        Returns
        -------
        ndarray (n_starts, n_slices·n_bands)
        """
        edges = start + np.linspace(-self.surroundings, length + self.surroundings, self.n_slices + 1)
        sums = _sums_at(spectra, edges, n_starts, step) if sums is None else _read_off(sums, edges, n_starts, step)
        return self._unit(sums)

    def describe_spans(
        self, sums: np.ndarray, starts: np.ndarray, length: float, surroundings: float | None = None
    ) -> np.ndarray:
        """Notes of one length at any starts (N,), with this many frames around them, as `describe` describes them.

        `sums` are `cumulated` spectra; outside them is silence. Returns (N, n_slices·n_bands).
        """
        around = self.surroundings if surroundings is None else surroundings
        edges = np.linspace(-around, length + around, self.n_slices + 1)[:, np.newaxis] + starts
        whole = np.floor(edges).astype(int)
        parts = (edges - whole)[..., np.newaxis]
        here, there = (sums[np.clip(whole + k, 0, len(sums) - 1)] for k in (0, 1))
        return self._unit(here + parts * (there - here))

    def _unit(self, sums: np.ndarray) -> np.ndarray:
        """Descriptions of length 1 from sums at the edges of slices, (edges, n, bands)."""
        means = (sums[-1] - sums[0]).mean(axis=1) / self.n_slices
        x = self._with_change(np.diff(sums, axis=0))
        x -= means[:, np.newaxis, np.newaxis] * self._with_change(np.ones((self.n_slices, 1, 1)))
        lengths = np.sqrt(np.einsum("ijk,ijk->i", x, x))
        # flat spectra have no shape: they stay at the origin, at distance 1 from every note
        factors = np.divide(1.0, lengths, out=np.zeros(len(x)), where=lengths > ROUNDING * means)
        x *= factors[:, np.newaxis, np.newaxis]
        return x.reshape(len(x), -1)

    def _with_change(self, slices: np.ndarray) -> np.ndarray:
        """U times slices (n_slices, n, bands), as (n, n_slices, bands)."""
        here, next_one = self._root
        x = np.empty((slices.shape[1], len(slices), slices.shape[2]))
        for k, of_slice in enumerate(slices):
            np.multiply(here[k], of_slice, out=x[:, k])
            if k + 1 < len(slices):
                x[:, k] += next_one[k] * slices[k + 1]
        return x


def root_of_change(n_slices: int, change: float) -> tuple[np.ndarray, np.ndarray]:
    """The diagonal of U (n_slices,) and the one above it (n_slices - 1,); all else is 0.

    >>> here, next_one = root_of_change(3, 1.0)
    >>> U = np.diag(here) + np.diag(next_one, 1)
    >>> (U.T @ U).round(12).tolist()
    [[2.0, -1.0, 0.0], [-1.0, 3.0, -1.0], [0.0, -1.0, 2.0]]
    """
    D = np.diff(np.eye(n_slices), axis=0)
    L = np.linalg.cholesky(np.eye(n_slices) + change * D.T @ D)
    return L.diagonal().copy(), L.diagonal(-1).copy()


def cumulated(spectra: np.ndarray) -> np.ndarray:
    """``∫ spectra`` from the first frame to frame 0, 1, …, T, and once more to T, shape (T + 2, bands).

    >>> cumulated(np.array([[1.0], [2.0]])).ravel()
    array([0., 1., 3., 3.])
    """
    sums = np.zeros((len(spectra) + 2, spectra.shape[1]))
    np.cumsum(spectra, axis=0, out=sums[1:-1])
    sums[-1] = sums[-2]
    return sums


def _sums_at(spectra: np.ndarray, edges: np.ndarray, n_starts: int, step: int) -> np.ndarray:
    """``∫ spectra`` from a common origin to edge + 0, step, 2·step …, shape (edges, n_starts, bands)."""
    first = int(np.floor(edges.min()))
    reach = (n_starts - 1) * step + 1
    last = int(np.floor(edges.max())) + reach + 1
    inside = spectra[max(first, 0) : max(last, 0)]
    sums = np.zeros((last - first + 1, spectra.shape[1]))
    if len(inside):
        begin = max(first, 0) - first + 1
        np.cumsum(inside, axis=0, out=sums[begin : begin + len(inside)])
        sums[begin + len(inside) :] = sums[begin + len(inside) - 1]
    return _read_off(sums, edges - first, n_starts, step)


def _read_off(sums: np.ndarray, edges: np.ndarray, n_starts: int, step: int) -> np.ndarray:
    """The sums at edge + 0, step, 2·step …, shape (edges, n_starts, bands)."""
    reach = (n_starts - 1) * step + 1
    found = np.empty((len(edges), n_starts, sums.shape[1]))
    for k, edge in enumerate(edges):
        whole, part = int(edge), edge - int(edge)
        here, there = sums[whole : whole + reach : step], sums[whole + 1 : whole + 1 + reach : step]
        found[k] = here + part * (there - here)  # exactly `here` in silence
    return found
