"""Folders of clips, one for each class: what is in them, and whether they are that."""

import os
from collections.abc import Sequence
from pathlib import Path

from outlark.audio.sound_files import is_sound, sounds_within
from outlark.errors import InputError

EXPECTED = "expected a folder with one sub-folder of clips for each class, or tables of labels"


def clip_folders(folder: Path, tables: Sequence[str], remarks: list[str]) -> dict[str, list[Path]]:
    """The clips of each class: the sound files of each sub-folder, with those in folders within it.

    Parameters
    ----------
    folder : Path
    tables : sequence of str
        Tables that are in the folder itself. If there are any, and no sub-folders with sounds, there are no classes.
    remarks : list of str
        What is left out is added to it.

    Raises
    ------
    InputError
        If it is not clear what the folder holds.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("alarm/1.wav", "alarm/2.WAV", "song/1.wav", "song/notes.txt"):
    ...         Path(folder, name).parent.mkdir(exist_ok=True)
    ...         Path(folder, name).touch()
    ...     remarks = []
    ...     classes = clip_folders(Path(folder), [], remarks)
    >>> {label: len(clips) for label, clips in classes.items()}, remarks
    ({'alarm': 2, 'song': 1}, ['1 file in the folders of the classes left out: hidden, or no sound'])
    """
    classes = {here.name: sounds for here in _folders(folder) if (sounds := list(sounds_within(here)))}
    loose = [path.name for path in sorted(folder.iterdir()) if is_sound(path.name) and path.is_file()]
    if classes and tables:
        raise InputError(
            f"{folder} holds tables ({tables[0]}) and folders of sounds ({next(iter(classes))}); give the tables by "
            "name, with --audio for the recordings, or a folder of clips without tables"
        )
    if not classes and not tables and loose:
        raise InputError(
            f"{folder} holds {_files(len(loose))} of sound ({loose[0]}), but neither sub-folders nor tables that say "
            f"what they are; {EXPECTED}"
        )
    if len(classes) == 1:
        _check_depth(folder, next(iter(classes)))
    if classes:
        remarks += _left_out(folder, classes, len(loose))
    return classes


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _check_depth(folder: Path, only: str) -> None:
    """Refuse a folder that holds the folder of classes, and would make one class of all of them."""
    inner = [path.name for path in _folders(folder / only) if next(sounds_within(path), None)]
    if len(inner) > 1 and not any(is_sound(path.name) for path in (folder / only).iterdir()):
        raise InputError(
            f"{folder} has one sub-folder of sounds, {only}, and they are in folders within it ({inner[0]}, {inner[1]} "
            f"…); if these are the classes, give {folder / only}"
        )


def _left_out(folder: Path, classes: dict[str, list[Path]], n_loose: int) -> list[str]:
    there = sum(len(files) for label in classes for *_, files in os.walk(folder / label))
    others = there - sum(map(len, classes.values()))
    found = [f"{_files(others)} in the folders of the classes left out: hidden, or no sound"] if others else []
    if n_loose:
        found.append(f"{_files(n_loose)} of sound left out: in {folder} itself, not in the folder of a class")
    empty = [path.name for path in _folders(folder) if path.name not in classes]
    return found + [f"the folder {name} has no sound files and makes no class" for name in empty]


def _files(n: int) -> str:
    return f"{n} file{'s' if n > 1 else ''}"
