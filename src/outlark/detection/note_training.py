"""Training at note level: the notes as samples, copies of them, trial lengths, leave-one-out scores, edges.

A handful of examples does not show how notes of a class vary. Copies add the variation that is known: annotations are
never exact (shifts), noise masks all but the loudest parts (masks), and another bird sings a little higher or lower
(steps of pitch, unless the examples show that all notes have the same pitch).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from outlark.detection.confirmation import joined, wide_surroundings
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.model import NoteModel
from outlark.detection.scorer import contrast_of, learn_edges
from outlark.detection.second_stage import SecondStage
from outlark.detection.thresholds import absolute_threshold, odd_one, trained_thresholds
from outlark.detection.training import Material, check_material, training_record
from outlark.estimators.mddkm import MDDKM
from outlark.features.base import Frames
from outlark.features.clip import Embedding
from outlark.features.note import NoteFrontEnd, cumulated
from outlark.maths.description import describe, score
from outlark.maths.nearest import nearest_without
from outlark.segments import Segment

#: What noise may mask, in shares of the loudest part of a note.
MASKS = (0.25, 0.5)
#: The loudest part of a note is this quantile of its spectra.
LOUDEST = 0.99
#: Bands by which another bird may sing higher or lower; ±2 gained no more on songs in the field and lost in noise.
PITCH_STEPS = (-1, 1)


#: ℓ for descriptions of length 1, at most 2 apart: near *one* example is near the class. The target xᵀx is the same for
#: all of them, so the cost (Eq. 7) says nothing about ℓ (docs/decisions/007-one-example.md).
LENGTH_SCALE = 1.0
#: ρ = σ_reg²/σ².
RATIO = 0.1
#: Copies of another pitch are included if they raise the scores of notes from other recordings by this factor.
MIN_PITCH_GAIN = 1.15
#: This many notes of a class, from as many recordings as possible, are enough to tell whether pitch matters.
ENOUGH_FOR_PITCH = 8
#: Distances below this are rounding.
LEAST_DISTANCE = 1e-9
#: A left-out note is searched for within this share of its length around its annotation, at MAX_PLACES places at most.
SEARCH_SHARE, MAX_PLACES = 0.3, 15
#: MDD-KM for descriptions of length 1, on the absolute scale. Sizes are not balanced, because t0 grows with
#: the number of notes; thresholds are those of whole notes, not of samples.
NOTE_SETTINGS: dict[str, Any] = {
    "metric": "euclidean",
    "sigma": 1.0,
    "sigma_reg": RATIO**0.5,
    "length_scale": LENGTH_SCALE,
    "balance": None,
    "threshold": 0.0,
    "landmarks": None,
}


@dataclass(frozen=True, eq=False)
class AnnotatedNote:
    """A training note in frames of its recording; `origin` is the number of the recording or clip."""

    spectra: np.ndarray
    start: float
    length: float
    label: Any
    origin: int = 0


def fit_notes(material: Material, front_end: NoteFrontEnd | None, embedding: Embedding | None = None) -> NoteModel:
    """Train on annotated notes, with a front end chosen for them if none is given."""
    frames, own, choice = transformed(material, front_end)
    notes = annotated_notes(own, frames, material.segments, clips=material.clips)
    fitted, used = _on_the_absolute_scale(own, notes, frames)
    model = NoteModel(front_end=own, choice=choice, **fitted, **of_any_model(material))
    spans = [(note.spectra, note.start, note.start + note.length, note.label) for note in used]
    edges = learn_edges(spans, model.classes.tolist(), inside=material.clips)
    second_stage = None
    if embedding is not None:  # trained on the notes that the first stage has used
        numbers = np.unique(np.concatenate(model.class_model.notes_)).tolist()
        chosen = [material.notes[i] for i in numbers]
        second_stage = SecondStage.fit(embedding, NOTE_SETTINGS, material.recordings, chosen)
    return replace(model, edges=edges, second_stage=second_stage)


def transformed(material: Material, front_end: NoteFrontEnd | None) -> tuple[list[Frames], NoteFrontEnd, list[str]]:
    """The frames of each recording, the fitted front end, and why it has its settings if it was chosen."""
    check_material(material)
    own, why = choose_front_end(material) if front_end is None else (clone(front_end), [])
    return material.frames(own), own, list(why)


def of_any_model(material: Material) -> dict[str, Any]:
    """What every trained model keeps of its material."""
    durations = material.durations_s.values()
    shortest, longest = np.array([min(d) for d in durations]), np.array([max(d) for d in durations])
    return {"shortest_s": shortest, "longest_s": longest, "training": training_record(material)}


def annotated_notes(
    front_end: NoteFrontEnd, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]], *, clips: bool = False
) -> list[AnnotatedNote]:
    """The annotated notes in frames. Every clip counts as a recording."""
    hop = front_end.hop_samples_
    found = [
        AnnotatedNote(f.features, s.start / hop, (s.end - s.start) / hop, s.label, r)
        for r, (f, own) in enumerate(zip(frames, segments, strict=True))
        for s in own
    ]
    return [replace(note, origin=number) for number, note in enumerate(found)] if clips else found


def _on_the_absolute_scale(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], frames: Sequence[Frames]
) -> tuple[dict[str, Any], Sequence[AnnotatedNote]]:
    """Fields of the model, and the notes that it has learnt from."""
    classes = np.unique([note.label for note in notes])
    lengths, allowed = trial_lengths(front_end, notes, classes)
    of_class = [lengths[column] for column in allowed.T]
    pitch = pitch_matters(front_end, notes, of_class)
    left_out = left_out_scores(front_end, notes, of_class, pitch=pitch)
    t0 = _absolute_thresholds(front_end, notes, classes, pitch)
    kept = _without_odd_ones(notes, classes, left_out, t0)
    own = [notes[i] for i in kept]
    if len(own) < len(notes):
        lengths, allowed = trial_lengths(front_end, own, classes)
        of_class = [lengths[column] for column in allowed.T]
        left_out = left_out_scores(front_end, own, of_class, pitch=pitch)
        t0 = _absolute_thresholds(front_end, own, classes, pitch)
    X, y, groups = note_samples(front_end, own, masks=MASKS, pitch=pitch)
    wide, confirmed = None, left_out
    if front_end.surroundings:
        X_wide = note_samples(front_end, own, masks=MASKS, pitch=pitch, wide=True)[0]
        wide = [describe(X_wide[y == label], LENGTH_SCALE, RATIO) for label in classes.tolist()]
        confirmed = left_out_scores(front_end, own, of_class, pitch=pitch, confirmed=True)
    fields = {
        "class_model": MDDKM(**NOTE_SETTINGS).fit(X, y, groups=np.array(kept)[groups]),
        "lengths": lengths,
        "allowed": allowed,
        "spectral_thresholds": trained_thresholds(t0, left_out),
        "left_out": [np.sort(of_notes) for of_notes in confirmed],
        "wide": wide,
        "contrast_db": float(np.median([contrast_of(f.activity, front_end.frame_rate) for f in frames])),
    }
    return fields, own


def _without_odd_ones(
    notes: Sequence[AnnotatedNote], classes: np.ndarray, left_out: Sequence[np.ndarray], t0: np.ndarray
) -> list[int]:
    """The numbers of the notes to keep: all but at most one odd note of each class, which a warning names."""
    kept: list[int] = []
    for c, (label, of_notes) in enumerate(zip(classes.tolist(), left_out, strict=True)):
        own = [i for i, note in enumerate(notes) if note.label == label]
        odd = odd_one(of_notes, t0[c])
        kept += [i for number, i in enumerate(own) if number != odd]
        if odd is not None:
            warnings.warn(
                f"note {odd + 1} of the {len(own)} examples of {label!r} is unlike all the others and is not used, "
                "because the class would then accept other sounds; give a second one like it, or a class of its own",
                stacklevel=2,
            )
    return sorted(kept)


def _absolute_thresholds(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], classes: np.ndarray, pitch: bool
) -> np.ndarray:
    """t0 of each class, (C,)."""
    of_class = [[n.length / front_end.frame_rate for n in notes if n.label == label] for label in classes.tolist()]
    return np.array([absolute_threshold(len(d), float(np.median(d)), pitch=pitch) for d in of_class])


def trial_lengths(
    front_end: NoteFrontEnd, notes: Sequence[AnnotatedNote], classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Trial lengths in frames, and which of them each class may have: about those of its training notes."""
    durations = [note.length / front_end.frame_rate for note in notes]
    lengths = front_end.lengths(durations)
    allowed = np.zeros((len(lengths), len(classes)), dtype=bool)
    for c, label in enumerate(classes.tolist()):
        own = front_end.lengths([d for d, note in zip(durations, notes, strict=True) if note.label == label])
        # the slack is wider than a step between lengths, so that every class has one
        allowed[:, c] = (lengths >= own[0] * (1 - 1e-9)) & (lengths <= own[-1] * (1 + 1e-9))
    used = allowed.any(axis=1)
    return lengths[used], allowed[used]


