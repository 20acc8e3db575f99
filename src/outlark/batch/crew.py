"""The driver for one machine: executors of the standard library with one process each.

An executor with several processes breaks as a whole when one of them dies; with one process each, only the unit under
way is lost.
"""

import multiprocessing
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import parent_process, resource_tracker
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from outlark.batch.journal import lock
from outlark.batch.task import Task
from outlark.batch.unit import Event, Unit
from outlark.errors import InputError, OutlarkError

if TYPE_CHECKING:  # the process that starts others does not need a model, which is slow to import
    from outlark.batch.engine import Engine

#: Seconds to wait for a run that is about to end.
WAIT_S = 10.0
#: One BLAS thread per process, because the processes share the cores; and no imports from the folder of the user.
ENVIRONMENT = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONSAFEPATH"), "1")
#: Seconds between reports of progress.
TELL_S = 0.5
#: In a worker process: its task, model and so on, from `start_worker`.
_here: dict[str, Any] = {}


def start_worker(task: Task, progress: Any, complaints: str) -> None:
    """Prepare this process, which does nothing else.

    Parameters
    ----------
    progress : array of three numbers in shared memory
        The unit under way, by its number in the bundle; seconds of audio analysed in it, and the share of it.
    complaints : str
        A file for what libraries print.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the one that asked decides
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    log = os.open(complaints, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    held = ExitStack()  # the lock, while the process lives
    held.enter_context(lock(task.workshop / "workers", shared=True, wait_s=WAIT_S))
    _here.update(task=task, progress=progress, held=held)


def worker_ready() -> dict[str, Any]:
    """Load the model: ``{"splits": whether recordings can be split}``, or ``{"refused": message}``."""
    try:
        return {"splits": _engine().splits}
    except OutlarkError as error:
        return {"refused": str(error)}


def do_bundle(bundle: Sequence[Unit]) -> list[dict[str, Any]]:
    """Do units in a prepared process: ``{"done": …}``, ``{"failed": message}`` or ``{"refused": message}`` for each."""

    def progress(number: int, seconds: float, share: float) -> None:
        _here["progress"][:] = (number, seconds, share)

    try:
        engine = _engine()
    except OutlarkError as error:
        return [{"refused": str(error)}] * len(bundle)
    return engine.work(bundle, progress)


def _engine() -> "Engine":
    from outlark.batch.engine import Engine

    if "engine" not in _here:
        task = _here["task"]
        _here["engine"] = Engine(task, Path(task.workshop, "partial", str(os.getpid())))
    return _here["engine"]


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()  # its end of a pipe closes, however it ends
    os._exit(0)


class Crew:
    """Worker processes for a ``with`` block; they end with it, or with this process."""

    def __init__(self, task: Task, n_workers: int) -> None:
        self._task, self._n_workers = task, n_workers
        self._idle: list[_Worker] = []
        self._busy: dict[Future[Any], tuple[_Worker, Sequence[Unit]]] = {}

    @property
    def n_workers(self) -> int:
        return self._n_workers

    @property
    def n_free(self) -> int:
        return self._n_workers - len(self._busy)

    def start(self, n_units: int) -> bool:
        """Start processes for this many units, and wait for the first; whether recordings can be split."""
        self._idle = [_Worker(self._task) for _ in range(min(self._n_workers, n_units))]
        loading = [hired.submit(worker_ready) for hired in self._idle]
        try:
            reply = loading[0].result()
        except BrokenProcessPool:
            why = self._idle[0].last_words()
            raise InputError(f"could not start a worker process: {why}") from None
        if "refused" in reply:
            raise InputError(reply["refused"])
        return reply["splits"]

    def submit(self, bundle: Sequence[Unit]) -> None:
        hired = self._idle.pop(0) if self._idle else _Worker(self._task)
        try:
            future = hired.submit(do_bundle, bundle)
        except BrokenProcessPool:  # its process died while it had nothing to do
            hired.close()
            return self.submit(bundle)
        self._busy[future] = hired, bundle
        return None

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    def events(self, wait_s: float = TELL_S) -> Iterator[Event]:
        """As `Driver.events`."""
        ended, under_way = wait(self._busy, timeout=wait_s, return_when=FIRST_COMPLETED)
        for future in under_way:
            hired, bundle = self._busy[future]
            number, seconds, share = hired.progress
            if share:
                yield Event(bundle[int(number)], {"seconds": seconds, "share": share})
        for future in ended:
            hired, bundle = self._busy.pop(future)
            try:
                outcomes = future.result()
                self._idle.append(hired)
            except BrokenProcessPool:
                outcomes = [{"died": hired.last_words()}] * len(bundle)
                hired.close()
            yield from map(Event, bundle, outcomes)

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
        self.progress = context.RawArray("d", 3)
        self._complaints = Path(task.workshop, "partial", f"{secrets.token_hex(8)}.log")
        self._complaints.parent.mkdir(exist_ok=True)
        self._complaints.touch()
        given = (task, self.progress, str(self._complaints))
        self._executor = ProcessPoolExecutor(1, mp_context=context, initializer=start_worker, initargs=given)
        self._process: Any = None

    def submit(self, function: Callable[..., Any], *given: Any) -> "Future[Any]":
        self.progress[:] = (0.0, 0.0, 0.0)
        if self._process is not None:
            return self._executor.submit(function, *given)
        others = set(multiprocessing.active_children())
        try:
            with as_processes_are_started():
                future = self._executor.submit(function, *given)
        except OSError as error:
            raise InputError(f"could not start a worker process ({error})") from error
        (self._process,) = set(multiprocessing.active_children()) - others
        return future

    def last_words(self) -> str:
        """Why the process died."""
        self._executor.shutdown()  # a thread of its own waits for the process, and only one can be told the code
        code = self._process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            often = "; out of memory? Use fewer jobs (-j)" if name == "SIGKILL" else ""
            return f"the process was ended by signal {-code} ({name}){often}"
        said = self._complaints.read_text(errors="replace").strip().splitlines()
        return f"the process ended with code {code}" + (f": {said[-1]:.300}" if said else "")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._executor.shutdown(cancel_futures=True)
        self._complaints.unlink(missing_ok=True)


@contextmanager
def as_processes_are_started() -> Iterator[None]:
    """Start processes with our environment and without Ctrl-C, which this process handles."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    masked = hasattr(signal, "pthread_sigmask")  # a mask is inherited, by threads too; a Ctrl-C meanwhile is not lost
    if masked:
        resource_tracker.ensure_running()  # which removes such a mask when it starts
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
