"""A unit of work: a recording, the scores of one, a part of a long one, or the whole from its parts."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from outlark.batch.identity import Print
from outlark.batch.sources import Source
from outlark.errors import OutlarkError
from outlark.files.places import size_of

#: Seconds of sound in a part. A part hears five minutes of what came before as well, so that shorter ones cost more.
PART_S = 1800.0
#: Recordings that are longer than this many parts are worked on in parts.
LONG = 1.5
#: No recording of fewer bytes is so long that it is worth a look at its header.
SMALL = 2**22


@dataclass(frozen=True)
class Part:
    """A part of a recording, by its number; how many there are; and how many seconds each of them lasts, about."""

    number: int
    of: int
    length_s: float

    @property
    def seconds(self) -> tuple[float, float | None]:
        """From where to where it reaches, about; None for the end of the recording.

        >>> Part(1, of=3, length_s=600.0).seconds, Part(2, of=3, length_s=600.0).seconds
        ((600.0, 1200.0), (1200.0, None))
        """
        last = self.number + 1 == self.of
        return self.number * self.length_s, None if last else (self.number + 1) * self.length_s


@dataclass(frozen=True)
class Unit:
    """What one process does in one go, and what is done again if it dies.

    Attributes
    ----------
    source : Source
    part : Part, optional
        Only this part of it.
    parts : tuple of str
        The whole, from these files, which hold what came of its parts.
    before : Print
        With parts: the recording when the first of them was begun.
    """

    source: Source
    part: Part | None = None
    parts: tuple[str, ...] = ()
    before: Print = field(default=None, compare=False)


def n_parts(source: Source, length_s: float) -> int:
    """In how many parts of about this length a recording is worked on; 1 for those that are short, or not seekable."""
    from outlark.audio.sound import AudioFile

    try:
        if size_of(source.path) < SMALL:
            return 1
        audio = AudioFile(source.path)
    except (OSError, OutlarkError):  # whoever works on it says what is wrong
        return 1
    seconds = audio.n_samples / audio.sample_rate
    return max(1, round(seconds / length_s)) if audio.seekable and seconds > LONG * length_s else 1


def parts_folder(recording: str) -> str:
    """The name of a folder for the parts of a recording, whose own name may hold anything."""
    return hashlib.sha256(recording.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]


class Event(NamedTuple):
    """What there is to tell of a unit.

    Attributes
    ----------
    unit : Unit
    what : mapping
        ``{"seconds", "share"}`` under way; at the end ``{"done": …}``, ``{"failed": message}``, ``{"refused":
        message}`` if the task cannot be done at all, or ``{"died": message}`` if the process has ended.
    """

    unit: Unit
    what: Mapping[str, Any]


class Driver(Protocol):
    """For a ``with`` block, with whose end all that is under way ends."""

    def start(self, n_units: int) -> bool:
        """Be ready for so many units; whether recordings can be worked on in parts.

        Raises
        ------
        InputError
            When the task cannot be done at all.
        """
        ...

    @property
    def n_free(self) -> int:
        """How many units can be submitted now."""
        ...

    def submit(self, unit: Unit) -> None:
        """Have a unit done; `events` will tell what came of it."""
        ...

    def events(self) -> Iterator[Event]:
        """What has happened to the units that were submitted; waits until something has, but not for long."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
