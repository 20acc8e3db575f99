"""`outlark experiment` and `outlark demo`: the experiment of the paper, on any data."""

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options
from outlark.cli.progress import counted
from outlark.cli.say import answer, say, show_table
from outlark.errors import InputError
from outlark.plain_text import number_of

if TYPE_CHECKING:
    from outlark.paper.dataset import Dataset
    from outlark.paper.protocol import Protocol
    from outlark.paper.results import Results
    from outlark.paper.run import Checkpoint

#: Of `outlark demo`.
DEMO_METHODS = ("mddkm-paper", "pknn-paper", "mddkm", "pknn", "knn", "templates")


def _complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from outlark.paper.methods import METHODS

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
    help="A method of --list-methods, or FRONT:MODEL[:DECISIONS] such as hlds:knn:viterbi. Repeatable. Default: all of "
    "the list.",
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
    if given["list_methods"]:
        _list_methods(given["as_json"])
        return
    start = time.monotonic()
    from outlark.paper.methods import METHODS, method
    from outlark.paper.protocol import draw
    from outlark.paper.report import write
    from outlark.paper.run import Checkpoint, run

    chosen = list(given["methods"]) or list(METHODS)
    protocol, found = _protocol(given), _data_of(data, given)
    remarks = list(found.remarks)
    if set(found.labels) == set(found.known or ()):
        remarks.append("every class is known, so there is nothing unknown to reject: OOD is meaningless")
    for remark in remarks:
        say(f"Note: {remark}", err=True)
    # report what cannot be done before starting
    for name in chosen:
        method(name)
    draw(found, protocol, 1)
    checkpoint = Checkpoint(_new_folder(given["output"], data))
    seeds = range(1, given["seeds"] + 1)
    with counted(given["quiet"], "seeds") as watch, _reported_when_stopped(checkpoint):
        how = {"n_jobs": given["jobs"], "watch": watch, "checkpoint": checkpoint}
        results = run(found, protocol, methods=chosen, seeds=seeds, **how)
    files = write(checkpoint.path.parent, results, command=shlex.join(["outlark", *sys.argv[1:]]))
    checkpoint.remove()
    _report(results, files, time.monotonic() - start, given)


@contextmanager
def _reported_when_stopped(checkpoint: "Checkpoint | None" = None) -> Iterator[None]:
    """Report on Ctrl-C what becomes of the work so far."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint:
            done = "1 seed is" if len(checkpoint) == 1 else f"{len(checkpoint)} seeds are"
            say(f"\nstopped; {done} kept in {checkpoint.path}: give the same command again to resume", err=True)
        else:
            say("\nstopped; nothing was written. Fewer --seeds or methods take less time", err=True)
        raise


def _data_of(paths: Sequence[str], given: Mapping[str, Any]) -> "Dataset":
    """The data set that was asked for."""
    from outlark.paper.dataset import Dataset

    known, groups, audio = given["known"] or None, given["groups"], given["audio"]
    named = [path for path in paths if path in ("synthetic", "great-tits")]
    if len(paths) > 1 and named:
        raise InputError(f"{named[0]!r} and other data together; give one data set at a time")
    if not paths or named == ["synthetic"]:
        data = Dataset.synthetic()
        return data if known is None else data.with_known(known)
    if named == ["great-tits"]:
        from outlark.data.great_tits import get

        tables = sorted(get().glob("*.selections.txt"))
        return Dataset.read(tables, known=known, groups=groups, name="great-tits")
    for path in paths:
        if not Path(path).exists():
            raise InputError(
                f"{path} does not exist; give synthetic, great-tits, a folder of clips, or annotation files"
            )
    return Dataset.read(paths, audio=audio, groups=groups, known=known)


def _protocol(given: Mapping[str, Any]) -> "Protocol":
    from outlark.paper.protocol import Protocol

    names = ("n_train", "gap_s", "snr_db", "n_known", "n_unknown", "max_test")
    return Protocol(**{name: given[name] for name in names})


def _new_folder(output: str, data: Sequence[str] = ()) -> Path:
    """Create the folder for the results before the work starts; never inside the data."""
    folder = Path(output)
    for path in map(Path, data):
        if path.is_dir() and path.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise InputError(
                f"the results would go to {folder}, inside the data in {path}; choose another folder with --output"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be created ({error.strerror}); choose another") from None
    return folder


def _report(results: "Results", files: Mapping[str, str], elapsed_s: float, given: Mapping[str, Any]) -> None:
    """The tables, and where everything is."""
    from outlark.paper.tables import table_1, table_2, table_tests

    if given["as_json"]:
        answer({**results.content(), "files": dict(files), "seconds_taken": round(elapsed_s, 3)})
        return
    tables = [table_1(results, results.ours, results.seeds[0]), table_2(results)]
    if len(results.methods) > 1 and len(results.seeds) > 1:
        tables.append(table_tests(results, results.ours))
    for table in tables:
        show_table([table.head, *table.rows], table.title)
        say("\n".join([*table.notes, ""]))
    if not given["quiet"]:
        for what, path in files.items():
            say(f"{what}: {path}", err=True)
        runs = f"{number_of(len(results.seeds), 'seed')} × {number_of(len(results.methods), 'method')}"
        say(f"{runs} in {elapsed_s:.0f} s", err=True)


def _list_methods(as_json: bool) -> None:
    from outlark.paper.methods import METHODS

    if as_json:
        answer({"methods": {one.name: one.title for one in METHODS.values()}})
    else:
        show_table([["method", "what it is"], *([one.name, one.title] for one in METHODS.values())])


@click.command()
@click.option("--output", "-o", default="demo", show_default=True, type=click.Path(), help="Folder for the results.")
@options.whole_number("--seeds", "seeds", default=10, help="Use seeds 1 to N.")
@options.jobs
@options.reporting
def demo(output: str, **given: Any) -> None:
    """Run the experiment of the paper on synthetic notes, plot its figure and write a report.

    The methods learn two notes of each of three classes; then fifty notes of eight classes follow each other without a
    gap. The recordings of the paper are not public: synthetic notes take their place, so the numbers are not those of
    the paper. 'outlark experiment' does the same with more methods, or with your own notes.
    """
    from outlark.paper.dataset import Dataset
    from outlark.paper.report import write
    from outlark.paper.run import run

    start, folder, seeds = time.monotonic(), _new_folder(output), range(1, given["seeds"] + 1)
    with counted(given["quiet"], "seeds") as watch, _reported_when_stopped():
        results = run(Dataset.synthetic(), methods=DEMO_METHODS, seeds=seeds, n_jobs=given["jobs"], watch=watch)
    files = write(folder, results, command=f"outlark demo --seeds {given['seeds']}")
    _report(results, files, time.monotonic() - start, given)
