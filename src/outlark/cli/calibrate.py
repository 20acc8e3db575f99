"""`outlark calibrate`, and thresholds that are set or calibrated for one run of `detect` or `decide`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.journal import sha256_of
from outlark.batch.task import SCORES_SUFFIX, Sources, Task, find
from outlark.cli import options
from outlark.cli.terminal import counted, finish, say_all
from outlark.errors import InputError, OutlarkError, Problem
from outlark.plain_text import Alert, Line, Remark

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector
    from outlark.detection.thresholds import ClassCalibration


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recordings", nargs=-1, required=True, type=click.Path())
@click.option("--output", "-o", type=click.Path(), help="Model file to write. Default: MODEL itself.")
@click.option(
    "--figure", type=click.Path(), help="Also plot the scores and the threshold of each class: .png, .svg or .pdf."
)
@options.channel
@options.reporting
def command(
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

    detector, target = options.read_model(model), output or model
    number = None if isinstance(channel, str) else channel
    failures = _calibrated(detector, sha256_of(model), find(recordings), given["quiet"], number)
    save(detector, target)
    if figure is not None:
        from outlark.commands.figures import calibration_figure, save_figure

        save_figure(calibration_figure(detector.calibration_), figure)
    finish(CalibratedModel(target, sha256_of(target), detector.calibration_, failures), given)


@dataclass(frozen=True)
class CalibratedModel:
    """The result of `outlark calibrate`."""

    output: str
    sha256: str
    classes: "Sequence[ClassCalibration]"
    failures: Sequence[Problem]

    @property
    def incomplete(self) -> bool:
        return bool(self.failures)

    def as_json(self) -> dict[str, Any]:
        classes = [{**asdict(of_class), "moved": of_class.moved} for of_class in self.classes]
        return {"output": self.output, "model_sha256": self.sha256, "classes": classes}

    def lines(self) -> Iterator[Line]:
        yield from map(Remark, _in_words(self.classes))
        yield Remark(f"saved in {self.output}")
        yield from (Alert(f"{name}: {message}") for name, message in self.failures)


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


def _in_words(classes: "Sequence[ClassCalibration]") -> list[str]:
    return [f"{of_class.label}: {of_class.in_words}" for of_class in classes]


def with_thresholds(task: Task, detector: "NoteDetector", sources: Sources, given: Mapping[str, Any]) -> Task:
    """The task with thresholds that are set by hand, as in the detector, calibrated on these files, or both."""
    calibrated, labels = given["calibrate"], detector.classes_.tolist()
    chosen = options.thresholds_by_label(given["thresholds"], labels)
    if calibrated and len(chosen) == len(labels):
        raise InputError(
            "--threshold sets every class, which leaves nothing to --calibrate; omit one of them, or set some classes "
            "only, as in --threshold NAME=X"
        )
    if calibrated:
        # with the decisions of the model, as 'outlark calibrate' does
        detector = options.read_model(task.model)
        options.set_thresholds(detector, given["thresholds"])
        _calibrated(detector, task.model_sha256, sources, given["quiet"], task.channel)  # the run reports failures
        if not given["quiet"]:
            say_all(_in_words(detector.calibration_))
    moved = zip(labels, detector.layout_.thresholds.tolist(), strict=True)
    return replace(task, thresholds=tuple(value if calibrated or label in chosen else None for label, value in moved))
