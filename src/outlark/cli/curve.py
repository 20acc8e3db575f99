"""`outlark evaluate --curve`: what each threshold would find, and which one to choose."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.task import SCORES, sha256_of
from outlark.cli.options import channel, options_together
from outlark.cli.progress import counted
from outlark.cli.say import say, show_table
from outlark.errors import InputError
from outlark.plain_text import number_of

if TYPE_CHECKING:
    from outlark.annotations import Annotation
    from outlark.commands.curve import ClassCurve, Point
    from outlark.commands.evaluation import Compared
    from outlark.detection.detector import NoteDetector

#: The value of --curve without a file.
NO_FILE = "-"
PRECISION = 0.95
#: One in this many thresholds is printed; --json has them all.
EVERY = 4


def figure_file(value: str) -> str:
    """The type of --curve: the name of a figure, or nothing."""
    from outlark.commands.figures import KINDS

    if value != NO_FILE and Path(value).suffix.lower() not in KINDS:
        raise click.BadParameter(
            f"{value!r} is not the name of a figure ({', '.join(KINDS)}); put --curve after DETECTIONS and TRUTH"
        )
    if not Path(value).parent.is_dir():
        raise click.BadParameter(f"{value!r}: the folder does not exist; create it first, or choose another")
    return value


#: --curve, --precision and --channel.
curve_options = options_together(
    click.option(
        "--curve",
        is_flag=False,
        flag_value=NO_FILE,
        type=figure_file,
        metavar="[FILE]",
        help="Print precision and recall of each class against its threshold, suggest a threshold, and plot them if "
        "you name a file: .png, .svg or .pdf. Put it after DETECTIONS and TRUTH.",
    ),
    click.option(
        "--precision",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="X",
        help=f"With --curve: the precision to suggest a threshold for. Default: {PRECISION:g}.",
    ),
    channel,
)


def curves_of(
    recordings: "Sequence[Compared]",
    classes: Sequence[str],
    detector: "NoteDetector | None",
    detections: str,
    given: Mapping[str, Any],
) -> "list[ClassCurve]":
    """The curve of each class, from a model or from the scores in the files."""
    from outlark.commands.curve import curves, curves_of_tables

    iou = given["ious"][0]
    if detector is None:
        return curves_of_tables(recordings, classes, iou)
    from outlark.detection.thresholds import sweep_thresholds

    thresholds, kept = sweep_thresholds(detector), _kept(recordings, detections)
    with counted(given["quiet"], "recordings analysed") as progress:

        def pairs() -> "Iterator[tuple[Compared, Iterator[list[Annotation]]]]":
            for number, recording in enumerate(recordings, start=1):
                yield recording, _found(detector, recording, kept, thresholds, given)
                progress(number, len(recordings))

        return curves(pairs(), classes, thresholds, iou, now=len(thresholds) - 1)


def _kept(recordings: "Sequence[Compared]", detections: str) -> dict[str, Path]:
    """The stored scores beside the detections, by the name of the recording."""
    from outlark.audio.sound_files import pair_names

    folder = Path(detections)
    there = {path.relative_to(folder).as_posix().removesuffix(SCORES): path for path in folder.rglob(f"*{SCORES}")}
    pairs = pair_names([recording.name for recording in recordings], sorted(there))
    return {name: there[other] for name, other in pairs.items() if other is not None}


def _found(
    detector: "NoteDetector", recording: "Compared", kept: Mapping[str, Path], thresholds: Any, given: Mapping[str, Any]
) -> "Iterator[list[Annotation]]":
    from outlark.annotations import Annotation
    from outlark.batch.engine import opened
    from outlark.detection.scores_file import load_scores
    from outlark.detection.thresholds import swept
    from outlark.storage.model_file import scoring_sha256

    heard: Any
    if recording.name in kept:
        digests = sha256_of(given["model"]), scoring_sha256(detector)
        heard = load_scores(kept[recording.name], *digests).scores
    elif recording.sound is not None:
        heard = opened(recording.sound, None if given["channel"] == "mix" else given["channel"])
    else:
        raise InputError(
            f"{recording.name}: --curve needs the recording or its scores, and found neither; give the folder of the "
            "recordings with --audio, or store scores with 'outlark detect --keep-scores'"
        )
    for segments in swept(detector, heard, thresholds):
        yield [Annotation.from_segment(segment, recording.name) for segment in segments]


def draw(found: "Sequence[ClassCurve]", given: Mapping[str, Any]) -> None:
    """Plot the curves if a file was named."""
    if given["curve"] != NO_FILE:
        from outlark.commands.curve import curve_figure
        from outlark.commands.figures import save_figure

        save_figure(curve_figure(found, wanted(given)), given["curve"])


def check_usage(given: Mapping[str, Any]) -> None:
    """Refuse --precision without --curve, or NaN."""
    if given["precision"] is not None and given["curve"] is None:
        raise click.UsageError("--precision goes with --curve, which suggests a threshold for it")
    if not 0.0 < wanted(given) <= 1.0:  # NaN
        raise click.UsageError(f"--precision {given['precision']} must be a number above 0, 1 at most")


def wanted(given: Mapping[str, Any]) -> float:
    """The precision that was asked for."""
    return PRECISION if given["precision"] is None else float(given["precision"])


def show(found: "Sequence[ClassCurve]", given: Mapping[str, Any]) -> None:
    """Print some points of each curve, then the suggestions."""
    precision = wanted(given)
    rows = [["class", "score", "found", "false", "missed", "precision", "recall", ""]]
    for curve in found:
        suggested = curve.suggested(precision)
        last = max((number for number, point in enumerate(curve.points) if point.found + point.false), default=0)
        for number, point in enumerate(curve.points):
            said = [word for word, of in (("now", curve.now), ("suggested", suggested)) if point == of]
            if said or (number % EVERY == 0 and number <= last + 1):
                counts = (str(n) for n in point[1:])
                rates = (_cell(point.precision), _cell(point.recall))
                rows.append([curve.label, f"{point.score:.3f}", *counts, *rates, ", ".join(said)])
    say()
    show_table(rows, f"each class against its threshold; events match at an IoU of {given['ious'][0]:g}")
    say()
    for line in _advice(found, precision, given["model"]):
        say(line)


def _advice(found: "Sequence[ClassCurve]", precision: float, model: str | None) -> Iterator[str]:
    from outlark.commands.curve import FEW

    options, wished = [], "1" if precision == 1.0 else f"at least {precision:g}"
    for curve in found:
        suggested, best = curve.suggested(precision), curve.best_precision
        if best is None or not best.found:
            yield f"{curve.label}: no {'' if best is None else 'correct '}detections"
        elif suggested is None:
            most = f"the highest is {best.precision:.3f}, at a threshold of {best.score:.3f}"
            yield f"{curve.label}: a precision of {precision:g} is not reached; {most}"
        elif suggested != curve.now:
            options.append(f"--threshold {shlex.quote(curve.label)}={suggested.score:.4g}")
            if suggested.found + suggested.false < FEW:
                n = number_of(suggested.found + suggested.false, "detection")
                yield f"{curve.label}: the suggestion rests on only {n}"
    if options:
        yield f"for a precision of {wished} in each class: {' '.join(options)}"
    elif model is not None and all(curve.suggested(precision) for curve in found):
        yield f"the present thresholds reach a precision of {wished}"


def content(found: "Sequence[ClassCurve]", given: Mapping[str, Any]) -> dict[str, Any]:
    """For --json: all points."""
    return {"precision": wanted(given), "classes": [_class_content(curve, wanted(given)) for curve in found]}


def _class_content(curve: "ClassCurve", precision: float) -> dict[str, Any]:
    suggested = curve.suggested(precision)
    return {
        "label": curve.label,
        "now": None if curve.now is None else _point(curve.now),
        "suggested": None if suggested is None else _point(suggested),
        "points": [_point(point) for point in curve.points],
    }


def _point(point: "Point") -> dict[str, Any]:
    rates = {"precision": point.precision, "recall": point.recall}
    return {**point._asdict(), **{name: None if rate != rate else rate for name, rate in rates.items()}}


def _cell(rate: float) -> str:
    return "" if rate != rate else f"{rate:.3f}"
