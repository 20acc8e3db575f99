"""Which files a run is about, and what each is called in the output."""

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlark.audio.sound_files import SUFFIXES
from outlark.batch.manifest import is_manifest, read_manifest
from outlark.errors import InputError
from outlark.files.places import as_os_errors, as_place, file_system, is_url


@dataclass(frozen=True)
class Source:
    """A file to work on.

    Attributes
    ----------
    path : Path, or str for a URL
    name : str
        Its path below the deepest folder that holds all that was asked for, with "/" on every system: what tables call
        it, and where its results are.
    site, date : str or None
        As a manifest gives them.
    """

    path: Path | str
    name: str
    site: str | None = None
    date: str | None = None

    @property
    def listed(self) -> dict[str, str]:
        """Site and date, as far as a manifest gives them."""
        return {name: value for name, value in (("site", self.site), ("date", self.date)) if value is not None}


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
    files : tuple of Source
    failures : tuple of Failure
        What was asked for and is not there, and folders that cannot be listed.
    """

    files: tuple[Source, ...]
    failures: tuple[Failure, ...] = ()


def find(
    paths: Sequence[str | os.PathLike[str]], suffixes: Sequence[str] = SUFFIXES, what: str = "recordings"
) -> Sources:
    """Files as they are; of folders, all files within that end in one of the suffixes, in any case.

    Names in folders that begin with a dot are left out: such are the ``._x.wav`` that a Mac leaves on a memory card.

    Parameters
    ----------
    paths : sequence of paths and URLs
        Files, folders, and manifests: CSV or Parquet tables with a column of paths (`outlark.batch.manifest`). Folders
        are searched with all that is in them, links to folders too.
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
    asked = [one for path in paths for one in _asked(path)]
    if not asked:
        raise InputError(f"no {what} given; name files or folders")
    here = [replace(one, path=Path(os.path.abspath(one.path))) for one in asked if not is_url(one.path)]
    failures: list[Failure] = []
    found = [*_found_here(here, tuple(suffixes), failures)]
    found += _found_elsewhere([one for one in asked if is_url(one.path)], tuple(suffixes), failures)
    if not found:
        raise InputError(_nothing([one.path for one in asked], suffixes, what, failures))
    return Sources(_by_name(found), tuple(failures))


def _asked(path: str | os.PathLike[str]) -> Iterable[Source]:
    """What one argument asks for, without names yet: itself, or what a manifest lists."""
    if is_url(path) or not is_manifest(path):
        return [Source(as_place(path), "")]
    return [Source(listed.path, "", listed.site, listed.date) for listed in read_manifest(Path(path))]


def common_folder(paths: Sequence[Path]) -> Path:
    """The deepest folder that holds all that is asked for: folders themselves, and the folders of files."""
    return Path(os.path.commonpath([os.path.abspath(path if path.is_dir() else path.parent) for path in paths]))


def _found_here(asked: Sequence[Source], suffixes: tuple[str, ...], failures: list[Failure]) -> Iterator[Source]:
    """On this machine; without site and date, what is given twice is one."""
    if not asked:
        return
    folders = {one.path for one in asked if os.path.isdir(one.path)}
    base = common_folder([Path(one.path) for one in asked])
    for one in asked:
        path = Path(one.path)
        if not os.path.lexists(path):
            failures.append(Failure(_name(path, base), f"{path} does not exist; check the path"))
            continue
        within = _walk(path, suffixes, base, failures) if path in folders else [path]
        yield from (replace(one, path=file, name=_name(file, base)) for file in within)


def _found_elsewhere(asked: Sequence[Source], suffixes: tuple[str, ...], failures: list[Failure]) -> Iterator[Source]:
    """At URLs; names are below the deepest folder that holds all of them."""
    listed: list[tuple[Source, str]] = []  # with the path without what is before ://
    for one in asked:
        try:
            listed += [(replace(one, path=url), path) for url, path in _listed(str(one.path), suffixes)]
        except OSError as error:
            why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be listed ({error})"
            failures.append(Failure(str(one.path), f"{one.path} {why}; check the URL and your credentials"))
    if not listed:
        return
    base = posixpath.commonpath([posixpath.dirname(path) for _, path in listed])
    yield from (replace(source, name=posixpath.relpath(path, base)) for source, path in listed)


def _listed(url: str, suffixes: tuple[str, ...]) -> list[tuple[str, str]]:
    """The URLs of a file, or of all in a folder, each with its path in the store."""
    system, root = file_system(url)
    with as_os_errors(url):
        if system.isfile(root):
            return [(url, root)]
        if not system.exists(root):
            raise FileNotFoundError(url)
        within = [path for path in system.find(root) if path.lower().endswith(suffixes)]
    hidden = (any(part.startswith(".") for part in path[len(root) :].split("/")) for path in within)
    return [(system.unstrip_protocol(path), path) for path, dot in zip(within, hidden, strict=True) if not dot]


def _by_name(found: Iterable[Source]) -> tuple[Source, ...]:
    """Each file once; two files of one name would have one table."""
    of_name: dict[str, Source] = {}
    for source in found:
        other = of_name.setdefault(source.name, source)
        if other.path != source.path:
            raise InputError(
                f"{other.path} and {source.path} would both be called {source.name} in the output; run them "
                "separately, with different output folders"
            )
        of_name[source.name] = replace(
            source, site=_one(other.site, source.site, source), date=_one(other.date, source.date, source)
        )
    return tuple(of_name[name] for name in sorted(of_name))


def _one(first: str | None, second: str | None, source: Source) -> str | None:
    """What two lines about a file say of it."""
    if first is not None and second is not None and first != second:
        raise InputError(f"{source.path} is given twice, with {first!r} and with {second!r}; correct the manifest")
    return first if second is None else second


def _walk(folder: Path, suffixes: tuple[str, ...], base: Path, failures: list[Failure]) -> Iterator[Path]:
    def cannot_list(error: OSError) -> None:
        path = Path(error.filename)
        failures.append(
            Failure(_name(path, base), f"{path} cannot be listed ({error.strerror}); check its permissions")
        )

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


def _nothing(asked: Iterable[Path | str], suffixes: Sequence[str], what: str, failures: Sequence[Failure]) -> str:
    folders = [str(path) for path in asked if is_url(path) or os.path.isdir(path)]
    if failures or not folders:
        return f"no {what}: " + "; ".join(failure.message for failure in failures)
    looked_for = ", ".join(f"*{suffix}" for suffix in suffixes)
    return f"no {what} in {', '.join(folders)} or the folders within: looked for {looked_for}; check the folder"
