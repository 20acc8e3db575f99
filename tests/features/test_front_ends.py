"""What all front ends promise: the same frames for any blocks, ready when declared, and none after the end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from outlark.errors import InputError
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import joined
from outlark.features.note import NoteFrontEnd
from outlark.paper.front_end import HLDSFrontEnd

NOISE = np.random.default_rng(1).normal(size=(1000, 3))
SERIES = [(0.64, 0.2), (0.66, 0.66), (0.2, "auto"), (0.3, 0.02)]
FILTERED = [
    {},
    {"measure_activity": False},
    {"pad": "none", "lag_s": 0.01, "compress": "log"},
    {"output": "top", "pad": "none", "measure_activity": False, "compress": "root"},
    {"lag_s": 0.02, "measure_activity": False, "hop_s": 96 / 22050},
    {"lag_s": 4.0},
]
FRONT_ENDS = [
    NoteFrontEnd().fit([], 8000),
    NoteFrontEnd(low_hz=100.0, high_hz=400.0, n_bands=5).fit([], 1000),  # windows of 16 samples, a hop of 2
    *(ArrayFrontEnd(*sizes, floor_s=10.0).fit([NOISE], 50) for sizes in SERIES),
    ArrayFrontEnd(0.64, measure_activity=False).fit([NOISE], 50),
    ArrayFrontEnd(0.1).fit([NOISE[:, 0]], 50),
    *(HLDSFrontEnd(**given).fit([], 500) for given in FILTERED),  # windows of 8 samples
    HLDSFrontEnd.paper().fit([], 22050),
]
each = pytest.mark.parametrize("front_end", FRONT_ENDS, ids=[f"{one!r:.60}" for one in FRONT_ENDS])


def made_up(front_end, n, seed=0):
    """Noise with the channels of the front end."""
    channels = getattr(front_end, "n_channels_", 1)
    noise = 0.1 * np.random.default_rng(seed).normal(size=(n, channels)) + 0.2
    return noise if channels > 1 else noise[:, 0]


def n_frames(front_end, n):
    window, hop = front_end.window_samples_, front_end.hop_samples_
    return max(0, (n - window) // hop + 1) if getattr(front_end, "pad", "") == "none" else -(-n // hop)


def streamed(front_end, blocks):
    stream = front_end.stream()
    parts = [*(stream.push(block) for block in blocks), stream.finish()]
    assert all(part.features.shape[:1] == part.activity.shape for part in parts)
    return joined(parts)


def check_same(one, other):
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.activity, other.activity)


@settings(deadline=None, max_examples=100)
@given(
    front_end=st.sampled_from(FRONT_ENDS),
    n=st.one_of(st.integers(0, 300), st.integers(0, 30_000)),
    cuts=st.lists(st.integers(0, 30_000), max_size=6),
    seed=st.integers(0, 99),
)
def test_any_blocks_give_the_same_bits(front_end, n, cuts, seed):
    x = made_up(front_end, n, seed)
    whole = front_end.transform(x)
    assert len(whole) == n_frames(front_end, n)
    check_same(streamed(front_end, np.split(x, sorted(min(c, n) for c in cuts))), whole)


@each
@pytest.mark.parametrize("size", [1, 7, 1000, 2**16 + 1])
def test_small_and_large_blocks_give_the_same_bits(front_end, size):
    x = made_up(front_end, 3000 if size < 1000 else 150_000)
    check_same(streamed(front_end, [x[i : i + size] for i in range(0, len(x), size)]), front_end.transform(x))


@each
def test_each_frame_comes_when_declared(front_end):
    n = 3 * front_end.delay_samples_ + 1000
    x, stream = made_up(front_end, n), front_end.stream()
    step = 1 if n < 20_000 else front_end.hop_samples_  # sample by sample, unless that takes long
    ready = np.cumsum([len(stream.push(x[i : i + step])) for i in range(0, n, step)])
    hop, offset = front_end.hop_samples_, front_end.offset_samples_
    waits = [step * (np.searchsorted(ready, k + 1) + 1) - (offset + (k + 1) * hop) for k in range(ready[-1])]
    exact = step == 1 and not front_end.note_level  # the chunks of the noise floor are not whole hops
    least = front_end.delay_samples_ if exact else 0.8 * front_end.delay_samples_
    assert least <= max(waits) <= front_end.delay_samples_ + step - 1
    assert ready[-1] + len(stream.finish()) == n_frames(front_end, n)


@each
def test_short_signals(front_end):
    hop, window = front_end.hop_samples_, front_end.window_samples_
    for n in {0, 1, hop - 1, hop, hop + 1, window - 1, window, window + 1}:
        for value in (0.0, 1.0):
            frames = front_end.transform(np.full_like(made_up(front_end, n), value))
            assert frames.features.shape == (n_frames(front_end, n), front_end.n_features_)
            assert frames.activity.shape == (len(frames),)
            assert np.isfinite(frames.features).all()
            assert not np.isnan(frames.activity).any()
    assert front_end.stream().finish().features.shape == (0, front_end.n_features_)


@each
def test_streams_share_nothing_with_the_caller_or_each_other(front_end):
    x = made_up(front_end, 2000)
    block, stream, other = x.copy(), front_end.stream(), front_end.stream()
    parts = [stream.push(block)]
    block[:] = 7.0
    other.push(x[::-1])
    check_same(joined([*parts, stream.finish()]), front_end.transform(x))


@each
def test_what_is_over_is_over_and_what_is_not_fitted_says_so(front_end):
    stream = front_end.stream()
    stream.finish()
    for call in (stream.finish, lambda: stream.push(made_up(front_end, 9)), lambda: stream.push(made_up(front_end, 0))):
        with pytest.raises(InputError, match="finished"):
            call()
    copy = clone(front_end)
    assert copy.get_params() == front_end.get_params()
    for call in (copy.stream, lambda: copy.transform(made_up(front_end, 9))):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(InputError, match="sample_rate=0 must be"):
        copy.fit([NOISE[:, 0]], 0)


@each
def test_clipped_and_large_numbers(front_end):
    x = made_up(front_end, 5000)
    for loud in (np.clip(10 * x, -0.5, 0.5), 1e6 * x, np.sign(x)):
        assert np.isfinite(front_end.transform(loud).features).all()
    if front_end.is_sound:
        stored = (x * 32768).astype(np.int16)
        check_same(front_end.transform(stored), front_end.transform(stored / 32768))
