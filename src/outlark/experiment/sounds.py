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
        return round(SAMPLE_RATE * self.near(seconds, 0.14))

    def jitter(self, n: int, share: float, step_s: float = 0.005) -> np.ndarray:
        """A factor that wanders about 1 within the note."""
        knots = self.rng.uniform(-1, 1, size=int(n / SAMPLE_RATE / step_s) + 2)
        steps = np.linspace(0, n, len(knots))
        return np.exp(self.variation * share * np.interp(np.arange(n), steps, knots))

    def contour(self, n: int, *points: tuple[float, float]) -> np.ndarray:
        """Pitch in Hz through points (part of the length, Hz): moved by 3 %, bent by 1.5 %, warped in time."""
        at, pitch = zip(*points, strict=True)
        warp = self.near(1.0, 0.12)
        bent = [self.near(hz, 0.015) for hz in pitch]
        curve = PchipInterpolator(at, bent)(np.linspace(0, 1, n) ** warp)
        return np.minimum(self.near(1.0, 0.03) * self.jitter(n, 0.004) * curve, HIGHEST)

    def stack(self, pitch: np.ndarray, centre: float, width: float) -> np.ndarray:
        """All harmonics of a pitch, strong around `centre` (Hz), weak beyond `width`, each of its own strength."""
        centre, width = self.near(centre, 0.04), self.near(width, 0.1)
        phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
        total = np.zeros(len(pitch))
        for k in range(1, int(HIGHEST / pitch.max()) + 1):
            strength = self.near(1.0, 0.3) * np.exp(-0.5 * ((k * pitch - centre) / width) ** 2)
            strength *= self.jitter(len(pitch), 0.25, step_s=0.02)
            total += strength * np.sin(k * phase + self.rng.uniform(0, 2 * np.pi))
        return total / np.std(total)

    def whistle(self, pitch: np.ndarray) -> np.ndarray:
        """A pure tone."""
        return np.sqrt(2) * np.sin(2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE + self.rng.uniform(0, 2 * np.pi))

    def hiss(self, n: int, low: float, high: float) -> np.ndarray:
        """Noise through a band filter, Hz."""
        move = self.near(1.0, 0.04)
        band = butter(3, [low * move, min(high * move, HIGHEST)], "bandpass", fs=SAMPLE_RATE, output="sos")
        noise = sosfilt(band, self.rng.standard_normal(n))
        return noise / np.std(noise)

    def buzz(self, n: int, rate: float, depth: float) -> np.ndarray:
        """Loudness that goes up and down `rate` times a second, by a part `depth`."""
        beats = np.cumsum(self.near(rate, 0.08) * self.jitter(n, 0.05)) / SAMPLE_RATE + self.rng.uniform()
        return 1 - min(self.near(depth, 0.2), 1.0) * (0.5 + 0.5 * np.cos(2 * np.pi * beats))

    def shape(self, n: int, onset_s: float, decay_s: float, sag_db: float) -> np.ndarray:
        """Loudness over the note: smooth onset and decay, falling by `sag_db` from first to last, with flutter."""
        t = np.arange(n) / SAMPLE_RATE
        onset, decay = self.near(onset_s, 0.3), self.near(decay_s, 0.3)
        ends = np.minimum(t / onset, 1), np.minimum((t[-1] - t) / decay, 1)
        sag = 10 ** (-self.near(sag_db, 0.5) / 20 * t / t[-1])
        return np.prod(np.sin(np.pi / 2 * np.array(ends)) ** 2, axis=0) * sag * self.jitter(n, 0.12)


def _tuti_d(hand: Hand) -> np.ndarray:
    """Hoarse harmonic stack, lower and wider than the chickadee's: every .5 kHz from 2 to 6 kHz, rough, noisy."""
    n = hand.length(0.19)
    tone = hand.stack(hand.contour(n, (0, 490), (0.2, 525), (0.7, 505), (1, 460)), 3600, 1000)
    rough = hand.buzz(n, 95, 0.45)
    return (tone * rough + 0.3 * hand.hiss(n, 2000, 6000)) * hand.shape(n, 0.015, 0.06, 5)


def _tuti_f(hand: Hand) -> np.ndarray:
    """Short chirp: a brief rise, then fast down from 7.4 to 4.8 kHz."""
    n = hand.length(0.12)
    tone = hand.whistle(hand.contour(n, (0, 6500), (0.15, 7400), (0.5, 6300), (1, 4800)))
    return (tone + 0.03 * hand.hiss(n, 4500, 8000)) * hand.shape(n, 0.012, 0.03, 4)


def _cach_z(hand: Hand) -> np.ndarray:
    """Buzz ("zeet"): a high tone near 7.2 kHz, cut about 170 times a second, with noise from 6 to 8.5 kHz."""
    n = hand.length(0.17)
    tone = hand.whistle(hand.contour(n, (0, 6700), (0.3, 7200), (0.8, 7400), (1, 7100)))
    return (tone + 0.6 * hand.hiss(n, 6000, 8500)) * hand.buzz(n, 170, 0.9) * hand.shape(n, 0.015, 0.03, -2)


def _tuti_a(hand: Hand) -> np.ndarray:
    """Chevron: up from 5 to 8 kHz and down again, loudest on top."""
    n = hand.length(0.14)
    tone = hand.whistle(hand.contour(n, (0, 5000), (0.45, 8000), (0.6, 7800), (1, 5300)))
    return (tone + 0.03 * hand.hiss(n, 4500, 8500)) * hand.shape(n, 0.05, 0.06, 1)


def _tuti_z(hand: Hand) -> np.ndarray:
    """Very high, thin whistle near 8.8 kHz with breath around it, falling a little."""
    n = hand.length(0.15)
    tone = hand.whistle(hand.contour(n, (0, 9200), (0.4, 8800), (1, 8300)))
    return (tone + 0.3 * hand.hiss(n, 7600, 9800)) * hand.shape(n, 0.02, 0.05, 4)


def _cach_c(hand: Hand) -> np.ndarray:
    """Noisy chevron with harmonics: up and down steeply, 3 to 6 kHz."""
    n = hand.length(0.13)
    tone = hand.stack(hand.contour(n, (0, 1150), (0.4, 2000), (0.55, 1950), (1, 1000)), 4200, 1100)
    return (tone + 0.5 * hand.hiss(n, 3000, 6200)) * hand.shape(n, 0.02, 0.04, 2)


def _cach_d(hand: Hand) -> np.ndarray:
    """Clear harmonic stack ("dee"): every .4 kHz from 3 to 5.5 kHz, steady and long."""
    n = hand.length(0.25)
    tone = hand.stack(hand.contour(n, (0, 385), (0.12, 412), (0.8, 405), (1, 390)), 4300, 650)
    return (tone + 0.1 * hand.hiss(n, 3000, 5500)) * hand.shape(n, 0.025, 0.05, 3)


def _cach_e(hand: Hand) -> np.ndarray:
    """Whistle with a brief upward onset that then falls slowly from 7.5 to 6 kHz."""
    n = hand.length(0.2)
    tone = hand.whistle(hand.contour(n, (0, 6600), (0.08, 7500), (0.5, 6800), (1, 6000)))
    return (tone + 0.02 * hand.hiss(n, 5500, 8000)) * hand.shape(n, 0.01, 0.07, 3)


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
