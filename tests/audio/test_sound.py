"""Sound as arrays: scale, channels, resampling and frames that no cut into blocks changes."""

import tracemalloc

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import resample_poly

from outlark.audio.sound import FrameStream, Resampler, check_sample_rate, mono, resample
from tests.pace import check_even_pace

# --- mono -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (np.int16, [-(2**15), 0, 1, 2**15 - 1], [-1, 0, 2**-15, 1 - 2**-15]),
        (">i2", [-(2**15), 0, 1, 2**15 - 1], [-1, 0, 2**-15, 1 - 2**-15]),
        (np.int32, [-(2**31), 0, 1 << 8, 2**31 - 1], [-1, 0, 2**-23, 1 - 2**-31]),
        (np.uint8, [0, 128, 129, 255], [-1, 0, 2**-7, 1 - 2**-7]),
        (">f8", [-1.5, 0, 0.1, 1], [-1.5, 0, 0.1, 1]),
        (np.float16, [-1.5, 0, 0.25, 1], [-1.5, 0, 0.25, 1]),
    ],
)
def test_every_type_comes_out_as_floats_of_full_scale_one(dtype, values, expected):
    given_array = np.array(values, dtype=dtype)
    before = given_array.copy()
    for channel in ("mix", 0):
        x = mono(given_array, channel)
        assert x.dtype == np.float64
        assert x.dtype.isnative
        np.testing.assert_array_equal(x, expected)
    two = np.stack([given_array, given_array[::-1]], axis=1)
    np.testing.assert_array_equal(mono(two), (np.array(expected) + np.array(expected[::-1])) / 2)
    np.testing.assert_array_equal(mono(two, 1), expected[::-1])
    np.testing.assert_array_equal(given_array, before)


@pytest.mark.parametrize("channels", [1, 2, 3, 8, 64, 65])
def test_mix_is_the_mean_and_a_number_is_that_channel(channels, rng):
    x = rng.normal(size=(200, channels))
    before = x.copy()
    np.testing.assert_allclose(mono(x), x.mean(axis=1), rtol=0, atol=1e-14)
    for k in range(channels):
        np.testing.assert_array_equal(mono(x, np.int64(k)), x[:, k])
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(mono(np.asfortranarray(x)), mono(x))
    rows = [mono(x[i : i + 100]) for i in (0, 100)]
    np.testing.assert_array_equal(np.concatenate(rows), mono(x))


def test_what_mono_takes(rng):
    x = rng.normal(size=100)
    assert np.shares_memory(mono(x), x)
    assert mono(x[::2]).flags.c_contiguous
    assert mono(np.zeros((2, 64))).shape == (2,)
    assert mono(np.empty((0, 2))).shape == mono([]).shape == (0,)
    np.testing.assert_array_equal(mono([[np.nan, 0.5]], channel=1), [0.5])  # the other channel is not used


@pytest.mark.parametrize("rate", [100, 8000, 22050.0, np.int32(44100), np.float32(384000), 10_000_000])
def test_sample_rates(rate):
    assert check_sample_rate(rate) == rate
    assert type(check_sample_rate(rate)) is int


# --- resampling -----------------------------------------------------------------------------------------------------

PAIRS = [(44100, 22050), (8000, 22050), (384000, 22050), (44056, 22050), (22050, 48000), (22050, 22050)]
NOISE = np.random.default_rng(0).normal(size=200_000)


def streamed(blocks, rate_in, rate_out):
    resampler = Resampler(rate_in, rate_out)
    return np.concatenate([*(resampler.push(block) for block in blocks), resampler.finish()])


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from(PAIRS),
    n=st.integers(0, 30_000),
    cuts=st.lists(st.integers(0, 30_000), max_size=10),
)
def test_no_cut_changes_a_bit(pair, n, cuts):
    x = NOISE[:n]
    blocks = np.split(x, sorted(min(c, n) for c in cuts))
    np.testing.assert_array_equal(streamed(blocks, *pair), resample(x, *pair))


