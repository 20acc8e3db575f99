"""Examples to learn from, as people have them: folders of clips, or tables of marks and the recordings they are about.

`find_examples` says which notes there are and where; `outlark.field.learning` reads them and trains a detector.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from outlark.errors import AnnotationError, InputError
from outlark.field.clip_folders import EXPECTED, clip_folders
from outlark.field.sound_files import SoundFiles, is_sound
from outlark.field.table_files import tables_in
from outlark.notes.formats import Mark, Table, read_table
from outlark.notes.segments import KNOWN
from outlark.plain_text import writable


@dataclass(frozen=True, kw_only=True)
class Example:
    """One note to learn from.

    Attributes
    ----------
    label : str
    recording : Path
    mark : Mark or None
        Where in the recording; None for a clip, which is the note.
    table : Path or None
        That the mark is from.
    """

    label: str
    recording: Path
    mark: Mark | None = None
    table: Path | None = None

    def __str__(self) -> str:
        return self.recording.name if self.mark is None else f"{self.recording.name} at {self.mark.start_s:.3f} s"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Notes to learn from, all of them clips or all of them marks.

    Attributes
    ----------
    notes : tuple of Example
        By recording, then by time.
    clips : bool
    remarks : tuple of str
        What was left out, guessed or odd.
    """

    notes: tuple[Example, ...]
    clips: bool
    remarks: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Of all classes, sorted."""
        return sorted({note.label for note in self.notes})

    def of_classes(self, names: Sequence[str]) -> Self:
        """Only the notes of these classes.

        Raises
        ------
        InputError
            For a class without examples; the message lists those that there are.
        """
        missing = [name for name in names if name not in self.labels]
        if missing:
            raise InputError(f"there are no examples of the class {missing[0]!r}; there are {', '.join(self.labels)}")
        return replace(self, notes=tuple(note for note in self.notes if note.label in names))

    def at_most(self, n: int) -> Self:
        """At most n notes of each class: always the same, spread evenly over all of them in their order.

        >>> notes = tuple(Example(label="a", recording=Path(f"{i}.wav")) for i in range(10))
        >>> [str(note) for note in Examples(notes=notes, clips=True).at_most(3).notes]
        ['1.wav', '5.wav', '8.wav']
        """
        of_class: dict[str, list[int]] = defaultdict(list)
        for number, note in enumerate(self.notes):
            of_class[note.label].append(number)
        chosen = {own[(2 * i + 1) * len(own) // (2 * n)] for own in of_class.values() for i in range(n)}
        return replace(self, notes=tuple(note for number, note in enumerate(self.notes) if number in chosen))


def find_examples(
    paths: Iterable[str | os.PathLike[str]],
    *,
    audio: Iterable[str | os.PathLike[str]] = (),
    format: str | None = None,
    label_column: str | int | None = None,
) -> Examples:
    """The examples in folders of clips, or in tables.

    Parameters
    ----------
    paths : paths
        Folders with a sub-folder of clips for each class; or tables, and folders of tables. Of folders, tables that
        cannot be read, or whose recording is not there, are left out, with a remark.
    audio : paths
        Folders that hold the recordings of tables. They are also looked for beside each table.
    format, label_column
        Of the tables, as for `read_table`.

    Raises
    ------
    InputError
        If there is nothing to learn from, or it cannot be told what is meant.
    AnnotationError
        For a table that cannot be read, or whose recordings are not found.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "night.wav").touch()
    ...     _ = Path(folder, "night.labels.txt").write_text("0.5\\t1.0\\tsong\\n2.0\\t2.0\\there\\n")
    ...     found = find_examples([f"{folder}/night.labels.txt"])
    >>> [str(note) for note in found.notes], found.remarks
    (['night.wav at 0.500 s'], ('1 mark left out: points, without a length',))
    """
    clips: list[Example] = []
    tables: list[tuple[Table, bool]] = []
    remarks: list[str] = []
    asked = [Path(path) for path in paths]
    for path in asked:
        if not path.is_dir():
            tables.append((_table(path, format, label_column), True))
            continue
        found = tables_in(path, format=format, label_column=label_column)
        classes = clip_folders(path, [table.path.name for table in found.tables], remarks)
        if classes:
            clips += [Example(label=writable(label), recording=clip) for label, of in classes.items() for clip in of]
        else:
            remarks += [f"left out: {file.message}" for file in found.unread]
            tables += [(table, False) for table in found.tables]
    if clips and tables:
        raise InputError(
            "clips and tables together; train on one kind (outlark clips cuts what tables mark to clips), or on each "
            "of them apart"
        )
    notes = clips or _marked(tables, SoundFiles(audio), remarks)
    if not notes:
        raise InputError(f"no examples in {', '.join(map(str, asked))}{_because(remarks)}; {EXPECTED}")
    ordered = sorted(notes, key=lambda note: (str(note.recording), *_time(note), note.label))
    return Examples(notes=tuple(ordered), clips=bool(clips), remarks=tuple(remarks))


# --------------------------------------------------------------------- tables


def _table(path: Path, format: str | None, label_column: str | int | None) -> Table:
    if is_sound(path.name) and path.exists():
        raise InputError(f"{path} is a recording; {EXPECTED} that say where in it the notes are")
    return read_table(path, format=format, label_column=label_column)


def _marked(tables: Sequence[tuple[Table, bool]], sounds: SoundFiles, remarks: list[str]) -> list[Example]:
    """The notes that tables mark, once each; what is left out is remarked."""
    remarks += _said_of([table for table, _ in tables])
    left_out: Counter[str] = Counter()
    found: dict[tuple[str, float, float], list[Example]] = defaultdict(list)
    for table, must_be_found in tables:
        where: dict[str | None, Path | None] = {}
        for mark in table.marks:
            why = _unfit(mark)
            if why:
                left_out[why] += 1
                continue
            if mark.recording not in where:
                where[mark.recording] = _recording(table, mark, sounds, None if must_be_found else remarks)
            recording = where[mark.recording]
            if recording is None:
                left_out["their recording is not there"] += 1
                continue
            same = found[os.path.realpath(recording), round(mark.start_s, 6), round(mark.end_s, 6)]
            if any(mark.label == example.label for example in same):
                left_out["they repeat another one"] += 1
                continue
            same.append(Example(label=str(mark.label), recording=recording, mark=mark, table=table.path))
    remarks += [f"{n} mark{'s' if n > 1 else ''} left out: {why}" for why, n in left_out.items()]
    for same in found.values():
        if len(same) > 1:
            remarks.append(f"{same[0]} is marked both {same[0].label!r} and {same[1].label!r}; keep one of them")
    return [example for same in found.values() for example in same]


def _said_of(tables: Sequence[Table]) -> list[str]:
    """The remarks of the tables, each once."""
    names: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        for remark in table.remarks:
            names[remark].append(table.path.name)
    return [f"{own[0] if len(own) == 1 else f'{len(own)} tables'}: {remark}" for remark, own in names.items()]


def _unfit(mark: Mark) -> str | None:
    """Why a mark is no example; None for those that are."""
    if mark.verdict not in (None, KNOWN):
        return f"their verdict is {mark.verdict}"
    if mark.label is None or not mark.label.strip():
        return "without a label"
    return "points, without a length" if mark.start_s == mark.end_s else None


def _recording(table: Table, mark: Mark, sounds: SoundFiles, remarks: list[str] | None) -> Path | None:
    """The recording of a mark; without it None and a remark, or an error where there are no remarks."""
    try:
        if mark.recording is None:
            return sounds.of_table(table.path)
        return sounds.named(mark.recording, table.path, mark.line)
    except AnnotationError as error:
        if remarks is None:
            raise
        remarks.append(str(error))
        return None


def _time(note: Example) -> tuple[float, float]:
    return (0.0, 0.0) if note.mark is None else (note.mark.start_s, note.mark.end_s)


def _because(remarks: Sequence[str]) -> str:
    shown = "; ".join(remarks[:3])
    return f" ({shown}{' …' if len(remarks) > 3 else ''})" if remarks else ""
