"""The driver for a cluster: Dask workers, on this machine or on many; and what they do.

Workers get the model when they join, read recordings from the same place as the driver (a shared file system, or URLs)
and send finished files back. The driver alone writes results and the journal, and joins the parts of long recordings.
"""

import logging
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

import distributed
from distributed.comm import CommClosedError

from outlark.batch.pool import REPORT_S, WorkerPool, as_workers_are_started
from outlark.batch.task import Event, Task, Unit, arithmetic
from outlark.errors import InputError, OutlarkError
from outlark.version import __version__

if TYPE_CHECKING:  # slow to import; a run that is done does not need it
    from outlark.batch.engine import Engine, FinishedUnit

#: Seconds to wait for a scheduler that does not answer, and for the first worker.
CONNECT_S, WORKERS_S = 30.0, 120.0
#: Seconds between counts of the workers, and to wait for a cluster that does not answer at the end.
COUNT_S, CLOSE_S = 2.0, 5.0
#: Bundles of units per worker: one under way and one waiting.
BUNDLES_EACH = 2


def check_address(address: str) -> str:
    """An address as ``--cluster`` takes it.

    >>> check_address("local:2"), check_address("tcp://10.0.0.1:8786")
    ('local:2', 'tcp://10.0.0.1:8786')
    """
    if re.fullmatch(r"local(:[1-9]\d*)?|(tcp|tls|ucx|ws|wss)://\S+", address):
        return address
    raise InputError(
        f"{address!r} is not the address of a cluster; give that of a Dask scheduler, such as tcp://10.0.0.1:8786, or "
        "local, or local:4 for four workers on this machine"
    )


