"""The header of WAV files (RIFF, RF64, BW64): texts of the recorder, and how much sound really follows."""

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from outlark.audio.streams import FAMILY, Contents, Stream
from outlark.files.places import length_of, opened

#: "See ds64": the size of a chunk that does not fit into four bytes.
ELSEWHERE = 0xFFFFFFFF
#: Limits on the text read from a chunk and on chunks, because damaged files may announce anything.
MOST_BYTES, MOST_CHUNKS = 2**20, 1000
#: Sizes written by programs that do not know yet how much will follow: 2 and 4 GiB, or a little less.
UNKNOWN_SIZES = (range(0x7FFF0000, 0x80000001), range(0xFFFF0000, 0x100000000))


#: Chunks that may follow the sound; they are recognised even if they are cut off.
FOLLOWING = (
    b"LIST", b"guan", b"wamd", b"bext", b"iXML", b"axml", b"id3 ", b"ID3 ", b"cue ", b"plst", b"smpl", b"inst", b"JUNK",
    b"junk", b"PAD ", b"FLLR", b"fact", b"PEAK", b"_PMX", b"DISP", b"afsp", b"acid", b"MD5 ", b"chna", b"levl", b"TAG",
    b"ID3", b"APETAGEX",
)  # fmt: skip
#: Largest size that the header of an ordinary WAV file can hold.
MOST = 0xFFFFFFFF - 2**16


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


# ------------------------------------------------------------------ the sound


class _Format(NamedTuple):
    """What the header says about the sound: bytes per second and per block, and its chunks as they are."""

    bytes_per_s: int
    block: int
    chunks: bytes


def contents(file: BinaryIO) -> Contents:
    """The sound of a file, wherever its header says that it ends; only the header is read.

    Recorders write sizes when they stop. If they lose power, the header announces nothing, or less than there is.

    Examples
    --------
    >>> import io, numpy, soundfile
    >>> file = io.BytesIO()
    >>> soundfile.write(file, numpy.zeros(8000), 8000, format="WAV")
    >>> contents(io.BytesIO(file.getvalue()))
    Contents(streams=(), partial=None)
    >>> print(contents(io.BytesIO(file.getvalue()[: 44 + 2 * 2000])).partial)
    cut short: its header announces 1.000 s, but it holds 0.250 s; get a complete copy if there is one
    """
    return _contents(file, 0, length_of(file))


def _contents(file: BinaryIO, start: int, end: int) -> Contents:
    file.seek(start)
    form = _Format(0, 0, b"")
    if not is_wave(file):
        return Contents()
    for name, size in chunks(file):
        at = file.tell()
        if name == b"fmt ":
            head = file.read(min(size, MOST_BYTES))
            form = _Format(_number(head[8:12]), max(1, _number(head[12:14])), form.chunks + _chunk(name, head))
        elif name == b"fact":
            form = form._replace(chunks=form.chunks + _chunk(name, file.read(min(size, MOST_BYTES))))
        elif name == b"data":
            return _sound(file, start, end, Stream(at, at + size), form) if form.bytes_per_s else Contents()
    return Contents()


def _sound(file: BinaryIO, start: int, end: int, announced: Stream, form: _Format) -> Contents:
    size, there = announced.end - announced.start, end - announced.start
    if any(size in sizes for sizes in UNKNOWN_SIZES):
        return Contents()
    if size - there >= form.block:
        return Contents(partial=_cut_short(size / form.bytes_per_s, there / form.bytes_per_s))
    rest = announced.end + size % 2
    file.seek(rest)
    if is_wave(file):
        more = _contents(file, rest, end)
        return Contents((Stream(start, rest), *(more.streams or (Stream(rest, end),))), more.partial)
    if end - announced.end < form.block or _is_other(file, rest, end, after_sound=size > 0):
        return Contents()
    whole = Stream(announced.start, end - there % form.block)
    said = f"its header was never finished: it announces {size / form.bytes_per_s:.3f} s, but "
    said += f"{(whole.end - whole.start) / form.bytes_per_s:.3f} s of sound follow, and were read; the recorder may "
    return Contents((whole._replace(head=_head(form, whole)),), said + "have lost power")


def _cut_short(announced_s: float, there_s: float) -> str:
    return (
        f"cut short: its header announces {announced_s:.3f} s, but it holds {there_s:.3f} s; get a complete copy if "
        "there is one"
    )


def _is_other(file: BinaryIO, at: int, end: int, *, after_sound: bool) -> bool:
    """Whether what follows the announced sound is no sound: chunks, or after some sound, nothing but zeros."""
    file.seek(at)
    if file.read(8).startswith(FOLLOWING):
        return True
    following = at
    file.seek(at)
    for _, size in chunks(file):
        following = file.tell() + size
    if end <= following <= end + 1:
        return True
    file.seek(at)
    return after_sound and not any(any(block) for block in iter(lambda: file.read(MOST_BYTES), b""))


def _head(form: _Format, sound: Stream) -> bytes:
    """The header of a complete file."""
    size = sound.end - sound.start
    if size < MOST:
        inside = b"WAVE" + form.chunks
        return b"RIFF" + (len(inside) + 8 + size).to_bytes(4, "little") + inside + _chunk_head(b"data", size)
    sizes = (size + len(form.chunks) + 60).to_bytes(8, "little") + size.to_bytes(8, "little") + bytes(12)
    inside = b"WAVE" + _chunk(b"ds64", sizes) + form.chunks
    return b"RF64" + ELSEWHERE.to_bytes(4, "little") + inside + _chunk_head(b"data", ELSEWHERE)


def _chunk(name: bytes, body: bytes) -> bytes:
    return _chunk_head(name, len(body)) + body + bytes(len(body) % 2)


def _chunk_head(name: bytes, size: int) -> bytes:
    return name + size.to_bytes(4, "little")


def _number(field: bytes) -> int:
    return int.from_bytes(field, "little")
