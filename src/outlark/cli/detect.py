"""`outlark detect`, `decide` and `verify`: notes in many recordings."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.batch.journal import sha256_of
from outlark.batch.task import DECIDE, PART_S, SCORES_SUFFIX, Sources, Task, find
from outlark.cli import options
from outlark.cli.terminal import clock, counted, finish, rate, say, say_all, shown
from outlark.errors import InputError, OutlarkError, Problem
from outlark.plain_text import LINES_SHOWN, Alert, Line, Remark, listed, listing, number_of, on_failures
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.batch.journal import Verified
    from outlark.batch.report import State
    from outlark.batch.run import Driver
    from outlark.detection.detector import NoteDetector
    from outlark.detection.thresholds import ClassCalibration


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recordings", nargs=-1, required=True, type=click.Path())
@options.batch
@options.channel
@click.option(
    "--keep-scores",
    is_flag=True,
    help="Store the scores of all classes, for 'outlark decide'. Memory then grows with the recording.",
)
@click.option(
    "--part-length",
    "part_s",
    type=options.seconds,
    default=PART_S,
    show_default=True,
    help="Analyse longer recordings in parts of this length, in parallel; an interrupted run keeps finished parts. "
    "This never changes a result.",
)
@options.threshold_for_this_run
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Use the workers of a Dask cluster: the address of its scheduler, such as tcp://10.0.0.1:8786, or local, or "
    "local:4 for four workers on this machine.",
)
@options.calibration
@options.decisions
@options.reporting
def command(recordings: tuple[str, ...], channel: int | str, keep_scores: bool, **given: Any) -> None:
    """Find notes in RECORDINGS with a MODEL.

    RECORDINGS are sound files and folders, which are searched with their subfolders. Each recording gets one annotation
    file per format, in the same subfolders of the output folder. An interrupted run resumes when you give the same
    command again.
    """
    number = None if isinstance(channel, str) else channel
    _run(recordings, given, channel=number, keep_scores=keep_scores)


@click.command()
@click.argument("model", type=click.Path())
@click.argument("scores", nargs=-1, required=True, type=click.Path())
@options.batch
@options.threshold_for_this_run
@options.calibration
@options.decisions
@options.reporting
def decide(scores: tuple[str, ...], **given: Any) -> None:
    """Decide again from SCORES that 'outlark detect --keep-scores' stored, without the recordings.

    SCORES are files that end in .scores, and folders that contain such files. MODEL is the model that computed them.
    With the same options, the annotation files are identical to those of 'outlark detect'.
    """
    _run(scores, given, verb=DECIDE)


@click.command()
@click.argument("out", type=click.Path())
@options.reporting
def verify(out: str, **given: Any) -> None:
    """Check that all results in OUT are complete and unchanged.

    OUT is the output folder of 'outlark detect' or 'outlark decide'. Every file that its journal lists is compared with
    the digest taken when it was written. Annotation files that you have edited since are listed, too. Nothing is
    modified.
    """
    from outlark.batch.journal import verify

    with counted(given["quiet"], "recordings checked") as watch:
        found = verify(out, watch)
    finish(Verification(out, found), given)


def _run(paths: Sequence[str], given: Mapping[str, Any], **more: Any) -> None:
    """Run a task; the model and its options are checked before anything is written."""
    detector, sha256 = options.checked_model(given)
    task = Task(
        model=given["model"],
        model_sha256=sha256,
        output=given["output"],
        formats=given["formats"],
        verdicts=options.chosen_verdicts(given["verdicts"], given["everything"]),
        decisions=options.given_decisions(given),
        **more,
    )
    sources = find(paths, (SCORES_SUFFIX,), "scores") if task.verb == DECIDE else find(paths)
    if detector is not None and (given["thresholds"] or given["calibrate"]):
        task = with_thresholds(task, detector, sources, given)
    for option in ("combined", "parquet"):
        if given[option] and "csv" not in task.formats:
            raise click.UsageError(f"--{option} joins files of the format csv; add --format csv")
    if Path(task.output).exists() and not Path(task.output).is_dir():
        raise InputError(f"{task.output} is a file; give a folder for the results with -o")
    from outlark.batch.run import run

    how: dict[str, Any] = {name: given[name] for name in ("jobs", "resume", "parquet")}
    how["combined"] = "csv" in task.formats if given["combined"] is None else given["combined"]
    start = time.monotonic()
    try:
        with shown(given["quiet"]) as watch:
            driver = _cluster(task, given)
            state = run(task, sources, driver=driver, part_s=given.get("part_s", PART_S), **how, watch=watch)
    except KeyboardInterrupt:
        say("\nstopped; give the same command again to resume", err=True)
        raise
    finish(FinishedRun(task, sources, state, time.monotonic() - start), given)


def _cluster(task: Task, given: Mapping[str, Any]) -> "Driver | None":
    if given.get("cluster") is None:
        return None
    try:
        from outlark.batch.cluster import Cluster
    except ImportError as error:
        raise InputError(f'--cluster needs Dask ({error}); install it with: pip install "outlark[cluster]"') from None

    def report(text: str) -> None:
        if not given["quiet"]:
            say(text, err=True)

    return Cluster(task, given["cluster"], given["jobs"], report)


@dataclass(frozen=True)
class FinishedRun:
    """The result of `outlark detect` and `decide`."""

    task: Task
    sources: Sources
    state: "State"
    elapsed_s: float

    @property
    def incomplete(self) -> bool:
        return bool(self.state.failures or self.state.partial)

    def as_json(self) -> dict[str, Any]:
        state = self.state

        def all_of(problems: Sequence[Problem]) -> list[dict[str, str]]:
            return [{"recording": where, "message": message} for where, message in problems]

        return {
            "version": __version__,
            "model_sha256": self.task.model_sha256,
            "output": self.task.output,
            "recordings": state.total,
            "done": state.done,
            "skipped": state.skipped,
            "parts_resumed": state.resumed,
            "failed": len(state.failures),
            "failures": all_of(state.failures),
            "partial": all_of(state.partial),
            "quality": all_of(state.quality),
            "remarks": all_of(state.remarks),
            "changed": state.changed,
            "edited": state.edited,
            "segments": dict(state.segments),
            "seconds_of_sound": round(state.seconds, 3),
            "seconds_taken": round(self.elapsed_s, 3),
            "combined": None if state.combined is None else str(state.combined),
            "parquet": None if state.parquet is None else str(state.parquet),
        }

    def lines(self) -> Iterator[Line]:
        state = self.state
        for same in self.sources.same[:LINES_SHOWN]:
            yield Remark(f"Note: {same.message}")
        yield Remark(f"{'; '.join(self._counts())}; results in {self.task.output}")
        for name in state.edited:
            yield Alert(
                f"Note: {name}: a file edited since it was written, kept under this name; the run wrote it anew"
            )
        yield from on_failures(state.failures, state.failures_file)
        yield from on_failures(state.partial, state.failures_file, "processed in part")
        little = on_failures(state.quality, state.failures_file, "with little to hear, which is no failure")
        yield from map(Remark, [*little, *on_failures(state.remarks, state.remarks_file, "with remarks")])

    def _counts(self) -> Iterator[str]:
        state = self.state
        speed = f", {rate(state.seconds, self.elapsed_s)} × real time" if state.seconds else ""
        yield f"{state.done} of {number_of(state.total, 'file')} processed in {clock(self.elapsed_s)}{speed}"
        if state.skipped:
            yield f"{state.skipped} already done"
        if state.resumed:
            yield f"{number_of(state.resumed, 'part')} of long recordings already done"
        if state.changed:
            yield f"{len(state.changed)} processed again because the recording had changed"
        yield ", ".join(f"{count} {verdict}" for verdict, count in state.segments.items())


@dataclass(frozen=True)
class Verification:
    """The result of `outlark verify`."""

    output: str
    found: "Verified"

    @property
    def incomplete(self) -> bool:
        return bool(self.found.wrong)

    def as_json(self) -> dict[str, Any]:
        found = self.found
        wrong = [one._asdict() for one in found.wrong]
        return {"output": self.output, "recordings": found.recordings, "files": found.files, "wrong": wrong}

    def lines(self) -> Iterator[Line]:
        found = self.found
        state = f"{len(found.wrong)} missing or changed" if found.wrong else "all complete and unchanged"
        yield Remark(f"{found.files} files of {found.recordings} recordings in {self.output}: {state}")
        wrong = [f"{one.file} {one.message}" for one in found.wrong]
        yield from (Alert(f"  {line}") for line in listed(wrong, "; --json lists them all"))
        yield from map(Remark, self._advice())

    def _advice(self) -> Iterator[str]:
        """What to do about files that are missing or changed, so that nobody's edits are lost."""
        from outlark.batch.journal import EDITED_SUFFIX, FILE_MISSING

        missing = {one.recording for one in self.found.wrong if one.message == FILE_MISSING}
        changed = {one.recording for one in self.found.wrong if one.message != FILE_MISSING}
        if missing & changed:
            yield (
                f"{listing(sorted(missing & changed))}: some files are missing and others changed; 'outlark detect' "
                "with the same options writes all of them anew and keeps the changed ones as NAME" + EDITED_SUFFIX
            )
        if missing - changed:
            yield "run 'outlark detect' with the same options to write missing files again"
        if changed - missing:
            yield "changed files were edited, or are damaged; 'outlark detect' leaves them as they are"


# ----------------------------------------------------------------- calibration


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
