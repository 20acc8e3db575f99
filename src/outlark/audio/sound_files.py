"""Which recording an annotation file is about, and which names mean the same recording.

Annotation files name recordings with or without folders and endings, or not at all.
"""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product, takewhile
from pathlib import Path, PurePosixPath
from typing import NoReturn, Self

from outlark.audio.header import FIRST_YEAR, IN_NAME, LAST_YEAR
from outlark.errors import AnnotationError, InputError
from outlark.plain_text import as_named

#: File name endings of sound files, in any case.
SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff", ".w64", ".rf64", ".caf", ".au")
#: What programs put between the name of a recording and the ending of its annotation file.
_BETWEEN = re.compile(
    r"\.(table\.\d+\.selections|table\.\d+|selections?|labels?|annotations?|outlark|kaleidoscope|dcase|aoef|not"
    r"|birdnet(\.[a-z]+)*)$",
    re.IGNORECASE,
)


def is_sound(name: str) -> bool:
    """Whether a file name is that of a recording; hidden files are not.

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
    """The name of the recording that an annotation file of this name is about.

    >>> [recording_of_table(f"a.{end}") for end in ("Table.1.selections.txt", "BirdNET.results.csv", "txt")]
    ['a', 'a', 'a']
    >>> recording_of_table("a.b.wav.outlark.csv")
    'a.b.wav'
    """
    return _BETWEEN.sub("", os.path.splitext(name)[0])


def folded(name: str) -> str:
    """A name without differences in case, and in how accented letters are stored (NFC on Linux, NFD on older Macs).

    >>> folded("E\u0301.WAV") == folded("\u00e9.wav")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


# ------------------------------------------------------------------ files


def _refuse(error: OSError) -> NoReturn:
    raise InputError(f"{error.filename} cannot be listed ({error.strerror}); check its permissions") from error


def files_within(
    folder: Path, *, deep: bool = True, cannot_list: Callable[[OSError], object] = _refuse
) -> Iterator[Path]:
    """All files in a folder, and if `deep` in the folders within, except hidden ones.

    Links to folders are followed, but no folder is searched twice. `cannot_list` gets the error of a folder that cannot
    be listed; by default it is raised.
    """
    seen = {os.path.realpath(folder)}
    for here, folders, files in os.walk(folder, followlinks=True, onerror=cannot_list):
        paths = {name: os.path.join(here, name) for name in sorted(folders) if deep and not name.startswith(".")}
        folders.clear()
        for name in sorted(paths, key=lambda name: os.path.islink(paths[name])):  # rather the folder than a link to it
            real = os.path.realpath(paths[name])
            if real not in seen:
                seen.add(real)
                folders.append(name)
        yield from (Path(here, name) for name in sorted(files) if not name.startswith("."))


def sounds_within(folder: Path) -> Iterator[Path]:
    """Those of the files that are sound, by their names."""
    return (path for path in files_within(folder) if is_sound(path.name))


