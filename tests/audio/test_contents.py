"""Recordings that were joined or cut, or whose header was never finished: what decoders stay silent about."""

import io
import re

import numpy as np
import pytest
import soundfile

from outlark.audio import compressed
from outlark.audio.header import contents
from outlark.audio.recording import PartReader, Recording, read

RATE = 16000
KINDS = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "opus": "OGG", "mp3": "MP3"}


def saved(path, seconds, seed, channels=1, rate=RATE):
    how = {"subtype": "OPUS"} if path.suffix == ".opus" else {}
    sound = np.random.default_rng(seed).uniform(-0.3, 0.3, (round(seconds * rate), channels))
    soundfile.write(path, sound, rate, format=KINDS[path.suffix[1:]], **how)
    return path.read_bytes()


def joined(folder, kind, lengths=(2.0, 1.5)):
    """A file of joined recordings, and the samples of each alone."""
    paths = [folder / f"{number}.{kind}" for number in range(len(lengths))]
    blobs = [saved(path, seconds, seed) for seed, (path, seconds) in enumerate(zip(paths, lengths, strict=True))]
    path = folder / f"joined.{kind}"
    path.write_bytes(b"".join(blobs))
    return path, [read(one)[0] for one in paths]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [(1.0, 1.0, 1.0), (0.5, 3.0)], ids=str)
def test_joined_recordings_are_read_one_after_another(tmp_path, kind, lengths):
    path, each = joined(tmp_path, kind, lengths)
    whole, audio = np.concatenate(each), Recording(path)
    assert audio.n_samples == len(whole)
    assert np.array_equal(read(path)[0], whole)
    assert audio.remarks[0].startswith(f"joined from {len(lengths)} recordings")
    assert audio.partial is None


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_reads_sees_the_same_samples(tmp_path, kind):
    path, each = joined(tmp_path, kind)
    whole, (start, end) = np.concatenate(each), (len(each[0]) - 3000, len(each[0]) + 2000)
    assert np.array_equal(Recording(path).part(start, end), whole[start:end])
    assert Recording(path).n_samples == len(whole)
    reader = PartReader(Recording(path))
    for first, stop in ((100, 300), (start, end), (end - 10, end + 100)):
        assert np.array_equal(reader.part(first, stop)[:, 0], whole[first:stop])
    audio = Recording(path)
    if audio.seekable:
        for first in (0, start, len(each[0]), end):
            assert np.array_equal(np.concatenate(list(audio.blocks(1000, first=first))), whole[first:])


def test_a_header_alone_before_a_recording_shifts_nothing(tmp_path):
    second = saved(tmp_path / "a.wav", 1.0, 0)
    (tmp_path / "b.wav").write_bytes(second[:4] + (36).to_bytes(4, "little") + second[8:40] + bytes(4) + second)
    audio, whole = Recording(tmp_path / "b.wav"), read(tmp_path / "a.wav")[0]
    assert np.array_equal(np.concatenate(list(audio.blocks(1000, first=5000))), whole[5000:])


@pytest.mark.parametrize(("kind", "channels", "rate"), [("flac", 2, RATE), ("ogg", 1, 8000), ("wav", 1, 8000)])
def test_what_cannot_be_joined_is_told(tmp_path, kind, channels, rate):
    first = saved(tmp_path / f"a.{kind}", 1.0, 0)
    (tmp_path / f"b.{kind}").write_bytes(first + saved(tmp_path / f"c.{kind}", 1.0, 1, channels, rate))
    audio = Recording(tmp_path / f"b.{kind}")
    assert audio.n_samples == RATE
    assert re.search(rf"after 1.000 s was not read \({rate} Hz, {channels} channels\)", audio.partial)
    assert np.array_equal(read(tmp_path / f"b.{kind}")[0], read(tmp_path / f"a.{kind}")[0])


