"""F scores of windows and notes against scikit-learn, the paper's tables, and what chance must give."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from outlark import metrics

CLASSES = ["a", "b", "c"]
# A busy machine is no failure.
patient = settings(deadline=None, max_examples=30)
pairs = st.lists(st.tuples(st.sampled_from("abcxy"), st.sampled_from("abcz?")), max_size=25)
notes_of_windows = st.lists(st.tuples(st.sampled_from("abcz?"), st.integers(-1, 4)), max_size=25)


def split(rows: list[tuple]) -> tuple[list, list]:
    return [first for first, _ in rows], [second for _, second in rows]


def expected_f(true: list[str], predicted: list[str]) -> np.ndarray:
    """Scikit-learn's F of the classes and the unknown category."""
    merged = [[label if label in CLASSES else "?" for label in labels] for labels in (true, predicted)]
    return f1_score(*merged, labels=[*CLASSES, "?"], average=None, zero_division=np.nan)


@patient
@given(pairs.filter(bool))
@pytest.mark.parametrize("function", [metrics.window_f, metrics.note_f])
def test_f_is_that_of_scikit_learn(function, rows):
    true, predicted = split(rows)
    scores, f = function(true, predicted, CLASSES, "?"), expected_f(true, predicted)
    np.testing.assert_allclose([*scores.per_class, scores.unknown], f)
    assert scores.classes == tuple(CLASSES)
    known, every = [[value for value in values if not np.isnan(value)] for values in (f[:3], f)]
    assert scores.macro_all == pytest.approx(sum(every) / len(every))
    assert scores.macro_known == pytest.approx(sum(known) / len(known) if known else np.nan, nan_ok=True)


def test_the_first_table_of_the_paper():
    counts = {"tuti-D": 13, "tuti-F": 4, "cach-Z": 2, "tuti-A": 4, "tuti-Z": 4, "cach-C": 6, "cach-D": 7, "cach-E": 10}
    true = [label for label, n in counts.items() for _ in range(n)]
    classes = ["tuti-D", "tuti-F", "cach-Z"]
    predicted = [label if label in classes else "OOD" for label in true]
    predicted[0] = "OOD"
    scores = metrics.note_f(true, predicted, classes, "OOD")
    np.testing.assert_allclose(scores.per_class, [24 / 25, 1, 1])
    assert scores.macro_known == pytest.approx(0.98667, abs=1e-5)
    assert scores.unknown == pytest.approx(62 / 63)
    assert str(scores.confusion).splitlines() == [
        "true \\ predicted  tuti-D  tuti-F  cach-Z  OOD",
        "tuti-D                12       0       0    1",
        "tuti-F                 0       4       0    0",
        "cach-Z                 0       0       2    0",
        "cach-C                 0       0       0    6",
        "cach-D                 0       0       0    7",
        "cach-E                 0       0       0   10",
        "tuti-A                 0       0       0    4",
        "tuti-Z                 0       0       0    4",
    ]


@pytest.mark.parametrize("answer", ["a", "b", "?"])
def test_a_constant_answer_is_at_chance(answer):
    true = list("aaabbcx")
    scores = metrics.window_f(true, [answer] * len(true), CLASSES, "?")
    share = np.mean([label == answer or (answer == "?" and label == "x") for label in true])
    assert scores.macro_all == pytest.approx(2 * share / (1 + share) / 4)
    assert scores.macro_all == pytest.approx(scores.chance["macro_all"])
    assert scores.macro_known == pytest.approx(scores.chance["macro_known"])


def test_chance_is_the_mean_over_shuffled_predictions(rng):
    true, predicted = rng.choice(list("aaabcx"), 200), rng.choice(list("abbc??"), 200)
    chance = metrics.window_f(true, predicted, CLASSES, "?").chance
    shuffled = [metrics.window_f(true, rng.permutation(predicted), CLASSES, "?") for _ in range(300)]
    for name, value in chance.items():
        found = [getattr(scores, name) for scores in shuffled]
        # Five standard errors of the mean.
        assert value == pytest.approx(np.mean(found), abs=5 * np.std(found) / np.sqrt(len(found)))


def test_scores_print_with_their_chance():
    text = str(metrics.window_f(list("aab?"), list("aabb"), ["a", "b"], "?"))
    assert text.splitlines()[:6] == [
        "                                F  chance",
        "a                           1.000",
        "b                           0.667",
        "?                           0.000",
        "macro, classes              0.833   0.417",
        "macro, classes and unknown  0.556   0.278",
    ]
    assert "true \\ predicted" in text


@patient
@given(notes_of_windows)
def test_the_label_of_a_note_is_that_of_most_of_its_windows(rows):
    predicted, note_of_window = split(rows)
    found = metrics.note_labels(predicted, note_of_window, CLASSES, n_notes=6)
    for note, label in enumerate(found):
        votes = Counter(p if p in CLASSES else "unknown" for p, n in rows if n == note)
        best = [c for c in [*CLASSES, "unknown"] if votes[c] == max(votes.values(), default=0)]
        assert label == (best[0] if votes else "unknown")
    assert len(found) == 6


@pytest.mark.parametrize(
    ("windows", "label"),
    [("ab", "a"), ("ba", "a"), ("a.", "a"), (".b", "b"), ("a..", "?"), ("abb", "b"), ("ab..", "?"), ("", "?")],
)
def test_ties_go_to_the_classes_in_their_order(windows, label):
    assert metrics.note_labels(list(windows), [0] * len(windows), CLASSES, "?", n_notes=1) == [label]


def test_the_number_of_notes_is_the_largest_by_default():
    assert metrics.note_labels(["a", "b", "a"], np.array([2, -1, 0]), CLASSES) == ["a", "unknown", "a"]
    assert metrics.note_labels(["a"], [-1], CLASSES) == []
    assert metrics.note_labels([], [], CLASSES) == []


def test_from_windows_to_notes():
    """Two notes a, one of them found late, and an unknown note that is taken for b."""
    predicted = list("..aa" + "aaaa" + ".bbb")
    labels = metrics.note_labels(predicted, np.repeat([0, 1, 2], 4), ["a", "b"], ".")
    assert labels == ["a", "a", "b"]
    assert metrics.note_f(["a", "a", "x"], labels, ["a", "b"], ".").per_class.tolist() == [1, 0]
