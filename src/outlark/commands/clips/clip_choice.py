"""Which marks of tables clips are made of, and the recordings that they are in."""

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from outlark.annotations import Mark, Table
from outlark.audio.sound_files import SoundFiles
from outlark.errors import InputError, OutlarkError
from outlark.segments import KNOWN, UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A mark that a clip is to be made of.

    Attributes
    ----------
    mark : Mark
    table : Path
    recording : Path
    known : bool
    kind : str
        Its label if it is known, else its verdict: what its folder is called after.
    """

    mark: Mark
    table: Path
    recording: Path

    @property
    def known(self) -> bool:
        return verdict_of(self.mark) == KNOWN

    @property
    def kind(self) -> str:
        return str(self.mark.label) if self.known else verdict_of(self.mark)

    def __str__(self) -> str:
        line = "" if self.mark.line is None else f", line {self.mark.line}"
        return f"{self.table}{line}: {self.kind!r} at {self.mark.start_s:.3f} s of {self.recording}"


class Uncut(NamedTuple):
    """What no clip could be made of, and why."""

    what: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Marks that clips are to be made of, by recording and time.

    Attributes
    ----------
    choices : tuple of Choice
    remarks : tuple of str
        What was left out, in words.
    uncut : tuple of Uncut
        Recordings that are not there.
    """

    choices: tuple[Choice, ...]
    remarks: tuple[str, ...] = ()
    uncut: tuple[Uncut, ...] = ()


def choose(
    tables: Sequence[Table],
    sounds: SoundFiles,
    *,
    verdicts: Sequence[str] = (KNOWN,),
    classes: Sequence[str] = (),
    most: int | None = None,
) -> Choices:
    """The marks of tables that clips are to be made of.

    Parameters
    ----------
    tables : sequence of Table
    sounds : SoundFiles
        Finds their recordings.
    verdicts : sequence of str
        A mark without a verdict is known if it has a label, else unknown.
    classes : sequence of str
        Only these labels; all if there are none.
    most : int, optional
        For each class: always the same, spread evenly over all recordings.

    Raises
    ------
    InputError
        For a class that no mark has.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from outlark.annotations import read_table
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "night.wav").touch()
    ...     _ = Path(folder, "night.labels.txt").write_text("0.5\\t1.0\\tsong\\n2.0\\t2.5\\tcall\\n")
    ...     found = choose([read_table(f"{folder}/night.labels.txt")], SoundFiles(), classes=["song"])
    >>> [(choice.kind, choice.recording.name) for choice in found.choices], found.remarks
    ([('song', 'night.wav')], ('1 mark left out: another verdict or class',))
    """
    found: dict[tuple[str, float, float, str], Choice] = {}
    left_out: Counter[str] = Counter()
    where: dict[tuple[Path, str | None], Path | Uncut] = {}
    _check_classes(classes, tables)
    for table in tables:
        for mark in table.marks:
            if verdict_of(mark) not in verdicts or (classes and mark.label not in classes):
                left_out["another verdict or class"] += 1
                continue
            key = (table.path, mark.recording)
            if key not in where:
                where[key] = _recording(table, mark, sounds)
            recording = where[key]
            if isinstance(recording, Uncut):
                left_out["no recording"] += 1
                continue
            choice = Choice(mark=mark, table=table.path, recording=recording)
            same = (os.path.realpath(recording), round(mark.start_s, 6), round(mark.end_s, 6), choice.kind)
            left_out["repeated"] += same in found
            found.setdefault(same, choice)
    uncut = [found for found in where.values() if isinstance(found, Uncut)]
    ordered = sorted(found.values(), key=lambda c: (str(c.recording), c.mark.start_s, c.mark.end_s, c.kind))
    chosen = ordered if most is None else _spread(ordered, most)
    left_out["more than asked for"] = len(ordered) - len(chosen)
    remarks = [f"{n} mark{'s' if n > 1 else ''} left out: {why}" for why, n in left_out.items() if n]
    return Choices(choices=tuple(chosen), remarks=tuple(remarks), uncut=tuple(dict.fromkeys(uncut)))


def verdict_of(mark: Mark) -> str:
    """A mark without a verdict is known if it has a label, else unknown."""
    return mark.verdict or (UNKNOWN if mark.label is None else KNOWN)


def _check_classes(classes: Sequence[str], tables: Sequence[Table]) -> None:
    there = {mark.label for table in tables for mark in table.marks if mark.label is not None}
    for name in classes:
        if name not in there:
            raise InputError(f"no mark has the label {name!r}; there are {', '.join(sorted(there)) or 'none'}")


def _recording(table: Table, mark: Mark, sounds: SoundFiles) -> Path | Uncut:
    try:
        if mark.recording is None:
            return sounds.of_table(table.path)
        return sounds.named(mark.recording, table.path, mark.line)
    except OutlarkError as error:
        return Uncut(mark.recording or str(table.path), str(error))


def _spread(ordered: Sequence[Choice], most: int) -> list[Choice]:
    of_kind: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for number, choice in enumerate(ordered):
        of_kind[choice.known, choice.kind].append(number)
    chosen = {own[(2 * i + 1) * len(own) // (2 * most)] for own in of_kind.values() for i in range(most)}
    return [choice for number, choice in enumerate(ordered) if number in chosen]
