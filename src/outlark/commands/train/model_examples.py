"""What a model was made from, found again: a model file says of each example which file it is from, when it begins and
ends, and a digest of its samples. The sound itself is not in it."""

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outlark.annotations import Mark
from outlark.audio.sound_files import is_sound, sounds_within
from outlark.commands.excerpt import Sound
from outlark.commands.train.examples import Example, Examples
from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.plain_text import number_of


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A model that is trained again.

    Attributes
    ----------
    path : Path
    sha256 : str
        Of the file.
    detector : NoteDetector
        As it was loaded.
    """

    path: Path
    sha256: str
    detector: NoteDetector

    @property
    def classes(self) -> list[str]:
        return [str(label) for label in self.detector.classes_.tolist()]


def examples_of(parent: Parent, folders: Iterable[str | os.PathLike[str]], channel: int | str = "mix") -> Examples:
    """The examples and the negatives of a model, in the recordings that they are from.

    Parameters
    ----------
    parent : Parent
    folders : paths
        That hold the recordings, with all folders within; also looked for beside the model.
    channel : "mix" or int

    Raises
    ------
    InputError
        If a recording is missing, or holds something else; the message names all of them.
    """
    detector = parent.detector
    if not all(isinstance(label, str) for label in detector.classes_.tolist()):
        raise InputError(f"the classes of {parent.path} are numbers, not names: train it again in Python")
    looked_in = list(dict.fromkeys(map(Path, folders)))
    files: dict[str, dict[str, Path]] = defaultdict(dict)
    beside = (path for path in sorted(parent.path.parent.iterdir()) if is_sound(path.name) and path.is_file())
    for path in (*(file for folder in looked_in for file in sounds_within(folder)), *beside):
        files[path.name.casefold()].setdefault(os.path.realpath(path), path)
    wanted = [*detector.training_, *detector.negatives_]
    found = [_found(note, list(files[str(note["name"]).casefold()].values()), parent, channel) for note in wanted]
    lost = [note for note, path in zip(wanted, found, strict=True) if path is None]
    if lost:
        raise InputError(_lost(lost, parent, files, [*looked_in, parent.path.parent]))
    examples = [
        replace(named_example(note), recording=path, table=parent.path)
        for note, path in zip(wanted, found, strict=True)
        if path is not None
    ]
    n = len(detector.training_)
    clips = any(note.get("clip", False) for note in detector.training_)
    return Examples(notes=tuple(examples[:n]), negatives=tuple(examples[n:]), clips=clips)


def _found(note: Mapping[str, Any], files: Sequence[Path], parent: Parent, channel: int | str) -> Path | None:
    """The file that holds a training note: by its digest, or where that is of resampled sound the only one there is."""
    unsure = []
    for path in files:
        sound = Sound(path, channel=channel)
        rate = sound.sample_rate
        start, end = round(note["start_s"] * rate), round(note["end_s"] * rate)
        if rate != parent.detector.sample_rate_:
            unsure += [path] if end <= sound.n_samples else []
        elif hashlib.sha256(sound.part(start, end).astype("<f8").tobytes()).hexdigest() == note["sha256"]:
            return path
    return unsure[0] if len(unsure) == 1 else None


def _lost(lost: Sequence[Mapping[str, Any]], parent: Parent, files: Mapping[str, Any], folders: Sequence[Path]) -> str:
    """Which recordings are missing, and which hold something else."""
    counts = Counter(note["name"] for note in lost)
    missing: list[str] = []
    others: list[str] = []
    for name, n in counts.items():
        there = len(files[name.casefold()]) if name is not None else 0
        more = f"; {there} files are called so" if there > 1 else ""
        (others if there else missing).append(f"{name or 'arrays, not files'} ({number_of(n, 'note')}{more})")
    said = [f"not there: {', '.join(missing)}"] if missing else []
    said += [f"there, but not with the sound that it was trained on: {', '.join(others)}"] if others else []
    return (
        f"recordings that {parent.path} was trained on are {'; '.join(said)}. They were looked for in "
        f"{', '.join(map(str, dict.fromkeys(folders)))}; name the folder that holds them (--audio) and the --channel "
        "that it was trained on, or train on the corrected annotations alone, without --from"
    )


def named_example(note: Mapping[str, Any]) -> Example:
    """A training note as the model file tells it."""
    bounds = {name: note[name] for name in ("low_hz", "high_hz") if name in note}
    mark = Mark(start_s=note["start_s"], end_s=note["end_s"], label=str(note["label"]), **bounds)
    return Example(
        label=str(note["label"]), recording=Path(note["name"] or f"recording {note['recording']}"), mark=mark
    )
