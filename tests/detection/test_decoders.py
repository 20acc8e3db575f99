"""The decoders against trying everything, and on drawings: one character for each frame."""

from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.intervals import NEAR_FRAMES, OVERLAP_SHARE, best_intervals, candidates, decode_notes
from outlark.detection.scores import TINY, Batch, ScoreBlock
from outlark.paper.decisions import UNDECIDED, bridge_labels, decide, decode_rules


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.integers(0, 8)), max_size=9))
def test_notes_are_the_best_of_all_sets_without_overlap(rows):
    rows = sorted(((s, s + n, g) for s, n, g in rows), key=lambda row: row[1])
    starts, ends, gains = (
        np.array(column, dtype=int) for column in (zip(*rows, strict=True) if rows else ([], [], []))
    )
    chosen = best_intervals(starts, ends, gains.astype(float), np.zeros(len(rows), dtype=int))

    def disjoint(some):
        by_start = sorted(some, key=lambda i: starts[i])
        return all(ends[i] <= starts[j] for i, j in pairwise(by_start))

    everything = chain.from_iterable(combinations(range(len(rows)), k) for k in range(len(rows) + 1))
    assert disjoint(chosen)
    assert gains[chosen].sum() == max(gains[list(some)].sum() for some in everything if disjoint(some))


def test_sums_begin_anew_in_each_group():
    # the long one is better than the two by the last bit, which would be lost after a note that gains 1
    gains = np.array([0.1, np.nextafter(0.1 + 0.2, 1.0), 0.2])
    starts, ends = np.array([0, 0, 1]), np.array([1, 2, 2])
    assert best_intervals(starts, ends, gains, np.zeros(3, dtype=int)).tolist() == [1]
    later = np.append(0, starts + 5), np.append(1, ends + 5), np.append(1.0, gains)
    assert best_intervals(*later, np.array([0, 1, 1, 1])).tolist() == [0, 2]
    assert best_intervals(*later, np.zeros(4, dtype=int)).tolist() != [0, 2]


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_candidates_are_the_first_of_the_best_nearby(column):
    found = candidates(np.array(column, dtype=float)[:, None], np.array([2.0]))[:, 0]
    for t, value in enumerate(column):
        earlier, later = column[max(0, t - NEAR_FRAMES) : t], column[t + 1 : t + 1 + NEAR_FRAMES]
        assert found[t] == (value >= 2 and all(value > v for v in earlier) and all(value >= v for v in later))


def tracks(*lines):
    """One line for each class, a digit for each frame ("." = 0)."""
    return np.array([[0.0 if ch == "." else float(ch) for ch in line] for line in lines]).T


def batch_of(values, *, lengths=None, regions=None):
    block = ScoreBlock(values, np.zeros(len(values)), lengths)
    return Batch(0, block, np.array([[0, len(values)]]) if regions is None else np.array(regions))


def drawing(notes, n):
    """Notes as letters, "." between them."""
    picture = np.full(n, ".")
    for start, end, label in notes:
        picture[start:end] = "AB"[label]
    return "".join(picture)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=60),
    st.integers(0, 3),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_rules_without_bridging_are_the_rules_of_the_paper(rows, tau, least, sure):
    values = np.array(rows, dtype=float)
    thresholds = np.maximum([tau, tau, tau + 0.5], TINY)
    notes = decode_rules(batch_of(values), thresholds, least=least, sure=sure, bridge=0)
    labels = np.full(len(rows), UNDECIDED)
    for start, end, label in notes:
        labels[start:end] = label
    expected = decide(values, np.array([tau, tau, tau + 0.5]), least=least, sure=sure)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize(
    ("lines", "bridge", "expected"),
    [
        (("33.33", "....."), 0, "....."),  # two pieces, each too short
        (("33.33", "....."), 1, "AAAAA"),  # together long enough
        (("33..33", "......"), 1, "......"),
        (("33133", "....."), 1, "AAAAA"),  # below the threshold, but not 0
        ((".333.", "....."), 3, ".AAA."),  # what is at the border is no gap
        (("4444.4444", "333333333"), 0, "AAAA.AAAA"),  # B leads for one frame, which is too short
        (("4444.4444", "333333333"), 1, "AAAAAAAAA"),
    ],
)
def test_rules_with_bridging(lines, bridge, expected):
    values = tracks(*lines)
    notes = decode_rules(batch_of(values), np.array([2.0, 2.0]), least=3, sure=3, bridge=bridge)
    assert drawing(notes, len(values)) == expected


