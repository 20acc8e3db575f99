"""Where the sound lies in a file: headers that were never finished, files cut short, and files joined end to end.

Decoders read the first stream as far as its header announces and say nothing about the rest. Here the bytes of every
stream are found, so that all sound is read, and what is missing is said. This module reads WAV files (RIFF, RF64,
BW64), `frames` compressed ones.
"""

import io
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from outlark.files.io import length_of

#: How a file made of chunks begins.
RIFF_FAMILY = (b"RIFF", b"RF64", b"BW64")
#: "See ds64": the size of a chunk that does not fit into four bytes.
SIZE_IN_DS64 = 0xFFFFFFFF
#: Largest size that the header of an ordinary WAV file can hold.
LARGEST_RIFF = SIZE_IN_DS64 - 2**16
#: Limits on the text read from a chunk and on chunks, because damaged files may announce anything.
MOST_CHUNK_BYTES, MOST_CHUNKS = 2**20, 1000
#: Sizes written by programs that do not know yet how much will follow: 2 and 4 GiB, or a little less.
UNKNOWN_SIZES = (range(0x7FFF0000, 0x80000001), range(0xFFFF0000, 0x100000000))
#: Chunks that may follow the sound; they are recognised even if they are cut off.
CHUNKS_AFTER_SOUND = (
    b"LIST", b"guan", b"wamd", b"bext", b"iXML", b"axml", b"id3 ", b"ID3 ", b"cue ", b"plst", b"smpl", b"inst", b"JUNK",
    b"junk", b"PAD ", b"FLLR", b"fact", b"PEAK", b"_PMX", b"DISP", b"afsp", b"acid", b"MD5 ", b"chna", b"levl", b"TAG",
    b"ID3", b"APETAGEX",
)  # fmt: skip


class Stream(NamedTuple):
    """Bytes start … end - 1 of a file, decoded as if `head` stood before them."""

    start: int
    end: int
    head: bytes = b""


class Contents(NamedTuple):
    """The streams of a file, none if a decoder reads all of it as it is; and what is missing of the recording."""

    streams: tuple[Stream, ...] = ()
    partial: str | None = None


class StreamFile:
    """A stream as a file of its own, for the decoder.

    >>> file = StreamFile(io.BytesIO(b"..abcd.."), Stream(2, 6, head=b"<"))
    >>> file.read(3), file.tell(), file.read()
    (b'<ab', 3, b'cd')
    """

    def __init__(self, file: BinaryIO, stream: Stream) -> None:
        self._file, self._stream, self._at = file, stream, 0
        self._size = len(stream.head) + stream.end - stream.start

    def read(self, n: int = -1) -> bytes:
        head = self._stream.head
        left = max(0, self._size - self._at)
        n = left if n < 0 else min(n, left)
        first = head[self._at : self._at + n]
        if n > len(first):
            self._file.seek(self._stream.start + self._at + len(first) - len(head))
            first += self._file.read(n - len(first))
        self._at += len(first)
        return first

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: bytes) -> int:
        """Never called, but soundfile requires it."""
        raise OSError("read only")


def contents(file: BinaryIO) -> Contents:
    """The streams of an open file; moves its position.

    >>> import numpy, soundfile
    >>> file = io.BytesIO()
    >>> soundfile.write(file, numpy.zeros(8000), 8000, format="WAV")
    >>> contents(io.BytesIO(file.getvalue()))
    Contents(streams=(), partial=None)
    >>> print(contents(io.BytesIO(file.getvalue()[: 44 + 2 * 2000])).partial)
    cut short: its header announces 1.000 s, but it holds 0.250 s; get a complete copy if there is one
    """
    from outlark.audio import frames  # only for files that have some

    file.seek(0)
    start = file.read(12)
    if start[:4] in RIFF_FAMILY:
        return _wav_contents(file, 0, length_of(file))
    if start[:4] == b"OggS":
        return frames.ogg_contents(file)
    first = after_tags(file, 0)
    file.seek(first)
    start = file.read(4)
    if start == b"fLaC":
        return frames.flac_contents(file, first)
    if frames.mp3_frame_length(start):
        return frames.mp3_contents(file, first)
    return Contents()


def after_tags(file: BinaryIO, at: int) -> int:
    """The position after ID3 tags, which may stand before the sound of any file."""
    while True:
        file.seek(at)
        head = file.read(10)
        if head[:3] != b"ID3" or len(head) < 10:
            return at
        size = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
        at += 10 + size


def cut_short(announced_s: float, there_s: float) -> str:
    return (
        f"cut short: its header announces {announced_s:.3f} s, but it holds {there_s:.3f} s; get a complete copy if "
        "there is one"
    )


# ------------------------------------------------------------------ chunks of WAV files


def text_chunks(file: BinaryIO) -> dict[str, str]:
    """The texts of an open WAV file: "guan" (GUANO), and those of its INFO list, such as "ICMT" (comment).

    The first text of each name counts. Other kinds of files have none; of a damaged file, what can be found.
    """
    found: dict[str, str] = {}
    file.seek(0)
    if not _is_wave(file):
        return found
    for name, size in _chunks(file):
        if name == b"guan":
            found.setdefault("guan", _text(file.read(min(size, MOST_CHUNK_BYTES))))
        elif name == b"LIST":
            for entry, text in _info_entries(file.read(min(size, MOST_CHUNK_BYTES))):
                found.setdefault(entry, text)
    return found


