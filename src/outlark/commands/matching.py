"""From two sets of annotation files, detections and truth, to recordings with both."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from outlark.annotations import Annotation
from outlark.audio.recording import Recording
from outlark.audio.sound_files import (
    SoundFiles,
    full_names,
    pair_names,
    spelt_differently,
    without_sound_suffix,
)
from outlark.commands.evaluation import Compared, is_answer, is_span
from outlark.commands.tables import Named, by_origin, named_tables, passed_over, without_copies
from outlark.errors import AnnotationError, AudioError, InputError
from outlark.plain_text import number_of
from outlark.segments import SILENCE


@dataclass(frozen=True, kw_only=True)
class Matched:
    """Recordings with truth and detections; names of those without detections (missed) and without truth (left out).

    `refused` are rows of annotation files that could not be read.
    """

    recordings: tuple[Compared, ...]
    missed: tuple[str, ...]
    left_out: tuple[str, ...]
    remarks: tuple[str, ...]
    refused: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """All labels of the truth and of answers, sorted."""
        return sorted({str(m.label) for r in self.recordings for m in (*r.truth, *r.found) if is_answer(m)})

    def naming_blanks(self, label: str) -> "Matched":
        """With this label for detections without label and verdict, such as those of DCASE."""
        named = (
            replace(r, found=[replace(m, label=label) if m.label is None and m.verdict is None else m for m in r.found])
            for r in self.recordings
        )
        return replace(self, recordings=tuple(named))


@dataclass
class _Side:
    """Annotations by recording, their files, and recordings that only the name of a file names."""

    annotations: dict[str, list[Annotation]] = field(default_factory=dict)
    tables: dict[str, Path] = field(default_factory=dict)
    by_file: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{', '.join(list(self.annotations)[:3])}{' …' if len(self.annotations) > 3 else ''}"


def match_tables(
    detections: str | PathLike[str],
    truth: str | PathLike[str],
    *,
    audio: Iterable[str | PathLike[str]] = (),
    label_column: str | int | None = None,
    detected_only: bool = False,
    corrected: bool = False,
) -> Matched:
    """Match detections and truth, annotation files or folders of them with subfolders, by the names of recordings.

    Repeated annotations count once. The recordings, in `audio` or beside the truth, say how long each is. The label
    column is that of the truth. `detected_only` skips recordings without detections instead of counting their notes as
    missed. In a folder of truth, files that a model made count only if somebody has `corrected` them.
    """
    remarks, refused = list[str](), list[str]()
    found_tables = named_tables(Path(detections), None, remarks, refused)
    both = found_tables, named_tables(Path(truth), label_column, remarks, refused)
    told = _told_apart(*both, Path(detections), Path(truth), corrected, remarks)
    found, true = (_side(Path(path), own, remarks) for path, own in zip((detections, truth), told, strict=True))
    if not true.annotations:
        raise InputError(f"{truth} contains no annotations; give an annotation file, or a folder of them")
    partners = _paired(true, found, remarks)
    missed = tuple(name for name, partner in partners.items() if partner is None)
    if len(missed) == len(partners) and (detected_only or any(found.annotations.values())):
        raise InputError(
            f"no recording of {truth} has detections in {detections}: the names are {true} in the former and {found} "
            "in the latter; give annotation files of the same recordings"
        )
    if detected_only and missed:
        remarks.append(f"{_some(missed)} without detections skipped")
        partners, missed = {name: partner for name, partner in partners.items() if partner is not None}, ()
    compared = _compared(partners, true, found, SoundFiles(audio), remarks)
    left_out = tuple(name for name in found.annotations if name not in partners.values() and found.annotations[name])
    return Matched(
        recordings=tuple(compared),
        missed=missed,
        left_out=left_out,
        remarks=tuple(remarks),
        refused=tuple(dict.fromkeys(refused)),
    )


def _compared(
    partners: Mapping[str, str | None], true: _Side, found: _Side, sounds: SoundFiles, remarks: list[str]
) -> list[Compared]:
    compared, unknown_length = [], []
    for name, partner in partners.items():
        annotations, own = true.annotations[name], found.annotations.get(partner or "", [])
        sound = _sound(sounds, name, true.tables[name])
        length = None if sound is None else _length(sound)
        if length is None:
            unknown_length.append(name)
            length = max((annotation.end_s for annotation in (*annotations, *own)), default=0.0)
        compared.append(Compared(name, annotations, own, length, sound))
    if unknown_length:
        remarks.append(
            f"the duration of {_some(unknown_length)} is unknown without the recording (--audio); windows end with the "
            "last annotation"
        )
    remarks += _unscored(compared)
    return compared


def _side(path: Path, tables: Sequence[Named], remarks: list[str]) -> _Side:
    side = _Side()
    for table, own_name in tables:
        names = [annotation.recording or own_name for annotation in table.annotations]
        if not names or any(annotation.recording is None for annotation in table.annotations):
            side.by_file.add(own_name)
        for name in names or [own_name]:
            side.annotations.setdefault(name, [])
            side.tables.setdefault(name, table.path)
        for name, annotation in zip(names, table.annotations, strict=True):
            side.annotations[name].append(annotation)
    joined = _Side(by_file={name for name in side.by_file if name in side.annotations})
    n_twice, full_of = 0, full_names(list(side.annotations))
    remarks += _twins(full_of)
    for name, full in full_of.items():
        joined.tables.setdefault(full, side.tables[full])
        both = [*joined.annotations.get(full, []), *side.annotations[name]]
        joined.annotations[full] = list({(m.span.rounded(), m.label): m for m in both}.values())
        n_twice += len(both) - len(joined.annotations[full])
    if n_twice:
        remarks.append(f"{path}: {number_of(n_twice, 'annotation')} repeated in other files, counted once")
    return joined


def _told_apart(
    found: list[Named], true: list[Named], detections: Path, truth: Path, corrected: bool, remarks: list[str]
) -> tuple[list[Named], list[Named]]:
    """Detections and truth, without files of the folders that are not what they were given as."""
    by_model, by_people = by_origin(found)
    if by_model and by_people:  # only of a folder
        remarks.append(
            f"{detections}: {_files(by_people)} passed over: not made by a model of outlark, as the others are"
        )
    by_model_too, true_by_people = by_origin(true)
    if by_model_too and not true_by_people and not corrected:
        _check_order(found, detections, truth)
        if truth.is_dir():
            raise InputError(
                f"all annotation files in {truth} were made by a model of outlark, so they are no truth to compare "
                "with; give the annotations of a person, or, if somebody has checked and corrected all of these files, "
                "add --corrected"
            )
        remarks.append(f"{truth} was made by a model of outlark; it is taken as checked and corrected by a person")
    elif by_model_too and not corrected:
        remarks.append(
            f"{passed_over([table for table, _ in by_model_too], truth)}; if somebody has corrected all such files, "
            "add --corrected"
        )
        true = true_by_people
    return without_copies(by_model or found), without_copies(true)


def _check_order(found: Sequence[Named], detections: Path, truth: Path) -> None:
    """Refuse arguments that are swapped: detections of a model in place of the truth, and the other way round."""
    # the output folder may lie within that of the annotations
    others = [one for one in found if not one[0].path.resolve().is_relative_to(truth.resolve())]
    of_a_program = any(m.score is not None or m.verdict is not None for table, _ in others for m in table.annotations)
    if not others or of_a_program or by_origin(others)[0]:
        return
    command = shlex.join(["outlark", "evaluate", str(truth), str(detections)])
    raise InputError(
        f"the arguments seem to be swapped: a model of outlark made {truth}, and nothing else in {detections} has a "
        f"score; the detections come first: {command} (if a person has corrected {truth}, add --corrected)"
    )


def _files(tables: Sequence[Named]) -> str:
    return f"{tables[0][0].path.name}{f' and {len(tables) - 1} more' if len(tables) > 1 else ''}"


def _paired(true: _Side, found: _Side, remarks: list[str]) -> dict[str, str | None]:
    partners = pair_names(list(true.annotations), list(found.annotations))
    remarks += _twins(partners)
    if len(true.annotations) == len(found.annotations) == 1 and None in partners.values():
        (name,), (other,) = true.annotations, found.annotations
        if name in true.by_file or other in found.by_file:
            remarks.append(f"{other!r} and {name!r} are taken as the same recording, because there are no others")
            return {name: other}
    return partners


def _twins(names: Mapping[str, str | None]) -> list[str]:
    """Remarks on names that are taken for one recording although they are spelt differently."""
    return [
        f"{one!r} and {other!r} are taken as the same recording: they differ only in case, or in how accents are stored"
        for one, other in spelt_differently(names)
    ]


def _sound(sounds: SoundFiles, name: str, table: Path) -> Path | None:
    try:
        return sounds.named(name, table)
    except AnnotationError:
        return None


def _length(sound: Path) -> float | None:
    try:
        audio = Recording(sound)
    except AudioError:
        return None
    return audio.n_samples / audio.sample_rate


def _unscored(recordings: Sequence[Compared]) -> list[str]:
    truth = [m for recording in recordings for m in recording.truth if m.verdict != SILENCE]
    answers = [m for recording in recordings for m in recording.found if is_answer(m)]
    points = sum(not is_span(annotation) for annotation in (*truth, *answers))
    said = [f"{number_of(points, 'point')} ignored: no duration"] if points else []
    blank = sum(is_span(annotation) and not is_answer(annotation) for annotation in truth)
    if blank:
        said.append(f"{number_of(blank, 'true annotation')} without a label; detections there count neither way")
    return said


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} recordings ({names[0]} …)"


def learnt_from(recordings: Sequence[Compared], training: Iterable[str | None]) -> list[str]:
    """Recordings that a model was trained on, where notes score higher than elsewhere; by the names of the files."""
    names = {name for name in training if name is not None}
    stems = {without_sound_suffix(name) for name in names}

    def is_one(recording: Compared) -> bool:
        if recording.sound is not None:
            return recording.sound.name in names
        return without_sound_suffix(Path(recording.name).name) in stems

    return [recording.name for recording in recordings if is_one(recording)]
