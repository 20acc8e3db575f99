"""Robust training and the health report: mislabelled, odd and duplicated notes."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from outlark import MDDKM
from tests.toy_notes import note, notes

CLASSES = 3
SPREAD = 1.0  # wide classes that overlap: a wrong note does harm


def contaminated(rng, per_class=22, wrong=2):
    """Notes of three classes, of which `wrong` in each carry the label of the next class: X, y, true y, groups."""
    X, truth, groups = notes(rng, [per_class] * CLASSES, spread=SPREAD)
    y = truth.copy()
    for c in range(CLASSES):
        for g in np.unique(groups[truth == c])[:wrong]:
            y[groups == g] = (c + 1) % CLASSES
    return X, y, truth, groups


def mean_auc(model, rng, per_class=15):
    """AUC of each class's score for its own fresh samples against those of the others and of unknown classes."""
    X, y, _ = notes(rng, [per_class] * 7, spread=SPREAD)
    scores = model.class_scores(X)
    return np.mean([roc_auc_score(y == c, scores[:, c]) for c in range(CLASSES)])


def mislabelled(y, truth, groups):
    return {(int(y[groups == g][0]), int(g)) for g in np.unique(groups) if y[groups == g][0] != truth[groups == g][0]}


def test_trimming_undoes_two_mislabelled_notes_of_22(rng):
    X, y, truth, groups = contaminated(rng)
    clean = mean_auc(MDDKM().fit(X, truth, groups), np.random.default_rng(1))
    spoilt = mean_auc(MDDKM().fit(X, y, groups), np.random.default_rng(1))
    model = MDDKM(trim=True).fit(X, y, groups)
    trimmed = mean_auc(model, np.random.default_rng(1))
    assert spoilt < clean - 0.005
    assert trimmed > clean - 0.005
    assert set(model.trimmed_) >= mislabelled(y, truth, groups)


@pytest.mark.parametrize("sigma_reg", ["auto", "condition"])
def test_health_names_the_mislabelled_notes(rng, sigma_reg):
    X, y, truth, groups = contaminated(rng)
    health = MDDKM(sigma_reg=sigma_reg).fit(X, y, groups).health()
    suspects = {(int(s.label), int(s.note)) for s in health.suspects if s.problem == "suspected mislabel"}
    assert suspects >= mislabelled(y, truth, groups)
    assert len(suspects) <= 10
    for suspect in health.suspects[:6]:
        assert suspect.other_score > suspect.left_out_score


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("foreign", [1, 5])
def test_two_foreign_notes_do_not_vouch_for_each_other(seed, foreign):
    """Two notes of one other class, known (1) or not (5), among those of class 0: each makes the other look at home."""
    rng = np.random.default_rng(seed)
    X, y, groups = notes(rng, [20, 20])
    for g in (3, 7):
        X[groups == g] = note(rng, foreign)
    model = MDDKM(trim=True).fit(X, y, groups)
    assert {(0, 3), (0, 7)} <= set(model.trimmed_)
    assert len(model.trimmed_) <= 4
    suspects = {(s.label, s.note) for s in MDDKM().fit(X, y, groups).health().suspects}
    assert {(0, 3), (0, 7)} <= suspects
    assert len(suspects) <= 6


def test_a_clean_set_is_left_alone(rng):
    X, y, _, groups = contaminated(rng, wrong=0)
    model = MDDKM(trim=True).fit(X, y, groups)
    assert len(model.trimmed_) <= 2
    assert "notes" in str(model.health())


def test_with_two_notes_nothing_is_trimmed(rng):
    X, y, _ = notes(rng, [2, 2])
    X[:12] = note(rng, 1)  # the first note of class 0 is one of class 1
    groups = np.repeat(np.arange(4), 12)
    model = MDDKM(trim=True).fit(X, y, groups)
    assert model.trimmed_ == []
    assert sum(len(d.X) for d in model.descriptions_) == len(X)
    assert ("suspected mislabel", 0) in [(s.problem, s.note) for s in model.health().suspects]
    assert "few notes: not trimmed" in str(model.health())


@pytest.mark.parametrize(("n_notes", "trimmed"), [(7, []), (8, [(0, 0)])])
def test_trimming_needs_eight_notes(rng, n_notes, trimmed):
    """In a smaller class an odd note may be one of two variants: it is reported, but kept."""
    X, y, groups = notes(rng, [n_notes, n_notes])
    X[groups == 0] = note(rng, 5)
    model = MDDKM(trim=True).fit(X, y, groups)
    assert model.trimmed_ == trimmed
    reported = [(s.label, s.note) for s in MDDKM().fit(X, y, groups).health().suspects]
    assert (0, 0) in reported


