"""The tables of the experiment: Table 1, Table 2, paired tests, what was learnt, the classes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from outlark.experiment.dataset import Dataset
from outlark.experiment.outcome import LEVELS, OOD, Outcome
from outlark.experiment.results import OVER_ALL, OVER_KNOWN, OVERALL, PAPER, Results
from outlark.experiment.synthetic import CLASSES, KNOWN
from outlark.experiment.table import NOTHING, Table
from outlark.metrics.windows import mean_of_defined

LEVEL_TITLES = {"window": "by sliding window", "note": "by note"}
ROUGH = "Seeds share notes, so they are no independent trials: p is a rough guide, and not corrected for many tests."


def table_1(results: Results, method: str, seed: int) -> Table:
    """What the notes of each class were called, as Table 1 of the paper prints it.

    Parameters
    ----------
    results : Results
    method : str
    seed : int

    Raises
    ------
    InputError
        If the method or the seed was not run.
    """
    found = results.confusion(method, seed)
    columns = [str(label) for label in found.column_labels]
    counts = {str(label): row.tolist() for label, row in zip(found.row_labels, found.counts, strict=True)}
    known = [label for label in columns[:-1] if label in counts]
    unknown = [label for label in counts if label not in known]
    rows = [(label, *_shares(counts[label], columns.index(label))) for label in known]
    rows += [(label, *_shares(counts[label], len(columns) - 1)) for label in unknown]
    return Table(
        title=f"Notes by what they were called: {_title(results, method)}, seed {seed}",
        head=("true class", *columns),
        rows=tuple(rows),
        notes=("Right answers as right/all. Classes below the line were not trained on: right is OOD.",),
        lines={len(known)} if unknown else set(),
    )


def table_2(results: Results) -> Table:
    """Mean F over the seeds by window and by note: a row for each method, as in Table 2 of the paper."""
    columns = [*results.categories(), OVER_KNOWN, OVER_ALL]
    rows: list[tuple[str, ...]] = []
    blocks: set[int] = set()
    lines: set[int] = set()
    apart: set[int] = set()
    best: set[tuple[int, int]] = set()
    for level in LEVELS:
        blocks.add(len(rows))
        lines.add(len(rows))
        rows.append((LEVEL_TITLES[level], *[""] * len(columns)))
        means = [[mean_of_defined(results.values(m.name, level, c)) for c in columns] for m in results.methods]
        best |= {(len(rows) + r, c + 1) for r, c in _best(means)}
        rows += [(m.title, *(_f(results.values(m.name, level, c), c) for c in columns)) for m in results.methods]
        printed = list(_paper_rows(results, level, columns))
        lines |= {len(rows)} if printed else set()
        apart |= set(range(len(rows), len(rows) + len(printed)))
        rows += printed
    return Table(
        title=f"F, mean of {_seeds(len(results.seeds))}",
        head=("method", *columns),
        rows=tuple(rows),
        notes=_notes_2(results, bool(apart)),
        blocks=blocks,
        lines=lines,
        apart=apart,
        best=best,
    )


def table_tests(results: Results, ours: str) -> Table:
    """One method less each of the others, paired over the seeds, by window and by note."""
    others = [one for one in results.methods if one.name != ours]
    rows = [
        (one.title, *(cell for level in LEVELS for cell in _test(results, ours, one.name, level))) for one in others
    ]
    few = () if len(results.seeds) > 1 else ("One seed: nothing to test.",)
    means = f"The difference is that of “{OVER_ALL}” for windows, of “{OVER_KNOWN}” for notes."
    return Table(
        title=f"{_title(results, ours)}, less each other method",
        head=(
            "other method",
            *(f"{level}s: {what}" for level in LEVELS for what in ("difference", "p of t test", "p of Wilcoxon")),
        ),
        rows=tuple(rows),
        notes=(means, *few, ROUGH),
    )


def table_learnt(results: Results) -> Table:
    """Thresholds and hyper-parameters of each method: median and range over the seeds."""
    rows: list[tuple[str, ...]] = []
    blocks = set()
    for one in results.methods:
        values: dict[str, list[float]] = {}
        for outcome in results.of(one.name):
            for name, value in _numbers(outcome):
                values.setdefault(name, []).append(value)
        if values:
            blocks.add(len(rows))
            rows.append((one.title, *[""] * 4))
        for name, found in values.items():
            spread = (np.median(found), min(found), max(found))
            rows.append((name, *(f"{float(x):.4g}" for x in spread), str(len(found))))
    return Table(
        title="Thresholds and hyper-parameters over the seeds",
        head=("setting", "median", "lowest", "highest", "seeds"),
        rows=tuple(rows),
        blocks=blocks,
        lines=blocks,
    )


def table_classes(data: Dataset) -> Table:
    """How many notes each class has, from how many groups, and what it is there for."""
    roles = dict.fromkeys(data.labels, "drawn anew for each seed" if data.known is None else "unknown")
    roles |= dict.fromkeys(data.known or (), "known")
    groups = {label: {note.group for note in data.notes if note.label == label} for label in data.labels}
    of_group = {label: (str(len(own)),) if data.grouped else () for label, own in groups.items()}
    n_known = len(data.known or ())
    return Table(
        title=f"Classes of {data.name}",
        head=("class", "role", "notes", *(("groups",) if data.grouped else ())),
        rows=tuple((label, roles[label], str(data.counts[label]), *of_group[label]) for label in data.labels),
        lines={n_known} if 0 < n_known < len(roles) else set(),
        n_left=2,
    )


def is_synthetic(data: Dataset) -> bool:
    """Whether these are the made-up notes, and not a folder of that name."""
    return data.name == "synthetic" and set(data.counts) == set(CLASSES)


def standard_error(values: np.ndarray) -> float:
    """Of the mean over the seeds; NaN for fewer than two."""
    there = values[~np.isnan(values)]
    return float(np.std(there, ddof=1) / math.sqrt(len(there))) if len(there) > 1 else math.nan


def _shares(counts: list[int], right: int) -> list[str]:
    total = sum(counts)
    return [f"{n}/{total}" if total and c == right else str(n) for c, n in enumerate(counts)]


def _best(means: list[list[float]]) -> Iterator[tuple[int, int]]:
    """Row and column of the cells that print as the best of their column; none where there is nothing to compare."""
    for c, column in enumerate(zip(*means, strict=True)):
        printed = [_short(value) for value in column]
        there = [value for value in column if not math.isnan(value)]
        if len(there) > 1:
            yield from ((r, c) for r, text in enumerate(printed) if text == _short(max(there)))


def _f(values: np.ndarray, column: str) -> str:
    error = standard_error(values)
    spread = "" if math.isnan(error) or column not in (OVER_KNOWN, OVER_ALL) else f" ± {error:.3f}"
    return _short(mean_of_defined(values)) + spread


def _short(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.3f}"


def _paper_rows(results: Results, level: str, columns: list[str]) -> Iterator[tuple[str, ...]]:
    if not is_synthetic(results.data):
        return
    overall = OVERALL[level]
    printed_there = cast(Mapping[str, Sequence[float | None]], PAPER[level])
    for name, (*classes, overall_f) in printed_there.items():
        figures: dict[str, float | None] = {overall: overall_f}
        if columns[:-2] == [*KNOWN, OOD]:  # else its classes are others
            figures |= dict(zip([*KNOWN, OOD], classes, strict=True))
        cells = (figures.get(column) for column in columns)
        printed = (NOTHING if f is None else f"{f:.2f}" for f in cells)
        yield (f"the paper, {name} (its own recordings)", *printed)


def _notes_2(results: Results, with_paper: bool) -> tuple[str, ...]:
    notes = [
        f"What the paper calls overall is “{OVER_ALL}” for windows and “{OVER_KNOWN}” for notes. ± is the standard "
        "error over the seeds, which share notes: it is a rough guide."
    ]
    if len(results.categories()) == 1:
        notes.append("The known classes differ from seed to seed, so they have no columns of their own.")
    if with_paper:
        notes.append(
            "Rows called “its own recordings” are what the paper printed. Its recordings are not public: they were not "
            "run here, and are not to be compared with the other rows."
        )
    if with_paper and results.protocol.changes():
        notes.append("The figures of the paper are of its own protocol, without the changes that were made here.")
    return tuple(notes)


def _test(results: Results, ours: str, other: str, level: str) -> tuple[str, str, str]:
    found = results.compare(ours, other, level)
    difference = NOTHING if math.isnan(found.difference) else f"{found.difference:+.3f}"
    if len(results.seeds) < 2:
        return difference, NOTHING, NOTHING
    return difference, _p(found.t_p), _p(found.wilcoxon_p)


def _p(p: float) -> str:
    return NOTHING if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _numbers(outcome: Outcome) -> Iterator[tuple[str, float]]:
    """All numbers among what was learnt, with names to print."""
    names = {"length_scale": "ℓ", "sigma": "σ", "sigma_reg": "σ_reg"}
    for name, value in outcome.settings.items():
        parts: Iterable[tuple[str, object]] = [(names.get(name, name), value)]
        if isinstance(value, Mapping):
            parts = [(f"{name.removesuffix('s')}, {key}", one) for key, one in value.items()]
        yield from ((text, float(one)) for text, one in parts if isinstance(one, int | float))


def _title(results: Results, method: str) -> str:
    results.of(method)
    return next((one.title for one in results.methods if one.name == method), method)


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"
