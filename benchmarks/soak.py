"""Days of sound through `outlark listen`: memory, delay and what is found, for each hour.

    nice python benchmarks/soak.py                       # 24 h of sound, 15 minutes or more
    python benchmarks/soak.py --hours 0.2 --hour 120     # "hours" of two minutes, to try it

The sound is synthetic: songs of known and unknown notes in noise, quiet and busy hours in turn. It goes into a pipe in
blocks, each as soon as the program has dealt with the one before and waits for more; so the delay in sound is that of
live sound, and the time for a block is that of this machine. Linux only, because /proc says whether a process waits.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import linregress, t

from outlark import NoteDetector, model_file
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes

KNOWN = ("tuti-D", "tuti-F", "cach-Z")
UNKNOWN = ("cach-C", "tuti-A")
#: Share of the time with song, hour by hour, in turn.
BUSY = (0.02, 0.2, 0.6, 0.1)
#: Seconds that a song has to itself, seconds of sound that are made at once, and root mean square of the noise.
SONG_S, PIECE_S, NOISE = 3, 60, 0.002
#: Seconds after which the segments of a note are out for certain.
LATE_S = 20.0
#: A trend counts as none if it would change the mean by less than this share in a day.
FLAT = 0.05


class Played(NamedTuple):
    """A known note that was played: its class and its middle, in seconds."""

    label: str
    middle_s: float


class Line(NamedTuple):
    """A segment that came out: by how much sound after its end, and how long after the block that made it final."""

    label: str | None
    start_s: float
    end_s: float
    delay_s: float
    took_s: float


class Hour(NamedTuple):
    """What was seen in an hour of sound."""

    busy: float
    memory_mb: float
    delay_s: np.ndarray
    took_ms: np.ndarray
    played: int
    found: int
    taken_s: float


def save_model(path: Path) -> Path:
    """Three classes of five examples."""
    known = notes(counts=dict.fromkeys(KNOWN, 5))
    detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    model_file.save(detector, path)
    return path


class Garden:
    """Sound that never ends, a minute at a time, with the known notes in it."""

    def __init__(self, hour_s: float, seed: int = 0) -> None:
        self._hour_s, self._rng, self._at_s = hour_s, np.random.default_rng(seed), 0.0
        self._songs = [self._song(i) for i in range(24)]

    def _song(self, seed: int) -> tuple[np.ndarray, list[Played]]:
        """Four notes in random order, some of them unknown."""
        kinds = self._rng.choice((*KNOWN, *UNKNOWN), size=4)
        counts = {str(kind): int((kinds == kind).sum()) for kind in kinds}
        sound, truth = concatenate(notes(seed=seed + 100, counts=counts), gap_s=0.25, rng=self._rng)
        spans = [(note.label, note.start_s, note.end_s) for note in truth if note.end_s < SONG_S]
        played = [Played(label, (start + end) / 2) for label, start, end in spans if label in KNOWN]
        return sound[: SONG_S * SAMPLE_RATE], played

    def piece(self) -> tuple[bytes, list[Played]]:
        """The next minute as 16-bit samples."""
        sound = NOISE * self._rng.standard_normal(PIECE_S * SAMPLE_RATE)
        busy, played = BUSY[int(self._at_s // self._hour_s) % len(BUSY)], []
        for slot in np.flatnonzero(self._rng.random(PIECE_S // SONG_S) < busy):
            song, known = self._songs[self._rng.integers(len(self._songs))]
            at = int(slot) * SONG_S
            sound[at * SAMPLE_RATE : at * SAMPLE_RATE + len(song)] += song * self._rng.uniform(0.1, 0.6)
            played += [Played(note.label, self._at_s + at + note.middle_s) for note in known]
        self._at_s += PIECE_S
        return (2**15 * sound).round().clip(-(2**15), 2**15 - 1).astype("<i2").tobytes(), played


class Listening:
    """`outlark listen`, fed block by block."""

    def __init__(self, model: Path) -> None:
        command = [sys.executable, "-m", "outlark", "listen", str(model), "--rate", str(SAMPLE_RATE), "--quiet"]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        fcntl.fcntl(self._into, fcntl.F_SETPIPE_SZ, 2**17)  # a block of a second fits
        os.set_blocking(self._out, False)
        self._tasks = Path(f"/proc/{self._process.pid}/task")
        self._held, self.fed_s = b"", 0.0

    def feed(self, block: bytes) -> list[Line]:
        """Write a block, wait until it has been dealt with, and tell what came out."""
        begin, found = time.perf_counter(), []
        os.write(self._into, block)
        self.fed_s += len(block) / 2 / SAMPLE_RATE
        while True:
            waits = self._waits()
            lines = self._lines(begin)
            found += lines
            if waits and not lines:
                return found
            if self._process.poll() is not None:
                raise SystemExit(f"outlark listen ended with exit code {self._process.returncode}")
            time.sleep(0.001)

    def _waits(self) -> bool:
        """Whether the pipe is empty and every thread of the process sleeps."""
        if any(fcntl.ioctl(self._into, termios.FIONREAD, bytes(4))):
            return False
        states = [task.read_text().rsplit(")")[-1].split()[0] for task in self._tasks.glob("*/stat")]
        return set(states) == {"S"}

    def _lines(self, begin: float) -> list[Line]:
        try:
            self._held += os.read(self._out, 2**20)
        except BlockingIOError:
            return []
        *whole, self._held = self._held.split(b"\n")
        took = time.perf_counter() - begin
        said = [line for line in map(json.loads, whole) if "outlark" not in line]
        return [
            Line(line.get("label"), line["start_s"], line["end_s"], self.fed_s - line["end_s"], took) for line in said
        ]

    def memory_mb(self) -> float:
        """Resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def end(self) -> None:
        """Close the pipe and wait for the end."""
        os.set_blocking(self._out, True)
        self._process.communicate()
        if self._process.returncode:
            raise SystemExit(f"outlark listen ended with exit code {self._process.returncode}")


