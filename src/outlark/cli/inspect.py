"""`outlark inspect`: what is in a file."""

from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import finish


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
