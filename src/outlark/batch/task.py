"""What a run has to do: the task, which files it is about, and the units in which processes do them."""

import csv
import os
import platform
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from outlark.audio.sound_files import SUFFIXES, files_within
from outlark.errors import InputError, Problem
from outlark.files.io import as_os_errors, as_place, file_system, is_endless, is_url
from outlark.version import __version__

DETECT, DECIDE = "detect", "decide"
SCORES_SUFFIX = ".scores"
#: The folder in an output folder that holds the journal, the locks and unfinished work.
WORK_FOLDER = ".outlark"
#: Seconds of audio in a part. Each part also analyses the five minutes before it, so shorter parts cost more.
PART_S = 1800.0
#: A file as it was at some moment (`outlark.batch.journal.fingerprint`); None if it was not there.
Fingerprint = Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is done to every file, and where the results go.

    Attributes
    ----------
    verb : "detect" or "decide"
        From recordings, or from kept scores.
    formats : tuple of str
        Annotation files to write; names of `outlark.annotations.FORMATS`.
    verdicts : tuple of str
        Segments to write.
    decisions : dict
        Parameters of `Decisions` that replace those of the model.
    channel : int or None
        Counted from 1; None for the mean of all.
    thresholds : tuple of float or None
        Set by hand for the classes, in their order, in place of those of the model; None where it keeps its own.
    calibrated : tuple of float or None
        The same, as fitted to the recordings (`outlark.batch.calibration`); those set by hand take precedence. To
        decide again, None means those of the run that kept the scores.
    """

    model: str
    model_sha256: str
    output: str
    formats: tuple[str, ...]
    verdicts: tuple[str, ...]
    verb: str = DETECT
    decisions: Mapping[str, Any] = field(default_factory=dict)
    channel: int | None = None
    keep_scores: bool = False
    thresholds: tuple[float | None, ...] | None = None
    calibrated: tuple[float | None, ...] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Everything besides the recording that the results depend on, to the last digit."""
        chosen = {"thresholds": self.thresholds, "calibrated": self.calibrated}
        return {
            "version": __version__,
            "model_sha256": self.model_sha256,
            "decisions": dict(self.decisions),
            "channel": self.channel,
            "verdicts": list(self.verdicts),
            **{name: list(values) for name, values in chosen.items() if values is not None},
            "arithmetic": arithmetic(),
        }

    @property
    def work_folder(self) -> Path:
        return Path(self.output, WORK_FOLDER)


@cache
def arithmetic() -> dict[str, str]:
    """Machine, kernels and libraries of this process.

    >>> sorted(arithmetic())
    ['blas', 'machine', 'numpy', 'scipy', 'simd', 'soundfile', 'soxr']
    """
    import numpy
    import scipy
    import soundfile
    import soxr
    from threadpoolctl import threadpool_info

    blas = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    # scipy brings one of its own, which follows the same rule and may not be loaded yet
    blas = [one for one in blas if "numpy" in one.get("filepath", "")] or blas
    simd = numpy.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    return {
        "machine": platform.machine(),
        "blas": ", ".join(sorted(set(map(_kernel, blas)))) or "unknown",
        "simd": " ".join(simd) or "baseline",
        **{library.__name__: library.__version__ for library in (numpy, scipy, soundfile, soxr)},
    }


def _kernel(library: dict[str, str]) -> str:
    parts = (library.get("internal_api"), library.get("version"), library.get("architecture"))
    return " ".join(str(part) for part in parts if part)


# ------------------------------------------------------------------------ units


@dataclass(frozen=True)
class Source:
    """A file to work on; a URL is text.

    `name` is its path below the deepest common folder of everything given, with "/" on every system: its name in
    annotation files, and where its results go. `site` and `date` are from a manifest.
    """

    path: Path | str
    name: str
    site: str | None = None
    date: str | None = None

    @property
    def listed(self) -> dict[str, str]:
        """What a manifest says about it."""
        return {name: value for name, value in (("site", self.site), ("date", self.date)) if value is not None}


@dataclass(frozen=True)
class RecordingPart:
    """One of `of` parts of a recording, each of about `length_s` seconds."""

    number: int
    of: int
    length_s: float

    @property
    def seconds(self) -> tuple[float, float | None]:
        """Approximate start and end; None for the end of the recording.

        >>> RecordingPart(1, of=3, length_s=600.0).seconds, RecordingPart(2, of=3, length_s=600.0).seconds
        ((600.0, 1200.0), (1200.0, None))
        """
        last = self.number + 1 == self.of
        return self.number * self.length_s, None if last else (self.number + 1) * self.length_s


