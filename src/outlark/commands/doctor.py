"""Mistakes that a trained detector is likely to make.

The detector hears synthetic sounds that are not notes; each training note is judged by the others of its class, with
the scores that detection would compare with thresholds; and the training set and the settings are checked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outlark.commands.doctor_sounds import SoundTest, sound_tests
from outlark.detection.detector import NoteDetector
from outlark.detection.negatives import as_good_as_notes
from outlark.estimators.mddkm import MDDKM
from outlark.features.note import LENGTH_SLACK
from outlark.maths.description import scores
from outlark.maths.notes import merge_copies, parts_of
from outlark.plain_text import Line, Remark, listing, number_of
from outlark.segments import Segment

SEVERITIES = PROBLEM, WARNING, GOOD = "problem", "warning", "good"
#: With fewer notes than this the threshold of a class rests on almost nothing.
FEWEST_EXAMPLES = 3
#: The longest note of a class is rarely more than this many times as long as the shortest.
USUAL_RATIO = 4.0
#: Recordings that reach this many times higher than the model's band are probably made for bats.
FAR_ABOVE = 3.0


@dataclass(frozen=True)
class Finding:
    """One thing that was checked ("white noise", "left-out notes", …), what was found, and what to do about it."""

    severity: str
    check: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.severity}: {self.what}" + (f". {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class Examination:
    """The findings about a model, the worst first."""

    model: str
    findings: list[Finding]
    incomplete = False

    def of(self, severity: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == severity]

    def as_json(self) -> dict[str, Any]:
        counts = {severity: len(self.of(severity)) for severity in SEVERITIES}
        return {"model": self.model, **counts, "findings": [asdict(finding) for finding in self.findings]}

    def lines(self) -> Iterator[Line]:
        yield from map(str, self.findings)
        problems, warnings, good = (len(self.of(severity)) for severity in SEVERITIES)
        yield Remark(f"problems: {problems}, warnings: {warnings}, good: {good}")


def examine_model(path: str, detector: NoteDetector) -> Examination:
    """`examine` the detector of a model file."""
    return Examination(path, sorted(examine(detector), key=lambda finding: SEVERITIES.index(finding.severity)))


def problems_of(detector: NoteDetector) -> list[Finding]:
    """The worst of what `examine` finds."""
    return [finding for finding in examine(detector) if finding.severity == PROBLEM]


def examine(detector: NoteDetector) -> list[Finding]:
    """Look for mistakes that a trained detector is likely to make.

    No recordings are needed, and the same detector always gets the same findings, good ones included.
    """
    check_is_fitted(detector)
    found = [_heard(test, detector) for test in sound_tests(detector)]
    judged = note_scores(detector)
    return [
        *found,
        *_left_out(judged),
        *_unused(detector),
        *_mistaken(judged),
        *_mislabelled(judged),
        *_negatives(detector),
        *_numbers(detector.model_.training),
        *_copies(detector.model_.training),
        *_settings(detector),
        *_durations(detector),
        *_band(detector),
    ]


# ---------------------------------------------------------------------- sounds that are not notes


def _heard(test: SoundTest, detector: NoteDetector) -> Finding:
    """How many sounds of a test are taken for notes, and which."""
    taken: list[Segment] = []
    n_sounds = 0
    for samples, spans in test.recordings:
        notes = [s for s in detector.detect(samples, detector.sample_rate_) if s.label is not None]
        for start, end in spans:
            n_sounds += 1
            heard = [s for s in notes if s.start < end and s.end > start]
            taken += [max(heard, key=lambda s: s.score)] if heard else []
    if not taken:
        nothing = "not taken for a note" if n_sounds == 1 else f"none of {n_sounds} taken for a note"
        return Finding(GOOD, test.name, f"{test.name}: {nothing}")
    best = max(taken, key=lambda s: s.score)
    labels = sorted({str(s.label) for s in taken})
    threshold = detector.layout_.thresholds[detector.layout_.classes.tolist().index(best.label)]
    likes = f"{best.label!r} (score {best.score:.2f}, threshold {threshold:.2f})"
    others = f"; altogether as {listing([repr(label) for label in labels])}" if len(labels) > 1 else ""
    severity = PROBLEM if test.grave and 2 * len(taken) >= n_sounds else WARNING
    what = f"{test.name}: {len(taken)} of {n_sounds} taken for a note, such as {likes}{others}"
    return Finding(severity, test.name, what, test.advice)


# ---------------------------------------------------------------------- scores of training notes


@dataclass(frozen=True, kw_only=True)
class LeftOutNote:
    """A training note: its class, its recording and onset, and its scores.

    `own` is its score under its own class without it, NaN for the only note of a class; `threshold` that of its class.
    `accepted_by` are other classes that accept it; `other` is the most similar one, with the score `best_other`, -∞
    with a single class.
    """

    label: Any
    name: str
    own: float
    threshold: float
    accepted_by: tuple[Any, ...] = ()
    other: Any = None
    best_other: float = -np.inf


def note_scores(detector: Any) -> list[LeftOutNote]:
    """Every training note of a detector, by class; none if its class model cannot say."""
    class_model = detector.class_model_
    if not isinstance(class_model, MDDKM):
        return _own_scores_only(detector)
    whole = detector.note_model_ is not None
    over_note = np.max if whole else np.mean
    # synthetic copies, in noise or at another pitch, follow the shifts of a note (`outlark.detection.note_training`)
    n_own = len(detector.front_end_.shifts_s) if whole else None
    thresholds = _note_thresholds(detector)
    labels, found = class_model.classes_.tolist(), []
    for c, label in enumerate(labels):
        X, notes = class_model.descriptions_[c].X, class_model.notes_[c]
        own = _left_out_scores(class_model, c)
        others = np.column_stack(
            [f * scores(d, X) for d, f in zip(class_model.descriptions_, class_model.size_factors_, strict=True)]
        )
        others[:, c] = -np.inf
        for of_note in parts_of(notes):
            rows = of_note[:n_own]
            note = detector.model_.training[int(notes[rows[0]])]
            by_class = over_note(others[rows], axis=0)
            best = int(by_class.argmax())
            accepting = (by_class >= thresholds) & _fitting(detector, note)
            found.append(
                LeftOutNote(
                    label=label,
                    name=name_of(note),
                    own=float(over_note(own[rows])),
                    threshold=float(thresholds[c]),
                    accepted_by=tuple(labels[b] for b in np.flatnonzero(accepting)),
                    other=labels[best] if len(labels) > 1 else None,
                    best_other=float(by_class[best]),
                )
            )
    return found


def _left_out_scores(class_model: MDDKM, c: int) -> np.ndarray:
    """The score of each sample of class c without its note, (n,); NaN where there is no other note."""
    X = class_model.descriptions_[c].X
    if len(parts_of(merge_copies(X, class_model.notes_[c]))) == 1:  # left-out scores are then of samples of that note
        return np.full(len(X), np.nan)
    return class_model.left_out_scores_[c]


def _fitting(detector: Any, note: Mapping[str, Any]) -> np.ndarray:
    """Which classes accept notes of this duration, bool (C,); all, at frame level."""
    layout, duration_s = detector.layout_, note["end_s"] - note["start_s"]
    if detector.note_model_ is None:
        return np.ones(len(layout.classes), dtype=bool)
    return (duration_s >= layout.shortest_s / LENGTH_SLACK) & (duration_s <= layout.longest_s * LENGTH_SLACK)


def _note_thresholds(detector: Any) -> np.ndarray:
    """Thresholds of notes, (C,); of the first stage if there are two."""
    layout = detector.layout_
    if detector.second_stage_ is not None:
        return np.asarray(detector.note_model_.spectral_thresholds, dtype=float)
    if layout.mean_thresholds is None or not detector.decisions_.confirm:
        return np.asarray(layout.thresholds, dtype=float)
    return np.asarray(layout.mean_thresholds, dtype=float)


def _own_scores_only(detector: Any) -> list[LeftOutNote]:
    """For class models that know nothing but left-out scores."""
    labels, thresholds = detector.classes_.tolist(), _note_thresholds(detector)
    told = getattr(detector.class_model_, "left_out_note_scores_", [])
    return [
        LeftOutNote(label=label, name=f"note {i} of {label!r}", own=float(own), threshold=float(threshold))
        for label, of_class, threshold in zip(labels, told, thresholds, strict=False)
        for i, own in enumerate(of_class)
    ]


def name_of(note: Mapping[str, Any]) -> str:
    """The recording and onset of an entry of `DetectorModel.training`.

    >>> name_of({"name": "a.wav", "recording": 0, "start_s": 1.5})
    'a.wav at 1.500 s'
    >>> name_of({"name": None, "recording": 3, "start_s": 0.0})
    'recording 3'
    """
    place = note["name"] or f"recording {note['recording']}"
    return f"{place} at {note['start_s']:.3f} s" if note["start_s"] else str(place)


# ---------------------------------------------------------------------- training notes


def _left_out(notes: list[LeftOutNote]) -> Iterator[Finding]:
    """Notes that a detector would miss if it had not learnt from them."""
    check = "left-out notes"
    judged = [note for note in notes if np.isfinite(note.own)]
    missed = [note for note in judged if note.own < note.threshold]
    if judged and not missed:
        yield Finding(GOOD, check, f"left-out notes: all {len(judged)} would be found")
    for label, of_class in _by_class(missed).items():
        n_notes = sum(note.label == label for note in judged)
        listed = listing([f"{note.name}: {note.own:.2f} < {note.threshold:.2f}" for note in of_class])
        yield Finding(
            PROBLEM if 2 * len(of_class) >= n_notes else WARNING,
            check,
            f"{len(of_class)} of {n_notes} notes of {label!r} would be missed if not learnt from ({listed})",
            "Listen to them: remove what is not such a note, annotate them more tightly, or add more notes like "
            "them; two kinds of notes may be two classes",
        )


def _unused(detector: NoteDetector) -> Iterator[Finding]:
    """Notes that training omitted, because they are unlike all others of their class."""
    if detector.note_model_ is None or not isinstance(detector.class_model_, MDDKM):
        return
    used = set(np.concatenate(detector.class_model_.notes_).tolist())
    notes = [note for number, note in enumerate(detector.model_.training) if number not in used]
    for label in dict.fromkeys(note["label"] for note in notes):
        listed = listing([name_of(note) for note in notes if note["label"] == label])
        yield Finding(
            WARNING,
            "notes not used",
            f"labelled {label!r}, but unlike all other notes of this class and therefore not used: {listed}",
            "Listen to them: correct the label or the edges, add a second note like it, or make it a class of its own",
        )


def _mistaken(notes: list[LeftOutNote]) -> Iterator[Finding]:
    check = "classes taken for each other"
    if len({note.label for note in notes}) > 1 and not any(note.accepted_by for note in notes):
        yield Finding(GOOD, check, "no class accepts a note of another class")
    for label, own in _by_class(notes).items():
        times = Counter(other for note in own for other in note.accepted_by).most_common()
        if times:
            others = listing([f"{other!r} ({n})" for other, n in times])
            yield Finding(
                PROBLEM if 2 * times[0][1] >= len(own) else WARNING,
                check,
                f"of {len(own)} notes of {label!r}, other classes also accept: {others}; such notes come out as "
                "ambiguous, or as the other class",
                "Listen to both: merge the classes if they are the same; otherwise check the labels and add more notes "
                "of each",
            )


def _mislabelled(notes: list[LeftOutNote]) -> Iterator[Finding]:
    for label, own in _by_class(notes).items():
        times = Counter(other for note in own for other in note.accepted_by)
        # if two classes are nearly the same, single notes mean nothing
        odd = [note for note in own if note.own < note.best_other and 2 * times[note.other] < len(own)]
        if odd:
            likes = listing([f"{n.name} ({n.other!r} {n.best_other:.2f}, {label!r} {n.own:.2f})" for n in odd])
            what = f"labelled {label!r}, but more similar to another class than to the rest of its own: {likes}"
            yield Finding(WARNING, "suspected labels", what, "Listen to them, and correct the label or remove them")


def _negatives(detector: NoteDetector) -> Iterator[Finding]:
    """Negatives that score as high as notes."""
    check, model = "negatives", detector.note_model_
    suspects = [] if model is None else list(as_good_as_notes(model, detector.model_.negatives))
    if detector.model_.negatives and not suspects:
        n = len(detector.model_.negatives)
        yield Finding(GOOD, check, f"negatives: all {n} score lower than the left-out notes of their class")
    for what in suspects:
        yield Finding(WARNING, check, what, "Listen to them again: are they notes?")


def _by_class(notes: list[LeftOutNote]) -> dict[Any, list[LeftOutNote]]:
    found: dict[Any, list[LeftOutNote]] = defaultdict(list)
    for note in notes:
        found[note.label].append(note)
    return found


def _numbers(training: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    check, counts = "number of notes", Counter(note["label"] for note in training)
    few = {label: n for label, n in counts.items() if n < FEWEST_EXAMPLES}
    for label, n in few.items():
        little = "which says nothing about variation" if n == 1 else "which say little about variation"
        what = f"{label!r} has {number_of(n, 'training note')}, {little}"
        advice = f"Give at least {FEWEST_EXAMPLES}, preferably five to ten, from different recordings"
        yield Finding(WARNING, check, what, advice)
    if counts and not few:
        yield Finding(GOOD, check, f"every class has at least {min(counts.values())} training notes")


def _copies(training: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Notes with the same samples."""
    same: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for note in training:
        same[note["sha256"]].append(note)
    shared: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for copies in same.values():
        if len(copies) > 1:
            labels = tuple(sorted({note["label"] for note in copies}))
            shared[labels].append(" = ".join(dict.fromkeys(name_of(note) for note in copies)))
    for labels, names in shared.items():
        notes = number_of(len(names), "note")
        if len(labels) > 1:
            what = f"{notes} labelled {' and '.join(map(repr, labels))}: {listing(names)}"
            yield Finding(PROBLEM, "copies", what, "Decide what each is, and remove it from the other class")
        else:
            what = f"{notes} of {labels[0]!r} repeated: {listing(names)}"
            yield Finding(WARNING, "copies", what, "Remove the copies: they add nothing")


