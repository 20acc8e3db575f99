"""Audio from arrays and real files: scale, channels, errors that say where, and resampling that no cut changes."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import resample_poly

from outlark.audio.recording import Recording, read
from outlark.audio.sound import Resampler, check_channel, check_sample_rate, mono, resample
from outlark.errors import AudioError, InputError, OutlarkError

# --- mono -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (np.int16, [-(2**15), 0, 1, 2**15 - 1], [-1, 0, 2**-15, 1 - 2**-15]),
        (">i2", [-(2**15), 0, 1, 2**15 - 1], [-1, 0, 2**-15, 1 - 2**-15]),
        (np.int32, [-(2**31), 0, 1 << 8, 2**31 - 1], [-1, 0, 2**-23, 1 - 2**-31]),
        (np.uint8, [0, 128, 129, 255], [-1, 0, 2**-7, 1 - 2**-7]),
        (np.float32, [-1.5, 0, 0.25, 1], [-1.5, 0, 0.25, 1]),
        (np.float64, [-1.5, 0, 0.1, 1], [-1.5, 0, 0.1, 1]),
        (">f8", [-1.5, 0, 0.1, 1], [-1.5, 0, 0.1, 1]),
        (np.float16, [-1.5, 0, 0.25, 1], [-1.5, 0, 0.25, 1]),
    ],
)
def test_every_type_comes_out_as_floats_of_full_scale_one(dtype, values, expected):
    given_array = np.array(values, dtype=dtype)
    before = given_array.copy()
    for channel in ("mix", 0):
        x = mono(given_array, channel)
        assert x.dtype == np.float64
        assert x.dtype.isnative
        np.testing.assert_array_equal(x, expected)
    two = np.stack([given_array, given_array[::-1]], axis=1)
    np.testing.assert_array_equal(mono(two), (np.array(expected) + np.array(expected[::-1])) / 2)
    np.testing.assert_array_equal(mono(two, 1), expected[::-1])
    np.testing.assert_array_equal(given_array, before)


@pytest.mark.parametrize("channels", [1, 2, 3, 8, 64, 65])
def test_mix_is_the_mean_and_a_number_is_that_channel(channels, rng):
    x = rng.normal(size=(200, channels))
    before = x.copy()
    np.testing.assert_allclose(mono(x), x.mean(axis=1), rtol=0, atol=1e-14)
    for k in range(channels):
        np.testing.assert_array_equal(mono(x, np.int64(k)), x[:, k])
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(mono(np.asfortranarray(x)), mono(x))
    rows = [mono(x[i : i + 100]) for i in (0, 100)]
    np.testing.assert_array_equal(np.concatenate(rows), mono(x))


def test_memory_is_shared_or_fresh_but_always_contiguous(rng):
    x = rng.normal(size=100)
    assert np.shares_memory(mono(x), x)
    assert mono(x[::2]).flags.c_contiguous
    assert mono(rng.normal(size=(50, 2)), 1).flags.c_contiguous
    x.flags.writeable = False
    np.testing.assert_array_equal(mono(x), x)


@pytest.mark.parametrize("empty", [[], np.empty(0), np.empty((0, 2)), np.empty(0, np.int16)])
def test_empty_is_allowed(empty):
    assert mono(empty).shape == (0,)
    assert mono(empty).dtype == np.float64


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (["a", "b"], "audio of type <U1: such values are not sound"),
        ([None, 1.0], "audio of type object: such values are not sound"),
        (np.zeros(3, bool), "audio of type bool: such values are not sound"),
        (np.zeros(3, complex), "audio of type complex128: such values are not sound"),
        ([1, 2, 3], "audio of type int64: such values have no agreed full scale; give floats"),
        (np.zeros(3, np.int8), "audio of type int8: such values have no agreed"),
        (np.zeros(3, np.uint16), "audio of type uint16: such values have no agreed"),
        ([[0.0], [0.0, 1.0]], "audio is not an array .*give numbers of shape"),
        (np.float64(1.0), r"audio has 0 dimensions, shape \(\)"),
        (np.zeros((4, 2, 1)), r"audio has 3 dimensions, shape \(4, 2, 1\)"),
        (np.zeros((4, 0)), r"shape \(4, 0\) has no channels"),
        (np.zeros((2, 65)), r"shape \(2, 65\) would be 2 samples of 65 channels.*give audio.T"),
        ([0.0, 1.0, np.nan, np.nan], "2 of 4 samples are NaN, .* the first is sample 2 .*; cut them out"),
        (np.array([0.0, -np.inf], np.float32), "1 of 2 samples are NaN, .* the first is sample 1"),
        ([[0.0, 0.0], [np.inf, -np.inf]], "1 of 2 samples are NaN, .* the first is sample 1"),
    ],
)
def test_what_is_no_audio(audio, message):
    with pytest.raises(InputError, match=message):
        mono(audio)


def test_few_rows_of_few_channels_are_no_mistake():
    assert mono(np.zeros((2, 64))).shape == (2,)


def test_nan_in_a_channel_that_is_not_used_does_no_harm():
    np.testing.assert_array_equal(mono([[np.nan, 0.5]], channel=1), [0.5])


@pytest.mark.parametrize("channel", [2, -1, "left", 1.0, True, np.True_, None])
def test_channels_that_do_not_exist(channel):
    with pytest.raises(
        InputError, match=r"channel=.*the audio has 2 channels; give 'mix' or a whole number from 0 to 1"
    ):
        mono(np.zeros((5, 2)), channel)
    with pytest.raises(InputError, match=r"the audio has 1 channel; .* from 0 to 0"):
        mono(np.zeros(5), 1)


def test_channel_numbers():
    assert check_channel("mix", 3) is None
    assert [check_channel(k, 3) for k in (0, 2, np.uint8(1))] == [0, 2, 1]


# --- sample rates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [100, 8000, 22050.0, np.int32(44100), np.float32(384000), 10_000_000])
def test_sample_rates(rate):
    checked = check_sample_rate(rate)
    assert checked == rate
    assert type(checked) is int


@pytest.mark.parametrize("rate", [0, -8000, 99, 10_000_001, 22050.5, np.nan, np.inf, "44100", None, True, 1j])
def test_sample_rates_that_are_refused(rate):
    with pytest.raises(InputError, match=r"sample_rate=.* must be a whole number .* from 100 to 10000000"):
        check_sample_rate(rate)


# --- files ----------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("rate", [8000, 384000])
@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize(("ending", "subtype", "step"), FORMATS)
def test_files_hold_what_was_written(tmp_path, ending, subtype, step, channels, rate):
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


def test_a_float_file_is_kept_to_the_bit_even_above_one(tmp_path, rng):
    x = 3 * rng.normal(size=1000)
    soundfile.write(tmp_path / "a.wav", x, 44100, subtype="DOUBLE")
    np.testing.assert_array_equal(read(tmp_path / "a.wav")[0], x)


@pytest.mark.parametrize(
    ("ending", "subtype"), [("wav", "PCM_16"), ("flac", "PCM_16"), ("ogg", "VORBIS"), ("ogg", "OPUS")]
)
def test_blocks_are_the_file_for_every_size_bit_for_bit(tmp_path, ending, subtype, rng):
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, rng.uniform(-0.5, 0.5, size=(150_000, 2)), 48000, subtype=subtype)
    whole, _ = read(path)
    audio = Recording(path)
    assert len(whole) == 150_000
    for size in (333, 1000, 65536, 70_000, 150_000, 10**6):
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


def test_trouble_is_told_with_its_time_from_a_sample_on_too(tmp_path):
    x = np.zeros(100_000)
    x[90_000] = np.nan
    soundfile.write(tmp_path / "a.wav", x, 8000, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"sample 90000, at 11\.250 s, is nan"):
        list(Recording(tmp_path / "a.wav").blocks(1000, first=50_000))


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_what_can_only_be_read_from_its_start(tmp_path, subtype):
    soundfile.write(tmp_path / "a.ogg", np.zeros(50_000), 48000, subtype=subtype)
    audio = Recording(tmp_path / "a.ogg")
    assert not audio.seekable
    with pytest.raises(AudioError, match=r"a.ogg can only be read from its start; convert it to WAV or FLAC"):
        audio.blocks(1000, first=1)


def test_two_readers_of_one_file_do_not_disturb_each_other(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.arange(200_000) / 2**18, 44100, subtype="DOUBLE")
    audio = Recording(tmp_path / "a.wav")
    pairs = list(zip(audio.blocks(30_000), audio.blocks(30_000), strict=True))
    assert len(pairs) == 7
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_lossy_files_are_close(tmp_path):
    x = sweep(44100, 1)[:, 0]
    soundfile.write(tmp_path / "a.ogg", x, 44100)
    samples, rate = read(tmp_path / "a.ogg")
    assert (len(samples), rate) == (44100, 44100)
    assert np.abs(samples - x).max() < 0.05


def test_a_file_with_no_samples_is_empty(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.empty(0), 44100)
    assert read(tmp_path / "a.wav")[0].shape == (0,)
    assert list(Recording(tmp_path / "a.wav").blocks(100)) == []


def test_blocks_of_one_sample(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([0.5, 0.25]), 44100)
    np.testing.assert_array_equal(list(Recording(tmp_path / "a.wav").blocks(1)), [[0.5], [0.25]])


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d / "none.wav", "none.wav does not exist; check the path"),
        (lambda d: written(d / "a.wav", b"x") / "b.wav", "b.wav does not exist; check the path"),
        (lambda d: d, "is a folder; give the path of one sound file"),
        (lambda d: written(d / "zero.wav", b""), r"zero.wav is empty \(0 bytes\)"),
        (
            lambda d: written(d / "text.wav", b"not a sound " * 50),
            "text.wav is a text file, not a sound file; give the recording",
        ),
        (
            lambda d: written(d / "m.outlark", (2).to_bytes(8, "little") + b"{}" + bytes(range(9))),
            "m.outlark is a model, not a recording; give sound files",
        ),
        (
            lambda d: written(d / "noise.wav", bytes(range(200))),
            "noise.wav cannot be decoded .*Format not recognised",
        ),
        (
            lambda d: written(d / "raw.raw", bytes(50)),
            "raw.raw cannot be decoded .*samplerate must be specified",
        ),
    ],
)
def test_what_cannot_be_opened(tmp_path, make, message):
    path = make(tmp_path)
    for reader in (Recording, read):
        with pytest.raises(AudioError, match=message) as caught:
            reader(path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, OutlarkError)
        assert isinstance(caught.value, ValueError)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path / "a.wav", b"RIFF")
    monkeypatch.setattr("outlark.audio.recording.opened", refuse)
    with pytest.raises(AudioError, match=r"a.wav cannot be opened \(Permission denied\); check that you may read it"):
        read(path)


def test_a_header_that_ends_early(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(100), 44100)
    path = written(tmp_path / "b.wav", (tmp_path / "a.wav").read_bytes()[:20])
    with pytest.raises(AudioError, match=r"b.wav cannot be decoded as a sound file .*convert it to WAV or FLAC"):
        Recording(path)


def test_channel_and_rate_of_a_file(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros((100, 2)), 44100)
    assert Recording(tmp_path / "a.wav", 1).sample_rate == 44100
    with pytest.raises(AudioError, match=r"a.wav: channel=2, but the audio has 2 channels"):
        Recording(tmp_path / "a.wav", 2)
    soundfile.write(tmp_path / "b.wav", np.zeros(100), 50)
    with pytest.raises(AudioError, match=r"b.wav: sample_rate=50 must be"):
        Recording(tmp_path / "b.wav")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30, -1e12])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_nan_in_a_file_is_told_with_its_time(tmp_path, bad, subtype):
    x = np.zeros((150_000, 2))
    x[132_300:132_310, 1] = bad  # in the third chunk
    soundfile.write(tmp_path / "a.wav", x, 44100, subtype=subtype)
    match = rf"a.wav: sample 132300, at 3.000 s, is {re.escape(f'{np.float32(bad):g}')}, .*; cut the file before"
    with pytest.raises(AudioError, match=match):
        read(tmp_path / "a.wav")
    assert len(read(tmp_path / "a.wav", channel=0)[0]) == 150_000


def test_a_wav_cut_short_gives_what_is_there(tmp_path, rng):
    soundfile.write(tmp_path / "a.wav", rng.uniform(-0.5, 0.5, 100_000), 44100)
    path = written(tmp_path / "b.wav", (tmp_path / "a.wav").read_bytes()[: 44 + 2 * 60_000])
    np.testing.assert_array_equal(read(path)[0], read(tmp_path / "a.wav")[0][:60_000])


def test_where_the_decoder_gives_up_is_told_after_what_came_before(tmp_path, rng):
    soundfile.write(tmp_path / "a.flac", rng.uniform(-0.5, 0.5, 300_000), 44100)
    content = (tmp_path / "a.flac").read_bytes()
    at = int(0.8 * len(content))
    path = written(tmp_path / "b.flac", content[:at] + bytes(20_000) + content[at + 20_000 :])
    match = rf"b.flac: decoding failed after {3 * 65536 / 44100:.3f} s \(.*lost sync.*\); the file is damaged there"
    with pytest.raises(AudioError, match=match):
        read(path)
    blocks = []
    with pytest.raises(AudioError, match=match):
        blocks.extend(Recording(path).blocks(50_000))
    assert [len(block) for block in blocks] == [50_000, 50_000, 50_000, 3 * 65536 - 150_000]
    np.testing.assert_array_equal(np.concatenate(blocks), read(tmp_path / "a.flac")[0][: 3 * 65536])


def test_trouble_at_once_gives_no_block(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([0.0, np.nan]), 44100, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"sample 1, at 0.000 s, is nan"):
        next(Recording(tmp_path / "a.wav").blocks(1))


# --- resampling -----------------------------------------------------------------------------------------------------

PAIRS = [
    (44100, 22050),
    (48000, 22050),
    (8000, 22050),
    (96000, 22050),
    (384000, 22050),
    (44056, 22050),
    (22050, 48000),
    (22050, 22050),
]
NOISE = np.random.default_rng(0).normal(size=200_000)


def streamed(blocks, rate_in, rate_out):
    resampler = Resampler(rate_in, rate_out)
    return np.concatenate([*(resampler.push(block) for block in blocks), resampler.finish()])


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from(PAIRS),
    n=st.integers(0, 30_000),
    cuts=st.lists(st.integers(0, 30_000), max_size=10),
)
def test_no_cut_changes_a_bit(pair, n, cuts):
    x = NOISE[:n]
    blocks = np.split(x, sorted(min(c, n) for c in cuts))
    np.testing.assert_array_equal(streamed(blocks, *pair), resample(x, *pair))


@pytest.mark.parametrize("pair", PAIRS)
def test_no_cut_changes_a_bit_of_a_long_recording(pair):
    whole = resample(NOISE, *pair)
    for size in (7, 4096, 65536, 65537, 150_000):
        np.testing.assert_array_equal(streamed([NOISE[i : i + size] for i in range(0, 200_000, size)], *pair), whole)
    np.testing.assert_array_equal(
        streamed(NOISE[:20_000].reshape(-1, 1), *pair), resample(NOISE[:20_000], *pair)
    )  # one by one


@given(
    n=st.integers(0, 3000),
    rate_in=st.sampled_from([100, 8000, 22050, 32000, 44100, 96000, 384000]),
    rate_out=st.sampled_from([100, 8000, 22050, 22051, 44100]),
)
@settings(deadline=None)
def test_length_is_rounded_with_halves_up(n, rate_in, rate_out):
    assert len(resample(np.ones(n), rate_in, rate_out)) == int(np.floor(n * rate_out / rate_in + 0.5))


@pytest.mark.parametrize(("rate_in", "n"), [(48000, 480), (48000, 1120), (96000, 6080), (384000, 3840)])
def test_halves_go_up_where_soxr_alone_goes_both_ways(rate_in, n):
    y = resample(np.ones(n), rate_in, 22050)
    assert n * 22050 % rate_in == rate_in // 2
    assert len(y) == n * 22050 // rate_in + 1
    assert y[-1] > 0.3  # at the edge of the recording; no zero put behind


@pytest.mark.parametrize("rate_in", [8000, 16000, 22050, 32000, 44056, 44100, 48000, 96000, 192000, 250000, 384000])
def test_a_sine_stays_where_it_is(rate_in):
    def sine(rate):
        t = np.arange(rate) / rate
        return np.sin(2 * np.pi * 1234.5 * t) * np.exp(-(((t - 0.5) / 0.1) ** 2))

    y = resample(sine(rate_in), rate_in, 22050)
    assert len(y) == 22050
    np.testing.assert_allclose(y, sine(22050), rtol=0, atol=2e-5)


@pytest.mark.parametrize(("rate_in", "rate_out"), [(44100, 22050), (22050, 44100), (48000, 16000), (16000, 48000)])
def test_a_click_stays_where_it_is(rate_in, rate_out):
    x = np.zeros(rate_in)
    x[12_000] = 1.0
    y, expected = resample(x, rate_in, rate_out), resample_poly(x, rate_out, rate_in)
    at = 12_000 * rate_out // rate_in
    assert np.abs(y).argmax() == np.abs(expected).argmax() == at
    np.testing.assert_allclose(y[at - 200 : at], y[at + 200 : at : -1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(y.sum(), rate_out / rate_in, rtol=1e-4)


def test_what_the_new_rate_cannot_hold_is_gone():
    t = np.arange(48000) / 48000
    assert np.abs(resample(np.sin(2 * np.pi * 13_000 * t), 48000, 22050)[2000:-2000]).max() < 1e-5


def test_it_is_soxr_up_to_the_end():
    for pair in PAIRS[:-1]:
        y, expected = resample(NOISE, *pair), soxr.resample(NOISE, *pair, quality="HQ")
        assert abs(len(y) - len(expected)) <= 1
        n = min(len(y), len(expected))
        np.testing.assert_allclose(y[:n], expected[:n], rtol=0, atol=1e-12)


#: Ratios that soxr takes exactly; with others it drifts by some 1e-4 of a sample in two minutes.
LONG_PAIRS = [(2205, 1000), (1000, 2205), (300, 200)]


@pytest.mark.parametrize("pair", LONG_PAIRS)
def test_minutes_follow_each_other_without_a_seam(pair, rng):
    """soxr in one go is the oracle; it rounds as single precision does."""
    x = rng.uniform(-1.0, 1.0, size=round(130.5 * pair[0]))
    y, expected = resample(x, *pair), soxr.resample(x, *pair, quality="HQ")
    n = min(len(y), len(expected))
    assert abs(len(y) - len(expected)) <= 1
    np.testing.assert_allclose(y[:n], expected[:n], rtol=0, atol=2e-6)
    for size in (997, 70_001):
        np.testing.assert_array_equal(streamed([x[i : i + size] for i in range(0, len(x), size)], *pair), y)


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from([*LONG_PAIRS, (4406, 2205), (1000, 1000)]),
    first_s=st.one_of(st.floats(0.0, 130.0), st.sampled_from([59.0, 60.0, 61.0, 120.0])),
    length_s=st.one_of(st.floats(0.0, 131.0), st.sampled_from([59.0, 59.999, 60.0, 60.001, 61.0, 120.0])),
    size=st.integers(500, 100_000),
)
def test_a_recording_from_its_middle_on_is_the_same_to_the_bit(pair, first_s, length_s, size):
    x = np.resize(NOISE, round(length_s * pair[0]))
    whole, first = resample(x, *pair), round(first_s * pair[1])
    resampler = Resampler(*pair, first=first)
    x = x[resampler.first_in :]
    assert len(x) <= max(0.0, length_s - first_s + 60.0 + 6.0) * pair[0] + 1
    found = [resampler.push(x[i : i + size]) for i in range(0, len(x), size)]
    np.testing.assert_array_equal(np.concatenate([*found, resampler.finish()]), whole[first:])


def test_equal_rates_pass_through():
    np.testing.assert_array_equal(resample(NOISE, 22050, 22050.0), NOISE)


@pytest.mark.parametrize("pair", [(100, 10_000_000), (10_000_000, 100), (10_000_000, 9_999_999)])
def test_extreme_rates(pair):
    assert len(resample(np.ones(5), *pair)) == round(5 * pair[1] / pair[0])


def test_blocks_are_checked_and_scaled_as_by_mono():
    np.testing.assert_array_equal(
        resample(np.full(500, 2**14, np.int16), 44100, 22050), resample(np.full(500, 0.5), 44100, 22050)
    )
    for pair in ((44100, 22050), (22050, 22050)):
        with pytest.raises(InputError, match="the first is sample 3"):
            Resampler(*pair).push([0.0, 0.0, 0.0, np.nan])
    with pytest.raises(InputError, match="sample_rate=0"):
        Resampler(44100, 0)
    with pytest.raises(InputError, match="sample_rate=5"):
        Resampler(5, 22050)


@pytest.mark.parametrize("pair", [(44100, 22050), (22050, 22050)])
def test_what_is_over_is_over(pair):
    resampler = Resampler(*pair)
    assert resampler.finish().shape == (0,)
    with pytest.raises(InputError, match="finished; make a new Resampler"):
        resampler.push([0.0])
    with pytest.raises(InputError, match="finished; make a new Resampler"):
        resampler.finish()


def test_a_stream_gives_what_is_ready_soon():
    resampler, late = Resampler(44100, 22050), []
    for i in range(100):
        resampler.push(NOISE[i * 1000 : (i + 1) * 1000])
        late.append((i + 1) * 500 - resampler._n_out)
    assert max(late) < 1500


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of the process from /proc")
def test_memory_does_not_grow():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    resampler = Resampler(48000, 22050)
    for _ in range(10):
        resampler.push(NOISE)
    before = resident()
    for _ in range(100):  # 160 MB in
        resampler.push(NOISE)
    assert resident() - before < 20e6
