"""What is in a recording: how it is stored, how long and how loud it really is, and when it began."""

import math
from os import PathLike
from typing import Any

import numpy as np
import soundfile

from outlark.audio.recorder_metadata import recorder_time
from outlark.audio.sound import CHUNK, AudioFile, for_decoder
from outlark.audio.wav_header import cut_short
from outlark.files.places import size_of

#: Windows of this length in which no sample differs from the others are digital silence.
WINDOW_S = 0.01
#: Levels at which samples are at full scale: the largest of 8 and of 16 bits.
FULL_8, FULL_16 = 127 / 128, 32767 / 32768


def sound_content(path: str | PathLike[str]) -> dict[str, Any]:
    """What is in a recording, all of which is decoded.

    Returns
    -------
    dict
        JSON values. "duration_s" is what was decoded, "told_s" what the file says of itself; "cut_short" says so if its
        header announces more than is there, and "damaged" why the decoder gave up; "peak_db", "rms_db" and "mean" are
        lists, with a number for each channel, and None for minus infinity; "clipped" and "silent" are shares of all
        samples; "clock" is None where nothing tells when it began.

    Raises
    ------
    AudioError
        For what is no recording.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.repeat([0.0, 0.5, -0.5, 0.0], 2000), 8000)
    ...     found = sound_content(f"{folder}/a.wav")
    >>> found["duration_s"], found["peak_db"], found["silent"]
    (1.0, [-6.02], 1.0)
    """
    audio = AudioFile(path)
    with soundfile.SoundFile(for_decoder(audio.path)) as file:
        # libsndfile knows no length for some files, and says so by a number that cannot be
        told = file.frames / file.samplerate if 0 <= file.frames < 2**62 else None
        stored = {"format": file.format, "subtype": file.subtype, "what": f"{file.format_info}, {file.subtype_info}"}
        heard = _Heard(audio, FULL_8 if file.subtype in ("PCM_U8", "PCM_S8") else FULL_16)
        heard.all_of(file)
    short = cut_short(audio.path)
    return {
        "kind": "recording",
        "path": str(path),
        "size_bytes": size_of(audio.path),
        **stored,
        "sample_rate": audio.sample_rate,
        "channels": audio.channels,
        "samples": heard.n,
        "duration_s": heard.n / audio.sample_rate,
        "told_s": told if short is None else short.announced_s,
        "cut_short": None if short is None else str(short),
        **heard.content(),
        "clock": _clock(audio),
    }


class _Heard:
    """What is counted while a file is decoded."""

    def __init__(self, audio: AudioFile, full: float) -> None:
        self._audio, self._full = audio, full
        self._window = max(1, round(WINDOW_S * audio.sample_rate))
        self.n = self._clipped = self._silent = self._bad = 0
        self._peak, self._sum, self._squares = (np.zeros(audio.channels) for _ in range(3))
        self._damaged: str | None = None

    def all_of(self, file: soundfile.SoundFile) -> None:
        """Decode the file to its end, or to where the decoder gives up."""
        size = max(1, CHUNK // self._window) * self._window
        try:
            while len(x := file.read(size, dtype="float64", always_2d=True)):
                self._push(x)
        except soundfile.SoundFileError as error:
            self._damaged = f"the decoder gave up after {self.n / self._audio.sample_rate:.3f} s ({error})"

    def _push(self, x: np.ndarray) -> None:
        good = np.isfinite(x)
        self._bad += int((~good).sum())
        x = np.where(good, x, 0.0)
        size = np.abs(x)
        self._clipped += int((size >= self._full).sum())
        starts = np.arange(0, len(x), self._window)
        still = (np.maximum.reduceat(x, starts) == np.minimum.reduceat(x, starts)).all(axis=1)
        self._silent += int(np.diff([*starts, len(x)])[still].sum())
        self._peak = np.maximum(self._peak, size.max(axis=0))
        self._sum += x.sum(axis=0)
        self._squares += (x**2).sum(axis=0)
        self.n += len(x)

    def content(self) -> dict[str, Any]:
        n, channels = max(1, self.n), self._audio.channels
        return {
            "damaged": self._damaged,
            "not_finite": self._bad,
            "peak_db": [_decibels(peak) for peak in self._peak.tolist()],
            "rms_db": [_decibels(math.sqrt(squares / n)) for squares in self._squares.tolist()],
            "mean": [round(total / n, 6) for total in self._sum.tolist()],
            "clipped": self._clipped / (n * channels),
            "silent": self._silent / n,
        }


def _decibels(level: float) -> float | None:
    return round(20.0 * math.log10(level), 2) if level > 0.0 else None


def _clock(audio: AudioFile) -> dict[str, Any] | None:
    found = recorder_time(audio.path)
    if found is None:
        return None
    return {
        "began": found.began.isoformat(),
        "zone_told": found.began.tzinfo is not None,
        "source": found.source,
        "differences": list(found.differences),
        "expansion": found.expansion,
    }
