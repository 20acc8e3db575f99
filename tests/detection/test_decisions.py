"""Segments from scores: all of the recording, for the right reasons."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.decisions import Decisions
from outlark.detection.intervals import run_lengths
from outlark.detection.scores import ScoreBlock, Scores
from outlark.paper.decisions import UNDECIDED, Rules, decide
from tests.detection.made_up_scores import (
    HOP,
    PLAIN,
    cases,
    decider,
    drawing,
    drawn,
    layout_of,
    pieces,
    recordings,
    scores_of,
    streamed,
)


@settings(max_examples=150, deadline=None)
@given(case=cases, exponent=st.integers(-6, 6))
def test_the_unit_of_the_scores_does_not_matter(case, exponent):
    decisions, scores = case
    unit = 2.0**exponent
    scaled = replace(
        scores,
        layout=replace(scores.layout, thresholds=unit * scores.layout.thresholds),
        block=replace(scores.block, values=unit * scores.block.values),
    )
    found = [(s.start, s.end, s.label, s.verdict) for s in decisions.decide(scaled)]
    assert found == [(s.start, s.end, s.label, s.verdict) for s in decisions.decide(scores)]


@settings(max_examples=100, deadline=None)
@given(recordings())
def test_no_note_is_shorter_than_the_shortest(scores):
    shortest = 4 * HOP  # half of the shortest training note
    notes = [s for s in decider("frame", 0.2).decide(scores) if s.label is not None]
    assert all(s.end - s.start >= shortest for s in notes if s.end != scores.n_samples)
    assert all(s.end - s.start >= shortest - 9 for s in notes)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 1.5]))
def test_the_paper_is_the_six_rules_frame_by_frame(seed, tau):
    rng = np.random.default_rng(seed)
    lengths = rng.choice([5, 20, 34, 35, 36, 60, 61, 100], size=60)
    values = np.repeat(rng.choice([0.0, 1.2, 2.0, 3.0], size=(60, 3)), lengths, axis=0)
    values *= rng.random(values.shape) > 0.002
    n = len(values)
    thresholds = np.array([tau, tau, tau + 0.2])
    layout = layout_of(3, thresholds, 24, sample_rate=22050, hop_samples=48)
    segments = Rules.paper().decide(
        Scores(layout=layout, block=ScoreBlock(values, rng.normal(size=n)), n_samples=96 + 48 * (n - 1))
    )
    labels = np.full(n, UNDECIDED)
    for s in segments:
        assert s.verdict != "silence"
        first, last = max(0, -(-(s.start - 24) // 48)), (s.end - 24) // 48
        labels[first:last] = UNDECIDED if s.label is None else "ABC".index(s.label)
    np.testing.assert_array_equal(labels, decide(values, thresholds, least=35, sure=60))


def kinds_by_hand(labels, activity, bridge, least, db=6.0):
    """What is between the notes, with loops: first bridge silences inside activity, then drop short activity."""
    n = len(labels)
    kinds = ["note" if labels[t] >= 0 else "unknown" if activity[t] >= db else "silence" for t in range(n)]

    def runs():
        found = run_lengths(np.array(kinds))
        return list(zip(found.starts, found.ends, found.values, strict=True))

    for i, (a, b, kind) in enumerate(before := runs()):
        inside = 0 < i < len(before) - 1 and before[i - 1][2] == before[i + 1][2] == "unknown"
        if kind == "silence" and inside and b - a <= bridge:
            kinds[a:b] = ["unknown"] * (b - a)
    for a, b, kind in runs():
        if kind == "unknown" and b - a < least and np.isfinite(activity[a:b].max()):
            kinds[a:b] = ["silence"] * (b - a)
    return kinds


@settings(max_examples=200, deadline=None)
@given(recordings(), st.integers(0, 3), st.integers(0, 5), st.lists(st.integers(0, 150), max_size=6))
def test_what_is_between_the_notes_against_loops(scores, bridge, least, cuts):
    decisions = Rules(least_s=0.03, sure_s=0.05, bridge_s=bridge / 100, unknown_s=least / 100)
    segments = streamed(decisions, scores, pieces(scores.block, cuts))
    n, offset = len(scores.block), scores.layout.offset_samples
    picture = drawing([replace(s, end=s.end + 99) if s is segments[-1] else s for s in segments], n, offset)
    labels = np.array([-1 if ch in ".?" else 0 for ch in picture])
    expected = kinds_by_hand(labels, scores.block.activity, bridge, least)
    assert ["silence" if ch == "." else "unknown" if ch == "?" else "note" for ch in picture] == expected


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_scores_are_means_over_the_segment(scores):
    offset = scores.layout.offset_samples
    for s in Rules().decide(scores):
        first, last = max(0, (s.start - offset) // HOP), -(-(s.end - offset) // HOP)
        values = scores.block.values[first:last]
        means = values.mean(axis=0)
        if not s.label:  # of a class that reached its threshold on average, what did not
            below = np.where(values < scores.layout.thresholds, values, 0.0).max(axis=0)
            means = np.where(means < scores.layout.thresholds, means, below)
        best = "AB".index(s.label) if s.label else means.argmax()
        np.testing.assert_allclose([s.score, s.runner_up_score], [means[best], means[1 - best]])
        assert s.runner_up == "AB"[1 - best]


@settings(max_examples=300, deadline=None)
@given(cases)
def test_what_is_not_a_note_scores_below_the_thresholds(case):
    decisions, scores = case
    thresholds = dict(zip(scores.layout.classes.tolist(), scores.layout.thresholds, strict=True))
    for s in decisions.decide(scores):
        if s.verdict in ("unknown", "silence"):
            assert s.score < max(thresholds.values())
            assert s.runner_up_score < thresholds[s.runner_up]


@pytest.mark.parametrize(
    ("lines", "activity", "expected"),
    [
        (("..3333....", "......3..."), "1144444411", "..AAAA??.."),
        (("..333.....", "......3333"), "1144444444", "..AAA?BBBB"),
        (("333333....", "...444444."), "4444444441", "AAABBBBBB."),
        (("..........", ".........."), "1144..4411", "..??..??.."),
    ],
)
def test_drawings(lines, activity, expected):
    assert drawn(Rules(**PLAIN), *lines, activity=activity) == expected


def test_gaps_are_bridged_in_notes_and_in_unknown_sound():
    lines, activity = ("33.33.............", ".................."), "4444411144441441.."
    activity += "." * (18 - len(activity))
    assert drawn(Rules(**PLAIN), *lines, activity=activity) == "?????...????.??..."
    bridging = Rules(**PLAIN | {"bridge_s": 0.01})
    assert drawn(bridging, *lines, activity=activity) == "AAAAA...???????..."


def test_short_activity_is_silence_unless_it_was_not_measured():
    decisions = Rules(**PLAIN | {"unknown_s": 0.03})
    assert drawn(decisions, "...3333..", activity="144444414") == "...AAAA.."
    assert drawn(decisions, "...3333..", activity="444444444") == "???AAAA.."
    assert drawn(decisions, "...3333..") == "???AAAA??"
    assert (
        drawn(Rules(**PLAIN | {"unknown_s": 0.03, "activity_db": None}), "...3333..", activity=9 * ".") == "???AAAA??"
    )


def test_whole_notes_are_the_default_where_blocks_have_lengths():
    scores = scores_of(".33.......", "......4...", lengths=4)
    assert [(s.start, s.end, s.label) for s in Decisions().decide(scores) if s.label] == [(10, 50, "A"), (60, 100, "B")]
    twice = Decisions().decide(scores_of("3...3.....", ".3........", lengths=4))  # beside each other, and two notes
    assert [(s.start, s.end, s.label) for s in twice if s.label] == [(0, 40, "A"), (40, 80, "A")]


def reasons(decisions, *lines, **more):
    return [(s.verdict, s.label, s.reason) for s in decisions.decide(scores_of(*lines, **more))]


def test_reasons_of_notes():
    plain = Rules(**PLAIN)
    assert reasons(plain, "3333", "1...") == [("known", "A", "A 3.00 ≥ 2.00; next B 0.25")]
    assert reasons(plain, "4444", "3333") == [("ambiguous", "A", "between A (4.00 ≥ 2.00) and B (3.00 ≥ 2.00)")]
    assert reasons(plain, "3333") == [("known", "A", "A 3.00 ≥ 2.00")]
    # the third class accepts, the second does not
    found = reasons(plain, "5555", "3333", "1111", thresholds=[2.0, 4.0, 1.0])
    assert found == [("ambiguous", "A", "between A (5.00 ≥ 2.00) and C (1.00 ≥ 1.00)")]
    bridging = Rules(**PLAIN | {"bridge_s": 0.02})
    assert reasons(bridging, "22..2") == [("known", "A", "A 1.20, ≥ 2.00 in 60 % of it")]


def test_reasons_of_whole_notes():
    alone = Decisions().decide(scores_of(".3...", ".....", lengths=3, activity="11111"))[1]
    assert (alone.score, alone.runner_up, alone.reason) == (3.0, "B", "A 3.00 ≥ 2.00; next B 0.00")
    short = Decisions().decide(scores_of(".3...", "..9..", lengths=np.array([4, 1]), thresholds=[0.5, 2.0]))[1]
    assert (short.label, short.verdict, short.runner_up) == ("A", "known", None)  # B covers a quarter of it only
    between = Decisions().decide(scores_of(".5....", "..3...", lengths=4))[1]
    assert between.reason == "between A (5.00 ≥ 2.00) and B (3.00 ≥ 2.00)"
    assert (between.runner_up, between.runner_up_score) == ("B", 3.0)


def test_reasons_of_unknown_sound():
    plain = Rules(**PLAIN)
    assert reasons(plain, "1111", "1.11") == [("unknown", None, "best score 1.00 (A) < 2.00")]
    assert reasons(plain, "133.", "....") == [
        ("unknown", None, "A reached 3.00 ≥ 2.00, but for 20 ms, less than 30 ms")
    ]
    notes = reasons(Decisions(unknown_s=0.0), "..3..4....", ".....5....", lengths=4)[0]
    assert notes[2] == "best score 0.00 (A) < 2.00; A reached 3.00 ≥ 2.00, but such a note would overlap a better one"
    close = reasons(plain, "1111", thresholds=1.0001)
    assert close[0][2] == "best score 1.0000 (A) < 1.0001"
    small = Rules(**PLAIN).decide(scores_of("1111", thresholds=np.array([0.0015])))
    assert small[0].reason == "A 1.0000 ≥ 0.0015"


def test_reasons_of_silence():
    plain = Rules(**PLAIN)
    assert reasons(plain, "1.1.", activity="1.1.") == [("silence", None, "activity 2.5 dB, less than 6 dB")]
    short = Rules(**PLAIN | {"unknown_s": 0.05})
    assert reasons(short, "....", activity="4444") == [("silence", None, "never active for 50 ms or longer")]
    digital = scores_of("....", activity="....")
    digital.block.activity[:] = -np.inf
    assert plain.decide(digital)[0].reason == "activity -120.0 dB, less than 6 dB"


def test_segments_of_unknown_sound_have_the_best_score_and_the_next():
    (found,) = Rules(**PLAIN).decide(scores_of("1.1.", "1111"))
    assert (found.score, found.runner_up, found.runner_up_score) == (1.0, "A", 0.5)


def test_frames_become_samples():
    scores = replace(scores_of(".3333.", offset=7), n_samples=90)
    found = Rules(**PLAIN).decide(scores)
    assert [(s.start, s.end) for s in found] == [(0, 17), (17, 57), (57, 90)]
    short = Rules(**PLAIN).decide(replace(scores, n_samples=58))  # the last frame reaches past the end
    assert short[-1].end == 58


def test_recordings_without_frames():
    empty = ScoreBlock(np.empty((0, 2)), np.empty(0))
    for decisions, verdict in ((Rules(), "silence"), (Rules.paper(), "unknown")):
        assert decisions.decide(Scores(layout=layout_of(), block=empty, n_samples=0)) == []
        (one,) = decisions.decide(Scores(layout=layout_of(), block=empty, n_samples=50))
        assert (one.start, one.end, one.verdict, one.reason) == (0, 50, verdict, "shorter than one frame")


@pytest.mark.parametrize("classes", [np.array([3, 7]), np.array(["a", "b"]), np.array([True, False])])
def test_labels_are_plain_python(classes):
    scores = scores_of("3333", "1111")
    (found,) = Rules(**PLAIN).decide(replace(scores, layout=replace(scores.layout, classes=classes)))
    assert type(found.label) is type(found.runner_up) is type(classes[0].item())
    assert type(found.start) is type(found.end) is int
    assert type(found.score) is type(found.runner_up_score) is float


def test_thresholds_at_the_ends_of_the_scale():
    # at 0 or below a class accepts what scores above 0; at infinity it never does; no note starts at -infinity
    assert drawn(Rules(**PLAIN), "..1111", "333333", thresholds=[-1.0, np.inf]) == "??AAAA"
    scores = scores_of(".3...", "3....", lengths=3)
    scores.block.values[0, 1] = -np.inf
    assert [s.label for s in Decisions().decide(scores)] == [None, "A", None]


def test_an_unknown_interval_of_whole_notes_has_its_best_score():
    layout = layout_of(n_classes=1, thresholds=2.0, level="note")
    values, lengths = np.zeros((40, 1)), np.full((40, 1), 10)
    values[12] = 1.5  # a mean over the starts would be 0.04
    (segment,) = Decisions().decide(
        Scores(layout=layout, block=ScoreBlock(values, np.full(40, 20.0), lengths), n_samples=40 * HOP)
    )
    assert (segment.verdict, segment.score) == ("unknown", 1.5)
    assert segment.reason == "best score 1.50 (A) < 2.00"


@settings(max_examples=150, deadline=None)
@given(recordings(whole_notes=True), st.integers(1, 9), st.lists(st.integers(0, 150), max_size=4))
def test_a_shortest_note_holds_for_whole_notes(scores, least, cuts):
    rng = np.random.default_rng(least)
    moves = rng.integers(-2, 3, size=(*scores.block.values.shape, 2))
    scores = replace(scores, block=replace(scores.block, moves=moves, spans=None))
    decisions = Decisions(least_s=least / 100, bridge_s=0.0, unknown_s=0.0)
    found = decisions.decide(scores)
    inside = {(s.start, s.end) for s in found if s.label is not None and s.end < scores.n_samples}
    assert all(end - start >= least * HOP for start, end in inside)
    assert streamed(decisions, scores, pieces(scores.block, cuts)) == found
    # what it takes away is shorter: what is left are the best notes among those that are long enough
    long_enough = np.where(scores.block.note_lengths >= least, scores.block.values, 0.0)
    free = Decisions(bridge_s=0.0, unknown_s=0.0).decide(
        replace(scores, block=replace(scores.block, values=long_enough))
    )
    expected = {(s.start, s.end) for s in free if s.label is not None and s.end < scores.n_samples}
    assert inside == {(start, end) for start, end in expected if end - start >= least * HOP}


def test_what_is_too_short_for_a_note_is_unknown_or_silence():
    lines, activity = (".3........3.......", 18 * "."), "144441444444444441"
    lengths = np.array([4, 9])
    assert drawn(Decisions(bridge_s=0.0, unknown_s=0.0), *lines, activity=activity, lengths=lengths) == (
        ".AAAA.????AAAA???."
    )
    long = Decisions(least_s=0.05, bridge_s=0.0, unknown_s=0.0)
    assert drawn(long, *lines, activity=activity, lengths=lengths) == ".????.???????????."
    found = long.decide(scores_of(*lines, activity=activity, lengths=lengths))[1]
    assert found.reason.endswith("; A reached 3.00 ≥ 2.00, but such a note lasts 40 ms, less than 50 ms")
    auto = Decisions(least_s=0.05, bridge_s=0.0)  # sound as short as that is silence, too
    assert drawn(auto, *lines, activity=activity, lengths=lengths) == "......???????????."


def test_a_longer_note_takes_the_place_of_one_that_is_too_short():
    lines = (".9..........", "3...........")
    lengths = np.array([2, 8])
    assert drawn(Decisions(), *lines, lengths=lengths) == "?AA?????????"
    assert drawn(Decisions(least_s=0.05), *lines, lengths=lengths) == "BBBBBBBB????"


def test_the_shortest_note_is_rounded_up_to_frames():
    limits = [Decisions(least_s=s).stream(layout_of()).limits.least for s in (0.03, 0.031, 0.0301, 0.0)]
    assert limits == [3, 4, 4, 0]
    assert Decisions().stream(layout_of()).limits.least == 0
