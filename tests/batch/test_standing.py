"""What counts as done."""

from dataclasses import replace

import pytest

from outlark.batch.standing import is_done
from outlark.batch.task import Task

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
