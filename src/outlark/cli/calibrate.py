"""`outlark calibrate`: thresholds from the recordings that are to be searched, without labels."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.sources import Sources, find
from outlark.batch.task import SCORES, Task, sha256_of
from outlark.cli import options
from outlark.cli.main import UNREADABLE
from outlark.cli.say import answer, say
from outlark.cli.steps import counted

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recordings", nargs=-1, required=True, type=click.Path())
@click.option("--output", "-o", type=click.Path(), help="The model to write. Without it: MODEL itself.")
@click.option(
    "--figure", type=click.Path(), help="Also draw the scores of each class and its threshold: .png, .svg or .pdf."
)
@options.channel
@options.reporting
def command(
    model: str,
    recordings: tuple[str, ...],
    output: str | None,
    figure: str | None,
    channel: int | str,
    **given: Any,
) -> None:
    """Fit the thresholds of a MODEL to RECORDINGS, which need no labels.

    RECORDINGS are sound files and folders: those that are to be searched, or some hours of them. The threshold of each
    class moves to the valley between the scores of its notes and those of all else, near where training has put it. A
    class with too few sounds on either side keeps its threshold, and so does one whose threshold was set by hand; the
    output says so. The thresholds of the training stay in the model, and calibrating again starts from them.
    """
    from outlark.storage.model_file import load, save

    detector = load(model)
    number = None if isinstance(channel, str) else channel
    failures = calibrate(detector, sha256_of(model), find(recordings), given["quiet"], number)
    save(detector, output or model)
    if figure is not None:
        from outlark.commands.calibration_figure import calibration_figure
        from outlark.commands.plot.figure import save as save_figure

        save_figure(calibration_figure(detector.calibration_), figure)
    if not given["quiet"]:
        tell(detector)
        say(f"in {output or model}", err=True)
    for name, message in failures:
        say(f"{name}: {message}", err=True)
    if given["as_json"]:
        classes = [{**asdict(of_class), "moved": of_class.moved} for of_class in detector.calibration_]
        answer({"output": output or model, "model_sha256": sha256_of(output or model), "classes": classes})
    click.get_current_context().exit(UNREADABLE if failures else 0)


def calibrate(
    detector: "NoteDetector", model_sha256: str, sources: Sources, quiet: bool, channel: int | None = None
) -> list[tuple[str, str]]:
    """Calibrate on all recordings, or kept scores, that can be read; the others by name, and why not."""
    from outlark.batch.hearing import opened
    from outlark.detection.scores_file import load_scores
    from outlark.errors import OutlarkError

    peaks, failures = [], [(failure.name, failure.message) for failure in sources.failures]
    with counted(quiet, "recordings heard") as progress:
        for number, source in enumerate(sources.files, start=1):
            try:
                kept = str(source.path).endswith(SCORES)
                heard: Any = load_scores(source.path, model_sha256).scores if kept else opened(source.path, channel)
                peaks.append(detector.peaks(heard))
            except OutlarkError as error:
                failures.append((source.name, str(error)))
            progress(number, len(sources.files))
    detector.calibrate_peaks(peaks)
    return failures


def calibrate_and_tell(detector: "NoteDetector", task: Task, sources: Sources, quiet: bool) -> None:
    """Calibrate on the files of a task; what cannot be read will be told by the run."""
    calibrate(detector, task.model_sha256, sources, quiet, task.channel)
    if not quiet:
        tell(detector)


def tell(detector: "NoteDetector") -> None:
    """What became of the threshold of each class, on standard error."""
    for of_class in detector.calibration_:
        say(f"{of_class.label}: {of_class.in_words}", err=True)
