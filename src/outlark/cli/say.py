"""All that the program prints goes through here, so that no label and no file name reaches a terminal as it is."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

from outlark.plain_text import visible, visible_json

if TYPE_CHECKING:
    import rich.table


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print for people: what a terminal would obey is spelt out, and so is what it cannot show."""
    click.echo(_showable(visible(str(text)), sys.stderr if err else sys.stdout), err=err, nl=nl)


def draw(table: "rich.table.Table") -> None:
    """Print a table with lines on a terminal; its cells have been made visible."""
    from rich.console import Console

    console = Console()
    with console.capture() as captured:
        console.print(table)
    click.echo(_showable(captured.get(), sys.stdout), nl=False)


def say_line(line: str) -> None:
    """Print a line of JSON for programs, in UTF-8 whatever the terminal knows, at once."""
    click.echo(visible_json(line).encode(), nl=False)


def answer(content: Mapping[str, Any]) -> None:
    """Print the JSON object of --json."""
    say_line(json.dumps(content) + "\n")


def _showable(text: str, stream: TextIO) -> str:
    """The text with what the stream cannot encode spelt out."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
