"""Frames of FLAC and MP3 files and pages of Ogg files: recordings that were joined, and files that were cut short."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from outlark.audio.header import Contents, Stream, cut_short
from outlark.files.io import length_of
from outlark.segments import Span

#: Bytes searched at once.
SEARCHED_AT_ONCE = 2**20


def compressed_contents(file: BinaryIO) -> Contents:
    """The streams of an open file that is no WAV file; see `contents`."""
    first = _after_tags(file, 0)
    file.seek(first)
    start = file.read(4)
    if start == b"OggS":
        return _ogg_contents(file)
    if start == b"fLaC":
        return _flac_contents(file, first)
    if mp3_frame_length(start):
        return _mp3_contents(file, first)
    return Contents()


def _after_tags(file: BinaryIO, at: int) -> int:
    """The position after ID3 tags, which may stand before the sound of any file."""
    while True:
        file.seek(at)
        head = file.read(10)
        if head[:3] != b"ID3" or len(head) < 10:
            return at
        size = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
        at += 10 + size


def _between(starts: list[int], end: int) -> tuple[Stream, ...]:
    """From each start to the next; none for a single one, which the decoder reads as it is."""
    streams = tuple(Stream(*span) for span in pairwise([*starts, end]))
    return streams if len(streams) > 1 else ()


def _places(file: BinaryIO, pattern: bytes, at: int, end: int) -> Iterator[int]:
    """Where a pattern of up to eight bytes is found."""
    while at < end:
        file.seek(at)
        block = file.read(SEARCHED_AT_ONCE + 7)
        yield from (at + found.start() for found in re.finditer(pattern, block) if found.start() < SEARCHED_AT_ONCE)
        at += SEARCHED_AT_ONCE


# ------------------------------------------------------------------ Ogg (Vorbis, Opus)

#: Flags of a page: the first and the last of a stream.
FIRST_PAGE, LAST_PAGE = 2, 4
#: Bytes of a page's head, before the table of its segments.
PAGE_HEAD = 27


class _Page(NamedTuple):
    start: int
    flags: int
    complete: bool


def _ogg_contents(file: BinaryIO) -> Contents:
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
            at = next(_places(file, b"OggS", at + 1, end), end)
            continue
        n_segments = head[PAGE_HEAD - 1]
        size = PAGE_HEAD + n_segments + sum(head[PAGE_HEAD : PAGE_HEAD + n_segments])
        yield _Page(at, head[5], at + size <= end)
        at += size


# ------------------------------------------------------------------ FLAC
# Every frame has its number, and the header the number of samples. In a complete file the last frame ends where the
# header says, and numbers rise; only a file in which they do not is searched for the start of another recording.

#: How a recording starts: the mark, and a header of 34 bytes.
FLAC_START = rb"fLaC[\x00\x80]\x00\x00\x22"
#: Bytes searched for frames at each of so many places, and bytes of a file that is searched whole.
FLAC_SEEN, FLAC_PLACES, FLAC_SMALL = 2**16, 16, 2**22
#: Samples in a frame by its code; 6 and 7 say that the number follows.
FLAC_SIZES = (0, 192, *(576 << i for i in range(4)), 0, 0, *(256 << i for i in range(8)))


class _FlacHeader(NamedTuple):
    """Samples in all, samples per frame, and sample rate."""

    samples: int
    block_size: int
    rate: int


def _flac_contents(file: BinaryIO, start: int) -> Contents:
    """The streams of a file whose first recording starts at `start`."""
    end = length_of(file)
    header = _flac_header(file, start)
    if not header.samples:
        return Contents()  # written to a pipe: the decoder reads to the end
    if end - start > FLAC_SMALL and _flac_in_order(file, start, end, header):
        return Contents()
    starts = list(_places(file, FLAC_START, start, end)) or [start]
    samples, block_size, rate = _flac_header(file, starts[-1])
    frames = list(_flac_frames(file, max(starts[-1], end - FLAC_SEEN), end, block_size))
    partial = None
    if frames and samples and rate and not any(frame.offset == samples for frame in frames):
        there = max((frame.onset for frame in frames if frame.onset < samples), default=0)
        partial = cut_short(samples / rate, there / rate)
    return Contents(_between(starts, end), partial)


def _flac_header(file: BinaryIO, start: int) -> _FlacHeader:
    file.seek(start)
    header = file.read(42)
    packed = int.from_bytes(header[18:26])
    return _FlacHeader(packed & (1 << 36) - 1, int.from_bytes(header[10:12]), packed >> 44)


def _flac_in_order(file: BinaryIO, start: int, end: int, header: _FlacHeader) -> bool:
    """Whether numbers rise up to the last one announced, at a few places."""
    last = -1.0
    for place in range(FLAC_PLACES):
        at = start + (end - FLAC_SEEN - start) * place // (FLAC_PLACES - 1)
        frames = list(_flac_frames(file, at, at + FLAC_SEEN, header.block_size))
        # two in a row are no accident
        sure = [one.onset for one, after in pairwise(frames) if one.offset == after.onset]
        if sure and min(sure) <= last:
            return False
        last = max(sure, default=last)
    return any(frame.offset == header.samples for frame in frames)


def _flac_frames(file: BinaryIO, at: int, end: int, block_size: int) -> Iterator[Span]:
    """The samples of each frame of which the head lies here."""
    file.seek(at)
    block = file.read(end - at)
    for found in re.finditer(rb"\xff[\xf8\xf9]", block):
        frame = _flac_frame(block[found.start() : found.start() + 16], block_size)
        if frame is not None:
            yield frame


def _flac_frame(head: bytes, block_size: int) -> Span | None:
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
    return Span(first, first + samples)


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
#: Bytes of a frame that may hold a tag; fewer bytes than the second number after the last frame are a tag, not sound.
MP3_TAG_BYTES, MP3_SHORT = 52, 288


class _Mp3Tag(NamedTuple):
    """Frames and bytes that the tag of a stream counts; 0 if it does not."""

    frames: int
    bytes: int


class _Mp3Stream(NamedTuple):
    """Where a stream starts, the head of a frame, how many frames there are, and how many its tag counts, or 0."""

    start: int
    head: bytes
    frames: int
    tagged: int

    @property
    def frame_s(self) -> float:
        version, rate = self.head[1] >> 3 & 3, self.head[2] >> 2 & 3
        return (1152 if version == 3 else 576) / MP3_RATES[version][rate]


def _mp3_contents(file: BinaryIO, first: int) -> Contents:
    """The streams from the first frame on: one for each tag; without a tag, one is put before it."""
    end = length_of(file)
    file.seek(first)
    tag = _mp3_tag(file.read(MP3_TAG_BYTES))
    if tag and tag.frames and tag.bytes and 0 <= end - first - tag.bytes < MP3_SHORT:
        return Contents()  # as long as its tag says: there is no need to walk
    found = list(_mp3_streams(file, first, end))
    ends = [*(stream.start for stream in found[1:]), end]
    streams = tuple(
        Stream(stream.start, until, b"" if stream.tagged else _new_tag(stream))
        for stream, until in zip(found, ends, strict=False)
    )
    partial = None
    if found and found[-1].frames < found[-1].tagged:
        last = found[-1]
        partial = cut_short(last.tagged * last.frame_s, last.frames * last.frame_s)
    return Contents(() if len(found) == 1 and found[0].tagged else streams, partial)


def _mp3_streams(file: BinaryIO, first: int, end: int) -> Iterator[_Mp3Stream]:
    start, head, n, tagged = first, b"", 0, 0
    for at, frame in _mp3_frames(file, first, end):
        tag = _mp3_tag(frame)
        if tag is None:
            head = head or frame[:4]
            n += 1
            continue
        if n:
            yield _Mp3Stream(start, head, n, tagged)
        start, head, n, tagged = at, frame[:4], 0, tag.frames
    if n or tagged:
        yield _Mp3Stream(start, head, n, tagged)


def _mp3_frames(file: BinaryIO, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Position and first bytes of each complete frame; what is between frames is passed over."""
    while at < end - 4:
        file.seek(at)
        head = file.read(MP3_TAG_BYTES)
        size = mp3_frame_length(head[:4])
        if size and at + size <= end:
            yield at, head
            at += size
        else:
            at = _resynchronised(file, at, end)


