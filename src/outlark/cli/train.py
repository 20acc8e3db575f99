"""`outlark train`: a model from examples, or from a model and corrected annotations."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlark.batch.journal import sha256_of
from outlark.cli import options
from outlark.cli.terminal import finish, steps
from outlark.errors import InputError, ModelFileError
from outlark.plain_text import ProgressCallback, number_of

if TYPE_CHECKING:
    from outlark.commands.train.examples import Examples
    from outlark.commands.train.learning import Learnt
    from outlark.embeddings import BirdNET

#: Options that cannot be changed when a model is trained again.
SETTLED = ("paper", "embedding", "trim")


class Plan(NamedTuple):
    """The classes, the number of training notes if it is known yet, and how to learn from them."""

    labels: Sequence[Any]
    n_notes: int | None
    learn: "Callable[[ProgressCallback], Learnt]"


@click.command()
@click.argument("examples", nargs=-1, type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="Model file to write, such as model.outlark.")
@options.names("--class", "classes", "Learn only this class. Repeatable. Default: all classes that have examples.")
@options.whole_number(
    "--max-examples",
    "max_examples",
    help="Use at most N examples and N negatives per class, spread evenly and always the same. Default with --from: 20 "
    "examples, or as many as the model has, and 100 negatives.",
)
@options.paths(
    "--negative",
    "negatives",
    "PATH",
    "Annotation files, or folders of annotation files or clips, whose labels say what a sound is not, such as "
    "false alarms. Repeatable. Among the examples, the label -NAME means the same.",
)
@click.option(
    "--from",
    "parent",
    type=click.Path(),
    metavar="MODEL",
    help="Train this model again, on its own examples and on EXAMPLES, which are corrected annotation files.",
)
@options.paths(
    "--found",
    "found",
    "PATH",
    "With --from: the output of 'outlark detect' before you corrected it. Rows that you deleted or relabelled "
    "become negatives. Repeatable.",
)
@options.reading
@options.format_option(
    "--format",
    "-f",
    help="Format of the annotation files. Default: recognised from content and name. See 'outlark formats'.",
)
@options.channel
@click.option("--paper", is_flag=True, help="Use the system as published instead of the one that works best.")
@click.option(
    "--embedding",
    type=click.Choice(["birdnet"]),
    help="Add a second stage for data with songs of other birds and places: BirdNET also judges every candidate note. "
    'Needs pip install "outlark[embeddings]"; BirdNET is for non-commercial use.',
)
@click.option(
    "--trim", is_flag=True, help="Trim the quiet margins of clips. Digital silence at their ends is always removed."
)
@options.threshold_option("Stored in the model. Default: derived from the examples.")
@click.option("--force", is_flag=True, help="Replace an existing model.")
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Look for mistakes that the model is likely to make, as 'outlark doctor' does, and report problems.",
)
@options.reporting
def command(examples: tuple[str, ...], **given: Any) -> None:
    """Learn classes of notes from EXAMPLES and write a model.

    EXAMPLES are a folder with one subfolder of clips per class, each clip one note; or annotation files in any format,
    with their recordings beside them or in --audio; or a folder of annotation files. You do not need to annotate every
    note: a few of each class are enough. With --from, EXAMPLES are annotation files that 'outlark detect' wrote and you
    corrected.
    """
    _check_usage(examples, given)
    _check_output(Path(given["output"]), given["force"])
    from outlark.commands.doctor import problems_of
    from outlark.model_file import save

    start, output = time.monotonic(), given["output"]
    with steps(given["quiet"]) as show:
        plan = _from_examples(examples, given) if given["parent"] is None else _from_a_model(examples, given)
        learnt = _learn(plan, given, show)
        if given["check"]:
            show("testing the model on sounds that are not notes")
            learnt = replace(learnt, problems=problems_of(learnt.detector))
    save(learnt.detector, output)
    facts = {"output": output, "sha256": sha256_of(output), "seconds_taken": time.monotonic() - start}
    finish(replace(learnt, **facts, with_names=bool(given["max_examples"])), given)


def _check_usage(examples: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse options that do not go together."""
    if given["parent"] is None:
        if not examples:
            raise click.UsageError("Missing argument 'EXAMPLES...'.")
        if given["found"]:
            raise click.UsageError("--found is only for training a model again; give --from MODEL as well.")
    elif not examples and (given["found"] or not given["negatives"]):
        raise click.UsageError("Give the corrected annotation files: outlark train --from MODEL CORRECTED -o NEW.")
    settled = [name for name in SETTLED if given["parent"] is not None and given[name]]
    if settled:
        raise click.UsageError(f"--{settled[0]} cannot be changed when a model is trained again; omit --from.")
    if given["paper"] and given["embedding"]:
        raise InputError("--paper is the system as published, which has no --embedding; give one of them")


