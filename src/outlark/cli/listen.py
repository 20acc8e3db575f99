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

from outlark.cli import options
from outlark.cli.terminal import clock, say, say_line
from outlark.errors import InputError
from outlark.files.io import SOUND_STARTS
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.commands.listen import Inlet
    from outlark.segments import Segment


#: Signals that end the sound: Ctrl-C, kill, and a terminal that is closed.
STOPS = ("SIGINT", "SIGTERM", "SIGHUP")


def _list_devices(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from outlark.commands.listen import devices

    say(devices())
    ctx.exit()


@click.command()
@click.argument("model", type=click.Path())
@click.option(
    "--rate",
    type=click.IntRange(100, 10_000_000),
    metavar="HZ",
    help="Sample rate. Default: that of the model, or of the device.",
)
@click.option(
    "--channels",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of interleaved channels.",
)
@click.option(
    "--dtype",
    "kind",
    type=click.Choice(["int16", "int24", "int32", "float32"]),
    default="int16",
    show_default=True,
    help="Sample format, little-endian; int24 has three bytes.",
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
@click.option("--name", help="Name of the recording in the output.")
@options.verdict_options("Print")
@options.threshold_for_this_run
@options.decisions
@options.quiet
def command(**given: Any) -> None:
    """Find notes in live sound with a MODEL.

    The sound is raw PCM on stdin, or comes from a sound device. Segments go to stdout as JSON lines (the format jsonl),
    each as soon as it is final: 3 to 5 seconds after its end, because the noise floor also depends on what follows.
    They are the same segments that 'outlark detect' finds in the same samples. The command ends with its input, or with
    Ctrl-C, and then prints the last segments.

    \b
    arecord -t raw -f S16_LE -r 22050 | outlark listen MODEL --rate 22050
    ffmpeg -loglevel error -i URL -f s16le -ac 1 -ar 22050 - | outlark listen MODEL --rate 22050
    """
    verdicts = options.chosen_verdicts(given["verdicts"], given["everything"])
    if given["device"] is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("standard input is a terminal, or closed; pipe raw sound in, or give --device")
    from outlark.commands.listen import PCM, Inlet, Listener, usual_rate

    detector, sha256 = options.detector_of(given)
    rate = given["rate"] or (detector.sample_rate_ if given["device"] is None else usual_rate(given["device"]))
    pcm = PCM(given["kind"], given["channels"])
    listener, inlet = Listener(detector, pcm, rate, options.channel_index(given["channel"])), Inlet()
    live = {"sample_rate": rate, "channels": given["channels"], "dtype": given["kind"]}
    settings = {
        "decisions": detector.decisions_.get_params(),
        "channel": given["channel"],
        "verdicts": list(verdicts),
        "live": live,
    }
    chosen = options.thresholds_by_label(given["thresholds"], detector.classes_.tolist())
    if chosen:
        settings["thresholds"] = {str(label): value for label, value in chosen.items()}
    with _sound(given, inlet, rate) as troubles, _stopped_by_signals(inlet):
        how = ", ".join(f"{name} {value}" for name, value in live.items())
        _talk(given, f"listening to {given['device'] or 'standard input'} ({how}); press Ctrl-C to stop")
        sound = _without_header(inlet) if given["device"] is None else inlet
        pieces = _headed(sound, pcm.bytes_each * rate, sha256, settings)
        counts = _print_segments(listener.segments(pieces), given, verdicts)
    found = ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "nothing found"
    _talk(given, f"analysed {clock(listener.duration_s)}: {found}")
    for trouble in troubles:
        say(f"Warning: the sound device reports {trouble}; some sound may be lost", err=True)
    if pcm.left_over:
        say(f"Warning: the last {number_of(pcm.left_over, 'byte')} did not make a whole sample; ignored", err=True)


def _without_header(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces; an error if they are a sound file, whose header would be taken for sound."""
    held, longest = b"", max(map(len, SOUND_STARTS))
    pieces = iter(pieces)
    for piece in pieces:
        held += piece
        if len(held) >= longest:
            break
    kind = next((name for start, name in SOUND_STARTS.items() if held.startswith(start)), None)
    if kind is not None:
        raise InputError(
            f"standard input is a {kind} file, whose header is not sound; expected samples only. Give the file to "
            "'outlark detect', or remove its header: ffmpeg -loglevel error -i FILE -f s16le -ac 1 -"
        )
    if held:
        yield held
    yield from pieces


def _headed(pieces: Iterable[bytes], bytes_per_s: int, sha256: str, settings: dict[str, Any]) -> Iterator[bytes]:
    """The pieces; the header line is written with the first one, or at the end if there is none."""
    from outlark.annotations import About
    from outlark.annotations.own_formats import head_line

    pieces = iter(pieces)
    first = next(pieces, None)
    settings["live"]["began"] = None
    if first is not None:
        began = datetime.now().astimezone() - timedelta(seconds=len(first) / bytes_per_s)
        settings["live"]["began"] = began.isoformat(timespec="milliseconds")
    say_line(head_line(About(version=__version__, model_sha256=sha256, settings=settings)))
    if first is not None:
        yield first
    yield from pieces


def _print_segments(segments: "Iterable[Segment]", given: Mapping[str, Any], verdicts: tuple[str, ...]) -> Counter[str]:
    """Write a line for each segment with one of these verdicts, and count them."""
    from outlark.annotations import Annotation
    from outlark.annotations.own_formats import annotation_line

    counts: Counter[str] = Counter()
    channel = None if given["channel"] == "mix" else given["channel"]
    for segment in segments:
        if segment.verdict in verdicts:
            say_line(annotation_line(replace(Annotation.from_segment(segment, given["name"]), channel=channel)))
            counts[segment.verdict] += 1
    return counts


@contextmanager
def _sound(given: Mapping[str, Any], inlet: "Inlet", rate: int) -> Iterator[list[str]]:
    """Feed sound to the inlet; yields the troubles of the sound device so far."""
    if given["device"] is None:
        stdin = sys.stdin.buffer
        inlet.feed(getattr(stdin, "raw", stdin).read)  # what is there, without waiting for a full buffer
        yield []
        return
    from outlark.commands.listen import recorded

    how = {"sample_rate": rate, "channels": given["channels"], "kind": given["kind"]}
    with recorded(inlet, given["device"], **how) as troubles:
        yield troubles


@contextmanager
def _stopped_by_signals(inlet: "Inlet") -> Iterator[None]:
    """The first Ctrl-C, or the end of the terminal, ends the sound, so that the last segments are printed; the second
    signal ends the program."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, before[number])
        inlet.end()

    numbers = [getattr(signal, name) for name in STOPS if hasattr(signal, name)]  # Windows has no SIGHUP
    # what nohup ignores stays ignored; a shell also ignores Ctrl-C for programs in the background, but not on purpose
    ignored = {number for number in numbers if signal.getsignal(number) == signal.SIG_IGN} - {signal.SIGINT}
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in numbers if number not in ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _talk(given: Mapping[str, Any], text: str) -> None:
    if not given["quiet"]:
        say(text, err=True)
