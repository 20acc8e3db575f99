"""`outlark evaluate`: detections against reference annotations, and with --curve against other thresholds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outlark.annotations.files import encoded, write_bytes
from outlark.audio.sound_files import pair_names
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
    measures,
)
from outlark.commands.matching import Matched, learnt_from
from outlark.commands.tables import check_labels
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import load_scores
from outlark.errors import InputError
from outlark.model_file import scoring_sha256
from outlark.plain_text import Line, ProgressCallback, Remark, TextTable, listing, number_of, on_refused
from outlark.version import __version__


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """The result of `outlark evaluate`; `output` is the CSV file with all numbers, if any."""

    measured: Evaluation
    matched: Matched
    remarks: Sequence[str]
    tolerance_ms: float | None
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
        if measured.onsets is not None:
            kinds[f"onset within {self.tolerance_ms:g} ms"] = measured.onsets
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
    tolerance_ms: float | None = None,
) -> EvaluationResult:
    """Compare matched detections and truth: the given classes, those of the model, or all labels but the unknown."""
    chosen = _classes(matched, classes, unknown) if detector is None else _classes_of(detector, classes)
    if len(chosen) == 1:
        matched = matched.naming_blanks(chosen[0])
    tolerance_s = None if tolerance_ms is None else tolerance_ms / 1000
    measured = evaluate(matched.recordings, chosen, ious=list(dict.fromkeys(ious)), tolerance_s=tolerance_s)
    remarks = list(matched.remarks)
    if len(chosen) > 1 and _unlabelled(matched.recordings):
        remarks.append("no detection has a label, as in DCASE files, so none can be of the right class; use --class")
    if detector is not None:
        trained = learnt_from(matched.recordings, (note["name"] for note in detector.model_.training))
        if trained:
            remarks.append(f"the model was trained on {listing(trained)}, where notes score higher than elsewhere")
    return EvaluationResult(measured=measured, matched=matched, remarks=remarks, tolerance_ms=tolerance_ms)


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
