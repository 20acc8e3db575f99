"""WAV files that hold less than they announce, or more, and those that only seem to."""

import io

import numpy as np
import pytest
import soundfile

from outlark.audio.contents import contents
from outlark.audio.recording import Recording, read

RATE = 8000


def found(path):
    with path.open("rb") as file:
        return contents(file)


def saved(path, **how):
    soundfile.write(path, np.zeros((RATE, 2)), RATE, **how)
    return path


KINDS = [
    {"format": "WAV"},
    {"format": "WAV", "subtype": "FLOAT"},
    {"format": "WAVEX"},
    {"format": "RF64"},
    {"format": "WAV", "subtype": "MS_ADPCM"},
]


@pytest.mark.parametrize("how", KINDS, ids=str)
def test_how_much_is_there_and_announced(tmp_path, how):
    path = saved(tmp_path / "a.wav", **how)
    assert found(path) == ((), None)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "announces 1.0" in found(path).partial
    assert found(path).streams == ()
    assert len(read(path)[0]) == pytest.approx(RATE / 2, rel=0.2)


def with_size(path, size, of_file=None):
    """With another size of the sound, and of the whole if it is given."""
    blob = path.read_bytes()
    at = blob.index(b"data") + 4
    blob = blob[:at] + size.to_bytes(4, "little") + blob[at + 4 :]
    if of_file is not None:
        blob = blob[:4] + of_file.to_bytes(4, "little") + blob[8:]
    path.write_bytes(blob)
    return path


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 4 * RATE + 3])
def test_sizes_that_promise_nothing(tmp_path, size):
    """Programs that write to a pipe do not know how much will follow; and a part of a sample is none."""
    assert found(with_size(saved(tmp_path / "a.wav"), size)) == ((), None)


def test_chunks_before_and_after_the_sound(tmp_path):
    path = saved(tmp_path / "a.wav")
    blob = path.read_bytes()
    at = blob.index(b"data")
    path.write_bytes(blob[:at] + b"junk\x03\0\0\0abc\0" + blob[at:] + b"guan\x04\0\0\0a: b")
    assert found(path) == ((), None)
    path.write_bytes(path.read_bytes()[: 12 + at + 2 * RATE])
    assert "announces 1.000 s" in found(path).partial


@pytest.mark.parametrize("blob", [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WAVEdata\x09\0\0\0", b"\xff" * 200])
def test_what_is_no_recording_is_the_affair_of_the_decoder(blob):
    assert contents(io.BytesIO(blob)) == ((), None)


# ------------------------------------------------ headers that were never finished


def noise(n, channels=2):
    return np.random.default_rng(0).uniform(-0.5, 0.5, (n, channels))


@pytest.mark.parametrize(("size", "of_file"), [(0, 0), (0, 8), (0, 36), (0, None), (400, 436), (400, None)])
@pytest.mark.parametrize("how", [{}, {"subtype": "PCM_24"}, {"subtype": "FLOAT"}, {"format": "WAVEX"}], ids=str)
def test_all_sound_is_read_whatever_the_header_says(tmp_path, how, size, of_file):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(RATE), RATE, **{"format": "WAV", **how})
    whole = read(path)[0]
    with_size(path, size, of_file)
    audio = Recording(path)
    assert audio.n_samples == RATE
    assert np.array_equal(read(path)[0], whole)
    assert np.array_equal(np.concatenate(list(audio.blocks(1000, first=3000))), whole[3000:])
    assert "never finished" in audio.partial
    assert "1.000 s of sound follow" in audio.partial


def test_a_large_unfinished_header_is_read_as_rf64(tmp_path, monkeypatch):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(RATE), RATE)
    whole = read(path)[0]
    monkeypatch.setattr("outlark.audio.contents.LARGEST_RIFF", 1000)
    assert np.array_equal(read(with_size(path, 0, 0))[0], whole)


def test_an_rf64_whose_size_was_never_written(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(RATE), RATE, format="RF64", subtype="PCM_16")
    whole, blob = read(path)[0], path.read_bytes()
    at = blob.index(b"ds64") + 8
    path.write_bytes(blob[:at] + bytes(24) + blob[at + 24 :])
    assert np.array_equal(read(path)[0], whole)
    assert "never finished" in Recording(path).partial


def test_bytes_that_make_no_sample_are_left(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(RATE), RATE)
    path.write_bytes(path.read_bytes() + b"\1\2\3")
    assert Recording(with_size(path, 0, 0)).n_samples == RATE


@pytest.mark.parametrize("after", [bytes(1000), b"TAG" + b"x" * 125, b"LIST\xff\0\0\0INFO", b"abcd\x02\0\0\0xy"])
def test_padding_and_tags_after_the_sound_are_not_sound(tmp_path, after):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(RATE), RATE)
    path.write_bytes(path.read_bytes() + after)
    assert (Recording(path).n_samples, Recording(path).partial) == (RATE, None)


def test_a_header_alone_holds_no_sound(tmp_path):
    path = with_size(saved(tmp_path / "a.wav"), 0, 36)
    path.write_bytes(path.read_bytes()[:44])
    assert (Recording(path).n_samples, Recording(path).partial) == (0, None)
