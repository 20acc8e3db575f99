"""Options that several commands share, and the kinds of values that they take."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

VERDICTS = ("known", "ambiguous", "unknown", "silence")
SOUND = ("known", "ambiguous", "unknown")
Decorator = Callable[[Any], Any]


class Seconds(click.ParamType):
    """A duration: 0.076, 0.076s or 76ms."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(ms|s)?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration; give seconds, such as 0.076, or 76ms", param, ctx)
        return float(found[1]) / (1000.0 if found[2] == "ms" else 1.0)


class Decibels(click.ParamType):
    """A number, or "none"."""

    name = "decibels"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == "none" or isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a level in decibels; give a number, or none", param, ctx)


class Channel(click.ParamType):
    """A channel number, counted from 1, or "mix"."""

    name = "channel"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "mix":
            return "mix"
        if not re.fullmatch(r"\d{1,9}", str(value)) or int(value) < 1:
            self.fail(f"{value!r:.40} is not a channel; give mix, or a number from 1", param, ctx)
        return int(value)


def options_together(*options: Decorator) -> Decorator:
    """Several decorators as one, in the order in which help lists them."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


# -------------------------------------------------------------------- formats


def _formats(done: str) -> list[str]:
    from outlark.annotations import FORMATS

    return [name for name, format in FORMATS.items() if (format.reads if done == "read" else format.writes)]


def _check_format(name: str, done: str) -> str:
    able = _formats(done)
    if name not in able:
        raise click.BadParameter(f"{name!r} is not a format that can be {done}; choose from {', '.join(able)}")
    return name


def readable_format(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Check the name of a format to read."""
    return given if given is None or ctx.resilient_parsing else _check_format(given, "read")


def writable_format(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Check the name of a format to write."""
    return given if given is None or ctx.resilient_parsing else _check_format(given, "written")


def _writable_formats(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Names of formats to write, each once; they may be separated by commas."""
    if ctx.resilient_parsing:  # a shell asks for completions and should not wait
        return ()
    names = dict.fromkeys(name.strip() for text in given for name in text.split(","))
    return tuple(_check_format(name, "written") for name in names)


def complete_readable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of formats to read, for a shell."""
    return [name for name in _formats("read") if name.startswith(incomplete)]


def complete_writable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of formats to write, for a shell."""
    return [name for name in _formats("written") if name.startswith(incomplete)]


def format_option(name: str, *more: str, help: str) -> Decorator:
    """An option for a format to read."""
    return click.option(
        name, *more, metavar="NAME", callback=readable_format, shell_complete=complete_readable, help=help
    )


# -------------------------------------------------------------- shared options

#: --quiet, as `quiet`.
quiet = click.option("--quiet", "-q", is_flag=True, help="Print only errors and results.")

#: --quiet and --json, as `quiet` and `as_json`.
reporting = options_together(
    quiet,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, for scripts and R."),
)

#: --label-column and --audio, as `label_column` and `audio`.
reading = options_together(
    click.option(
        "--label-column",
        metavar="NAME",
        help="Column that holds the labels, by name or by number from 1. Default: guessed and reported.",
    ),
    click.option(
        "--audio",
        multiple=True,
        type=click.Path(),
        metavar="DIR",
        help="Folder with the annotated recordings; searched with its subfolders. Repeatable.",
    ),
)

#: --calibrate, as `calibrate`.
calibration = click.option(
    "--calibrate",
    is_flag=True,
    help="First fit the thresholds to these recordings, as 'outlark calibrate' does. The model file does not change.",
)

#: --channel: "mix", or a number from 1.
channel = click.option(
    "--channel",
    type=Channel(),
    default="mix",
    show_default=True,
    help="Channel to analyse, counted from 1, or the mean of all channels (mix).",
)


def channel_index(channel: int | str) -> int | str:
    """The value of --channel as the library counts, from 0."""
    return channel if isinstance(channel, str) else channel - 1


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: --jobs, by default the number of cores.
jobs = click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    default=_available_cores,
    metavar="N",
    help="Number of worker processes. Default: the number of cores.",
)


def verdict_options(what: str) -> Decorator:
    """--verdict and --all, as `verdicts` and `everything`."""
    return options_together(
        click.option(
            "--verdict",
            "verdicts",
            multiple=True,
            type=click.Choice(VERDICTS),
            help=f"{what} only segments with this verdict. Repeatable. Default: all but silence.",
        ),
        click.option("--all", "everything", is_flag=True, help=f"{what} all segments, including silence."),
    )


def chosen_verdicts(verdicts: Sequence[str], everything: bool) -> tuple[str, ...]:
    """The verdicts to write, in the usual order."""
    if everything and verdicts:
        raise click.UsageError("give --all or --verdict, not both")
    wanted = VERDICTS if everything else verdicts or SOUND
    return tuple(verdict for verdict in VERDICTS if verdict in wanted)


#: Where and how results are written, and how a run over many files is done.
batch = options_together(
    click.option(
        "--output", "-o", required=True, type=click.Path(), help="Folder for the results; created if necessary."
    ),
    click.option(
        "--format",
        "-f",
        "formats",
        multiple=True,
        default=("csv",),
        show_default=True,
        metavar="NAME",
        callback=_writable_formats,
        shell_complete=complete_writable,
        help="Format of the annotation files. Repeatable, or separate names by commas. See 'outlark formats'.",
    ),
    verdict_options("Write"),
    click.option(
        "--combined/--no-combined",
        default=None,
        help="Also write all rows to one file, combined.csv. Default: if csv is one of the formats.",
    ),
    click.option(
        "--parquet",
        is_flag=True,
        help="Also write all rows as Parquet, partitioned by site and day: OUT/parquet/segments/site=…/date=….",
    ),
    jobs,
    click.option(
        "--resume/--no-resume",
        default=True,
        show_default=True,
        help="Keep the results that the folder already holds, or process everything again.",
    ),
)

#: How scores become segments; by default, as the model says.
decisions = options_together(
    click.option(
        "--decoder",
        type=click.Choice(["auto", "rules", "viterbi", "notes"]),
        help="How scores become notes: notes for note-level models, rules or viterbi for frame-level models.",
    ),
    click.option(
        "--min-duration",
        "least_s",
        type=Seconds(),
        help="Shortest note, such as 0.076 or 76ms. Anything shorter gets no label.",
    ),
    click.option("--bridge", "bridge_s", type=Seconds(), help="Bridge gaps of up to this duration within a note."),
    click.option(
        "--activity-db",
        type=Decibels(),
        help="Sound less than this far above the noise floor is silence unless it is a note; none: never silence.",
    ),
    click.option("--min-unknown", "unknown_s", type=Seconds(), help="Unknown sound shorter than this is silence."),
    click.option(
        "--confirm/--no-confirm",
        default=None,
        help="Frame-level models: a note must also score as a whole as the training notes do.",
    ),
)
DECISIONS = ("decoder", "least_s", "bridge_s", "activity_db", "unknown_s", "confirm")


def given_decisions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the `decisions` that were given, as parameters of `outlark.Decisions`."""
    given = {name: options[name] for name in DECISIONS if options[name] is not None}
    return {name: None if value == "none" else value for name, value in given.items()}
