"""A driver that works in this process, for tests of what does not depend on processes: starting them takes seconds."""

import os

from outlark.batch.crew import outcome
from outlark.batch.engine import Engine
from outlark.batch.unit import Event


class InProcess:
    """One unit after the other; as many are taken at a time as are asked for."""

    def __init__(self, task, n_free=1):
        self._task, self._most, self._units = task, n_free, []

    def start(self, n_units):
        self._engine = Engine(self._task, self._task.workshop / "partial" / str(os.getpid()))
        return self._engine.splits

    @property
    def n_free(self):
        return self._most - len(self._units)

    def submit(self, unit):
        self._units.append(unit)

    def events(self):
        unit, told = self._units.pop(), []  # the last one first: nothing may depend on the order
        what = outcome(unit, lambda: self._engine.work(unit, lambda seconds, share: told.append((seconds, share))))
        for seconds, share in told:
            yield Event(unit, {"seconds": seconds, "share": share})
        yield Event(unit, what)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
