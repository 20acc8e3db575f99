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

from outlark.detection.detector import NoteDetector
from outlark.detection.negatives import as_good_as_notes
from outlark.estimators.mddkm import MDDKM
from outlark.features.base import HIGHEST_SHARE
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
    ]


# ---------------------------------------------------------------------- what is taken for a note


def _heard(test: "SoundTest", detector: NoteDetector) -> Finding:
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
        return []
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
    layout = detector.layout_
    for label, low, high in zip(layout.classes.tolist(), layout.shortest_s, layout.longest_s, strict=True):
        if high > USUAL_RATIO * low:
            what = f"the duration of {label!r} varies from {low:.3f} to {high:.3f} s"
            advice = "Check whether some annotations include silence or several notes, or belong to another class"
            yield Finding(WARNING, "durations", what, advice)


# --------------------------------------------------- sounds that are not notes


#: Level of the faint noise between test sounds, and of the sounds, in dB re full scale (RMS).
BACKGROUND_DB, LEVELS_DB = -75.0, (-50.0, -35.0, -20.0)
#: Seconds of steady sounds, between sounds, before the first, for the noise floor to settle, and of a sound at most.
STEADY_S, SILENCE_BETWEEN_S, SETTLING_S, LONGEST_SOUND_S = 3.0, 0.3, 1.0, 1.0
#: Tones, and whistles in each direction.
N_TONES, N_WHISTLES = 12, 6
#: Mains frequencies, and the number of harmonics.
MAINS_HZ, HARMONICS = (50.0, 60.0), 12
USUAL_BAND_HZ = (500.0, 10_000.0)
NOISE_ADVICE = (
    "Check whether clips of these classes are mostly background, or several kinds of notes under one label; annotate "
    "notes more tightly, and in longer recordings, which show what else there is to hear"
)
TONE_ADVICE = (
    "Unavoidable for a class of pure whistles; otherwise add more varied notes of these classes, and check detections "
    "in places with such sounds"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SoundTest:
    """Sounds of one kind: recordings with the spans (start, end) of the sounds, in samples.

    It is `grave` if most of them are taken for notes: no bird sounds like that.
    """

    name: str
    recordings: list[tuple[np.ndarray, list[tuple[int, int]]]]
    grave: bool = True
    advice: str = NOISE_ADVICE


def sound_tests(detector: Any) -> Iterator[SoundTest]:
    """All kinds of sounds, at several levels and durations; only silence for series of numbers."""
    rate, front_end = detector.sample_rate_, detector.front_end_
    n_steady = max(1, round(STEADY_S * rate))
    silence = np.zeros(n_steady) if front_end.is_sound else front_end.silence(n_steady)
    yield SoundTest(name="digital silence", recordings=[(silence, [(0, n_steady)])])
    if not front_end.is_sound:
        return
    rng = np.random.default_rng(0)
    noises = {"white noise": white, "pink noise": pink}
    for name, noise in noises.items():
        steady = [(level(db) * noise(n_steady, rng), [(0, n_steady)]) for db in LEVELS_DB]
        yield SoundTest(name=f"steady {name}", recordings=steady)
    short, medium, long = _lengths(detector.layout_, rate)
    for name, noise in noises.items():
        bursts = [level(db) * noise(n, rng) for db in LEVELS_DB for n in (short, medium, long)]
        yield SoundTest(name=f"bursts of {name}", recordings=[in_background(bursts, rate, rng)])
    hums = [level(db) * hum(long, mains, rate) for mains in MAINS_HZ for db in LEVELS_DB]
    yield SoundTest(name="hum switched on and off", recordings=[in_background(hums, rate, rng)])
    clicks = [level(db) * click(ms, rate, rng) for db in (-20.0, -3.0) for ms in (0.0, 1.0, 5.0)]
    yield SoundTest(name="clicks", recordings=[in_background(clicks, rate, rng)])
    low_hz, high_hz = _test_band(front_end, rate)
    tones_hz = np.geomspace(1.1 * low_hz, 0.9 * high_hz, N_TONES)
    starts_hz = np.geomspace(1.1 * low_hz, 0.9 * high_hz / 1.5, N_WHISTLES)
    sweeps = [(hz, 1.5 * hz) for hz in starts_hz] + [(1.5 * hz, hz) for hz in starts_hz]
    tonal = {
        "pure tones": [whistle(long, hz, hz, rate) for hz in tones_hz],
        "rising and falling whistles": [whistle(medium, *sweep, rate) for sweep in sweeps],
    }
    for name, sounds in tonal.items():
        recording = in_background([level(-25.0) * sound for sound in sounds], rate, rng)
        yield SoundTest(name=name, recordings=[recording], grave=False, advice=TONE_ADVICE)


def in_background(
    sounds: Sequence[np.ndarray], rate: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """One recording of the sounds in faint noise, and the span of each.

    >>> samples, spans = in_background([np.ones(10), np.ones(20)], 100, np.random.default_rng(0))
    >>> len(samples), spans
    (260, [(100, 110), (140, 160)])
    """
    gap, edge = round(SILENCE_BETWEEN_S * rate), round(SETTLING_S * rate)
    ends = edge + np.cumsum([len(sound) + gap for sound in sounds]) - gap
    spans = [(int(end) - len(sound), int(end)) for sound, end in zip(sounds, ends, strict=True)]
    samples = level(BACKGROUND_DB) * white(int(ends[-1]) + edge, rng)
    for sound, (start, end) in zip(sounds, spans, strict=True):
        samples[start:end] += sound
    return samples, spans


def level(db: float) -> float:
    """The factor for a sound of RMS 1, or of height 1."""
    return float(10 ** (db / 20))


def white(n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """White noise of RMS 1."""
    return rng.standard_normal(n_samples)


def pink(n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of RMS 1 whose power falls with frequency, like wind, traffic and streams."""
    spectrum = np.fft.rfft(rng.standard_normal(max(2, n_samples)))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0.0
    noise = np.fft.irfft(spectrum, max(2, n_samples))[:n_samples]
    return noise / max(float(np.sqrt((noise**2).mean())), 1e-12)


def hum(n_samples: int, mains_hz: float, rate: int) -> np.ndarray:
    """Mains hum of RMS 1, with harmonics that fall by 1/k."""
    t = np.arange(n_samples) / rate
    waves = [np.sin(2 * np.pi * k * mains_hz * t) / k for k in range(1, HARMONICS + 1) if k * mains_hz < rate / 2]
    return np.sqrt(2.0 / sum(1 / k**2 for k in range(1, len(waves) + 1))) * np.sum(waves, axis=0)


def click(decay_ms: float, rate: int, rng: np.random.Generator) -> np.ndarray:
    """A click of height 1: one sample, or decaying noise."""
    n_samples = 1 + round(5e-3 * decay_ms * rate)
    shape = np.exp(-np.arange(n_samples) / max(1e-3 * decay_ms * rate, 1.0))
    return shape * np.where(np.arange(n_samples) == 0, 1.0, rng.uniform(-1.0, 1.0, n_samples))


def whistle(n_samples: int, from_hz: float, to_hz: float, rate: int) -> np.ndarray:
    """A tone of RMS 1 that glides between two frequencies, with soft ends."""
    cycles = np.cumsum(np.geomspace(from_hz, to_hz, n_samples)) / rate
    ramp = np.minimum(1.0, np.minimum(np.arange(n_samples), np.arange(n_samples)[::-1]) / (0.005 * rate))
    return np.sqrt(2.0) * np.sin(2 * np.pi * cycles) * ramp


def _lengths(layout: Any, rate: int) -> list[int]:
    """Slightly longer than short, medium and long notes, in samples."""
    durations = [layout.shortest_s.min(), np.median((layout.shortest_s + layout.longest_s) / 2), layout.longest_s.max()]
    return [max(8, round(min(1.2 * float(s), LONGEST_SOUND_S) * rate)) for s in durations]


def _test_band(front_end: Any, rate: int) -> tuple[float, float]:
    low, high = front_end.band_hz or USUAL_BAND_HZ
    high = min(high, HIGHEST_SHARE * rate)
    return min(low, high / 4), high
