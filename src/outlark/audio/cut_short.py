"""Recordings that hold less than they announce: the card was pulled, the battery died, the copy was broken off."""

import os
from typing import BinaryIO, NamedTuple

from outlark.audio.wave_chunks import chunks, is_wave
from outlark.files.places import length_of, opened

#: Sizes that programs write which do not know yet how much will follow: 2 and 4 GiB, or a little less.
UNKNOWN_SIZES = (range(0x7FFF0000, 0x80000001), range(0xFFFF0000, 0x100000000))


class CutShort(NamedTuple):
    """How long a recording is, and how long it says that it is, in seconds."""

    there_s: float
    announced_s: float

    def __str__(self) -> str:
        return (
            f"cut short: its header announces {self.announced_s:.3f} s, and {self.there_s:.3f} s are there; get a "
            "whole copy if there is one"
        )


def cut_short(path: str | os.PathLike[str]) -> CutShort | None:
    """Whether a WAV file (RIFF, RF64, BW64) ends before its header says; None if it is whole, or of another kind.

    Only the header is read. Decoders give what is there without a word.

    Examples
    --------
    >>> import numpy, soundfile
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.wav")
    ...     soundfile.write(path, numpy.zeros(8000), 8000)
    ...     whole = cut_short(path)
    ...     _ = path.write_bytes(path.read_bytes()[: 44 + 2 * 2000])
    ...     print(whole, cut_short(path), sep="; ")
    None; cut short: its header announces 1.000 s, and 0.250 s are there; get a whole copy if there is one
    """
    try:
        with opened(path) as file:
            return _cut_short(file) if is_wave(file) else None
    except OSError:
        return None  # whoever reads the sound says what is wrong


def _cut_short(file: BinaryIO) -> CutShort | None:
    end = length_of(file)
    bytes_per_s = whole = 0
    for name, size in chunks(file):
        if name == b"fmt ":
            head = file.read(16)
            bytes_per_s, whole = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:14], "little")
        elif name == b"data":
            there = end - file.tell()
            if not bytes_per_s or size - there < max(1, whole) or any(size in sizes for sizes in UNKNOWN_SIZES):
                return None
            return CutShort(there / bytes_per_s, size / bytes_per_s)
    return None
