"""Labelled notes to experiment on: synthetic, in folders of clips, or annotated in recordings."""

import csv
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from outlark.audio.resampling import resample
from outlark.audio.sound import read
from outlark.commands.train.examples import Example, find_examples
from outlark.data import synthetic
from outlark.data.synthetic import Note
from outlark.errors import InputError
from outlark.files.places import NOT_REGULAR, is_endless

#: The category of what is none of the known classes.
OOD = "OOD"
#: Seed of the synthetic notes; docs/decisions/006-synthetic-notes.md says how they were settled.
NOTES_SEED = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Notes of several classes at one sample rate.

    Attributes
    ----------
    known : tuple of str or None
        The classes to train on; None: drawn anew for each seed.
    remarks : tuple of str
        What was skipped, guessed or odd.

    Examples
    --------
    >>> data = Dataset.synthetic()
    >>> len(data.notes), data.known, data.counts["cach-E"]
    (56, ('tuti-D', 'tuti-F', 'cach-Z'), 10)
    """

    name: str
    notes: tuple[Note, ...] = field(repr=False)
    sample_rate: int
    known: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """All classes: the known ones first, in the given order, then the rest, sorted."""
        first = list(self.known or ())
        return first + sorted({note.label for note in self.notes} - set(first))

    @property
    def counts(self) -> Mapping[str, int]:
        """Class → number of notes."""
        return Counter(note.label for note in self.notes)

    @property
    def grouped(self) -> bool:
        """Whether the group of every note is known."""
        return all(note.group is not None for note in self.notes)

    @classmethod
    def synthetic(cls, seed: int = NOTES_SEED, *, variation: float = 1.0, more_known: int = 0) -> Self:
        """The notes of `outlark.data.synthetic`, with the classes and class sizes of Sec. 4.1.

        `more_known` adds notes to each known class, for experiments that train on more than the paper's two.
        """
        counts = {name: n + more_known * (name in synthetic.KNOWN) for name, n in synthetic.CLASSES.items()}
        notes = tuple(synthetic.notes(seed, variation=variation, counts=counts))
        return cls(name="synthetic", notes=notes, sample_rate=synthetic.SAMPLE_RATE, known=tuple(synthetic.KNOWN))

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        groups: str | os.PathLike[str] | None = None,
        known: Sequence[str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Clips of one note each, in one sub-folder for each class.

        Parameters
        ----------
        groups : path, optional
            A CSV file with the bird, recording or session of each clip, so that training and test share none: columns
            `file` or `recording` (path within the folder, or name) and `group` or `source_group`. Clips that it does
            not list are skipped. Rows whose column `role` is `known` define the known classes.
        known : sequence of str, optional
            Classes to train on; drawn at random by default.
        """
        found = find_examples([folder])
        if not found.clips:
            raise InputError(
                f"{folder} contains annotation files, not a sub-folder of clips for each class; use from_recordings"
            )
        notes, remarks = list(found.notes), list(found.remarks)
        of_clip: Mapping[Path, str] = {}
        if groups is not None:
            table = _group_table(Path(groups))
            of_clip = _groups_of([note.recording for note in notes], table, Path(groups))
            n_all, notes = len(notes), [note for note in notes if note.recording in of_clip]
            if len(notes) < n_all:
                remarks.append(f"{n_all - len(notes)} of {n_all} clips skipped: {groups} does not list them")
            known = known or _known_in(table, Path(groups), notes)
        sounds = [read(note.recording) for note in notes]
        return cls._of(notes, sounds, [of_clip.get(n.recording) for n in notes], remarks, known, name or _name(folder))

    @classmethod
    def from_recordings(
        cls,
        tables: Iterable[str | os.PathLike[str]],
        *,
        audio: Iterable[str | os.PathLike[str]] = (),
        groups: str | os.PathLike[str] | None = None,
        known: Sequence[str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Notes cut out of annotated recordings.

        Parameters
        ----------
        tables : paths
            Annotation files in any format, or folders of them.
        audio : paths
            Where the recordings are, if not beside the annotation files.
        groups : path, optional
            A CSV file with the columns `recording` and `group`; by default every recording is a group of its own.
        known : sequence of str, optional
            Classes to train on; drawn at random by default.
        """
        asked = [Path(table) for table in tables]
        found = find_examples(asked, audio=audio)
        if found.clips:
            raise InputError(f"{asked[0]} contains clips, not annotation files; use from_folder")
        recordings = sorted({note.recording for note in found.notes})
        of_recording = {path: path.stem for path in recordings}
        if groups is not None:
            of_recording |= _groups_of(recordings, _group_table(Path(groups)), Path(groups))
        audio_of = {path: read(path) for path in recordings}
        sounds = [_cut(note, *audio_of[note.recording]) for note in found.notes]
        of_notes = [of_recording[note.recording] for note in found.notes]
        return cls._of(found.notes, sounds, of_notes, list(found.remarks), known, name or _name(asked[0]))

    def with_known(self, known: Sequence[str]) -> Self:
        """The same notes, with these classes to train on."""
        missing = [label for label in known if label not in self.counts]
        if missing:
            raise InputError(f"{self.name} has no class {missing[0]!r}; it has {', '.join(self.labels)}")
        if not known:
            raise InputError("no known class; name at least one")
        if len(set(known)) < len(known):
            raise InputError(f"a known class is named twice: {', '.join(known)}")
        return replace(self, known=tuple(known))

    @classmethod
    def _of(
        cls,
        notes: Sequence[Example],
        sounds: Sequence[tuple[np.ndarray, int]],
        groups: Sequence[str | None],
        remarks: Sequence[str],
        known: Sequence[str] | None,
        name: str,
    ) -> Self:
        if not notes:
            raise InputError(f"{name} has no usable notes: {'; '.join(remarks)}")
        for note, (samples, _) in zip(notes, sounds, strict=True):
            if not len(samples):
                raise InputError(f"{note.recording} contains no samples; remove it")
        rate = min(rate for _, rate in sounds)
        cut = tuple(
            Note(note.label, _at_rate(samples, own, rate), group)
            for note, (samples, own), group in zip(notes, sounds, groups, strict=True)
        )
        data = cls(name=name, notes=cut, sample_rate=rate, remarks=tuple(remarks))
        if OOD in data.counts:
            raise InputError(f"{name} has a class {OOD!r}, the name for unknown notes here; rename it")
        return data if known is None else data.with_known(known)


def _at_rate(samples: np.ndarray, own: int, rate: int) -> np.ndarray:
    return samples if own == rate else resample(samples, own, rate)


def _cut(note: Example, samples: np.ndarray, rate: int) -> tuple[np.ndarray, int]:
    assert note.annotation is not None
    start, end = round(note.annotation.start_s * rate), round(note.annotation.end_s * rate)
    if not 0 <= start < min(end, len(samples)):
        raise InputError(
            f"{note.table}: {note.label!r} from {note.annotation.start_s:.3f} to {note.annotation.end_s:.3f} s is not "
            f"within {note.recording.name}, which lasts {len(samples) / rate:.3f} s"
        )
    return samples[start:end], rate


class _Listed(NamedTuple):
    """A row of the table of groups."""

    file: str
    group: str
    known: bool


def _group_table(path: Path) -> list[_Listed]:
    if is_endless(path):
        raise InputError(f"{path} {NOT_REGULAR}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            rows = list(csv.DictReader(opened))
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path}: cannot read the groups ({why}); check the path and that you may read it") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot read the groups ({error}); give a CSV file in UTF-8") from None
    columns = list(rows[0]) if rows else []
    file, group = (
        next((name for name in names if name in columns), None)
        for names in (("file", "recording"), ("group", "source_group"))
    )
    if file is None or group is None:
        raise InputError(
            f"{path}: expected a CSV file with the columns 'file' (or 'recording') and 'group' (or 'source_group'), "
            f"found {', '.join(map(repr, columns)) or 'no rows'}"
        )
    return [_Listed(row[file], row[group], row.get("role") == "known") for row in rows]


def _groups_of(paths: Sequence[Path], rows: Sequence[_Listed], table: Path) -> dict[Path, str]:
    """The group of each file that the table lists, by name or by the end of its path."""
    listed = {Path(row.file).parts: row.group for row in rows}
    found = {}
    for path in paths:
        ends = (path.parts[-n:] for n in range(1, len(path.parts) + 1))
        named = next((listed[end] for end in ends if end in listed), None)
        if named is not None:
            found[path] = named
    if not found:
        raise InputError(f"{table} lists none of the {len(paths)} files, such as {paths[0]}; it names {rows[0].file}")
    return found


def _known_in(rows: Sequence[_Listed], table: Path, notes: Sequence[Example]) -> list[str] | None:
    """The classes of the clips whose `role` in the table is known; None without such a column."""
    chosen = [row for row in rows if row.known]
    if not chosen:
        return None
    listed = _groups_of([note.recording for note in notes], chosen, table)
    return sorted({note.label for note in notes if note.recording in listed})


def _name(path: str | os.PathLike[str]) -> str:
    return Path(path).resolve().name
