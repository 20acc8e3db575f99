"""What the header and the name of a sound file say: where its sound lies, when and where it was recorded.

Decoders read the first stream of a file as far as its header announces and say nothing about the rest. Here the bytes
of every stream are found, so that all sound is read, and what is missing is said. This module reads WAV files (RIFF,
RF64, BW64), `compressed` the others.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import BinaryIO, NamedTuple

from outlark.files.io import length_of


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
    file.seek(0)
    if file.read(4) in RIFF_FAMILY:
        return _wav_contents(file, 0, length_of(file))
    from outlark.audio.compressed import compressed_contents

    return compressed_contents(file)


def cut_short(announced_s: float, there_s: float) -> str:
    """What is said about a file that ends too early."""
    return (
        f"cut short: its header announces {announced_s:.3f} s, but it holds {there_s:.3f} s; get a complete copy if "
        "there is one"
    )


# ------------------------------------------------------------------ WAV files

#: How a file made of chunks begins.
RIFF_FAMILY = (b"RIFF", b"RF64", b"BW64")
#: The size of a chunk that does not fit into four bytes: it is in the chunk "ds64", or the chunk goes on to the end.
SIZE_ELSEWHERE = 0xFFFFFFFF
#: Limits on the text read from a chunk and on chunks, because damaged files may announce anything.
MAX_CHUNK_BYTES, MAX_CHUNKS = 2**20, 1000
#: Sizes written by programs that do not know yet how much will follow: 2 and 4 GiB, or a little less.
UNKNOWN_SIZES = (range(0x7FFF0000, 0x80000001), range(0xFFFF0000, 0x100000000))
#: Chunks that may follow the sound; they are recognised even if they are cut off.
CHUNKS_AFTER_SOUND = (
    b"LIST", b"guan", b"wamd", b"bext", b"iXML", b"axml", b"id3 ", b"ID3 ", b"cue ", b"plst", b"smpl", b"inst", b"JUNK",
    b"junk", b"PAD ", b"FLLR", b"fact", b"PEAK", b"_PMX", b"DISP", b"afsp", b"acid", b"MD5 ", b"chna", b"levl", b"TAG",
    b"ID3", b"APETAGEX",
)  # fmt: skip


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
            found.setdefault("guan", _text(file.read(min(size, MAX_CHUNK_BYTES))))
        elif name == b"LIST":
            for entry, text in _info_entries(file.read(min(size, MAX_CHUNK_BYTES))):
                found.setdefault(entry, text)
    return found


def _is_wave(file: BinaryIO) -> bool:
    """Whether a WAV file starts here; moves to its first chunk."""
    start = file.read(12)
    return start[:4] in RIFF_FAMILY and start[8:] == b"WAVE"


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Name and size of each chunk, with the file at its content; up to the first one that makes no sense."""
    at, end = file.tell(), length_of(file)
    size_of_sound = SIZE_ELSEWHERE
    for _ in range(MAX_CHUNKS):
        file.seek(at)
        head = file.read(8)
        name, size = head[:4], _number(head[4:])
        if len(head) < 8 or not name.isascii() or not name.decode().isprintable():
            return
        if name == b"ds64":
            size_of_sound = _number(file.read(16)[8:])
            file.seek(at + 8)
        if name == b"data" and size == SIZE_ELSEWHERE:
            size = size_of_sound
        yield name, size
        at += 8 + size + size % 2
        if at >= end:
            return


def _info_entries(body: bytes) -> Iterator[tuple[str, str]]:
    at = 4
    while body[:4] == b"INFO" and at + 8 <= len(body):
        name, size = body[at : at + 4], _number(body[at + 4 : at + 8])
        if name.isascii():
            yield name.decode(), _text(body[at + 8 : at + 8 + size])
        at += 8 + size + size % 2


def _text(body: bytes) -> str:
    """UTF-8, or else Latin-1, up to the zero that may end it."""
    body = body.split(b"\0", 1)[0]
    try:
        return body.decode("utf-8").strip()
    except UnicodeDecodeError:
        return body.decode("latin-1").strip()


def _number(field: bytes) -> int:
    return int.from_bytes(field, "little")


def _wav_contents(file: BinaryIO, start: int, end: int) -> Contents:
    """The sound of a file, wherever its header says that it ends; only the header is read.

    Recorders write sizes when they stop. If they lose power, the header announces nothing, or less than there is.
    """
    file.seek(start)
    bytes_per_s, block = 0, 1
    for name, size in _chunks(file) if _is_wave(file) else ():
        if name == b"fmt ":
            form = file.read(16)
            bytes_per_s, block = _number(form[8:12]), max(1, _number(form[12:14]))
        elif name == b"data" and bytes_per_s:
            return _wav_sound(file, Stream(start, end), size, bytes_per_s, block)
    return Contents()


