"""What is said about a recording as a whole: `Facts`, `Quality` (is there anything to hear in it?) and `Bandwidth`."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from outlark.audio.header import RecorderTime
from outlark.audio.sound import Reblock, hann
from outlark.errors import InputError

if TYPE_CHECKING:
    from outlark.audio.recording import Recording


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about a recording as a whole; kept with its scores for `decide`.

    It `began` at a time in ISO 8601, with a zone only if the recorder gives one, as some `source` says. `expansion` is
    in seconds of the file per second of real time, `site` as the recorder wrote it, `partial` says why not all of it
    was analysed, `quality` tells digital silence, clipping, or channels that cancel each other, and `remarks` anything
    else that is odd. It `counts` as recording effort unless half of it or more cannot be listened to.

    >>> facts = Facts(began="2023-10-24T23:59:59", source="file name", partial="cut short")
    >>> facts.time_at(1.5), facts.all_remarks
    ('2023-10-25T00:00:00.500000', ('partial: cut short',))
    """

    began: str | None = None
    source: str | None = None
    expansion: float = 1.0
    site: str | None = None
    partial: str | None = None
    remarks: tuple[str, ...] = ()
    quality: tuple[str, ...] = ()
    counts: bool = True

    @classmethod
    def of_dict(cls, kept: Mapping[str, Any]) -> Self:
        """From `as_dict`."""
        said: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in kept.items()}
        try:
            facts = cls(**said)
            facts.time_at(1.0)
            "".join((*facts.all_remarks, facts.site or ""))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InputError(
                f"the description of the recording is damaged ({error!s:.100}); keep the scores again"
            ) from None
        return facts

    def as_dict(self) -> dict[str, Any]:
        """JSON values; defaults are omitted."""
        usual = asdict(Facts())
        odd = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in odd.items()}

    def for_journal(self) -> dict[str, Any]:
        """What the journal says about the recording, including what is unknown."""
        odd = {"partial": self.partial, "remarks": list(self.remarks), "quality": list(self.quality)}
        return {**odd, "counts": self.counts, "began": self.began, "expansion": self.expansion, "site": self.site}

    def and_also(self, remark: str | None) -> Self:
        return self if remark is None else replace(self, remarks=(*self.remarks, remark))

    @property
    def all_remarks(self) -> tuple[str, ...]:
        partial = () if self.partial is None else (f"partial: {self.partial}",)
        return (*partial, *self.remarks, *self.quality)

    def time_at(self, start_s: float) -> str | None:
        """The time of day at a position in the file, ISO 8601."""
        if self.began is None:
            return None
        clock = RecorderTime(began=datetime.fromisoformat(self.began), source="", expansion=self.expansion)
        return clock.at(start_s).isoformat(timespec="microseconds")

    def on(self, annotation: Any) -> Any:
        """The annotation with its time of day and the remarks on its recording."""
        remark = "; ".join(self.all_remarks)
        return replace(annotation, start_time=self.time_at(annotation.start_s), remark=remark)


# ------------------------------------------------------------------ quality

#: Duration of a window in seconds, and windows looked at together: a multiple of those that are compared.
QUALITY_WINDOW_S, WINDOWS_AT_ONCE = 0.01, 64
#: Full scale: the largest value of 8 and of 16 bits.
FULL_8, FULL_16 = 127 / 128, 32767 / 32768
#: Channels are compared in every eighth window; they cancel if their mean has less than this share of their power.
COMPARED_EVERY, CANCELLING_SHARE = 8, 0.01
#: Shares of the time from which a recording is remarked on, and from which it does not count as effort.
REMARKED_SHARE, SPOILT_SHARE = 0.05, 0.5
#: What is counted: samples, those in windows of digital silence, those in windows with samples at full scale, these
#: samples themselves (of any channel), windows in which channels were compared, and those in which they cancel.
QUALITY_COUNTS = ("samples", "silent", "clipped", "at_full_scale", "compared", "cancelling")


