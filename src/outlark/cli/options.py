"""Options that several commands share, the kinds of values that they take, and the model that they are applied to."""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from outlark.batch.journal import sha256_of
from outlark.errors import InputError, ModelFileError
from outlark.segments import AMBIGUOUS, KNOWN, UNKNOWN, VERDICTS

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector

SOUND = (KNOWN, AMBIGUOUS, UNKNOWN)
Decorator = Callable[[Any], Any]


def seconds(value: object) -> float:
    """The type of an option that takes a duration: 0.076, 0.076s or 76ms."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(ms|s)?", str(value).strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a duration; give seconds, such as 0.076, or 76ms")
    return float(found[1]) / (1000.0 if found[2] == "ms" else 1.0)


def decibels(value: str) -> float | str:
    """The type of an option that takes a number, or "none"."""
    try:
        return value if value == "none" else float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a level in decibels; give a number, or none") from None


def channel_number(value: str) -> int | str:
    """The type of --channel: a number, counted from 1, or "mix"."""
    if value != "mix" and (not re.fullmatch(r"\d{1,9}", value) or int(value) < 1):
        raise click.BadParameter(f"{value!r:.40} is not a channel; give mix, or a number from 1")
    return value if value == "mix" else int(value)


def names_in(given: Iterable[str]) -> list[str]:
    """Names, each once; they may be separated by commas.

    >>> names_in(["csv,raven", "csv"])
    ['csv', 'raven']
    """
    return list(dict.fromkeys(name.strip() for text in given for name in text.split(",")))


def options_together(*options: Decorator) -> Decorator:
    """Several decorators as one, in the order in which help lists them."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def names(flag: str, to: str, help: str) -> Decorator:
    """An option that takes a name and can be repeated."""
    return click.option(flag, to, multiple=True, metavar="NAME", help=help)


def paths(flag: str, to: str, metavar: str, help: str) -> Decorator:
    """An option that takes a path and can be repeated."""
    return click.option(flag, to, multiple=True, type=click.Path(), metavar=metavar, help=help)


def whole_number(flag: str, to: str, least: int = 1, default: int | None = None, **how: Any) -> Decorator:
    """An option that takes a whole number; help shows the default unless it is 0 or None."""
    how = {"show_default": bool(default), **how}
    return click.option(flag, to, type=click.IntRange(min=least), metavar="N", default=default, **how)


# -------------------------------------------------------------------- formats