@dataclass(frozen=True)
class Unit:
    """What one process does in one go, and what is repeated if it dies: a file, a `part` of a recording, or a whole
    recording from the files of its `parts`; `before` is the recording when the first of these was started."""

    source: Source
    part: RecordingPart | None = None
    parts: tuple[str, ...] = ()
    before: Fingerprint = field(default=None, compare=False)


class Event(NamedTuple):
    """News of a unit: ``{"seconds", "share"}`` on the way; at the end ``{"done": …}``, ``{"failed": message}``, or
    ``{"died": message}`` if the process has ended."""

    unit: Unit
    what: Mapping[str, Any]


# ------------------------------------------------------------------------ files


@dataclass(frozen=True)
class Sources:
    """All files of a run by name, what is missing or cannot be listed, and names of one file that are left out."""

    files: tuple[Source, ...]
    failures: tuple[Problem, ...] = ()
    same: tuple[Problem, ...] = ()


def find(
    paths: Sequence[str | os.PathLike[str]], suffixes: Sequence[str] = SUFFIXES, what: str = "recordings"
) -> Sources:
    """The files given, those in the folders given, and those listed in the manifests given (`read_manifest`).

    Folders are searched to any depth, including links, for files with one of the suffixes (in lower case), in any case.
    Names that start with a dot are skipped, such as the ``._x.wav`` that a Mac leaves on a memory card. Messages call
    such files `what`.

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
    asked: list[Source] = []  # without names yet
    for path in paths:
        asked += read_manifest(Path(path)) if is_manifest(path) else [Source(as_place(path), "")]
    if not asked:
        raise InputError(f"no {what} given; name files or folders")
    here = [replace(one, path=Path(os.path.abspath(one.path))) for one in asked if not is_url(one.path)]
    failures: list[Problem] = []
    found = [*_found_here(here, tuple(suffixes), failures)]
    found += _found_elsewhere([one for one in asked if is_url(one.path)], tuple(suffixes), failures)
    if not found:
        folders = [str(one.path) for one in asked if is_url(one.path) or os.path.isdir(one.path)]
        if failures or not folders:
            raise InputError(f"no {what}: " + "; ".join(failure.message for failure in failures))
        looked_for = ", ".join(f"*{suffix}" for suffix in suffixes)
        where = f"{', '.join(folders)} or the folders within"
        raise InputError(f"no {what} in {where}: looked for {looked_for}; check the folder")
    files, same = _each_once(_by_name(found))
    return Sources(files, tuple(failures), same)


def common_folder(paths: Sequence[Path]) -> Path:
    """The deepest folder that holds all of them: folders themselves, and the folders of files."""
    return Path(os.path.commonpath([os.path.abspath(path if path.is_dir() else path.parent) for path in paths]))


def _found_here(asked: Sequence[Source], suffixes: tuple[str, ...], failures: list[Problem]) -> Iterator[Source]:
    """On this machine."""
    base = common_folder([Path(one.path) for one in asked]) if asked else Path()

    def cannot_list(error: OSError) -> None:
        path = Path(error.filename)
        message = f"{path} cannot be listed ({error.strerror}); check its permissions"
        failures.append(Problem(path.relative_to(base).as_posix(), message))

    for one in asked:
        path = Path(one.path)
        if not os.path.lexists(path):
            failures.append(Problem(path.relative_to(base).as_posix(), f"{path} does not exist; check the path"))
            continue
        within = [path]
        if path.is_dir():
            found = files_within(path, cannot_list=cannot_list)
            within = [file for file in found if file.name.lower().endswith(suffixes)]
        yield from (replace(one, path=file, name=file.relative_to(base).as_posix()) for file in within)


def _found_elsewhere(asked: Sequence[Source], suffixes: tuple[str, ...], failures: list[Problem]) -> Iterator[Source]:
    """At URLs; names start below the deepest folder that holds all of them."""
    listed: list[tuple[Source, str]] = []  # with the path, without the protocol
    for one in asked:
        try:
            listed += [(replace(one, path=url), path) for url, path in _listed(str(one.path), suffixes)]
        except OSError as error:
            why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be listed ({error})"
            failures.append(Problem(str(one.path), f"{one.path} {why}; check the URL and your credentials"))
    if listed:
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
    shown = [path for path in within if not any(name.startswith(".") for name in path[len(root) :].split("/"))]
    return [(system.unstrip_protocol(path), path) for path in shown]


def _by_name(found: Iterable[Source]) -> list[Source]:
    """Each file once; two files of one name would overwrite each other's results."""
    of_name: dict[str, Source] = {}
    for source in found:
        other = of_name.setdefault(source.name, source)
        if other.path != source.path:
            raise InputError(
                f"{other.path} and {source.path} would both be called {source.name} in the output; run them "
                "separately, with different output folders"
            )
        for first, second in ((other.site, source.site), (other.date, source.date)):
            if None not in (first, second) and first != second:
                message = f"{source.path} is given twice, with {first!r} and with {second!r}; correct the manifest"
                raise InputError(message)
        of_name[source.name] = replace(other, **source.listed)
    return [of_name[name] for name in sorted(of_name)]


