"""Examples to learn from, as people have them: folders of clips, or tables of marks and the recordings they are about.

`find_examples` says which notes there are and where; `learning` reads them and trains a detector.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from outlark.annotations import Mark, Table, read_table
from outlark.annotations.table_files import tables_in
from outlark.audio.sound_files import SoundFiles, is_sound, sounds_within
from outlark.errors import AnnotationError, InputError
from outlark.plain_text import writable
from outlark.segments import KNOWN

Key = tuple[str, str, float, float]


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
    cut : bool
        Whether it is a clip all the same: the part of the recording that is marked, and nothing around it.
    """

    label: str
    recording: Path
    mark: Mark | None = None
    table: Path | None = None
    cut: bool = False

    @property
    def is_clip(self) -> bool:
        """Whether nothing is known of what is around it."""
        return self.mark is None or self.cut

    @property
    def place(self) -> str:
        """The recording, by whatever way it is reached."""
        return os.path.realpath(self.recording)

    @property
    def key(self) -> Key:
        """What two rows that say the same have in common: recording, label, start and end to the microsecond."""
        start_s, end_s = _time(self)
        return self.place, self.label, round(start_s, 6), round(end_s, 6)

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
    negatives : tuple of Example
        Sounds that are not notes of the class that they are labelled with; clips or marks, whatever the notes are.
    tables : mapping of Path to set
        Annotation files that were read, and of each the `Example.key` of its rows, also of those that repeat others.
    """

    notes: tuple[Example, ...]
    clips: bool
    remarks: tuple[str, ...] = ()
    negatives: tuple[Example, ...] = ()
    tables: Mapping[Path, frozenset[Key]] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """Of all classes, sorted."""
        return sorted({note.label for note in self.notes})

    def of_classes(self, names: Sequence[str]) -> Self:
        """Only the notes, and the negatives, of these classes.

        Raises
        ------
        InputError
            For a class without examples; the message lists those that there are.
        """
        missing = [name for name in names if name not in self.labels]
        if missing:
            raise InputError(f"there are no examples of the class {missing[0]!r}; there are {', '.join(self.labels)}")
        notes, negatives = (tuple(n for n in own if n.label in names) for own in (self.notes, self.negatives))
        return replace(self, notes=notes, negatives=negatives)

    def at_most(self, n: int) -> Self:
        """At most n notes, and n negatives, of each class: see `at_most`."""
        return replace(self, notes=at_most(self.notes, n), negatives=at_most(self.negatives, n))


def at_most(notes: Sequence[Example], n: int) -> tuple[Example, ...]:
    """At most n notes of each class: always the same, spread evenly over all of them in their order.

    >>> notes = tuple(Example(label="a", recording=Path(f"{i}.wav")) for i in range(10))
    >>> [str(note) for note in at_most(notes, 3)]
    ['1.wav', '5.wav', '8.wav']
    """
    of_class: dict[str, list[int]] = defaultdict(list)
    for number, note in enumerate(notes):
        of_class[note.label].append(number)
    chosen = {own[(2 * i + 1) * len(own) // (2 * n)] for own in of_class.values() for i in range(n)}
    return tuple(note for number, note in enumerate(notes) if number in chosen)


def in_order(notes: Iterable[Example]) -> tuple[Example, ...]:
    """By recording, then by time: the order in which they are learnt."""
    return tuple(sorted(notes, key=lambda note: (str(note.recording), *_time(note), note.label)))


def find_examples(
    paths: Iterable[str | os.PathLike[str]],
    *,
    audio: Iterable[str | os.PathLike[str]] = (),
    format: str | None = None,
    label_column: str | int | None = None,
    any_verdict: bool = False,
    may_be_none: bool = False,
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
    any_verdict : bool
        Also marks that have a label and are called unknown, ambiguous or silence.
    may_be_none : bool
        Whether it is no error to find nothing.

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
    unfit = _no_mark_of_a_note if any_verdict else why_not
    rows: dict[Path, set[Key]] = {table.path: set() for table, _ in tables}
    notes = clips or _marked(tables, SoundFiles(audio), remarks, unfit, rows)
    if not notes and not may_be_none:
        raise InputError(f"no examples in {', '.join(map(str, asked))}{_because(remarks)}; {EXPECTED}")
    keys = {path: frozenset(own) for path, own in rows.items()}
    return Examples(notes=in_order(notes), clips=bool(clips), remarks=tuple(remarks), tables=keys)


# --------------------------------------------------------------------- tables


def _table(path: Path, format: str | None, label_column: str | int | None) -> Table:
    if is_sound(path.name) and path.exists():
        raise InputError(f"{path} is a recording; {EXPECTED} that say where in it the notes are")
    return read_table(path, format=format, label_column=label_column)


def _marked(
    tables: Sequence[tuple[Table, bool]],
    sounds: SoundFiles,
    remarks: list[str],
    unfit: Callable[[Mark], str | None],
    rows: Mapping[Path, set[Key]],
) -> list[Example]:
    """The notes that tables mark, once each; what is left out is remarked, and `rows` gets those of each table."""
    remarks += _said_of([table for table, _ in tables])
    left_out: Counter[str] = Counter()
    found: dict[tuple[str, float, float], list[Example]] = defaultdict(list)
    for table, must_be_found in tables:
        where: dict[str | None, Path | None] = {}
        for mark in table.marks:
            why = unfit(mark)
            if why:
                left_out[why] += 1
                continue
            if mark.recording not in where:
                where[mark.recording] = _recording(table, mark, sounds, None if must_be_found else remarks)
            recording = where[mark.recording]
            if recording is None:
                left_out["their recording is not there"] += 1
                continue
            new = Example(label=str(mark.label), recording=recording, mark=mark, table=table.path)
            place, label, start_s, end_s = new.key
            rows[table.path].add(new.key)
            same = found[place, start_s, end_s]
            if any(label == example.label for example in same):
                left_out["they repeat another one"] += 1
                continue
            same.append(new)
    remarks += told_left_out(left_out)
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


def told_left_out(reasons: Mapping[str, int]) -> list[str]:
    """How many marks were left out for each reason, in words."""
    return [f"{n} mark{'s' if n > 1 else ''} left out: {why}" for why, n in reasons.items()]


def why_not(mark: Mark) -> str | None:
    """Why a mark is no example; None for those that are."""
    if mark.verdict not in (None, KNOWN):
        return f"their verdict is {mark.verdict}"
    return _no_mark_of_a_note(mark)


def _no_mark_of_a_note(mark: Mark) -> str | None:
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


EXPECTED = "expected a folder with one sub-folder of clips for each class, or tables of labels"


def clip_folders(folder: Path, tables: Sequence[str], remarks: list[str]) -> dict[str, list[Path]]:
    """The clips of each class: the sound files of each sub-folder, with those in folders within it.

    Parameters
    ----------
    folder : Path
    tables : sequence of str
        Tables that are in the folder itself. If there are any, and no sub-folders with sounds, there are no classes.
    remarks : list of str
        What is left out is added to it.

    Raises
    ------
    InputError
        If it is not clear what the folder holds.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("alarm/1.wav", "alarm/2.WAV", "song/1.wav", "song/notes.txt"):
    ...         Path(folder, name).parent.mkdir(exist_ok=True)
    ...         Path(folder, name).touch()
    ...     remarks = []
    ...     classes = clip_folders(Path(folder), [], remarks)
    >>> {label: len(clips) for label, clips in classes.items()}, remarks
    ({'alarm': 2, 'song': 1}, ['1 file in the folders of the classes left out: hidden, or no sound'])
    """
    classes = {here.name: sounds for here in _folders(folder) if (sounds := list(sounds_within(here)))}
    loose = [path.name for path in sorted(folder.iterdir()) if is_sound(path.name) and path.is_file()]
    if classes and tables:
        raise InputError(
            f"{folder} holds tables ({tables[0]}) and folders of sounds ({next(iter(classes))}); give the tables by "
            "name, with --audio for the recordings, or a folder of clips without tables"
        )
    if not classes and not tables and loose:
        raise InputError(
            f"{folder} holds {_files(len(loose))} of sound ({loose[0]}), but neither sub-folders nor tables that say "
            f"what they are; {EXPECTED}"
        )
    if len(classes) == 1:
        _check_depth(folder, next(iter(classes)))
    if classes:
        remarks += _left_out(folder, classes, len(loose))
    return classes


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _check_depth(folder: Path, only: str) -> None:
    """Refuse a folder that holds the folder of classes, and would make one class of all of them."""
    inner = [path.name for path in _folders(folder / only) if next(sounds_within(path), None)]
    if len(inner) > 1 and not any(is_sound(path.name) for path in (folder / only).iterdir()):
        raise InputError(
            f"{folder} has one sub-folder of sounds, {only}, and they are in folders within it ({inner[0]}, {inner[1]} "
            f"…); if these are the classes, give {folder / only}"
        )


def _left_out(folder: Path, classes: dict[str, list[Path]], n_loose: int) -> list[str]:
    there = sum(len(files) for label in classes for *_, files in os.walk(folder / label))
    others = there - sum(map(len, classes.values()))
    found = [f"{_files(others)} in the folders of the classes left out: hidden, or no sound"] if others else []
    if n_loose:
        found.append(f"{_files(n_loose)} of sound left out: in {folder} itself, not in the folder of a class")
    empty = [path.name for path in _folders(folder) if path.name not in classes]
    return found + [f"the folder {name} has no sound files and makes no class" for name in empty]


def _files(n: int) -> str:
    return f"{n} file{'s' if n > 1 else ''}"
