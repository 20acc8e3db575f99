"""`outlark summary`: notes per hour of recording, by class, site, day and hour."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.journal import sha256_of
from outlark.cli import options
from outlark.cli.terminal import counted, finish

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def _by(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, each once; they may be separated by commas."""
    names = options.names_in(given)
    for name in names:
        if name not in (columns := ("class", "site", "day", "hour")):
            raise click.BadParameter(f"{name!r} is not a column to count by; choose from {', '.join(columns)}")
    return tuple(names)


def _zone(ctx: click.Context, param: click.Parameter, given: str | None) -> "ZoneInfo | None":
    """A time zone of the IANA database."""
    if given is None or ctx.resilient_parsing:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(given)
    except (KeyError, ValueError, OSError):
        raise click.BadParameter(
            f"{given!r} is not a known time zone; give a name such as Europe/Berlin or UTC (on Windows, first: pip "
            "install tzdata)"
        ) from None


@click.command()
@click.argument("out", type=click.Path())
@click.option(
    "--by",
    multiple=True,
    default=("class,site",),
    show_default=True,
    metavar="NAME",
    callback=_by,
    help="Count by class, site, day or hour of the day. Repeatable, or separate names by commas.",
)
@click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    type=click.Path(),
    help="Write all rows to this file, .csv or .parquet. Repeatable.",
)
@click.option(
    "--figure", type=click.Path(), help="Plot days, hours of the day and sites on one page: .png, .svg or .pdf."
)
@options.names("--class", "classes", "Count only this class. Repeatable.")
@click.option(
    "--model", type=click.Path(), help="The model of the run: its classes get rows even if no note was found."
)
@options.format_option(
    "--format",
    "-f",
    help="Format of the annotation files to count, such as raven after a review. Default: csv, or the best available.",
)
@click.option(
    "--site-from",
    type=click.Choice(["auto", "folder", "parent", "name"]),
    default="auto",
    show_default=True,
    help="Where the site comes from: the first folder, the parent folder, or the file name up to the time.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    callback=_zone,
    help="Days and hours in this zone, such as Europe/Berlin, with its summer time. Default: the recorders' clocks.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    metavar="X",
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
)
@options.reporting
def command(out: str, by: tuple[str, ...], **given: Any) -> None:
    """Count the notes found in OUT, per hour of recording.

    OUT is the output folder of 'outlark detect' or 'outlark decide'. The recording effort comes from the journal of the
    run and includes recordings without notes. Recordings without a known start time are counted under 'time unknown'.
    The confidence intervals of rates are too narrow if notes come in bouts; the proportions of recordings and of clock
    hours with a note are more robust.
    """
    from outlark.commands.figures import save_figure
    from outlark.commands.summary import read_results, summarise_run
    from outlark.commands.summary_figure import summary_figure
    from outlark.commands.tally import check_suffix

    outputs, figure, zone = [Path(output) for output in given["outputs"]], given["figure"], given["timezone"]
    for output in outputs:
        check_suffix(output)
    results = read_results(out, given["site_from"])
    how = {name: given[name] for name in ("classes", "format", "confidence")}
    if given["model"] is not None:
        detector = options.read_model(given["model"])
        results.check_model(given["model"], sha256_of(given["model"]))
        how["of_model"] = [str(label) for label in detector.classes_.tolist()]
    with counted(given["quiet"], "recordings counted") as watch:
        found = summarise_run(results, by, **how, zone=zone, watch=watch)
    for output in outputs:
        found.summary.write(output)
    if figure is not None:
        clock = "the recorders' clocks" if zone is None else str(zone)
        save_figure(summary_figure(found.tally, found.shown, given["confidence"], results.verdicts, clock), figure)
    finish(replace(found, written=[*given["outputs"], *([] if figure is None else [figure])]), given)
