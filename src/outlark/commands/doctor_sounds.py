"""Synthetic sounds that are not notes, which a detector should not recognise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.features.base import HIGHEST_SHARE

#: Level of the faint noise between test sounds, and of the sounds, in dB re full scale (RMS).
BACKGROUND_DB, LEVELS_DB = -75.0, (-50.0, -35.0, -20.0)
#: Seconds of steady sounds, between sounds, before the first, for the noise floor to settle, and of a sound at most.
STEADY_S, SILENCE_BETWEEN_S, SETTLING_S, LONGEST_SOUND_S = 3.0, 0.3, 1.0, 1.0
#: Tones, and whistles in each direction.
N_TONES, N_WHISTLES = 12, 6
#: Mains frequencies, and the number of harmonics.
MAINS_HZ, HARMONICS = (50.0, 60.0), 12
USUAL_BAND_HZ = (500.0, 10_000.0)
NOISE_ADVICE = (
    "Check whether clips of these classes are mostly background, or several kinds of notes under one label; annotate "
    "notes more tightly, and in longer recordings, which show what else there is to hear"
)
TONE_ADVICE = (
    "Unavoidable for a class of pure whistles; otherwise add more varied notes of these classes, and check detections "
    "in places with such sounds"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SoundTest:
    """Sounds of one kind: recordings with the spans (start, end) of the sounds, in samples.

    It is `grave` if most of them are taken for notes: no bird sounds like that.
    """

    name: str
    recordings: list[tuple[np.ndarray, list[tuple[int, int]]]]
    grave: bool = True
    advice: str = NOISE_ADVICE


def sound_tests(detector: Any) -> Iterator[SoundTest]:
    """All kinds of sounds, at several levels and durations; only silence for series of numbers."""
    rate, front_end = detector.sample_rate_, detector.front_end_
    n_steady = max(1, round(STEADY_S * rate))
    silence = np.zeros(n_steady) if front_end.is_sound else front_end.silence(n_steady)
    yield SoundTest(name="digital silence", recordings=[(silence, [(0, n_steady)])])
    if not front_end.is_sound:
        return
    rng = np.random.default_rng(0)
    noises = {"white noise": white, "pink noise": pink}
    for name, noise in noises.items():
        steady = [(level(db) * noise(n_steady, rng), [(0, n_steady)]) for db in LEVELS_DB]
        yield SoundTest(name=f"steady {name}", recordings=steady)
    short, medium, long = _lengths(detector.layout_, rate)
    for name, noise in noises.items():
        bursts = [level(db) * noise(n, rng) for db in LEVELS_DB for n in (short, medium, long)]
        yield SoundTest(name=f"bursts of {name}", recordings=[in_background(bursts, rate, rng)])
    hums = [level(db) * hum(long, mains, rate) for mains in MAINS_HZ for db in LEVELS_DB]
    yield SoundTest(name="hum switched on and off", recordings=[in_background(hums, rate, rng)])
    clicks = [level(db) * click(ms, rate, rng) for db in (-20.0, -3.0) for ms in (0.0, 1.0, 5.0)]
    yield SoundTest(name="clicks", recordings=[in_background(clicks, rate, rng)])
    low_hz, high_hz = _test_band(front_end, rate)
    tones_hz = np.geomspace(1.1 * low_hz, 0.9 * high_hz, N_TONES)
    starts_hz = np.geomspace(1.1 * low_hz, 0.9 * high_hz / 1.5, N_WHISTLES)
    sweeps = [(hz, 1.5 * hz) for hz in starts_hz] + [(1.5 * hz, hz) for hz in starts_hz]
    tonal = {
        "pure tones": [whistle(long, hz, hz, rate) for hz in tones_hz],
        "rising and falling whistles": [whistle(medium, *sweep, rate) for sweep in sweeps],
    }
    for name, sounds in tonal.items():
        recording = in_background([level(-25.0) * sound for sound in sounds], rate, rng)
        yield SoundTest(name=name, recordings=[recording], grave=False, advice=TONE_ADVICE)


def in_background(
    sounds: Sequence[np.ndarray], rate: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """One recording of the sounds in faint noise, and the span of each.

    >>> samples, spans = in_background([np.ones(10), np.ones(20)], 100, np.random.default_rng(0))
    >>> len(samples), spans
    (260, [(100, 110), (140, 160)])
    """
    gap, edge = round(SILENCE_BETWEEN_S * rate), round(SETTLING_S * rate)
    ends = edge + np.cumsum([len(sound) + gap for sound in sounds]) - gap
    spans = [(int(end) - len(sound), int(end)) for sound, end in zip(sounds, ends, strict=True)]
    samples = level(BACKGROUND_DB) * white(int(ends[-1]) + edge, rng)
    for sound, (start, end) in zip(sounds, spans, strict=True):
        samples[start:end] += sound
    return samples, spans


def level(db: float) -> float:
    """The factor for a sound of RMS 1, or of height 1."""
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
    return [max(8, round(min(1.2 * float(s), LONGEST_SOUND_S) * rate)) for s in durations]


def _test_band(front_end: Any, rate: int) -> tuple[float, float]:
    low, high = front_end.band_hz or USUAL_BAND_HZ
    high = min(high, HIGHEST_SHARE * rate)
    return min(low, high / 4), high
