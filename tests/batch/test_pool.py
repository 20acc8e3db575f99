"""Processes that are killed at awkward moments: while they have nothing to do, and while somebody asks why."""

import multiprocessing
import os

import pytest

from outlark.batch.journal import Journal, sha256_of
from outlark.batch.pool import WorkerPool
from outlark.batch.task import Source, Task, Unit

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")


@pytest.fixture
def unit(recordings):
    return Unit(Source(sorted(recordings.rglob("*.wav"))[0], "a.wav"))


@pytest.fixture
def crew(model, tmp_path):
    """One process, with its model."""
    whose = {"model": str(model), "model_sha256": sha256_of(model), "output": str(tmp_path / "out")}
    task = Task(**whose, formats=("csv",), verdicts=("known",))
    task.work_folder.mkdir(parents=True)
    Journal(task.output)
    with WorkerPool(task, 1) as crew:
        before = set(multiprocessing.active_children())
        crew.start(1)
        (crew.process,) = set(multiprocessing.active_children()) - before
        yield crew


def outcome(crew):
    """What came of the one unit."""
    while crew.busy:
        for _, what in crew.events():
            if "share" not in what:
                return what
    raise AssertionError("nothing was told")


def test_a_process_that_dies_while_it_has_nothing_to_do_is_replaced(crew, unit):
    crew.process.kill()
    crew.process.join()
    crew.submit([unit])
    assert list(outcome(crew)["done"]["outputs"]) == ["a.wav.outlark.csv"]


def test_why_a_process_died_is_told(crew, unit):
    crew.process.kill()
    crew.process.join()
    crew._idle[0].connection.send = lambda bundle: None  # as if it had died a moment later
    crew.submit([unit])
    assert outcome(crew)["died"].startswith("the process was ended by signal 9 (SIGKILL); out of memory?")
