"""Synthetic notes in place of the paper's recordings: eight classes with its names and class sizes.

The recordings of Sec. 4.1 are not public. These notes are stand-ins, modelled on published descriptions of the calls of
the tufted titmouse (tuti) and the Carolina chickadee (cach): harmonic stacks, chevrons, whistles and buzzes, at about
the right frequencies. **They are not recordings, and results on them are not the paper's results.** They let the
experiment run from end to end and compare methods on the same sounds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.signal import butter, sosfilt

from outlark.errors import InputError
from outlark.segments import Segment

KNOWN_CLASSES = ("tuti-D", "tuti-F", "cach-Z")
UNKNOWN_CLASSES = ("tuti-A", "tuti-Z", "cach-C", "cach-D", "cach-E")
#: Class → number of notes, as in Sec. 4.1.
CLASSES: Mapping[str, int] = MappingProxyType(
    dict(zip(KNOWN_CLASSES + UNKNOWN_CLASSES, (15, 6, 4, 4, 4, 6, 7, 10), strict=True))
)
SAMPLE_RATE = 22050
HIGHEST = 0.45 * SAMPLE_RATE  # Hz; keeps clear of the Nyquist frequency
FLOOR = 3e-4  # rms of the recorder's own noise, about 60 dB below the notes: "nearly noiseless"
#: Limits of joined notes, in seconds and decibels: beyond them memory or numbers end.
LONGEST_S, MOST_DB = 1800, 300


@dataclass(frozen=True, eq=False)
class Note:
    """One note: its class, its samples (n,), and, where known, the bird, recording or session that it comes from."""

    label: str
    samples: np.ndarray
    group: str | None = None


def notes(seed: int = 0, *, variation: float = 1.0, counts: Mapping[str, int] | None = None) -> list[Note]:
    """All notes, class by class in the order of `CLASSES`.

    Note i of a class depends on `seed`, the class and i only: asking for more of one class does not change the others.
    `variation` scales the spread within a class, see `note`; classes that `counts` does not name are omitted.

    >>> len(notes()), [n.label for n in notes(counts={"cach-Z": 1, "tuti-D": 2})]
    (56, ['tuti-D', 'tuti-D', 'cach-Z'])
    """
    counts = CLASSES if counts is None else counts
    for name, count in counts.items():
        _check_class(name)
        if count < 0:
            raise InputError(f"counts[{name!r}]={count}: expected 0 or more notes")
    return [
        Note(name, note(name, np.random.default_rng([seed, c, i]), variation=variation))
        for c, name in enumerate(CLASSES)
        for i in range(counts.get(name, 0))
    ]


def note(name: str, rng: np.random.Generator, *, variation: float = 1.0) -> np.ndarray:
    """One note of a class, (n,), within [-1, 1] and .15 to .45 s long.

    `variation`, 0 to 3, scales how much notes differ in pitch (±.7 %), length (±3 %), loudness (±1.2 dB), modulation,
    onset, decay and jitter. With 0, they differ in phase and noise only.

    >>> samples = note("tuti-D", np.random.default_rng(0))
    >>> samples.ndim, bool(0.1 < len(samples) / SAMPLE_RATE < 0.35), bool(abs(samples).max() <= 1)
    (1, True, True)
    """
    _check_class(name)
    if not 0 <= variation <= 3:
        raise InputError(f"variation={variation!r}: expected a number from 0 to 3; 1 is natural")
    hand = _Hand(rng, variation)
    sound = _RECIPES[name](hand)
    loudness = min(hand.near(0.35, 0.14), 0.95)
    return loudness * sound / np.abs(sound).max() + FLOOR * rng.standard_normal(len(sound))


def concatenate(
    notes: Sequence[Note],
    *,
    gap_s: float = 0.0,
    edge_s: float = 0.0,
    snr_db: float | None = None,
    rng: np.random.Generator | None = None,
    sample_rate: int = SAMPLE_RATE,
    floor: float = FLOOR,
) -> tuple[np.ndarray, list[Segment]]:
    """One clip of the notes in the given order, and the segment of each (Sec. 4.3).

    By default the notes follow each other without a gap, as in the paper. The clip is scaled down as a whole where it
    would leave [-1, 1].

    Gaps between notes and edges before the first and after the last hold faint noise with the root mean square
    `floor`, never digital silence. `snr_db` adds white noise over the whole clip, this far below the mean power within
    the notes. `rng` is needed for everything but plain joining.

    >>> audio, spans = concatenate([Note("a", np.ones(90)), Note("b", np.zeros(50))])
    >>> spans[0].start, spans[0].end == spans[1].start, spans[1].end == len(audio)
    (0, True, True)
    """
    _check_joining(notes, gap_s, edge_s, snr_db, sample_rate)
    if rng is None:
        if snr_db is not None or gap_s or edge_s:
            raise InputError("gaps, edges and noise are random: pass rng=np.random.default_rng(seed)")
        rng = np.random.default_rng(0)  # draws nothing
    gap, edge = round(gap_s * sample_rate), round(edge_s * sample_rate)
    ends = edge + np.cumsum([len(n.samples) + gap for n in notes]) - gap
    segments = [
        Segment(start=int(end) - len(n.samples), end=int(end), sample_rate=sample_rate, label=n.label)
        for n, end in zip(notes, ends, strict=True)
    ]
    inside = np.zeros(int(ends[-1]) + edge, dtype=bool)
    audio = np.zeros(len(inside))
    for n, s in zip(notes, segments, strict=True):
        inside[s.start : s.end] = True
        audio[s.start : s.end] = n.samples
    audio[~inside] = floor * rng.standard_normal(np.count_nonzero(~inside))
    if snr_db is not None:
        noise = rng.standard_normal(len(audio))
        power = np.mean(audio[inside] ** 2)
        audio = audio + noise * np.sqrt(power / np.mean(noise**2) / 10 ** (snr_db / 10))
    return audio / max(1.0, float(np.abs(audio).max())), segments


def _check_joining(notes: Sequence[Note], gap_s: float, edge_s: float, snr_db: float | None, sample_rate: int) -> None:
    if not notes:
        raise InputError("no notes to join: expected at least one")
    if not (gap_s >= 0 and edge_s >= 0):
        raise InputError(f"gap_s={gap_s!r}, edge_s={edge_s!r}: expected seconds, 0 or more")
    if snr_db is not None and not abs(snr_db) <= MOST_DB:
        raise InputError(f"snr_db={snr_db!r}: expected decibels from -{MOST_DB} to {MOST_DB}")
    lasts_s = sum(len(n.samples) for n in notes) / sample_rate + (len(notes) - 1) * gap_s + 2 * edge_s
    if not lasts_s <= LONGEST_S:
        raise InputError(f"the notes joined would last {lasts_s:.6g} s, more than {LONGEST_S} s; give shorter gaps")


def _check_class(name: str) -> None:
    if name not in CLASSES:
        raise InputError(f"{name!r} is not a class of notes: expected one of {', '.join(CLASSES)}")


class _Hand:
    """The building blocks of a note, each (n,), with the variation from one note to the next."""

    def __init__(self, rng: np.random.Generator, variation: float) -> None:
        self.rng, self.variation = rng, variation

    def near(self, value: float, share: float) -> float:
        """The value, off by up to `share`: .1 is about 10 %."""
        return float(value * np.exp(self.variation * share * self.rng.uniform(-1, 1)))

    def length(self, seconds: float) -> int:
        return round(SAMPLE_RATE * self.near(seconds, 0.03))

    def jitter(self, n: int, share: float, step_s: float = 0.005) -> np.ndarray:
        """A factor that wanders about 1 within the note."""
        knots = self.rng.uniform(-1, 1, size=int(n / SAMPLE_RATE / step_s) + 2)
        steps = np.linspace(0, n, len(knots))
        return np.exp(self.variation * share * np.interp(np.arange(n), steps, knots))

    def contour(self, n: int, *points: tuple[float, float]) -> np.ndarray:
        """Pitch in Hz through points (part of the length, Hz): moved by .7 %, bent by .35 %, warped in time."""
        at, pitch = zip(*points, strict=True)
        warp = self.near(1.0, 0.03)
        bent = [self.near(hz, 0.0035) for hz in pitch]
        curve = PchipInterpolator(at, bent)(np.linspace(0, 1, n) ** warp)
        return np.minimum(self.near(1.0, 0.007) * self.jitter(n, 0.0008) * curve, HIGHEST)

    def stack(self, pitch: np.ndarray, centre: float, width: float) -> np.ndarray:
        """All harmonics of a pitch, strong around `centre` (Hz), weak beyond `width`, each of its own strength."""
        centre, width = self.near(centre, 0.008), self.near(width, 0.02)
        phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
        total = np.zeros(len(pitch))
        for k in range(1, int(HIGHEST / pitch.max()) + 1):
            strength = self.near(1.0, 0.07) * np.exp(-0.5 * ((k * pitch - centre) / width) ** 2)
            strength *= self.jitter(len(pitch), 0.05, step_s=0.02)
            total += strength * np.sin(k * phase + self.rng.uniform(0, 2 * np.pi))
        return total / np.std(total)

    def whistle(self, pitch: np.ndarray) -> np.ndarray:
        """A pure tone."""
        return np.sqrt(2) * np.sin(2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE + self.rng.uniform(0, 2 * np.pi))

    def hiss(self, n: int, low: float, high: float) -> np.ndarray:
        """Noise through a band filter, Hz."""
        move = self.near(1.0, 0.008)
        band = butter(3, [low * move, min(high * move, HIGHEST)], "bandpass", fs=SAMPLE_RATE, output="sos")
        noise = sosfilt(band, self.rng.standard_normal(n))
        return noise / np.std(noise)

    def buzz(self, n: int, rate: float, depth: float) -> np.ndarray:
        """Loudness that goes up and down `rate` times a second, by a part `depth`."""
        beats = np.cumsum(self.near(rate, 0.017) * self.jitter(n, 0.01)) / SAMPLE_RATE + self.rng.uniform()
        return 1 - min(self.near(depth, 0.04), 1.0) * (0.5 + 0.5 * np.cos(2 * np.pi * beats))

    def shape(self, n: int) -> np.ndarray:
        """Loudness over the note: onset in 10 ms, decay in 20 ms, falling by 1.5 dB from end to end, with flutter."""
        t = np.arange(n) / SAMPLE_RATE
        onset, decay = self.near(0.01, 0.07), self.near(0.02, 0.07)
        ends = np.minimum(t / onset, 1), np.minimum((t[-1] - t) / decay, 1)
        sag = 10 ** (-self.near(1.5, 0.1) / 20 * t / t[-1])
        return np.prod(np.sin(np.pi / 2 * np.array(ends)) ** 2, axis=0) * sag * self.jitter(n, 0.03)


def _tuti_d(hand: _Hand) -> np.ndarray:
    """Hoarse harmonic stack, low: every .5 kHz from 1.8 to 3.6 kHz, noisy."""
    n = hand.length(0.245)
    tone = hand.stack(hand.contour(n, (0, 490), (0.2, 525), (0.7, 505), (1, 460)), 2700, 620)
    return (tone + 0.35 * hand.hiss(n, 1400, 4000)) * hand.shape(n)


def _tuti_f(hand: _Hand) -> np.ndarray:
    """Short whistle: a brief rise, then down from 6.2 to 5 kHz, with breath and a faint tone an octave below."""
    n = hand.length(0.165)
    pitch = hand.contour(n, (0, 5600), (0.2, 6200), (0.6, 5700), (1, 5000))
    return (hand.whistle(pitch) + 0.1 * hand.whistle(pitch / 2) + 0.25 * hand.hiss(n, 4600, 6700)) * hand.shape(n)


def _cach_z(hand: _Hand) -> np.ndarray:
    """Buzz ("zeet"): a high tone near 8 kHz whose loudness goes up and down about 170 times a second."""
    n = hand.length(0.25)
    tone = hand.whistle(hand.contour(n, (0, 7650), (0.3, 8050), (0.8, 8150), (1, 7850)))
    return (tone + 0.02 * hand.hiss(n, 6100, 9700)) * hand.buzz(n, 170, 0.5) * hand.shape(n)


def _tuti_a(hand: _Hand) -> np.ndarray:
    """Noisy chevron: up from 5.3 to 8.2 kHz and down again, with a tone an octave below."""
    n = hand.length(0.155)
    pitch = hand.contour(n, (0, 5300), (0.45, 8200), (0.6, 8100), (1, 5500))
    return (hand.whistle(pitch) + 0.35 * hand.whistle(pitch / 2) + 0.9 * hand.hiss(n, 4700, 8500)) * hand.shape(n)


def _tuti_z(hand: _Hand) -> np.ndarray:
    """Very high, thin whistle near 9.5 kHz with breath around it, falling a little."""
    n = hand.length(0.195)
    tone = hand.whistle(hand.contour(n, (0, 9700), (0.4, 9600), (1, 9400)))
    return (tone + 0.45 * hand.hiss(n, 9000, 9850)) * hand.shape(n)


def _cach_c(hand: _Hand) -> np.ndarray:
    """Noisy chevron with harmonics: up and down steeply, 2.4 to 6 kHz."""
    n = hand.length(0.18)
    tone = hand.stack(hand.contour(n, (0, 1150), (0.4, 2000), (0.55, 1950), (1, 1000)), 3900, 1700)
    return (tone + 0.5 * hand.hiss(n, 2400, 6100)) * hand.shape(n)


def _cach_d(hand: _Hand) -> np.ndarray:
    """Harmonic stack ("dee"): every .4 kHz from 3.3 to 5.7 kHz, steady, long and noisy."""
    n = hand.length(0.4)
    tone = hand.stack(hand.contour(n, (0, 385), (0.12, 412), (0.8, 405), (1, 390)), 4500, 1050)
    return (tone + 0.45 * hand.hiss(n, 3300, 5700)) * hand.shape(n)


def _cach_e(hand: _Hand) -> np.ndarray:
    """Whistle of two harmonics with a brief upward onset that then falls slowly: 4 to 3.4 and 8 to 6.8 kHz."""
    n = hand.length(0.245)
    pitch = hand.contour(n, (0, 3650), (0.08, 4050), (0.5, 3750), (1, 3450))
    return (hand.whistle(pitch) + 0.8 * hand.whistle(2 * pitch) + 0.02 * hand.hiss(n, 6300, 8300)) * hand.shape(n)


#: Class → how a note of it is made, in the order of `CLASSES`.
_RECIPES: Mapping[str, Callable[[_Hand], np.ndarray]] = MappingProxyType(
    dict(zip(CLASSES, (_tuti_d, _tuti_f, _cach_z, _tuti_a, _tuti_z, _cach_c, _cach_d, _cach_e), strict=True))
)
