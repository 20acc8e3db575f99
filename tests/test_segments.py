"""Segments: whole samples inside, seconds outside."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlark.errors import InputError
from outlark.segments import Segment, in_order


@given(st.integers(0, 10**11), st.integers(1, 10**6), st.sampled_from([8000, 22050, 44100, 384000]))
def test_seconds_and_back_are_exact_to_the_sample_after_days(start, length, rate):
    segment = Segment(start=start, end=start + length, sample_rate=rate, label="a")
    again = Segment.from_seconds(segment.start_s, segment.end_s, "a", rate)
    assert (again.start, again.end) == (start, start + length)


def test_frozen():
    segment = Segment.from_seconds(0.0, 1.0, "a", 100)
    assert (segment.start_s, segment.end_s, segment.duration_s) == (0.0, 1.0, 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        segment.start = 5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"start": 5, "end": 5}, "from sample 5 to 5"),
        ({"start": -1, "end": 5}, "from sample -1 to 5"),
        ({"start": 0, "end": 5, "sample_rate": 0}, "sample_rate=0 must be a positive"),
        ({"start": 0, "end": 5, "verdict": "maybe"}, "verdict='maybe' must be one of"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        Segment(**({"sample_rate": 100, "label": "a"} | values))


def test_order():
    late, early, longer = (Segment.from_seconds(a, b, "x", 10) for a, b in ((2, 3), (1, 2), (1, 3)))
    assert in_order([late, longer, early]) == [early, longer, late]