def test_trimming_stops_at_its_share(rng):
    X, y, _, groups = contaminated(rng, per_class=10, wrong=4)
    model = MDDKM(trim=0.1).fit(X, y, groups)
    assert [len(np.unique(own)) for own in model.notes_] == [9, 9, 9]
    assert len(model.trimmed_) == 3
    assert min(len(np.unique(own)) for own in MDDKM(trim=True).fit(X, y, groups).notes_) == 8


def test_after_trimming_the_model_is_that_of_the_kept_notes(rng):
    X, y, _, groups = contaminated(rng, per_class=10)
    fixed = {"metric": "within", "sigma_reg": "condition"}
    model = MDDKM(**fixed, trim=True).fit(X, y, groups)
    kept = ~np.isin(groups, [note for _, note in model.trimmed_])
    assert kept.sum() < len(X)
    again = MDDKM(**fixed).fit(X[kept], y[kept], groups[kept]).length_scale_
    untrimmed = MDDKM(**fixed).fit(X, y, groups).length_scale_
    assert abs(model.length_scale_ - again) < 0.2 * abs(untrimmed - again)


def test_a_small_class_beside_a_large_one_is_not_called_mislabelled(rng):
    X = np.concatenate([rng.normal(size=(10, 2)), rng.normal(size=(500, 2)) + 2.0])
    y = np.repeat([0, 1], [10, 500])
    health = MDDKM().fit(X, y).health()
    wrong = [n for n in health.notes if n.label == 0 and n.problem == "suspected mislabel"]
    assert len(wrong) <= 4
    assert all(n.other_score > n.left_out_score for n in wrong)


@pytest.mark.parametrize("center", [False, True])
def test_the_report_is_about_the_model_as_it_is(rng, center):
    X, y, groups = notes(rng, [6, 6])
    model = MDDKM(center=center).fit(X, y, groups)
    health = model.health()
    for c in (0, 1):
        reported = [n.left_out_score for n in health.notes if n.label == c]
        np.testing.assert_allclose(reported, model.left_out_note_scores_[c])
        assert health.overlap[c, c] == np.mean(model.left_out_note_scores_[c] >= model.thresholds_[c])


def test_a_class_of_a_single_note_has_no_left_out_score(rng):
    X, y, groups = notes(rng, [1, 4])
    with pytest.warns(UserWarning, match="single note"):
        health = MDDKM().fit(X, y, groups).health()
    assert np.isnan(health.overlap[0, 0])
    assert "nan" not in str(health)


def test_a_sample_that_is_everywhere_makes_no_duplicates(rng):
    X, y, groups = notes(rng, [30])
    X[::12] = 0.0
    health = MDDKM().fit(X, y, groups).health()
    assert health.duplicates == []
    X[np.arange(len(X)) % 12 < 6] = 0.0  # half of every note is digital silence
    assert MDDKM().fit(X, y, groups).health().duplicates == []


def test_an_odd_note_is_reported_without_other_classes(rng):
    X, y, groups = notes(rng, [9])
    X[:12] = note(rng, 5)
    health = MDDKM().fit(X, y, groups).health()
    assert [(s.note, s.problem, s.other_label) for s in health.suspects] == [(0, "odd one out", None)]


def test_duplicates_are_found(rng):
    X, y, groups = notes(rng, [4, 4])
    X[groups == 2] = X[groups == 5]
    health = MDDKM().fit(X, y, groups).health()
    assert {(n.note, n.duplicates) for n in health.duplicates} == {(2, ((1, 5),)), (5, ((0, 2),))}
    assert "0 / 2: same samples as 1 / 5" in str(health)


def test_overlap_tells_classes_that_sound_alike(rng):
    X, y, groups = notes(rng, [8, 8, 8])
    X[y == 2] = np.concatenate([note(rng, 1) for _ in range(8)])
    overlap = MDDKM().fit(X, y, groups).health().overlap
    assert overlap[1, 2] > 0.6 < overlap[2, 1]
    assert overlap[0, 1] < 0.2 > overlap[0, 2]
    assert np.all(np.diag(overlap) > 0.6)
