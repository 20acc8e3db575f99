"""What is known about each command, in Markdown: for `outlark help` and for docs/command-line.md.

The text is the help of the command and `pages/COMMAND.md`, which holds examples and longer notes; `pages/index.md` is
the introduction. Links in the pages count from docs/.
"""

import inspect
import re
from importlib.resources import files
from typing import NamedTuple

import click

from outlark.cli.main import COMMANDS, main


class Manual(NamedTuple):
    """A command: its name and summary, how it is called, its help, options (names, meaning) and longer notes."""

    name: str
    summary: str
    usage: str
    help: str
    options: list[tuple[str, str]]
    notes: str


def manual_of(name: str) -> Manual:
    """What is known about a command.

    >>> manual_of("verify").usage
    'outlark verify [OPTIONS] OUT'
    """
    command = main.get_command(click.Context(main), name)
    assert command is not None
    context = click.Context(command, info_name=f"outlark {name}", terminal_width=10_000, **main.context_settings)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    return Manual(name, COMMANDS[name], usage, as_markdown(command.help or ""), _options(command, context), page(name))


def page(name: str) -> str:
    """The longer notes on a command, or "index"; empty if there are none."""
    path = files("outlark.cli") / "pages" / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def blocks(markdown: str) -> list[str]:
    """Paragraphs, tables and whole code blocks.

    >>> blocks("one\\n\\n```\\na\\n\\nb\\n```\\ntwo")
    ['one', '```\\na\\n\\nb\\n```', 'two']
    """
    parts = re.split(r"^(```.*?^```)$", markdown, flags=re.DOTALL | re.MULTILINE)
    found = [[part] if i % 2 else re.split(r"\n\s*\n", part) for i, part in enumerate(parts)]
    return [block.strip("\n") for part in found for block in part if block.strip()]


def as_markdown(help: str) -> str:
    """Help as Markdown: one line per paragraph, code blocks for what is not to be wrapped.

    >>> as_markdown("One\\n    line.\\n\\n    \\b\\n    outlark data list")
    'One line.\\n\\n```\\noutlark data list\\n```'
    """
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(help)):
        if paragraph.startswith("\b"):
            paragraphs.append("```\n" + "\n".join(line.strip() for line in paragraph.splitlines()[1:]) + "\n```")
        else:
            paragraphs.append(_code(" ".join(paragraph.split())))
    return "\n\n".join(paragraphs)


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Without the ranges of numbers, which error messages name."""
    rows = [row for one in command.params if isinstance(one, click.Option) and (row := one.get_help_record(context))]
    return [(names, _code(_without_ranges(" ".join(help.split())))) for names, help in rows]


def _without_ranges(help: str) -> str:
    words = re.sub(r"(; | \[)[^];[]*\bx\b[<>=]*[\d.]*(?=\])", lambda found: found[1].rstrip("; "), help)
    return words.replace(" []", "").replace("[]", "")


def _code(text: str) -> str:
    """Commands in quotation marks, and options, as code."""
    parts = re.sub(r"'(outlark [^']*)'", r"`\1`", text).split("`")
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)
