"""What is said of recordings in which there is little to hear."""

from itertools import pairwise

import numpy as np
import pytest
import soundfile

from outlark.audio.recording import Quality, Recording

RATE = 8000


def sound(n, seed=0):
    return 0.1 * np.random.default_rng(seed).normal(size=n)


def judged(path, samples, channel="mix", **how):
    soundfile.write(path, samples, RATE, **how)
    audio = Recording(path, channel)
    quality = Quality(audio)
    for _ in audio.blocks(1000, heard=quality.push):
        pass
    return quality


def test_what_sounds_is_fine(tmp_path):
    for samples in (sound(RATE), np.column_stack([sound(RATE), sound(RATE, 1)]), np.column_stack([sound(RATE)] * 2)):
        quality = judged(tmp_path / "a.wav", samples)
        assert (quality.remarks, quality.is_spoilt) == ((), False)
        assert quality.shares["cancelling"] == 0.0


@pytest.mark.parametrize(("share", "told", "spoilt"), [(0.04, False, False), (0.25, True, False), (0.6, True, True)])
def test_digital_silence_and_clipping(tmp_path, share, told, spoilt):
    for value, name in ((0.0, "silent"), (3.0, "clipped")):
        samples = sound(10 * RATE) + 0.001
        samples[: round(10 * share * RATE)] *= value and 1000.0
        quality = judged(tmp_path / "a.wav", np.clip(samples, -1, 1), subtype="PCM_16")
        assert quality.shares[name] == pytest.approx(share, abs=0.001)
        assert (len(quality.remarks), quality.is_spoilt) == (told, spoilt)


def test_channels_that_cancel_do_so_only_if_they_are_mixed(tmp_path):
    left = sound(RATE)
    inverted = np.column_stack([left, -left + 0.001 * sound(RATE, 1)])
    mixed = judged(tmp_path / "a.wav", inverted)
    assert "--channel 1" in mixed.remarks[0]
    assert mixed.is_spoilt
    assert judged(tmp_path / "a.wav", inverted, channel=1).remarks == ()


def test_a_dead_channel_matters_only_if_it_is_analysed(tmp_path):
    samples = np.column_stack([sound(RATE), np.zeros(RATE)])
    assert [judged(tmp_path / "a.wav", samples, channel).is_spoilt for channel in ("mix", 0, 1)] == [False, False, True]


def test_floats_beyond_one_are_not_clipped(tmp_path):
    loud = 30.0 * sound(RATE)
    assert judged(tmp_path / "a.wav", loud, subtype="FLOAT").shares["at_full_scale"] == 0.0
    assert judged(tmp_path / "a.wav", np.clip(loud, -1, 1), subtype="FLOAT").is_spoilt


@pytest.mark.parametrize("channels", [1, 2])
def test_parts_count_what_the_whole_counts(tmp_path, channels):
    samples = np.clip(8.0 * np.column_stack([sound(3 * RATE + 17, seed) for seed in range(channels)]), -1, 1)
    samples[5000:9000] = 0.0
    whole = judged(tmp_path / "a.wav", samples)
    audio, parts = Recording(tmp_path / "a.wav"), []
    edges = [0, 777, 9001, 16000, 10**9]
    for start, end in pairwise(edges):
        position = max(0, start - 1234)
        part = Quality(audio, part=(start, end), position=position)
        for block in audio.decoded(first=position, size=700):
            part.push(block)
        parts.append(part.counts)
    assert np.array_equal(Quality.of_parts(audio, parts).counts, whole.counts)
    assert whole.counts[0] == len(samples)
