"""Annotated notes as sound files, one folder per class, as `outlark train` expects them."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from outlark.annotations import Annotation, Table
from outlark.annotations.files import SCORE_DIGITS, TIME_DIGITS, comma_line, decimal, encoded, guarded, write_bytes
from outlark.audio.clips import storage, write_clip
from outlark.audio.header import RecorderTime
from outlark.audio.recording import PartReader, Recording
from outlark.audio.sound_files import SoundFiles
from outlark.commands.tables import (
    by_origin,
    check_labels,
    named_tables,
    passed_over,
    recording_of,
    skipped_in_words,
    without_copies,
)
from outlark.commands.train.examples import spread_evenly
from outlark.errors import InputError, OutlarkError, Problem
from outlark.estimators.open_set import check_seconds
from outlark.plain_text import Line, ProgressCallback, Remark, number_of, on_failures
from outlark.segments import KNOWN
from outlark.version import __version__

#: Longest clip, in seconds.
MAX_CLIP_S = 600.0
#: The list of clips, which no reader takes for an annotation file: train would not know what the folder is.
CLIP_LIST, CLIP_FAILURES = "clips.csv", "failures.csv"
CLIP_COLUMNS = (
    "clip", "label", "verdict", "score", "recording", "from_s", "to_s", "clip_from_s", "clip_to_s", "clock", "table",
    "line",
)  # fmt: skip


def make_clips(
    paths: Sequence[str],
    folder: Path,
    sounds: SoundFiles,
    *,
    label_column: str | None,
    overwrite: bool,
    pad_s: float,
    format: str | None,
    watch: ProgressCallback,
    **wanted: Any,
) -> "Cut":
    """Cut the notes in annotation files, or folders of them, that are `wanted` (see `choose`), out of their recordings.

    `watch` is called with the number of finished recordings, and of all.
    """
    _check_folder(folder, overwrite)
    remarks: list[str] = []
    tables, refused = tables_of(paths, label_column, remarks)
    found = choose(tables, sounds, **wanted)
    if not found.choices:
        raise InputError(_nothing(found, tables))
    clips, uncut = cut(found.choices, folder, pad_s=pad_s, format=format, watch=watch)
    rounded = sum(not clip.exact for clip in clips)
    more = [f"{number_of(rounded, 'clip')} rounded to 24 bits, the most that FLAC can store"] if rounded else []
    result = Cut(folder, clips, [*remarks, *found.remarks, *more], [*refused, *found.uncut, *uncut])
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder / CLIP_LIST, clips)
    _write_failures(folder / CLIP_FAILURES, result.failures)
    return result


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give a folder for the clips with -o")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; give another folder, or --overwrite to put the clips there")


def _nothing(found: "ChosenNotes", tables: Sequence[Table]) -> str:
    if found.uncut:
        return "nothing to cut: " + "; ".join(problem.message for problem in found.uncut[:3])
    why = "; ".join(found.remarks) or f"no annotations in {', '.join(str(table.path) for table in tables)}"
    return f"nothing to cut: {why}; choose what to cut with --verdict and --class"


def _write_failures(path: Path, failures: Sequence[Problem]) -> None:
    if not failures:
        path.unlink(missing_ok=True)
        return
    rows = [("what", "message"), *failures]
    write_bytes(path, encoded("".join(comma_line(list(row)) for row in rows)))


@dataclass(frozen=True)
class Cut:
    """The clips in a folder, and what could not be cut: a `Result`."""

    folder: Path
    clips: Sequence["WrittenClip"]
    remarks: Sequence[str]
    failures: Sequence[Problem]

    @property
    def incomplete(self) -> bool:
        return bool(self.failures)

    @property
    def folders(self) -> dict[str, int]:
        """The number of clips in each."""
        return dict(sorted(Counter(clip.file.split("/")[0] for clip in self.clips).items()))

    def as_json(self) -> Mapping[str, Any]:
        return {
            "output": str(self.folder),
            "list": str(self.folder / CLIP_LIST),
            "clips": len(self.clips),
            "folders": self.folders,
            "remarks": list(self.remarks),
            "failed": len(self.failures),
            "failures": [{"what": failure.where, "message": failure.message} for failure in self.failures],
        }

    def lines(self) -> Iterator[Line]:
        yield from map(Remark, self.remarks)
        counts = ", ".join(f"{n} {name}" for name, n in self.folders.items())
        yield Remark(f"{number_of(len(self.clips), 'clip')} in {self.folder}{': ' if counts else ''}{counts}")
        yield from on_failures(self.failures, self.folder / CLIP_FAILURES)


# ------------------------------------------------------------------ which notes


@dataclass(frozen=True, kw_only=True)
class ChosenNote:
    """An annotation to cut, its file and its recording; `kind` names its folder: the label if known, or the verdict."""

    annotation: Annotation
    table: Path
    recording: Path

    @property
    def known(self) -> bool:
        return self.annotation.implied_verdict == KNOWN

    @property
    def kind(self) -> str:
        return str(self.annotation.label) if self.known else self.annotation.implied_verdict

    def __str__(self) -> str:
        line = "" if self.annotation.line is None else f", line {self.annotation.line}"
        return f"{self.table}{line}: {self.kind!r} at {self.annotation.start_s:.3f} s of {self.recording}"


class ChosenNotes(NamedTuple):
    """Annotations to cut, by recording and time; remarks on what was skipped; and missing recordings."""

    choices: Sequence[ChosenNote]
    remarks: Sequence[str]
    uncut: Sequence[Problem]


def tables_of(
    paths: Iterable[str | os.PathLike[str]], label_column: str | int | None, remarks: list[str]
) -> tuple[list[Table], list[Problem]]:
    """The annotation files given, and those in the folders given; and rows that cannot be read.

    Of a folder that holds files of people, those that a model made are passed over; the files of a run in several
    formats count once.
    """
    tables: list[Table] = []
    problems: list[Problem] = []
    for path in map(Path, paths):
        refused: list[str] = []
        found = named_tables(path, label_column, remarks, refused)
        problems += [Problem(str(path), row) for row in refused]
        by_model, by_people = by_origin(found)
        if by_model and by_people:
            remarks.append(passed_over([table for table, _ in by_model], path))
        tables += [table for table, _ in without_copies(by_people or by_model)]
    return tables, problems


def choose(
    tables: Sequence[Table],
    sounds: SoundFiles,
    *,
    verdicts: Sequence[str] = (KNOWN,),
    classes: Sequence[str] = (),
    most: int | None = None,
) -> ChosenNotes:
    """The annotations with one of these verdicts, and one of these labels if there are any.

    `most` limits their number per class: always the same ones, spread evenly over all recordings.
    """
    found: dict[tuple[str, float, float, str], ChosenNote] = {}
    skipped: Counter[str] = Counter()
    where: dict[tuple[Path, str | None], Path | Problem] = {}
    check_labels(classes, {m.label for table in tables for m in table.annotations if m.label is not None})
    for table in tables:
        for annotation in table.annotations:
            if annotation.implied_verdict not in verdicts or (classes and annotation.label not in classes):
                skipped["another verdict or class"] += 1
                continue
            key = (table.path, annotation.recording)
            if key not in where:
                where[key] = _recording(table, annotation, sounds)
            recording = where[key]
            if isinstance(recording, Problem):
                skipped["no recording"] += 1
                continue
            choice = ChosenNote(annotation=annotation, table=table.path, recording=recording)
            same = (os.path.realpath(recording), round(annotation.start_s, 6), round(annotation.end_s, 6), choice.kind)
            skipped["repeated"] += same in found
            found.setdefault(same, choice)
    uncut = [found for found in where.values() if isinstance(found, Problem)]
    ordered = sorted(found.values(), key=lambda c: (str(c.recording), c.annotation.start_s, c.annotation.end_s, c.kind))
    kinds = [(choice.known, choice.kind) for choice in ordered]
    numbers = range(len(ordered)) if most is None else spread_evenly(kinds, most)
    chosen = [choice for number, choice in enumerate(ordered) if number in numbers]
    skipped["more than asked for"] = len(ordered) - len(chosen)
    return ChosenNotes(chosen, skipped_in_words(skipped), list(dict.fromkeys(uncut)))


def _recording(table: Table, annotation: Annotation, sounds: SoundFiles) -> Path | Problem:
    try:
        return recording_of(table, annotation, sounds)
    except OutlarkError as error:
        return Problem(annotation.recording or str(table.path), str(error))


# ------------------------------------------------------------------ names

#: Bytes of a name: systems allow 255, and something may have to be added.
MAX_CLIP_NAME_BYTES = 120
#: Names of devices on Windows, with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|$)", re.IGNORECASE)
_FORBIDDEN = frozenset('/\\:*?"<>|')


def safe_name(text: str) -> str:
    """A name for a file or folder, similar to the text and valid on every system.

    >>> safe_name("tuti-D"), safe_name("song/call?"), safe_name("../.."), safe_name("nul.wav"), safe_name(" ")
    ('tuti-D', 'song_call_', '_.._', '_nul.wav', '_')
    """
    plain = unicodedata.normalize("NFC", text)
    name = "".join("_" if letter in _FORBIDDEN or _unseen(letter) else letter for letter in plain).strip()
    if name.startswith(".") or _DEVICES.match(name):
        name = f"_{name}"
    # Windows drops dots and spaces at the end
    return name.encode("utf-8")[:MAX_CLIP_NAME_BYTES].decode("utf-8", errors="ignore").rstrip(". ") or "_"


class UniqueNames:
    """Hands out unique names, also for systems that ignore case.

    >>> names = UniqueNames()
    >>> names.new("Song"), names.new("song"), names.new("song.wav"), names.new("SONG")
    ('Song', 'song_2', 'song.wav', 'SONG_3')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, name: str, ending: str = "") -> str:
        """The name, with a number before the suffix if it is taken."""
        wanted, number = f"{name}{ending}", 1
        while _key(wanted) in self._taken:
            number += 1
            wanted = f"{name}_{number}{ending}"
        self._taken.add(_key(wanted))
        return wanted


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def _unseen(letter: str) -> bool:
    """Control characters, lone surrogates, line breaks, changes of direction."""
    category = unicodedata.category(letter)
    return category.startswith("C") or category in ("Zl", "Zp")


