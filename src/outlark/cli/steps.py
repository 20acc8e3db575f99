"""What a verb is doing, on standard error: one line that changes on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlark.cli.progress import LINES_S
from outlark.cli.say import say
from outlark.plain_text import visible


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
            say(text, err=True)

    return tell


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text("…")) as status:
        yield lambda text: status.update(Text(visible(text)))


@contextmanager
def counted(quiet: bool, what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to tell how many of how many are done, as a bar or, without a terminal, a line now and then."""
    if quiet or not sys.stderr.isatty():
        with steps(quiet) as tell:
            yield lambda done, total: tell(f"{done} of {total} {what}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.completed} of {task.total} {task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
