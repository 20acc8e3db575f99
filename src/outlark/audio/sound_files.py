"""Where the recording of a table is: beside it, or in a folder of recordings, by the name in the table or its own."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from outlark.errors import AnnotationError, InputError
from outlark.plain_text import as_named

#: How sound files end, in any case.
SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff", ".w64", ".rf64", ".caf", ".au")
#: What stands between the name of a recording and the ending of its table, by habit of the programs.
_BETWEEN = re.compile(
    r"\.(table\.\d+\.selections|table\.\d+|selections?|labels?|annotations?|outlark|kaleidoscope|dcase|aoef|not"
    r"|birdnet(\.[a-z]+)*)$",
    re.IGNORECASE,
)


def is_sound(name: str) -> bool:
    """Whether a file is a recording by its name; names that begin with a dot are not.

    >>> is_sound("A.WAV"), is_sound("._a.wav"), is_sound("a.txt")
    (True, False, False)
    """
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def without_sound_suffix(name: str) -> str:
    """The name of a recording without its ending, if it has one.

    >>> without_sound_suffix("night.1.FLAC"), without_sound_suffix("night.1")
    ('night.1', 'night.1')
    """
    return os.path.splitext(name)[0] if name.lower().endswith(SUFFIXES) else name


def recording_of_table(name: str) -> str:
    """The name of the recording that a table of this name is about; with an ending if the table's name has it.

    >>> [recording_of_table(f"a.{end}") for end in ("Table.1.selections.txt", "BirdNET.results.csv", "txt")]
    ['a', 'a', 'a']
    >>> recording_of_table("a.b.wav.outlark.csv")
    'a.b.wav'
    """
    return _BETWEEN.sub("", os.path.splitext(name)[0])


class SoundFiles:
    """Finds recordings by the names that tables give them.

    Parameters
    ----------
    folders : paths
        Where recordings are besides the folder of each table; searched with all folders within.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "night.FLAC").touch()
    ...     SoundFiles().of_table(Path(folder, "night.Table.1.selections.txt")).name
    'night.FLAC'
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.folders = [Path(folder) for folder in folders]
        for folder in self.folders:
            if not folder.is_dir():
                what = "a file" if folder.exists() else "not there"
                raise InputError(f"{folder} is {what}; give a folder that holds recordings")
        self._within: dict[str, list[Path]] | None = None
        self._beside: dict[Path, dict[str, list[Path]]] = {}

    def of_table(self, table: Path) -> Path:
        """The recording that a table is about by its own name."""
        return self.named(recording_of_table(table.name), table)

    def named(self, name: str, table: Path, line: int | None = None) -> Path:
        """The recording that a table calls so.

        A path that leads to a file is that file. Else it is looked for in the folders, then beside the table: by its
        name in any case, then without regard to its ending; among several, the one with most folders in common.

        Raises
        ------
        AnnotationError
            If there is none, or it cannot be told which.
        """
        where = f"{table}, line {line}" if line is not None else str(table)
        asked = PurePosixPath(as_named(name).replace("\\", "/"))
        for folder in (*self.folders, table.parent):
            path = folder / asked  # which is `asked` itself if that is a whole path
            if is_sound(path.name) and path.is_file():
                return path
        for files in (self._all_within(), self._all_beside(table.parent)):
            found = _nearest(asked, files)
            if len(found) > 1:
                raise AnnotationError(
                    f"{where}: the recording {name!r} could be {found[0]} or {found[1]}; move one of them away, or "
                    "give a folder that holds only one"
                )
            if found:
                return found[0]
        raise AnnotationError(
            f"{where}: there is no recording {name!r}{'' if is_sound(asked.name) else ' (with any ending)'} in "
            f"{' or '.join(map(str, [*self.folders, table.parent]))}; put it beside the table, or name the folder that "
            "holds it (--audio)"
        )

    def _all_within(self) -> dict[str, list[Path]]:
        if self._within is None:
            self._within = _by_stem(file for folder in self.folders for file in sounds_within(folder))
        return self._within

    def _all_beside(self, folder: Path) -> dict[str, list[Path]]:
        if folder not in self._beside:
            self._beside[folder] = _by_stem(path for path in _listed(folder) if is_sound(path.name) and path.is_file())
        return self._beside[folder]


def sounds_within(folder: Path) -> Iterator[Path]:
    """All recordings in a folder and the folders within, in order; hidden ones and links to folders are left alone."""
    for path in _listed(folder):
        if path.is_dir() and not path.name.startswith(".") and not path.is_symlink():
            yield from sounds_within(path)
        elif is_sound(path.name) and path.is_file():
            yield path


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be listed ({error.strerror}); check that you may read it") from error


def _by_stem(files: Iterable[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        found[file.stem.casefold()].append(file)
    return found


def _nearest(asked: PurePosixPath, files: dict[str, list[Path]]) -> Sequence[Path]:
    """The files that answer best to a name; several when nothing tells them apart."""
    same = {os.path.realpath(file): file for file in files.get(without_sound_suffix(asked.name).casefold(), ())}
    found = list(same.values())
    alike = [file for file in found if file.name.casefold() == asked.name.casefold()]
    found = alike or found
    for key in (lambda file: _common(file.parts, asked.parts), lambda file: file.name == asked.name):
        best = max(map(key, found), default=0)
        found = [file for file in found if key(file) == best]
    return found


def _common(parts: Sequence[str], others: Sequence[str]) -> int:
    """How many of the folders that hold a file have the same names, from the innermost."""
    n = 0
    for part, other in zip(parts[-2::-1], others[-2::-1], strict=False):
        if part.casefold() != other.casefold():
            break
        n += 1
    return n
