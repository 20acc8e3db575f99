"""Processes that are killed at awkward moments: while they have nothing to do, and while somebody asks why."""

import multiprocessing
import os
import threading
import time

import pytest

from outlark.batch.crew import Crew
from outlark.batch.journal import Journal
from outlark.batch.sources import Source
from outlark.batch.task import Task, sha256_of
from outlark.batch.unit import Unit

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")


@pytest.fixture
def unit(recordings):
    return Unit(Source(sorted(recordings.rglob("*.wav"))[0], "a.wav"))


@pytest.fixture
def crew(model, tmp_path):
    """One process, with its model."""
    whose = {"model": str(model), "model_sha256": sha256_of(model), "output": str(tmp_path / "out")}
    task = Task(**whose, formats=("csv",), verdicts=("known",))
    task.workshop.mkdir(parents=True)
    Journal(task.workshop / "journal.jsonl")
    with Crew(task, 1) as crew:
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


def watched_by_executors():
    return any(type(thread).__name__ == "_ExecutorManagerThread" for thread in threading.enumerate())


def test_a_process_that_dies_while_it_has_nothing_to_do_is_replaced(crew, unit):
    crew.process.kill()
    while watched_by_executors():
        time.sleep(0.01)
    crew.submit([unit])
    assert list(outcome(crew)["done"]["outputs"]) == ["a.wav.outlark.csv"]


def test_why_a_process_died_is_told_while_another_thread_waits_for_it(crew, unit, monkeypatch):
    """Only one thread learns how a process ended; the other must wait for it."""
    waitpid = os.waitpid

    def slow(pid, options):
        found = waitpid(pid, options)
        if found[0] and threading.current_thread() is not threading.main_thread():
            reaped.set()
            time.sleep(0.5)  # in which the main thread could ask in vain
        return found

    reaped = threading.Event()
    monkeypatch.setattr(os, "waitpid", slow)
    crew.submit([unit])
    crew.process.kill()
    reaped.wait()
    assert outcome(crew)["died"].startswith("the process was ended by signal 9 (SIGKILL); out of memory?")
