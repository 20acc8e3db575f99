"""What came out of an experiment: Table 1, Table 2, paired tests, CSV and JSON."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_rel, wilcoxon

from outlark.errors import InputError
from outlark.experiment.dataset import Dataset
from outlark.experiment.methods import Method
from outlark.experiment.outcome import LEVELS, OOD, Outcome
from outlark.experiment.protocol import Protocol
from outlark.files.aside import written_aside
from outlark.metrics.confusion import ConfusionMatrix
from outlark.metrics.windows import mean_of_defined

OVER_KNOWN, OVER_ALL = "macro, known", "macro, with OOD"
#: What the paper calls overall, by level.
OVERALL = {"window": OVER_ALL, "note": OVER_KNOWN}
#: Table 2 of the paper, on recordings that are not public: level → method → F of each class, OOD and overall.
PAPER = {
    "window": {"MDD-KM": (0.88, 0.77, 0.89, 0.89, 0.85), "PKNN": (0.84, 0.73, 0.91, 0.83, 0.83)},
    "note": {"MDD-KM": (0.92, 0.87, 0.95, None, 0.91), "PKNN": (0.89, 0.86, 0.96, None, 0.90)},
}


class Comparison(NamedTuple):
    """One method less another over the seeds: mean difference, p of the paired t test and of Wilcoxon's."""

    difference: float
    t_p: float
    wilcoxon_p: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Results:
    """The outcomes of methods × seeds.

    Attributes
    ----------
    data : Dataset
    protocol : Protocol
    methods : sequence of Method
    seeds : tuple of int
    outcomes : sequence of Outcome
        Seed by seed, method by method.
    """

    data: Dataset
    protocol: Protocol
    methods: Sequence[Method]
    seeds: tuple[int, ...]
    outcomes: Sequence[Outcome] = field(repr=False)

    @property
    def ours(self) -> str:
        """The method that the others are compared with: the default if it was run, else the first."""
        names = [one.name for one in self.methods]
        return "mddkm" if "mddkm" in names else names[0]

    def of(self, method: str) -> list[Outcome]:
        """The outcomes of a method, seed by seed."""
        found = [one for one in self.outcomes if one.method == method]
        if not found:
            raise InputError(f"no method {method!r} was run; there are {', '.join(m.name for m in self.methods)}")
        return found

    def categories(self) -> list[str]:
        """The columns of Table 2: the known classes where every seed has the same, and `OOD`."""
        known = {one.known for one in self.outcomes}
        return [*(known.pop() if len(known) == 1 else ()), OOD]

    def mean_f(self, method: str, level: str, category: str) -> float:
        """Mean over the seeds of the F of a category, or of `OVER_KNOWN`, `OVER_ALL`; seeds without it are left out."""
        return mean_of_defined(self.values(method, level, category))

    def values(self, method: str, level: str, category: str) -> np.ndarray:
        """Seed by seed, (n_seeds,)."""
        return np.array([_f_of(one, level, category) for one in self.of(method)])

    def overall(self, method: str, level: str) -> np.ndarray:
        """What the paper calls overall, seed by seed: with OOD for windows, without for notes."""
        return self.values(method, level, OVERALL[level])

    def confusion(self, method: str, seed: int | None = None) -> ConfusionMatrix:
        """Table 1: notes of each class by what they were called; of one seed, or of all together."""
        found = [one for one in self.of(method) if seed in (None, one.seed)]
        if not found:
            raise InputError(f"seed {seed} was not run; there are {', '.join(map(str, self.seeds))}")
        columns = self.categories()
        if len(columns) == 1 and seed is None:
            raise InputError("the known classes differ from seed to seed: a confusion matrix is of one seed")
        matrices = [one.f["note"].confusion for one in found]
        rows = [label for label in self.data.labels if any(label in m.row_labels for m in matrices)]
        counts = np.zeros((len(rows), matrices[0].counts.shape[1]), dtype=np.int64)
        for matrix in matrices:
            for label, row in zip(matrix.row_labels, matrix.counts, strict=True):
                counts[rows.index(str(label))] += row
        return ConfusionMatrix(counts, tuple(rows), matrices[0].column_labels)

    def compare(self, ours: str, other: str, level: str) -> Comparison:
        """Paired over the seeds. Seeds share notes, so they are no independent trials: p is a rough guide."""
        difference = self.overall(ours, level) - self.overall(other, level)
        if len(difference) < 2:
            return Comparison(float(difference.mean()), float("nan"), float("nan"))
        if not np.any(difference):
            return Comparison(0.0, 1.0, 1.0)
        if np.ptp(difference) == 0.0:  # no spread: t is infinite
            t_p = 0.0
        else:
            t_p = float(ttest_rel(self.overall(ours, level), self.overall(other, level)).pvalue)
        return Comparison(float(difference.mean()), t_p, float(wilcoxon(difference, method="approx").pvalue))

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Every F of every seed: the same bytes for the same data, protocol, methods and seeds."""
        write_rows(path, ["seed", "method", "level", "category", "f"], self.rows())

    def write_json(self, path: str | PathLike[str], **more: object) -> None:
        """All of it, with the protocol, what was learnt and the counts of Table 1."""
        with written_aside(Path(path)) as aside:
            aside.write_text(json.dumps({**self.content(), **more}, indent=1) + "\n", encoding="utf-8")

    def content(self) -> dict[str, object]:
        """What `write_json` writes."""
        return {
            "data": {"name": self.data.name, "classes": dict(self.data.counts), "sample_rate": self.data.sample_rate},
            "protocol": vars(self.protocol),
            "seeds": list(self.seeds),
            "methods": {one.name: one.title for one in self.methods},
            "table_2": [
                {"method": m.name, "level": level, "category": c, "f": _or_none(self.mean_f(m.name, level, c))}
                for m in self.methods
                for level in LEVELS
                for c in [*self.categories(), OVER_KNOWN, OVER_ALL]
            ],
            "outcomes": [_as_json(one) for one in self.outcomes],
        }

    def rows(self) -> Iterator[tuple[int, str, str, str, str]]:
        """Seed, method, level, category and F, as they are written."""
        for one in self.outcomes:
            for level in LEVELS:
                for category in [*one.known, OOD, OVER_KNOWN, OVER_ALL]:
                    yield one.seed, one.method, level, category, _number(_f_of(one, level, category))
            yield one.seed, one.method, "event", "pooled", _number(one.event_f)


def write_rows(path: str | PathLike[str], head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, whole or not at all."""
    with (
        written_aside(Path(path)) as aside,
        aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def _f_of(one: Outcome, level: str, category: str) -> float:
    scores = one.f[level]
    if category in (OVER_KNOWN, OVER_ALL):
        return scores.macro_known if category == OVER_KNOWN else scores.macro_all
    return one.categories(level)[category]


def _number(f: float) -> str:
    """Rounded, so that the last bits of other processors do not show; empty for what is not defined."""
    return "" if np.isnan(f) else f"{f:.9f}"


def _or_none(f: float) -> float | None:
    return None if np.isnan(f) else float(f)


def _as_json(one: Outcome) -> dict[str, object]:
    table = one.f["note"].confusion
    rows = zip(map(str, table.row_labels), table.counts.tolist(), strict=True)
    return {
        "seed": one.seed,
        "method": one.method,
        "known": list(one.known),
        **{f"{level}_f": {k: _or_none(v) for k, v in one.categories(level).items()} for level in LEVELS},
        "event_f": _or_none(one.event_f),
        "confusion": {label: dict(zip(map(str, table.column_labels), row, strict=True)) for label, row in rows},
        "settings": dict(one.settings),
    }
