"""The fast scan against the slow one, on all real recordings: the same segments, and what it gains.

Run: ``python benchmarks/scan_paths.py``, about a quarter of an hour. The slow way describes every span by itself
(`NoteFrontEnd.describe`) and takes spectra in double precision; the fast way is what `NoteDetector` does: projections
of cumulated spectra, which come from spectra in single precision. Both use the same trained model. Times are
processor time of the whole detection.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from real_note_tasks import TASKS, TooFewError, draw

from outlark.detection.detector import NoteDetector
from outlark.detection.projections import Projections
from outlark.detection.scores import Scores
from outlark.features import note
from outlark.features.note import NoteFrontEnd
from outlark.metrics.windows import aligned_table
from outlark.segments import Segment

#: Scores may differ by this much.
TOLERANCE = 2e-5
Outcome = tuple[Scores, list[Segment]]


@dataclass(frozen=True)
class Compared:
    """Both ways through the same recordings."""

    seconds: float
    segments: int
    differing: int
    largest: float
    slow_s: float
    fast_s: float

    @property
    def agrees(self) -> bool:
        """The same segments, and scores within the tolerance."""
        return self.differing == 0 and self.largest <= TOLERANCE


@contextmanager
def slow_way(front_end: NoteFrontEnd) -> Iterator[None]:
    """Every span described by itself, spectra in double precision."""
    fast = front_end.spectrum_
    with patch.object(Projections, "of", lambda *_: None), patch.object(note, "DTYPE", np.float64):
        front_end.spectrum_ = note.Spectrum(fast.settings, fast.sample_rate)
        try:
            yield
        finally:
            front_end.spectrum_ = fast


def compared(task: str, seed: int, n_examples: int, n_recordings: int | None = None) -> Compared:
    """One draw of a task, or its first test recordings."""
    drawn = draw(task, seed, n_examples)
    detector, test = drawn.fit(NoteDetector()), drawn.test[:n_recordings]
    sounds = [(recording.samples, recording.rate) for recording in test]
    fast, fast_s = _timed(detector, sounds)
    with slow_way(detector.front_end_):
        slow, slow_s = _timed(detector, sounds)
    pairs = list(zip(fast, slow, strict=True))
    return Compared(
        seconds=sum(len(samples) / rate for samples, rate in sounds),
        segments=sum(len(segments) for _, segments in slow),
        differing=sum(_differing(ours, theirs) for (_, ours), (_, theirs) in pairs),
        largest=max(float(np.abs(a.block.values - b.block.values).max(initial=0.0)) for (a, _), (b, _) in pairs),
        slow_s=slow_s,
        fast_s=fast_s,
    )


def _timed(detector: NoteDetector, sounds: Sequence[tuple[np.ndarray, int]]) -> tuple[list[Outcome], float]:
    start = time.process_time()
    found = [detector.scores_and_segments(*sound) for sound in sounds]
    return found, time.process_time() - start


def _differing(ours: Sequence[Segment], theirs: Sequence[Segment]) -> int:
    """How many segments of one are not among those of the other; their scores are compared by themselves."""
    first, second = ({(s.start, s.end, s.label, s.verdict, s.runner_up) for s in found} for found in (ours, theirs))
    return len(first ^ second)


def table(tasks: Sequence[str], seeds: int, examples: Sequence[int]) -> tuple[list[list[str]], bool]:
    """A row for each task, and whether all agree."""
    rows = [["", "draws", "audio, s", "segments", "differing", "largest score difference", "slow / fast"]]
    agree = True
    for task in tasks:
        found = []
        for seed in range(seeds):
            for n in examples:
                print(f"{task}, draw {seed}, {n} examples …", file=sys.stderr, flush=True)
                try:
                    found.append(compared(task, seed, n))
                except TooFewError as error:
                    print(f"  {error}", file=sys.stderr, flush=True)
        if not found:
            continue
        agree = agree and all(one.agrees for one in found)
        total = {name: sum(getattr(one, name) for one in found) for name in Compared.__annotations__}
        rows.append([
            task, str(len(found)), f"{total['seconds']:.0f}", str(total["segments"]), str(total["differing"]),
            f"{max(one.largest for one in found):.1e}", f"{total['slow_s'] / total['fast_s']:.1f}",
        ])  # fmt: skip
    return rows, agree


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=tuple(TASKS), default=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=1, help="draws of each task (default 1)")
    parser.add_argument("--examples", nargs="+", type=int, default=[2, 5], help="of each class (default 2 and 5)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    print(" ".join(["python benchmarks/scan_paths.py", *arguments]))
    rows, agree = table(options.tasks, options.seeds, options.examples)
    print(aligned_table(rows))
    if not agree:
        raise SystemExit(f"segments differ, or scores by more than {TOLERANCE:g}")


if __name__ == "__main__":
    main(sys.argv[1:])
