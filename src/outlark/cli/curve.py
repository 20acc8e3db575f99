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
        help="Print precision, recall and F of each class against its threshold, suggest the threshold of the best F, "
        "and plot them if you name a file: .png, .svg or .pdf. Put it after DETECTIONS and TRUTH.",
    ),
    click.option(
        "--precision",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="X",
        help="With --curve: suggest the threshold that reaches this precision and misses least, not the best F.",
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
    from outlark.commands.curve import curves, curves_of_tables, tried_together

    iou = given["ious"][0]
    if detector is None:
        return curves_of_tables(recordings, classes, iou)
    from outlark.detection.thresholds import sweep_thresholds

    kept = _kept(recordings, detections)

    def at(thresholds: Any, now: int | None = None) -> "list[ClassCurve]":
        with counted(given["quiet"], "recordings analysed") as progress:

            def pairs() -> "Iterator[tuple[Compared, Iterator[list[Annotation]]]]":
                for number, recording in enumerate(recordings, start=1):
                    yield recording, _found(detector, recording, kept, thresholds, given)
                    progress(number, len(recordings))

            return curves(pairs(), classes, thresholds, iou, now=now)

    thresholds = sweep_thresholds(detector)
    found = at(thresholds, len(thresholds) - 1)
    return found if given["precision"] is not None else tried_together(found, at)


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

        save_figure(curve_figure(found, given["precision"]), given["curve"])


def check_usage(given: Mapping[str, Any]) -> None:
    """Refuse --precision without --curve, or NaN."""
    precision = given["precision"]
    if precision is not None and given["curve"] is None:
        raise click.UsageError("--precision goes with --curve, which suggests a threshold for it")
    if precision is not None and not 0.0 < precision <= 1.0:  # NaN
        raise click.UsageError(f"--precision {precision} must be a number above 0, 1 at most")


def show(found: "Sequence[ClassCurve]", given: Mapping[str, Any]) -> None:
    """Print some points of each curve, then the suggestions."""
    rows = [["class", "score", "found", "false", "missed", "precision", "", "recall", "", "F", ""]]
    for curve in found:
        marked = (("now", curve.now), ("best F", curve.best_f), ("suggested", curve.suggested(given["precision"])))
        last = max((number for number, point in enumerate(curve.points) if point.detections), default=0)
        for number, point in enumerate(curve.points):
            said = [word for word, of in marked if point == of]
            if said or (number % EVERY == 0 and number <= last + 1):
                rows.append([curve.label, f"{point.score:.3f}", *_cells(point), ", ".join(said)])
    say()
    show_table(rows, f"each class against its threshold; events match at an IoU of {given['ious'][0]:g}")
    say("in brackets: 95 % intervals (Wilson) of that many detections and notes, as if they were independent")
    say()
    for line in _advice(found, given["precision"]):
        say(line)


def _cells(point: "Point") -> Iterator[str]:
    yield from (str(n) for n in point[1:])
    for rate, (low, high) in (
        (point.precision, point.precision_limits),
        (point.recall, point.recall_limits),
    ):
        yield from ("", "") if rate != rate else (f"{rate:.3f}", f"({low:.2f}-{high:.2f})")
    yield "" if point.f != point.f else f"{point.f:.3f}"


def _advice(found: "Sequence[ClassCurve]", precision: float | None) -> Iterator[str]:
    options = []
    for curve in found:
        suggested = curve.suggested(precision)
        if suggested is None:
            yield f"{curve.label}: no suggestion: {_why_not(curve, precision)}"
        elif suggested == curve.now:
            yield f"{curve.label}: the present threshold stays: {_in_words(suggested)}"
        else:
            options.append(f"--threshold {shlex.quote(curve.label)}={suggested.score:.4g}")
            before = "" if curve.now is None else f"; now: {_in_words(curve.now)}"
            yield f"{curve.label}: {suggested.score:.4g}: {_in_words(suggested)}{before}"
    if options:
        yield "these thresholds were chosen on these recordings and will be a little worse on others: check them there"
        aim = "the best F" if precision is None else f"a precision of {precision:g} or more"
        yield f"for {aim} of each class: {' '.join(options)}"


def _in_words(point: "Point") -> str:
    detections, notes = number_of(point.detections, "detection"), number_of(point.notes, "note")
    found = f"{point.found} of {notes} found with {detections}"
    return f"F {point.f:.3f}, precision {point.precision:.3f}, recall {point.recall:.3f} ({found})"


def _why_not(curve: "ClassCurve", precision: float | None) -> str:
    from outlark.commands.curve import FEW

    if curve.withheld:
        return "the thresholds with the best F of each class find less together than the present ones"
    most, best = max(point.detections for point in curve.points), curve.best_precision
    if most < FEW:
        return f"{number_of(most, 'detection')} at most, and fewer than {FEW} say little; annotate more recordings"
    if best is None:
        return "no correct detections"
    few = f"with {FEW} detections or more it is {best.precision:.3f} at most, at a threshold of {best.score:.3f}"
    return f"a precision of {precision:g} is not reached; {few}"


def content(found: "Sequence[ClassCurve]", given: Mapping[str, Any]) -> dict[str, Any]:
    """For --json: all points."""
    return {"precision": given["precision"], "classes": [_class_content(curve, given["precision"]) for curve in found]}


def _class_content(curve: "ClassCurve", precision: float | None) -> dict[str, Any]:
    marked = {"now": curve.now, "best_f": curve.best_f, "suggested": curve.suggested(precision)}
    return {
        "label": curve.label,
        **{name: None if point is None else _point(point) for name, point in marked.items()},
        "points": [_point(point) for point in curve.points],
    }


def _point(point: "Point") -> dict[str, Any]:
    (precision_low, precision_high), (recall_low, recall_high) = point.precision_limits, point.recall_limits
    rates = {
        "precision": point.precision,
        "precision_low": precision_low,
        "precision_high": precision_high,
        "recall": point.recall,
        "recall_low": recall_low,
        "recall_high": recall_high,
        "f": point.f,
    }
    return {**point._asdict(), **{name: None if rate != rate else rate for name, rate in rates.items()}}
