"""Everything that the program prints goes through here, so that no label or file name reaches a terminal unescaped."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TextIO

import click

from outlark.commands import Alert, Remark, Result, TextTable, on_failures, on_refused
from outlark.plain_text import looks_numeric, visible, visible_json

#: Exit codes: an error; finished, but some files could not be processed; stopped by Ctrl-C.
ERROR, UNREADABLE, STOPPED = 1, 3, 130


def finish(result: Result, given: Mapping[str, Any], code: int = 0) -> NoReturn:
    """Print a result as --quiet and --json in `given` ask for, and end the command with the exit code for it."""
    show(result, given)
    click.get_current_context().exit(code or (UNREADABLE if result.incomplete else 0))


def show(result: Result, given: Mapping[str, Any]) -> None:
    """Print a result as --quiet and --json in `given` ask for."""
    for line in result.lines():
        if isinstance(line, Alert | Remark):
            if isinstance(line, Alert) or not given["quiet"]:
                say(line, err=True)
        elif not given["as_json"]:
            show_table(line.rows, line.title) if isinstance(line, TextTable) else say(line)
    if given["as_json"]:
        answer(result.as_json())


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print for people; what a terminal would interpret, or cannot show, is escaped."""
    click.echo(_showable(visible(str(text)), sys.stderr if err else sys.stdout), err=err, nl=nl)


def say_line(line: str) -> None:
    """Print a line of JSON at once, in UTF-8 whatever the terminal's encoding."""
    click.echo(visible_json(line).encode(), nl=False)


def say_pages(text: str) -> None:
    """Print a long text of our own: in a pager on a terminal, as it is elsewhere."""
    if sys.stdout.isatty():
        click.echo_via_pager(_showable(text, sys.stdout))
    else:
        click.echo(_showable(text, sys.stdout), nl=False)


def answer(content: Mapping[str, Any]) -> None:
    """Print the JSON object of --json."""
    say_line(json.dumps(content) + "\n")


def show_table(rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print rows of cells, the first of which is the header: ruled on a terminal, plain text elsewhere."""
    rows = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
    numbers = [all(map(looks_numeric, column)) for column in zip(*rows[1:], strict=True)]
    if not sys.stdout.isatty():
        say((f"{title}\n" if title else "") + _plain(rows, numbers))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(visible(title)) if title else None, title_justify="left")
    for cell, number in zip(rows[0], numbers, strict=True):
        table.add_column(Text(cell), justify="right" if number else "left")
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    console = Console()
    with console.capture() as captured:
        console.print(table)
    click.echo(_showable(captured.get(), sys.stdout), nl=False)


def say_failures(failures: Sequence[tuple[str, str]], file: object, what: str = "failed") -> None:
    for line in on_failures(failures, file, what):
        say(line, err=True)


def say_refused(refused: Sequence[str]) -> None:
    for line in on_refused(refused):
        say(line, err=True)


def _plain(rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    """Aligned columns, numbers flush right.

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


def _showable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
