"""What a verb is doing, on standard error: one line that changes on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from outlark.cli.progress import LINES_S


@contextmanager
def steps(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function to tell the present step to, which shows it."""
    if quiet:
        yield lambda text: None
    elif sys.stderr.isatty():
        with _status() as tell:
            yield tell
    else:
        yield _lines()


def _lines() -> Callable[[str], None]:
    last = time.monotonic()

    def tell(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINES_S:
            last = now
            click.echo(text, err=True)

    return tell


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text("…")) as status:
        yield lambda text: status.update(Text(text))