def note_samples(
    front_end: NoteFrontEnd,
    notes: Sequence[AnnotatedNote],
    *,
    masks: Sequence[float] = (),
    pitch: bool = False,
    wide: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, groups: every note at every shift, and its copies; the same number for each note."""
    X = [sample for note in notes for sample in _samples(front_end, note, masks, pitch, wide)]
    n = len(X) // len(notes)
    return np.array(X), np.repeat(np.array([note.label for note in notes]), n), np.repeat(np.arange(len(notes)), n)


def _samples(
    front_end: NoteFrontEnd, note: AnnotatedNote, masks: Sequence[float], pitch: bool, wide: bool
) -> list[np.ndarray]:
    shifts = np.array(front_end.shifts_s) * front_end.frame_rate
    surroundings = wide_surroundings(front_end, note.length) if wide else front_end.surroundings
    reach = int(np.ceil(surroundings + np.abs(shifts).max(initial=0.0))) + 1
    first = max(0, int(note.start) - reach)
    spectra, start = note.spectra[first : int(note.start + note.length) + reach + 1], note.start - first
    inside = spectra[int(start) : int(np.ceil(start + note.length))]
    loudest = float(np.quantile(inside, LOUDEST)) if inside.size else 0.0

    def described(of: np.ndarray, shift: float) -> np.ndarray:
        return front_end.describe_spans(cumulated(of), np.array([start + shift]), note.length, surroundings)[0]

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


def left_out_scores(
    front_end: NoteFrontEnd,
    notes: Sequence[AnnotatedNote],
    lengths: Sequence[np.ndarray],
    *,
    pitch: bool,
    apart: bool = False,
    confirmed: bool = False,
) -> list[np.ndarray]:
    """For each class the best score of each of its notes, near its annotation, by the others; in their order.

    `lengths` are those in frames at which each class is looked for. With `apart`, all notes of the same recording are
    left out together, and notes of a class that is from one recording have no score. If they are to be `confirmed`,
    scores are joined with those of wide surroundings at the same place.
    """
    return [
        _left_out_of_class(front_end, of_class, lengths_of_class, pitch, apart, confirmed)
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
    some = [note for of_class in _by_class(notes) for note in _of_many_recordings(of_class)[:ENOUGH_FOR_PITCH]]
    plain, moved = (
        np.concatenate([*left_out_scores(front_end, some, lengths, pitch=pitch, apart=True), []])
        for pitch in (False, True)
    )
    return not len(plain) or float(np.median(moved / np.maximum(plain, 1e-9))) > MIN_PITCH_GAIN


def _left_out_of_class(
    front_end: NoteFrontEnd,
    notes: Sequence[AnnotatedNote],
    lengths: np.ndarray,
    pitch: bool,
    apart: bool,
    confirmed: bool,
) -> np.ndarray:
    parts = np.array([note.origin for note in notes]) if apart else np.arange(len(notes))
    if len(np.unique(parts)) == 1:
        return np.empty(0)
    X, _, groups = note_samples(front_end, notes, masks=MASKS, pitch=pitch)
    left_out = [np.flatnonzero(parts[groups] == part) for part in parts]
    near = (_near(front_end, note, lengths) for note in notes)
    d, numbers = nearest_without(describe(X, LENGTH_SCALE, RATIO), left_out, near)
    scores = score(np.clip(d, LEAST_DISTANCE, 1.0))
    if not confirmed:
        return scores
    X, _, _ = note_samples(front_end, notes, masks=MASKS, pitch=pitch, wide=True)
    there = (_wide_at(front_end, note, lengths, number) for note, number in zip(notes, numbers.tolist(), strict=True))
    d, _ = nearest_without(describe(X, LENGTH_SCALE, RATIO), left_out, there)
    return joined(scores, score(np.clip(d, LEAST_DISTANCE, 1.0)))


def _near(front_end: NoteFrontEnd, note: AnnotatedNote, lengths: np.ndarray) -> np.ndarray:
    """Descriptions of spans near the annotation of a note, of all these lengths."""
    first, n_starts, step = _places(note)
    return np.concatenate(
        [front_end.describe(note.spectra, start=first, n_starts=n_starts, length=float(n), step=step) for n in lengths]
    )


def _wide_at(front_end: NoteFrontEnd, note: AnnotatedNote, lengths: np.ndarray, number: int) -> np.ndarray:
    """The description with wide surroundings of one of the spans of `_near`, by its number, (1, d)."""
    first, n_starts, step = _places(note)
    length, start = float(lengths[number // n_starts]), first + step * (number % n_starts)
    around = wide_surroundings(front_end, length)
    return front_end.describe_spans(cumulated(note.spectra), np.array([start]), length, around)


def _places(note: AnnotatedNote) -> tuple[float, int, int]:
    """Where a left-out note is searched for: the first start, how many there are, and the step between them."""
    n_starts = min(MAX_PLACES, int(2 * SEARCH_SHARE * note.length) + 1)
    step = max(1, int(2 * SEARCH_SHARE * note.length / n_starts))
    return note.start - step * (n_starts // 2), n_starts, step
