"""The tables of the experiment: Table 1, Table 2, paired tests, classes."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from outlark.data.synthetic import CLASSES, KNOWN
from outlark.metrics.windows import mean_of_defined
from outlark.paper.dataset import Dataset
from outlark.paper.results import LEVELS, OOD, OVER_ALL, OVER_KNOWN, OVERALL, Results
from outlark.plain_text import looks_numeric, number_of, visible

#: Table 2 of the paper, on recordings that are not public: level → method → F of each class, OOD and overall.
PAPER: Mapping[str, Mapping[str, Sequence[float | None]]] = {
    "window": {"MDD-KM": (0.88, 0.77, 0.89, 0.89, 0.85), "PKNN": (0.84, 0.73, 0.91, 0.83, 0.83)},
    "note": {"MDD-KM": (0.92, 0.87, 0.95, None, 0.91), "PKNN": (0.89, 0.86, 0.96, None, 0.90)},
}
#: Printed where there is no value: a category without notes, a test on one seed.
MISSING = "–"
#: Follows the best number of its column; a space follows the others, to keep digits below each other.
BEST = "*"
NUMBER = ' class="number"'


class Table(NamedTuple):
    """Cells of text under column heads, and notes below."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def html(self) -> str:
        """A `table`, numbers to the right, and a paragraph for each note; everything is escaped.

        >>> print(Table("Notes", ("class", "found"), [("song", "12")]).html())
        <table><caption>Notes</caption>
        <tr><th>class</th><th>found</th></tr>
        <tr><td>song</td><td class="number">12</td></tr>
        </table>
        """
        rows = ["".join(f"<th>{_escaped(name)}</th>" for name in self.head)]
        rows += ["".join(map(_html_cell, row)) for row in self.rows]
        notes = "".join(f"<p>{_escaped(note)}</p>\n" for note in self.notes)
        lines = "".join(f"<tr>{row}</tr>\n" for row in rows)
        return f"<table><caption>{_escaped(self.title)}</caption>\n{lines}</table>\n{notes}"


def table_1(results: Results, method: str, seed: int) -> Table:
    """True by assigned class of the notes, as in Table 1 of the paper."""
    found = results.confusion(method, seed)
    columns = [str(label) for label in found.column_labels]
    counts = {str(label): row.tolist() for label, row in zip(found.row_labels, found.counts, strict=True)}
    known = [label for label in columns[:-1] if label in counts]
    unknown = [label for label in counts if label not in known]
    rows = [(label, "known", *_shares(counts[label], columns.index(label))) for label in known]
    rows += [(label, "unknown", *_shares(counts[label], len(columns) - 1)) for label in unknown]
    return Table(
        f"True and assigned class of the notes: {results.title(method)}, seed {seed}",
        ("true class", "role", *columns),
        rows,
        (f"Correct answers as correct/all. Unknown classes were not trained on: {OOD} is correct.",),
    )


def table_2(results: Results) -> Table:
    """Mean F over the seeds by sliding window and by note: a row for each method, as in Table 2 of the paper."""
    columns = [*results.categories(), OVER_KNOWN, OVER_ALL]
    rows: list[tuple[str, ...]] = []
    for level in LEVELS:
        values = [[results.values(m.name, level, c) for c in columns] for m in results.methods]
        means = np.array([[mean_of_defined(v) for v in row] for row in values])
        for method, row, own in zip(results.methods, values, means, strict=True):
            marks = [BEST if _is_best(mean, column) else " " for mean, column in zip(own, means.T, strict=True)]
            cells = (_f(v, c) + mark for v, c, mark in zip(row, columns, marks, strict=True))
            rows.append((level, method.title, *cells))
        rows += _paper_rows(results, level, columns)
    return Table(
        f"F, mean of {number_of(len(results.seeds), 'seed')}",
        ("level", "method", *columns),
        rows,
        _notes_2(results),
    )


