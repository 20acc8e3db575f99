"""Segments from streams of scores: the same for any cut into blocks, in little time and memory; what is refused."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from outlark.detection.decode.decisions import Decisions
from outlark.detection.scores import ScoreBlock, Scores
from outlark.errors import InputError
from tests.detection.made_up_scores import (
    HOP,
    PLAIN,
    cases,
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


@pytest.mark.parametrize("decoder", ["rules", "viterbi", "notes"])
@pytest.mark.parametrize("most", [0.17, 60.0])
def test_long_recordings_frame_by_frame(decoder, most):
    for seed in range(2):
        scores = recording(seed, 100, whole_notes=decoder == "notes")
        for bridge, unknown in ((0.0, 0.03), (0.02, 0.06)):
            decisions = Decisions(decoder=decoder, bridge_s=bridge, unknown_s=unknown, max_region_s=most)
            single = pieces(scores.block, range(len(scores.block)))
            assert streamed(decisions, scores, single) == decisions.decide(scores)


def test_of_near_starts_the_best_counts_frame_by_frame_too():
    scores = scores_of(".3.4.....", lengths=1)
    found = streamed(Decisions(), scores, pieces(scores.block, range(9)))
    assert [s.start for s in found if s.label] == [30]
    assert found == Decisions().decide(scores)


def test_a_long_region_is_decided_in_pieces_of_the_same_length_for_any_blocks():
    scores = scores_of("...." + 95 * "3" + ".....", 104 * ".")
    decisions = Decisions(**PLAIN, max_region_s=0.3)
    found = decisions.decide(scores)
    assert [(s.start // HOP, s.end // HOP) for s in found if s.label] == [(4, 34), (34, 64), (64, 94), (94, 99)]
    for size in (1, 7, 33):
        assert streamed(decisions, scores, pieces(scores.block, range(0, 104, size))) == found
    notes = scores_of("...." + 24 * "3..." + "....", 104 * ".", lengths=7)
    found = Decisions(max_region_s=0.3).decide(notes)
    assert [(s.start, s.end) for s in found if s.label][:5] == [
        (40, 110),
        (120, 190),
        (200, 270),
        (280, 340),
        (360, 430),
    ]  # cut 30 frames after the first
    for size in (1, 7, 33):
        assert streamed(Decisions(max_region_s=0.3), notes, pieces(notes.block, range(0, 104, size))) == found


@pytest.mark.parametrize("decoder", ["rules", "viterbi", "notes"])
def test_an_endless_silence_costs_nothing(decoder):
    n = 20_000
    lengths = np.full((n, 2), 3) if decoder == "notes" else None
    block = ScoreBlock(np.full((n, 2), 0.1), np.full(n, 1.0), lengths)
    stream = Decisions(decoder=decoder).stream(layout_of())
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
    stream = Decisions(max_region_s=10.0).stream(layout_of())
    sizes, n = [], 0
    for _ in range(60):
        n += len(stream.push(block))
        sizes.append(len(pickle.dumps(stream)))
    assert n == 29
    assert max(sizes) < 1000 * 8 * 3 + 500 * 8 * 3 + 20_000


def test_a_note_comes_out_as_soon_as_it_is_over():
    scores = scores_of("..3333....", activity="1144441111")
    stream = Decisions(**PLAIN).stream(scores.layout)
    found = [[s.label or s.verdict for s in stream.push(b)] for b in pieces(scores.block, range(10)) if len(b)]
    assert found == [[], [], [], [], [], [], ["silence", "A"], [], [], []]
    assert [s.verdict for s in stream.finish(100)] == ["silence"]


def test_the_caller_may_use_the_block_again():
    scores = scores_of("..3333....", "..........")
    block = ScoreBlock(scores.block.values.copy(), scores.block.activity.copy())
    stream = Decisions(**PLAIN).stream(scores.layout)
    first = stream.push(ScoreBlock(block.values[:5], block.activity[:5]))
    block.values[:5], block.activity[:5] = 9.0, -9.0
    found = first + stream.push(ScoreBlock(block.values[5:], block.activity[5:])) + stream.finish(100)
    assert found == Decisions(**PLAIN).decide(scores)


@pytest.mark.parametrize(
    ("decoder", "block", "message"),
    [
        (
            "viterbi",
            (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int)),
            "'viterbi' works only with frame-level models",
        ),
        ("rules", (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int)), "'rules' works only with frame-level models"),
        ("notes", (np.zeros((3, 2)), np.zeros(3)), "decoder='notes' needs scores of whole notes"),
        ("auto", (np.zeros((3, 3)), np.zeros(3)), r"values of shape \(3, 3\) .* expected \(T, 2\)"),
        ("auto", (np.zeros((3, 2)), np.zeros(2)), r"activity of shape \(2,\)"),
        ("auto", (np.full((3, 2), np.nan), np.zeros(3)), "NaN"),
        ("auto", (np.full((3, 2), np.inf), np.zeros(3)), "infinite scores"),
        ("auto", (np.zeros((3, 2)), np.full(3, np.nan)), "activity with NaN"),
        ("auto", (np.full((3, 2), 3.0), np.zeros(3), np.zeros((3, 2), int)), "notes of 0 to 0 frames; expected 1 to"),
        (
            "auto",
            (np.full((3, 2), 3.0), np.zeros(3), np.full((3, 2), 7000)),
            "expected 1 to 6000: max_region_s",
        ),
        ("auto", (np.zeros((3, 2)), np.zeros(3), np.ones((3, 2))), "expected whole numbers"),
    ],
)
def test_blocks_that_are_refused_leave_the_stream_as_it_was(decoder, block, message):
    stream = Decisions(decoder=decoder).stream(layout_of())
    with pytest.raises(InputError, match=message):
        stream.push(ScoreBlock(*block))
    good = ScoreBlock(np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int) if decoder == "notes" else None)
    stream.push(good)
    assert len(stream.finish(30)) == 1


def test_streams_that_are_used_wrongly():
    stream = Decisions().stream(layout_of())
    stream.push(ScoreBlock(np.zeros((3, 2)), np.zeros(3)))
    with pytest.raises(InputError, match="blocks with and without lengths"):
        stream.push(ScoreBlock(np.zeros((3, 2)), np.zeros(3), np.ones((3, 2), int)))
    with pytest.raises(InputError, match="n_samples=20, but the last of 3 frames starts at sample 20"):
        stream.finish(20)
    stream.finish(21)
    with pytest.raises(InputError, match="finished; make a new one"):
        stream.push(ScoreBlock(np.zeros((3, 2)), np.zeros(3)))
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
    layout = layout_of(3, 1.4, 24, sample_rate=22050, hop_samples=48)
    assert 0.05 < (values >= 1.4).any(axis=1).mean() < 0.15

    def decided(k):
        block = ScoreBlock(values[:k], activity[:k], None if lengths is None else lengths[:k])
        return Decisions().decide(Scores(layout=layout, block=block, n_samples=48 * k + 72))

    assert sum(s.label is not None for s in decided(n)) > 1900
    check_linear(decided, n // 16, n)


def test_settings():
    assert clone(Decisions(least_s=0.1)).get_params()["least_s"] == 0.1
    paper = Decisions.paper().stream(layout_of(2, offset=24, sample_rate=22050, hop_samples=48)).limits
    assert (paper.least.tolist(), paper.sure, paper.bridge, paper.unknown) == ([35, 35], 60, 0, 0)
    auto = Decisions().stream(layout_of(2, hop_samples=1)).limits
    assert (auto.least.tolist(), auto.sure, auto.bridge, auto.unknown, auto.most) == ([40, 40], 69, 10, 40, 60_000)
    assert Decisions(least_s=0.028).stream(layout_of()).limits.least.tolist() == [3, 3]  # the nearest
    assert Decisions(decoder="viterbi").stream(layout_of(hop_samples=1)).limits.least.tolist() == [40, 80]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"decoder": "best"}, "decoder='best' must be one of"),
        ({"least_s": -1.0}, "least_s=-1.0 must be 'auto' or a number of seconds, 0 or more"),
        ({"sure_s": "long"}, "sure_s='long' must be 'auto' or a number"),
        ({"bridge_s": None}, "bridge_s=None must be 'auto' or a number"),
        ({"unknown_s": np.nan}, "unknown_s=nan must be 'auto' or a number"),
        ({"max_region_s": "auto"}, "max_region_s='auto' must be a number of seconds"),
        ({"max_region_s": 0.01}, "max_region_s=0.01 is shorter than the shortest note, 0.04 s; give more"),
        ({"activity_db": "6"}, "activity_db='6' must be a number of decibels"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        Decisions(**parameters).stream(layout_of())


def test_layouts_that_are_refused():
    with pytest.raises(InputError, match=r"shortest training notes, but these last \[0.0, 1.0\] seconds; give least_s"):
        Decisions().stream(replace(layout_of(), shortest_s=np.array([0.0, 1.0])))
    with pytest.raises(InputError, match="give one number for each class"):
        Decisions().stream(replace(layout_of(), thresholds=np.array([np.nan, 1.0])))
