"""The formats that outlark knows (`FORMATS`, the only list of them), and which of them a file is in."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from outlark.annotations import extras, other_programs, own_formats, raven
from outlark.annotations.annotation import About, Annotation, is_known, is_sound
from outlark.annotations.delimited import FirstLine, check_size, lines_of
from outlark.annotations.files import Reading, about_file, read_text
from outlark.errors import AnnotationError

Read = Callable[[Reading], list[Annotation]]
Write = Callable[[Iterable[Annotation], About, Mapping[str, float]], Iterator[str | bytes]]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of annotation files.

    Attributes
    ----------
    name : str
    suffix : str
        Of written files; for formats that are only read, the usual one.
    what : str
        A short description.
    read : function
        From a `Reading` to annotations.
    write : function or None
        From annotations, `About` and durations of recordings to pieces of the file; None if it is only read.
    recognises : function or None
        Whether the first line of a text file is of this format.
    endings : tuple of str
        File name endings that no other format has, in lower case.
    keeps : function or None
        Which annotations are written; None for all.
    has_labels : bool
    holds_about : bool
        Whether it has room for `About`.
    opens_recordings : bool
        Whether its program opens a recording from its path in the file.
    extra, package : str or None
        What it needs: ``pip install "outlark[extra]"``, which installs the package.
    """

    name: str
    suffix: str
    what: str
    read: Read
    write: Write | None = None
    recognises: Callable[[FirstLine], bool] | None = None
    endings: tuple[str, ...] = ()
    keeps: Callable[[Annotation], bool] | None = None
    has_labels: bool = True
    holds_about: bool = False
    opens_recordings: bool = False
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
    return Format(name=name, suffix=suffix, what=what, endings=endings, read=read, extra="formats", package="crowsetta")


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
            recognises=other_programs.recognises_audacity, keeps=is_sound,
        ),
        Format(
            name="kaleidoscope", suffix=".kaleidoscope.csv", what="Kaleidoscope's table of detections",
            read=other_programs.read_kaleidoscope, write=other_programs.write_kaleidoscope,
            recognises=lambda first: first.keys >= {"in_file", "offset", "duration"}, keeps=is_sound,
            opens_recordings=True,
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
            has_labels=False,
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
SUFFIXES = (".tsv", ".wrd", *sorted({f".{format.suffix.lower().rsplit('.')[-1]}" for format in FORMATS.values()}))


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
    with about_file(path, "read", "check that it exists and that you may read it"):
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
            "and an end column, or Audacity's start, end and text between tabs; or name the format (--format)"
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
