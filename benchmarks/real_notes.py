"""Real notes: few examples, everything else unknown; outlark's defaults against the paper, its peers and templates.

A draw chooses known classes and a few examples of each; the tasks are in `real_note_tasks`. Columns: F of 5 ms windows
(macro over the classes and the rest), F of labelled notes by the majority of their windows (macro over the classes), F
of events (pooled) from the IoU in the title on, and the median |onset error| of the events that were found. Mean ±
standard error over the draws of a set; draws share recordings, so they are no independent trials and p-values are a
rough guide.

    python benchmarks/real_notes.py                                          # everything
    python benchmarks/real_notes.py --draws 3 --sets clo-flight-calls        # a quick look
    python benchmarks/real_notes.py --examples 2 5 --csv a.csv               # every draw is kept as soon as it is done
    python benchmarks/real_notes.py --join a.csv b.csv                       # the tables of both
"""

import argparse
import csv
import functools
import operator
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed
from real_note_tasks import TASKS, Draw, Recording, TooFewError, data_folder, draw
from rival_detectors import METHODS, LearntNoteDetector, TemplateMatching
from scipy.stats import wilcoxon
from threadpoolctl import threadpool_limits

import outlark
from outlark import PKNN
from outlark.detection.detector import NoteDetector
from outlark.embeddings import BirdNET, is_there
from outlark.metrics import EventScores, event_f, match_events, note_f, note_labels, window_f
from outlark.metrics.windows import aligned_table
from outlark.paper.detector import FrameDetector
from outlark.paper.experiment.dataset import OOD
from outlark.paper.experiment.run import events_of, inside, labels_at
from outlark.segments import Segment

WINDOW_S = 0.005
EXAMPLES, DRAWS = 5, 20
OURS = "default"
Table = list[list[str]]


def _two_stages() -> NoteDetector:
    return NoteDetector(embedding=BirdNET(output="species"))