def _is_wave(file: BinaryIO) -> bool:
    """Whether a WAV file starts here; moves to its first chunk."""
    start = file.read(12)
    return start[:4] in RIFF_FAMILY and start[8:] == b"WAVE"


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Name and size of each chunk, with the file at its content; up to the first one that makes no sense."""
    at, end = file.tell(), length_of(file)
    size_of_sound = SIZE_IN_DS64
    for _ in range(MOST_CHUNKS):
        file.seek(at)
        head = file.read(8)
        name, size = head[:4], _number(head[4:])
        if len(head) < 8 or not name.isascii() or not name.decode().isprintable():
            return
        if name == b"ds64":
            size_of_sound = _number(file.read(16)[8:])
            file.seek(at + 8)
        if name == b"data" and size == SIZE_IN_DS64:
            size = size_of_sound
        yield name, size
        at += 8 + size + size % 2
        if at >= end:
            return


def _info_entries(body: bytes) -> Iterator[tuple[str, str]]:
    if body[:4] != b"INFO":
        return
    at = 4
    while at + 8 <= len(body):
        name, size = body[at : at + 4], _number(body[at + 4 : at + 8])
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


def _number(field: bytes) -> int:
    return int.from_bytes(field, "little")


# ------------------------------------------------------------------ sound of WAV files


class _WavFormat(NamedTuple):
    """What the header says about the sound: bytes per second and per block, and its chunks as they are."""

    bytes_per_s: int
    block: int
    chunks: bytes


def _wav_contents(file: BinaryIO, start: int, end: int) -> Contents:
    """The sound of a file, wherever its header says that it ends; only the header is read.

    Recorders write sizes when they stop. If they lose power, the header announces nothing, or less than there is.
    """
    file.seek(start)
    form = _WavFormat(0, 0, b"")
    if not _is_wave(file):
        return Contents()
    for name, size in _chunks(file):
        at = file.tell()
        if name == b"fmt ":
            head = file.read(min(size, MOST_CHUNK_BYTES))
            form = _WavFormat(_number(head[8:12]), max(1, _number(head[12:14])), form.chunks + _chunk(name, head))
        elif name == b"fact":
            form = form._replace(chunks=form.chunks + _chunk(name, file.read(min(size, MOST_CHUNK_BYTES))))
        elif name == b"data":
            return _wav_sound(file, start, end, Stream(at, at + size), form) if form.bytes_per_s else Contents()
    return Contents()


def _wav_sound(file: BinaryIO, start: int, end: int, announced: Stream, form: _WavFormat) -> Contents:
    size, there = announced.end - announced.start, end - announced.start
    if any(size in sizes for sizes in UNKNOWN_SIZES):
        return Contents()
    if size - there >= form.block:
        return Contents(partial=cut_short(size / form.bytes_per_s, there / form.bytes_per_s))
    rest = announced.end + size % 2
    file.seek(rest)
    if _is_wave(file):
        more = _wav_contents(file, rest, end)
        return Contents((Stream(start, rest), *(more.streams or (Stream(rest, end),))), more.partial)
    if end - announced.end < form.block or _is_no_sound(file, rest, end, after_sound=size > 0):
        return Contents()
    whole = Stream(announced.start, end - there % form.block)
    said = f"its header was never finished: it announces {size / form.bytes_per_s:.3f} s, but "
    said += f"{(whole.end - whole.start) / form.bytes_per_s:.3f} s of sound follow, and were read; the recorder may "
    return Contents((whole._replace(head=_wav_head(form, whole)),), said + "have lost power")


def _is_no_sound(file: BinaryIO, at: int, end: int, *, after_sound: bool) -> bool:
    """Whether what follows the announced sound is chunks, or after some sound, nothing but zeros."""
    file.seek(at)
    if file.read(8).startswith(CHUNKS_AFTER_SOUND):
        return True
    following = at
    file.seek(at)
    for _, size in _chunks(file):
        following = file.tell() + size
    if end <= following <= end + 1:
        return True
    file.seek(at)
    return after_sound and not any(any(block) for block in iter(lambda: file.read(MOST_CHUNK_BYTES), b""))


def _wav_head(form: _WavFormat, sound: Stream) -> bytes:
    """The header of a complete file."""
    size = sound.end - sound.start
    if size < LARGEST_RIFF:
        inside = b"WAVE" + form.chunks
        return _chunk_head(b"RIFF", len(inside) + 8 + size) + inside + _chunk_head(b"data", size)
    sizes = (size + len(form.chunks) + 60).to_bytes(8, "little") + size.to_bytes(8, "little") + bytes(12)
    inside = b"WAVE" + _chunk(b"ds64", sizes) + form.chunks
    return _chunk_head(b"RF64", SIZE_IN_DS64) + inside + _chunk_head(b"data", SIZE_IN_DS64)


def _chunk(name: bytes, body: bytes) -> bytes:
    return _chunk_head(name, len(body)) + body + bytes(len(body) % 2)


def _chunk_head(name: bytes, size: int) -> bytes:
    return name + size.to_bytes(4, "little")
