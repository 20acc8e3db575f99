"""What `detect` and `decide` share: a run over many files, from its options to its last line."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from outlark.batch.report import Report
from outlark.batch.run import run
from outlark.batch.sources import Failure, Sources
from outlark.batch.task import Task, sha256_of
from outlark.batch.unit import PART_S, Driver
from outlark.cli.main import UNREADABLE
from outlark.cli.options import chosen_verdicts, given_decisions
from outlark.cli.progress import clock, rate, shown
from outlark.cli.say import answer, say
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.version import __version__

#: Failures that are listed at the end; the rest is in a file.
LISTED = 20


def task_of(given: Mapping[str, Any], **more: Any) -> Task:
    """The task that the options of a verb describe."""
    return Task(
        model=given["model"],
        model_sha256=sha256_of(given["model"]),
        output=given["output"],
        formats=given["formats"],
        verdicts=chosen_verdicts(given["verdicts"], given["everything"]),
        decisions=given_decisions(given),
        **more,
    )


def work_through(task: Task, sources: Sources, given: Mapping[str, Any]) -> None:
    """Run the task by the options `batch` and `reporting`, tell how it went, and end with the exit code for that."""
    combined, jobs, part_s = given["combined"], given["jobs"], given.get("part_s", PART_S)
    for option in ("combined", "parquet"):
        if given[option] and "csv" not in task.formats:
            raise click.UsageError(f"--{option} joins tables of the format csv; add --format csv")
    combined = "csv" in task.formats if combined is None else combined
    _check_output(Path(task.output))
    start = time.monotonic()
    try:
        with shown(given["quiet"]) as watch:
            how: dict[str, Any] = {"jobs": jobs, "resume": given["resume"], "combined": combined, "part_s": part_s}
            how["parquet"] = given["parquet"]
            report = run(task, sources, driver=_cluster(task, given), **how, watch=watch)
    except KeyboardInterrupt:
        say("\nstopped; give the same command again to go on from here", err=True)
        raise
    elapsed_s = time.monotonic() - start
    if not given["quiet"]:
        say(_summary(report, elapsed_s, task.output), err=True)
    tell_failures(_pairs(report.failures), report.failures_file)
    tell_failures(_pairs(report.partial), report.failures_file, "done in part")
    if not given["quiet"]:
        tell_failures(_pairs(report.remarks), report.remarks_file, "with remarks")
    if given["as_json"]:
        answer(_content(report, task, elapsed_s))
    click.get_current_context().exit(UNREADABLE if report.failures or report.partial else 0)


def _cluster(task: Task, given: Mapping[str, Any]) -> Driver | None:
    """The driver of the cluster that is asked for."""
    if given.get("cluster") is None:
        return None
    from outlark.batch.cluster import Cluster

    def tell(text: str) -> None:
        if not given["quiet"]:
            say(text, err=True)

    return Cluster(task, given["cluster"], given["jobs"], tell)


def _check_output(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder for the results with -o")


def _summary(report: Report, elapsed_s: float, output: str) -> str:
    told = [f"{report.done} of {number_of(report.recordings, 'file')} done in {clock(elapsed_s)}"]
    if report.seconds:
        told[0] += f", {rate(report.seconds, elapsed_s)} × real time"
    if report.skipped:
        told.append(f"{report.skipped} had been done before")
    if report.resumed:
        told.append(f"{number_of(report.resumed, 'part')} of long ones had been done before")
    if report.changed:
        told.append(f"{len(report.changed)} had changed since they were done, and were done again")
    told.append(", ".join(f"{count} {verdict}" for verdict, count in report.segments.items()))
    return f"{'; '.join(told)}; in {output}"


def tell_failures(failures: Sequence[tuple[str, str]], file: Path | None, what: str = "failed") -> None:
    """What failed and why, on standard error; not more than a few, the rest is in the file."""
    if not failures:
        return
    say(f"{len(failures)} {what}, see {file}:", err=True)
    for name, message in failures[:LISTED]:
        say(f"  {name}: {message}", err=True)
    if len(failures) > LISTED:
        say(f"  … and {len(failures) - LISTED} more", err=True)


def _pairs(told: Sequence[Failure]) -> list[tuple[str, str]]:
    return [(one.name, one.message) for one in told]


def _listed(told: Sequence[Failure]) -> list[dict[str, str]]:
    return [{"recording": name, "message": message} for name, message in _pairs(told)]


def _content(report: Report, task: Task, elapsed_s: float) -> Mapping[str, Any]:
    return {
        "version": __version__,
        "model_sha256": task.model_sha256,
        "output": task.output,
        "recordings": report.recordings,
        "done": report.done,
        "skipped": report.skipped,
        "parts_resumed": report.resumed,
        "failed": len(report.failures),
        "failures": _listed(report.failures),
        "partial": _listed(report.partial),
        "remarks": _listed(report.remarks),
        "changed": list(report.changed),
        "segments": dict(report.segments),
        "seconds_of_sound": round(report.seconds, 3),
        "seconds_taken": round(elapsed_s, 3),
        "combined": None if report.combined is None else str(report.combined),
        "parquet": None if report.parquet is None else str(report.parquet),
    }
