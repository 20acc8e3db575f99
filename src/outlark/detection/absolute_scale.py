r"""One scale for all classes of all models: the threshold of a class of whole notes.

Descriptions have length 1, the kernel has one width, and all scores belong to one RKHS. The same score therefore means
the same similarity, whatever the bird, and the threshold depends only on the number of chances to resemble the class by
accident: there are more with more examples, n, and fewer the longer the notes last, L seconds.

.. math:: t_0 = 0.10 + 0.07 \ln n - 0.04 \ln L

with twice the n where copies of another pitch are included. If the examples differ more than that allows, their scores
when left out lower it (docs/decisions/009-one-scale.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.features.note import NoteFrontEnd
from outlark.maths.description import describe, score
from outlark.maths.nearest import least_distances_without

#: What noise may mask, in shares of the loudest part of a note.
MASKS = (0.25, 0.5)
#: The loudest part of a note is this quantile of its spectra.
LOUDEST = 0.99
#: Bands by which another bird may sing higher or lower; ±2 gained no more on songs in the field and lost in noise.
PITCH_STEPS = (-1, 1)


@dataclass(frozen=True, eq=False)
class AnnotatedNote:
    """A training note in frames of its recording; `origin` is the number of the recording or clip."""

    spectra: np.ndarray
    start: float
    length: float
    label: Any
    origin: int = 0


def note_samples(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], *, masks: Sequence[float] = (), pitch: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, groups: every note at every shift, and its copies; the same number for each note.

    A handful of examples does not show how notes of a class vary. Copies add the variation that is known: annotations
    are never exact (shifts), noise masks all but the loudest parts (masks), and another bird sings a little higher or
    lower (steps of pitch, unless the examples show that all notes have the same pitch).
    """
    X = [sample for note in notes for sample in _samples(front_end, note, masks, pitch)]
    n = len(X) // len(notes)
    return np.array(X), np.repeat(np.array([note.label for note in notes]), n), np.repeat(np.arange(len(notes)), n)


def _samples(front_end: NoteFrontEnd, note: AnnotatedNote, masks: Sequence[float], pitch: bool) -> list[np.ndarray]:
    shifts = np.array(front_end.shifts_s) * front_end.frame_rate
    reach = int(np.ceil(front_end.surroundings + np.abs(shifts).max(initial=0.0))) + 1
    first = max(0, int(note.start) - reach)
    spectra, start = note.spectra[first : int(note.start + note.length) + reach + 1], note.start - first
    inside = spectra[int(start) : int(np.ceil(start + note.length))]
    loudest = float(np.quantile(inside, LOUDEST)) if inside.size else 0.0

    def described(of: np.ndarray, shift: float) -> np.ndarray:
        return front_end.describe(of, start=start + shift, n_starts=1, length=note.length)[0]

    found = [described(spectra, shift) for shift in shifts]
    for mask in (0.0, *masks):
        masked = np.maximum(spectra - mask * loudest, 0.0) if mask else spectra
        found += [described(masked, 0.0)] if mask else []
        found += [described(in_pitch(masked, step), 0.0) for step in PITCH_STEPS] if pitch else []
    return found


def in_pitch(spectra: np.ndarray, step: int) -> np.ndarray:
    """Spectra (T, bands) shifted by this many bands; silence comes in from outside.

    >>> in_pitch(np.array([[1.0, 2.0, 3.0]]), 1).tolist(), in_pitch(np.array([[1.0, 2.0, 3.0]]), -1).tolist()
    ([[0.0, 1.0, 2.0]], [[2.0, 3.0, 0.0]])
    """
    moved = np.zeros_like(spectra)
    if step > 0:
        moved[:, step:] = spectra[:, :-step]
    else:
        moved[:, : step or None] = spectra[:, -step:]
    return moved


#: ℓ for descriptions of length 1, at most 2 apart: near *one* example is near the class. The target xᵀx is the same for
#: all of them, so the cost (Eq. 7) says nothing about ℓ (docs/decisions/007-one-example.md).
LENGTH_SCALE = 1.0
#: ρ = σ_reg²/σ².
RATIO = 0.1
#: t0 of a single note of one second, its gain when the number of notes grows e-fold, its loss when they last e times as
#: long, and its minimum.
ONE_NOTE, PER_FOLD, PER_LENGTH, LOWEST = 0.10, 0.07, 0.04, 0.10
#: Thresholds are at most this share of the median score of left-out notes, over all classes …
LEFT_OUT_SHARE = 0.6
#: … and never below this share of t0: notes that differ more are not a class.
LEAST_SHARE = 0.5
#: Copies of another pitch are included if they raise the scores of notes from other recordings by this factor.
WORTH = 1.15
#: In a class of at least this many notes, all alike but one, that one is odd if it scores less than this share of t0
#: under the others.
ENOUGH_TO_JUDGE, ODD_SHARE = 6, 0.5
#: This many notes of a class, from as many recordings as possible, are enough to tell whether pitch matters.
ENOUGH = 8
#: Distances below this are rounding.
FLOOR = 1e-9
#: A left-out note is searched for within this share of its length around its annotation, at PLACES places at most.
SEARCH, PLACES = 0.3, 15


