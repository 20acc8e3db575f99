"""An experiment for readers: Tables 1 and 2, paired tests, and a report as one HTML page without scripts."""

import base64
import html
import json
import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import soundfile

from outlark.annotations import Annotation, write_annotations
from outlark.audio.recording import for_decoder
from outlark.commands.figures import save_figure
from outlark.data.synthetic import CLASSES, KNOWN_CLASSES
from outlark.files.io import written_aside
from outlark.metrics.windows import mean_of_defined
from outlark.paper.experiment.dataset import OOD, Dataset, Protocol, draw
from outlark.paper.experiment.figure_1 import figure_1
from outlark.paper.experiment.run import LEVELS, METHODS, OVER_ALL, OVER_KNOWN, OVERALL, Results, fitted
from outlark.plain_text import Line, Remark, TextTable, number_of, visible
from outlark.version import __version__

#: Table 2 of the paper, on recordings that are not public: level → method → F of each class, OOD and overall.
PAPER: Mapping[str, Mapping[str, Sequence[float | None]]] = {
    "window": {"MDD-KM": (0.88, 0.77, 0.89, 0.89, 0.85), "PKNN": (0.84, 0.73, 0.91, 0.83, 0.83)},
    "note": {"MDD-KM": (0.92, 0.87, 0.95, None, 0.91), "PKNN": (0.89, 0.86, 0.96, None, 0.90)},
}
#: Printed where there is no value: a category without notes, a test on one seed.
MISSING = "–"
#: Follows the best number of its column; a space follows the others, to keep digits below each other.
BEST = "*"
#: The method as published, whose Table 1 is shown beside ours.
PUBLISHED = "mddkm-paper"
CLIP = "test_clip.wav"
SYNTHETIC_WARNING = (
    "The recordings of the paper are not public. These notes are synthetic, and results on them are not the paper's "
    "results."
)
FIGURE = '<img alt="Spectrogram, scores and decisions" src="data:image/png;base64,%s">\n'
PAPER_LINK = "https://arxiv.org/abs/2108.12857"
REPORT_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title</title>
<style>
body { max-width: 70rem; margin: auto; font-family: sans-serif; }
caption, th, td:nth-child(-n+2) { text-align: left; } td { text-align: right; padding: .2rem .6rem; white-space: pre; }
img { max-width: 100%; }
</style>
</head>
<body>
<h1>$title</h1>
$body</body>
</html>
"""


def table_1(results: Results, method: str, seed: int) -> TextTable:
    """True by assigned class of the notes, as in Table 1 of the paper."""
    found = results.confusion(method, seed)
    columns = [str(label) for label in found.column_labels]
    counts = {str(label): row.tolist() for label, row in zip(found.row_labels, found.counts, strict=True)}
    known = [label for label in columns[:-1] if label in counts]
    unknown = [label for label in counts if label not in known]
    rows = [("true class", "role", *columns)]
    rows += [(label, "known", *_shares(counts[label], columns.index(label))) for label in known]
    rows += [(label, "unknown", *_shares(counts[label], len(columns) - 1)) for label in unknown]
    title = f"True and assigned class of the notes: {results.titles[method]}, seed {seed}"
    note = f"Correct answers as correct/all. Unknown classes were not trained on: {OOD} is correct."
    return TextTable(rows, title, [note])


def table_2(results: Results) -> TextTable:
    """Mean F over the seeds by sliding window and by note: a row for each method, as in Table 2 of the paper."""
    columns = [*results.categories(), OVER_KNOWN, OVER_ALL]
    rows: list[tuple[str, ...]] = [("level", "method", *columns)]
    for level in LEVELS:
        values = [[results.values(m.name, level, c) for c in columns] for m in results.methods]
        means = np.array([[mean_of_defined(v) for v in row] for row in values])
        for of_row, row, own in zip(results.methods, values, means, strict=True):
            marks = [BEST if _is_best(mean, column) else " " for mean, column in zip(own, means.T, strict=True)]
            cells = (_f(v, c) + mark for v, c, mark in zip(row, columns, marks, strict=True))
            rows.append((level, of_row.title, *cells))
        rows += _paper_rows(results, level, columns)
    return TextTable(rows, f"F, mean of {number_of(len(results.seeds), 'seed')}", _notes_2(results))


def table_tests(results: Results, ours: str) -> TextTable:
    """A method against each other one: differences and paired tests, by window and by note."""
    whats = (f"{level}s: {what}" for level in LEVELS for what in ("difference", "p of t test", "p of Wilcoxon"))
    rows: list[tuple[str, ...]] = [("other method", *whats)]
    for other in (one for one in results.methods if one.name != ours):
        cells: list[str] = []
        for found in (results.compare(ours, other.name, level) for level in LEVELS):
            cells += [_number(found.difference, "+.3f"), _p(found.t_p), _p(found.wilcoxon_p)]
        rows.append((other.title, *cells))
    note = (
        f"Differences are in “{OVER_ALL}” for windows and in “{OVER_KNOWN}” for notes. Seeds share notes and are "
        "not independent trials: p is a rough guide, not corrected for multiple tests."
    )
    return TextTable(rows, f"{results.titles[ours]}, minus each other method", [note])


def table_classes(data: Dataset) -> TextTable:
    """How many notes each class has, from how many groups, and its role."""
    rows = [("class", "role", "notes", "groups")]
    for label in data.labels:
        role = "drawn anew for each seed" if data.known is None else "known" if label in data.known else "unknown"
        groups = {note.group for note in data.notes if note.label == label}
        rows.append((label, role, str(data.counts[label]), str(len(groups)) if data.grouped else MISSING))
    return TextTable(rows, f"Classes of {data.name}")


def is_synthetic(data: Dataset) -> bool:
    """Whether these are the synthetic notes, and not a folder of that name."""
    return data.name == "synthetic" and set(data.counts) == set(CLASSES)


def _shares(counts: list[int], right: int) -> list[str]:
    total = sum(counts)
    return [f"{n}/{total}" if total and c == right else str(n) for c, n in enumerate(counts)]


def _is_best(mean: float, column: np.ndarray) -> bool:
    """Whether a mean prints as the best of its column; none is where there is nothing to compare."""
    there = column[~np.isnan(column)]
    return len(there) > 1 and _number(mean) == _number(float(there.max()))


def _f(values: np.ndarray, column: str) -> str:
    """The mean over the seeds; with the standard error where it is a mean over classes."""
    there = values[~np.isnan(values)]
    spread = ""
    if len(there) > 1 and column in (OVER_KNOWN, OVER_ALL):
        spread = f" ± {float(np.std(there, ddof=1) / math.sqrt(len(there))):.3f}"
    return _number(mean_of_defined(values)) + spread


def _number(value: float, form: str = ".3f") -> str:
    return MISSING if math.isnan(value) else f"{value:{form}}"


def _paper_rows(results: Results, level: str, columns: list[str]) -> Iterator[tuple[str, ...]]:
    if not is_synthetic(results.data):
        return
    for name, (*classes, overall_f) in PAPER[level].items():
        figures: dict[str, float | None] = {OVERALL[level]: overall_f}
        if columns[:-2] == [*KNOWN_CLASSES, OOD]:  # else its classes are others
            figures |= dict(zip([*KNOWN_CLASSES, OOD], classes, strict=True))
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


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else _number(p)


@dataclass(frozen=True)
class Experiment:
    """The result of `outlark experiment` and `outlark demo`: numbers, files by description, and the time it took."""

    results: Results
    files: Mapping[str, str]
    seconds_taken: float
    incomplete = False

    def as_json(self) -> dict[str, Any]:
        return {**self.results.as_json(), "files": dict(self.files), "seconds_taken": round(self.seconds_taken, 3)}

    def lines(self) -> Iterator[Line]:
        """The tables, and where everything is."""
        results = self.results
        tables = [table_1(results, results.ours, results.seeds[0]), table_2(results)]
        if len(results.methods) > 1 and len(results.seeds) > 1:
            tables.append(table_tests(results, results.ours))
        for table in tables:
            yield table
            yield "\n".join([*table.notes, ""])
        yield from (Remark(f"{what}: {path}") for what, path in self.files.items())
        runs = f"{number_of(len(results.seeds), 'seed')} × {number_of(len(results.methods), 'method')}"
        yield Remark(f"{runs} in {self.seconds_taken:.0f} s")


class MethodList:
    """The result of `outlark experiment --list-methods`."""

    incomplete = False

    def as_json(self) -> dict[str, dict[str, str]]:
        return {"methods": {one.name: one.title for one in METHODS.values()}}

    def lines(self) -> list[Line]:
        return [TextTable([["method", "what it is"], *([one.name, one.title] for one in METHODS.values())])]


def write(folder: Path, results: Results, *, command: str) -> dict[str, str]:
    """Write everything into a folder; returns description → path of each file.

    `command` is what to type to repeat the experiment, for the report.
    """
    files = {
        "every F": folder / "results.csv",
        "all numbers": folder / "results.json",
        "Figure 1": folder / "figure1.png",
        "report": folder / "report.html",
        "test clip": folder / CLIP,
        "its notes": folder / "test_clip.Table.1.selections.txt",
    }
    results.write_csv(files["every F"])
    with written_aside(files["all numbers"]) as aside:
        aside.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    drawn = draw(results.data, results.protocol, results.seeds[0])
    shown = [one for one in results.methods if one.name in (PUBLISHED, results.ours)]
    detectors = {one.title: fitted(one, drawn) for one in shown}
    save_figure(figure_1(drawn, detectors), files["Figure 1"])
    with written_aside(files["report"]) as aside:
        text = report(results, figure_1=files["Figure 1"].read_bytes(), command=command)
        aside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    with written_aside(files["test clip"]) as aside:
        soundfile.write(
            for_decoder(aside), drawn.audio.astype(np.float32), drawn.sample_rate, format="WAV", subtype="PCM_16"
        )
    annotations = [Annotation(start_s=n.start_s, end_s=n.end_s, label=n.label, recording=CLIP) for n in drawn.truth]
    write_annotations(files["its notes"], annotations, format="raven")
    return {what: str(path) for what, path in files.items()}


def report(results: Results, *, figure_1: bytes = b"", command: str | None = None) -> str:
    """An experiment as one HTML page. The same results, on the same machine, give the same bytes.

    `figure_1` is a PNG image; `command` is what to type to repeat the experiment.
    """
    ours = results.ours
    confused = [ours, *([PUBLISHED] if PUBLISHED in results.titles and ours != PUBLISHED else [])]
    sections = {
        "What was done": _what(results),
        "F scores": _table(table_2(results)),
        "Paired tests": _table(table_tests(results, ours)) if len(results.methods) > 1 else "",
        "Confusion matrices": "".join(_table(table_1(results, name, results.seeds[0])) for name in confused),
        "An excerpt of the test clip": FIGURE % base64.b64encode(figure_1).decode("ascii") if figure_1 else "",
        "How to repeat it": _repeated(results, command),
    }
    synthetic = is_synthetic(results.data)
    title = html.escape(f"Experiment on {'synthetic notes' if synthetic else results.data.name}")
    warning = f"<p><strong>{html.escape(SYNTHETIC_WARNING)}</strong></p>\n" if synthetic else ""
    body = "".join(f"<h2>{name}</h2>\n{text}" for name, text in sections.items() if text)
    return Template(REPORT_PAGE).substitute(title=title, body=warning + body)


def _table(table: TextTable) -> str:
    """A `table`, and a paragraph for each note."""
    head, *rows = ([html.escape(visible(cell)) for cell in row] for row in table.rows)
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    notes = "".join(f"<p>{html.escape(visible(note))}</p>\n" for note in table.notes)
    return f"<table><caption>{html.escape(visible(table.title))}</caption>\n{body}</table>\n{notes}"


def _what(results: Results) -> str:
    data, changes = results.data, changes_in_words(results.protocol)
    return (
        f'<p>The experiment of Sec. 4 of <a href="{PAPER_LINK}">the paper</a> on {len(data.notes)} notes of '
        f"{len(data.counts)} classes, repeated for {number_of(len(results.seeds), 'seed')}.</p>\n"
        f"<p>{html.escape(' '.join(_protocol_in_words(results)))}</p>\n"
        + (f"<p>Unlike the paper:</p>\n{_list(changes)}" if changes else "<p>This is the paper's protocol.</p>\n")
        + _table(table_classes(data))
        + (f"<p>Remarks on the data:</p>\n{_list(data.remarks)}" if data.remarks else "")
    )


def _protocol_in_words(results: Results) -> Iterable[str]:
    protocol, data = results.protocol, results.data
    known = f"{protocol.n_known} classes, drawn anew for each seed,"
    if data.known is not None:
        known = f"the {len(data.known)} known classes ({', '.join(data.known)})"
    yield (
        f"For each seed, every method learns from the same {number_of(protocol.n_train, 'note')} of each of {known} "
        "drawn at random."
    )
    yield (
        "The other notes follow one another in one test clip, in random order: notes of known classes, to be found and "
        "named, and notes of all other classes, which are out of distribution (OOD)."
    )
    yield (
        "F is measured on sliding windows of 96 samples at 22,050 Hz (4.4 ms), where a note that is found late costs "
        "windows, and at note level, where each note counts as what most of its windows were called."
    )
    if data.grouped:
        yield "Training and test notes never come from the same group: groups that train are not tested on."
    elif not is_synthetic(data):
        yield "The bird or recording of each note is not known, so training and test may share some."


def changes_in_words(protocol: Protocol) -> list[str]:
    """What differs from the experiment of the paper, one phrase for each setting."""
    said = {
        "n_train": f"{protocol.n_train} training notes of each known class instead of {Protocol().n_train}",
        "gap_s": f"{protocol.gap_s:g} s of silence between the test notes instead of none",
        "snr_db": f"white noise in training and test clips, {protocol.snr_db or 0.0:g} dB below the notes",
        "n_known": f"{protocol.n_known} known classes where the data set does not name them",
        "n_unknown": f"{protocol.n_unknown} unknown classes where the data set does not name the known ones",
        "max_test": f"at most {protocol.max_test} test notes of each class",
    }
    return [said[name] for name in protocol.changes()]


def _repeated(results: Results, command: str | None) -> str:
    used = [f"outlark {__version__}", f"Python {platform.python_version()}"]
    used += [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    seeds = ", ".join(map(str, results.seeds))
    typed = f"<pre>{html.escape(command)}</pre>\n" if command else ""
    made_with = html.escape(f"Made with {', '.join(used)} on {platform.platform()}; seeds {seeds}.")
    return f"{typed}<p>{made_with}</p>\n"


def _list(items: Iterable[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(item)}</li>\n" for item in items) + "</ul>\n"
