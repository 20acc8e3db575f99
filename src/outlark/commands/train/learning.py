"""Training a detector on examples in files, and what `outlark train` reports."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from outlark.audio.clips import is_long
from outlark.audio.recording import Recording
from outlark.commands.train.examples import Example, Examples
from outlark.commands.train.sound import TrainingClip, by_recording, read_around
from outlark.detection.detector import NoteDetector
from outlark.detection.front_end_choice import LEAST_WINDOW
from outlark.detection.negatives import AsGoodAsNotes, as_good_as_notes
from outlark.detection.training import RESERVED
from outlark.errors import AudioError, InputError, Problem
from outlark.plain_text import Alert, Line, ProgressCallback, Remark, TextTable, listing, number_of, on_refused
from outlark.version import __version__

#: Shorter annotations may be too short for any window.
CLICK_S = 0.005
#: Notes are rarely longer than this.
LONG_NOTE_S = 5.0
#: More sound than this needs gigabytes of memory.
MUCH_S = 3600.0


@dataclass(frozen=True)
class ClassSummary:
    """One class: the number of notes, files and negatives, the durations, and the threshold."""

    label: str
    examples: int
    recordings: int
    shortest_s: float
    longest_s: float
    threshold: float
    negatives: int = 0


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """What `outlark train` found: a detector, its examples, the seconds of sound, remarks, and what was not learnt.

    `output` is the model file, `sha256` its digest; `problems` are those that `outlark.commands.doctor` found;
    `with_names` lists the examples.
    """

    detector: NoteDetector
    examples: Examples
    seconds: float
    remarks: tuple[str, ...] = ()
    unread: tuple[Problem, ...] = ()
    problems: Sequence[Any] = ()
    output: str = ""
    sha256: str = ""
    seconds_taken: float = 0.0
    with_names: bool = False

    @property
    def classes(self) -> list[ClassSummary]:
        """In the order of the detector."""
        layout, found = self.detector.layout_, []
        for c, label in enumerate(layout.classes.tolist()):
            own = [note for note in self.examples.notes if note.label == label]
            of_class = ClassSummary(
                label=label,
                examples=len(own),
                recordings=len({note.recording for note in own}),
                shortest_s=float(layout.shortest_s[c]),
                longest_s=float(layout.longest_s[c]),
                threshold=float(layout.thresholds[c]),
                negatives=sum(note["label"] == label for note in self.detector.model_.negatives),
            )
            found.append(of_class)
        return found

    @property
    def refused(self) -> list[str]:
        """Rows and files of annotations that cannot be used, each once."""
        return list(dict.fromkeys(row for rows in self.examples.refused.values() for row in rows))

    @property
    def incomplete(self) -> bool:
        return bool(self.unread or self.refused)

    def as_json(self) -> dict[str, Any]:
        model = self.detector.model_
        notes = zip(self.examples.notes, model.training, strict=True)
        return {
            "version": __version__,
            "output": self.output,
            "model_sha256": self.sha256,
            "sample_rate": self.detector.sample_rate_,
            "classes": [asdict(of) for of in self.classes],
            "examples": [_place(record, str(note.recording)) for note, record in notes],
            "negatives": [_place(record, record["name"]) for record in model.negatives],
            "lineage": list(model.lineage),
            "remarks": list(self.remarks),
            "failures": [{"recording": where, "message": message} for where, message in self.unread],
            "refused": self.refused,
            "seconds_of_sound": round(self.seconds, 3),
            "seconds_taken": round(self.seconds_taken, 3),
            "problems": [asdict(problem) for problem in self.problems],
        }

    def lines(self) -> Iterator[Line]:
        yield from (Remark(f"Note: {remark}") for remark in self.remarks)
        notes, classes = self.examples.notes, self.classes
        for of in classes if self.with_names else []:
            chosen = ", ".join(str(note) for note in notes if note.label == of.label)
            yield Remark(f"examples of {of.label}: {chosen}")
        yield self._table()
        said = f"{number_of(len(classes), 'class')}, {number_of(len(notes), 'note')}"
        n_negatives = len(self.detector.model_.negatives)
        said += f", {number_of(n_negatives, 'negative')}" if n_negatives else ""
        yield Remark(f"{said}; saved in {self.output}")
        yield from (Remark(problem) for problem in self.problems)
        yield from (Alert(f"skipped: {problem.message}") for problem in self.unread)
        yield from on_refused(self.refused)

    def _table(self) -> TextTable:
        files = "files" if self.examples.clips else "recordings"
        rows = [["class", "examples", "negatives", files, "shortest, s", "longest, s", "threshold"]]
        for of in self.classes:
            numbers = [f"{of.shortest_s:.3f}", f"{of.longest_s:.3f}", f"{of.threshold:.3f}"]
            rows.append([of.label, str(of.examples), str(of.negatives), str(of.recordings), *numbers])
        if not any(of.negatives for of in self.classes):
            rows = [[*row[:2], *row[3:]] for row in rows]
        return TextTable(rows)


def _place(record: Mapping[str, Any], recording: str) -> dict[str, Any]:
    return {"recording": recording, **{name: record[name] for name in ("label", "start_s", "end_s")}}


def learn(
    examples: Examples,
    detector: NoteDetector | None = None,
    *,
    channel: int | str = "mix",
    trim: bool = False,
    watch: ProgressCallback | None = None,
) -> Learnt:
    """Train a detector, by default with default settings, on examples from `find_examples`; reject their negatives.

    `channel` is "mix" or counted from 0. `trim` removes the quiet margins of clips. Clips that cannot be read are
    skipped unless a class has no others; notes shorter than a window of the model are skipped always.
    """
    detector = NoteDetector() if detector is None else detector
    watch = watch or (lambda done, total: None)
    if trim and not examples.clips:
        raise InputError(
            "--trim applies only to clips; omit it, because annotations already say where notes start and end"
        )
    _check_names(examples.notes)
    refused: list[Problem] = []
    examples = replace(examples, notes=_that_fill(examples.notes, *_least(examples.notes), refused))
    while True:
        if not examples.notes:
            raise InputError(f"no example is long enough: {refused[-1].message}")
        if examples.clips:
            learnt = _learn_clips(examples, detector, channel, trim, watch)
        else:
            learnt = _learn_annotations(examples, detector, channel, watch)
        window_s = detector.front_end_.window_samples_ / detector.sample_rate_
        notes = learnt.examples.notes
        long_enough = _that_fill(notes, _durations(learnt), [window_s] * len(notes), refused)
        if len(long_enough) == len(notes):
            break
        refused += learnt.unread
        examples = replace(examples, notes=long_enough)  # windows depend on the notes: choose them again
    negatives = examples.negatives
    negatives = _that_fill(negatives, [_marked_s(note) for note in negatives], [window_s] * len(negatives), refused)
    rejected = reject(detector, negatives, channel, watch)
    remarks = (*examples.remarks, *_on_files(learnt.examples), *learnt.remarks, *rejected, *_odd(learnt))
    return replace(learnt, remarks=remarks, unread=(*refused, *learnt.unread))


def _check_names(notes: Sequence[Example]) -> None:
    """Refuse labels that are the words for the verdicts; the detector does, too, but knows neither file nor line."""
    wrong = [note for note in notes if note.label.casefold() in RESERVED]
    if wrong:
        more = f" (and {number_of(len(wrong) - 1, 'other note')})" if len(wrong) > 1 else ""
        raise InputError(
            f"{wrong[0].where}{more}: the label {wrong[0].label!r} is a word that says in results whether a class "
            "accepts a sound; rename the label, or choose the other classes (train --class)"
        )


def _least(notes: Sequence[Example]) -> tuple[list[float], list[float]]:
    """The durations of annotations, and for those that may be too short for any window the shortest of all windows."""
    marked_s = [_marked_s(note) for note in notes]
    of_clicks = {note.recording for note, seconds in zip(notes, marked_s, strict=True) if seconds < CLICK_S}
    least_s = {path: LEAST_WINDOW / Recording(path).sample_rate for path in of_clicks}
    return marked_s, [least_s.get(note.recording, 0.0) for note in notes]


def _durations(learnt: Learnt) -> list[float]:
    """Of the notes, in seconds; clips may be whole files."""
    if learnt.examples.clips:
        return [record["end_s"] - record["start_s"] for record in learnt.detector.model_.training]
    return [_marked_s(note) for note in learnt.examples.notes]


def _marked_s(note: Example) -> float:
    return np.inf if note.annotation is None else note.annotation.end_s - note.annotation.start_s


def _that_fill(
    notes: Sequence[Example], durations_s: Sequence[float], windows_s: Sequence[float], refused: list[Problem]
) -> tuple[Example, ...]:
    """The notes that fill a window. Of the others nothing can be learnt but clicks, which are everywhere."""
    kept = []
    for note, duration_s, window_s in zip(notes, durations_s, windows_s, strict=True):
        if duration_s >= window_s * (1.0 - 1e-9):
            kept.append(note)
            continue
        message = (
            f"{note.where} lasts {1e3 * duration_s:.3g} ms, less than a window of the model ({1e3 * window_s:.3g} "
            "ms), and was not learnt; mark the note from its start to its end"
        )
        refused.append(Problem(str(note.recording), message))
    return tuple(kept)


# ---------------------------------------------------------------------- clips


def _learn_clips(
    examples: Examples, detector: NoteDetector, channel: int | str, trim: bool, watch: ProgressCallback
) -> Learnt:
    clips: list[TrainingClip] = []
    unread: list[Problem] = []
    for number, note in enumerate(examples.notes, start=1):
        try:
            clips.append(TrainingClip.of(note, channel))
        except AudioError as error:
            unread.append(Problem(str(note.recording), str(error)))
        watch(number, len(examples.notes))
    lost = sorted(set(examples.labels) - {clip.note.label for clip in clips})
    if lost:
        own = {str(note.recording) for note in examples.notes if note.label == lost[0]}
        why = next(problem.message for problem in unread if problem.where in own)
        raise AudioError(f"no clip of the class {lost[0]!r} can be read: {why}")
    trimmed = [clip.trimmed for clip in clips]
    pieces, labels = [clip.used for clip in (trimmed if trim else clips)], [clip.note.label for clip in clips]
    rates = [piece.rate for piece in pieces]
    detector.fit([piece.samples for piece in pieces], labels, rates)
    places = zip(pieces, detector.model_.training, strict=True)
    training = [piece.in_file(record, record["recording"]) for piece, record in places]
    detector.model_ = replace(detector.model_, training=training)
    remarks = (*_on_silence(clips), *_on_margins(clips, trimmed, trim), *_on_rates(rates, [[of] for of in labels]))
    return Learnt(
        detector=detector,
        examples=replace(examples, notes=tuple(clip.note for clip in clips)),
        seconds=sum(len(piece.samples) / piece.rate for piece in pieces),
        remarks=remarks,
        unread=tuple(unread),
    )


def _on_silence(clips: Sequence[TrainingClip]) -> Iterator[str]:
    cut = [clip for clip in clips if clip.cut_s]
    if cut:
        most = max(cut, key=lambda clip: clip.cut_s)
        of = f"{most.cut_s:.3f} s of {most.note.recording.name} ({most.note.label})"
        yield f"digital silence at the ends of {number_of(len(cut), 'clip')} removed, such as {of}"


def _on_margins(clips: Sequence[TrainingClip], trimmed: Sequence[TrainingClip], trim: bool) -> Iterator[str]:
    """What was trimmed, or is so long that it should be."""
    cut = []
    for clip, new in zip(clips, trimmed, strict=True):
        cut_s, n_used = new.cut_s - clip.cut_s, len(clip.used.samples)
        if cut_s if trim else is_long(new.part, n_used, clip.rate):
            cut.append((cut_s, n_used / clip.rate, clip.note))
    if cut:
        what = "trimmed" if trim else "with quiet margins longer than the note"
        cut_s, used_s, note = max(cut, key=lambda margins: margins[0])
        of = f"{cut_s:.3f} of {used_s:.3f} s of {note.recording.name} ({note.label})"
        then = "" if trim else "; outlark train … --trim removes them"
        yield f"{number_of(len(cut), 'clip')} {what}, such as {of}{then}"


# ---------------------------------------------------------------- annotations


def _learn_annotations(
    examples: Examples, detector: NoteDetector, channel: int | str, watch: ProgressCallback
) -> Learnt:
    sound = read_around(examples.notes, channel, watch)
    samples, notes, rates = sound.examples
    detector.fit_recordings(samples, notes, rates)
    training = [sound.in_file(record) for record in detector.model_.training]
    detector.model_ = replace(detector.model_, training=training)
    seconds = sum(len(own) / rate for own, rate in zip(samples, rates, strict=True))
    said = f"used {seconds:.0f} s around the annotations, out of {sound.there_s:.0f} s of recordings"
    part = [said] if sound.in_pieces else []
    remarks = (*sound.beyond, *part, *_on_rates(rates, [[str(s.label) for s in own] for own in notes]))
    return Learnt(detector=detector, examples=examples, seconds=seconds, remarks=remarks)


# ------------------------------------------------------------------ negatives


def reject(
    detector: NoteDetector, negatives: Sequence[Example], channel: int | str, watch: ProgressCallback
) -> list[str]:
    """Make a trained detector reject negatives, clips and annotations; returns remarks."""
    clips = [TrainingClip.of(note, channel) for note in negatives if note.is_clip]
    of_recording = by_recording([note for note in negatives if not note.is_clip])
    before, remarks = len(detector.model_.negatives), list[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AsGoodAsNotes)  # reported below, with the names of the files
        if clips:
            pieces = [clip.used for clip in clips]
            labels = [clip.note.label for clip in clips]
            detector.reject_clips([piece.samples for piece in pieces], labels, [piece.rate for piece in pieces])
            _place_negatives(detector, before, lambda i, record: pieces[i].in_file(record, record["recording"]))
        for number, own in enumerate(of_recording.values()):  # one recording at a time, to save memory
            sound, n_before = read_around(own, channel, lambda done, total: None), len(detector.model_.negatives)
            detector.reject(*sound.examples)
            _place_negatives(detector, n_before, lambda i, record: sound.in_file(record, number))  # noqa: B023
            remarks += sound.beyond
            watch(number + 1, len(of_recording))
    new = detector.model_.negatives[before:]
    return remarks if detector.note_model_ is None else [*remarks, *as_good_as_notes(detector.note_model_, new)]


def _place_negatives(
    detector: NoteDetector, first: int, in_file: Callable[[int, Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Make the records of negatives from number `first` on refer to their files."""
    old, new = detector.model_.negatives[:first], detector.model_.negatives[first:]
    placed = [in_file(i, record) for i, record in enumerate(new)]
    detector.model_ = replace(detector.model_, negatives=[*old, *placed])


