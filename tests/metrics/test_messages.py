"""What the metrics refuse, and the words that help: what was found, where, what was expected."""

import numpy as np
import pytest

from outlark import metrics
from outlark.errors import InputError
from outlark.metrics import Events

CLASSES = ["a", "b"]
SCORES = np.eye(3)[:, :2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.auroc(["a", "b", "?"], [[1, np.nan], [0, 1], [0, 0]], CLASSES),
            "NaN in 1 of 3 rows",
        ),
        (lambda: metrics.oscr(["a", "b", "?"], [[1], [0], [0]], CLASSES), r"shape \(3, 1\), expected \(n_samples, 2\)"),
        (lambda: metrics.accuracy_known([], np.zeros((0, 2)), CLASSES), "class_scores has no rows"),
        (lambda: metrics.auroc(["a", "?"], SCORES, CLASSES), "y_true has 2 labels but class_scores has 3 rows"),
        (lambda: metrics.open_set_report(["a", "b", "?"], SCORES, ["a", "a"]), "classes has a label twice"),
        (lambda: metrics.oscr_curve(["a", "b", "?"], SCORES, []), "classes is empty"),
        (lambda: metrics.auroc(["a", "b"], np.eye(2), CLASSES), "no unknown sample.*same labels"),
        (lambda: metrics.ccr_at_fpr([0, 1], np.eye(2), CLASSES), "no known sample.*same labels"),
        (lambda: metrics.accuracy_known(["?"], [[1.0]], ["a"]), "y_true has no known sample"),
        (lambda: metrics.fpr_at_tpr(["a", "?"], [[1.0], [0.0]], ["a"], tpr=1.5), "tpr is 1.5, expected a share"),
        (lambda: metrics.ccr_at_fpr(["a", "?"], [[1.0], [0.0]], ["a"], fpr=np.nan), "fpr is nan, expected a share"),
        (lambda: metrics.window_f(["a"], ["a", "b"], CLASSES), "y_true has 1 labels but y_pred has 2"),
        (lambda: metrics.note_f([["a"]], ["a"], CLASSES), r"y_true has shape \(1, 1\)"),
        (lambda: metrics.note_f(["a"], ["a"], CLASSES, "b"), "unknown_label 'b' is one of the classes"),
        (lambda: metrics.open_set_confusion_matrix(["a"], ["q"], CLASSES, "?"), "y_pred has the labels 'q', expected"),
        (lambda: metrics.open_set_confusion_matrix(["a"], ["a"], CLASSES, "?", rows="some"), "rows is 'some'"),
        (lambda: metrics.note_labels(["a"], [0, 1], CLASSES), r"note_of_window is int64 of shape \(2,\)"),
        (lambda: metrics.note_labels(["a"], [0.0], CLASSES), "note_of_window is float64"),
        (lambda: metrics.note_labels(["a", "b"], [0, 3], CLASSES, n_notes=3), "from 0 to 2, or -1 outside"),
        (lambda: Events([0], [1, 2], ["a"]), "1 starts, 2 ends and 1 labels"),
        (lambda: Events([0, 2.0], [1, 2.0], ["a", "b"]), "1 of 2 events do not end .* first event 1: 2.0 to 2.0"),
        (lambda: Events([np.nan], [1], ["a"]), "starts has 1 times that are not finite, first nan at event 0"),
        (lambda: Events(["0"], ["1"], ["a"]), "type <U1, expected numbers"),
        (lambda: Events([[0]], [[1]], ["a"]), r"starts has shape \(1, 1\)"),
        (lambda: metrics.match_events(Events([], [], []), Events([], [], []), 1.01), "more than 0 and at most 1"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
