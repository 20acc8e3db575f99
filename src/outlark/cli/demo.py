"""`outlark demo`: the experiment of the paper in less than a minute."""

import time
from typing import Any

import click

from outlark.cli import options
from outlark.cli.experiment import new_folder, tell, told_when_stopped
from outlark.cli.steps import counted

METHODS = ("mddkm-paper", "pknn-paper", "mddkm", "pknn", "knn", "templates")


@click.command()
@click.option("--output", "-o", default="demo", show_default=True, type=click.Path(), help="Folder for the results.")
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Seeds 1 to N.")
@options.jobs
@options.reporting
def command(output: str, **given: Any) -> None:
    """Run the experiment of the paper on made-up notes, draw its figure and write a report.

    Two notes of each of three classes are learnt; fifty notes of eight classes follow each other without a gap. The
    recordings of the paper are not public: these notes are stand-ins, and numbers on them are not the paper's.
    'outlark experiment' does the same with more methods, or with your own notes.
    """
    from outlark.experiment.dataset import Dataset
    from outlark.experiment.report import write
    from outlark.experiment.run import run

    start, folder = time.monotonic(), new_folder(output)
    with counted(given["quiet"], "seeds") as watch, told_when_stopped():
        results = run(
            Dataset.synthetic(), methods=METHODS, seeds=range(1, given["seeds"] + 1), n_jobs=given["jobs"], watch=watch
        )
    files = write(folder, results, command=f"outlark demo --seeds {given['seeds']}")
    tell(results, files, time.monotonic() - start, given)
