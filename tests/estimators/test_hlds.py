"""HLDS: the brute-force joint Gaussian, the 132-state filter and the reduction agree; output layers, streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from sklearn.utils.estimator_checks import parametrize_with_checks

from outlark.errors import InputError
from outlark.estimators.hlds import (
    HLDS,
    PAPER_LAYERS,
    SETTLING_STEPS,
    FixedLagSmoother,
    SettledFilter,
    System,
    coupling,
    gains,
    group_means,
    kalman_filter,
    reduce_system,
    system,
)


def means_of_layers(states: np.ndarray, layers: tuple[int, ...]) -> np.ndarray:
    """Group means of the states of the full system, top layer first, (T, L, n_groups)."""
    found, start = [], 0
    for n in layers[::-1]:
        found.append(group_means(states[:, start : start + n], layers[-1]))
        start += n
    return np.stack(found, axis=1)


def joint_gaussian(model: System, y: np.ndarray, given_until: int, t: int) -> np.ndarray:
    """E[s_t | y_0 … y_given_until] from the joint covariance of all states and observations."""
    F, H, Q, R = model
    n, T = len(F), len(y)
    # s = G e with e the stacked innovations: s_t = Σ_{k≤t} F^{t-k} e_k
    G = np.zeros((T * n, T * n))
    for i in range(T):
        for k in range(i + 1):
            G[i * n : (i + 1) * n, k * n : (k + 1) * n] = np.linalg.matrix_power(F, i - k)
    S = G @ block_diag(*[Q] * T) @ G.T
    H_all = block_diag(*[H] * T)
    m = len(H) * (given_until + 1)
    Sy = (H_all @ S @ H_all.T + block_diag(*[R] * T))[:m, :m]
    Ssy = (S @ H_all.T)[t * n : (t + 1) * n, :m]
    return Ssy @ np.linalg.solve(Sy, y.ravel()[:m])


def test_coupling_is_that_of_the_paper():
    B = coupling(96, 24)
    assert B.shape == (96, 24)
    assert np.all(B.sum(axis=1) == 0.5)
    assert np.all((B > 0).sum(axis=0) == 4)


def test_the_general_filter_is_the_joint_gaussian(rng):
    model = system((4, 2, 1))
    y = rng.normal(size=(5, 4))
    states = kalman_filter(model, y)
    for t in range(5):
        np.testing.assert_allclose(states[t], joint_gaussian(model, y, t, t), atol=1e-10)


@pytest.mark.parametrize("layers", [PAPER_LAYERS, (8, 4), (6,), (24, 12, 6, 2)])
def test_the_reduction_is_the_full_filter_including_the_start(rng, layers):
    y = np.abs(rng.normal(size=(60, layers[0])))
    full = means_of_layers(kalman_filter(system(layers), y), layers)
    reduced = SettledFilter(reduce_system(layers), layers[-1]).push(group_means(y, layers[-1]))
    np.testing.assert_allclose(reduced, full, atol=1e-9)


def test_settled_is_the_exact_recursion_after_settling(rng):
    model = reduce_system(PAPER_LAYERS)
    y = np.abs(rng.normal(size=(SETTLING_STEPS + 300, 1)))
    found = SettledFilter(model, 1).push(y)[:, :, 0]
    exact = kalman_filter(model, y)
    np.testing.assert_allclose(found[SETTLING_STEPS:], exact[SETTLING_STEPS:], atol=1e-12)


def test_the_gain_has_settled():
    K, _ = gains(reduce_system(PAPER_LAYERS), SETTLING_STEPS)
    np.testing.assert_allclose(K[-1], K[40], atol=1e-12)


def test_the_top_layer_forgets_steady_sound():
    states = SettledFilter(reduce_system(PAPER_LAYERS), 1).push(np.ones((500, 1)))
    assert abs(states[-1, 0, 0]) < 1e-9
    assert states[-1, -1, 0] == pytest.approx(1.0)


def test_the_smoother_is_the_joint_gaussian_once_settled(rng):
    model, lag, t = reduce_system((8, 4, 2)), 4, 55
    y = rng.normal(size=(60, 1))
    smoother = FixedLagSmoother(model, lag, 1)
    smoothed = np.concatenate([smoother.push(SettledFilter(model, 1).push(y)), smoother.finish()])
    np.testing.assert_allclose(smoothed[t, :, 0], joint_gaussian(model, y, t + lag, t), atol=1e-8)


@pytest.mark.parametrize(
    ("layers", "message"), [((96, 25), "96 is not divisible by 25"), ((), "whole numbers"), ((4, 0), "whole numbers")]
)
def test_layers_that_do_not_fit(layers, message):
    with pytest.raises(InputError, match=message):
        system(layers)


IN_ORDER = "rows are steps in time: each answer depends on the rows before it"
SPECTRA = np.abs(np.random.default_rng(0).normal(size=(300, 96)))


@parametrize_with_checks(
    [HLDS()],
    expected_failed_checks=lambda _: {
        "check_methods_subset_invariance": IN_ORDER,
        "check_methods_sample_order_invariance": IN_ORDER,
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_all_layers_are_level_slope_and_curvature():
    hlds = HLDS().fit(SPECTRA)
    names = hlds.get_feature_names_out()
    assert names.shape == (36,)
    assert [names[0], names[12], names[24]] == ["level0", "slope0", "curvature0"]
    features = hlds.transform(SPECTRA)
    states = kalman_filter(system((96, 24, 12)), SPECTRA)  # top layer first
    np.testing.assert_allclose(features[:, 24:], states[:, :12], atol=1e-9)
    np.testing.assert_allclose(features[:, 0], states[:, 36:44].mean(axis=1), atol=1e-9)


@pytest.mark.parametrize(
    ("output", "columns"),
    [("top", slice(24, 36)), ("bottom", slice(0, 12)), ([2], slice(24, 36)), ((0, 1), slice(0, 24))],
)
def test_output_layers(output, columns):
    hlds = HLDS(output=output).fit(SPECTRA)
    np.testing.assert_array_equal(hlds.transform(SPECTRA), HLDS().fit_transform(SPECTRA)[:, columns])
    np.testing.assert_array_equal(hlds.get_feature_names_out(), HLDS().fit(SPECTRA).get_feature_names_out()[columns])


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=8), lag=st.integers(0, 6))
def test_a_stream_is_the_transform_bit_for_bit(cuts, lag):
    hlds = HLDS(lag=lag).fit(SPECTRA)
    stream = hlds.stream()
    blocks = [stream.push(block) for block in np.split(SPECTRA, sorted(cuts))]
    np.testing.assert_array_equal(np.concatenate([*blocks, stream.finish()]), hlds.transform(SPECTRA))


@pytest.mark.parametrize(("width", "layers"), [(96, (96, 24, 12)), (16, (16, 4, 2)), (6, (6, 6, 6))])
def test_layers_follow_the_width_of_the_input(width, layers):
    hlds = HLDS().fit(np.zeros((3, width)))
    assert hlds.layers_ == layers
    assert hlds.transform(np.zeros((3, width))).shape == (3, 3 * layers[-1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"layers": (48, 24)}, "X has 96 features, but the bottom layer has 48 units"),
        ({"layers": (96, 25)}, "96 is not divisible by 25"),
        ({"output": "middle"}, "output='middle' must be 'all', 'top', 'bottom' or layer numbers from 0"),
        ({"output": [3]}, r"output=\[3\] must be"),
        ({"layers": "deep"}, "layers='deep' must be 'auto' or sizes"),
        ({"lag": -1}, "lag=-1 must be 0 or more"),
    ],
)
def test_parameters_that_cannot_be_used(parameters, message):
    with pytest.raises(InputError, match=message):
        HLDS(**parameters).fit(SPECTRA)
