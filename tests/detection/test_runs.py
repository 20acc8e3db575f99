"""Runs of equal values against itertools."""

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outlark.detection.intervals import run_lengths
from outlark.paper.decisions import decode, drop_short


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
