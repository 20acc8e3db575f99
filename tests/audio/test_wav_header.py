"""Recordings that hold less than they announce, and those that only seem to."""

import numpy as np
import pytest
import soundfile

from outlark.audio.wav_header import cut_short

RATE = 8000


def saved(path, **how):
    soundfile.write(path, np.zeros((RATE, 2)), RATE, **how)
    return path


@pytest.mark.parametrize(
    "how",
    [
        {"format": "WAV"},
        {"format": "WAV", "subtype": "FLOAT"},
        {"format": "WAVEX"},
        {"format": "RF64"},
        {"format": "WAV", "subtype": "MS_ADPCM"},
    ],
    ids=str,
)
def test_how_much_is_there_and_announced(tmp_path, how):
    path = saved(tmp_path / "a.wav", **how)
    assert cut_short(path) is None
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = cut_short(path)
    assert found.announced_s == pytest.approx(1.0, rel=0.02)
    assert found.there_s == pytest.approx(soundfile.info(path).duration, abs=0.07)  # ADPCM comes in blocks
    assert found.there_s == pytest.approx(0.5, abs=0.02)


def with_size(path, size):
    blob = path.read_bytes()
    at = blob.index(b"data") + 4
    path.write_bytes(blob[:at] + size.to_bytes(4, "little") + blob[at + 4 :])
    return path


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 4 * RATE + 3])
def test_sizes_that_promise_nothing(tmp_path, size):
    """Programs that write to a pipe do not know how much will follow; and a part of a sample is none."""
    assert cut_short(with_size(saved(tmp_path / "a.wav"), size)) is None


def test_chunks_before_and_after_the_sound(tmp_path):
    path = saved(tmp_path / "a.wav")
    blob = path.read_bytes()
    at = blob.index(b"data")
    path.write_bytes(blob[:at] + b"junk\x03\0\0\0abc\0" + blob[at:] + b"guan\x04\0\0\0a: b")
    assert cut_short(path) is None
    path.write_bytes(path.read_bytes()[: 12 + at + 2 * RATE])
    assert cut_short(path).announced_s == 1.0


@pytest.mark.parametrize("blob", [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WAVEdata\x09\0\0\0", b"\xff" * 200])
def test_what_is_no_recording_is_the_affair_of_whoever_reads_it(tmp_path, blob):
    (tmp_path / "a.wav").write_bytes(blob)
    assert cut_short(tmp_path / "a.wav") is None
    assert cut_short(tmp_path / "missing.wav") is None
    assert cut_short(tmp_path) is None
    assert cut_short(saved(tmp_path / "a.flac")) is None
