"""Examples to learn from, as people have them: folders of clips, or annotation files and their recordings.

`find_examples` says which notes there are and where; `learning` reads them and trains a detector.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from outlark.annotations import Annotation, Table, read_annotations
from outlark.audio.sound_files import SoundFiles, is_sound, sounds_within
from outlark.commands import listing, recording_of
from outlark.commands.tables import is_made_by_a_model, passed_over, tables_in
from outlark.detection.thresholds import there_are
from outlark.errors import AnnotationError, InputError
from outlark.plain_text import number_of, writable
from outlark.segments import KNOWN

EXPECTED = "expected a folder with one subfolder of clips per class, or annotation files"
Key = tuple[str, str, float, float]
_NUMBER = re.compile(r"\s*[-+]?\d*[.,]?\d+\s*")


@dataclass(frozen=True, kw_only=True)
class Example:
    """One note to learn from: its annotation (None for a clip, which is the note) and the annotation file.

    `cut` says that an annotated part of a recording is treated as a clip, without its surroundings.
    """

    label: str
    recording: Path
    annotation: Annotation | None = None
    table: Path | None = None
    cut: bool = False

    @property
    def is_clip(self) -> bool:
        """Whether its surroundings are unknown."""
        return self.annotation is None or self.cut

    @property
    def place(self) -> str:
        """The recording, by its real path."""
        return os.path.realpath(self.recording)

    @property
    def key(self) -> Key:
        """Equal for two rows that say the same: recording, label, start and end to the microsecond."""
        start_s, end_s = _time(self)
        return self.place, self.label, round(start_s, 6), round(end_s, 6)

    def __str__(self) -> str:
        at = "" if self.annotation is None else f" at {self.annotation.start_s:.3f} s"
        return f"{self.recording.name}{at}"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Notes to learn from, by recording and time, either all clips or all annotations.

    `remarks` say what was skipped, guessed or unusual; `negatives` are sounds that are not notes of the class they are
    labelled with; `tables` are the annotation files with the `Example.key` of all their rows, including repeated ones;
    `refused` are, by file, rows that could not be read, or whose recording is missing.
    """

    notes: tuple[Example, ...]
    clips: bool
    remarks: tuple[str, ...] = ()
    negatives: tuple[Example, ...] = ()
    tables: Mapping[Path, frozenset[Key]] = field(default_factory=dict)
    refused: Mapping[Path, Sequence[str]] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The classes, sorted."""
        return sorted({note.label for note in self.notes})

    def of_classes(self, names: Sequence[str]) -> Self:
        """Only the notes and negatives of these classes."""
        missing = [name for name in names if name not in self.labels]
        if missing:
            raise InputError(f"there are no examples of the class {missing[0]!r}; {there_are(missing[0], self.labels)}")
        notes, negatives = (tuple(n for n in own if n.label in names) for own in (self.notes, self.negatives))
        return replace(self, notes=notes, negatives=negatives)

    def at_most(self, n: int) -> Self:
        """At most n notes and n negatives of each class: see `at_most`."""
        return replace(self, notes=at_most(self.notes, n), negatives=at_most(self.negatives, n))


def at_most(notes: Sequence[Example], n: int) -> tuple[Example, ...]:
    """At most n notes of each class, always the same and spread evenly.

    >>> notes = tuple(Example(label="a", recording=Path(f"{i}.wav")) for i in range(10))
    >>> [str(note) for note in at_most(notes, 3)]
    ['1.wav', '5.wav', '8.wav']
    """
    chosen = spread_evenly([note.label for note in notes], n)
    return tuple(note for number, note in enumerate(notes) if number in chosen)


def spread_evenly(kinds: Sequence[object], n: int) -> set[int]:
    """The numbers of at most n items of each kind, spread evenly over all items of that kind."""
    of_kind: dict[object, list[int]] = defaultdict(list)
    for number, kind in enumerate(kinds):
        of_kind[kind].append(number)
    found = ((own, min(n, len(own))) for own in of_kind.values())
    return {own[(2 * i + 1) * len(own) // (2 * most)] for own, most in found for i in range(most)}


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
    of_models: bool = False,
) -> Examples:
    """The examples in folders with one subfolder of clips per class; or in annotation files, and folders of them.

    In folders, files that cannot be read are skipped with a remark, and those that a model made unless `of_models`.
    Recordings are looked for in `audio` and beside each annotation file. `any_verdict` includes labelled annotations
    with the verdict unknown, ambiguous or silence; `may_be_none` accepts that there are no examples.
    """
    clips: list[Example] = []
    tables: list[tuple[Table, bool]] = []
    remarks, refused = list[str](), defaultdict[Path, list[str]](list)
    asked = [Path(path) for path in paths]
    for path in asked:
        if not path.is_dir():
            tables.append((_table(path, format, label_column), True))
            refused[path] += tables[-1][0].refused
            continue
        found = tables_in(path, format=format, label_column=label_column)
        own = found.tables if of_models else _of_people(found.tables, path, remarks)
        classes = clip_folders(path, [table.path.name for table in own], remarks)
        if classes:
            clips += [Example(label=writable(label), recording=clip) for label, of in classes.items() for clip in of]
        else:
            remarks += found.skipped
            refused.update({table: list(rows) for table, rows in found.refused.items()})
            tables += [(table, False) for table in own]
    if clips and tables:
        raise InputError(
            "clips and annotation files together; train on one kind (outlark clips cuts annotated notes into clips)"
        )
    unfit = _no_annotated_note if any_verdict else why_not
    rows: dict[Path, set[Key]] = {table.path: set() for table, _ in tables}
    notes = clips or _annotated(tables, SoundFiles(audio), remarks, unfit, rows, refused)
    remarks += [] if clips else _on_labels(notes, label_column)
    if not notes and not may_be_none:
        why = _because([*remarks, *(row for rows in refused.values() for row in rows)])
        raise InputError(f"no examples in {', '.join(map(str, asked))}{why}; {EXPECTED}")
    keys = {path: frozenset(own) for path, own in rows.items()}
    left_out = {path: own for path, own in refused.items() if own}
    return Examples(notes=in_order(notes), clips=bool(clips), remarks=tuple(remarks), tables=keys, refused=left_out)


# ----------------------------------------------------------- annotation files


def _table(path: Path, format: str | None, label_column: str | int | None) -> Table:
    if is_sound(path.name) and path.exists():
        raise InputError(f"{path} is a recording; {EXPECTED} that say where its notes are")
    return read_annotations(path, format=format, label_column=label_column)


def _of_people(tables: Sequence[Table], folder: Path, remarks: list[str]) -> list[Table]:
    """Without those that a model made, on which there is a remark: what nobody has checked is no example."""
    by_model = [table for table in tables if is_made_by_a_model(table)]
    if by_model:
        remarks.append(f"{passed_over(by_model, folder)}; if somebody has corrected them, give them by name")
    return [table for table in tables if table not in by_model]


def _annotated(
    tables: Sequence[tuple[Table, bool]],
    sounds: SoundFiles,
    remarks: list[str],
    unfit: Callable[[Annotation], str | None],
    rows: Mapping[Path, set[Key]],
    refused: Mapping[Path, list[str]],
) -> list[Example]:
    """The annotated notes, each once; adds remarks on what is skipped, to `rows` those of each file, and to `refused`
    those whose recording is missing."""
    remarks += _remarks_of([table for table, _ in tables])
    skipped: Counter[str] = Counter()
    found: dict[tuple[str, float, float], list[Example]] = defaultdict(list)
    for table, must_be_found in tables:
        where: dict[str | None, Path | None] = {}
        for annotation in table.annotations:
            why = unfit(annotation)
            if why:
                skipped[why] += 1
                continue
            if annotation.recording not in where:
                where[annotation.recording] = _recording(
                    table, annotation, sounds, None if must_be_found else refused[table.path]
                )
            recording = where[annotation.recording]
            if recording is None:
                skipped["recording not found"] += 1
                continue
            new = Example(label=str(annotation.label), recording=recording, annotation=annotation, table=table.path)
            place, label, start_s, end_s = new.key
            rows[table.path].add(new.key)
            same = found[place, start_s, end_s]
            if any(label == example.label for example in same):
                skipped["repeated"] += 1
                continue
            same.append(new)
    remarks += skipped_in_words(skipped)
    for same in found.values():
        if len(same) > 1:
            remarks.append(f"{same[0]} is labelled both {same[0].label!r} and {same[1].label!r}; keep one of them")
    return [example for same in found.values() for example in same]


def _remarks_of(tables: Sequence[Table]) -> list[str]:
    """The remarks on the files, each once."""
    names: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        for remark in table.remarks:
            names[remark].append(table.path.name)
    return [f"{own[0] if len(own) == 1 else f'{len(own)} files'}: {remark}" for remark, own in names.items()]


def _on_labels(notes: Sequence[Example], column: str | int | None) -> list[str]:
    """Which labels were read, if their column was chosen, or if they are numbers and may not be labels."""
    counts = Counter(note.label for note in notes)
    numbers = bool(counts) and all(_NUMBER.fullmatch(label) for label in counts)
    if not counts or (column is None and not numbers):
        return []
    source = "the labels are numbers" if column is None else f"labels in the column {column!r}"
    doubt = "; are these classes of notes? If not, choose another --label-column" if numbers or len(counts) == 1 else ""
    return [f"{source}: {listing([f'{label} ({n})' for label, n in sorted(counts.items())])}{doubt}"]


def skipped_in_words(reasons: Mapping[str, int]) -> list[str]:
    """How many annotations were skipped for each reason."""
    return [f"{number_of(n, 'annotation')} skipped: {why}" for why, n in reasons.items() if n]


def why_not(annotation: Annotation) -> str | None:
    """Why an annotation is not an example; None if it is."""
    if annotation.verdict not in (None, KNOWN):
        return f"verdict {annotation.verdict}"
    return _no_annotated_note(annotation)


def _no_annotated_note(annotation: Annotation) -> str | None:
    if annotation.label is None or not annotation.label.strip():
        return "no label"
    return "no duration" if annotation.start_s == annotation.end_s else None


def _recording(table: Table, annotation: Annotation, sounds: SoundFiles, refused: list[str] | None) -> Path | None:
    """The recording of an annotation; if it is missing, None and why in `refused`, or an error if that is None."""
    try:
        return recording_of(table, annotation, sounds)
    except AnnotationError as error:
        if refused is None:
            raise
        refused.append(str(error))
        return None


def _time(note: Example) -> tuple[float, float]:
    return (0.0, 0.0) if note.annotation is None else (note.annotation.start_s, note.annotation.end_s)


def _because(remarks: Sequence[str]) -> str:
    shown = "; ".join(remarks[:3])
    return f" ({shown}{' …' if len(remarks) > 3 else ''})" if remarks else ""


# ----------------------------------------------------------- folders of clips


def clip_folders(folder: Path, tables: Sequence[str], remarks: list[str]) -> dict[str, list[Path]]:
    """The clips of each class: the sound files in each subfolder and the folders below it; adds to the remarks.

    `tables` are the annotation files in the folder itself: if there are any, and no subfolders with sounds, there are
    no classes.
    """
    classes = {here.name: sounds for here in _folders(folder) if (sounds := list(sounds_within(here)))}
    loose = [path.name for path in sorted(folder.iterdir()) if is_sound(path.name) and path.is_file()]
    if classes and tables:
        raise InputError(
            f"{folder} contains annotation files ({tables[0]}) and folders of sounds ({next(iter(classes))}); name the "
            "annotation files, with --audio for the recordings, or give a folder of clips without annotation files"
        )
    if not classes and not tables and loose:
        raise InputError(
            f"{folder} contains {number_of(len(loose), 'sound file')} ({loose[0]}), but neither subfolders nor "
            f"annotation files that label them{_because(remarks)}; {EXPECTED}"
        )
    if len(classes) == 1:
        _check_depth(folder, next(iter(classes)))
    if classes:
        remarks += _skipped_files(folder, classes, len(loose))
    return classes


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _check_depth(folder: Path, only: str) -> None:
    """Refuse the parent of the folder of classes, which would make a single class of all of them."""
    inner = [path.name for path in _folders(folder / only) if next(sounds_within(path), None)]
    if len(inner) > 1 and not any(is_sound(path.name) for path in (folder / only).iterdir()):
        raise InputError(
            f"{folder} has one subfolder of sounds, {only}, which has subfolders itself ({inner[0]}, {inner[1]} …); if "
            f"these are the classes, give {folder / only}"
        )


def _skipped_files(folder: Path, classes: dict[str, list[Path]], n_loose: int) -> list[str]:
    there = sum(len(files) for label in classes for *_, files in os.walk(folder / label))
    others = there - sum(map(len, classes.values()))
    found = []
    if others:
        found.append(f"{number_of(others, 'file')} in the class folders skipped: hidden, or not a sound file")
    if n_loose:
        found.append(f"{number_of(n_loose, 'sound file')} skipped: in {folder} itself, not in the folder of a class")
    empty = [path.name for path in _folders(folder) if path.name not in classes]
    return found + [f"the folder {name} contains no sound files, so it is not a class" for name in empty]
