"""The noise floor against brute force, for any cut into blocks; what it ignores and what it follows."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.features.noise_floor import ActivityStream, LevelFloor, _ranked, noise_rise
from tests.pace import check_even_pace


def by_hand(levels, chunk, n_before, n_ahead, quantile, thinning=1):
    """Chunk by chunk, frame by frame, from the definition."""
    floors = np.empty_like(levels)
    for k in range(len(levels)):
        c = k // chunk
        counted = []
        for j in range(len(levels)):
            total = 10 * np.log10(max(1e-300, sum(10 ** (level / 10) for level in levels[j])))
            if c - n_before <= j // chunk <= c + n_ahead and j % thinning == 0 and total >= -110:
                counted.append(levels[j])
        for b in range(levels.shape[1]):
            column = sorted(row[b] for row in counted)
            floors[k, b] = max(-110, column[int(quantile * (len(column) - 1))]) if column else -90
    return floors


def streamed(blocks, *arguments, **named):
    floor = LevelFloor(*arguments, **named)
    return np.concatenate([*(floor.push(block) for block in blocks), floor.finish()])


@settings(deadline=None, max_examples=100)
@given(
    n=st.integers(0, 40),
    columns=st.sampled_from([1, 3]),
    chunk=st.integers(1, 6),
    n_before=st.integers(0, 4),
    n_ahead=st.integers(0, 3),
    quantile=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    seed=st.integers(0, 1000),
)
def test_floors_are_those_of_the_definition_for_any_blocks(n, columns, chunk, n_before, n_ahead, quantile, cuts, seed):
    levels = np.random.default_rng(seed).uniform(-140, -40, size=(n, columns))
    levels[::3] -= 60  # about a third is digital silence
    arguments = (1.0, n_before * chunk, n_ahead * chunk, chunk, quantile)
    expected = by_hand(levels, chunk, n_before, n_ahead, quantile)
    np.testing.assert_array_equal(streamed([levels], *arguments), expected)
    np.testing.assert_array_equal(streamed(np.split(levels, sorted(min(c, n) for c in cuts)), *arguments), expected)
    np.testing.assert_array_equal(streamed([levels[i : i + 1] for i in range(n)] or [levels], *arguments), expected)


def test_many_frames_for_each_second_are_thinned_out_by_their_number(rng):
    levels = rng.uniform(-60, -40, size=(700, 2))
    expected = by_hand(levels, 220, 2, 1, 0.1, thinning=4)
    for cuts in ([], [1, 2, 3, 333], [219, 221, 440]):
        np.testing.assert_array_equal(
            streamed(np.split(levels, cuts), 440.0, window_s=1.0, ahead_s=0.5, chunk_s=0.5), expected
        )


def test_each_floor_comes_when_declared():
    rate = 20.0
    floor = LevelFloor(rate)
    assert floor.chunk == 20
    assert floor.delay == 59  # a chunk and two seconds ahead
    ready = np.cumsum([len(floor.push(np.array([[-50.0]]))) for _ in range(200)])
    waits = [np.searchsorted(ready, k + 1) - k for k in range(ready[-1])]
    assert max(waits) == floor.delay
    assert min(waits) == floor.delay - floor.chunk + 1
    assert ready[-1] + len(floor.finish()) == 200


def test_digital_silence_is_ignored(rng):
    noise = rng.normal(-60, 2, size=(2000, 1))
    silent = noise.copy()
    silent[rng.random(2000) < 0.7] = -300.0
    np.testing.assert_allclose(streamed([silent], 100.0), streamed([noise], 100.0), atol=0.5)


def test_a_band_may_be_silent_while_others_sound(rng):
    levels = np.column_stack([rng.normal(-60, 2, 500), np.full(500, -np.inf), np.full(500, -200.0)])
    floors = streamed([levels], 50.0)
    assert (floors[:, 0] > -65).all()
    np.testing.assert_array_equal(floors[:, 1:], -110.0)


def test_the_powers_of_the_bands_add_up():
    quiet = np.full((100, 40), -120.0)  # -104 dB together: rounding noise of 16 bits, not silence
    np.testing.assert_array_equal(streamed([quiet], 10.0), -110.0)
    np.testing.assert_array_equal(streamed([quiet[:, :5]], 10.0), -90.0)


def test_nothing_but_silence_is_never_active():
    stream = ActivityStream(1, LevelFloor(10.0))
    frames = [stream.push(np.zeros((50, 1)), np.full(50, -300.0)), stream.finish()]
    assert sum(map(len, frames)) == 50
    assert all((f.activity <= 0).all() for f in frames)


def test_the_floor_follows_the_noise(rng):
    drift = np.repeat([-70.0, -50.0, -65.0], 3000)[:, np.newaxis]
    floors = streamed([drift + rng.normal(0, 3, size=drift.shape)], 100.0)
    within = np.array([2699, 4999, 5699, 8999])  # 10 s after a change, 2 s before the next
    np.testing.assert_allclose(floors[within], drift[within] - 3 * 1.2816, atol=0.6)
    assert (np.abs(np.diff(floors[:, 0])) > 5).sum() >= 2


def test_notes_do_not_lift_the_floor(rng):
    levels = rng.normal(-60, 1, size=(3000, 1))
    levels[rng.random(3000) < 0.6] += 30
    assert (np.abs(streamed([levels], 100.0) + 60) < 2.5).all()


@pytest.mark.parametrize("n", [1, 5, 99])
def test_shorter_than_a_chunk(n, rng):
    levels = rng.normal(-50, 5, size=(n, 1))
    np.testing.assert_array_equal(streamed([levels], 100.0), np.sort(levels, axis=0)[[int(0.1 * (n - 1))] * n])


def test_a_low_frame_rate_has_chunks_of_one_frame():
    floor = LevelFloor(0.25)
    assert (floor.chunk, floor.delay) == (1, 0)
    assert len(floor.push(np.full((3, 1), -40.0))) == 3


def test_the_end_of_an_hour_of_forty_bands_takes_as_long_as_its_start(rng):
    block = rng.normal(-60, 5, size=(4600, 40))
    floor, n = LevelFloor(460.0), 0

    def push():
        nonlocal n
        n += len(floor.push(block))

    check_even_pace(push, 360)
    assert n + len(floor.finish()) == 360 * 4600


def test_memory_does_not_grow(rng):
    block = rng.normal(-60, 5, size=(460, 40))
    floor = LevelFloor(460.0)
    tracemalloc.start()
    for _ in range(100):
        floor.push(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15 * block.nbytes


def test_what_is_held_is_the_window():
    floor = LevelFloor(100.0)
    floor.push(np.full((100_000, 2), -50.0))
    assert sum(c.size for c in floor._chunks) <= 13 * 100 * 2
    assert not floor._pieces


def test_features_may_come_later_than_levels_and_the_caller_keeps_its_memory(rng):
    features, levels = rng.normal(size=(30, 2)), rng.normal(-50, 9, size=30)
    expected = levels - by_hand(levels[:, np.newaxis], 5, 10, 2, 0.1)[:, 0]
    for late in (0, 3, 25):
        stream = ActivityStream(2, LevelFloor(5.0, window_s=10.0, ahead_s=2.0))
        parts = []
        for k in range(30 + late):
            now = slice(max(0, k - late), max(0, k - late + 1))
            parts.append(stream.push(features[now], levels[k : k + 1]))
        parts.append(stream.finish())
        assert all(len(p.features) == len(p.activity) for p in parts)
        np.testing.assert_array_equal(np.concatenate([p.features for p in parts]), features)
        np.testing.assert_array_equal(np.concatenate([p.activity for p in parts]), expected)


def test_without_a_floor_nothing_waits():
    frames = ActivityStream(2, None).push(np.ones((3, 2)), np.zeros(3))
    np.testing.assert_array_equal(frames.features, np.ones((3, 2)))
    np.testing.assert_array_equal(frames.activity, [np.inf] * 3)


def test_without_a_floor_digital_silence_is_never_active():
    stream = ActivityStream(1, None, noise_db=3.0)
    frames = stream.push(np.ones((4, 1)), np.array([-300.0, -110.1, -110.0, -60.0]))
    np.testing.assert_array_equal(frames.activity, [-np.inf, -np.inf, np.inf, np.inf])
    assert len(stream.finish()) == 0


def test_activity_is_counted_from_where_noise_ends(rng):
    features, levels = rng.normal(size=(30, 2)), rng.normal(-50, 9, size=30)
    floors = by_hand(levels[:, np.newaxis], 5, 10, 2, 0.1)[:, 0]
    stream = ActivityStream(2, LevelFloor(5.0, window_s=10.0, ahead_s=2.0), noise_db=2.5)
    found = np.concatenate([stream.push(features, levels).activity, stream.finish().activity])
    np.testing.assert_allclose(found, levels - floors - 2.5, atol=1e-12)


@pytest.mark.parametrize("n", [1, 7, 95, 300])
@pytest.mark.parametrize("quantile", [0.1, 0.5])
def test_white_noise_rises_above_its_floor_as_told_but_once_in_a_hundred_times(n, quantile, rng):
    levels = np.concatenate([10 * np.log10((rng.normal(size=(4000, n)) ** 2).sum(axis=1)) for _ in range(20)])
    rise = noise_rise(n, quantile)
    assert np.quantile(levels, 0.99) - np.quantile(levels, quantile) == pytest.approx(rise, rel=0.02)
    assert (levels > np.quantile(levels, quantile) + rise).mean() == pytest.approx(0.01, abs=0.002)


def test_the_more_numbers_the_less_noise_rises():
    rises = [noise_rise(n) for n in (1, 2, 10, 100, 10_000)]
    assert rises == sorted(rises, reverse=True)
    assert rises[-1] < 0.3


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_quantile_is_found_whatever_chunk_it_is_in(rng, share):
    """Also where one quiet chunk holds all that is low, so that the lowest of each chunk are not enough."""
    for sizes in ([30, 30, 30], [1, 40, 0, 7], [5]):
        chunks = [np.sort(rng.normal(size=(4, n)) + 9.0 * i, axis=1) for i, n in enumerate(sizes)]
        together = np.sort(np.concatenate(chunks, axis=1), axis=1)
        rank = int(share * (sum(sizes) - 1))
        np.testing.assert_array_equal(_ranked(chunks, rank, share), together[:, rank])
