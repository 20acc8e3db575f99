"""How far a run is, on standard error: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlark.batch.run import State
from outlark.cli.say import say

#: Seconds between lines where there is no terminal.
LINES_S = 10.0


def words(state: State, elapsed_s: float) -> str:
    """What there is to tell.

    >>> state = State(total=300, done=20, skipped=5, bytes_total=1000.0, bytes_done=250.0, seconds=900.0)
    >>> words(state, 30.0)
    '20 of 300 files, 30 × real time, 0:01:30 left'
    """
    told = [f"{state.done} of {state.total} files"]
    if state.failures:
        told.append(f"{len(state.failures)} failed")
    if state.seconds and elapsed_s:
        told.append(f"{rate(state.seconds, elapsed_s)} × real time")
    if state.bytes_done and state.bytes_done < state.bytes_total:
        told.append(f"{clock(elapsed_s * (state.bytes_total / state.bytes_done - 1.0))} left")
    return ", ".join(told)


def rate(seconds: float, elapsed_s: float) -> str:
    """How many seconds of sound in one second, to three digits."""
    times = seconds / max(elapsed_s, 1e-3)
    return f"{times:.3g}" if times < 1000.0 else f"{times:.0f}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(3725.4)
    '1:02:05'
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[[State], None]]:
    """A function to tell states to, which shows them."""
    if quiet:
        yield lambda state: None
    elif sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield _lines()


def _lines() -> Callable[[State], None]:
    start = last = time.monotonic()

    def watch(state: State) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINES_S:
            last = now
            say(words(state, now - start), err=True)

    return watch


@contextmanager
def _bar() -> Iterator[Callable[[State], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    start = time.monotonic()
    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("the model is loaded", total=None)

        def watch(state: State) -> None:
            elapsed = time.monotonic() - start
            total = max(1.0, state.bytes_total)
            progress.update(bar, total=total, completed=state.bytes_done, description=words(state, elapsed))

        yield watch
