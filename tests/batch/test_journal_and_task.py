"""What counts as done."""

import os
import platform
import subprocess
import sys
from dataclasses import replace

import pytest

from outlark.batch.journal import Journal, check_same, is_done
from outlark.batch.task import Sources, Task, arithmetic
from outlark.errors import InputError

NOW = {"size": 5, "mtime_ns": 7, "sha256": "ab"}


@pytest.fixture
def task(tmp_path):
    (tmp_path / "a.csv").touch()
    return Task(model="m", model_sha256="ab", output=str(tmp_path), formats=("csv",), verdicts=("known",))


@pytest.fixture
def entry():
    return {"state": "done", "file": NOW, "formats": ["csv", "raven"], "scores": False, "outputs": {"a.csv": "cd"}}


def test_done(task, entry):
    assert is_done(task, entry, NOW)
    assert is_done(task, {**entry, "scores": True}, NOW)


def test_not_done(task, entry):
    assert not is_done(task, {}, NOW)
    assert not is_done(task, {**entry, "state": "failed"}, NOW)
    assert not is_done(task, entry, {**NOW, "size": 6})
    assert not is_done(task, entry, {**NOW, "mtime_ns": 6})
    assert not is_done(task, entry, {**NOW, "sha256": "cd"})
    assert not is_done(task, entry, None)
    assert not is_done(task, {**entry, "outputs": {"a.csv": "cd", "b.csv": "ef"}}, NOW)
    assert not is_done(replace(task, formats=("csv", "jsonl")), entry, NOW)
    assert not is_done(replace(task, keep_scores=True), entry, NOW)


def journal_of(tmp_path, identity):
    journal = Journal(tmp_path)
    rest = {"path": "/a.wav", "file": NOW, "formats": [], "scores": False, "outputs": {}, "segments": {}}
    journal.add({"recording": "a.wav", "state": "done", "identity": identity, **rest})
    return Journal(journal.path.parents[1])


def test_results_of_another_processor_are_not_mixed_in(task, tmp_path):
    other = {
        **task.identity,
        "arithmetic": {**task.identity["arithmetic"], "blas": "openblas 0.3.31 Zen", "numpy": "1"},
    }
    nothing = Sources(())
    with pytest.raises(
        InputError, match=r"made with other settings.*blas 'openblas 0.3.31 Zen', now .*numpy '1', now"
    ) as caught:
        check_same(task, nothing, journal_of(tmp_path, other), {})
    assert "verdicts" not in str(caught.value)
    check_same(task, nothing, journal_of(tmp_path, task.identity), {})


@pytest.mark.skipif("openblas" not in arithmetic()["blas"], reason="only OpenBLAS lets its kernel be chosen")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="kernels of x86")
def test_another_kernel_is_told():
    program = "from outlark.batch.task import arithmetic; print(arithmetic()['blas'])"
    told = set()
    for kernel in ("Nehalem", "Haswell"):
        environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert kernel in done.stdout
        told.add(done.stdout)
    assert len(told) == 2
