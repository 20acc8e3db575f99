"""Frames of FLAC and MP3 files and pages of Ogg files: recordings that were joined, and files that were cut short."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from outlark.audio.contents import Contents, Stream, after_tags, cut_short
from outlark.files.io import length_of


def _between(starts: list[int], end: int) -> tuple[Stream, ...]:
    """From each start to the next; none for a single one, which the decoder reads as it is."""
    streams = tuple(Stream(*span) for span in zip(starts, [*starts[1:], end], strict=True))
    return streams if len(streams) > 1 else ()


# ------------------------------------------------------------------ Ogg (Vorbis, Opus)

#: Flags of a page: the first and the last of a stream.
FIRST_PAGE, LAST_PAGE = 2, 4
#: Bytes of a page's head, before the table of its segments; bytes searched at once if a page is damaged.
PAGE_HEAD, PAGE_SEARCHED = 27, 2**16


class _Page(NamedTuple):
    start: int
    flags: int
    complete: bool


def ogg_contents(file: BinaryIO) -> Contents:
    """The streams of a chain; each begins where a first page follows one that is not."""
    end, starts = length_of(file), []
    before = last = _Page(0, 0, complete=True)
    for last in _pages(file, end):
        if last.flags & FIRST_PAGE and not before.flags & FIRST_PAGE:
            starts.append(last.start)
        before = last
    if not starts:
        return Contents()  # the decoder says what is wrong
    # several streams side by side end one by one: any last page at the end will do
    complete = last.complete and bool(last.flags & LAST_PAGE)
    partial = None if complete else "cut short: its last page is missing; get a complete copy if there is one"
    return Contents(_between(starts, end), partial)


def _pages(file: BinaryIO, end: int) -> Iterator[_Page]:
    at = 0
    while at < end:
        file.seek(at)
        head = file.read(PAGE_HEAD + 255)
        if head[:4] != b"OggS" or len(head) < PAGE_HEAD:
            at = _next_page(file, at + 1, end)
            continue
        n_segments = head[PAGE_HEAD - 1]
        size = PAGE_HEAD + n_segments + sum(head[PAGE_HEAD : PAGE_HEAD + n_segments])
        yield _Page(at, head[5], at + size <= end)
        at += size


def _next_page(file: BinaryIO, at: int, end: int) -> int:
    """The next page after damage, or the end."""
    while at < end:
        file.seek(at)
        found = file.read(PAGE_SEARCHED).find(b"OggS")
        if found >= 0:
            return at + found
        at += PAGE_SEARCHED - 3  # one byte less than a mark
    return end


# ------------------------------------------------------------------ FLAC
# Every frame has its number, and the header the number of samples. In a complete file the last frame ends where the
# header says, and numbers rise; only a file in which they do not is searched for the start of another recording.

#: How a recording starts: the mark, and a header of 34 bytes.
FLAC_START = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")
FLAC_SYNC = re.compile(rb"\xff[\xf8\xf9]")
#: Bytes searched for frames at each of so many places, and bytes of a file that is searched whole.
FLAC_SEEN, FLAC_PLACES, FLAC_SMALL = 2**16, 16, 2**22
#: Samples in a frame by its code; 6 and 7 say that the number follows.
FLAC_SIZES = (0, 192, *(576 << i for i in range(4)), 0, 0, *(256 << i for i in range(8)))


class _FlacHeader(NamedTuple):
    """Samples in all, samples per frame, and sample rate."""

    samples: int
    block_size: int
    rate: int


class _FlacFrame(NamedTuple):
    """The number of a frame's first sample, and of the one after its last."""

    first: int
    end: int


def flac_contents(file: BinaryIO, start: int) -> Contents:
    """The streams of a file whose first recording starts at `start`."""
    end = length_of(file)
    header = _flac_header(file, start)
    if not header.samples:
        return Contents()  # written to a pipe: the decoder reads to the end
    if end - start > FLAC_SMALL and _flac_in_order(file, start, end, header):
        return Contents()
    starts = list(_flac_starts(file, start, end)) or [start]
    last = starts[-1]
    return Contents(_between(starts, end), _flac_partial(file, last, end, _flac_header(file, last)))


def _flac_header(file: BinaryIO, start: int) -> _FlacHeader:
    file.seek(start)
    header = file.read(42)
    packed = int.from_bytes(header[18:26])
    return _FlacHeader(packed & (1 << 36) - 1, int.from_bytes(header[10:12]), packed >> 44)


