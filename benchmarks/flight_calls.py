"""Single calls in clips, of other birds than the examples: MDD-KM against its peers, on clo-flight-calls.

Two tasks. "5 species": which of five is it? Accuracy. "3 species, 5 unknown": three are known, clips of five others are
among the test clips. OSCR and AUROC. A draw chooses species that have clips of three birds or recordings
(`source_group`) or more; one half of these gives the examples, the other half the test clips. Mean ± standard error
over the draws; draws share clips, so they are no independent trials and p-values are a rough guide.

    python benchmarks/flight_calls.py                       # everything; BirdNET takes ten minutes more the first time
    python benchmarks/flight_calls.py --draws 10 --rows spectra knn templates
"""

import argparse
import csv
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from clip_views import BestView
from flight_call_rivals import MfccNeighbour, Templates
from real_note_tasks import data_folder
from real_notes import as_text, difference_text, mean_text, versions_text
from rivals import ClassMahalanobis, ClassSVM, NearestNeighbour
from threadpoolctl import threadpool_limits

from outlark import PKNN
from outlark.audio.recording import read
from outlark.embeddings import BirdNET, is_there
from outlark.metrics import accuracy_known, auroc, oscr

#: Groups that a species must have, and test clips of each species.
LEAST_GROUPS, TESTED = 3, 10
SPECTRA, BIRDNET = "spectra", "birdnet"
Table = list[list[str]]


class Task(NamedTuple):
    """How many species are known and unknown; name of each measure → itself and its chance level."""

    known: int
    unknown: int
    measures: dict[str, tuple[Callable[..., float], float]]

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.known} species" + (f", {self.unknown} unknown" if self.unknown else "")


TASKS = {
    "5-way": Task(5, 0, {"accuracy": (accuracy_known, 1 / 5)}),
    "open": Task(3, 5, {"accuracy": (accuracy_known, 1 / 3), "OSCR": (oscr, 1 / 6), "AUROC": (auroc, 1 / 2)}),
}


def _described(class_model: Callable[[], Any], **how: Any) -> Callable[[], BestView]:
    """The same descriptions, another class model."""
    return lambda: BestView(class_model(), **how)


def _rows(name: str, what: str, **how: Any) -> dict[str, tuple[str, Callable[[], Any]]]:
    return {
        name: (f"MDD-KM, {what}", lambda: BestView(**how)),
        f"{name}-knn": (f"{what}, nearest neighbour", _described(NearestNeighbour, **how)),
        f"{name}-svm": (f"{what}, one-class SVM", _described(ClassSVM, **how)),
        f"{name}-mahalanobis": (f"{what}, Mahalanobis", _described(ClassMahalanobis, **how)),
        f"{name}-pknn": (f"{what}, PKNN", _described(PKNN, **how)),
    }


ROWS: dict[str, tuple[str, Callable[[], Any]]] = {
    **_rows(SPECTRA, "spectra"),
    "mfcc": ("MFCC, nearest neighbour", MfccNeighbour),
    "templates": ("template matching", Templates),
}
if is_there():
    ROWS |= _rows(BIRDNET, "BirdNET", embedding=BirdNET())
    ROWS["birdnet-plain-knn"] = (
        "BirdNET at one speed, nearest neighbour",
        _described(NearestNeighbour, embedding=BirdNET(speeds=(1.0,))),
    )


class Draw(NamedTuple):
    """Files and labels of the examples and of the test clips."""

    train: list[tuple[str, str]]
    test: list[tuple[str, str]]


def draw(task: Task, seed: int, n_examples: int) -> Draw:
    """The same for the same numbers; no group is on both sides."""
    rng = np.random.default_rng([task.known, task.unknown, seed])
    clips = _clips()
    species = [label for label, groups in clips.items() if len(groups) >= LEAST_GROUPS]
    chosen = rng.choice(species, task.known + task.unknown, replace=False).tolist()
    train, test = [], []
    for number, label in enumerate(chosen):
        groups = rng.permutation(sorted(clips[label])).tolist()
        half = len(groups) // 2
        if number < task.known:
            train += [(file, label) for file in _some(label, groups[:half], n_examples, rng)]
        test += [(file, label) for file in _some(label, groups[half:], TESTED, rng)]
    return Draw(train, test)