def hours(model: Path, n_hours: int, hour_s: float, block_s: float) -> Iterator[Hour]:
    """Listen; what was seen in each hour. Notes at its very end count in the next one, when their segments are out."""
    garden, listening = Garden(hour_s), Listening(model)
    size = round(block_s * SAMPLE_RATE) * 2
    late: list[Played] = []
    for i in range(n_hours):
        begin, memory = time.monotonic(), []
        played = late
        lines: list[Line] = []
        for _ in range(round(hour_s / PIECE_S)):
            sound, known = garden.piece()
            played += known
            for at in range(0, len(sound), size):
                lines += listening.feed(sound[at : at + size])
            memory.append(listening.memory_mb())
        late = [note for note in played if note.middle_s > listening.fed_s - LATE_S]
        played = played[: len(played) - len(late)]
        yield Hour(
            BUSY[i % len(BUSY)],
            float(np.median(memory)),
            np.array([line.delay_s for line in lines]),
            1000 * np.array([line.took_s for line in lines]),
            len(played),
            _n_found(played, lines),
            time.monotonic() - begin,
        )
    listening.end()


def _n_found(played: list[Played], lines: list[Line]) -> int:
    """Known notes with a segment of their class around their middle."""
    found = 0
    starts = np.array([line.start_s for line in lines])
    for note in played:
        at = int(np.searchsorted(starts, note.middle_s)) - 1
        found += at >= 0 and lines[at].label == note.label and lines[at].end_s > note.middle_s
    return found


def trend(values: list[float]) -> tuple[float, float, float]:
    """Change per hour, and its 95 % interval, by least squares.

    >>> slope, low, high = trend([5.0, 5.1, 4.9, 5.0, 5.1, 4.9, 5.0])
    >>> low < 0.0 < high
    True
    """
    fit = linregress(np.arange(len(values)), values)
    half = t.ppf(0.975, len(values) - 2) * fit.stderr
    return fit.slope, fit.slope - half, fit.slope + half


def verdict(values: list[float]) -> str:
    """Flat, if the interval of the trend leaves no room for a change that matters."""
    slope, low, high = trend(values)
    allowed = FLAT * abs(float(np.mean(values))) / 24
    flat = (
        "flat" if -allowed < low and high < allowed else "NOT FLAT" if low > 0 or high < 0 else "too few hours to say"
    )
    return f"{slope:+.4f} per hour, 95 % interval {low:+.4f} to {high:+.4f}: {flat}"


def _row(i: int, hour: Hour) -> str:
    delays = [f"{np.median(x):.{n}f} | {x.max():.{n}f}" if len(x) else "– | –" for x, n in
              ((hour.delay_s, 2), (hour.took_ms, 0))]  # fmt: skip
    cells = [i + 1, f"{hour.busy:.0%}", f"{hour.memory_mb:.1f}", *delays, f"{hour.found} of {hour.played}"]
    return f"| {' | '.join(map(str, cells))} | {hour.taken_s:.0f} |"


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--hour", type=float, default=3600.0, metavar="SECONDS", help="length of an hour")
    parser.add_argument("--block", type=float, default=1.0, metavar="SECONDS", help="sound that is written at once")
    given = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder, "model.outlark"))
        print("| hour | song | memory, MB | delay, s of sound | most | time for a block, ms | most | known notes | s |")
        print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
        seen: list[Hour] = []
        for i, hour in enumerate(hours(model, given.hours, given.hour, given.block)):
            seen.append(hour)
            print(_row(i, hour), flush=True)
    later = seen[1:]  # the first hour fills what is remembered of the last minutes
    if len(later) > 2:
        print(f"\nmemory, MB: {verdict([hour.memory_mb for hour in later])}")
        print(f"delay, s of sound: {verdict([float(np.mean(hour.delay_s)) for hour in later if len(hour.delay_s)])}")
    print(f"known notes found: {sum(hour.found for hour in seen)} of {sum(hour.played for hour in seen)}")


if __name__ == "__main__":
    main()
