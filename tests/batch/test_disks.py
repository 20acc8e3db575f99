"""Disks that are full and folders that are read-only: a message, nothing half-written, and the rest is done later."""

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from outlark.batch.engine import Engine
from outlark.batch.journal import Journal
from outlark.batch.task import Source, Unit
from tests.batch.in_process import task_for
from tests.recordings_on_disk import contents, outlark

CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB, and a way to make it larger."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield disk, lambda: subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk(model, recordings, tmp_path, small_disk):
    disk, make_larger = small_disk
    command = ("detect", model, recordings, "--format", "csv,raven,audacity", "--keep-scores", "-j", 1, "-o")
    outlark(*command, tmp_path / "undisturbed")
    (disk / "ballast").write_bytes(bytes(150_000))
    full = outlark(*command, disk / "out")
    assert full.returncode in (1, 3), full.stderr  # 1 when not even the journal can be written
    assert "No space left on device" in full.stderr
    assert "Traceback" not in full.stderr
    complete, partial = contents(tmp_path / "undisturbed"), contents(disk / "out")
    for of_all in ("failures.csv", "combined.csv", "remarks.csv"):
        partial.pop(of_all, None)
    assert 0 < len(partial) < len(complete)
    assert all(complete[name] == blob for name, blob in partial.items())
    make_larger()
    (disk / "ballast").unlink()
    resumed = outlark(*command, disk / "out", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert contents(disk / "out") == complete


def without_superuser_rights():
    """In a process to be: even root may not write where the rights of a folder say so."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.fixture
def read_only():
    """Make folders read-only, and writable again at the end."""
    folders = []

    def make(folder):
        folder.mkdir(parents=True)
        folder.chmod(0o555)
        folders.append(folder)
        tried = subprocess.run(["touch", folder / "x"], preexec_fn=without_superuser_rights, capture_output=True)
        if not tried.returncode:
            pytest.skip("folders cannot be made read-only here")

    yield make
    for folder in folders:
        folder.chmod(0o755)


def test_an_output_folder_that_is_read_only(model, recordings, tmp_path, read_only):
    read_only(tmp_path / "out")
    refused = outlark("detect", model, recordings, "-j", 1, "-o", tmp_path / "out", preexec_fn=without_superuser_rights)
    assert refused.returncode == 1
    assert f"Error: {tmp_path / 'out/.outlark'}: cannot be written (Permission denied)" in refused.stderr
    assert "choose a folder that you may write to" in refused.stderr
    assert os.listdir(tmp_path / "out") == []


def test_a_read_only_folder_in_the_output_folder(model, recordings, tmp_path, read_only):
    read_only(tmp_path / "out/night1")
    some = outlark("detect", model, recordings, "-j", 1, "-o", tmp_path / "out", preexec_fn=without_superuser_rights)
    assert some.returncode == 3
    assert "4 failed, see" in some.stderr
    assert some.stderr.count("Permission denied") == 4
    assert sum(name.endswith(".outlark.csv") for name in contents(tmp_path / "out")) == 8
    assert os.listdir(tmp_path / "out/night1") == []
    (tmp_path / "out/night1").chmod(0o755)
    assert outlark("detect", model, recordings, "-j", 1, "-o", tmp_path / "out").returncode == 0
    assert len(os.listdir(tmp_path / "out/night1")) == 4


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not tell which file is synced")
def test_names_are_on_the_disk_before_the_journal_says_that_files_are_there(model, recordings, tmp_path, monkeypatch):
    """Every rename into the output folder is followed by a sync of the folder, before a worker tells of it."""
    happened = []
    replace, fsync = os.replace, os.fsync

    def replaced(source, target):
        replace(source, target)
        happened.append(("renamed", Path(target).parent))

    def synced(number):
        fsync(number)
        where = Path(os.readlink(f"/proc/self/fd/{number}"))
        happened.append(("synced", where))

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "fsync", synced)
    first = sorted(recordings.rglob("*.wav"))[0]
    output = tmp_path.resolve() / "out"
    task = task_for(model, output, formats=("csv",))
    engine = Engine(task, task.work_folder / "partial" / "1")
    Journal(task.output)
    assert ("synced", task.work_folder) in happened
    assert ("synced", output) in happened
    assert ("synced", output.parent) in happened
    happened.clear()
    (done,) = engine.work([Unit(Source(first, "night/deep/a.wav"))], lambda *_: None)
    assert list(done["done"]["outputs"]) == ["night/deep/a.wav.outlark.csv"]
    last = max(i for i, what in enumerate(happened) if what == ("renamed", output / "night/deep"))
    for folder in (output / "night/deep", output / "night", output):
        assert ("synced", folder) in happened[last:]
