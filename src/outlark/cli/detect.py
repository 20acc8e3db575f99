"""`outlark detect`: notes in recordings."""

from typing import Any

import click

from outlark.batch.sources import find
from outlark.batch.unit import PART_S
from outlark.cli import options, thresholds
from outlark.cli.many import task_of, work_through


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recordings", nargs=-1, required=True, type=click.Path())
@options.batch
@options.channel
@click.option(
    "--keep-scores",
    is_flag=True,
    help="Keep the scores of all classes, for 'outlark decide'; memory then grows with the recording.",
)
@click.option(
    "--part-length",
    "part_s",
    type=options.Seconds(),
    default=PART_S,
    show_default=True,
    help="Longer recordings are worked on in parts of this length, side by side; a stopped run keeps those that are "
    "done. It changes no result.",
)
@thresholds.for_this_run
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Have Dask workers do it: the address of a scheduler, such as tcp://10.0.0.1:8786, or local, or local:4 for "
    "four workers on this machine.",
)
@options.calibration
@options.decisions
@options.reporting
def command(recordings: tuple[str, ...], channel: int | str, keep_scores: bool, **given: Any) -> None:
    """Find notes in RECORDINGS with a MODEL.

    RECORDINGS are sound files and folders, which are searched with all folders within. Each recording gets a table in
    each format, in the same folders below the output folder. A run that was stopped, however it was, goes on where it
    was when the same command is given again.
    """
    number = None if isinstance(channel, str) else channel
    task, sources = task_of(given, channel=number, keep_scores=keep_scores), find(recordings)
    work_through(thresholds.with_thresholds(task, sources, given), sources, given)
