"""What is read of recordings to learn from the notes marked in them.

Recordings that last ten minutes or less all together are heard whole, as `NoteDetector.fit_recordings` does it. Of
longer ones only the stretches around the marks are read, so that five marks in a night take no more memory than five
marks in ten minutes: every mark brings an equal share of ten minutes, and at least 15 s on each side, since the noise
floor looks 10 s back and 2 s ahead.
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

#: Recordings up to this long, all together, are heard whole; of longer ones about as much.
WHOLE_S = 600.0
#: At least so much is heard before and after a mark.
MARGIN_S = 15.0
#: Tables round times: a mark that ends this much after its recording ends with it.
ROUNDING_S = 0.001


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of a recording, from sample `first` on, and the notes marked in it, in samples of the part."""

    recording: Path
    first: int
    samples: np.ndarray
    sample_rate: int
    notes: list[Segment]


@dataclass(frozen=True, eq=False)
class Heard:
    """What was read around marks: the stretches, the recordings that they are of, how long these last, and marks that
    reach beyond their ends, in words."""

    stretches: list[Stretch]
    recordings: list[Path]
    there_s: float
    beyond: list[str]

    @property
    def seconds(self) -> float:
        """Of sound."""
        return sum(len(stretch.samples) / stretch.sample_rate for stretch in self.stretches)

    @property
    def rates(self) -> list[int]:
        """Of the stretches."""
        return [stretch.sample_rate for stretch in self.stretches]

    def put_in_place(self, records: Sequence[dict[str, Any]]) -> None:
        """Say of notes of the stretches (`training_record`) where they are in their recordings."""
        for record in records:
            stretch = self.stretches[record["recording"]]
            before_s = stretch.first / stretch.sample_rate
            record |= {"recording": self.recordings.index(stretch.recording), "name": stretch.recording.name}
            record |= {"start_s": before_s + record["start_s"], "end_s": before_s + record["end_s"]}


def hear(notes: Sequence[Example], channel: int | str, watch: Callable[[int, int], None]) -> Heard:
    """Read what has to be heard of the recordings of marked notes; `watch` is told how many of how many are read."""
    of_recording: dict[Path, list[Example]] = defaultdict(list)
    for note in notes:
        of_recording[note.recording].append(note)
    sounds = {path: Sound(path, channel=channel) for path in of_recording}
    there_s = sum(sound.duration_s for sound in sounds.values())
    margin_s = margin(there_s, len(notes))
    stretches: list[Stretch] = []
    beyond: list[str] = []
    for number, (path, own) in enumerate(of_recording.items(), start=1):
        stretches += around_marks(path, sounds[path], own, margin_s, channel, beyond)
        watch(number, len(of_recording))
    return Heard(stretches, list(of_recording), there_s, beyond)


def margin(seconds: float, n_marks: int) -> float | None:
    """How much of recordings that last so long is heard on each side of each mark; None for all of it.

    >>> margin(500.0, 5), margin(36000.0, 5), margin(36000.0, 200)
    (None, 60.0, 15.0)
    """
    return None if seconds <= WHOLE_S else max(MARGIN_S, WHOLE_S / (2 * n_marks))


def around_marks(
    path: Path,
    sound: Sound,
    notes: Sequence[Example],
    margin_s: float | None,
    channel: int | str = "mix",
    remarks: list[str] | None = None,
) -> Iterator[Stretch]:
    """The whole of a recording, or what is within a margin of its marks; stretches that overlap become one.

    Parameters
    ----------
    path : Path
    sound : Sound
        The same recording.
    notes : sequence of Example
        That are marked in it.
    margin_s : float or None
        None: all of it.
    channel : "mix" or int
    remarks : list of str, optional
        Marks that reach beyond the end of the recording, and are cut there, are added to it.

    Raises
    ------
    AnnotationError
        For a mark that does not lie in the recording, or lies beyond its end for the most part.
    """
    rate, told = sound.sample_rate, [] if remarks is None else remarks
    if margin_s is None:
        samples, _ = read(path, channel)  # to its end, which not all headers tell
        yield Stretch(path, 0, samples, rate, [_segment(note, rate, len(samples), told) for note in notes])
        return
    segments = [_segment(note, rate, sound.n_samples, told) for note in notes]
    for start, end, own in _joined(segments, round(margin_s * rate)):
        moved = [replace(s, start=s.start - start, end=s.end - start) for s in own]
        yield Stretch(path, start, sound.part(start, end), rate, moved)


def _joined(segments: Sequence[Segment], margin: int) -> list[tuple[int, int, list[Segment]]]:
    """Start and end of every stretch, and its notes."""
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
    """The mark in samples, up to the end of the recording; an error if it is not in the recording."""
    assert note.mark is not None
    try:
        segment = replace(note.mark.segment(rate), label=note.label)
    except AnnotationError as error:
        raise AnnotationError(f"{note.table}, {error}") from None
    if segment.end <= n_samples:
        return segment
    line = "" if note.mark.line is None else f", line {note.mark.line}"
    told = (
        f"{note.table}{line}: {note.label!r} is marked from {note.mark.start_s:.3f} to {note.mark.end_s:.3f} s, "
        f"but {note.recording} ends at {n_samples / rate:.3f} s"
    )
    if segment.start + segment.end >= 2 * n_samples:
        raise AnnotationError(f"{told}; do they belong together?")
    if segment.end - n_samples > ROUNDING_S * rate:
        remarks.append(f"{told}: it is learnt up to there")
    return replace(segment, end=n_samples)


@dataclass(frozen=True, eq=False)
class Clip:
    """A clip as it was read, the part of it that is learnt, and how many samples come before it in its file."""

    note: Example
    samples: np.ndarray
    rate: int
    part: Part
    before: int = 0

    @classmethod
    def of(cls, note: Example, channel: int | str) -> Self:
        """The whole file; where a mark says so, a part of it."""
        before = 0
        if note.mark is None:
            samples, rate = read(note.recording, channel)
        else:
            sound = Sound(note.recording, channel=channel)
            rate, before = sound.sample_rate, round(note.mark.start_s * sound.sample_rate)
            samples = sound.part(before, round(note.mark.end_s * rate))
        if not len(samples):
            raise AudioError(f"{note.recording} holds no samples; record it again")
        return cls(note, samples, rate, without_silence(samples, rate), before)

    @property
    def heard(self) -> np.ndarray:
        """The part that is learnt."""
        return self.samples[self.part.start : self.part.end]

    @property
    def cut_s(self) -> float:
        """Seconds that are not."""
        return self.part.outside_s(len(self.samples), self.rate)

    def put_in_place(self, record: dict[str, Any]) -> None:
        """Say of the note of a clip (`training_record`) where it is in its file."""
        before_s = (self.before + self.part.start) / self.rate
        record |= {"name": self.note.recording.name, "start_s": before_s, "end_s": before_s + record["end_s"]}