class SoundFiles:
    """Finds recordings by their names in annotation files: in folders, with all within, and beside each file.

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
        self._beside: dict[Path, dict[str, dict[str, RecordingName]]] = {}

    def of_table(self, table: Path) -> Path:
        """The recording that an annotation file is about, by the name of the file."""
        return self.named(recording_of_table(table.name), table)

    def named(self, name: str, table: Path, line: int | None = None) -> Path:
        """The recording with this name in an annotation file; an error if there is none, or several.

        A path to an existing file is that file. Otherwise the folders are searched, then the folder of the annotation
        file: by name in any case, then without the ending; among several, the one with most folders in common.
        """
        where = f"{table}, line {line}" if line is not None else str(table)
        asked = PurePosixPath(as_named(name).replace("\\", "/"))
        for folder in (*self.folders, table.parent):
            path = folder / asked  # `asked` itself if that is an absolute path
            if is_sound(path.name) and path.is_file():
                return self._within_folder(path) if asked.is_absolute() else path
        own = RecordingName.of(name)
        for files in (self._within, self._all_beside(table.parent)):
            found = _most_alike(own, files.get(own.stem, {}))
            found = tuple({os.path.realpath(file): file for file in found}.values())
            if len(found) > 1:
                raise AnnotationError(
                    f"{where}: the recording {name!r} could be {found[0]} or {found[1]}; move one of them away, or "
                    "give a folder that holds only one"
                )
            if found:
                return Path(found[0])
        raise AnnotationError(
            f"{where}: there is no recording {name!r}{'' if is_sound(asked.name) else ' (with any ending)'} in "
            f"{' or '.join(map(str, [*self.folders, table.parent]))}; put it beside the annotation file, or "
            "name its folder (--audio)"
        )

    def _within_folder(self, path: Path) -> Path:
        """The path as a search of the folders gives it, so that a recording has one path, however it was named."""
        for folder in self.folders:
            whole = Path(os.path.abspath(folder))
            if path.is_relative_to(whole):
                return folder / path.relative_to(whole)
        return path

    @cached_property
    def _within(self) -> "dict[str, dict[str, RecordingName]]":
        return _names_by_stem(str(file) for folder in self.folders for file in sounds_within(folder))

    def _all_beside(self, folder: Path) -> "dict[str, dict[str, RecordingName]]":
        if folder not in self._beside:
            _, _, files = next(os.walk(folder), ("", [], []))
            self._beside[folder] = _names_by_stem(str(folder / name) for name in sorted(files) if is_sound(name))
        return self._beside[folder]


# ------------------------------------------------------------------ names


def parts_in_common(path: Path, other: Path) -> int:
    """How many parts of two paths are the same, from the name of the file.

    >>> parts_in_common(Path("/a/night/1.wav"), Path("/b/Night/1.wav"))
    2
    """
    return _common([folded(part) for part in path.parts], [folded(part) for part in other.parts])


def _common(folders: Sequence[str], others: Sequence[str]) -> int:
    """How many names are the same, from the innermost."""
    pairs = zip(reversed(folders), reversed(others), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True)
class RecordingName:
    """The parts of a name as `folded`; without a suffix unless it is that of a sound file.

    `written` is the stem as written: files of some disks differ in case alone.
    """

    folders: tuple[str, ...]
    stem: str
    suffix: str
    written: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> Self:
        """The parts of a name as written in an annotation file.

        >>> RecordingName.of(r"D:\\night\\A.WAV")
        RecordingName(folders=('d:', 'night'), stem='a', suffix='.wav')
        """
        whole = as_named(text).replace("\\", "/")
        path = PurePosixPath(folded(whole))
        stem = without_sound_suffix(path.name)
        return cls(path.parts[:-1], stem, path.name[len(stem) :], without_sound_suffix(PurePosixPath(whole).name))

    def likeness(self, other: Self) -> tuple[int, int, bool]:
        """How alike two names with one stem are: folders, endings (2 equal, 1 missing in one, 0 different), case."""
        endings = 2 if self.suffix == other.suffix else int(not self.suffix or not other.suffix)
        return _common(self.folders, other.folders), endings, self.written == other.written

    def shortens(self, other: Self) -> bool:
        """Whether this is the other name without some of its folders or its ending."""
        there = len(other.folders) - len(self.folders)
        said_less = there >= 0 and self.folders == other.folders[there:] and self.suffix in ("", other.suffix)
        return self != other and self.stem == other.stem and said_less


def spelt_differently(names: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Pairs of names taken for one recording that differ in case, or in how accented letters are stored.

    >>> spelt_differently({"x/A.wav": "a.wav", "b": "b.wav"})
    [('x/A.wav', 'a.wav')]
    """
    pairs = [(name, other) for name, other in names.items() if other is not None]
    return [(name, other) for name, other in pairs if RecordingName.of(name).written != RecordingName.of(other).written]


