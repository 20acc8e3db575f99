"""What all trials of benchmarks/chaos.py share: recordings, a model, the undisturbed run, and the comparison."""

import csv
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile

from outlark import NoteDetector, model_file
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes

CLASSES = ("tuti-D", "tuti-F", "cach-Z")
#: Seconds of sound that are made at once.
PIECE_S = 60
OUTLARK = (sys.executable, "-m", "outlark")
#: Seconds after which a run that does not move is taken for stuck.
STUCK_S = 900.0


class Result(NamedTuple):
    """What was done to a run, and what came of it: rows, and whether all files have the bytes of the serial run."""

    scenario: str
    done: str
    expected: int
    found: int
    doubled: int
    lost: int
    verdict: str

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict.startswith(("identical", "not run"))


class TrialError(Exception):
    """A run that ended as it must not."""


def not_run(scenario: str, why: str) -> Result:
    """A trial that this machine does not allow."""
    return Result(scenario, "", 0, 0, 0, 0, f"not run: {why}")


def save_model(path: Path) -> Path:
    """Three classes of five examples."""
    known = notes(counts=dict.fromkeys(CLASSES, 5))
    detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    model_file.save(detector, path)
    return path


@cache
def _songs() -> list[np.ndarray]:
    """Twelve, of three seconds, with all kinds of notes in any order."""
    rng = np.random.default_rng(0)
    bank = notes(seed=1)
    return [
        concatenate([bank[i] for i in rng.permutation(len(bank))[:12]], gap_s=0.25, rng=rng)[0][: 3 * SAMPLE_RATE]
        for _ in range(12)
    ]


def save_recording(path: Path, seconds: float, seed: int = 0, busy: float | None = None) -> Path:
    """Songs among noise: in this share of the time, or many in the morning and few else."""
    rng, songs = np.random.default_rng(seed), _songs()
    path.parent.mkdir(parents=True, exist_ok=True)
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1, subtype="PCM_16") as file:
        for start in range(0, math.ceil(seconds), PIECE_S):
            n = round(min(PIECE_S, seconds - start) * SAMPLE_RATE)
            piece = 0.002 * rng.standard_normal(n, dtype=np.float32)
            share = 0.02 + 0.5 * np.exp(-(((start / 3600 % 24 - 6.0) / 1.5) ** 2)) if busy is None else busy
            for at in 3 * SAMPLE_RATE * np.flatnonzero(rng.random(PIECE_S // 3) < share):
                sound = songs[rng.integers(len(songs))][: max(0, n - at)] * rng.uniform(0.02, 0.5)
                piece[at : at + len(sound)] += sound
            file.write(piece)
    return path


class Ground:
    """Many short recordings and a long one, a model, and the results of one process that nobody disturbs."""

    def __init__(self, folder: Path, n_files: int, seconds: float, seed: int) -> None:
        self.folder, self.rng, self.n_files = folder, np.random.default_rng(seed), n_files
        self.model = save_model(folder / "model.outlark")
        self.recordings = folder / "season"
        for i in range(n_files):
            save_recording(self.recordings / f"site{i % 7}/2026050{i % 9 + 1}_{i:06}.wav", seconds, seed=i, busy=0.3)
        save_recording(self.recordings / "site0/20260501_long.wav", 20 * seconds, seed=n_files, busy=0.3)
        self._part_s = 4 * seconds
        self.serial, begin = folder / "serial", time.monotonic()
        self.finished(self.detect(self.serial, "-j", 1, "--part-length", 10**6))
        self.serial_s = time.monotonic() - begin

    def detect(
        self,
        output: Path,
        *more: object,
        recordings: Path | None = None,
        env: Mapping[str, str] | None = None,
        first: Callable[[], None] | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start `outlark detect`, the leader of a group of processes; `first` happens in the process before."""
        command = [*OUTLARK, "detect", str(self.model), str(recordings or self.recordings), "-o", str(output)]
        command += ["--format", "csv,raven,jsonl", "--all", "--quiet", *map(str, more)]
        if "--part-length" not in more:
            command += ["--part-length", str(self._part_s)]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **(env or {})}
        return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, env=env, preexec_fn=first)

    def finished(self, process: "subprocess.Popen[bytes]", codes: tuple[int, ...] = (0,)) -> str:
        """Wait for the end of a run; what it said."""
        said = process.communicate(timeout=STUCK_S)[1].decode()
        if process.returncode not in codes or "Traceback" in said:
            raise TrialError(f"exit code {process.returncode}, expected {codes}: {said.strip()[-500:]}")
        return said.strip()

    def compared(self, scenario: str, done: str, output: Path, trouble: str = "") -> Result:
        """Rows and bytes against those of the serial run."""
        expected, found = rows(self.serial), rows(output)
        lost, doubled = (expected - found).total(), (found - expected).total()
        before, now = digests(self.serial), digests(output)
        different = sorted(name for name in before | now if before.get(name) != now.get(name))
        verdict = f"DIFFERENT: {len(different)} files, such as {different[0]}" if different else "identical"
        if trouble:
            verdict = f"WRONG: {trouble}"
        return Result(scenario, done, expected.total(), found.total(), doubled, lost, verdict)

    def some_lines(self, output: Path) -> Callable[[], bool]:
        """Whether the journal has grown by a random number of lines since now."""
        enough = len(lines(output)) + int(self.rng.integers(1, max(2, self.n_files // 5)))
        return lambda: len(lines(output)) >= enough


def rows(output: Path) -> "Counter[tuple[str, ...]]":
    """All rows of a run, each with the number of times that it is there."""
    with (output / "combined.csv").open(encoding="utf-8", newline="") as file:
        return Counter(tuple(row) for row in list(csv.reader(file))[1:])


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


def wait_for(when: Callable[[], bool], process: "subprocess.Popen[bytes]") -> bool:
    """Until it is so far; False if the run was through before."""
    until = time.monotonic() + STUCK_S
    while not when():
        if process.poll() is not None:
            return False
        if time.monotonic() > until:
            raise TrialError(f"nothing has happened for {STUCK_S:.0f} s")
        time.sleep(0.005)
    return process.poll() is None


def kill(process: "subprocess.Popen[bytes]", workers_too: bool = True) -> None:
    """SIGKILL, at once; without their parent, the workers have to find out by themselves."""
    if workers_too:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def emptied(folder: Path) -> Path:
    """The folder, which is not there any more."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder
