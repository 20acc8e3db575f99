"""The sound of examples: clips, and what is needed of annotated recordings.

A clip is read whole, without the digital silence at its ends. Recordings of ten minutes or less in total are also read
whole. Of longer ones only pieces around the annotations are read, so that five annotations in a night take no more
memory than five in ten minutes: every annotation contributes an equal share of ten minutes, and at least 15 s on each
side, because the noise floor looks 10 s back and 2 s ahead.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from outlark.audio.clips import outside_s, without_quiet, without_silence
from outlark.audio.recording import Recording, read
from outlark.commands.train.examples import Example
from outlark.errors import AnnotationError, AudioError
from outlark.plain_text import ProgressCallback
from outlark.segments import Segment

#: Recordings of up to this duration in total are read whole; of longer ones about as much.
WHOLE_S = 600.0
#: At least this much is read before and after an annotation.
MARGIN_S = 15.0
#: Annotation files round times: an annotation that ends this much after its recording ends with it.
ROUNDING_S = 0.001


@dataclass(frozen=True, eq=False)
class Piece:
    """Samples of a recording from sample `first` on, and the notes in them; a clip is one note as a whole."""

    recording: Path
    first: int
    samples: np.ndarray
    rate: int
    notes: Sequence[Segment] = ()

    def in_file(self, record: Mapping[str, Any], number: int) -> dict[str, Any]:
        """A `training_record` that refers to the recording, which has this number."""
        before_s = self.first / self.rate
        place = {"recording": number, "name": self.recording.name}
        return {**record, **place, "start_s": before_s + record["start_s"], "end_s": before_s + record["end_s"]}


@dataclass(frozen=True, eq=False)
class TrainingClip:
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
    def used(self) -> Piece:
        """The part that is learnt."""
        samples = self.samples[self.part]
        return Piece(self.note.recording, self.before + self.part.start, samples, self.rate)

    @property
    def cut_s(self) -> float:
        """Seconds that are not learnt."""
        return outside_s(self.part, len(self.samples), self.rate)

    @property
    def trimmed(self) -> "TrainingClip":
        part = without_quiet(self.used.samples, self.rate)
        return replace(self, part=slice(self.part.start + part.start, self.part.start + part.stop))


@dataclass(frozen=True, eq=False)
class AnnotatedSound:
    """What was read around annotations, the total duration of the recordings, and remarks on what is beyond the end."""

    pieces: list[Piece]
    there_s: float
    beyond: list[str]
    #: Whether pieces of the recordings were read rather than all of them.
    in_pieces: bool

    @property
    def examples(self) -> tuple[list[np.ndarray], list[Sequence[Segment]], list[int]]:
        """The samples, notes and sample rate of each piece, as `NoteDetector` takes them."""
        pieces = self.pieces
        return [piece.samples for piece in pieces], [piece.notes for piece in pieces], [piece.rate for piece in pieces]

    def in_file(self, record: Mapping[str, Any], first: int = 0) -> dict[str, Any]:
        """A `training_record` that refers to its recording; they are counted from `first`."""
        recordings = list(dict.fromkeys(piece.recording for piece in self.pieces))
        piece = self.pieces[record["recording"]]
        return piece.in_file(record, first + recordings.index(piece.recording))


def by_recording(notes: Sequence[Example]) -> dict[Path, list[Example]]:
    of_recording: dict[Path, list[Example]] = defaultdict(list)
    for note in notes:
        of_recording[note.recording].append(note)
    return of_recording


def read_around(notes: Sequence[Example], channel: int | str, watch: ProgressCallback) -> AnnotatedSound:
    """Read what is needed of the recordings of annotated notes."""
    of_recording = by_recording(notes)
    sounds = {path: Recording(path, channel=channel) for path in of_recording}
    there_s = sum(sound.duration_s for sound in sounds.values())
    margin_s = _margin(there_s, len(notes))
    pieces: list[Piece] = []
    beyond: list[str] = []
    for number, (path, own) in enumerate(of_recording.items(), start=1):
        pieces += _pieces(sounds[path], own, margin_s, channel, beyond)
        watch(number, len(of_recording))
    return AnnotatedSound(pieces, there_s, beyond, margin_s is not None)


def _margin(seconds: float, n_annotations: int) -> float | None:
    """Seconds to read on each side of each annotation in recordings of this total duration; None for all of it.

    >>> _margin(500.0, 5), _margin(36000.0, 5), _margin(36000.0, 200)
    (None, 60.0, 15.0)
    """
    return None if seconds <= WHOLE_S else max(MARGIN_S, WHOLE_S / (2 * n_annotations))


def _pieces(
    sound: Recording, notes: Sequence[Example], margin_s: float | None, channel: int | str, remarks: list[str]
) -> Iterator[Piece]:
    """The whole recording, or what is within a margin of its annotations; overlapping pieces become one."""
    path, rate = notes[0].recording, sound.sample_rate
    if margin_s is None:
        samples, _ = read(path, channel)  # to the end, which not all headers state
        yield Piece(path, 0, samples, rate, [_segment(note, rate, len(samples), remarks) for note in notes])
        return
    segments = [_segment(note, rate, sound.n_samples, remarks) for note in notes]
    for start, end, own in _joined(segments, round(margin_s * rate)):
        moved = [replace(s, start=s.start - start, end=s.end - start) for s in own]
        yield Piece(path, start, sound.part(start, end), rate, moved)


def _joined(segments: Sequence[Segment], margin: int) -> list[tuple[int, int, list[Segment]]]:
    """Start, end and notes of each piece."""
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
    said = (
        f"{note.file_and_line}: {note.label!r} is annotated from {note.annotation.start_s:.3f} to "
        f"{note.annotation.end_s:.3f} s, but {note.recording} ends at {n_samples / rate:.3f} s"
    )
    if segment.start + segment.end >= 2 * n_samples:
        raise AnnotationError(f"{said}; check that this annotation file belongs to this recording")
    if segment.end - n_samples > ROUNDING_S * rate:
        remarks.append(f"{said}: used up to there")
    return replace(segment, end=n_samples)
