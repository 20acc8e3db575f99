"""Training a detector on examples in files: clips, or annotated recordings.

A clip is read whole, without the digital silence at its ends. Recordings of ten minutes or less in total are also read
whole. Of longer ones only excerpts around the annotations are read, so that five annotations in a night take no more
memory than five in ten minutes: every annotation contributes an equal share of ten minutes, and at least 15 s on each
side, because the noise floor looks 10 s back and 2 s ahead.
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from outlark.audio.clips import is_long, outside_s, without_quiet, without_silence
from outlark.audio.recording import Recording, read
from outlark.commands.train.examples import Example, Examples
from outlark.detection.detector import NoteDetector
from outlark.detection.front_end_choice import LEAST_WINDOW
from outlark.detection.negatives import AsGoodAsNotes, as_good_as_notes
from outlark.errors import AnnotationError, AudioError, InputError, Problem
from outlark.plain_text import number_of
from outlark.segments import Segment

#: Recordings of up to this duration in total are read whole; of longer ones about as much.
WHOLE_S = 600.0
#: At least this much is read before and after an annotation.
MARGIN_S = 15.0
#: Annotation files round times: an annotation that ends this much after its recording ends with it.
ROUNDING_S = 0.001
#: Shorter annotations may be too short for any window.
CLICK_S = 0.005
#: Notes are rarely longer than this.
LONG_NOTE_S = 5.0
#: More sound than this needs gigabytes of memory.
MUCH_S = 3600.0
#: Called with the number of files read so far and in total.
Watch = Callable[[int, int], None]


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
    """A trained detector, the examples it learnt from, the seconds of sound, remarks, and what could not be learnt."""

    detector: NoteDetector
    examples: Examples
    seconds: float
    remarks: tuple[str, ...] = ()
    unread: tuple[Problem, ...] = ()

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


def learn(
    examples: Examples,
    detector: NoteDetector | None = None,
    *,
    channel: int | str = "mix",
    trim: bool = False,
    watch: Watch | None = None,
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
    marked_s = [_marked_s(note) for note in negatives]
    negatives = _that_fill(negatives, marked_s, [window_s] * len(negatives), refused)
    rejected = reject(detector, negatives, channel, watch)
    remarks = (*examples.remarks, *_on_files(learnt.examples), *learnt.remarks, *rejected, *_odd(learnt))
    return replace(learnt, remarks=remarks, unread=(*refused, *learnt.unread))


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
            f"{_where(note)} lasts {1e3 * duration_s:.3g} ms, less than a window of the model ({1e3 * window_s:.3g} "
            "ms), and was not learnt; mark the note from its start to its end"
        )
        refused.append(Problem(str(note.recording), message))
    return tuple(kept)


def _where(note: Example) -> str:
    if note.annotation is None:
        return f"{note.recording} ({note.label!r})"
    line = "" if note.annotation.line is None else f", line {note.annotation.line}"
    return f"{note.table}{line}: {note.label!r} at {note.annotation.start_s:.3f} s"


# ---------------------------------------------------------------------- clips


@dataclass(frozen=True, eq=False)
class Clip:
    """A clip, the part of it that is learnt, and the number of samples before it in its file."""

    note: Example
    samples: np.ndarray
    rate: int
    part: slice
    before: int = 0

    @classmethod
    def of(cls, note: Example, channel: int | str) -> Self:
        """The whole file, or the annotated part of it."""
        before = 0
        if note.annotation is None:
            samples, rate = read(note.recording, channel)
        else:
            sound = Recording(note.recording, channel=channel)
            rate, before = sound.sample_rate, round(note.annotation.start_s * sound.sample_rate)
            samples = sound.part(before, round(note.annotation.end_s * rate))
        if not len(samples):
            raise AudioError(f"{note.recording} contains no samples; record it again")
        return cls(note, samples, rate, without_silence(samples, rate), before)

    @property
    def used(self) -> np.ndarray:
        """The part that is learnt."""
        return self.samples[self.part]

    @property
    def cut_s(self) -> float:
        """Seconds that are not learnt."""
        return outside_s(self.part, len(self.samples), self.rate)

    @property
    def trimmed(self) -> "Clip":
        part = without_quiet(self.used, self.rate)
        return replace(self, part=slice(self.part.start + part.start, self.part.start + part.stop))

    def in_file(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A `training_record` that refers to the file."""
        before_s = (self.before + self.part.start) / self.rate
        place = {"name": self.note.recording.name, "start_s": before_s, "end_s": before_s + record["end_s"]}
        return {**record, **place}


