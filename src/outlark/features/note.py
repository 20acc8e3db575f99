r"""Note-level description: a note is a few slices in time of its spectrum, whatever its length and loudness.

.. math:: x = \frac{U (v - \bar v)}{‖U (v - \bar v)‖},\quad v = (\bar a_1, …, \bar a_n),\quad U^⊤U = I + κ D^⊤D

with the mean spectra :math:`\bar a` above the noise floor of n slices of equal length, and D the differences of
successive slices. Inner products, all that a kernel uses, are then those of the slices and of √κ times their
differences side by side, in half as many numbers. The slices cover the note and a little of its surroundings: a note
must have an onset and an end, so that a short one is not found repeatedly inside a longer sound.
"""

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import check_sample_rate
from outlark.errors import InputError
from outlark.features.base import Frames, FrontEnd, joined
from outlark.features.noise_floor import check_seconds, is_number
from outlark.features.spectrum import ROUNDING, Spectrum, SpectrumSettings, SpectrumSource, check_count
from outlark.segments import Segment

#: Ratio of successive trial lengths.
LENGTH_STEP = 1.13
#: Notes may be shorter or longer than the training notes by this factor.
LENGTH_SLACK = 1.3
#: Shortest length in frames that is searched for.
SHORTEST = 3.0


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
        self.context_samples_, self.delay_samples_ = spectrum.context, spectrum.delay
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
        return joined([stream.push(signal), stream.finish()])

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
        means = (sums[-1] - sums[0]).mean(axis=1) / self.n_slices
        x = self._with_change(np.diff(sums, axis=0))
        x -= means[:, np.newaxis, np.newaxis] * self._with_change(np.ones((self.n_slices, 1, 1)))
        lengths = np.sqrt(np.einsum("ijk,ijk->i", x, x))
        # flat spectra have no shape: they stay at the origin, at distance 1 from every note
        factors = np.divide(1.0, lengths, out=np.zeros(n_starts), where=lengths > ROUNDING * means)
        x *= factors[:, np.newaxis, np.newaxis]
        return x.reshape(n_starts, -1)

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
