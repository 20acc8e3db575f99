"""`outlark listen`: notes in live sound."""

import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options, thresholds
from outlark.cli.loading import detector_of
from outlark.cli.progress import clock
from outlark.cli.say import say, say_line
from outlark.errors import InputError
from outlark.files.regular import SOUND_STARTS
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.commands.listen.listening import Inlet
    from outlark.segments import Segment


def _list_devices(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from outlark.commands.listen.sound_device import devices

    say(devices())
    ctx.exit()


@click.command()
@click.argument("model", type=click.Path())
@click.option(
    "--rate",
    type=click.IntRange(100, 10_000_000),
    metavar="HZ",
    help="Samples for each second. Without it: as the model has it, or as the device has it.",
)
@click.option("--channels", type=click.IntRange(1, 64), default=1, show_default=True, help="How many there are.")
@click.option(
    "--dtype",
    "kind",
    type=click.Choice(["int16", "int24", "int32", "float32"]),
    default="int16",
    show_default=True,
    help="What a sample is; little-endian, int24 in three bytes.",
)
@options.channel
@click.option("--device", metavar="NAME", help="Listen to a sound device: its name or number, or 'default'.")
@click.option(
    "--list-devices",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_devices,
    help="List the sound devices and exit.",
)
@click.option("--name", help="What the lines call the recording.")
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(options.VERDICTS),
    help="Tell segments of this verdict only; may be given several times. Without it: all but silence.",
)
@click.option("--all", "everything", is_flag=True, help="Tell all segments, silence too.")
@thresholds.for_this_run
@options.decisions
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
def command(**given: Any) -> None:
    """Find notes in live sound with a MODEL.

    The sound is raw PCM on standard input, or comes from a sound device. Segments go to standard output as lines of
    JSON, those of the format jsonl, each as soon as it is final: 3 to 4 seconds after its end, because the background
    is judged by what comes after as well. They are those that 'outlark detect' finds in the same samples. It ends with
    its input, or with Ctrl-C; then the last segments are told.

    \b
    arecord -t raw -f S16_LE -r 22050 | outlark listen MODEL --rate 22050
    ffmpeg -loglevel error -i URL -f s16le -ac 1 -ar 22050 - | outlark listen MODEL --rate 22050
    """
    verdicts = options.chosen_verdicts(given["verdicts"], given["everything"])
    if given["device"] is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("standard input is a terminal, or closed; pipe raw sound in, or give --device")
    from outlark.commands.listen.listening import Inlet, Listener
    from outlark.commands.listen.pcm import PCM

    detector, sha256 = detector_of(given)
    rate = given["rate"] or _usual_rate(given["device"], detector.sample_rate_)
    channel = options.channel_index(given["channel"])
    pcm = PCM(given["kind"], given["channels"])
    listener, inlet = Listener(detector, pcm, rate, channel), Inlet()
    live = {"sample_rate": rate, "channels": given["channels"], "dtype": given["kind"]}
    settings = {
        "decisions": detector.decisions_.get_params(),
        "channel": given["channel"],
        "verdicts": list(verdicts),
        "live": live,
        **thresholds.settings(given["thresholds"], detector),
    }
    with _sound(given, inlet, rate) as troubles, _stopped_by_signals(inlet):
        how = ", ".join(f"{name} {value}" for name, value in live.items())
        _talk(given, f"listening to {given['device'] or 'standard input'} ({how}); Ctrl-C ends it")
        sound = _without_header(inlet) if given["device"] is None else inlet
        pieces = _headed(sound, pcm.bytes_each * rate, sha256, settings)
        counts = _tell(listener.segments(pieces), given, verdicts)
    told = ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "nothing to tell"
    _talk(given, f"heard {clock(listener.duration_s)}: {told}")
    for trouble in troubles:
        say(f"Warning: the sound device says {trouble}; some sound may be lost", err=True)
    if pcm.left_over:
        say(f"Warning: the end, {number_of(pcm.left_over, 'byte')}, is no whole sample and was left out", err=True)


def _without_header(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, once they are found to be no sound file, whose header would be heard as sound."""
    held, longest = b"", max(map(len, SOUND_STARTS))
    pieces = iter(pieces)
    for piece in pieces:
        held += piece
        if len(held) >= longest:
            break
    kind = next((name for start, name in SOUND_STARTS.items() if held.startswith(start)), None)
    if kind is not None:
        raise InputError(
            f"standard input is a {kind} file, whose header is no sound; expected samples alone. Give the file to "
            "'outlark detect', or take its header off: ffmpeg -loglevel error -i FILE -f s16le -ac 1 -"
        )
    if held:
        yield held
    yield from pieces


def _headed(pieces: Iterable[bytes], bytes_per_s: int, sha256: str, settings: dict[str, Any]) -> Iterator[bytes]:
    """The pieces; with the first one, or at the end if there is none, the first line is written."""
    from outlark.annotations import About
    from outlark.annotations.json_lines import head_line

    def head(began: str | None) -> None:
        settings["live"]["began"] = began
        say_line(head_line(About(version=__version__, model_sha256=sha256, settings=settings)))

    headed = False
    for piece in pieces:
        if not headed:
            first = datetime.now().astimezone() - timedelta(seconds=len(piece) / bytes_per_s)
            head(first.isoformat(timespec="milliseconds"))
            headed = True
        yield piece
    if not headed:
        head(None)


def _tell(segments: "Iterable[Segment]", given: Mapping[str, Any], verdicts: tuple[str, ...]) -> Counter[str]:
    """Write a line for each segment of these verdicts; how many of each there were."""
    from outlark.annotations import Mark
    from outlark.annotations.json_lines import mark_line

    counts: Counter[str] = Counter()
    channel = None if given["channel"] == "mix" else given["channel"]
    for segment in segments:
        if segment.verdict in verdicts:
            say_line(mark_line(replace(Mark.from_segment(segment, given["name"]), channel=channel)))
            counts[segment.verdict] += 1
    return counts


@contextmanager
def _sound(given: Mapping[str, Any], inlet: "Inlet", rate: int) -> Iterator[list[str]]:
    """While this lasts, sound comes in."""
    if given["device"] is None:
        stdin = sys.stdin.buffer
        inlet.feed(getattr(stdin, "raw", stdin).read)  # what there is, and not until a buffer is full
        yield []
        return
    from outlark.commands.listen.sound_device import recorded

    how = {"sample_rate": rate, "channels": given["channels"], "kind": given["kind"]}
    with recorded(inlet, given["device"], **how) as troubles:
        yield troubles


@contextmanager
def _stopped_by_signals(inlet: "Inlet") -> Iterator[None]:
    """The first Ctrl-C ends the sound, so that the last segments are told; the second one ends the program."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, before[number])
        inlet.end()

    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _usual_rate(device: str | None, of_model: int) -> int:
    if device is None:
        return of_model
    from outlark.commands.listen.sound_device import usual_rate

    return usual_rate(device)


def _talk(given: Mapping[str, Any], text: str) -> None:
    if not given["quiet"]:
        say(text, err=True)
