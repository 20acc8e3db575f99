"""Mistakes that a trained detector is likely to make."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outlark.commands import listing
from outlark.commands.doctor.findings import GOOD, PROBLEM, WARNING, Finding, set_up, training_set
from outlark.commands.doctor.notes import NoteScore, name_of, note_scores, unused_notes
from outlark.commands.doctor.sounds import Trial, trials
from outlark.detection.detector import NoteDetector
from outlark.detection.negatives import as_good_as_notes
from outlark.detection.scores import ScoreLayout
from outlark.segments import Segment


def examine(detector: NoteDetector) -> list[Finding]:
    """Look for mistakes that a trained detector is likely to make.

    It hears silence, noise, hum, clicks, tones and whistles, none of which is a note; each training note is judged by
    what the others say about it; and the training set and settings are checked. No recordings are needed, and the same
    detector always gets the same findings, good ones included.

    Examples
    --------
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
    >>> known = notes(counts={"tuti-F": 4, "cach-Z": 4})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> for finding in examine(detector):
    ...     print(finding)
    good: digital silence: not taken for a note
    ...
    good: left-out notes: all 8 would be found
    ...
    """
    check_is_fitted(detector)
    found = [_judged(trial, detector) for trial in trials(detector)]
    scores = note_scores(detector)
    return [
        *found,
        *_left_out(scores),
        *_unused(unused_notes(detector)),
        *_mistaken(scores),
        *_mislabelled(scores),
        *_negatives(detector),
        *training_set(detector),
        *set_up(detector),
    ]


# ---------------------------------------------------------------------- sounds that are not notes


def _judged(trial: Trial, detector: NoteDetector) -> Finding:
    """How many sounds of a trial are taken for notes, and which."""
    taken: list[Segment] = []
    n_sounds = 0
    for samples, spans in trial.recordings:
        notes = [s for s in detector.detect(samples, detector.sample_rate_) if s.label is not None]
        for start, end in spans:
            n_sounds += 1
            heard = [s for s in notes if s.start < end and s.end > start]
            taken += [max(heard, key=lambda s: s.score)] if heard else []
    if not taken:
        nothing = "not taken for a note" if n_sounds == 1 else f"none of {n_sounds} taken for a note"
        return Finding(severity=GOOD, check=trial.name, what=f"{trial.name}: {nothing}")
    best = max(taken, key=lambda s: s.score)
    labels = sorted({str(s.label) for s in taken})
    likes = f"{best.label!r} (score {best.score:.2f}, threshold {_threshold(detector.layout_, best):.2f})"
    others = f"; altogether as {listing([repr(label) for label in labels])}" if len(labels) > 1 else ""
    severity = PROBLEM if trial.grave and 2 * len(taken) >= n_sounds else WARNING
    what = f"{trial.name}: {len(taken)} of {n_sounds} taken for a note, such as {likes}{others}"
    return Finding(severity=severity, check=trial.name, what=what, advice=trial.advice)


def _threshold(layout: ScoreLayout, segment: Segment) -> float:
    return float(layout.thresholds[layout.classes.tolist().index(segment.label)])


# ---------------------------------------------------------------------- training notes


def _left_out(notes: list[NoteScore]) -> Iterator[Finding]:
    """Notes that a detector would miss if it had not learnt from them."""
    check = "left-out notes"
    judged = [note for note in notes if np.isfinite(note.own)]
    missed = [note for note in judged if note.own < note.threshold]
    if judged and not missed:
        yield Finding(severity=GOOD, check=check, what=f"left-out notes: all {len(judged)} would be found")
    for label, of_class in _by_class(missed).items():
        n_notes = sum(note.label == label for note in judged)
        listed = listing([f"{note.name}: {note.own:.2f} < {note.threshold:.2f}" for note in of_class])
        yield Finding(
            severity=PROBLEM if 2 * len(of_class) >= n_notes else WARNING,
            check=check,
            what=f"{len(of_class)} of {n_notes} notes of {label!r} would be missed if not learnt from ({listed})",
            advice="Listen to them: remove what is not such a note, annotate them more tightly, or add more notes like "
            "them; two kinds of notes may be two classes",
        )


def _unused(notes: list[dict[str, Any]]) -> Iterator[Finding]:
    for label in dict.fromkeys(note["label"] for note in notes):
        listed = listing([name_of(note) for note in notes if note["label"] == label])
        yield Finding(
            severity=WARNING,
            check="notes not used",
            what=f"labelled {label!r}, but unlike all other notes of this class and therefore not used: {listed}",
            advice="Listen to them: correct the label or the edges, add a second note like it, or make it a class of "
            "its own",
        )


def _mistaken(notes: list[NoteScore]) -> Iterator[Finding]:
    check = "classes taken for each other"
    if len({note.label for note in notes}) > 1 and not any(note.accepted_by for note in notes):
        yield Finding(severity=GOOD, check=check, what="no class accepts a note of another class")
    for label, own in _by_class(notes).items():
        times = Counter(other for note in own for other in note.accepted_by).most_common()
        if times:
            others = listing([f"{other!r} ({n})" for other, n in times])
            yield Finding(
                severity=PROBLEM if 2 * times[0][1] >= len(own) else WARNING,
                check=check,
                what=f"of {len(own)} notes of {label!r}, other classes also accept: {others}; such notes come out as "
                "ambiguous, or as the other class",
                advice="Listen to both: merge the classes if they are the same; otherwise check the labels and add "
                "more notes of each",
            )


def _mislabelled(notes: list[NoteScore]) -> Iterator[Finding]:
    for label, own in _by_class(notes).items():
        times = Counter(other for note in own for other in note.accepted_by)
        # if two classes are nearly the same, single notes mean nothing
        odd = [note for note in own if note.own < note.best_other and 2 * times[note.other] < len(own)]
        if odd:
            likes = listing([f"{n.name} ({n.other!r} {n.best_other:.2f}, {label!r} {n.own:.2f})" for n in odd])
            yield Finding(
                severity=WARNING,
                check="suspected labels",
                what=f"labelled {label!r}, but more similar to another class than to the rest of its own: {likes}",
                advice="Listen to them, and correct the label or remove them",
            )


def _negatives(detector: NoteDetector) -> Iterator[Finding]:
    """Negatives that score as high as notes."""
    check, model = "negatives", detector.note_model_
    suspects = [] if model is None else list(as_good_as_notes(model, detector.negatives_))
    if detector.negatives_ and not suspects:
        what = f"negatives: all {len(detector.negatives_)} score lower than the left-out notes of their class"
        yield Finding(severity=GOOD, check=check, what=what)
    for what in suspects:
        yield Finding(severity=WARNING, check=check, what=what, advice="Listen to them again: are they notes?")


def _by_class(notes: list[NoteScore]) -> dict[Any, list[NoteScore]]:
    found: dict[Any, list[NoteScore]] = defaultdict(list)
    for note in notes:
        found[note.label].append(note)
    return found