@given(
    n=st.integers(0, 3000),
    rate_in=st.sampled_from([100, 8000, 22050, 32000, 44100, 96000, 384000]),
    rate_out=st.sampled_from([100, 8000, 22050, 22051, 44100]),
)
@settings(deadline=None)
def test_length_is_rounded_with_halves_up(n, rate_in, rate_out):
    assert len(resample(np.ones(n), rate_in, rate_out)) == int(np.floor(n * rate_out / rate_in + 0.5))


@pytest.mark.parametrize(("rate_in", "n"), [(48000, 480), (48000, 1120), (96000, 6080), (384000, 3840)])
def test_halves_go_up_where_soxr_alone_goes_both_ways(rate_in, n):
    y = resample(np.ones(n), rate_in, 22050)
    assert n * 22050 % rate_in == rate_in // 2
    assert len(y) == n * 22050 // rate_in + 1
    assert y[-1] > 0.3  # at the edge of the recording; no zero put behind


@pytest.mark.parametrize(("rate_in", "rate_out"), [(44100, 22050), (22050, 44100), (48000, 16000), (16000, 48000)])
def test_a_click_stays_where_it_is(rate_in, rate_out):
    x = np.zeros(rate_in)
    x[12_000] = 1.0
    y, expected = resample(x, rate_in, rate_out), resample_poly(x, rate_out, rate_in)
    at = 12_000 * rate_out // rate_in
    assert np.abs(y).argmax() == np.abs(expected).argmax() == at
    np.testing.assert_allclose(y[at - 200 : at], y[at + 200 : at : -1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(y.sum(), rate_out / rate_in, rtol=1e-4)


def test_what_the_new_rate_cannot_hold_is_gone():
    t = np.arange(48000) / 48000
    assert np.abs(resample(np.sin(2 * np.pi * 13_000 * t), 48000, 22050)[2000:-2000]).max() < 1e-5


def test_it_is_soxr_up_to_the_end():
    for pair in PAIRS[:-1]:
        y, expected = resample(NOISE, *pair), soxr.resample(NOISE, *pair, quality="HQ")
        assert abs(len(y) - len(expected)) <= 1
        n = min(len(y), len(expected))
        np.testing.assert_allclose(y[:n], expected[:n], rtol=0, atol=1e-12)


#: Ratios that soxr takes exactly; with others it drifts by some 1e-4 of a sample in two minutes.
LONG_PAIRS = [(2205, 1000), (1000, 2205), (300, 200)]


@pytest.mark.parametrize("pair", LONG_PAIRS)
def test_minutes_follow_each_other_without_a_seam(pair, rng):
    """soxr in one go is the oracle; it rounds as single precision does."""
    x = rng.uniform(-1.0, 1.0, size=round(130.5 * pair[0]))
    y, expected = resample(x, *pair), soxr.resample(x, *pair, quality="HQ")
    n = min(len(y), len(expected))
    assert abs(len(y) - len(expected)) <= 1
    np.testing.assert_allclose(y[:n], expected[:n], rtol=0, atol=2e-6)
    for size in (997, 70_001):
        np.testing.assert_array_equal(streamed([x[i : i + size] for i in range(0, len(x), size)], *pair), y)


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from([*LONG_PAIRS, (4406, 2205), (1000, 1000)]),
    first_s=st.one_of(st.floats(0.0, 130.0), st.sampled_from([59.0, 60.0, 61.0, 120.0])),
    length_s=st.one_of(st.floats(0.0, 131.0), st.sampled_from([59.0, 59.999, 60.0, 60.001, 61.0, 120.0])),
    size=st.integers(500, 100_000),
)
def test_a_recording_from_its_middle_on_is_the_same_to_the_bit(pair, first_s, length_s, size):
    x = np.resize(NOISE, round(length_s * pair[0]))
    whole, first = resample(x, *pair), round(first_s * pair[1])
    resampler = Resampler(*pair, first=first)
    x = x[resampler.first_in :]
    assert len(x) <= max(0.0, length_s - first_s + 60.0 + 6.0) * pair[0] + 1
    found = [resampler.push(x[i : i + size]) for i in range(0, len(x), size)]
    np.testing.assert_array_equal(np.concatenate([*found, resampler.finish()]), whole[first:])


def test_a_stream_gives_what_is_ready_soon():
    resampler, late = Resampler(44100, 22050), []
    for i in range(100):
        resampler.push(NOISE[i * 1000 : (i + 1) * 1000])
        late.append((i + 1) * 500 - resampler._n_out)
    assert max(late) < 1500


# --- frames ---------------------------------------------------------------------------------------------------------


def by_hand(x, window, hop, pad):
    """Frame by frame, sample by sample, from the definition."""
    n = len(x)
    if pad in ("centre", "edge"):
        starts = [k * hop - (window - hop) // 2 for k in range(-(-n // hop))]
    else:
        starts = [k * hop for k in range(n) if k * hop + window <= n]
    frames = np.zeros((len(starts), window, *x.shape[1:]))
    for k, start in enumerate(starts):
        for j in range(window):
            if 0 <= start + j < n or pad == "edge":
                frames[k, j] = x[min(max(start + j, 0), n - 1)]
    return frames


def framed(blocks, window, hop, pad):
    stream = FrameStream(window, hop, pad=pad)
    return np.concatenate([*(stream.push(block) for block in blocks), stream.finish()])


@st.composite
def window_and_hop(draw):
    window = draw(st.integers(1, 12))
    return window, draw(st.integers(1, window))


@settings(deadline=None, max_examples=150)
@given(
    sizes=window_and_hop(),
    n=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 60), max_size=8),
    channels=st.sampled_from([None, 1, 3]),
    pad=st.sampled_from(["centre", "edge", "none"]),
)
def test_frames_are_those_of_the_definition_for_any_blocks(sizes, n, cuts, channels, pad):
    window, hop = sizes
    x = 1.0 + np.arange(n * (channels or 1)).reshape(n if channels is None else (n, channels))
    expected = by_hand(x, window, hop, pad)
    np.testing.assert_array_equal(framed(np.split(x, sorted(min(c, n) for c in cuts)), window, hop, pad), expected)
    np.testing.assert_array_equal(framed([x[i : i + 1] for i in range(n)] or [x], window, hop, pad), expected)


