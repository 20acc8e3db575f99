"""A clip to learn from: a file, or a part of one, without the digital silence at its ends."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outlark.audio.margins import Part, without_silence
from outlark.audio.sound import read
from outlark.commands.excerpt import Sound
from outlark.commands.train.examples import Example
from outlark.errors import AudioError


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
