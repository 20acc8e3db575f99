"""Which names mean the same recording: tables write them with folders or without, with an ending or without."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath
from typing import Self

from outlark.audio.sound_files import without_sound_suffix
from outlark.errors import AnnotationError
from outlark.plain_text import as_named


@dataclass(frozen=True)
class RecordingName:
    """The parts of a name, all in small letters; no suffix where it does not end as a sound file does."""

    folders: tuple[str, ...]
    stem: str
    suffix: str

    @classmethod
    def of(cls, text: str) -> Self:
        """The parts of a name as a table gives it.

        >>> RecordingName.of(r"D:\\night\\A.WAV")
        RecordingName(folders=('d:', 'night'), stem='a', suffix='.wav')
        """
        path = PurePosixPath(as_named(text).replace("\\", "/").casefold())
        stem = without_sound_suffix(path.name)
        return cls(path.parts[:-1], stem, path.name[len(stem) :])

    def likeness(self, other: Self) -> tuple[int, int]:
        """How alike two names of one stem are: endings (2 equal, 1 one has none, 0 different), then folders."""
        endings = 2 if self.suffix == other.suffix else int(not self.suffix or not other.suffix)
        common = 0
        for one, two in zip(reversed(self.folders), reversed(other.folders), strict=False):
            if one != two:
                break
            common += 1
        return endings, common

    def shortens(self, other: Self) -> bool:
        """Whether this is another name with less said."""
        there = len(other.folders) - len(self.folders)
        said_less = there >= 0 and self.folders == other.folders[there:] and self.suffix in ("", other.suffix)
        return self != other and self.stem == other.stem and said_less


def full_names(names: Sequence[str]) -> dict[str, str]:
    """For each name the longer one of the others that says more of the same recording, or itself.

    >>> full_names(["b", "a", "night/a.wav"])
    {'b': 'b', 'a': 'night/a.wav', 'night/a.wav': 'night/a.wav'}
    """
    of_stem = _by_stem(names)
    found = {}
    for name in names:
        own = RecordingName.of(name)
        parts = of_stem[own.stem]
        longer = [other for other, its in parts.items() if own.shortens(its)]
        longest = [other for other in longer if not any(parts[other].shortens(parts[more]) for more in longer)]
        found[name] = longest[0] if len(longest) == 1 else name
    return found


def pair_names(names: Sequence[str], others: Sequence[str]) -> dict[str, str | None]:
    """For each name the one of the others that means the same recording, or None.

    Raises
    ------
    AnnotationError
        If several answer equally well.

    Examples
    --------
    >>> pair_names(["siteA/1.wav", "siteB/1.wav"], ["1.wav"])
    Traceback (most recent call last):
    outlark.errors.AnnotationError: '1.wav' could be 'siteA/1.wav' or 'siteB/1.wav'; name recordings with their folders
    >>> pair_names(["siteA/1.wav", "siteB/1.wav", "2"], ["/data/siteA/1.wav", "2.flac"])
    {'siteA/1.wav': '/data/siteA/1.wav', 'siteB/1.wav': None, '2': '2.flac'}
    """
    found: dict[str, str | None] = dict.fromkeys(names)
    of_stem = _by_stem(others)
    for stem, own in _by_stem(names).items():
        found |= _pairs(own, of_stem.get(stem, {}))
    return found


def _by_stem(names: Iterable[str]) -> dict[str, dict[str, RecordingName]]:
    found: dict[str, dict[str, RecordingName]] = {}
    for name in names:
        parts = RecordingName.of(name)
        found.setdefault(parts.stem, {})[name] = parts
    return found


def _pairs(names: dict[str, RecordingName], others: dict[str, RecordingName]) -> dict[str, str]:
    """Names of one stem: those that are most alike first."""
    # folders that differ altogether are the same place under another name only if there is no other place
    alone = len(names) == len(others) == 1
    likeness = {
        (name, other): own.likeness(its)
        for (name, own), (other, its) in product(names.items(), others.items())
        if alone or not own.folders or not its.folders or own.folders[-1] == its.folders[-1]
    }
    found: dict[str, str] = {}
    while likeness:
        best = max(likeness.values())
        top = [pair for pair, value in likeness.items() if value == best]
        _check_clear(top)
        found |= dict(top)
        taken = {name for pair in top for name in pair}
        likeness = {pair: v for pair, v in likeness.items() if not taken & set(pair)}
    return found


def _check_clear(pairs: Sequence[tuple[str, str]]) -> None:
    for side in (0, 1):
        for name, n in Counter(pair[side] for pair in pairs).items():
            if n > 1:
                first, second = [pair[1 - side] for pair in pairs if pair[side] == name][:2]
                raise AnnotationError(f"{name!r} could be {first!r} or {second!r}; name recordings with their folders")
