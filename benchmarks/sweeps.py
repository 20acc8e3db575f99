"""The paper's experiment on synthetic notes at several values of one setting: noise, training notes, silence between.

    python benchmarks/sweeps.py            # the defaults, ten seeds for each value: window F / note F

More notes of each known class than in the paper, so that there are enough to train on ten and still test.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rival_detectors import METHODS

from outlark.data.synthetic import CLASSES, KNOWN_CLASSES, notes
from outlark.paper.experiment.dataset import NOTES_SEED, Dataset, Protocol
from outlark.paper.experiment.run import LEVELS, run

#: Setting of the protocol → its values.
VALUES: Mapping[str, Sequence[float]] = MappingProxyType(
    {
        "snr_db": (40.0, 30.0, 20.0, 15.0, 10.0, 5.0, 0.0),
        "n_train": (1, 2, 3, 4, 5, 6, 8, 10),
        "gap_s": (0.0, 0.02, 0.05, 0.1, 0.2, 0.5),
    }
)
MORE_NOTES = 14


def data_with_more_notes() -> Dataset:
    counts = {name: n + MORE_NOTES * (name in KNOWN_CLASSES) for name, n in CLASSES.items()}
    return replace(Dataset.synthetic(), notes=tuple(notes(NOTES_SEED, counts=counts)))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=tuple(VALUES), default=list(VALUES), metavar="SETTING")
    parser.add_argument("--values", nargs="+", type=float, help="in place of the usual ones")
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), default=["mddkm"], metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    data, chosen = data_with_more_notes(), [METHODS[name] for name in options.methods]
    for setting in options.settings:
        values = [type(VALUES[setting][0])(value) for value in options.values or VALUES[setting]]
        how = {"methods": chosen, "seeds": range(1, options.seeds + 1), "n_jobs": options.jobs}
        found = [run(data, Protocol(**{setting: value}), **how) for value in values]
        print(f"| {setting} | {' | '.join(f'{value:g}' for value in values)} |")
        print(f"|---|{'---|' * len(values)}")
        for method in options.methods:
            cells = (" / ".join(f"{one.overall(method, level).mean():.3f}" for level in LEVELS) for one in found)
            print(f"| {method} | {' | '.join(cells)} |", flush=True)
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
