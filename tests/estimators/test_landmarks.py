"""MDDKM with landmarks: near the exact model, and able to do all that it can."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from outlark import MDDKM, InputError
from outlark.estimators import health
from outlark.estimators.open_set import check_memory
from outlark.maths.landmarks import LandmarkDescription, Setting
from tests.estimators.test_health import contaminated, mislabelled
from tests.test_model_file import attributes, same
from tests.toy_notes import note, notes

INEXACT = "ignore:class .* landmarks miss"


@pytest.mark.filterwarnings(INEXACT)
@parametrize_with_checks([MDDKM(landmarks=10)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    return notes(rng, [20, 20, 20])


@pytest.fixture
def fresh():
    return notes(np.random.default_rng(5), [10] * 7)


@pytest.fixture
def pair(data):
    """The same data, exactly and by landmarks."""
    return [MDDKM(landmarks=m, sigma_reg=1.0, sigma=3.0, length_scale=2.5).fit(*data) for m in (None, 60)]


# ---------------------------------------------------------------- the numbers


def test_scores_and_left_out_scores_are_near_the_exact_ones(pair, fresh):
    exact, model = pair
    assert all(isinstance(description, LandmarkDescription) for description in model.descriptions_)
    np.testing.assert_allclose(model.class_scores(fresh[0]), exact.class_scores(fresh[0]), atol=0.03)
    for mine, his in zip(model.left_out_scores_, exact.left_out_scores_, strict=True):
        np.testing.assert_allclose(mine, his, atol=0.03)
    np.testing.assert_allclose(model.thresholds_, exact.thresholds_, atol=0.03)
    np.testing.assert_allclose(model.distances(fresh[0]) / 9.0, np.exp(-2 * model.class_scores(fresh[0])), atol=1e-9)


@pytest.mark.parametrize("landmarks", [240, 10**9, "auto"])
def test_as_many_landmarks_as_samples_are_the_exact_model(data, fresh, landmarks):
    exact, model = (MDDKM(landmarks=m).fit(*data) for m in (None, landmarks))
    np.testing.assert_array_equal(model.class_scores(fresh[0]), exact.class_scores(fresh[0]))
    np.testing.assert_array_equal(model.thresholds_, exact.thresholds_)


@pytest.mark.parametrize("center", [False, True])
def test_thresholds_hold_on_new_notes(rng, center):
    X, y, groups = notes(rng, [20, 20])
    model = MDDKM(center=center, landmarks=60).fit(X, y, groups)
    new, truth, _ = notes(np.random.default_rng(5), [60, 60])
    assert np.mean(model.membership(new)[np.arange(len(new)), truth]) == pytest.approx(0.9, abs=0.06)


def test_unknowns_are_told_as_well_as_by_the_exact_model(rng):
    X, y, groups = notes(rng, [20] * 3, spread=1.0)
    new, truth, _ = notes(np.random.default_rng(5), [20] * 7, spread=1.0)
    exact, model = (
        roc_auc_score(truth < 3, MDDKM(landmarks=m).fit(X, y, groups).score_samples(new)) for m in (None, 120)
    )
    assert 0.6 < exact < 0.99
    assert model > exact - 0.002


def test_the_same_seed_gives_the_same_model(data, fresh):
    one, again, other = (MDDKM(landmarks=30, random_state=seed).fit(*data) for seed in (3, 3, 4))
    same(attributes(one), attributes(again))
    assert np.any(one.class_scores(fresh[0]) != other.class_scores(fresh[0]))


def test_landmarks_that_do_not_suffice_are_told(data):
    with pytest.warns(UserWarning, match=r"class \d: 3 landmarks miss .* give more landmarks=") as told:
        model = MDDKM(landmarks=3).fit(*data)
    assert {warning.filename for warning in told} == {__file__}
    with pytest.warns(UserWarning, match="class 5: 3 landmarks") as told:
        model.add_class(
            np.concatenate([note(np.random.default_rng(i), 5) for i in range(4)]), 5, np.repeat(range(4), 12)
        )
    assert [warning.filename for warning in told] == [__file__]


# ---------------------------------------------------------------- what else it can do


def test_explanations_name_the_notes_of_landmarks(data, rng):
    X, y, groups = data
    model = MDDKM(landmarks=60).fit(X, y, groups)
    landmark = model.descriptions_[0].rows[0]
    (best, *_), *_ = model.explain(X[y == 0][[landmark]])
    assert (best.label, best.distance) == (0, pytest.approx(0.0, abs=1e-9))
    for sample in (X[:1], X[:1] + 1e3):
        everything = model.explain(sample, n_notes=99)[0]
        assert sum(e.share for e in everything) == pytest.approx(1.0)
        assert {e.note for e in everything} == set(model.notes_[0][model.descriptions_[0].rows])


@pytest.mark.parametrize("many", [10**6, 100])
def test_trimming_finds_wrong_notes_one_by_one_or_several_at_once(rng, monkeypatch, many):
    monkeypatch.setattr(health, "MANY_SAMPLES", many)
    X, y, truth, groups = contaminated(rng)
    rounds = []
    worst = health._worst_notes
    monkeypatch.setattr(health, "_worst_notes", lambda *of: rounds.append(of) or worst(*of))
    model = MDDKM(landmarks=120, trim=0.5).fit(X, y, groups)
    assert set(model.trimmed_) >= mislabelled(y, truth, groups)
    assert len(model.trimmed_) <= 15
    assert len(rounds) == len(model.trimmed_) if many > 1000 else len(rounds) < len(model.trimmed_)


def test_notes_of_a_large_class_are_compared_on_some_of_their_samples(rng, monkeypatch):
    X, y, groups = notes(rng, [20, 20])
    for g in (3, 7):  # two of one foreign kind vouch for each other
        X[groups == g] = note(rng, 5)
    monkeypatch.setattr(health, "COMPARED_ROWS", 60)
    suspects = {(s.label, s.note) for s in MDDKM(landmarks=100).fit(X, y, groups).health().suspects}
    assert {(0, 3), (0, 7)} <= suspects
    assert len(suspects) <= 6


def test_classes_and_notes_added_later_leave_the_others_alone(data, fresh, rng):
    model = MDDKM(landmarks=60, outlier_label=-1).fit(*data)
    before, thresholds = model.class_scores(fresh[0]), model.thresholds_
    more, _, ids = notes(rng, [0, 0, 0, 0, 0, 20])
    model.add_class(more, 5, ids)
    np.testing.assert_array_equal(model.class_scores(fresh[0])[:, :3], before)
    np.testing.assert_array_equal(model.thresholds_[:3], thresholds)
    assert model.n_landmarks_.tolist() == [60] * 4
    assert np.mean(model.predict(fresh[0][fresh[1] == 5]) == 5) > 0.7
    new = note(rng, 7)  # far from all others of class 1
    nearer = model.distances(new)[:, 1]
    model.add_note(new, 1, note=777)
    assert np.all(model.distances(new)[:, 1] < 0.5 * nearer)
    np.testing.assert_array_equal(model.class_scores(fresh[0])[:, [0, 2]], before[:, [0, 2]])
    assert len(model.left_out_scores_[1]) == 252


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("landmarks", [0, -3, 2.5, "all", True, [10]])
def test_numbers_of_landmarks_that_cannot_be(data, landmarks):
    with pytest.raises(InputError, match=r"landmarks=.* must be 'auto', a whole number from 1 up, or None"):
        MDDKM(landmarks=landmarks).fit(*data)


def test_memory_is_checked_before_and_landmarks_make_large_classes_possible(monkeypatch):
    n, auto = 10**6, Setting(1.0, 1.0, landmarks="auto")
    monkeypatch.setattr("outlark.estimators.open_set.free_memory", lambda: 4e9)
    check_memory([n, n], ["a", "b"], auto, n_features=36)
    for setting, n_features, message in (
        (Setting(1.0, 1.0, landmarks=None), 36, r"class a has 1,000,000 samples: .* 40,000.* GB .*landmarks=1000"),
        (Setting(1.0, 1.0, landmarks=50_000), 36, "give fewer than 50,000 landmarks"),
        (auto, 1000, "give fewer than 2,000 landmarks"),
    ):
        with pytest.raises(InputError, match=message):
            check_memory([n, n], ["a", "b"], setting, n_features)
