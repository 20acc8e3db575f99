"""The formats that outlark knows (`FORMATS`, the only list of them), and reading and writing files of any of them.

Formats without room for what a file says about its origin get a file beside, `.about.json`.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from outlark.annotations import extras, other_programs, own_formats, raven
from outlark.annotations.annotation import About, Annotation, Table, is_known, is_sound
from outlark.annotations.files import (
    FirstLine,
    Reading,
    check_size,
    encoded,
    errors_about,
    lines_of,
    read_bytes,
    read_text,
    write_bytes,
    written,
)
from outlark.audio.sound_files import is_sound as is_sound_file
from outlark.errors import AnnotationError, InputError
from outlark.files.io import dumps, loads
from outlark.version import __version__

SIDE_SUFFIX = ".about.json"
#: About all files of a run that a folder holds: one of these is enough.
FOLDER_ABOUT = f"outlark{SIDE_SUFFIX}"
#: Repeats the rows of all files of a run (`outlark.batch.report`).
COMBINED = "combined.csv"
Read = Callable[[Reading], list[Annotation]]
Write = Callable[[Iterable[Annotation], About, Mapping[str, float]], Iterator[str | bytes]]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of annotation files; ``FORMATS["raven"]`` is one."""

    name: str
    #: Of written files; for formats that are only read, the usual one.
    suffix: str
    what: str
    read: Read
    #: From annotations, `About` and durations of recordings to pieces of the file; None if it is only read.
    write: Write | None = None
    #: Whether the first line of a text file is of this format.
    recognises: Callable[[FirstLine], bool] | None = None
    #: File name endings that no other format has, in lower case.
    endings: tuple[str, ...] = ()
    #: Which annotations are written; None for all.
    keeps: Callable[[Annotation], bool] | None = None
    has_labels: bool = True
    #: Whether a file can be about several recordings.
    names_recordings: bool = True
    #: Whether rows without a label are usual: gaps between notes, or what a program found and did not name.
    has_unlabelled: bool = False
    #: Whether it has room for `About`.
    holds_about: bool = False
    #: Whether its program opens a recording from its path in the file.
    opens_recordings: bool = False
    #: What it needs: ``pip install "outlark[extra]"``, which installs the package.
    extra: str | None = None
    package: str | None = None

    @property
    def writes(self) -> bool:
        """Whether outlark writes it, too."""
        return self.write is not None

    @property
    def is_ready(self) -> bool:
        """Whether everything that it needs is installed."""
        return self.package is None or find_spec(self.package) is not None


def _of_crowsetta(name: str, suffix: str, what: str, endings: tuple[str, ...] = ()) -> Format:
    read = extras.crowsetta_reader(name)
    return Format(
        name=name, suffix=suffix, what=what, endings=endings, read=read, has_unlabelled=True, extra="formats",
        package="crowsetta",
    )  # fmt: skip


#: All formats by name.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in [
        Format(
            name="raven", suffix=".Table.1.selections.txt", what="Raven selection table",
            read=raven.read, write=raven.write, recognises=raven.recognises, keeps=is_sound, opens_recordings=True,
        ),
        Format(
            name="audacity", suffix=".labels.txt", what="Audacity label track",
            read=other_programs.read_audacity, write=other_programs.write_audacity,
            recognises=other_programs.recognises_audacity, keeps=is_sound, names_recordings=False,
        ),
        Format(
            name="kaleidoscope", suffix=".kaleidoscope.csv", what="Kaleidoscope's table of detections",
            read=other_programs.read_kaleidoscope, write=other_programs.write_kaleidoscope,
            recognises=lambda first: first.keys >= {"in_file", "offset", "duration"}, keeps=is_sound,
            opens_recordings=True, has_unlabelled=True,
        ),
        Format(
            name="birdnet", suffix=".birdnet.csv", what="BirdNET-Analyzer's CSV",
            read=other_programs.read_birdnet, write=other_programs.write_birdnet,
            recognises=lambda first: first.keys >= {"start_s", "end_s", "scientific_name", "common_name"},
            keeps=is_sound,
        ),
        Format(
            name="dcase", suffix=".dcase.csv", what="DCASE few-shot events: annotations are read, predictions written",
            read=other_programs.read_dcase, write=other_programs.write_dcase,
            recognises=lambda first: first.keys >= {"audiofilename", "starttime", "endtime"}, keeps=is_known,
            has_labels=False, has_unlabelled=True,
        ),
        Format(
            name="csv", suffix=".outlark.csv", what="outlark's CSV; also reads other CSV files",
            read=own_formats.read_csv, write=own_formats.write_csv, recognises=own_formats.recognises_csv,
            holds_about=True,
        ),
        Format(
            name="jsonl", suffix=".jsonl", what="JSON lines, all digits",
            read=own_formats.read_json_lines, write=own_formats.write_json_lines, holds_about=True,
        ),
        Format(
            name="parquet", suffix=".parquet", what="Parquet, all digits",
            read=own_formats.read_parquet, write=own_formats.write_parquet, endings=(".parquet",), holds_about=True,
            extra="parquet", package="pyarrow",
        ),
        Format(
            name="aoef", suffix=".aoef.json", what="Whombat's exchange format (soundevent)",
            read=extras.read_aoef, write=extras.write_aoef, holds_about=True, extra="aoef", package="soundevent",
        ),
        _of_crowsetta("textgrid", ".TextGrid", "Praat's tiers of intervals and points", (".textgrid",)),
        _of_crowsetta("notmat", ".not.mat", "evsonganaly's segments", (".not.mat",)),
        _of_crowsetta("simple-seq", ".csv", "onset_s, offset_s and label"),
        _of_crowsetta("generic-seq", ".csv", "crowsetta's own CSV"),
        _of_crowsetta("timit", ".phn", "TIMIT transcriptions, in samples", (".phn", ".wrd")),
        _of_crowsetta("yarden", ".mat", "SongAnnotationGUI's segments", (".mat",)),
        _of_crowsetta(
            "birdsong-recognition-dataset", ".xml", "annotations of the BirdsongRecognition data set, in samples",
            (".xml",),
        ),
    ]
}  # fmt: skip
#: Formats that are written, from the one that keeps most; of equals, those first that need no extra.
MOST_COMPLETE_FIRST = ("csv", "jsonl", "parquet", "raven", "aoef", "kaleidoscope", "birdnet", "audacity", "dcase")
WITH_LABELS = tuple(name for name in MOST_COMPLETE_FIRST if FORMATS[name].has_labels)
WRITTEN = tuple(name for name, format in FORMATS.items() if format.writes)
#: File name endings of annotation files, in lower case.
TABLE_SUFFIXES = (".tsv", ".wrd", *sorted({f".{one.suffix.lower().rsplit('.')[-1]}" for one in FORMATS.values()}))


