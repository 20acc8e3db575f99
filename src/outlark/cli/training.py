"""What `outlark train` is to learn from: examples, negatives, and a model that is trained again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlark.batch.task import sha256_of
from outlark.cli import options
from outlark.errors import InputError

if TYPE_CHECKING:
    from outlark.commands.train.examples import Examples
    from outlark.commands.train.learning import Learnt
    from outlark.embeddings import BirdNET

#: How many files of how many have been read.
Watch = Callable[[int, int], None]
#: What a model that is trained again has settled.
SETTLED = ("paper", "embedding", "trim")


class Plan(NamedTuple):
    """The classes, how many notes there are to learn from, as far as it is known, and how to learn from them."""

    labels: Sequence[Any]
    n_notes: int | None
    learn: "Callable[[Watch], Learnt]"


#: --negative, --from and --found, as `negatives`, `parent` and `found`.
more = options.options_together(
    click.option(
        "--negative",
        "negatives",
        multiple=True,
        type=click.Path(),
        metavar="PATH",
        help="Annotation files, or folders of them or of clips, in which a label says what a sound is not, such as "
        "false alarms; may be given several times. Among the examples, -NAME says the same.",
    ),
    click.option(
        "--from",
        "parent",
        type=click.Path(),
        metavar="MODEL",
        help="Train this model again, on its own examples and on EXAMPLES: corrected annotation files.",
    ),
    click.option(
        "--found",
        multiple=True,
        type=click.Path(),
        metavar="PATH",
        help="With --from: what 'outlark detect' wrote before it was corrected. What was deleted or has another label "
        "now is a negative.",
    ),
)


def check_usage(examples: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse what does not go together."""
    if given["parent"] is None:
        if not examples:
            raise click.UsageError("Missing argument 'EXAMPLES...'.")
        if given["found"]:
            raise click.UsageError("--found is for a model that is trained again; give --from MODEL as well.")
    elif not examples and (given["found"] or not given["negatives"]):
        raise click.UsageError("Give the corrected annotation files: outlark train --from MODEL CORRECTED -o NEW.")
    settled = [name for name in SETTLED if given["parent"] is not None and given[name]]
    if settled:
        raise click.UsageError(f"--{settled[0]} cannot be changed when a model is trained again; leave out --from.")
    if given["paper"] and given["embedding"]:
        raise InputError("--paper is the system of the paper to the letter, which has no --embedding; give one of them")


def plan(paths: Sequence[str], given: Mapping[str, Any]) -> Plan:
    """What is learnt, once everything is found."""
    return _from_examples(paths, given) if given["parent"] is None else _from_a_model(paths, given)


def _from_examples(paths: Sequence[str], given: Mapping[str, Any]) -> Plan:
    from outlark.commands.train.examples import find_examples
    from outlark.commands.train.learning import learn
    from outlark.commands.train.negatives import told_apart
    from outlark.detection.detector import NoteDetector

    found = told_apart(find_examples(paths, any_verdict=True, **_tables(given)), named=given["classes"])
    if not found.notes:
        raise InputError(f"no examples in {', '.join(paths)} ({'; '.join(found.remarks)}); give at least one")
    if given["classes"]:
        found = found.of_classes(given["classes"])
    found = _with_negatives(found, given, found.labels)
    if given["paper"] and found.negatives:
        raise InputError("--paper is the system of the paper to the letter, which knows no negatives; leave one out")
    found = found.at_most(given["max_examples"]) if given["max_examples"] else found

    def learnt(watch: Watch) -> "Learnt":
        detector = NoteDetector.paper() if given["paper"] else NoteDetector(embedding=_embedding(given["embedding"]))
        return learn(found, detector, channel=_channel(given), trim=given["trim"], watch=watch)

    return Plan(found.labels, len(found.notes), learnt)


def _from_a_model(paths: Sequence[str], given: Mapping[str, Any]) -> Plan:
    from outlark.commands.train.retraining import Parent, retrain, reviewed
    from outlark.storage.model_file import load

    path = Path(given["parent"])
    parent = Parent(path=path, sha256=sha256_of(path), detector=load(path))
    new = reviewed(parent, paths, found_in=given["found"], named=given["classes"], **_tables(given))
    if given["classes"]:
        notes, negatives = (tuple(n for n in own if n.label in given["classes"]) for own in (new.notes, new.negatives))
        new = replace(new, notes=notes, negatives=negatives)
    labels = list(dict.fromkeys([*parent.classes, *new.labels]))
    new = _with_negatives(new, given, labels)
    more = {"audio": given["audio"], "max_examples": given["max_examples"], "channel": _channel(given)}
    return Plan(labels, None, lambda watch: retrain(parent, new, watch=watch, **more))


def _with_negatives(examples: "Examples", given: Mapping[str, Any], classes: Sequence[str]) -> "Examples":
    from outlark.commands.train.examples import find_examples
    from outlark.commands.train.negatives import with_negatives

    if not given["negatives"]:
        return examples
    found = find_examples(given["negatives"], any_verdict=True, **_tables(given))
    return with_negatives(examples, found, set(classes))


def _tables(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("audio", "format", "label_column")}


def _channel(given: Mapping[str, Any]) -> int | str:
    return options.channel_index(given["channel"])


def _embedding(name: str | None) -> "BirdNET | None":
    if name is None:
        return None
    from outlark.embeddings import BirdNET

    return BirdNET(output="species", keep=False)