def _check_output(output: Path, force: bool) -> None:
    """Fail now rather than after training; and never replace anything but a model."""
    from outlark.files.container import read

    if not output.parent.is_dir():
        raise InputError(f"the folder {output.parent} does not exist; create it first, or choose another")
    if not output.exists():
        return
    if output.is_dir():
        raise InputError(f"{output} is a folder; give the name of a model file, such as {output / 'model.outlark'}")
    try:
        read(output)
    except ModelFileError as error:
        raise InputError(
            f"{output} exists and is not a model, so it is not replaced ({error}); choose another"
        ) from None
    if not force:
        raise InputError(f"{output} already exists; choose another name, or replace it with --force")


# ------------------------------------------------------------- what is learnt


def _from_examples(paths: Sequence[str], given: Mapping[str, Any]) -> Plan:
    from outlark.commands.train.examples import find_examples, told_apart
    from outlark.commands.train.learning import learn
    from outlark.detection.detector import NoteDetector
    from outlark.paper.detector import FrameDetector

    found = told_apart(find_examples(paths, any_verdict=True, **_reading(given)), named=given["classes"])
    if not found.notes:
        raise InputError(f"no examples in {', '.join(paths)} ({'; '.join(found.remarks)}); give at least one")
    if given["classes"]:
        found = found.of_classes(given["classes"])
    found = _with_negatives(found, given, found.labels)
    if given["paper"] and found.negatives:
        raise InputError("--paper is the system as published, which has no negatives; omit one of them")
    found = found.at_most(given["max_examples"]) if given["max_examples"] else found

    def learnt(watch: ProgressCallback) -> "Learnt":
        detector = FrameDetector.paper() if given["paper"] else NoteDetector(embedding=_embedding(given["embedding"]))
        return learn(found, detector, channel=_channel(given), trim=given["trim"], watch=watch)

    return Plan(found.labels, len(found.notes), learnt)


def _from_a_model(paths: Sequence[str], given: Mapping[str, Any]) -> Plan:
    from outlark.commands.train.retraining import Parent, retrain, reviewed

    path = Path(given["parent"])
    parent = Parent(path=path, detector=options.read_model(path), sha256=sha256_of(path))
    new = reviewed(parent.classes, paths, found_in=given["found"], named=given["classes"], **_reading(given))
    if given["classes"]:
        notes, negatives = (tuple(n for n in own if n.label in given["classes"]) for own in (new.notes, new.negatives))
        new = replace(new, notes=notes, negatives=negatives)
    labels = list(dict.fromkeys([*parent.classes, *new.labels]))
    new = _with_negatives(new, given, labels)
    more = {"audio": given["audio"], "max_examples": given["max_examples"], "channel": _channel(given)}
    return Plan(labels, None, lambda watch: retrain(parent, new, watch=watch, **more))


def _with_negatives(examples: "Examples", given: Mapping[str, Any], classes: Sequence[str]) -> "Examples":
    from outlark.commands.train.examples import find_examples, with_negatives

    if not given["negatives"]:
        return examples
    found = find_examples(given["negatives"], any_verdict=True, of_models=True, **_reading(given))
    return with_negatives(examples, found, set(classes), chosen=bool(given["classes"]))


def _reading(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("audio", "format", "label_column")}


def _channel(given: Mapping[str, Any]) -> int | str:
    return options.channel_index(given["channel"])


def _embedding(name: str | None) -> "BirdNET | None":
    if name is None:
        return None
    from outlark.embeddings import BirdNET

    return BirdNET(output="species", keep=False)


def _learn(plan: Plan, given: Mapping[str, Any], show: Callable[[str], None]) -> "Learnt":
    """What was learnt, with the warnings on the way among its remarks."""

    def watch(done: int, total: int) -> None:
        learning = "learning" if plan.n_notes is None else f"learning from {number_of(plan.n_notes, 'note')}"
        show(f"{done} of {number_of(total, 'file')} read" if done < total else learning)

    by_hand = options.thresholds_by_label(given["thresholds"], plan.labels)  # reports mistakes before training
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        learnt = plan.learn(watch)
    if by_hand:
        learnt.detector.set_thresholds(by_hand)
    warned = dict.fromkeys(str(warning.message) for warning in caught)
    return replace(learnt, remarks=(*learnt.remarks, *warned))
