"""Kill `outlark detect` again and again at random moments, resume it, and compare with an undisturbed run.

``python -m tests.batch.kill_and_resume --files 300 --kills 50`` is the long form of tests/batch/test_killed.py.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.recordings_on_disk import (
    contents,
    journal_lines,
    outlark,
    save_long_recording,
    save_model,
    save_recordings,
    start,
)


class Outcome(NamedTuple):
    """How often a run was killed, in how many rounds from an empty folder; how long the journal was each time."""

    kills: int
    rounds: int
    lines_at_kill: list[int]
    differences: list[str]


def kill_and_resume(folder: Path, *, n_files: int, n_kills: int, seed: int, jobs: int = 2) -> Outcome:
    """A round begins with an empty folder and ends when a run gets through; rounds follow each other until all kills
    are used up. Every round must leave what the undisturbed run left, which has no parts. One recording in twenty is
    long."""
    rng = random.Random(seed)
    recordings = save_recordings(folder / "recordings", n_files)
    for i in range(-(-n_files // 20)):
        save_long_recording(recordings / f"night1/long{i}.wav", 26.0, seed=i)
    command = ["detect", save_model(folder / "m.outlark"), recordings, "--format", "csv,raven,jsonl", "--all"]
    command += ["--keep-scores", "-j", jobs, "--quiet", "-o"]
    undisturbed = outlark(*command, folder / "undisturbed")
    command[1:1] = ["--part-length", 5]
    assert undisturbed.returncode == 0, undisturbed.stderr
    expected = contents(folder / "undisturbed")
    lines_at_kill: list[int] = []
    differences: list[str] = []
    rounds = 0
    while len(lines_at_kill) < n_kills:
        rounds += 1
        output = folder / f"round{rounds}"
        while True:
            process = start(*command, output, stderr=subprocess.PIPE)
            killed = len(lines_at_kill) < n_kills and _kill(process, output, rng, n_files)
            said = process.communicate()[1].decode()
            if not killed:
                break
            lines_at_kill.append(journal_lines(output))
        assert process.returncode == 0, said
        found = contents(output)
        differences += [f"{output.name}/{name}" for name in expected | found if found.get(name) != expected.get(name)]
        shutil.rmtree(output)
    return Outcome(len(lines_at_kill), rounds, lines_at_kill, differences)


def _kill(process: "subprocess.Popen[bytes]", output: Path, rng: random.Random, n_files: int) -> bool:
    """SIGKILL after some more files, or after some time; False if the run was through before."""
    enough = journal_lines(output) + rng.randint(1, max(1, n_files // 8))
    give_up = time.monotonic() + (rng.uniform(0.0, 2.5) if rng.random() < 0.3 else 600.0)
    while process.poll() is None and time.monotonic() < give_up and journal_lines(output) < enough:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.04))
    if process.poll() is not None:
        return False
    if rng.random() < 0.5:
        os.killpg(process.pid, signal.SIGKILL)  # the workers as well
    else:
        process.kill()  # they have to find out by themselves
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        outcome = kill_and_resume(Path(folder), n_files=given.files, n_kills=given.kills, seed=given.seed)
        print(
            f"{outcome.kills} kills in {outcome.rounds} rounds of {given.files} files, {time.monotonic() - begin:.0f} s"
        )
        print(f"lines of the journal at each kill: {outcome.lines_at_kill}")
        print(f"differences: {outcome.differences or 'none'}")


if __name__ == "__main__":
    main()
