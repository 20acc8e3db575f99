"""Dask: real schedulers and workers of this machine. They come and go; the rows are those of a serial run."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark.batch import cluster as cluster_module
from outlark.batch.cluster import BUNDLES_EACH, Cluster, check_address
from outlark.batch.run import BUNDLE_UNITS, run
from outlark.batch.task import find
from outlark.cli.main import main
from outlark.errors import InputError
from outlark.segments import VERDICTS
from tests.batch.in_process import InProcess, task_for
from tests.recordings_on_disk import contents, outlark, save_long_recording, save_recordings, start_and

fsspec = pytest.importorskip("fsspec")
distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
LocalFileSystem = fsspec.get_filesystem_class("file")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

PART_S = 6.0


@pytest.fixture(scope="module")
def season(tmp_path_factory):
    """Forty short recordings and a long one."""
    folder = save_recordings(tmp_path_factory.mktemp("season"), 40)
    save_long_recording(folder / "night1/long.wav", 30.0)
    return folder


@pytest.fixture(scope="module")
def serial(model, season, tmp_path_factory):
    """What a serial run gives, without parts."""
    output = tmp_path_factory.mktemp("serial")
    task = task_for(model, output, verdicts=VERDICTS)
    run(task, find([season]), driver=InProcess(task), combined=True, part_s=1e6)
    return contents(output)


@pytest.fixture(scope="module")
def workers():
    """Two workers; each is replaced when it dies, and what it was at is given up at once."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
    ):
        yield local


def go(model, season, output, address, watch=lambda driver, state: None):
    """A run on the cluster; the report, the driver, and what was said."""
    said = []
    task = task_for(model, output, verdicts=VERDICTS)
    driver = Cluster(task, address, 1, said.append)
    report = run(
        task, find([season]), driver=driver, combined=True, part_s=PART_S, watch=lambda state: watch(driver, state)
    )
    return report, driver, said


def test_the_rows_of_a_serial_run(model, season, serial, workers, tmp_path):
    most = []
    report, _, said = go(
        model, season, tmp_path / "out", workers.scheduler_address,
        lambda driver, state: most.append((len(driver._under_way), sum(map(len, driver._under_way.values())))),
    )  # fmt: skip
    assert (report.done, report.failures) == (41, [])
    assert contents(tmp_path / "out") == serial
    assert [line.partition(":")[0] for line in said] == ["dashboard"]
    bundles, units = map(max, zip(*most, strict=True))
    assert 2 < units <= BUNDLES_EACH * 2 * BUNDLE_UNITS
    assert bundles <= BUNDLES_EACH * 2  # however many recordings there are


def test_one_of_two_workers_is_killed_midway(model, season, serial, workers, tmp_path):
    killed = []

    def kill(driver, state):
        if state.done >= 10 and not killed:
            pids = list(driver._client.run(os.getpid).values())
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    report, _, _ = go(model, season, tmp_path / "out", workers.scheduler_address, kill)
    assert killed
    assert (report.done, report.failures) == (41, [])
    assert contents(tmp_path / "out") == serial


def test_a_recording_that_kills_its_workers_is_told_and_those_beside_it_are_done(
    model, season, serial, workers, tmp_path
):
    soundfile.write(tmp_path / "poison.wav", np.zeros(8000), 8000)
    poison = f"poison://{tmp_path}/poison.wav"
    fsspec.register_implementation("poison", Poison, clobber=True)
    with distributed.Client(workers) as client:
        client.register_plugin(AllowPoison())
    task = task_for(model, tmp_path / "out", verdicts=VERDICTS)
    driver = Cluster(task, workers.scheduler_address, 1, lambda text: None)
    report = run(task, find([season, poison]), driver=driver, combined=True, part_s=PART_S)
    assert [failure.where for failure in report.failures] == ["poison.wav"]
    assert "every worker it was given to has died, the last at tcp://" in report.failures[0].message
    found = contents(tmp_path / "out")
    found.pop("failures.csv")
    assert found == serial


class Poison(LocalFileSystem):
    """Files that kill the worker which opens them, and nobody else."""

    protocol = "poison"

    def _open(self, path, mode="rb", **more):
        try:
            distributed.get_worker()
        except ValueError:
            return super()._open(path, mode, **more)
        return os.kill(os.getpid(), signal.SIGKILL)


class AllowPoison(distributed.WorkerPlugin):
    """Lets workers know of such files, also those that take the place of one that died."""

    def setup(self, worker):
        fsspec.register_implementation("poison", Poison, clobber=True)


