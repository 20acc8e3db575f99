"""The experiment of the paper (Sec. 4.3) with more methods than `outlark experiment`, on real and on synthetic notes.

Two training notes of three classes, all other notes in a row. Training and test notes are of different recordings
(zebra finch), birds or sessions (flight calls), speakers (digits). The audio is not part of the repository; see
`real_note_tasks` for where it is looked for.

    python benchmarks/paper_on_recordings.py
    python benchmarks/paper_on_recordings.py --sets synthetic --seeds 50
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from real_note_tasks import data_folder
from rival_detectors import METHODS

from outlark.paper.experiment.dataset import Dataset, Protocol
from outlark.paper.experiment.report import table_2, table_tests
from outlark.paper.experiment.run import run
from outlark.plain_text import TextTable

#: At most so many test notes of a class: enough, and a run of minutes.
MAX_TEST = 15


def _flight_calls(table: str) -> Dataset:
    folder = data_folder("clo-flight-calls")
    return Dataset.read([folder / "clips"], groups=folder / table, name=f"clo-flight-calls, {table}")


def _digits() -> Dataset:
    folder = data_folder("spoken-digits")
    return Dataset.read([folder / "clips"], groups=folder / "clips.csv", name="spoken-digits")


SETS: dict[str, tuple[Callable[[], Dataset], dict[str, int]]] = {
    "zebra-finch": (lambda: Dataset.read([data_folder("zebra-finch-syllables")]), {"max_test": MAX_TEST}),
    "flight-calls-56": (lambda: _flight_calls("protocol_56.csv"), {}),
    "flight-calls": (lambda: _flight_calls("clips.csv"), {"n_unknown": 5, "max_test": MAX_TEST}),
    "digits": (_digits, {"max_test": MAX_TEST}),
    "synthetic": (Dataset.synthetic, {}),
}
REAL = tuple(name for name in SETS if name != "synthetic")


def markdown(table: TextTable) -> str:
    head, *body = table.rows
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    lines = [f"**{table.title}**", "", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([*lines, *(f"\n{note}" for note in table.notes)])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(REAL), metavar="SET")
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--train", type=int, default=2, help="training notes of each class (default 2)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    print(" ".join(["python benchmarks/paper_on_recordings.py", *arguments]), end="\n\n")
    for name in options.sets:
        load, settings = SETS[name]
        protocol = Protocol(n_train=options.train, **settings)
        methods, seeds = [METHODS[name] for name in options.methods], range(1, options.seeds + 1)
        results = run(load(), protocol, methods=methods, seeds=seeds, n_jobs=options.jobs)
        print(f"**{name}**", end="\n\n")
        tables = [table_2(results)]
        if "mddkm" in options.methods and len(options.methods) > 1:
            tables.append(table_tests(results, "mddkm"))
        for table in tables:
            print(markdown(table), end="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
