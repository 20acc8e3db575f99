"""The sounds that the made-up notes of `outlark.experiment.synthetic` are made of: a recipe for each class."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.signal import butter, sosfilt

SAMPLE_RATE = 22050
HIGHEST = 0.45 * SAMPLE_RATE  # Hz; nothing is drawn nearer to half the sample rate


class Hand:
    """Draws what differs from one instance to the next, and the building blocks: all of shape (n,)."""

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


def _tuti_d(hand: Hand) -> np.ndarray:
    """Hoarse harmonic stack, low: every .5 kHz from 1.8 to 3.6 kHz, noisy."""
    n = hand.length(0.245)
    tone = hand.stack(hand.contour(n, (0, 490), (0.2, 525), (0.7, 505), (1, 460)), 2700, 620)
    return (tone + 0.35 * hand.hiss(n, 1400, 4000)) * hand.shape(n)


def _tuti_f(hand: Hand) -> np.ndarray:
    """Short whistle: a brief rise, then down from 6.2 to 5 kHz, with breath and a faint tone an octave below."""
    n = hand.length(0.165)
    pitch = hand.contour(n, (0, 5600), (0.2, 6200), (0.6, 5700), (1, 5000))
    return (hand.whistle(pitch) + 0.1 * hand.whistle(pitch / 2) + 0.25 * hand.hiss(n, 4600, 6700)) * hand.shape(n)


def _cach_z(hand: Hand) -> np.ndarray:
    """Buzz ("zeet"): a high tone near 8 kHz whose loudness goes up and down about 170 times a second."""
    n = hand.length(0.25)
    tone = hand.whistle(hand.contour(n, (0, 7650), (0.3, 8050), (0.8, 8150), (1, 7850)))
    return (tone + 0.02 * hand.hiss(n, 6100, 9700)) * hand.buzz(n, 170, 0.5) * hand.shape(n)


def _tuti_a(hand: Hand) -> np.ndarray:
    """Noisy chevron: up from 5.3 to 8.2 kHz and down again, with a tone an octave below."""
    n = hand.length(0.155)
    pitch = hand.contour(n, (0, 5300), (0.45, 8200), (0.6, 8100), (1, 5500))
    return (hand.whistle(pitch) + 0.35 * hand.whistle(pitch / 2) + 0.9 * hand.hiss(n, 4700, 8500)) * hand.shape(n)


def _tuti_z(hand: Hand) -> np.ndarray:
    """Very high, thin whistle near 9.5 kHz with breath around it, falling a little."""
    n = hand.length(0.195)
    tone = hand.whistle(hand.contour(n, (0, 9700), (0.4, 9600), (1, 9400)))
    return (tone + 0.45 * hand.hiss(n, 9000, 9850)) * hand.shape(n)


def _cach_c(hand: Hand) -> np.ndarray:
    """Noisy chevron with harmonics: up and down steeply, 2.4 to 6 kHz."""
    n = hand.length(0.18)
    tone = hand.stack(hand.contour(n, (0, 1150), (0.4, 2000), (0.55, 1950), (1, 1000)), 3900, 1700)
    return (tone + 0.5 * hand.hiss(n, 2400, 6100)) * hand.shape(n)


def _cach_d(hand: Hand) -> np.ndarray:
    """Harmonic stack ("dee"): every .4 kHz from 3.3 to 5.7 kHz, steady, long and noisy."""
    n = hand.length(0.4)
    tone = hand.stack(hand.contour(n, (0, 385), (0.12, 412), (0.8, 405), (1, 390)), 4500, 1050)
    return (tone + 0.45 * hand.hiss(n, 3300, 5700)) * hand.shape(n)


def _cach_e(hand: Hand) -> np.ndarray:
    """Whistle of two harmonics with a brief upward onset that then falls slowly: 4 to 3.4 and 8 to 6.8 kHz."""
    n = hand.length(0.245)
    pitch = hand.contour(n, (0, 3650), (0.08, 4050), (0.5, 3750), (1, 3450))
    return (hand.whistle(pitch) + 0.8 * hand.whistle(2 * pitch) + 0.02 * hand.hiss(n, 6300, 8300)) * hand.shape(n)


#: Class → how a note of it is made.
RECIPES: Mapping[str, Callable[[Hand], np.ndarray]] = MappingProxyType(
    {
        "tuti-D": _tuti_d,
        "tuti-F": _tuti_f,
        "cach-Z": _cach_z,
        "tuti-A": _tuti_a,
        "tuti-Z": _tuti_z,
        "cach-C": _cach_c,
        "cach-D": _cach_d,
        "cach-E": _cach_e,
    }
)
