"""`outlark convert` and `outlark formats`: annotation files and their formats."""

from pathlib import Path
from typing import Any

import click

from outlark.cli import options
from outlark.cli.terminal import finish


@click.command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", required=False, type=click.Path())
@click.option("--output", "-o", type=click.Path(), help="The same as OUT.")
@options.format_option("--from", "format", help="Format of IN. Default: recognised from content and name.")
@click.option(
    "--to",
    type=options.FormatName("written"),
    help="Format of OUT. Default: recognised from the name of OUT. See 'outlark formats'.",
)
@options.reading
@click.option("--force", is_flag=True, help="Replace existing files. IN itself is never overwritten.")
@options.reporting
def command(source: str, target: str | None, output: str | None, force: bool, **given: Any) -> None:
    """Convert the annotation file IN to another format, write it to OUT, and report what is lost.

    If IN is a folder, all annotation files in it and its subfolders are converted into the folder OUT. If OUT is a
    folder (there, or with a slash at its end), a file about several recordings becomes one file for each. With --audio,
    annotations get the name and the sample rate of their recordings.
    """
    if target is not None and output is not None:
        raise click.UsageError("Give OUT once, with -o or without.")
    target = target or output
    if target is None:
        raise click.UsageError("Missing argument 'OUT'.")
    if Path(source).is_dir() and given["to"] is None:
        raise click.UsageError("IN is a folder; give the format of the new files with --to")
    from outlark.commands.convert import convert

    said = {"quiet": given.pop("quiet"), "as_json": given.pop("as_json")}
    finish(convert(source, target, replace_target=force, **given), said)


@click.command()
@click.argument("names", nargs=-1, shell_complete=options.FormatName("read").shell_complete)
@options.reporting
def formats(names: tuple[str, ...], **given: Any) -> None:
    """List the annotation formats, or show those with the given NAMES and an example of each.

    To see which format outlark takes a file for, use 'outlark inspect FILE'.
    """
    from outlark.annotations import FORMATS
    from outlark.commands.convert import FormatList

    for name in names:
        if name not in FORMATS:
            raise click.UsageError(
                f"{name!r} is not a format; choose from {', '.join(FORMATS)}. For a file, use 'outlark inspect'"
            )
    finish(FormatList(names), given)