# ------------------------------------------------------------------ cutting


class WrittenClip(NamedTuple):
    """A clip: its file, relative to the folder of the clips and with "/" on every system, and times in the recording.

    `clock` is the onset of the note by the recorder's clock, ISO 8601, or empty if unknown; `exact` says whether the
    samples are those of the recording.
    """

    file: str
    choice: ChosenNote
    start_s: float
    end_s: float
    clock: str
    exact: bool


def cut(
    choices: Sequence[ChosenNote],
    folder: str | os.PathLike[str],
    *,
    pad_s: float = 0.0,
    format: str | None = None,
    watch: ProgressCallback = lambda done, total: None,
) -> tuple[list[WrittenClip], list[Problem]]:
    """Write what `choose` found to files: folder / class / recording_onset, replacing those with the same names.

    Only the annotated parts are read; the sample rate is kept, and the format unless "wav" or "flac" is given. An
    annotation with a channel gives a clip of that channel, others of all channels.
    """
    pad_s = check_seconds("pad_s", pad_s, zero=True)
    folder, names, folders = Path(folder), UniqueNames(), _folders(choices)
    clips: list[WrittenClip] = []
    uncut: list[Problem] = []
    recordings = {path: list(own) for path, own in groupby(choices, key=lambda choice: choice.recording)}
    for done, (path, listed) in enumerate(recordings.items(), start=1):
        try:
            source = _Source(Recording(path), format)
        except OutlarkError as error:
            uncut.append(Problem(str(path), str(error)))
            listed = []
        for choice in listed:
            try:
                target = folder / folders[choice.known, choice.kind]
                clips.append(_cut_one(source, choice, target, pad_s, names))
            except OutlarkError as error:
                uncut.append(Problem(str(choice), str(error)))
        watch(done, len(recordings))
    return clips, uncut


