"""Reading and writing tables of any format."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from outlark.annotations import (
    aoef,
    audacity,
    birdnet,
    dcase,
    json_lines,
    kaleidoscope,
    own_csv,
    parquet,
    raven,
    through_crowsetta,
)
from outlark.annotations.files import encoded, read_side, read_text, side_path, side_text, write_bytes, written
from outlark.annotations.marks import About, Mark, Table
from outlark.annotations.sheets import Sheet, sheet_of
from outlark.annotations.telling import told
from outlark.errors import AnnotationError, InputError
from outlark.version import __version__


@dataclass(frozen=True)
class Format:
    """A format of tables.

    Attributes
    ----------
    name : str
    suffix : str
        Of written files; for formats that are only read, of the usual ones.
    what : str
        In a few words.
    reads, writes : bool
    extra : str or None
        The extra of outlark that it needs: ``pip install "outlark[extra]"``.
    """

    name: str
    suffix: str
    what: str
    reads: bool = True
    writes: bool = True
    extra: str | None = None


#: All formats by name.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in [
        Format("raven", ".Table.1.selections.txt", "Raven selection table"),
        Format("audacity", ".labels.txt", "Audacity label track"),
        Format("kaleidoscope", ".kaleidoscope.csv", "Kaleidoscope's table of detections"),
        Format("birdnet", ".birdnet.csv", "BirdNET-Analyzer's CSV"),
        Format("dcase", ".dcase.csv", "DCASE few-shot events: annotations are read, predictions written"),
        Format("csv", ".outlark.csv", "outlark's CSV; reads CSV of others too"),
        Format("jsonl", ".jsonl", "JSON lines, all digits"),
        Format("parquet", ".parquet", "Parquet, all digits", extra="parquet"),
        Format("aoef", ".aoef.json", "Whombat's exchange format (soundevent)", extra="aoef"),
        *(
            Format(name, suffix, what, writes=False, extra="formats")
            for name, (suffix, what) in through_crowsetta.FORMATS.items()
        ),
    ]
}
Found = tuple[list[Mark], Mapping[str, Any]]
_SHEETS: dict[str, Callable[[Sheet, Mapping[str, Any], str | int | None], list[Mark]]] = {
    "raven": raven.read,
    "kaleidoscope": kaleidoscope.read,
    "birdnet": birdnet.read,
    "dcase": dcase.read,
}
_WRITERS: dict[str, Callable[[Collection[Mark], About, Mapping[str, float]], Iterator[bytes]]] = {
    "raven": raven.write,
    "audacity": audacity.write,
    "kaleidoscope": kaleidoscope.write,
    "birdnet": birdnet.write,
    "dcase": dcase.write,
    "csv": own_csv.write,
    "jsonl": json_lines.write,
    "parquet": parquet.write,
    "aoef": aoef.write,
}
#: Formats that tell version, model and settings themselves; CSV in its rows, if it has any.
_TELL = ("csv", "jsonl", "parquet", "aoef")


def read_table(path: str | PathLike[str], *, format: str | None = None, label_column: str | int | None = None) -> Table:
    """Read a table of labels.

    Parameters
    ----------
    path : path of the file
    format : str, optional
        One of `FORMATS`; told from content and name if left out.
    label_column : str or int, optional
        The column of the labels, by name or number from 1 (for a TextGrid the tier, for AOEF the key of the tag);
        guessed from the usual names if left out. `Table.remarks` says which it was.

    Raises
    ------
    AnnotationError
        For what cannot be read; the message names file and line, what was found and what was expected.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     _ = path.write_text("Begin Time (s)\\tEnd Time (s)\\tSpecies\\n1\\t2.5\\tEATO\\n")
    ...     table = read_table(path)
    >>> table.format, table.marks[0].label, table.remarks
    ('raven', 'EATO', ("labels from the column 'Species'",))
    """
    path = Path(path)
    if format is not None:
        _format(format)
    name = told(path) if format is None else format
    remarks: list[str] = []
    try:
        marks, about = _read(path, name, label_column, remarks)
    except AnnotationError:
        raise
    except InputError as error:
        raise AnnotationError(f"{path}: {error}") from None
    said = {key: value for key, value in about.items() if key != "format"}
    return Table(path=path, format=name, marks=tuple(marks), remarks=tuple(remarks), about=said)


def write_table(
    path: str | PathLike[str],
    marks: Iterable[Mark],
    *,
    format: str,
    about: About | None = None,
    durations: Mapping[str, float] | None = None,
) -> None:
    """Write a table of labels: whole or not at all, the same marks to the same bytes.

    Parameters
    ----------
    path : path of the file
        Its folder must exist; a file that is there is replaced.
    marks : iterable of Mark
        Written in this order, one after the other: a collection may be larger than the memory. What each format leaves
        out is in docs/formats.md.
    format : str
        One of `FORMATS` that writes.
    about : About, optional
        What the file says of its making; the version of outlark if left out. Formats without room for it get a file
        beside, named `path` + ``.about.json``.
    durations : mapping of str to float, optional
        Recording → seconds, in the order in which Raven opens the files: begin times then run over all of them.
        Without it, they count within each recording.

    Raises
    ------
    AnnotationError
        If the file cannot be written, or a mark lacks what the format needs.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/a.labels.txt", [Mark(start_s=0.5, end_s=0.75, label="song")], format="audacity")
    ...     Path(folder, "a.labels.txt").read_text()
    '0.5\\t0.75\\tsong\\n'
    """
    path = Path(path)
    if not _format(format).writes:
        writing = [f.name for f in FORMATS.values() if f.writes]
        raise AnnotationError(f"format={format!r} is only read; write one of {writing}")
    about = About(version=__version__) if about is None else about
    listed = marks if isinstance(marks, Collection) else list(marks)
    for mark in listed:
        if not isinstance(mark, Mark):
            raise InputError(f"{mark!r:.100} is no Mark; use Mark.from_segment for what a detector found")
    tells = format in _TELL and (len(listed) > 0 or format != "csv")
    with written(path) as file:
        for piece in _WRITERS[format](listed, about, durations or {}):
            file.write(piece)
        if not tells:
            write_bytes(side_path(path), encoded(side_text(about, format)))
    if tells:
        with suppress(OSError):  # what an earlier, other table at this place said
            side_path(path).unlink()


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise AnnotationError(f"format={name!r} is not known; choose one of {list(FORMATS)}")
    return FORMATS[name]


def _read(path: Path, format: str, label_column: str | int | None, remarks: list[str]) -> Found:
    about = read_side(path, remarks)
    if format == "parquet":
        return parquet.read(path, about, label_column, remarks)
    if format in through_crowsetta.FORMATS:
        return through_crowsetta.read(path, format, label_column, remarks), about
    text = read_text(path, remarks)
    if format == "audacity":
        return audacity.read(path, text, about, remarks), about
    if format == "jsonl":
        return json_lines.read(path, text, about, label_column, remarks)
    if format == "aoef":
        return aoef.read(path, text, about, label_column, remarks)
    sheet = sheet_of(text, path, remarks)
    if format == "csv":
        return own_csv.read(sheet, about, label_column)
    return _SHEETS[format](sheet.stripped(), about, label_column), about
