"""Annotations that say that a sound is *not* a note of a class.

There are three ways to say so: a label such as ``-buzz`` among the examples; separate annotation files, or folders of
clips, in which ``buzz`` means "not buzz" (``outlark train --negative``); and rows that somebody deleted or relabelled
in the output of ``outlark detect`` (`outlark.commands.train.retraining`).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from outlark.commands.train.examples import Example, Examples, skipped_in_words, why_not
from outlark.errors import InputError
from outlark.plain_text import number_of

#: Before the name of a class: not a note of it.
NOT = "-"


def told_apart(examples: Examples, *, classes: Collection[str] = (), named: Collection[str] = ()) -> Examples:
    """Examples whose labels with a minus sign become negatives.

    ``-buzz`` means "not buzz" if ``buzz`` is a class: it has examples, or is one of `classes`. It is a class of its own
    if it is one of `classes` or `named`, or if there is no class ``buzz``. A remark says which. Other
    annotations with the verdict unknown, ambiguous or silence are skipped. The examples are found with ``any_verdict``:
    people who relabel a row as ``-buzz`` seldom change its verdict. `classes` are those of a model that is trained
    again; `named` were asked for by name.

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
    return _checked(replace(examples, notes=tuple(notes)), negatives, [*skipped_in_words(skipped), *remarks])


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
    examples = replace(examples, refused={**examples.refused, **negatives.refused})
    return _checked(examples, taken, [*negatives.remarks, *remarks])


def covers(one: Example, other: Example) -> bool:
    """Whether two annotations of one recording share half of the shorter one; a clip is the whole recording.

    >>> from pathlib import Path
    >>> from outlark.annotations import Annotation
    >>> annotations = [Annotation(start_s=start_s, end_s=end_s) for start_s, end_s in ((0, 4), (3, 5), (4, 9))]
    >>> a, b, c = (Example(label="a", recording=Path("a.wav"), annotation=annotation) for annotation in annotations)
    >>> covers(a, b), covers(a, c)
    (True, False)
    """
    a, b = one.annotation, other.annotation
    if a is None or b is None:
        return True
    return a.span.shares_half(b.span)


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


def _checked(examples: Examples, negatives: Sequence[Example], remarks: Sequence[str]) -> Examples:
    """With more negatives and remarks; an error if a sound is both an example and a negative."""
    found = replace(examples, negatives=(*examples.negatives, *negatives), remarks=(*examples.remarks, *remarks))
    for negative, note in pairs(found.negatives, found.notes):
        raise InputError(
            f"{negative} ({negative.table or 'a clip'}) is a negative of {note.label!r}, but {note} "
            f"({note.table or 'a clip'}) is an example of it; keep one of them"
        )
    return found
