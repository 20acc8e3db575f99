"""How far each constant of the default may be moved before event F falls.

One constant at a time is set to other values, all else as it is; for each value the mean event F over the sets, and its
difference from the value in use. `leave_one_set_out` does the same, and more, for the constants of the threshold.

    python benchmarks/constants.py                     # every constant, four draws of six sets: half an hour
    python benchmarks/constants.py --only slices       # one of them
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from real_note_tasks import TASKS, draw
from real_notes import aligned_table, measure, versions_text
from threadpoolctl import threadpool_limits

from outlark import NoteDetector, NoteFrontEnd
from outlark.detection import note_training, scorer

SETS = (
    "zebra-finch-syllables",
    "bengalese-finch-syllables",
    "canary-syllables",
    "field-recordings-small",
    "spoken-digits",
    "zebra-finch-in-noise-5dB",
)


@contextmanager
def _set(places: Sequence[tuple[Any, str]], value: Any) -> Iterator[None]:
    """The value in all these places, for a while."""
    before = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name), old in zip(places, before, strict=True):
            setattr(module, name, old)


@contextmanager
def _kernel(name: str, setting: str, value: float) -> Iterator[None]:
    """A number of the kernel, both where samples are described and where notes are left out."""
    given = value**0.5 if setting == "sigma_reg" else value
    settings = {**note_training.NOTE_SETTINGS, setting: given}
    with _set([(note_training, name)], value), _set([(note_training, "NOTE_SETTINGS")], settings):
        yield


@contextmanager
def _front_end(name: str, value: Any) -> Iterator[None]:
    """A parameter of the front end, whatever its choice; that of clips keeps no surroundings."""
    before = dict(NoteFrontEnd.__init__.__kwdefaults__)
    NoteFrontEnd.__init__.__kwdefaults__[name] = value  # type: ignore[index]
    try:
        yield
    finally:
        NoteFrontEnd.__init__.__kwdefaults__.update(before)  # type: ignore[union-attr]


#: Name → how it is set, the value in use, and the others that are tried.
CONSTANTS: dict[str, tuple[Callable[[Any], Any], Any, tuple[Any, ...]]] = {
    "length scale": (lambda v: _kernel("LENGTH_SCALE", "length_scale", v), 1.0, (0.7, 0.85, 1.2, 1.4)),
    "ratio": (lambda v: _kernel("RATIO", "sigma_reg", v), 0.1, (0.03, 0.05, 0.2, 0.3)),
    "slices": (lambda v: _front_end("n_slices", v), 12, (8, 10, 14, 16)),
    "surroundings": (lambda v: _front_end("surroundings_s", v), 0.02, (0.01, 0.015, 0.03, 0.04)),
    "change": (lambda v: _front_end("change", v), 1.0, (0.0, 0.5, 2.0)),
    "shifts": (lambda v: _front_end("shifts_s", (-v, 0.0, v)), 0.004, (0.002, 0.008)),
    "masks": (lambda v: _set([(note_training, "MASKS")], v),
              (0.25, 0.5), ((), (0.5,), (0.2, 0.4, 0.6))),
    "worth of pitch": (lambda v: _set([(note_training, "MIN_PITCH_GAIN")], v), 1.15, (1.0, 1.1, 1.2, 1.3)),
    "contrast, least": (lambda v: _set([(scorer, "LEAST_SHARE_IN_NOISE")], v), 0.4, (0.3, 0.5, 0.6)),
    "contrast, prior": (lambda v: _set([(scorer, "PRIOR_S")], v), 0.1, (0.05, 0.2)),
    "active share": (lambda v: _set([(scorer, "ACTIVE_SHARE")], v), 0.5, (0.3, 0.7)),
}  # fmt: skip


def run_draw(task: str, seed: int, n_examples: int, name: str, value: Any) -> float:
    """Event F of the default with one constant set."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        drawn = draw(task, seed, n_examples)
        with CONSTANTS[name][0](value):
            detector = drawn.fit(NoteDetector())
            found = [detector.detect(r.samples, r.rate) for r in drawn.test]
        return measure(drawn, found, 0.0).event_f


def table(name: str, values: Sequence[Any], f: np.ndarray, sets: Sequence[str]) -> list[list[str]]:
    """A row for each value: event F of each set and in the mean, and what it is more than that of the value in use.

    f : (values, sets, draws), the value in use first
    """
    means = f.mean(axis=2)
    rows = [[name, *sets, "mean", "difference"]]
    for value, of_sets in zip(values, means, strict=True):
        difference = of_sets.mean() - means[0].mean()
        rows.append([str(value), *(f"{x:.3f}" for x in of_sets), f"{of_sets.mean():.3f}", f"{difference:+.3f}"])
    return rows


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(CONSTANTS), default=list(CONSTANTS), metavar="CONSTANT")
    parser.add_argument("--sets", nargs="+", choices=tuple(TASKS), default=list(SETS), metavar="SET")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--examples", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    print(" ".join(["python benchmarks/constants.py", *arguments]))
    print(versions_text(), end="\n\n")
    jobs = [(task, seed, options.examples) for task in options.sets for seed in range(options.draws)]
    with Parallel(n_jobs=options.jobs) as parallel:
        for name in options.only:
            _, in_use, others = CONSTANTS[name]
            values = (in_use, *others)
            f = parallel(delayed(run_draw)(*job, name, value) for value in values for job in jobs)
            shaped = np.array(f).reshape(len(values), len(options.sets), options.draws)
            print(aligned_table(table(name, values, shaped, options.sets)), end="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
