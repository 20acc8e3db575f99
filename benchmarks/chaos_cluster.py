"""Trials of benchmarks/chaos.py with Dask: workers and schedulers that die. And long recordings, with their memory."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from chaos_ground import Ground, Result, digests, emptied, kill, lines, save_recording, wait_for

#: A part length that no recording reaches.
WHOLE = ("-j", 1, "--part-length", 10**6)


class Memory:
    """The memory of a process and of all that it started, as time goes by."""

    def __init__(self, pid: int) -> None:
        self.largest: list[float] = []  # MB of the largest process, every half second
        self._root = psutil.Process(pid)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        try:
            while True:
                sizes = [self._size(process) for process in [self._root, *self._root.children(recursive=True)]]
                self.largest.append(max(sizes))
                time.sleep(0.5)
        except psutil.Error:
            return

    def _size(self, process: psutil.Process) -> float:
        try:
            return process.memory_info().rss / 1e6
        except psutil.Error:
            return 0.0

    def __str__(self) -> str:
        fifths = np.array_split(self.largest, 5) if len(self.largest) >= 5 else [np.array(self.largest)]
        peaks = ", ".join(f"{part.max():.0f}" for part in fifths)
        return f"largest process {max(self.largest):.0f} MB (in each fifth of the run: {peaks})"


@contextmanager
def dask(folder: Path, n_workers: int) -> Iterator[tuple[str, Any, list[Any]]]:
    """A scheduler and workers as programs of their own: address, scheduler, workers."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    scheduler = _program(
        "distributed.cli.dask_scheduler", "--port", 0, "--dashboard-address", ":0", "--scheduler-file", file
    )
    while not file.exists() or not file.read_text():
        time.sleep(0.1)
    address = json.loads(file.read_text())["address"]
    how = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--death-timeout", 30)
    workers = [_program("distributed.cli.dask_worker", address, *how) for _ in range(n_workers)]
    try:
        yield address, scheduler, workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def _program(*args: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", *map(str, args)], stderr=subprocess.DEVNULL)


def dask_worker_lost(ground: Ground) -> Iterator[Result]:
    """Two Dask workers, of which one is killed in the midst of a run."""
    output = emptied(ground.folder / "dask")
    with dask(ground.folder, 2) as (address, _, workers):
        process = ground.detect(output, "--cluster", address)
        wait_for(lambda: len(lines(output)) >= ground.n_files // 2, process)
        at = len(lines(output))
        workers[0].kill()
        ground.finished(process)
    yield ground.compared("Dask worker lost", f"two Dask workers, one killed after {at} recordings and parts", output)


def dask_scheduler_lost(ground: Ground) -> Iterator[Result]:
    """The scheduler is killed in the midst of a run; then the same command with a new one."""
    output = emptied(ground.folder / "lost")
    with dask(ground.folder, 2) as (address, scheduler, _):
        process = ground.detect(output, "--cluster", address)
        wait_for(lambda: len(lines(output)) >= ground.n_files // 3, process)
        scheduler.kill()
        said = ground.finished(process, codes=(1,))
    at = len(lines(output))
    with dask(ground.folder, 2) as (address, _, _):
        ground.finished(ground.detect(output, "--cluster", address))
    again = [(line["recording"], line.get("part")) for line in lines(output)]
    trouble = "" if len(set(again)) == len(again) else "some recordings were done twice"
    done = f"killed after {at}: “{said.removeprefix('Error: ')[:70]}…”; a new one, the same command; nothing done twice"
    yield ground.compared("Dask scheduler lost", done, output, trouble)


def long_recording(ground: Ground, hours: float, part_s: float) -> Iterator[Result]:
    """One long file: in one piece; in parts, killed in the middle; and over two Dask workers."""
    recording = save_recording(ground.folder / "long" / "day.wav", hours * 3600)
    whole, parts, over_dask = (emptied(ground.folder / name) for name in ("whole", "parts", "over_dask"))
    process = ground.detect(whole, *WHOLE, recordings=recording)
    memory = Memory(process.pid)
    ground.finished(process)
    told = f"{hours:g} h in one piece: {memory}; "
    command = (parts, "-j", 2, "--part-length", part_s)
    process = ground.detect(*command, recordings=recording)
    half = round(hours * 3600 / part_s / 2)
    wait_for(lambda: len(lines(parts, "part")) >= half, process)
    kill(process)
    n_before = len(lines(parts, "part"))
    ground.finished(ground.detect(*command, recordings=recording))
    done = sorted(line["part"] for line in lines(parts, "part"))
    trouble = "" if done == list(range(len(done))) else "some parts were done twice"
    told += f"in parts of {part_s:g} s, SIGKILL after {n_before} of {len(done)}, each part done once"
    yield _against(whole, ground, "long recording", told, parts, trouble)
    with dask(ground.folder, 2) as (address, _, _):
        ground.finished(
            ground.detect(over_dask, "--cluster", address, "-j", 1, "--part-length", part_s, recordings=recording)
        )
    n_parts = len(lines(over_dask, "part"))
    yield _against(whole, ground, "long recording, Dask", f"{n_parts} parts over two Dask workers", over_dask, "")


def _against(whole: Path, ground: Ground, scenario: str, told: str, output: Path, trouble: str) -> Result:
    serial, ground.serial = ground.serial, whole
    try:
        assert digests(whole)
        return ground.compared(scenario, told, output, trouble)
    finally:
        ground.serial = serial
