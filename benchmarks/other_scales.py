"""Notes that are higher and shorter, or lower and longer: the front end that chooses itself against the usual settings.

Zebra finch song played faster and slower: the samples stay and the sample rate changes, as if it were the song of a bat
or of an owl. What can be known of the notes is the same at every speed. Columns: F of events at IoU .5 (pooled) and F
of labelled notes (macro), mean over the draws.

    python benchmarks/other_scales.py
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed
from real_note_tasks import Draw, Recording, data_folder, draw
from real_notes import as_text, measure
from threadpoolctl import threadpool_limits

from outlark import NoteDetector
from outlark.features.note import NoteFrontEnd

SET = "zebra-finch-syllables"
SPEEDS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125)


def played(recording: Recording, speed: float) -> Recording:
    """The recording at another speed."""
    rate = round(recording.rate * speed)
    return replace(recording, rate=rate, segments=[replace(s, sample_rate=rate) for s in recording.segments])


def run_draw(seed: int, speed: float, n_examples: int) -> list[float]:
    """Event F and note F of the usual settings, and of those that choose themselves; and what is listened to, Hz."""
    usual = draw(SET, seed, n_examples)
    drawn = replace(usual, train=[played(r, speed) for r in usual.train], test=[played(r, speed) for r in usual.test])
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        settings, *fixed = _measured(drawn, NoteDetector(NoteFrontEnd()), speed)
        settings, *chosen = _measured(drawn, NoteDetector(), speed)
    return [*fixed, *chosen, settings.low_hz, settings.high_hz, 1e3 * settings.window_s]


def _measured(drawn: Draw, detector: NoteDetector, speed: float) -> tuple[NoteFrontEnd, float, float]:
    fitted = drawn.fit(detector)
    found = [fitted.detect(r.samples, r.rate) for r in drawn.test]
    # at the old speed again: windows and IoU are then those of the other benchmarks
    back = replace(drawn, test=[played(r, 1.0 / speed) for r in drawn.test])
    slow = [[replace(s, sample_rate=r.rate) for s in segments] for r, segments in zip(back.test, found, strict=True)]
    measures = measure(back, slow, 0.0)
    return fitted.front_end_, measures.event_f, measures.note_f


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5, help="seeds 0, 1, … (default 5)")
    parser.add_argument("--examples", type=int, default=5, help="of each known class (default 5)")
    parser.add_argument("--speeds", type=float, nargs="+", default=list(SPEEDS))
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one BLAS thread (default 2)")
    parser.add_argument("--markdown", action="store_true", help="print a markdown table")
    options = parser.parse_args(arguments)
    data_folder()
    jobs = [(speed, seed) for speed in options.speeds for seed in range(options.draws)]
    calls = (delayed(run_draw)(seed, speed, options.examples) for speed, seed in jobs)
    values = np.array(Parallel(n_jobs=options.jobs)(calls)).reshape(len(options.speeds), options.draws, -1)
    table = [["speed", "usual: event F", "note F", "chosen: event F", "note F", "listens from, Hz", "to", "window, ms"]]
    for speed, of_speed in zip(options.speeds, values, strict=True):
        means = of_speed.mean(axis=0)
        cells = [f"{m:.3f}" for m in means[:4]] + [f"{m:.0f}" for m in means[4:6]] + [f"{means[6]:.3g}"]
        table.append([f"× {speed:g}", *cells])
    print(" ".join(["python benchmarks/other_scales.py", *arguments]))
    print(as_text(f"{SET}, {options.examples} examples, {options.draws} draws", table, options.markdown))


if __name__ == "__main__":
    main(sys.argv[1:])
