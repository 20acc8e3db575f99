"""`outlark decide`: segments from scores that were kept."""

from typing import Any

import click

from outlark.batch.sources import find
from outlark.batch.task import DECIDE, SCORES
from outlark.cli import options, thresholds
from outlark.cli.many import task_of, work_through


@click.command()
@click.argument("model", type=click.Path())
@click.argument("scores", nargs=-1, required=True, type=click.Path())
@options.batch
@thresholds.for_this_run
@options.calibration
@options.decisions
@options.reporting
def command(scores: tuple[str, ...], **given: Any) -> None:
    """Decide again on SCORES that 'outlark detect --keep-scores' kept, without the recordings.

    SCORES are files that end in .scores, and folders that hold such. MODEL is the one that gave the scores. With the
    same options the tables are those of 'outlark detect', byte for byte.
    """
    task, sources = task_of(given, verb=DECIDE), find(scores, (SCORES,), "scores")
    work_through(thresholds.with_thresholds(task, sources, given), sources, given)
