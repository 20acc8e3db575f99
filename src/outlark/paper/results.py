"""The results of an experiment: what each method found (Sec. 4.3), Tables 1 and 2, paired tests, CSV and JSON."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_rel, wilcoxon

from outlark.errors import InputError
from outlark.files.aside import written_aside
from outlark.metrics import ConfusionMatrix, Events, FScores, event_f, note_f, note_labels, window_f
from outlark.metrics.windows import mean_of_defined
from outlark.paper.dataset import OOD, Dataset
from outlark.paper.methods import Method
from outlark.paper.protocol import Draw, Protocol
from outlark.segments import Segment

#: The paper's sliding window and its step, s: 96 and 48 samples at 22,050 Hz, for all methods.
WINDOW_S, STEP_S = 96 / 22050, 48 / 22050
MIDDLE_S = 47.5 / 22050
MIN_IOU = 0.5
LEVELS = ("window", "note")
OVER_KNOWN, OVER_ALL = "macro, known", "macro, with OOD"
#: What the paper calls overall, by level.
OVERALL = {"window": OVER_ALL, "note": OVER_KNOWN}


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """One method on one seed.

    Attributes
    ----------
    event_f : float
        At IoU .5, all classes pooled.
    settings : mapping
        What the method learnt: thresholds, hyper-parameters.
    """

    method: str
    seed: int
    known: tuple[str, ...]
    f: Mapping[str, FScores]
    event_f: float
    settings: Mapping[str, object] = field(default_factory=dict)

    def overall(self, level: str) -> float:
        """The mean that the paper reports: over the classes and OOD for windows, over the classes for notes."""
        return self.category(level, OVERALL[level])

    def category(self, level: str, name: str) -> float:
        """F of a known class, of `OOD`, or one of the means `OVER_KNOWN` and `OVER_ALL`."""
        means = {OVER_KNOWN: self.f[level].macro_known, OVER_ALL: self.f[level].macro_all}
        return means[name] if name in means else self.categories(level)[name]

    def categories(self, level: str) -> dict[str, float]:
        """F of each known class, then of `OOD`."""
        scores = self.f[level]
        return {**dict(zip(self.known, scores.per_class.tolist(), strict=True)), OOD: scores.unknown}


def outcome(
    method: str, seed: int, drawn: Draw, found: Sequence[Segment], settings: Mapping[str, object] | None = None
) -> Outcome:
    """Score what a method found in the test clip. A known or ambiguous segment counts for its label.

    Examples
    --------
    >>> from outlark.paper.protocol import draw
    >>> drawn = draw(Dataset.synthetic(), Protocol(), seed=1)
    >>> right = [segment for segment in drawn.truth if segment.label in drawn.known]
    >>> judged = outcome("the truth", 1, drawn, right)
    >>> judged.overall("window"), judged.overall("note"), judged.event_f
    (1.0, 1.0, 1.0)
    """
    notes = [segment for segment in found if segment.verdict in ("known", "ambiguous")]
    wanted = [segment for segment in drawn.truth if segment.label in drawn.known]
    times = window_times(len(drawn.audio) / drawn.sample_rate)
    answers = labels_at(times, notes)
    numbers = np.full(len(times), -1)
    for number, segment in enumerate(drawn.truth):
        numbers[inside(times, segment)] = number
    votes = note_labels(answers, numbers, drawn.known, OOD, n_notes=len(drawn.truth))
    by_level = {
        "window": window_f(labels_at(times, wanted), answers, drawn.known, OOD),
        "note": note_f(np.array([s.label for s in drawn.truth]), np.array(votes), drawn.known, OOD),
    }
    events = event_f(events_of(wanted), events_of(notes), MIN_IOU, classes=drawn.known)
    return Outcome(
        method=method, seed=seed, known=drawn.known, f=by_level, event_f=events.pooled.f, settings=dict(settings or {})
    )


def window_times(seconds: float) -> np.ndarray:
    """The middle of each sliding window, s: between two samples, so never on the edge of a note."""
    return MIDDLE_S + STEP_S * np.arange(max(0, int((seconds - WINDOW_S) / STEP_S) + 1))


def inside(times: np.ndarray, segment: Segment) -> np.ndarray:
    return (times >= segment.start_s) & (times < segment.end_s)


def labels_at(times: np.ndarray, segments: Iterable[Segment]) -> np.ndarray:
    """The label of the segment at each time, else `OOD`."""
    labels = np.full(len(times), OOD, dtype=object)
    for segment in segments:
        labels[inside(times, segment)] = segment.label
    return labels


def events_of(segments: Iterable[Segment]) -> Events:
    return Events.from_rows((s.start_s, s.end_s, s.label) for s in segments)


class Comparison(NamedTuple):
    """One method minus another over the seeds: mean difference, p of the paired t test and of Wilcoxon's."""

    difference: float
    t_p: float
    wilcoxon_p: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Results:
    """The outcomes of methods × seeds, seed by seed and method by method."""

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

    def title(self, method: str) -> str:
        """The title of a method that was run."""
        return {one.name: one.title for one in self.methods}[self.of(method)[0].method]

    def of(self, method: str) -> list[Outcome]:
        """The outcomes of a method, seed by seed."""
        found = [one for one in self.outcomes if one.method == method]
        if not found:
            raise InputError(f"no method {method!r} was run; there are {', '.join(m.name for m in self.methods)}")
        return found

    def categories(self) -> list[str]:
        """The columns of Table 2: the known classes, if they are the same for every seed, and `OOD`."""
        known = {one.known for one in self.outcomes}
        return [*(known.pop() if len(known) == 1 else ()), OOD]

    def mean_f(self, method: str, level: str, category: str) -> float:
        """Mean over the seeds that have the category; see `Outcome.category`."""
        return mean_of_defined(self.values(method, level, category))

    def values(self, method: str, level: str, category: str) -> np.ndarray:
        """Seed by seed, (n_seeds,)."""
        return np.array([one.category(level, category) for one in self.of(method)])

    def overall(self, method: str, level: str) -> np.ndarray:
        """What the paper calls overall, seed by seed."""
        return self.values(method, level, OVERALL[level])

    def confusion(self, method: str, seed: int) -> ConfusionMatrix:
        """Table 1: true by assigned class of the notes of one seed."""
        found = [one.f["note"].confusion for one in self.of(method) if one.seed == seed]
        if not found:
            raise InputError(f"seed {seed} was not run; there are {', '.join(map(str, self.seeds))}")
        return found[0]

    def compare(self, ours: str, other: str, level: str) -> Comparison:
        """Paired over the seeds. Seeds share notes and are not independent trials: p is a rough guide."""
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
        with (
            written_aside(Path(path)) as aside,
            aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["seed", "method", "level", "category", "f"])
            writer.writerows(self._rows())

    def write_json(self, path: str | PathLike[str]) -> None:
        """Everything, with the protocol, what was learnt and the counts of Table 1."""
        with written_aside(Path(path)) as aside:
            aside.write_text(json.dumps(self.content(), indent=1) + "\n", encoding="utf-8")

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

    def _rows(self) -> Iterator[tuple[int, str, str, str, str]]:
        """Seed, method, level, category and F, as written to CSV."""
        for one in self.outcomes:
            for level in LEVELS:
                for category in [*one.known, OOD, OVER_KNOWN, OVER_ALL]:
                    yield one.seed, one.method, level, category, _number(one.category(level, category))
            yield one.seed, one.method, "event", "pooled", _number(one.event_f)


def _number(f: float) -> str:
    """Rounded, so that results do not depend on the processor; empty where F is undefined."""
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
