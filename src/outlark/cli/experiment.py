"""`outlark experiment` and `outlark demo`: the experiment of the paper, on any data."""

import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from outlark.cli import options
from outlark.cli.terminal import counted, finish, say
from outlark.errors import InputError

if TYPE_CHECKING:
    from outlark.paper.experiment.dataset import Dataset, Protocol
    from outlark.paper.experiment.run import Method


def _complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from outlark.paper.experiment.run import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


@click.command()
@click.argument("data", nargs=-1, type=click.Path())
@click.option(
    "--output", "-o", default="experiment", show_default=True, type=click.Path(), help="Folder for the results."
)
@click.option(
    "--method",
    "-m",
    "methods",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete_methods,
    help="A method of --list-methods. Repeatable. Default: all of the list.",
)
@click.option("--list-methods", is_flag=True, help="List the methods and exit.")
@options.whole_number("--seeds", "seeds", default=50, help="Use seeds 1 to N.")
@options.whole_number("--train", "n_train", default=2, help="Training notes of each known class.")
@options.names("--known", "known", "A class to train on. Repeatable. Default: drawn for each seed.")
@options.whole_number("--n-known", "n_known", default=3, help="Known classes to draw.")
@options.whole_number("--n-unknown", "n_unknown", least=0, default=0, help="Unknown classes to draw; 0: all others.")
@options.whole_number("--max-test", "max_test", least=0, default=0, help="Test notes of each class; 0: all.")
@click.option(
    "--groups",
    type=click.Path(),
    metavar="FILE",
    help="CSV file with the columns file and group. No bird, recording or session is in both training and test.",
)
@options.paths("--audio", "audio", "DIR", "Folder with the annotated recordings. Repeatable.")
@click.option("--gap", "gap_s", type=options.seconds, default="0", help="Silence between the test notes.")
@click.option("--snr", "snr_db", type=float, metavar="DB", help="Add white noise to training and test notes.")
@options.jobs
@options.reporting
def command(data: tuple[str, ...], **given: Any) -> None:
    """Repeat the experiment of the paper (Sec. 4) on DATA and print its tables.

    A few notes of each known class are used for training; all other notes, known and unknown, follow each other in the
    test clip; this is repeated for other random draws. DATA is 'synthetic' (the default), 'great-tits' (see 'outlark
    data'), a folder with one subfolder of clips per class, or annotation files and folders of them. If it is
    interrupted, the same command resumes with the remaining seeds.
    """
    from outlark.paper.experiment.dataset import Protocol, draw, find_dataset
    from outlark.paper.experiment.report import MethodList
    from outlark.paper.experiment.run import METHODS, method

    if given["list_methods"]:
        finish(MethodList(), given)
    found = find_dataset(data, known=given["known"], groups=given["groups"], audio=given["audio"])
    for remark in found.remarks:
        say(f"Note: {remark}", err=True)
    names = ("n_train", "gap_s", "snr_db", "n_known", "n_unknown", "max_test")
    protocol = Protocol(**{name: given[name] for name in names})
    # report what cannot be done before starting
    chosen = [method(name) for name in dict.fromkeys(given["methods"] or METHODS)]
    draw(found, protocol, 1)
    _check_apart(Path(given["output"]), data)
    _run(found, protocol, chosen, shlex.join(["outlark", *sys.argv[1:]]), given)


@click.command()
@click.option("--output", "-o", default="demo", show_default=True, type=click.Path(), help="Folder for the results.")
@options.whole_number("--seeds", "seeds", default=10, help="Use seeds 1 to N.")
@options.jobs
@options.reporting
def demo(**given: Any) -> None:
    """Run the experiment of the paper on synthetic notes, plot its figure and write a report.

    The methods learn two notes of each of three classes; then fifty notes of eight classes follow each other without a
    gap. The recordings of the paper are not public: synthetic notes take their place, so the numbers are not those of
    the paper. 'outlark experiment' does the same with your own notes.
    """
    from outlark.paper.experiment.dataset import Dataset, Protocol
    from outlark.paper.experiment.run import METHODS

    _run(Dataset.synthetic(), Protocol(), list(METHODS.values()), f"outlark demo --seeds {given['seeds']}", given)


def _run(
    data: "Dataset", protocol: "Protocol", methods: Sequence["Method"], command: str, given: Mapping[str, Any]
) -> NoReturn:
    """Run the experiment, write its files and print its tables."""
    from outlark.paper.experiment.report import Experiment, write
    from outlark.paper.experiment.run import run

    start, folder = time.monotonic(), Path(given["output"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be created ({error.strerror}); choose another") from None
    kept, seeds = folder / "seeds_done", range(1, given["seeds"] + 1)
    try:
        with counted(given["quiet"], "seeds") as watch:
            results = run(data, protocol, methods=methods, seeds=seeds, n_jobs=given["jobs"], watch=watch, kept=kept)
    except KeyboardInterrupt:
        say(f"\nstopped; finished seeds are kept in {kept}: give the same command again to resume", err=True)
        raise
    files = write(folder, results, command=command)
    shutil.rmtree(kept, ignore_errors=True)
    finish(Experiment(results, files, time.monotonic() - start), given)


def _check_apart(folder: Path, data: Sequence[str]) -> None:
    """Results never go among the data."""
    for path in map(Path, data):
        if path.is_dir() and path.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise InputError(
                f"the results would go to {folder}, inside the data in {path}; choose another folder with --output"
            )
