"""Which files a run is about, and what each is called in the output."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlark.errors import InputError
from outlark.field.sound_files import SUFFIXES


@dataclass(frozen=True)
class Source:
    """A file to work on.

    Attributes
    ----------
    path : Path
    name : str
        Its path in `Sources.base`, with "/" on every system: what tables call it, and where its results are.
    """

    path: Path
    name: str


@dataclass(frozen=True)
class Failure:
    """What could not be done, and why."""

    name: str
    message: str


@dataclass(frozen=True)
class Sources:
    """All files of a run, by name.

    Attributes
    ----------
    base : Path
        The deepest folder that holds all that was asked for.
    files : tuple of Source
    failures : tuple of Failure
        What was asked for and is not there, and folders that cannot be listed.
    """

    base: Path
    files: tuple[Source, ...]
    failures: tuple[Failure, ...] = ()


def find(
    paths: Sequence[str | os.PathLike[str]], suffixes: Sequence[str] = SUFFIXES, what: str = "recordings"
) -> Sources:
    """Files as they are; of folders, all files within that end in one of the suffixes, in any case.

    Names in folders that begin with a dot are left out: such are the ``._x.wav`` that a Mac leaves on a memory card.

    Parameters
    ----------
    paths : sequence of paths
        Files and folders. Folders are searched with all that is in them, links to folders too.
    suffixes : sequence of str
        In lower case.
    what : str
        Word for such files, for messages.

    Raises
    ------
    InputError
        When nothing is found; the message names the folders and what was looked for.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     os.mkdir(f"{folder}/night")
    ...     for name in ("a.wav", "a.flac", "night/B.WAV", "notes.txt", "._a.wav"):
    ...         open(f"{folder}/{name}", "w").close()
    ...     [source.name for source in find([folder]).files]
    ['a.flac', 'a.wav', 'night/B.WAV']
    """
    asked = [Path(os.path.abspath(path)) for path in paths]
    if not asked:
        raise InputError(f"no {what} given; name files or folders")
    base = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in asked]))
    found: dict[str, Source] = {}
    failures: list[Failure] = []
    for path in asked:
        if not os.path.lexists(path):
            failures.append(Failure(_name(path, base), f"{path} does not exist; check the path"))
            continue
        within = _walk(path, tuple(suffixes), base, failures) if path.is_dir() else [path]
        found |= {_name(file, base): Source(file, _name(file, base)) for file in within}
    if not found:
        raise InputError(_nothing(asked, suffixes, what, failures))
    return Sources(base, tuple(found[name] for name in sorted(found)), tuple(failures))


def _walk(folder: Path, suffixes: tuple[str, ...], base: Path, failures: list[Failure]) -> Iterator[Path]:
    def cannot_list(error: OSError) -> None:
        path = Path(error.filename)
        failures.append(Failure(_name(path, base), f"{path} cannot be listed ({error.strerror}); check your rights"))

    seen = {os.path.realpath(folder)}
    for here, folders, files in os.walk(folder, followlinks=True, onerror=cannot_list):
        new = [name for name in folders if not name.startswith(".")]
        # a link may lead to a folder that holds it
        folders[:] = [name for name in new if _first_time(os.path.realpath(os.path.join(here, name)), seen)]
        for name in files:
            if name.lower().endswith(suffixes) and not name.startswith("."):
                yield Path(here, name)


def _first_time(entry: str, seen: set[str]) -> bool:
    new = entry not in seen
    seen.add(entry)
    return new


def _name(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix()


def _nothing(asked: Iterable[Path], suffixes: Sequence[str], what: str, failures: Sequence[Failure]) -> str:
    folders = [str(path) for path in asked if path.is_dir()]
    if failures or not folders:
        return f"no {what}: " + "; ".join(failure.message for failure in failures)
    looked_for = ", ".join(f"*{suffix}" for suffix in suffixes)
    return f"no {what} in {', '.join(folders)} or the folders within: looked for {looked_for}; check the folder"