def _resynchronised(file: BinaryIO, at: int, end: int) -> int:
    """The next position at which a frame may start: after a tag, or where two frames follow each other."""
    after = _after_tags(file, at)
    if after > at:
        return after
    for place in _places(file, rb"\xff[\xe0-\xff]", at + 1, end):
        file.seek(place)
        following = place + mp3_frame_length(file.read(4))
        file.seek(following)
        if following > place and (following == end or mp3_frame_length(file.read(4))):
            return place
    return end


def mp3_frame_length(head: bytes) -> int:
    """Bytes of the frame of layer III with this head of four bytes; 0 if it is none.

    >>> mp3_frame_length(bytes([0xFF, 0xFB, 0x90, 0x00])), mp3_frame_length(b"RIFF")
    (417, 0)
    """
    if len(head) < 4 or head[0] != 0xFF or head[1] < 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    kbits, rate = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer != 1 or rate == 3:
        return 0
    bits = 1000 * MP3_KBITS[version != 3][kbits]
    return (144 if version == 3 else 72) * bits // MP3_RATES[version][rate] + (head[2] >> 1 & 1) if bits else 0


def _mp3_tag(frame: bytes) -> _Mp3Tag | None:
    """What a frame that is a tag says; None for frames of sound."""
    at = 4 + _side_bytes(frame)
    if frame[at : at + 4] not in (b"Xing", b"Info"):
        return None
    flags, frames, size = (int.from_bytes(frame[i : i + 4]) for i in range(at + 4, at + 16, 4))
    return _Mp3Tag(frames if flags & 1 else 0, size if flags & 3 == 3 else 0)


def _side_bytes(head: bytes) -> int:
    """Bytes between the head of a frame and where a tag stands in it."""
    mono = head[3] >> 6 == 3
    return (17 if mono else 32) if head[1] >> 3 & 3 == 3 else (9 if mono else 17)


def _new_tag(stream: _Mp3Stream) -> bytes:
    """A frame without sound that counts the frames of a stream."""
    for bits in range(1, 15):  # the shortest frame in which a tag fits
        head = bytes([0xFF, stream.head[1] | 1, bits << 4 | stream.head[2] & 0x0C, stream.head[3]])
        tag = bytes(_side_bytes(head)) + b"Info" + (1).to_bytes(4) + stream.frames.to_bytes(4)
        if mp3_frame_length(head) >= len(head) + len(tag):
            return (head + tag).ljust(mp3_frame_length(head), b"\0")
    raise AssertionError("a frame of 320 kbit/s has room for a tag")
