"""OCCGP: scikit-learn's contract and the four measures against scikit-learn's Gaussian process and refits."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from outlark import MDDKM, OCCGP, InputError
from tests.toy_notes import notes

MEASURES = ["mean", "variance", "ratio", "probability"]


@parametrize_with_checks([OCCGP(), OCCGP(measure="probability")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 3))


@pytest.mark.parametrize("name", MEASURES)
def test_measures_follow_from_the_prediction_of_scikit_learn(X, rng, name):
    Z = rng.normal(scale=2.0, size=(20, 3))
    gp = GaussianProcessRegressor(RBF(1.5 / np.sqrt(2)), alpha=0.2, optimizer=None).fit(X, np.ones(len(X)))
    mean, std = gp.predict(Z, return_std=True)
    expected = {
        "mean": mean,
        "variance": -(std**2),
        "ratio": mean / std,
        "probability": norm.pdf(1.0, mean, np.sqrt(std**2 + 0.2)),
    }[name]
    model = OCCGP(measure=name, sigma=1.0, length_scale=1.5, sigma_reg=np.sqrt(0.2)).fit(X)
    np.testing.assert_allclose(model.score_samples(Z), expected, atol=1e-9)


@pytest.mark.parametrize("name", MEASURES)
def test_left_out_scores_are_those_of_a_refit(rng, name):
    X, _, groups = notes(rng, [5])
    fixed = {"measure": name, "sigma": 1.0, "length_scale": 1.5, "sigma_reg": 0.3}
    model = OCCGP(**fixed).fit(X, groups=groups)
    for g in (0, 3):
        refitted = OCCGP(**fixed).fit(X[groups != g], groups=groups[groups != g])
        np.testing.assert_allclose(model.left_out_scores_[groups == g], refitted.score_samples(X[groups == g]))
    lowest_first = np.sort(model.left_out_scores_)
    assert model.offset_ == lowest_first[max(int(0.1 * (len(lowest_first) + 1)), 1) - 1]


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_finds_outliers(X, rng, name):
    model = OCCGP(measure=name).fit(X)
    inside, outside = rng.normal(size=(200, 3)), rng.normal(loc=4.0, size=(200, 3))
    scores = model.score_samples(np.concatenate([inside, outside]))
    assert roc_auc_score(np.repeat([1, 0], 200), scores) > 0.98
    assert np.mean(model.predict(inside) == 1) > 0.8
    assert np.mean(model.predict(outside) == -1) > 0.9
    np.testing.assert_allclose(model.decision_function(inside), model.score_samples(inside) - model.offset_)


def test_variance_is_the_distance_of_mddkm_with_one_class(X):
    mddkm = MDDKM(metric="global").fit(X, np.zeros(len(X)))
    one_class = OCCGP().fit(X)
    np.testing.assert_allclose(-one_class.score_samples(X), mddkm.distances(X)[:, 0] / mddkm.sigma_**2, rtol=1e-6)


def test_unknown_measure(X):
    with pytest.raises(InputError, match=r"measure='entropy' must be one of"):
        OCCGP(measure="entropy").fit(X)


def test_a_single_note_is_cut_into_blocks(rng):
    X, _, groups = notes(rng, [1])
    model = OCCGP().fit(X, groups=groups)
    assert len(model.left_out_scores_) == len(X)
    assert np.isfinite(model.offset_)
