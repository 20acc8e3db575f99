"""`outlark convert`: tables in another format."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlark.cli import options, tables
from outlark.cli.main import UNREADABLE
from outlark.cli.say import answer, say
from outlark.plain_text import number_of
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.annotations.table_files import Unread
    from outlark.commands.convert import Conversion


@click.command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path())
@click.option(
    "--from",
    "format",
    metavar="NAME",
    callback=tables.readable_format,
    shell_complete=tables.complete_readable,
    help="Format of IN. Without it: told from content and name.",
)
@click.option(
    "--to",
    metavar="NAME",
    callback=tables.writable_format,
    shell_complete=tables.complete_writable,
    help="Format of OUT. Without it: told from the name of OUT. See 'outlark formats'.",
)
@tables.reading
@click.option("--force", is_flag=True, help="Replace tables that are there; IN itself is never overwritten.")
@options.reporting
def command(source: str, target: str, to: str | None, force: bool, quiet: bool, as_json: bool, **given: Any) -> None:
    """Write the table IN in another format to OUT, and say what is lost.

    If IN is a folder, all tables in it and in the folders within are written to the folder OUT. With --audio, marks
    get the name and the sample rate of their recordings.
    """
    from outlark.annotations import FORMATS
    from outlark.audio.sound_files import recording_of_table
    from outlark.commands.convert import convert, convert_folder

    failed: list[Unread] = []
    if Path(source).is_dir():
        if to is None:
            raise click.UsageError("IN is a folder; give the format of the new tables with --to")
        done, failed = convert_folder(source, target, to=to, replace_target=force, **given)
    else:
        path = Path(target)
        if path.is_dir() and to is not None:
            path /= recording_of_table(Path(source).name) + FORMATS[to].suffix
        done = [convert(source, path, to=to, replace_target=force, **given)]
    if not quiet:
        _tell(done)
    for file in failed:
        say(f"failed: {file.message}", err=True)
    if as_json:
        answer(_content(done, failed))
    click.get_current_context().exit(UNREADABLE if failed else 0)


def _tell(done: "Sequence[Conversion]") -> None:
    for one in done:
        say(
            f"{one.source} ({one.source_format}, {number_of(one.marks, 'mark')}) → {one.target} ({one.target_format}, "
            f"{number_of(one.written, 'mark')})",
            err=True,
        )
        for remark in (*one.remarks, *one.lost):
            say(f"  {remark}", err=True)


def _content(done: "Sequence[Conversion]", failed: "Sequence[Unread]") -> dict[str, Any]:
    return {
        "version": __version__,
        "tables": [
            {
                "source": str(one.source),
                "target": str(one.target),
                "from": one.source_format,
                "to": one.target_format,
                "marks": one.marks,
                "written": one.written,
                "remarks": list(one.remarks),
                "lost": list(one.lost),
            }
            for one in done
        ],
        "failures": [{"table": str(file.path), "message": file.message} for file in failed],
    }
