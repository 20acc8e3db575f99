"""`outlark summary`: notes per hour of recording, by class, site, day and hour."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options
from outlark.cli.main import UNREADABLE
from outlark.cli.progress import counted
from outlark.cli.say import answer, say, show_table
from outlark.cli.thresholds import read_model
from outlark.commands import check_labels, listing
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from outlark.batch.results import Results
    from outlark.batch.sources import Failure
    from outlark.commands.summary.summary import Summary
    from outlark.commands.summary.tally import Tally

BY = ("class", "site", "day", "hour")
SITES_FROM = ("auto", "folder", "parent", "name")
#: Rows that are printed; -o writes all.
LISTED = 60


def _by(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, each once; they may be separated by commas."""
    names = options.names_in(given)
    for name in names:
        if name not in BY:
            raise click.BadParameter(f"{name!r} is not a column to count by; choose from {', '.join(BY)}")
    return tuple(names)


def _zone(ctx: click.Context, param: click.Parameter, given: str | None) -> "ZoneInfo | None":
    """A time zone of the IANA database."""
    if given is None or ctx.resilient_parsing:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(given)
    except (KeyError, ValueError, OSError):
        raise click.BadParameter(
            f"{given!r} is not a known time zone; give a name such as Europe/Berlin or UTC (on Windows, first: pip "
            "install tzdata)"
        ) from None


@click.command()
@click.argument("out", type=click.Path())
@click.option(
    "--by",
    multiple=True,
    default=("class,site",),
    show_default=True,
    metavar="NAME",
    callback=_by,
    help="Count by class, site, day or hour of the day. Repeatable, or separate names by commas.",
)
@click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    type=click.Path(),
    help="Write all rows to this file, .csv or .parquet. Repeatable.",
)
@click.option(
    "--figure", type=click.Path(), help="Plot days, hours of the day and sites on one page: .png, .svg or .pdf."
)
@options.names("--class", "classes", "Count only this class. Repeatable.")
@click.option(
    "--model", type=click.Path(), help="The model of the run: its classes get rows even if no note was found."
)
@options.format_option(
    "--format",
    "-f",
    help="Format of the annotation files to count, such as raven after a review. Default: csv, or the best available.",
)
@click.option(
    "--site-from",
    type=click.Choice(SITES_FROM),
    default="auto",
    show_default=True,
    help="Where the site comes from: the first folder, the parent folder, or the file name up to the time.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    callback=_zone,
    help="Days and hours in this zone, such as Europe/Berlin, with its summer time. Default: the recorders' clocks.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    metavar="X",
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
)
@options.reporting
def command(out: str, by: tuple[str, ...], **given: Any) -> None:
    """Count the notes found in OUT, per hour of recording.

    OUT is the output folder of 'outlark detect' or 'outlark decide'. The recording effort comes from the journal of the
    run and includes recordings without notes. Recordings without a known start time are counted under 'time unknown'.
    The confidence intervals of rates are too narrow if notes come in bouts; the proportions of recordings and of clock
    hours with a note are more robust.
    """
    from outlark.batch.results import count, read_results
    from outlark.commands.summary.summary import check_suffix, json_rows, summarise, write_summary

    outputs = [Path(output) for output in given["outputs"]]
    for output in outputs:
        check_suffix(output)
    results = read_results(out, given["site_from"])
    model_classes = _classes_of(given["model"], results)
    with counted(given["quiet"], "recordings counted") as watch:
        tally, missing = count(results, given["format"], given["timezone"], watch)
    how: dict[str, Any] = {"confidence": given["confidence"], "verdicts": results.verdicts}
    how["classes"] = _classes(tally, model_classes, given["classes"])
    summary = summarise(tally, by, **how)
    for output in outputs:
        write_summary(summary, output)
    if given["figure"] is not None:
        from outlark.commands.figures import save_figure
        from outlark.commands.summary.figure import summary_figure

        clock = "the recorders' clocks" if given["timezone"] is None else str(given["timezone"])
        save_figure(summary_figure(tally, **how, clock=clock), given["figure"])
    if given["as_json"]:
        answer({**_content(results, tally, missing, given), "by": list(by), "rows": json_rows(summary)})
    else:
        _show(summary)
    if not given["quiet"]:
        _report(results, tally, missing, given)
    click.get_current_context().exit(UNREADABLE if missing else 0)


def _classes_of(model: str | None, results: "Results") -> list[str]:
    """The classes of the model, which must be the one of the run."""
    if model is None:
        return []
    from outlark.batch.task import sha256_of

    detector = read_model(model)
    if results.models != (sha256_of(model),):
        raise InputError(
            f"{model} is not the model of the run in {results.output}; give the one that outlark detect used"
        )
    return [str(label) for label in detector.classes_.tolist()]


def _classes(tally: "Tally", of_model: Sequence[str], asked: Sequence[str]) -> list[str]:
    from outlark.verdict_names import REST

    there = sorted({*tally.classes, *of_model} - {REST})
    check_labels(asked, there, "note")
    return list(dict.fromkeys(asked)) or there


