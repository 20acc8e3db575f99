"""The six rules on drawings: one character for each step, "." = nothing, a letter = that class."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.intervals import run_lengths
from outlark.paper.decisions import (
    UNDECIDED,
    average_undecided,
    decide,
    decide_by_largest,
    decide_where_sure,
    decode,
    discard_low,
    discard_short,
    drop_short,
    drop_short_decisions,
)

LETTERS = "AB"


def scores_of(*tracks: str) -> np.ndarray:
    """One track for each class, a digit for each step ("." = 0): "..33" → 0, 0, 3, 3."""
    return np.array([[0.0 if ch == "." else float(ch) for ch in track] for track in tracks]).T


def drawing(decisions: np.ndarray) -> str:
    return "".join("." if d == UNDECIDED else LETTERS[d] for d in decisions)


def decisions_of(text: str) -> np.ndarray:
    return np.array([UNDECIDED if ch == "." else LETTERS.index(ch) for ch in text])


def test_step_1_discards_scores_below_the_threshold_only():
    np.testing.assert_array_equal(discard_low(scores_of("123", "321"), np.array([2.0, 3.0])), scores_of(".23", "3.."))


def test_step_2_discards_runs_that_are_too_short_in_each_class():
    found = discard_short(scores_of("11.111.1", ".22222.."), 3)
    np.testing.assert_array_equal(found, scores_of("...111..", ".22222.."))


@pytest.mark.parametrize(
    ("tracks", "longer_than", "expected"),
    [
        (("3333.", "....."), 3, "AAAA."),
        (("3333.", "....."), 4, "....."),  # longer than, not as long as
        (("3333222", "2222333"), 2, "AAAABBB"),
        (("3333223", "2222333"), 3, "AAAA..."),
        (("33.33", "....."), 2, "....."),  # a gap ends a run
    ],
)
def test_step_3_is_final_where_a_class_leads_for_long_enough(tracks, longer_than, expected):
    assert drawing(decide_where_sure(scores_of(*tracks), longer_than)) == expected


def test_steps_4_and_5_take_the_mean_over_what_is_left():
    scores = scores_of("66611...1", "...24...3")
    decisions = decide_where_sure(scores, 2)
    assert drawing(decisions) == "AAA......"
    averaged = average_undecided(scores, decisions)
    np.testing.assert_array_equal(averaged[3:5], [[1.0, 3.0]] * 2)
    np.testing.assert_array_equal(averaged[:3], scores[:3])
    assert drawing(decide_by_largest(averaged, decisions)) == "AAABB...B"


def test_step_4_lets_the_mean_overrule_single_steps():
    scores = scores_of("3939", "4444")
    undecided = decide_where_sure(scores, 2)
    assert drawing(decide_by_largest(scores, undecided)) == "BABA"
    assert drawing(decide_by_largest(average_undecided(scores, undecided), undecided)) == "AAAA"


def test_step_6_makes_short_decisions_unknown():
    assert drawing(drop_short_decisions(decisions_of("AAAB.BBB"), 3)) == "AAA..BBB"


def test_all_six():
    # a low score | A leads for 6 steps | B leads for 8 | A alone for 1 step, then a single high score: both too short
    tracks = ("1...33333333..22222...5..", "..........44443333.......")
    assert drawing(decide(scores_of(*tracks), 2.0, least=3, sure=5)) == "....AAAAAABBBBBBBB......."


def naive(scores, tau, least, sure):
    """The six sentences of Sec. 4.2, step by step, with loops."""
    T, C = scores.shape
    s = [[v if v >= tau else 0.0 for v in row] for row in scores.tolist()]

    def runs(values):
        start, found = 0, []
        for t in range(1, T + 1):
            if t == T or values[t] != values[start]:
                found.append((start, t, values[start]))
                start = t
        return found

    for c in range(C):
        for a, b, on in runs([row[c] > 0 for row in s]):
            if on and b - a < least:
                for t in range(a, b):
                    s[t][c] = 0.0
    lead = [max(range(C), key=lambda c, row=row: row[c]) if max(row) > 0 else -1 for row in s]
    final = [-1] * T
    for a, b, c in runs(lead):
        if c >= 0 and b - a > sure:
            final[a:b] = [c] * (b - a)
    for a, b, open_ in runs([f < 0 and max(row) > 0 for f, row in zip(final, s, strict=True)]):
        if open_:
            means = [sum(s[t][c] for t in range(a, b)) / (b - a) for c in range(C)]
            final[a:b] = [max(range(C), key=means.__getitem__)] * (b - a)
    for a, b, _ in runs(final):
        if b - a < least:
            final[a:b] = [-1] * (b - a)
    return final


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=60),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_rules_are_the_naive_transcription(rows, tau, least, sure):
    scores = np.array(rows, dtype=float)
    found = decide(scores, float(tau), least=least, sure=sure)
    assert found.tolist() == naive(scores, tau, least, sure)
    runs = run_lengths(found)
    assert np.all((runs.lengths >= least) | (runs.values == UNDECIDED))


@given(st.lists(st.integers(0, 2)))
def test_runs_are_those_of_itertools(values):
    runs = run_lengths(np.array(values, dtype=int))
    assert [(v, n) for v, n in zip(runs.values, runs.lengths, strict=True)] == [
        (value, len(list(run))) for value, run in groupby(values)
    ]
    assert [values[start:end] for start, end in zip(runs.starts, runs.ends, strict=True)] == [
        list(run) for _, run in groupby(values)
    ]
    assert decode(runs).tolist() == values


@given(st.lists(st.booleans()), st.integers(1, 5))
def test_only_short_runs_of_true_are_dropped(values, least):
    kept = [v and len(run) >= least for _, g in groupby(values) for run in [list(g)] for v in run]
    assert drop_short(np.array(values, dtype=bool), least).tolist() == kept