@pytest.mark.parametrize("kind", ["flac", "ogg", "opus", "mp3"])
def test_what_was_cut_is_told_and_read_as_far_as_it_goes(tmp_path, kind):
    blob = saved(tmp_path / f"a.{kind}", 8.0, 0)
    (tmp_path / f"b.{kind}").write_bytes(blob[: len(blob) // 2])
    whole, rest = read(tmp_path / f"a.{kind}")[0], read(tmp_path / f"b.{kind}")[0]
    assert Recording(tmp_path / f"b.{kind}").partial.startswith("cut short")
    assert 2.0 < len(rest) / RATE < 5.0
    assert np.array_equal(rest[: 2 * RATE], whole[: 2 * RATE])


@pytest.mark.parametrize("kind", KINDS)
def test_complete_recordings_are_left_to_the_decoder(tmp_path, kind):
    blob = saved(tmp_path / f"a.{kind}", 2.0, 0)
    assert contents(io.BytesIO(blob)) == ((), None)
    assert contents(io.BytesIO(blob + bytes(200))) == ((), None)  # padding


# ------------------------------------------------------------------------- MP3


def frames_of(blob):
    """The first frame, which counts the others, and the rest."""
    size = compressed.mp3_frame_length(blob[:4])
    assert b"Xing" in blob[:size] or b"Info" in blob[:size]
    return blob[:size], blob[size:]


def test_all_frames_are_read_where_no_header_counts_them(tmp_path):
    """The decoder guesses their number from the size of the file, and stops there."""
    path = tmp_path / "a.mp3"
    _, sound = frames_of(saved(path, 4.0, 0))
    path.write_bytes(sound)
    assert len(read(path)[0]) >= 4.0 * RATE
    path.write_bytes(sound + sound)
    assert len(read(path)[0]) >= 8.0 * RATE


def test_junk_and_tags_between_frames_are_passed_over(tmp_path):
    tag = b"ID3\x04\0\0" + bytes([0, 0, 1, 0]) + b"\xff\xfb" * 64
    first, second = (saved(tmp_path / f"{seed}.mp3", 1.0, seed) for seed in range(2))
    for between in (tag, b"junk" * 20, bytes(3000)):
        (tmp_path / "b.mp3").write_bytes(tag + first + between + second)
        audio = Recording(tmp_path / "b.mp3")
        assert (audio.n_samples, len(audio.remarks)) == (2 * RATE, 1)


# ------------------------------------------------------------------------ FLAC


def test_only_part_of_a_large_file_is_searched(tmp_path, monkeypatch):
    """By the numbers of its frames; recordings of the same length are told apart as well."""
    path, each = joined(tmp_path, "flac", (6.0, 6.0))
    monkeypatch.setattr(compressed, "FLAC_SMALL", 0)
    monkeypatch.setattr(compressed, "FLAC_SEEN", 2**15)
    monkeypatch.setattr(compressed, "FLAC_PLACES", 4)
    searched = []
    places = compressed._places
    monkeypatch.setattr(compressed, "_places", lambda *of: searched.append(of) or places(*of))
    assert Recording(tmp_path / "0.flac").remarks == ()
    assert searched == []
    assert np.array_equal(read(path)[0], np.concatenate(each))


def test_flac_to_a_pipe_states_no_length():
    file = io.BytesIO()
    soundfile.write(file, np.zeros(RATE), RATE, format="FLAC")
    blob = bytearray(file.getvalue())
    blob[21:26] = bytes([blob[21] & 0xF0]) + bytes(4)
    assert contents(io.BytesIO(bytes(blob))) == ((), None)


# ------------------------------------------------------------------------- WAV


def found(path):
    with path.open("rb") as file:
        return contents(file)


def silent(path, **how):
    soundfile.write(path, np.zeros((RATE, 2)), RATE, **how)
    return path


WAV_KINDS = [
    {"format": "WAV"},
    {"format": "WAV", "subtype": "FLOAT"},
    {"format": "WAVEX"},
    {"format": "RF64"},
    {"format": "WAV", "subtype": "MS_ADPCM"},
]


@pytest.mark.parametrize("how", WAV_KINDS, ids=str)
def test_how_much_is_there_and_announced(tmp_path, how):
    path = silent(tmp_path / "a.wav", **how)
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
    assert found(with_size(silent(tmp_path / "a.wav"), size)) == ((), None)


@pytest.mark.parametrize("blob", [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"\xff" * 200, b"OggS" + bytes(200)])
def test_what_is_no_recording_is_the_affair_of_the_decoder(blob):
    assert contents(io.BytesIO(blob)) == ((), None)


# ------------------------------------------------ headers that were never finished


def noise(n, channels=2):
    return np.random.default_rng(0).uniform(-0.5, 0.5, (n, channels))


@pytest.mark.parametrize(("size", "of_file"), [(0, 0), (0, 8), (0, 36), (0, None), (400, 436), (400, None)])
@pytest.mark.parametrize("how", [{}, {"subtype": "FLOAT"}, {"format": "WAVEX"}], ids=str)
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


def test_an_unfinished_header_before_more_than_four_gigabytes(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(RATE), RATE)
    with with_size(path, 0, 0).open("r+b") as file:  # sparse
        file.truncate(5 * 2**30 + 44)
    audio = Recording(path)
    assert audio.n_samples == 5 * 2**28
    assert audio.part(0, RATE).all()


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
    path = with_size(silent(tmp_path / "a.wav"), 0, 36)
    path.write_bytes(path.read_bytes()[:44])
    assert (Recording(path).n_samples, Recording(path).partial) == (0, None)
