"""Methods × seeds: what each method finds in the test clips (Sec. 4.3), with the numbers of Tables 1 and 2."""

import csv
import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from joblib import Memory, Parallel, delayed
from joblib import hash as joblib_hash
from scipy.stats import ttest_rel, wilcoxon
from threadpoolctl import threadpool_limits

from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.pknn import PKNN
from outlark.files.io import written_aside
from outlark.metrics import ConfusionMatrix, Events, FScores, event_f, note_f, note_labels, window_f
from outlark.metrics.windows import mean_of_defined
from outlark.paper.detector import FrameDetector
from outlark.paper.experiment.dataset import OOD, Dataset, Draw, Protocol, draw
from outlark.plain_text import ProgressCallback
from outlark.segments import Segment

#: The paper's sliding window and its step, s: 96 and 48 samples at 22,050 Hz, for all methods.
WINDOW_S, STEP_S = 96 / 22050, 48 / 22050
MIDDLE_S = 47.5 / 22050
MIN_IOU = 0.5
LEVELS = ("window", "note")
OVER_KNOWN, OVER_ALL = "macro, known", "macro, with OOD"
#: What the paper calls overall, by level.
OVERALL = {"window": OVER_ALL, "note": OVER_KNOWN}


@dataclass(frozen=True)
class Method:
    """A way to find notes: its name, its title in tables, and a function that makes a fresh detector."""

    name: str
    title: str
    make: Callable[[], Any]


_METHODS = (
    Method("mddkm-paper", "as published, MDD-KM", FrameDetector.paper),
    Method(
        "mddkm-paper-left-out",
        "as published, MDD-KM, left-out thresholds",
        lambda: FrameDetector.paper(MDDKM.paper(threshold="leave-note-out")),
    ),
    Method("pknn-paper", "as published, PKNN", lambda: FrameDetector.paper(PKNN.paper())),
    Method("pknn-paper-left-out", "as published, PKNN, left-out thresholds", lambda: FrameDetector.paper(PKNN())),
    Method("mddkm", "note-level, MDD-KM", NoteDetector),
)
#: By name: those of the paper, with its thresholds and with learnt ones, and outlark's default.
METHODS: Mapping[str, Method] = MappingProxyType({one.name: one for one in _METHODS})


def method(name: str) -> Method:
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """One method on one seed: F by level, F of events at IoU .5 with all classes pooled, and what was learnt."""

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
        return "mddkm" if "mddkm" in self.titles else next(iter(self.titles))

    @property
    def titles(self) -> dict[str, str]:
        return {one.name: one.title for one in self.methods}

    def categories(self) -> list[str]:
        """The columns of Table 2: the known classes, if they are the same for every seed, and `OOD`."""
        known = {one.known for one in self.outcomes}
        return [*(known.pop() if len(known) == 1 else ()), OOD]

    def values(self, method: str, level: str, category: str) -> np.ndarray:
        """F of a category, seed by seed, (n_seeds,)."""
        return np.array([one.category(level, category) for one in self.outcomes if one.method == method])

    def overall(self, method: str, level: str) -> np.ndarray:
        """What the paper calls overall, seed by seed."""
        return self.values(method, level, OVERALL[level])

    def confusion(self, method: str, seed: int) -> ConfusionMatrix:
        """Table 1: true by assigned class of the notes of one seed."""
        return next(o.f["note"].confusion for o in self.outcomes if (o.method, o.seed) == (method, seed))

    def compare(self, ours: str, other: str, level: str) -> Comparison:
        """Paired over the seeds. Seeds share notes and are not independent trials: p is a rough guide."""
        one, two = self.overall(ours, level), self.overall(other, level)
        difference = one - two
        if len(difference) < 2:
            return Comparison(float(difference.mean()), float("nan"), float("nan"))
        if not np.any(difference):
            return Comparison(0.0, 1.0, 1.0)
        # without spread t is infinite
        t_p = float(ttest_rel(one, two).pvalue) if np.ptp(difference) else 0.0
        return Comparison(float(difference.mean()), t_p, float(wilcoxon(difference, method="approx").pvalue))

    def write_csv(self, path: Path) -> None:
        """Every F of every seed: the same bytes for the same data, protocol, methods and seeds."""
        with (
            written_aside(path) as aside,
            aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["seed", "method", "level", "category", "f"])
            for one in self.outcomes:
                for level in LEVELS:
                    for category in [*one.known, OOD, OVER_KNOWN, OVER_ALL]:
                        f = one.category(level, category)
                        writer.writerow([one.seed, one.method, level, category, _rounded(f)])
                writer.writerow([one.seed, one.method, "event", "pooled", _rounded(one.event_f)])

    def as_json(self) -> dict[str, object]:
        """Everything, with the protocol, what was learnt and the counts of Table 1."""
        return {
            "data": {"name": self.data.name, "classes": dict(self.data.counts), "sample_rate": self.data.sample_rate},
            "protocol": vars(self.protocol),
            "seeds": list(self.seeds),
            "methods": self.titles,
            "table_2": [
                {"method": m, "level": level, "category": c, "f": _or_none(mean_of_defined(self.values(m, level, c)))}
                for m in self.titles
                for level in LEVELS
                for c in [*self.categories(), OVER_KNOWN, OVER_ALL]
            ],
            "outcomes": [_as_json(one) for one in self.outcomes],
        }