class Quality:
    """Counts while a recording is decoded, of the channel that is analysed, or of all if it is their mean.

    To process a recording in parts, give the samples in which windows of this `part` start, and the `position` of the
    first sample pushed; then join their `counts` (`of_parts`).

    >>> import soundfile
    >>> from tempfile import TemporaryDirectory
    >>> from outlark.audio.recording import Recording
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.zeros(8000), 8000)
    ...     quality = Quality(Recording(f"{folder}/a.wav"))
    >>> quality.push(np.zeros((8000, 1)))
    >>> quality.remarks, quality.is_spoilt
    (('100 % of it is digital silence: check the microphone and the recorder',), True)
    """

    def __init__(self, audio: "Recording", *, part: tuple[int, int] = (0, sys.maxsize), position: int = 0) -> None:
        self._window = max(1, round(QUALITY_WINDOW_S * audio.sample_rate))
        self._full = FULL_8 if audio.subtype in ("PCM_U8", "PCM_S8") else FULL_16
        self._floats = audio.subtype in ("FLOAT", "DOUBLE")
        self._chosen, self._mixed = audio.chosen, audio.chosen is None and audio.channels > 1
        self._channels = audio.channels if audio.chosen is None else 1
        self._next, self._until = (-(-sample // self._window) for sample in part)  # windows
        self._skipped = max(0, self._next * self._window - position)  # samples before the first window
        self._blocks = Reblock(WINDOWS_AT_ONCE * self._window)
        self._counts, self._peak = np.zeros(len(QUALITY_COUNTS), np.int64), 0.0

    def push(self, x: np.ndarray) -> None:
        """The next samples, (n, channels)."""
        skipped = min(self._skipped, len(x))
        self._skipped -= skipped
        for block in self._blocks.push(x[skipped:] if self._chosen is None else x[skipped:, [self._chosen]]):
            self._counts, self._peak = self._counted(block)
            self._next += WINDOWS_AT_ONCE

    @property
    def counts(self) -> np.ndarray:
        """Of all windows so far, the last of which may be shorter, and the peak; float64, exact."""
        rest = self._blocks.finish()
        counts, peak = (self._counts, self._peak) if rest is None else self._counted(rest)
        return np.append(counts.astype(float), peak)

    @classmethod
    def of_parts(cls, audio: "Recording", counts: Iterable[np.ndarray]) -> Self:
        """From the `counts` of all parts."""
        whole, found = cls(audio), np.array(list(counts))
        whole._counts, whole._peak = found[:, :-1].sum(axis=0).astype(np.int64), float(found[:, -1].max())
        return whole

    def _counted(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Counts and peak with those of samples (n, channels) from the next window on, up to the end of the part."""
        channels = np.ascontiguousarray(x[: max(0, self._until - self._next) * self._window].T)
        n = channels.shape[1] // self._window
        counts, peak, ends = self._counts, self._peak, n * self._window
        for size, samples in ((self._window, channels[:, :ends]), (channels.shape[1] - ends, channels[:, ends:])):
            if samples.shape[1]:
                first = self._next if size == self._window else self._next + n
                more, highest = self._of_windows(samples.reshape(len(samples), -1, size), first)
                counts, peak = counts + more, max(peak, highest)
        return counts, peak

    def _of_windows(self, windows: np.ndarray, number: int) -> tuple[np.ndarray, float]:
        """Counts of windows (channels, n, samples), of which the first has this number; and the peak."""
        _, n, size = windows.shape
        high, low = windows.max(axis=2), windows.min(axis=2)
        silent, loud = (high == low).all(axis=0), np.maximum(high, -low) >= self._full
        at_full_scale = int((np.abs(windows[loud]) >= self._full).sum())
        compared = windows[:, -number % COMPARED_EVERY :: COMPARED_EVERY]
        cancelling = _cancel(compared) if self._mixed else np.zeros(0, bool)
        counts = [n * size, silent.sum() * size, loud.any(axis=0).sum() * size, at_full_scale]
        return np.array([*counts, len(cancelling), cancelling.sum()], np.int64), float(max(high.max(), -low.min()))

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the time: digital silence, clipping, and cancelling channels; and of samples at full scale."""
        *counted, peak = self.counts.tolist()
        named = dict(zip(QUALITY_COUNTS, counted, strict=True))
        n = max(1.0, named["samples"])
        clips = not (self._floats and peak > 1.0)  # floats have no full scale
        return {
            "silent": named["silent"] / n,
            "clipped": clips * named["clipped"] / n,
            "cancelling": named["cancelling"] / max(1.0, named["compared"]),
            "at_full_scale": clips * named["at_full_scale"] / (n * self._channels),
        }

    @property
    def is_spoilt(self) -> bool:
        """Whether half of the recording or more cannot be listened to."""
        return max(self.shares[name] for name in ("silent", "clipped", "cancelling")) >= SPOILT_SHARE

    @property
    def remarks(self) -> tuple[str, ...]:
        """On each kind that lasts long enough."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        shares = self.shares
        if shares["silent"] >= REMARKED_SHARE:
            yield f"{_percent(shares['silent'])} of it is digital silence: check the microphone and the recorder"
        if shares["clipped"] >= REMARKED_SHARE:
            yield f"clipped: {_percent(shares['clipped'])} of it reaches full scale; notes are distorted there"
        if shares["cancelling"] >= REMARKED_SHARE:
            yield (
                f"its channels cancel each other in {_percent(shares['cancelling'])} of it, so that their mean is "
                "nearly silent; analyse one of them (--channel 1)"
            )


def _cancel(windows: np.ndarray) -> np.ndarray:
    """In which windows, (channels, n, samples), the mean of all channels has much less power than they."""
    power = windows.var(axis=2).mean(axis=0)
    return (power > 0.0) & (windows.mean(axis=0).var(axis=1) < CANCELLING_SHARE * power)


def _percent(share: float) -> str:
    """Never 100 % unless it is all.

    >>> _percent(0.9999), _percent(1.0), _percent(0.0149)
    ('99 %', '100 %', '1 %')
    """
    return f"{int(100.0 * share)} %"


# ---------------------------------------------------------------- bandwidth
#
# A recording that was upsampled or compressed ends where the original did. Above that there is only rounding noise, and
# a model that uses these frequencies meets other notes than those it was trained on.

#: Samples per spectrum, and spectra kept; of longer recordings every second, fourth … one.
WINDOW_SAMPLES, SPECTRA = 1024, 256
#: Rounding noise of 16 bits in dB re full scale, and what dither adds: no microphone is as quiet in all bands.
ROUNDING_DB, DITHER_DB = 10.0 * np.log10(2.0**-30 / 12.0), 10.0
#: An edge: the level falls by this many dB from this ratio below it to as far above it.
EDGE_FALL_DB, EDGE_RATIO = 12.0, 1.12
#: A recording with sound up to this share of its sample rate is complete: recorders' own filters cut off from here on.
COMPLETE_SHARE = 0.45
#: A recording clearly lacks part of a model's range if it ends below this share of its upper limit.
CLEAR_LACK = 0.9


class Bandwidth:
    """Finds the highest frequency in a recording, block by block.

    To process it in parts, give the length of the whole, the samples in which spectra of this `part` start, and the
    `position` of the first sample pushed: the `spectra` of all parts together are those of the whole (`of_spectra`).

    >>> from outlark.audio.sound import resample
    >>> noise = 0.01 * np.random.default_rng(0).normal(size=16000)
    >>> for samples in (noise, resample(noise, 8000, 16000)):
    ...     bandwidth = Bandwidth(16000)
    ...     bandwidth.push(samples)
    ...     end_hz = bandwidth.ends_hz()
    ...     print(end_hz and round(end_hz, -2))
    None
    4000.0
    """

    def __init__(
        self,
        sample_rate: int,
        n_samples: int | None = None,
        *,
        part: tuple[int, int] = (0, sys.maxsize),
        position: int = 0,
    ) -> None:
        shape = hann(WINDOW_SAMPLES)
        self._rate, self._shape = sample_rate, shape / np.sqrt((shape**2).sum())
        self._step = 1 if n_samples is None else _step_in(n_samples)
        self._held, self._position = np.empty(0), position  # unused samples, and the position of the first
        self._next, self._until = -(-part[0] // (self._step * WINDOW_SAMPLES)) * self._step * WINDOW_SAMPLES, part[1]
        self._taken: list[np.ndarray] = []  # one spectrum per step, 0 for digital silence

    @classmethod
    def of_spectra(cls, sample_rate: int, spectra: Iterable[np.ndarray]) -> Self:
        """From the `spectra` of all parts of a recording, in their order."""
        whole = cls(sample_rate)
        whole._taken = [spectrum for of_part in spectra for spectrum in of_part]
        return whole

    @property
    def spectra(self) -> np.ndarray:
        """Powers (n, bins)."""
        return np.array(self._taken).reshape(-1, WINDOW_SAMPLES // 2 + 1)

    def push(self, samples: np.ndarray) -> None:
        """The next samples (n,) of the recording."""
        self._held = np.concatenate([self._held, samples])
        while self._next < self._until and self._next + WINDOW_SAMPLES <= self._position + len(self._held):
            self._take(self._held[self._next - self._position :][:WINDOW_SAMPLES])
            self._next = (self._next // (self._step * WINDOW_SAMPLES) + 1) * self._step * WINDOW_SAMPLES
        used = min(max(0, self._next - self._position), len(self._held))
        self._held, self._position = self._held[used:], self._position + used

    def ends_hz(self) -> float | None:
        """The frequency above which there is only rounding noise.

        None if sound reaches as high as the sample rate allows, fades without an edge, or is too quiet.
        """
        sounding_spectra = [spectrum for spectrum in self._taken if spectrum.any()]
        if not sounding_spectra:
            return None
        levels = 10.0 * np.log10(np.median(sounding_spectra, axis=0) + np.finfo(float).tiny)
        frequencies = np.fft.rfftfreq(WINDOW_SAMPLES, 1.0 / self._rate)
        sounding = np.flatnonzero(levels > ROUNDING_DB + DITHER_DB)
        if not len(sounding) or frequencies[sounding[-1]] >= COMPLETE_SHARE * self._rate:
            return None
        end_hz = float(frequencies[sounding[-1]])
        below, above = np.interp([end_hz / EDGE_RATIO, end_hz * EDGE_RATIO], frequencies, levels)
        return end_hz if below - above >= EDGE_FALL_DB else None

    def _take(self, window: np.ndarray) -> None:
        silent = window.min() == window.max()
        powers = np.abs(np.fft.rfft(window * self._shape)) ** 2
        self._taken.append(np.zeros_like(powers) if silent else powers)
        if len(self._taken) == SPECTRA:
            self._taken, self._step = self._taken[::2], 2 * self._step


def _step_in(n_samples: int) -> int:
    """Distance of spectra in windows once a recording of this many samples has been processed.

    >>> _step_in(255 * WINDOW_SAMPLES), _step_in(256 * WINDOW_SAMPLES), _step_in(511 * WINDOW_SAMPLES)
    (1, 2, 4)
    """
    step = 1
    while -(-(n_samples // WINDOW_SAMPLES) // step) >= SPECTRA:
        step *= 2
    return step


def remark_on_bandwidth(sample_rate: int, ends_hz: float | None, listens_hz: float) -> str | None:
    """A remark on a recording (`Bandwidth.ends_hz`) that ends below the upper limit of a model, `listens_hz`, or None.

    >>> remark_on_bandwidth(8000, None, 10000.0)[:78]
    'ends at 4000 Hz (sample rate 8000 Hz), but the model uses sound up to 10000 Hz'
    >>> remark_on_bandwidth(44100, None, 10000.0)
    """
    if COMPLETE_SHARE * sample_rate < CLEAR_LACK * listens_hz and ends_hz is None:
        ends = f"ends at {sample_rate / 2:.0f} Hz (sample rate {sample_rate} Hz)"
    elif ends_hz is not None and ends_hz < CLEAR_LACK * listens_hz:
        ends = f"holds no sound above {ends_hz:.0f} Hz (resampled from a lower rate, or compressed)"
    else:
        return None
    return (
        f"{ends}, but the model uses sound up to {listens_hz:.0f} Hz: higher notes are missed or mistaken for others; "
        "train on examples from such recordings"
    )
