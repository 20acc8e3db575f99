"""An excerpt of a recording, without decoding the rest; and an excerpt with the surroundings that a detector needs."""

import math
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import ArrayLike

from outlark.audio.sound import CHUNK, AudioFile, check_sample_rate, for_decoder, mono
from outlark.errors import AudioError, InputError
from outlark.features.base import FrontEnd
from outlark.features.noise_floor import ENOUGH_FRAMES_PER_SECOND, LevelFloor

#: The noise floor looks this many seconds back and ahead, in chunks of one second that may start a second earlier.
BACK_S, AHEAD_S = 12.0, 4.0
#: Formats in which seeking is not exact, so that everything before the excerpt is decoded, too.
UNSURE = ("MP3", "OGG", "MPEG")


class Sound:
    """A recording from which excerpts are read: a file, or an array with its sample rate.

    `channel` is "mix" (the mean of all channels) or a number from 0; `n_samples` is what the file states.

    >>> sound = Sound(np.arange(8.0), sample_rate=1000)
    >>> sound.part(5, 10), sound.n_samples
    (array([5., 6., 7.]), 8)
    """

    def __init__(
        self,
        recording: ArrayLike | str | PathLike[str],
        sample_rate: int | None = None,
        channel: int | str = "mix",
    ) -> None:
        self._channel, self._samples = channel, np.empty(0)
        self._file = AudioFile(recording, channel) if isinstance(recording, str | PathLike) else None
        if self._file is not None:
            self.sample_rate = self._file.sample_rate
            self.n_samples = int(soundfile.info(for_decoder(self._file.path)).frames)
        elif sample_rate is None:
            raise InputError("the recording is an array; give its sample_rate, or the path of a file")
        else:
            self._samples = mono(recording, channel)  # type: ignore[arg-type]
            self.sample_rate, self.n_samples = check_sample_rate(sample_rate), len(self._samples)

    @property
    def duration_s(self) -> float:
        return self.n_samples / self.sample_rate

    def part(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1, as far as they exist, float64."""
        start, end = max(0, start), min(end, self.n_samples)
        if self._file is None:
            return self._samples[start:end]
        if start >= end:
            return np.empty(0)
        try:
            with soundfile.SoundFile(for_decoder(self._file.path)) as file:
                if file.format in UNSURE:
                    for at in range(0, start, CHUNK):
                        file.read(min(CHUNK, start - at), dtype="float32")
                else:
                    file.seek(start)
                sizes = (min(CHUNK, end - at) for at in range(start, end, CHUNK))
                return np.concatenate(
                    [mono(file.read(size, dtype="float64", always_2d=True), self._channel) for size in sizes]
                )
        except (soundfile.SoundFileError, InputError) as error:
            where = f"from {start / self.sample_rate:.3f} to {end / self.sample_rate:.3f} s"
            raise AudioError(
                f"{self._file.path}: cannot be read {where} ({error}); get another copy, or use another part of it"
            ) from error


class Surroundings(NamedTuple):
    """Samples of an excerpt with its surroundings, and the sample of the recording at which they start."""

    samples: np.ndarray
    start: int


def with_surroundings(sound: Sound, start_s: float, end_s: float, detector: Any) -> Surroundings:
    """An excerpt from which a detector finds, between two times, the same as in the whole recording."""
    front_end, rate = detector.front_end_, sound.sample_rate
    before, after = (n / detector.sample_rate_ for n in front_end.context_samples_)
    longest_s = float(np.max(detector.layout_.longest_s))
    # chunks are counted from the start of a recording: start where all of them start anew
    grain_s = _grain(front_end) / detector.sample_rate_
    n_grains = max(0, math.floor((start_s - BACK_S - before - longest_s) / grain_s))
    start = round(n_grains * grain_s * rate)
    end = math.ceil((end_s + AHEAD_S + after + 2 * longest_s) * rate)
    return Surroundings(sound.part(start, end), start)


def _grain(front_end: FrontEnd) -> int:
    """In samples: as many chunks of the noise floor as keep its thinning, and every second frame, in step."""
    spectrum = getattr(front_end, "spectrum_", None)
    hop = front_end.hop_samples_ if spectrum is None else spectrum.hop
    frame_rate = front_end.sample_rate_ / hop
    thinning = max(1, int(frame_rate // ENOUGH_FRAMES_PER_SECOND))
    return math.lcm(LevelFloor(frame_rate).chunk, 2 * thinning) * hop
