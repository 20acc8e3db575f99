"""What a Dask worker does: it gets the model when it joins, and does bundles of units in a scratch folder."""

import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from outlark.batch.task import Task, arithmetic
from outlark.batch.unit import Unit
from outlark.errors import OutlarkError
from outlark.version import __version__

if TYPE_CHECKING:
    from outlark.batch.engine import Engine, Finished

#: By the token of a run: its outfit, and its engine once it is needed.
_outfits: dict[str, "Outfit"] = {}
_engines: dict[str, "Engine"] = {}
#: One thing at a time, whatever the number of threads: BLAS sets its threads for the whole process.
_alone = threading.Lock()


class Outfit(WorkerPlugin):
    """What a worker needs for a run (by its `token`); Dask also gives it to workers that join later."""

    def __init__(self, token: str, task: Task, model: bytes) -> None:
        self.name, self.token = f"outlark-{token}", token
        self.task, self.model, self.kind = task, model, kind()
        self._folder: str | None = None

    def setup(self, worker: Any) -> None:
        self._folder = tempfile.mkdtemp(prefix="outlark-", dir=worker.local_directory)
        self.scratch = Path(self._folder, "scratch")
        path = Path(self._folder, "model.outlark")
        path.write_bytes(self.model)
        self.task = replace(self.task, model=str(path), output=self._folder)
        _outfits[self.token] = self

    def teardown(self, worker: Any) -> None:
        _engines.pop(self.token, None)
        _outfits.pop(self.token, None)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def kind() -> dict[str, str]:
    """What the results of this process depend on besides the recording, the model and the settings."""
    return {"outlark": __version__, **arithmetic()}


def unlike(worker: str, found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """The error for a worker of another kind."""
    differs = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    what = ", ".join(f"{key} {found.get(key)!r:.60} there, {expected.get(key)!r:.60} here" for key in sorted(differs))
    return (
        f"the worker {worker} would differ from this machine in the last digits ({what}); install the same releases on "
        "both, and start the command and all workers on machines of one kind (SLURM: --constraint), or give "
        "OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES to all of them"
    )


def ready(token: str) -> dict[str, Any]:
    """As `outlark.batch.crew.worker_ready`."""
    with _alone:
        try:
            return {"splits": _engine(token).splits}
        except OutlarkError as error:
            return {"refused": str(error)}


def do(token: str, units: Sequence[Unit]) -> list[dict[str, Any]]:
    """As `outlark.batch.crew.do_bundle`, but "done" has "files", name → bytes."""
    with _alone:
        try:
            engine = _engine(token)
        except OutlarkError as error:
            return [{"refused": str(error)}] * len(units)
        with engine.finished(units, lambda number, seconds, share: None) as finished:
            return [_packed(one) for one in finished]


def _packed(one: "Finished") -> dict[str, Any]:
    if "done" not in one.what:
        return one.what
    return {
        "done": {"files": {file.name: file.read_bytes() for file in sorted(one.folder.iterdir())}, **one.what["done"]}
    }


def _engine(token: str) -> "Engine":
    from outlark.batch.engine import Engine

    if token not in _engines:
        outfit = _outfits[token]
        if kind() != outfit.kind:
            from distributed import get_worker

            raise OutlarkError(unlike(get_worker().address, kind(), outfit.kind))
        _engines[token] = Engine(outfit.task, outfit.scratch)
    return _engines[token]
