"""The tables of the experiment: Table 1, Table 2, paired tests, learnt settings, classes; as text or HTML."""

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from outlark.data.synthetic import CLASSES, KNOWN
from outlark.metrics.windows import mean_of_defined
from outlark.paper.dataset import Dataset
from outlark.paper.results import LEVELS, OOD, OVER_ALL, OVER_KNOWN, OVERALL, Outcome, Results
from outlark.plain_text import number_of, visible

if TYPE_CHECKING:
    import rich.table

#: Table 2 of the paper, on recordings that are not public: level → method → F of each class, OOD and overall.
PAPER: Mapping[str, Mapping[str, Sequence[float | None]]] = {
    "window": {"MDD-KM": (0.88, 0.77, 0.89, 0.89, 0.85), "PKNN": (0.84, 0.73, 0.91, 0.83, 0.83)},
    "note": {"MDD-KM": (0.92, 0.87, 0.95, None, 0.91), "PKNN": (0.89, 0.86, 0.96, None, 0.90)},
}
LEVEL_TITLES = {"window": "by sliding window", "note": "by note"}
#: Printed where there is no value: a category without notes, a test on one seed.
NOTHING = "–"
ROUGH = "Seeds share notes and are not independent trials: p is a rough guide, not corrected for multiple tests."


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of text under column heads; the first column names the row.

    Attributes
    ----------
    notes : tuple of str
        Shown below the table.
    blocks : set of int
        Rows that are headings: only their first cell is filled.
    lines : set of int
        Rows with a line above.
    apart : set of int
        Rows for reference, not from this experiment.
    best : set of (int, int)
        Row and column of highlighted cells.
    n_left : int
        The number of left-aligned columns; the others hold numbers.

    Examples
    --------
    >>> table = Table(title="Notes", head=("class", "found"), rows=(("song", "12"), ("call", "3")), best={(0, 1)})
    >>> print(table.text())
    Notes
    <BLANKLINE>
    class  found
    song     12*
    call      3
    <BLANKLINE>
    * the best of its column
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    blocks: frozenset[int] | set[int] = frozenset()
    lines: frozenset[int] | set[int] = frozenset()
    apart: frozenset[int] | set[int] = frozenset()
    best: frozenset[tuple[int, int]] | set[tuple[int, int]] = frozenset()
    n_left: int = 1

    def __post_init__(self) -> None:
        for name in ("title", "head", "rows", "notes"):  # names of classes and files may contain anything
            object.__setattr__(self, name, _visible(getattr(self, name)))

    def text(self) -> str:
        """Aligned columns; the best cells have a star, reference rows are in brackets."""
        starred = {column for _, column in self.best}
        cells = [list(map(_one_line, self.head)), *(self._starred(i) for i in range(len(self.rows)))]
        cells = [[c + " " * (n in starred and not c.endswith("*")) for n, c in enumerate(row)] for row in cells]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [_one_line(self.title), "", self._aligned(cells[0], widths)]
        for i, row in enumerate(cells[1:]):
            lines += [rule] * (i in self.lines) + [self._aligned(row, widths)]
        below = ["* the best of its column"] * bool(self.best) + list(self.notes)
        return "\n".join([*lines, *([""] if below else []), *below])

    def rich(self) -> "rich.table.Table":
        """For a terminal: the best cells bold, reference rows dim."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(self.title), title_justify="left", caption=Text("\n".join(self.notes)), caption_justify="left"
        )
        for column, name in enumerate(self.head):
            table.add_column(Text(name), justify="left" if column < self.n_left else "right")
        for i, row in enumerate(self.rows):
            if i in self.lines and i:
                table.add_section()
            base = "italic" if i in self.blocks else "dim" if i in self.apart else ""
            table.add_row(*(Text(cell, "bold" if (i, c) in self.best else base) for c, cell in enumerate(row)))
        return table

    def html(self) -> str:
        """A `table` in a `div` that scrolls, and a paragraph for each note; everything is escaped."""
        heads = "".join(self._cell("th", c, html.escape(name)) for c, name in enumerate(self.head))
        rows = "".join(self._row(i) for i in range(len(self.rows)))
        notes = "".join(f'<p class="note">{html.escape(note)}</p>\n' for note in self.notes)
        caption = html.escape(self.title)
        return (
            f'<div class="scroll" tabindex="0">\n<table>\n<caption>{caption}</caption>\n'
            f"<thead><tr>{heads}</tr></thead>\n"
            f"<tbody>\n{rows}</tbody>\n</table>\n</div>\n{notes}"
        )

    def _row(self, i: int) -> str:
        shown = [html.escape(cell) for cell in self.rows[i]]
        kinds = [name for name, those in (("line", self.lines), ("apart", self.apart)) if i in those]
        if i in self.blocks:
            cells = f'<th colspan="{len(self.head)}" class="words">{shown[0]}</th>'
        else:
            strong = [f"<strong>{c}</strong>" if (i, n) in self.best else c for n, c in enumerate(shown)]
            cells = "".join(self._cell("td" if n else "th", n, c) for n, c in enumerate(strong))
        return f'<tr class="{" ".join(kinds)}">{cells}</tr>\n'

    def _cell(self, tag: str, column: int, content: str) -> str:
        return f"<{tag}{' class=words' if column < self.n_left else ''}>{content}</{tag}>"

    def _aligned(self, cells: list[str], widths: list[int]) -> str:
        pairs = enumerate(zip(cells, widths, strict=True))
        return "  ".join(c.ljust(width) if i < self.n_left else c.rjust(width) for i, (c, width) in pairs).rstrip()

    def _starred(self, i: int) -> list[str]:
        row = [_one_line(cell) + "*" * ((i, c) in self.best) for c, cell in enumerate(self.rows[i])]
        return [f"[{row[0]}]", *row[1:]] if i in self.apart else row


def table_1(results: Results, method: str, seed: int) -> Table:
    """True by assigned class of the notes, as in Table 1 of the paper."""
    found = results.confusion(method, seed)
    columns = [str(label) for label in found.column_labels]
    counts = {str(label): row.tolist() for label, row in zip(found.row_labels, found.counts, strict=True)}
    known = [label for label in columns[:-1] if label in counts]
    unknown = [label for label in counts if label not in known]
    rows = [(label, *_shares(counts[label], columns.index(label))) for label in known]
    rows += [(label, *_shares(counts[label], len(columns) - 1)) for label in unknown]
    return Table(
        title=f"True and assigned class of the notes: {_title(results, method)}, seed {seed}",
        head=("true class", *columns),
        rows=tuple(rows),
        notes=("Correct answers as correct/all. Classes below the line were not trained on: OOD is correct.",),
        lines={len(known)} if unknown else set(),
    )


def table_2(results: Results) -> Table:
    """Mean F over the seeds by window and by note: a row for each method, as in Table 2 of the paper."""
    columns = [*results.categories(), OVER_KNOWN, OVER_ALL]
    rows: list[tuple[str, ...]] = []
    blocks, lines, apart = set[int](), set[int](), set[int]()
    best: set[tuple[int, int]] = set()
    for level in LEVELS:
        blocks.add(len(rows))
        lines.add(len(rows))
        rows.append((LEVEL_TITLES[level], *[""] * len(columns)))
        values = [[results.values(m.name, level, c) for c in columns] for m in results.methods]
        best |= {(len(rows) + r, c + 1) for r, c in _best([[mean_of_defined(v) for v in row] for row in values])}
        rows += [(m.title, *map(_f, row, columns)) for m, row in zip(results.methods, values, strict=True)]
        printed = list(_paper_rows(results, level, columns))
        lines |= {len(rows)} if printed else set()
        apart |= set(range(len(rows), len(rows) + len(printed)))
        rows += printed
    return Table(
        title=f"F, mean of {number_of(len(results.seeds), 'seed')}",
        head=("method", *columns),
        rows=tuple(rows),
        notes=_notes_2(results, bool(apart)),
        blocks=blocks,
        lines=lines,
        apart=apart,
        best=best,
    )


def table_tests(results: Results, ours: str) -> Table:
    """One method minus each of the others, paired over the seeds, by window and by note."""
    others = [one for one in results.methods if one.name != ours]
    rows = [
        (one.title, *(cell for level in LEVELS for cell in _test(results, ours, one.name, level))) for one in others
    ]
    few = () if len(results.seeds) > 1 else ("One seed: nothing to test.",)
    means = f"Differences are in “{OVER_ALL}” for windows and in “{OVER_KNOWN}” for notes."
    return Table(
        title=f"{_title(results, ours)}, minus each other method",
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
    """How many notes each class has, from how many groups, and its role."""
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
    """Whether these are the synthetic notes, and not a folder of that name."""
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
        there = [value for value in column if not math.isnan(value)]
        if len(there) > 1:
            yield from ((r, c) for r, value in enumerate(column) if _number(value) == _number(max(there)))


def _f(values: np.ndarray, column: str) -> str:
    error = standard_error(values)
    spread = "" if math.isnan(error) or column not in (OVER_KNOWN, OVER_ALL) else f" ± {error:.3f}"
    return _number(mean_of_defined(values)) + spread


def _number(value: float, form: str = ".3f") -> str:
    return NOTHING if math.isnan(value) else f"{value:{form}}"


def _paper_rows(results: Results, level: str, columns: list[str]) -> Iterator[tuple[str, ...]]:
    if not is_synthetic(results.data):
        return
    for name, (*classes, overall_f) in PAPER[level].items():
        figures: dict[str, float | None] = {OVERALL[level]: overall_f}
        if columns[:-2] == [*KNOWN, OOD]:  # else its classes are others
            figures |= dict(zip([*KNOWN, OOD], classes, strict=True))
        cells = (figures.get(column) for column in columns)
        printed = (NOTHING if f is None else f"{f:.2f}" for f in cells)
        yield (f"the paper, {name} (its own recordings)", *printed)


def _notes_2(results: Results, with_paper: bool) -> tuple[str, ...]:
    notes = [
        f"What the paper calls overall is “{OVER_ALL}” for windows and “{OVER_KNOWN}” for notes. ± is the standard "
        "error over the seeds, which share notes: a rough guide."
    ]
    if len(results.categories()) == 1:
        notes.append("The known classes differ from seed to seed and therefore have no columns.")
    if with_paper:
        notes.append(
            "Rows marked “its own recordings” are the paper's printed figures. Its recordings are not public; they "
            "were not run here and are not comparable with the other rows."
        )
    if with_paper and results.protocol.changes():
        notes.append("The paper's figures are for its own protocol, without the changes made here.")
    return tuple(notes)


def _test(results: Results, ours: str, other: str, level: str) -> tuple[str, str, str]:
    found = results.compare(ours, other, level)
    return _number(found.difference, "+.3f"), _p(found.t_p), _p(found.wilcoxon_p)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else _number(p)


def _numbers(outcome: Outcome) -> Iterator[tuple[str, float]]:
    """All learnt numbers, with names to print."""
    names = {"length_scale": "ℓ", "sigma": "σ", "sigma_reg": "σ_reg"}
    for name, value in outcome.settings.items():
        parts: Iterable[tuple[str, object]] = [(names.get(name, name), value)]
        if isinstance(value, Mapping):
            parts = [(f"{name.removesuffix('s')}, {key}", one) for key, one in value.items()]
        yield from ((text, float(one)) for text, one in parts if isinstance(one, int | float))


def _title(results: Results, method: str) -> str:
    results.of(method)
    return next((one.title for one in results.methods if one.name == method), method)


def _visible(text: Any) -> Any:
    return visible(text) if isinstance(text, str) else tuple(map(_visible, text))


def _one_line(text: str) -> str:
    return " ".join(text.split())
