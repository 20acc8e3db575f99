"""Thresholds on a scale that is not known: between the rest and the class, in any units, whatever nobody marked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlark.paper.detector import (
    LEAST_LOW,
    LEAST_SPREAD,
    NEAR_THE_CLASS,
    SPREADS,
    note_thresholds,
    pooled_spread,
)

OWN = np.array([2.4, 2.5, 2.55, 2.6, 2.65])


def test_the_threshold_lies_between_the_rest_and_the_class():
    low = 2.55 - SPREADS * pooled_spread([OWN])
    (found,) = note_thresholds([OWN], [np.array([0.5, 1.7])])
    assert found == pytest.approx(1.7 + NEAR_THE_CLASS * (low - 1.7))


def test_notes_that_nobody_marked_change_nothing():
    rest = np.array([0.5, 1.7])
    assert note_thresholds([OWN], [rest]) == note_thresholds([OWN], [np.append(rest, [2.5, 2.6, 2.9])])


def test_something_like_the_class_raises_the_threshold():
    low = 2.55 - SPREADS * pooled_spread([OWN])
    assert note_thresholds([OWN], [np.array([low - 0.01])]) > note_thresholds([OWN], [np.array([1.0])])


def test_notes_that_agree_by_chance_do_not_make_a_class_narrow():
    (found,) = note_thresholds([np.array([2.0, 2.0, 2.0])], [np.zeros(1)])
    assert found == pytest.approx(NEAR_THE_CLASS * (2.0 - SPREADS * LEAST_SPREAD * 2.0))


def test_an_odd_note_does_not_open_a_class():
    odd = np.array([0.3, 2.5, 2.55, 2.6, 2.65])
    rest = np.array([1.7])
    assert note_thresholds([odd], [rest])[0] > 2.0


@given(st.floats(0.01, 100), st.lists(st.floats(0, 3), min_size=1, max_size=20))
def test_units_do_not_matter(unit, rest):
    own = [OWN, OWN - 0.3]
    peaks = [np.array(rest), np.array(rest) / 2]
    scaled = note_thresholds([o * unit for o in own], [p * unit for p in peaks])
    np.testing.assert_allclose(scaled, unit * note_thresholds(own, peaks), rtol=1e-9)


def test_the_spread_is_that_of_normal_scores(rng):
    own = [3.0 + c + 0.1 * rng.normal(size=400) for c in range(3)]
    assert pooled_spread(own) == pytest.approx(0.1, rel=0.1)
    assert pooled_spread([np.array([1.0]), np.array([2.0])]) == 0.0


def test_scores_below_zero_have_thresholds_above_zero():
    assert note_thresholds([np.array([-3.0, -2.9])], [np.array([-9.0])])[0] > 0.0


def test_notes_that_have_nothing_in_common_do_not_open_a_class():
    (found,) = note_thresholds([np.array([0.2, 2.4])], [np.zeros(1)])
    assert found == pytest.approx(NEAR_THE_CLASS * LEAST_LOW * 1.3)


def test_a_threshold_in_numbers():
    """0.75 of the median, 2.3, is the low end; the threshold lies four fifths of the way up to it from 1.0."""
    (found,) = note_thresholds([np.array([2.2, 2.3, 2.4])], [np.array([0.3, 1.0, 2.25])])
    assert found == pytest.approx(1.0 + 0.8 * (0.75 * 2.3 - 1.0))