def _learn_clips(examples: Examples, detector: NoteDetector, channel: int | str, trim: bool, watch: Watch) -> Learnt:
    clips: list[Clip] = []
    unread: list[Problem] = []
    for number, note in enumerate(examples.notes, start=1):
        try:
            clips.append(Clip.of(note, channel))
        except AudioError as error:
            unread.append(Problem(str(note.recording), str(error)))
        watch(number, len(examples.notes))
    lost = sorted(set(examples.labels) - {clip.note.label for clip in clips})
    if lost:
        own = {str(note.recording) for note in examples.notes if note.label == lost[0]}
        why = next(file.message for file in unread if file.where in own)
        raise AudioError(f"no clip of the class {lost[0]!r} can be read: {why}")
    trimmed = [clip.trimmed for clip in clips]
    used, rates = trimmed if trim else clips, [clip.rate for clip in clips]
    on_rates = _on_rates(rates, [[clip.note.label] for clip in clips])
    detector.fit([clip.used for clip in used], [clip.note.label for clip in used], rates)
    training = [clip.in_file(record) for record, clip in zip(detector.model_.training, used, strict=True)]
    detector.model_ = replace(detector.model_, training=training)
    return Learnt(
        detector=detector,
        examples=replace(examples, notes=tuple(clip.note for clip in used)),
        seconds=sum(len(clip.used) / clip.rate for clip in used),
        remarks=(
            *_on_silence(clips),
            *_on_margins(clips, trimmed, trim),
            *on_rates,
        ),
        unread=tuple(unread),
    )


def _on_silence(clips: Sequence[Clip]) -> Iterator[str]:
    cut = [clip for clip in clips if clip.cut_s]
    if cut:
        most = max(cut, key=lambda clip: clip.cut_s)
        of = f"{most.cut_s:.3f} s of {most.note.recording.name} ({most.note.label})"
        yield f"digital silence at the ends of {number_of(len(cut), 'clip')} removed, such as {of}"


def _on_margins(clips: Sequence[Clip], trimmed: Sequence[Clip], trim: bool) -> Iterator[str]:
    """What was trimmed, or is so long that it should be."""
    cuts = [(new.cut_s - clip.cut_s, clip, new) for clip, new in zip(clips, trimmed, strict=True)]
    if trim:
        cut = [(cut_s, clip) for cut_s, clip, _ in cuts if cut_s]
        what, then = "trimmed", ""
    else:
        cut = [(cut_s, clip) for cut_s, clip, new in cuts if is_long(new.part, len(clip.used), clip.rate)]
        what, then = "with quiet margins longer than the note", "; outlark train … --trim removes them"
    if cut:
        cut_s, clip = max(cut, key=lambda pair: pair[0])
        of = f"{cut_s:.3f} of {len(clip.used) / clip.rate:.3f} s of {clip.note.recording.name} ({clip.note.label})"
        yield f"{number_of(len(cut), 'clip')} {what}, such as {of}{then}"


# ---------------------------------------------------------------- annotations


@dataclass(frozen=True, eq=False)
class Excerpt:
    """An excerpt of a recording from sample `first`, and its annotated notes, in samples of the excerpt."""

    recording: Path
    first: int
    samples: np.ndarray
    sample_rate: int
    notes: list[Segment]


