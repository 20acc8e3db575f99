"""Segments from streams of scores: the same for any cut into blocks, in little time and memory; what is refused."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from outlark.detection.decisions import Decisions
from outlark.detection.scores import ScoreBlock, Scores
from outlark.errors import InputError
from outlark.paper.decisions import Rules
from tests.detection.made_up_scores import (
    HOP,
    PLAIN,
    cases,
    decider,
    layout_of,
    pieces,
    recording,
    scores_of,
    streamed,
)
from tests.pace import check_linear


@settings(max_examples=250, deadline=None)
@given(case=cases, cuts=st.lists(st.integers(0, 150), max_size=6))
def test_the_segments_are_the_same_for_any_blocks_and_tile_the_recording(case, cuts):
    decisions, scores = case
    whole = decisions.decide(scores)
    assert streamed(decisions, scores, pieces(scores.block, cuts)) == whole
    assert streamed(decisions, scores, pieces(scores.block, range(len(scores.block)))) == whole
    assert whole[0].start == 0
    assert whole[-1].end == scores.n_samples
    assert all(a.end == b.start for a, b in pairwise(whole))
    for a, b in pairwise(whole):  # what is not a note is as long as it can be
        assert a.label is not None or a.verdict != b.verdict
    assert all((s.label is None) == (s.verdict in ("unknown", "silence")) and s.reason for s in whole)
    assert decisions.activity_db is not None or all(s.verdict != "silence" for s in whole)


@pytest.mark.parametrize("level", ["frame", "note"])
@pytest.mark.parametrize("most", [0.17, 60.0])
def test_long_recordings_frame_by_frame(level, most):
    for seed in range(2):
        scores = recording(seed, 100, whole_notes=level == "note")
        for bridge, unknown in ((0.0, 0.03), (0.02, 0.06)):
            decisions = decider(level, most, bridge_s=bridge, unknown_s=unknown)
            single = pieces(scores.block, range(len(scores.block)))
            assert streamed(decisions, scores, single) == decisions.decide(scores)


def test_of_near_starts_the_best_counts_frame_by_frame_too():
    scores = scores_of(".3.4.....", lengths=1)
    found = streamed(Decisions(), scores, pieces(scores.block, range(9)))
    assert [s.start for s in found if s.label] == [30]
    assert found == Decisions().decide(scores)


def test_a_long_region_is_decided_in_pieces_of_the_same_length_for_any_blocks():
    scores = scores_of("...." + 95 * "3" + ".....", 104 * ".")
    decisions = decider("frame", 0.3, **PLAIN)
    found = decisions.decide(scores)
    assert [(s.start // HOP, s.end // HOP) for s in found if s.label] == [(4, 34), (34, 64), (64, 94), (94, 99)]
    for size in (1, 7, 33):
        assert streamed(decisions, scores, pieces(scores.block, range(0, 104, size))) == found
    notes = scores_of("...." + 24 * "3..." + "....", 104 * ".", lengths=7)
    found = decider("note", 0.3).decide(notes)
    assert [(s.start, s.end) for s in found if s.label][:5] == [
        (40, 110),
        (120, 190),
        (200, 270),
        (280, 340),
        (360, 430),
    ]  # cut 30 frames after the first
    for size in (1, 7, 33):
        assert streamed(decider("note", 0.3), notes, pieces(notes.block, range(0, 104, size))) == found


@pytest.mark.parametrize("level", ["frame", "note"])
def test_an_endless_silence_costs_nothing(level):
    n = 20_000
    lengths = np.full((n, 2), 3) if level == "note" else None
    block = ScoreBlock(np.full((n, 2), 0.1), np.full(n, 1.0), lengths)
    stream = decider(level).stream(layout_of(level=level))
    stream.push(block)
    size = len(pickle.dumps(stream))
    assert size < 20_000
    for _ in range(99):
        assert stream.push(block) == []
        assert abs(len(pickle.dumps(stream)) - size) < 100
    (silence,) = stream.finish(100 * n * HOP)
    assert silence.verdict == "silence"
    assert silence.score == pytest.approx(0.1, abs=1e-9)


def test_an_endless_note_costs_no_more_than_a_region():
    block = ScoreBlock(np.full((500, 2), 3.0), np.full(500, 9.0))
    stream = decider("frame", 10.0).stream(layout_of())
    sizes, n = [], 0
    for _ in range(60):
        n += len(stream.push(block))
        sizes.append(len(pickle.dumps(stream)))
    assert n == 29
    assert max(sizes) < 1000 * 8 * 3 + 500 * 8 * 3 + 20_000


def test_a_note_comes_out_as_soon_as_it_is_over():
    scores = scores_of("..3333....", activity="1144441111")
    stream = Rules(**PLAIN).stream(scores.layout)
    found = [[s.label or s.verdict for s in stream.push(b)] for b in pieces(scores.block, range(10)) if len(b)]
    assert found == [[], [], [], [], [], [], ["silence", "A"], [], [], []]
    assert [s.verdict for s in stream.finish(100)] == ["silence"]


def test_the_caller_may_use_the_block_again():
    scores = scores_of("..3333....", "..........")
    block = ScoreBlock(scores.block.values.copy(), scores.block.activity.copy())
    stream = Rules(**PLAIN).stream(scores.layout)
    first = stream.push(ScoreBlock(block.values[:5], block.activity[:5]))
    block.values[:5], block.activity[:5] = 9.0, -9.0
    found = first + stream.push(ScoreBlock(block.values[5:], block.activity[5:])) + stream.finish(100)
    assert found == Rules(**PLAIN).decide(scores)


@pytest.mark.parametrize(
    ("level", "columns", "message"),
    [
        ("frame", (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int)), "scores of frames"),
        ("note", (np.zeros((3, 2)), np.zeros(3)), "scores of notes"),
        ("frame", (np.zeros((3, 3)), np.zeros(3)), r"'values': \(3, 3\).* expected"),
        ("frame", (np.zeros((3, 2)), np.zeros(2)), r"'activity': \(2,\)"),
        ("frame", (np.full((3, 2), np.nan), np.zeros(3)), "NaN"),
        ("frame", (np.full((3, 2), np.inf), np.zeros(3)), "infinite scores"),
        ("frame", (np.zeros((3, 2)), np.full(3, np.nan)), "activity with NaN"),
        ("note", (np.full((3, 2), 3.0), np.zeros(3), np.zeros((3, 2), int)), "1 or more where"),
        ("note", (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2))), "whole numbers"),
        ("note", (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int), np.zeros((3, 2), int)), "'moves'"),
        ("note", (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int), np.zeros((3, 2, 2))), "whole numbers"),
        (
            "note",
            (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int), None, np.full((3, 3), np.nan)),
            "spans with NaN",
        ),
    ],
)
def test_scores_that_are_refused(level, columns, message):
    with pytest.raises(InputError, match=message):
        decider(level).decide(Scores(layout=layout_of(level=level), block=ScoreBlock(*columns), n_samples=30))


def test_decisions_are_for_one_level_and_a_stream_for_one_recording():
    scores = scores_of("...", "...")
    with pytest.raises(InputError, match="Decisions decides on scores of notes, not of frames"):
        Decisions().decide(scores)
    with pytest.raises(InputError, match="n_samples=20, but the last of 3 frames starts at sample 20"):
        Rules().decide(replace(scores, n_samples=20))
    stream = Rules().stream(scores.layout)
    stream.push(scores.block)
    stream.finish(21)
    with pytest.raises(InputError, match="finished; make a new one"):
        stream.push(scores.block)
    with pytest.raises(InputError, match="finished; make a new one"):
        stream.finish(21)


@pytest.mark.parametrize("whole_notes", [False, True])
def test_an_hour_takes_as_long_as_its_parts(whole_notes):
    rng = np.random.default_rng(0)
    n = 1_600_000
    values, activity = rng.gamma(2.0, 0.1, size=(n, 3)), rng.normal(0.0, 2.0, size=n)
    for start in range(500, n - 500, 800):
        values[start : start + 80, rng.integers(3)] += 2.0 * np.hanning(80) + 1.0
        activity[start : start + 80] += 20.0
    lengths = rng.integers(50, 120, size=(n, 3)) if whole_notes else None
    level = "note" if whole_notes else "frame"
    layout = layout_of(3, 1.4, 24, level, sample_rate=22050, hop_samples=48)
    assert 0.05 < (values >= 1.4).any(axis=1).mean() < 0.15

    def decided(k):
        block = ScoreBlock(values[:k], activity[:k], None if lengths is None else lengths[:k])
        return decider(level).decide(Scores(layout=layout, block=block, n_samples=48 * k + 72))

    assert sum(s.label is not None for s in decided(n)) > 1900
    check_linear(decided, n // 16, n)


def test_settings():
    assert clone(Decisions(least_s=0.1)).get_params()["least_s"] == 0.1
    paper = Rules.paper().stream(layout_of(2, offset=24, sample_rate=22050, hop_samples=48))
    assert (paper.limits.least, paper._sure, paper.limits.bridge, paper.limits.unknown) == (35, 60, 0, 0)
    auto = Rules().stream(layout_of(2, hop_samples=1))
    assert (auto._sure, auto.limits[:4]) == (69, (40, 10, 40, 60_000))
    assert Rules(least_s=0.028).stream(layout_of()).limits.least == 3  # the nearest


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"least_s": -1.0}, "least_s=-1.0 must be 'auto' or a number of seconds, 0 or more"),
        ({"sure_s": "long"}, "sure_s='long' must be 'auto' or a number"),
        ({"bridge_s": None}, "bridge_s=None must be 'auto' or a number"),
        ({"unknown_s": np.nan}, "unknown_s=nan must be 'auto' or a number"),
        ({"activity_db": "6"}, "activity_db='6' must be a number of decibels"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        Rules(**parameters).stream(layout_of())


def test_layouts_that_are_refused():
    with pytest.raises(InputError, match=r"shortest training notes, but these last \[0.0, 1.0\] seconds; give least_s"):
        Rules().stream(replace(layout_of(), shortest_s=np.array([0.0, 1.0])))
    with pytest.raises(InputError, match="give one number for each class"):
        Rules().stream(replace(layout_of(), thresholds=np.array([np.nan, 1.0])))
