"""PKNN against a transcription in loops, and the properties that possibilities must have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

from outlark.maths import pknn
from outlark.maths.pknn import Eta, Prototypes

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


def test_keller_labels_with_fewer_samples_than_neighbours() -> None:
    u = pknn.keller_labels(np.zeros((1, 1)), np.array([1]), np.array([[0.0], [1.0]]), np.array([0, 1]), 2, K=50)
    np.testing.assert_allclose(u, [[0.245, 0.755]])


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


def test_grid_holds_exactly_the_units_asked_for() -> None:
    for P in range(1, 60):
        rows, columns = pknn.grid_shape(P)
        assert rows * columns == P
        assert rows <= columns
        assert not any(P % a == 0 for a in range(rows + 1, int(np.sqrt(P)) + 1))


def test_default_counts() -> None:
    def counts(*sizes: int) -> list[int]:
        return pknn.default_counts(np.array(sizes), K=5).tolist()

    assert counts(4, 4) == [2, 2]
    assert counts(40, 800) == [20, 20]
    assert counts(500, 800) == [50, 50]
    assert counts(1, 3, 800) == [1, 1, 5]


def test_scaled_possibilities_do_not_depend_on_units_and_plain_ones_do(rng: np.random.Generator) -> None:
    labels = np.repeat([0, 1], 20)
    X, Z = rng.normal(size=(40, 3)) + 3.0 * labels[:, np.newaxis], rng.normal(size=(30, 3))
    found = {}
    for form in ("scaled", "plain"):
        for unit in (1.0, 1024.0):
            model = pknn.train(unit * X, labels, [8, 8], K=5, form=form)
            found[form, unit] = pknn.possibilities(model, unit * Z, K=5)
    np.testing.assert_allclose(found["scaled", 1.0], found["scaled", 1024.0], rtol=1e-7)
    assert not np.allclose(found["plain", 1.0], found["plain", 1024.0], atol=0.01)
