"""The driver for one machine: worker processes, each with a model and a pipe.

A pool of the standard library breaks as a whole when one of its processes dies; here only the bundle under way is lost.
"""

import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

from outlark.batch.journal import lock
from outlark.batch.task import Event, Task, Unit
from outlark.errors import InputError, OutlarkError

#: Seconds to wait for a run that is about to end, and for the processes of one that was killed a moment ago.
LOCK_WAIT_S = 10.0
#: One BLAS thread per process, because the processes share the cores; and no imports from the folder of the user.
ENVIRONMENT = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONSAFEPATH"), "1")
#: Seconds between reports of progress.
REPORT_S = 0.5


def work_for(task: Task, connection: "Connection[Any, Any]", log: Path) -> None:
    """The life of a worker process.

    It sends ``{"splits": whether recordings can be split}`` or ``{"refused": message}``, then receives bundles of units
    and sends for each the progress, (number of the unit, seconds analysed, share of it), and the list of outcomes. What
    libraries print goes to the `log`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent process handles it
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    printed = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    last = time.monotonic()

    def progress(number: int, seconds: float, share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= REPORT_S:
            last = time.monotonic()
            connection.send((number, seconds, share))

    with lock(task.work_folder / "workers", shared=True, wait_s=LOCK_WAIT_S):
        from outlark.batch.engine import Engine  # slow to import; the process that starts others does not need it

        try:
            engine = Engine(task, task.work_folder / "partial" / str(os.getpid()))
        except OutlarkError as error:
            connection.send({"refused": str(error)})
            return
        connection.send({"splits": engine.splits})
        while True:
            connection.send(engine.work(connection.recv(), progress))


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()  # its end of a pipe closes, however it ends
    os._exit(0)


class WorkerPool:
    """Worker processes for a ``with`` block; they end with it, or with this process."""

    def __init__(self, task: Task, n_workers: int) -> None:
        self._task, self.n_workers = task, n_workers
        self._idle: list[_Worker] = []
        self._busy: dict[Connection[Any, Any], _Worker] = {}

    @property
    def n_free(self) -> int:
        return self.n_workers - len(self._busy)

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    def start(self, n_units: int) -> bool:
        """Start processes for this many units, and wait for the first; whether recordings can be split."""
        for _ in range(min(self.n_workers, n_units)):
            self._idle.append(_Worker(self._task))
        try:
            return _ready(self._idle[0].connection.recv())
        except (EOFError, OSError):
            raise InputError(f"could not start a worker process: {self._idle[0].last_words()}") from None

    def submit(self, bundle: Sequence[Unit]) -> None:
        worker = self._idle.pop(0) if self._idle else _Worker(self._task)
        worker.bundle = bundle
        try:
            worker.connection.send(bundle)
        except OSError:  # it died while it had nothing to do
            worker.close()
            self.submit(bundle)
        else:
            self._busy[worker.connection] = worker

    def events(self, wait_s: float = REPORT_S) -> Iterator[Event]:
        """As `Driver.events`."""
        for connection in wait(list(self._busy), timeout=wait_s):
            assert isinstance(connection, Connection)
            worker = self._busy[connection]
            try:
                news = connection.recv()
            except (EOFError, OSError):
                del self._busy[connection]
                died = worker.last_words()
                worker.close()
                yield from (Event(unit, {"died": died}) for unit in worker.bundle)
                continue
            if isinstance(news, tuple):
                number, seconds, share = news
                yield Event(worker.bundle[number], {"seconds": seconds, "share": share})
            elif isinstance(news, list):
                self._idle.append(self._busy.pop(connection))
                yield from map(Event, worker.bundle, news)
            else:
                _ready(news)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in [*self._idle, *self._busy.values()]:
            worker.close()


def _ready(news: dict[str, Any]) -> bool:
    """Whether recordings can be split, from the first message of a worker."""
    if "refused" in news:
        raise InputError(news["refused"])
    return news["splits"]


class _Worker:
    """A process, and the units that it was given last."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take threads and locks with it
        self.bundle: Sequence[Unit] = ()
        self._log = task.work_folder / "partial" / f"{secrets.token_hex(8)}.log"
        self._log.parent.mkdir(exist_ok=True)
        self._log.touch()
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work_for, args=(task, theirs, self._log), daemon=True)
        try:
            with as_workers_are_started():
                self._process.start()
        except OSError as error:
            raise InputError(f"could not start a worker process ({error})") from error
        theirs.close()  # so that its end is noticed here

    def last_words(self) -> str:
        """Why the process died."""
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        if code < 0:
            name = signal.Signals(-code).name
            often = "; out of memory? Use fewer jobs (-j)" if name == "SIGKILL" else ""
            return f"the process was ended by signal {-code} ({name}){often}"
        said = self._log.read_text(errors="replace").strip().splitlines()
        return f"the process ended with code {code}" + (f": {said[-1]:.300}" if said else "")

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._log.unlink(missing_ok=True)


@contextmanager
def as_workers_are_started() -> Iterator[None]:
    """Start processes with our environment and without Ctrl-C, which this process handles."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    masked = hasattr(signal, "pthread_sigmask")  # a mask is inherited, by threads too; a Ctrl-C meanwhile is not lost
    if masked:
        resource_tracker.ensure_running()  # which removes such a mask when it starts
        old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if masked:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
