"""Which annotations say that a sound is *not* a note of a class, and what a detector learns of them.

There are three ways to say so: a label such as ``-buzz`` among the examples ("not buzz"); annotation files, or folders
of clips, of their own, in which ``buzz`` means "not buzz" (``outlark train --negative``); and rows that somebody
deleted or relabelled in what ``outlark detect`` had found (`outlark.commands.train.corrections`).
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from outlark.commands.train.examples import Example, Examples, told_left_out, why_not
from outlark.commands.train.sounds import Clip, hear
from outlark.detection.detector import NoteDetector
from outlark.detection.negatives import AsGoodAsNotes, as_good_as_notes
from outlark.errors import InputError
from outlark.plain_text import number_of

#: Before the name of a class: a sound that is not a note of it.
NOT = "-"


def told_apart(examples: Examples, *, classes: Collection[str] = (), named: Collection[str] = ()) -> Examples:
    """Examples with the annotations that begin with a minus among their negatives.

    ``-buzz`` means "not buzz" where ``buzz`` is a class: there are examples of it, or it is one of `classes`. It is a
    class of its own if it is one of `classes` or `named`, or if there is no class ``buzz``. Which it was is remarked.
    What is not a negative and was called unknown, ambiguous or silence is left out.

    Parameters
    ----------
    examples : Examples
        Found with ``any_verdict``: somebody who writes ``-buzz`` over a row seldom changes its verdict.
    classes : collection of str
        Of a model that is trained again.
    named : collection of str
        Names of classes that were given.

    Raises
    ------
    InputError
        For a place that is said to be a note of a class and not to be one.

    Examples
    --------
    >>> from pathlib import Path
    >>> notes = tuple(Example(label=name, recording=Path(name, "1.wav")) for name in ("buzz", "-buzz", "-trill"))
    >>> found = told_apart(Examples(notes=notes, clips=True))
    >>> found.labels, [note.label for note in found.negatives]
    (['-trill', 'buzz'], ['buzz'])
    >>> for remark in found.remarks:
    ...     print(remark)
    1 '-buzz' taken for: not 'buzz' (if it is a class of its own, give --class=-buzz)
    '-trill' is learnt as a class of this name: there is no class 'trill' that it could be the negative of
    """
    meant = _meant(examples.labels, classes, named)
    notes, negatives, left_out = [], [], Counter[str]()
    for note in examples.notes:
        why = None if note.mark is None else why_not(note.mark)
        if note.label in meant:
            negatives.append(replace(note, label=meant[note.label]))
        elif why is not None:
            left_out[why] += 1
        else:
            notes.append(note)
    counts = Counter(note.label for note in examples.notes)
    remarks = [
        f"{counts[label]} {label!r} taken for: not {of!r} (if it is a class of its own, give --class={label})"
        for label, of in meant.items()
    ]
    odd = [label for label in examples.labels if label.startswith(NOT) and label not in {*meant, *classes, *named}]
    remarks += [
        f"{label!r} is learnt as a class of this name: there is no class {label[1:].strip()!r} that it could be the "
        "negative of"
        for label in odd
    ]
    found = replace(
        examples,
        notes=tuple(notes),
        negatives=(*examples.negatives, *negatives),
        remarks=(*examples.remarks, *told_left_out(left_out), *remarks),
    )
    _check_for_both(found)
    return found


def with_negatives(examples: Examples, negatives: Examples, classes: Collection[str]) -> Examples:
    """Examples, and what was found elsewhere as negatives: there, ``buzz`` and ``-buzz`` both mean "not buzz".

    Negatives of what is not a class are left out, with a remark.

    Raises
    ------
    InputError
        If all of them are, or a place is said to be a note of a class and not to be one.
    """
    meant = {label: label for label in classes} | {f"{NOT}{label}": label for label in classes}
    taken = [replace(note, label=meant[note.label]) for note in negatives.notes if note.label in meant]
    lost = Counter(note.label for note in negatives.notes if note.label not in meant)
    if not taken:
        raise InputError(
            f"there are negatives of {', '.join(map(repr, lost))}, but no such class; the classes are "
            f"{', '.join(sorted(classes))}"
        )
    remarks = [f"{number_of(n, 'negative')} left out: there is no class {label!r}" for label, n in lost.items()]
    found = replace(
        examples,
        negatives=(*examples.negatives, *taken),
        remarks=(*examples.remarks, *negatives.remarks, *remarks),
    )
    _check_for_both(found)
    return found


def reject(
    detector: NoteDetector, negatives: Sequence[Example], channel: int | str, watch: Callable[[int, int], None]
) -> list[str]:
    """Let a trained detector reject negatives; what is to be said of them.

    Parameters
    ----------
    detector : NoteDetector
    negatives : sequence of Example
        Clips, and marks in recordings.
    channel, watch
        As for `outlark.commands.train.learning.learn`.
    """
    clips, marks = ([note for note in negatives if note.is_clip is wanted] for wanted in (True, False))
    before = len(detector.negatives_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AsGoodAsNotes)  # it is said below, by the names of the files
        if clips:
            _reject_clips(detector, clips, channel)
        remarks = _reject_marks(detector, marks, channel, watch)
    new = detector.negatives_[before:]
    return remarks if detector.note_model_ is None else [*remarks, *as_good_as_notes(detector.note_model_, new)]


def covers(one: Example, other: Example) -> bool:
    """Whether two annotations in one recording share half of the shorter of them; a clip is all of it.

    >>> from pathlib import Path
    >>> from outlark.annotations import Mark
    >>> marks = [Mark(start_s=start_s, end_s=end_s) for start_s, end_s in ((0, 4), (3, 5), (4, 9))]
    >>> a, b, c = (Example(label="a", recording=Path("a.wav"), mark=mark) for mark in marks)
    >>> covers(a, b), covers(a, c)
    (True, False)
    """
    if one.mark is None or other.mark is None:
        return True
    shared = min(one.mark.end_s, other.mark.end_s) - max(one.mark.start_s, other.mark.start_s)
    return 2 * shared >= min(one.mark.end_s - one.mark.start_s, other.mark.end_s - other.mark.start_s)


def pairs(
    some: Iterable[Example], others: Iterable[Example], *, any_label: bool = False
) -> Iterator[tuple[Example, Example]]:
    """Those of `some` and of `others` that are of about the same place (`covers`), and have one label or any."""
    where: dict[str, list[Example]] = defaultdict(list)
    for other in others:
        where[other.place].append(other)
    for one in some:
        near = (other for other in where[one.place] if any_label or other.label == one.label)
        yield from ((one, other) for other in near if covers(one, other))


def _meant(labels: Sequence[str], classes: Collection[str], named: Collection[str]) -> dict[str, str]:
    """For each label that is a negative the class that it is not."""
    known = {*classes, *named, *(label for label in labels if not label.startswith(NOT))}
    meant: dict[str, str] = {}
    for label in sorted(set(labels) - known, key=lambda label: (len(label), label)):
        of = label.removeprefix(NOT).strip()
        if of in known:
            meant[label] = of
        else:
            known.add(label)
    return meant


def _check_for_both(examples: Examples) -> None:
    for negative, note in pairs(examples.negatives, examples.notes):
        raise InputError(
            f"{negative} ({negative.table or 'a clip'}) is said not to be {note.label!r}, but {note} "
            f"({note.table or 'a clip'}) is an example of it; keep one of them"
        )


def _reject_clips(detector: NoteDetector, notes: Sequence[Example], channel: int | str) -> None:
    clips, before = [Clip.of(note, channel) for note in notes], len(detector.negatives_)
    labels, rates = [note.label for note in notes], [clip.rate for clip in clips]
    detector.reject_clips([clip.heard for clip in clips], labels, rates)
    for record, clip in zip(detector.negatives_[before:], clips, strict=True):
        clip.put_in_place(record)


def _reject_marks(
    detector: NoteDetector, notes: Sequence[Example], channel: int | str, watch: Callable[[int, int], None]
) -> list[str]:
    """One recording after the other, so that memory does not grow with their number."""
    of_recording: dict[Path, list[Example]] = defaultdict(list)
    for note in notes:
        of_recording[note.recording].append(note)
    remarks: list[str] = []
    for number, own in enumerate(of_recording.values()):
        heard, before = hear(own, channel, lambda done, total: None), len(detector.negatives_)
        detector.reject([s.samples for s in heard.stretches], [s.notes for s in heard.stretches], heard.rates)
        heard.put_in_place(detector.negatives_[before:])
        for record in detector.negatives_[before:]:
            record["recording"] = number
        remarks += heard.beyond
        watch(number + 1, len(of_recording))
    return remarks