def test_bridging_needs_the_same_class_on_both_sides():
    assert bridge_labels(np.array([0, -1, 1, -1, 1]), 1).tolist() == [0, -1, 1, 1, 1]
    assert bridge_labels(np.array([-1, -1]), 5).tolist() == [-1, -1]


def notes_of(values, lengths, **more):
    lengths = np.broadcast_to(lengths, values.shape)
    return drawing(decode_notes(batch_of(values, lengths=lengths, **more), np.full(2, 2.0)).notes, len(values))


def test_whole_notes_on_drawings():
    assert notes_of(tracks(".343.......", "..........."), 4) == "..AAAA....."
    assert notes_of(tracks(".4.........", ".......3..."), 3) == ".AAA...BBB."
    assert notes_of(tracks(".4.........", "...3......."), 3) == ".AAA......."
    assert notes_of(tracks(".2.........", "..........."), 3) == ".AAA......."  # at the threshold is enough


def test_a_long_note_beats_the_short_ones_inside_it():
    values = tracks("3.........", "..4..4....")
    assert notes_of(values, np.array([10, 2])) == "AAAAAAAAAA"  # 1 · 10 > 2 · 2 · 2
    assert notes_of(values, np.array([7, 2])) == "..BB.BB..."


def test_whole_notes_end_with_their_region():
    assert notes_of(tracks(".4....", "......"), 9, regions=[[1, 4]]) == ".AAA.."


def whole_notes(n, *rows):
    """Notes (start, length, class) that score 4 where 2 is enough, decoded."""
    values, lengths = np.zeros((n, 2)), np.ones((n, 2), dtype=int)
    for start, length, c in rows:
        values[start, c], lengths[start, c] = 4.0, length
    decoded = decode_notes(batch_of(values, lengths=lengths), np.full(2, 2.0))
    return decoded.notes.tolist(), decoded.scored.tolist()


def test_notes_that_overlap_a_little_meet_half_way():
    give = int(OVERLAP_SHARE * 40)
    assert give == 2
    notes, scored = whole_notes(90, (0, 40, 0), (36, 40, 1))  # 2 frames of each
    assert notes == [[0, 38, 0], [38, 76, 1]]
    assert scored == [[0, 40], [36, 76]]  # as they were scored
    assert whole_notes(90, (0, 40, 0), (37, 40, 1))[0] == [[0, 38, 0], [38, 77, 1]]
    assert whole_notes(90, (0, 40, 0), (40, 40, 1))[0] == [[0, 40, 0], [40, 80, 1]]
    assert len(whole_notes(90, (0, 40, 0), (35, 40, 1))[0]) == 1  # a frame too much


def test_short_notes_give_nothing():
    assert int(OVERLAP_SHARE * 19) == 0
    assert len(whole_notes(40, (0, 19, 0), (18, 19, 1))[0]) == 1
    assert whole_notes(40, (0, 19, 0), (19, 19, 1))[0] == [[0, 19, 0], [19, 38, 1]]


def test_both_ends_of_a_note_may_give():
    notes, _ = whole_notes(200, (0, 40, 0), (37, 60, 1), (93, 40, 0))
    assert notes == [[0, 38, 0], [38, 95, 1], [95, 133, 0]]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 180), st.integers(1, 90), st.integers(0, 1)), max_size=12))
def test_notes_never_overlap_and_keep_nearly_all_that_was_scored(rows):
    notes, scored = whole_notes(200, *rows)
    for (_, end, _), (start, _, _) in pairwise(notes):
        assert end <= start
    for (start, end, _), (was_start, was_end) in zip(notes, scored, strict=True):
        assert was_start <= start < end <= was_end
        assert end - start >= (1 - 4 * OVERLAP_SHARE) * (was_end - was_start) - 1
