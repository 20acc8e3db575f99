"""Precision and recall over the threshold: counts against a brute force, and which threshold is suggested."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.annotations import Annotation
from outlark.commands.curve import ClassCurve, Curves, Point, curve_figure, curves, curves_of_tables
from outlark.commands.evaluate import learnt_from
from outlark.commands.evaluation import Compared
from outlark.errors import InputError

CLASSES = ["a", "b"]


def annotation(start, label, score=None, length=0.5):
    return Annotation(start_s=float(start), end_s=start + length, label=label, score=score)


@st.composite
def recordings(draw):
    """Notes a second apart, each found or not, and rightly or wrongly; with scores of a few values."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(st.sampled_from(["a", "b", "x", None]), min_size=1, max_size=12))
        answers = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=len(kinds), max_size=len(kinds)))
        scores = draw(st.lists(st.sampled_from([0.1, 0.2, 0.4, 0.8]), min_size=len(kinds), max_size=len(kinds)))
        truth = [annotation(t, kind) for t, kind in enumerate(kinds) if kind]
        answered = [annotation(t, a, s) for t, (a, s) in enumerate(zip(answers, scores, strict=True)) if a]
        found.append(Compared(f"{number}.wav", truth, answered, 20.0))
    return found


def by_hand(compared, label, threshold):
    """Every note stands alone, so that a note is found if the answer at its place has its name."""
    counts = {"found": 0, "false": 0, "missed": 0}
    for recording in compared:
        truth = {m.start_s for m in recording.truth if m.label == label}
        answers = {m.start_s for m in recording.found if m.label == label and m.score >= threshold}
        counts["found"] += len(truth & answers)
        counts["false"] += len(answers - truth)
        counts["missed"] += len(truth - answers)
    return Point(threshold, **counts)


@settings(max_examples=100, deadline=None)
@given(recordings(), st.sampled_from([0.5, 1.0]))
def test_counts_against_brute_force(compared, iou):
    thresholds = np.array([[0.05, 0.1], [0.1, 0.2], [0.3, 0.3], [0.9, 0.9], [0.2, 0.4]])
    pairs = [
        (r, [[m for m in r.found if m.score >= row[CLASSES.index(m.label)]] for row in thresholds]) for r in compared
    ]
    for c, curve in enumerate(curves(pairs, CLASSES, thresholds, iou, now=4)):
        expected = [by_hand(compared, curve.label, score) for score in thresholds[:, c]]
        assert curve.now == expected[4]
        assert list(curve.points) == sorted(set(expected))
        assert curve.notes == sum(m.label == curve.label for r in compared for m in r.truth)


@settings(max_examples=100, deadline=None)
@given(recordings())
def test_scores_of_tables_give_the_same_counts(compared):
    scores = [m.score for r in compared for m in r.found]
    if not scores:
        with pytest.raises(InputError, match="no curve; give --model"):
            curves_of_tables(compared, CLASSES, 0.5)
        return
    for curve in curves_of_tables(compared, CLASSES, 0.5):
        assert curve.now is None
        assert curve.points[0].score == min(scores)
        assert [p[1:] for p in curve.points] == [by_hand(compared, curve.label, p.score)[1:] for p in curve.points]


def test_tables_without_scores_are_refused():
    night = Compared("night.wav", [annotation(1, "a")], [annotation(1, "a"), annotation(2, "a", 0.4)], 9.0)
    with pytest.raises(InputError, match="1 of 2 detections have no score above 0, so there is no curve"):
        curves_of_tables([night], CLASSES, 0.5)


