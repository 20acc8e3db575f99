"""The HLDS transformer: scikit-learn's contract, output layers, streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from outlark.errors import InputError
from outlark.estimators.hlds import HLDS
from outlark.maths.hlds import kalman_filter, system

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


def test_the_smoother_is_nearer_to_the_truth_than_the_filter(rng):
    """A slow wave in all bands under noise."""
    wave = np.sin(np.arange(600) / 15)[:, np.newaxis]
    heard = wave + 3.0 * rng.normal(size=(600, 96))
    error = [np.std(HLDS(output="bottom", lag=lag).fit_transform(heard) - wave) for lag in (0, 8)]
    assert error[1] < 0.85 * error[0]


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
