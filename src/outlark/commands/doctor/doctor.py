"""What a trained detector would get wrong: sounds that are no notes, notes left out, and how it was made."""

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

__all__ = ["Finding", "examine"]


def examine(detector: NoteDetector) -> list[Finding]:
    """Look for what a trained detector would get wrong.

    It is given silence, noise, hum, clicks, tones and whistles, none of which is a note; each of its own training
    notes is judged by what the others say about it; and what it was made from is looked through. No recordings are
    needed, and the same detector gets the same findings.

    Parameters
    ----------
    detector : NoteDetector, fitted, or loaded from a file

    Returns
    -------
    list of Finding
        All that was looked at, also what is good.

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


# ---------------------------------------------------------------------- sounds that are no notes


def _judged(trial: Trial, detector: NoteDetector) -> Finding:
    """How many of the sounds of a trial come out as notes, and as which."""
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
    others = f"; in all as {listing([repr(label) for label in labels])}" if len(labels) > 1 else ""
    severity = PROBLEM if trial.grave and 2 * len(taken) >= n_sounds else WARNING
    what = f"{trial.name}: {len(taken)} of {n_sounds} taken for a note, such as {likes}{others}"
    return Finding(severity=severity, check=trial.name, what=what, advice=trial.advice)


def _threshold(layout: ScoreLayout, segment: Segment) -> float:
    return float(layout.thresholds[layout.classes.tolist().index(segment.label)])


# ---------------------------------------------------------------------- its own notes


def _left_out(notes: list[NoteScore]) -> Iterator[Finding]:
    """Which notes would be missed by a detector that had not seen them."""
    check = "left-out notes"
    told = [note for note in notes if np.isfinite(note.own)]
    missed = [note for note in told if note.own < note.threshold]
    if told and not missed:
        yield Finding(severity=GOOD, check=check, what=f"left-out notes: all {len(told)} would be found")
    for label, of_class in _by_class(missed).items():
        n_notes = sum(note.label == label for note in told)
        listed = listing([f"{note.name}: {note.own:.2f} < {note.threshold:.2f}" for note in of_class])
        yield Finding(
            severity=PROBLEM if 2 * len(of_class) >= n_notes else WARNING,
            check=check,
            what=f"{len(of_class)} of {n_notes} notes of {label!r} would be missed if it had not seen them ({listed})",
            advice="Listen to these: take out what is no such note, mark them more closely, or give more notes like "
            "them; two kinds of notes may be two classes",
        )


def _unused(notes: list[dict[str, Any]]) -> Iterator[Finding]:
    """Which notes were not learnt from."""
    for label in dict.fromkeys(note["label"] for note in notes):
        listed = listing([name_of(note) for note in notes if note["label"] == label])
        yield Finding(
            severity=WARNING,
            check="notes not used",
            what=f"labelled {label!r}, but unlike all other notes of it, and therefore not used: {listed}",
            advice="Listen to them: correct the label or the mark, give a second note like it, or make it a class of "
            "its own",
        )


def _mistaken(notes: list[NoteScore]) -> Iterator[Finding]:
    """Which classes are taken for each other."""
    check = "classes taken for each other"
    if len({note.label for note in notes}) > 1 and not any(note.accepted_by for note in notes):
        yield Finding(severity=GOOD, check=check, what="no class accepts a note of another")
    for label, own in _by_class(notes).items():
        times = Counter(other for note in own for other in note.accepted_by).most_common()
        if times:
            others = listing([f"{other!r} ({n})" for other, n in times])
            yield Finding(
                severity=PROBLEM if 2 * times[0][1] >= len(own) else WARNING,
                check=check,
                what=f"of {len(own)} notes of {label!r}, so many are accepted by other classes as well: {others}; such "
                "notes come out as ambiguous, or as the other class",
                advice="Listen to both: make one class of them if they are the same; else see that no note has the "
                "wrong label, and give more notes of each",
            )


def _mislabelled(notes: list[NoteScore]) -> Iterator[Finding]:
    """Which notes look as if they had the wrong label."""
    for label, own in _by_class(notes).items():
        times = Counter(other for note in own for other in note.accepted_by)
        # where two classes are much the same, single notes say nothing
        odd = [note for note in own if note.own < note.best_other and 2 * times[note.other] < len(own)]
        if odd:
            likes = listing([f"{n.name} ({n.other!r} {n.best_other:.2f}, {label!r} {n.own:.2f})" for n in odd])
            yield Finding(
                severity=WARNING,
                check="suspected labels",
                what=f"labelled {label!r}, but more like another class than like the rest of its own: {likes}",
                advice="Listen to them, and correct the label or leave them out",
            )


def _negatives(detector: NoteDetector) -> Iterator[Finding]:
    """Which classes reject what is as good as their notes."""
    check, model = "negatives", detector.note_model_
    told = [] if model is None else list(as_good_as_notes(model, detector.negatives_))
    if detector.negatives_ and not told:
        what = f"negatives: all {len(detector.negatives_)} score lower than the notes of their class when left out"
        yield Finding(severity=GOOD, check=check, what=what)
    for what in told:
        yield Finding(severity=WARNING, check=check, what=what, advice="Listen to them again: are they notes?")


def _by_class(notes: list[NoteScore]) -> dict[Any, list[NoteScore]]:
    found: dict[Any, list[NoteScore]] = defaultdict(list)
    for note in notes:
        found[note.label].append(note)
    return found
