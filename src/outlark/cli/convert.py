"""`outlark convert` and `outlark formats`: annotation files and their formats."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options
from outlark.cli.terminal import UNREADABLE, answer, say, say_all, show_table
from outlark.commands import on_refused
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.annotations import Format
    from outlark.errors import Problem


@click.command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path())
@options.format_option("--from", "format", help="Format of IN. Default: recognised from content and name.")
@click.option(
    "--to",
    type=options.FormatName("written"),
    help="Format of OUT. Default: recognised from the name of OUT. See 'outlark formats'.",
)
@options.reading
@click.option("--force", is_flag=True, help="Replace existing files. IN itself is never overwritten.")
@options.reporting
def command(source: str, target: str, to: str | None, force: bool, quiet: bool, as_json: bool, **given: Any) -> None:
    """Convert the annotation file IN to another format, write it to OUT, and report what is lost.

    If IN is a folder, all annotation files in it and its subfolders are converted into the folder OUT. With --audio,
    annotations get the name and the sample rate of their recordings.
    """
    from outlark.annotations import FORMATS
    from outlark.audio.sound_files import recording_of_table
    from outlark.commands.convert import convert, convert_folder

    failed: list[Problem] = []
    if Path(source).is_dir():
        if to is None:
            raise click.UsageError("IN is a folder; give the format of the new files with --to")
        done, failed = convert_folder(source, target, to=to, replace_target=force, **given)
    else:
        path = Path(target)
        if path.is_dir() and to is not None:
            path /= recording_of_table(Path(source).name) + FORMATS[to].suffix
        done = [convert(source, path, to=to, replace_target=force, **given)]
    for line in [] if quiet else [line for one in done for line in one.lines()]:
        say(line, err=True)
    for file in failed:
        say(f"failed: {file.message}", err=True)
    refused = [row for one in done for row in one.refused]
    say_all(on_refused(refused))
    if as_json:
        failures = [{"table": table, "message": message} for table, message in failed]
        tables = [one.as_json() for one in done]
        answer({"version": __version__, "tables": tables, "failures": failures, "refused": refused})
    click.get_current_context().exit(UNREADABLE if failed or refused else 0)


@click.command()
@click.argument("names", nargs=-1, shell_complete=options.FormatName("read").shell_complete)
@options.reporting
def formats(names: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """List the annotation formats, or show those with the given NAMES and an example of each.

    To see which format outlark takes a file for, use 'outlark inspect FILE'.
    """
    from outlark.annotations import FORMATS

    for name in names:
        if name not in FORMATS:
            raise click.UsageError(
                f"{name!r} is not a format; choose from {', '.join(FORMATS)}. For a file, use 'outlark inspect'"
            )
    chosen = [FORMATS[name] for name in names or FORMATS]
    if as_json:
        answer({"formats": [_format_content(one, with_example=bool(names)) for one in chosen]})
    elif names:
        for one in chosen:
            _show_format(_format_content(one, with_example=True))
    else:
        _list_formats(chosen)


def _format_content(format: "Format", with_example: bool) -> dict[str, Any]:
    from outlark.commands.convert import example

    content = {
        "name": format.name,
        "what": format.what,
        "ends_in": format.suffix,
        "reads": True,
        "writes": format.writes,
        "ready": format.is_ready,
        "install": _install(format),
    }
    return content | ({"example": example(format)} if with_example else {})


def _list_formats(formats: "Sequence[Format]") -> None:
    rows = [["name", "reads", "writes", "ends in", "what", "needs"]]
    for one in formats:
        needs = "installed" if one.extra is not None and one.is_ready else _install(one) or ""
        rows.append([one.name, "yes", "yes" if one.writes else "no", one.suffix, one.what, needs])
    show_table(rows)


def _install(format: "Format") -> str | None:
    return None if format.extra is None else f'pip install "outlark[{format.extra}]"'


def _show_format(content: dict[str, Any]) -> None:
    done = " and ".join(word for word, able in (("read", content["reads"]), ("written", content["writes"])) if able)
    say(f"{content['name']}: {content['what']}; can be {done}; files end in {content['ends_in']}", err=True)
    if not content["ready"]:
        say(f"it needs: {content['install']}", err=True)
    if content["example"] is not None:
        say(content["example"], nl=not content["example"].endswith("\n"))
    elif content["ready"]:
        say("no example: outlark does not write this format, or it is not text", err=True)
