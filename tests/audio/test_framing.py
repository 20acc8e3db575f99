"""Frames against a loop over every sample, for any cut into blocks."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.audio.sound import FrameStream
from outlark.errors import InputError
from tests.pace import check_even_pace


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


def streamed(blocks, window, hop, pad):
    stream = FrameStream(window, hop, pad=pad)
    return np.concatenate([*(stream.push(block) for block in blocks), stream.finish()])


@st.composite
def window_and_hop(draw):
    window = draw(st.integers(1, 12))
    return window, draw(st.integers(1, window))


@settings(deadline=None, max_examples=300)
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
    np.testing.assert_array_equal(streamed(np.split(x, sorted(min(c, n) for c in cuts)), window, hop, pad), expected)
    np.testing.assert_array_equal(streamed([x[i : i + 1] for i in range(n)] or [x], window, hop, pad), expected)


@given(sizes=window_and_hop(), n=st.integers(0, 60))
def test_how_many_frames(sizes, n):
    window, hop = sizes
    assert len(streamed([np.ones(n)], window, hop, "centre")) == -(-n // hop)
    assert len(streamed([np.ones(n)], window, hop, "none")) == max(0, (n - window) // hop + 1)


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


def test_frames_are_given_as_soon_as_they_are_whole():
    stream = FrameStream(4, 2, pad="none")
    assert [len(stream.push([float(i)])) for i in range(8)] == [0, 0, 0, 1, 0, 1, 0, 1]
    assert stream.finish().shape == (0, 4)


@pytest.mark.parametrize("pad", ["centre", "none"])
def test_the_caller_may_use_the_block_again(pad):
    block = np.ones(64)
    stream = FrameStream(8, 8, pad=pad)
    frames = stream.push(block)
    block[:] = 7.0
    assert (frames == 1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        frames[0, 0] = 3.0
    stream = FrameStream(8, 4, pad=pad)
    block = np.ones(5)
    stream.push(block)
    block[:] = 7.0
    assert stream.push(np.ones(3)).max() == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, ">f8"])
def test_frames_are_native_floats(dtype):
    frames = streamed([np.arange(10).astype(dtype)], 4, 2, "none")
    assert frames.dtype == np.float64
    assert frames.dtype.isnative
    np.testing.assert_array_equal(frames[1], [2, 3, 4, 5])


@pytest.mark.parametrize("pad", ["centre", "none"])
def test_no_samples_no_frames(pad):
    assert FrameStream(6, 3, pad=pad).finish().shape == (0, 6)
    stream = FrameStream(6, 3, pad=pad)
    assert stream.push([]).shape == (0, 6)
    assert stream.finish().shape == (0, 6)
    stream = FrameStream(6, 3, pad=pad)
    assert stream.push(np.empty((0, 2))).shape == (0, 6, 2)
    assert stream.finish().shape == (0, 6, 2)


def test_what_is_over_is_over():
    stream = FrameStream(4, 2)
    stream.finish()
    with pytest.raises(InputError, match="finished; make a new FrameStream"):
        stream.push([1.0])
    with pytest.raises(InputError, match="finished; make a new FrameStream"):
        stream.finish()


def test_an_hour_takes_little_memory_and_its_end_as_long_as_its_start():
    block = np.random.default_rng(0).normal(size=5 * 22050)
    stream = FrameStream(1024, 48)
    n_frames = 0

    def push():
        nonlocal n_frames
        n_frames += len(stream.push(block))

    tracemalloc.start()
    check_even_pace(push, 720)
    n_frames += len(stream.finish())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_frames == -(-720 * block.size // 48)
    assert peak < 4 * (block.nbytes + 1024 * 8)


def test_what_is_held_does_not_keep_the_block():
    stream = FrameStream(100, 10)
    stream.push(np.ones(100_000))
    held = stream._held
    assert held.base is None
    assert len(held) < 100
