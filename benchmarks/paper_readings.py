"""What the readings of the paper's threshold give, and what the loudness of the sound does to them.

    python benchmarks/paper_readings.py                # made-up notes, seeds 1 to 20: mean and standard error of F

The literal system (`FrameDetector.paper`) with each reading of τ, and with PKNN, on the same notes at several gains.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from outlark import MDDKM, PKNN, FrameDetector
from outlark.paper.experiment.dataset import Dataset, Protocol, draw
from outlark.paper.experiment.run import LEVELS, outcome

ROWS: Mapping[str, tuple[Callable[[], MDDKM | PKNN], Sequence[float]]] = {
    "paper": (MDDKM.paper, (1, 300)),
    "paper-normalized": (lambda: MDDKM.paper(threshold="paper-normalized"), (1,)),
    "paper-raw": (lambda: MDDKM.paper(threshold="paper-raw"), (1, 300)),
    "paper, condition 1e8": (lambda: MDDKM.paper(condition=1e8), (1,)),
    "PKNN.paper()": (PKNN.paper, (1, 300, 3000, 32768)),
    "PKNN()": (PKNN, (1, 32768)),
}


def measured(row: str, gain: float, seed: int) -> list[float]:
    """F by window and by note of one seed."""
    drawn = draw(Dataset.synthetic(), Protocol(), seed)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single notes
        detector = FrameDetector.paper(ROWS[row][0]())
        clips = [gain * note.samples for note in drawn.train]
        detector.fit(clips, [note.label for note in drawn.train], drawn.sample_rate)
        segments = detector.detect(gain * drawn.audio, drawn.sample_rate)
    found = outcome(row, seed, drawn, segments)
    return [found.overall(level) for level in LEVELS]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds 1 to N (default 20)")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    print(f"{'':24}{'gain':>8}{'window F':>18}{'note F':>18}")
    for row in options.rows:
        for gain in ROWS[row][1]:
            seeds = range(1, options.seeds + 1)
            found = np.array(Parallel(options.jobs)(delayed(measured)(row, gain, seed) for seed in seeds))
            error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.full(2, np.nan)
            cells = "".join(f"{f:>10.3f} ± {e:.3f}" for f, e in zip(found.mean(axis=0), error, strict=True))
            print(f"{row:24}{gain:>8g}{cells}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
