"""Examples to learn from, as people have them: folders of clips, or annotation files and their recordings.

`find_examples` says which notes there are and where; `learning` reads them and trains a detector. There are three ways
to say that a sound is *not* a note of a class: a label such as ``-buzz`` among the examples (`told_apart`); separate
files in which ``buzz`` means "not buzz" (`with_negatives`, for ``outlark train --negative``); and rows that somebody
deleted or relabelled in the output of ``outlark detect`` (`outlark.commands.train.retraining`).
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from outlark.annotations import Annotation, Table, read_annotations
from outlark.audio.sound_files import SoundFiles, is_sound, sounds_within
from outlark.commands.tables import (
    is_made_by_a_model,
    is_unclear,
    labelled_by_hand,
    passed_over,
    recording_of,
    remarks_on,
    skipped_in_words,
    tables_in,
    unclear_rows,
)
from outlark.detection.thresholds import there_are
from outlark.errors import AnnotationError, InputError
from outlark.plain_text import listing, number_of, writable
from outlark.segments import KNOWN

EXPECTED = "expected a folder with one subfolder of clips per class, or annotation files"
ExampleKey = tuple[str, str, float, float]
#: Why an annotation is no example, if it is none.
Unfit = Callable[[Annotation], str | None]
#: Before the name of a class: not a note of it.
NOT = "-"
_NUMBER_LABEL = re.compile(r"\s*[-+]?\d*[.,]?\d+\s*")


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
    def key(self) -> ExampleKey:
        """Equal for two rows that say the same: recording, label, start and end to the microsecond."""
        start_s, end_s = _time(self)
        return self.place, self.label, round(start_s, 6), round(end_s, 6)

    @property
    def file_and_line(self) -> str:
        """Of the annotation."""
        line = None if self.annotation is None else self.annotation.line
        return f"{self.table}" if line is None else f"{self.table}, line {line}"

    @property
    def where(self) -> str:
        """For messages: the row of the annotation file, or the clip."""
        if self.annotation is None:
            return f"{self.recording} ({self.label!r})"
        return f"{self.file_and_line}: {self.label!r} at {self.annotation.start_s:.3f} s"

    def covers(self, other: "Example") -> bool:
        """Whether two annotations of one recording share half of the shorter one; a clip is the whole recording.

        >>> annotations = [Annotation(start_s=start_s, end_s=end_s) for start_s, end_s in ((0, 4), (3, 5), (4, 9))]
        >>> a, b, c = (Example(label="a", recording=Path("a.wav"), annotation=own) for own in annotations)
        >>> a.covers(b), a.covers(c)
        (True, False)
        """
        if self.annotation is None or other.annotation is None:
            return True
        return self.annotation.span.shares_half(other.annotation.span)

    def __str__(self) -> str:
        at = "" if self.annotation is None else f" at {self.annotation.start_s:.3f} s"
        return f"{self.recording.name}{at}"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Notes to learn from, by recording and time, either all clips or all annotations.

    `remarks` say what was skipped, guessed or unusual; `negatives` are sounds that are not notes of the class they are
    labelled with; `tables` are the annotation files with the `Example.key` of all their rows, including repeated ones;
    `refused` are, by file, rows of people that cannot be used: unreadable ones, those whose recording is missing, and
    those without a label or duration, whose places are `unclear`.
    """

    notes: tuple[Example, ...]
    clips: bool
    remarks: tuple[str, ...] = ()
    negatives: tuple[Example, ...] = ()
    tables: Mapping[Path, frozenset[ExampleKey]] = field(default_factory=dict)
    refused: Mapping[Path, Sequence[str]] = field(default_factory=dict)
    unclear: tuple[Example, ...] = ()

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
    search = _ExampleSearch(format, label_column)
    asked = [Path(path) for path in paths]
    for path in asked:
        if path.is_dir():
            search.add_folder(path, of_models)
        else:
            search.add_table(path)
    if search.clips and search.tables:
        raise InputError(
            "clips and annotation files together; train on one kind (outlark clips cuts annotated notes into clips)"
        )
    notes = search.clips or search.annotated(SoundFiles(audio), _no_annotated_note if any_verdict else why_not)
    refused = {path: own for path, own in search.refused.items() if own}
    if not notes and not may_be_none:
        why = _because([*search.remarks, *(row for rows in refused.values() for row in rows)])
        raise InputError(f"no examples in {', '.join(map(str, asked))}{why}; {EXPECTED}")
    return Examples(
        notes=in_order(notes),
        clips=bool(search.clips),
        remarks=tuple(search.remarks),
        tables={path: frozenset(own) for path, own in search.rows.items()},
        refused=refused,
        unclear=tuple(search.unclear),
    )


# ----------------------------------------------------------- annotation files


