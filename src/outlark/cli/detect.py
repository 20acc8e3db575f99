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
from outlark.errors import InputError, Problem
from outlark.plain_text import LINES_SHOWN, Alert, Line, Remark, listed, listing, number_of, on_failures
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.batch.calibration import Calibrated
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
@options.kept_calibration
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
    the digest taken when it was written, and combined.csv with the files that it combines. Annotation files that you
    have edited since are listed, too. Nothing is modified.
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
    if detector is not None and given["thresholds"]:
        task = _with_thresholds(task, detector, given)
    for option in ("combined", "parquet"):
        if given[option] and "csv" not in task.formats:
            raise click.UsageError(f"--{option} joins files of the format csv; add --format csv")
    if Path(task.output).exists() and not Path(task.output).is_dir():
        raise InputError(f"{task.output} is a file; give a folder for the results with -o")
    task, calibration = _calibrated_task(task, sources, given)
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
    finish(FinishedRun(task, sources, state, time.monotonic() - start, calibration), given)


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
    calibration: "Calibrated | None" = None

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
            "calibration": None if self.calibration is None else _as_json(self.calibration.classes),
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
        from outlark.batch.journal import COMBINED_DIFFERS, EDITED_SUFFIX, FILE_MISSING

        if any(one.message == COMBINED_DIFFERS for one in self.found.wrong):
            yield "combined.csv is not up to date: run 'outlark detect' with the same options to write it anew"
        wrong = [one for one in self.found.wrong if one.message != COMBINED_DIFFERS]
        missing = {one.recording for one in wrong if one.message == FILE_MISSING}
        changed = {one.recording for one in wrong if one.message != FILE_MISSING}
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
    failures = _calibrate_on_all(detector, sha256_of(model), find(recordings), given["quiet"], number)
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
        return {"output": self.output, "model_sha256": self.sha256, "classes": _as_json(self.classes)}

    def lines(self) -> Iterator[Line]:
        yield from map(Remark, _in_words(self.classes))
        yield Remark(f"saved in {self.output}")
        yield from (Alert(f"{name}: {message}") for name, message in self.failures)


def _calibrate_on_all(
    detector: "NoteDetector", model_sha256: str, sources: Sources, quiet: bool, channel: int | None
) -> list[Problem]:
    """Calibrate on all recordings, or stored scores, that can be read; the names of the others, and why."""
    from outlark.batch.calibration import peaks_of_all

    with counted(quiet, "recordings analysed") as watch:
        peaks, failures = peaks_of_all(detector, model_sha256, sources, channel, watch)
    detector.calibrate_peaks(peaks)
    return failures


def _as_json(classes: "Sequence[ClassCalibration]") -> list[dict[str, Any]]:
    return [{**asdict(of_class), "moved": of_class.moved} for of_class in classes]


def _in_words(classes: "Sequence[ClassCalibration]") -> list[str]:
    return [f"{of_class.label}: {of_class.in_words}" for of_class in classes]


def _with_thresholds(task: Task, detector: "NoteDetector", given: Mapping[str, Any]) -> Task:
    """The task with the thresholds that are set by hand, as in the detector."""
    labels = detector.classes_.tolist()
    chosen = options.thresholds_by_label(given["thresholds"], labels)
    if given["calibrate"] and len(chosen) == len(labels):
        raise InputError(
            "--threshold sets every class, which leaves nothing to --calibrate; omit one of them, or set some classes "
            "only, as in --threshold NAME=X"
        )
    values = zip(labels, detector.layout_.thresholds.tolist(), strict=True)
    return replace(task, thresholds=tuple(value if label in chosen else None for label, value in values))


def _calibrated_task(task: Task, sources: Sources, given: Mapping[str, Any]) -> "tuple[Task, Calibrated | None]":
    """The task with thresholds that are fitted to the recordings, if they are, and how; the user is told."""
    from outlark.batch import calibration

    wanted, decides = given["calibrate"], task.verb == DECIDE
    if wanted is False or (wanted is None and (decides or _all_by_hand(task))):
        return (_with_those_of_the_model(task) if decides and wanted is False else task), None
    former = calibration.of_former_results(task) if given["resume"] else None
    if former is not None and (wanted is None or former.get("calibrated") is not None):
        return _as_before(task, former, given), None
    if wanted is None and len(sources.files) == 1:
        return task, None
    detector = options.read_model(task.model)  # with its own decisions, as 'outlark calibrate' does
    if wanted is None and not _can_be_calibrated(detector):
        return task, None
    if decides:
        _calibrate_on_all(detector, task.model_sha256, sources, given["quiet"], task.channel)
        found = calibration.Calibrated(tuple(detector.calibration_), len(sources.files), 0.0)
    else:
        with counted(given["quiet"], "recordings heard") as watch:
            found = calibration.calibrated_on_sample(detector, sources, task.channel, watch)
    if not given["quiet"]:
        say_all([_on_sample(found, len(sources.files)), *_in_words(_with_those_by_hand(found.classes, task))])
    return replace(task, calibrated=found.thresholds), found


def _as_before(task: Task, former: Mapping[str, Any], given: Mapping[str, Any]) -> Task:
    """With the thresholds of the results that are there, so that all are of one kind."""
    calibrated = former.get("calibrated")
    if calibrated is None:
        return task
    if not given["quiet"]:
        say("thresholds as fitted for the results that are there; --no-resume fits them again", err=True)
    return replace(task, calibrated=tuple(calibrated))


def _with_those_of_the_model(task: Task) -> Task:
    return replace(task, calibrated=(None,) * len(options.read_model(task.model).classes_))


def _with_those_by_hand(classes: "Sequence[ClassCalibration]", task: Task) -> "list[ClassCalibration]":
    by_hand = zip(classes, task.thresholds or [None] * len(classes), strict=True)
    return [c if value is None else replace(c, threshold=value, by_hand=True) for c, value in by_hand]


def _all_by_hand(task: Task) -> bool:
    return task.thresholds is not None and None not in task.thresholds


def _can_be_calibrated(detector: "NoteDetector") -> bool:
    """Whether recordings can move its thresholds, and have not yet; those of an embedding are another matter."""
    model = detector.note_model_
    return model is not None and model.contrast_db is not None and not (model.calibration or model.second_stage)


def _on_sample(found: "Calibrated", n_files: int) -> str:
    heard = f", {clock(found.seconds)} of sound" if found.seconds else ""
    return f"thresholds fitted to {found.n_heard} of {number_of(n_files, 'file')}{heard}:"
