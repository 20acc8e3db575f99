"""What a process does with one unit after the other. It holds a model, and ends when whoever started it ends."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlark.batch.lock import lock
from outlark.batch.task import Task
from outlark.batch.unit import Unit
from outlark.errors import OutlarkError

if TYPE_CHECKING:  # the process that starts others does not need a model, which is slow to import
    from outlark.batch.engine import Engine

#: Seconds to wait for a run that is about to end.
WAIT_S = 10.0
#: The model of this process, with what it takes to use it; by `begin`.
_here: dict[str, Any] = {}


def begin(task: Task, told: Any, complaints: str) -> None:
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


def ready() -> dict[str, Any]:
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


def do(unit: Unit) -> dict[str, Any]:
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
        return {"failed": f"{path}: needs more memory than there is; give fewer jobs (-j)"}
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
