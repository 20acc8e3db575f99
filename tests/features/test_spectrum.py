"""Spectra above the noise floor against a transcription in loops; every declared number against an experiment."""

import numpy as np
import pytest
from scipy.signal import get_window, lfilter, spectrogram

from outlark.audio.sound import FrameStream, hann
from outlark.errors import InputError
from outlark.features.base import joined
from outlark.features.noise_floor import LevelFloor
from outlark.features.note import (
    Spectrum,
    SpectrumSettings,
    SpectrumSource,
    band_matrix,
)


def streamed(spectrum, blocks):
    source = SpectrumSource(spectrum)
    parts = [*(source.push(block) for block in blocks), source.finish()]
    assert all(part.features.shape[:1] == part.activity.shape for part in parts)
    return joined(parts)


def transformed(x, rate=22050, **parameters):
    return streamed(Spectrum(SpectrumSettings(**parameters), rate), [x])


def bands_by_hand(n_fft, rate, low, high, n_bands):
    edges = [low * (high / low) ** (i / (n_bands + 1)) for i in range(n_bands + 2)]
    columns = []
    for b in range(n_bands):
        left, middle, right = edges[b : b + 3]
        weights = []
        for k in range(n_fft // 2 + 1):
            f = k * rate / n_fft
            up, down = (f - left) / (middle - left), (right - f) / (right - middle)
            weights.append(max(0.0, min(up, down)))
        if sum(weights) < 0.5:
            nearest = min(range(len(weights)), key=lambda k: abs(k * rate / n_fft - middle))
            weights = [float(k == nearest) for k in range(len(weights))]
        columns.append([w / sum(weights) for w in weights])
    return np.array(columns).T


def levels_by_hand(x, spectrum, rate):
    window, hop, n_fft = spectrum.window, spectrum.hop, spectrum.n_fft
    hann = np.array([0.5 - 0.5 * np.cos(2 * np.pi * i / window) for i in range(window)])
    s = spectrum.settings
    bands = bands_by_hand(n_fft, rate, s.low_hz, min(s.high_hz, 0.46 * rate), s.n_bands)
    rows = []
    for k in range(-(-len(x) // hop)):
        start = k * hop - (window - hop) // 2
        frame = np.array([x[i] if 0 <= i < len(x) else 0.0 for i in range(start, start + window)])
        power = np.abs(np.fft.rfft(frame * hann, n_fft)) ** 2 / (hann**2).sum()
        rows.append(10 * np.log10(np.maximum(power @ bands, 1e-30)))
    return np.array(rows)


def rise_by_hand(levels, floors):
    rows = []
    for row in np.maximum(levels - floors, -60.0):
        n = len(row)
        rows.append([(row[max(b - 1, 0)] + row[b] + row[min(b + 1, n - 1)]) / 3 for b in range(n)])
    return np.array(rows)


@pytest.fixture
def signal(rng):
    t = np.arange(22050) / 22050
    return 0.01 * rng.normal(size=t.size) + 0.3 * np.sin(2 * np.pi * (2000 + 3000 * t) * t) * (t % 0.25 < 0.1)


@pytest.mark.parametrize("parameters", [{}, {"window_s": 0.01, "hop_s": 0.01, "n_bands": 3}, {"high_hz": 2000.0}])
def test_spectra_and_activity_are_those_of_a_transcription(signal, parameters):
    spectrum = Spectrum(SpectrumSettings(**parameters), 22050)
    levels = levels_by_hand(signal, spectrum, 22050)
    floor = LevelFloor(22050 / spectrum.hop)
    floors = np.concatenate([floor.push(levels), floor.finish()])
    noise = 10 ** (spectrum.margin_db / 10) * 10 ** (floors / 10)
    expected = np.maximum((10 ** (levels / 10)) ** 0.2 - noise**0.2, 0.0)
    found = transformed(signal, **parameters)
    np.testing.assert_allclose(found.features, expected, atol=2e-6)  # single precision
    rise = rise_by_hand(levels, floors)
    np.testing.assert_allclose(spectrum.rise(levels, floors), rise, atol=1e-9)
    highest = [max(row[b] - spectrum.noise_db[b] for b in range(len(row))) for row in rise]
    np.testing.assert_allclose(found.activity, highest, atol=1e-4)


@pytest.mark.parametrize("n", [4, 353, 512])
def test_the_window_is_that_of_scipy(n):
    np.testing.assert_allclose(hann(n), get_window("hann", n), atol=1e-15)


@pytest.mark.parametrize("parameters", [{}, {"window_s": 0.008, "hop_s": 0.008, "low_hz": 200.0}])
def test_steady_noise_is_nothing_nine_tenths_of_the_time_in_every_band(rng, parameters):
    features = transformed(rng.normal(size=20 * 22050), **parameters).features
    assert 0.06 < (features > 0.0).mean() < 0.14
    assert ((features > 0.0).mean(axis=0) < 0.2).all()
    quiet = Spectrum(SpectrumSettings(**parameters), 22050).margin_db
    assert quiet[0] > 8.0 > quiet[-1] > 1.0  # few bins, many bins


def test_powers_are_those_of_scipy(signal):
    spectrum = Spectrum(SpectrumSettings(), 22050)
    frames = FrameStream(spectrum.window, spectrum.hop, pad="none").push(signal)
    _, _, power = spectrogram(
        signal, nperseg=spectrum.window, noverlap=spectrum.window - spectrum.hop, nfft=spectrum.n_fft, window="hann",
        detrend=False, return_onesided=False, fs=1.0,
    )  # fmt: skip
    expected = power[: spectrum.n_fft // 2 + 1].T @ spectrum.bands
    amplitudes = 10 ** (spectrum.levels(frames) / 20)
    # single precision: to a millionth of the loudest band of the window
    loudest = np.sqrt(expected.max(axis=1, keepdims=True))
    np.testing.assert_allclose(amplitudes / loudest, np.sqrt(expected) / loudest, atol=1e-6)


@pytest.mark.parametrize(
    ("n_fft", "rate", "low", "high", "n_bands"),
    [
        (360, 22050, 500.0, 10000.0, 40),
        (16, 1000, 100.0, 400.0, 5),
        (128, 8000, 500.0, 3680.0, 40),
        (9, 900, 1, 450, 3),
    ],
)
def test_bands_are_those_of_a_transcription(n_fft, rate, low, high, n_bands):
    bands = band_matrix(n_fft, rate, low, high, n_bands)
    np.testing.assert_allclose(bands, bands_by_hand(n_fft, rate, low, high, n_bands), atol=1e-9)
    assert bands.shape == (n_fft // 2 + 1, n_bands)
    assert (bands >= 0).all()
    np.testing.assert_allclose(bands.sum(axis=0), 1.0)
    centres = np.fft.rfftfreq(n_fft, 1 / rate) @ bands
    assert (np.diff(centres) >= 0).all()


def test_a_tone_is_in_the_band_of_its_pitch():
    spectrum = Spectrum(SpectrumSettings(), 22050)
    edges = np.geomspace(500, 10000, 42)
    for band in (10, 20, 39):
        tone = np.sin(2 * np.pi * edges[band + 1] * np.arange(spectrum.window) / 22050)
        assert spectrum.levels(tone[np.newaxis]).argmax() == band


@pytest.mark.parametrize("rate", [8000, 22050, 96000])
def test_levels_are_those_of_full_scale_at_every_rate(rate, rng):
    spectrum = Spectrum(SpectrumSettings(), rate)
    power = 10 ** (spectrum.levels(0.1 * rng.normal(size=(2000, spectrum.window))) / 10)
    np.testing.assert_allclose(power.mean(axis=0), 0.01, rtol=0.15)


@pytest.mark.parametrize("rate", [8000, 22050, 48000])
@pytest.mark.parametrize("colour", [0.0, 0.9])
@pytest.mark.parametrize("level", [1e-3, 0.3])
def test_steady_noise_is_active_once_in_a_hundred_frames(rate, colour, level, rng):
    noise = level * lfilter([1.0], [1.0, -colour], rng.normal(size=20 * rate))
    assert 0.004 < (transformed(noise, rate).activity > 0).mean() < 0.03


@pytest.mark.parametrize("rate", [8000, 22050])
def test_noise_is_active_in_high_bands_as_in_low_ones(rate, rng):
    spectrum = Spectrum(SpectrumSettings(), rate)
    levels = spectrum.levels(rng.normal(size=(20_000, spectrum.window)))
    floors = np.quantile(levels, 0.1, axis=0)
    active = spectrum.rise(levels, floors) > spectrum.noise_db
    assert 0.005 < active.any(axis=1).mean() < 0.025
    assert active.mean(axis=0).max() < 0.004
    assert active[:, 20:].any(axis=1).mean() > 0.001  # one level for all bands would never be reached there


def test_low_bands_hold_few_bins_and_noise_rises_further_there():
    noise_db = Spectrum(SpectrumSettings(), 22050).noise_db
    assert noise_db.shape == (40,)
    assert noise_db[:5].min() > noise_db[-5:].max() + 3


def test_what_rises_above_the_noise_is_active(rng):
    noise = 0.001 * rng.normal(size=5 * 22050)
    noise[50_000:60_000] += 0.01 * np.sin(2 * np.pi * 3000 * np.arange(10_000) / 22050)
    found = transformed(noise)
    inside = slice(50_000 // 44 + 10, 60_000 // 44 - 10)
    assert (found.activity[inside] > 6).all()
    assert (found.activity[: 50_000 // 44 - 10] <= 0).mean() > 0.97
    assert found.features[inside].max() > 3 * found.features[:1000].max()


def test_louder_is_the_same_shape_only_larger(signal):
    plain, loud = transformed(signal), transformed(8 * signal)
    np.testing.assert_allclose(loud.features, 64**0.2 * plain.features, atol=1e-9)
    np.testing.assert_allclose(loud.activity, plain.activity, atol=1e-7)


def test_digital_silence_is_nothing():
    found = transformed(np.zeros(50_000))
    assert not found.features.any()
    assert (found.activity < -60).all()


def test_digital_silence_beside_noise_does_not_lift_the_noise(rng):
    noise = 0.01 * rng.normal(size=200_000)
    noise[:100_000] = 0.0
    found = transformed(noise)
    assert (found.activity[2300:] <= 0).mean() > 0.97
    assert (found.activity[:2250] < -50).all()
    assert not found.features[:2250].any()


def test_an_offset_is_outside_the_bands(signal):
    plain, offset = transformed(signal), transformed(signal + 0.2)
    inner = slice(10, -10)  # the edges of the recording are steps
    np.testing.assert_allclose(offset.features[inner], plain.features[inner], atol=2e-2)
    np.testing.assert_allclose(offset.activity[inner], plain.activity[inner], atol=1.0)


@pytest.mark.parametrize("rate", [1200, 8000, 11025, 44100, 250_000, 384_000])
def test_every_sample_rate(rate):
    spectrum = Spectrum(SpectrumSettings(), rate)
    assert spectrum.hop == round(0.002 * rate)
    assert spectrum.window == round(0.016 * rate)
    assert spectrum.noise_db.shape == (40,)
    assert (spectrum.noise_db > 2).all()
    assert (spectrum.noise_db < 25).all()
    t = np.arange(rate // 4) / rate
    found = streamed(spectrum, [0.1 * np.sin(2 * np.pi * 520 * t) * (t > 0.125)])
    assert found.features.shape == (-(-(rate // 4) // spectrum.hop), 40)
    assert found.features[: len(found) // 2 - 10].max() == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window_s": 0.0}, "window_s=0.0 must be a number of seconds, more than 0"),
        ({"window_s": np.nan}, "window_s=nan must be"),
        ({"hop_s": "short"}, "hop_s='short' must be"),
        ({"hop_s": 0.1}, "hop_s=0.1 is longer than window_s=0.016; give a shorter hop"),
        ({"low_hz": 0.0}, "low_hz=0.0 to high_hz=10000.0: give 0 < low_hz < high_hz"),
        ({"low_hz": 2000.0, "high_hz": 1000.0}, "give 0 < low_hz < high_hz"),
        ({"low_hz": np.nan}, "give 0 < low_hz"),
        ({"n_bands": 2}, "n_bands=2 must be a whole number, 3 or more"),
        ({"n_bands": 40.0}, "n_bands=40.0 must be a whole number"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        SpectrumSettings(**parameters)


def test_a_sample_rate_that_holds_none_of_the_bands_is_refused():
    with pytest.raises(
        InputError, match="low_hz=500: a sample rate of 1000 Hz holds no sound above 460 Hz; give a low"
    ):
        Spectrum(SpectrumSettings(), 1000)
