"""Long recordings and many recordings, with processes, workers and schedulers that die on the way.

    nice python benchmarks/cluster_chaos.py                      # 24 h, 3 h and 500 files: hours on two cores
    python benchmarks/cluster_chaos.py --hours 0.5 --split-hours 0.3 --files 60 --part-length 300

All audio is synthetic and made on the fly. Every row compares bytes with those of an undisturbed run in one process.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import soundfile

from outlark import NoteDetector
from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.storage import model_file

CLASSES = ("tuti-D", "tuti-F", "cach-Z")
#: Seconds of sound that are made at once.
PIECE_S = 60
OUTLARK = (sys.executable, "-m", "outlark")


class Row(NamedTuple):
    """What was done, and what came of it."""

    what: str
    came: str


def save_model(path: Path) -> Path:
    """Three classes of five examples."""
    known = notes(counts=dict.fromkeys(CLASSES, 5))
    detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    model_file.save(detector, path)
    return path


def save_recording(path: Path, hours: float, seed: int = 0) -> Path:
    """Songs among noise, many of them in the morning and in the evening and few else."""
    rng = np.random.default_rng(seed)
    songs = [concatenate(notes(seed=i), gap_s=0.25, rng=rng)[0][: 3 * SAMPLE_RATE] for i in range(12)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1, subtype="PCM_16") as file:
        for start in range(0, round(hours * 3600), PIECE_S):
            piece = 0.002 * rng.standard_normal(PIECE_S * SAMPLE_RATE, dtype=np.float32)
            busy = 0.02 + 0.5 * np.exp(-(((start / 3600 % 24 - 6.0) / 1.5) ** 2))
            for at in np.flatnonzero(rng.random(PIECE_S // 3) < busy):
                song = songs[rng.integers(len(songs))] * rng.uniform(0.02, 0.5)
                piece[at * 3 * SAMPLE_RATE : at * 3 * SAMPLE_RATE + len(song)] += song
            file.write(piece[: round(hours * 3600 * SAMPLE_RATE) - start * SAMPLE_RATE])
    return path


def digests(output: Path) -> dict[str, str]:
    """All that a run leaves for its user."""
    files = sorted(path for path in output.rglob("*") if path.is_file() and ".outlark" not in path.parts)
    return {path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lines(output: Path, state: str | None = None) -> list[dict[str, Any]]:
    """The journal of a run."""
    journal = output / ".outlark" / "journal.jsonl"
    whole = journal.read_text().splitlines() if journal.exists() else []
    found = [json.loads(line) for line in whole if line.endswith("}")]
    return [line for line in found if state in (None, line["state"])]


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
        return f"largest process {max(self.largest):.0f} MB (peaks in each fifth of the run: {peaks})"


def detect(model: Path, recordings: Path, output: Path, *more: object) -> "subprocess.Popen[bytes]":
    """Start `outlark detect`."""
    command = [*OUTLARK, "detect", str(model), str(recordings), "-o", str(output), *map(str, more)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)


def finished(process: "subprocess.Popen[bytes]", code: int = 0) -> str:
    """Wait for it; what it said."""
    said = process.communicate()[1].decode()
    if process.returncode != code:
        raise SystemExit(f"exit code {process.returncode}, expected {code}: {said}")
    return said


def wait_for(when: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    """Until it is so far."""
    while not when():
        if process.poll() is not None:
            raise SystemExit(f"ended too early: {process.communicate()[1].decode()}")
        time.sleep(0.1)


def one_long_file(folder: Path, model: Path, hours: float, part_s: float) -> Iterator[Row]:
    """In one piece; and in parts, killed in the middle and started again."""
    recording = save_recording(folder / "day.wav", hours)
    begin = time.monotonic()
    process = detect(model, recording, folder / "whole", "-j", 1, "--part-length", 10**6, "--quiet")
    memory = Memory(process.pid)
    finished(process)
    whole_s = time.monotonic() - begin
    yield Row(f"{hours:g} h in one file, in one piece, one process", f"{whole_s:.0f} s; {memory}")
    command = (model, recording, folder / "parts", "-j", 2, "--part-length", part_s, "--quiet")
    begin = time.monotonic()
    process = detect(*command)
    memory = Memory(process.pid)
    half = round(hours * 3600 / part_s / 2)
    wait_for(lambda: len(lines(folder / "parts", "part")) >= half, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = [line["part"] for line in lines(folder / "parts", "part")]
    size = sum(path.stat().st_size for path in (folder / "parts/.outlark/parts").rglob("*.npz")) / 1e6
    process = detect(*command)
    again = Memory(process.pid)
    finished(process)
    parts_s = time.monotonic() - begin
    done = sorted(line["part"] for line in lines(folder / "parts", "part"))
    once = done == list(range(len(done)))
    yield Row(
        f"the same in parts of {part_s:g} s, two processes, SIGKILL after {len(before)} of {len(done)} parts, resumed",
        f"{parts_s:.0f} s; each part done {'once' if once else 'MORE THAN ONCE'}; {memory}; after the kill: {again}; "
        f"parts on the disk {size / (len(before) * part_s / 3600):.0f} MB/h",
    )
    same = digests(folder / "whole") == digests(folder / "parts")
    rows = sum(sum(line["segments"].values()) for line in lines(folder / "whole", "done"))
    yield Row("bytes of the two", f"{'identical' if same else 'DIFFERENT'}, {rows} segments")
    recording.unlink()


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


def split_over_workers(folder: Path, model: Path, hours: float, part_s: float) -> Iterator[Row]:
    """One file over two Dask workers against one piece in one process."""
    recording = save_recording(folder / "morning.wav", hours, seed=1)
    finished(detect(model, recording, folder / "one", "-j", 1, "--part-length", 10**6, "--quiet"))
    with dask(folder, 2) as (address, _, _):
        begin = time.monotonic()
        process = detect(model, recording, folder / "two", "--cluster", address, "-j", 1, "--part-length", part_s)
        said = finished(process)
    same = digests(folder / "one") == digests(folder / "two")
    n_parts = len(lines(folder / "two", "part"))
    assert "dashboard: http" in said
    yield Row(
        f"{hours:g} h in one file, {n_parts} parts over two Dask workers",
        f"{time.monotonic() - begin:.0f} s; {'identical' if same else 'DIFFERENT'} to one piece",
    )
    recording.unlink()


def many_files(folder: Path, model: Path, n_files: int) -> Iterator[Row]:
    """Many files over two Dask workers, of which one is killed, and over a scheduler that is lost."""
    for i in range(n_files):
        save_recording(folder / f"season/site{i % 7}/2026050{i % 9 + 1}_{i:06}.wav", 60 / 3600, seed=i)
    begin = time.monotonic()
    finished(detect(model, folder / "season", folder / "serial", "-j", 1, "--quiet"))
    serial_s = time.monotonic() - begin
    expected = digests(folder / "serial")
    n_rows = len((folder / "serial/combined.csv").read_text().splitlines()) - 1
    begin = time.monotonic()
    with dask(folder, 2) as (address, _, workers):
        process = detect(model, folder / "season", folder / "killed", "--cluster", address, "--quiet")
        wait_for(lambda: len(lines(folder / "killed")) >= n_files // 2, process)
        at = len(lines(folder / "killed"))
        workers[0].kill()
        finished(process)
    same = digests(folder / "killed") == expected
    yield Row(
        f"{n_files} files of a minute over two Dask workers, one killed after {at}",
        f"{time.monotonic() - begin:.0f} s (serial {serial_s:.0f} s); {'exactly the' if same else 'NOT THE'} {n_rows} "
        "rows of the serial run, byte for byte",
    )
    with dask(folder, 2) as (address, scheduler, _):
        process = detect(model, folder / "season", folder / "lost", "--cluster", address, "--quiet")
        wait_for(lambda: len(lines(folder / "lost")) >= n_files // 3, process)
        scheduler.kill()
        said = finished(process, code=1).strip()
    at = len(lines(folder / "lost"))
    with dask(folder, 2) as (address, _, _):
        finished(detect(model, folder / "season", folder / "lost", "--cluster", address, "--quiet"))
    again = sorted(line["recording"] for line in lines(folder / "lost"))
    same = digests(folder / "lost") == expected and len(set(again)) == len(again)
    yield Row(
        f"the scheduler killed after {at} files, a new one, the same command",
        f"“{said[:120]}…”; {'goes on, the same rows, nothing done twice' if same else 'NOT THE SAME'}",
    )


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--split-hours", type=float, default=3.0)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--part-length", type=float, default=1800.0)
    parser.add_argument("--folder", type=Path, help="for the audio, 4 GB for a day; it is emptied at the end")
    parser.add_argument("--only", choices=["long", "split", "files"])
    given = parser.parse_args(args)
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        model = save_model(folder / "model.outlark")
        trials = {
            "long": lambda: one_long_file(folder, model, given.hours, given.part_length),
            "split": lambda: split_over_workers(folder, model, given.split_hours, given.part_length),
            "files": lambda: many_files(folder, model, given.files),
        }
        print("| what | what came of it |\n|---|---|", flush=True)
        for name, trial in trials.items():
            if given.only in (None, name):
                for row in trial():
                    print(f"| {row.what} | {row.came} |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
