"""Clips: the samples and sample rate of each, the margins around the note in it, and how a clip is written."""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile

from outlark.audio.recording import for_decoder, read
from outlark.audio.sound import check_sample_rate, mono
from outlark.errors import AudioError, InputError
from outlark.files.io import written_aside
from outlark.plain_text import writable

#: A run of equal samples at an end of a clip is digital silence from this length on; fades have shorter ones.
SILENCE_S = 0.01
#: Windows over which levels are measured.
MARGIN_WINDOW_S = 0.005
#: A margin stays below the middle between the quiet windows and the loudest, which must be this far from both. Levels
#: further below the loudest than the second number count as that far.
QUIET_DB, FAR_DB = 15.0, 60.0
#: Share of the windows that is quiet.
QUIET_SHARE = 0.1
#: Margins are long if together they last this long, and longer than the note.
LONG_MARGINS_S = 0.1
#: Kept of each margin, because notes fade in and out.
KEPT_S = 0.01


class Sound(NamedTuple):
    """One channel of samples (n,), and its sample rate."""

    samples: np.ndarray
    rate: int


def is_path(sound: Any) -> bool:
    """Whether a sound is given as a file."""
    return isinstance(sound, str | PathLike)


def loaded(sounds: Any, sample_rate: int | Sequence[int] | None, what: str) -> list[tuple[Any, int]]:
    """Samples, unchanged, and sample rate of each sound: arrays at `sample_rate`, or one rate for each; paths; `Sound`.

    `what` is their name in errors.
    """
    single = isinstance(sounds, np.ndarray) and sounds.dtype != object and sounds.ndim == 1
    if isinstance(sounds, Sound) or is_path(sounds) or single:
        raise InputError(f"{what} is a single {type(sounds).__name__}; give a list, even of one")
    return [_loaded(sound, _rate_of(sample_rate, i), f"{what}[{i}]") for i, sound in enumerate(sounds)]


def loaded_sounds(sounds: Any, sample_rate: int | Sequence[int] | None, what: str) -> list[Sound]:
    """Every sound as one channel, none of them empty; parameters as in `loaded`.

    >>> loaded_sounds([np.array([16384], dtype=np.int16)], 22050, "clips")
    [Sound(samples=array([0.5]), rate=22050)]
    """
    found = [Sound(mono(samples), check_sample_rate(rate)) for samples, rate in loaded(sounds, sample_rate, what)]
    for i, sound in enumerate(found):
        if not len(sound.samples):
            where = str(sounds[i]) if is_path(sounds[i]) else f"{what}[{i}]"
            raise InputError(f"{where} is empty; omit it or give its samples")
    return found


def _loaded(sound: Any, sample_rate: int | None, where: str) -> tuple[Any, int]:
    if isinstance(sound, Sound):
        return sound
    if is_path(sound):
        return read(sound)
    if sample_rate is None:
        raise InputError(f"{where} is an array without sample_rate; give the rate, or a path to a file")
    return sound, sample_rate


def _rate_of(sample_rate: int | Sequence[int] | None, number: int) -> int | None:
    if sample_rate is None or isinstance(sample_rate, int | float | np.number):
        return sample_rate
    if number >= len(sample_rate):
        raise InputError(f"{len(sample_rate)} sample rates, but more sounds; give one rate, or one for each")
    return sample_rate[number]


# ------------------------------------------------------------------ margins


def without_silence(samples: np.ndarray, rate: int) -> slice:
    """The clip without digital silence at its ends; all of it if there is nothing else.

    >>> clip = np.concatenate([np.zeros(100), [0.1, 0.0, 0.2], np.zeros(5)])
    >>> without_silence(clip, rate=1000)
    slice(100, 108, None)
    """
    changes = np.flatnonzero(np.diff(samples))
    if not len(changes):
        return slice(0, len(samples))
    least = max(2, round(SILENCE_S * rate))
    first, last = int(changes[0]) + 1, int(changes[-1]) + 1
    return slice(first if first >= least else 0, last if len(samples) - last >= least else len(samples))


def without_quiet(samples: np.ndarray, rate: int) -> slice:
    """The clip without quiet margins except 10 ms of each; all of it if nothing stands out.

    >>> rng = np.random.default_rng(0)
    >>> loud = np.repeat([0.001, 1.0, 0.001], [4000, 2000, 4000])
    >>> without_quiet(loud * rng.normal(size=10000), rate=10000)
    slice(3900, 6100, None)
    """
    window, whole = max(1, round(MARGIN_WINDOW_S * rate)), slice(0, len(samples))
    starts = np.arange(0, len(samples), window)
    if not len(starts):
        return whole
    counts = np.diff([*starts, len(samples)])
    powers = np.add.reduceat(np.square(samples - np.mean(samples)), starts) / counts
    levels = 10.0 * np.log10(powers + np.finfo(float).tiny)
    loudest = levels.max()
    quiet = max(np.quantile(levels, QUIET_SHARE), loudest - FAR_DB)
    if loudest - quiet < 2.0 * QUIET_DB:
        return whole
    loud = np.flatnonzero(levels >= (loudest + quiet) / 2.0)
    start, end = int(starts[loud[0]]), int(starts[loud[-1]] + counts[loud[-1]])
    kept = round(KEPT_S * rate)
    return slice(max(0, start - kept), min(len(samples), end + kept))


def outside_s(part: slice, n_samples: int, rate: int) -> float:
    """Seconds of a clip of `n_samples` that lie outside a part of it."""
    return (n_samples - part.stop + part.start) / rate


def is_long(part: slice, n_samples: int, rate: int) -> bool:
    """Whether a model would learn the margins around a part rather than the note."""
    margins_s = outside_s(part, n_samples, rate)
    return margins_s >= LONG_MARGINS_S and margins_s > (part.stop - part.start) / rate


# ------------------------------------------------------------------ writing


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
    pcm = re.match(r"(PCM|ALAC)_\D?(\d+)|[UA]LAW|.*_ADPCM", subtype)  # lossy formats are not integers
    bits = 8 * -(-int(pcm[2] or 16) // 8) if pcm else 0
    if kind == "flac":
        dtype = "int32" if pcm else "float64" if subtype == "DOUBLE" else "float32"
        stored = {8: "PCM_S8", 16: "PCM_16"}.get(bits, "PCM_24")
        return Storage(kind, stored, dtype, exact=bits in (8, 16, 24))
    if pcm:
        return Storage(kind, "PCM_U8" if bits == 8 else f"PCM_{bits}", "int32", exact=True)
    return Storage(kind, *(("DOUBLE", "float64") if subtype == "DOUBLE" else ("FLOAT", "float32")), exact=True)


def write_clip(path: Path, samples: np.ndarray, sample_rate: int, how: Storage, comment: str = "") -> None:
    """Write samples (n, channels) to a file, completely or not at all; its folder must exist."""
    settings = {"subtype": how.subtype, "format": how.kind.upper()}
    channels = samples.shape[1]
    try:
        with (
            written_aside(path) as aside,
            soundfile.SoundFile(for_decoder(aside), "x", sample_rate, channels, **settings) as file,
        ):
            if comment:
                file.comment = writable(comment)
            file.write(samples)
    except soundfile.SoundFileError as error:
        raise AudioError(
            f"{path} cannot be written as {how.kind} with {channels} channels at {sample_rate} Hz ({error}); free some "
            "space, check your permissions, or choose the other format"
        ) from error
