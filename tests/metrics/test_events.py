"""Event matching against mir_eval, SciPy and all matchings there are; the rules of DCASE task 5 by hand."""

import mir_eval
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from outlark.metrics import Events, event_f, match_events, onset_offset_errors
from outlark.metrics.events import split_and_merged

# A busy machine is no failure.
patient = settings(deadline=None, max_examples=40)
thresholds = st.sampled_from([0.1, 0.3, 1 / 3, 0.5, 0.8, 1.0])
rows = st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from("ab")).map(lambda r: (r[0], r[0] + r[1], r[2]))
events = st.lists(rows, max_size=6).map(Events.from_rows)
NONE = Events([], [], [])


def iou_table(reference: Events, estimated: Events, same_label: bool = True) -> np.ndarray:
    """IoU of every pair (n, m), one by one; 0 where the labels differ."""
    table = np.zeros((len(reference), len(estimated)))
    for i, (start, end, label) in enumerate(zip(reference.starts, reference.ends, reference.labels, strict=True)):
        for j, (onset, offset, name) in enumerate(zip(estimated.starts, estimated.ends, estimated.labels, strict=True)):
            common = max(min(end, offset) - max(start, onset), 0)
            if name == label or not same_label:
                table[i, j] = common / ((end - start) + (offset - onset) - common)
    return table


def best_of_all(table: np.ndarray, least: float) -> tuple[int, float]:
    """Most pairs, then the largest sum, over all matchings of the rows of the table."""
    if not len(table):
        return 0, 0.0
    best = best_of_all(table[1:], least)
    for j, iou in enumerate(table[0]):
        if iou >= least:
            pairs, total = best_of_all(np.delete(table[1:], j, axis=1), least)
            best = max(best, (pairs + 1, total + iou))
    return best


def random_events(rng: np.random.Generator, n: int, span: float) -> Events:
    starts = rng.uniform(0, span, n)
    return Events(starts, starts + rng.uniform(0.5, 2, n), rng.choice(["a", "b"], n))


@patient
@given(events, events, thresholds)
def test_the_matching_is_the_best_of_all(reference, estimated, min_iou):
    matching, table = match_events(reference, estimated, min_iou), iou_table(reference, estimated)
    pairs, total = best_of_all(table, min_iou)
    assert len(matching.iou) == pairs
    assert matching.iou.sum() == pytest.approx(total)
    assert len(set(matching.reference)) == len(set(matching.estimated)) == pairs
    np.testing.assert_allclose(matching.iou, table[matching.reference, matching.estimated])
    assert (matching.iou >= min_iou).all()
    assert matching.reference.tolist() == sorted(matching.reference)


@patient
@given(events, events, thresholds)
def test_as_many_pairs_as_mir_eval(reference, estimated, min_iou):
    table = iou_table(reference, estimated)
    expected = mir_eval.util.match_events(
        np.arange(len(reference)), np.arange(len(estimated)), 1 - min_iou + 1e-9, lambda r, e: 1 - table[np.ix_(r, e)]
    )
    assert len(match_events(reference, estimated, min_iou).iou) == len(expected)


