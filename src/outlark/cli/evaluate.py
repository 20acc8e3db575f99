"""`outlark evaluate`: detections against reference annotations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import counted, finish

#: The value of --curve without a file.
NO_FILE = "-"


def _figure_file(value: str) -> str:
    """The type of --curve: the name of a figure, or nothing."""
    from outlark.commands.figures import FIGURE_KINDS

    if value != NO_FILE and Path(value).suffix.lower() not in FIGURE_KINDS:
        raise click.BadParameter(
            f"{value!r} is not the name of a figure ({', '.join(FIGURE_KINDS)}); put --curve after DETECTIONS and TRUTH"
        )
    if not Path(value).parent.is_dir():
        raise click.BadParameter(f"{value!r}: the folder does not exist; create it first, or choose another")
    return value


_curve_options = options.options_together(
    click.option(
        "--curve",
        is_flag=False,
        flag_value=NO_FILE,
        type=_figure_file,
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
    options.channel,
)


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
@_curve_options
@options.reporting
def command(detections: str, truth: str, **given: Any) -> None:
    """Compare DETECTIONS with the TRUTH.

    Each is an annotation file in any format, or a folder of annotation files; recordings are matched by name.
    Detections with the verdict known or ambiguous count. A recording of the TRUTH without detections counts as missed;
    one without TRUTH is skipped.

    With --curve and --model, notes are detected again at many thresholds: from scores that 'outlark detect
    --keep-scores' stored among the DETECTIONS, or else from the recordings.
    """
    _check_usage(given)
    from outlark.commands.evaluate import evaluate_tables, match_tables, with_curves

    wanted = {name: given[name] for name in ("audio", "label_column", "detected_only", "corrected")}
    matched = match_tables(detections, truth, **wanted)
    model, curve, output = given["model"], given["curve"], given["output"]
    detector = None if model is None else options.read_model(model)
    how = {name: given[name] for name in ("classes", "unknown", "ious")}
    result = evaluate_tables(matched, detector, **how)
    if curve:
        named = None if detector is None else (model, detector)
        with counted(given["quiet"], "recordings analysed") as watch:
            how = {"channel": given["channel"], "precision": given["precision"], "watch": watch}
            result = with_curves(result, detections, named, **how)
        if curve != NO_FILE and result.curves is not None:
            from outlark.commands.curve import curve_figure
            from outlark.commands.figures import save_figure

            save_figure(curve_figure(result.curves), curve)
    if output is not None:
        result.write(output)
    finish(replace(result, output=output), given)


def _check_usage(given: dict[str, Any]) -> None:
    precision = given["precision"]
    if precision is not None and given["curve"] is None:
        raise click.UsageError("--precision goes with --curve, which suggests a threshold for it")
    if precision is not None and not 0.0 < precision <= 1.0:  # NaN
        raise click.UsageError(f"--precision {precision} must be a number above 0, 1 at most")
    if given["unknown"] and (given["classes"] or given["model"]):
        raise click.UsageError("--unknown does not go with --class or --model, which say what the classes are")