class _Source:
    """A recording from which clips are cut in order, and how they are stored."""

    def __init__(self, recording: Recording, kind: str | None) -> None:
        self.recording, self.clock = recording, recording.clock
        self.storage = storage(kind, recording.format, recording.subtype)
        self.reader = PartReader(recording, self.storage.dtype)


def _cut_one(source: _Source, choice: ChosenNote, folder: Path, pad_s: float, names: UniqueNames) -> WrittenClip:
    annotation, rate = choice.annotation, source.recording.sample_rate
    start, end = round(max(0.0, annotation.start_s - pad_s) * rate), round((annotation.end_s + pad_s) * rate)
    if end <= start:
        raise InputError("no duration; give pad_s (--pad) to cut the sound around it")
    if end - start > MAX_CLIP_S * rate:
        raise InputError(f"{(end - start) / rate:.0f} s long, but a clip has at most {MAX_CLIP_S:.0f} s")
    part = _one_or_all_channels(source.reader.part(start, end), annotation.channel)
    if not len(part) or start + len(part) <= annotation.start_s * rate:
        raise InputError("the recording ends before it; do annotation file and recording belong together?")
    onset = None if source.clock is None else source.clock.at(annotation.start_s)
    name = f"{safe_name(choice.recording.stem)}_{annotation.start_s:09.3f}s"
    if onset is not None:
        name += f"_{onset:%Y%m%dT%H%M%S}.{onset.microsecond // 1000:03}{onset:%z}"
    file = names.new(f"{folder.name}/{name}", f".{source.storage.kind}")
    folder.mkdir(parents=True, exist_ok=True)
    comment = _comment(choice, start / rate, source.clock)
    write_clip(folder.parent / file, part, rate, source.storage, comment)
    clock = "" if onset is None else onset.isoformat(timespec="milliseconds")
    return WrittenClip(file, choice, start / rate, (start + len(part)) / rate, clock, source.storage.exact)


