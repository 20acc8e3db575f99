"""All tables of a folder: those that can be read, and those that cannot, with the reason."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outlark.annotations import Table, read_table
from outlark.annotations.files import SIDE_SUFFIX
from outlark.errors import AnnotationError, InputError

#: How tables end, in any case.
SUFFIXES = (
    ".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".textgrid", ".mat", ".phn", ".wrd", ".xml",
)  # fmt: skip


@dataclass(frozen=True)
class Unread:
    """A file that is no table, or a damaged one, and what is wrong with it."""

    path: Path
    message: str


@dataclass(frozen=True)
class TableFiles:
    """What was found in a folder.

    Attributes
    ----------
    tables : tuple of Table
        In the order of their names.
    unread : tuple of Unread
        Files that end as tables do, but cannot be read.
    others : int
        How many other files there are, without those that outlark puts beside tables.
    """

    tables: tuple[Table, ...]
    unread: tuple[Unread, ...]
    others: int


def tables_in(
    folder: Path, *, within: bool = False, format: str | None = None, label_column: str | int | None = None
) -> TableFiles:
    """Read all tables of a folder; names that begin with a dot are left out.

    Parameters
    ----------
    folder : Path
    within : bool
        Whether folders within are searched, too.
    format, label_column
        As for `read_table`, for all of them.

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
            tables.append(read_table(path, format=format, label_column=label_column))
        except AnnotationError as error:
            unread.append(Unread(path, str(error)))
    return TableFiles(tuple(tables), tuple(unread), others)


def _files(folder: Path, within: bool) -> Iterator[Path]:
    def cannot_list(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be listed ({error.strerror}); check that you may read it")

    for here, folders, files in os.walk(folder, onerror=cannot_list):
        folders[:] = sorted(name for name in folders if within and not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files) if not name.startswith("."))