def _content(
    results: "Results", tally: "Tally", missing: Sequence["Failure"], given: Mapping[str, Any]
) -> dict[str, Any]:
    from outlark.batch.results import overlapping

    return {
        "version": __version__,
        "output": str(results.output),
        "recordings": len(tally.recordings),
        "hours": float(tally.effort()["hours"].sum()),
        "sites": sorted(tally.sites),
        "confidence": given["confidence"],
        "timezone": None if given["timezone"] is None else str(given["timezone"]),
        "zones": dict(_zones(results)),
        "time_unknown": [one.recording for one in results.listened if one.began is None],
        "overlapping": overlapping(results, missing),
        "failed": _listed(results.failed),
        "partial": _listed(results.partial),
        "not_counted": _listed(results.spoilt),
        "missing": _listed(missing),
    }


def _listed(failures: Sequence["Failure"]) -> list[dict[str, str]]:
    return [{"recording": failure.name, "message": failure.message} for failure in failures]


def _zones(results: "Results") -> Counter[str]:
    """The number of recordings per time zone of the recorder."""
    began = [one.began for one in results.listened if one.began is not None]
    return Counter("no zone" if at.tzinfo is None else f"UTC{at.isoformat()[-6:]}" for at in began)


def _report(results: "Results", tally: "Tally", missing: Sequence["Failure"], given: Mapping[str, Any]) -> None:
    from outlark.batch.results import overlapping
    from outlark.commands.summary.figure import days_in_words

    effort = tally.effort()
    days = effort["day"][effort["day"] >= 0]
    span = f", {days_in_words(days)}" if len(days) else ""
    many, sites = number_of(len(tally.recordings), "recording"), number_of(len(tally.sites), "site")
    say(f"{many}, {_cell(float(effort['hours'].sum()))} h, {sites}{span}", err=True)
    unknown = [one for one in results.listened if one.began is None]
    groups = {
        "without a known start time, under 'time unknown'": [one.recording for one in unknown],
        "dated by the file name, because the journal is from an earlier version": results.from_name,
        "processed in part, counted as far as they go": [one.name for one in results.partial],
        "in which there is little to hear, not counted (see failures.csv)": [one.name for one in results.spoilt],
        "that others of their site overlap in time; what was recorded twice counts once": [
            *overlapping(results, missing)
        ],
        "that failed, not counted": [one.name for one in results.failed],
        "without a readable annotation file, not counted": [one.name for one in missing],
    }
    for what, names in groups.items():
        if names:
            say(f"{number_of(len(names), 'recording')} {what}: {listing(names)}", err=True)
    if missing:
        say(f"  {missing[0].name}: {missing[0].message}", err=True)
    _report_zones(_zones(results), given["timezone"])
    for path in (*given["outputs"], *([] if given["figure"] is None else [given["figure"]])):
        say(f"written: {path}", err=True)


def _report_zones(zones: Counter[str], zone: "ZoneInfo | None") -> None:
    if zone is not None and zones["no zone"]:
        many = number_of(zones["no zone"], "recording")
        say(f"{many} without a time zone: assuming that their clocks show {zone}", err=True)
    if zone is None and len(zones) > 1:
        told = ", ".join(f"{name}: {n}" for name, n in sorted(zones.items()))
        say(
            f"recorders in different time zones ({told}): hours are local; --timezone converts them to one zone",
            err=True,
        )


def _show(summary: "Summary") -> None:
    from outlark.commands.summary.summary import TIME_UNKNOWN, rows

    interval = f"{100 * summary.confidence:g} % interval"
    heads = ["hours", "notes", "per hour", interval, "ambiguous", "recordings with", "clock hours with"]
    listed = [[*summary.by, "class", *heads]]
    n_rows = len(summary.hours) * len(summary.classes)
    for row, _ in zip(rows(summary), range(LISTED), strict=False):
        group = [TIME_UNKNOWN if row[name] is None else str(row[name]) for name in summary.by]
        limits = "" if row["per_hour"] is None else f"{_cell(row['per_hour_low'])} to {_cell(row['per_hour_high'])}"
        counts = [_cell(row["hours"]), str(row["notes"]), _cell(row["per_hour"]), limits]
        counts.append("" if row["ambiguous"] is None else str(row["ambiguous"]))
        counts += [f"{row[f'{unit}_with']} of {row[unit]}" for unit in ("recordings", "clock_hours")]
        listed.append([*group, row["class"], *counts])
    show_table(listed)
    if n_rows > LISTED:
        say(f"… and {n_rows - LISTED} more rows; -o summary.csv writes all", err=True)


def _cell(value: float | None) -> str:
    """Three significant digits, or a whole number; blank for None.

    >>> _cell(0.000281), _cell(2.5), _cell(5400.4)
    ('0.000281', '2.5', '5400')
    """
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"