@patient
@given(*[st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab")), min_size=1, max_size=12)] * 2)
def test_notes_of_one_length_score_as_in_mir_eval(true, found):
    """For equal lengths L, IoU >= t says that the onsets differ by at most L(1 - t)/(1 + t)."""
    length, min_iou = 10, 0.3  # tolerance 5.38: no tie among integers
    sides = [Events.from_rows([(s, s + length, label) for s, label in side]) for side in (true, found)]
    notes = []
    for side in sides:
        pitches = np.where(np.array(side.labels) == "a", 100.0, 900.0)
        notes += [np.column_stack([side.starts, side.ends]), pitches]
    tolerance = length * (1 - min_iou) / (1 + min_iou)
    expected = mir_eval.transcription.precision_recall_f1_overlap(*notes, onset_tolerance=tolerance, offset_ratio=None)
    np.testing.assert_allclose(event_f(*sides, min_iou).pooled, expected[:3])


@pytest.mark.parametrize(("span", "min_iou"), [(4, 0.3), (40, 0.1), (40, 0.5), (400, 0.3)])
def test_large_graphs_are_solved_in_pieces(rng, span, min_iou):
    """From one component of all events to hundreds of small ones."""
    reference, estimated = random_events(rng, 300, span), random_events(rng, 280, span)
    matching, table = match_events(reference, estimated, min_iou), iou_table(reference, estimated)
    near = np.where(table >= min_iou, table, 0)
    assert len(matching.iou) == (maximum_bipartite_matching(csr_array(near > 0)) >= 0).sum()
    best = linear_sum_assignment(np.where(near > 0, 1000 + near, 0), maximize=True)
    assert matching.iou.sum() == pytest.approx(near[best].sum())
    assert (near[matching.reference, matching.estimated] > 0).all()


def test_more_pairs_come_before_better_pairs():
    reference = Events.from_rows([(0, 10, "a"), (5, 15, "a")])
    estimated = Events.from_rows([(4, 14, "a"), (9, 16, "a")])
    assert match_events(reference, estimated, 0.3).estimated.tolist() == [0, 1]
    assert match_events(reference, estimated, 0.8).reference.tolist() == [1]


def test_long_events_do_not_hide_short_ones():
    starts = np.arange(0, 1000, 10)
    reference = Events([0, *starts], [5000, *(starts + 4)], ["a"] * 101)
    estimated = Events([*(starts + 1), 0], [*(starts + 5), 4900], ["a"] * 101)
    matching = match_events(reference, estimated, 0.5)
    assert matching.reference.tolist() == list(range(101))
    assert matching.estimated.tolist() == [100, *range(100)]


def test_touching_events_do_not_overlap():
    assert len(match_events(Events([0], [10], ["a"]), Events([10], [20], ["a"]), 1e-12).iou) == 0
    assert len(match_events(Events([0], [10], ["a"]), Events([9], [20], ["a"]), 1e-12).iou) == 1
    # The long event makes the short one before it a candidate.
    pair = ["a", "a"]
    assert len(match_events(Events([50, 50], [60, 61], pair), Events([0, 40], [100, 50], pair), 1e-12).iou) == 1


@patient
@given(events, events, thresholds, st.sampled_from([1, 44100, 48000]), st.sampled_from([0.0, 80000.1]))
def test_seconds_and_samples_say_the_same(reference, estimated, min_iou, rate, later):
    # Events of 10 to 80 ms at 48 kHz.
    samples = [Events(side.starts * 480, side.ends * 480, side.labels) for side in (reference, estimated)]
    moved = [Events(side.starts / rate + later, side.ends / rate + later, side.labels) for side in samples]
    there, here = match_events(*samples, min_iou), match_events(*moved, min_iou)
    assert len(here.iou) == len(there.iou)
    # Towards the end of a day an event of 10 ms is known to some 1e-9 of its length.
    assert here.iou.sum() == pytest.approx(there.iou.sum(), abs=1e-7)


@patient
@given(events, events, thresholds)
def test_swapped_sides_swap_precision_and_recall(reference, estimated, min_iou):
    there, back = event_f(reference, estimated, min_iou), event_f(estimated, reference, min_iou)
    assert there.classes == back.classes
    for one, other in [(there.per_class, back.per_class), (there.pooled, back.pooled), (there.macro, back.macro)]:
        np.testing.assert_allclose(one.precision, other.recall)
        np.testing.assert_allclose(one.recall, other.precision)
        np.testing.assert_allclose(one.f, other.f)


@patient
@given(events, events, events, thresholds)
def test_unlabelled_events_absorb_what_would_be_false(reference, estimated, unlabelled, min_iou):
    without, scores = (event_f(reference, estimated, min_iou, unknown) for unknown in (None, unlabelled))
    np.testing.assert_array_equal(scores.true_positives, without.true_positives)
    np.testing.assert_array_equal(scores.false_negatives, without.false_negatives)
    np.testing.assert_array_equal(scores.false_positives + scores.absorbed, without.false_positives)
    rest = np.setdiff1d(np.arange(len(estimated)), match_events(reference, estimated, min_iou).estimated)
    table = iou_table(unlabelled, estimated, same_label=False)[:, rest]
    assert scores.absorbed.sum() == best_of_all(table, min_iou)[0]


@patient
@given(events, events, events, events, thresholds)
def test_the_counts_of_recordings_add_up(reference, estimated, more_reference, more_estimated, min_iou):
    total = event_f(reference, estimated, min_iou) + event_f(more_reference, more_estimated, min_iou)
    joined = [
        Events([*a.starts, *(b.starts + 1000)], [*a.ends, *(b.ends + 1000)], [*a.labels, *b.labels])
        for a, b in ((reference, more_reference), (estimated, more_estimated))
    ]
    expected = event_f(*joined, min_iou, classes=total.classes) if total.classes else total
    for name in ("true_positives", "false_positives", "false_negatives", "absorbed"):
        np.testing.assert_array_equal(getattr(total, name), getattr(expected, name))


def test_dcase_counts_by_hand():
    reference = Events.from_rows([(10, 20, "POS"), (30, 40, "POS"), (50, 60, "POS"), (70, 80, "POS")])
    estimated = Events.from_rows(
        [
            (10, 20, "POS"),  # exact
            (10, 19, "POS"),  # the same event again: false
            (36.8, 43, "POS"),  # IoU 3.2/13 = .246: false, and the event missed
            (56, 63, "POS"),  # IoU 4/13 = .308: right
            (100, 110, "POS"),  # on an unlabelled event: not counted
            (101, 110, "POS"),  # on the same one: false, since it absorbs only one
            (200, 210, "POS"),  # on nothing: false
        ]
    )
    unlabelled = Events.from_rows([(100, 110, "UNK"), (300, 310, "UNK")])
    scores = event_f(reference, estimated, 0.3, unlabelled)
    assert (scores.true_positives, scores.false_positives, scores.false_negatives, scores.absorbed) == (2, 4, 2, 1)
    assert scores.pooled == pytest.approx((2 / 6, 2 / 4, 2 / (2 + 3)))
    assert event_f(reference, estimated, 0.3).false_positives == 5


def test_a_right_estimate_does_not_use_up_an_unlabelled_event():
    both = [(0, 10, "a"), (0, 9, "a")]
    scores = event_f(Events.from_rows(both[:1]), Events.from_rows(both), 0.5, Events([0], [10], ["?"]))
    assert (scores.true_positives, scores.false_positives, scores.absorbed) == (1, 0, 1)


def test_an_unknown_answer_does_not_use_up_an_unlabelled_event():
    estimated = Events.from_rows([(0, 10, "unknown"), (0, 9, "a")])
    scores = event_f(NONE, estimated, 0.5, Events([0], [10], ["UNK"]), classes=["a"])
    assert (scores.false_positives, scores.absorbed) == (0, 1)


def test_per_class_pooled_and_macro():
    reference = Events.from_rows([(0, 10, "a"), (20, 30, "a"), (40, 50, "a"), (60, 70, "b")])
    estimated = Events.from_rows([(0, 10, "a"), (20, 30, "a"), (60, 70, "c")])
    scores = event_f(reference, estimated)
    assert scores.classes == ("a", "b", "c")
    np.testing.assert_allclose(scores.per_class.precision, [1, np.nan, 0])
    np.testing.assert_allclose(scores.per_class.recall, [2 / 3, 0, np.nan])
    np.testing.assert_allclose(scores.per_class.f, [0.8, 0, 0])
    assert scores.pooled == pytest.approx((2 / 3, 2 / 4, 2 / 3.5))
    assert scores.macro == pytest.approx((1 / 2, 1 / 3, 0.8 / 3))


def test_unknown_notes_are_no_misses_but_make_false_positives():
    reference = Events.from_rows([(0, 10, "a"), (20, 30, "x"), (40, 50, "y")])
    estimated = Events.from_rows([(0, 10, "a"), (20, 30, "a"), (40, 50, "unknown"), (60, 70, "y")])
    scores = event_f(reference, estimated, classes=["b", "a"])
    assert scores.classes == ("b", "a")
    assert scores.true_positives.tolist() == [0, 1]
    assert scores.false_positives.tolist() == [0, 1]
    assert scores.false_negatives.tolist() == [0, 0]
    # b occurs nowhere: left out.
    assert scores.macro == pytest.approx((1 / 2, 1, 2 / 3))


def test_perfect_and_empty(rng):
    reference = random_events(rng, 50, 20)
    perfect = event_f(reference, reference, 1.0)
    assert perfect.pooled == perfect.macro == (1, 1, 1)
    missed, false = event_f(reference, NONE), event_f(NONE, reference)
    assert (missed.pooled.recall, missed.pooled.f, missed.macro.f) == (0, 0, 0)
    assert np.isnan(missed.pooled.precision)
    assert (false.pooled.precision, false.pooled.f, false.macro.f) == (0, 0, 0)
    assert np.isnan(false.pooled.recall)
    assert event_f(NONE, NONE).classes == ()
    assert np.isnan([*event_f(NONE, NONE).pooled, *event_f(NONE, NONE).macro]).all()


def test_errors_are_late_or_early():
    reference = Events.from_rows([(10, 20, "a"), (30, 40, "b"), (50, 60, "a")])
    estimated = Events.from_rows([(53, 60, "a"), (9, 24, "a"), (30, 40, "a"), (58, 70, "a")])
    errors = onset_offset_errors(reference, estimated)
    assert errors.onsets.tolist() == [-1, 3]
    assert errors.offsets.tolist() == [4, 0]
    assert errors.median_absolute == (2, 2)
    assert onset_offset_errors(reference, estimated, 0.7).onsets.tolist() == [3]


def test_without_pairs_there_are_no_errors():
    assert np.isnan(onset_offset_errors(Events([0], [50], [1]), NONE).median_absolute).all()


def test_events_keep_their_unit_and_cannot_change():
    starts = np.array([5, 1], dtype=np.uint16)
    some = Events(starts, np.array([7, 4], dtype=np.uint16), ["a", 3])
    starts[0] = 6
    assert some.starts.tolist() == [5, 1]
    assert some.labels == ("a", 3)
    assert len(some) == 2
    with pytest.raises(ValueError, match="read-only"):
        some.starts[0] = 0
    late = Events(np.array([6], dtype=np.uint16), np.array([8], dtype=np.uint16), ["a"])
    assert onset_offset_errors(late, some).onsets.tolist() == [-1]


@patient
@given(events, events)
def test_split_and_merged_are_counted_one_by_one(reference, estimated):
    def several(spans, others, label):
        """How many spans hold two or more middles of others."""
        middles = [
            (a + b) / 2 for a, b, name in zip(others.starts, others.ends, others.labels, strict=True) if name == label
        ]
        own = [(a, b) for a, b, name in zip(spans.starts, spans.ends, spans.labels, strict=True) if name == label]
        return sum(sum(a <= middle < b for middle in middles) > 1 for a, b in own)

    split, merged = split_and_merged(reference, estimated, "ab")
    assert split.tolist() == [several(reference, estimated, label) for label in "ab"]
    assert merged.tolist() == [several(estimated, reference, label) for label in "ab"]
