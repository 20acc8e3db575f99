"""Blocks, threads and the fast form of squared distances change nothing."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from outlark.maths.description import describe, distances, score
from outlark.maths.gp import ratio_from_condition
from outlark.maths.scoring import Kernel, distances_to_all

RNG = np.random.default_rng(7)
CLASSES = [RNG.normal(size=(70, 5)), RNG.normal(loc=2.0, size=(33, 5)), RNG.normal(size=(1, 5))]
Z = RNG.normal(loc=1.0, scale=2.0, size=(400, 5))


def descriptions(ratio=1e-2, ell=3.0, center=False):
    return [describe(X, ell, ratio, center) for X in CLASSES]


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-8, 1e-2, 1.0])
def test_equals_the_plain_form(center, ratio):
    found = distances_to_all(descriptions(ratio, center=center), Z, block_rows=64)
    plain = np.stack([distances(d, Z) for d in descriptions(ratio, center=center)], axis=1)
    np.testing.assert_allclose(score(found), score(plain), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(block_rows=st.integers(1, 500), ratio=st.sampled_from([1e-8, 1e-4, 1e-1]))
def test_any_block_size_gives_the_same_scores(block_rows, ratio):
    whole = distances_to_all(descriptions(ratio), Z, block_rows=1000)
    blocked = distances_to_all(descriptions(ratio), Z, block_rows=block_rows)
    np.testing.assert_allclose(score(blocked), score(whole), atol=1e-6)


@pytest.mark.parametrize("n_samples", [160, 1200])
def test_one_and_two_blas_threads_give_the_same_scores(n_samples):
    X = np.cumsum(np.random.default_rng(0).normal(size=(n_samples, 5)), axis=0) / 10
    ratio = ratio_from_condition(n_samples, 1e8)  # the smallest that the defaults allow
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(score(distances_to_all([describe(X, 8.0, ratio)], X + 0.01, block_rows=100)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_single_precision_is_close():
    exact, single = (distances_to_all(descriptions(0.1), Z, single=single) for single in (False, True))
    assert 0 < np.max(np.abs(score(single) - score(exact))) < 5e-5


@pytest.mark.parametrize(("n", "ratio"), [(70, 1e-4), (2000, 0.1)])
def test_single_precision_is_not_used_where_distances_are_too_small_for_it(n, ratio):
    X = np.random.default_rng(1).normal(size=(n, 2))
    description = describe(X, 2.0, ratio)
    found = distances_to_all([description], X, single=True)
    np.testing.assert_array_equal(found, distances_to_all([description], X))


@pytest.mark.parametrize("single", [False, True])
def test_values_beyond_all_bounds_are_far_and_nothing_else(single):
    assert np.all(distances_to_all(descriptions(0.1), np.full((2, 5), 1e200), single=single) == 1.0)


@pytest.mark.parametrize("ell", [1e-3, 1e4])
@pytest.mark.parametrize("offset", [-10.0, 1e5])
def test_a_row_beyond_all_bounds_does_not_move_the_others(ell, offset):
    X = offset + np.random.default_rng(3).uniform(-5e3, 5e3, size=(20, 2))
    near = np.concatenate([X, X + 0.5 * ell, X - 2.0 * ell])
    model = [describe(X, ell, 0.1)]
    found = distances_to_all(model, np.concatenate([near, [[1e200, 0.0], [0.0, -1e200]]]))
    np.testing.assert_allclose(found[:-2, 0], distances(model[0], near), atol=1e-9)
    np.testing.assert_array_equal(found[-2:], 1.0)


def test_wide_classes_use_the_direct_distance():
    """‖a‖² + ‖b‖² - 2ab would lose the digits that a small regulariser needs."""
    X = np.concatenate([RNG.normal(size=(30, 2)), 1e6 + RNG.normal(size=(30, 2))])
    description = describe(X, 2.0, 1e-6)
    assert not Kernel(description.X, description.ell, description.ratio).by_product
    near = X[:5] + 0.1
    np.testing.assert_allclose(
        score(distances_to_all([description], near)[:, 0]), score(distances(description, near)), atol=1e-6
    )


def test_the_product_form_is_left_before_it_loses_digits():
    """A class some hundred length scales wide at a small ρ."""
    X = np.sort(RNG.uniform(0, 300, size=(200, 1)), axis=0)
    description = describe(X, 1.0, 1e-6)
    near = X + 1e-3
    np.testing.assert_allclose(
        score(distances_to_all([description], near)[:, 0]), score(distances(description, near)), atol=1e-6
    )


def test_an_offset_common_to_all_features_costs_no_accuracy():
    shift = 1e4
    moved = [describe(X + shift, 3.0, 1e-4) for X in CLASSES]
    np.testing.assert_allclose(
        score(distances_to_all(moved, Z + shift)), score(distances_to_all(descriptions(1e-4), Z)), atol=1e-6
    )


def test_memory_does_not_grow_with_the_number_of_rows():
    def peak(rows):
        data = np.zeros((rows, 5))
        tracemalloc.start()
        with threadpool_limits(1, user_api="blas"):  # with more threads the peak depends on how blocks overlap
            distances_to_all(descriptions(), data, block_rows=256)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak - rows * len(CLASSES) * 8  # less the result itself

    assert peak(20_000) < 1.2 * peak(2_000)


def test_no_rows():
    assert distances_to_all(descriptions(), Z[:0]).shape == (0, 3)
