"""`outlark help`: the manual pages, in a pager on a terminal; docs/command-line.md is made of the same text.

The text is the help of the command and `pages/COMMAND.md`, which holds examples and longer notes; `pages/index.md` is
the introduction. Links in the pages count from docs/.
"""

import inspect
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from textwrap import indent
from typing import TYPE_CHECKING, NamedTuple

import click

from outlark.cli.main import COMMANDS, main
from outlark.cli.terminal import say_pages
from outlark.version import __version__

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Columns at most, and by how many the text of a section is indented.
WIDEST, INDENT = 100, 4


class Section(NamedTuple):
    """Part of a manual page: a heading, Markdown, and names with their meanings."""

    heading: str
    text: str = ""
    names: Sequence[tuple[str, str]] = ()


class Manual(NamedTuple):
    """A command: its name and summary, how it is called, its help, options (names, meaning) and longer notes."""

    name: str
    summary: str
    usage: str
    help: str
    options: list[tuple[str, str]]
    notes: str


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
    sections = list(_program() if about is None else _command(about))
    title = "outlark" if about is None else f"outlark {about}"
    say_pages(_page(title, sections))


def _command(name: str) -> Iterator[Section]:
    manual = manual_of(name)
    yield Section("NAME", f"outlark {name} – {manual.summary}")
    yield Section("SYNOPSIS", f"```\n{manual.usage}\n```")
    yield from _described(manual)
    yield Section("EXIT STATUS", names=_exit_codes())
    named = set(re.findall(r"outlark ([a-z]+)", manual.help + manual.notes)) - {name}
    others = [f"`outlark {other}`" for other in COMMANDS if other in named] or ["`outlark`"]
    yield Section("SEE ALSO", ", ".join(others) + "; 'outlark help COMMAND' shows each.")


def _described(manual: Manual) -> Iterator[Section]:
    """Description, options and examples: code in the help, and the code that opens the notes."""
    help, notes = blocks(manual.help), blocks(manual.notes)
    text, examples = [block for block in help if not _is_code(block)], [block for block in help if _is_code(block)]
    while notes and _is_code(notes[0]):
        examples.append(notes.pop(0))
    yield Section("DESCRIPTION", "\n\n".join([*text, *notes]))
    yield Section("OPTIONS", names=[*manual.options, ("-h, --help", "Show a shorter help and exit.")])
    yield Section("EXAMPLES", "\n\n".join(examples))


def _program() -> Iterator[Section]:
    first, *rest = blocks(as_markdown(main.help or ""))
    usage, *notes = (block for block in blocks(page("index")) if not block.startswith(("# ", "| exit code")))
    yield Section("NAME", f"outlark – {first}")
    yield Section("SYNOPSIS", usage)
    yield Section("DESCRIPTION", "\n\n".join([*rest, *notes]))
    yield Section("COMMANDS", names=list(COMMANDS.items()))
    first_examples = [blocks(page(name))[0].splitlines()[1] for name in ("train", "detect", "evaluate")]
    yield Section("EXAMPLES", "\n".join(["```", *first_examples, "```"]))
    yield Section("EXIT STATUS", names=_exit_codes())
    yield Section("SEE ALSO", "`outlark help COMMAND`, and `outlark review`, which needs no command line.")


def _is_code(block: str) -> bool:
    return block.startswith("```")


def _exit_codes() -> list[tuple[str, str]]:
    """As the introduction says."""
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", page("index"), flags=re.MULTILINE)
    return [(code, meaning.replace("\\|", "|")) for code, meaning in rows]


def _page(title: str, sections: Sequence[Section]) -> str:
    """As text, with bold headings on a terminal."""
    from rich.console import Console
    from rich.text import Text

    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = min(WIDEST, shutil.get_terminal_size().columns)
    console = Console(width=width, force_terminal=terminal, no_color=True, highlight=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(f"[bold]{title}[/bold]", f"outlark {__version__}", sep=" " * 4, markup=True)
        for section in sections:
            console.print(f"\n[bold]{section.heading}[/bold]", markup=True)
            for part in _drawn(section):
                console.print(part, soft_wrap=isinstance(part, Text))  # code is not wrapped, so that it can be copied
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _drawn(section: Section) -> "Iterator[RenderableType]":
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.text import Text

    for i, block in enumerate(blocks(section.text)):
        if i:
            yield Text()
        if _is_code(block):
            yield Text(indent("\n".join(block.splitlines()[1:-1]), INDENT * " "))
        else:
            yield Padding(Markdown(_without_links(block)), (0, 0, 0, INDENT))
    for name, meaning in section.names:
        yield Text(INDENT * " ").append(name, style="bold")
        yield Padding(Markdown(_without_links(meaning)), (0, 0, 0, 2 * INDENT))


def _without_links(markdown: str) -> str:
    """Figures are left out, and links are their text: their targets are not installed.

    >>> _without_links("![x](a.png) see [formats](formats.md)")
    ' see formats'
    """
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"!\[[^\]]*\]\([^)]*\)", "", markdown))


# ---------------------------------------------------------------------- text


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
