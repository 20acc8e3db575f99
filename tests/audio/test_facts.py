"""Where recordings end, whatever their sample rate says."""

import itertools

import numpy as np
import pytest

from outlark.audio.facts import Bandwidth, remark_on_bandwidth
from outlark.audio.sound import resample

RATE = 44100


def ends(samples, rate=RATE, cut=2**17):
    bandwidth = Bandwidth(rate)
    for at in range(0, len(samples), cut):
        bandwidth.push(samples[at : at + cut])
    return bandwidth.ends_hz()


def rounded(samples, rng, dither=0.0):
    """As 16 bits hold it."""
    shaken = samples * 2**15 + dither * (rng.uniform(-0.5, 0.5, len(samples)) + rng.uniform(-0.5, 0.5, len(samples)))
    return np.round(shaken) / 2**15


@pytest.mark.parametrize("dither", [0.0, 1.0])
@pytest.mark.parametrize(("original", "level"), [(8000, 0.02), (8000, 3e-4), (22050, 0.02)])
def test_a_recording_that_was_resampled_upwards(rng, original, level, dither):
    samples = resample(level * rng.normal(size=5 * original), original, RATE)
    assert ends(rounded(samples, rng, dither)) == pytest.approx(original / 2, rel=0.1)
    assert ends(samples) == pytest.approx(original / 2, rel=0.1)


def test_recordings_that_hold_sound_as_high_as_they_can_or_fade_away(rng):
    white = 1e-3 * rng.normal(size=3 * RATE)
    assert ends(rounded(white, rng)) is None
    spectrum = np.fft.rfft(white)
    pitch = np.maximum(np.fft.rfftfreq(len(white), 1 / RATE), 100.0)
    assert ends(rounded(np.fft.irfft(spectrum * (100.0 / pitch), len(white)), rng)) is None  # as wind does
    assert ends(np.zeros(RATE)) is None
    assert ends(np.empty(0)) is None
    assert ends(rounded(1e-6 * white, rng, 1.0)) is None  # nothing but rounding


def test_silence_before_and_after_does_not_count(rng):
    samples = rounded(resample(0.02 * rng.normal(size=8000), 8000, RATE), rng)
    assert ends(np.pad(samples, 5 * RATE)) == ends(samples)


@pytest.mark.parametrize("cut", [1, 777, 1024, 10**9])
def test_blocks_do_not_matter(rng, cut):
    samples = resample(0.02 * rng.normal(size=500 if cut == 1 else 90_000), 8000, RATE)
    assert ends(samples, cut=cut) == ends(samples, cut=5000)


def test_long_recordings_take_no_more_memory(rng):
    bandwidth = Bandwidth(RATE)
    for _ in range(300):
        bandwidth.push(rng.normal(size=2**14))
    assert len(bandwidth._taken) < 256


@pytest.mark.parametrize("n_samples", [0, 1000, 255 * 1024, 256 * 1024 - 1, 256 * 1024, 511 * 1024, 10**6])
def test_parts_together_are_the_whole(rng, n_samples):
    samples = rng.normal(size=n_samples)
    samples[5000:90_000] = 0.0
    whole = Bandwidth(RATE)
    whole.push(samples)
    edges, parts = [0, 1, 300_000, 400_000, n_samples + 1], []
    for first, stop in itertools.pairwise(edges):
        position = max(0, first - 7777)
        parts.append(Bandwidth(RATE, n_samples, part=(first, stop), position=position))
        for at in range(position, min(n_samples, stop + 5000), 3001):
            parts[-1].push(samples[at : at + 3001])
    together = Bandwidth.of_spectra(RATE, [part.spectra for part in parts])
    np.testing.assert_array_equal(together.spectra, whole.spectra)
    assert len(whole.spectra) >= min(128, n_samples // 1024)


def test_what_is_said():
    assert remark_on_bandwidth(44100, None, 17000.0) is None
    assert remark_on_bandwidth(44100, 16000.0, 17000.0) is None  # nearly
    assert "ends at 4000 Hz (sample rate 8000 Hz), but the model uses sound up to 17000 Hz" in remark_on_bandwidth(
        8000, None, 17000.0
    )
    assert "holds no sound above 3990 Hz (resampled from a lower rate, or compressed), but the model" in (
        remark_on_bandwidth(44100, 3990.0, 17000.0)
    )