class Cluster:
    """Dask workers, for a ``with`` block.

    Parameters
    ----------
    address : str
        Of the scheduler, or "local", or "local:N".
    jobs : int
        Processes of this machine that join parts, and workers of a "local" cluster.
    say : function
        Gets messages: the address of the dashboard, that there is no worker.
    """

    def __init__(self, task: Task, address: str, jobs: int, say: Callable[[str], None]) -> None:
        self._task, self._address, self._jobs, self._say = task, check_address(address), jobs, say
        self._token = secrets.token_hex(8)
        self._joining = WorkerPool(task, jobs)
        self._joins: deque[Unit] = deque()
        self._under_way: dict[Any, Sequence[Unit]] = {}  # by future
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self._client: Any = None
        self._n_workers, self._counted = 0, 0.0
        # units whose workers have died, and those of them that wait to be tried alone: Dask blames all units that a
        # worker had, and one of them is to blame
        self._suspects: set[Unit] = set()
        self._waiting: deque[Unit] = deque()
        self._alone = False  # whether one of them is under way

    def __enter__(self) -> Self:
        self._client = _connected(self._address, self._jobs)
        self._say(f"dashboard: {self._client.dashboard_link}")
        return self

    def start(self, n_units: int) -> bool:
        """Hand out the model; whether recordings can be split."""
        with _about_the_scheduler(self._address):
            self._wait_for_workers()
            setup = WorkerSetup(self._token, self._task, Path(self._task.model).read_bytes())
            self._client.register_plugin(setup)
            self._check_workers()
            reply = self._client.submit(worker_ready, self._token, pure=False).result()
        if "refused" in reply:
            raise InputError(reply["refused"])
        return reply["splits"]

    @property
    def n_workers(self) -> int:
        return max(1, self._n_workers)

    @property
    def n_free(self) -> int:
        """How many more bundles of units the workers can take."""
        return 0 if self._alone else max(0, BUNDLES_EACH * self.n_workers - len(self._under_way))

    def submit(self, bundle: Sequence[Unit]) -> None:
        """Parts are joined here, everything else is done there."""
        if bundle[0].parts:
            self._joins.append(bundle[0])
        elif bundle[0] in self._suspects:
            self._waiting.append(bundle[0])
        else:
            self._send(bundle)

    def events(self) -> Iterator[Event]:
        """As `Driver.events`."""
        if self._waiting and not self._under_way:
            self._alone = True
            self._send([self._waiting.popleft()])
        while self._joins and self._joining.n_free:
            self._joining.submit([self._joins.popleft()])
        if self._joining.busy:
            yield from self._joining.events(wait_s=0.0 if not self._ended.empty() else REPORT_S / 10)
        try:
            future = self._ended.get(timeout=0.0 if self._joining.busy else REPORT_S)
        except Empty:
            self._count_workers()
            return
        self._alone = False
        bundle = self._under_way.pop(future)
        yield from map(Event, bundle, self._delivered(bundle, self._outcomes(future, bundle)))

    def __exit__(self, *error: object) -> None:
        self._joining.__exit__(*error)
        _close(self._client, self._token, list(self._under_way))

    def _send(self, bundle: Sequence[Unit]) -> None:
        with _about_the_scheduler(self._address):
            future = self._client.submit(do_bundle, self._token, bundle, pure=False)
        self._under_way[future] = bundle
        future.add_done_callback(self._ended.put)

    def _outcomes(self, future: Any, units: Sequence[Unit]) -> list[dict[str, Any]]:
        with _about_the_scheduler(self._address):
            try:
                found: list[dict[str, Any]] = future.result()
            except distributed.KilledWorker as error:
                self._suspects.update(units)
                lost = f"every worker it was given to has died, the last at {error.last_worker.address}"
                found = [{"died": f"{lost}; out of memory?"} for _ in units]
            finally:
                future.release()
        for what in found:
            if "refused" in what:
                raise InputError(what["refused"])
        return found

    def _delivered(self, bundle: Sequence[Unit], outcomes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The outcomes, with the files of the units in the output folder."""
        from outlark.batch.engine import FinishedUnit, deliver

        scratch = self._task.work_folder / "partial" / "cluster"
        shutil.rmtree(scratch, ignore_errors=True)
        finished = []
        for number, (unit, what) in enumerate(zip(bundle, outcomes, strict=True)):
            folder = scratch / str(number)
            folder.mkdir(parents=True)
            for name, blob in what.get("done", {}).pop("files", {}).items():
                (folder / name).write_bytes(blob)
            finished.append(FinishedUnit(unit, what, folder))
        return deliver(self._task, finished)

    def _wait_for_workers(self) -> None:
        self._n_workers = len(self._client.nthreads())
        if self._n_workers:
            return
        self._say(f"waiting for workers of {self._address}")
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_S)
        except TimeoutError:
            raise InputError(
                f"no worker has joined {self._address} within {WORKERS_S:.0f} s; start some with 'dask worker "
                f"{self._address} --nworkers 4 --nthreads 1'"
            ) from None
        self._n_workers = len(self._client.nthreads())

    def _check_workers(self) -> None:
        """Refuse workers that would give other numbers, and those with several threads."""
        threads = {worker: n for worker, n in self._client.nthreads().items() if n != 1}
        if threads:
            worker, n = next(iter(threads.items()))
            raise InputError(
                f"the worker {worker} has {n} threads and must have one; start workers with --nworkers {n} --nthreads 1"
            )
        own = kind_of_worker()
        for worker, kind in self._client.run(kind_of_worker).items():
            if kind != own:
                raise InputError(_unlike(worker, kind, own))

    def _count_workers(self) -> None:
        """From time to time: workers come and go."""
        if not self._under_way or time.monotonic() - self._counted < COUNT_S:
            return
        with _about_the_scheduler(self._address):
            n_workers = len(self._client.nthreads())
        if self._n_workers and not n_workers:
            self._say(f"all workers of {self._address} are gone; waiting for others")
        self._n_workers, self._counted = n_workers, time.monotonic()


def _connected(address: str, jobs: int) -> Any:
    """A client of the scheduler; a local one is started with its workers."""
    # lost connections and workers are reported by us
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        if not address.startswith("local"):
            return distributed.Client(address, timeout=CONNECT_S)
        n_workers = int(address.partition(":")[2] or jobs)
        with as_workers_are_started():
            local = distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            )
        return distributed.Client(local)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"no scheduler answers at {address} ({error}); start one with 'dask scheduler', or give --cluster local"
        ) from None


def _close(client: Any, token: str, futures: list[Any]) -> None:
    """Leave the cluster as it was, if it still exists."""
    if client is None:
        return
    with suppress(Exception):
        if client.status == "running":
            client.cancel(futures)
            client.unregister_worker_plugin(f"outlark-{token}")
    with suppress(Exception):
        local = client.cluster
        client.close(timeout=CLOSE_S)
        if local is not None:
            local.close(timeout=CLOSE_S)


@contextmanager
def _about_the_scheduler(address: str) -> Iterator[None]:
    """Explain the errors that a lost scheduler causes."""
    try:
        yield
    except (OSError, CommClosedError, CancelledError, AttributeError) as error:
        if isinstance(error, AttributeError) and "NoneType" not in str(error):
            raise
        raise InputError(
            f"the connection to the scheduler at {address} is lost; what is done is kept: give the same command "
            "again to go on from here"
        ) from error
    except ModuleNotFoundError as error:
        raise InputError(f"the workers of {address} cannot work ({error}); install outlark there as well") from error


# ------------------------------------------------------------------- a worker

#: By the token of a run: its setup, and its engine once it is needed.
_setups: dict[str, "WorkerSetup"] = {}
_engines: dict[str, "Engine"] = {}
#: One thing at a time, whatever the number of threads: BLAS sets its threads for the whole process.
_alone = threading.Lock()


class WorkerSetup(distributed.WorkerPlugin):
    """What a worker needs for a run (by its `token`); Dask also gives it to workers that join later."""

    def __init__(self, token: str, task: Task, model: bytes) -> None:
        self.name, self.token = f"outlark-{token}", token
        self.task, self.model, self.kind = task, model, kind_of_worker()
        self._folder: str | None = None

    def setup(self, worker: Any) -> None:
        self._folder = tempfile.mkdtemp(prefix="outlark-", dir=worker.local_directory)
        self.scratch = Path(self._folder, "scratch")
        path = Path(self._folder, "model.outlark")
        path.write_bytes(self.model)
        self.task = replace(self.task, model=str(path), output=self._folder)
        _setups[self.token] = self

    def teardown(self, worker: Any) -> None:
        _engines.pop(self.token, None)
        _setups.pop(self.token, None)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def kind_of_worker() -> dict[str, str]:
    """What the results of this process depend on besides the recording, the model and the settings."""
    return {"outlark": __version__, **arithmetic()}


def _unlike(worker: str, found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """The error for a worker of another kind."""
    differs = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    what = ", ".join(f"{key} {found.get(key)!r:.60} there, {expected.get(key)!r:.60} here" for key in sorted(differs))
    return (
        f"the worker {worker} would differ from this machine in the last digits ({what}); install the same releases on "
        "both, and start the command and all workers on machines of one kind (SLURM: --constraint), or give "
        "OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES to all of them"
    )


def worker_ready(token: str) -> dict[str, Any]:
    """Load the model: ``{"splits": whether recordings can be split}``, or ``{"refused": message}``."""
    with _alone:
        try:
            return {"splits": _engine(token).splits}
        except OutlarkError as error:
            return {"refused": str(error)}


def do_bundle(token: str, units: Sequence[Unit]) -> list[dict[str, Any]]:
    """The outcomes of units as of `Engine.work`, but "done" has "files", name → bytes; or "refused"."""
    with _alone:
        try:
            engine = _engine(token)
        except OutlarkError as error:
            return [{"refused": str(error)}] * len(units)
        with engine.finished(units, lambda number, seconds, share: None) as finished:
            return [_packed(one) for one in finished]


def _packed(one: "FinishedUnit") -> dict[str, Any]:
    if "done" not in one.what:
        return one.what
    return {
        "done": {"files": {file.name: file.read_bytes() for file in sorted(one.folder.iterdir())}, **one.what["done"]}
    }


def _engine(token: str) -> "Engine":
    from outlark.batch.engine import Engine

    if token not in _engines:
        setup = _setups[token]
        if kind_of_worker() != setup.kind:
            raise OutlarkError(_unlike(distributed.get_worker().address, kind_of_worker(), setup.kind))
        _engines[token] = Engine(setup.task, setup.scratch)
    return _engines[token]
