"""PKNN as an estimator: scikit-learn's contract, leaving notes out against refits by hand, thresholds, bad input."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from outlark.errors import InputError
from outlark.estimators.open_set import low_end
from outlark.estimators.pknn import PAPER_THRESHOLD, PKNN
from outlark.maths import pknn

IRIS, SPECIES = load_iris(return_X_y=True)
NOT_A_CLASS = {
    "check_classifiers_classes": "wants one of classes_ for every sample, also for those below the threshold",
    "check_classifiers_train": "wants the sign of decision_function to be the answer, also below the threshold",
}


@parametrize_with_checks([PKNN()])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_scikit_learn_contract_with_an_outlier_label() -> None:
    results = check_estimator(PKNN(outlier_label=-1), on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == set(NOT_A_CLASS)


def notes(rng: np.random.Generator, n_notes: int = 4, length: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in three dimensions: samples, names and note ids, `n_notes` of `length` samples for each class."""
    y = np.repeat(["a", "b", "c"], n_notes * length)
    groups = np.repeat(np.arange(3 * n_notes), length)
    centres = 4.0 * np.eye(3)[np.repeat([0, 1, 2], n_notes * length)]
    return centres + rng.normal(size=(len(y), 3)) + 0.5 * rng.normal(size=(3 * n_notes, 3))[groups], y, groups


@pytest.mark.parametrize("eta", ["scaled", "plain"])
def test_attributes(eta: Any, rng: np.random.Generator) -> None:
    X, y, groups = notes(rng)
    model = PKNN(eta=eta).fit(X, y, groups)
    assert model.prototypes_.shape == (36, 3)
    assert model.prototype_labels_.tolist() == ["a"] * 12 + ["b"] * 12 + ["c"] * 12
    owners = np.repeat([0, 1, 2], 12)
    labels = np.repeat([0, 1, 2], 24)
    np.testing.assert_array_equal(model.fuzzy_labels_, pknn.keller_labels(model.prototypes_, owners, X, labels, 3, 5))
    assert model.eta_ == pknn.eta_of(model.prototypes_, owners, X, labels, eta)
    trained = pknn.Prototypes(model.prototypes_, owners, model.fuzzy_labels_, model.eta_)
    np.testing.assert_array_equal(model.class_scores(X), pknn.possibilities(trained, X, K=5))


def in_order(model: PKNN, y: np.ndarray) -> np.ndarray:
    """The left-out scores in the order of the training samples."""
    found = np.empty(len(y))
    for name, scores in zip(model.classes_, model.left_out_scores_, strict=True):
        found[y == name] = scores
    return found


@pytest.mark.parametrize("eta", ["scaled", "plain"])
def test_left_out_scores_are_those_of_refits_by_hand(eta: Any, rng: np.random.Generator) -> None:
    X, y, groups = notes(rng, n_notes=3)
    model = PKNN(eta=eta).fit(X, y, groups)
    for turn in range(3):
        out = groups % 3 == turn  # notes 0-2 are of class a, 3-5 of b, 6-8 of c
        refit = PKNN(eta=eta, n_prototypes=9).fit(X[~out], y[~out], groups[~out])
        own = refit.class_scores(X[out])[np.arange(out.sum()), np.searchsorted(refit.classes_, y[out])]
        np.testing.assert_allclose(in_order(model, y)[out], own, rtol=1e-12)
    for c, name in enumerate(model.classes_):
        means = [in_order(model, y)[groups == g].mean() for g in np.unique(groups[y == name])]
        np.testing.assert_allclose(model.left_out_note_scores_[c], means)
        assert model.thresholds_[c] == low_end(model.left_out_scores_[c], 0.1)


