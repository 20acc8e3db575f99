"""Frames of MP3 files: recordings that were joined, cut short, or whose number of frames no header states.

A decoder believes the tag in the first frame, which counts the frames, or else guesses their number from the size of
the file, and stops there. Walking from frame to frame finds them all.
"""

from collections.abc import Iterator
from functools import cache
from typing import BinaryIO, NamedTuple

from outlark.audio.streams import Contents, Stream, after_tags
from outlark.files.places import length_of

#: kbit/s by index, of MPEG 1 and of MPEG 2 and 2.5 (layer III), and sample rates by version and index.
KBITS = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
)
RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
#: Bytes looked at together.
BLOCK = 2**20
#: Bytes of the longest frame.
LONGEST = 1441
TAGS = (b"Xing", b"Info")
#: Fewer bytes than this after the last frame are a tag, not sound.
SHORT = 288


class Found(NamedTuple):
    """A stream: where it starts, the head of a frame, how many frames there are, and how many its tag counts."""

    start: int
    head: bytes
    frames: int
    tagged: int | None


def contents(file: BinaryIO, first: int) -> Contents:
    """The streams from the first frame on: one for each tag; without a tag, one is put before it."""
    end = length_of(file)
    if _is_whole(file, first, end):
        return Contents()
    found = list(_streams(file, first, end))
    streams = []
    for number, stream in enumerate(found):
        until = found[number + 1].start if number + 1 < len(found) else end
        streams.append(Stream(stream.start, until, b"" if stream.tagged else _tag(stream)))
    as_it_is = len(found) == 1 and found[0].tagged
    last = found[-1] if found else None
    partial = None
    if last is not None and last.tagged is not None and last.frames < last.tagged:
        each_s = samples_per_frame(last.head) / rate_of(last.head)
        partial = (
            f"cut short: its header announces {last.tagged * each_s:.3f} s, but it holds {last.frames * each_s:.3f} s; "
            "get a complete copy if there is one"
        )
    return Contents(() if as_it_is else tuple(streams), partial)


def _is_whole(file: BinaryIO, first: int, end: int) -> bool:
    """Whether the file is as long as the tag in its first frame says: then there is no need to walk."""
    file.seek(first)
    frame = file.read(LONGEST)
    at = 4 + _side_bytes(frame)
    if frame[at : at + 4] not in TAGS or int.from_bytes(frame[at + 4 : at + 8]) & 3 != 3:
        return False
    return 0 <= end - first - int.from_bytes(frame[at + 12 : at + 16]) < SHORT


def _streams(file: BinaryIO, first: int, end: int) -> Iterator[Found]:
    start, head, n, tagged = first, b"", 0, None
    for at, frame in _frames(file, first, end):
        counted = _counted(frame)
        if counted is None:
            head = head or frame[:4]
            n += 1
            continue
        if n:
            yield Found(start, head, n, tagged)
        start, head, n, tagged = at, frame[:4], 0, counted or None
    if n or tagged:
        yield Found(start, head, n, tagged)


def _frames(file: BinaryIO, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each complete frame; what is between frames is passed over."""
    begin, block = at, b""
    while True:
        if at + LONGEST > begin + len(block) and begin + len(block) < end:
            file.seek(at)
            begin, block = at, file.read(BLOCK)
        i = at - begin
        size = frame_length(block[i : i + 4])
        if size and at + size <= end:
            yield at, block[i : i + size]
            at += size
        elif at >= end - 4:
            return
        else:
            at = _resynchronised(file, block[i + 1 : i + LONGEST], at, end)


def _resynchronised(file: BinaryIO, block: bytes, at: int, end: int) -> int:
    """The next position at which a frame may start: after a tag, or where two frames follow each other."""
    after = after_tags(file, at)
    if after > at:
        return after
    found = block.find(b"\xff")
    while found >= 0:
        size = frame_length(block[found : found + 4])
        if size:
            file.seek(at + 1 + found + size)
            following = file.read(4)
            if frame_length(following) or at + 1 + found + size == end:
                return at + 1 + found
        found = block.find(b"\xff", found + 1)
    return min(end, at + 1 + max(1, len(block) - 3))


def frame_length(head: bytes) -> int:
    """Bytes of the frame of layer III with this head of four bytes; 0 if it is none.

    >>> frame_length(bytes([0xFF, 0xFB, 0x90, 0x00])), frame_length(b"RIFF")
    (417, 0)
    """
    return _length(head[1], head[2]) if len(head) == 4 and head[0] == 0xFF else 0


@cache
def _length(second: int, third: int) -> int:
    version, layer = second >> 3 & 3, second >> 1 & 3
    kbits, rate = third >> 4, third >> 2 & 3
    if second < 0xE0 or version == 1 or layer != 1 or rate == 3:
        return 0
    bits = 1000 * KBITS[version != 3][kbits]
    return (144 if version == 3 else 72) * bits // RATES[version][rate] + (third >> 1 & 1) if bits else 0


def rate_of(head: bytes) -> int:
    return RATES[head[1] >> 3 & 3][head[2] >> 2 & 3]


def samples_per_frame(head: bytes) -> int:
    return 1152 if head[1] >> 3 & 3 == 3 else 576


def _counted(frame: bytes) -> int | None:
    """What a frame that is a tag counts, 0 if nothing; None for frames of sound."""
    at = 4 + _side_bytes(frame)
    if frame[at : at + 4] not in TAGS:
        return None
    flags = int.from_bytes(frame[at + 4 : at + 8])
    return int.from_bytes(frame[at + 8 : at + 12]) if flags & 1 else 0


def _side_bytes(head: bytes) -> int:
    """Bytes between the head of a frame and where a tag stands in it."""
    mono = head[3] >> 6 == 3
    return (17 if mono else 32) if head[1] >> 3 & 3 == 3 else (9 if mono else 17)


def _tag(stream: Found) -> bytes:
    """A frame without sound that counts the frames of a stream."""
    for bits in range(1, 15):  # the shortest frame in which a tag fits
        head = bytes([0xFF, stream.head[1] | 1, bits << 4 | stream.head[2] & 0x0C, stream.head[3]])
        tag = bytes(_side_bytes(head)) + b"Info" + (1).to_bytes(4) + stream.frames.to_bytes(4)
        if frame_length(head) >= len(head) + len(tag):
            return (head + tag).ljust(frame_length(head), b"\0")
    raise AssertionError("a frame of 320 kbit/s has room for a tag")