def full_names(names: Sequence[str]) -> dict[str, str]:
    """For each name the longest one that means the same recording.

    >>> full_names(["b", "a", "night/a.wav"])
    {'b': 'b', 'a': 'night/a.wav', 'night/a.wav': 'night/a.wav'}
    """
    of_stem = _names_by_stem(names)
    found = {}
    for name in names:
        own = RecordingName.of(name)
        parts = of_stem[own.stem]
        longer = [other for other, its in parts.items() if own.shortens(its)]
        longest = [other for other in longer if not any(parts[other].shortens(parts[more]) for more in longer)]
        found[name] = longest[0] if len(longest) == 1 else name
    return found


@dataclass(frozen=True)
class Meant:
    """The paths that a name may mean: none, one, or several that match equally; and whether its folders contradict."""

    paths: tuple[str, ...] = ()
    elsewhere: bool = False


def meant_by(names: Iterable[str], paths: Iterable[str]) -> dict[str, Meant]:
    """For each name in an annotation file the recording that it means, by the longest common end of their paths.

    Recorders at several sites give their files the same names, so folders count. Folders of another computer agree with
    none here; such a name can mean the only recording of that name, unless other names of the file agree with folders.

    >>> here = ["/data/A/1.flac", "/data/B/1.flac", "/data/B/2.flac"]
    >>> [meant_by([name], here)[name].paths for name in (r"D:\\A\\1.wav", "1.flac", "B/2.flac", "C/1.flac")]
    [('/data/A/1.flac',), ('/data/A/1.flac', '/data/B/1.flac'), ('/data/B/2.flac',), ()]
    >>> meant_by(["C/2.flac"], here), meant_by(["C/2.flac", "A/1.flac"], here)["C/2.flac"]
    ({'C/2.flac': Meant(paths=('/data/B/2.flac',), elsewhere=True)}, Meant(paths=(), elsewhere=False))
    """
    of_stem = _names_by_stem(paths)
    found: dict[str, Meant] = {}
    strangers: dict[str, tuple[str, ...]] = {}
    for name in names:
        own = RecordingName.of(name)
        same = of_stem.get(own.stem, {})
        near = {path: its for path, its in same.items() if not own.folders or own.folders[-1:] == its.folders[-1:]}
        found[name] = Meant(_most_alike(own, near))
        if own.folders and not near:
            strangers[name] = _most_alike(own, same)
    if any(found[name].paths for name in found if RecordingName.of(name).folders):
        return found
    claimed = Counter(path for several in strangers.values() for path in several)
    alone = {name: several for name, several in strangers.items() if len(several) == 1 == claimed[several[0]]}
    return found | {name: Meant(several, elsewhere=True) for name, several in alone.items()}


def _most_alike(own: RecordingName, paths: dict[str, RecordingName]) -> tuple[str, ...]:
    likeness = {path: own.likeness(its) for path, its in paths.items()}
    best = max(likeness.values(), default=None)
    return tuple(path for path, value in likeness.items() if value == best)


def pair_names(names: Sequence[str], others: Sequence[str]) -> dict[str, str | None]:
    """For each name the one of the others that means the same recording, or None; an error if several match equally.

    >>> pair_names(["siteA/1.wav", "siteB/1.wav"], ["1.wav"])
    Traceback (most recent call last):
    outlark.errors.AnnotationError: '1.wav' could be 'siteA/1.wav' or 'siteB/1.wav'; name recordings with their folders
    >>> pair_names(["siteA/1.wav", "siteB/1.wav", "2"], ["/data/siteA/1.wav", "2.flac"])
    {'siteA/1.wav': '/data/siteA/1.wav', 'siteB/1.wav': None, '2': '2.flac'}
    """
    found: dict[str, str | None] = dict.fromkeys(names)
    of_stem = _names_by_stem(others)
    for stem, own in _names_by_stem(names).items():
        found |= _pairs(own, of_stem.get(stem, {}))
    return found


