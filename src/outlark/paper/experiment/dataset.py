"""Labelled notes to experiment on: synthetic, in folders of clips, or annotated in recordings."""

import csv
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from outlark.audio.recording import read
from outlark.audio.sound import resample
from outlark.commands.train.examples import Example, find_examples
from outlark.data import great_tits, synthetic
from outlark.data.synthetic import Note
from outlark.errors import InputError
from outlark.files.io import NOT_REGULAR, is_endless

#: The category of what is none of the known classes.
OOD = "OOD"
#: Seed of the synthetic notes; docs/decisions/006-synthetic-notes.md says how they were settled.
NOTES_SEED = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Notes of several classes at one sample rate; `remarks` say what was skipped, guessed or odd.

    `known` are the classes to train on; None: drawn anew for each seed.

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
    def synthetic(cls, seed: int = NOTES_SEED) -> Self:
        """The notes of `outlark.data.synthetic`, with the classes and class sizes of Sec. 4.1."""
        notes = tuple(synthetic.notes(seed))
        return cls(
            name="synthetic", notes=notes, sample_rate=synthetic.SAMPLE_RATE, known=tuple(synthetic.KNOWN_CLASSES)
        )

    @classmethod
    def read(
        cls,
        paths: Iterable[str | os.PathLike[str]],
        *,
        audio: Iterable[str | os.PathLike[str]] = (),
        groups: str | os.PathLike[str] | None = None,
        known: Sequence[str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Clips of one note each, in a folder with one subfolder for each class; or notes annotated in recordings.

        `groups` is a CSV file with the bird, recording or session of each clip or recording, so that training and test
        share none: columns `file` or `recording` (path within the folder, or name) and `group` or `source_group`. By
        default every annotated recording is a group of its own. Clips that it does not list are skipped; clips whose
        column `role` is `known` define the known classes.
        """
        asked = [Path(path) for path in paths]
        found = find_examples(asked, audio=audio)
        notes, remarks = list(found.notes), list(found.remarks)
        group_of = {} if found.clips else {note.recording: note.recording.stem for note in notes}
        if groups is not None:
            rows = _group_rows(Path(groups))
            group_of |= _listed_groups(notes, rows, Path(groups))
            notes = [note for note in notes if note.recording in group_of]
            known = known or (_known_clips(notes, rows, Path(groups)) if found.clips else None)
        if n_skipped := len(found.notes) - len(notes):
            remarks.append(f"{n_skipped} of {len(found.notes)} clips skipped: {groups} does not list them")
        sounds = {path: read(path) for path in dict.fromkeys(note.recording for note in notes)}
        rate = min(own for _, own in sounds.values())
        cut = [
            Note(note.label, _cut(note, *sounds[note.recording], rate), group_of.get(note.recording)) for note in notes
        ]
        name = name or asked[0].resolve().name
        data = cls(name=name, notes=tuple(cut), sample_rate=rate, remarks=tuple(remarks))
        if OOD in data.counts:
            raise InputError(f"{data.name} has a class {OOD!r}, the name for unknown notes here; rename it")
        return data if known is None else data.with_known(known)

    def with_known(self, known: Sequence[str]) -> Self:
        """The same notes, with these classes to train on."""
        missing = [label for label in known if label not in self.counts]
        if missing:
            raise InputError(f"{self.name} has no class {missing[0]!r}; it has {', '.join(self.labels)}")
        if len(set(known)) < len(known):
            raise InputError(f"a known class is named twice: {', '.join(known)}")
        return replace(self, known=tuple(known))


def find_dataset(
    paths: Sequence[str], *, known: Sequence[str] = (), groups: str | None = None, audio: Sequence[str] = ()
) -> Dataset:
    """The data set that a user names: synthetic (the default), great-tits, or clips or annotations of their own."""
    named = [path for path in paths if path in ("synthetic", "great-tits")]
    if len(paths) > 1 and named:
        raise InputError(f"{named[0]!r} and other data together; give one data set at a time")
    if not paths or named == ["synthetic"]:
        data = Dataset.synthetic()
        data = data.with_known(known) if known else data
    elif named:
        tables = sorted(great_tits.get().glob("*.selections.txt"))
        data = Dataset.read(tables, known=known or None, groups=groups, name="great-tits")
    else:
        for path in paths:
            if not Path(path).exists():
                raise InputError(
                    f"{path} does not exist; give synthetic, great-tits, a folder of clips, or annotation files"
                )
        data = Dataset.read(paths, audio=audio, groups=groups, known=known or None)
    if set(data.labels) == set(data.known or ()):
        remark = "every class is known, so there is nothing unknown to reject: OOD is meaningless"
        return replace(data, remarks=(*data.remarks, remark))
    return data


def _cut(note: Example, samples: np.ndarray, own: int, rate: int) -> np.ndarray:
    """The samples of a note at the rate of the data set, from those of its recording."""
    if not len(samples):
        raise InputError(f"{note.recording} contains no samples; remove it")
    if note.annotation is not None:
        start, end = round(note.annotation.start_s * own), round(note.annotation.end_s * own)
        if not 0 <= start < min(end, len(samples)):
            raise InputError(
                f"{note.table}: {note.label!r} from {note.annotation.start_s:.3f} to {note.annotation.end_s:.3f} s is "
                f"not within {note.recording.name}, which lasts {len(samples) / own:.3f} s"
            )
        samples = samples[start:end]
    return samples if own == rate else resample(samples, own, rate)


class _GroupRow(NamedTuple):
    file: str
    group: str
    role: str | None


def _group_rows(path: Path) -> list[_GroupRow]:
    if is_endless(path):
        raise InputError(f"{path} {NOT_REGULAR}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            rows = list(csv.DictReader(opened))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot read the groups ({why}); check the path; expected CSV in UTF-8") from None
    columns = list(rows[0]) if rows else []
    file = next((name for name in ("file", "recording") if name in columns), None)
    group = next((name for name in ("group", "source_group") if name in columns), None)
    if file is None or group is None:
        raise InputError(
            f"{path}: expected a CSV file with the columns 'file' (or 'recording') and 'group' (or 'source_group'), "
            f"found {', '.join(map(repr, columns)) or 'no rows'}"
        )
    return [_GroupRow(row[file], row[group], row.get("role")) for row in rows]


def _listed_groups(notes: Sequence[Example], rows: Sequence[_GroupRow], table: Path) -> dict[Path, str]:
    """The group of each file that the table lists, by name or by the end of its path."""
    paths = sorted({note.recording for note in notes})
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


def _known_clips(clips: Sequence[Example], rows: Sequence[_GroupRow], table: Path) -> list[str] | None:
    """The classes of the clips whose role is `known`; None without such a clip."""
    chosen = [row for row in rows if row.role == "known"]
    if not chosen:
        return None
    listed = _listed_groups(clips, chosen, table)
    return sorted({clip.label for clip in clips if clip.recording in listed})
