"""The reject option: scikit-learn's contract, its scores against the wrapped estimator's, its threshold by hand."""

from typing import Any

import numpy as np
import pytest
from reject_option import RejectOption
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from outlark.errors import InputError

X, Y = load_iris(return_X_y=True)
TWO = Y < 2


@parametrize_with_checks([RejectOption(LogisticRegression()), RejectOption(SVC()), RejectOption(GaussianNB())])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_scores_come_from_the_estimator() -> None:
    proba = RejectOption(GaussianNB(), threshold=0.5).fit(X, Y)
    assert proba.method_ == "predict_proba"
    np.testing.assert_array_equal(proba.class_scores(X), GaussianNB().fit(X, Y).predict_proba(X))
    margin = RejectOption(LogisticRegression(max_iter=500), threshold=0.5).fit(X, Y)
    assert margin.method_ == "decision_function"
    np.testing.assert_array_equal(
        margin.class_scores(X), LogisticRegression(max_iter=500).fit(X, Y).decision_function(X)
    )
    np.testing.assert_array_equal(margin.decision_function(X), margin.class_scores(X) - 0.5)
    np.testing.assert_array_equal(margin.score_samples(X), margin.class_scores(X).max(axis=1))
    other = RejectOption(LogisticRegression(max_iter=500), threshold=0.5, method="predict_proba").fit(X, Y)
    np.testing.assert_array_equal(other.class_scores(X), LogisticRegression(max_iter=500).fit(X, Y).predict_proba(X))


def test_two_classes_have_two_columns_and_one_decision() -> None:
    model = RejectOption(SVC(), threshold=0.0).fit(X[TWO], Y[TWO])
    margin = SVC().fit(X[TWO], Y[TWO]).decision_function(X[TWO])
    np.testing.assert_array_equal(model.class_scores(X[TWO]), np.column_stack([-margin, margin]))
    np.testing.assert_array_equal(model.decision_function(X[TWO]), 2 * margin)
    np.testing.assert_array_equal(model.predict(X[TWO]), SVC().fit(X[TWO], Y[TWO]).predict(X[TWO]))


