"""`outlark calibrate`, and the options --threshold and --calibrate of the commands that use a model."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.journal import sha256_of
from outlark.batch.task import SCORES_SUFFIX, Sources, Task, find
from outlark.cli import options
from outlark.cli.terminal import UNREADABLE, answer, counted, say
from outlark.errors import InputError, ModelFileError, OutlarkError, Problem

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector

#: A value of --threshold: the name of a class, or None for all, and a threshold.
Given = tuple[str | None, float]


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recordings", nargs=-1, required=True, type=click.Path())
@click.option("--output", "-o", type=click.Path(), help="Model file to write. Default: MODEL itself.")
@click.option(
    "--figure", type=click.Path(), help="Also plot the scores and the threshold of each class: .png, .svg or .pdf."
)
@options.channel
@options.reporting
def calibrate(
    model: str, recordings: tuple[str, ...], output: str | None, figure: str | None, channel: int | str, **given: Any
) -> None:
    """Fit the thresholds of a MODEL to RECORDINGS, which need no labels.

    RECORDINGS are sound files and folders: the ones you are going to search, or a few hours of them. The threshold of
    each class moves into the gap between the scores of its notes and those of all other sounds, near the value from
    training. A class keeps its threshold if there are too few sounds on either side of the gap, or if you set the
    threshold by hand; both are reported. The model keeps the thresholds from training, and calibrating again starts
    from them.
    """
    from outlark.model_file import save

    detector = read_model(model)
    number = None if isinstance(channel, str) else channel
    failures = _calibrated(detector, sha256_of(model), find(recordings), given["quiet"], number)
    save(detector, output or model)
    if figure is not None:
        from outlark.commands.figures import calibration_figure, save_figure

        save_figure(calibration_figure(detector.calibration_), figure)
    if not given["quiet"]:
        _report(detector)
        say(f"saved in {output or model}", err=True)
    for name, message in failures:
        say(f"{name}: {message}", err=True)
    if given["as_json"]:
        classes = [{**asdict(of_class), "moved": of_class.moved} for of_class in detector.calibration_]
        answer({"output": output or model, "model_sha256": sha256_of(output or model), "classes": classes})
    click.get_current_context().exit(UNREADABLE if failures else 0)


def _calibrated(
    detector: "NoteDetector", model_sha256: str, sources: Sources, quiet: bool, channel: int | None
) -> list[Problem]:
    """Calibrate on all recordings, or stored scores, that can be read; the names of the others, and why."""
    from outlark.batch.engine import opened
    from outlark.detection.scores_file import load_scores
    from outlark.model_file import scoring_sha256

    digests = model_sha256, scoring_sha256(detector)
    peaks, failures = [], [*sources.failures]
    with counted(quiet, "recordings analysed") as progress:
        for number, source in enumerate(sources.files, start=1):
            try:
                stored = str(source.path).endswith(SCORES_SUFFIX)
                heard: Any = load_scores(source.path, *digests).scores if stored else opened(source.path, channel)
                peaks.append(detector.peaks(heard))
            except OutlarkError as error:
                failures.append(Problem(source.name, str(error)))
            progress(number, len(sources.files))
    detector.calibrate_peaks(peaks)
    return failures


def _report(detector: "NoteDetector") -> None:
    for of_class in detector.calibration_:
        say(f"{of_class.label}: {of_class.in_words}", err=True)


# ----------------------------------------------------------------- --threshold


def threshold(value: str) -> Given:
    """The type of --threshold: X or NAME=X; a name may contain an equals sign."""
    name, equals, number = value.rpartition("=")
    try:
        found = float(number)
    except ValueError:
        found = math.nan
    if not 0.0 < found < math.inf or (equals and not name):
        raise click.BadParameter(f"{value!r} is not a threshold; give a number above 0, or NAME=X for one class")
    return name if equals else None, found


def option(what: str) -> Any:
    """`--threshold`, as `thresholds`, with what it does for a command."""
    return click.option(
        "--threshold",
        "thresholds",
        multiple=True,
        type=threshold,
        metavar="[NAME=]X",
        help=f"Lowest score that counts as a note, for all classes or for the class NAME. Repeatable. {what}",
    )


#: For commands that use a model: as `thresholds`.
for_this_run = option("For this run only. Default: the thresholds of the model.")


def by_label(given: Iterable[Given], labels: Sequence[Any]) -> dict[Any, float]:
    """Thresholds by class; one for a class by name takes precedence over one for all.

    >>> by_label([(None, 0.3), ("song", 0.5)], ["alarm", "song"])
    {'alarm': 0.3, 'song': 0.5}
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
            raise InputError(f"--threshold: the model has no class {name!r}; {there_are(name, labels)}")
    all_of_them = dict.fromkeys(labels, chosen[None]) if None in chosen else {}
    return all_of_them | {names[name]: threshold for name, threshold in chosen.items() if name is not None}


