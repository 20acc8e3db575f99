"""Annotation files of any format: reading, writing, all of a folder, and where a file comes from.

A file is made by a model of outlark or by somebody; formats without room for that get a file beside, `.about.json`.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from outlark.annotations.annotation import About, Annotation, Table
from outlark.annotations.files import Reading, encoded, read_bytes, write_bytes, written
from outlark.annotations.formats import FORMATS, SUFFIXES, WRITTEN, detect_format, format_named
from outlark.annotations.other_programs import ends_in_score
from outlark.audio.sound_files import is_sound
from outlark.errors import AnnotationError, InputError, Problem
from outlark.files.io import dumps, loads
from outlark.version import __version__

SIDE_SUFFIX = ".about.json"
#: About all files of a run that a folder holds: one of these is enough.
FOLDER_ABOUT = f"outlark{SIDE_SUFFIX}"
#: Repeats the rows of all files of a run (`outlark.batch.report`).
COMBINED = "combined.csv"
#: Marks the output folder of a run (`outlark.batch.journal`).
JOURNAL = Path(".outlark", "journal.jsonl")
#: Starts the reason of a row that somebody annotated in the review page.
BY_HAND = "by hand"


def is_named_by_a_run(name: str) -> bool:
    """Whether a run names its files like this: the whole name of the recording, then that of the format.

    >>> [is_named_by_a_run(name) for name in ("a.wav.labels.txt", "combined.csv", "a.labels.txt")]
    [True, True, False]
    """
    endings = [FORMATS[format].suffix for format in WRITTEN]
    return name == COMBINED or any(name.endswith(ending) and is_sound(name[: -len(ending)]) for ending in endings)


# ---------------------------------------------------------------------- reading


def read_annotations(
    path: str | PathLike[str], *, format: str | None = None, label_column: str | int | None = None
) -> Table:
    """Read an annotation file.

    Parameters
    ----------
    path : path of the file
    format : str, optional
        One of `FORMATS`; detected from content and name if omitted.
    label_column : str or int, optional
        The column of the labels, by name or number from 1 (for a TextGrid the tier, for AOEF the key of the tag);
        guessed from the usual names if omitted. `Table.remarks` says which it was.

    Raises
    ------
    AnnotationError
        The message names file and line, what was found and what was expected. If only some rows cannot be read, they
        are left out, and `Table.refused` names them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     _ = path.write_text("Begin Time (s)\\tEnd Time (s)\\tSpecies\\n1\\t2.5\\tEATO\\n")
    ...     table = read_annotations(path)
    >>> table.format, table.annotations[0].label, table.remarks
    ('raven', 'EATO', ("labels from the column 'Species'",))
    """
    path = Path(path)
    known = format_named(detect_format(path) if format is None else format)
    reading = Reading(path, label_column)
    reading.about = read_about(path, known.name, reading.remarks)
    reading.ours = reading.about.get("format") == known.name
    try:
        annotations = known.read(reading)
    except AnnotationError:
        raise
    except InputError as error:
        raise AnnotationError(f"{path}: {error}") from None
    if reading.refused and not annotations:
        raise AnnotationError(reading.refused[0])
    return Table(
        path=path,
        format=known.name,
        annotations=tuple(annotations),
        remarks=tuple(reading.remarks),
        about={key: value for key, value in reading.about.items() if key != "format"},
        refused=tuple(reading.refused),
    )


class Unread(NamedTuple):
    """A recording that could not be read, and why."""

    path: Path
    message: str


@dataclass(frozen=True)
class TableFiles:
    """What was found in a folder.

    Attributes
    ----------
    tables : tuple of Table
        Ordered by name.
    unread : tuple of Problem
        Files with the ending of an annotation file that could not be read.
    damaged : frozenset of str
        Those of them that begin like an annotation file.
    others : int
        Number of other files, without those that outlark puts beside annotation files.
    """

    tables: tuple[Table, ...]
    unread: tuple[Problem, ...]
    damaged: frozenset[str]
    others: int

    @property
    def refused(self) -> dict[Path, tuple[str, ...]]:
        """By file, the rows that could not be read, and annotation files none of whose rows could."""
        rows = {table.path: table.refused for table in self.tables if table.refused}
        return rows | {Path(file.where): (file.message,) for file in self.unread if file.where in self.damaged}

    @property
    def skipped(self) -> list[str]:
        """Other files that could not be read, in words."""
        return [f"skipped: {file.message}" for file in self.unread if file.where not in self.damaged]


def tables_in(
    folder: Path, *, within: bool = False, format: str | None = None, label_column: str | int | None = None
) -> TableFiles:
    """Read all annotation files of a folder except hidden ones.

    Parameters
    ----------
    folder : Path
    within : bool
        Whether to search folders within, too.
    format, label_column
        As in `read_annotations`, for all of them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in (("a.labels.txt", "0.5\\t1.0\\tsong\\n"), ("readme.txt", "my labels"), ("a.wav", "")):
    ...         _ = Path(folder, name).write_text(text)
    ...     found = tables_in(Path(folder))
    >>> [table.path.name for table in found.tables], [Path(file.where).name for file in found.unread], found.others
    (['a.labels.txt'], ['readme.txt'], 1)
    """
    tables: list[Table] = []
    unread: list[Problem] = []
    others = 0
    for path in _files(folder, within):
        if path.name.endswith(SIDE_SUFFIX):
            continue
        if not path.name.lower().endswith(SUFFIXES):
            others += 1
            continue
        try:
            tables.append(read_annotations(path, format=format, label_column=label_column))
        except AnnotationError as error:
            unread.append(Problem(str(path), str(error)))
    damaged = frozenset(file.where for file in unread if _is_recognised(Path(file.where)))
    return TableFiles(tuple(tables), tuple(unread), damaged, others)


def _is_recognised(path: Path) -> bool:
    try:
        return bool(detect_format(path))
    except AnnotationError:
        return False


def _files(folder: Path, within: bool) -> Iterator[Path]:
    def cannot_list(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be listed ({error.strerror}); check that you may read it")

    for here, folders, files in os.walk(folder, onerror=cannot_list):
        folders[:] = sorted(name for name in folders if within and not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files) if not name.startswith("."))


# ---------------------------------------------------------------------- writing


@dataclass(frozen=True)
class _Kept:
    """The annotations that a format keeps, one at a time, with the paths of their recordings in place of names."""

    annotations: Iterable[Annotation]
    keeps: Callable[[Annotation], bool] | None
    paths: Mapping[str, str]

    def __iter__(self) -> Iterator[Annotation]:
        for annotation in self.annotations:
            if self.keeps is None or self.keeps(annotation):
                path = self.paths.get(annotation.recording or "")
                yield annotation if path is None else replace(annotation, recording=path)


def write_annotations(
    path: str | PathLike[str],
    annotations: Iterable[Annotation],
    *,
    format: str,
    about: About | None = None,
    durations: Mapping[str, float] | None = None,
    paths: Mapping[str, str] | None = None,
) -> None:
    """Write an annotation file, completely or not at all; equal annotations give equal bytes.

    Parameters
    ----------
    path : path of the file
        Its folder must exist; an existing file is replaced.
    annotations : iterable of Annotation
        Written in this order, one at a time: a collection may be larger than memory. docs/formats.md says what each
        format omits.
    format : str
        One of `FORMATS` that can be written.
    about : About, optional
        How the file came about; by default the version of outlark. Formats without room for it get a file beside:
        ``outlark.about.json`` for all files that are named as those of a run, else `path` + ``.about.json``.
    durations : mapping of str to float, optional
        Recording → seconds, in the order in which Raven opens the files: begin times then run over all of them. A
        selection table of several recordings needs them.
    paths : mapping of str to str, optional
        Recording → its full path, which Raven (Begin Path) and Kaleidoscope (INDIR) need to open it. By default they
        get the name.

    Raises
    ------
    AnnotationError
        If the file cannot be written, or an annotation lacks what the format needs.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     song = Annotation(start_s=0.5, end_s=0.75, label="song")
    ...     write_annotations(f"{folder}/a.labels.txt", [song], format="audacity")
    ...     Path(folder, "a.labels.txt").read_text()
    '0.5\\t0.75\\tsong\\n'
    """
    path, to = Path(path), format_named(format)
    if to.write is None:
        raise AnnotationError(f"format={format!r} is only read; write one of {list(WRITTEN)}")
    about = About(version=__version__) if about is None else about
    listed = annotations if isinstance(annotations, Collection) else list(annotations)
    for annotation in listed:
        if not isinstance(annotation, Annotation):
            raise InputError(f"{annotation!r:.100} is not an Annotation; use Annotation.from_segment for segments")
    paths = (paths or {}) if to.opens_recordings else {}
    durations = {paths.get(name, name): seconds for name, seconds in (durations or {}).items()}
    holds_about = to.holds_about and (len(listed) > 0 or format != "csv")  # whose rows hold it
    with written(path) as file:
        for piece in to.write(_Kept(listed, to.keeps, paths), about, durations):
            file.write(piece if isinstance(piece, bytes) else encoded(piece))
        if not holds_about:
            write_about(path, about, format)
    if holds_about:
        with suppress(OSError):  # left by an earlier file of another format
            side_path(path).unlink()


# ------------------------------------------------------- made by a model or by a person


def is_made_by_a_model(table: Table) -> bool:
    """Whether a model of outlark made the annotations of a file, or some of them.

    Such a file is no truth and no example until somebody has checked it. Its rows tell; else what it says about its
    origin, the output folder of a run that it is in, or the scores in Audacity labels.
    """
    if any(_is_detection(annotation) for annotation in table.annotations):
        return True
    if any(annotation.reason.startswith(BY_HAND) for annotation in table.annotations):
        return False
    if table.about.get("model_sha256") is not None:
        return True
    if is_named_by_a_run(table.path.name) and _is_in_a_run(table.path):
        return True
    labels = [annotation.label for annotation in table.annotations]
    return table.format == "audacity" and not table.about and bool(labels) and all(map(ends_in_score, labels))


def passed_over(tables: Sequence[Table], folder: Path) -> str:
    """A remark on files of a folder that do not count because a model made them."""
    names = [table.path.relative_to(folder).as_posix() for table in tables]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{folder}: {names[0]}{more} passed over: made by a model of outlark, not by a person"


def _is_detection(annotation: Annotation) -> bool:
    scored = annotation.verdict is not None and annotation.score is not None
    return scored and bool(annotation.reason) and not annotation.reason.startswith(BY_HAND)


def _is_in_a_run(path: Path) -> bool:
    return any((folder / JOURNAL).is_file() for folder in path.absolute().parents)


# ------------------------------------------------------------- the file about files


def write_about(path: Path, about: About, format: str) -> None:
    """Say how an annotation file came about: in the file about its folder, or beside it.

    Files of a run share the one in their folder. A file with a name of its own, or of another run, has its own.
    """
    run = {key: value for key, value in about.as_dict().items() if key != "recording"}
    folder = path.with_name(FOLDER_ABOUT)
    if is_named_by_a_run(path.name) and _read_about(folder, []) in ({}, run):
        if not folder.exists():
            write_bytes(folder, encoded(_about_text(run)))
        side_path(path).unlink(missing_ok=True)
    else:
        write_bytes(side_path(path), encoded(_about_text({"format": format, **about.as_dict()})))


def read_about(path: Path, format: str, remarks: list[str]) -> dict[str, Any]:
    """What is said about a file beside it or in its folder; empty if nothing, with a remark if it cannot be read."""
    own = _read_about(side_path(path), remarks)
    if own or not is_named_by_a_run(path.name):
        return own
    of_folder = _read_about(path.with_name(FOLDER_ABOUT), remarks)
    return {"format": format, **of_folder} if of_folder else {}


def _about_text(content: Mapping[str, Any]) -> str:
    dumps(dict(content), "about")
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _read_about(path: Path, remarks: list[str]) -> dict[str, Any]:
    try:
        return loads(read_bytes(path), path.name) if path.exists() else {}
    except (OSError, AnnotationError, InputError) as error:
        remarks.append(f"{path.name} beside it cannot be read ({error})")
        return {}


def side_path(path: Path) -> Path:
    """The file about one file alone, whose format has no room for `About`.

    >>> side_path(Path("night.labels.txt")).name
    'night.labels.txt.about.json'
    """
    return path.with_name(path.name + SIDE_SUFFIX)