ROWS: dict[str, tuple[str, Callable[[], Any]]] = {
    "paper": ("literal paper", FrameDetector.paper),
    "paper-pknn": ("literal paper, PKNN", lambda: FrameDetector.paper(PKNN.paper())),
    OURS: ("outlark, defaults", NoteDetector),
    "trained": ("outlark, thresholds of training", NoteDetector),
    **({"two-stages": ("outlark, then BirdNET", _two_stages)} if is_there() else {}),
    "pknn": ("note-level, PKNN", lambda: LearntNoteDetector(PKNN())),
    "knn": ("note-level, k-NN", METHODS["knn"].make),
    "svm": ("note-level, one-class SVM", METHODS["svm"].make),
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


class Key(NamedTuple):
    """What measures are of; they are the same, but for the time it took, whenever this is."""

    set: str
    examples: int
    draw: int
    row: str


Results = dict[Key, Measures]
HEAD = (*Key._fields, *Measures._fields)
#: Title → digits, in the order of `Measures`.
COLUMNS = {"window F": 3, "note F": 3, "event F": 3, "onset, ms": 1}


class Part(NamedTuple):
    """One test recording: true and found label of its windows, those found in each note, events, |onset errors|."""

    true: np.ndarray
    found: np.ndarray
    of_notes: list[np.ndarray]
    events: EventScores
    onsets: np.ndarray


def compare(recording: Recording, segments: Sequence[Segment], classes: Sequence[str], min_iou: float) -> Part:
    """What was found against what is there. A segment counts for its label when it is known or ambiguous."""
    notes = [s for s in segments if s.verdict in ("known", "ambiguous")]
    wanted = [s for s in recording.segments if s.label in classes]
    times = (np.arange(int(len(recording.samples) / recording.rate / WINDOW_S)) + 0.5) * WINDOW_S
    scored = ~np.any([np.zeros(len(times), dtype=bool), *(inside(times, s) for s in recording.left_out)], axis=0)
    answers = labels_at(times, notes)
    # notes may overlap: each votes with its own windows
    of_notes = [answers[scored & inside(times, s)] for s in recording.segments]
    reference, estimated = events_of(wanted), events_of(s for s in notes if not _is_left_out(s, recording))
    pairs = match_events(reference, estimated, min_iou)
    return Part(
        labels_at(times, wanted)[scored],
        answers[scored],
        of_notes,
        event_f(reference, estimated, min_iou, classes=classes),
        np.abs(estimated.starts[pairs.estimated] - reference.starts[pairs.reference]),
    )


def measure(drawn: Draw, found: Sequence[Sequence[Segment]], seconds: float) -> Measures:
    """The measures of what was found in each test recording."""
    parts = [compare(r, s, drawn.classes, drawn.min_iou) for r, s in zip(drawn.test, found, strict=True)]
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
            if row == OURS and len(drawn.test) > 1:  # as `outlark detect` does with a folder
                detector.calibrate([r.samples for r in drawn.test], [r.rate for r in drawn.test])
            segments = [detector.detect(r.samples, r.rate) for r in drawn.test]
            found.append(measure(drawn, segments, time.process_time() - start))
    return found


def run(jobs: Sequence[tuple[str, int, int]], rows: Sequence[str], n_jobs: int) -> Iterator[Results]:
    """Draw after draw, for (set, draw, examples)."""
    with Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        calls = (delayed(run_draw)(*job, rows) for job in jobs)
        for number, ((task, seed, n), found) in enumerate(zip(jobs, parallel(calls), strict=True), 1):
            print(f"{number} of {len(jobs)}: {task}, {n} examples, draw {seed}", file=sys.stderr, flush=True)
            yield {Key(task, n, seed, row): measures for row, measures in zip(rows, found, strict=True)}


def possible(sets: Sequence[str], examples: Sequence[int], n_draws: int) -> list[tuple[str, int, int]]:
    """The jobs of `run`, without sets that do not hold so many examples, which is said."""
    jobs = []
    for n in examples:
        for task in sets:
            try:
                for seed in range(n_draws):
                    draw(task, seed, n)
            except TooFewError as error:
                print(f"{task} is left out with {n} examples: {error}")
            else:
                jobs += [(task, seed, n) for seed in range(n_draws)]
    return jobs


def draws_of(results: Results, examples: int, task: str, row: str | None = None) -> list[int]:
    """The draws there are of a set, by any row or by this one."""
    keys = (k for k in results if (k.set, k.examples) == (task, examples) and row in (None, k.row))
    return sorted({k.draw for k in keys})


def values_of(results: Results, examples: int, task: str, row: str) -> np.ndarray:
    """Measures (n_draws, n_measures)."""
    return np.array([results[Key(task, examples, d, row)] for d in draws_of(results, examples, task, row)])


def results_table(results: Results, examples: int, task: str, rows: Iterable[str]) -> Table:
    """Mean ± standard error over the draws of one set."""
    table = [["", *COLUMNS, "CPU s"]]
    for row in rows:
        values = values_of(results, examples, task, row)
        if len(values):
            cells = [mean_text(values[:, m], digits) for m, digits in enumerate(COLUMNS.values())]
            table.append([ROWS[row][0], *cells, f"{values[:, -1].mean():.1f}"])
    return table


def missing(results: Results, examples: int, task: str, rows: Iterable[str]) -> list[str]:
    """A line for each row that does not have all draws that another one has."""
    of_set = draws_of(results, examples, task)
    lines = []
    for row in rows:
        absent = sorted(set(of_set) - set(draws_of(results, examples, task, row)))
        if absent:
            which = "all" if absent == of_set else ", ".join(map(str, absent))
            lines.append(f"{ROWS[row][0]}: draws missing ({which}), paired only with rows that have the same draws")
    return lines


def mean_text(values: np.ndarray, digits: int = 3) -> str:
    there = values[~np.isnan(values)]
    if not len(there):
        return "-"
    error = f" ± {there.std(ddof=1) / np.sqrt(len(there)):.{digits}f}" if len(there) > 1 else ""
    return f"{there.mean():.{digits}f}{error}"


def paired_table(results: Results, measure: int, examples: int, sets: Sequence[str], rows: Iterable[str]) -> Table:
    """Defaults less every other row, draw by draw, with Wilcoxon's p; for each set and for all draws together.

    The sets of a family are not put together: their draws are the same.
    """
    family = TASKS[sets[0]].family
    table = [["defaults less …", *(s.removeprefix(f"{family}-") for s in sets), *([] if family else ["all sets"])]]
    for row in rows:
        if row != OURS:
            differences = [differences_of(results, measure, examples, s, row) for s in sets]
            together = [] if family else [_together(differences)]
            table.append([ROWS[row][0], *map(difference_text, [*differences, *together])])
    return table


def differences_of(results: Results, measure: int, examples: int, task: str, row: str) -> np.ndarray | None:
    """Defaults less the row; None unless both have the same draws."""
    draws = draws_of(results, examples, task, OURS)
    if not draws or draws != draws_of(results, examples, task, row):
        return None
    ours, other = (values_of(results, examples, task, r)[:, measure] for r in (OURS, row))
    return ours - other


def _together(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None


def difference_text(differences: np.ndarray | None) -> str:
    if differences is None:
        return "-"
    p = wilcoxon(differences).pvalue if np.any(differences) else 1.0
    return f"{differences.mean():+.3f} (p {p:.2g})"


def start_csv(path: Path) -> None:
    """A file with nothing but its head; never in place of results that are there."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow(HEAD)
    except FileExistsError as error:
        raise SystemExit(f"{path} is there already; give another name, and --join both afterwards") from error


def append_csv(path: Path, results: Results) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([*key, *measures] for key, measures in results.items())


def read_csv(path: Path) -> Results:
    """What `append_csv` wrote; ends the program for anything else."""
    if not path.is_file():
        raise SystemExit(f"{path} does not exist; give a file that --csv wrote")
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = [*csv.reader(file)] or [[]]
    if tuple(head) != HEAD:
        raise SystemExit(f"{path} has the columns {','.join(head)}, not {','.join(HEAD)}; run it again")
    found = {}
    for number, line in enumerate(lines, 2):
        try:
            name, examples, seed, row, *values = line
            key, measures = Key(name, int(examples), int(seed), row), Measures(*map(float, values))
        except (TypeError, ValueError) as error:
            raise SystemExit(f"{path}, line {number}: {','.join(line)} is cut short; take the line out") from error
        if name not in TASKS or row not in ROWS:
            raise SystemExit(f"{path}, line {number}: no set {name} or no row {row} here; take such lines out")
        found[key] = measures
    return found


def joined(paths: Iterable[Path]) -> Results:
    """The results of all files, each of which is told; ends the program where two do not agree."""
    results: Results = {}
    for path in paths:
        found = read_csv(path)
        parts = [dict.fromkeys(getattr(key, field) for key in found) for field in Key._fields]
        sets, examples, draws, rows = (", ".join(map(str, part)) for part in parts)
        print(f"{path}: {sets}; {rows}; {examples} examples; draws {draws}")
        for key in results.keys() & found.keys():
            if not np.allclose(results[key][:-1], found[key][:-1], equal_nan=True):
                raise SystemExit(f"{path} differs from a file before it in {key}; leave out the older one")
        results = found | results
    return results


def versions_text() -> str:
    versions = {"Python": platform.python_version()} | {
        m.__name__: m.__version__ for m in (outlark, np, scipy, sklearn)
    }
    return ", ".join(f"{name} {version}" for name, version in versions.items())


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
    parser.add_argument("--draws", type=int, help=f"per set, seeds 0, 1, … (default {DRAWS})")
    parser.add_argument("--examples", type=int, nargs="+", metavar="N", help=f"of each class (default {EXAMPLES})")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one BLAS thread (default 2)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write every single number to this new file")
    parser.add_argument(
        "--join", type=Path, nargs="+", metavar="FILE", help="run nothing: show what --csv wrote, all of it or a part"
    )
    parser.add_argument("--markdown", action="store_true", help="print markdown tables")
    options = parser.parse_args(arguments)
    if options.join and options.csv:
        parser.error("--join runs nothing that --csv could write")
    return options


def computed(options: argparse.Namespace) -> Results:
    """Runs everything that is asked for."""
    data_folder()
    if options.csv:
        start_csv(options.csv)
    print(versions_text())
    results: Results = {}
    jobs = possible(options.sets, options.examples or [EXAMPLES], options.draws or DRAWS)
    for of_draw in run(jobs, options.rows, options.jobs):
        results |= of_draw
        if options.csv:
            append_csv(options.csv, of_draw)
    return results


def chosen(results: Results, options: argparse.Namespace) -> Results:
    """Those of the sets, rows, examples and draws that are asked for."""
    return {
        key: measures
        for key, measures in results.items()
        if key.set in options.sets
        and key.row in options.rows
        and key.examples in (options.examples or [key.examples])
        and (options.draws is None or key.draw < options.draws)
    }


def show(results: Results, examples: int, options: argparse.Namespace) -> None:
    """All tables for one number of examples."""
    sets = [name for name in options.sets if draws_of(results, examples, name)]
    rows = [row for row in options.rows if any(key.row == row for key in results)]
    for name in sets:
        draws = draws_of(results, examples, name)
        title = f"{name}, {examples} examples, {len(draws)} draws, events at IoU {TASKS[name].min_iou:g}"
        print(as_text(title, results_table(results, examples, name, rows), options.markdown), end="\n\n")
        for line in missing(results, examples, name, rows):
            print(line, end="\n\n")
    if OURS not in rows or len(rows) < 2:
        return
    for m, column in enumerate(list(COLUMNS)[:3]):
        for family in dict.fromkeys(TASKS[name].family for name in sets):
            table = paired_table(results, m, examples, [s for s in sets if TASKS[s].family == family], rows)
            title = ", ".join([column, "paired", f"{examples} examples", *([family] if family else [])])
            print(as_text(title, table, options.markdown), end="\n\n")


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    print(" ".join(["python benchmarks/real_notes.py", *arguments]))
    results = chosen(joined(options.join) if options.join else computed(options), options)
    if not results:
        raise SystemExit("there is nothing to show; ask for other sets, rows, examples or draws")
    print()
    for examples in sorted({key.examples for key in results}):
        show(results, examples, options)


if __name__ == "__main__":
    main(sys.argv[1:])