class _ExampleSearch:
    """Clips and annotation files found so far, remarks, and by file its rows and those that are refused."""

    def __init__(self, format: str | None, label_column: str | int | None) -> None:
        self.reading: dict[str, Any] = {"format": format, "label_column": label_column}
        self.clips: list[Example] = []
        #: Annotation files, and whether they were named, so that their recordings have to be found.
        self.tables: list[tuple[Table, bool]] = []
        self.remarks: list[str] = []
        self.rows: dict[Path, set[ExampleKey]] = {}
        self.refused: dict[Path, list[str]] = defaultdict(list)
        self.unclear: list[Example] = []
        self.skipped = Counter[str]()

    def add_table(self, path: Path) -> None:
        """An annotation file that was given by name."""
        if is_sound(path.name) and path.exists():
            raise InputError(f"{path} is a recording; {EXPECTED} that say where its notes are")
        table = read_annotations(path, **self.reading)
        self.tables.append((table, True))
        self.refused[path] += table.refused

    def add_folder(self, folder: Path, of_models: bool) -> None:
        """Clips, or annotation files; those that a model made, and nobody has checked, are examples only on demand."""
        found = tables_in(folder, **self.reading)
        by_model = [] if of_models else [table for table in found.tables if is_made_by_a_model(table)]
        if by_model:
            said = passed_over(by_model, folder)
            self.remarks.append(f"{said}; if somebody has corrected them, give them by name")
        own = [table for table in found.tables if table not in by_model]
        classes = clip_folders(folder, [table.path.name for table in own], self.remarks)
        if classes:
            self.clips += [Example(label=writable(of), recording=clip) for of, all in classes.items() for clip in all]
            return
        self.remarks += found.skipped
        self.refused.update({table: list(rows) for table, rows in found.refused.items()})
        self.tables += [(table, False) for table in own]

    def annotated(self, sounds: SoundFiles, unfit: Unfit) -> list[Example]:
        """The annotated notes, each once."""
        self.remarks += remarks_on([table for table, _ in self.tables])
        self.rows = {table.path: set() for table, _ in self.tables}
        found: dict[tuple[str, float, float], list[Example]] = defaultdict(list)
        for table, named in self.tables:
            self.refused[table.path] += unclear_rows(table)
            for new in self._rows_of(table, named, sounds, unfit):
                self.rows[table.path].add(new.key)
                place, label, start_s, end_s = new.key
                same = found[place, start_s, end_s]
                if any(label == example.label for example in same):
                    self.skipped["repeated"] += 1
                else:
                    same.append(new)
        self.remarks += skipped_in_words(self.skipped)
        for same in found.values():
            if len(same) > 1:
                both = f"{same[0].label!r} and {same[1].label!r}"
                self.remarks.append(f"{same[0]} is labelled both {both}; keep one of them")
        notes = [example for same in found.values() for example in same]
        self.remarks += _on_labels(notes, self.reading["label_column"])
        return notes

    def _rows_of(self, table: Table, named: bool, sounds: SoundFiles, unfit: Unfit) -> Iterator[Example]:
        """The rows of a file that can be examples; others are counted, or kept aside if they are `unclear`."""
        where: dict[str | None, Path | None] = {}
        for annotation in map(labelled_by_hand, table.annotations):
            unclear = is_unclear(annotation, table)
            why = None if unclear else unfit(annotation)
            if why is None and annotation.recording not in where:
                where[annotation.recording] = self._recording(table, annotation, sounds, named)
            recording = where.get(annotation.recording)
            if why or recording is None:
                self.skipped[why or "recording not found"] += 1
                continue
            label = annotation.label or ""
            new = Example(label=label, recording=recording, annotation=annotation, table=table.path)
            if unclear:
                self.unclear.append(new)
            else:
                yield new

    def _recording(self, table: Table, annotation: Annotation, sounds: SoundFiles, named: bool) -> Path | None:
        """The recording of an annotation; None and a refused row if it is missing, an error in a named file."""
        try:
            return recording_of(table, annotation, sounds)
        except AnnotationError as error:
            if named:
                raise
            self.refused[table.path].append(str(error))
            return None


def _on_labels(notes: Sequence[Example], column: str | int | None) -> list[str]:
    """Which labels were read, if their column was chosen, or if they are numbers and may not be labels."""
    counts = Counter(note.label for note in notes)
    numbers = bool(counts) and all(_NUMBER_LABEL.fullmatch(label) for label in counts)
    if not counts or (column is None and not numbers):
        return []
    source = "the labels are numbers" if column is None else f"labels in the column {column!r}"
    doubt = "; are these classes of notes? If not, choose another --label-column" if numbers or len(counts) == 1 else ""
    return [f"{source}: {listing([f'{label} ({n})' for label, n in sorted(counts.items())])}{doubt}"]


def why_not(annotation: Annotation) -> str | None:
    """Why an annotation is not an example; None if it is."""
    if annotation.verdict not in (None, KNOWN):
        return f"verdict {annotation.verdict}"
    return _no_annotated_note(annotation)


def _no_annotated_note(annotation: Annotation) -> str | None:
    if annotation.label is None or not annotation.label.strip():
        return "no label"
    return "no duration" if annotation.start_s == annotation.end_s else None


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


# ------------------------------------------------------------------ negatives


