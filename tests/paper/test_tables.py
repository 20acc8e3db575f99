"""Tables against loops over windows and notes."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import ttest_rel

from outlark.data.synthetic import KNOWN
from outlark.errors import InputError
from outlark.paper.protocol import Protocol, draw
from outlark.paper.results import Results, outcome, window_times
from outlark.paper.tables import NOTHING, PAPER, table_1, table_2, table_classes, table_learnt, table_tests
from tests.paper.example_results import DETECTORS, SMALL, renamed, run, synthetic, with_mistakes, without_known


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


def cells_of(table, name, block=0):
    """The cells of the row with this name in the block of this number, by head."""
    starts = [*sorted(table.blocks), len(table.rows)] if table.blocks else [0, len(table.rows)]
    rows = table.rows[starts[block] : starts[block + 1]]
    (row,) = [row for row in rows if row[0] == name]
    return dict(zip(table.head, row, strict=True))


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [one.name for one in DETECTORS])
def test_table_1_counts_the_notes(method):
    results, found = run()
    table = table_1(results, method, 2)
    counts = Counter(note_pairs(*found[method, 2]))
    totals = Counter(note.label for note in found[method, 2][0].truth)
    assert table.head == ("true class", *KNOWN, "OOD")
    assert [row[0] for row in table.rows[: min(table.lines)]] == list(KNOWN)
    for row in table.rows:
        right = row[0] if row[0] in KNOWN else "OOD"
        for column, cell in zip(table.head[1:], row[1:], strict=True):
            n = counts[row[0], column]
            assert cell == (f"{n}/{totals[row[0]]}" if column == right else str(n))


@pytest.mark.parametrize("method", DETECTORS, ids=lambda one: one.name)
def test_table_2_holds_the_means_over_the_seeds(method):
    results, found = run()
    table = table_2(results)
    for block, pairs in enumerate((window_pairs, note_pairs)):
        row = cells_of(table, method.title, block)
        by_seed = []
        for seed in results.seeds:
            drawn, segments = found[method.name, seed]
            answers = [(true if true in KNOWN else "OOD", said) for true, said in pairs(drawn, segments)]
            by_seed.append([f_of(answers, label) for label in (*KNOWN, "OOD")])
        for c, label in enumerate((*KNOWN, "OOD")):
            assert row[label] == f"{np.mean([f[c] for f in by_seed]):.3f}"
        for head, last in (("macro, known", 3), ("macro, with OOD", 4)):
            means = [np.mean(f[:last]) for f in by_seed]
            assert row[head] == f"{np.mean(means):.3f} ± {np.std(means, ddof=1) / math.sqrt(3):.3f}"


def test_the_best_of_each_column_is_marked_and_the_paper_is_never_the_best():
    table = table_2(run()[0])
    edges = [*sorted(table.blocks), len(table.rows)]
    for start, end in pairwise(edges):
        ours = [i for i in range(start + 1, end) if i not in table.apart]
        for c in range(1, len(table.head)):
            numbers = {i: float(table.rows[i][c].split(" ")[0]) for i in ours}
            assert {i for i in numbers if (i, c) in table.best} == {
                i for i, n in numbers.items() if n == max(numbers.values())
            }
    assert not {i for i, _ in table.best} & table.apart


def test_one_method_alone_is_not_called_the_best():
    assert not table_2(with_mistakes(synthetic(), methods=[("mddkm", "ours")])).best


def test_paired_tests():
    results, _ = run()
    table = table_tests(results, "mddkm")
    assert [row[0] for row in table.rows] == ["literal", "template matching"]
    for row, other in zip(table.rows, ("mddkm-paper", "templates"), strict=True):
        for level, (difference, t_p, _) in zip(("window", "note"), (row[1:4], row[4:7]), strict=True):
            ours, theirs = (
                [one.overall(level) for one in results.outcomes if one.method == m] for m in ("mddkm", other)
            )
            assert difference == f"{np.mean(ours) - np.mean(theirs):+.3f}"
            p = ttest_rel(ours, theirs).pvalue if ours != theirs else 1.0
            assert t_p == ("< 0.001" if p < 0.001 else f"{p:.3f}")


def test_learnt_settings_have_median_and_range():
    table = table_learnt(with_mistakes(synthetic(), seeds=(1, 2, 6)))
    assert ("ℓ", "4", "2", "12", "3") in table.rows
    assert ("threshold, tuti-F", "2.25", "1.25", "6.25", "3") in table.rows
    assert [table.rows[i][0] for i in sorted(table.blocks)] == ["ours", "theirs"]


def test_classes_have_counts_roles_and_groups():
    data = synthetic()
    assert ("tuti-D", "known", "15") in table_classes(data).rows
    assert ("cach-E", "unknown", "10") in table_classes(data).rows
    grouped = replace(data, notes=tuple(replace(note, group=f"bird {i % 4}") for i, note in enumerate(data.notes)))
    assert ("cach-E", "unknown", "10", "4") in table_classes(grouped).rows


# --- the paper's own figures ----------------------------------------------------------------------------------------


def test_the_figures_of_the_paper_stand_apart():
    table = table_2(with_mistakes(synthetic(), Protocol()))
    for block, (level, overall, other) in enumerate(
        [("window", "macro, with OOD", "macro, known"), ("note", "macro, known", "macro, with OOD")]
    ):
        for name, (*classes, whole) in PAPER[level].items():
            row = cells_of(table, f"the paper, {name} (its own recordings)", block)
            assert [row[label] for label in (*KNOWN, "OOD")] == [NOTHING if f is None else f"{f:.2f}" for f in classes]
            assert (row[overall], row[other]) == (f"{whole:.2f}", NOTHING)
    assert {table.rows[i][0] for i in table.apart} == {
        f"the paper, {n} (its own recordings)" for n in ("MDD-KM", "PKNN")
    }
    assert "not public" in " ".join(table.notes)


def test_other_classes_have_only_the_overall_of_the_paper():
    row = cells_of(table_2(with_mistakes(without_known())), "the paper, MDD-KM (its own recordings)")
    assert (row["OOD"], row["macro, with OOD"]) == (NOTHING, "0.85")


def test_other_data_are_not_shown_beside_the_paper():
    assert not table_2(with_mistakes(renamed({}))).apart
    assert not table_2(with_mistakes(renamed({}), Protocol())).apart
    assert table_2(with_mistakes(synthetic(), Protocol())).apart
    changed = table_2(with_mistakes(synthetic()))
    assert "without the changes" in " ".join(changed.notes)
    assert "without the changes" not in " ".join(table_2(with_mistakes(synthetic(), Protocol())).notes)


# --- odd results ----------------------------------------------------------------------------------------------------


def test_known_classes_that_differ_from_seed_to_seed():
    results = with_mistakes(without_known(), seeds=(1, 2, 3))
    assert len({one.known for one in results.outcomes}) > 1
    assert table_2(results).head == ("method", "OOD", "macro, known", "macro, with OOD")
    table = table_1(results, "mddkm", 2)
    known = next(one.known for one in results.outcomes if one.seed == 2)
    assert table.head[1:] == (*known, "OOD")
    assert [row[0] for row in table.rows[:3]] == list(known)
    assert table.lines == {3}
    assert {row[1] for row in table_classes(results.data).rows} == {"drawn anew for each seed"}


def test_a_single_seed_has_no_error_and_no_test():
    results = with_mistakes(synthetic(), seeds=(5,))
    assert "±" not in "".join(cell for row in table_2(results).rows for cell in row)
    (row,) = table_tests(results, "mddkm").rows
    assert row[2] == row[3] == row[5] == row[6] == NOTHING
    assert row[1] != NOTHING


def test_a_category_without_notes_prints_a_dash():
    data = synthetic()
    only_known = replace(data, notes=tuple(note for note in data.notes if note.label in KNOWN))
    outcomes = []
    for seed in (1, 2):
        drawn = draw(only_known, SMALL, seed)
        outcomes += [outcome(one.name, seed, drawn, drawn.truth) for one in DETECTORS]
    results = Results(data=only_known, protocol=SMALL, methods=DETECTORS, seeds=(1, 2), outcomes=outcomes)
    table = table_2(results)
    for block in (0, 1):
        row = cells_of(table, "literal", block)
        assert row["OOD"] == NOTHING
        assert row["macro, known"] == "1.000 ± 0.000"
    assert table.head.index("OOD") not in {c for _, c in table.best}
    assert not table_1(results, "mddkm", 1).lines


def test_what_was_not_run_is_told():
    results = with_mistakes(synthetic())
    with pytest.raises(InputError, match="no method 'knn'"):
        table_tests(results, "knn")
    with pytest.raises(InputError, match="seed 9 was not run"):
        table_1(results, "mddkm", 9)
