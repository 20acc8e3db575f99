"""Sound that is only the remainder of a note is not reported as unknown."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.decisions import Decisions
from outlark.detection.intervals import NOTE, Intervals, IntervalStream, RemainderStream, intervals_of
from outlark.detection.scorer import LOOK
from outlark.detection.scores import Batch, ScoreBlock, Scores
from outlark.paper.decisions import Rules
from tests.detection.made_up_scores import HOP, drawing, layout_of, pieces, recording, recordings, scores_of, streamed

#: All sound is shown, however short it is.
ALL = {"bridge_s": 0.0, "unknown_s": 0.0}
#: Frames of 10 ms are long, so that all edges reach as far as LOOK frames.
SHORTEST = {"shortest_s": np.full(2, 0.02)}
REACH = {"A": LOOK, "B": LOOK}


def by_hand(picture, activity, reach):
    """Interval by interval, with loops: which of the unknown frames "?" are to be silence "."."""
    signs, n, start = list(picture), len(picture), 0
    while start < n:
        end = start + 1
        while end < n and picture[end] == picture[start] == "?":
            end += 1
        if picture[start] == "?" and np.isfinite(max(activity[start:end])):
            before = [t for t in range(start) if picture[t] in reach][-1:]
            after = [t for t in range(end, n) if picture[t] in reach][:1]
            if all(any(abs(t - at) <= reach[picture[at]] for at in before + after) for t in range(start, end)):
                signs[start:end] = "." * (end - start)
        start = end
    return "".join(signs)


def shown(scores, decisions, cuts):
    segments = streamed(decisions, scores, pieces(scores.block, cuts))
    last = replace(segments[-1], end=segments[-1].end + 99)
    return drawing([*segments[:-1], last], len(scores.block), scores.layout.offset_samples)


@settings(max_examples=300, deadline=None)
@given(recordings(whole_notes=True), st.lists(st.integers(0, 200), max_size=6))
def test_what_lies_within_the_edges_of_notes_against_loops(scores, cuts):
    scores = replace(scores, layout=replace(scores.layout, **SHORTEST))
    plain = shown(scores, Decisions(**ALL), cuts)
    expected = by_hand(plain, scores.block.activity, REACH)
    assert shown(scores, Decisions(bridge_s=0.0), cuts) == expected
    assert shown(scores, Decisions(bridge_s=0.0), range(len(scores.block))) == expected


def intervals(picture):
    """One for each run of equal signs, and one for each note: a letter, and small letters for the rest of it."""
    starts = [t for t, sign in enumerate(picture) if not t or (sign != picture[t - 1] and not sign.islower())]
    ends, notes = [*starts[1:], len(picture)], [t for t in starts if picture[t].isupper()]
    kinds = [NOTE + notes.index(t) if t in notes else ".?".index(picture[t]) for t in starts]
    numbers = np.array([starts, ends, kinds], dtype=int).reshape(3, -1)
    sums = np.zeros((len(starts), 2))
    found = Intervals(*numbers, sums, sums, np.ones((len(starts), 5)))
    return found, np.array(["AB".index(picture[t]) for t in notes], dtype=int)


def streamed_intervals(picture, cuts, reach):
    """What comes of a picture that is cut up where intervals begin, with nothing else known at each cut."""
    stream, whole, signs = RemainderStream(reach), intervals(picture)[0], [*picture]
    borders = [0, *sorted({whole.starts[c % len(whole.starts)] for c in cuts} - {0}), len(picture)]
    for start, end in itertools.pairwise(borders):
        new, classes = intervals(picture[start:end])
        new = new._replace(starts=new.starts + start, ends=new.ends + start)
        for row in [*zip(*stream.push(new, end, classes)[:3], strict=True)]:
            signs[row[0] : row[1]] = signs[row[0] : row[1]] if row[2] >= NOTE else (row[1] - row[0]) * ".?"[row[2]]
    for row in zip(*stream.finish(None)[:3], strict=True):
        signs[row[0] : row[1]] = (row[1] - row[0]) * ".?"[row[2]]
    return "".join(signs)


runs = st.lists(st.tuples(st.sampled_from("..??AB"), st.integers(1, 9)), min_size=1, max_size=25)


@settings(max_examples=400, deadline=None)
@given(runs, st.lists(st.integers(0, 50), max_size=8))
def test_edges_of_different_reach_against_loops(runs, cuts):
    picture = "".join(sign + (n - 1) * sign.lower() for sign, n in runs)
    whole = picture.replace("a", "A").replace("b", "B")
    expected = by_hand(whole, np.zeros(len(whole)), {"A": 3, "B": 7})
    assert streamed_intervals(picture, cuts, np.array([3, 7])).upper() == expected


def test_there_is_something_to_see_in_such_recordings():
    """So that the test above can fail: sound of both kinds, with notes before, after and on both sides."""
    removed = kept = between = 0
    for seed in range(20):
        scores = recording(seed, 60, whole_notes=True)
        scores = replace(scores, layout=replace(scores.layout, **SHORTEST))
        before, after = (shown(scores, Decisions(**more), ()) for more in (ALL, {"bridge_s": 0.0}))
        removed += sum(a == "?" != b for a, b in zip(before, after, strict=True))
        kept += after.count("?")
        between += sum(len(gap) > LOOK for gap in after.replace("A", "B").split("B") if set(gap) == {"."})
    assert min(removed, kept, between) > 20


@pytest.mark.parametrize(
    ("lines", "activity", "expected"),
    [
        # beside a note; between two, all of it; after a silence, still within reach
        (".3" + 30 * ".", "44444444" + 24 * ".", ".AAAA" + 27 * "."),
        (".3" + 20 * "." + "3...", 26 * "4", ".AAAA" + 17 * "." + "AAAA"),
        (".3" + 30 * ".", "44444.....44" + 20 * ".", ".AAAA" + 27 * "."),
        # what reaches further is a sound of its own, and stays so from its start on
        (".3" + 30 * ".", "44444" + 13 * "4" + 14 * ".", ".AAAA" + 13 * "?" + 14 * "."),
        (".3" + 30 * "." + "3...", 36 * "4", ".AAAA" + 27 * "?" + "AAAA"),
    ],
)
def test_drawings(lines, activity, expected):
    scores = scores_of(lines, activity=activity, lengths=4)
    scores = replace(scores, layout=replace(scores.layout, shortest_s=np.array([0.02])))
    found = Decisions(bridge_s=0.0).decide(scores)
    assert drawing(found, len(lines)) == expected
    assert found == streamed(Decisions(bridge_s=0.0), scores, pieces(scores.block, range(len(lines))))


def test_frames_and_a_given_length_are_left_alone():
    """Models of frames do not look at edges; who gives a length of unknown sound is given all that is as long."""
    line, activity = ".3" + 30 * ".", "44444444" + 24 * "."
    scores = scores_of(line, activity=activity, lengths=4)
    assert drawing(Decisions(bridge_s=0.0, unknown_s=0.02).decide(scores), 32) == ".AAAA???" + 24 * "."
    frames = scores_of(".3333" + 27 * ".", activity=activity)
    assert drawing(Rules(least_s=0.02, bridge_s=0.0).decide(frames), 32) == ".AAAA???" + 24 * "."
    never = Decisions(bridge_s=0.0, activity_db=None).decide(scores)
    assert {s.verdict for s in never} == {"known", "unknown"}


def test_the_reason_names_the_edges():
    scores = scores_of(".3" + 20 * "." + "3...", activity=26 * "4", lengths=4)
    scores = replace(scores, layout=replace(scores.layout, shortest_s=np.array([0.02])))
    gap = Decisions(bridge_s=0.0).decide(scores)[2]
    assert (gap.verdict, gap.reason) == ("silence", "never active for 10 ms or longer, but for remainders of notes")


@pytest.mark.parametrize(
    ("first_active", "before"),
    [
        (5, 30 * "."),  # all of the sound lies within a note that gave way to the one that was chosen
        (4, 4 * "." + 26 * "?"),  # it begins earlier, and is a sound of its own
    ],
)
def test_notes_that_gave_way_to_a_better_one_leave_no_unknown_sound(first_active, before):
    line = 5 * "." + "3" + 24 * "." + "5" + 49 * "."
    activity = first_active * "." + (80 - first_active) * "4"
    scores = scores_of(line, activity=activity, lengths=40)
    scores = replace(scores, layout=replace(scores.layout, shortest_s=np.array([0.02])))
    found = Decisions(bridge_s=0.0).decide(scores)
    assert drawing(found, len(line)) == before + 40 * "A" + 10 * "."
    assert found == streamed(Decisions(bridge_s=0.0), scores, pieces(scores.block, range(len(line))))
    assert all(s.score < 2.0 for s in found if s.label is None)


def test_little_is_held():
    """A note, then flicker for ever: nothing but what a note to come could reach is held back."""
    n = 4000
    values = np.zeros((n, 1))
    values[3] = 3.0
    activity = np.where(np.arange(n) % 4 < 2, 30.0, 0.0)
    block = ScoreBlock(values, activity, np.full((n, 1), 4))
    layout = replace(layout_of(1, level="note"), shortest_s=np.array([0.02]))
    decisions = Decisions(bridge_s=0.0)
    stream, last = decisions.stream(layout), 0
    for number, piece in enumerate(pieces(block, range(0, n, 10))):
        found = stream.push(piece)
        last = found[-1].end // HOP if found else last
        assert 10 * number - last < 3 * LOOK + 20
    whole = Scores(layout=layout, block=block, n_samples=n * HOP)
    assert sum(s.verdict == "unknown" for s in decisions.decide(whole)) > 900


# ------------------------------------------------------- silence and sound between notes


def kinds_of(activity, *, bridge, least, notes=(), cuts=()):
    """One sign for each frame: "." silent, "+" active, "A" a note; pushed in pieces that end at the cuts."""
    stream, out, before = IntervalStream(bridge=bridge, least=least), [], np.zeros(2)
    for start, end in itertools.pairwise([0, *cuts, len(activity)]):
        loud = np.array([sign == "+" for sign in activity[start:end]])
        block = ScoreBlock(np.zeros((end - start, 1)), np.where(loud, 9.0, 0.0))
        own = np.array([(a - start, b - start, 0) for a, b in notes if start <= a < end], dtype=int).reshape(-1, 3)
        new = intervals_of(Batch(start, block, np.empty((0, 2), dtype=int)), own, loud, np.array([1.0]), before)
        before = new.after[-1].copy()
        out.append(stream.push(new))
    rest = stream.finish()
    signs = ["?"] * len(activity)
    for rows in [*out, *([] if rest is None else [rest])]:
        for a, b, kind in zip(rows.starts, rows.ends, rows.kinds, strict=True):
            signs[a:b] = ".+A"[min(kind, 2)] * (b - a)
    return "".join(signs)


@pytest.mark.parametrize(
    ("activity", "expected"),
    [
        ("..+++..+++..", "..++++++++.."),  # a gap of two is bridged
        ("..+++...+++..", "..+++...+++.."),  # one of three is not
        ("..++....+++..", "........+++.."),  # two frames are too few
        ("..++..++.....", "..++++++....."),  # but not if they are bridged first
        ("++...........", "............."),
        ("..+++..", "..+++.."),
        ("..++", "...."),
    ],
)
def test_short_silences_are_bridged_and_short_sounds_dropped(activity, expected):
    assert kinds_of(activity, bridge=2, least=3) == expected
    for cut in range(1, len(activity)):
        assert kinds_of(activity, bridge=2, least=3, cuts=[cut]) == expected


def test_nothing_is_bridged_across_a_note():
    assert kinds_of("+++.++++.+++", bridge=2, least=3, notes=[(4, 8)]) == "+++.AAAA.+++"


def test_sums_and_highest_values_of_an_interval():
    block = ScoreBlock(np.array([[0.5], [2.0], [3.0], [1.0]]), np.array([0.0, 8.0, np.inf, 7.0]))
    active = np.array([False, True, True, True])
    rows = intervals_of(
        Batch(7, block, np.array([[1, 3]])), np.empty((0, 3), dtype=int), active, np.ones(1), np.zeros(2)
    )
    assert (rows.starts.tolist(), rows.ends.tolist(), rows.kinds.tolist()) == ([7, 8], [8, 11], [0, 1])
    assert rows.means[1].tolist() == [2.0, (8.0 + 120.0 + 7.0) / 3]  # activity is averaged up to 120 dB
    # nothing below the threshold, three frames on end at or above it, none in a note that gave way
    assert rows.highest[1].tolist() == [0.0, 3.0, 3.0, 1.0, np.inf]
