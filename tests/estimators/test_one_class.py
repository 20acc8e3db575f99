"""One class by default: local metric, likelihood scale and log odds, through everything that `MDDKM` offers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.covariance import OAS
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from outlark import MDDKM, load_estimator, save
from outlark.maths.local import local_map
from outlark.maths.odds import distance_score
from outlark.paper.detector import FrameDetector
from tests.toy_notes import notes


def one_class(X, **parameters):
    return MDDKM(**parameters).fit(X, np.zeros(len(X), int))


@pytest.fixture
def X(rng):
    return np.concatenate([rng.normal(size=(90, 3)), rng.normal(size=(60, 3)) * 0.5 + 6.0])


def recipe(X, Z):
    """The log odds of the rows of Z as the decision gives them, written out; e* from a fine grid."""
    n, d = X.shape
    gaps = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(gaps, np.inf)
    near = X[np.argsort(gaps, axis=1)[:, :5]].mean(axis=1)
    S = OAS(assume_centered=True).fit(np.sqrt(5 / 6) * (X - near)).covariance_
    few = min(1.0, (30 / n) ** 2)
    values, vectors = np.linalg.eigh(S)
    W = vectors / np.sqrt(values + (1 + 12 * few) * values.mean())
    T, U = X @ W, Z @ W
    squares = np.linalg.norm(T[:, None] - T, axis=2) ** 2
    np.fill_diagonal(squares, np.inf)
    grid = np.geomspace(0.1, 10.0, 4000)
    e = max(grid, key=lambda e: logsumexp(-squares / e**2, axis=1).sum() - n * d * np.log(e))
    ell = 4 * (1 + 3 * few) * e
    np.fill_diagonal(squares, 0.0)
    k = np.exp(-(np.linalg.norm(T[:, None] - U, axis=2) ** 2) / ell**2)
    q = np.einsum("ij,ij->j", k, np.linalg.solve(np.exp(-squares / ell**2) + 0.1 * np.eye(n), k))
    return ell, 0.5 * np.log(q / (1 - q))


@pytest.mark.parametrize("n", [20, 150])
def test_the_default_is_the_recipe_written_out(X, rng, n):
    X, Z = X[rng.permutation(150)[:n]], rng.normal(scale=3.0, size=(40, 3))
    model = one_class(X)
    ell, expected = recipe(X, Z)
    assert (model.metric_, model.has_log_odds_) == ("local", True)
    assert model.length_scale_ == pytest.approx(ell, rel=2e-3)
    assert (model.sigma_reg_ / model.sigma_) ** 2 == pytest.approx(0.1)
    np.testing.assert_allclose(model.score_samples(Z), expected, atol=0.02)


def test_far_samples_do_not_tie_and_are_ordered_by_distance(X):
    far = np.array([[10.0**power, 0.0, 0.0] for power in range(1, 6)])
    scores = one_class(X).score_samples(far)
    assert (np.diff(scores) < 0).all()
    assert np.isfinite(scores).all()
    assert np.unique(one_class(X, metric="global").score_samples(far[2:])).tolist() == [0.0]


def test_left_out_scores_are_those_of_a_refit_without_the_sample(X):
    X = np.concatenate([X, [[300.0, 0.0, 0.0]]])
    model = one_class(X)
    kernel = {"sigma": 1.0, "length_scale": model.length_scale_, "sigma_reg": 0.1**0.5, "threshold": 0.0}
    Z = (X - model._origin) @ model.feature_map_
    for i in (0, 100, 150):
        rest = np.delete(Z, i, axis=0)
        d = MDDKM(metric="euclidean", **kernel).fit(rest, np.zeros(len(rest))).distances(Z[[i]])[0, 0]
        assert distance_score(model.left_out_scores_[0][i]) == pytest.approx(-0.5 * np.log(d), abs=1e-9)
    assert model.left_out_scores_[0][150] < -10  # it resembles no other
    assert model.thresholds_[0] == np.sort(model.left_out_scores_[0])[14]


def test_thresholds_reject_the_promised_share(rng):
    shares = []
    for _ in range(40):
        model = one_class(rng.normal(size=(60, 4)), quantile=0.1, outlier_label=-1)
        shares.append(np.mean(model.predict(rng.normal(size=(200, 4))) == -1))
    assert np.mean(shares) == pytest.approx(0.1, abs=0.02)
    p = model.p_values(rng.normal(size=(500, 4)))
    assert np.mean(p <= 0.2) == pytest.approx(0.2, abs=0.1)


def test_a_class_that_resembles_itself_little_may_have_a_negative_threshold(rng):
    X = rng.normal(size=(200, 2)) * np.exp(2 * rng.normal(size=(200, 1)))
    model = one_class(X, outlier_label=-1, quantile=0.005)
    assert model.thresholds_[0] < 0
    assert np.mean(model.membership(X)) > 0.8


def test_units_origin_rotation_and_copies_do_not_matter(X, rng):
    Z = rng.normal(scale=4.0, size=(20, 3))
    expected = one_class(X).score_samples(Z)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    np.testing.assert_allclose(one_class(100 * X + 7).score_samples(100 * Z + 7), expected, atol=1e-4)
    np.testing.assert_allclose(one_class(X @ turn).score_samples(Z @ turn), expected, atol=1e-4)
    once, twice = one_class(X), one_class(np.tile(X, (2, 1)))
    assert twice.length_scale_ == pytest.approx(once.length_scale_, rel=0.03)
    np.testing.assert_allclose(twice.feature_map_, once.feature_map_, atol=0.1)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(50, 3)), rng.normal(scale=2.0, size=(10, 3))
    one, other = one_class(X), one_class(X[rng.permutation(50)])
    np.testing.assert_allclose(other.score_samples(Z), one.score_samples(Z), rtol=1e-6, atol=1e-8)
    assert other.offset_ == pytest.approx(one.offset_, rel=1e-6)


def test_a_table_of_few_distinct_rows_with_binary_columns(rng):
    X = rng.integers(0, 2, size=(500, 6)).astype(float) * [1, 1, 1, 1, 0, 1]
    model = one_class(X, outlier_label=-1)
    scores = model.score_samples(np.array([[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 1, 1], [5, 1, 0, 1, 0, 1]], float))
    assert (np.diff(scores) < 0).all()
    assert np.mean(model.predict(X) == 0) > 0.85


def test_samples_of_a_note_are_no_neighbours_of_each_other(rng):
    X, _, groups = notes(rng, [12], n=6, spread=1.0)
    model = MDDKM().fit(X, np.zeros(len(X)), groups)
    alone = one_class(X)
    assert model.length_scale_ > alone.length_scale_
    assert len(model.left_out_note_scores_[0]) == 12
    single = MDDKM(threshold=0.0).fit(X, np.zeros(len(X)), np.zeros(len(X)))
    assert np.isfinite(single.left_out_scores_[0]).all()


@pytest.mark.parametrize("parameters", [{}, {"landmarks": 60}, {"precision": "single"}])
def test_a_saved_model_scores_the_same(X, tmp_path, parameters):
    model = one_class(X, **parameters)
    save(model, tmp_path / "one.outlark")
    again = load_estimator(tmp_path / "one.outlark")
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert (again.offset_, again.has_log_odds_) == (model.offset_, True)


def test_landmarks_give_nearly_the_same_scores(rng):
    X = rng.normal(size=(600, 2))
    exact, sparse = one_class(X), one_class(X, landmarks=100)
    assert sparse.certificates_[0] < 0.01
    np.testing.assert_allclose(sparse.score_samples(X), exact.score_samples(X), atol=0.02)
    assert sparse.offset_ == pytest.approx(exact.offset_, abs=0.05)


def test_evidence_and_health(X):
    odd = np.concatenate([X, [[30.0, -30.0, 0.0]]])
    model = one_class(odd)
    found = model.explain(odd[[3]], n_notes=151)[0]
    assert min(found, key=lambda note: note.distance).note == 3
    assert sum(note.share for note in found) == pytest.approx(1.0)
    health = model.health()
    assert health.suspects[0].note == 150
    assert health.overlap[0, 0] == pytest.approx(np.mean(model.left_out_scores_[0] >= model.thresholds_[0]))
    assert health.notes[0].left_out_score == pytest.approx(float(distance_score(model.left_out_scores_[0][0])))
    assert 150 in [note for _, note in one_class(odd, trim=True).trimmed_]


def test_a_class_that_is_added_scores_on_the_same_scale(X, rng):
    model = one_class(X[:90], outlier_label=-1)
    before = model.score_samples(X)
    model.add_class(X[90:] + 6.0, 1)
    np.testing.assert_array_equal(model.class_scores(X)[:, 0], before)
    assert model.has_log_odds_
    assert (model.predict(X[90:] + 6.0) == 1).mean() > 0.8
    assert (model.predict(X[:90]) == 0).mean() > 0.8
    assert (model.predict(rng.normal(size=(9, 3)) + 40.0) == -1).all()
    probabilities = model.predict_proba(X[:90])
    assert ((probabilities >= 0) & (probabilities.sum(axis=1, keepdims=True) <= 1 + 1e-12)).all()


def test_several_classes_in_the_local_metric_rank_as_their_distances(rng):
    X, y = load_digits(return_X_y=True)
    known, unknown = np.isin(y, [1, 4, 8]), np.isin(y, [0, 6])
    train = rng.permutation(np.flatnonzero(known))[:200]
    model = MDDKM(metric="local", balance=None).fit(X[train], y[train])
    test = np.setdiff1d(np.flatnonzero(known | unknown), train)
    scores, d = model.class_scores(X[test]), model.distances(X[test]) / model.sigma_**2
    np.testing.assert_array_equal(scores.argmax(axis=1), d.argmin(axis=1))
    np.testing.assert_allclose(distance_score(scores), -0.5 * np.log(d), atol=1e-9)
    assert roc_auc_score(known[test], scores.max(axis=1)) > 0.97
    named = MDDKM(metric="local", balance=None).fit(X[train], -y[train])
    np.testing.assert_allclose(named.class_scores(X[test])[:, ::-1], scores, rtol=1e-6, atol=1e-8)


def test_given_parameters_and_global_are_as_before(X):
    """Euclidean and -log √d, whatever the number of classes; so the note-level detector is what it was."""
    fixed = one_class(X, sigma=1.0, length_scale=2.0, sigma_reg=0.1**0.5)
    assert (fixed.metric_, fixed.has_log_odds_) == ("euclidean", False)
    assert one_class(X, metric="global", sigma_reg=0.3).metric_ == "euclidean"
    assert one_class(X, metric="global").metric_ == "euclidean"
    assert one_class(X * [1, 1, 1e4], metric="global").metric_ == "euclidean"  # one of three still carries a third
    assert not one_class(X, center=True).has_log_odds_


def test_frames_are_refused_scores_that_may_be_negative(rng):
    clips = [rng.normal(size=4000) for _ in range(4)]
    with pytest.raises(ValueError, match=r'MDDKM\(metric="global"\)'):
        FrameDetector(class_model=MDDKM()).fit(clips, ["a"] * 4, 22050)
    assert FrameDetector().fit(clips, ["a"] * 4, 22050).class_model_.metric_ != "local"


@pytest.mark.parametrize("n_classes", [1, 3])
def test_embeddings_in_a_pipeline_with_a_normalizer(rng, n_classes):
    """Directions of 512 numbers, lengths at random: only directions count, with 20 rows for each class."""
    centres = rng.normal(size=(n_classes, 512))
    y = np.repeat(np.arange(n_classes), 20)

    def vectors(c):
        rows = centres[c] + 0.8 * rng.normal(size=(len(c), 512))
        return rows * rng.uniform(0.1, 10.0, size=(len(c), 1))

    model = make_pipeline(Normalizer(), MDDKM(outlier_label=-1)).fit(vectors(y), y)
    fresh, unknown = vectors(np.tile(y, 5)), rng.normal(size=(100, 512))
    found = model.predict(fresh)
    assert np.mean(found == np.tile(y, 5)) > 0.8
    assert set(found.tolist()) <= {-1, *y.tolist()}
    assert (model.predict(unknown) == -1).mean() > 0.95
    np.testing.assert_allclose(model.score_samples(3.7 * fresh), model.score_samples(fresh), rtol=1e-7, atol=1e-9)


def test_more_columns_than_rows_cost_little(rng):
    X = rng.normal(size=(30, 2048)) / np.sqrt(1 + np.arange(2048))
    model = one_class(X)
    assert model.feature_map_.shape == (2048, 2048)
    assert roc_auc_score(np.repeat([1, 0], 30), model.score_samples(np.concatenate([X + 0.01, 3 * X]))) > 0.9


@pytest.mark.parametrize(("n", "d"), [(40, 100), (100, 100)])
def test_thresholds_hold_for_new_samples_where_features_outnumber_samples(rng, n, d):
    """With the metric of all samples, which is fitted to them, most new samples were rejected."""
    shares = []
    for _ in range(10):
        model = one_class(rng.normal(size=(n, d)), quantile=0.1)
        shares.append(1.0 - model.membership(rng.normal(size=(300, d))).mean())
    assert np.mean(shares) == pytest.approx(0.1, abs=0.05)


def test_left_out_scores_of_few_samples_are_those_of_another_metric_without_them(rng):
    """Up to five samples are left out one by one: metric without the sample, λ, ℓ and ρ of the whole class."""
    X = rng.normal(size=(5, 2))
    model = one_class(X)
    for i in range(5):
        rest = np.delete(X, i, axis=0)
        W = local_map(rest, np.zeros(4), np.arange(4), n_notes=5)
        kernel = {"sigma": 1.0, "length_scale": model.length_scale_, "sigma_reg": 0.1**0.5, "threshold": 0.0}
        d = MDDKM(metric="euclidean", **kernel).fit(rest @ W, np.zeros(4)).distances(X[[i]] @ W)[0, 0]
        assert model.left_out_scores_[0][i] == pytest.approx(0.5 * np.log((1 - d) / d), rel=1e-6, abs=1e-8)
