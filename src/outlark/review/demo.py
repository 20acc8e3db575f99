"""Two recordings to try the page on: synthetic notes of five kinds in synthetic noise."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from scipy.signal import butter, sosfilt

from outlark.experiment.synthetic import SAMPLE_RATE, note

#: Kind of note → number in each recording.
KINDS = {"tuti-D": 12, "tuti-F": 11, "cach-Z": 9, "cach-E": 8, "tuti-A": 7}
SECONDS = 60.0
NAMES = ("demo_20240512_053000.wav", "demo_20240512_061500.wav")
#: Root mean square of hiss and wind.
HISS, WIND = 0.0015, 0.006


class Placed(NamedTuple):
    """A note of the demonstration: which kind, from when to when in seconds."""

    label: str
    start_s: float
    end_s: float


def demo_sound(seed: int) -> tuple[np.ndarray, list[Placed]]:
    """A minute of notes in random order, and where they are.

    >>> samples, placed = demo_sound(0)
    >>> len(samples) / SAMPLE_RATE, len(placed) == sum(KINDS.values())
    (60.0, True)
    """
    rng = np.random.default_rng([seed, 20240512])
    order = rng.permutation([kind for kind, n in KINDS.items() for _ in range(n)])
    notes = [note(str(kind), rng, variation=1.5) * 10 ** (rng.uniform(-26, 0) / 20) for kind in order]
    n = round(SECONDS * SAMPLE_RATE)
    gaps = rng.exponential(size=len(notes) + 1) + 0.25
    free = n - sum(map(len, notes))
    gaps = np.floor(gaps / gaps.sum() * free).astype(int)
    samples = HISS * rng.standard_normal(n)
    samples += WIND * sosfilt(butter(2, 300, fs=SAMPLE_RATE, output="sos"), rng.standard_normal(n))
    placed, at = [], 0
    for gap, sound, kind in zip(gaps, notes, order, strict=False):
        at += int(gap)
        samples[at : at + len(sound)] += 0.6 * sound
        placed.append(Placed(str(kind), at / SAMPLE_RATE, (at + len(sound)) / SAMPLE_RATE))
        at += len(sound)
    return np.clip(samples, -1.0, 1.0), placed


def make_demo(folder: Path) -> list[Path]:
    """The recordings of the demonstration, made if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in NAMES]
    for seed, path in enumerate(paths):
        if not path.exists():
            soundfile.write(path, demo_sound(seed)[0], SAMPLE_RATE, subtype="PCM_16")
    return paths
