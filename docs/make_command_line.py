"""Writes docs/command-line.md: the introduction, and what `outlark help` shows of each command."""

from pathlib import Path

from outlark.cli.help import page as notes_of
from outlark.cli.help import section
from outlark.cli.main import COMMANDS

PAGE = Path(__file__).parent / "command-line.md"
MARK = "<!-- Written by docs/make_command_line.py from --help and src/outlark/cli/pages/; edit those. -->"


def page() -> str:
    """The whole page."""
    return "\n\n".join([MARK, notes_of("index"), *map(section, COMMANDS)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
