"""Runs and reviews to which something happens: what `outlark detect` and the review page lose, double or change.

Runs are compared with one process that nobody disturbs, row by row and byte by byte; reviews with the keys pressed.

    nice python benchmarks/chaos.py                                       # all trials; those of disks take root
    python benchmarks/chaos.py --only kills workers --kills 100
    python benchmarks/chaos.py --only review-killed review-many           # these take Chromium
    python benchmarks/chaos.py --only long --hours 24 --part-length 1800  # hours on two cores

All sound is synthetic and made on the fly. Exit code 1 if anything is lost, doubled or different.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import chaos_cluster
import chaos_machine
import chaos_review
from chaos_ground import Ground, Result, TrialError

RUNS = ("kills", "pauses", "workers", "full", "slow", "clock", "times", "dask", "scheduler", "long")
NAMES = (*RUNS, *chaos_review.TRIALS)
HEADER = ("scenario", "what was done", "rows expected", "found", "doubled", "lost", "verdict")


def trials(ground: Ground, given: argparse.Namespace) -> dict[str, Callable[[], Iterator[Result]]]:
    """Those of runs by name, in order."""
    return {
        "kills": lambda: chaos_machine.killed(ground, given.kills),
        "pauses": lambda: chaos_machine.paused(ground, 10),
        "workers": lambda: chaos_machine.worker_lost(ground, 6),
        "full": lambda: chaos_machine.full_disk(ground),
        "slow": lambda: chaos_machine.slow_disk(ground),
        "clock": lambda: chaos_machine.clock_jumps(ground),
        "times": lambda: chaos_machine.times_of_files_jump(ground),
        "dask": lambda: chaos_cluster.dask_worker_lost(ground),
        "scheduler": lambda: chaos_cluster.dask_scheduler_lost(ground),
        "long": lambda: chaos_cluster.long_recording(ground, given.hours, given.part_length),
    }


def tried(name: str, trial: Callable[[], Iterator[Result]]) -> Iterator[Result]:
    """What came of a trial, also if a run did not end as it should."""
    try:
        yield from trial()
    except TrialError as error:
        yield Result(name, "", 0, 0, 0, 0, f"WRONG: {error}")


def _results(folder: Path, given: argparse.Namespace) -> Iterator[Result]:
    if set(given.only) & set(RUNS):
        for name, trial in trials(Ground(folder, given.files, given.seconds, given.seed), given).items():
            if name in given.only:
                yield from tried(name, trial)
    for name in chaos_review.TRIALS:
        if name in given.only:
            yield from tried(name, lambda name=name: chaos_review.tried(name, folder))


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each; one more is 20 times as long")
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hours", type=float, default=0.5, help="length of the long recording")
    parser.add_argument("--part-length", type=float, default=120.0)
    parser.add_argument("--folder", type=Path, help="for the audio, 4 GB for a day; it is emptied at the end")
    given = parser.parse_args(args)
    folder = Path(tempfile.mkdtemp(dir=given.folder, prefix="outlark-chaos-"))
    results: list[Result] = []
    try:
        print(f"| {' | '.join(HEADER)} |\n|---|---|---:|---:|---:|---:|---|", flush=True)
        for result in _results(folder, given):
            results.append(result)
            print(f"| {' | '.join(map(str, result))} |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not all(result.good for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
