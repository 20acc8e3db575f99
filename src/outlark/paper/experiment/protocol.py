"""Training and test notes (Sec. 4.3): a few notes of each known class train, all the rest form the test clip."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from outlark.data.synthetic import Note, concatenate
from outlark.errors import InputError
from outlark.paper.experiment.dataset import Dataset
from outlark.plain_text import number_of
from outlark.segments import Segment

#: At least this share of the groups is kept for training.
TRAIN_SHARE = 1 / 3
#: Length of the pieces in which the faintest sound of a note is sought, s.
PIECE_S = 0.001


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