@contextmanager
def started(*args):
    """A program of Dask, until the end of the block."""
    process = subprocess.Popen([sys.executable, "-m", *map(str, args)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def scheduler(tmp_path, port=0):
    file = tmp_path / "scheduler.json"
    return started(
        "distributed.cli.dask_scheduler", "--port", port, "--host", "127.0.0.1", "--dashboard-address", ":0",
        "--scheduler-file", file,
    )  # fmt: skip


def address_in(tmp_path):
    file = tmp_path / "scheduler.json"
    while not file.exists() or not file.read_text():
        time.sleep(0.05)
    return json.loads(file.read_text())["address"]


def worker(address, *more):
    return started("distributed.cli.dask_worker", address, "--nthreads", 1, "--no-dashboard", *more)


def test_the_scheduler_is_lost_and_the_same_command_goes_on(model, season, serial, tmp_path):
    with scheduler(tmp_path) as process, worker(address := address_in(tmp_path), "--death-timeout", 600):

        def kill(driver, state):
            if state.done >= 10:
                process.kill()
                process.wait()

        with pytest.raises(InputError, match=rf"the connection to the scheduler at {address} is lost; what is done is"):
            go(model, season, tmp_path / "out", address, kill)
    (tmp_path / "scheduler.json").unlink()
    with scheduler(tmp_path), worker(address := address_in(tmp_path)):
        report, _, _ = go(model, season, tmp_path / "out", address)
    assert report.skipped >= 10
    assert (report.skipped + report.done, report.failures) == (41, [])
    assert contents(tmp_path / "out") == serial


def test_workers_that_will_not_do(model, season, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "WORKERS_S", 0.5)
    with scheduler(tmp_path):
        address = address_in(tmp_path)
        with pytest.raises(
            InputError, match=rf"no worker has joined {address} within 0 s; start some with 'dask worker"
        ):
            go(model, season, tmp_path / "out", address)
        monkeypatch.setattr(cluster_module, "WORKERS_S", 600.0)
        with (
            started("distributed.cli.dask_worker", address, "--nthreads", 3, "--no-dashboard"),
            pytest.raises(InputError, match=r"has 3 threads and must have one; start workers with --nworkers 3"),
        ):
            go(model, season, tmp_path / "out", address)


def test_a_worker_of_another_kind_is_refused(model, season, workers, tmp_path, monkeypatch):
    own = cluster_module.kind_of_worker()
    monkeypatch.setattr(cluster_module, "kind_of_worker", lambda: {**own, "numpy": "1.0", "blas": "openblas Zen"})
    with pytest.raises(InputError, match=r"would differ from this machine in the last digits \(blas .*numpy .*SLURM"):
        go(model, season, tmp_path / "out", workers.scheduler_address)
    assert not contents(tmp_path / "out")


def test_what_cannot_be_done_at_all_is_told_once(season, workers, tmp_path):
    (tmp_path / "m.outlark").write_text("no model, not at all")
    with pytest.raises(InputError, match=r"model.outlark: not a model file"):
        go(tmp_path / "m.outlark", season, tmp_path / "out", workers.scheduler_address)


@pytest.mark.parametrize("address", ["here", "local:0", "local:x", "http://x", ""])
def test_addresses_that_are_refused(address):
    with pytest.raises(InputError, match=r"is not the address of a cluster; give that of a Dask scheduler, such as"):
        check_address(address)


def test_nobody_answers(model, season, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT_S", 0.5)
    with pytest.raises(
        InputError, match=r"no scheduler answers at tcp://127.0.0.1:9 .*; start one with 'dask scheduler'"
    ):
        go(model, season, tmp_path / "out", "tcp://127.0.0.1:9")


def test_without_dask(model, season, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "outlark.batch.cluster")
    done = CliRunner().invoke(main, ["detect", *map(str, (model, season, "-o", tmp_path / "o", "--cluster", "local"))])
    assert "--cluster needs Dask (" in done.stderr
    assert 'install it with: pip install "outlark[cluster]"' in done.stderr


def test_the_command_stopped_by_ctrl_c_and_given_again(model, season, serial, tmp_path):
    args = ("--format", "csv,raven", "--all", "--part-length", PART_S, "--cluster", "local:2", "-j", 1)
    command = ("detect", model, season, "-o", tmp_path / "out", *args)
    process = start_and("stop", "state.done >= 10", *command)
    said = process.communicate()[1].decode()
    assert process.returncode == 130, said
    assert "dashboard: http://" in said
    assert "Traceback" not in said
    resumed = outlark(*command, "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["skipped"] >= 10
    assert contents(tmp_path / "out") == serial