def test_more_than_ten_notes_are_left_out_in_ten_folds_of_every_class(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, groups = notes(rng, n_notes=13, length=2)
    kept = []
    train = pknn.train
    monkeypatch.setattr(pknn, "train", lambda X, labels, *a, **k: kept.append(labels) or train(X, labels, *a, **k))
    model = PKNN().fit(X, y, groups)
    assert len(kept) == 11
    left_out = 26 - np.array([np.bincount(labels) for labels in kept[1:]])
    np.testing.assert_array_equal(left_out.sum(axis=0), [26, 26, 26])
    assert set(left_out.ravel()) == {2, 4}
    assert [len(scores) for scores in model.left_out_note_scores_] == [13, 13, 13]
    assert np.all(np.isfinite(np.concatenate(model.left_out_scores_)))


def test_a_class_with_one_note_is_left_out_in_blocks_and_says_so(rng: np.random.Generator) -> None:
    X, y, groups = notes(rng)
    groups[y == "b"] = 99
    with pytest.warns(UserWarning, match=r"classes \['b'\] have a single note: blocks"):
        model = PKNN().fit(X, y, groups)
    assert [len(scores) for scores in model.left_out_note_scores_] == [4, 5, 4]
    assert np.all(np.isfinite(np.concatenate(model.left_out_scores_)))


def test_a_class_with_one_sample_has_no_left_out_score(rng: np.random.Generator) -> None:
    X, y, _ = notes(rng)
    rows = np.r_[:24, 30]
    model = PKNN(outlier_label="?").fit(X[rows], y[rows])
    assert [len(scores) for scores in model.left_out_scores_] == [24, 0]
    assert [len(scores) for scores in model.left_out_note_scores_] == [24, 0]
    assert np.all(np.isfinite(model.thresholds_))
    assert model.predict(X[[30]]).tolist() == ["b"]
    # The one-sample class does not leave the other with a single prototype.
    assert (model.prototype_labels_ == "a").sum() == 5


def test_one_sample_and_identical_samples() -> None:
    assert PKNN().fit([[1.0, 2.0]], ["a"]).predict([[9.0, 9.0]]).tolist() == ["a"]
    same = PKNN(outlier_label="?").fit([[1.0], [1.0], [5.0], [5.0]], ["a", "a", "b", "b"])
    assert same.predict([[1.0], [5.0], [1e6]]).tolist() == ["a", "b", "?"]


def test_a_class_twenty_times_larger_does_not_swallow_the_small_one(rng: np.random.Generator) -> None:
    def draw(n: int, centre: float) -> np.ndarray:
        return rng.normal(size=(n, 4)) + centre

    model = PKNN(outlier_label="?").fit(np.r_[draw(40, 0.0), draw(800, 2.0)], np.repeat(["small", "large"], [40, 800]))
    assert np.unique(model.prototype_labels_, return_counts=True)[1].tolist() == [20, 20]
    best = model.set_params(outlier_label=None)
    recall = {"small": (best.predict(draw(500, 0.0)) == "small").mean()}
    recall["large"] = (best.predict(draw(500, 2.0)) == "large").mean()
    assert min(recall.values()) > 0.9
    assert abs(recall["small"] - recall["large"]) < 0.06
    # New samples are accepted about as often as the quantile says, in the small class as in the large one.
    accepted = [model.membership(draw(500, centre))[:, c].mean() for c, centre in ((1, 0.0), (0, 2.0))]
    assert min(accepted) > 0.75


def test_unknown_species_score_lower() -> None:
    known = SPECIES > 0
    train = known & (np.arange(150) % 2 == 0)
    model = PKNN(outlier_label=-1).fit(IRIS[train], SPECIES[train])
    test = ~train
    assert roc_auc_score(known[test], model.score_samples(IRIS[test])) > 0.99
    answer = model.predict(IRIS[test])
    assert np.mean(answer[~known[test]] == -1) > 0.95
    assert np.mean(answer[known[test]] == SPECIES[test & known]) > 0.8
    assert set(model.verdicts(IRIS[test & ~known])) == {"unknown"}


def test_random_state(rng: np.random.Generator) -> None:
    X, y, groups = notes(rng)

    def scores(random_state: Any) -> np.ndarray:
        return PKNN(random_state=random_state).fit(X, y, groups).class_scores(X)

    np.testing.assert_array_equal(scores(3), scores(3))
    assert not np.array_equal(scores(3), scores(4))
    np.testing.assert_array_equal(scores(np.random.RandomState(3)), scores(3))


def test_neighbours_beyond_the_prototypes_are_all_prototypes(rng: np.random.Generator) -> None:
    X, y, _ = notes(rng)
    all_six = PKNN(n_neighbors=6, n_prototypes=2).fit(X, y)
    more = PKNN(n_neighbors=6, n_prototypes=2).fit(X, y).set_params(n_neighbors=500)
    np.testing.assert_allclose(more.class_scores(X), all_six.class_scores(X), rtol=1e-12)
    assert PKNN(n_neighbors=500, n_prototypes=2).fit(X, y).class_scores(X).shape == (72, 3)


def test_thresholds(rng: np.random.Generator) -> None:
    X, y, _ = notes(rng, n_notes=2)
    assert PKNN(threshold="paper").fit(X, y).thresholds_.tolist() == [PAPER_THRESHOLD] * 3
    assert PKNN(threshold=0.2).fit(X, y).thresholds_.tolist() == [0.2] * 3
    assert PKNN(threshold=[0.1, 0.2, 0.3]).fit(X, y).thresholds_.tolist() == [0.1, 0.2, 0.3]
    assert PKNN(threshold={"c": 3, "a": 1, "b": 2}).fit(X, y).thresholds_.tolist() == [1, 2, 3]
    strict, lenient = PKNN(quantile=0.5).fit(X, y), PKNN(quantile=0.0).fit(X, y)
    assert np.all(strict.thresholds_ > lenient.thresholds_)


def test_paper() -> None:
    model = PKNN.paper(outlier_label="?", n_neighbors=3)
    assert (model.eta, model.threshold, model.outlier_label, model.n_neighbors) == ("plain", "paper", "?", 3)
    assert PKNN.paper(eta="scaled").eta == "scaled"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0 must be a whole number"),
        ({"n_neighbors": 2.5}, "n_neighbors=2.5 must be a whole number"),
        ({"n_prototypes": 0}, "n_prototypes=0 must be a whole number"),
        ({"eta": "wide"}, "eta='wide' is not known"),
        ({"m": 1.0}, "m=1.0 must be a finite number above 1"),
        ({"threshold": "paper-normalized"}, "threshold='paper-normalized' is not known"),
        ({"threshold": [0.1, 0.2]}, "must be a finite number or 3 of them"),
        ({"threshold": {"a": 0.1}}, r"no value for the classes \['b', 'c'\]"),
        ({"quantile": 1.5}, "quantile=1.5 must lie between 0 and 1"),
        ({"outlier_label": "b"}, "outlier_label='b' is also a class"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    X, y, _ = notes(rng)
    with pytest.raises(InputError, match=message):
        PKNN(**parameters).fit(X, y)


def test_bad_data(rng: np.random.Generator) -> None:
    X, y, groups = notes(rng)
    with pytest.raises(InputError, match="groups has 71 entries for 72 samples"):
        PKNN().fit(X, y, groups[1:])
    with pytest.raises(ValueError, match="contains NaN"):
        PKNN().fit(np.where(X > 4, np.nan, X), y)
    model = PKNN().fit(X, y)
    with pytest.raises(ValueError, match="contains NaN"):
        model.class_scores([[0.0, np.nan, 0.0]])
    with pytest.raises(ValueError, match="features"):
        model.class_scores([[0.0, 0.0]])


@pytest.mark.parametrize("magnitude", [1e160, 1e-160])
def test_values_beyond_double_precision_are_refused(rng: np.random.Generator, magnitude: float) -> None:
    X, y, groups = notes(rng, n_notes=3)
    with pytest.raises(InputError, match="outside double precision; multiply X by a constant"):
        PKNN().fit(magnitude * X, y, groups)
    far = PKNN().fit(X, y, groups).class_scores(X + 1e160)
    assert np.all(far == 0.0)


def test_copies_are_left_out_together(rng: np.random.Generator) -> None:
    X, y, _ = notes(rng, n_notes=3)
    copied = PKNN().fit(np.tile(X, (2, 1)) + 1e-9 * rng.normal(size=(2 * len(X), X.shape[1])), np.tile(y, 2))
    assert all(len(means) == len(X) / 3 for means in copied.left_out_note_scores_)


def test_answers_depend_on_loudness_to_the_letter_and_not_by_default(rng: np.random.Generator) -> None:
    X, y, groups = notes(rng, n_notes=3)
    for make, same in ((PKNN, True), (PKNN.paper, False)):
        quiet = make(outlier_label="?").fit(X, y, groups).predict(X + 0.1)
        loud = make(outlier_label="?").fit(32768 * X, y, groups).predict(32768 * (X + 0.1))
        assert (np.mean(quiet == loud) > 0.99) == same
