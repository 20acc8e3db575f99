"""Live sound: bytes in pieces of any size give the segments of the whole."""

import os
import threading

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark import NoteDetector
from outlark.audio.sound import mono
from outlark.commands.listen import PCM, PIECE, SAMPLE_BYTES, WAITING, Inlet, Listener, devices, recorded, usual_rate
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.errors import AudioError, InputError
from outlark.features.array import ArrayFrontEnd
from outlark.paper.detector import FrameDetector
from tests.recordings_on_disk import song

SUBTYPES = {"int16": "PCM_16", "int24": "PCM_24", "int32": "PCM_32", "float32": "FLOAT"}


@pytest.fixture(scope="module")
def detector():
    known = notes(counts={"tuti-D": 3, "cach-Z": 3})
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


def cut(raw: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    while at < len(raw):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(raw[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("kind", SAMPLE_BYTES)
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_bytes_mean_what_they_mean_to_sound_files(kind, channels, tmp_path, rng):
    sound = rng.uniform(-1, 1, (50, channels))
    soundfile.write(tmp_path / "a.raw", sound, 8000, SUBTYPES[kind], "LITTLE", "RAW")
    raw = (tmp_path / "a.raw").read_bytes()
    expected, _ = soundfile.read(
        tmp_path / "a.raw", samplerate=8000, channels=channels, subtype=SUBTYPES[kind], endian="LITTLE", always_2d=True
    )
    pcm = PCM(kind, channels)
    found = np.concatenate([mono(pcm.push(piece), channels - 1) for piece in cut(raw, [7, 1, 30])])
    assert np.array_equal(found, expected[:, -1])
    assert (pcm.n_samples, pcm.left_over) == (50, 0)


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1), kind=st.sampled_from(list(SAMPLE_BYTES)), channels=st.integers(1, 3)
)
def test_pieces_of_any_size_give_the_same_samples(sizes, kind, channels):
    raw = np.random.default_rng(0).uniform(-1, 1, 91).astype("<f4").tobytes()
    at_once, in_pieces = PCM(kind, channels), PCM(kind, channels)
    whole = at_once.push(raw)
    assert np.array_equal(np.concatenate([in_pieces.push(piece) for piece in cut(raw, sizes)]), whole)
    assert len(whole) == len(raw) // at_once.bytes_each
    assert in_pieces.left_over == at_once.left_over == len(raw) % at_once.bytes_each


def test_what_is_no_sound():
    pcm = PCM("float32", 2)
    pcm.push(np.zeros(6, "<f4").tobytes())
    with pytest.raises(InputError, match="sample 4 is NaN or infinite; is the sound really float32, little-endian"):
        pcm.push(np.array([0, 0, 0, np.nan], "<f4").tobytes())


@settings(max_examples=5, deadline=None)
@given(sizes=st.lists(st.integers(100, 9000), min_size=1, max_size=5))
def test_the_segments_of_the_whole(detector, sizes):
    sound = (2**15 * song(0)).round().astype("<i2")
    pcm = PCM("int16")
    listener = Listener(detector, pcm, SAMPLE_RATE)
    found = list(listener.segments(cut(sound.tobytes() + b"\1", sizes)))
    assert found == detector.detect(sound, SAMPLE_RATE)
    assert any(segment.verdict == "known" for segment in found)
    assert listener.duration_s == len(sound) / SAMPLE_RATE
    assert pcm.left_over == 1


def test_what_was_heard_before_an_error_is_told(detector):
    sound = song(0).astype("<f4")
    found = []
    listener = Listener(detector, PCM("float32"), SAMPLE_RATE)
    with pytest.raises(InputError, match="NaN"):
        found.extend(listener.segments([sound.tobytes(), np.array([np.nan], "<f4").tobytes()]))
    assert found == detector.detect(sound, SAMPLE_RATE)


def test_listeners_refuse_what_they_cannot_do(detector):
    with pytest.raises(InputError, match="channel=2, but the audio has 2 channels"):
        Listener(detector, PCM("int16", 2), SAMPLE_RATE, channel=2)
    rows = np.random.default_rng(0).normal(size=(4, 50, 2))
    series = FrameDetector(ArrayFrontEnd()).fit(list(rows), ["a", "a", "b", "b"], 100)
    with pytest.raises(InputError, match="this model is for series of numbers, not sound"):
        Listener(series, PCM("int16"), 100)


def test_an_inlet_reads_no_further_than_it_has_room():
    asked = []
    full = threading.Event()

    def read(size):
        asked.append(size)
        if len(asked) == WAITING:
            full.set()
        return b"x" if len(asked) < 3 * WAITING else b""

    inlet = Inlet()
    inlet.feed(read)
    assert full.wait(10)
    assert asked == [PIECE] * WAITING
    assert b"".join(inlet) == b"x" * (3 * WAITING - 1)


def test_an_inlet_gives_what_came_before_its_end_and_nothing_after():
    inlet = Inlet()
    inlet.put(b"a")
    inlet.end()
    inlet.put(b"b")
    assert list(inlet) == [b"a"]


def test_an_inlet_hands_on_errors():
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    inlet = Inlet()
    inlet.feed(lambda size: os.read(reader, size))
    with pytest.raises(OSError, match="Bad file descriptor"):
        list(inlet)


def test_without_the_package_for_sound_devices():
    try:
        import sounddevice  # noqa: F401
    except ImportError:
        told = "need the package sounddevice; install it with: pip install sounddevice"
    except OSError:
        told = "cannot find PortAudio"
    else:
        pytest.skip("sounddevice is there")
    for ask in (devices, lambda: usual_rate("default")):
        with pytest.raises(AudioError, match=told):
            ask()
    with pytest.raises(AudioError, match=told), recorded(Inlet(), "0", sample_rate=8000, channels=1, kind="int16"):
        pass
