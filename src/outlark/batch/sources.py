"""Which files a run is about, from paths, folders, URLs and manifests, and their names in the output."""

import csv
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from outlark.audio.sound_files import SUFFIXES
from outlark.errors import InputError
from outlark.files.io import as_os_errors, as_place, file_system, is_endless, is_url

#: Columns of a manifest.
PATH, SITE, DATE = "path", "site", "date"


@dataclass(frozen=True)
class Source:
    """A file to work on; a URL is text.

    Attributes
    ----------
    name : str
        Its path below the deepest common folder of everything given, with "/" on every system: its name in annotation
        files, and where its results go.
    site, date : str or None
        From a manifest.
    """

    path: Path | str
    name: str
    site: str | None = None
    date: str | None = None

    @property
    def listed(self) -> dict[str, str]:
        return {name: value for name, value in (("site", self.site), ("date", self.date)) if value is not None}


@dataclass(frozen=True)
class Failure:
    """A recording, and what is wrong with it."""

    name: str
    message: str


@dataclass(frozen=True)
class Sources:
    """All files of a run by name, what is missing or cannot be listed, and names of one file that are left out."""

    files: tuple[Source, ...]
    failures: tuple[Failure, ...] = ()
    same: tuple[Failure, ...] = ()


def find(
    paths: Sequence[str | os.PathLike[str]], suffixes: Sequence[str] = SUFFIXES, what: str = "recordings"
) -> Sources:
    """The files given, those in the folders given, and those listed in the manifests given.

    Folders are searched to any depth, including links, for files with one of the suffixes, in any case. Names that
    start with a dot are skipped, such as the ``._x.wav`` that a Mac leaves on a memory card.

    Parameters
    ----------
    paths : sequence of paths and URLs
        Of files, folders and manifests (see `read_manifest`).
    suffixes : sequence of str
        In lower case.
    what : str
        Word for such files in messages.

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
    files, same = _each_once(_by_name(found))
    return Sources(files, tuple(failures), same)


def _asked(path: str | os.PathLike[str]) -> Iterable[Source]:
    """What one argument stands for, without names yet: itself, or what a manifest lists."""
    return [Source(as_place(path), "")] if is_url(path) or not is_manifest(path) else read_manifest(Path(path))


def common_folder(paths: Sequence[Path]) -> Path:
    """The deepest folder that holds all of them: folders themselves, and the folders of files."""
    return Path(os.path.commonpath([os.path.abspath(path if path.is_dir() else path.parent) for path in paths]))


def _found_here(asked: Sequence[Source], suffixes: tuple[str, ...], failures: list[Failure]) -> Iterator[Source]:
    """On this machine."""
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
    """At URLs; names start below the deepest folder that holds all of them."""
    listed: list[tuple[Source, str]] = []  # with the path, without the protocol
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
    """The URL of a file, or those of all in a folder, with the paths in the store."""
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
    """Each file once; two files of one name would overwrite each other's results."""
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


def _each_once(found: Sequence[Source]) -> tuple[tuple[Source, ...], tuple[Failure, ...]]:
    """Each file under one name only, that of the file itself rather than of a link to it; and the other names."""
    of_file: dict[object, Source] = {}
    same = []
    for source in sorted(found, key=lambda source: not is_url(source.path) and os.path.islink(source.path)):
        first = of_file.setdefault(_file(source.path), source)
        if first is not source:
            same.append(Failure(source.name, f"{source.path} is the same file as {first.path}: analysed once"))
    return tuple(sorted(of_file.values(), key=lambda source: source.name)), tuple(same)


def _file(path: Path | str) -> object:
    """Equal for two paths of one file, through links of any kind."""
    try:
        found = None if is_url(path) else os.stat(path)
    except OSError:
        found = None
    return path if found is None or not found.st_ino else (found.st_dev, found.st_ino)


def _one(first: str | None, second: str | None, source: Source) -> str | None:
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
        # a link may lead to a folder that contains it
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


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a manifest, by its suffix.

    >>> is_manifest("night.csv"), is_manifest("night.wav")
    (True, False)
    """
    return os.fspath(path).lower().endswith((".csv", ".parquet")) and not os.path.isdir(path)


def read_manifest(path: Path) -> Iterator[Source]:
    """The recordings listed in a CSV or Parquet file, without names.

    It has a column "path" (relative to the folder of the manifest, or URLs) and perhaps "site" and "date" (2026-05-31);
    case does not matter, and other columns are ignored.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "season.csv")
    ...     _ = path.write_text("Path,Site\\na.wav,pond\\ns3://b/c.wav,\\n")
    ...     [(listed.site, str(listed.path).removeprefix(folder)) for listed in read_manifest(path)]
    [('pond', '/a.wav'), (None, 's3://b/c.wav')]
    """
    if is_endless(path):
        raise InputError(f"{path} is a device or a pipe; give a manifest in a file")
    rows = _parquet_rows(path) if path.name.lower().endswith(".parquet") else _csv_rows(path)
    for number, row in rows:
        found = row[PATH]
        if not isinstance(found, str) or not found.strip():
            raise InputError(f"{path}, line {number}: no path ({found!r:.60}); give one in each line")
        where = as_place(found.strip() if is_url(found.strip()) else path.parent / found.strip())
        yield Source(where, "", _text(row.get(SITE)), _day(row.get(DATE), f"{path}, line {number}"))


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            names = _columns(rows.fieldnames or [], path)
            for row in rows:
                yield rows.line_num, {key: row[name] for key, name in names.items()}
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path}: cannot be read ({why}); check the path and that you may read it") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a manifest ({error}); give a CSV file in UTF-8") from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    from outlark.annotations.files import needed

    pyarrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            names = _columns(file.schema_arrow.names, path)
            number = 0
            for batch in file.iter_batches(columns=list(names.values())):
                for row in batch.to_pylist():
                    number += 1
                    yield number, {key: row[name] for key, name in names.items()}
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as a manifest ({error!s:.200}); give a Parquet file") from None


def _columns(found: Any, path: Path) -> dict[str, str]:
    names = {str(name).strip().lower(): name for name in found}
    if PATH not in names:
        listed = ", ".join(map(str, found)) or "none"
        raise InputError(
            f"{path}: a manifest has a column {PATH!r}, and this one has {listed}; rename the column that holds the "
            "recordings (annotation files are for train and evaluate)"
        )
    return {key: names[key] for key in (PATH, SITE, DATE) if key in names}


def _text(value: Any) -> str | None:
    return str(value).strip() or None if value is not None else None


def _day(value: Any, where: str) -> str | None:
    if isinstance(value, date):
        return (value.date() if isinstance(value, datetime) else value).isoformat()
    text = _text(value)
    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        raise InputError(f"{where}: the date {text!r:.60}; write it as 2026-05-31, or omit it") from None
