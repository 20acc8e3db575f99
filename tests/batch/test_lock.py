"""Locks end with their process, however it ends."""

import signal
import subprocess
import sys

import pytest

from outlark.batch.journal import LockedError, lock

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
