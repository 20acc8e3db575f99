"""MDDKM: scikit-learn's contract, scores, thresholds, verdicts, frozen additions, bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from outlark import MDDKM, OCCGP, PKNN, InputError
from outlark.estimators import mddkm, training
from outlark.estimators.open_set import free_memory, temperature
from outlark.maths.description import blas_threads
from outlark.maths.gp import HyperParameters, cost, target
from outlark.paper.detector import FrameDetector
from tests.toy_notes import note, notes

REJECTS = "samples that resemble no class are answered with outlier_label, which the check does not expect"
EXPECTED = {
    "check_classifiers_train": REJECTS,
    "check_decision_proba_consistency": "a share of the probability is that of outlier_label, in neither class",
}


@parametrize_with_checks([MDDKM(), MDDKM.paper()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks([MDDKM(outlier_label=-99)], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_contract_with_rejection(estimator, check):
    check(estimator)


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def fitted(rng):
    X, y, groups = notes(rng, [6, 6, 6])
    return MDDKM().fit(X, y, groups), X, y, groups


# ---------------------------------------------------------------- the numbers


def test_distances_are_the_variances_of_scikit_learn(iris):
    X, y = iris
    model = MDDKM(sigma=3.0, length_scale=2.0, sigma_reg=0.5).fit(X, y)
    assert (model.sigma_, model.length_scale_, model.sigma_reg_) == (3.0, 2.0, pytest.approx(0.5))
    for c in range(3):
        gp = GaussianProcessRegressor(ConstantKernel(9.0) * RBF(2.0 / np.sqrt(2)), alpha=0.25, optimizer=None)
        _, std = gp.fit(X[y == c], np.zeros(50)).predict(X, return_std=True)
        np.testing.assert_allclose(model.distances(X)[:, c], std**2, atol=1e-9)


def test_score_is_minus_log_root_of_the_distance(iris):
    X, y = iris
    model = MDDKM().fit(X, y)
    np.testing.assert_allclose(
        model.class_scores(X), np.maximum(-0.5 * np.log(model.distances(X) / model.sigma_**2), 0), atol=1e-12
    )


def test_paper_learns_the_minimum_of_the_cost(iris):
    X, y = iris
    model = MDDKM.paper().fit(X, y)
    assert model.metric_ == "euclidean"
    assert (model.sigma_reg_ / model.sigma_) ** 2 == pytest.approx(len(X) / (1e3 - 1))
    theta = HyperParameters(model.sigma_, model.length_scale_, model.sigma_reg_)
    gradient = cost(X, target(X), theta)[1]
    assert gradient[1] == pytest.approx(0.0, abs=0.05)
    assert gradient[0] + gradient[2] == pytest.approx(0.0, abs=0.05)


def test_paper_thresholds(iris):
    X, y = iris
    model = MDDKM.paper().fit(X, y)
    best_on_train = max(model.class_scores(X[y == c])[:, c].max() for c in range(3))
    np.testing.assert_allclose(model.thresholds_, 1.8 / best_on_train)
    np.testing.assert_allclose(clone(model).set_params(threshold="paper-normalized").fit(X, y).thresholds_, 1.8)


def test_the_three_readings_of_the_threshold(iris):
    """-log √d as printed, in the units of σ, against 1.8/μ of the same; the other two are of -log √(d/σ²)."""
    X, y = iris
    fresh = X + 0.3
    answers = {}
    for factor in (1.0, 0.01):
        for reading in ("paper", "paper-normalized", "paper-raw"):
            model = MDDKM.paper(threshold=reading).fit(factor * X, y)
            answers[reading, factor] = model.membership(factor * fresh)
        printed = -0.5 * np.log(model.distances(factor * X))  # of the last reading
        mu = max(printed[y == c, c].max() for c in range(3))
        expected = -0.5 * np.log(model.distances(factor * fresh)) >= 1.8 / mu
        np.testing.assert_array_equal(answers["paper-raw", factor], expected)
    np.testing.assert_array_equal(answers["paper", 1.0], answers["paper", 0.01])
    assert np.any(answers["paper-raw", 1.0] != answers["paper-raw", 0.01])  # it depends on the units of X


def test_the_paper_is_one_method_for_tables_and_for_sound():
    assert FrameDetector.paper().class_model.get_params() == MDDKM.paper().get_params()


def test_left_out_scores_are_those_of_a_refit_without_the_note(rng):
    X, y, groups = notes(rng, [4, 4])
    model = MDDKM(balance=None).fit(X, y, groups)
    frozen = MDDKM(
        sigma=model.sigma_,
        length_scale=model.length_scale_,
        sigma_reg=model.sigma_reg_,
        balance=None,
        threshold=0.0,
    )
    Z = model._mapped(X)  # frozen hyper-parameters are in the units of the metric
    for g in (0, 2):
        out = groups == g
        refitted = frozen.fit(Z[~out], y[~out], groups[~out])
        mine = model.left_out_scores_[0][groups[y == 0] == g]
        np.testing.assert_allclose(mine, refitted.class_scores(Z[out])[:, 0], atol=1e-6)
    lowest_first = np.sort(model.left_out_scores_[0])
    assert model.thresholds_[0] == lowest_first[int(0.1 * (len(lowest_first) + 1)) - 1]
    np.testing.assert_allclose(model.left_out_note_scores_[1][0], model.left_out_scores_[1][groups[y == 1] == 4].mean())


@pytest.mark.parametrize("make", [MDDKM, MDDKM.paper])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_do_not_matter(iris, scale, make):
    X, y = iris
    found, expected = make().fit(X * scale, y).class_scores(X * scale), make().fit(X, y).class_scores(X)
    np.testing.assert_allclose(found, expected, atol=1e-5)  # the search for ℓ stops at a relative 1e-7


@pytest.mark.parametrize("make", [MDDKM, MDDKM.paper])
def test_the_number_of_blas_threads_does_not_matter(rng, make):
    X, y, groups = notes(rng, [10, 10, 10], n=20)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(make().fit(X, y, groups).class_scores(X))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), names=st.permutations([3, 7, 12]))
def test_names_of_classes_do_not_matter(seed, names):
    """Neither for the folds by which metric and regulariser are chosen, nor for any subset that is drawn."""
    rng = np.random.default_rng(seed)
    X, y, groups = notes(rng, [30, 12, 14], n=6, spread=1.0)
    shuffled = rng.permutation(len(X))
    X, y, groups = X[shuffled], y[shuffled], groups[shuffled]
    one, other = (MDDKM(max_samples=100).fit(X, labels, groups) for labels in (y, np.array(names)[y]))
    assert (other.metric_, other.length_scale_, other.trials_) == (one.metric_, one.length_scale_, one.trials_)
    Z = rng.normal(scale=2.0, size=(10, 4))
    order = np.searchsorted(other.classes_, names)
    np.testing.assert_allclose(other.class_scores(Z)[:, order], one.class_scores(Z), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.thresholds_[order], one.thresholds_, rtol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), relabel=st.permutations(["a", "b", "c"]))
def test_names_and_order_do_not_matter(seed, relabel):
    rng = np.random.default_rng(seed)
    X, y, groups = notes(rng, [3, 4, 3], n=6)
    Z = rng.normal(scale=2.0, size=(10, 4))
    fixed = {"metric": "within", "sigma_reg": "condition"}  # cross-validation folds depend on the order
    one = MDDKM(**fixed).fit(X, y, groups)
    names = np.array(relabel)[y]
    other = MDDKM(**fixed).fit(X[::-1], names[::-1], groups[::-1])
    order = [other.classes_.tolist().index(name) for name in relabel]
    np.testing.assert_allclose(other.distances(Z)[:, order], one.distances(Z), rtol=1e-3)


@pytest.mark.parametrize("offset", [50.0, 1e6])
def test_the_origin_does_not_matter(iris, offset):
    X, y = iris
    found = MDDKM().fit(X + offset, y).class_scores(X + offset)
    np.testing.assert_allclose(found, MDDKM().fit(X, y).class_scores(X), atol=1e-4)


def test_the_metric_is_chosen_where_units_differ():
    X, y = load_wine(return_X_y=True)
    auroc: dict[str, list[float]] = {"auto": [], "euclidean": []}
    for unknown in range(3):
        known = y != unknown
        for metric, values in auroc.items():
            model = MDDKM(metric=metric).fit(X[known][::2], y[known][::2])
            values.append(roc_auc_score(known[1::2], model.score_samples(X[1::2])))
    assert np.mean(auroc["auto"]) > np.mean(auroc["euclidean"]) + 0.01
    assert MDDKM().fit(X, y).metric_ in ("within", "whiten")
    assert MDDKM(length_scale=1.0).fit(X, y).metric_ == "euclidean"


def test_centred_scores_are_zero_far_away_too(iris):
    X, y = iris
    model = MDDKM(center=True).fit(X, y)
    assert np.all(model.class_scores([[1e3] * 4]) == 0.0)
    assert model.score(X, y) > 0.95


# ---------------------------------------------------------------- commensurability


def imbalanced(rng):
    """Two classes drawn alike but for their place, 40 samples and 800, and fresh samples of each."""
    place = np.array([2.5, 0.0])
    train = np.concatenate([rng.normal(size=(40, 2)) - place / 2, rng.normal(size=(800, 2)) + place / 2])
    fresh = [rng.normal(size=(2000, 2)) - place / 2, rng.normal(size=(2000, 2)) + place / 2]
    return train, np.repeat([0, 1], [40, 800]), fresh


def relative_difference(model, fresh):
    means = [model.class_scores(fresh[c])[:, c].mean() for c in (0, 1)]
    return abs(means[0] - means[1]) / np.mean(means)


def test_scores_are_commensurable_whatever_the_class_size(rng):
    X, y, fresh = imbalanced(rng)
    model = MDDKM().fit(X, y)
    assert relative_difference(model, fresh) < 0.05
    assert model.verdicts([[0.0, 0.0]]) == ["ambiguous"]
    assert np.all(model.class_scores([[1e4, 1e4]]) == 0.0)
    assert model.verdicts([[1e4, 1e4]]) == ["unknown"]


def test_without_the_correction_they_are_not(rng):
    X, y, fresh = imbalanced(rng)
    uncorrected = MDDKM(balance=None).fit(X, y)
    assert relative_difference(uncorrected, fresh) > 0.2
    assert relative_difference(MDDKM(balance="subsample").fit(X, y), fresh) < 0.1


def test_subsampling_keeps_as_many_of_each(rng):
    X, y, groups = notes(rng, [3, 9])
    model = MDDKM(balance="subsample").fit(X, y, groups)
    assert [len(np.unique(own)) for own in model.notes_] == [3, 3]
    assert [len(d.X) for d in model.descriptions_] == [36, 36]


# ---------------------------------------------------------------- answers


def test_rejection_and_verdicts(fitted, rng):
    model, _, _, _ = fitted
    known = np.concatenate([note(rng, c) for c in range(3)])
    unknown = np.concatenate([note(rng, c) for c in (5, 6, 7)])
    model.set_params(outlier_label=-1)
    assert np.mean(model.predict(known) == np.repeat([0, 1, 2], 12)) > 0.7
    assert np.mean(model.predict(unknown) == -1) > 0.9
    assert np.mean(model.verdicts(unknown) == "unknown") > 0.9
    accepted = model.membership(known).sum(axis=1)
    np.testing.assert_array_equal(
        model.verdicts(known), np.array(["unknown", "known", "ambiguous"])[accepted.clip(max=2)]
    )


def test_decision_function_and_offset(fitted, rng):
    model, X, _, _ = fitted
    np.testing.assert_allclose(model.decision_function(X), model.class_scores(X) - model.offset_)
    np.testing.assert_allclose(model.score_samples(X), model.class_scores(X).max(axis=1))
    assert model.offset_ == model.thresholds_.min()


def test_thresholds_by_number_sequence_and_mapping(iris):
    X, y = iris
    assert MDDKM(threshold=1.5).fit(X, y).thresholds_.tolist() == [1.5] * 3
    assert MDDKM(threshold=[1, 2, 3]).fit(X, y).thresholds_.tolist() == [1, 2, 3]
    assert MDDKM(threshold={0: 3, 2: 1, 1: 2}).fit(X, y).thresholds_.tolist() == [3, 2, 1]


def test_p_values_are_ranks_among_the_left_out_notes(fitted, rng):
    model, X, _, _ = fitted
    new, groups = np.concatenate([note(rng, 0), note(rng, 6)]), np.repeat(["x", "y"], 12)
    p = model.p_values(new, groups)
    assert p.shape == (2, 3)
    mean = model.class_scores(new)[:12, 0].mean()
    assert p[0, 0] == (1 + np.sum(model.left_out_note_scores_[0] <= mean)) / 7
    assert np.all(p[1] == 1 / 7)
    assert model.p_values(X).shape == (len(X), 3)


def test_p_values_miss_the_promised_share(rng):
    X, y = rng.normal(size=(400, 2)), np.zeros(400)
    model = MDDKM().fit(X, y)
    p = model.p_values(rng.normal(size=(4000, 2)))[:, 0]
    for epsilon in (0.05, 0.1, 0.3):
        assert np.mean(p <= epsilon) == pytest.approx(epsilon, abs=0.04)


def test_explanation_names_the_nearest_notes_and_sums_to_one(fitted):
    model, X, _, groups = fitted
    (best, *_), *_ = model.explain(X[groups == 3][5:6])
    assert (best.label, best.note) == (0, 3)
    assert best.distance == pytest.approx(0.0, abs=1e-12)
    for sample in (X[:1], X[:1] + 1e3, X[:1] + 1e9):  # far away every kernel value is 0 in double precision
        everything = model.explain(sample, n_notes=99)[0]
        assert sum(e.share for e in everything) == pytest.approx(1.0)
        assert [e.share for e in everything] == sorted((e.share for e in everything), reverse=True)


@pytest.mark.parametrize("center", [False, True])
def test_thresholds_hold_on_new_notes_centred_or_not(rng, center):
    X, y, groups = notes(rng, [20, 20])
    model = MDDKM(center=center).fit(X, y, groups)
    fresh, truth, _ = notes(np.random.default_rng(5), [60, 60])
    accepted = model.membership(fresh)[np.arange(len(fresh)), truth]
    assert np.mean(accepted) == pytest.approx(0.9, abs=0.06)


def test_one_class_alone_is_told_from_the_rest(rng):
    """ρ = .1, the largest that several classes may choose; with 1, the choice before, the mean was .985."""
    X, y = load_digits(return_X_y=True)
    found = []
    for c in range(10):
        train = rng.permutation(np.flatnonzero(y == c))[:40]
        model = MDDKM().fit(X[train], y[train])
        assert model.sigma_reg_**2 / model.sigma_**2 == pytest.approx(0.1)
        rest = np.setdiff1d(np.arange(len(X)), train)
        found.append(roc_auc_score(y[rest] == c, model.score_samples(X[rest])))
    assert np.mean(found) > 0.99


def rejected_share(make, n, rng, copies=1, jitter=0.0, repeats=150):
    """How many new samples of its two classes a model rejects that has seen n of each, each of them `copies` times."""
    shares = []
    for _ in range(repeats):
        X, y = rng.normal(size=(2 * n, 3)), np.arange(2 * n) % 2
        X, y = np.tile(X, (copies, 1)), np.tile(y, copies)
        X += jitter * rng.normal(size=X.shape)
        X[y == 1, 0] += 8.0
        fresh, truth = rng.normal(size=(200, 3)), np.arange(200) % 2
        fresh[truth == 1, 0] += 8.0
        shares.append(1.0 - make().fit(X, y).membership(fresh)[np.arange(200), truth].mean())
    return float(np.mean(shares))


@pytest.mark.parametrize("n", [10, 20])
def test_thresholds_reject_no_more_than_they_say_with_few_samples(rng, n):
    fixed = MDDKM(metric="euclidean", sigma=1.0, length_scale=3.0, sigma_reg=0.3)
    assert rejected_share(lambda: clone(fixed), n, rng) == pytest.approx(0.1, abs=0.03)


def test_near_copies_do_not_spoil_the_thresholds(rng):
    fixed = MDDKM(metric="euclidean", sigma=1.0, length_scale=3.0, sigma_reg=0.3)
    plain = rejected_share(lambda: clone(fixed), 20, rng, repeats=40)
    assert rejected_share(lambda: clone(fixed), 20, rng, copies=2, jitter=1e-6, repeats=40) < plain + 0.05


def test_p_values_of_a_class_without_left_out_samples_are_not_made_up(rng):
    X, y, _ = notes(rng, [1, 1])
    with pytest.warns(UserWarning, match="single sample"):
        model = MDDKM().fit(np.concatenate([X, [[9.0] * 4]]), np.append(y, 2))
    p = model.p_values(X)
    assert np.all(np.isnan(p[:, 2]))
    assert np.all(np.isfinite(p[:, :2]))


def test_p_values_rank_ties_and_frames_and_refuse_wrong_groups(fitted):
    model, X, y, groups = fitted
    p = model.p_values(X[:1])[0, 0]
    assert p == (1 + np.sum(model.left_out_scores_[0] <= model.class_scores(X[:1])[0, 0])) / (np.sum(y == 0) + 1)
    lowest = np.min(model.left_out_scores_[0])
    model.class_scores = lambda X: np.full((1, 3), lowest)
    assert model.p_values(X[:1])[0, 0] == 2 / (np.sum(y == 0) + 1)
    with pytest.raises(InputError, match="groups has 2 entries for 1 samples"):
        model.p_values(X[:1], groups[:2])


def test_an_outlier_label_set_after_the_fit_is_checked_too(fitted):
    model, X, _, _ = fitted
    with pytest.raises(InputError, match="is also a class"):
        model.set_params(outlier_label=1).predict(X)


# ---------------------------------------------------------------- adding


def test_adding_a_class_leaves_the_other_scores_alone(fitted, rng):
    model, X, _, _ = fitted
    before, thresholds = model.class_scores(X), model.thresholds_
    more, _, groups = notes(rng, [0, 0, 0, 0, 0, 4])
    model.add_class(more, -5, groups)
    assert model.classes_.tolist() == [-5, 0, 1, 2]
    np.testing.assert_array_equal(model.class_scores(X)[:, 1:], before)
    np.testing.assert_array_equal(model.thresholds_[1:], thresholds)
    assert np.all(model.predict(note(rng, 5)) == -5)
    with pytest.raises(InputError, match="class already"):
        model.add_class(more, 0)
    with pytest.raises(InputError, match="give a label of that type"):
        model.add_class(more, "wren")


def test_a_class_with_a_long_name_can_be_added(rng):
    X, y, groups = notes(rng, [4, 4])
    more, _, ids = notes(rng, [0, 0, 0, 0, 0, 4])
    model = MDDKM(outlier_label="?").fit(X, np.array(["a", "b"])[y], groups).add_class(more, "tufted titmouse", ids)
    assert set(model.predict(note(rng, 5))) <= {"tufted titmouse", "?"}


def test_a_small_class_added_later_scores_on_the_same_scale(rng):
    X, y, groups = notes(rng, [12, 12])
    fresh = np.concatenate([note(rng, 5) for _ in range(30)])
    more, _, ids = notes(rng, [0, 0, 0, 0, 0, 12])
    few = ids < 3
    full = MDDKM().fit(X, y, groups).add_class(more, 5, ids).class_scores(fresh)[:, 2].mean()
    small = MDDKM().fit(X, y, groups).add_class(more[few], 5, ids[few]).class_scores(fresh)[:, 2].mean()
    plain = MDDKM(balance=None).fit(X, y, groups).add_class(more[few], 5, ids[few]).class_scores(fresh)[:, 2].mean()
    assert abs(small - full) < 0.6 * abs(plain - full)


def test_adding_a_note_changes_its_class_only(fitted, rng):
    model, X, _, _ = fitted
    before = model.class_scores(X)
    new = note(rng, 1)
    distances = model.distances(new)[:, 1]
    model.add_note(new, 1, note=77)
    np.testing.assert_array_equal(model.class_scores(X)[:, [0, 2]], before[:, [0, 2]])
    assert np.all(model.distances(new)[:, 1] < distances)
    assert 77 in model.notes_[1]
    with pytest.raises(InputError, match="note 77 already"):
        model.add_note(new, 1, note=77)
    with pytest.raises(InputError, match="use add_class"):
        model.add_note(new, "nobody")


def test_a_failed_addition_leaves_the_model_as_it_was(fitted, rng):
    model, X, _, _ = fitted
    before = model.class_scores(X)
    with pytest.raises(InputError, match="groups has 3 entries"):
        model.add_class(note(rng, 5), 9, [1, 2, 3])
    np.testing.assert_array_equal(model.class_scores(X), before)
    model.set_params(threshold=[1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="one for each class"):
        model.add_class(note(rng, 5), 9)
    np.testing.assert_array_equal(model.class_scores(X), before)
    assert model.classes_.tolist() == [0, 1, 2]


def test_adding_a_note_takes_its_size_into_account(rng):
    X, y, groups = notes(rng, [4, 4], n=12)
    model = MDDKM().fit(X, y, groups)
    assert model.size_factors_.tolist() == [1.0, 1.0]
    for i in range(6):
        model.add_note(note(rng, 0), 0, note=100 + i)
    assert model.size_factors_[0] < 0.97
    assert model.size_factors_[1] == 1.0


def test_refitting_forgets_what_was_added(fitted, rng):
    model, X, y, groups = fitted
    before = model.class_scores(X)
    model.add_class(note(rng, 5), 9, np.repeat([0, 1], 6)).fit(X, y, groups)
    np.testing.assert_array_equal(model.class_scores(X), before)


# ---------------------------------------------------------------- odd input


def test_a_class_with_one_note_warns_and_works(rng):
    X, y, groups = notes(rng, [1, 5])
    with pytest.warns(UserWarning, match=r"class 0 has a single note.*blocks"):
        model = MDDKM(outlier_label=-1).fit(X, y, groups)
    assert np.all(np.isfinite(model.thresholds_))
    assert np.all(model.predict(note(rng, 7)) == -1)


def test_a_class_with_one_sample_warns_and_works(rng):
    X, y, _ = notes(rng, [1, 1])
    with pytest.warns(UserWarning, match="single sample"):
        model = MDDKM(outlier_label=-1).fit(np.concatenate([X, [[9.0] * 4]]), np.append(y, 2))
    assert model.predict([[9.0] * 4, [-40.0] * 4]).tolist() == [2, -1]


@pytest.mark.parametrize(("n_classes", "per_class"), [(3, 1), (310, 2)])
def test_many_small_classes(rng, n_classes, per_class):
    y = np.repeat(np.arange(n_classes), per_class)
    X = 20.0 * rng.normal(size=(n_classes, 5))[y] + 0.1 * rng.normal(size=(len(y), 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert MDDKM().fit(X, y).score(X, y) == 1.0


def test_single_notes_do_not_break_the_size_correction(rng):
    X, y, groups = notes(rng, [1, 10])
    with pytest.warns(UserWarning, match="single note"):
        model = MDDKM().fit(X, y, groups)
    assert model.size_factors_[1] == 1.0
    assert model.size_factors_[0] > 1.0


def test_blas_has_one_thread_while_fitting_and_the_old_number_after(rng, monkeypatch):
    X, y, groups = notes(rng, [3, 3])
    seen = []
    train = mddkm.train
    monkeypatch.setattr(mddkm, "train", lambda *given: seen.append(blas_threads()) or train(*given))
    with threadpool_limits(2, user_api="blas"):
        MDDKM().fit(X, y, groups)
        assert blas_threads() == 2
    assert seen == [1]


def test_one_class(rng):
    X = rng.normal(size=(60, 3))
    model = MDDKM(outlier_label="no").fit(X, ["yes"] * 60)
    assert model.sigma_reg_**2 == pytest.approx(0.1 * model.sigma_**2)  # nothing to choose by
    assert model.predict([[0.0] * 3, [9.0] * 3]).tolist() == ["yes", "no"]
    np.testing.assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_)


def test_duplicates_and_constant_features(rng):
    X, y, _ = notes(rng, [3, 3])
    doubled = np.column_stack([np.concatenate([X, X]), np.full(2 * len(X), 7.0)])
    model = MDDKM().fit(doubled, np.concatenate([y, y]))
    assert np.all(np.isfinite(model.class_scores(doubled)))
    assert model.score(doubled, np.concatenate([y, y])) == 1.0


def test_constant_samples_name_the_knob():
    X, y = np.ones((6, 2)), [0, 0, 0, 1, 1, 1]
    with pytest.raises(InputError, match=r"all training samples are the same.*length_scale="):
        MDDKM().fit(X, y)
    model = MDDKM(length_scale=1.0).fit(X, y)
    assert np.all(np.isfinite(model.class_scores(X)))


@pytest.mark.parametrize("size", [1e-300, 1e200])
def test_sizes_beyond_double_precision_are_refused(size, rng):
    X, y, _ = notes(rng, [2, 2])
    with pytest.raises(InputError, match=r"outside double precision; multiply X"):
        MDDKM().fit(X * size, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(bad, iris):
    X, y = iris
    spoilt = X.copy()
    spoilt[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        MDDKM().fit(spoilt, y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        MDDKM().fit(X, y).predict(spoilt)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sigma": -1.0}, r"sigma=-1.0 must be a positive number or None"),
        ({"length_scale": "long"}, r"length_scale='long' must be a positive number"),
        ({"sigma_reg": "small"}, r"sigma_reg='small' must be .*'auto' or 'condition'"),
        ({"metric": "cosine"}, r"metric='cosine' must be one of"),
        ({"target": "x"}, r"target='x' must be one of"),
        ({"balance": "weights"}, r"balance='weights' must be one of"),
        ({"trim": None}, r"trim=None must be True, False or a share"),
        ({"quantile": "x"}, r"quantile='x' must lie between"),
        ({"sigma": 100.0, "sigma_reg": 1e-7}, r"too small.*give a larger sigma_reg"),
        ({"trim": 3.0}, r"trim=3.0 must be True, False or a share"),
        ({"threshold": "guess"}, r"threshold='guess' is not known"),
        ({"threshold": [1, 2]}, r"one for each class"),
        ({"threshold": {0: 1}}, r"no value for the classes \[1, 2\]"),
        ({"threshold": np.nan}, r"finite number"),
        ({"quantile": 1.5}, r"quantile=1.5 must lie between 0 and 1"),
        ({"condition": 1e20}, r"condition=1e\+20 must lie between"),
        ({"precision": "half"}, r"precision='half' must be one of"),
        ({"max_samples": 1}, r"max_samples=1 must be at least 2"),
    ],
)
def test_parameters_that_cannot_be_used(iris, parameters, message):
    with pytest.raises(InputError, match=message):
        MDDKM(**parameters).fit(*iris)


def test_a_small_sigma_reg_for_large_values(iris):
    X, y = iris
    assert MDDKM(sigma_reg=1e-3).fit(X * 1e6, y).score(X * 1e6, y) > 0.9


def test_labels_of_different_kinds(iris):
    X, _ = iris
    for model in (MDDKM(), PKNN()):
        for y in (np.array([0, "a"] * 75, dtype=object), [0, "a"] * 75):  # of the list NumPy would make text
            with pytest.raises(InputError, match=r"y mixes labels of different kinds \(number, str\)"):
                model.fit(X, y)
        with pytest.raises(InputError, match=r"different kinds \(bool, number\)"):
            model.fit(X, [2, True] * 75)


@pytest.mark.parametrize("make", [MDDKM, PKNN, OCCGP])
def test_sample_weights_are_refused(iris, make):
    X, y = iris
    with pytest.raises(InputError, match=rf"{make.__name__} does not use sample_weight: .*omit the samples"):
        make().fit(X, y, sample_weight=np.ones(150))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        make().fit(X, y, weights=np.ones(150))


@pytest.mark.parametrize("make", [lambda: MDDKM(landmarks=None), OCCGP])
def test_what_memory_cannot_hold_is_refused_at_once(make):
    n = 3_000_000
    with pytest.raises(InputError, match=r"has 3,000,000 samples: .* GB of memory and .* GB are free; give at most"):
        make().fit(np.arange(n, dtype=float)[:, np.newaxis], np.zeros(n))
    assert free_memory() > 4 * 8 * 1000**2


def test_probabilities(iris):
    X, y = iris
    model = MDDKM().fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    rejecting = clone(model).set_params(outlier_label=-1).fit(X, y)
    p = rejecting.predict_proba(X)
    scores = rejecting.class_scores(X)
    T = temperature(rejecting.left_out_scores_, rejecting.thresholds_)
    none = 1.0 - p.sum(axis=1)
    best = scores.argmax(axis=1)
    # the odds of a class against "none of these" are those of its score against what the best class needs
    np.testing.assert_allclose(
        np.log(p[range(150), best] / none), (scores.max(axis=1) - rejecting.thresholds_[best]) / T
    )
    assert rejecting.predict_proba(X + 50.0).sum(axis=1).max() < 0.2


def test_probabilities_hold_for_unknowns_too(rng):
    """Digits of four classes are known; of what is said with probability p, about a share p is right."""
    X, y = load_digits(return_X_y=True)
    sure, right = [], []
    for _ in range(3):
        known = rng.choice(10, 4, replace=False)
        train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:25] for c in known])
        test = np.setdiff1d(np.arange(len(y)), train)
        model = MDDKM(outlier_label=-1).fit(X[train], y[train])
        p = model.predict_proba(X[test])
        p = np.column_stack([p, 1.0 - p.sum(axis=1)])
        truth = np.where(np.isin(y[test], known), y[test], -1)
        sure.append(p.max(axis=1))
        right.append(np.append(model.classes_, -1)[p.argmax(axis=1)] == truth)
    sure, right = np.concatenate(sure), np.concatenate(right)
    for low, high in [(0.5, 0.7), (0.7, 0.9), (0.9, 1.01)]:
        some = (sure >= low) & (sure < high)
        assert right[some].mean() == pytest.approx(sure[some].mean(), abs=0.1)


def test_probabilities_of_single_samples_are_refused():
    with pytest.warns(UserWarning, match="single sample"):
        model = MDDKM().fit([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(InputError, match="probabilities need left-out scores"):
        model.predict_proba([[0.0]])


def test_max_samples_limits_learning_not_describing(rng):
    X, y, groups = notes(rng, [20, 20])
    model = MDDKM(max_samples=60).fit(X, y, groups)
    assert sum(len(d.X) for d in model.descriptions_) == len(X)
    assert model.score(X, y) > 0.95


def test_works_in_scikit_learn_model_selection(rng):
    X, y, groups = notes(rng, [6, 6, 6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cross_val_score(MDDKM(), X, y, groups=groups, cv=GroupKFold(3)).mean() > 0.9


def test_warnings_point_to_the_caller(rng):
    X, y, groups = notes(rng, [1, 4])
    with pytest.warns(UserWarning, match="single note") as fitting:
        model = MDDKM().fit(X, y, groups)
    more, _, ids = notes(rng, [0, 0, 0, 0, 0, 1])
    with pytest.warns(UserWarning, match="single note") as adding:
        model.add_class(more, 5, ids)
    assert {warning.filename for warning in [*fitting, *adding]} == {__file__}


def test_large_classes_have_no_tiny_regulariser(rng, monkeypatch):
    """A small one asks for more landmarks than there may be."""
    X, y = rng.normal(size=(120, 3)), np.repeat([0, 1], 60)
    X[y == 1] += 2.0
    groups = np.arange(120) // 5
    small = MDDKM(metric="euclidean").fit(X, y, groups)
    assert min(trial.ratio for trial in small.trials_) < training.MIN_RATIO_OF_LARGE
    monkeypatch.setattr(training, "EXACT_UP_TO", 59)
    large = MDDKM(metric="euclidean").fit(X, y, groups)
    assert large.trials_
    assert all(trial.ratio >= 0.01 for trial in large.trials_)
    assert {trial.ratio for trial in large.trials_} == {t.ratio for t in small.trials_ if t.ratio >= 0.01}
