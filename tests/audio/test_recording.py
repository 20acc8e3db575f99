"""Recordings: samples and channels of real files, errors that say where, and whether there is anything to hear."""

from itertools import pairwise

import numpy as np
import pytest
import soundfile

from outlark.audio.facts import Quality
from outlark.audio.recording import Recording, read
from outlark.audio.sound import mono
from outlark.errors import AudioError

RATE = 8000
FORMATS = [
    ("wav", "PCM_16", 2**-15),
    ("wav", "PCM_U8", 2**-7),
    ("wav", "PCM_24", 2**-23),
    ("wav", "PCM_32", 2**-31),
    ("wav", "FLOAT", 2**-24),
    ("wav", "DOUBLE", 0.0),
    ("flac", "PCM_16", 2**-15),
    ("flac", "PCM_24", 2**-23),
    ("aiff", "PCM_16", 2**-15),
]


def sweep(n, channels):
    """Smooth, and another phase in each channel."""
    return 0.5 * np.sin(np.linspace(0, 300, n)[:, None] + np.arange(channels))


@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize(("ending", "subtype", "step"), FORMATS)
def test_files_hold_what_was_written(tmp_path, ending, subtype, step, channels):
    rate = 384000
    path = tmp_path / f"Pájaro 鳥.{ending}"
    x = sweep(3000, channels)
    soundfile.write(path, x, rate, subtype=subtype)
    samples, found = read(str(path))
    assert found == rate
    assert samples.dtype == np.float64
    np.testing.assert_allclose(samples, x.mean(axis=1), rtol=0, atol=step + 1e-15)
    np.testing.assert_allclose(read(path, channels - 1)[0], x[:, -1], rtol=0, atol=step)
    assert Recording(path).channels == channels


@pytest.mark.parametrize(("dtype", "subtype"), [("int16", "PCM_16"), ("int32", "PCM_24"), ("int32", "PCM_32")])
def test_an_array_of_integers_is_the_file_to_the_bit(tmp_path, dtype, subtype):
    path = tmp_path / "a.wav"
    soundfile.write(path, sweep(3000, 2), 44100, subtype=subtype)
    np.testing.assert_array_equal(mono(soundfile.read(path, dtype=dtype)[0]), read(path)[0])


@pytest.mark.parametrize(
    ("ending", "subtype"), [("wav", "PCM_16"), ("flac", "PCM_16"), ("ogg", "VORBIS"), ("ogg", "OPUS")]
)
def test_blocks_are_the_file_for_every_size_bit_for_bit(tmp_path, ending, subtype, rng):
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, rng.uniform(-0.5, 0.5, size=(150_000, 2)), 48000, subtype=subtype)
    whole, _ = read(path)
    audio = Recording(path)
    assert len(whole) == 150_000
    for size in (1000, 65536, 70_000, 10**6):
        for _ in range(2):  # every call starts again
            blocks = list(audio.blocks(size))
            assert {len(block) for block in blocks[:-1]} <= {size}
            assert 0 < len(blocks[-1]) <= size
            np.testing.assert_array_equal(np.concatenate(blocks), whole)


@pytest.mark.parametrize(
    ("ending", "subtype"),
    [("wav", "PCM_16"), ("wav", "FLOAT"), ("flac", "PCM_24"), ("aiff", "PCM_16"), ("wav", "ULAW")],
)
def test_from_a_sample_on(tmp_path, ending, subtype, rng):
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, rng.uniform(-0.5, 0.5, size=(150_000, 2)), 48000, subtype=subtype)
    audio, whole = Recording(path), read(path)[0]
    assert (audio.seekable, audio.n_samples) == (True, 150_000)
    for first in (0, 1, 70_001, 149_999, 150_000, 200_000):
        found = np.concatenate([np.empty(0), *audio.blocks(33_333, first=first)])
        np.testing.assert_array_equal(found, whole[first:])


def test_two_readers_of_one_file_do_not_disturb_each_other(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.arange(200_000) / 2**18, 44100, subtype="DOUBLE")
    audio = Recording(tmp_path / "a.wav")
    pairs = list(zip(audio.blocks(30_000), audio.blocks(30_000), strict=True))
    assert len(pairs) == 7
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_lossy_files_are_close_and_read_from_their_start(tmp_path):
    x = sweep(44100, 1)[:, 0]
    soundfile.write(tmp_path / "a.ogg", x, 44100)
    samples, rate = read(tmp_path / "a.ogg")
    assert (len(samples), rate) == (44100, 44100)
    assert np.abs(samples - x).max() < 0.05
    assert not Recording(tmp_path / "a.ogg").seekable
    with pytest.raises(AudioError, match=r"a.ogg can only be read from its start; convert it to WAV or FLAC"):
        Recording(tmp_path / "a.ogg").blocks(1000, first=1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e12])
def test_what_is_no_sound_is_told_with_its_time_after_what_came_before(tmp_path, bad):
    x = np.zeros((150_000, 2))
    x[132_300:132_310, 1] = bad  # in the third chunk
    soundfile.write(tmp_path / "a.wav", x, 44100, subtype="FLOAT")
    audio, blocks = Recording(tmp_path / "a.wav"), []
    told = rf"a.wav: sample 132300, at 3.000 s, is {np.float32(bad):g}, .*; cut the file before".replace("+", r"\+")
    for first in (0, 10_000):
        with pytest.raises(AudioError, match=told):
            blocks += audio.blocks(50_000, first=first)
    assert [len(block) for block in blocks] == [50_000, 50_000, 31_072, 50_000, 15_536]  # whole chunks
    with pytest.raises(AudioError, match=told):
        audio.part(132_000, 133_000)
    assert len(read(tmp_path / "a.wav", channel=0)[0]) == 150_000


def test_where_the_decoder_gives_up_is_told_after_what_came_before(tmp_path, rng):
    soundfile.write(tmp_path / "a.flac", rng.uniform(-0.5, 0.5, 300_000), 44100)
    content = (tmp_path / "a.flac").read_bytes()
    at = int(0.8 * len(content))
    path = tmp_path / "b.flac"
    path.write_bytes(content[:at] + bytes(20_000) + content[at + 20_000 :])
    match = rf"b.flac: decoding failed after {3 * 65536 / 44100:.3f} s \(.*lost sync.*\); the file is damaged there"
    blocks = []
    with pytest.raises(AudioError, match=match):
        blocks.extend(Recording(path).blocks(50_000))
    assert [len(block) for block in blocks] == [50_000, 50_000, 50_000, 3 * 65536 - 150_000]
    np.testing.assert_array_equal(np.concatenate(blocks), read(tmp_path / "a.flac")[0][: 3 * 65536])


# --- quality --------------------------------------------------------------------------------------------------------


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
    dead = np.column_stack([left, np.zeros(RATE)])
    assert [judged(tmp_path / "a.wav", dead, channel).is_spoilt for channel in ("mix", 0, 1)] == [False, False, True]


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
