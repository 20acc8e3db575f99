"""Real notes: few examples, everything else unknown; outlark's defaults against the paper, its peers and templates.

A draw chooses known classes and a few examples of each; the tasks are in `real_note_tasks`. Columns: F of 5 ms windows
(macro over the classes and the rest), F of labelled notes by the majority of their windows (macro over the classes), F
of events at IoU .5 (pooled), and the median |onset error| of the events that were found. Mean ± standard error over the
draws of a set; draws share recordings, so they are no independent trials and p-values are a rough guide.

    python benchmarks/real_notes.py                                          # everything
    python benchmarks/real_notes.py --draws 3 --sets clo-flight-calls        # a quick look
"""

import argparse
import csv
import functools
import operator
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed
from real_note_tasks import TASKS, Draw, Recording, data_folder, draw
from scipy.stats import wilcoxon
from threadpoolctl import threadpool_limits

import outlark
from outlark import PKNN
from outlark.experiment.methods import method
from outlark.experiment.outcome import OOD, events_of, inside, labels_at
from outlark.experiment.template_matching import TemplateMatching
from outlark.metrics import EventScores, event_f, match_events, note_f, note_labels, window_f
from outlark.metrics.confusion import aligned_table
from outlark.notes.detector import NoteDetector
from outlark.notes.segments import Segment

WINDOW_S, MIN_IOU = 0.005, 0.5
OURS = "default"
Table = list[list[str]]


ROWS: dict[str, tuple[str, Callable[[], Any]]] = {
    "paper": ("literal paper", NoteDetector.paper),
    "paper-pknn": ("literal paper, PKNN", lambda: NoteDetector.paper(PKNN.paper())),
    OURS: ("outlark, defaults", NoteDetector),
    "pknn": ("whole notes, PKNN", lambda: NoteDetector(describer=PKNN())),
    "knn": ("whole notes, k-NN", method("knn").make),
    "svm": ("whole notes, one-class SVM", method("svm").make),
    "templates": ("template matching", TemplateMatching),
    "templates-hand": ("template matching, .6 by hand", lambda: TemplateMatching(threshold=0.6)),
}


class Measures(NamedTuple):
    """Of one row on one draw; the onset error is NaN when no event was found."""

    window_f: float
    note_f: float
    event_f: float
    onset_ms: float
    seconds: float


#: Title → digits, in the order of `Measures`.
COLUMNS = {"window F": 3, "note F": 3, "event F": 3, "onset, ms": 1}


class Part(NamedTuple):
    """One test recording: true and found label of its windows, those found in each note, events, |onset errors|."""

    true: np.ndarray
    found: np.ndarray
    of_notes: list[np.ndarray]
    events: EventScores
    onsets: np.ndarray


def compare(recording: Recording, segments: Sequence[Segment], classes: Sequence[str]) -> Part:
    """What was found against what is there. A segment counts for its label when it is known or ambiguous."""
    notes = [s for s in segments if s.verdict in ("known", "ambiguous")]
    wanted = [s for s in recording.segments if s.label in classes]
    times = (np.arange(int(len(recording.samples) / recording.rate / WINDOW_S)) + 0.5) * WINDOW_S
    scored = ~np.any([np.zeros(len(times), dtype=bool), *(inside(times, s) for s in recording.left_out)], axis=0)
    answers = labels_at(times, notes)
    # notes may overlap: each votes with its own windows
    of_notes = [answers[scored & inside(times, s)] for s in recording.segments]
    reference, estimated = events_of(wanted), events_of(s for s in notes if not _is_left_out(s, recording))
    pairs = match_events(reference, estimated, MIN_IOU)
    return Part(
        labels_at(times, wanted)[scored],
        answers[scored],
        of_notes,
        event_f(reference, estimated, MIN_IOU, classes=classes),
        np.abs(estimated.starts[pairs.estimated] - reference.starts[pairs.reference]),
    )


def measure(drawn: Draw, found: Sequence[Sequence[Segment]], seconds: float) -> Measures:
    """The measures of what was found in each test recording."""
    parts = [compare(r, segments, drawn.classes) for r, segments in zip(drawn.test, found, strict=True)]
    true, answers = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    of_notes = [labels for part in parts for labels in part.of_notes]
    numbers = np.repeat(np.arange(len(of_notes)), [len(labels) for labels in of_notes])
    votes = note_labels(np.concatenate(of_notes), numbers, drawn.classes, OOD, n_notes=len(of_notes))
    events = functools.reduce(operator.add, (part.events for part in parts))
    onsets = np.concatenate([part.onsets for part in parts])
    return Measures(
        window_f(true, answers, drawn.classes, OOD).macro_all,
        note_f([s.label for r in drawn.test for s in r.segments], votes, drawn.classes, OOD).macro_known,
        events.pooled.f,
        1000 * float(np.median(onsets)) if len(onsets) else np.nan,
        seconds,
    )


