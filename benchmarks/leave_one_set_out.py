"""The absolute scale, judged on sets that its constants were not chosen on.

Thresholds follow from four numbers: t0 of one note of a second, what it gains when their number grows e-fold and loses
when they last e times as long, and the share of left-out scores that lowers it, all in
`outlark.detection.thresholds`. Every combination is tried on every set; for each set those are taken that do best,
in the mean event F, on all the others, and measured on that one. A second table says how far each number may be moved
alone before the mean event F falls by .01.

    python benchmarks/leave_one_set_out.py                    # 8 draws with 2 and 5 examples: half an hour on two cores
    python benchmarks/leave_one_set_out.py --draws 2 --sets zebra-finch-syllables canary-syllables
"""

import argparse
import functools
import itertools
import operator
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from real_note_tasks import TASKS, draw
from real_notes import aligned_table, compare, possible, versions_text
from threadpoolctl import threadpool_limits

from outlark import NoteDetector
from outlark.detection.thresholds import LEAST_SHARE, LEFT_OUT_SHARE, LOWEST, ONE_NOTE, PER_FOLD, PER_LENGTH

TRIED = {
    "t0 of one note of 1 s": (0.04, 0.06, 0.08, 0.10, 0.12, 0.14, 0.16),
    "per e-fold of notes": (0.05, 0.07, 0.09),
    "per e-fold of length": (0.0, 0.02, 0.04, 0.06),
    "share of left-out scores": (0.5, 0.6, 0.7),
}
GRID = list(itertools.product(*TRIED.values()))
CHOSEN = GRID.index((ONE_NOTE, PER_FOLD, PER_LENGTH, LEFT_OUT_SHARE))
SETS = [name for name in TASKS if not name.endswith(("-20dB", "-15dB", "-5dB"))]


def thresholds(detector: Any, one_note: float, per_fold: float, per_length: float, share: float) -> np.ndarray:
    """What training would have put, with other constants."""
    notes = [np.unique(of_class) for of_class in detector.class_model_.notes_]
    counts = np.array([len(of_class) for of_class in notes])
    training = detector.model_.training
    last_s = [
        np.median([training[i]["end_s"] - training[i]["start_s"] for i in of_class.tolist()]) for of_class in notes
    ]
    pitch = len(detector.class_model_.descriptions_[0].X) > 5 * counts[0]  # 3 shifts and 2 masks; with other pitches 11
    t0 = np.maximum(LOWEST, one_note + per_fold * np.log(counts * (2 if pitch else 1)) - per_length * np.log(last_s))
    pooled = np.concatenate([*detector.note_model_.left_out, []])
    return np.clip(share * np.median(pooled), LEAST_SHARE * t0, t0) if len(pooled) else t0


