"""Recordings at URLs: a real S3 server of this machine (moto), and the stores of fsspec in memory."""

import os
import sys

import numpy as np
import pytest
import soundfile

from outlark.audio.recording import Recording, read
from outlark.batch.journal import fingerprint
from outlark.batch.run import run
from outlark.batch.task import find
from outlark.data.synthetic import SAMPLE_RATE
from outlark.errors import AudioError, InputError
from outlark.files.io import size_of
from tests.batch.in_process import InProcess, task_for
from tests.recordings_on_disk import contents, save_long_recording, song, without_paths

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    folder = tmp_path_factory.mktemp("night")
    (folder / "b").mkdir()
    for i, name in enumerate(("a.wav", "b/SITE1_20260501_043000.flac", "b/._a.wav", "b/notes.txt")):
        if name.endswith(("wav", "flac")):
            soundfile.write(folder / name, song(i), SAMPLE_RATE)
        else:
            (folder / name).write_text("none")
    save_long_recording(folder / "b/long.wav", 26.0)
    return folder


@pytest.fixture(scope="module")
def bucket(night):
    """The same in a bucket of a server that speaks S3."""
    server_of = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    server = server_of.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    where = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    before = {name: os.environ.get(name) for name in where}
    os.environ.update(where)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("field")
    store.put(str(night), "field/2026", recursive=True)
    yield "s3://field/2026"
    server.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    s3fs.S3FileSystem.clear_instance_cache()


def go(model, output, *paths, part_s=8.0):
    task = task_for(model, output)
    return run(task, find(paths), driver=InProcess(task), combined=True, part_s=part_s)


def test_a_bucket_gives_what_the_folder_gives(model, night, bucket, tmp_path):
    here = go(model, tmp_path / "here", night)
    there = go(model, tmp_path / "there", bucket)
    assert (there.total, there.done, there.failures) == (3, 3, [])
    assert there.segments == here.segments
    there, here = (without_paths(contents(tmp_path / name)) for name in ("there", "here"))
    assert there == here
    assert go(model, tmp_path / "there", bucket).skipped == 3


def test_an_object_that_is_another_one_is_done_again(model, night, bucket, tmp_path):
    store, path = fsspec.core.url_to_fs(f"{bucket}/again.wav")
    for seed in (0, 1):
        soundfile.write(tmp_path / "again.wav", np.resize(song(seed), 9000), SAMPLE_RATE)
        store.put(str(tmp_path / "again.wav"), path)
        report = go(model, tmp_path / "out", f"{bucket}/again.wav")
        assert (report.done, report.changed) == (1, ["again.wav"] if seed else [])
    store.rm(path)
    (failure,) = go(model, tmp_path / "out", f"{bucket}/again.wav", f"{bucket}/a.wav").failures
    assert failure.message == f"{bucket}/again.wav does not exist; check the URL and your credentials"


def test_one_file_and_a_folder_of_a_bucket(bucket):
    assert [source.name for source in find([f"{bucket}/b", f"{bucket}/a.wav"]).files] == [
        "a.wav", "b/SITE1_20260501_043000.flac", "b/long.wav",
    ]  # fmt: skip
    assert [source.path for source in find([f"{bucket}/a.wav"]).files] == [f"{bucket}/a.wav"]
    with pytest.raises(InputError, match=rf"no recordings: {bucket}/c.wav does not exist; check the URL"):
        find([f"{bucket}/c.wav"])


def test_what_is_read_from_a_bucket(night, bucket):
    for name in ("a.wav", "b/SITE1_20260501_043000.flac"):
        np.testing.assert_array_equal(read(f"{bucket}/{name}")[0], read(night / name)[0])
    audio = Recording(f"{bucket}/b/long.wav")
    expected = read(night / "b/long.wav")[0]
    np.testing.assert_array_equal(np.concatenate(list(audio.blocks(10_000, first=300_000))), expected[300_000:])
    assert size_of(f"{bucket}/a.wav") == (night / "a.wav").stat().st_size
    assert Recording(f"{bucket}/b/SITE1_20260501_043000.flac").clock.began.isoformat() == "2026-05-01T04:30:00"
    first, again = fingerprint(f"{bucket}/a.wav"), fingerprint(f"{bucket}/a.wav")
    assert first == again
    assert fingerprint(f"{bucket}/none.wav") is None


def test_errors_while_fetching_are_errors_and_not_the_end_of_the_recording(night, bucket, monkeypatch):
    """libsndfile takes a file that cannot be read any more for one that has ended."""
    import s3fs

    fetched = []

    def fetch(self, start, end):
        fetched.append(start)
        if len(fetched) > 1:
            raise ConnectionError("the cable was pulled")
        return whole(self, start, end)

    whole = s3fs.S3File._fetch_range
    monkeypatch.setattr("outlark.files.io.FETCHED", 2**18)
    monkeypatch.setattr(s3fs.S3File, "_fetch_range", fetch)
    found = []
    with pytest.raises(AudioError, match=rf"{bucket}/b/long.wav cannot be fetched \(the cable was pulled\); check the"):
        found.extend(Recording(f"{bucket}/b/long.wav").blocks(5000))
    assert len(fetched) > 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://nothing/a.wav", "memory://nothing/a.wav does not exist; check the URL"),
        ("nonsense://a/b.wav", "nonsense://a/b.wav: .*give a path, or a URL that fsspec knows"),
    ],
)
def test_what_cannot_be_opened(url, message):
    with pytest.raises((AudioError, InputError), match=message):
        Recording(url)


def test_a_file_that_is_no_sound_or_empty():
    memory = fsspec.filesystem("memory")
    memory.pipe("/junk.wav", b"RIFF" + bytes(range(256)))
    memory.pipe("/empty.wav", b"")
    for name, told in (("junk", "cannot be decoded as a sound file"), ("empty", "is empty")):
        with pytest.raises(AudioError, match=rf"memory://{name}.wav {told}"):
            Recording(f"memory://{name}.wav")
    memory.rm("/junk.wav")
    memory.rm("/empty.wav")


def test_names_that_two_places_have_in_common(night, tmp_path):
    memory = fsspec.filesystem("memory")
    memory.put(str(night / "a.wav"), "/store/a.wav")
    with pytest.raises(InputError, match=r"a.wav and memory://.*a.wav would both be called a.wav in the output"):
        find([night / "a.wav", "memory://store/a.wav"])
    memory.rm("/store", recursive=True)


def test_a_package_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(InputError, match=r"gs://b/a.wav: this kind of URL needs a package .*gcsfs"):
        Recording("gs://b/a.wav")
