"""From one format of tables to another, and what is lost on the way."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import soundfile

from outlark.annotations import FORMATS, About, Mark, Table, read_table, write_table
from outlark.annotations.table_files import Unread, tables_in
from outlark.audio.sound import for_decoder
from outlark.audio.sound_files import SoundFiles, recording_of_table
from outlark.errors import AnnotationError, InputError, OutlarkError
from outlark.segments import KNOWN


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A table that was converted.

    Attributes
    ----------
    source, target : Path
    source_format, target_format : str
    marks, written : int
        How many were read, and are in the new table.
    remarks : tuple of str
        What was guessed in reading.
    lost : tuple of str
        What the new table does not hold, in words.
    """

    source: Path
    target: Path
    source_format: str
    target_format: str
    marks: int
    written: int
    remarks: tuple[str, ...]
    lost: tuple[str, ...]


def format_of_name(name: str) -> str | None:
    """The format that a file of this name is written in; None where the name does not tell.

    >>> [format_of_name(name) for name in ("a.labels.txt", "a.Table.1.selections.txt", "a.CSV", "a.txt")]
    ['audacity', 'raven', 'csv', None]
    """
    endings = {format.suffix.casefold(): format.name for format in FORMATS.values() if format.writes}
    endings |= {".selections.txt": "raven", ".csv": "csv"}
    found = [ending for ending in endings if name.casefold().endswith(ending)]
    return endings[max(found, key=len)] if found else None


def convert(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    to: str | None = None,
    format: str | None = None,
    label_column: str | int | None = None,
    audio: Iterable[str | PathLike[str]] = (),
    replace_target: bool = False,
) -> Conversion:
    """Write a table in another format.

    Parameters
    ----------
    source, target : paths of files
    to : str, optional
        The format to write; told from the name of the target if left out.
    format, label_column
        Of the source, as for `read_table`.
    audio : paths
        Folders that hold the recordings. With them, marks get the name and sample rate of their recording, and Raven's
        begin times run over all recordings in the order of their names.
    replace_target : bool
        Whether a file that is there may be replaced; the source never is.

    Raises
    ------
    AnnotationError
        For a table that cannot be read or written.
    InputError
        If the target is there already, or its format is not clear.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("start_s,end_s,label,score\\n1,2,song,0.123456\\n")
    ...     done = convert(f"{folder}/a.csv", f"{folder}/a.labels.txt")
    ...     Path(folder, "a.labels.txt").read_text()
    '1.0\\t2.0\\tsong 0.12\\n'
    >>> done.lost
    ('rounded: score (1 mark)',)
    """
    source, target = Path(source), Path(target)
    to = to or format_of_name(target.name)
    if to is None:
        names = [format.name for format in FORMATS.values() if format.writes]
        raise InputError(f"the name {target.name!r} does not tell the format; give one (--to) of {', '.join(names)}")
    _check_target(target, [source], replace_target)
    table = read_table(source, format=format, label_column=label_column)
    return _converted(table, target, to, SoundFiles(audio))


def convert_folder(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    to: str,
    format: str | None = None,
    label_column: str | int | None = None,
    audio: Iterable[str | PathLike[str]] = (),
    replace_target: bool = False,
) -> tuple[list[Conversion], list[Unread]]:
    """Convert all tables of a folder and the folders within; the new ones are in the same folders below the target.

    Parameters are those of `convert`.

    Returns
    -------
    done : list of Conversion
    failed : list of Unread
        Tables that could not be read or written.
    """
    source, target = Path(source), Path(target)
    found = tables_in(source, within=True, format=format, label_column=label_column)
    if not found.tables:
        why = f" ({found.unread[0].message})" if found.unread else ""
        raise InputError(f"{source} holds no tables that can be read{why}; give a table, or a folder of tables")
    sounds = SoundFiles(audio)
    targets: dict[str, Table] = {}
    for table in found.tables:
        name = recording_of_table(table.path.relative_to(source).as_posix()) + FORMATS[to].suffix
        if name in targets:
            raise InputError(f"{targets[name].path} and {table.path} would both become {name}; move one of them away")
        targets[name] = table
    for name in targets:
        _check_target(target / name, [table.path for table in found.tables], replace_target)
    done, failed = [], list(found.unread)
    for name, table in targets.items():
        try:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            done.append(_converted(table, target / name, to, sounds))
        except OutlarkError as error:
            failed.append(Unread(table.path, str(error)))
    return done, failed