def _is_left_out(s: Segment, recording: Recording) -> bool:
    """Whether more than half of it lies in a span that is not scored."""
    shared = [min(s.end_s, out.end_s) - max(s.start_s, out.start_s) for out in recording.left_out]
    return max(shared, default=0.0) > s.duration_s / 2


def run_draw(task: str, seed: int, n_examples: int, rows: Sequence[str]) -> list[Measures]:
    """All rows on one draw, one thread each."""
    drawn, found = draw(task, seed, n_examples), []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # single notes, where there are no more
        for row in rows:
            start = time.process_time()
            detector = drawn.fit(ROWS[row][1]())
            segments = [detector.detect(r.samples, r.rate) for r in drawn.test]
            found.append(measure(drawn, segments, time.process_time() - start))
    return found


def run(sets: Sequence[str], rows: Sequence[str], n_draws: int, n_examples: int, n_jobs: int) -> np.ndarray:
    """Measures (n_sets, n_draws, n_rows, n_measures)."""
    jobs = [(task, seed) for task in sets for seed in range(n_draws)]
    results = []
    with Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        calls = (delayed(run_draw)(task, seed, n_examples, rows) for task, seed in jobs)
        for (task, seed), result in zip(jobs, parallel(calls), strict=True):
            results.append(result)
            print(f"{task}, draw {seed + 1} of {n_draws}", file=sys.stderr, flush=True)
    return np.array(results).reshape(len(sets), n_draws, len(rows), -1)


def results_table(values: np.ndarray, rows: Sequence[str]) -> Table:
    """Mean ± standard error over the draws of one set, from (n_draws, n_rows, n_measures)."""
    table = [["", *COLUMNS, "CPU s"]]
    for r, row in enumerate(rows):
        cells = [_mean(values[:, r, m], digits) for m, digits in enumerate(COLUMNS.values())]
        table.append([ROWS[row][0], *cells, f"{values[:, r, -1].mean():.1f}"])
    return table


def _mean(values: np.ndarray, digits: int) -> str:
    there = values[~np.isnan(values)]
    if not len(there):
        return "-"
    error = f" ± {there.std(ddof=1) / np.sqrt(len(there)):.{digits}f}" if len(there) > 1 else ""
    return f"{there.mean():.{digits}f}{error}"


def paired_table(values: np.ndarray, measure: int, sets: Sequence[str], rows: Sequence[str]) -> Table:
    """Defaults less every other row, draw by draw, with Wilcoxon's p; for each set and for all draws together."""
    table = [["defaults less …", *sets, "all sets"]]
    for r, row in enumerate(rows):
        if row != OURS:
            differences = values[:, :, list(rows).index(OURS), measure] - values[:, :, r, measure]
            table.append([ROWS[row][0], *(_difference(d) for d in [*differences, differences.ravel()])])
    return table


def _difference(differences: np.ndarray) -> str:
    p = wilcoxon(differences).pvalue if np.any(differences) else 1.0
    return f"{differences.mean():+.3f} (p {p:.2g})"


def write_csv(path: Path, values: np.ndarray, sets: Sequence[str], rows: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["set", "draw", "row", *Measures._fields])
        for (s, seed, r), _ in np.ndenumerate(values[..., 0]):
            writer.writerow([sets[s], seed, rows[r], *values[s, seed, r].tolist()])


def as_text(title: str, table: Table, markdown: bool) -> str:
    if not markdown:
        return f"{title}\n{aligned_table(table)}"
    head, *body = table
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(TASKS), default=list(TASKS), metavar="SET")
    parser.add_argument(
        "--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW", help=", ".join(ROWS)
    )
    parser.add_argument("--draws", type=int, default=20, help="per set, seeds 0, 1, … (default 20)")
    parser.add_argument("--examples", type=int, default=5, help="of each known class (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one BLAS thread (default 2)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write every single number here")
    parser.add_argument("--markdown", action="store_true", help="print markdown tables")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    data_folder()
    sets, rows = options.sets, options.rows
    values = run(sets, rows, options.draws, options.examples, options.jobs)
    print(" ".join(["python benchmarks/real_notes.py", *arguments]))
    versions = {"Python": platform.python_version()} | {
        m.__name__: m.__version__ for m in (outlark, np, scipy, sklearn)
    }
    print(*(f"{name} {version}" for name, version in versions.items()), sep=", ")
    print(f"{options.examples} examples of each class, seeds 0 to {options.draws - 1}\n")
    for name, of_set in zip(sets, values, strict=True):
        print(as_text(name, results_table(of_set, rows), options.markdown), end="\n\n")
    if OURS in rows and len(rows) > 1:
        for m, title in enumerate(list(COLUMNS)[:3]):
            print(as_text(f"{title}, paired", paired_table(values, m, sets, rows), options.markdown), end="\n\n")
    if options.csv:
        write_csv(options.csv, values, sets, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