class FormatName(click.ParamType):
    """The name of a format to be "read" or "written"."""

    name = "name"

    def __init__(self, done: str) -> None:
        self.done = done

    @property
    def able(self) -> list[str]:
        from outlark.annotations import FORMATS

        return [name for name, format in FORMATS.items() if self.done == "read" or format.writes]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if ctx is not None and ctx.resilient_parsing:  # a shell asks for completions and should not wait
            return str(value)
        able = self.able
        if value not in able:
            self.fail(f"{value!r} is not a format that can be {self.done}; choose from {', '.join(able)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.able if name.startswith(incomplete)]


class FormatNames(FormatName):
    """Such names, separated by commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return tuple(super(FormatNames, self).convert(name, param, ctx) for name in names_in([value]))


def format_option(name: str, *more: str, help: str) -> Decorator:
    """An option for a format to read."""
    return click.option(name, *more, type=FormatName("read"), help=help)


# -------------------------------------------------------------- shared options

#: --quiet, as `quiet`.
quiet = click.option("--quiet", "-q", is_flag=True, help="Print only errors and results.")

#: --quiet and --json, as `quiet` and `as_json`.
reporting = options_together(
    quiet, click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, for scripts and R.")
)

#: --label-column and --audio, as `label_column` and `audio`.
reading = options_together(
    click.option(
        "--label-column",
        metavar="NAME",
        help="Column that holds the labels, by name or by number from 1. Default: guessed and reported.",
    ),
    paths("--audio", "audio", "DIR", "Folder with the annotated recordings; searched with its subfolders. Repeatable."),
)

#: --calibrate and --no-calibrate, as `calibrate`: True, False, or None if neither is given.
calibration = click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="Fit the thresholds to a sample of these recordings first, as 'outlark calibrate' does with all; the model "
    "file does not change. Default: if there are several recordings and the model has not been calibrated.",
)
kept_calibration = click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="Fit the thresholds to these scores, or take those of the model. Default: those of the run that stored the "
    "scores.",
)

#: --channel: "mix", or a number from 1.
channel = click.option(
    "--channel",
    type=channel_number,
    metavar="CHANNEL",
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
        type=FormatNames("written"),
        callback=lambda ctx, param, given: tuple(dict.fromkeys(name for names in given for name in names)),
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
        "--min-duration",
        "least_s",
        type=seconds,
        help="Shortest note, such as 0.076 or 76ms. Anything shorter gets no label.",
    ),
    click.option(
        "--bridge",
        "bridge_s",
        type=seconds,
        help="Bridge silences of up to this duration within unknown sound; for a model of --paper, gaps in notes, too.",
    ),
    click.option(
        "--activity-db",
        type=decibels,
        help="Sound less than this far above the noise floor is silence unless it is a note; none: never silence.",
    ),
    click.option("--min-unknown", "unknown_s", type=seconds, help="Unknown sound shorter than this is silence."),
)
DECISION_OPTIONS = ("least_s", "bridge_s", "activity_db", "unknown_s")


def given_decisions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the `decisions` that were given, as parameters of `outlark.Decisions`."""
    given = {name: options[name] for name in DECISION_OPTIONS if options[name] is not None}
    return {name: None if value == "none" else value for name, value in given.items()}


# --------------------------------------------------- a model and its thresholds

#: A value of --threshold: the name of a class, or None for all, and a threshold.
Given = tuple[str | None, float]


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


def threshold_option(what: str) -> Any:
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
threshold_for_this_run = threshold_option("For this run only. Default: the thresholds of the model.")


def thresholds_by_label(given: Iterable[Given], labels: Sequence[Any]) -> dict[Any, float]:
    """Thresholds by class; one for a class by name takes precedence over one for all.

    >>> thresholds_by_label([(None, 0.3), ("song", 0.5)], ["alarm", "song"])
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


def read_model(path: str | os.PathLike[str]) -> "NoteDetector":
    """The detector in a file."""
    from outlark.model_file import load

    _check_there(path)
    return load(path)


def _check_there(path: str | os.PathLike[str]) -> None:
    if not os.path.exists(path):
        raise ModelFileError(f"there is no model file {path}; check the path, or train a model with 'outlark train'")


def set_thresholds(detector: "NoteDetector", given: Iterable[Given]) -> None:
    """Set values of --threshold on a detector."""
    chosen = thresholds_by_label(given, detector.classes_.tolist())
    if chosen:
        detector.set_thresholds(chosen)


def checked_model(given: Mapping[str, Any]) -> "tuple[NoteDetector | None, str]":
    """The detector of `detector_of`, if options depend on it or its file is out of the ordinary; and the digest.

    Otherwise only the file is checked: loading a detector takes a second, which a run leaves to its workers.
    """
    from outlark.files.container import MODEL_VERSION, read

    if given["thresholds"] or given["calibrate"] is not None or given_decisions(given):
        return detector_of(given)
    _check_there(given["model"])
    header, _ = read(given["model"])
    if (header.get("kind"), header.get("version"), header.get("embedding")) != ("NoteDetector", MODEL_VERSION, None):
        return detector_of(given)
    return None, sha256_of(given["model"])


def detector_of(given: Mapping[str, Any]) -> "tuple[NoteDetector, str]":
    """The detector in the file `model` with the given decisions and thresholds, and the digest of the file."""
    detector = read_model(given["model"])
    detector.set_params(**{f"decisions__{name}": value for name, value in given_decisions(given).items()})
    set_thresholds(detector, given["thresholds"])
    detector.try_out()  # reports values that do not fit before any work is done
    return detector, sha256_of(given["model"])
