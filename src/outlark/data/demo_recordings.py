"""Recordings to try outlark on without any of one's own: synthetic notes in the noise of a wood, with annotations."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import butter, sosfilt

from outlark.annotations import Annotation, write_annotations
from outlark.data.synthetic import SAMPLE_RATE, note

#: Kind of note → how many each recording holds. The last two are not annotated: to whoever trains, they are unknown.
NOTES_PER_RECORDING = {"tuti-D": 12, "tuti-F": 11, "cach-Z": 9, "cach-E": 8, "tuti-A": 7}
ANNOTATED = tuple(NOTES_PER_RECORDING)[:3]
SECONDS = 60.0
#: Root mean square of hiss and wind.
HISS, WIND = 0.0015, 0.006
FIRST_START, START_INTERVAL, N_RECORDINGS = datetime(2024, 5, 12, 5, 30), timedelta(minutes=45), 4


def demo_sound(seed: int) -> tuple[np.ndarray, list[Annotation]]:
    """A minute of notes in random order, and where they are.

    >>> samples, placed = demo_sound(0)
    >>> len(samples) / SAMPLE_RATE, len(placed) == sum(NOTES_PER_RECORDING.values())
    (60.0, True)
    """
    rng = np.random.default_rng([seed, 20240512])
    order = rng.permutation([kind for kind, n in NOTES_PER_RECORDING.items() for _ in range(n)])
    notes = [note(str(kind), rng, variation=1.5) * 10 ** (rng.uniform(-26, 0) / 20) for kind in order]
    n = round(SECONDS * SAMPLE_RATE)
    gaps = rng.exponential(size=len(notes) + 1) + 0.25
    gaps = np.floor(gaps / gaps.sum() * (n - sum(map(len, notes)))).astype(int)
    samples = HISS * rng.standard_normal(n)
    samples += WIND * sosfilt(butter(2, 300, fs=SAMPLE_RATE, output="sos"), rng.standard_normal(n))
    placed, at = [], 0
    for gap, sound, kind in zip(gaps, notes, order, strict=False):
        at += int(gap)
        samples[at : at + len(sound)] += 0.6 * sound
        start, at = at, at + len(sound)
        placed.append(Annotation(start_s=start / SAMPLE_RATE, end_s=at / SAMPLE_RATE, label=str(kind)))
    return np.clip(samples, -1.0, 1.0), placed


def write_sound(path: Path, seed: int) -> None:
    """Write the recording of this seed, unless there is a file already."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, demo_sound(seed)[0], SAMPLE_RATE, subtype="PCM_16")


def demo_files(folder: Path) -> dict[Path, Path]:
    """By recording, its Raven selection table."""
    paths = [folder / f"{FIRST_START + number * START_INTERVAL:%Y%m%d_%H%M%S}.wav" for number in range(N_RECORDINGS)]
    return {path: path.with_suffix(".Table.1.selections.txt") for path in paths}


def write_demo(folder: Path) -> list[Path]:
    """Write the recordings, and a selection table of the annotated kinds for each; what is there already stays.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as made:
    ...     [path.name for path in write_demo(Path(made))][:2]
    ['20240512_053000.wav', '20240512_061500.wav']
    """
    files = demo_files(folder)
    for seed, (path, table) in enumerate(files.items()):
        write_sound(path, seed)
        if not table.exists():
            placed = [note for note in demo_sound(seed)[1] if note.label in ANNOTATED]
            write_annotations(table, [replace(note, recording=path.name) for note in placed], format="raven")
    return list(files)
