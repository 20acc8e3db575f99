"""`outlark convert` and `outlark formats`: annotation files in another format, and what is lost on the way."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from outlark.annotations import FORMATS, About, Annotation, Format, Table, read_annotations, write_annotations
from outlark.annotations.annotation import is_sound
from outlark.annotations.formats import COMBINED, WRITTEN, format_of_name
from outlark.audio.recording import Recording
from outlark.audio.sound_files import RecordingName, SoundFiles, recording_of_table
from outlark.commands.tables import TableFiles, recording_of, tables_in, without_copies
from outlark.errors import AnnotationError, AudioError, InputError, OutlarkError, Problem
from outlark.plain_text import Alert, Line, Remark, TextTable, listing, number_of, on_refused
from outlark.segments import KNOWN
from outlark.version import __version__


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A converted file: the numbers of annotations read and written, remarks on reading, rows that could not be read
    (refused), and what was lost."""

    source: Path
    target: Path
    source_format: str
    target_format: str
    annotations: int
    written: int
    remarks: tuple[str, ...]
    lost: tuple[str, ...]
    refused: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What was done, in words."""
        before, after = (number_of(n, "annotation") for n in (self.annotations, self.written))
        done = f"{self.source} ({self.source_format}, {before}) → {self.target} ({self.target_format}, {after})"
        return [done, *(f"  {remark}" for remark in (*self.remarks, *self.lost))]

    def as_json(self) -> dict[str, object]:
        """What was done, for `--json`."""
        return {
            "source": str(self.source),
            "target": str(self.target),
            "from": self.source_format,
            "to": self.target_format,
            "annotations": self.annotations,
            "written": self.written,
            "remarks": list(self.remarks),
            "lost": list(self.lost),
        }


@dataclass(frozen=True)
class Conversions:
    """The result of `outlark convert`: the converted files, and those that failed."""

    done: Sequence[Conversion]
    failed: Sequence[Problem] = ()

    @property
    def refused(self) -> list[str]:
        """Rows that could not be read."""
        return [row for one in self.done for row in one.refused]

    @property
    def incomplete(self) -> bool:
        return bool(self.failed or self.refused)

    def as_json(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "tables": [one.as_json() for one in self.done],
            "failures": [{"table": table, "message": message} for table, message in self.failed],
            "refused": self.refused,
        }

    def lines(self) -> Iterator[Line]:
        yield from (Remark(line) for one in self.done for line in one.lines())
        yield from (Alert(f"failed: {file.message}") for file in self.failed)
        yield from on_refused(self.refused)


def convert(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    to: str | None = None,
    format: str | None = None,
    label_column: str | int | None = None,
    audio: Iterable[str | PathLike[str]] = (),
    replace_target: bool = False,
) -> Conversions:
    """Convert an annotation file, or all those in a folder and its subfolders, to another format.

    By default it is the one that the name of the target says. `format` and `label_column` are those of the source. With
    folders of recordings in `audio`, annotations get the name and sample rate of their recording, and Raven's begin
    times run over all recordings in the order of their names. An existing file is replaced only if `replace_target`,
    and never if it is the source. If `outlark detect` wrote several formats into a folder, the most complete one is
    converted, or the one that `format` says. In a target that is a folder, or ends in a slash, each recording gets a
    file.
    """
    is_folder = os.fspath(target).endswith(("/", os.sep))
    source, target, sounds = Path(source), Path(target), SoundFiles(audio)
    if source.is_dir():
        if to is None:
            raise InputError("IN is a folder; give the format of the new files with --to")
        found = tables_in(source, within=True, format=format, label_column=label_column)
        failed = [file for file in found.unread if format is None or not _is_readable(Path(file.where))]
        pieces = _pieces(_converted_of(found, source), source, FORMATS[to].suffix)
        return _convert_all(pieces, target, to, sounds, replace_target, failed)
    table = read_annotations(source, format=format, label_column=label_column)
    if to is not None and (is_folder or target.is_dir()):
        return _convert_all(_pieces([table], source.parent, FORMATS[to].suffix), target, to, sounds, replace_target, [])
    to = to or format_of_name(target.name)
    if to is None:
        raise InputError(
            f"the name {target.name!r} does not determine the format; give one (--to) of {', '.join(WRITTEN)}"
        )
    _check_target(target, [source], replace_target)
    _check_names(table, to)
    return Conversions([_converted(table, target, to, sounds)])


def _check_names(table: Table, to: str) -> None:
    """Refuse to put several recordings into one file that cannot tell them apart."""
    names = sorted({str(annotation.recording) for annotation in table.annotations})
    if len(names) > 1 and not FORMATS[to].names_recordings:
        raise InputError(
            f"{table.path} is about {len(names)} recordings ({listing(names)}), and a file of the format {to} cannot "
            f"say which; give a folder, in which each recording gets a file, such as labels/ with --to {to}"
        )


def _converted_of(found: TableFiles, folder: Path) -> list[Table]:
    """The files of a folder that are to be converted."""
    if not found.tables:
        why = f" ({found.unread[0].message})" if found.unread else ""
        raise InputError(
            f"{folder} contains no readable annotation files{why}; give an annotation file, or a folder of them"
        )
    # the combined file of a run repeats the rows of the others
    of_run = [table for table in found.tables if table.path.name == COMBINED and table.about]
    return [table for table in found.tables if len(found.tables) == 1 or table not in of_run]


def _pieces(tables: Iterable[Table], folder: Path, suffix: str) -> dict[str, list[Table]]:
    """The names of new files, and what is to be in them: of a file about several recordings one file for each."""
    of_name: dict[str, list[Table]] = defaultdict(list)
    for table in tables:
        within = table.path.relative_to(folder)
        of_recording: dict[str | None, list[Annotation]] = defaultdict(list)
        for annotation in table.annotations:
            of_recording[annotation.recording].append(annotation)
        if len(of_recording) < 2:
            of_name[recording_of_table(within.as_posix()) + suffix].append(table)
            continue
        first = table
        for recording in sorted(of_recording, key=str):
            name = recording_of_table(within.name) if recording is None else _below(recording)
            piece = replace(first, annotations=tuple(of_recording[recording]))
            of_name[(within.parent / name).as_posix() + suffix].append(piece)
            first = replace(table, remarks=(), refused=())  # said once
    return of_name


def _below(recording: str) -> str:
    """The path of a recording, within a folder.

    >>> _below("../site/1.wav"), _below("D:\\\\site\\\\1.wav"), _below("/disk/1.wav")
    ('site/1.wav', 'site/1.wav', 'disk/1.wav')
    """
    parts = recording.replace("\\", "/").split("/")
    return "/".join(part for part in parts if part not in ("", ".", "..") and not part.endswith(":"))


def _convert_all(
    pieces: Mapping[str, Sequence[Table]],
    target: Path,
    to: str,
    sounds: SoundFiles,
    replace_target: bool,
    failed: list[Problem],
) -> Conversions:
    targets = {name: _only(tables, name) for name, tables in pieces.items()}
    sources = [table.path for tables in pieces.values() for table in tables]
    for name in targets:
        _check_target(target / name, sources, replace_target)
    done = []
    for name, table in targets.items():
        try:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            done.append(_converted(table, target / name, to, sounds))
        except OutlarkError as error:
            failed.append(Problem(str(table.path), str(error)))
    return Conversions(done, failed)


def _only(tables: Sequence[Table], name: str) -> Table:
    """The most complete of several files of a run with the same annotations; otherwise an error."""
    left = [table for table, _ in without_copies([(table, name) for table in tables])]
    if len(left) > 1:
        one, other = left[:2]
        raise InputError(
            f"{one.path} ({one.format}) and {other.path} ({other.format}) would both become {name}; choose the "
            "format to convert (--from), or move one of them"
        )
    copies = [f"{table.path} skipped: the same annotations" for table in tables if table is not left[0]]
    return replace(left[0], remarks=(*left[0].remarks, *copies))


def _is_readable(path: Path) -> bool:
    """Whether a file is in another format than the one that was asked for."""
    try:
        read_annotations(path)
    except AnnotationError:
        return False
    return True


def _check_target(target: Path, sources: Sequence[Path], may_replace: bool) -> None:
    if not target.exists():
        return
    if any(target.samefile(source) for source in sources if source.exists()):
        raise InputError(f"{target} is the file to convert and is not overwritten; give another name")
    if not may_replace:
        raise InputError(f"{target} already exists; give another name, or replace it (--force)")


def _converted(table: Table, target: Path, to: str, sounds: SoundFiles) -> Conversion:
    annotations, remarks = list(table.annotations), list(table.remarks)
    durations: dict[str, float] = {}
    needed = bool(sounds.folders) or _needs_recordings(annotations, to)
    why = ". Raven counts times over all open files, so that it needs their durations" if to == "raven" else ""
    found = _recordings(table, sounds, needed=needed, why=why) if needed or FORMATS[to].opens_recordings else {}
    if needed:
        annotations, durations = _with_recordings(annotations, found)
    if to == "raven" and len(durations) > 1:
        remarks.append(
            f"begin times run over {len(durations)} recordings, in the order of their names: open all of them"
        )
    said = {key: table.about[key] for key in ("version", "model_sha256", "settings", "recording") if key in table.about}
    about = About(**said) if "version" in said else None
    paths = {name: os.path.abspath(path) for name, path, _ in found.values()}
    write_annotations(target, annotations, format=to, about=about, durations=durations, paths=paths)
    written = read_annotations(target, format=to).annotations
    return Conversion(
        source=table.path,
        target=target,
        source_format=table.format,
        target_format=to,
        annotations=len(annotations),
        written=len(written),
        remarks=tuple(remarks),
        lost=tuple(losses(annotations, written)),
        refused=table.refused,
    )


def _needs_recordings(annotations: Sequence[Annotation], to: str) -> bool:
    """AOEF needs the sample rate of a recording, and Raven, which counts times over all open files, their durations."""
    if to == "aoef":
        return any(annotation.sample_rate is None or annotation.recording is None for annotation in annotations)
    return to == "raven" and len({annotation.recording for annotation in filter(is_sound, annotations)}) > 1


#: Name in the table → name, path and sound of the recording.
Recordings = Mapping[str | None, tuple[str, Path, Recording]]


def _recordings(table: Table, sounds: SoundFiles, *, needed: bool, why: str) -> Recordings:
    """The recordings of a table; those that are missing are an error only if they are needed."""
    found: dict[str | None, tuple[str, Path, Recording]] = {}
    first: dict[str | None, Annotation] = {}
    for annotation in table.annotations:
        first.setdefault(annotation.recording, annotation)
    for name, annotation in first.items():
        try:
            path = recording_of(table, annotation, sounds)
            found[name] = (path.name if name is None else name, path, Recording(path))
        except AudioError as error:
            if needed:
                raise AnnotationError(f"{table.path}: its recording {path} cannot be read ({error}){why}") from error
        except OutlarkError as error:
            if needed:
                raise AnnotationError(f"{error}{why}") from None
    return found


def _with_recordings(annotations: Sequence[Annotation], found: Recordings) -> tuple[list[Annotation], dict[str, float]]:
    """The annotations with name and sample rate of their recordings, and the duration of each recording."""
    named = []
    for annotation in annotations:
        name, _, audio = found[annotation.recording]
        named.append(replace(annotation, recording=name, sample_rate=audio.sample_rate))
    ordered = sorted(found.values(), key=lambda of: of[0])
    return named, {name: audio.n_samples / audio.sample_rate for name, _, audio in ordered}


#: Smaller differences of times and numbers do not count: they are written with six digits.
SAME_TIME_S = SAME_NUMBER = 1e-6
FIELD_NAMES = {
    "label": "label", "recording": "recording", "verdict": "verdict", "score": "score", "runner_up": "runner-up",
    "runner_up_score": "runner-up's score", "reason": "reason", "channel": "channel", "low_hz": "low frequency",
    "high_hz": "high frequency", "sample_rate": "sample rate", "start_time": "date and time", "remark": "remark",
    "more": "other columns",
}  # fmt: skip
_BLANK: tuple[object, ...] = (None, "", {})


def losses(written: Sequence[Annotation], read: Sequence[Annotation]) -> list[str]:
    """What annotations lost, in words: `read` is what was `written`, in the same order.

    >>> silence = Annotation(start_s=0, end_s=1, verdict="silence")
    >>> losses([silence, Annotation(start_s=1, end_s=2, label="a", score=0.123)], [
    ...     Annotation(start_s=1, end_s=2, label="a", score=0.12)])
    ['omitted: 1 annotation, silence', 'rounded: score (1 annotation)']
    """
    omitted: Counter[str] = Counter()
    others: dict[str, Counter[str]] = {"lost": Counter(), "changed": Counter(), "rounded": Counter()}
    rest = iter(read)
    again = next(rest, None)
    for annotation in written:
        if again is None or not annotation.span.is_close(again.span, SAME_TIME_S):
            omitted[annotation.verdict or "no verdict"] += 1
            continue
        for field in FIELD_NAMES:
            what = _change(field, getattr(annotation, field), getattr(again, field))
            if what:
                others[what][field] += 1
        again = next(rest, None)
    told = [f"omitted: {number_of(n, 'annotation')}, {verdict}" for verdict, n in omitted.items()]
    for what, counts in others.items():
        told += [f"{what}: {FIELD_NAMES[field]} ({number_of(n, 'annotation')})" for field, n in counts.items()]
    return told


def _change(field: str, was: object, now: object) -> str | None:
    # a label without a verdict is known
    if was in _BLANK or was == now or (field == "verdict" and was == KNOWN and now is None):
        return None
    if field == "recording" and now and RecordingName.of(str(was)).shortens(RecordingName.of(str(now))):
        return None  # its name has become its path
    if now in _BLANK:
        return "lost"
    if isinstance(was, float) and isinstance(now, float):
        return "rounded" if abs(was - now) > SAME_NUMBER else None
    return "changed"


# ---------------------------------------------------------------------------- formats

#: What examples of formats hold.
EXAMPLE = (
    Annotation(
        start_s=0.5, end_s=0.75, label="song", recording="night.wav", verdict="known", score=2.5, runner_up="call",
        runner_up_score=1.25, reason="song 2.50 ≥ 2.00; next call 1.25", sample_rate=22050,
    ),
    Annotation(
        start_s=1.0, end_s=1.1, recording="night.wav", verdict="unknown", score=0.5, sample_rate=22050,
        reason="best score 0.50 (song) < 2.00",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class FormatList:
    """The result of `outlark formats`: all formats, or with an example each those with the given names."""

    names: Sequence[str] = ()
    incomplete = False

    def as_json(self) -> dict[str, Any]:
        return {"formats": [self._content(FORMATS[name]) for name in self.names or FORMATS]}

    def _content(self, format: Format) -> dict[str, Any]:
        content = {
            "name": format.name,
            "what": format.what,
            "ends_in": format.suffix,
            "reads": True,
            "writes": format.writes,
            "ready": format.is_ready,
            "install": _install(format),
        }
        return content | ({"example": example(format)} if self.names else {})

    def lines(self) -> Iterator[Line]:
        if not self.names:
            rows = [["name", "reads", "writes", "ends in", "what", "needs"]]
            for one in FORMATS.values():
                needs = "installed" if one.extra is not None and one.is_ready else _install(one) or ""
                rows.append([one.name, "yes", "yes" if one.writes else "no", one.suffix, one.what, needs])
            yield TextTable(rows)
        for one in (FORMATS[name] for name in self.names):
            done = "read and written" if one.writes else "read"
            yield Remark(f"{one.name}: {one.what}; can be {done}; files end in {one.suffix}")
            text = example(one)
            if text is not None:
                yield text.removesuffix("\n")
            elif one.is_ready:
                yield Remark("no example: outlark does not write this format, or it is not text")
            else:
                yield Remark(f"it needs: {_install(one)}")


def _install(format: Format) -> str | None:
    return None if format.extra is None else f'pip install "outlark[{format.extra}]"'


def example(format: Format) -> str | None:
    """The text of a small file; None for formats that are only read, are binary, or lack a package.

    >>> print(example(FORMATS["audacity"]), end="")
    0.5	0.75	song 2.50
    1.0	1.1	unknown 0.50
    """
    if not format.writes or format.name == "parquet" or not format.is_ready:
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder, f"night{format.suffix}")
        write_annotations(path, EXAMPLE, format=format.name)
        return path.read_text(encoding="utf-8")
