"""Excerpts of a recording, without decoding the rest: as samples, with surroundings for a detector, or as new files."""

import math
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import ArrayLike

from outlark.audio.sound import CHUNK, AudioFile, check_sample_rate, for_decoder, mono
from outlark.errors import AudioError, InputError
from outlark.features.base import FrontEnd
from outlark.features.noise_floor import ENOUGH_FRAMES_PER_SECOND, LevelFloor
from outlark.files.aside import written_aside
from outlark.plain_text import writable

#: The noise floor looks this many seconds back and ahead, in chunks of one second that may start a second earlier.
BACK_S, AHEAD_S = 12.0, 4.0


class Sound:
    """A recording from which excerpts are read: a file, or an array with its sample rate.

    `channel` is "mix" (the mean of all channels) or a number from 0; `n_samples` is what the file states.

    >>> sound = Sound(np.arange(8.0), sample_rate=1000)
    >>> sound.part(5, 10), sound.n_samples
    (array([5., 6., 7.]), 8)
    """

    def __init__(
        self, recording: ArrayLike | str | PathLike[str], sample_rate: int | None = None, channel: int | str = "mix"
    ) -> None:
        self._channel, self._samples = channel, np.empty(0)
        self._file = AudioFile(recording, channel) if isinstance(recording, str | PathLike) else None
        if self._file is not None:
            self.sample_rate = self._file.sample_rate
            self.n_samples = self._file.n_samples
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
        return self._samples[start:end] if self._file is None else self._file.part(start, end)


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


#: Bits of the integers in which a recording is stored; lossy formats are not integers.
_BITS = {
    "PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32,
    "ALAC_16": 16, "ALAC_20": 24, "ALAC_24": 24, "ALAC_32": 32,
    "ULAW": 16, "ALAW": 16, "MS_ADPCM": 16, "IMA_ADPCM": 16,
}  # fmt: skip
_WAV = {8: "PCM_U8", 16: "PCM_16", 24: "PCM_24", 32: "PCM_32"}
_FLAC = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}


class Storage(NamedTuple):
    """How a part is stored: "wav" or "flac", soundfile's subtype, the dtype of samples, and whether it is lossless."""

    kind: str
    subtype: str
    dtype: str
    exact: bool


def storage(kind: str | None, format: str, subtype: str) -> Storage:
    """How parts of a recording are stored; by default as FLAC if it is FLAC, and otherwise as WAV.

    >>> storage(None, "FLAC", "PCM_24"), storage("wav", "MP3", "MPEG_LAYER_III").subtype
    (Storage(kind='flac', subtype='PCM_24', dtype='int32', exact=True), 'FLOAT')
    """
    kind = kind or ("flac" if format == "FLAC" else "wav")
    bits = _BITS.get(subtype)
    dtype = "int32" if bits else "float64" if subtype == "DOUBLE" else "float32"
    if kind == "flac":
        return Storage(kind, _FLAC.get(bits or 0, "PCM_24"), dtype, exact=bits in _FLAC)
    return Storage(kind, _WAV[bits] if bits else "DOUBLE" if dtype == "float64" else "FLOAT", dtype, exact=True)


class Reel(AbstractContextManager["Reel"]):
    """An open recording from which parts are taken in order.

    Only the parts are read. If seeking is not exact (MP3, Ogg), everything before them is decoded, too, but once.
    """

    def __init__(self, path: str | PathLike[str], kind: str | None = None) -> None:
        self._audio = AudioFile(path)
        self.path, self.sample_rate, self.channels = self._audio.path, self._audio.sample_rate, self._audio.channels
        self.storage = storage(kind, self._audio.format, self._audio.subtype)
        self._none = np.empty((0, self.channels), self.storage.dtype)
        self._held, self._held_start = self._none, 0
        self._rest = self._audio.decoded(self.storage.dtype)

    def __exit__(self, *error: object) -> None:
        self._rest.close()

    def part(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1, as far as they exist, (n, channels); `start` must never decrease."""
        if self._audio.seekable:  # and then pieces may start anywhere
            self._held, self._held_start = self._none, start
            self._rest.close()
            self._rest = self._audio.decoded(self.storage.dtype, start, min(CHUNK, max(1, end - start)))
        return self._decoded(start, end)

    def save(self, part: np.ndarray, path: str | PathLike[str], comment: str = "") -> None:
        """Write samples to a file, completely or not at all; its folder must exist."""
        path = Path(path)
        how = {"subtype": self.storage.subtype, "format": self.storage.kind.upper()}
        try:
            with (
                written_aside(path) as aside,
                soundfile.SoundFile(for_decoder(aside), "x", self.sample_rate, part.shape[1], **how) as file,
            ):
                if comment:
                    file.comment = writable(comment)
                file.write(part)
        except soundfile.SoundFileError as error:
            raise AudioError(
                f"{path} cannot be written as {self.storage.kind} with {part.shape[1]} channels at {self.sample_rate} "
                f"Hz ({error}); free some space, check your permissions, or choose the other format"
            ) from error

    def _decoded(self, start: int, end: int) -> np.ndarray:
        """By decoding on."""
        pieces, at = [self._held], self._held_start + len(self._held)
        while at < end:
            if at <= start:
                pieces = []  # not needed any more
            piece = next(self._rest, self._none)
            if not len(piece):
                break
            pieces.append(piece)
            at += len(piece)
        held = np.concatenate([self._none, *pieces])
        held_start = at - len(held)
        self._held, self._held_start = held[max(0, start - held_start) :], max(start, held_start)
        return self._held[: max(0, end - self._held_start)]
