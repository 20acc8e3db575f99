"""Which files a run is about."""

import os

import pytest

from outlark.audio.sound_files import SUFFIXES
from outlark.batch.task import Source, find
from outlark.errors import InputError


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def names(*paths):
    return [source.name for source in find(paths).files]


def test_folders_are_searched_with_all_that_is_in_them(tmp_path):
    touch(tmp_path, "b.wav", "a.WAV", "deep/er/c.Flac", "deep/notes.txt", "d.wav.txt", "wav")
    assert names(tmp_path) == ["a.WAV", "b.wav", "deep/er/c.Flac"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_in_any_case(tmp_path, suffix):
    touch(tmp_path, f"a{suffix}", f"b{suffix.upper()}")
    assert names(tmp_path) == [f"a{suffix}", f"b{suffix.upper()}"]


def test_hidden_files_are_left_out_unless_they_are_named(tmp_path):
    touch(tmp_path, "a.wav", "._a.wav", ".trash/b.wav")
    assert names(tmp_path) == ["a.wav"]
    assert names(tmp_path / "._a.wav") == ["._a.wav"]


def test_a_file_that_is_named_may_be_called_anything(tmp_path):
    touch(tmp_path, "noise.dat")
    assert names(tmp_path / "noise.dat") == ["noise.dat"]


def test_same_names_in_several_folders_stay_apart(tmp_path):
    touch(tmp_path, "2023/site/a.wav", "2024/site/a.wav", "b.flac")
    assert names(tmp_path / "2023/site", tmp_path / "2024/site") == ["2023/site/a.wav", "2024/site/a.wav"]
    assert names(tmp_path / "2023/site", tmp_path / "b.flac") == ["2023/site/a.wav", "b.flac"]
    assert names(tmp_path / "2023/site") == ["a.wav"]


def test_a_file_that_is_given_twice_is_one(tmp_path, monkeypatch):
    touch(tmp_path, "x/a.wav")
    monkeypatch.chdir(tmp_path)
    assert find(["x", "x/a.wav", "./x/../x"]).files == (Source(tmp_path / "x/a.wav", "a.wav"),)


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path, "disk/a.wav", "here/b.wav")
    os.symlink(tmp_path / "disk", tmp_path / "here/disk")
    os.symlink(tmp_path / "here", tmp_path / "here/again")
    assert names(tmp_path / "here") == ["b.wav", "disk/a.wav"]


def test_nothing_found_names_the_folder_and_the_pattern(tmp_path):
    touch(tmp_path, "a.txt")
    with pytest.raises(InputError, match=rf"no recordings in {tmp_path} or .*: looked for \*\.wav, \*\.flac, .*check"):
        find([tmp_path])


def test_nothing_given(tmp_path):
    with pytest.raises(InputError, match="no recordings given; name files or folders"):
        find([])


def test_what_does_not_exist_is_a_failure_and_the_rest_is_found(tmp_path):
    touch(tmp_path, "a.wav")
    found = find([tmp_path / "a.wav", tmp_path / "b.wav"])
    assert [source.name for source in found.files] == ["a.wav"]
    (failure,) = found.failures
    assert failure.where == "b.wav"
    assert failure.message == f"{tmp_path / 'b.wav'} does not exist; check the path"


def test_nothing_that_exists(tmp_path):
    with pytest.raises(InputError, match=r"no recordings: .*b\.wav does not exist; check the path"):
        find([tmp_path / "b.wav"])


def test_other_files_than_sound(tmp_path):
    touch(tmp_path, "a.wav.scores", "a.wav")
    assert [source.name for source in find([tmp_path], (".scores",), "scores").files] == ["a.wav.scores"]
    (tmp_path / "a.wav.scores").unlink()
    with pytest.raises(InputError, match=r"no scores in .*looked for \*\.scores;"):
        find([tmp_path], (".scores",), "scores")


def test_one_file_under_several_names_is_one_file(tmp_path):
    """The same folder twice, a folder and one in it, and links to files and folders."""
    night = tmp_path / "disk/night"
    night.mkdir(parents=True)
    (night / "a.wav").write_bytes(b"a")
    (night / "0 link.wav").symlink_to(night / "a.wav")
    (night / "hard.wav").hardlink_to(night / "a.wav")
    (tmp_path / "elsewhere").symlink_to(night)
    assert [source.name for source in find([night, night, night / "a.wav"]).files] == ["a.wav"]
    found = find([tmp_path / "elsewhere", tmp_path / "disk", night])
    assert len(found.files) == 1
    assert len(found.same) == 5
