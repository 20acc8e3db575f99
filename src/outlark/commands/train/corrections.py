"""How corrected annotation files become examples and negatives.

A comparison of corrected with original annotation files shows which detections were rejected. Only reviewed recordings
count: those with a corrected file.
"""

import filecmp
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from outlark.annotations.formats import COMBINED
from outlark.commands.train.examples import Example, ExampleKey, Examples, find_examples, pairs, told_apart
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.segments import UNKNOWN

Paths = Sequence[str | os.PathLike[str]]


def reviewed(
    classes: Sequence[str],
    corrected_in: Paths,
    *,
    found_in: Paths = (),
    named: Sequence[str] = (),
    **tables: Any,
) -> Examples:
    """Notes, confirmed or new, and negatives in corrected annotation files, or folders of them.

    In the originals that `outlark detect` wrote, `found_in`, rows that are gone or have another label are negatives.
    `classes` are those of the model, `named` those that were asked for by name; `tables` are `audio`, `format` and
    `label_column` of `find_examples`.
    """
    if not corrected_in:
        return Examples(notes=(), clips=False)
    tables |= {"any_verdict": True, "of_models": True}
    corrected = AnnotationFiles.of(find_examples(corrected_in, may_be_none=True, **tables), corrected_in)
    found = AnnotationFiles.of(find_examples(found_in, **tables), found_in) if found_in else None
    rows = settled(corrected, found)
    rows = replace(rows, notes=tuple(map(_labelled_by_hand, rows.notes)))
    examples = told_apart(rows, classes=classes, named=named)
    if found is None:
        return examples
    # what is still ambiguous is not an example, but was not rejected either
    rejected, remarks = rejections(found, corrected._replace(examples=replace(examples, notes=rows.notes)))
    known = {*classes, *examples.labels}
    negatives = tuple(note for note in rejected if note.label in known)
    return replace(examples, negatives=(*examples.negatives, *negatives), remarks=(*examples.remarks, *remarks))


def _labelled_by_hand(note: Example) -> Example:
    """A label on an unknown sound was given by a person."""
    if note.annotation is None or note.annotation.verdict != UNKNOWN:
        return note
    return replace(note, annotation=replace(note.annotation, verdict=None))


class AnnotationFiles(NamedTuple):
    """Annotations, and the name of each file relative to the folder that was given."""

    examples: Examples
    names: Mapping[Path, str]

    @classmethod
    def of(cls, examples: Examples, given: Paths) -> Self:
        folders = [Path(path) for path in given if Path(path).is_dir()]
        names = {}
        for table in examples.tables:
            within = [table.relative_to(folder).as_posix() for folder in folders if table.is_relative_to(folder)]
            names[table] = within[0] if within else table.name
        return cls(examples, names)

    def within(self, table: Path) -> set[str]:
        """The recordings that a file annotates."""
        return {place for place, *_ in self.examples.tables[table]}

    def named(self, name: str) -> list[Path]:
        return [table for table, own in self.names.items() if own == name]


def settled(corrected: AnnotationFiles, found: AnnotationFiles | None = None) -> Examples:
    """Corrected annotations, of one file per recording.

    `outlark detect` may have written several: in several formats, and `combined.csv`. A row deleted in one is still in
    the others. The file that differs from the original in `found` counts; without originals, any file takes precedence
    over `combined.csv`. It is an error if two files that may be the corrected one disagree.
    """
    of_place: dict[str, list[Path]] = defaultdict(list)
    for table, name in corrected.names.items():
        originals = [] if found is None else [found.within(original) for original in found.named(name)]
        for place in corrected.within(table).union(*originals):
            of_place[place].append(table)
    ruling = {place: _ruling(place, tables, corrected, found) for place, tables in of_place.items()}
    examples = corrected.examples
    notes = tuple(n for n in examples.notes if n.table is None or n.key in examples.tables[ruling[n.place]])
    tables = {table for tables in of_place.values() for table in tables}
    unused = sorted(corrected.names[table] for table in tables - set(ruling.values()))
    remarks = [f"{name} skipped: other annotation files of its recordings are the corrected ones" for name in unused]
    return replace(examples, notes=notes, remarks=(*examples.remarks, *remarks))


def _ruling(place: str, tables: Sequence[Path], corrected: AnnotationFiles, found: AnnotationFiles | None) -> Path:
    """The file that counts for a recording."""
    if found is None:
        left = [table for table in tables if table.name != COMBINED] or list(tables)
    else:
        left = [table for table in tables if _changed(table, corrected, found)] or list(tables)
    said: dict[frozenset[ExampleKey], Path] = {}
    for table in left:
        said.setdefault(frozenset(key for key in corrected.examples.tables[table] if key[0] == place), table)
    if len(said) > 1:
        one, other, *_ = sorted(said.values())
        raise InputError(f"{one} and {other} disagree about {Path(place).name}; keep the one that you corrected")
    return left[0]


def _changed(table: Path, corrected: AnnotationFiles, found: AnnotationFiles) -> bool:
    return not any(filecmp.cmp(path, table, shallow=False) for path in found.named(corrected.names[table]))


def rejections(found: AnnotationFiles, corrected: AnnotationFiles) -> tuple[tuple[Example, ...], list[str]]:
    """Detections in the original files that were deleted or relabelled in the corrected ones, and remarks.

    A row is still there if an annotation with its label shares half of the shorter one: edges may have moved. Where a
    row of the corrected file cannot be read, nobody knows which ones are gone.
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
    unsure = _unsure(found, corrected)
    others = len({note.place for note in found.examples.notes} - reviewed)
    remarks = [f"{number_of(others, 'recording')} without a corrected annotation file: not used"] if others else []
    remarks += [f"{Path(place).name}: rows cannot be read, so no row counts as deleted" for place in sorted(unsure)]
    return tuple(note for note in open_ if note.key not in still_there and note.place not in unsure), remarks


def _unsure(found: AnnotationFiles, corrected: AnnotationFiles) -> set[str]:
    """The recordings with corrected rows that cannot be read."""
    damaged = [table for table in corrected.names if table in corrected.examples.refused]
    originals = [original for table in damaged for original in found.named(corrected.names[table])]
    places = [*map(corrected.within, damaged), *map(found.within, originals)]
    return set[str]().union(*places)
