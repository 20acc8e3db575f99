"""`outlark detect`, `decide` and `verify`: notes in many recordings."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from outlark.batch.edited import SUFFIX as EDITED
from outlark.batch.journal import MISSING, Verified
from outlark.batch.report import Report
from outlark.batch.run import run
from outlark.batch.sources import Failure, Sources, find
from outlark.batch.task import DECIDE, SCORES, Task
from outlark.batch.unit import PART_S, Driver
from outlark.cli import options, thresholds
from outlark.cli.terminal import UNREADABLE, answer, clock, counted, rate, say, say_all, shown
from outlark.commands import LINES_SHOWN as LISTED
from outlark.commands import listing, on_failures
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.version import __version__


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
@thresholds.for_this_run
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
    _work_through(recordings, given, channel=number, keep_scores=keep_scores)


@click.command()
@click.argument("model", type=click.Path())
@click.argument("scores", nargs=-1, required=True, type=click.Path())
@options.batch
@thresholds.for_this_run
@options.calibration
@options.decisions
@options.reporting
def decide(scores: tuple[str, ...], **given: Any) -> None:
    """Decide again from SCORES that 'outlark detect --keep-scores' stored, without the recordings.

    SCORES are files that end in .scores, and folders that contain such files. MODEL is the model that computed them.
    With the same options, the annotation files are identical to those of 'outlark detect'.
    """
    _work_through(scores, given, verb=DECIDE)


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
    if not given["quiet"]:
        state = f"{len(found.wrong)} missing or changed" if found.wrong else "all complete and unchanged"
        say(f"{found.files} files of {found.recordings} recordings in {out}: {state}", err=True)
    for wrong in found.wrong[:LISTED]:
        say(f"  {wrong.file} {wrong.message}", err=True)
    if len(found.wrong) > LISTED:
        say(f"  … and {len(found.wrong) - LISTED} more; --json lists them all", err=True)
    if not given["quiet"]:
        for advice in _advice(found):
            say(advice, err=True)
    if given["as_json"]:
        answer({"output": out, **asdict(found)})
    click.get_current_context().exit(UNREADABLE if found.wrong else 0)


def _advice(found: Verified) -> list[str]:
    """What to do about files that are missing or changed, so that nobody's edits are lost."""
    missing = {wrong.recording for wrong in found.wrong if wrong.message == MISSING}
    changed = {wrong.recording for wrong in found.wrong} - missing
    both = {wrong.recording for wrong in found.wrong if wrong.message != MISSING} & missing
    said = []
    if both:
        said.append(
            f"{listing(sorted(both))}: some files are missing and others changed; 'outlark detect' with the same "
            f"options writes all of them anew and keeps the changed ones as NAME{EDITED}"
        )
    if missing - both:
        said.append("run 'outlark detect' with the same options to write missing files again")
    if changed:
        said.append("changed files were edited, or are damaged; 'outlark detect' leaves them as they are")
    return said


# ------------------------------------------------------------ a run over files


def _task(paths: Sequence[str], given: Mapping[str, Any], **more: Any) -> tuple[Task, Sources]:
    """What to do with which files; the model and its options are checked before anything is written."""
    detector, sha256 = thresholds.checked_model(given)
    task = Task(
        model=given["model"],
        model_sha256=sha256,
        output=given["output"],
        formats=given["formats"],
        verdicts=options.chosen_verdicts(given["verdicts"], given["everything"]),
        decisions=options.given_decisions(given),
        **more,
    )
    sources = find(paths, (SCORES,), "scores") if task.verb == DECIDE else find(paths)
    return thresholds.with_thresholds(task, detector, sources, given), sources


def _work_through(paths: Sequence[str], given: Mapping[str, Any], **more: Any) -> None:
    """Run the task, report how it went, and end with the exit code for that."""
    task, sources = _task(paths, given, **more)
    for option in ("combined", "parquet"):
        if given[option] and "csv" not in task.formats:
            raise click.UsageError(f"--{option} joins files of the format csv; add --format csv")
    if Path(task.output).exists() and not Path(task.output).is_dir():
        raise InputError(f"{task.output} is a file; give a folder for the results with -o")
    how: dict[str, Any] = {name: given[name] for name in ("jobs", "resume", "parquet")}
    how["combined"] = "csv" in task.formats if given["combined"] is None else given["combined"]
    how["part_s"] = given.get("part_s", PART_S)
    start = time.monotonic()
    try:
        with shown(given["quiet"]) as watch:
            report = run(task, sources, driver=_cluster(task, given), **how, watch=watch)
    except KeyboardInterrupt:
        say("\nstopped; give the same command again to resume", err=True)
        raise
    elapsed_s = time.monotonic() - start
    if not given["quiet"]:
        for same in sources.same[:LISTED]:
            say(f"Note: {same.message}", err=True)
        say(_summary(report, elapsed_s, task.output), err=True)
    for name in report.edited:
        say(f"Note: {name}: a file edited since it was written, kept under this name; the run wrote it anew", err=True)
    say_all(on_failures(_pairs(report.failures), report.failures_file))
    say_all(on_failures(_pairs(report.partial), report.failures_file, "processed in part"))
    if not given["quiet"]:
        say_all(on_failures(_pairs(report.quality), report.failures_file, "with little to hear, which is no failure"))
        say_all(on_failures(_pairs(report.remarks), report.remarks_file, "with remarks"))
    if given["as_json"]:
        answer(_content(report, task, elapsed_s))
    click.get_current_context().exit(UNREADABLE if report.failures or report.partial else 0)


def _cluster(task: Task, given: Mapping[str, Any]) -> Driver | None:
    if given.get("cluster") is None:
        return None
    from outlark.batch.cluster import Cluster

    def report(text: str) -> None:
        if not given["quiet"]:
            say(text, err=True)

    return Cluster(task, given["cluster"], given["jobs"], report)


def _summary(report: Report, elapsed_s: float, output: str) -> str:
    said = [f"{report.done} of {number_of(report.total, 'file')} processed in {clock(elapsed_s)}"]
    if report.seconds:
        said[0] += f", {rate(report.seconds, elapsed_s)} × real time"
    if report.skipped:
        said.append(f"{report.skipped} already done")
    if report.resumed:
        said.append(f"{number_of(report.resumed, 'part')} of long recordings already done")
    if report.changed:
        said.append(f"{len(report.changed)} processed again because the recording had changed")
    said.append(", ".join(f"{count} {verdict}" for verdict, count in report.segments.items()))
    return f"{'; '.join(said)}; results in {output}"


def _pairs(failures: Sequence[Failure]) -> list[tuple[str, str]]:
    return [(one.name, one.message) for one in failures]


def _listed(failures: Sequence[Failure]) -> list[dict[str, str]]:
    return [{"recording": name, "message": message} for name, message in _pairs(failures)]


def _content(report: Report, task: Task, elapsed_s: float) -> Mapping[str, Any]:
    return {
        "version": __version__,
        "model_sha256": task.model_sha256,
        "output": task.output,
        "recordings": report.total,
        "done": report.done,
        "skipped": report.skipped,
        "parts_resumed": report.resumed,
        "failed": len(report.failures),
        "failures": _listed(report.failures),
        "partial": _listed(report.partial),
        "quality": _listed(report.quality),
        "remarks": _listed(report.remarks),
        "changed": list(report.changed),
        "edited": list(report.edited),
        "segments": dict(report.segments),
        "seconds_of_sound": round(report.seconds, 3),
        "seconds_taken": round(elapsed_s, 3),
        "combined": None if report.combined is None else str(report.combined),
        "parquet": None if report.parquet is None else str(report.parquet),
    }
