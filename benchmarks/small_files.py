"""What a recording costs beyond its sound, and a class with many examples.

    python benchmarks/small_files.py                                # 500 recordings of .1 s; 100, 300 and 1,000 notes
    python benchmarks/small_files.py --files 2000 --examples 100 300

Recordings are noise (PCM 16), searched by a batch run in this process, with a model of three classes of five examples
and annotation files in two formats. Flushes are calls of `fsync`, each of which waits for the disk. Wall time says
little on a shared machine.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
from chaos_ground import save_model

from outlark import NoteDetector
from outlark.batch.crew import outcome
from outlark.batch.engine import Engine
from outlark.batch.run import run
from outlark.batch.sources import find
from outlark.batch.task import Task, sha256_of
from outlark.batch.unit import Event, Unit
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.verdict_names import AMBIGUOUS, KNOWN, UNKNOWN

FORMATS = ("csv", "raven")
SECONDS = 0.1


class InThisProcess:
    """One recording after the other, so that all that a run does is counted."""

    n_free = 1

    def __init__(self, task: Task) -> None:
        self._task = task

    def start(self, n_units: int) -> bool:
        self._engine = Engine(self._task, self._task.workshop / "partial" / str(os.getpid()))
        return self._engine.splits

    def submit(self, unit: Unit) -> None:
        self._unit, self.n_free = unit, 0

    def events(self) -> Iterator[Event]:
        self.n_free = 1
        yield Event(self._unit, outcome(self._unit, lambda: self._engine.work(self._unit, lambda *_: None)))

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@contextmanager
def flushes() -> Iterator[list[int]]:
    """The calls of `fsync` while inside."""
    flush, calls = os.fsync, list[int]()

    def counted(file: Any) -> None:
        calls.append(1)
        flush(file)

    os.fsync = counted
    try:
        yield calls
    finally:
        os.fsync = flush


def timed(what: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of processor time, and on the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    what()
    return time.process_time() - cpu, time.perf_counter() - wall


def cost_of_files(folder: Path, n: int) -> tuple[float, float, float]:
    """Processor ms, ms on the clock and flushes for each recording, two formats."""
    rng, season = np.random.default_rng(0), folder / "season"
    season.mkdir()
    for i in range(n):
        samples = 0.01 * rng.standard_normal(round(SECONDS * SAMPLE_RATE))
        soundfile.write(season / f"{i:06}.wav", samples, SAMPLE_RATE, subtype="PCM_16")
    model = save_model(folder / "model.outlark")
    task = Task(
        model=str(model), model_sha256=sha256_of(model), output=str(folder / "found"),
        formats=FORMATS, verdicts=(KNOWN, AMBIGUOUS, UNKNOWN),
    )  # fmt: skip
    with flushes() as calls:
        cpu, wall = timed(lambda: run(task, find([season]), driver=InThisProcess(task)))
    if len(list((folder / "found").glob("*.csv"))) < n:
        raise SystemExit("not every recording has its table")
    return 1000 * cpu / n, 1000 * wall / n, len(calls) / n


def cost_of_training(n: int) -> float:
    """Processor seconds for one class of n examples."""
    known = notes(counts={"tuti-D": n})
    clips, labels = [note.samples for note in known], [note.label for note in known]
    return timed(lambda: NoteDetector().fit(clips, labels, SAMPLE_RATE))[0]


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--examples", type=int, nargs="*", default=[100, 300, 1000])
    given = parser.parse_args(args)
    with TemporaryDirectory() as folder:
        cpu, wall, flushed = cost_of_files(Path(folder), given.files)
    print("| recordings of .1 s | CPU ms each | wall ms each | fsyncs each |\n|---:|---:|---:|---:|")
    print(f"| {given.files:,} | {cpu:.1f} | {wall:.1f} | {flushed:.1f} |\n", flush=True)
    if given.examples:
        print("| examples of one class | training, CPU s |\n|---:|---:|")
    for n in given.examples:
        print(f"| {n:,} | {cost_of_training(n):.1f} |", flush=True)


if __name__ == "__main__":
    main()
