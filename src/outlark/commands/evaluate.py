"""`outlark evaluate`: detections against reference annotations, and with --curve against other thresholds."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from outlark.annotations import Annotation
from outlark.annotations.files import encoded, write_bytes
from outlark.audio.recording import Recording
from outlark.audio.sound_files import (
    SoundFiles,
    full_names,
    pair_names,
    spelt_differently,
    without_sound_suffix,
)
from outlark.batch.engine import opened
from outlark.batch.journal import sha256_of
from outlark.batch.task import SCORES_SUFFIX
from outlark.commands.curve import Curves, curves_of_model, curves_of_tables
from outlark.commands.evaluation import (
    MEAN,
    MEAN_ALL,
    POOLED,
    REST,
    Compared,
    Evaluation,
    answers,
    csv_text,
    evaluate,
    is_answer,
    is_span,
    measures,
)
from outlark.commands.tables import (
    Named,
    by_origin,
    check_labels,
    labelled_by_hand,
    named_tables,
    passed_over,
    point_rows,
    unlabelled_rows,
    without_copies,
)
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import load_scores
from outlark.errors import AnnotationError, AudioError, InputError
from outlark.model_file import scoring_sha256
from outlark.plain_text import Line, ProgressCallback, Remark, TextTable, listed, listing, number_of, on_refused
from outlark.segments import SILENCE
from outlark.version import __version__


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


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """The result of `outlark evaluate`; `output` is the CSV file with all numbers, if any."""

    measured: Evaluation
    matched: Matched
    remarks: Sequence[str]
    curves: Curves | None = None
    output: str | None = None

    @property
    def incomplete(self) -> bool:
        return bool(self.matched.refused)

    def as_json(self) -> dict[str, Any]:
        measured, matched = self.measured, self.matched
        return {
            "version": __version__,
            "recordings": measured.recordings,
            "seconds": round(measured.seconds, 3),
            "classes": list(measured.classes),
            "measures": measures(measured),
            "answers": answers(measured),
            "missed": list(matched.missed),
            "left_out": list(matched.left_out),
            "remarks": list(self.remarks),
            "refused": list(matched.refused),
            **({} if self.curves is None else {"curve": self.curves.as_json()}),
        }

    def lines(self) -> Iterator[Line]:
        matched = self.matched
        yield from (Remark(f"Note: {remark}") for remark in self.remarks)
        if matched.missed:
            yield Remark(f"{_listed(matched.missed)} without detections: all their notes count as missed")
        if matched.left_out:
            yield Remark(f"{_listed(matched.left_out)} with detections but without truth: skipped")
        if self.output is not None:
            yield Remark(f"all results are in {self.output}")
        yield from on_refused(matched.refused)
        yield self._classes()
        yield ""
        yield self._events()
        split, merged = int(self.measured.split.sum()), int(self.measured.merged.sum())
        yield f"{number_of(split, 'note')} found in pieces; {number_of(merged, 'detection')} over several notes"
        yield ""
        confusion = self.measured.notes.confusion
        rows = zip(confusion.row_labels, confusion.counts.tolist(), strict=True)
        yield TextTable(
            [
                ["true \\ found", *map(str, confusion.column_labels)],
                *([str(label), *map(str, counts)] for label, counts in rows),
            ],
            "notes by the label that most of each note received",
        )
        if self.curves is not None:
            yield from self.curves.lines()

    def write(self, path: str) -> None:
        """All numbers, as CSV."""
        write_bytes(Path(path), encoded(csv_text(self.measured)))

    def _classes(self) -> TextTable:
        measured = self.measured
        iou = f"{next(iter(measured.events)):g}"
        columns = {
            "notes": ("notes", 0),
            "window F": ("window_f", 3),
            "note F": ("note_f", 3),
            "precision": (f"event_precision_iou_{iou}", 3),
            "recall": (f"event_recall_iou_{iou}", 3),
            "F": (f"event_f_iou_{iou}", 3),
            "onset, ms": ("onset_error_ms", 1),
            "offset, ms": ("offset_error_ms", 1),
        }
        found = measures(measured)
        labels = (*measured.classes, REST, MEAN, MEAN_ALL, POOLED)
        body = ([label, *(_cell(found[name].get(label), n) for name, n in columns.values())] for label in labels)
        recordings = number_of(measured.recordings, "recording")
        title = f"{recordings}, {measured.seconds:.0f} s; events match at an IoU of {iou}"
        return TextTable([["class", *columns], *body], title)

    def _events(self) -> TextTable:
        measured = self.measured
        kinds = {f"IoU {iou:g}": scores for iou, scores in measured.events.items()} | {"DCASE rule": measured.dcase}
        rows = [["events", "found", "false", "missed", "precision", "recall", "F"]]
        for kind, scores in kinds.items():
            counts = (scores.true_positives, scores.false_positives, scores.false_negatives)
            rows.append([kind, *(str(n.sum()) for n in counts), *(_cell(rate, 3) for rate in scores.pooled)])
        return TextTable(rows, "all classes together")


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None or value != value else f"{value:.{digits}f}"


def _listed(names: Sequence[str]) -> str:
    return f"{number_of(len(names), 'recording')} ({listing(names)})"


def evaluate_tables(
    matched: Matched,
    detector: NoteDetector | None = None,
    *,
    classes: Sequence[str] = (),
    unknown: Sequence[str] = (),
    ious: Sequence[float],
) -> EvaluationResult:
    """Compare matched detections and truth: the given classes, those of the model, or all labels but the unknown."""
    chosen = _classes(matched, classes, unknown) if detector is None else _classes_of(detector, classes)
    if len(chosen) == 1:
        matched = matched.naming_blanks(chosen[0])
    measured = evaluate(matched.recordings, chosen, ious=list(dict.fromkeys(ious)))
    remarks = list(matched.remarks)
    if len(chosen) > 1 and _unlabelled(matched.recordings):
        remarks.append("no detection has a label, as in DCASE files, so none can be of the right class; use --class")
    if detector is not None:
        trained = learnt_from(matched.recordings, (note["name"] for note in detector.model_.training))
        if trained:
            remarks.append(f"the model was trained on {listing(trained)}, where notes score higher than elsewhere")
    return EvaluationResult(measured=measured, matched=matched, remarks=remarks)


def _unlabelled(recordings: Sequence[Compared]) -> bool:
    found = [event for recording in recordings for event in recording.found]
    return bool(found) and all(event.label is None for event in found)


def _classes_of(detector: NoteDetector, asked: Sequence[str]) -> list[str]:
    there = [str(label) for label in detector.classes_.tolist()]
    check_labels(asked, there, "class of the model")
    return list(dict.fromkeys(asked)) or there


def _classes(matched: Matched, asked: Sequence[str], unknown: Sequence[str]) -> list[str]:
    there = matched.labels
    check_labels((*asked, *unknown), there)
    chosen = list(dict.fromkeys(asked)) or [label for label in there if label not in unknown]
    if not chosen:
        raise InputError("neither the truth nor the detections name a class; do you need --label-column?")
    return chosen


def with_curves(
    result: EvaluationResult,
    detections: str,
    model: tuple[str, NoteDetector] | None,
    *,
    channel: int | str = "mix",
    precision: float | None = None,
    watch: ProgressCallback = lambda done, total: None,
) -> EvaluationResult:
    """With the curve of each class: from a model (its path and detector), or from the scores in the detections."""
    recordings, classes = result.matched.recordings, result.measured.classes
    iou = next(iter(result.measured.events))
    if model is None:
        remark = "the curve starts at the lowest score of the detections; --model also tries lower thresholds"
        curves = Curves(curves_of_tables(recordings, classes, iou), iou, precision)
        return replace(result, curves=curves, remarks=[*result.remarks, remark])
    path, detector = model
    stored = _stored_scores(recordings, detections)
    digests = sha256_of(path), scoring_sha256(detector)

    def heard(recording: Compared) -> Any:
        if recording.name in stored:
            return load_scores(stored[recording.name], *digests).scores
        if recording.sound is not None:
            return opened(recording.sound, None if isinstance(channel, str) else channel)
        raise InputError(
            f"{recording.name}: --curve needs the recording or its scores, and found neither; give the folder of the "
            "recordings with --audio, or store scores with 'outlark detect --keep-scores'"
        )

    found = curves_of_model(recordings, classes, iou, detector, heard, precision=precision, watch=watch)
    return replace(result, curves=Curves(found, iou, precision))


def _stored_scores(recordings: Sequence[Compared], detections: str) -> dict[str, Path]:
    """The stored scores beside the detections, by the name of the recording."""
    folder = Path(detections)
    there = {
        path.relative_to(folder).as_posix().removesuffix(SCORES_SUFFIX): path
        for path in folder.rglob(f"*{SCORES_SUFFIX}")
    }
    pairs = pair_names([recording.name for recording in recordings], sorted(there))
    return {name: there[other] for name, other in pairs.items() if other is not None}


# ----------------------------------------------- which recordings are compared


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
    by_model, by_people = _told_apart(*both, Path(detections), Path(truth), corrected, remarks)
    found = _side(Path(detections), by_model, remarks)
    true = _side(Path(truth), _as_written(by_people, remarks, refused), remarks)
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
        remarks.append(f"{_listed(missed)} without detections skipped")
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
        unknown = f"the duration of {_listed(unknown_length)} is unknown without the recording (--audio)"
        remarks.append(f"{unknown}; windows end with the last annotation")
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


def _as_written(tables: Sequence[Named], remarks: list[str], refused: list[str]) -> list[Named]:
    """The truth with the labels that people gave to unknown sounds; rows that do not count as notes are named."""
    remarks += listed([row for table, _ in tables for row in unlabelled_rows(table)])
    refused += [row for table, _ in tables for row in point_rows(table)]
    return [
        (replace(table, annotations=tuple(map(labelled_by_hand, table.annotations))), name) for table, name in tables
    ]


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
    points = sum(not is_span(annotation) for annotation in answers)
    said = [f"{number_of(points, 'detection')} ignored: no duration"] if points else []
    blank = sum(is_span(annotation) and not is_answer(annotation) for annotation in truth)
    if blank:
        said.append(f"{number_of(blank, 'true annotation')} without a label; detections there count neither way")
    return said


def learnt_from(recordings: Sequence[Compared], training: Iterable[str | None]) -> list[str]:
    """Recordings that a model was trained on, where notes score higher than elsewhere; by the names of the files."""
    names = {name for name in training if name is not None}
    stems = {without_sound_suffix(name) for name in names}

    def is_one(recording: Compared) -> bool:
        if recording.sound is not None:
            return recording.sound.name in names
        return without_sound_suffix(Path(recording.name).name) in stems

    return [recording.name for recording in recordings if is_one(recording)]
