"""Reading annotation files of any format: one file, or all files of a folder."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from outlark.annotations import aoef, audacity, crowsetta_formats, exact_formats, other_csv, outlark_csv, raven
from outlark.annotations.annotation import Annotation, Remarks, Table
from outlark.annotations.delimited import Sheet, sheet_of
from outlark.annotations.files import SIDE_SUFFIX, read_text
from outlark.annotations.formats import detect_format, format_named
from outlark.annotations.provenance import read_about
from outlark.errors import AnnotationError, InputError

#: File name endings of annotation files, in any case.
SUFFIXES = (
    ".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".textgrid", ".mat", ".phn", ".wrd", ".xml",
)  # fmt: skip
_SHEETS: dict[str, Callable[[Sheet, Mapping[str, Any], str | int | None], list[Annotation]]] = {
    "raven": raven.read,
    "kaleidoscope": other_csv.read_kaleidoscope,
    "birdnet": other_csv.read_birdnet,
    "dcase": other_csv.read_dcase,
}


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
    name = detect_format(path) if format is None else format_named(format).name
    remarks = Remarks()
    try:
        annotations, about = _read(path, name, label_column, remarks)
    except AnnotationError:
        raise
    except InputError as error:
        raise AnnotationError(f"{path}: {error}") from None
    if remarks.refused and not annotations:
        raise AnnotationError(remarks.refused[0])
    said = {key: value for key, value in about.items() if key != "format"}
    return Table(
        path=path,
        format=name,
        annotations=tuple(annotations),
        remarks=tuple(remarks),
        about=said,
        refused=tuple(remarks.refused),
    )


def _read(
    path: Path, format: str, label_column: str | int | None, remarks: Remarks
) -> tuple[list[Annotation], Mapping[str, Any]]:
    about: Mapping[str, Any] = read_about(path, format, remarks)
    if format == "parquet":
        return exact_formats.read_parquet(path, about, label_column, remarks)
    if format in crowsetta_formats.FORMATS:
        return crowsetta_formats.read(path, format, label_column, remarks), about
    text = read_text(path, remarks)
    if format == "audacity":
        return audacity.read(path, text, about, remarks), about
    if format == "jsonl":
        return exact_formats.read_json_lines(path, text, about, label_column, remarks)
    if format == "aoef":
        return aoef.read(path, text, about, label_column, remarks)
    sheet = sheet_of(text, path, remarks)
    if format == "csv":
        return outlark_csv.read(sheet, about, label_column)
    return _SHEETS[format](sheet.stripped(), about, label_column), about


@dataclass(frozen=True)
class Unread:
    """A file that could not be read as an annotation file, and why; `recognised` if it begins like one."""

    path: Path
    message: str
    recognised: bool = False


@dataclass(frozen=True)
class TableFiles:
    """What was found in a folder.

    Attributes
    ----------
    tables : tuple of Table
        Ordered by name.
    unread : tuple of Unread
        Files with the ending of an annotation file that could not be read.
    others : int
        Number of other files, without those that outlark puts beside annotation files.
    """

    tables: tuple[Table, ...]
    unread: tuple[Unread, ...]
    others: int

    @property
    def refused(self) -> dict[Path, tuple[str, ...]]:
        """By file, the rows that could not be read, and annotation files none of whose rows could."""
        rows = {table.path: table.refused for table in self.tables if table.refused}
        return rows | {file.path: (file.message,) for file in self.unread if file.recognised}

    @property
    def skipped(self) -> list[str]:
        """Other files that could not be read, in words."""
        return [f"skipped: {file.message}" for file in self.unread if not file.recognised]


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
    >>> [table.path.name for table in found.tables], [file.path.name for file in found.unread], found.others
    (['a.labels.txt'], ['readme.txt'], 1)
    """
    tables: list[Table] = []
    unread: list[Unread] = []
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
            unread.append(Unread(path, str(error), _is_recognised(path)))
    return TableFiles(tuple(tables), tuple(unread), others)


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
