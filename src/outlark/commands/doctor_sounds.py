"""Synthetic sounds that are not notes, which a detector should not recognise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.features.base import HIGHEST_SHARE

#: Level of the faint noise between sounds, and of the sounds, in dB re full scale (RMS).
BACKGROUND_DB, LEVELS_DB = -75.0, (-50.0, -35.0, -20.0)
#: Seconds of steady sounds, between sounds, and before the first, for the noise floor to settle.
STEADY_S, GAP_S, EDGE_S = 3.0, 0.3, 1.0
#: Tones, and whistles in each direction.
N_TONES, N_WHISTLES = 12, 6
#: Mains frequencies, and the number of harmonics.
MAINS_HZ, HARMONICS = (50.0, 60.0), 12
#: Sounds are as long as notes, up to this many seconds.
LONGEST_S = 1.0
USUAL_BAND_HZ = (500.0, 10_000.0)

BACKGROUND = (
    "Check whether clips of these classes are mostly background, or several kinds of notes under one label; annotate "
    "notes more tightly, and in longer recordings, which show what else there is to hear"
)
ALIKE = (
    "Unavoidable for a class of pure whistles; otherwise add more varied notes of these classes, and check detections "
    "in places with such sounds"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """Sounds of one kind: recordings with the spans (start, end) of the sounds, in samples.

    It is `grave` if most of them are taken for notes: no bird sounds like that.
    """

    name: str
    recordings: list[tuple[np.ndarray, list[tuple[int, int]]]]
    grave: bool
    advice: str = BACKGROUND


def trials(detector: Any) -> Iterator[Trial]:
    """All kinds of sounds, at several levels and durations; only silence for series of numbers."""
    rate, front_end = detector.sample_rate_, detector.front_end_
    n_steady = round(STEADY_S * rate)
    if not front_end.is_sound:
        silence = front_end.silence(max(1, n_steady))
        yield Trial(name="digital silence", recordings=[(silence, [(0, len(silence))])], grave=True)
        return
    yield Trial(name="digital silence", recordings=[(np.zeros(n_steady), [(0, n_steady)])], grave=True)
    rng = np.random.default_rng(0)
    for name, noise in (("white noise", white), ("pink noise", pink)):
        steady = [(level(db) * noise(n_steady, rng), [(0, n_steady)]) for db in LEVELS_DB]
        yield Trial(name=f"steady {name}", recordings=steady, grave=True)
    lengths = _lengths(detector.layout_, rate)
    for name, noise in (("white noise", white), ("pink noise", pink)):
        bursts = [level(db) * noise(n, rng) for db in LEVELS_DB for n in lengths]
        yield Trial(name=f"bursts of {name}", recordings=[in_background(bursts, rate, rng)], grave=True)
    hums = [level(db) * hum(lengths[-1], mains, rate) for mains in MAINS_HZ for db in LEVELS_DB]
    yield Trial(name="hum switched on and off", recordings=[in_background(hums, rate, rng)], grave=True)
    clicks = [10 ** (db / 20) * click(ms, rate, rng) for db in (-20.0, -3.0) for ms in (0.0, 1.0, 5.0)]
    yield Trial(name="clicks", recordings=[in_background(clicks, rate, rng)], grave=True)
    low_hz, high_hz = _band(front_end, rate)
    tones_hz = np.geomspace(1.1 * low_hz, 0.9 * high_hz, N_TONES)
    tones = [level(-25.0) * whistle(lengths[-1], hz, hz, rate) for hz in tones_hz]
    yield Trial(name="pure tones", recordings=[in_background(tones, rate, rng)], grave=False, advice=ALIKE)
    starts_hz = np.geomspace(1.1 * low_hz, 0.9 * high_hz / 1.5, N_WHISTLES)
    sweeps = [(hz, 1.5 * hz) for hz in starts_hz] + [(1.5 * hz, hz) for hz in starts_hz]
    whistles = [level(-25.0) * whistle(lengths[len(lengths) // 2], *sweep, rate) for sweep in sweeps]
    name = "rising and falling whistles"
    yield Trial(name=name, recordings=[in_background(whistles, rate, rng)], grave=False, advice=ALIKE)


def in_background(
    sounds: Sequence[np.ndarray], rate: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """One recording of the sounds in faint noise, and the span of each.

    >>> samples, spans = in_background([np.ones(10), np.ones(20)], 100, np.random.default_rng(0))
    >>> len(samples), spans
    (260, [(100, 110), (140, 160)])
    """
    gap, edge = round(GAP_S * rate), round(EDGE_S * rate)
    ends = edge + np.cumsum([len(sound) + gap for sound in sounds]) - gap
    spans = [(int(end) - len(sound), int(end)) for sound, end in zip(sounds, ends, strict=True)]
    samples = level(BACKGROUND_DB) * white(int(ends[-1]) + edge, rng)
    for sound, (start, end) in zip(sounds, spans, strict=True):
        samples[start:end] += sound
    return samples, spans


def level(db: float) -> float:
    """The factor for a sound of RMS 1."""
    return float(10 ** (db / 20))


def white(n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """White noise of RMS 1."""
    return rng.standard_normal(n_samples)


def pink(n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of RMS 1 whose power falls with frequency, like wind, traffic and streams."""
    spectrum = np.fft.rfft(rng.standard_normal(max(2, n_samples)))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0.0
    noise = np.fft.irfft(spectrum, max(2, n_samples))[:n_samples]
    return noise / max(float(np.sqrt((noise**2).mean())), 1e-12)


def hum(n_samples: int, mains_hz: float, rate: int) -> np.ndarray:
    """Mains hum of RMS 1, with harmonics that fall by 1/k."""
    t = np.arange(n_samples) / rate
    waves = [np.sin(2 * np.pi * k * mains_hz * t) / k for k in range(1, HARMONICS + 1) if k * mains_hz < rate / 2]
    return np.sqrt(2.0 / sum(1 / k**2 for k in range(1, len(waves) + 1))) * np.sum(waves, axis=0)


def click(decay_ms: float, rate: int, rng: np.random.Generator) -> np.ndarray:
    """A click of height 1: one sample, or decaying noise."""
    n_samples = 1 + round(5e-3 * decay_ms * rate)
    shape = np.exp(-np.arange(n_samples) / max(1e-3 * decay_ms * rate, 1.0))
    return shape * np.where(np.arange(n_samples) == 0, 1.0, rng.uniform(-1.0, 1.0, n_samples))


def whistle(n_samples: int, from_hz: float, to_hz: float, rate: int) -> np.ndarray:
    """A tone of RMS 1 that glides between two frequencies, with soft ends."""
    cycles = np.cumsum(np.geomspace(from_hz, to_hz, n_samples)) / rate
    ramp = np.minimum(1.0, np.minimum(np.arange(n_samples), np.arange(n_samples)[::-1]) / (0.005 * rate))
    return np.sqrt(2.0) * np.sin(2 * np.pi * cycles) * ramp


def _lengths(layout: Any, rate: int) -> list[int]:
    """Slightly longer than short, medium and long notes, in samples."""
    durations = [layout.shortest_s.min(), np.median((layout.shortest_s + layout.longest_s) / 2), layout.longest_s.max()]
    return [max(8, round(min(1.2 * float(s), LONGEST_S) * rate)) for s in durations]


def _band(front_end: Any, rate: int) -> tuple[float, float]:
    low, high = front_end.band_hz or USUAL_BAND_HZ
    high = min(high, HIGHEST_SHARE * rate)
    return min(low, high / 4), high
