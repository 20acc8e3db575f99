"""The local metric and the likelihood scale against plain transcriptions, and what they may not depend on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power
from scipy.special import logsumexp
from sklearn.covariance import OAS
from sklearn.neighbors import KernelDensity, NearestNeighbors

from outlark import InputError
from outlark.maths.choice import feature_map
from outlark.maths.local import (
    FEW,
    fewness,
    likelihood_length_scale,
    likelihood_width,
    local_deviations,
    local_map,
)


def written_out(X, notes, k=5):
    """Deviations from the mean of the k nearest samples of other notes, one sample after the other."""
    found = []
    for x, note in zip(X, notes, strict=True):
        others = X[notes != note]
        nearest = others[np.argsort(np.linalg.norm(others - x, axis=1))[:k]]
        found.append(np.sqrt(len(nearest) / (len(nearest) + 1)) * (x - nearest.mean(axis=0)))
    return np.array(found)


@pytest.mark.parametrize(("n", "d"), [(60, 3), (12, 40), (4, 2)])
def test_deviations_written_out(rng, n, d):
    X = rng.normal(size=(n, d))
    np.testing.assert_allclose(local_deviations(X, np.arange(n)), written_out(X, np.arange(n)), atol=1e-12)
    notes = np.arange(n) // 2
    np.testing.assert_allclose(local_deviations(X, notes), written_out(X, notes), atol=1e-12)


def test_neighbours_are_those_of_scikit_learn(rng):
    X = rng.normal(size=(50, 4))
    near = NearestNeighbors(n_neighbors=5).fit(X).kneighbors(return_distance=False)
    np.testing.assert_allclose(local_deviations(X, np.arange(50)), np.sqrt(5 / 6) * (X - X[near].mean(axis=1)))


@pytest.mark.parametrize(("n", "d"), [(2000, 3), (200, 30), (20, 50)])
def test_the_map_is_the_inverse_root_of_the_ridged_covariance_of_scikit_learn(rng, n, d):
    X = rng.normal(size=(n, d)) * np.linspace(0.2, 3.0, d)
    S = OAS(assume_centered=True).fit(written_out(X, np.arange(n))).covariance_
    ridge = 1.0 + 12.0 * min(1.0, (30 / n) ** 2)
    expected = fractional_matrix_power(S + ridge * np.trace(S) / d * np.eye(d), -0.5)
    np.testing.assert_allclose(local_map(X, np.zeros(n), np.arange(n)), expected, rtol=1e-7, atol=1e-9)


def test_clusters_do_not_widen_the_metric(rng):
    """Two clusters far apart in one direction: between neighbours, the directions are alike."""
    X = rng.normal(size=(400, 2))
    X[::2, 0] += 100.0
    W = local_map(X, np.zeros(400), np.arange(400))
    assert abs(W[0, 0] / W[1, 1] - 1.0) < 0.2


def test_neighbours_are_of_the_same_class(rng):
    X, labels = rng.normal(size=(80, 3)), np.arange(80) % 2
    X[labels == 1] += 0.5
    r = np.concatenate([local_deviations(X[labels == c], np.arange(40)) for c in (0, 1)])
    S = OAS(assume_centered=True).fit(r).covariance_
    ridge = 1.0 + 12.0 * (30 / 80) ** 2
    expected = fractional_matrix_power(S + ridge * np.trace(S) / 3 * np.eye(3), -0.5)
    np.testing.assert_allclose(local_map(X, labels, np.arange(80)), expected, rtol=1e-8)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), lattice=st.booleans())
def test_the_order_of_rows_does_not_matter_even_for_ties(seed, lattice):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(60, 3)).astype(float) if lattice else rng.normal(size=(60, 3))
    notes = np.unique(X, axis=0, return_inverse=True)[1]
    order = rng.permutation(60)
    one, other = local_map(X, np.zeros(60), notes), local_map(X[order], np.zeros(60), notes[order])
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)
    scales = likelihood_length_scale(X, notes), likelihood_length_scale(X[order], notes[order])
    assert scales[0] == pytest.approx(scales[1], rel=1e-9)


@pytest.mark.parametrize("d", [1, 4])
def test_the_width_is_that_of_the_best_left_out_density_of_scikit_learn(rng, d):
    """A Gaussian density of bandwidth h has e = √2 h; left-out likelihood by refitting without each sample."""
    Z = rng.normal(size=(50, d))
    e = likelihood_width(Z, np.arange(50))

    def left_out(e):
        without = [np.delete(Z, i, axis=0) for i in range(50)]
        return sum(
            KernelDensity(bandwidth=e / np.sqrt(2)).fit(w).score(z[None]) for w, z in zip(without, Z, strict=True)
        )

    best = left_out(e)
    assert best >= max(left_out(factor * e) for factor in (0.5, 0.97, 1.03, 2.0))


def test_the_width_of_notes_written_out(rng):
    Z, notes = rng.normal(size=(60, 2)), np.arange(60) // 3
    Z += 0.01 * Z[3 * notes]  # samples of a note are alike
    gaps = np.linalg.norm(Z[:, None] - Z, axis=2) ** 2
    gaps[notes[:, None] == notes] = np.inf
    grid = np.geomspace(0.05, 5.0, 2000)
    values = [logsumexp(-gaps / e**2, axis=1).sum() - 60 * 2 * np.log(e) for e in grid]
    assert likelihood_width(Z, notes) == pytest.approx(grid[np.argmax(values)], rel=5e-3)


def test_few_samples_have_a_longer_scale():
    assert [fewness(n) for n in (2, FEW, 2 * FEW)] == [1.0, 1.0, 0.25]
    Z = np.random.default_rng(0).normal(size=(FEW, 2))
    notes = np.arange(FEW)
    assert likelihood_length_scale(Z, notes) == pytest.approx(16.0 * likelihood_width(Z, notes))


def test_copies_change_nothing_but_the_weight_of_a_sample(rng):
    """If all samples occur twice, the width is the same: copies are left out together."""
    Z = rng.normal(size=(80, 3))
    twice = likelihood_width(np.tile(Z, (2, 1)), np.tile(np.arange(80), 2))
    assert twice == pytest.approx(likelihood_width(Z, np.arange(80)), rel=2e-3)


def test_samples_that_are_all_the_same_are_refused():
    with pytest.raises(InputError, match="all training samples are the same"):
        likelihood_width(np.ones((5, 2)), np.arange(5))
    assert local_map(np.ones((5, 2)), np.zeros(5), np.arange(5)) is None


@pytest.mark.parametrize(("d", "together"), [(8, False), (200, True)])
def test_units_are_made_alike_where_a_few_features_dominate(rng, d, together):
    """Not so where these are many, as in embeddings: a tenth of 200 features varies more than the others."""
    X = rng.normal(size=(100, d)) * np.where(np.arange(d) < max(1, d // 10), 100.0, 1.0)
    by = feature_map("local", X, np.zeros(100))
    expected = local_map(X, np.zeros(100), np.arange(100))
    assert np.allclose(by, expected) == together
    units = np.full(d, 1.0)
    units[0] = 1e4
    if not together:  # then units do not matter at all
        one, other = (Z @ feature_map("local", Z, np.zeros(100)) for Z in (X, X * units))
        np.testing.assert_allclose(other @ other.T, one @ one.T, rtol=1e-6)
