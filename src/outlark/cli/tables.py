"""Tables for people, and the options of verbs that read tables."""

import re
import sys
from collections.abc import Sequence

import click

from outlark.cli.options import options_together
from outlark.cli.say import draw, say
from outlark.plain_text import visible

_NUMBER = re.compile(r"[-+.\d]*")


def show(rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print rows of cells, the first of which are the heads: with lines on a terminal, as plain text elsewhere."""
    rows = [[visible(cell) for cell in row] for row in rows]
    numbers = [all(_NUMBER.fullmatch(cell) for cell in column) for column in zip(*rows[1:], strict=True)]
    if not sys.stdout.isatty():
        say((f"{title}\n" if title else "") + _plain(rows, numbers))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(visible(title)) if title else None, title_justify="left")
    for cell, number in zip(rows[0], numbers, strict=True):
        table.add_column(Text(cell), justify="right" if number else "left")
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    draw(table)


def _plain(rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    """Cells under each other, numbers to the right.

    >>> print(_plain([["class", "notes"], ["song", "12"]], [False, True]))
    class  notes
    song      12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, numbers, strict=True)
        lines.append("  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells))
    return "\n".join(line.rstrip() for line in lines)


def readable_format(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """The name of a format that can be read."""
    return _checked(ctx, given, "read")


def writable_format(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """The name of a format that can be written."""
    return _checked(ctx, given, "written")


def _checked(ctx: click.Context, given: str | None, done: str) -> str | None:
    if given is None or ctx.resilient_parsing:
        return given
    able = _names(done)
    if given not in able:
        raise click.BadParameter(f"{given!r} is no format that can be {done}; there are {', '.join(able)}")
    return given


def _names(done: str) -> list[str]:
    from outlark.annotations import FORMATS

    return [name for name, format in FORMATS.items() if (format.reads if done == "read" else format.writes)]


def complete_readable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of formats for a shell."""
    return [name for name in _names("read") if name.startswith(incomplete)]


def complete_writable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of formats for a shell."""
    return [name for name in _names("written") if name.startswith(incomplete)]


#: --label-column and --audio, as `label_column` and `audio`.
reading = options_together(
    click.option(
        "--label-column",
        metavar="NAME",
        help="The column of the labels, by name or number from 1. Without it: guessed, and told.",
    ),
    click.option(
        "--audio",
        multiple=True,
        type=click.Path(),
        metavar="DIR",
        help="Folder that holds the recordings of the tables, or folders within it do; may be given several times.",
    ),
)