def run_draw(task: str, seed: int, n_examples: int) -> np.ndarray:
    """Event F for every combination, (n_combinations,)."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        drawn = draw(task, seed, n_examples)
        detector = drawn.fit(NoteDetector())
        lowest = np.min([thresholds(detector, *constants) for constants in GRID], axis=0)
        # edges are looked at from half of the lowest threshold on
        detector.set_thresholds(lowest)
        scores = [detector.scores(r.samples, r.rate) for r in drawn.test]
        found: dict[bytes, float] = {}
        result = []
        for constants in GRID:
            taus = thresholds(detector, *constants)
            if taus.tobytes() not in found:
                found[taus.tobytes()] = _event_f(detector, drawn, scores, taus)
            result.append(found[taus.tobytes()])
    return np.array(result)


def _event_f(detector: Any, drawn: Any, scores: Sequence[Any], taus: np.ndarray) -> float:
    detector.set_thresholds(taus)
    events = []
    for recording, of_recording in zip(drawn.test, scores, strict=True):
        layout = type(of_recording.layout)(**{**vars(of_recording.layout), "thresholds": taus})
        segments = detector.decide(type(of_recording)(**{**vars(of_recording), "layout": layout}))
        events.append(compare(recording, segments, drawn.classes, drawn.min_iou).events)
    return float(functools.reduce(operator.add, events).pooled.f)


def measured(sets: Sequence[str], examples: Sequence[int], draws: int, jobs: int) -> dict[tuple[str, int], np.ndarray]:
    """Event F (n_draws, n_combinations) of each set and number of examples."""
    todo = possible(sets, examples, draws)
    found: dict[tuple[str, int], list[np.ndarray]] = {}
    with Parallel(n_jobs=jobs, return_as="generator") as parallel:
        for number, (job, f) in enumerate(
            zip(todo, parallel(delayed(run_draw)(*job) for job in todo), strict=True), start=1
        ):
            print(f"{number} of {len(todo)}: {job}", file=sys.stderr, flush=True)
            found.setdefault((job[0], job[2]), []).append(f)
    return {key: np.array(rows) for key, rows in found.items()}


def left_out_table(results: dict[tuple[str, int], np.ndarray]) -> list[list[str]]:
    """One row for each set: with the constants as they are, and with those that the other sets choose."""
    table = [["set", "examples", "as it is", "left out", "constants of the others", "best in hindsight"]]
    ours, others = [], []
    for name in dict.fromkeys(name for name, _ in results):
        rest = [f.mean(axis=0) for (other, _), f in results.items() if _family(other) != _family(name)]
        best = int(np.mean(rest, axis=0).argmax()) if rest else CHOSEN
        constants = "{:.2f} + {:.2f} ln n - {:.2f} ln L, {:.1f}".format(*GRID[best])
        for (_, n), f in ((key, f) for key, f in results.items() if key[0] == name):
            ours.append(f[:, CHOSEN].mean())
            others.append(f[:, best].mean())
            cells = [_mean(f[:, CHOSEN]), _mean(f[:, best]), constants, f"{f.mean(axis=0).max():.3f}"]
            table.append([name, str(n), *cells])
    table.append(["mean", "", f"{np.mean(ours):.3f}", f"{np.mean(others):.3f}", "", ""])
    return table


def _family(name: str) -> str:
    """Sets that share recordings: both of the zebra finch."""
    return "zebra-finch" if name.startswith("zebra-finch") else name


def _mean(values: np.ndarray) -> str:
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{error}"


def room_table(results: dict[tuple[str, int], np.ndarray], by: float = 0.01) -> list[list[str]]:
    """How far each constant may be moved alone before the mean over the sets falls by so much."""
    mean = np.mean([f.mean(axis=0) for f in results.values()], axis=0)
    table = [["constant", "value", "may be", f"mean event F falls by {by:g} outside"]]
    for place, (name, values) in enumerate(TRIED.items()):
        fine = []
        for value in values:
            constants = list(GRID[CHOSEN])
            constants[place] = value
            if mean[GRID.index(tuple(constants))] >= mean[CHOSEN] - by:
                fine.append(value)
        table.append(
            [
                name,
                f"{GRID[CHOSEN][place]:g}",
                f"{min(fine):g} to {max(fine):g}",
                f"tried {values[0]:g} to {values[-1]:g}",
            ]
        )
    return table


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(TASKS), default=SETS, metavar="SET")
    parser.add_argument("--draws", type=int, default=8, help="per set (default 8)")
    parser.add_argument(
        "--examples", type=int, nargs="+", default=[2, 5], metavar="N", help="of each class (default 2 5)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one BLAS thread (default 2)")
    options = parser.parse_args(arguments)
    print(" ".join(["python benchmarks/leave_one_set_out.py", *arguments]))
    print(versions_text(), end="\n\n")
    results = measured(options.sets, options.examples, options.draws, options.jobs)
    print(f"event F, {options.draws} draws\n{aligned_table(left_out_table(results))}\n")
    print(aligned_table(room_table(results)))


if __name__ == "__main__":
    main(sys.argv[1:])
