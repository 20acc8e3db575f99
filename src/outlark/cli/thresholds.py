"""`--threshold`, for one class or for all: on `train` for good, elsewhere for the run."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.sources import Sources
from outlark.batch.task import Task
from outlark.errors import InputError

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector

#: What the option gives: the name of a class, or None for all, and a threshold.
Given = tuple[str | None, float]


class Threshold(click.ParamType):
    """X or NAME=X; a name may have an equals sign in it."""

    name = "threshold"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Given:
        if isinstance(value, tuple):
            return value
        name, equals, number = str(value).rpartition("=")
        try:
            threshold = float(number)
        except ValueError:
            threshold = math.nan
        if not 0.0 < threshold < math.inf or (equals and not name):
            self.fail(f"{value!r} is not a threshold; give a number above 0, or NAME=X for one class", param, ctx)
        return name if equals else None, threshold


def option(what: str) -> Any:
    """`--threshold`, as `thresholds`, with what it does for a command."""
    return click.option(
        "--threshold",
        "thresholds",
        multiple=True,
        type=Threshold(),
        metavar="[NAME=]X",
        help=f"Score from which on a sound is a note of the class NAME, or of any class; may be repeated. {what}",
    )


#: For commands that use a model: as `thresholds`.
for_this_run = option("Without it: as the model has it, which stays as it is.")


def by_label(given: Iterable[Given], labels: Sequence[Any]) -> dict[Any, float]:
    """Thresholds by class; one for a class by name comes before one for all.

    >>> by_label([(None, 0.3), ("song", 0.5)], ["alarm", "song"])
    {'alarm': 0.3, 'song': 0.5}

    Raises
    ------
    InputError
        For a class that does not exist, and for two thresholds of one class, or of all.
    """
    from outlark.detection.thresholds import there_are

    chosen: dict[str | None, float] = {}
    for name, threshold in given:
        if name in chosen:
            of = "all classes" if name is None else repr(name)
            raise InputError(f"two thresholds for {of}, {chosen[name]:g} and {threshold:g}; give one of them")
        chosen[name] = threshold
    names = {str(label): label for label in labels}
    for name in chosen:
        if name is not None and name not in names:
            raise InputError(f"--threshold for {name!r}, which is not a class; {there_are(name, labels)}")
    all_of_them = dict.fromkeys(labels, chosen[None]) if None in chosen else {}
    return all_of_them | {names[name]: threshold for name, threshold in chosen.items() if name is not None}


def set_on(detector: "NoteDetector", given: Iterable[Given]) -> None:
    """Set the thresholds that were given, if any."""
    chosen = by_label(given, detector.classes_.tolist())
    if chosen:
        detector.set_thresholds(chosen)


def settings(given: Iterable[Given], detector: "NoteDetector") -> dict[str, Any]:
    """What tables say of thresholds that hold for the run only."""
    chosen = by_label(given, detector.classes_.tolist())
    return {"thresholds": {str(label): value for label, value in chosen.items()}} if chosen else {}


def with_thresholds(task: Task, sources: Sources, given: Mapping[str, Any]) -> Task:
    """The task with thresholds that are set by hand, calibrated on these files, or both."""
    by_hand, calibrate = given["thresholds"], given["calibrate"]
    if not by_hand and not calibrate:
        return task
    from outlark.cli.calibrate import calibrate_and_tell
    from outlark.storage.model_file import load

    detector = load(task.model)
    labels = detector.classes_.tolist()
    chosen = by_label(by_hand, labels)
    if calibrate and len(chosen) == len(labels):
        raise InputError(
            "--threshold for every class leaves nothing to --calibrate, because what is set by hand wins; leave one of "
            "them out, or name some classes only, as in --threshold NAME=X"
        )
    set_on(detector, by_hand)
    if calibrate:
        calibrate_and_tell(detector, task, sources, given["quiet"])
    moved = zip(labels, detector.layout_.thresholds.tolist(), strict=True)
    return replace(task, thresholds=tuple(value if calibrate or label in chosen else None for label, value in moved))
