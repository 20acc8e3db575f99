"""Options that several verbs share, and the kinds of values that they take."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

VERDICTS = ("known", "ambiguous", "unknown", "silence")
SOUND = ("known", "ambiguous", "unknown")


class Seconds(click.ParamType):
    """A length of time: 0.076, 0.076s or 76ms."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(ms|s)?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no length of time; give seconds, or 76ms", param, ctx)
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
            self.fail(f"{value!r} is no number of decibels; give a number, or none", param, ctx)


class Channel(click.ParamType):
    """The number of a channel, counted from 1, or "mix"."""

    name = "channel"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "mix":
            return "mix"
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is no channel; give mix, or a number from 1", param, ctx)
        return int(value)


def written_formats(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Names of formats that can be written, once each; several may be joined by commas."""
    if ctx.resilient_parsing:  # a shell asks for completion, and does not want to wait
        return ()
    from outlark.annotations import FORMATS

    names = list(dict.fromkeys(name.strip() for text in given for name in text.split(",")))
    able = [name for name, format in FORMATS.items() if format.writes]
    for name in names:
        if name not in able:
            raise click.BadParameter(f"{name!r} is no format that can be written; there are {', '.join(able)}")
    return tuple(names)


def _complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from outlark.annotations import FORMATS

    return [name for name, format in FORMATS.items() if format.writes and name.startswith(incomplete)]


def options_together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several decorators as one, in the order in which help lists them."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


#: --quiet and --json, as `quiet` and `as_json`.
reporting = options_together(
    click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object on standard output, for scripts and R."
    ),
)

#: --calibrate, as `calibrate`.
calibration = click.option(
    "--calibrate",
    is_flag=True,
    help="First fit the thresholds to all that is given, as 'outlark calibrate' does; the model file stays as it is.",
)

#: --channel: "mix", or a number from 1.
channel = click.option(
    "--channel",
    type=Channel(),
    default="mix",
    show_default=True,
    help="The mean of all channels, or one of them, counted from 1.",
)


def channel_index(channel: int | str) -> int | str:
    """The value of --channel as the library counts, from 0."""
    return channel if isinstance(channel, str) else channel - 1


def available_cores() -> int:
    """How many processes can work at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: --jobs, as many as there are cores by default.
jobs = click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    default=available_cores,
    metavar="N",
    help="Processes that work side by side. Without it: as many as there are cores.",
)

#: Where tables go and which, and how a run over many files is done.
batch = options_together(
    click.option("--output", "-o", required=True, type=click.Path(), help="Folder for the results; made if needed."),
    click.option(
        "--format",
        "-f",
        "formats",
        multiple=True,
        default=("csv",),
        show_default=True,
        metavar="NAME",
        callback=written_formats,
        shell_complete=_complete_formats,
        help="Format of the tables; give it several times, or names joined by commas. See 'outlark formats'.",
    ),
    click.option(
        "--verdict",
        "verdicts",
        multiple=True,
        type=click.Choice(VERDICTS),
        help="Write segments of this verdict only; may be given several times. Without it: all but silence.",
    ),
    click.option("--all", "everything", is_flag=True, help="Write all segments, silence too, where the format has it."),
    click.option(
        "--combined/--no-combined",
        default=None,
        help="Write one table of all, combined.csv. Without it: when csv is one of the formats.",
    ),
    click.option(
        "--parquet",
        is_flag=True,
        help="Also write all rows as Parquet in folders by site and day: OUT/parquet/segments/site=…/date=….",
    ),
    jobs,
    click.option(
        "--resume/--no-resume",
        default=True,
        show_default=True,
        help="Leave alone what the folder holds already, or do all of it again.",
    ),
)

#: How scores become segments; what is not given is as the model has it.
decisions = options_together(
    click.option(
        "--decoder",
        type=click.Choice(["auto", "rules", "viterbi", "notes"]),
        help="How scores become notes: notes with models of whole notes, rules or viterbi with models of frames.",
    ),
    click.option(
        "--min-duration",
        "least_s",
        type=Seconds(),
        help="Shortest note, such as 0.076 or 76ms: what is found shorter is not labelled.",
    ),
    click.option("--bridge", "bridge_s", type=Seconds(), help="Gaps of up to this long within a note are bridged."),
    click.option(
        "--activity-db",
        type=Decibels(),
        help="Sound without a note is silence if it rises less than this above the background; none: never silence.",
    ),
    click.option("--min-unknown", "unknown_s", type=Seconds(), help="Unknown sound shorter than this is silence."),
    click.option(
        "--confirm/--no-confirm",
        default=None,
        help="Models of frames: a note must also score as a whole as the training notes do.",
    ),
)
DECISIONS = ("decoder", "least_s", "bridge_s", "activity_db", "unknown_s", "confirm")


def given_decisions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options of `decisions` those that were given, as parameters of `outlark.Decisions`."""
    given = {name: options[name] for name in DECISIONS if options[name] is not None}
    return {name: None if value == "none" else value for name, value in given.items()}


def chosen_verdicts(verdicts: Sequence[str], everything: bool) -> tuple[str, ...]:
    """The verdicts to write, in the order in which everything lists them."""
    if everything and verdicts:
        raise click.UsageError("give --all or --verdict, not both")
    wanted = VERDICTS if everything else verdicts or SOUND
    return tuple(verdict for verdict in VERDICTS if verdict in wanted)
