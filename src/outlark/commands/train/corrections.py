"""Rows that somebody deleted or relabelled in the output of `outlark detect`.

A comparison of the corrected with the original annotation files shows which detections were rejected. Only reviewed
recordings count: those with a corrected file.
"""

import filecmp
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from outlark.commands.train.examples import Example, Examples, Key
from outlark.commands.train.negatives import pairs
from outlark.errors import InputError
from outlark.plain_text import number_of

#: Repeats the rows of all other files that `outlark detect` writes.
COMBINED = "combined.csv"


class Files(NamedTuple):
    """Annotations, and the name of each file relative to the folder that was given."""

    examples: Examples
    names: Mapping[Path, str]

    @classmethod
    def of(cls, examples: Examples, given: Iterable[str | os.PathLike[str]]) -> Self:
        folders = [Path(path) for path in given if Path(path).is_dir()]
        names = {}
        for table in examples.tables:
            within = [table.relative_to(folder).as_posix() for folder in folders if table.is_relative_to(folder)]
            names[table] = within[0] if within else table.name
        return cls(examples, names)

    def within(self, table: Path) -> set[str]:
        """The recordings that a file annotates."""
        return {place for place, *_ in self.examples.tables[table]}


class Rejections(NamedTuple):
    """Detections whose label was rejected, and remarks."""

    negatives: tuple[Example, ...]
    remarks: tuple[str, ...]


def settled(corrected: Files, found: Files | None = None) -> Examples:
    """Corrected annotations, of one file per recording.

    `outlark detect` may have written several: in several formats, and `combined.csv`. A row deleted in one is still in
    the others. The file that differs from the original in `found` counts; without originals, any file takes precedence
    over `combined.csv`. It is an error if two files that may be the corrected one disagree.
    """
    of_place: dict[str, list[Path]] = defaultdict(list)
    for table in corrected.names:
        of_name = [] if found is None else [t for t, name in found.names.items() if name == corrected.names[table]]
        there = corrected.within(table).union(*(found.within(t) for t in of_name if found is not None))
        for place in there:
            of_place[place].append(table)
    ruling = {place: _ruling(place, tables, corrected, found) for place, tables in of_place.items()}
    examples = corrected.examples
    notes = tuple(n for n in examples.notes if n.table is None or n.key in examples.tables[ruling[n.place]])
    tables = {table for tables in of_place.values() for table in tables}
    unused = sorted(corrected.names[table] for table in tables - set(ruling.values()))
    remarks = [f"{name} skipped: other annotation files of its recordings are the corrected ones" for name in unused]
    return replace(examples, notes=notes, remarks=(*examples.remarks, *remarks))


def rejections(found: Files, corrected: Files) -> Rejections:
    """Detections in the original files that were deleted or relabelled in the corrected ones.

    A row is still there if an annotation with its label shares half of the shorter one: edges may have moved.
    """
    examples, names = corrected.examples, set(corrected.names.values())
    reviewed = {note.place for note in (*examples.notes, *examples.negatives)}
    reviewed |= {place for table, name in found.names.items() if name in names for place in found.within(table)}
    open_ = [note for note in found.examples.notes if note.place in reviewed]
    if not open_:
        raise InputError(
            "no recording has both an original and a corrected annotation file; give the output of outlark detect, and "
            "corrected copies with the same names"
        )
    still_there = {note.key for note, _ in pairs(open_, [*examples.notes, *examples.negatives])}
    gone = tuple(note for note in open_ if note.key not in still_there)
    others = len({note.place for note in found.examples.notes} - reviewed)
    remark = f"{number_of(others, 'recording')} without a corrected annotation file: not used"
    return Rejections(gone, (remark,) if others else ())


def _ruling(place: str, tables: Sequence[Path], corrected: Files, found: Files | None) -> Path:
    """The file that counts for a recording."""
    if found is None:
        left = [table for table in tables if table.name != COMBINED] or list(tables)
    else:
        left = [table for table in tables if _changed(table, corrected, found)] or list(tables)
    said: dict[frozenset[Key], Path] = {}
    for table in left:
        said.setdefault(frozenset(key for key in corrected.examples.tables[table] if key[0] == place), table)
    if len(said) > 1:
        one, other, *_ = sorted(said.values())
        raise InputError(f"{one} and {other} disagree about {Path(place).name}; keep the one that you corrected")
    return left[0]


def _changed(table: Path, corrected: Files, found: Files) -> bool:
    same = [path for path, name in found.names.items() if name == corrected.names[table]]
    return not any(filecmp.cmp(path, table, shallow=False) for path in same)