# -------------------------------------------------------------------- remarks


def _on_rates(rates: Sequence[int], labels: Sequence[Sequence[str]]) -> list[str]:
    """What is lost by resampling; `labels` are those of the notes at each rate.

    >>> _on_rates([8000, 250000], [["song"], ["bat"]])
    ["sample rates from 8000 to 250000 Hz; everything is resampled to 8000 Hz: nothing above 4000 Hz is heard of 'bat'"]
    """
    least = min(rates)
    cut = sorted({label for rate, own in zip(rates, labels, strict=True) if rate > least for label in own})
    if not cut:
        return []
    said = f"sample rates from {least} to {max(rates)} Hz; everything is resampled to {least} Hz"
    return [f"{said}: nothing above {least // 2} Hz is heard of {', '.join(map(repr, cut))}"]


def _on_files(examples: Examples) -> Iterator[str]:
    """Which recordings are incomplete, or joined from others."""
    for path in dict.fromkeys(note.recording for note in examples.notes):
        audio = Recording(path)
        partial = () if audio.partial is None else (audio.partial,)
        yield from (f"{path.name}: {said}" for said in (*partial, *audio.remarks))


def _on_classes(notes: Sequence[Example]) -> Iterator[str]:
    """Which classes have a single example, and that frequency limits were read."""
    counts = Counter(note.label for note in notes)
    alone = [repr(label) for label in sorted(counts) if counts[label] == 1]
    if alone:
        its = "its threshold" if len(alone) == 1 else "their thresholds"
        yield (
            f"a single example of {listing(alone)}: {its} could not be tested on an example that was left out; give "
            "more, if possible from several recordings"
        )
    marked = [note.annotation for note in notes if note.annotation is not None]
    limited = sum(annotation.low_hz is not None or annotation.high_hz is not None for annotation in marked)
    if limited:
        have = "annotation has" if limited == 1 else "annotations have"
        yield (
            f"{limited} {have} frequency limits, which are kept with the examples but do not narrow what the model "
            "hears"
        )


def _odd(learnt: Learnt) -> Iterator[str]:
    yield from _on_classes(learnt.examples.notes)
    training = learnt.detector.model_.training
    lengths = [record["end_s"] - record["start_s"] for record in training]
    n_long = sum(length_s > LONG_NOTE_S for length_s in lengths)
    if n_long:
        worst = training[lengths.index(max(lengths))]
        what = number_of(n_long, "clip" if learnt.examples.clips else "annotation")
        longest = f"{worst['name']} ({worst['label']}) {max(lengths):.1f} s"
        yield f"{what} longer than {LONG_NOTE_S:g} s: {longest}; is it one note?"
    names = defaultdict(list)
    for record in training:
        names[record["sha256"]].append(f"{record['name']} at {record['start_s']:.3f} s ({record['label']})")
    for same in names.values():
        if len(same) > 1:
            often = "twice" if len(same) == 2 else f"{len(same)} times"
            yield f"the same sound {often}: {' and '.join(same[:2])}; keep one of them"
    if learnt.seconds > MUCH_S:
        yield f"{learnt.seconds / 3600:.1f} h of sound were used; fewer examples (--max-examples) need less memory"
