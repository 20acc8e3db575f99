"""How far a run is, on standard error: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlark.batch.report import State
from outlark.cli.say import say
from outlark.plain_text import number_of

#: Seconds between lines where there is no terminal.
LINES_S = 10.0
#: Seconds of work after which the time left is told.
SURE_S = 5.0


class Pace:
    """How much time is left, by how fast it went since the first sound was through.

    What came before, the start of processes and the loading of models, says nothing about the rest; neither does the
    first moment.

    >>> pace = Pace()
    >>> states = [State(total=1, bytes_total=1000.0, bytes_done=done) for done in (0.0, 10.0, 20.0, 110.0)]
    >>> [pace.left_s(state, now_s) for state, now_s in zip(states, (0.0, 8.0, 8.5, 18.0))]
    [None, None, None, 89.0]
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def left_s(self, state: State, now_s: float) -> float | None:
        """None as long as it cannot be told."""
        if not 0.0 < state.bytes_done < state.bytes_total:
            return None
        if self._first is None:
            self._first = now_s, state.bytes_done
        since_s, done = now_s - self._first[0], state.bytes_done - self._first[1]
        return None if since_s < SURE_S or done <= 0.0 else since_s * (state.bytes_total - state.bytes_done) / done


def words(state: State, elapsed_s: float, left_s: float | None = None) -> str:
    """What there is to tell.

    >>> state = State(total=300, done=20, skipped=5, bytes_total=1000.0, bytes_done=250.0, seconds=900.0)
    >>> words(state, 30.0, 90.0)
    '20 of 300 files, 30 × real time, 0:01:30 left'
    """
    told = [f"{state.done} of {number_of(state.total, 'file')}"]
    if state.failures:
        told.append(f"{len(state.failures)} failed")
    if state.seconds and elapsed_s:
        told.append(f"{rate(state.seconds, elapsed_s)} × real time")
    if left_s is not None:
        told.append(f"{clock(left_s)} left")
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
    pace = Pace()

    def watch(state: State) -> None:
        nonlocal last
        now = time.monotonic()
        left_s = pace.left_s(state, now)
        if now - last >= LINES_S:
            last = now
            say(words(state, now - start, left_s), err=True)

    return watch


@contextmanager
def _bar() -> Iterator[Callable[[State], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    start, pace = time.monotonic(), Pace()
    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("the model is loaded", total=None)

        def watch(state: State) -> None:
            now = time.monotonic()
            told = words(state, now - start, pace.left_s(state, now))
            progress.update(bar, total=max(1.0, state.bytes_total), completed=state.bytes_done, description=told)

        yield watch