def _names_by_stem(names: Iterable[str]) -> dict[str, dict[str, RecordingName]]:
    found: dict[str, dict[str, RecordingName]] = {}
    for name in names:
        parts = RecordingName.of(name)
        found.setdefault(parts.stem, {})[name] = parts
    return found


def _pairs(names: dict[str, RecordingName], others: dict[str, RecordingName]) -> dict[str, str]:
    """Pairs of names with one stem, the most similar first."""
    # folders without anything in common can be the same place only if there is no other place
    alone = len(names) == len(others) == 1
    likeness = {
        (name, other): own.likeness(its)
        for (name, own), (other, its) in product(names.items(), others.items())
        if alone or not own.folders or not its.folders or own.folders[-1] == its.folders[-1]
    }
    found: dict[str, str] = {}
    while likeness:
        best = max(likeness.values())
        top = [pair for pair, value in likeness.items() if value == best]
        _check_clear(top)
        found |= dict(top)
        taken = {name for pair in top for name in pair}
        likeness = {pair: v for pair, v in likeness.items() if not taken & set(pair)}
    return found


def _check_clear(pairs: Sequence[tuple[str, str]]) -> None:
    for side in (0, 1):
        for name, n in Counter(pair[side] for pair in pairs).items():
            if n > 1:
                first, second = [pair[1 - side] for pair in pairs if pair[side] == name][:2]
                raise AnnotationError(f"{name!r} could be {first!r} or {second!r}; name recordings with their folders")


# ------------------------------------------------------------------ sites

#: How `site_of` finds the site if nothing else is asked for, and what it gives if there is none.
AUTO, NO_SITE = "auto", "(no site)"
#: Folders named by date or without meaning: 2023, 2023-10, 20231024, Data.
_NOT_A_SITE = re.compile(r"(\d{4})(?:[-_. ]?\d{2}(?:[-_. ]?\d{2})?)?|data|wav|audio|recordings", re.IGNORECASE)


def site_of(recording: str, path: str, way: str = AUTO) -> str:
    """The site of a recording from its path; "(no site)" if it does not reveal one.

    `recording` is its name in a run: the path below the deepest folder that holds all recordings, with "/"; `path` its
    full path, for recordings that are not in a folder of their own. The `way` is "folder": the first folder of the
    name, except dates, "Data" and the like; "parent": the folder of the file; "name": the part of the file name before
    the time; or "auto": the first folder, else the part of the file name, else the folder of the file.

    >>> site_of("pond/20231024/20231024_120000.WAV", "/disk/pond/20231024/20231024_120000.WAV")
    'pond'
    >>> site_of("SM4-N_20231024_120000.wav", "/disk/all/SM4-N_20231024_120000.wav")
    'SM4-N'
    >>> site_of("20231024_120000.WAV", "/disk/ridge/20231024_120000.WAV")
    'ridge'
    """
    file = PurePosixPath(recording)
    folders = [folder for folder in file.parts[:-1] if not _is_date_or_data(folder)]
    around = [folder for folder in reversed(Path(path).parts[1:-1]) if not _is_date_or_data(folder)]
    time = IN_NAME.search(file.name)
    in_name = [] if time is None else [file.name[: time.start()].strip(" _-.$")]
    found = {
        "folder": folders[:1] or around[:1],
        "parent": folders[-1:] or around[:1],
        "name": in_name,
        AUTO: folders[:1] or (in_name if any(in_name) else around[:1]),
    }[way]
    return next(filter(None, found), NO_SITE)


def _is_date_or_data(folder: str) -> bool:
    """Whether a folder is named by date or without meaning.

    >>> [name for name in ("2023", "2023-10-24", "Data", "0042", "pond 2023") if _is_date_or_data(name)]
    ['2023', '2023-10-24', 'Data']
    """
    found = _NOT_A_SITE.fullmatch(folder)
    return found is not None and (found[1] is None or FIRST_YEAR <= int(found[1]) <= LAST_YEAR)
