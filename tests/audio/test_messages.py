"""What users are told about sound that cannot be used."""

import numpy as np
import pytest
import soundfile

from outlark.audio.recording import Recording, read
from outlark.audio.sound import Resampler, check_sample_rate, mono, resample
from outlark.audio.sound_files import SoundFiles, pair_names
from outlark.errors import AnnotationError, AudioError, InputError, OutlarkError


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (["a", "b"], "audio of type <U1: such values are not sound"),
        ([1, 2, 3], "audio of type int64: such values have no agreed full scale; give floats"),
        ([[0.0], [0.0, 1.0]], "audio is not an array .*give numbers of shape"),
        (np.zeros((4, 2, 1)), r"audio has 3 dimensions, shape \(4, 2, 1\)"),
        (np.zeros((4, 0)), r"shape \(4, 0\) has no channels"),
        (np.zeros((2, 65)), r"shape \(2, 65\) would be 2 samples of 65 channels.*give audio.T"),
        ([0.0, 1.0, np.nan, np.nan], "2 of 4 samples are NaN, .* the first is sample 2 .*; cut them out"),
        ([[0.0, 0.0], [np.inf, -np.inf]], "1 of 2 samples are NaN, .* the first is sample 1"),
    ],
)
def test_what_is_no_audio(audio, message):
    with pytest.raises(InputError, match=message):
        mono(audio)


@pytest.mark.parametrize("channel", [2, -1, "left", 1.0, True, np.True_, None])
def test_channels_that_do_not_exist(channel):
    told = r"channel=.*the audio has 2 channels; give 'mix' or a whole number from 0 to 1"
    with pytest.raises(InputError, match=told):
        mono(np.zeros((5, 2)), channel)
    with pytest.raises(InputError, match=r"the audio has 1 channel; .* from 0 to 0"):
        mono(np.zeros(5), 1)


@pytest.mark.parametrize("rate", [0, -8000, 99, 10_000_001, 22050.5, np.nan, np.inf, "44100", None, True, 1j])
def test_sample_rates(rate):
    for call in (check_sample_rate, lambda rate: Resampler(rate, 22050), lambda rate: Resampler(22050, rate)):
        with pytest.raises(InputError, match=r"sample_rate=.* must be a whole number .* from 100 to 10000000"):
            call(rate)


def test_samples_that_are_resampled():
    with pytest.raises(InputError, match="the first is sample 3"):
        resample([0.0, 0.0, 0.0, np.nan], 44100, 22050)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.wav", None, "none.wav does not exist; check the path"),
        ("", None, "is a folder; give the path of one sound file"),
        ("zero.wav", b"", r"zero.wav is empty \(0 bytes\)"),
        ("text.wav", b"not a sound " * 50, "text.wav is a text file, not a sound file; give the recording"),
        ("m.outlark", (2).to_bytes(8, "little") + b"{}" + bytes(range(9)), "m.outlark is a model, not a recording"),
        ("noise.wav", bytes(range(200)), "noise.wav cannot be decoded .*Format not recognised.*convert it to WAV"),
        ("raw.raw", bytes(50), "raw.raw cannot be decoded .*samplerate must be specified"),
        ("early.wav", b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0", "early.wav cannot be decoded as a sound file"),
    ],
)
def test_what_cannot_be_opened(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AudioError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, OutlarkError)
    assert isinstance(caught.value, ValueError)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("outlark.audio.recording.opened", refuse)
    with pytest.raises(AudioError, match=r"a.wav cannot be opened \(Permission denied\); check that you may read it"):
        read(tmp_path / "a.wav")


def test_channel_and_rate_of_a_file(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros((100, 2)), 44100)
    with pytest.raises(AudioError, match=r"a.wav: channel=2, but the audio has 2 channels"):
        Recording(tmp_path / "a.wav", 2)
    soundfile.write(tmp_path / "b.wav", np.zeros(100), 50)
    with pytest.raises(AudioError, match=r"b.wav: sample_rate=50 must be"):
        Recording(tmp_path / "b.wav")


@pytest.mark.parametrize(
    ("folders", "name", "message"),
    [
        ([], "t", r"t.csv, line 7: there is no recording 't' \(with any ending\) in .*; put it"),
        (["."], "a.wav", r"t.csv, line 7: there is no recording 'a.wav' in .* or .*; put it .*--audio"),
        (["."], "1.wav", r"t.csv, line 7: the recording '1.wav' could be .*a/1.wav or .*b/1.wav;"),
        (["x"], "1.wav", "x is not there; give a folder that holds recordings"),
        (["a/1.wav"], "1.wav", r"1.wav is a file; give a folder"),
    ],
)
def test_recordings_that_are_not_found(tmp_path, folders, name, message):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.wav").touch()
    with pytest.raises((AnnotationError, InputError), match=message):
        SoundFiles([tmp_path / folder for folder in folders]).named(name, tmp_path / "t.csv", 7)


@pytest.mark.parametrize(
    ("names", "others"),
    [(["1.wav"], ["x/1.wav", "y/1.wav"]), (["x/1.wav", "y/1.wav"], ["1"]), (["1"], ["1.wav", "1.au"])],
)
def test_names_that_could_be_several(names, others):
    with pytest.raises(AnnotationError, match=r"'1(\.wav)?' could be '.*' or '.*'; name recordings with their folders"):
        pair_names(names, others)