def settings(given: Iterable[Given], detector: "NoteDetector") -> dict[str, Any]:
    """What annotation files record of thresholds that were set for one run."""
    chosen = by_label(given, detector.classes_.tolist())
    return {"thresholds": {str(label): value for label, value in chosen.items()}} if chosen else {}


def with_thresholds(task: Task, detector: "NoteDetector | None", sources: Sources, given: Mapping[str, Any]) -> Task:
    """The task with thresholds that are set by hand, as in the detector, calibrated on these files, or both."""
    calibrated = given["calibrate"]
    if detector is None or not (given["thresholds"] or calibrated):
        return task
    labels = detector.classes_.tolist()
    chosen = by_label(given["thresholds"], labels)
    if calibrated and len(chosen) == len(labels):
        raise InputError(
            "--threshold sets every class, which leaves nothing to --calibrate; omit one of them, or set some classes "
            "only, as in --threshold NAME=X"
        )
    if calibrated:
        # with the decisions of the model, as 'outlark calibrate' does
        detector = read_model(task.model)
        _set_on(detector, given["thresholds"])
        _calibrated(detector, task.model_sha256, sources, given["quiet"], task.channel)  # the run reports failures
        if not given["quiet"]:
            _report(detector)
    moved = zip(labels, detector.layout_.thresholds.tolist(), strict=True)
    return replace(task, thresholds=tuple(value if calibrated or label in chosen else None for label, value in moved))


def read_model(path: str | os.PathLike[str]) -> "NoteDetector":
    """The detector in a file."""
    from outlark.model_file import load

    _check_there(path)
    return load(path)


def _check_there(path: str | os.PathLike[str]) -> None:
    if not os.path.exists(path):
        raise ModelFileError(f"there is no model file {path}; check the path, or train a model with 'outlark train'")


def _set_on(detector: "NoteDetector", given: Iterable[Given]) -> None:
    chosen = by_label(given, detector.classes_.tolist())
    if chosen:
        detector.set_thresholds(chosen)


def checked_model(given: Mapping[str, Any]) -> "tuple[NoteDetector | None, str]":
    """The detector of `detector_of`, if options depend on it or its file is out of the ordinary; and the digest.

    Otherwise only the file is checked: loading a detector takes a second, which a run leaves to its workers.
    """
    from outlark.files.container import MODEL_VERSION, read

    if given["thresholds"] or given["calibrate"] or options.given_decisions(given):
        return detector_of(given)
    _check_there(given["model"])
    header, _ = read(given["model"])
    if (header.get("kind"), header.get("version"), header.get("embedding")) != ("NoteDetector", MODEL_VERSION, None):
        return detector_of(given)
    return None, sha256_of(given["model"])


def detector_of(given: Mapping[str, Any]) -> "tuple[NoteDetector, str]":
    """The detector in the file `model` with the given decisions and thresholds, and the digest of the file."""
    detector = read_model(given["model"])
    detector.set_params(**{f"decisions__{name}": value for name, value in options.given_decisions(given).items()})
    _set_on(detector, given["thresholds"])
    detector.try_out()  # reports values that do not fit before any work is done
    return detector, sha256_of(given["model"])