# ---------------------------------------------------------------------- settings


def _settings(detector: NoteDetector) -> Iterator[Finding]:
    """Thresholds, and whether silence is told from sound."""
    layout = detector.layout_
    for label, threshold in zip(layout.classes.tolist(), layout.thresholds.tolist(), strict=True):
        if not np.isfinite(threshold) or threshold < 1e-6:
            what = f"the threshold of {label!r} is {threshold:g}: it accepts {'all' if threshold < 1 else 'nothing'}"
            yield Finding(PROBLEM, "thresholds", what, "Train again on other notes")
    if detector.decisions_.activity_db is None or not detector.front_end_.measures_activity:
        what = "the model does not distinguish silence from sound, so it judges background noise as if it were notes"
        yield Finding(WARNING, "silence", what, "Use the default model unless you need the method as published")


def _durations(detector: NoteDetector) -> Iterator[Finding]:
    layout, window_s = detector.layout_, detector.front_end_.window_samples_ / detector.sample_rate_
    for label, low, high in zip(layout.classes.tolist(), layout.shortest_s, layout.longest_s, strict=True):
        if low < window_s:
            what = f"a note of {label!r} lasts {1e3 * low:.0f} ms, less than one window of {1e3 * window_s:.0f} ms"
            advice = "Use shorter windows (window_s and hop_s of the front end), or annotate such notes less tightly"
            yield Finding(WARNING, "durations", what, advice)
        if high > USUAL_RATIO * low:
            what = f"the duration of {label!r} varies from {low:.3f} to {high:.3f} s"
            advice = "Check whether some annotations include silence or several notes, or belong to another class"
            yield Finding(WARNING, "durations", what, advice)


def _band(detector: NoteDetector) -> Iterator[Finding]:
    """The frequency band, compared with that of the recordings."""
    front_end, rate = detector.front_end_, detector.sample_rate_
    if front_end.band_hz is None:
        yield Finding(GOOD, "band", f"the model is for recordings at {rate} Hz, or resampled to that")
        return
    (low_hz, high_hz), (_, top_hz) = front_end.band_hz, front_end.heard_hz
    what = f"the model uses {low_hz:.0f} to {top_hz:.0f} Hz, in recordings at {rate} Hz or resampled to that"
    if rate / 2 > FAR_ABOVE * high_hz:
        higher = f"If there are notes above {high_hz:.0f} Hz, such as those of bats"
        advice = f"{higher}, use a front end with a higher high_hz"
        yield Finding(WARNING, "band", f"{what}, which reach {rate // 2} Hz", advice)
    elif top_hz < 0.5 * high_hz:
        yield Finding(WARNING, "band", what, "If notes reach higher, train on recordings with a higher sample rate")
    else:
        yield Finding(GOOD, "band", what)