def _wav_sound(file: BinaryIO, within: Stream, size: int, bytes_per_s: int, block: int) -> Contents:
    """The sound that starts here, of which `size` bytes are announced."""
    first, end = file.tell(), within.end
    there = end - first
    if any(size in sizes for sizes in UNKNOWN_SIZES):
        return Contents()
    if size - there >= block:
        return Contents(partial=cut_short(size / bytes_per_s, there / bytes_per_s))
    rest = first + size + size % 2
    file.seek(rest)
    if _is_wave(file):
        more = _wav_contents(file, rest, end)
        return Contents((Stream(within.start, rest), *(more.streams or (Stream(rest, end),))), more.partial)
    if there - size < block or _is_no_sound(file, rest, end, after_sound=size > 0):
        return Contents()
    there -= there % block
    said = f"its header was never finished: it announces {size / bytes_per_s:.3f} s, but {there / bytes_per_s:.3f} s "
    said += "of sound follow, and were read; the recorder may have lost power"
    # with these sizes, the decoder reads to the end
    file.seek(within.start + 8)
    head = b"RIFF" + (8).to_bytes(4, "little") + file.read(first - within.start - 12) + bytes(4)
    return Contents((Stream(first, first + there, head),), said)


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
    return after_sound and not any(any(block) for block in iter(lambda: file.read(MAX_CHUNK_BYTES), b""))


# ------------------------------------------------------------------ when

