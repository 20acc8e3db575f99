"""How far sounds stand out: against a naive quantile, and against every frame weighed by its age."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outlark.detection.scorer import (
    FORGOTTEN_S,
    LEAST_SHARE_IN_NOISE,
    LOUD_QUANTILE,
    MAX_ACTIVITY_DB,
    MAX_CONTRAST_DB,
    MEMORY_S,
    PRIOR_S,
    SOUND_DB,
    Contrast,
    contrast_of,
)

RATE = 100.0  # frames in a second
levels = st.floats(-20.0, 130.0)
blocks_of_levels = st.lists(st.lists(levels, max_size=60), min_size=1, max_size=8)


def quantile(values, share):
    """Between the two sorted values around it."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@given(st.lists(levels, max_size=80))
def test_the_contrast_is_a_quantile_of_the_sounds(activity):
    sounds = [db for db in activity if db >= SOUND_DB]
    few = len(sounds) < PRIOR_S * RATE
    expected = MAX_CONTRAST_DB if few else min(MAX_CONTRAST_DB, quantile(sounds, LOUD_QUANTILE))
    assert contrast_of(np.array(activity), RATE) == pytest.approx(expected)


def test_a_tenth_of_the_sounds_is_louder():
    """In numbers, whatever the constants are called."""
    assert contrast_of(np.linspace(10.0, 30.0, 101), RATE) == pytest.approx(28.0)
    assert after([np.linspace(10.0, 30.0, 10_001)], 40.0) == pytest.approx(28.5 / 40.5)


def test_hardly_a_sound_tells_nothing():
    least = round(PRIOR_S * RATE)
    assert contrast_of(np.full(least - 1, 10.0), RATE) == MAX_CONTRAST_DB
    assert contrast_of(np.full(least, 10.0), RATE) == 10.0
    assert contrast_of(np.append(np.full(least, 10.0), np.full(1000, SOUND_DB - 0.1)), RATE) == 10.0
    assert contrast_of(np.full(least, 90.0), RATE) == MAX_CONTRAST_DB


def weights_by_age(blocks, reference_db, memory=MEMORY_S * RATE):
    """How much each whole dB counts: a sound fades with every frame of the blocks after its own."""
    weights = np.zeros(MAX_ACTIVITY_DB + 1)
    weights[int(reference_db)] = PRIOR_S * RATE
    for b, block in enumerate(blocks):
        age = sum(len(later) for later in blocks[b + 1 :])
        for db in block:
            if db >= SOUND_DB and np.isfinite(db):
                weights[min(int(db), MAX_ACTIVITY_DB)] += np.exp(-age / memory)
    return weights


def share_of(loud_bin, reference_db):
    """Both in the middle of their dB."""
    return min(1.0, max(LEAST_SHARE_IN_NOISE, (loud_bin + 0.5) / (int(reference_db) + 0.5)))


def after(blocks, reference_db):
    contrast = Contrast(reference_db, RATE)
    return [contrast.push(np.array(block, dtype=float)) for block in blocks][-1]


@given(blocks_of_levels, st.floats(SOUND_DB, MAX_CONTRAST_DB))
def test_the_share_is_that_of_a_transcription(blocks, reference_db):
    weights = weights_by_age(blocks, reference_db)
    below = np.cumsum(weights) / weights.sum()
    assume(np.abs(below - LOUD_QUANTILE).min() > 1e-9)  # a tie is broken by rounding
    assert after(blocks, reference_db) == pytest.approx(share_of(int((below < LOUD_QUANTILE).sum()), reference_db))


@given(blocks_of_levels, st.floats(SOUND_DB, MAX_CONTRAST_DB))
def test_the_share_is_never_above_1_nor_so_low_that_noise_becomes_notes(blocks, reference_db):
    assert LEAST_SHARE_IN_NOISE <= after(blocks, reference_db) <= 1.0


@given(blocks_of_levels, st.integers(1, 40), st.floats(SOUND_DB, MAX_CONTRAST_DB))
def test_sizes_of_blocks_hardly_matter(blocks, size, reference_db):
    """Within a block nothing fades, so that a sound counts at most by what fades in a block more than frame by frame.

    The share is then one that the frames have if those above, or those below, count by so much more.
    """
    frames = [db for block in blocks for db in block]
    pieces = [frames[i : i + size] for i in range(0, len(frames), size)] or [[]]
    one_by_one = weights_by_age([[db] for db in frames], reference_db)
    more = float(np.exp(size / (MEMORY_S * RATE)))
    below = np.cumsum(one_by_one)
    above = one_by_one.sum() - below
    lowest = int((more * below / (more * below + above) < LOUD_QUANTILE - 1e-9).sum())
    highest = int((below / (below + more * above) < LOUD_QUANTILE + 1e-9).sum())
    assert share_of(lowest, reference_db) <= after(pieces, reference_db) <= share_of(highest, reference_db)


@given(st.permutations([*range(7, 37), -np.inf, np.inf, 0.0]))
def test_the_order_in_a_block_does_not_matter(block):
    assert after([block], 40.0) == after([sorted(block)], 40.0)


@given(st.lists(st.floats(-99.0, SOUND_DB, exclude_max=True), max_size=50), st.floats(SOUND_DB, MAX_CONTRAST_DB))
def test_silence_raises_nothing(block, reference_db):
    assert after([block] * 3, reference_db) == 1.0


def test_loud_sounds_raise_nothing_and_faint_ones_do():
    assert after([np.full(1000, 45.0)], 40.0) == 1.0
    assert after([np.full(1000, 30.0)], 40.0) == pytest.approx(30.5 / 40.5)
    assert after([np.full(1000, 10.0)], 40.0) == LEAST_SHARE_IN_NOISE


def test_what_was_heard_is_forgotten_after_minutes():
    noise, minute = np.full(6000, 30.0), np.zeros(round(60 * RATE))
    assert after([noise, *[minute] * 3], 40.0) == pytest.approx(30.5 / 40.5)
    assert after([noise, *[minute] * 5], 40.0) == 1.0


@pytest.mark.parametrize("size", [32, 100, 512])
def test_what_came_before_the_look_back_changes_not_a_bit(rng, size):
    levels = rng.uniform(-10.0, 90.0, size=round(2.5 * FORGOTTEN_S * RATE))
    whole, late = Contrast(40.0, RATE), Contrast(40.0, RATE)
    blocks = [levels[i : i + size] for i in range(0, len(levels), size)]
    first = len(blocks) - 1 - -(-whole.look_back // size)
    assert first > 2
    ends = []
    for contrast, own in ((whole, blocks), (late, blocks[first:])):
        for block in own:
            contrast.push(block)
        ends.append((contrast._ages.tolist(), contrast._counts.tolist()))
    assert ends[0] == ends[1]


def test_the_oldest_sound_that_counts():
    last = round(FORGOTTEN_S * RATE) - 1
    assert [after([np.full(10**6, 30.0), np.zeros(n)], 40.0) < 1.0 for n in (last, last + 1)] == [True, False]


def test_a_few_small_noises_at_the_beginning_are_not_enough():
    assert after([np.full(10, 8.0)], 40.0) == 1.0
    assert after([np.full(1000, 8.0)], 40.0) == LEAST_SHARE_IN_NOISE


def test_infinite_activity_is_no_sound():
    """As there is where nothing was measured, and after digital silence."""
    sounds = np.linspace(7.0, 35.0, 200)
    with_it, without = (np.insert(sounds, [50] * 100, db) for db in (np.inf, 0.0))
    assert after([with_it], 40.0) == after([without], 40.0) < 1.0
    assert after([np.full(500, np.inf)], 40.0) == 1.0