def _flac_partial(file: BinaryIO, start: int, end: int, header: _FlacHeader) -> str | None:
    frames = list(_flac_frames(file, max(start, end - FLAC_SEEN), end, header.block_size))
    samples, _, rate = header
    if not frames or not samples or not rate or any(frame.end == samples for frame in frames):
        return None
    there = max((frame.first for frame in frames if frame.first < samples), default=0)
    return cut_short(samples / rate, there / rate)


def _flac_in_order(file: BinaryIO, start: int, end: int, header: _FlacHeader) -> bool:
    """Whether numbers rise up to the last one announced, at a few places."""
    last = -1
    for place in range(FLAC_PLACES):
        at = start + (end - FLAC_SEEN - start) * place // (FLAC_PLACES - 1)
        frames = list(_flac_frames(file, at, at + FLAC_SEEN, header.block_size))
        # two in a row are no accident
        sure = [one for one, after in pairwise(frames) if one.end == after.first]
        if any(one.first <= last for one in sure):
            return False
        last = max((one.first for one in sure), default=last)
    return any(frame.end == header.samples for frame in frames)


def _flac_starts(file: BinaryIO, start: int, end: int) -> Iterator[int]:
    at, kept = start, b""
    while at < end:
        file.seek(at)
        block = kept + file.read(2**20)
        begin = at - len(kept)
        yield from (begin + found.start() for found in FLAC_START.finditer(block))
        at, kept = begin + len(block), block[-7:]  # one byte less than a mark


def _flac_frames(file: BinaryIO, at: int, end: int, block_size: int) -> Iterator[_FlacFrame]:
    file.seek(at)
    block = file.read(end - at)
    for found in FLAC_SYNC.finditer(block):
        frame = _flac_frame(block[found.start() : found.start() + 16], block_size)
        if frame is not None:
            yield frame


def _flac_frame(head: bytes, block_size: int) -> _FlacFrame | None:
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
    samples = int.from_bytes(head[at : at + more]) + 1 if more else FLAC_SIZES[code]
    at += more + {12: 1, 13: 2, 14: 2}.get(of_rate, 0)
    if at >= len(head) or _crc8(head[:at]) != head[at]:
        return None
    first = number if head[1] & 1 else number * block_size
    return _FlacFrame(first, first + samples)


def _crc8(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value << 1 ^ (0x107 if value & 0x80 else 0)
    return value


# ------------------------------------------------------------------ MP3
# A decoder believes the tag in the first frame, which counts the frames, or else guesses their number from the size of
# the file, and stops there. Walking from frame to frame finds them all.

#: kbit/s by index, of MPEG 1 and of MPEG 2 and 2.5 (layer III), and sample rates by version and index.
MP3_KBITS = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
)
MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
MP3_TAGS = (b"Xing", b"Info")
#: Bytes of the longest frame; fewer bytes than the second number after the last frame are a tag, not sound.
MP3_LONGEST, MP3_SHORT = 1441, 288


class _Mp3Stream(NamedTuple):
    """Where a stream starts, the head of a frame, how many frames there are, and how many its tag counts."""

    start: int
    head: bytes
    frames: int
    tagged: int | None

    @property
    def frame_s(self) -> float:
        version, rate = self.head[1] >> 3 & 3, self.head[2] >> 2 & 3
        return (1152 if version == 3 else 576) / MP3_RATES[version][rate]


def mp3_contents(file: BinaryIO, first: int) -> Contents:
    """The streams from the first frame on: one for each tag; without a tag, one is put before it."""
    end = length_of(file)
    if _mp3_is_whole(file, first, end):
        return Contents()
    found = list(_mp3_streams(file, first, end))
    ends = [*(stream.start for stream in found[1:]), end]
    streams = tuple(
        Stream(stream.start, until, b"" if stream.tagged else _mp3_tag(stream))
        for stream, until in zip(found, ends, strict=False)
    )
    as_it_is = len(found) == 1 and found[0].tagged
    last, partial = found[-1] if found else None, None
    if last is not None and last.tagged is not None and last.frames < last.tagged:
        partial = cut_short(last.tagged * last.frame_s, last.frames * last.frame_s)
    return Contents(() if as_it_is else streams, partial)


