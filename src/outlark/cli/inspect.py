"""`outlark inspect`: what is in a file."""

from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import ERROR, finish, say


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@options.reading
@options.reporting
def command(paths: tuple[str, ...], **given: Any) -> None:
    """Describe each PATH: a model, a recording, an annotation file, or stored scores.

    The kind of file is recognised from its content. For a model: classes, examples, durations, thresholds and settings.
    For a recording, which is decoded to its end: format, true duration, level, clipping, digital silence, and start
    time. For an annotation file: its format, labels and times, and which of its recordings were found.
    """
    from outlark.audio.sound_files import SoundFiles
    from outlark.commands.inspect import inspect

    finish(inspect(paths, SoundFiles(given["audio"]), label_column=given["label_column"]), given)


# ---------------------------------------------------------------------- doctor


@click.command()
@click.argument("model", type=click.Path())
@click.option("--strict", is_flag=True, help="End with exit code 1 if there are problems.")
@options.reporting
def doctor(model: str, strict: bool, **given: Any) -> None:
    """Look for mistakes that a MODEL is likely to make.

    The model hears silence, noise, hum, clicks, tones and whistles, none of which is a note. Each training note is
    judged by what the others say about it. The training set and the settings are checked. No recordings are needed.
    """
    from outlark.commands.doctor import PROBLEM, examine_model

    detector = options.read_model(model)
    if not given["quiet"]:
        say("testing the model on sounds that are not notes …", err=True)
    found = examine_model(model, detector)
    finish(found, given, ERROR if strict and found.of(PROBLEM) else 0)
