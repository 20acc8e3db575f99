"""`outlark help`: the reference of a command, in a pager on a terminal; docs/command-line.md is the same text.

The text is the help of the command and `pages/COMMAND.md`, which holds examples and longer notes; `pages/index.md` is
the introduction. Links in the pages count from docs/.
"""

import inspect
import re
import shutil
import sys
from importlib.resources import files
from textwrap import indent

import click

from outlark.cli.main import COMMANDS, main
from outlark.cli.terminal import say_pages

#: Columns at most.
WIDEST = 100


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in COMMANDS if name.startswith(incomplete)]


@click.command()
@click.argument("about", required=False, metavar="COMMAND", shell_complete=_complete)
@click.pass_context
def command(ctx: click.Context, about: str | None) -> None:
    """Show the manual page of a COMMAND, or of outlark: options, examples and all that is in the reference.

    On a terminal the page opens in a pager: $PAGER, or less. Elsewhere it is plain text. It needs no network.
    """
    if about is not None:
        main.resolve_command(ctx.parent or ctx, [about])  # the usual error if there is no such command
        say_pages(_drawn(section(about)))
    else:
        commands = "\n".join(f"- `outlark {name}`: {summary}" for name, summary in COMMANDS.items())
        say_pages(_drawn(f"{page('index')}\n\n{commands}"))


def section(name: str) -> str:
    """The reference of a command, as Markdown."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    context = click.Context(command, info_name=f"outlark {name}", terminal_width=10_000, **main.context_settings)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    parts = [f"## outlark {name}", as_markdown(command.help or ""), f"```\n{usage}\n```", _options(command, context)]
    return "\n\n".join(part for part in (*parts, page(name)) if part)


def _options(command: click.Command, context: click.Context) -> str:
    """A list; without the ranges of numbers, which error messages name."""
    rows = [row for one in command.params if isinstance(one, click.Option) and (row := one.get_help_record(context))]
    return "\n".join(f"- `{names}`: {_code(_without_ranges(' '.join(help.split())))}" for names, help in rows)


def page(name: str) -> str:
    """The longer notes on a command, or "index"; empty if there are none."""
    path = files("outlark.cli") / "pages" / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _drawn(markdown: str) -> str:
    """As text, with bold headings on a terminal."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.text import Text

    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = min(WIDEST, shutil.get_terminal_size().columns)
    console = Console(width=width, force_terminal=terminal, no_color=True, highlight=False, legacy_windows=False)
    with console.capture() as captured:
        for block in blocks(_without_links(markdown)):
            if block.startswith("```"):  # not wrapped, so that it can be copied
                console.print(Text(indent("\n".join(block.splitlines()[1:-1]), "    ")), soft_wrap=True)
            elif block.startswith("#"):
                console.print(Text(block.lstrip("# "), style="bold"))
            else:
                console.print(Markdown(block))
            console.print()
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _without_links(markdown: str) -> str:
    """Figures are left out, and links are their text: their targets are not installed.

    >>> _without_links("![x](a.png) see [formats](formats.md)")
    ' see formats'
    """
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"!\[[^\]]*\]\([^)]*\)", "", markdown))


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


def _without_ranges(help: str) -> str:
    words = re.sub(r"(; | \[)[^];[]*\bx\b[<>=]*[\d.]*(?=\])", lambda found: found[1].rstrip("; "), help)
    return words.replace(" []", "").replace("[]", "")


def _code(text: str) -> str:
    """Commands in quotation marks, and options, as code."""
    parts = re.sub(r"'(outlark [^']*)'", r"`\1`", text).split("`")
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)
