"""What is done: lines of the journal, what counts as done, and locks that end with their process."""

import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.batch.journal import LINE_DONE, NEEDED, Journal, LockedError, check_same, is_done, lock
from outlark.batch.task import Sources, Task, arithmetic
from outlark.errors import InputError

WHOLE = {"state": "done", **dict.fromkeys(NEEDED[LINE_DONE], "x")}


def entry(name, **more):
    return {"recording": name, **WHOLE, **more}


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".outlark").mkdir()
    return tmp_path / ".outlark/journal.jsonl"


def test_the_last_line_about_a_recording_counts(path):
    journal = Journal(path.parents[1])
    journal.add({"recording": "a", "state": "failed", "message": "empty"})
    journal.add(entry("b"))
    journal.add(entry("a"))
    assert Journal(path.parents[1]).entries == journal.entries == {"a": entry("a"), "b": entry("b")}


def test_names_that_are_no_unicode_come_back(path):
    Journal(path.parents[1]).add(entry("caf\udce9\n.wav"))
    assert list(Journal(path.parents[1]).entries) == ["caf\udce9\n.wav"]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=6), st.data())
def test_wherever_the_file_is_cut_the_whole_lines_count(tmp_path_factory, names, data):
    path = tmp_path_factory.mktemp("journal") / ".outlark/journal.jsonl"
    journal = Journal(path.parents[1])
    for name in names:
        journal.add(entry(name))
    blob = path.read_bytes()
    cut = data.draw(st.integers(0, len(blob)))
    path.write_bytes(blob[:cut])
    whole = blob[: cut + (blob[cut : cut + 1] == b"\n")].split(b"\n")[:-1]  # what ends a line may be lost
    expected = {json.loads(line)["recording"]: json.loads(line) for line in whole}
    torn = Journal(path.parents[1])
    assert torn.entries == expected
    torn.add(entry("new"))
    assert Journal(path.parents[1]).entries == {**expected, "new": entry("new")}


def test_a_torn_line_longer_than_what_is_read_at_once(path):
    Journal(path.parents[1]).add(entry("a"))
    with path.open("ab") as file:
        file.write(b'{"recording": "' + b"x" * 200_000)
    Journal(path.parents[1]).add(entry("b"))
    assert list(Journal(path.parents[1]).entries) == ["a", "b"]
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "line", ["[]", "{}", "null", '{"recording": 1}', "\x00\xff", '{"recording": "a", "state": "done"}', ""]
)
def test_lines_that_say_nothing_count_for_nothing(path, line):
    path.write_text(line + "\n", encoding="latin-1")
    journal = Journal(path.parents[1])
    assert journal.entries == {}
    journal.add(entry("b"))
    assert list(Journal(path.parents[1]).entries) == ["b"]


def test_a_full_disk_is_an_error_and_spoils_nothing():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    journal = Journal.__new__(Journal)
    journal.path, journal.entries, journal.parts = full, {}, {}
    with pytest.raises(OSError, match="No space left on device"):
        journal.add(entry("a"))
    assert journal.entries == {}


def test_a_million_lines_share_what_is_the_same(path):
    for name in "abc":
        Journal(path.parents[1]).add(entry(name, identity={"version": "1"}))
    a, b, c = (found["identity"] for found in Journal(path.parents[1]).entries.values())
    assert a is b is c


def test_a_line_that_says_two_things_under_one_name_counts_for_nothing(path):
    Journal(path.parents[1]).add(entry("a", message="x"))
    line = path.read_bytes()
    path.write_bytes(line + line.replace(b'"message": "x"', b'"message": "y", "message": "z"'))
    assert Journal(path.parents[1]).entries["a"]["message"] == "x"


NOW = {"size": 5, "mtime_ns": 7, "sha256": "ab"}


@pytest.fixture
def task(tmp_path):
    (tmp_path / "a.csv").touch()
    return Task(model="m", model_sha256="ab", output=str(tmp_path), formats=("csv",), verdicts=("known",))


@pytest.fixture
def done_line():
    return {"state": "done", "file": NOW, "formats": ["csv", "raven"], "scores": False, "outputs": {"a.csv": "cd"}}


def test_done(task, done_line):
    assert is_done(task, done_line, NOW)
    assert is_done(task, {**done_line, "scores": True}, NOW)


def test_not_done(task, done_line):
    assert not is_done(task, {}, NOW)
    assert not is_done(task, {**done_line, "state": "failed"}, NOW)
    assert not is_done(task, done_line, {**NOW, "size": 6})
    assert not is_done(task, done_line, {**NOW, "mtime_ns": 6})
    assert not is_done(task, done_line, {**NOW, "sha256": "cd"})
    assert not is_done(task, done_line, None)
    assert not is_done(task, {**done_line, "outputs": {"a.csv": "cd", "b.csv": "ef"}}, NOW)
    assert not is_done(replace(task, formats=("csv", "jsonl")), done_line, NOW)
    assert not is_done(replace(task, keep_scores=True), done_line, NOW)


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


HOLD = """
import sys, time
from pathlib import Path
from outlark.batch.journal import lock
with lock(Path(sys.argv[1]), shared=len(sys.argv) > 2):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    held = []

    def hold(*more):
        process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "lock", *more], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"held\n"
        held.append(process)
        return process

    yield hold
    for process in held:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_lock_that_another_process_holds(holder, tmp_path):
    process = holder()
    with pytest.raises(LockedError, match="lock"), lock(tmp_path / "lock"):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with lock(tmp_path / "lock"):
        pass


def test_shared_with_those_who_share(holder, tmp_path):
    holder("shared")
    with lock(tmp_path / "lock", shared=True):
        pass
    with pytest.raises(LockedError, match="lock"), lock(tmp_path / "lock", wait_s=0.1):
        pass


def test_waiting_for_it(holder, tmp_path, monkeypatch):
    process, waited = holder(), []

    def killed(seconds):
        """The other process ends the first time that somebody waits for it."""
        waited.append(seconds)
        process.kill()
        process.wait()

    monkeypatch.setattr("outlark.batch.journal.time.sleep", killed)
    with lock(tmp_path / "lock", wait_s=600.0):
        assert waited