def _one_or_all_channels(part: np.ndarray, channel: int | None) -> np.ndarray:
    if channel is None:
        return part
    if channel > part.shape[1]:
        raise InputError(f"it is in channel {channel}, but the recording has {part.shape[1]}")
    return part[:, [channel - 1]]


def write_list(path: str | os.PathLike[str], clips: Iterable[WrittenClip]) -> None:
    """Write the list of clips as CSV."""
    lines = [comma_line(list(CLIP_COLUMNS))]
    for clip in clips:
        annotation = clip.choice.annotation
        texts = (clip.file, annotation.label or "", annotation.implied_verdict)
        times = (annotation.start_s, annotation.end_s, clip.start_s, clip.end_s)
        cells = [
            *map(guarded, texts),
            decimal(annotation.score, SCORE_DIGITS),
            guarded(str(clip.choice.recording)),
            *(decimal(time, TIME_DIGITS) for time in times),
            clip.clock,
            guarded(str(clip.choice.table)),
            "" if annotation.line is None else str(annotation.line),
        ]
        lines.append(comma_line(cells))
    write_bytes(Path(path), encoded("".join(lines)))


def _comment(choice: ChosenNote, start_s: float, clock: RecorderTime | None) -> str:
    """The comment of a clip: its start, in words that `Recording.clock` understands, and its source."""
    told = ""
    if clock is not None:
        began = clock.at(start_s)
        told = f"Recorded at {began:%H:%M:%S}.{began.microsecond // 1000:03} {began:%d/%m/%Y}{_zone(began)}. "
    return f"{told}Cut by outlark {__version__} from {choice.recording.name} at {start_s:.3f} s"


def _zone(moment: datetime) -> str:
    offset = moment.utcoffset()
    if offset is None:
        return ""
    minutes = abs(offset) // timedelta(minutes=1)
    return f" (UTC{'-' if offset < timedelta(0) else '+'}{minutes // 60}:{minutes % 60:02})"


def _folders(choices: Iterable[ChosenNote]) -> dict[tuple[bool, str], str]:
    """The folder of each class and verdict; a class named "unknown" gets the folder of that name."""
    names = UniqueNames()
    kinds = sorted({(choice.known, choice.kind) for choice in choices}, key=lambda kind: (not kind[0], kind[1]))
    return {kind: names.new(safe_name(kind[1])) for kind in kinds}
