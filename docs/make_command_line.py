"""Writes docs/command-line.md from the help of the commands and from the notes in docs/command-line/.

For each command: its help, its usage and its options as `--help` shows them, then `docs/command-line/COMMAND.md`, which
holds examples and longer notes. `docs/command-line/index.md` is the introduction. Run `make docs-reference`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from outlark.cli.main import COMMANDS, main

PAGE = Path(__file__).parent / "command-line.md"
NOTES = Path(__file__).parent / "command-line"
MARK = "<!-- Written by docs/make_command_line.py from --help and docs/command-line/; edit those. -->"


def page() -> str:
    """The whole page."""
    parts = [MARK, _notes("index"), *(_section(name) for name in COMMANDS)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(name: str) -> str:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    context = click.Context(command, info_name=f"outlark {name}", **main.context_settings)
    usage = f"```\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    parts = [
        f"## outlark {name}",
        _text(command.help or ""),
        usage,
        "\n".join(_options(command, context)),
        _notes(name),
    ]
    return "\n\n".join(part for part in parts if part)


def _text(help: str) -> str:
    """Help as Markdown: one line per paragraph, code blocks for what is not to be wrapped."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", help.strip()):
        if paragraph.startswith("\b"):
            paragraphs.append("```\n" + "\n".join(line.strip() for line in paragraph.splitlines()[1:]) + "\n```")
        else:
            paragraphs.append(_code(" ".join(paragraph.split())))
    return "\n\n".join(paragraphs)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """A table of the options."""
    rows = [row for one in command.params if isinstance(one, click.Option) and (row := one.get_help_record(context))]
    if rows:
        yield "| option | what it does |"
        yield "|---|---|"
    for names, help in rows:
        words = re.sub(
            r"(; | \[)[^];[]*\bx\b[<>=]*[\d.]*(?=\])", lambda found: found[1].rstrip("; "), " ".join(help.split())
        )
        words = words.replace(" []", "").replace("[]", "")
        yield f"| `{_cell(names)}` | {_cell(_code(words))} |"


def _code(text: str) -> str:
    """Commands in quotation marks, and options, as code."""
    parts = re.sub(r"'(outlark [^']*)'", r"`\1`", text).split("`")
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _notes(name: str) -> str:
    path = NOTES / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