def table_tests(results: Results, ours: str) -> Table:
    """A method against each other one: differences and paired tests, by window and by note."""
    others = [one for one in results.methods if one.name != ours]
    return Table(
        f"{results.title(ours)}, minus each other method",
        (
            "other method",
            *(f"{level}s: {what}" for level in LEVELS for what in ("difference", "p of t test", "p of Wilcoxon")),
        ),
        [(m.title, *(cell for level in LEVELS for cell in _test(results, ours, m.name, level))) for m in others],
        (
            f"Differences are in “{OVER_ALL}” for windows and in “{OVER_KNOWN}” for notes. Seeds share notes and are "
            "not independent trials: p is a rough guide, not corrected for multiple tests.",
        ),
    )


def table_classes(data: Dataset) -> Table:
    """How many notes each class has, from how many groups, and its role."""
    rows = []
    for label in data.labels:
        role = "drawn anew for each seed" if data.known is None else "known" if label in data.known else "unknown"
        groups = {note.group for note in data.notes if note.label == label}
        rows.append((label, role, str(data.counts[label]), str(len(groups)) if data.grouped else MISSING))
    return Table(f"Classes of {data.name}", ("class", "role", "notes", "groups"), rows)


def is_synthetic(data: Dataset) -> bool:
    """Whether these are the synthetic notes, and not a folder of that name."""
    return data.name == "synthetic" and set(data.counts) == set(CLASSES)


def standard_error(values: np.ndarray) -> float:
    """Of the mean over the seeds; NaN for fewer than two."""
    there = values[~np.isnan(values)]
    return float(np.std(there, ddof=1) / math.sqrt(len(there))) if len(there) > 1 else math.nan


def _html_cell(cell: str) -> str:
    return f"<td{NUMBER if looks_numeric(cell) else ''}>{_escaped(cell)}</td>"


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def _shares(counts: list[int], right: int) -> list[str]:
    total = sum(counts)
    return [f"{n}/{total}" if total and c == right else str(n) for c, n in enumerate(counts)]


def _is_best(mean: float, column: np.ndarray) -> bool:
    """Whether a mean prints as the best of its column; none is where there is nothing to compare."""
    there = column[~np.isnan(column)]
    return len(there) > 1 and _number(mean) == _number(float(there.max()))


def _f(values: np.ndarray, column: str) -> str:
    error = standard_error(values)
    spread = "" if math.isnan(error) or column not in (OVER_KNOWN, OVER_ALL) else f" ± {error:.3f}"
    return _number(mean_of_defined(values)) + spread


def _number(value: float, form: str = ".3f") -> str:
    return MISSING if math.isnan(value) else f"{value:{form}}"


def _paper_rows(results: Results, level: str, columns: list[str]) -> Iterator[tuple[str, ...]]:
    if not is_synthetic(results.data):
        return
    for name, (*classes, overall_f) in PAPER[level].items():
        figures: dict[str, float | None] = {OVERALL[level]: overall_f}
        if columns[:-2] == [*KNOWN, OOD]:  # else its classes are others
            figures |= dict(zip([*KNOWN, OOD], classes, strict=True))
        cells = (figures.get(column) for column in columns)
        printed = (MISSING if f is None else f"{f:.2f} " for f in cells)
        yield (level, f"the paper, {name} (its own recordings)", *printed)


def _notes_2(results: Results) -> tuple[str, ...]:
    notes = [
        f"{BEST} the best of its column and level. What the paper calls overall is “{OVER_ALL}” for windows and "
        f"“{OVER_KNOWN}” for notes. ± is the standard error over the seeds, which share notes: a rough guide."
    ]
    if len(results.categories()) == 1:
        notes.append("The known classes differ from seed to seed and therefore have no columns.")
    if is_synthetic(results.data):
        notes.append(
            "Rows marked “its own recordings” are the paper's printed figures. Its recordings are not public; they "
            "were not run here and are not comparable with the other rows."
            + " They are for its own protocol, without the changes made here."
            * bool(results.protocol.changes())
        )
    return tuple(notes)


def _test(results: Results, ours: str, other: str, level: str) -> tuple[str, str, str]:
    found = results.compare(ours, other, level)
    return _number(found.difference, "+.3f"), _p(found.t_p), _p(found.wilcoxon_p)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else _number(p)