class Nearness(ClassifierMixin, BaseEstimator):
    """One-dimensional: minus the distance to the class mean, under the name that outlark uses."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Nearness":
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == c].mean() for c in self.classes_])
        return self

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        return -np.abs(X - self.means_)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        raise AssertionError("class_scores comes first")


def test_class_scores_come_before_the_other_methods() -> None:
    model = RejectOption(Nearness(), threshold=-1.0, outlier_label=-1).fit([[0.0], [5.0]], [3, 4])
    assert model.method_ == "class_scores"
    assert model.predict([[0.5], [5.9], [2.5], [-1.0], [-1.5]]).tolist() == [3, 4, -1, 3, -1]


def test_one_class_has_one_decision_per_sample() -> None:
    model = RejectOption(Nearness(), threshold=-1.0, outlier_label=-1).fit([[0.0], [2.0]], [3, 3])
    np.testing.assert_array_equal(model.decision_function([[1.5], [4.0]]), [0.5, -2.0])
    assert model.predict([[1.5], [4.0]]).tolist() == [3, -1]


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.5])
def test_threshold_is_the_quantile_of_held_out_scores(method: str, quantile: float) -> None:
    few, y = X[::2], Y[::2]
    model = RejectOption(LogisticRegression(max_iter=500), quantile=quantile, method=method).fit(few, y)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_predict(LogisticRegression(max_iter=500), few, y, cv=folds, method=method)
    assert model.offset_ == pytest.approx(np.quantile(scores.max(axis=1), quantile))


def test_small_classes_are_held_out_one_by_one() -> None:
    rows = np.r_[0:4, 50:60, 100:110]
    model = RejectOption(GaussianNB()).fit(X[rows], Y[rows])
    scores = cross_val_predict(GaussianNB(), X[rows], Y[rows], cv=LeaveOneOut(), method="predict_proba")
    assert model.offset_ == pytest.approx(np.quantile(scores.max(axis=1), 0.1))


def test_many_samples_are_held_out_in_as_many_folds_as_the_smallest_class_allows() -> None:
    rows = np.r_[0:3, 50:150]
    model = RejectOption(GaussianNB()).fit(X[rows], Y[rows])
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_predict(GaussianNB(), X[rows], Y[rows], cv=folds, method="predict_proba")
    assert model.offset_ == pytest.approx(np.quantile(scores.max(axis=1), 0.1))


def test_the_only_sample_of_a_class_is_never_held_out() -> None:
    samples, labels = np.array([[0.0], [3.5], [1.0], [3.0]]), np.array(["a", "b", "a", "a"])
    model = RejectOption(Nearness(), quantile=0.0).fit(samples, labels)
    # Left out one by one, the samples of "a" are 2, 0.5 and 2.5 from the mean of the others; the last is nearer to "b".
    assert model.offset_ == -2.0


def test_folds_can_be_chosen() -> None:
    folds = KFold(4, shuffle=True, random_state=3)
    model = RejectOption(GaussianNB(), cv=folds).fit(X, Y)
    scores = cross_val_predict(GaussianNB(), X, Y, cv=folds, method="predict_proba")
    assert model.offset_ == pytest.approx(np.quantile(scores.max(axis=1), 0.1))


def test_quantile_is_the_share_of_rejected_knowns(rng: np.random.Generator) -> None:
    y = rng.integers(3, size=1500)
    samples = rng.normal(size=(1500, 2)) + 2 * np.eye(3)[y][:, :2]
    model = RejectOption(GaussianNB(), outlier_label=-1, quantile=0.2).fit(samples[:1000], y[:1000])
    rejected = model.predict(samples[1000:]) == -1
    # Four standard errors of a share of 500.
    assert rejected.mean() == pytest.approx(0.2, abs=0.07)
    np.testing.assert_array_equal(rejected, model.score_samples(samples[1000:]) < model.offset_)


def test_rejection_changes_only_the_rejected() -> None:
    names = np.array(["a", "b", "c"])[Y]
    closed = RejectOption(GaussianNB()).fit(X, names).predict(X)
    model = RejectOption(GaussianNB(), outlier_label="unknown").fit(X, names)
    opened = model.predict(X)
    rejected = opened == "unknown"
    assert 0 < rejected.sum() < 40
    np.testing.assert_array_equal(opened[~rejected], closed[~rejected])
    assert closed.dtype == np.dtype("<U1")


def test_a_number_may_be_the_threshold_and_equal_scores_are_accepted() -> None:
    model = RejectOption(Nearness(), outlier_label=-1).fit([[0.0], [0.0], [5.0], [5.0]], [0, 0, 1, 1])
    assert model.set_params(threshold=-2).fit([[0.0], [5.0]], [0, 1]).offset_ == -2.0
    assert model.predict([[2.0], [2.1]]).tolist() == [0, -1]


def test_the_given_estimator_is_left_alone() -> None:
    inner = GaussianNB()
    RejectOption(inner).fit(X, Y)
    assert not hasattr(inner, "classes_")


def test_pipelines_sparse_and_precomputed_input_work() -> None:
    expected = RejectOption(SVC(gamma=0.3)).fit(X, Y)
    kernel = rbf_kernel(X, gamma=0.3)
    precomputed = RejectOption(SVC(kernel="precomputed")).fit(kernel, Y)
    assert precomputed.offset_ == pytest.approx(expected.offset_, abs=1e-3)  # libsvm stops at 1e-3
    sparse = RejectOption(SVC(gamma=0.3)).fit(csr_array(X), Y)
    assert sparse.offset_ == pytest.approx(expected.offset_, abs=1e-3)
    piped = RejectOption(make_pipeline(StandardScaler(), SVC()), outlier_label=9).fit(X, Y)
    assert set(piped.predict(np.r_[X, 100 + X[:1]])) == {0, 1, 2, 9}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"outlier_label": 2}, r"outlier_label=2 is also a class"),
        ({"threshold": "median"}, r"threshold is 'median', expected a number or 'quantile'"),
        ({"threshold": np.nan}, r"threshold is nan, expected a number"),
        ({"quantile": 1.1}, r"quantile is 1.1, expected a share between 0 and 1"),
        ({"method": "transform"}, r"method is 'transform', expected 'auto' or one of"),
        ({"method": "decision_function"}, r"GaussianNB has no decision_function"),
        ({"estimator": StandardScaler()}, r"StandardScaler has no \('class_scores'"),
        ({"estimator": SVC(decision_function_shape="ovo")}, r"SVC gives 3 scores per sample, expected one for each of"),
        ({"estimator": make_pipeline(SVC(decision_function_shape="ovo"))}, r"Pipeline gives 3 scores per sample"),
    ],
)
def test_fit_refuses(parameters: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RejectOption(**({"estimator": GaussianNB()} | parameters)).fit(X, Y)


def test_one_score_per_pair_is_refused_by_the_number_of_columns() -> None:
    four = np.where(X[:, 0] > 6.5, 3, Y)
    with pytest.raises(InputError, match="SVC gives 6 scores per sample, expected one for each of the 4 classes"):
        RejectOption(SVC(decision_function_shape="ovo")).fit(X, four)


def test_one_sample_per_class_needs_a_number() -> None:
    with pytest.raises(InputError, match=r"every class has only one sample.*threshold as a number"):
        RejectOption(Perceptron()).fit(X[[0, 60]], Y[[0, 60]])
    assert RejectOption(Perceptron(), threshold=0.0).fit(X[[0, 60]], Y[[0, 60]]).offset_ == 0.0


def test_targets_must_be_labels_even_if_the_estimator_does_not_care() -> None:
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        RejectOption(Nearness()).fit(X[:, :1], X[:, 1])