def absolute_threshold(n_notes: int, duration_s: float, *, pitch: bool) -> float:
    """t0 of a class, from the number and duration of its notes.

    >>> [round(absolute_threshold(n, 0.08, pitch=False), 3) for n in (1, 2, 5, 20)]
    [0.201, 0.25, 0.314, 0.411]
    >>> round(absolute_threshold(5, 0.08, pitch=True), 3), round(absolute_threshold(5, 2.0, pitch=False), 3)
    (0.362, 0.185)
    """
    chances = PER_FOLD * np.log(n_notes * (2 if pitch else 1)) - PER_LENGTH * np.log(duration_s)
    return max(LOWEST, ONE_NOTE + float(chances))


def thresholds(t0: np.ndarray, left_out: Sequence[np.ndarray]) -> np.ndarray:
    """The threshold of each class, (C,), from its `absolute_threshold` and the scores of its notes when left out.

    All classes are on one scale and have a handful of notes each, so their left-out scores are pooled.

    >>> t0, alike = np.array([0.3, 0.2]), np.array([0.9, 0.8, 0.7, 0.9, 0.8])
    >>> thresholds(t0, [alike, alike])
    array([0.3, 0.2])
    >>> thresholds(t0, [alike / 3, alike / 3]).round(3)
    array([0.16, 0.16])
    """
    pooled = np.concatenate([*left_out, []])
    if not len(pooled):
        return t0
    return np.clip(LEFT_OUT_SHARE * float(np.median(pooled)), LEAST_SHARE * t0, t0)


def odd_one(left_out: np.ndarray, t0: float) -> int | None:
    """Which note of a class is unlike all its others, which are all alike, by what they score when left out; or None.

    A wrong annotation, or a note of another kind, would open the class to all that is like it. A kind takes two notes.

    >>> odd_one(np.array([0.9, 0.8, 0.7, 0.1, 0.9, 0.8]), 0.3)
    3
    >>> odd_one(np.array([0.9, 0.2, 0.7, 0.1, 0.9, 0.8]), 0.3) is None
    True
    """
    if len(left_out) < ENOUGH_TO_JUDGE:
        return None
    lowest, next_one = np.argsort(left_out, kind="stable")[:2].tolist()
    return lowest if left_out[lowest] < ODD_SHARE * t0 and left_out[next_one] >= t0 else None


def left_out_scores(
    front_end: NoteFrontEnd,
    notes: Sequence[AnnotatedNote],
    lengths: Sequence[np.ndarray],
    *,
    pitch: bool,
    apart: bool = False,
) -> list[np.ndarray]:
    """For each class the best score of each of its notes, near its annotation, by the others; in their order.

    `lengths` are those in frames at which each class is looked for. With `apart`, all notes of the same recording are
    left out together, and notes of a class that is from one recording have no score.
    """
    return [
        _left_out_of_class(front_end, of_class, lengths_of_class, pitch, apart)
        for of_class, lengths_of_class in zip(_by_class(notes), lengths, strict=True)
    ]


def _of_many_recordings(notes: Sequence[AnnotatedNote]) -> list[AnnotatedNote]:
    """The first note of each recording, then the second of each …"""
    turns: dict[int, int] = {}
    ordered: list[tuple[int, int, AnnotatedNote]] = []
    for note in notes:
        turns[note.origin] = turns.get(note.origin, 0) + 1
        ordered.append((turns[note.origin], len(ordered), note))
    return [note for _, _, note in sorted(ordered, key=lambda row: row[:2])]


def _by_class(notes: Sequence[AnnotatedNote]) -> list[list[AnnotatedNote]]:
    return [[note for note in notes if note.label == label] for label in sorted({note.label for note in notes})]


def pitch_matters(front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], lengths: Sequence[np.ndarray]) -> bool:
    """Whether copies of another pitch are worth it: whether the examples of different recordings differ in pitch.

    Those of one bird do not, and copies would only make its notes more alike. Where every class comes from one
    recording nothing is known, and other recordings will have other birds.
    """
    some = [note for of_class in _by_class(notes) for note in _of_many_recordings(of_class)[:ENOUGH]]
    plain, moved = (
        np.concatenate([*left_out_scores(front_end, some, lengths, pitch=pitch, apart=True), []])
        for pitch in (False, True)
    )
    return not len(plain) or float(np.median(moved / np.maximum(plain, 1e-9))) > WORTH


def _left_out_of_class(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], lengths: np.ndarray, pitch: bool, apart: bool
) -> np.ndarray:
    parts = np.array([note.origin for note in notes]) if apart else np.arange(len(notes))
    if len(np.unique(parts)) == 1:
        return np.empty(0)
    X, _, groups = note_samples(front_end, notes, masks=MASKS, pitch=pitch)
    left_out = [np.flatnonzero(parts[groups] == part) for part in parts]
    near = (_near(front_end, note, lengths) for note in notes)
    d = least_distances_without(describe(X, LENGTH_SCALE, RATIO), left_out, near)
    return score(np.clip(d, FLOOR, 1.0))


def _near(front_end: NoteFrontEnd, note: AnnotatedNote, lengths: np.ndarray) -> np.ndarray:
    """Descriptions of spans near the annotation of a note, of all these lengths."""
    n_starts = min(PLACES, int(2 * SEARCH * note.length) + 1)
    step = max(1, int(2 * SEARCH * note.length / n_starts))
    first = note.start - step * (n_starts // 2)
    return np.concatenate(
        [front_end.describe(note.spectra, start=first, n_starts=n_starts, length=float(n), step=step) for n in lengths]
    )
