"""Labelled notes to experiment on, and how they are used (Sec. 4.3): a few train, all the rest form the test clip."""

import csv
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from outlark.audio.recording import read
from outlark.audio.sound import resample
from outlark.commands.train.examples import Example, find_examples
from outlark.data import great_tits, synthetic
from outlark.data.synthetic import Note, concatenate
from outlark.errors import InputError
from outlark.files.io import NOT_REGULAR, is_endless
from outlark.plain_text import number_of
from outlark.segments import Segment

#: The category of what is none of the known classes.
OOD = "OOD"
#: Seed of the synthetic notes; docs/decisions/006-synthetic-notes.md says how they were settled.
NOTES_SEED = 4
#: At least this share of the groups is kept for training.
TRAIN_SHARE = 1 / 3
#: Length of the pieces in which the faintest sound of a note is sought, s.
PIECE_S = 0.001


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
        if (end := next((end for end in ends if end in listed), None)) is not None:
            found[path] = listed[end]
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


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a data set is used; the defaults are the experiment of the paper."""

    #: Training notes of each known class.
    n_train: int = 2
    #: Silence between the test notes.
    gap_s: float = 0.0
    #: White noise in training and test clips alike; None: none.
    snr_db: float | None = None
    #: Classes to draw where the data set does not name the known ones; 0 unknown: all others.
    n_known: int = 3
    n_unknown: int = 0
    #: Test notes of each class at most; 0: all.
    max_test: int = 0

    def changes(self) -> dict[str, object]:
        """What differs from the experiment of the paper."""
        plain = Protocol()
        return {name: value for name, value in vars(self).items() if value != getattr(plain, name)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """One repetition: training notes of the known classes, the test clip (n,), and the notes in it."""

    known: tuple[str, ...]
    train: list[Note] = field(repr=False)
    audio: np.ndarray = field(repr=False)
    truth: list[Segment] = field(repr=False)
    sample_rate: int


def draw(data: Dataset, protocol: Protocol, seed: int) -> Draw:
    """The training notes and the test clip for a seed; where groups are known, they never share one.

    >>> drawn = draw(Dataset.synthetic(), Protocol(), seed=1)
    >>> len(drawn.train), len(drawn.truth)
    (6, 50)
    """
    rng = np.random.default_rng(seed)
    known, labels = _classes(data, protocol, rng)
    notes = [note for note in data.notes if note.label in labels]
    train_side, test_side = _sides(notes, known, protocol.n_train, rng, data)
    train, left = _training(train_side, known, protocol.n_train, rng)
    test = test_side if data.grouped else left
    missing = [label for label in known if all(note.label != label for note in test)]
    if missing:
        raise InputError(
            f"no note of {missing[0]!r} is left to test on; train on fewer of {data.name}, or choose other classes"
        )
    tested = _at_most(test, protocol.max_test, rng)
    order = rng.permutation(len(tested))
    audio, truth = concatenate(
        [tested[i] for i in order],
        gap_s=protocol.gap_s,
        edge_s=protocol.gap_s,
        snr_db=protocol.snr_db,
        rng=rng,
        sample_rate=data.sample_rate,
        floor=_faint(notes, data.sample_rate),
    )
    noisy = train if protocol.snr_db is None else [_noisy(note, protocol.snr_db, rng) for note in train]
    return Draw(known=known, train=noisy, audio=audio, truth=truth, sample_rate=data.sample_rate)


def _classes(data: Dataset, protocol: Protocol, rng: np.random.Generator) -> tuple[tuple[str, ...], set[str]]:
    """The known classes, and all classes that take part."""
    if data.known is not None:
        return data.known, set(data.labels)
    able = [label for label in data.labels if _can_be_known(data, label, protocol)]
    if len(able) < protocol.n_known:
        raise InputError(
            f"{data.name} has {number_of(len(able), 'class')} with more than {number_of(protocol.n_train, 'note')}"
            f"{', of two groups or more' if data.grouped else ''}, enough to train and test on; expected "
            f"{protocol.n_known} known ones. Ask for fewer known classes (n_known) or fewer training notes (n_train)"
        )
    known = tuple(sorted(rng.choice(able, protocol.n_known, replace=False).tolist()))
    others = [label for label in data.labels if label not in known]
    if protocol.n_unknown > len(others):
        raise InputError(f"{data.name} has {len(others)} other classes, expected n_unknown={protocol.n_unknown}")
    some = rng.choice(others, protocol.n_unknown, replace=False).tolist() if protocol.n_unknown else others
    return known, {*known, *some}


def _can_be_known(data: Dataset, label: str, protocol: Protocol) -> bool:
    """Whether there are more notes than training takes, from at least two groups."""
    own = [note for note in data.notes if note.label == label]
    return len(own) > protocol.n_train and (not data.grouped or len({note.group for note in own}) > 1)


def _sides(
    notes: Sequence[Note], known: Sequence[str], n_train: int, rng: np.random.Generator, data: Dataset
) -> tuple[list[Note], list[Note]]:
    """Notes that may train and notes that may test: all for both without groups, else from different groups.

    In random order, the first third of the groups, and more until there are enough training notes, is for training, as
    long as every known class keeps a group for the test.
    """
    if not data.grouped:
        return list(notes), list(notes)
    groups = rng.permutation(sorted({str(note.group) for note in notes})).tolist()
    left = {label: {note.group for note in notes if note.label == label} for label in known}
    there: Counter[str] = Counter()
    chosen: set[str] = set()
    for group in groups:
        own = Counter(note.label for note in notes if note.group == group and note.label in known)
        enough = all(there[label] >= n_train for label in known)
        last = any(left[label] == {group} for label in known)
        if (enough and len(chosen) >= TRAIN_SHARE * len(groups)) or last:
            continue
        useful = any(there[label] < n_train for label in own)
        if useful or len(chosen) < TRAIN_SHARE * len(groups):
            chosen.add(group)
            there.update(own)
            for label in left:
                left[label].discard(group)
    return [note for note in notes if note.group in chosen], [note for note in notes if note.group not in chosen]


def _training(
    notes: Sequence[Note], known: Sequence[str], n: int, rng: np.random.Generator
) -> tuple[list[Note], list[Note]]:
    """Random training notes of each class, and those that are left."""
    chosen: list[int] = []
    for label in known:
        own = [i for i, note in enumerate(notes) if note.label == label]
        if len(own) < n or (len(own) == n == len(notes)):
            raise InputError(
                f"{len(own)} notes of {label!r} to train on, expected {n}; ask for fewer, or choose other classes"
            )
        chosen += rng.choice(own, n, replace=False).tolist()
    return [notes[i] for i in chosen], [note for i, note in enumerate(notes) if i not in chosen]


def _at_most(notes: Sequence[Note], n: int, rng: np.random.Generator) -> list[Note]:
    """At most n notes of each class, drawn at random; all of them for 0."""
    if not n:
        return list(notes)
    of_class: dict[str, list[Note]] = defaultdict(list)
    for i in rng.permutation(len(notes)):
        of_class[notes[i].label].append(notes[i])
    return [note for label in sorted(of_class) for note in of_class[label][:n]]


def _noisy(note: Note, snr_db: float, rng: np.random.Generator) -> Note:
    noise = rng.standard_normal(len(note.samples))
    power = np.mean(note.samples**2) / 10 ** (snr_db / 10)
    return Note(note.label, note.samples + np.sqrt(power) * noise, note.group)


def _faint(notes: Sequence[Note], rate: int) -> float:
    """Median rms of the faintest piece of each note: the level of the silence between notes."""
    n = max(1, round(PIECE_S * rate))
    pieces = [note.samples[: len(note.samples) // n * n].reshape(-1, n) for note in notes if len(note.samples) >= n]
    return float(np.median([np.sqrt(np.mean(of_note**2, axis=1)).min() for of_note in pieces]))