#: Other years come from a clock that was never set, or are not years.
FIRST_YEAR, LAST_YEAR = 1990, 2099
#: AudioMoth named files by hexadecimal seconds between these years.
HEX_YEARS = range(2016, 2031)
#: Sources that differ by no more agree: files are named a moment before or after the first sample.
CLOCK_TOLERANCE = timedelta(seconds=2)
#: AudioMoth: "Recorded at 12:34:56 24/10/2023 (UTC+2) by …"; early ones without a zone, later ones with milliseconds.
AUDIOMOTH = re.compile(
    r"Recorded at (\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))? (\d{1,2})/(\d{1,2})/(\d{4})"
    r"(?: \((UTC)(?:([+-])(\d{1,2})(?::(\d{2}))?)?\))?"
)
#: 20231024_123456, also with $, - or T between; 2023-10-24T12:34:56, also with other signs between the numbers;
#: BirdNET-Pi writes 2023-10-24-birdnet-12:34:56. Swift adds _-0400, BAR-LT +1000, others Z.
IN_NAME = re.compile(
    r"(?<!\d)(?P<year>\d{4})(?P<in_date>[-_.]?)(?P<month>\d{2})(?P=in_date)(?P<day>\d{2})"
    r"(?P<between>[_$T -]|-birdnet-)(?P<hour>\d{2})(?P<in_time>[-_.:]?)(?P<minute>\d{2})(?P=in_time)(?P<second>\d{2})"
    r"(?!\d)(?P<zone>_?[+-]\d{2}:?\d{2}(?!\d)|Z(?![a-z0-9]))?",
    re.IGNORECASE,
)
HEX_NAME = re.compile(r"(?=[0-9]*[a-f])[0-9a-f]{8}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RecorderTime:
    """When a recording began, with a time zone only if the source states one.

    `differences` is what less trusted sources say instead; empty if they agree. `expansion` is the time expansion
    (GUANO's TE): 10 for bats slowed down tenfold, else 1.

    >>> began = time_in_name("SITE7_20231024_123456.WAV")
    >>> began.began.isoformat(), began.source, began.at(90.5).isoformat()
    ('2023-10-24T12:34:56', 'file name', '2023-10-24T12:36:26.500000')
    """

    began: datetime
    source: str
    differences: tuple[str, ...] = ()
    expansion: float = 1.0

    def at(self, start_s: float) -> datetime:
        """The time at a position in the file, to the microsecond."""
        return self.began + timedelta(seconds=start_s / self.expansion)


def recorder_time(guano: str, comment: str, name: str) -> RecorderTime | None:
    """When a recording began, or None: from the most trusted of GUANO, header comment (AudioMoth's) and file name.

    >>> comment = "Recorded at 12:34:56 24/10/2023 (UTC+2) by AudioMoth 24F3190361DA539A"
    >>> found = recorder_time("", comment, "20231024_1200.wav")
    >>> found.began.isoformat(), found.source
    ('2023-10-24T12:34:56+02:00', 'comment')
    """
    sources = (_time_in_guano(guano), _time_in_comment(comment), time_in_name(name))
    found = [time for time in sources if time is not None]
    if not found:
        return None
    best, *others = found
    return replace(best, differences=tuple(said for other in others if (said := _difference(best, other))))


def time_in_name(name: str) -> RecorderTime | None:
    """When a recording with this file name began, or None.

    >>> time_in_name("5E9089F0.WAV").began.isoformat()  # old AudioMoth: seconds since 1970, hexadecimal
    '2020-04-10T15:00:00+00:00'
    >>> time_in_name("SwiftOne_20220719_000000_-0400.wav").began.isoformat()
    '2022-07-19T00:00:00-04:00'
    >>> time_in_name("B_20230230_120000.wav")  # no such day
    """
    for found in IN_NAME.finditer(name):
        began = _date_time("".join(found[part] for part in ("year", "month", "day", "hour", "minute", "second")))
        zone = found["zone"] or ""
        if zone.startswith("-") and found["between"] not in "Tt":
            zone = ""  # it may start a serial number; ISO 8601 has a T, Swift an underscore
        if began is not None:
            zone = zone.removeprefix("_").replace(":", "")
            return RecorderTime(began=began.replace(tzinfo=_zone(zone)), source="file name")
    stem = name.split(".", 1)[0]
    if HEX_NAME.fullmatch(stem):
        began = datetime.fromtimestamp(int(stem, 16), UTC)
        if began.year in HEX_YEARS:
            return RecorderTime(began=began, source="file name")
    return None


def _time_in_guano(text: str) -> RecorderTime | None:
    fields = _guano_fields(text)
    stamp = re.sub(r"\s+(?=[+-]\d)", "", fields.get("timestamp", ""))
    stamp = re.sub(r"(?<=:\d\d[+-])(?=\d(:|$))", "0", stamp)  # a Song Meter Mini writes +1:00
    if ":" not in stamp and "T" not in stamp:  # a date without a time
        return None
    try:
        began = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if not FIRST_YEAR <= began.year <= LAST_YEAR:
        return None
    expansion = fields.get("te", "")
    slowed = float(expansion) if re.fullmatch(r"\d{1,4}(\.\d+)?", expansion) else 1.0
    return RecorderTime(began=began, source="guano", expansion=slowed or 1.0)


def _guano_fields(text: str) -> dict[str, str]:
    """Names, in lower case, and values of the lines of GUANO; the first of each name counts."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _time_in_comment(comment: str) -> RecorderTime | None:
    match = AUDIOMOTH.search(comment)
    if match is None:
        return None
    hour, minute, second, part, day, month, year, utc, sign, hours, minutes = match.groups()
    began = _date_time(f"{year}{month:0>2}{day:0>2}{hour:0>2}{minute}{second}")
    if began is None:
        return None
    began = began.replace(microsecond=int((part or "0").ljust(6, "0")))
    if utc:
        began = began.replace(tzinfo=_zone(f"{sign}{hours:0>2}{minutes or '00'}") if sign else UTC)
    return RecorderTime(began=began, source="comment")


def _date_time(digits: str) -> datetime | None:
    """From YYYYMMDDHHMMSS, or None."""
    try:
        found = datetime.strptime(digits, "%Y%m%d%H%M%S")
    except ValueError:
        return None
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else None


def _zone(text: str) -> timezone | None:
    """From Z or +HHMM; None unless in quarters of an hour from -12 to +14 hours."""
    if not text or text in "Zz":
        return UTC if text else None
    hours, minutes = int(text[1:3]), int(text[3:])
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)
    if minutes % 15 or not timedelta(hours=-12) <= offset <= timedelta(hours=14):
        return None
    return timezone(offset)


def _gap(one: datetime, other: datetime) -> timedelta:
    """How much later `other` is; a time without a zone is taken as local or UTC, whichever is nearer."""
    if (one.tzinfo is None) == (other.tzinfo is None):
        return other - one
    if one.tzinfo is None:
        return -_gap(other, one)
    local, utc = one.replace(tzinfo=None), one.astimezone(UTC).replace(tzinfo=None)
    return min(other - local, other - utc, key=abs)


def _difference(best: RecorderTime, other: RecorderTime) -> str | None:
    gap = _gap(best.began, other.began)
    if abs(gap) <= CLOCK_TOLERANCE:
        return None
    return (
        f"the {other.source} says {other.began.isoformat(' ')}, {abs(gap)} "
        f"{'later' if gap > timedelta(0) else 'earlier'} than the {best.source} ({best.began.isoformat(' ')})"
    )


# ------------------------------------------------------------------ where

#: Fields of GUANO, in lower case, that hold the name of a site; a Song Meter's prefix, unless it is its serial number.
SITE_FIELDS = ("nabat|site name", "site name", "site", "wa|song meter|prefix", "wa|prefix")


def recorder_site(guano: str) -> str | None:
    """The site that the recorder wrote into the file, or None."""
    fields = _guano_fields(guano)
    sites = (fields.get(field) for field in SITE_FIELDS)
    return next((site for site in sites if site and site != fields.get("serial")), None)
