"""Audio for the page: excerpts, and a virtual WAV that is computed by byte range."""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from outlark.audio.recording import Recording
from outlark.errors import AudioError

HEADER_BYTES = 44
#: Samples that are decoded at once.
AT_ONCE = 2**16
#: Longest clip, in seconds.
LONGEST_CLIP_S = 30.0
#: Longest virtual WAV, in samples: its size must fit into 32 bits.
MOST_SAMPLES = 2**31 - 18
#: Excerpts of a recording by which its sound is recognised, and samples of each.
EXCERPTS, EXCERPT_SAMPLES = 16, 2**12


def true_length(path: Path) -> tuple[int, int, int]:
    """Sample rate, channels and number of samples; counted where the file only estimates it.

    >>> import soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/a.wav", np.zeros((2500, 2)), 8000)
    ...     true_length(Path(folder, "a.wav"))
    (8000, 2, 2500)
    """
    audio = Recording(path)
    n_samples = audio.n_samples if audio.seekable else sum(map(len, audio.blocks(AT_ONCE)))
    if not n_samples:
        raise AudioError(f"{path} holds no samples; record it again")
    if n_samples > MOST_SAMPLES:
        raise AudioError(f"{path} is longer than {MOST_SAMPLES} samples; cut it into shorter files")
    return audio.sample_rate, audio.channels, n_samples


def sound_print(path: Path) -> str:
    """A digest of samples all over the recording, or of the first ones where seeking is slow; "" if they are silent.

    Metadata, lossless compression and the name of the file do not change it.

    >>> import soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a.wav", "a.flac"):
    ...         soundfile.write(f"{folder}/{name}", np.arange(30_000, dtype=np.int16), 8000)
    ...     sound_print(Path(folder, "a.wav")) == sound_print(Path(folder, "a.flac"))
    True
    """
    sound = Recording(path)
    n, most = sound.n_samples, EXCERPTS * EXCERPT_SAMPLES
    places = [(i * (n - EXCERPT_SAMPLES) // (EXCERPTS - 1), EXCERPT_SAMPLES) for i in range(EXCERPTS)]
    if n <= most or not Recording(path).seekable:
        places = [(0, most)]
    samples = np.concatenate([sound.part(start, start + length) for start, length in places])
    return hashlib.sha256(samples.astype("<f4").tobytes()).hexdigest() if np.ptp(samples) else ""


def wav_header(n_samples: int, sample_rate: int) -> bytes:
    """Of a mono WAV of 16 bits.

    >>> len(wav_header(1000, 22050)), wav_header(1000, 22050)[:4]
    (44, b'RIFF')
    """
    size = 2 * n_samples
    form = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return struct.pack("<4sI4s4s", b"RIFF", 36 + size, b"WAVE", b"fmt ") + form + struct.pack("<4sI", b"data", size)


def pcm(samples: np.ndarray) -> bytes:
    """Samples within ±1 as 16 bits.

    >>> pcm(np.array([0.0, 0.5, 2.0])).hex()
    '00000040ff7f'
    """
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()


def wav_bytes(sound: Recording, n_samples: int, first: int, stop: int) -> Iterator[bytes]:
    """Bytes first … stop - 1 of the recording as a WAV of this many samples."""
    if first < HEADER_BYTES:
        yield wav_header(n_samples, sound.sample_rate)[first:stop]
    at = max(first, HEADER_BYTES)
    while at < stop:
        sample, skip = divmod(at - HEADER_BYTES, 2)
        until = min(sample + AT_ONCE, n_samples)
        samples = sound.part(sample, until)
        # silence where the file is shorter than its header says
        block = pcm(np.concatenate([samples, np.zeros(until - sample - len(samples))]))[skip : skip + stop - at]
        yield block
        at += len(block)


def clip(sound: Recording, start_s: float, end_s: float) -> bytes:
    """An excerpt as a WAV, as loud as the recording."""
    rate = sound.sample_rate
    samples = sound.part(round(start_s * rate), round(min(end_s, start_s + LONGEST_CLIP_S) * rate))
    return wav_header(len(samples), rate) + pcm(samples)
