"""Everything that the program prints: results, progress, tables and JSON.

No label or file name reaches a terminal unescaped. Results go to stdout, remarks, warnings and progress to stderr.
Progress is a bar or a changing line on a terminal, and a line every ten seconds elsewhere.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from outlark.plain_text import (
    Alert,
    ProgressCallback,
    Remark,
    Result,
    TextTable,
    looks_numeric,
    number_of,
    visible,
    visible_json,
)

if TYPE_CHECKING:
    from outlark.batch.report import State

#: Exit codes: an error; finished, but some files could not be processed; stopped by Ctrl-C.
ERROR, UNREADABLE, STOPPED = 1, 3, 130
#: Seconds between lines of progress where there is no terminal.
LINES_S = 10.0
#: Seconds of work after which the remaining time is estimated.
SURE_S = 5.0


def finish(result: Result, given: Mapping[str, Any], code: int = 0) -> NoReturn:
    """Print a result as --quiet and --json in `given` ask for, and end the command with the exit code for it."""
    show(result, given)
    click.get_current_context().exit(code or (UNREADABLE if result.incomplete else 0))


def show(result: Result, given: Mapping[str, Any]) -> None:
    """Print a result as --quiet and --json in `given` ask for."""
    for line in result.lines():
        if isinstance(line, Alert | Remark):
            if isinstance(line, Alert) or not given["quiet"]:
                say(line, err=True)
        elif not given["as_json"]:
            show_table(line.rows, line.title) if isinstance(line, TextTable) else say(line)
    if given["as_json"]:
        answer(result.as_json())


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print for people; what a terminal would interpret, or cannot show, is escaped."""
    click.echo(_showable(visible(str(text)), sys.stderr if err else sys.stdout), err=err, nl=nl)


def say_all(lines: Iterable[object]) -> None:
    """Print lines on stderr."""
    for line in lines:
        say(line, err=True)


def say_line(line: str) -> None:
    """Print a line of JSON at once, in UTF-8 whatever the terminal's encoding."""
    click.echo(visible_json(line).encode(), nl=False)


def say_pages(text: str) -> None:
    """Print a trusted text: in a pager on a terminal, as it is elsewhere."""
    if sys.stdout.isatty():
        click.echo_via_pager(_showable(text, sys.stdout))
    else:
        click.echo(_showable(text, sys.stdout), nl=False)


def answer(content: Mapping[str, Any]) -> None:
    """Print the JSON object of --json."""
    say_line(json.dumps(content) + "\n")


def show_table(rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print rows of cells, the first of which is the header: ruled on a terminal, plain text elsewhere."""
    from rich.box import HEAVY_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
    ruled = sys.stdout.isatty()
    table = Table(box=HEAVY_HEAD if ruled else None, pad_edge=ruled)
    for name, *column in zip(*rows, strict=True):
        table.add_column(Text(name), justify="right" if all(map(looks_numeric, column)) else "left", no_wrap=not ruled)
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    width = None if ruled else 2 * sum(len(cell) + 1 for row in rows for cell in row)
    console = Console(width=width, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    if title:
        say(title)
    click.echo(_showable("\n".join(line.rstrip() for line in captured.get().splitlines()), sys.stdout))


def _showable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


# ------------------------------------------------------------------- progress


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
def counted(quiet: bool, what: str) -> Iterator[ProgressCallback]:
    """A function that shows how many of how many are done."""
    with _bar(quiet) as update:
        yield lambda done, total: update(done, total, f"{done} of {total} {what}")


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[["State"], None]]:
    """A function that shows the states of a run."""
    start, pace = time.monotonic(), Pace()

    def in_words(state: "State") -> str:
        now = time.monotonic()
        return words(state, now - start, pace.left_s(state, now))

    with _bar(quiet, "loading the model") as update:
        yield lambda state: update(state.bytes_done, max(1.0, state.bytes_total), in_words(state))


class Pace:
    """Estimates the remaining time from the speed since the first audio was processed.

    Starting processes and loading models says nothing about the rest of the run; neither does the first moment.

    >>> from outlark.batch.report import State
    >>> pace = Pace()
    >>> states = [State(total=1, bytes_total=1000.0, bytes_done=done) for done in (0.0, 10.0, 20.0, 110.0)]
    >>> [pace.left_s(state, now_s) for state, now_s in zip(states, (0.0, 8.0, 8.5, 18.0))]
    [None, None, None, 89.0]
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def left_s(self, state: "State", now_s: float) -> float | None:
        """None until there is an estimate."""
        if not 0.0 < state.bytes_done < state.bytes_total:
            return None
        if self._first is None:
            self._first = now_s, state.bytes_done
        since_s, done = now_s - self._first[0], state.bytes_done - self._first[1]
        return None if since_s < SURE_S or done <= 0.0 else since_s * (state.bytes_total - state.bytes_done) / done


def words(state: "State", elapsed_s: float, left_s: float | None = None) -> str:
    """The state of a run, such as "20 of 300 files, 30 × real time, 0:01:30 left"."""
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
