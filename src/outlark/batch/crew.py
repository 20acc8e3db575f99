"""The driver of one machine: executors of the standard library, one process each.

An executor with several processes breaks as a whole when one of them dies. With one process each, the death of one
costs the unit that it was at work on, and nothing else.
"""

import multiprocessing
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import parent_process, resource_tracker
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from outlark.batch.lock import lock
from outlark.batch.task import Task
from outlark.batch.unit import Event, Unit
from outlark.errors import InputError, OutlarkError

if TYPE_CHECKING:  # the process that starts others does not need a model, which is slow to import
    from outlark.batch.engine import Engine

#: Seconds to wait for a run that is about to end.
WAIT_S = 10.0
#: The model of this process, with what it takes to use it; by `begin`.
_here: dict[str, Any] = {}


def start_worker(task: Task, told: Any, complaints: str) -> None:
    """Prepare this process, which is to do nothing else.

    Parameters
    ----------
    task : Task
    told : array of two numbers in shared memory
        Seconds of sound that are done of the unit under way, and the share of the recording.
    complaints : str
        A file for what libraries print.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the one that asked decides
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    log = os.open(complaints, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    held = ExitStack()  # the lock, for as long as the process lives
    held.enter_context(lock(task.workshop / "workers", shared=True, wait_s=WAIT_S))
    _here.update(task=task, told=told, held=held)


def worker_ready() -> dict[str, Any]:
    """Load the model.

    Returns
    -------
    dict
        ``{"splits": whether parts of a recording can be worked on}``, or ``{"refused": message}`` if the task cannot be
        done at all.
    """
    try:
        return {"splits": _engine().splits}
    except OutlarkError as error:
        return {"refused": str(error)}


def do_unit(unit: Unit) -> dict[str, Any]:
    """Do a unit, in a process that `begin` has prepared.

    Returns
    -------
    dict
        ``{"done": …}``, ``{"failed": message}``, or ``{"refused": message}`` if the task cannot be done at all.
    """
    told = _here["told"]
    told[:] = (0.0, 0.0)

    def progress(seconds: float, share: float) -> None:
        told[:] = (seconds, share)

    try:
        engine = _engine()
    except OutlarkError as error:
        return {"refused": str(error)}
    return outcome(unit, lambda: engine.work(unit, progress))


def outcome(unit: Unit, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What came of the work on a unit; whatever is wrong with one recording must not stop the others."""
    from outlark.batch.part_file import DamagedPartError

    path = unit.source.path
    try:
        return {"done": work()}
    except DamagedPartError as error:
        return {"failed": str(error), "damaged": True}
    except OutlarkError as error:
        return {"failed": str(error)}
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return {"failed": f"{where}{error.strerror or error}; free some space, or check that you may write there"}
    except MemoryError:
        return {"failed": f"{path}: not enough memory; use fewer jobs (-j)"}
    except Exception as error:
        return {"failed": f"{path}: {type(error).__name__}: {error}; please report this"}


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
        loading = [hired.submit(worker_ready) for hired in self._idle]
        try:
            reply = loading[0].result()
        except BrokenProcessPool:
            why = self._idle[0].last_words()
            raise InputError(f"could not start a worker process: {why}") from None
        if "refused" in reply:
            raise InputError(reply["refused"])
        return reply["splits"]

    def submit(self, unit: Unit) -> None:
        """Have a unit done; `events` will tell what came of it."""
        hired = self._idle.pop(0) if self._idle else _Worker(self._task)
        try:
            future = hired.submit(do_unit, unit)
        except BrokenProcessPool:  # its process died while it had nothing to do
            hired.close()
            return self.submit(unit)
        self._busy[future] = hired, unit
        return None

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
        self._executor = ProcessPoolExecutor(1, mp_context=context, initializer=start_worker, initargs=given)
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
            raise InputError(f"could not start a worker process ({error})") from error
        (self._process,) = set(multiprocessing.active_children()) - others
        return future

    def last_words(self) -> str:
        """Why a process that should not have ended has."""
        self._executor.shutdown()  # a thread of its own waits for the process, and only one can be told the code
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
