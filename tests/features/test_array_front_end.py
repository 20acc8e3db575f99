"""The front end for series of several channels against loops; every declared number against an experiment."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.fft import dct

from outlark.errors import InputError
from outlark.features.array import ArrayFrontEnd, band_edges
from outlark.features.noise_floor import LevelFloor, noise_rise
from outlark.segments import Segment


def windows_by_hand(x, window, hop, edges):
    """Mean, variance and band powers, window by window: (T, channels, 2 + bands)."""
    found = []
    for k in range(-(-len(x) // hop)):
        start = k * hop - (window - hop) // 2
        rows = np.array([x[min(max(i, 0), len(x) - 1)] for i in range(start, start + window)])
        channels = []
        for c in range(x.shape[1]):
            spectrum = dct(rows[:, c] - rows[:, c].mean(), norm="ortho") ** 2 / window
            bands = [spectrum[lo:hi].sum() for lo, hi in pairwise(edges)]
            channels.append([rows[:, c].mean(), rows[:, c].var(), *bands])
        found.append(channels)
    return np.array(found)


def features_by_hand(raw, power):
    """Before they are standardised, (T, d)."""
    features = raw.copy()
    features[:, :, 1] = np.log(raw[:, :, 1] + 1e-6 * power)
    features[:, :, 2:] = np.log(raw[:, :, 2:] + 1e-6 * power[:, np.newaxis])
    return features.reshape(len(raw), -1)


@pytest.fixture
def walks(rng):
    """Three channels with units and offsets of their own: noise, and a swing for each."""
    t = np.arange(1000)[:, np.newaxis] / 50
    units, offsets = np.array([1.0, 1e-3, 300.0]), np.array([9.8, 0.0, 1e5])
    return [
        offsets + units * (np.sin(2 * np.pi * np.array([1, 2, 3]) * t + k) + 0.3 * rng.normal(size=(1000, 3)))
        for k in range(3)
    ]


@pytest.fixture
def fitted(walks):
    return ArrayFrontEnd(window_s=0.64, hop_s=0.2).fit(walks, 50)


def test_features_are_those_of_a_transcription(walks, rng):
    marked = [[Segment(start=100, end=300, sample_rate=50), Segment(start=555, end=556, sample_rate=50)], [], []]
    marked[2] = [Segment(start=0, end=1000, sample_rate=50)]
    front_end = ArrayFrontEnd(window_s=0.64, hop_s=0.2).fit(walks, 50, marked)
    edges = [1, 2, 5, 13, 32]
    raw = [windows_by_hand(x, 32, 10, edges) for x in walks]
    notes = np.concatenate([raw[0][10:30], raw[0][55:56], raw[2]])
    power = notes[:, :, 1].mean(axis=0)
    learnt = features_by_hand(notes, power)
    test = rng.normal(size=(777, 3)) * [2.0, 1e-3, 100.0] + [9.0, 0.0, 1e5]
    raw_test = windows_by_hand(test, 32, 10, edges)
    expected = (features_by_hand(raw_test, power) - learnt.mean(axis=0)) / learnt.std(axis=0)
    frames = front_end.transform(test)
    np.testing.assert_allclose(frames.features, expected, rtol=1e-7, atol=1e-7)
    levels = 10 * np.log10((raw_test[:, :, 1] / power).mean(axis=1))
    floor = LevelFloor(5.0, front_end.floor_s_, front_end.floor_s_ / 5, front_end.floor_s_ / 10)
    floors = np.concatenate([floor.push(levels[:, np.newaxis]), floor.finish()])
    np.testing.assert_allclose(frames.activity, levels - floors[:, 0] - noise_rise(31 * 3), atol=1e-8)
    np.testing.assert_allclose(front_end.power_, power, rtol=1e-9)


def test_training_notes_have_mean_0_and_spread_1(fitted, walks):
    features = np.concatenate([fitted.transform(x).features for x in walks])
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-9)


def test_units_and_offsets_do_not_matter(fitted, walks):
    unit, offset = np.array([3.0, 1e4, 1e-6]), np.array([-5.0, 1e3, 7.0])
    other = ArrayFrontEnd(window_s=0.64, hop_s=0.2).fit([x * unit + offset for x in walks], 50)
    one, two = fitted.transform(walks[0]), other.transform(walks[0] * unit + offset)
    np.testing.assert_allclose(one.features, two.features, atol=1e-5)
    np.testing.assert_allclose(one.activity, two.activity, atol=1e-5)


@pytest.mark.parametrize("sizes", [(0.64, 0.2), (0.66, 0.66), (0.34, "auto"), (0.3, 0.02)])
@pytest.mark.parametrize("at", [0, 500, 507, 999])
def test_each_frame_looks_where_declared(walks, sizes, at):
    front_end = ArrayFrontEnd(*sizes).fit(walks, 50)
    other = walks[0].copy()
    other[at] *= 1.5
    change = np.abs(front_end.transform(other).features - front_end.transform(walks[0]).features).max(axis=1)
    hop, (before, after) = front_end.hop_samples_, front_end.context_samples_
    starts = front_end.offset_samples_ + hop * np.arange(len(change))
    looks = (starts - before <= at) & (at < starts + hop + after)
    np.testing.assert_array_equal(change > 0, looks)
    assert front_end.frame_rate == 50 / hop


def test_auto_lengths_come_from_the_median_note(walks):
    lengths = [(0, 160), (0, 320), (100, 740)]
    marked = [[Segment(start=a, end=b, sample_rate=50)] for a, b in lengths]
    front_end = ArrayFrontEnd().fit(walks, 50, marked)
    assert front_end.window_samples_ == 20
    assert front_end.hop_samples_ == 10
    assert front_end.floor_s_ == 64.0
    assert ArrayFrontEnd().fit(walks, 500).floor_s_ == 20.0
    assert ArrayFrontEnd().fit(walks, 5000).floor_s_ == 10.0
    assert ArrayFrontEnd(floor_s=3).fit(walks, 50).floor_s_ == 3.0
    assert ArrayFrontEnd(n_bands=6).fit([np.arange(20.0)], 50).window_samples_ == 7


@pytest.mark.parametrize("n_bands", [1, 2, 5, 9])
def test_bands_cover_all_but_the_mean_and_none_is_empty(n_bands):
    for window in range(n_bands + 1, 200):
        edges = band_edges(window, n_bands)
        assert len(edges) == n_bands + 1
        assert (edges[0], edges[-1]) == (1, window)
        assert (np.diff(edges) >= 1).all()


def test_a_faster_swing_has_its_power_in_a_higher_band():
    t = np.arange(2000) / 100
    noise = np.random.default_rng(0).normal(size=2000)
    front_end = ArrayFrontEnd(0.64, n_bands=5).fit([noise], 100)
    bands = [front_end.transform(np.sin(2 * np.pi * f * t)).features[20, 2:].argmax() for f in (1, 3, 8, 20, 45)]
    assert bands == sorted(bands)
    assert len(set(bands)) >= 4


def test_activity(walks, rng):
    quiet = walks[0].mean(axis=0) + 1e-3 * walks[0].std(axis=0) * rng.normal(size=(6000, 3))
    quiet[3000:3300] += walks[1][:300] - walks[1].mean(axis=0)
    activity = ArrayFrontEnd(0.64, floor_s=10.0).fit(walks, 50).transform(quiet).activity
    assert np.abs(activity[:180]).max() < 8
    assert activity[190:204].min() > 50
    assert (ArrayFrontEnd(0.64, measure_activity=False).fit(walks, 50).transform(quiet).activity == np.inf).all()


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("sizes", [(0.1, "auto"), (0.64, 0.64)])
def test_white_noise_is_active_once_in_a_hundred_frames(channels, sizes, rng):
    units = np.arange(1, channels + 1)
    front_end = ArrayFrontEnd(*sizes, floor_s=20.0).fit([rng.normal(size=(2000, channels)) * units], 50)
    activity = front_end.transform(1e-3 * rng.normal(size=(100_000, channels)) * units).activity
    assert 0.004 < (activity > 0).mean() < 0.02


def test_without_a_floor_all_is_active_but_what_does_not_vary(walks):
    front_end = ArrayFrontEnd(0.64, measure_activity=False).fit(walks, 50)
    half = walks[0].copy()
    half[:512] = half[0]
    activity = front_end.transform(half).activity
    np.testing.assert_array_equal(activity, np.repeat([-np.inf, np.inf], [31, 32]))


def test_a_constant_series_is_not_active_and_has_no_edges(fitted, walks):
    frames = fitted.transform(np.tile(walks[0][0], (500, 1)))
    assert (frames.activity <= 0).all()
    np.testing.assert_array_equal(frames.features, np.tile(frames.features[0], (50, 1)))


def test_a_channel_that_never_varied_in_training(walks):
    constant = [np.column_stack([x, np.full(len(x), 1e3 / 3)]) for x in walks]
    front_end = ArrayFrontEnd(0.64, 0.2).fit(constant, 50)
    plain = ArrayFrontEnd(0.64, 0.2).fit(walks, 50)
    same = front_end.transform(constant[0])
    np.testing.assert_allclose(same.features[:, :18], plain.transform(walks[0]).features, atol=1e-9)
    np.testing.assert_allclose(same.features[:, 18:], 0, atol=1e-5)
    np.testing.assert_allclose(same.activity, plain.transform(walks[0]).activity, atol=1e-9)
    alive = constant[0].copy()
    alive[:, 3] += np.sin(np.arange(1000))
    assert np.abs(front_end.transform(alive).features[:, 18:]).max() > 100
    nothing = ArrayFrontEnd(0.64).fit([np.zeros((100, 2))], 50).transform(np.zeros((100, 2)))
    np.testing.assert_array_equal(nothing.features, 0)
    assert (nothing.activity <= 0).all()


@pytest.mark.parametrize("heights", [(0.0, 1e-6, 2e-6), (-1e-6, 0.0, 1e-6), (1e6, 2e6, 3e6)])
def test_a_channel_that_varies_from_note_to_note_only(heights):
    recordings = [np.full(200, height) for height in heights]
    front_end = ArrayFrontEnd(0.64).fit(recordings, 50)
    means = [front_end.transform(x).features[0, 0] for x in recordings]
    np.testing.assert_allclose(means, np.array([-1, 0, 1]) * np.sqrt(1.5), atol=1e-6)


def test_what_hardly_varied_is_not_blown_up(rng):
    swing = np.sin(2 * np.pi * np.arange(3200) / 32)  # exactly the same in every window
    front_end = ArrayFrontEnd(0.64, 0.64).fit([swing], 50)
    frames = front_end.transform(swing + 1e-6 * rng.normal(size=3200))
    assert np.abs(frames.features).max() < 5


@pytest.mark.parametrize("rate", [1, 10, 50, 8000, 384_000])
def test_every_sample_rate(rate, rng):
    x = rng.normal(size=(1000, 2))
    front_end = ArrayFrontEnd().fit([x], rate)
    frames = front_end.transform(x)
    assert front_end.window_samples_ == 62
    assert len(frames) == -(-1000 // 31)
    assert np.isfinite(frames.activity).all()


def test_one_channel_may_be_flat_or_a_column(rng):
    x = rng.normal(size=500)
    one, two = ArrayFrontEnd(0.2).fit([x], 50), ArrayFrontEnd(0.2).fit([x[:, np.newaxis]], 50)
    np.testing.assert_array_equal(one.transform(x[:, np.newaxis]).features, two.transform(x).features)
    assert one.n_channels_ == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window_s": "long"}, "window_s='long' must be 'auto' or a number of seconds"),
        ({"window_s": -1.0}, "window_s=-1.0 must be a number of seconds"),
        ({"window_s": 0.06}, r"window_s=0.06 is 3 samples at 50 Hz.*n_bands \+ 1 = 5 samples or more"),
        ({"window_s": 1.0, "hop_s": 2.0}, "window_s=1.0 is 50 samples at 50 Hz, hop_s=2.0 is 100"),
        ({"hop_s": np.nan}, "hop_s=nan must be"),
        ({"floor_s": 0.0}, "floor_s=0.0 must be"),
        ({"n_bands": 0}, "n_bands=0 must be a whole number"),
        ({"n_bands": 2.5}, "n_bands=2.5 must be"),
        ({"n_bands": True}, "n_bands=True must be"),
        ({"measure_activity": None}, "measure_activity=None must be one of"),
    ],
)
def test_settings_that_are_refused(parameters, message, walks):
    with pytest.raises(InputError, match=message):
        ArrayFrontEnd(**parameters).fit(walks, 50)


@pytest.mark.parametrize(
    ("recordings", "rate", "segments", "message"),
    [
        ([], 50, None, "there is no training note"),
        ([np.zeros((0, 2))], 50, None, "there is no training note"),
        ([np.zeros(100)], 50, [[]], "there is no training note"),
        ([np.zeros(100)], 50, [[], []], "segments for 2 recordings, but 1 recordings"),
        ([np.zeros(100)], 50, [[Segment(start=0, end=101, sample_rate=50)]], "recording 0 has 100 samples at 50 Hz"),
        ([np.zeros(100)], 50, [[Segment(start=0, end=9, sample_rate=40)]], "ends at sample 9 at 40 Hz"),
        ([np.zeros(100), np.zeros((100, 2))], 50, None, "recording 1: .* has 2 channels, 1 were expected"),
        ([np.zeros(100)], 0.5, None, "sample_rate=0.5 must be a whole number"),
        ([np.zeros(100)], True, None, "sample_rate=True must be"),
        ([np.zeros(100)], np.inf, None, "sample_rate=inf must be"),
        ([np.zeros((2, 2, 2))], 50, None, r"recording 0: a signal of type float64 and shape \(2, 2, 2\)"),
        ([[0.0, np.nan]], 50, None, "recording 0: 1 of 2 samples hold NaN or infinity, the first is sample 1"),
    ],
)
def test_training_that_is_refused(recordings, rate, segments, message):
    with pytest.raises(InputError, match=message):
        ArrayFrontEnd().fit(recordings, rate, segments)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (np.zeros((9, 2)), "has 2 channels, 3 were expected, as in training; give the same channels"),
        (np.zeros((3, 9)), "has 9 channels, 3 were expected, as in training; rows are samples: give signal.T"),
        (np.zeros(9), "has 1 channels, 3 were expected"),
        (np.full((9, 3), np.inf), "9 of 9 samples hold NaN or infinity"),
        (np.zeros((9, 3), complex), "type complex128"),
        (np.zeros((9, 3), bool), "type bool"),
    ],
)
def test_blocks_that_are_refused(block, message, fitted):
    with pytest.raises(InputError, match=message):
        fitted.stream().push(block)


def test_bands_of_whole_octaves_are_not_lost_to_rounding():
    for factor, n_bands in ((2, 4), (2, 9), (3, 4), (5, 3), (10, 5)):
        assert band_edges(factor**n_bands, n_bands).tolist() == [factor**i for i in range(n_bands + 1)]