points = st.lists(
    st.builds(lambda f, x: (f, x, 20 - f), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12
)


def curve_of(counts, now):
    points = tuple(Point(0.1 * (k + 1), *of) for k, of in enumerate(counts))
    return ClassCurve(label="a", points=points, now=points[now] if now < len(points) else None)


def check_middle(curve, suggested, reliable):
    same = [p for p in reliable if p[1:] == suggested[1:]]
    assert suggested == (curve.now if curve.now in same else same[len(same) // 2])


@settings(max_examples=200)
@given(points, st.sampled_from([0.3, 0.5, 0.95, 1.0]), st.integers(0, 20))
def test_what_is_suggested_for_a_precision_against_brute_force(counts, precision, now):
    curve = curve_of(counts, now)
    reliable = [p for p in curve.points if p.found and p.found + p.false >= 10]
    enough = [p for p in reliable if p.found >= precision * (p.found + p.false) - 1e-9]
    suggested = curve.suggested(precision)
    if not enough:
        assert suggested is None
        return
    assert suggested in enough
    assert suggested.found == max(p.found for p in enough)
    assert suggested.false == min(p.false for p in enough if p.found == suggested.found)
    check_middle(curve, suggested, reliable)


@settings(max_examples=200)
@given(points, st.integers(0, 20))
def test_the_best_f_rests_on_ten_detections_and_is_never_below_the_present_one(counts, now):
    curve = curve_of(counts, now)
    reliable = [p for p in curve.points if p.found and p.found + p.false >= 10]
    suggested = curve.suggested()
    assert suggested == curve.best_f
    if not reliable:
        assert suggested is None
        return
    f = {p: p.found / (p.found + (p.false + p.missed) / 2) for p in curve.points if p.found or p.false or p.missed}
    best = max(f[p] for p in reliable)
    assert f[suggested] >= best - 1e-12
    assert curve.now is None or f[suggested] >= f[curve.now] - 1e-12
    if suggested != curve.now:
        assert suggested in reliable
        check_middle(curve, suggested, reliable)


def test_one_sure_detection_is_no_suggestion():
    """A precision of 1 from a single note would be followed by the loss of all others."""
    points = (Point(0.2, 25, 10, 5), Point(0.4, 20, 6, 10), Point(0.9, 1, 0, 29))
    curve = ClassCurve(label="a", points=points, now=points[1])
    assert curve.suggested(0.95) is None
    assert curve.suggested() == points[0]
    assert curve.best_precision == points[1]
    assert ClassCurve(label="a", points=points[2:], now=points[2]).suggested() is None


def test_limits_are_of_the_detections_and_of_the_notes():
    point = Point(0.3, 9, 1, 27)
    assert np.round(point.precision_limits, 3).tolist() == [0.596, 0.982]  # 9 of 10
    assert np.round(point.recall_limits, 3).tolist() == [0.138, 0.411]  # 9 of 36
    nothing = Point(0.3, 0, 0, 0)
    assert np.isnan([*nothing.precision_limits, *nothing.recall_limits, nothing.f]).all()


def test_recordings_of_the_training_are_known_by_their_names():
    here = [Compared(name, [], [], 1.0, None if name == "c" else Path(f"x/{name}.wav")) for name in "abc"]
    assert learnt_from(here, ["a.wav", None, "c.wav"]) == ["a", "c"]  # c by its name alone, without the file


# ------------------------------------------------------------------ the figure


def drawn(*curves, precision=0.95):
    figure = curve_figure(Curves(curves, 0.5, precision))
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert len(file.getvalue()) > 5000
    return figure


def lines(axis):
    return {line.get_label(): line for line in axis.get_lines()}


def test_the_figure_shows_the_points_and_both_thresholds():
    points = (Point(0.2, 18, 18, 2), Point(0.4, 16, 4, 4), Point(0.8, 12, 0, 8), Point(1.6, 3, 0, 17))
    (axis,) = drawn(ClassCurve(label="$buzz", points=points, now=points[1])).axes
    assert axis.get_title(loc="left") == "$buzz (20 notes)"
    shown = lines(axis)
    np.testing.assert_allclose(shown["recall"].get_xydata(), [[0.2, 0.9], [0.4, 0.8], [0.8, 0.6], [1.6, 0.15]])
    np.testing.assert_allclose(shown["precision of fewer than 10"].get_ydata(), [0.5, 0.8, 1.0, 1.0])
    np.testing.assert_allclose(shown["precision"].get_ydata(), [0.5, 0.8, 1.0, np.nan])  # of three notes
    assert list(shown["present threshold"].get_xdata()) == [0.4, 0.4]
    assert list(shown["suggested"].get_xdata()) == [0.8, 0.8]
    assert [text.get_text() for text in axis.texts] == ["0.4 → 0.8"]


def test_classes_of_which_nothing_is_found_or_nothing_is_there():
    none = ClassCurve(label="none", points=(Point(0.1, 0, 0, 3), Point(0.2, 0, 0, 3)))
    absent = ClassCurve(label="absent", points=(Point(0.1, 0, 4, 0), Point(0.2, 0, 1, 0)), now=Point(0.1, 0, 4, 0))
    one = ClassCurve(label="one", points=(Point(0.3, 12, 0, 0),), now=Point(0.3, 12, 0, 0))
    figure = drawn(none, absent, one, none)
    assert [axis.get_visible() for axis in figure.axes] == [True] * 4 + [False] * 2
    texts = [axis.texts[0].get_text() for axis in figure.axes[:4]]
    assert texts == ["no suggestion", "0.1, no suggestion", "0.3, unchanged", "no suggestion"]
    drawn(none)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_legend_is_within_the_figure(n):
    points = tuple(Point(0.1 * i, 30 - i, max(0, 20 - 2 * i), i) for i in range(1, 20))
    curves = [ClassCurve(label=f"song {i}", points=points, now=points[3]) for i in range(n)]
    figure = curve_figure(Curves(curves, 0.5, 0.95))
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
