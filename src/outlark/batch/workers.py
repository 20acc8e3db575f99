"""Processes that work side by side, one file each; a process that dies takes only its file with it.

A pool of `concurrent.futures` breaks as a whole when one of its processes dies, and its processes outlive a parent that
is killed. Here each process has its own pipe: whoever is at the other end of it knows at once when the one is gone.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from outlark.batch.sources import Source
from outlark.batch.task import Task
from outlark.errors import InputError

#: One BLAS thread for each process: the processes share the cores.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Event(NamedTuple):
    """What a worker has to tell.

    Attributes
    ----------
    source : Source
    what : dict
        ``{"seconds", "share"}`` under way, ``{"done": …}`` or ``{"failed": message}`` at the end.
    """

    source: Source
    what: dict[str, Any]


class _Died(Exception):
    """A process ended that should not have."""


class _Worker:
    """One process with a model. `start` waits until it is ready."""

    def __init__(self, task: Task) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            # -P: nothing that lies in the folder of the user is taken for a module
            [sys.executable, "-P", "-m", "outlark.batch.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, **ONE_THREAD},
        )
        self._task = task

    def start(self) -> None:
        """Hand over the task.

        Raises
        ------
        InputError
            When the task cannot be done at all.
        """
        try:
            self._say(self._task.dumps())
            reply = self._reply()
        except _Died as death:
            raise InputError(f"no process could be started that works on the recordings: {death}") from None
        if "refused" in reply:
            raise InputError(reply["refused"])

    def replies(self, source: Source) -> Iterator[dict[str, Any]]:
        """Work on a file; the last reply says what came of it."""
        self._say(json.dumps({"path": str(source.path), "name": source.name}))
        while True:
            reply = self._reply()
            yield reply
            if "done" in reply or "failed" in reply:
                return

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait until it has ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what was to be said is of no use any more
                pipe.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode("ascii") + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _Died(self._last_words()) from None

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise _Died(self._last_words())
        return json.loads(line)

    def _last_words(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            name = signal.Signals(-code).name
            often = "; out of memory? Give fewer jobs (-j)" if name == "SIGKILL" else ""
            return f"the process was ended by signal {-code} ({name}){often}"
        return f"the process ended with code {code}" + (f": {said[-1]:.300}" if said else "")


def work(task: Task, sources: Sequence[Source], n_workers: int) -> Iterator[Event]:
    """Work on all files, `n_workers` at a time; what happens, as it happens.

    Raises
    ------
    InputError
        When the task cannot be done at all.
    """
    events: SimpleQueue[Event | BaseException | None] = SimpleQueue()
    crew = _Crew(task, sources, events)
    threads = [threading.Thread(target=crew.serve, daemon=True) for _ in range(min(n_workers, len(sources)))]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            event = events.get()
            if event is None:
                running -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                yield event
    finally:
        crew.stop()
        for thread in threads:
            thread.join()


class _Crew:
    """Threads that each keep one process busy."""

    def __init__(
        self, task: Task, sources: Sequence[Source], events: "SimpleQueue[Event | BaseException | None]"
    ) -> None:
        self._task, self._events = task, events
        self._waiting = iter(sources)
        self._lock = threading.Lock()
        self._busy: set[_Worker] = set()
        self._stopped = False

    def serve(self) -> None:
        """Until no file is left; a new process in place of one that died."""
        worker = None
        try:
            while (source := self._next()) is not None:
                if worker is None:
                    worker = self._hired()
                try:
                    for reply in worker.replies(source):
                        self._events.put(Event(source, reply))
                except _Died as death:
                    self._events.put(Event(source, {"failed": f"{source.path}: {death}"}))
                    self._fire(worker)
                    worker = None
        except BaseException as error:
            self._events.put(error)
        finally:
            if worker is not None:
                self._fire(worker)
            self._events.put(None)

    def stop(self) -> None:
        """End all processes; the threads end with them."""
        with self._lock:
            self._stopped = True
            for worker in self._busy:
                worker.kill()

    def _next(self) -> Source | None:
        with self._lock:
            return None if self._stopped else next(self._waiting, None)

    def _hired(self) -> _Worker:
        with self._lock:
            if self._stopped:
                raise InputError("stopped")
            try:
                worker = _Worker(self._task)
            except OSError as error:
                raise InputError(f"no process could be started that works on the recordings ({error})") from error
            self._busy.add(worker)
        try:
            worker.start()
        except BaseException:
            self._fire(worker)
            raise
        return worker

    def _fire(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
        worker.close()
