"""Frames of FLAC files: recordings that were joined, and files that were cut short.

Every frame has its number, and the header the number of samples. In a complete file the last frame ends where the
header says, and numbers rise; only a file in which they do not is searched for the start of another recording.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from outlark.audio.streams import Contents, Stream
from outlark.files.places import length_of

#: How a recording starts: the mark, and a header of 34 bytes.
START = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")
#: Bytes searched for frames at each of so many places, and bytes of a file that is searched whole.
SEEN, PLACES, SMALL = 2**16, 16, 2**22
SYNC = re.compile(rb"\xff[\xf8\xf9]")
#: Samples in a frame by its code; 6 and 7 say that the number follows.
SIZES = (0, 192, *(576 << i for i in range(4)), 0, 0, *(256 << i for i in range(8)))


class Frame(NamedTuple):
    """The number of a frame's first sample, and of the one after its last."""

    first: int
    end: int


def contents(file: BinaryIO, start: int) -> Contents:
    """The streams of a file whose first recording starts at `start`."""
    end = length_of(file)
    file.seek(start)
    announced, block_size, rate = _announced(file.read(42))
    if not announced:
        return Contents()  # written to a pipe: the decoder reads to the end
    if end - start > SMALL and _in_order(file, start, end, announced, block_size):
        return Contents()
    starts = list(_starts(file, start, end))
    if len(starts) > 1:
        streams = tuple(Stream(*span) for span in zip(starts, [*starts[1:], end], strict=True))
        file.seek(starts[-1])
        announced, block_size, rate = _announced(file.read(42))
        return Contents(streams, _cut(file, starts[-1], end, announced, block_size, rate))
    return Contents((), _cut(file, start, end, announced, block_size, rate))


def _announced(header: bytes) -> tuple[int, int, int]:
    """Samples, samples per frame, and sample rate."""
    packed = int.from_bytes(header[18:26])
    return packed & (1 << 36) - 1, int.from_bytes(header[10:12]), packed >> 44


def _cut(file: BinaryIO, start: int, end: int, announced: int, block_size: int, rate: int) -> str | None:
    frames = list(_frames(file, max(start, end - SEEN), end, block_size))
    if not frames or not announced or not rate or any(frame.end == announced for frame in frames):
        return None
    there = max((frame.first for frame in frames if frame.first < announced), default=0)
    return (
        f"cut short: its header announces {announced / rate:.3f} s, but it ends after {there / rate:.3f} s; get a "
        "complete copy if there is one"
    )


def _in_order(file: BinaryIO, start: int, end: int, announced: int, block_size: int) -> bool:
    """Whether numbers rise up to the last one announced, at a few places."""
    last = -1
    for place in range(PLACES):
        at = start + (end - SEEN - start) * place // (PLACES - 1)
        frames = list(_frames(file, at, at + SEEN, block_size))
        # two in a row are no accident
        sure = [one for one, after in pairwise(frames) if one.end == after.first]
        if any(one.first <= last for one in sure):
            return False
        last = max((one.first for one in sure), default=last)
    return any(frame.end == announced for frame in frames)


def _starts(file: BinaryIO, start: int, end: int) -> Iterator[int]:
    at, kept = start, b""
    while at < end:
        file.seek(at)
        block = kept + file.read(2**20)
        begin = at - len(kept)
        yield from (begin + found.start() for found in START.finditer(block))
        at, kept = begin + len(block), block[-7:]  # one byte less than a mark


def _frames(file: BinaryIO, at: int, end: int, block_size: int) -> Iterator[Frame]:
    file.seek(at)
    block = file.read(end - at)
    for found in SYNC.finditer(block):
        frame = _frame(block[found.start() : found.start() + 16], block_size)
        if frame is not None:
            yield frame


def _frame(head: bytes, block_size: int) -> Frame | None:
    """From the head of a frame; None if it is none, by its checksum."""
    if len(head) < 6 or head[2] >> 4 == 0 or head[2] & 15 == 15 or head[3] & 1:
        return None
    length = max(1, 8 - (head[4] ^ 0xFF).bit_length())  # of a number as in UTF-8
    if head[4] >> 6 == 2 or length > 7:
        return None
    number = head[4] & (0x7F if length == 1 else 0x7F >> length)
    for byte in head[5 : 4 + length]:
        number = number << 6 | byte & 0x3F
    at, code, of_rate = 4 + length, head[2] >> 4, head[2] & 15
    more = {6: 1, 7: 2}.get(code, 0)
    samples = int.from_bytes(head[at : at + more]) + 1 if more else SIZES[code]
    at += more + {12: 1, 13: 2, 14: 2}.get(of_rate, 0)
    if at >= len(head) or _crc8(head[:at]) != head[at]:
        return None
    first = number if head[1] & 1 else number * block_size
    return Frame(first, first + samples)


def _crc8(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value << 1 ^ (0x107 if value & 0x80 else 0)
    return value
