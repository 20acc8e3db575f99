"""Two recordings to try the page on."""

from pathlib import Path

import soundfile

from outlark.experiment.demo_recordings import demo_sound
from outlark.experiment.synthetic import SAMPLE_RATE

NAMES = ("demo_20240512_053000.wav", "demo_20240512_061500.wav")


def make_demo(folder: Path) -> list[Path]:
    """The recordings of the demonstration, made if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in NAMES]
    for seed, path in enumerate(paths):
        if not path.exists():
            soundfile.write(path, demo_sound(seed)[0], SAMPLE_RATE, subtype="PCM_16")
    return paths