def measured(row: str, task: Task, drawn: Draw) -> list[float]:
    """The measures of one row on one draw."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        (rate,) = {_sound(file)[1] for file, _ in [*drawn.train, *drawn.test]}
        labels = [label for _, label in drawn.train]
        model = ROWS[row][1]().fit([_sound(file)[0] for file, _ in drawn.train], labels, rate)
        scores = model.class_scores([_sound(file)[0] for file, _ in drawn.test], rate)
    truth = [label for _, label in drawn.test]
    return [float(measure(truth, scores, model.classes_)) for measure, _ in task.measures.values()]


def results_table(values: np.ndarray, task: Task, rows: Sequence[str]) -> Table:
    """Mean ± standard error over the draws, from (n_draws, n_rows, n_measures), and what a guess gets."""
    table = [["", *task.measures]]
    for r, row in enumerate(rows):
        table.append([ROWS[row][0], *(mean_text(values[:, r, m]) for m in range(len(task.measures)))])
    return [*table, ["chance", *(f"{chance:.3f}" for _, chance in task.measures.values())]]


def paired_table(values: np.ndarray, task: Task, rows: Sequence[str], ours: str) -> Table:
    """One row less every other, draw by draw, with Wilcoxon's p."""
    table = [[f"{ROWS[ours][0]} less …", *task.measures]]
    own = values[:, list(rows).index(ours)]
    for r, row in enumerate(rows):
        if row != ours:
            differences = own - values[:, r]
            table.append([ROWS[row][0], *(difference_text(differences[:, m]) for m in range(len(task.measures)))])
    return table


@cache
def _clips() -> dict[str, dict[str, list[str]]]:
    """Species → group → files."""
    found: dict[str, dict[str, list[str]]] = {}
    with (data_folder("clo-flight-calls") / "clips.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["label"], {}).setdefault(row["source_group"], []).append(row["file"])
    return found


def _some(label: str, groups: Sequence[str], n: int, rng: np.random.Generator) -> list[str]:
    files = [file for group in groups for file in _clips()[label][group]]
    return rng.permutation(files)[:n].tolist()


@cache
def _sound(file: str) -> tuple[np.ndarray, int]:
    return read(data_folder("clo-flight-calls") / file)


def run(task: Task, rows: Sequence[str], n_draws: int, n_examples: int) -> np.ndarray:
    """Measures (n_draws, n_rows, n_measures)."""
    values = []
    for seed in range(n_draws):
        drawn = draw(task, seed, n_examples)
        values.append([measured(row, task, drawn) for row in rows])
        print(f"{task.title}, draw {seed + 1} of {n_draws}", file=sys.stderr, flush=True)
    return np.array(values)


def write_csv(path: Path, results: dict[str, np.ndarray], rows: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "draw", "row", "measure", "value"])
        for name, values in results.items():
            for (seed, r, m), value in np.ndenumerate(values):
                writer.writerow([name, seed, rows[r], list(TASKS[name].measures)[m], value])


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=tuple(TASKS), default=list(TASKS), metavar="TASK")
    parser.add_argument(
        "--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW", help=", ".join(ROWS)
    )
    parser.add_argument("--draws", type=int, default=100, help="seeds 0, 1, … (default 100)")
    parser.add_argument("--examples", type=int, default=5, help="of each known species, at most (default 5)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write every single number here")
    parser.add_argument("--markdown", action="store_true", help="print markdown tables")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    data_folder("clo-flight-calls")
    rows = options.rows
    results = {name: run(TASKS[name], rows, options.draws, options.examples) for name in options.tasks}
    print(" ".join(["python benchmarks/flight_calls.py", *arguments]))
    print(versions_text())
    print(f"{options.examples} examples of each species, seeds 0 to {options.draws - 1}\n")
    for name, values in results.items():
        task = TASKS[name]
        print(as_text(task.title, results_table(values, task, rows), options.markdown), end="\n\n")
        for ours in (row for row in (SPECTRA, BIRDNET) if row in rows and len(rows) > 1):
            title = f"{task.title}, paired"
            print(as_text(title, paired_table(values, task, rows, ours), options.markdown), end="\n\n")
    if options.csv:
        write_csv(options.csv, results, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