def format_named(name: str) -> Format:
    """One of `FORMATS`, or an error that lists them."""
    if name not in FORMATS:
        raise AnnotationError(f"format={name!r} is not known; choose one of {list(FORMATS)}")
    return FORMATS[name]


def format_of_name(name: str) -> str | None:
    """The format to write for a file name; None if it is ambiguous.

    >>> [format_of_name(name) for name in ("a.labels.txt", "a.Table.1.selections.txt", "a.CSV", "a.txt")]
    ['audacity', 'raven', 'csv', None]
    """
    endings = {FORMATS[format].suffix.casefold(): format for format in WRITTEN}
    endings |= {".selections.txt": "raven", ".csv": "csv"}
    found = [ending for ending in endings if name.casefold().endswith(ending)]
    return endings[max(found, key=len)] if found else None


def detect_format(path: Path) -> str:
    """The name of the format of a file, from its content and its name."""
    name = path.name.casefold()
    for format in FORMATS.values():
        if name.endswith(format.endings):
            return format.name
    with errors_about(path, "read", "check that it exists and that you may read it"):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == own_formats.PARQUET_MAGIC:
                    return "parquet"
    text = read_text(path, [])
    if not text.strip():
        if name.endswith(FORMATS["audacity"].suffix):
            return "audacity"
        raise AnnotationError(f"{path} is empty; if that means no labels, name its format, such as format='audacity'")
    line, first = next((i, line) for i, line in enumerate(lines_of(text), start=1) if line.strip())
    if first.lstrip().startswith("{"):
        return _json_kind(first, text)
    begins = FirstLine.of(first)
    check_size(path, len(begins.cells))
    found = next((f.name for f in FORMATS.values() if f.recognises is not None and f.recognises(begins)), None)
    if found is None:
        raise AnnotationError(
            f"{path}, line {line}: {first!r:.100} is not the start of a known format; expected a header with a start "
            "and an end column, or Audacity's start, end and text between tabs; or name the format"
        )
    return found


def _json_kind(first: str, text: str) -> str:
    """AOEF is one object, on one line or many; JSON lines have one per line."""
    for part in (first, text):
        try:
            return "aoef" if extras.is_aoef(json.loads(part)) else "jsonl"
        except (ValueError, RecursionError):
            continue
    return "jsonl"


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
        Written in this order; a collection may be larger than memory. docs/formats.md says what each format omits.
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


# ------------------------------------------------------------- the file about files


def is_named_by_a_run(name: str) -> bool:
    """Whether a run names its files like this: the whole name of the recording, then that of the format.

    >>> [is_named_by_a_run(name) for name in ("a.wav.labels.txt", "combined.csv", "a.labels.txt")]
    [True, True, False]
    """
    endings = [FORMATS[format].suffix for format in WRITTEN]
    return name == COMBINED or any(name.endswith(ending) and is_sound_file(name[: -len(ending)]) for ending in endings)


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
    """The `.about.json` beside a single file whose format has no room for `About`."""
    return path.with_name(path.name + SIDE_SUFFIX)
