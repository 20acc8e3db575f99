"""Two recordings to try the page on."""

from pathlib import Path

from outlark.experiment.demo_recordings import write_sound

NAMES = ("demo_20240512_053000.wav", "demo_20240512_061500.wav")


def make_demo(folder: Path) -> list[Path]:
    """The recordings of the demonstration, made if they are not there."""
    paths = [folder / name for name in NAMES]
    for seed, path in enumerate(paths):
        write_sound(path, seed)
    return paths
