"""The header of WAV files (RIFF, RF64, BW64): texts of the recorder, and whether the file was cut short."""

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from outlark.files.places import length_of, opened

#: How a file made of chunks begins; the size of its sound may be in the chunk "ds64" instead of its place.
FAMILY = (b"RIFF", b"RF64", b"BW64")
#: "See ds64": the size of a chunk that does not fit into four bytes.
ELSEWHERE = 0xFFFFFFFF
#: Limits on the text read from a chunk and on chunks, because damaged files may announce anything.
MOST_BYTES, MOST_CHUNKS = 2**20, 1000
#: Sizes written by programs that do not know yet how much will follow: 2 and 4 GiB, or a little less.
UNKNOWN_SIZES = (range(0x7FFF0000, 0x80000001), range(0xFFFF0000, 0x100000000))


class CutShort(NamedTuple):
    """The duration of a recording, and the one that its header announces, in seconds."""

    there_s: float
    announced_s: float

    def __str__(self) -> str:
        return (
            f"cut short: its header announces {self.announced_s:.3f} s, but it holds {self.there_s:.3f} s; get a "
            "complete copy if there is one"
        )


def text_chunks(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts of a WAV file (path or URL): "guan" (GUANO), and those of its INFO list, such as "ICMT" (comment).

    The first text of each name counts. Other kinds of files have none; of a damaged file, what can be found.

    >>> import numpy, soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with soundfile.SoundFile(f"{folder}/a.wav", "w", 8000, 1) as file:
    ...         file.comment = "by the pond"
    ...         file.write(numpy.zeros(80))
    ...     text_chunks(f"{folder}/a.wav")
    {'ICMT': 'by the pond'}
    """
    found: dict[str, str] = {}
    with opened(path) as file:
        if not is_wave(file):
            return found
        for name, size in chunks(file):
            if name == b"guan":
                found.setdefault("guan", _text(file.read(min(size, MOST_BYTES))))
            elif name == b"LIST":
                for entry, text in _entries(file.read(min(size, MOST_BYTES))):
                    found.setdefault(entry, text)
    return found


def is_wave(file: BinaryIO) -> bool:
    """Whether a file, positioned at its start, is made of chunks; moves to the first of them."""
    start = file.read(12)
    return start[:4] in FAMILY and start[8:] == b"WAVE"


def chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Name and size of each chunk, with the file at its content; up to the first one that makes no sense."""
    at, end = file.tell(), length_of(file)
    size_of_sound = ELSEWHERE
    for _ in range(MOST_CHUNKS):
        file.seek(at)
        head = file.read(8)
        name, size = head[:4], int.from_bytes(head[4:], "little")
        if len(head) < 8 or not name.isascii() or not name.decode().isprintable():
            return
        if name == b"ds64":
            size_of_sound = int.from_bytes(file.read(16)[8:], "little")
            file.seek(at + 8)
        if name == b"data" and size == ELSEWHERE:
            size = size_of_sound
        yield name, size
        at += 8 + size + size % 2
        if at >= end:
            return


def _entries(body: bytes) -> Iterator[tuple[str, str]]:
    """The entries of an INFO list."""
    if body[:4] != b"INFO":
        return
    at = 4
    while at + 8 <= len(body):
        name, size = body[at : at + 4], int.from_bytes(body[at + 4 : at + 8], "little")
        if name.isascii():
            yield name.decode(), _text(body[at + 8 : at + 8 + size])
        at += 8 + size + size % 2


def _text(body: bytes) -> str:
    """UTF-8, or else Latin-1, up to the zero that may end it."""
    body = body.split(b"\0", 1)[0]
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("latin-1")
    return text.strip()


def cut_short(path: str | os.PathLike[str]) -> CutShort | None:
    """Whether a WAV file ends before its header says; None if it is complete, or of another kind.

    Only the header is read. Decoders do not report this.

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
    None; cut short: its header announces 1.000 s, but it holds 0.250 s; get a complete copy if there is one
    """
    try:
        with opened(path) as file:
            return _cut_short(file) if is_wave(file) else None
    except OSError:
        return None  # reading the sound will report what is wrong


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
