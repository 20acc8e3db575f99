"""Pages of Ogg files (Vorbis, Opus): where recordings that were joined begin, and whether the last one is complete."""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from outlark.audio.streams import Contents, Stream
from outlark.files.places import length_of

MARK = b"OggS"
#: Flags of a page: the first and the last of a stream.
FIRST, LAST = 2, 4
#: Bytes of a page's head, before the table of its segments; bytes searched at once if a page is damaged.
HEAD, SEARCHED = 27, 2**16


class Page(NamedTuple):
    start: int
    flags: int
    complete: bool


def contents(file: BinaryIO) -> Contents:
    """The streams of a chain; each begins where a first page follows one that is not."""
    end, starts = length_of(file), []
    before = last = Page(0, 0, complete=True)
    for last in _pages(file, end):
        if last.flags & FIRST and not before.flags & FIRST:
            starts.append(last.start)
        before = last
    if not starts:
        return Contents()  # the decoder says what is wrong
    # several streams side by side end one by one: any last page at the end will do
    complete = last.complete and bool(last.flags & LAST)
    partial = None if complete else "cut short: its last page is missing; get a complete copy if there is one"
    chain = tuple(Stream(*span) for span in zip(starts, [*starts[1:], end], strict=True))
    return Contents(chain if len(chain) > 1 else (), partial)


def _pages(file: BinaryIO, end: int) -> Iterator[Page]:
    at = 0
    while at < end:
        file.seek(at)
        head = file.read(HEAD + 255)
        if head[:4] != MARK or len(head) < HEAD:
            at = _next(file, at + 1, end)
            continue
        n_segments = head[HEAD - 1]
        size = HEAD + n_segments + sum(head[HEAD : HEAD + n_segments])
        yield Page(at, head[5], at + size <= end)
        at += size


def _next(file: BinaryIO, at: int, end: int) -> int:
    """The next page after damage, or the end."""
    while at < end:
        file.seek(at)
        found = file.read(SEARCHED).find(MARK)
        if found >= 0:
            return at + found
        at += SEARCHED - len(MARK) + 1
    return end
