"""Regions against a loop over frames, for any cut into blocks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.scores import RegionStream, ScoreBlock, group_spans

THRESHOLDS = np.array([1.0, 2.0])


def block_of(values, lengths=None):
    values = np.asarray(values, dtype=float).reshape(-1, 2)
    return ScoreBlock(values, np.arange(len(values), dtype=float), lengths)


def by_hand(block, gap, pad, most):
    """From the definition, one frame after the other: first and last frame of each region, and what ended by force."""
    regions, n = [], len(block)
    first = reach = None
    for t in range(n):
        hot = [c for c in range(2) if block.values[t, c] >= THRESHOLDS[c]]
        if not hot:
            continue
        end = t + pad + (1 if block.lengths is None else max(int(block.lengths[t, c]) for c in hot))
        if first is not None and t - pad <= reach + gap and t < first + most:
            reach = max(reach, end)
            regions[-1][1] = min(reach, first + most)
        else:
            begin = max(t - pad, regions[-1][1] if regions else 0)
            first, reach = t, end
            regions.append([begin, min(reach, first + most)])
    return [[begin, min(end, n)] for begin, end in regions]


def streamed(blocks, **settings):
    stream = RegionStream(THRESHOLDS, **settings)
    return [batch for block in blocks for batch in stream.push(block)] + stream.finish()


def cut(block, cuts):
    borders = [0, *sorted(min(c, len(block)) for c in cuts), len(block)]
    return [block.between(i, j) for i, j in pairwise(borders)]


@st.composite
def blocks(draw):
    n = draw(st.integers(1, 50))
    rows = st.lists(st.sampled_from([(0, 0), (0, 0), (0, 0), (1, 0), (0, 2), (3, 3), (0, 1)]), min_size=n, max_size=n)
    values = np.array(draw(rows), dtype=float)
    lengths = None
    if draw(st.booleans()):
        lengths = np.array(draw(st.lists(st.integers(1, 9), min_size=2 * n, max_size=2 * n))).reshape(n, 2)
    return block_of(values, lengths)


@settings(max_examples=400, deadline=None)
@given(
    block=blocks(),
    gap=st.integers(0, 3),
    pad=st.integers(0, 3),
    most=st.sampled_from([4, 6, 11, 1000]),
    cuts=st.lists(st.integers(0, 50), max_size=6),
)
def test_regions_are_those_of_the_definition_for_any_blocks(block, gap, pad, most, cuts):
    expected = by_hand(block, gap, pad, most)
    for pieces in ([block], cut(block, cuts), cut(block, range(len(block)))):
        batches = streamed(pieces, gap=gap, pad=pad, most=most)
        found = [(batch.regions + batch.start).tolist() for batch in batches]
        assert [region for regions in found for region in regions] == expected
        # every frame comes out once, in order, and a region never ends after its batch
        np.testing.assert_array_equal(np.concatenate([b.block.activity for b in batches]), block.activity)
        np.testing.assert_array_equal(np.concatenate([b.block.values for b in batches]), block.values)
        if block.lengths is not None:
            np.testing.assert_array_equal(np.concatenate([b.block.lengths for b in batches]), block.lengths)
        for batch in batches:
            assert batch.block.activity[0] == batch.start
            assert (batch.regions[:, 1] <= len(batch.block)).all()


@settings(deadline=None)
@given(block=blocks(), gap=st.integers(0, 3), most=st.sampled_from([4, 6, 11]))
def test_regions_of_one_batch_are_further_apart_than_the_gap(block, gap, most):
    for batch in streamed([block], gap=gap, pad=0, most=most):
        for before, after in zip(batch.regions[:-1], batch.regions[1:], strict=True):
            assert after[0] - before[1] > gap


def test_what_is_cold_comes_out_at_once_and_a_region_as_soon_as_it_is_over():
    values = np.array([0, 0, 1, 1, 0, 0, 0], dtype=float)
    stream = RegionStream(THRESHOLDS, gap=1, pad=0, most=100)
    out = [sum(len(b.block) for b in stream.push(block_of([[v, 0]]))) for v in values]
    assert out == [1, 1, 0, 0, 0, 4, 1]
    padded = RegionStream(THRESHOLDS, gap=0, pad=1, most=100)
    out = [sum(len(b.block) for b in padded.push(block_of([[v, 0]]))) for v in values]
    assert out == [0, 1, 0, 0, 0, 0, 5]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_no_more_than_a_region_is_held(size):
    stream = RegionStream(THRESHOLDS, gap=2, pad=3, most=50)
    for _ in range(3000 // size):
        stream.push(block_of(np.ones((size, 2))))
        assert stream.n_held <= 50 + 3
        assert sum(len(block) for block in stream._held) == stream.n_held
        assert size < 1000 or stream._held[0].values.base is None  # does not keep the block alive


def test_a_piece_does_not_hold_the_next_one_together():
    # the first span reaches over the cut at 5; behind it, spans that are apart are regions of their own
    groups = group_spans(np.array([0, 6, 9, 15]), np.array([20, 7, 10, 16]), gap=1, most=5)
    assert groups.first.tolist() == [0, 1, 2, 3]
    assert groups.reach.tolist() == [20, 7, 10, 16]
    assert groups.forced.tolist() == [True, False, False, False]
