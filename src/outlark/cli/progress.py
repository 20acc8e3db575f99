"""Progress on stderr: a bar or a changing line on a terminal, a line every ten seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlark.batch.report import State
from outlark.cli.say import say
from outlark.plain_text import number_of, visible

#: Seconds between lines where there is no terminal.
LINES_S = 10.0
#: Seconds of work after which the remaining time is estimated.
SURE_S = 5.0


class Pace:
    """Estimates the remaining time from the speed since the first audio was processed.

    Starting processes and loading models says nothing about the rest of the run; neither does the first moment.

    >>> pace = Pace()
    >>> states = [State(total=1, bytes_total=1000.0, bytes_done=done) for done in (0.0, 10.0, 20.0, 110.0)]
    >>> [pace.left_s(state, now_s) for state, now_s in zip(states, (0.0, 8.0, 8.5, 18.0))]
    [None, None, None, 89.0]
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def left_s(self, state: State, now_s: float) -> float | None:
        """None until there is an estimate."""
        if not 0.0 < state.bytes_done < state.bytes_total:
            return None
        if self._first is None:
            self._first = now_s, state.bytes_done
        since_s, done = now_s - self._first[0], state.bytes_done - self._first[1]
        return None if since_s < SURE_S or done <= 0.0 else since_s * (state.bytes_total - state.bytes_done) / done


def words(state: State, elapsed_s: float, left_s: float | None = None) -> str:
    """The state of a run as text.

    >>> state = State(total=300, done=15, skipped=5, bytes_total=1000.0, bytes_done=250.0, seconds=900.0)
    >>> words(state, 30.0, 90.0)
    '20 of 300 files, 30 × real time, 0:01:30 left'
    """
    said = [f"{state.finished} of {number_of(state.total, 'file')}"]
    if state.failures:
        said.append(f"{len(state.failures)} failed")
    if state.seconds and elapsed_s:
        said.append(f"{rate(state.seconds, elapsed_s)} × real time")
    if left_s is not None:
        said.append(f"{clock(left_s)} left")
    return ", ".join(said)


def rate(seconds: float, elapsed_s: float) -> str:
    """Seconds of audio per second, to three digits."""
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
def steps(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function that shows the present step."""
    if quiet:
        yield lambda text: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status(Text("…")) as status:
            yield lambda text: status.update(Text(visible(text)))
    else:
        yield _lines()


@contextmanager
def counted(quiet: bool, what: str) -> Iterator[Callable[[int, int], None]]:
    """A function that shows how many of how many are done."""
    with _bar(quiet) as update:
        yield lambda done, total: update(done, total, f"{done} of {total} {what}")


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[[State], None]]:
    """A function that shows the states of a run."""
    start, pace = time.monotonic(), Pace()

    def in_words(state: State) -> str:
        now = time.monotonic()
        return words(state, now - start, pace.left_s(state, now))

    with _bar(quiet, "loading the model") as update:
        yield lambda state: update(state.bytes_done, max(1.0, state.bytes_total), in_words(state))


def _lines() -> Callable[[str], None]:
    last = time.monotonic()

    def show(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINES_S:
            last = now
            say(text, err=True)

    return show


@contextmanager
def _bar(quiet: bool, at_first: str = "") -> Iterator[Callable[[float, float, str], None]]:
    """A bar with text on a terminal, and otherwise the text alone."""
    if quiet or not sys.stderr.isatty():
        with steps(quiet) as show:
            yield lambda done, total, text: show(text)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(at_first, total=None)
        yield lambda done, total, text: progress.update(bar, completed=done, total=total, description=text)