def _check_target(target: Path, sources: Sequence[Path], may_replace: bool) -> None:
    if not target.exists():
        return
    if any(target.samefile(source) for source in sources if source.exists()):
        raise InputError(f"{target} is what is read, and is not overwritten; give another name")
    if not may_replace:
        raise InputError(f"{target} is there already; give another name, or replace it (--force)")


def _converted(table: Table, target: Path, to: str, sounds: SoundFiles) -> Conversion:
    marks = list(table.marks)
    durations: dict[str, float] = {}
    needs_sound = to == "aoef" and any(mark.sample_rate is None or mark.recording is None for mark in marks)
    if sounds.folders or needs_sound:
        marks, durations = _with_recordings(table, sounds)
    said = {key: table.about[key] for key in ("version", "model_sha256", "settings") if key in table.about}
    about = About(**said) if "version" in said else None
    write_table(target, marks, format=to, about=about, durations=durations)
    written = read_table(target, format=to).marks
    return Conversion(
        source=table.path,
        target=target,
        source_format=table.format,
        target_format=to,
        marks=len(marks),
        written=len(written),
        remarks=table.remarks,
        lost=tuple(losses(marks, written)),
    )


def _with_recordings(table: Table, sounds: SoundFiles) -> tuple[list[Mark], dict[str, float]]:
    """The marks with name and rate of their recordings, and how long each of these is."""
    found: dict[str | None, tuple[str, Any]] = {}
    for mark in table.marks:
        name = mark.recording
        if name in found:
            continue
        path = sounds.of_table(table.path) if name is None else sounds.named(name, table.path, mark.line)
        try:
            found[name] = (path.name if name is None else name, soundfile.info(for_decoder(path)))
        except soundfile.SoundFileError as error:
            raise AnnotationError(f"{table.path}: its recording {path} cannot be read ({error})") from error
    marks = [
        replace(mark, recording=found[mark.recording][0], sample_rate=found[mark.recording][1].samplerate)
        for mark in table.marks
    ]
    ordered = sorted(found.values(), key=lambda of: of[0])
    return marks, {name: info.frames / info.samplerate for name, info in ordered}


#: Times that are as near as this are the same; other numbers are written with six digits.
SAME_S = SAME_NUMBER = 1e-6
FIELDS = {
    "label": "label", "recording": "recording", "verdict": "verdict", "score": "score", "runner_up": "runner-up",
    "runner_up_score": "runner-up's score", "reason": "reason", "channel": "channel", "low_hz": "low frequency",
    "high_hz": "high frequency", "sample_rate": "sample rate", "more": "other columns",
}  # fmt: skip
_NOTHING: tuple[object, ...] = (None, "", {})


def losses(written: Sequence[Mark], read: Sequence[Mark]) -> list[str]:
    """What is not there any more, in words.

    Parameters
    ----------
    written : sequence of Mark
    read : sequence of Mark
        The same in the same order, without those that the format leaves out.

    Examples
    --------
    >>> marks = [Mark(start_s=0, end_s=1, verdict="silence"), Mark(start_s=1, end_s=2, label="a", score=0.123)]
    >>> losses(marks, [Mark(start_s=1, end_s=2, label="a", score=0.12)])
    ['left out: 1 mark, silence', 'rounded: score (1 mark)']
    """
    left_out: Counter[str] = Counter()
    others: dict[str, Counter[str]] = {"lost": Counter(), "changed": Counter(), "rounded": Counter()}
    rest = iter(read)
    again = next(rest, None)
    for mark in written:
        if again is None or not _same_place(mark, again):
            left_out[mark.verdict or "without a verdict"] += 1
            continue
        for field in FIELDS:
            what = _change(field, getattr(mark, field), getattr(again, field))
            if what:
                others[what][field] += 1
        again = next(rest, None)
    told = [f"left out: {_marks(n)}, {verdict}" for verdict, n in left_out.items()]
    for what, counts in others.items():
        told += [f"{what}: {FIELDS[field]} ({_marks(n)})" for field, n in counts.items()]
    return told


def _same_place(mark: Mark, other: Mark) -> bool:
    return abs(other.start_s - mark.start_s) <= SAME_S and abs(other.end_s - mark.end_s) <= SAME_S


def _change(field: str, was: object, now: object) -> str | None:
    # a label without a verdict counts as known
    if was in _NOTHING or was == now or (field == "verdict" and was == KNOWN and now is None):
        return None
    if now in _NOTHING:
        return "lost"
    if isinstance(was, float) and isinstance(now, float):
        return "rounded" if abs(was - now) > SAME_NUMBER else None
    return "changed"


def _marks(n: int) -> str:
    return f"{n} mark{'s' if n > 1 else ''}"