@dataclass(frozen=True, eq=False)
class AnnotatedSound:
    """Excerpts around annotations, their recordings and total duration, and remarks on annotations beyond the end."""

    excerpts: list[Excerpt]
    recordings: list[Path]
    there_s: float
    beyond: list[str]

    @property
    def examples(self) -> tuple[list[np.ndarray], list[list[Segment]], list[int]]:
        """The samples, notes and sample rate of each excerpt, as `NoteDetector` takes them."""
        rates = [excerpt.sample_rate for excerpt in self.excerpts]
        return [excerpt.samples for excerpt in self.excerpts], [excerpt.notes for excerpt in self.excerpts], rates

    def in_file(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A `training_record` that refers to its recording."""
        excerpt = self.excerpts[record["recording"]]
        before_s = excerpt.first / excerpt.sample_rate
        place = {"recording": self.recordings.index(excerpt.recording), "name": excerpt.recording.name}
        return {**record, **place, "start_s": before_s + record["start_s"], "end_s": before_s + record["end_s"]}


def _learn_annotations(examples: Examples, detector: NoteDetector, channel: int | str, watch: Watch) -> Learnt:
    sound = _read_around(examples.notes, channel, watch)
    samples, notes, rates = sound.examples
    detector.fit_recordings(samples, notes, rates)
    training = [sound.in_file(record) for record in detector.model_.training]
    detector.model_ = replace(detector.model_, training=training)
    seconds = sum(len(own) / rate for own, rate in zip(samples, rates, strict=True))
    said = f"used {seconds:.0f} s around the annotations, out of {sound.there_s:.0f} s of recordings"
    part = [said] if _margin(sound.there_s, len(examples.notes)) is not None else []
    remarks = (*sound.beyond, *part, *_on_rates(rates, [[str(s.label) for s in own] for own in notes]))
    return Learnt(detector=detector, examples=examples, seconds=seconds, remarks=remarks)


def _by_recording(notes: Sequence[Example]) -> dict[Path, list[Example]]:
    of_recording: dict[Path, list[Example]] = defaultdict(list)
    for note in notes:
        of_recording[note.recording].append(note)
    return of_recording


def _read_around(notes: Sequence[Example], channel: int | str, watch: Watch) -> AnnotatedSound:
    """Read what is needed of the recordings of annotated notes."""
    of_recording = _by_recording(notes)
    sounds = {path: Recording(path, channel=channel) for path in of_recording}
    there_s = sum(sound.duration_s for sound in sounds.values())
    margin_s = _margin(there_s, len(notes))
    excerpts: list[Excerpt] = []
    beyond: list[str] = []
    for number, (path, own) in enumerate(of_recording.items(), start=1):
        excerpts += _excerpts(path, sounds[path], own, margin_s, channel, beyond)
        watch(number, len(of_recording))
    return AnnotatedSound(excerpts, list(of_recording), there_s, beyond)


def _margin(seconds: float, n_annotations: int) -> float | None:
    """Seconds to read on each side of each annotation in recordings of this total duration; None for all of it.

    >>> _margin(500.0, 5), _margin(36000.0, 5), _margin(36000.0, 200)
    (None, 60.0, 15.0)
    """
    return None if seconds <= WHOLE_S else max(MARGIN_S, WHOLE_S / (2 * n_annotations))


def _excerpts(
    path: Path,
    sound: Recording,
    notes: Sequence[Example],
    margin_s: float | None,
    channel: int | str,
    remarks: list[str],
) -> Iterator[Excerpt]:
    """The whole recording, or what is within a margin of its annotations; overlapping excerpts become one."""
    rate = sound.sample_rate
    if margin_s is None:
        samples, _ = read(path, channel)  # to the end, which not all headers state
        yield Excerpt(path, 0, samples, rate, [_segment(note, rate, len(samples), remarks) for note in notes])
        return
    segments = [_segment(note, rate, sound.n_samples, remarks) for note in notes]
    for start, end, own in _joined(segments, round(margin_s * rate)):
        moved = [replace(s, start=s.start - start, end=s.end - start) for s in own]
        yield Excerpt(path, start, sound.part(start, end), rate, moved)


def _joined(segments: Sequence[Segment], margin: int) -> list[tuple[int, int, list[Segment]]]:
    """Start, end and notes of each excerpt."""
    joined: list[tuple[int, int, list[Segment]]] = []
    for segment in sorted(segments, key=lambda s: s.start):
        start, end = max(0, segment.start - margin), segment.end + margin
        if joined and start <= joined[-1][1]:
            first, last, own = joined.pop()
            joined.append((first, max(last, end), [*own, segment]))
        else:
            joined.append((start, end, [segment]))
    return joined


def _segment(note: Example, rate: int, n_samples: int, remarks: list[str]) -> Segment:
    """The annotation in samples, up to the end of the recording; an error if most of it lies beyond."""
    assert note.annotation is not None
    try:
        segment = replace(note.annotation.segment(rate), label=note.label)
    except AnnotationError as error:
        raise AnnotationError(f"{note.table}, {error}") from None
    if segment.end <= n_samples:
        return segment
    line = "" if note.annotation.line is None else f", line {note.annotation.line}"
    said = (
        f"{note.table}{line}: {note.label!r} is annotated from {note.annotation.start_s:.3f} to "
        f"{note.annotation.end_s:.3f} s, but {note.recording} ends at {n_samples / rate:.3f} s"
    )
    if segment.start + segment.end >= 2 * n_samples:
        raise AnnotationError(f"{said}; check that this annotation file belongs to this recording")
    if segment.end - n_samples > ROUNDING_S * rate:
        remarks.append(f"{said}: used up to there")
    return replace(segment, end=n_samples)


# ------------------------------------------------------------------ negatives


def reject(detector: NoteDetector, negatives: Sequence[Example], channel: int | str, watch: Watch) -> list[str]:
    """Make a trained detector reject negatives, clips and annotations; returns remarks."""
    clips, annotated = ([note for note in negatives if note.is_clip is wanted] for wanted in (True, False))
    before = len(detector.model_.negatives)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AsGoodAsNotes)  # reported below, with the names of the files
        if clips:
            _reject_clips(detector, [Clip.of(note, channel) for note in clips])
        remarks = _reject_annotations(detector, annotated, channel, watch)
    new = detector.model_.negatives[before:]
    return remarks if detector.note_model_ is None else [*remarks, *as_good_as_notes(detector.note_model_, new)]


def _reject_clips(detector: NoteDetector, clips: Sequence[Clip]) -> None:
    before = len(detector.model_.negatives)
    labels, rates = [clip.note.label for clip in clips], [clip.rate for clip in clips]
    detector.reject_clips([clip.used for clip in clips], labels, rates)
    new = zip(detector.model_.negatives[before:], clips, strict=True)
    _replace_negatives(detector, before, [clip.in_file(record) for record, clip in new])


def _replace_negatives(detector: NoteDetector, first: int, records: Sequence[Mapping[str, Any]]) -> None:
    """From number `first` on."""
    negatives = [*detector.model_.negatives[:first], *records]
    detector.model_ = replace(detector.model_, negatives=negatives)


def _reject_annotations(
    detector: NoteDetector, notes: Sequence[Example], channel: int | str, watch: Watch
) -> list[str]:
    """One recording at a time, to save memory."""
    remarks: list[str] = []
    of_recording = _by_recording(notes)
    for number, own in enumerate(of_recording.values()):
        sound, before = _read_around(own, channel, lambda done, total: None), len(detector.model_.negatives)
        detector.reject(*sound.examples)
        new = detector.model_.negatives[before:]
        _replace_negatives(detector, before, [sound.in_file(record) | {"recording": number} for record in new])
        remarks += sound.beyond
        watch(number + 1, len(of_recording))
    return remarks


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


def _odd(learnt: Learnt) -> Iterator[str]:
    training = learnt.detector.model_.training
    lengths = [record["end_s"] - record["start_s"] for record in training]
    n_long = sum(length_s > LONG_NOTE_S for length_s in lengths)
    if n_long:
        worst = training[lengths.index(max(lengths))]
        what = number_of(n_long, "clip" if learnt.examples.clips else "annotation")
        longest = f"{worst['name']} ({worst['label']}) {max(lengths):.1f} s"
        yield f"{what} longer than {LONG_NOTE_S:g} s: {longest}; is it one note?"
    for sha, n in Counter(record["sha256"] for record in training).items():
        if n > 1:
            same = [
                f"{record['name']} at {record['start_s']:.3f} s ({record['label']})"
                for record in training
                if record["sha256"] == sha
            ]
            yield f"the same sound {'twice' if n == 2 else f'{n} times'}: {' and '.join(same[:2])}; keep one of them"
    if learnt.seconds > MUCH_S:
        yield f"{learnt.seconds / 3600:.1f} h of sound were used; fewer examples (--max-examples) need less memory"
