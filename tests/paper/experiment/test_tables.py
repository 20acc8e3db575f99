"""Tables against loops over windows and notes."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from outlark.data.synthetic import KNOWN_CLASSES
from outlark.paper.experiment.dataset import Protocol, draw
from outlark.paper.experiment.report import MISSING, PAPER, table_1, table_2, table_classes, table_tests
from outlark.paper.experiment.run import Results, outcome, window_times
from tests.paper.experiment.example_results import (
    DETECTORS,
    SMALL,
    renamed,
    run,
    synthetic,
    with_mistakes,
    without_known,
)


def called(segments, time_s):
    said = [s.label for s in segments if s.verdict in ("known", "ambiguous") and s.start_s <= time_s < s.end_s]
    return said[-1] if said else "OOD"


def window_pairs(drawn, segments):
    for time_s in window_times(len(drawn.audio) / drawn.sample_rate).tolist():
        (true,) = [s.label for s in drawn.truth if s.start_s <= time_s < s.end_s] or ["OOD"]
        yield (true if true in drawn.known else "OOD"), called(segments, time_s)


def note_pairs(drawn, segments):
    times = window_times(len(drawn.audio) / drawn.sample_rate).tolist()
    order = [*drawn.known, "OOD"]
    for note in drawn.truth:
        votes = Counter(called(segments, time_s) for time_s in times if note.start_s <= time_s < note.end_s)
        yield note.label, max(order, key=lambda label: (votes[label], -order.index(label)))


def f_of(pairs, label):
    hits = sum(true == answer == label for true, answer in pairs)
    wrong = sum((true == label) != (answer == label) for true, answer in pairs)
    return 2 * hits / (2 * hits + wrong) if hits + wrong else math.nan


def cells_of(table, level, name):
    """The cells of the row of a method at a level, by head; without the mark of the best."""
    (row,) = [row for row in table.rows if row[:2] == (level, name)]
    return {head: cell.rstrip(" *") for head, cell in zip(table.rows[0], row, strict=True)}


def is_of_the_paper(row):
    return row[1].startswith("the paper")


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [one.name for one in DETECTORS])
def test_table_1_counts_the_notes(method):
    results, found = run()
    table = table_1(results, method, 2)
    counts = Counter(note_pairs(*found[method, 2]))
    totals = Counter(note.label for note in found[method, 2][0].truth)
    assert table.rows[0] == ("true class", "role", *KNOWN_CLASSES, "OOD")
    assert [row[0] for row in table.rows if row[1] == "known"] == list(KNOWN_CLASSES)
    for row in table.rows[1:]:
        right = row[0] if row[0] in KNOWN_CLASSES else "OOD"
        for column, cell in zip(table.rows[0][2:], row[2:], strict=True):
            n = counts[row[0], column]
            assert cell == (f"{n}/{totals[row[0]]}" if column == right else str(n))


@pytest.mark.parametrize("method", DETECTORS, ids=lambda one: one.name)
def test_table_2_holds_the_means_over_the_seeds(method):
    results, found = run()
    table = table_2(results)
    for level, pairs in {"window": window_pairs, "note": note_pairs}.items():
        row = cells_of(table, level, method.title)
        by_seed = []
        for seed in results.seeds:
            drawn, segments = found[method.name, seed]
            answers = [(true if true in KNOWN_CLASSES else "OOD", said) for true, said in pairs(drawn, segments)]
            by_seed.append([f_of(answers, label) for label in (*KNOWN_CLASSES, "OOD")])
        for c, label in enumerate((*KNOWN_CLASSES, "OOD")):
            assert row[label] == f"{np.mean([f[c] for f in by_seed]):.3f}"
        for head, last in (("macro, known", 3), ("macro, with OOD", 4)):
            means = [np.mean(f[:last]) for f in by_seed]
            assert row[head] == f"{np.mean(means):.3f} ± {np.std(means, ddof=1) / math.sqrt(3):.3f}"


def test_the_best_of_each_column_is_marked_and_the_paper_is_never_the_best():
    table = table_2(run()[0])
    for level in ("window", "note"):
        ours = [row for row in table.rows if row[0] == level and not is_of_the_paper(row)]
        for cells in list(zip(*ours, strict=True))[2:]:
            numbers = [float(cell.split(" ")[0].rstrip("*")) for cell in cells]
            assert [cell.endswith("*") for cell in cells] == [n == max(numbers) for n in numbers]
    assert "*" not in "".join(cell for row in table.rows if is_of_the_paper(row) for cell in row)


def test_paired_tests():
    results, _ = run()
    table = table_tests(results, "mddkm")
    assert [row[0] for row in table.rows[1:]] == ["literal", "PKNN"]
    for row, other in zip(table.rows[1:], ("mddkm-paper", "pknn-paper"), strict=True):
        for level, (difference, t_p, _) in zip(("window", "note"), (row[1:4], row[4:7]), strict=True):
            ours, theirs = (
                [one.overall(level) for one in results.outcomes if one.method == m] for m in ("mddkm", other)
            )
            assert difference == f"{np.mean(ours) - np.mean(theirs):+.3f}"
            p = ttest_rel(ours, theirs).pvalue if ours != theirs else 1.0
            assert t_p == ("< 0.001" if p < 0.001 else f"{p:.3f}")


def test_classes_have_counts_roles_and_groups():
    data = synthetic()
    assert ("tuti-D", "known", "15", MISSING) in table_classes(data).rows
    assert ("cach-E", "unknown", "10", MISSING) in table_classes(data).rows
    grouped = replace(data, notes=tuple(replace(note, group=f"bird {i % 4}") for i, note in enumerate(data.notes)))
    assert ("cach-E", "unknown", "10", "4") in table_classes(grouped).rows


# --- the paper's own figures ----------------------------------------------------------------------------------------


def test_the_figures_of_the_paper_stand_apart():
    table = table_2(with_mistakes(synthetic(), Protocol()))
    for level, overall, other in [
        ("window", "macro, with OOD", "macro, known"),
        ("note", "macro, known", "macro, with OOD"),
    ]:
        for name, (*classes, whole) in PAPER[level].items():
            row = cells_of(table, level, f"the paper, {name} (its own recordings)")
            assert [row[label] for label in (*KNOWN_CLASSES, "OOD")] == [
                MISSING if f is None else f"{f:.2f}" for f in classes
            ]
            assert (row[overall], row[other]) == (f"{whole:.2f}", MISSING)
    assert "not public" in " ".join(table.notes)


def test_other_classes_have_only_the_overall_of_the_paper():
    row = cells_of(table_2(with_mistakes(without_known())), "window", "the paper, MDD-KM (its own recordings)")
    assert (row["OOD"], row["macro, with OOD"]) == (MISSING, "0.85")


def test_other_data_are_not_shown_beside_the_paper():
    assert not any(map(is_of_the_paper, table_2(with_mistakes(renamed({}), Protocol())).rows))
    changed = table_2(with_mistakes(synthetic()))
    assert "without the changes" in " ".join(changed.notes)
    assert "without the changes" not in " ".join(table_2(with_mistakes(synthetic(), Protocol())).notes)


# --- odd results ----------------------------------------------------------------------------------------------------


def test_known_classes_that_differ_from_seed_to_seed():
    results = with_mistakes(without_known(), seeds=(1, 2, 3))
    assert len({one.known for one in results.outcomes}) > 1
    assert table_2(results).rows[0] == ("level", "method", "OOD", "macro, known", "macro, with OOD")
    table = table_1(results, "mddkm", 2)
    known = next(one.known for one in results.outcomes if one.seed == 2)
    assert table.rows[0][2:] == (*known, "OOD")
    assert [row[0] for row in table.rows[1:4]] == list(known)
    assert [row[1] for row in table.rows].count("known") == 3
    assert {row[1] for row in table_classes(results.data).rows[1:]} == {"drawn anew for each seed"}


def test_a_single_seed_has_no_error_and_no_test():
    results = with_mistakes(synthetic(), seeds=(5,))
    assert "±" not in "".join(cell for row in table_2(results).rows for cell in row)
    _, row = table_tests(results, "mddkm").rows
    assert row[2] == row[3] == row[5] == row[6] == MISSING
    assert row[1] != MISSING


def test_a_category_without_notes_prints_a_dash():
    data = synthetic()
    only_known = replace(data, notes=tuple(note for note in data.notes if note.label in KNOWN_CLASSES))
    outcomes = []
    for seed in (1, 2):
        drawn = draw(only_known, SMALL, seed)
        outcomes += [outcome(one.name, seed, drawn, drawn.truth) for one in DETECTORS]
    results = Results(data=only_known, protocol=SMALL, methods=DETECTORS, seeds=(1, 2), outcomes=outcomes)
    table = table_2(results)
    for level in ("window", "note"):
        row = cells_of(table, level, "literal")
        assert row["OOD"] == MISSING
        assert row["macro, known"] == "1.000 ± 0.000"
    assert {row[1] for row in table_1(results, "mddkm", 1).rows[1:]} == {"known"}
