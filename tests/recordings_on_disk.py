"""A model and short recordings in files, for tests of the command line and of runs over many files."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile

from outlark import NoteDetector, model_file
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes

OUTLARK = (sys.executable, "-m", "outlark")
#: The program as it is, with something that happens when a run is so far.
HAPPENS = """
import multiprocessing, os, signal, sys
from contextlib import contextmanager
from outlark.cli import detect
from outlark.cli.main import main

happened = False

def stop():
    os.killpg(0, signal.SIGINT)  # as Ctrl-C does

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def kill_worker():
    for child in multiprocessing.active_children():
        child.kill()

def kill_each_worker():
    global happened
    happened = False  # it will happen again
    kill_worker()

@contextmanager
def shown(quiet):
    def watch(state):
        global happened
        if {when} and not happened:
            happened = True
            {what}()
    yield watch

detect.shown = shown
main(sys.argv[1:])
"""


def save_model(path: Path, classes: tuple[str, ...] = ("tuti-D", "tuti-F", "cach-Z")) -> Path:
    """A detector trained on three notes of each class."""
    known = notes(counts=dict.fromkeys(classes, 3))
    detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    model_file.save(detector, path)
    return path


def song(seed: int, rate: int = SAMPLE_RATE) -> np.ndarray:
    """About half a second: a note that the model knows, or one that it does not."""
    name = ("tuti-D", "tuti-F", "cach-Z", "cach-C", "tuti-A")[seed % 5]
    audio, _ = concatenate(notes(seed=seed, counts={name: 1}), edge_s=0.15, rng=np.random.default_rng(seed))
    return audio if rate == SAMPLE_RATE else resample(audio, SAMPLE_RATE, rate)


def save_recordings(folder: Path, n: int) -> Path:
    """So many, in several folders, formats and rates, with the same names in different folders."""
    for i in range(n):
        rate = (SAMPLE_RATE, 8000)[i % 7 == 3]
        name = f"night{i % 3}/{i // 6:03}{('.wav', '.flac', '.WAV')[i % 6 // 2]}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name, song(i, rate), rate)
    return folder


def save_long_recording(path: Path, seconds: float, rate: int = SAMPLE_RATE, seed: int = 0) -> Path:
    """Songs, some of them faint, and quiet between them; of so many bytes that it counts as long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng, pieces, n = np.random.default_rng(seed), [], round(seconds * rate)
    while sum(map(len, pieces)) < n:
        piece = song(int(rng.integers(1000)), rate) * rng.choice([1.0, 0.05])
        pieces += [piece, np.zeros(int(rng.choice([0, rate // 5, 3 * rate])))]
    audio = np.concatenate(pieces)[:n]
    soundfile.write(path, audio + 0.002 * rng.normal(size=n), rate, subtype="DOUBLE")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """All that a run leaves for its user, by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in sorted(named.items()) if not name.startswith(".outlark/")}


def without_paths(found: dict[str, bytes]) -> dict[str, bytes]:
    """The same with the names of recordings only in Raven's Begin Path."""
    return {name: re.sub(rb"\t[^\t\n]*/([^/\t\n]+\.(wav|flac)\t)", rb"\t\1", blob) for name, blob in found.items()}


def outlark(*args: object, **more: object) -> subprocess.CompletedProcess[str]:
    """Run the program as its users do."""
    command = [*OUTLARK, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment(), **more)


def start(*args: object, **more: object) -> subprocess.Popen[bytes]:
    """Start the program, in a group of processes of its own."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | more
    return subprocess.Popen([*OUTLARK, *map(str, args)], env=environment(), start_new_session=True, **quiet)


def start_and(what: str, when: str, *args: object) -> subprocess.Popen[bytes]:
    """Start the program; it is to "stop", as with Ctrl-C, to "kill" itself or to "kill_worker" when a run is so far.

    With "kill_each_worker" this happens again and again, as long as it is so far. `when` is an expression in ``state``:
    an event, and no time, so that it happens in the midst of a run on every machine.
    """
    code = HAPPENS.replace("{when}", when).replace("{what}", what)
    command = [sys.executable, "-c", code, *map(str, args)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment(), start_new_session=True, **quiet)


def environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def journal_lines(output: Path) -> int:
    """How many files a run has finished so far."""
    journal = output / ".outlark" / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0