def told_apart(examples: Examples, *, classes: Collection[str] = (), named: Collection[str] = ()) -> Examples:
    """Examples whose labels with a minus sign become negatives.

    ``-buzz`` means "not buzz" if ``buzz`` has examples or is one of `classes`, those of a model that is trained again;
    it is a class of its own if there is no class ``buzz``, or if it is one of `classes` or `named`, those that were
    asked for by name. The examples are found with ``any_verdict``: people who relabel a row as ``-buzz`` seldom change
    its verdict. Other annotations with the verdict unknown, ambiguous or silence are skipped.

    >>> notes = tuple(Example(label=name, recording=Path(name, "1.wav")) for name in ("buzz", "-buzz", "-trill"))
    >>> found = told_apart(Examples(notes=notes, clips=True))
    >>> found.labels, [note.label for note in found.negatives]
    (['-trill', 'buzz'], ['buzz'])
    >>> for remark in found.remarks:
    ...     print(remark)
    1 '-buzz' taken as not 'buzz' (if it is a class of its own, give --class=-buzz)
    '-trill' is learnt as a class, because there is no class 'trill' to be the negative of
    """
    meant = _meant(examples.labels, classes, named)
    notes, negatives, skipped = [], [], Counter[str]()
    for note in examples.notes:
        why = None if note.annotation is None else why_not(note.annotation)
        if note.label in meant:
            negatives.append(replace(note, label=meant[note.label]))
        elif why is not None:
            skipped[why] += 1
        else:
            notes.append(note)
    counts = Counter(note.label for note in examples.notes)
    remarks = [
        f"{counts[label]} {label!r} taken as not {of!r} (if it is a class of its own, give --class={label})"
        for label, of in meant.items()
    ]
    odd = [label for label in examples.labels if label.startswith(NOT) and label not in {*meant, *classes, *named}]
    remarks += [
        f"{label!r} is learnt as a class, because there is no class {label[1:].strip()!r} to be the negative of"
        for label in odd
    ]
    return _checked(replace(examples, notes=tuple(notes)), negatives, [*skipped_in_words(skipped), *remarks])


def with_negatives(
    examples: Examples, negatives: Examples, classes: Collection[str], *, chosen: bool = False
) -> Examples:
    """Examples with separate negatives, among which ``buzz`` and ``-buzz`` both mean "not buzz".

    Negatives of labels that are not classes are refused; if the classes were `chosen` among others, or a program found
    these sounds, they are skipped with a remark. It is an error if none is left.
    """
    meant = {label: label for label in classes} | {f"{NOT}{label}": label for label in classes}
    taken = [replace(note, label=meant[note.label]) for note in negatives.notes if note.label in meant]
    others = [note for note in negatives.notes if note.label not in meant]
    lost = Counter(note.label for note in others)
    if not taken:
        raise InputError(
            f"the negatives are of {', '.join(map(repr, lost))}, which is not a class; the classes are "
            f"{', '.join(sorted(classes))}"
        )
    of_people = [] if chosen else [n for n in others if n.annotation is None or n.annotation.score is None]
    refused = {path: list(rows) for path, rows in (*examples.refused.items(), *negatives.refused.items())}
    for note in of_people:
        said = f"{note.where} is a negative of no class; the classes are {', '.join(sorted(classes))}"
        refused.setdefault(note.table or note.recording, []).append(said)
    lost -= Counter(note.label for note in of_people)
    remarks = [f"{number_of(n, 'negative')} skipped: there is no class {label!r}" for label, n in lost.items()]
    examples = replace(examples, refused=refused)
    return _checked(examples, taken, [*negatives.remarks, *remarks])


def pairs(
    some: Iterable[Example], others: Iterable[Example], *, any_label: bool = False
) -> Iterator[tuple[Example, Example]]:
    """Pairs of annotations of about the same sound (`covers`), with the same label or any."""
    where: dict[str, list[Example]] = defaultdict(list)
    for other in others:
        where[other.place].append(other)
    for one in some:
        near = (other for other in where[one.place] if any_label or other.label == one.label)
        yield from ((one, other) for other in near if one.covers(other))


def _meant(labels: Sequence[str], classes: Collection[str], named: Collection[str]) -> dict[str, str]:
    """The class of each label that is a negative."""
    known = {*classes, *named, *(label for label in labels if not label.startswith(NOT))}
    meant: dict[str, str] = {}
    for label in sorted(set(labels) - known, key=lambda label: (len(label), label)):
        of = label.removeprefix(NOT).strip()
        if of in known:
            meant[label] = of
        else:
            known.add(label)
    return meant


def _checked(examples: Examples, negatives: Sequence[Example], remarks: Sequence[str]) -> Examples:
    """With more negatives and remarks; an error if a sound is both an example and a negative."""
    found = replace(examples, negatives=(*examples.negatives, *negatives), remarks=(*examples.remarks, *remarks))
    for negative, note in pairs(found.negatives, found.notes):
        raise InputError(
            f"{negative} ({negative.table or 'a clip'}) is a negative of {note.label!r}, but {note} "
            f"({note.table or 'a clip'}) is an example of it; keep one of them"
        )
    return found
