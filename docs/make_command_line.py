"""Writes docs/command-line.md from what `outlark help` shows: the help of the commands and src/outlark/cli/pages.

For each command: its help, its usage and its options as `--help` shows them, then `pages/COMMAND.md`, which holds
examples and longer notes. `pages/index.md` is the introduction. Run `make docs-reference`.
"""

from collections.abc import Iterator
from pathlib import Path

from outlark.cli.help import Manual, manual_of
from outlark.cli.help import page as notes_of
from outlark.cli.main import COMMANDS

PAGE = Path(__file__).parent / "command-line.md"
MARK = "<!-- Written by docs/make_command_line.py from --help and src/outlark/cli/pages/; edit those. -->"


def page() -> str:
    """The whole page."""
    parts = [MARK, notes_of("index"), *(_section(manual_of(name)) for name in COMMANDS)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(manual: Manual) -> str:
    usage, options = f"```\n{manual.usage}\n```", "\n".join(_table(manual.options))
    parts = [f"## outlark {manual.name}", manual.help, usage, options, manual.notes]
    return "\n\n".join(part for part in parts if part)


def _table(options: list[tuple[str, str]]) -> Iterator[str]:
    if options:
        yield "| option | what it does |"
        yield "|---|---|"
    for names, meaning in options:
        yield f"| `{_cell(names)}` | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
