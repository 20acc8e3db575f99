"""Thresholds and labels, apart from any class_model."""

import numpy as np
import pytest

from outlark.errors import InputError
from outlark.estimators.open_set import OpenSetMixin, check_outlier_label, class_thresholds, low_end, with_outliers

CLASSES = np.array(["a", "b", "c"])
LEFT_OUT = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.0]), np.empty(0)]


def thresholds(threshold, quantile=0.5, left_out=LEFT_OUT):
    return class_thresholds(
        threshold,
        classes=CLASSES,
        left_out=left_out,
        best_on_train=np.array([5.0, 6.0, 3.0]),
        quantile=quantile,
    ).tolist()


def test_each_way_to_set_them():
    assert thresholds("leave-note-out") == [2.0, 4.0, 1.5]  # the last: half the score of its only sample
    assert thresholds("leave-note-out", quantile=0.0) == [1.0, 4.0, 1.5]
    assert thresholds("paper") == [0.3] * 3
    assert thresholds("paper-normalized") == [1.8] * 3
    assert thresholds(7) == [7.0] * 3


def test_a_new_score_falls_below_the_low_end_as_often_as_asked(rng):
    """All n + 1 places of a new score among n are as likely: the share that falls below is k/(n + 1), exactly."""
    for n, quantile, expected in [(10, 0.1, 1 / 11), (19, 0.1, 2 / 20), (20, 0.1, 2 / 21), (99, 0.29, 0.29)]:
        scores = rng.normal(size=n)
        below = np.sum(scores < low_end(scores, quantile))
        assert (below + 1) / (n + 1) == pytest.approx(expected)
    few = rng.normal(size=4)
    assert low_end(few, 0.1) == low_end(few, 0.0) == few.min()
    assert low_end(few, 1.0) == few.max()


def test_a_threshold_is_never_zero():
    """A class whose left-out notes score nothing must not accept everything."""
    assert min(thresholds("leave-note-out", left_out=[np.zeros(3)] * 3)) > 0.0


@pytest.mark.parametrize(
    ("classes", "label", "expected", "kind"),
    [
        (np.array(["a", "b"]), "unknown", ["unknown", "b"], "U"),
        (np.array([0, 1]), -1, [-1, 1], "i"),
        (np.array([0, 1]), np.nan, [np.nan, 1.0], "f"),
        (np.array([0, 1]), "none", ["none", 1], "O"),
        (np.array(["a", "b"], dtype=object), "x", ["x", "b"], "O"),
    ],
)
def test_labels_are_widened(classes, label, expected, kind):
    found = with_outliers(classes, np.array([0, 1]), np.array([True, False]), label)
    assert found.dtype.kind == kind
    np.testing.assert_array_equal(found, np.array(expected, dtype=found.dtype))


def test_outlier_label_must_not_be_a_class():
    check_outlier_label("d", CLASSES)
    check_outlier_label(None, CLASSES)
    with pytest.raises(InputError, match=r"outlier_label='b' is also a class"):
        check_outlier_label("b", CLASSES)


class Scores(OpenSetMixin):
    """Scores are the samples themselves."""

    classes_, thresholds_, outlier_label = CLASSES, np.array([1.0, 2.0, 3.0]), "none"

    def class_scores(self, X):
        return np.asarray(X, dtype=float)


def test_the_best_of_the_accepting_classes_wins():
    X = [[0.5, 1.9, 2.9], [1.5, 1.9, 2.9], [1.5, 2.5, 2.9], [9.0, 9.5, 9.9]]
    assert Scores().predict(X).tolist() == ["none", "a", "b", "c"]
    assert Scores().verdicts(X).tolist() == ["unknown", "known", "ambiguous", "ambiguous"]
    assert Scores().offset_ == 1.0
