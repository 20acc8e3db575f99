"""The task of the tests of runs, and a driver that works in this process: starting processes takes seconds."""

import os

from threadpoolctl import threadpool_limits

from outlark.batch.engine import Engine
from outlark.batch.journal import sha256_of
from outlark.batch.task import Event, Task


def task_for(model, output, **more):
    settings = {"formats": ("csv", "raven"), "verdicts": ("known", "ambiguous", "unknown")} | more
    return Task(model=str(model), model_sha256=sha256_of(model), output=str(output), **settings)


class InProcess:
    """One bundle after the other; as many are taken at a time as are asked for."""

    def __init__(self, task, n_workers=1):
        self._task, self.n_workers, self._bundles = task, n_workers, []

    def start(self, n_units):
        self._engine = Engine(self._task, self._task.work_folder / "partial" / str(os.getpid()))
        return self._engine.splits

    @property
    def n_free(self):
        return self.n_workers - len(self._bundles)

    def submit(self, bundle):
        self._bundles.append(bundle)

    def events(self):
        bundle, told = self._bundles.pop(), []  # the last one first: nothing may depend on the order
        outcomes = self._engine.work(bundle, lambda *news: told.append(news))
        for number, seconds, share in told:
            yield Event(bundle[number], {"seconds": seconds, "share": share})
        yield from map(Event, bundle, outcomes)

    def __enter__(self):
        self._one_thread = threadpool_limits(1)  # as in worker processes: the last bits depend on it
        return self

    def __exit__(self, *_):
        self._one_thread.restore_original_limits()
