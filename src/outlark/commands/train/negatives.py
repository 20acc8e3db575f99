"""Annotations that say that a sound is *not* a note of a class.

There are three ways to say so: a label such as ``-buzz`` among the examples; separate annotation files, or folders of
clips, in which ``buzz`` means "not buzz" (``outlark train --negative``); and rows that somebody deleted or relabelled
in the output of ``outlark detect`` (`outlark.commands.train.corrections`).
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from outlark.commands.train.examples import Example, Examples, skipped_in_words, why_not
from outlark.commands.train.sounds import Clip, hear
from outlark.detection.detector import NoteDetector
from outlark.detection.negatives import AsGoodAsNotes, as_good_as_notes
from outlark.errors import InputError
from outlark.plain_text import number_of

#: Before the name of a class: not a note of it.
NOT = "-"


def told_apart(examples: Examples, *, classes: Collection[str] = (), named: Collection[str] = ()) -> Examples:
    """Examples whose labels with a minus sign become negatives.

    ``-buzz`` means "not buzz" if ``buzz`` is a class: it has examples, or is one of `classes`. It is a class of its own
    if it is one of `classes` or `named`, or if there is no class ``buzz``. The interpretation is remarked. Other
    annotations with the verdict unknown, ambiguous or silence are skipped.

    Parameters
    ----------
    examples : Examples
        Found with ``any_verdict``: people who relabel a row as ``-buzz`` seldom change its verdict.
    classes : collection of str
        Of a model that is trained again.
    named : collection of str
        Classes that were asked for by name.

    Examples
    --------
    >>> from pathlib import Path
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
    found = replace(
        examples,
        notes=tuple(notes),
        negatives=(*examples.negatives, *negatives),
        remarks=(*examples.remarks, *skipped_in_words(skipped), *remarks),
    )
    _check_for_both(found)
    return found


def with_negatives(examples: Examples, negatives: Examples, classes: Collection[str]) -> Examples:
    """Examples with separate negatives, among which ``buzz`` and ``-buzz`` both mean "not buzz".

    Negatives of labels that are not classes are skipped with a remark; it is an error if all of them are.
    """
    meant = {label: label for label in classes} | {f"{NOT}{label}": label for label in classes}
    taken = [replace(note, label=meant[note.label]) for note in negatives.notes if note.label in meant]
    lost = Counter(note.label for note in negatives.notes if note.label not in meant)
    if not taken:
        raise InputError(
            f"the negatives are of {', '.join(map(repr, lost))}, which is not a class; the classes are "
            f"{', '.join(sorted(classes))}"
        )
    remarks = [f"{number_of(n, 'negative')} skipped: there is no class {label!r}" for label, n in lost.items()]
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
    """Make a trained detector reject negatives, clips and annotations; returns remarks."""
    clips, annotated = ([note for note in negatives if note.is_clip is wanted] for wanted in (True, False))
    before = len(detector.negatives_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AsGoodAsNotes)  # reported below, with the names of the files
        if clips:
            _reject_clips(detector, clips, channel)
        remarks = _reject_annotations(detector, annotated, channel, watch)
    new = detector.negatives_[before:]
    return remarks if detector.note_model_ is None else [*remarks, *as_good_as_notes(detector.note_model_, new)]


def covers(one: Example, other: Example) -> bool:
    """Whether two annotations of one recording share half of the shorter one; a clip is the whole recording.

    >>> from pathlib import Path
    >>> from outlark.annotations import Annotation
    >>> annotations = [Annotation(start_s=start_s, end_s=end_s) for start_s, end_s in ((0, 4), (3, 5), (4, 9))]
    >>> a, b, c = (Example(label="a", recording=Path("a.wav"), annotation=annotation) for annotation in annotations)
    >>> covers(a, b), covers(a, c)
    (True, False)
    """
    if one.annotation is None or other.annotation is None:
        return True
    shared = min(one.annotation.end_s, other.annotation.end_s) - max(one.annotation.start_s, other.annotation.start_s)
    return 2 * shared >= min(
        one.annotation.end_s - one.annotation.start_s, other.annotation.end_s - other.annotation.start_s
    )


def pairs(
    some: Iterable[Example], others: Iterable[Example], *, any_label: bool = False
) -> Iterator[tuple[Example, Example]]:
    """Pairs of annotations of about the same sound (`covers`), with the same label or any."""
    where: dict[str, list[Example]] = defaultdict(list)
    for other in others:
        where[other.place].append(other)
    for one in some:
        near = (other for other in where[one.place] if any_label or other.label == one.label)
        yield from ((one, other) for other in near if covers(one, other))


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


def _check_for_both(examples: Examples) -> None:
    for negative, note in pairs(examples.negatives, examples.notes):
        raise InputError(
            f"{negative} ({negative.table or 'a clip'}) is a negative of {note.label!r}, but {note} "
            f"({note.table or 'a clip'}) is an example of it; keep one of them"
        )


def _reject_clips(detector: NoteDetector, notes: Sequence[Example], channel: int | str) -> None:
    clips, before = [Clip.of(note, channel) for note in notes], len(detector.negatives_)
    labels, rates = [note.label for note in notes], [clip.rate for clip in clips]
    detector.reject_clips([clip.heard for clip in clips], labels, rates)
    for record, clip in zip(detector.negatives_[before:], clips, strict=True):
        clip.put_in_place(record)


def _reject_annotations(
    detector: NoteDetector, notes: Sequence[Example], channel: int | str, watch: Callable[[int, int], None]
) -> list[str]:
    """One recording at a time, to save memory."""
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
