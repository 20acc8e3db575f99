"""`outlark plot`: a figure of an excerpt of a recording."""

import re
from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import UNREADABLE, answer, say, say_all
from outlark.plain_text import on_refused


def time(value: str) -> float:
    """The type of a time in a recording: 83.5, 83.5s, 1:23.5 or 1:02:03.5."""
    found = re.fullmatch(r"(?:(?:(\d+):)?([0-5]?\d):(?=[0-5]?\d(?!\d)))?(\d+\.?\d*|\.\d+)\s*s?", value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time in a recording; give seconds, or 1:23.5, or 1:02:03.5")
    hours, minutes, seconds = found.groups(default="0")
    return 3600.0 * float(hours) + 60.0 * float(minutes) + float(seconds)


@click.command()
@click.argument("model", type=click.Path())
@click.argument("recording", type=click.Path())
@click.option("--output", "-o", required=True, type=click.Path(), help="Figure to write: .png, .svg or .pdf.")
@click.option("--start", type=time, help="Start of the excerpt, such as 83.5 or 1:23.5.")
@click.option("--end", type=time, help="End of the excerpt.")
@click.option("--truth", type=click.Path(), help="Annotation file with the true notes, drawn below the detections.")
@options.channel
@click.option("--title", help="Title of the figure. Default: the name of the recording.")
@click.option("--label-column", metavar="NAME", help="Column of --truth that holds the labels. Default: guessed.")
@options.threshold_for_this_run
@options.decisions
@options.reporting
def command(recording: str, output: str, **given: Any) -> None:
    """Plot an excerpt of a RECORDING with the scores and decisions of a MODEL.

    From top to bottom: the spectrogram; the score of each class, with the leading class in bold and thresholds dotted;
    the detected notes, and the true ones if you give them. Without --start and --end, the excerpt is ten seconds around
    the first note.
    """
    from outlark.annotations import read_annotations
    from outlark.commands.figures import save_figure
    from outlark.commands.plot import annotations_of_recording, draw_excerpt, shown_excerpt

    detector, _ = options.detector_of(given)
    table = None if given["truth"] is None else read_annotations(given["truth"], label_column=given["label_column"])
    truth = [] if table is None else annotations_of_recording(table, recording)
    channel = options.channel_index(given["channel"])
    start, end, why = shown_excerpt(detector, recording, given["start"], given["end"], channel=channel)
    figure = draw_excerpt(detector, recording, start, end, channel=channel, truth=truth, title=given["title"])
    save_figure(figure, output)
    if not given["quiet"]:
        say(f"{output}: {start:.3f} to {end:.3f} s of {recording} ({why})", err=True)
    refused = [] if table is None else table.refused
    say_all(on_refused(refused))
    if given["as_json"]:
        answer({"figure": output, "recording": recording, "start_s": start, "end_s": end, "why": why})
    click.get_current_context().exit(UNREADABLE if refused else 0)
