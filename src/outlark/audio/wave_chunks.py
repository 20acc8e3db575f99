"""What a WAV file says besides its sound: the chunks of RIFF, RF64 and BW64, without reading the sound."""

import os
from collections.abc import Iterator
from typing import BinaryIO

from outlark.files.places import length_of, opened

#: What begins a file made of chunks; the size of its sound may be in the chunk "ds64" instead of its place.
FAMILY = (b"RIFF", b"RF64", b"BW64")
#: "See ds64": the size of a chunk that takes more than four bytes to tell.
ELSEWHERE = 0xFFFFFFFF
#: A chunk of text is read up to here, and no more chunks than this are looked at: damaged files promise anything.
MOST_BYTES, MOST_CHUNKS = 2**20, 1000


def text_chunks(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts of a WAV file: "guan" (GUANO), and the entries of its INFO list, such as "ICMT" (comment).

    Parameters
    ----------
    path : path of the file, or its URL

    Returns
    -------
    dict
        Name → text, the first of each name. Empty for files of other kinds. A damaged file gives what can be found.

    Examples
    --------
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
    """Whether a file, which is at its start, is made of chunks; it is then at the first of them."""
    start = file.read(12)
    return start[:4] in FAMILY and start[8:] == b"WAVE"


def chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Name and size of each chunk, with the file at the start of what it holds; up to the first that makes no sense."""
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