def _each_once(found: Sequence[Source]) -> tuple[tuple[Source, ...], tuple[Problem, ...]]:
    """Each file under one name only, that of the file itself rather than of a link to it; and the other names."""
    of_file: dict[object, Source] = {}
    same = []
    for source in sorted(found, key=lambda source: not is_url(source.path) and os.path.islink(source.path)):
        first = of_file.setdefault(_file(source.path), source)
        if first is not source:
            same.append(Problem(source.name, f"{source.path} is the same file as {first.path}: analysed once"))
    return tuple(sorted(of_file.values(), key=lambda source: source.name)), tuple(same)


def _file(path: Path | str) -> object:
    """Equal for two paths of one file, through links of any kind."""
    try:
        found = None if is_url(path) else os.stat(path)
    except OSError:
        found = None
    return path if found is None or not found.st_ino else (found.st_dev, found.st_ino)


# -------------------------------------------------------------------- manifests


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a manifest, by its suffix.

    >>> is_manifest("night.csv"), is_manifest("night.wav")
    (True, False)
    """
    is_table = os.fspath(path).lower().endswith((".csv", ".parquet"))
    return is_table and not is_url(path) and not os.path.isdir(path)


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
    columns, rows = _parquet_rows(path) if path.name.lower().endswith(".parquet") else _csv_rows(path)
    names = {column.strip().lower(): column for column in columns}
    if "path" not in names:
        raise InputError(
            f"{path}: a manifest has a column 'path', and this one has {', '.join(columns) or 'none'}; rename the "
            "column that holds the recordings (annotation files are for train and evaluate)"
        )
    for number, row in rows:
        found = row[names["path"]]
        if not isinstance(found, str) or not found.strip():
            raise InputError(f"{path}, line {number}: no path ({found!r:.60}); give one in each line")
        where = as_place(found.strip() if is_url(found.strip()) else path.parent / found.strip())
        site = row[names["site"]] if "site" in names else None
        day = row[names["date"]] if "date" in names else None
        yield Source(
            where, "", None if site is None else str(site).strip() or None, _day(day, f"{path}, line {number}")
        )


def _csv_rows(path: Path) -> tuple[Sequence[str], Iterable[tuple[int, Mapping[str, Any]]]]:
    """The columns, and the rows with their lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            return rows.fieldnames or (), [(rows.line_num, row) for row in rows]
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path}: cannot be read ({why}); check the path and that you may read it") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a manifest ({error}); give a CSV file in UTF-8") from None


def _parquet_rows(path: Path) -> tuple[Sequence[str], Iterable[tuple[int, Mapping[str, Any]]]]:
    from outlark.annotations.files import needed

    pyarrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as a manifest ({error!s:.200}); give a Parquet file") from None
    return table.column_names, enumerate(table.to_pylist(), start=1)


def _day(value: Any, where: str) -> str | None:
    if isinstance(value, date):
        return (value.date() if isinstance(value, datetime) else value).isoformat()
    text = str(value or "").strip()
    try:
        return date.fromisoformat(text).isoformat() if text else None
    except ValueError:
        raise InputError(f"{where}: the date {text!r:.60}; write it as 2026-05-31, or omit it") from None
