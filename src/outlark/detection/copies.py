"""Samples of a training note: as annotated, and as it would be a little earlier, in noise, or from another bird.

A handful of examples does not show how notes of a class vary. Copies add the variation that is known: annotations are
never exact (shifts), noise masks all but the loudest parts (masks), and another bird sings a little higher or lower
(steps of pitch). Masks are always included; steps of pitch only if the examples do not show that all notes have the
same pitch (`outlark.detection.absolute_scale`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlark.features.note import NoteFrontEnd

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
    """X, y, groups: every note at every shift, and its copies; the same number for each note."""
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
