"""What is read of sound files in order to learn from them.

A clip is read whole, without the digital silence at its ends. Recordings of ten minutes or less in total are also read
whole, as `NoteDetector.fit_recordings` expects. Of longer ones only excerpts around the annotations are read, so that
five annotations in a night take no more memory than five in ten minutes: every annotation contributes an equal share of
ten minutes, and at least 15 s on each side, because the noise floor looks 10 s back and 2 s ahead.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from outlark.audio.margins import Part, without_silence
from outlark.audio.sound import read
from outlark.commands.excerpt import Sound
from outlark.commands.train.examples import Example
from outlark.errors import AnnotationError, AudioError
from outlark.segments import Segment

#: Recordings of up to this duration in total are read whole; of longer ones about as much.
WHOLE_S = 600.0
#: At least this much is read before and after an annotation.
MARGIN_S = 15.0
#: Annotation files round times: an annotation that ends this much after its recording ends with it.
ROUNDING_S = 0.001


@dataclass(frozen=True, eq=False)
class Clip:
    """A clip, the part of it that is learnt, and the number of samples before it in its file."""

    note: Example
    samples: np.ndarray
    rate: int
    part: Part
    before: int = 0

    @classmethod
    def of(cls, note: Example, channel: int | str) -> Self:
        """The whole file, or the annotated part of it."""
        before = 0
        if note.annotation is None:
            samples, rate = read(note.recording, channel)
        else:
            sound = Sound(note.recording, channel=channel)
            rate, before = sound.sample_rate, round(note.annotation.start_s * sound.sample_rate)
            samples = sound.part(before, round(note.annotation.end_s * rate))
        if not len(samples):
            raise AudioError(f"{note.recording} contains no samples; record it again")
        return cls(note, samples, rate, without_silence(samples, rate), before)

    @property
    def heard(self) -> np.ndarray:
        """The part that is learnt."""
        return self.samples[self.part.start : self.part.end]

    @property
    def cut_s(self) -> float:
        """Seconds that are not learnt."""
        return self.part.outside_s(len(self.samples), self.rate)

    def put_in_place(self, record: dict[str, Any]) -> None:
        """Make a `training_record` refer to the file."""
        before_s = (self.before + self.part.start) / self.rate
        record |= {"name": self.note.recording.name, "start_s": before_s, "end_s": before_s + record["end_s"]}


@dataclass(frozen=True, eq=False)
class Stretch:
    """An excerpt of a recording from sample `first`, and its annotated notes, in samples of the excerpt."""

    recording: Path
    first: int
    samples: np.ndarray
    sample_rate: int
    notes: list[Segment]


@dataclass(frozen=True, eq=False)
class Heard:
    """Excerpts around annotations, their recordings and total duration, and remarks on annotations beyond the end."""

    stretches: list[Stretch]
    recordings: list[Path]
    there_s: float
    beyond: list[str]

    @property
    def seconds(self) -> float:
        """Total duration of the excerpts."""
        return sum(len(stretch.samples) / stretch.sample_rate for stretch in self.stretches)

    @property
    def rates(self) -> list[int]:
        """The sample rate of each excerpt."""
        return [stretch.sample_rate for stretch in self.stretches]

    def put_in_place(self, records: Sequence[dict[str, Any]]) -> None:
        """Make each `training_record` refer to its recording."""
        for record in records:
            stretch = self.stretches[record["recording"]]
            before_s = stretch.first / stretch.sample_rate
            record |= {"recording": self.recordings.index(stretch.recording), "name": stretch.recording.name}
            record |= {"start_s": before_s + record["start_s"], "end_s": before_s + record["end_s"]}


def hear(notes: Sequence[Example], channel: int | str, watch: Callable[[int, int], None]) -> Heard:
    """Read what is needed of the recordings of annotated notes; `watch` gets the number of files read and in total."""
    of_recording: dict[Path, list[Example]] = defaultdict(list)
    for note in notes:
        of_recording[note.recording].append(note)
    sounds = {path: Sound(path, channel=channel) for path in of_recording}
    there_s = sum(sound.duration_s for sound in sounds.values())
    margin_s = margin(there_s, len(notes))
    stretches: list[Stretch] = []
    beyond: list[str] = []
    for number, (path, own) in enumerate(of_recording.items(), start=1):
        stretches += _excerpts(path, sounds[path], own, margin_s, channel, beyond)
        watch(number, len(of_recording))
    return Heard(stretches, list(of_recording), there_s, beyond)


def margin(seconds: float, n_marks: int) -> float | None:
    """Seconds to read on each side of each annotation in recordings of this total duration; None for all of it.

    >>> margin(500.0, 5), margin(36000.0, 5), margin(36000.0, 200)
    (None, 60.0, 15.0)
    """
    return None if seconds <= WHOLE_S else max(MARGIN_S, WHOLE_S / (2 * n_marks))


def _excerpts(
    path: Path,
    sound: Sound,
    notes: Sequence[Example],
    margin_s: float | None,
    channel: int | str,
    remarks: list[str],
) -> Iterator[Stretch]:
    """The whole recording, or what is within a margin of its annotations; overlapping excerpts become one."""
    rate = sound.sample_rate
    if margin_s is None:
        samples, _ = read(path, channel)  # to the end, which not all headers state
        yield Stretch(path, 0, samples, rate, [_segment(note, rate, len(samples), remarks) for note in notes])
        return
    segments = [_segment(note, rate, sound.n_samples, remarks) for note in notes]
    for start, end, own in _joined(segments, round(margin_s * rate)):
        moved = [replace(s, start=s.start - start, end=s.end - start) for s in own]
        yield Stretch(path, start, sound.part(start, end), rate, moved)


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
        raise AnnotationError(f"{said}; do they belong together?")
    if segment.end - n_samples > ROUNDING_S * rate:
        remarks.append(f"{said}: used up to there")
    return replace(segment, end=n_samples)
