"""Which files a run is about: folders, links, names, and manifests that list recordings."""

import os
from datetime import date, datetime

import pytest

from outlark.audio.sound_files import SUFFIXES
from outlark.batch.task import Source, find, read_manifest
from outlark.errors import InputError


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def names(*paths):
    return [source.name for source in find(paths).files]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_in_any_case(tmp_path, suffix):
    touch(tmp_path, f"a{suffix}", f"b{suffix.upper()}")
    assert names(tmp_path) == [f"a{suffix}", f"b{suffix.upper()}"]


def test_hidden_files_are_left_out_unless_they_are_named(tmp_path):
    touch(tmp_path, "a.wav", "._a.wav", ".trash/b.wav")
    assert names(tmp_path) == ["a.wav"]
    assert names(tmp_path / "._a.wav") == ["._a.wav"]


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


def test_what_does_not_exist_is_a_failure_and_the_rest_is_found(tmp_path):
    touch(tmp_path, "a.wav")
    found = find([tmp_path / "a.wav", tmp_path / "b.wav"])
    assert [source.name for source in found.files] == ["a.wav"]
    (failure,) = found.failures
    assert failure.where == "b.wav"
    assert failure.message == f"{tmp_path / 'b.wav'} does not exist; check the path"


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


@pytest.fixture
def folder(tmp_path):
    for name in ("a.wav", "deep/b.wav", "deep/c.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def csv(folder, text, name="season.csv", encoding="utf-8"):
    (folder / name).write_text(text, encoding=encoding)
    return folder / name


def test_paths_count_from_the_folder_of_the_manifest(folder, monkeypatch):
    monkeypatch.chdir("/")
    rows = ("Site,Path,date,gain", "pond,a.wav,2026-05-31,3", ",deep/b.wav,,", f"wood,{folder}/deep/c.wav,,1")
    manifest = csv(folder, "\n".join(rows))
    found = [(s.name, s.site, s.date) for s in find([manifest]).files]
    assert found == [("a.wav", "pond", "2026-05-31"), ("deep/b.wav", None, None), ("deep/c.wav", "wood", None)]
    assert [(s.name, s.site) for s in find([manifest, folder / "deep"]).files][1:] == [
        ("deep/b.wav", None), ("deep/c.wav", "wood"),
    ]  # fmt: skip


def test_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"path": ["a.wav", "deep/b.wav"], "site": ["pond", None], "date": [date(2026, 5, 31), None]}
    parquet.write_table(pyarrow.table(table), folder / "season.parquet")
    assert [(s.name, s.site, s.date) for s in find([folder / "season.parquet"]).files] == [
        ("a.wav", "pond", "2026-05-31"), ("deep/b.wav", None, None),
    ]  # fmt: skip
    table["date"] = [datetime(2026, 5, 31, 4, 30), None]
    parquet.write_table(pyarrow.table(table), folder / "season.parquet")
    assert next(read_manifest(folder / "season.parquet")).date == "2026-05-31"


def test_spreadsheets_begin_with_a_byte_order_mark(folder):
    assert [listed.site for listed in read_manifest(csv(folder, "path,site\na.wav,Weiß\n", encoding="utf-8-sig"))] == [
        "Weiß"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,site\na.wav,pond\n", r"season.csv: a manifest has a column 'path', and this one has file, site; rename"),
        ("", r"season.csv: a manifest has a column 'path', and this one has none"),
        ("path,site\na.wav,pond\n,wood\n", r"season.csv, line 3: no path \(''\); give one in each line"),
        ("path,date\na.wav,31.5.2026\n", r"season.csv, line 2: the date '31.5.2026'; write it as 2026-05-31"),
        ('path\n"a.wav', r"season.csv: cannot be read as a manifest \(unexpected end of data\)"),
        ("path,site\na.wav,pond\na.wav,wood\n", r"a.wav is given twice, with 'pond' and with 'wood'; correct"),
    ],
)
def test_what_is_no_manifest(folder, text, message):
    with pytest.raises(InputError, match=message):
        find([csv(folder, text)])


def test_files_that_are_no_tables(folder):
    (folder / "x.csv").write_bytes(b"path\n\xff\xfe\n")
    with pytest.raises(
        InputError, match=r"x.csv: cannot be read as a manifest \(.*utf-8.*\); give a CSV file in UTF-8"
    ):
        find([folder / "x.csv"])
    pytest.importorskip("pyarrow")
    (folder / "x.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match=r"x.parquet: cannot be read as a manifest"):
        find([folder / "x.parquet"])
    with pytest.raises(InputError, match=r"none.csv: cannot be read \(No such file or directory\); check the path"):
        find([folder / "none.csv"])
