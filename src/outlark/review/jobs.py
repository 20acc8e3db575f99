"""Work that takes longer than a request: one job at a time, with progress, and it can be cancelled."""

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from outlark.errors import InputError, OutlarkError

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"


class Cancelled(Exception):
    """Raised inside a job that is to stop."""


@dataclass
class Job:
    """A piece of work in the background; `message` says what it is doing, or why it failed."""

    id: int
    kind: str
    state: str = RUNNING
    progress: float = 0.0
    message: str = ""
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def tell(self, progress: float, message: str) -> None:
        """Report progress; raises `Cancelled` if the job is to stop."""
        self.progress, self.message = min(1.0, progress), message
        if self._stop.is_set():
            raise Cancelled

    def as_dict(self) -> dict[str, Any]:
        """For the page."""
        shown = ("id", "kind", "state", "progress", "message")
        return {name: getattr(self, name) for name in shown}


class Jobs:
    """Starts jobs, one at a time, and remembers how they ended.

    >>> jobs = Jobs()
    >>> job = jobs.start("count", lambda job: job.tell(0.5, "half"))
    >>> jobs.wait()
    >>> job.state, job.message
    ('done', 'half')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> Job | None:
        """The job that runs, or the one that ran last."""
        return self._jobs[max(self._jobs)] if self._jobs else None

    def start(self, kind: str, work: Callable[[Job], None]) -> Job:
        """Begin; an error while another job runs."""
        with self._lock:
            last = self.last
            if last is not None and last.state == RUNNING:
                raise InputError(f"{last.kind} is still running; wait for it, or cancel it")
            job = Job(len(self._jobs) + 1, kind)
            self._jobs[job.id] = job
            self._thread = threading.Thread(target=_run, args=(job, work), daemon=True, name=f"job {job.id}: {kind}")
            self._thread.start()
        return job

    def get(self, number: int) -> Job | None:
        """A job by its id."""
        return self._jobs.get(number)

    def cancel(self, number: int) -> Job | None:
        """Ask a job to stop; it does so at its next step."""
        job = self._jobs.get(number)
        if job is not None:
            job._stop.set()
        return job

    def wait(self, timeout_s: float | None = None) -> None:
        """Until the job that runs has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)


def _run(job: Job, work: Callable[[Job], None]) -> None:
    try:
        work(job)
        job.progress, job.state = 1.0, DONE
    except Cancelled:
        job.message, job.state = "cancelled", CANCELLED
    except (OutlarkError, OSError) as error:
        job.message, job.state = str(error), FAILED
    except Exception as error:  # a bug must not leave the page waiting
        traceback.print_exc()
        job.message, job.state = f"an error in outlark ({type(error).__name__}: {error})", FAILED
