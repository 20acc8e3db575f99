"""Where the sound lies in a file: headers that were never finished, files cut short, and files joined end to end.

Decoders read the first stream as far as its header announces and say nothing about the rest. Here the bytes of every
stream are found, so that all sound is read, and what is missing is said.
"""

import io
from typing import BinaryIO, NamedTuple

#: How a file made of chunks begins.
FAMILY = (b"RIFF", b"RF64", b"BW64")


class Stream(NamedTuple):
    """Bytes start … end - 1 of a file, decoded as if `head` stood before them."""

    start: int
    end: int
    head: bytes = b""


class Contents(NamedTuple):
    """The streams of a file, none if a decoder reads all of it as it is; and what is missing of the recording."""

    streams: tuple[Stream, ...] = ()
    partial: str | None = None


class Window:
    """A stream as a file of its own, for the decoder.

    >>> window = Window(io.BytesIO(b"..abcd.."), Stream(2, 6, head=b"<"))
    >>> window.read(3), window.tell(), window.read()
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
    """The streams of an open file; moves its position."""
    from outlark.audio import flac_frames, mp3_frames, ogg_pages, wav_header

    file.seek(0)
    start = file.read(12)
    if start[:4] in FAMILY:
        return wav_header.contents(file)
    if start[:4] == b"OggS":
        return ogg_pages.contents(file)
    first = after_tags(file, 0)
    file.seek(first)
    start = file.read(4)
    if start == b"fLaC":
        return flac_frames.contents(file, first)
    if mp3_frames.frame_length(start):
        return mp3_frames.contents(file, first)
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