def _mp3_is_whole(file: BinaryIO, first: int, end: int) -> bool:
    """Whether the file is as long as the tag in its first frame says: then there is no need to walk."""
    file.seek(first)
    frame = file.read(MP3_LONGEST)
    at = 4 + _side_bytes(frame)
    if frame[at : at + 4] not in MP3_TAGS or int.from_bytes(frame[at + 4 : at + 8]) & 3 != 3:
        return False
    return 0 <= end - first - int.from_bytes(frame[at + 12 : at + 16]) < MP3_SHORT


def _mp3_streams(file: BinaryIO, first: int, end: int) -> Iterator[_Mp3Stream]:
    start, head, n, tagged = first, b"", 0, None
    for at, frame in _mp3_frames(file, first, end):
        counted = _frames_in_tag(frame)
        if counted is None:
            head = head or frame[:4]
            n += 1
            continue
        if n:
            yield _Mp3Stream(start, head, n, tagged)
        start, head, n, tagged = at, frame[:4], 0, counted or None
    if n or tagged:
        yield _Mp3Stream(start, head, n, tagged)


def _mp3_frames(file: BinaryIO, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each complete frame; what is between frames is passed over."""
    begin, block = at, b""
    while True:
        if at + MP3_LONGEST > begin + len(block) and begin + len(block) < end:
            file.seek(at)
            begin, block = at, file.read(2**20)
        i = at - begin
        size = mp3_frame_length(block[i : i + 4])
        if size and at + size <= end:
            yield at, block[i : i + size]
            at += size
        elif at >= end - 4:
            return
        else:
            at = _resynchronised(file, block[i + 1 : i + MP3_LONGEST], at, end)


def _resynchronised(file: BinaryIO, block: bytes, at: int, end: int) -> int:
    """The next position at which a frame may start: after a tag, or where two frames follow each other."""
    after = after_tags(file, at)
    if after > at:
        return after
    found = block.find(b"\xff")
    while found >= 0:
        size = mp3_frame_length(block[found : found + 4])
        if size:
            file.seek(at + 1 + found + size)
            following = file.read(4)
            if mp3_frame_length(following) or at + 1 + found + size == end:
                return at + 1 + found
        found = block.find(b"\xff", found + 1)
    return min(end, at + 1 + max(1, len(block) - 3))


def mp3_frame_length(head: bytes) -> int:
    """Bytes of the frame of layer III with this head of four bytes; 0 if it is none.

    >>> mp3_frame_length(bytes([0xFF, 0xFB, 0x90, 0x00])), mp3_frame_length(b"RIFF")
    (417, 0)
    """
    return _length(head[1], head[2]) if len(head) == 4 and head[0] == 0xFF else 0


@cache
def _length(second: int, third: int) -> int:
    version, layer = second >> 3 & 3, second >> 1 & 3
    kbits, rate = third >> 4, third >> 2 & 3
    if second < 0xE0 or version == 1 or layer != 1 or rate == 3:
        return 0
    bits = 1000 * MP3_KBITS[version != 3][kbits]
    return (144 if version == 3 else 72) * bits // MP3_RATES[version][rate] + (third >> 1 & 1) if bits else 0


def _frames_in_tag(frame: bytes) -> int | None:
    """What a frame that is a tag counts, 0 if nothing; None for frames of sound."""
    at = 4 + _side_bytes(frame)
    if frame[at : at + 4] not in MP3_TAGS:
        return None
    flags = int.from_bytes(frame[at + 4 : at + 8])
    return int.from_bytes(frame[at + 8 : at + 12]) if flags & 1 else 0


def _side_bytes(head: bytes) -> int:
    """Bytes between the head of a frame and where a tag stands in it."""
    mono = head[3] >> 6 == 3
    return (17 if mono else 32) if head[1] >> 3 & 3 == 3 else (9 if mono else 17)


def _mp3_tag(stream: _Mp3Stream) -> bytes:
    """A frame without sound that counts the frames of a stream."""
    for bits in range(1, 15):  # the shortest frame in which a tag fits
        head = bytes([0xFF, stream.head[1] | 1, bits << 4 | stream.head[2] & 0x0C, stream.head[3]])
        tag = bytes(_side_bytes(head)) + b"Info" + (1).to_bytes(4) + stream.frames.to_bytes(4)
        if mp3_frame_length(head) >= len(head) + len(tag):
            return (head + tag).ljust(mp3_frame_length(head), b"\0")
    raise AssertionError("a frame of 320 kbit/s has room for a tag")
