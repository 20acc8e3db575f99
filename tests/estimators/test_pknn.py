"""PKNN against a transcription in loops; scikit-learn's contract; leaving notes out against refits by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from outlark.errors import InputError
from outlark.estimators import pknn
from outlark.estimators.open_set import low_end
from outlark.estimators.pknn import PKNN, PKNN_PAPER_THRESHOLD, Eta, Prototypes

SEEDS = st.integers(0, 10_000)


def naive_labels(points, owners, X, labels, n_classes, K):
    u = np.zeros((len(points), n_classes))
    for i, p in enumerate(points):
        nearest = sorted(range(len(X)), key=lambda j: np.sqrt(np.sum((X[j] - p) ** 2)))[:K]
        for c in range(n_classes):
            share = 0.49 * sum(labels[j] == c for j in nearest) / len(nearest)
            u[i, c] = 0.51 + share if owners[i] == c else share
    return u


def naive_possibilities(model, Z, K, m):
    pi = np.zeros((len(Z), model.labels.shape[1]))
    for i, x in enumerate(Z):
        d = [np.sqrt(np.sum((x - p) ** 2)) for p in model.points]
        nearest = sorted(range(len(d)), key=d.__getitem__)[:K]
        for c in range(pi.shape[1]):
            for k in nearest:
                t = max(0.0, d[k] - model.eta.shift) / model.eta.scale
                pi[i, c] += model.labels[k, c] / (1.0 + t ** (2.0 / (m - 1.0)))
            pi[i, c] /= len(nearest)
    return pi


def drawn(seed: int, *, n_points: int = 12, n_classes: int = 3, d: int = 4) -> tuple[Prototypes, np.ndarray]:
    """A model that was not trained, with generic numbers in it, and samples to score."""
    rng = np.random.default_rng(seed)
    owners = np.arange(n_points) % n_classes
    labels = 0.51 * np.eye(n_classes)[owners] + 0.49 * rng.dirichlet(np.ones(n_classes), n_points)
    eta = Eta(*rng.uniform(0.1, 2.0, 2))
    return Prototypes(rng.normal(size=(n_points, d)), owners, labels, eta), 3.0 * rng.normal(size=(20, d))


@given(seed=SEEDS, K=st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_keller_labels_are_the_transcription(seed: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    points, owners = rng.normal(size=(5, 3)), rng.integers(0, 3, 5)
    u = pknn.keller_labels(points, owners, X, labels, 3, K)
    np.testing.assert_allclose(u, naive_labels(points, owners, X, labels, 3, K), rtol=1e-13)
    np.testing.assert_allclose(u.sum(axis=1), 1.0, rtol=1e-13)
    shuffled = rng.permutation(9)
    np.testing.assert_allclose(pknn.keller_labels(points, owners, X[shuffled], labels[shuffled], 3, K), u, rtol=1e-13)


@given(seed=SEEDS, K=st.integers(1, 15), m=st.sampled_from([1.5, 2.0, 3.0]))
@settings(max_examples=40, deadline=None)
def test_possibilities_are_the_transcription(seed: int, K: int, m: float) -> None:
    model, Z = drawn(seed)
    pi = pknn.possibilities(model, Z, K=K, m=m)
    np.testing.assert_allclose(pi, naive_possibilities(model, Z, K, m), rtol=1e-11)
    assert np.all((pi >= 0.0) & (pi <= 1.0))
    np.testing.assert_array_equal(pknn.possibilities(model, Z, K=K, m=m, block_rows=7), pi)


@given(seed=SEEDS, K=st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_possibilities_do_not_depend_on_order_origin_or_axes(seed: int, K: int) -> None:
    model, Z = drawn(seed)
    pi = pknn.possibilities(model, Z, K=K)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(model.points))
    shuffled = Prototypes(model.points[order], model.owners[order], model.labels[order], model.eta)
    np.testing.assert_allclose(pknn.possibilities(shuffled, Z, K=K), pi, rtol=1e-12)
    turn, offset = ortho_group.rvs(4, random_state=seed), rng.normal(size=4)
    moved = model._replace(points=model.points @ turn + offset)
    # Distances of a few units change by rounding, 1e-15; w multiplies that by at most 2·(distance/scale²) ≈ 1e3.
    np.testing.assert_allclose(pknn.possibilities(moved, Z @ turn + offset, K=K), pi, rtol=1e-9)


@given(seed=SEEDS, distance=st.sampled_from([1e4, 1e8, 1e200]))
@settings(max_examples=20, deadline=None)
def test_far_from_everything_every_class_is_impossible(seed: int, distance: float) -> None:
    model, Z = drawn(seed)
    far = Z / np.linalg.norm(Z, axis=1, keepdims=True) * distance
    assert pknn.possibilities(model, far, K=5).max() < 1e-6
    assert pknn.typicality(np.array([1e200]), model.eta)[0] == 0.0  # its square overflows, without a warning


def test_a_possibility_never_grows_with_the_distance_to_a_lone_prototype() -> None:
    w = pknn.typicality(np.linspace(0, 9, 200), Eta(shift=1.5, scale=0.7))
    assert np.all(np.diff(w) <= 0.0)
    assert w[0] == 1.0
    assert w[-1] < 0.01
    sharper = pknn.typicality(np.linspace(3, 9, 50), Eta(1.5, 0.7), m=1.5)
    assert np.all(sharper < pknn.typicality(np.linspace(3, 9, 50), Eta(1.5, 0.7)))


def test_eta_is_mean_and_three_sd_and_counts_classes_alike() -> None:
    points, owners = np.array([[0.0], [10.0], [50.0]]), np.array([0, 0, 1])
    X = np.array([[1.0], [12.0], [13.0], [54.0], [58.0]])  # distances 1, 2, 3 | 4, 8
    labels = np.array([0, 0, 0, 1, 1])
    mean = (2.0 + 6.0) / 2
    variance = ((9 + 4 + 1) / 3 + (0 + 16) / 2) / 2
    assert pknn.eta_of(points, owners, X, labels, "scaled") == pytest.approx((mean, 3 * np.sqrt(variance)))
    assert pknn.eta_of(points, owners, X, labels, "plain") == pytest.approx((mean, 1.0))
    twenty_times = np.r_[np.tile([0, 1, 2], 20), 3, 4]
    assert pknn.eta_of(points, owners, X[twenty_times], labels[twenty_times], "scaled") == pytest.approx(
        (mean, 3 * np.sqrt(variance))
    )


def test_eta_where_the_distances_say_nothing() -> None:
    one_each = np.array([[0.0], [3.0], [3.5]])
    owners = np.arange(3)
    assert pknn.eta_of(one_each, owners, one_each, owners, "scaled") == (0.0, 0.5)
    assert pknn.eta_of(one_each[:1], owners[:1], one_each[:1], owners[:1], "scaled") == (0.0, 1.0)
    # Samples that are their own prototypes: the nearest other one counts, not the distance 0.
    assert pknn.eta_of(one_each, np.zeros(3), one_each, np.zeros(3), "plain").shift == pytest.approx(4 / 3)
    # Equal distances have no sd.
    pair = np.array([[0.0], [2.0]])
    assert pknn.eta_of(pair, np.zeros(2), pair, np.zeros(2), "scaled") == (2.0, 0.5)


@pytest.mark.parametrize("P", [1, 2, 3, 6, 7, 12])
def test_prototypes_lie_among_their_samples(P: int, rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 3)) * [1.0, 1e-3, 1e-6] + 1e3
    points = pknn.som_prototypes(X, P, seed=3)
    assert points.shape == (P, 3)
    assert np.all((points >= X.min(axis=0)) & (points <= X.max(axis=0)))
    assert len(np.unique(points, axis=0)) == P
    np.testing.assert_array_equal(points, pknn.som_prototypes(X, P, seed=3))


def test_prototypes_are_nearer_to_new_samples_than_as_many_random_samples(rng: np.random.Generator) -> None:
    X, new = rng.normal(size=(200, 2)), rng.normal(size=(500, 2))

    def error(points: np.ndarray) -> float:
        return float(np.linalg.norm(new[:, np.newaxis] - points, axis=2).min(axis=1).mean())

    chosen = [error(rng.permutation(X)[:12]) for _ in range(20)]
    assert error(pknn.som_prototypes(X, 12, seed=0)) < min(chosen)


def test_prototypes_follow_the_units_and_not_the_seed_alone(rng: np.random.Generator) -> None:
    X = rng.normal(size=(50, 4))
    points = pknn.som_prototypes(X, 9, seed=0)
    np.testing.assert_allclose(pknn.som_prototypes(1024.0 * X, 9, seed=0), 1024.0 * points, rtol=1e-9)
    assert not np.allclose(pknn.som_prototypes(X, 9, seed=1), points)


def test_a_map_sees_all_samples_of_a_large_class(rng: np.random.Generator) -> None:
    X = np.sort(rng.normal(size=(8000, 1)), axis=0)  # the first 5000 lie below .32
    points = pknn.som_prototypes(X, 20, seed=0)
    assert points.max() > 1.5
    assert points.min() < -1.5


@pytest.mark.parametrize("P", [1, 2, 5])
def test_constant_and_repeated_samples(P: int) -> None:
    np.testing.assert_array_equal(pknn.som_prototypes(np.full((9, 2), 7.0), P, seed=0), [[7.0, 7.0]])
    two = np.repeat([[0.0], [4.0]], 6, axis=0)
    expected = [[2.0]] if P == 1 else [[0.0], [4.0]]
    np.testing.assert_allclose(pknn.som_prototypes(two, P, seed=0), expected)


def test_default_counts() -> None:
    def counts(*sizes: int) -> list[int]:
        return pknn.default_counts(np.array(sizes), K=5).tolist()

    assert counts(4, 4) == [2, 2]
    assert counts(40, 800) == [20, 20]
    assert counts(500, 800) == [50, 50]
    assert counts(1, 3, 800) == [1, 1, 5]


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


def test_paper(rng: np.random.Generator) -> None:
    X, y, _ = notes(rng, n_notes=2)
    assert PKNN.paper().fit(X, y).thresholds_.tolist() == [PKNN_PAPER_THRESHOLD] * 3
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
