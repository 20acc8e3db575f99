"""The HLDS front end against a transcription in loops; every declared number against an experiment."""

import tracemalloc

import numpy as np
import pytest
from scipy.fft import dct

from outlark.errors import InputError
from outlark.estimators.hlds import HLDS
from outlark.features.noise_floor import LevelFloor, noise_rise
from outlark.paper.front_end import HLDSFrontEnd
from tests.pace import check_even_pace

COMPRESS = {"none": lambda m: m, "root": lambda m: m**0.5, "log": lambda m: np.log(1 + m / 1e-3)}


def by_hand(x, window, hop, pad, compress="none", **hlds):
    """Features and levels, frame by frame."""
    n = len(x)
    if pad == "centre":
        starts = [k * hop - (window - hop) // 2 for k in range(-(-n // hop))]
    else:
        starts = [k * hop for k in range(n) if k * hop + window <= n]
    magnitudes, levels = [], []
    for start in starts:
        frame = np.array([x[i] if 0 <= i < n else 0.0 for i in range(start, start + window)])
        magnitudes.append(COMPRESS[compress](np.abs(dct(frame, norm="ortho"))))
        levels.append(10 * np.log10(np.var(frame)))
    return HLDS(**hlds).fit_transform(np.array(magnitudes)), np.array(levels)


@pytest.fixture
def signal(rng):
    t = np.arange(22050) / 22050
    return 0.01 * rng.normal(size=t.size) + 0.3 * np.sin(2 * np.pi * (2000 + 3000 * t) * t) * (t % 0.25 < 0.1)


@pytest.mark.parametrize("pad", ["centre", "none"])
@pytest.mark.parametrize("compress", ["none", "root", "log"])
@pytest.mark.parametrize("output", ["all", "top", "bottom", [0, 2]])
def test_features_and_activity_are_those_of_a_transcription(signal, pad, compress, output):
    front_end = HLDSFrontEnd(pad=pad, compress=compress, output=output).fit([], 22050)
    features, levels = by_hand(signal, 96, 48, pad, compress, output=output)
    frames = front_end.transform(signal)
    np.testing.assert_allclose(frames.features, features, rtol=1e-9, atol=1e-12)
    floor = LevelFloor(22050 / 48)
    floors = np.concatenate([floor.push(levels[:, np.newaxis]), floor.finish()])
    np.testing.assert_allclose(frames.activity, levels - floors[:, 0] - noise_rise(95), atol=1e-8)
    assert front_end.n_features_ == features.shape[1]


def test_the_paper_literally(signal):
    front_end = HLDSFrontEnd.paper().fit([signal], 22050)
    frames = front_end.transform(signal)
    expected, _ = by_hand(signal, 96, 48, "none", layers=(96, 24, 12), output="top", lag=0)
    np.testing.assert_allclose(frames.features, expected, rtol=1e-9, atol=1e-12)
    assert frames.features.shape == (458, 12)  # (22050 - 96) // 48 + 1
    assert (frames.activity == np.inf).all()
    assert front_end.layers_ == (96, 24, 12)
    assert front_end.offset_samples_ == 24
    assert front_end.delay_samples_ == 24


def test_the_smoother_waits_and_is_not_late(signal):
    expected, _ = by_hand(signal, 96, 48, "centre", lag=9)
    front_end = HLDSFrontEnd(lag_s=0.0196, compress="none").fit([], 22050)  # 9.003 hops
    assert front_end.lag_steps_ == 9
    np.testing.assert_allclose(front_end.transform(signal).features, expected, rtol=1e-9, atol=1e-12)
    step = np.repeat([0.0, 1.0], 4800) * np.sin(np.arange(9600))
    made = {lag: HLDSFrontEnd(lag_s=lag, output=[1], compress="none").fit([], 22050) for lag in (0, 0.02)}
    slopes = {lag: front_end.transform(step).features for lag, front_end in made.items()}
    steepest = {lag: int(f.max(axis=1).argmax()) for lag, f in slopes.items()}
    assert steepest == {0: 100, 0.02: 99}  # the sound begins in the second half of the window of frame 99


SETTINGS = [
    {},
    {"measure_activity": False},
    {"pad": "none", "lag_s": 0.01, "compress": "log"},
    {"output": "top", "pad": "none", "measure_activity": False, "compress": "root"},
    {"lag_s": 0.02, "measure_activity": False, "hop_s": 96 / 22050},
]


@pytest.mark.parametrize("which", SETTINGS, ids=str)
@pytest.mark.parametrize("at", [15_000, 15_011, 15_024])
def test_each_frame_looks_where_declared(which, at, rng):
    front_end = HLDSFrontEnd(**which).fit([], 22050)
    x = 0.01 * rng.normal(size=30_000)
    other = x.copy()
    other[at] += 10.0
    change = np.abs(front_end.transform(other).features - front_end.transform(x).features)
    changed = np.flatnonzero(change.max(axis=1) > 0)
    hop, (before, after) = front_end.hop_samples_, front_end.context_samples_
    starts = front_end.offset_samples_ + hop * np.arange(len(change))
    assert changed[0] == np.flatnonzero(starts + hop + after > at)[0]
    late = starts - before > at
    share = change.max(axis=0)
    assert (change[late] / share).max() < 0.02  # 1 percent, and two windows share the sample
    assert (change[starts - before + 4 * hop > at] / share).max() > 0.01  # and not declared too long


def test_the_own_span_of_a_frame_is_where_its_energy_is():
    for pad in ("centre", "none"):
        front_end = HLDSFrontEnd(pad=pad).fit([], 22050)
        x = np.zeros(22050)
        k = 200
        start = front_end.offset_samples_ + k * front_end.hop_samples_
        x[start : start + 48] = np.sin(np.arange(48))
        assert front_end.transform(x).activity.argmax() == k
        assert front_end.frame_at(start) == front_end.frame_at(start + 47) == k


def test_the_frame_rate():
    front_end = HLDSFrontEnd().fit([], 22050)
    assert front_end.frame_rate == 22050 / 48
    assert front_end.sample_rate_ == 22050
    assert (front_end.window_samples_, front_end.hop_samples_, front_end.layers_) == (96, 48, (96, 24, 12))


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 32000, 44100, 48000, 96000, 250_000, 384_000])
def test_every_sample_rate(rate):
    front_end = HLDSFrontEnd().fit([], rate)
    window, hop = front_end.window_samples_, front_end.hop_samples_
    assert window % 8 == 0
    assert abs(window - rate * 96 / 22050) <= 4
    assert hop == window // 2
    assert front_end.layers_ == (window, window // 4, window // 8)
    t = np.arange(rate // 4) / rate
    frames = front_end.transform(0.1 * np.sin(2 * np.pi * 3100 * t))
    level = frames.features[len(frames) // 2, : window // 8]
    assert level.argmax() == int(3100 / (rate / 2) * (window // 8))


@pytest.mark.parametrize(("hop_s", "hop"), [(96 / 22050, 96), (24 / 22050, 24), (1e-9, 1), (32 / 22050, 32)])
def test_the_hop(hop_s, hop):
    front_end = HLDSFrontEnd(hop_s=hop_s).fit([], 22050)
    assert front_end.hop_samples_ == hop
    assert len(front_end.transform(np.zeros(300))) == -(-300 // hop)


def test_layers_of_ones_own():
    front_end = HLDSFrontEnd(window_s=100 / 22050, layers=[100, 20, 10]).fit([], 22050)
    assert (front_end.window_samples_, front_end.layers_, front_end.n_features_) == (100, (100, 20, 10), 30)
    with pytest.raises(InputError, match=r"layers=\(96, 24, 12\), but window_s=0.00435374 is 35 samples at 8000 Hz"):
        HLDSFrontEnd(layers=(96, 24, 12)).fit([], 8000)


def test_digital_silence_is_not_active():
    for silence in (np.zeros(50_000), np.full(50_000, 0.25)):
        frames = HLDSFrontEnd().fit([], 22050).transform(silence)
        assert (frames.activity[1:-1] <= 0).all()
    assert not HLDSFrontEnd().fit([], 22050).transform(np.zeros(50_000)).features.any()


def test_without_a_floor_all_is_active_but_digital_silence(signal):
    front_end = HLDSFrontEnd.paper().fit([], 22050)
    assert (front_end.transform(np.zeros(5000)).activity == -np.inf).all()
    assert (front_end.transform(np.full(5000, 0.25)).activity == -np.inf).all()
    half = signal.copy()
    half[:9600] = 0.0
    # frame 198 is the last that lies in the first 9600 samples
    np.testing.assert_array_equal(front_end.transform(half).activity, np.repeat([-np.inf, np.inf], [199, 259]))


def test_digital_silence_beside_noise_does_not_lift_the_noise(rng):
    noise = 0.01 * rng.normal(size=100_000)
    noise[:70_000] = 0.0
    activity = HLDSFrontEnd().fit([], 22050).transform(noise).activity
    assert abs(np.median(activity[1500:])) < 3
    assert (activity[:1400] < -50).all()


@pytest.mark.parametrize("rate", [8000, 22050, 384_000])
def test_levels_are_those_of_full_scale_at_every_rate(rate, rng):
    front_end = HLDSFrontEnd().fit([], rate)
    for level, active in ((-107, True), (-114, False)):  # digital silence begins at -110 dB
        noise = 10 ** (level / 20) * rng.normal(size=rate // 2)
        assert (np.median(front_end.transform(noise).activity) > -5) == active


def test_activity_is_the_rise_above_the_noise(rng):
    noise = 0.001 * rng.normal(size=110_250)
    noise[50_000:55_000] *= 10 ** (30 / 20)
    activity = HLDSFrontEnd().fit([], 22050).transform(noise).activity
    assert np.median(activity[1050:1140]) - np.median(activity[:1000]) == pytest.approx(30, abs=0.5)
    assert -3 < np.median(activity[:1000]) < 0


@pytest.mark.parametrize("rate", [500, 8000, 22050, 48000])
@pytest.mark.parametrize("level", [1e-4, 0.1])
def test_white_noise_is_active_once_in_a_hundred_frames(rate, level, rng):
    activity = HLDSFrontEnd().fit([], rate).transform(level * rng.normal(size=max(30 * rate, 100_000))).activity
    assert 0.004 < (activity > 0).mean() < 0.02


def test_an_offset_reaches_the_lowest_band_only(signal):
    front_end = HLDSFrontEnd().fit([], 22050)
    plain, offset = front_end.transform(signal), front_end.transform(signal + 0.2)
    inner = slice(100, -10)  # the edges of the recording are steps
    others = np.arange(36) % 12 > 0
    np.testing.assert_allclose(offset.features[inner][:, others], plain.features[inner][:, others], atol=1e-10)
    np.testing.assert_allclose(offset.activity[inner], plain.activity[inner], atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window_s": 0.0}, "window_s=0.0 must be a number of seconds, more than 0"),
        ({"window_s": "long"}, "window_s='long' must be"),
        ({"hop_s": -1.0}, "hop_s=-1.0 must be"),
        ({"hop_s": 0.1}, "hop_s=0.1 is longer than window_s"),
        ({"lag_s": -0.1}, "lag_s=-0.1 must be a number of seconds, 0 or more"),
        ({"lag_s": np.inf}, "lag_s=inf must be"),
        ({"pad": "left"}, "pad='left' must be one of"),
        ({"compress": "cube"}, "compress='cube' must be one of"),
        ({"output": "middle"}, "output='middle' must be"),
        ({"layers": "wide"}, "layers='wide' must be 'auto'"),
        ({"layers": ()}, r"layers=\(\), but window_s"),
        ({"layers": (96, 36)}, "96 is not divisible by 36"),
        ({"measure_activity": "yes"}, "measure_activity='yes' must be one of"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        HLDSFrontEnd(**parameters).fit([], 22050)


def test_the_end_of_a_minute_takes_as_long_as_its_start_and_little_memory(rng):
    block = rng.normal(size=5 * 22050)
    stream, n = HLDSFrontEnd().fit([], 22050).stream(), 0

    def push():
        nonlocal n
        n += len(stream.push(block))

    check_even_pace(push, 12)
    assert n + len(stream.finish()) == -(-60 * 22050 // 48)
    stream = HLDSFrontEnd().fit([], 22050).stream()
    tracemalloc.start()
    for _ in range(12):
        stream.push(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
