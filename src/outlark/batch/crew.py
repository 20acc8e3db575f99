"""The driver of one machine: executors of the standard library, one process each.

An executor with several processes breaks as a whole when one of them dies. With one process each, the death of one
costs the unit that it was at work on, and nothing else.
"""

import multiprocessing
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from outlark.batch import worker
from outlark.batch.driver import Event
from outlark.batch.task import Task
from outlark.batch.unit import Unit
from outlark.errors import InputError

#: One BLAS thread for each process: the processes share the cores. And nothing that lies in the folder of the user is
#: taken for a module.
ENVIRONMENT = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONSAFEPATH"), "1")
#: Seconds after which it is told how far units are.
TELL_S = 0.5


class Crew:
    """Processes that work side by side, for as long as a ``with`` block lasts; they end with it, or with this process.

    Parameters
    ----------
    task : Task
    n_workers : int
    """

    def __init__(self, task: Task, n_workers: int) -> None:
        self._task, self._n_workers = task, n_workers
        self._idle: list[_Worker] = []
        self._busy: dict[Future[dict[str, Any]], tuple[_Worker, Unit]] = {}

    @property
    def n_free(self) -> int:
        """How many units can be submitted now."""
        return self._n_workers - len(self._busy)

    def start(self, n_units: int) -> bool:
        """Start processes for so many units, and wait for the first; whether recordings can be worked on in parts.

        Raises
        ------
        InputError
            When the task cannot be done at all.
        """
        self._idle = [_Worker(self._task) for _ in range(min(self._n_workers, n_units))]
        loading = [hired.submit(worker.ready) for hired in self._idle]
        try:
            reply = loading[0].result()
        except BrokenProcessPool:
            why = self._idle[0].last_words()
            raise InputError(f"no process could be started that works on the recordings: {why}") from None
        if "refused" in reply:
            raise InputError(reply["refused"])
        return reply["splits"]

    def submit(self, unit: Unit) -> None:
        """Have a unit done; `events` will tell what came of it."""
        hired = self._idle.pop(0) if self._idle else _Worker(self._task)
        self._busy[hired.submit(worker.do, unit)] = hired, unit

    @property
    def busy(self) -> bool:
        """Whether units are under way."""
        return bool(self._busy)

    def events(self, wait_s: float = TELL_S) -> Iterator[Event]:
        """What has happened to the units that were submitted; waits until something has, but not for long."""
        ended, under_way = wait(self._busy, timeout=wait_s, return_when=FIRST_COMPLETED)
        for future in under_way:
            hired, unit = self._busy[future]
            seconds, share = hired.told
            if share:
                yield Event(unit, {"seconds": seconds, "share": share})
        for future in ended:
            hired, unit = self._busy.pop(future)
            try:
                what = future.result()
                self._idle.append(hired)
            except BrokenProcessPool:
                what = {"died": hired.last_words()}
                hired.close()
            yield Event(unit, what)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for hired in [*self._idle, *(hired for hired, _ in self._busy.values())]:
            hired.close()


class _Worker:
    """One process with a model."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take threads and locks with it
        self.told = context.RawArray("d", 2)
        self._complaints = Path(task.workshop, "partial", f"{secrets.token_hex(8)}.log")
        self._complaints.parent.mkdir(exist_ok=True)
        self._complaints.touch()
        given = (task, self.told, str(self._complaints))
        self._executor = ProcessPoolExecutor(1, mp_context=context, initializer=worker.begin, initargs=given)
        self._process: Any = None

    def submit(self, function: Callable[..., dict[str, Any]], *given: Any) -> "Future[dict[str, Any]]":
        """Have it call a function."""
        self.told[:] = (0.0, 0.0)
        if self._process is not None:
            return self._executor.submit(function, *given)
        others = set(multiprocessing.active_children())
        try:
            with as_processes_are_started():
                future = self._executor.submit(function, *given)
        except OSError as error:
            raise InputError(f"no process could be started that works on the recordings ({error})") from error
        (self._process,) = set(multiprocessing.active_children()) - others
        return future

    def last_words(self) -> str:
        """Why a process that should not have ended has."""
        self._process.join()
        code = self._process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            often = "; out of memory? Give fewer jobs (-j)" if name == "SIGKILL" else ""
            return f"the process was ended by signal {-code} ({name}){often}"
        said = self._complaints.read_text(errors="replace").strip().splitlines()
        return f"the process ended with code {code}" + (f": {said[-1]:.300}" if said else "")

    def close(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
        self._executor.shutdown(cancel_futures=True)
        self._complaints.unlink(missing_ok=True)


@contextmanager
def as_processes_are_started() -> Iterator[None]:
    """Our environment for processes that are started, and no Ctrl-C for them: whoever started them decides."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    masked = hasattr(signal, "pthread_sigmask")  # a mask is inherited, by threads too; what comes now is not lost
    if masked:
        resource_tracker.ensure_running()  # which takes away such a mask when it starts
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masked else None
    try:
        yield
    finally:
        if masked and old is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