def _rounded(f: float) -> str:
    """So that results do not depend on the processor; empty where F is undefined."""
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


def run(
    data: Dataset,
    protocol: Protocol | None = None,
    *,
    methods: Sequence[Method] = tuple(METHODS.values()),
    seeds: Iterable[int] = range(1, 51),
    n_jobs: int = 1,
    watch: ProgressCallback = lambda done, total: None,
    kept: Path | None = None,
) -> Results:
    """Every method on the draws of every seed.

    The results do not depend on the number of processes, `n_jobs`. `watch` gets the number of finished seeds and of all
    seeds. The folder `kept` stores finished seeds, which are not run again for the same data, protocol, methods (by
    name) and code.
    """
    seeds, protocol = tuple(seeds), protocol or Protocol()
    key = joblib_hash((data, protocol, [one.name for one in methods], _code())) if kept else None
    of_seed = Memory(kept, verbose=0).cache(_seed, ignore=["data", "protocol", "methods"])
    calls = (delayed(of_seed)(data, protocol, methods, seed, key) for seed in seeds)
    outcomes: list[Outcome] = []
    for done, found in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(calls), start=1):
        outcomes += found
        watch(done, len(seeds))
    return Results(data=data, protocol=protocol, methods=methods, seeds=seeds, outcomes=outcomes)


def fitted(chosen: Method, drawn: Draw) -> Any:
    """A detector of the method, trained on the training notes of a draw."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about single notes: the protocol asks for them
        return chosen.make().fit(
            [note.samples for note in drawn.train], [note.label for note in drawn.train], drawn.sample_rate
        )


def _seed(data: Dataset, protocol: Protocol, methods: Sequence[Method], seed: int, key: str | None) -> list[Outcome]:
    """The outcomes of all methods; `key` says what they depend on besides the seed, for `joblib.Memory`."""
    drawn, found = draw(data, protocol, seed), []
    for one in methods:
        detector = fitted(one, drawn)
        with threadpool_limits(1):
            segments = detector.detect(drawn.audio, drawn.sample_rate)
        found.append(outcome(one.name, seed, drawn, segments, _settings(detector)))
    return found


def _settings(detector: Any) -> dict[str, object]:
    """What the detector learnt: thresholds, and ℓ, σ and σ_reg as far as it has them."""
    names = map(str, np.asarray(detector.layout_.classes).tolist())
    thresholds = np.asarray(detector.layout_.thresholds, dtype=float).tolist()
    learnt: dict[str, object] = {"thresholds": dict(zip(names, thresholds, strict=True))}
    class_model = getattr(detector, "class_model_", None)
    for name in ("length_scale_", "sigma_", "sigma_reg_"):
        value = getattr(class_model, name, None)
        if isinstance(value, float | np.floating):
            learnt[name.rstrip("_")] = float(value)
    return learnt


@cache
def _code() -> str:
    """A digest of outlark as installed here."""
    sha = hashlib.sha256()
    package = Path(__file__).parents[2]
    for path in sorted(package.rglob("*.py")):
        sha.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return sha.hexdigest()
