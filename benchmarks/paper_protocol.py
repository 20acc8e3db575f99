"""The paper's protocol (Sec. 4.3) on synthetic stand-ins for its notes: literal settings, defaults, and between.

Two training notes of each of three known classes; the other 50 notes, of all eight classes, joined without gaps in
random order. The recordings of the paper are not public: these numbers are not the paper's. Window F is macro over the
three classes and the rest, note F over the three classes.

    python benchmarks/paper_protocol.py
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from real_note_tasks import Draw, Recording
from real_notes import Measures, _mean, as_text, measure
from threadpoolctl import threadpool_limits

from outlark import MDDKM, PKNN
from outlark.experiment.synthetic import CLASSES, KNOWN, SAMPLE_RATE, concatenate, notes
from outlark.notes.detector import NoteDetector
from outlark.notes.front_ends.hlds import HLDSFrontEnd
from outlark.notes.front_ends.patch import PatchFrontEnd
from outlark.notes.segments import Segment

# Frames want little regularisation; choosing it anew for each seed would take most of the time.
FRAMES = {"metric": "euclidean", "sigma_reg": "condition"}
ROWS: dict[str, Any] = {
    "literal (top layer, τ = 1.8/μ, six rules)": NoteDetector.paper,
    "literal, the other reading of τ (1.8)": lambda: NoteDetector.paper(MDDKM.paper(threshold="paper-normalized")),
    "literal, left-out thresholds": lambda: NoteDetector.paper(MDDKM.paper(threshold="leave-note-out")),
    "literal, PKNN (τ = .0015)": lambda: NoteDetector.paper(PKNN.paper()),
    "literal, PKNN, left-out thresholds": lambda: NoteDetector.paper(PKNN()),
    "HLDS, all layers": lambda: NoteDetector(HLDSFrontEnd(), MDDKM(**FRAMES)),
    "patches": lambda: NoteDetector(PatchFrontEnd(), MDDKM(**FRAMES)),
    "defaults (whole notes)": NoteDetector,
}


def draw(seed: int, variation: float) -> Draw:
    """Two notes of each known class to train on, the rest in random order to test on."""
    rng = np.random.default_rng(seed)
    every = notes(seed=0, variation=variation)
    train = [
        i for label in KNOWN for i in rng.choice([i for i, n in enumerate(every) if n.label == label], 2, replace=False)
    ]
    test = rng.permutation([i for i in range(len(every)) if i not in train])
    audio, truth = concatenate([every[i] for i in test])
    clips = [every[i] for i in train]
    train_clips = [
        Recording(
            n.samples, SAMPLE_RATE, [Segment(start=0, end=len(n.samples), sample_rate=SAMPLE_RATE, label=n.label)]
        )
        for n in clips
    ]
    return Draw(train_clips, [Recording(audio, SAMPLE_RATE, truth)], list(KNOWN), clips=True)


def run_seed(seed: int, variation: float) -> list[Measures]:
    """All rows on one seed."""
    drawn, found = draw(seed, variation), []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for make in ROWS.values():
            start = time.process_time()
            detector = drawn.fit(make())
            segments = [detector.detect(r.samples, r.rate) for r in drawn.test]
            found.append(measure(drawn, segments, time.process_time() - start))
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one BLAS thread (default 2)")
    parser.add_argument("--variation", type=float, default=1.0, help="spread within the classes (default 1)")
    parser.add_argument("--markdown", action="store_true", help="print markdown tables")
    options = parser.parse_args(arguments)
    calls = (delayed(run_seed)(seed, options.variation) for seed in range(options.seeds))
    values = np.array(Parallel(n_jobs=options.jobs)(calls))
    print(" ".join(["python benchmarks/paper_protocol.py", *arguments]))
    print(f"{sum(CLASSES.values())} synthetic notes, 2 training notes of each known class, {options.seeds} seeds\n")
    table = [["", "window F", "note F", "event F", "CPU s"]]
    for r, row in enumerate(ROWS):
        table.append([row, *(_mean(values[:, r, m], 3) for m in range(3)), f"{values[:, r, -1].mean():.1f}"])
    print(
        as_text(
            "the paper: MDD-KM .85 window / .91 note, PKNN .83 / .90, on its own recordings", table, options.markdown
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
