"""All that the program prints goes through here, so that no label and no file name reaches a terminal as it is."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from outlark.plain_text import visible, visible_json


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print for people: what a terminal would obey is spelt out, and so is what it cannot show."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(visible(str(text)).encode(encoding, "backslashreplace").decode(encoding), err=err, nl=nl)


def say_line(line: str) -> None:
    """Print a line of JSON for programs, in UTF-8 whatever the terminal knows, at once."""
    click.echo(visible_json(line).encode(), nl=False)


def answer(content: Mapping[str, Any]) -> None:
    """Print the JSON object of --json."""
    say_line(json.dumps(content) + "\n")
