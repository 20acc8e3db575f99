"""`outlark evaluate`: detections against reference annotations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import curve, options
from outlark.cli.main import UNREADABLE
from outlark.cli.say import answer, say, say_refused, show_table
from outlark.cli.thresholds import read_model
from outlark.commands import check_labels, listing
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.commands.evaluation import Evaluation
    from outlark.commands.matching import Matched
    from outlark.detection.detector import NoteDetector


@click.command()
@click.argument("detections", type=click.Path())
@click.argument("truth", type=click.Path())
@options.reading
@options.names("--class", "classes", "A class to evaluate. Repeatable. Default: every label except those of --unknown.")
@click.option("--model", type=click.Path(), help="The model that made the detections; its classes are evaluated.")
@options.names(
    "--unknown", "unknown", "A label of the truth that is not a class: the correct answer there is unknown. Repeatable."
)
@click.option(
    "--iou",
    "ious",
    multiple=True,
    type=click.FloatRange(0, 1, min_open=True),
    default=(0.5, 0.3),
    show_default=True,
    metavar="X",
    help="Overlap (intersection over union) from which two events match. Repeatable.",
)
@click.option(
    "--tolerance-ms",
    type=click.FloatRange(min=0),
    metavar="MS",
    help="Also match events by their onsets alone, within this tolerance.",
)
@click.option(
    "--detected-only",
    is_flag=True,
    help="Skip recordings of the TRUTH that have no detections, such as the training recordings.",
)
@click.option(
    "--corrected",
    is_flag=True,
    help="The TRUTH are annotation files of outlark, all of which a person has checked and corrected. Otherwise such "
    "files in a folder of TRUTH are passed over.",
)
@click.option("--output", "-o", type=click.Path(), help="Write all results to this CSV file.")
@curve.curve_options
@options.reporting
def command(detections: str, truth: str, **given: Any) -> None:
    """Compare DETECTIONS with the TRUTH.

    Each is an annotation file in any format, or a folder of annotation files; recordings are matched by name.
    Detections with the verdict known or ambiguous count. A recording of the TRUTH without detections counts as missed;
    one without TRUTH is skipped.

    With --curve and --model, notes are detected again at many thresholds: from scores that 'outlark detect
    --keep-scores' stored among the DETECTIONS, or else from the recordings.
    """
    curve.check_usage(given)
    from outlark.commands.evaluation import evaluate
    from outlark.commands.matching import match_tables

    wanted = {name: given[name] for name in ("audio", "label_column", "detected_only", "corrected")}
    matched = match_tables(detections, truth, **wanted)
    detector = _detector(given)
    classes = _classes(matched, given) if detector is None else _classes_of(detector, given["classes"])
    if len(classes) == 1:
        matched = matched.naming_blanks(classes[0])
    tolerance_ms = given["tolerance_ms"]
    measured = evaluate(
        matched.recordings,
        classes,
        ious=list(dict.fromkeys(given["ious"])),
        tolerance_s=None if tolerance_ms is None else tolerance_ms / 1000,
    )
    drawn = curve.curves_of(matched.recordings, classes, detector, detections, given) if given["curve"] else []
    matched = replace(matched, remarks=(*matched.remarks, *_remarks(matched, detector, given["curve"])))
    if drawn:
        curve.draw(drawn, given)
    if given["output"] is not None:
        _write(measured, Path(given["output"]))
    if not given["quiet"]:
        _report(matched, given["output"])
    say_refused(matched.refused)
    if given["as_json"]:
        answer({**_content(measured, matched), **({"curve": curve.content(drawn, given)} if drawn else {})})
    else:
        _show(measured, tolerance_ms)
        if drawn:
            curve.show(drawn, given)
    click.get_current_context().exit(UNREADABLE if matched.refused else 0)


def _detector(given: Mapping[str, Any]) -> "NoteDetector | None":
    if given["unknown"] and (given["classes"] or given["model"]):
        raise click.UsageError("--unknown does not go with --class or --model, which say what the classes are")
    return None if given["model"] is None else read_model(given["model"])


def _classes_of(detector: "NoteDetector", asked: Sequence[str]) -> list[str]:
    """The classes of the model, or those of them that were asked for."""
    there = [str(label) for label in detector.classes_.tolist()]
    check_labels(asked, there, "class of the model")
    return list(dict.fromkeys(asked)) or there


def _classes(matched: "Matched", given: Mapping[str, Any]) -> list[str]:
    """The labels to evaluate, without a model."""
    there = matched.labels
    check_labels((*given["classes"], *given["unknown"]), there)
    chosen = list(dict.fromkeys(given["classes"])) or [label for label in there if label not in given["unknown"]]
    if not chosen:
        raise InputError("neither the truth nor the detections name a class; do you need --label-column?")
    return chosen


def _remarks(matched: "Matched", detector: "NoteDetector | None", with_curve: bool) -> Iterator[str]:
    from outlark.commands.matching import learnt_from

    if detector is None:
        if with_curve:
            yield "the curve starts at the lowest score of the detections; --model also tries lower thresholds"
        return
    trained = learnt_from(matched.recordings, (note["name"] for note in detector.training_))
    if trained:
        yield f"the model was trained on {listing(trained)}, where notes score higher than elsewhere"


def _write(measured: "Evaluation", path: Path) -> None:
    from outlark.annotations.files import encoded, write_bytes
    from outlark.commands.evaluation import csv_text

    write_bytes(path, encoded(csv_text(measured)))


def _report(matched: "Matched", output: str | None) -> None:
    for remark in matched.remarks:
        say(f"Note: {remark}", err=True)
    if matched.missed:
        say(f"{_listed(matched.missed)} without detections: all their notes count as missed", err=True)
    if matched.left_out:
        say(f"{_listed(matched.left_out)} with detections but without truth: skipped", err=True)
    if output is not None:
        say(f"all results are in {output}", err=True)


def _listed(names: Sequence[str]) -> str:
    return f"{number_of(len(names), 'recording')} ({listing(names)})"


def _content(measured: "Evaluation", matched: "Matched") -> dict[str, Any]:
    from outlark.commands.evaluation import answers, measures

    return {
        "version": __version__,
        "recordings": measured.recordings,
        "seconds": round(measured.seconds, 3),
        "classes": list(measured.classes),
        "measures": measures(measured),
        "answers": answers(measured),
        "missed": list(matched.missed),
        "left_out": list(matched.left_out),
        "remarks": list(matched.remarks),
        "refused": list(matched.refused),
    }


def _show(measured: "Evaluation", tolerance_ms: float | None) -> None:
    _show_classes(measured)
    say()
    _show_events(measured, tolerance_ms)
    say()
    confusion = measured.notes.confusion
    rows = [["true \\ found", *map(str, confusion.column_labels)]]
    for label, counts in zip(confusion.row_labels, confusion.counts.tolist(), strict=True):
        rows.append([str(label), *map(str, counts)])
    show_table(rows, "notes by the label that most of each note received")


def _show_classes(measured: "Evaluation") -> None:
    from outlark.commands.evaluation import MEAN, MEAN_ALL, POOLED, REST, measures

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
    rows = [["class", *columns], *body]
    recordings = number_of(measured.recordings, "recording")
    title = f"{recordings}, {measured.seconds:.0f} s; events match at an IoU of {iou}"
    show_table(rows, title)


def _show_events(measured: "Evaluation", tolerance_ms: float | None) -> None:
    kinds = {f"IoU {iou:g}": scores for iou, scores in measured.events.items()} | {"DCASE rule": measured.dcase}
    if measured.onsets is not None:
        kinds[f"onset within {tolerance_ms:g} ms"] = measured.onsets
    rows = [["events", "found", "false", "missed", "precision", "recall", "F"]]
    for kind, scores in kinds.items():
        counts = (scores.true_positives, scores.false_positives, scores.false_negatives)
        rows.append([kind, *(str(n.sum()) for n in counts), *(_cell(rate, 3) for rate in scores.pooled)])
    show_table(rows, "all classes together")


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None or value != value else f"{value:.{digits}f}"