@given(sizes=window_and_hop(), pad=st.sampled_from(["centre", "none"]))
def test_own_spans_tile_the_recording_and_lie_in_the_middle_of_their_frames(sizes, pad):
    window, hop = sizes
    x = np.arange(100.0)
    stream = FrameStream(window, hop, pad=pad)
    assert stream.offset == (0 if pad == "centre" else (window - hop) // 2)
    frames = np.concatenate([stream.push(x), stream.finish()])
    middle = (window - hop) // 2
    for k, frame in enumerate(frames):
        start, end = stream.offset + k * hop, stream.offset + (k + 1) * hop
        np.testing.assert_array_equal(frame[middle : middle + hop][: 100 - start], x[start:end])
    if pad == "centre":
        assert start < 100 <= end


@pytest.mark.parametrize("pad", ["centre", "none"])
def test_the_caller_may_use_the_block_again(pad):
    block = np.ones(64)
    stream = FrameStream(8, 8, pad=pad)
    frames = stream.push(block)
    block[:] = 7.0
    assert (frames == 1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        frames[0, 0] = 3.0


def test_ten_minutes_take_little_memory_and_its_end_as_long_as_its_start():
    block = np.random.default_rng(0).normal(size=5 * 22050)
    stream = FrameStream(1024, 48)
    n_frames = 0

    def push():
        nonlocal n_frames
        n_frames += len(stream.push(block))

    tracemalloc.start()
    check_even_pace(push, 120)
    n_frames += len(stream.finish())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_frames == -(-120 * block.size // 48)
    assert peak < 4 * (block.nbytes + 1024 * 8)
