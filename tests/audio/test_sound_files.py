"""Which recording a table is about, and names that mean the same recording."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlark.audio.sound_files import SoundFiles, full_names, pair_names, recording_of_table, sounds_within
from outlark.errors import AnnotationError


def touched(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("table", "recording"),
    [
        ("x.Table.1.selections.txt", "x"),
        ("x.labels.txt", "x"),
        ("x.1.txt", "x.1"),
        ("x.wav.outlark.csv", "x.wav"),
        ("x.BirdNET.selection.table.txt", "x"),
        ("x.cbin.not.mat", "x.cbin"),
        ("night/x.labels.txt", "night/x"),
        ("annotations.csv", "annotations"),
    ],
)
def test_what_a_table_is_about_by_its_name(table, recording):
    assert recording_of_table(table) == recording


@pytest.mark.parametrize("table", ["x.Table.1.selections.txt", "x.wav.outlark.csv", "X.txt", "x.flac.labels.txt"])
def test_beside_the_table_whatever_the_ending_and_the_case(tmp_path, table):
    touched(tmp_path, "x.FLAC", "y.wav", "._x.wav", "x.png")
    assert SoundFiles().of_table(tmp_path / table) == tmp_path / "x.FLAC"


def test_the_name_in_the_table_goes_with_its_folders(tmp_path):
    audio = touched(tmp_path / "audio", "a/1.wav", "b/1.wav", "c/2.wav")
    sounds, table = SoundFiles([audio]), tmp_path / "t.csv"
    assert sounds.named("a/1.wav", table) == audio / "a/1.wav"
    assert sounds.named(r"D:\field\B\1.WAV", table) == audio / "b/1.wav"
    assert sounds.named("2.flac", table) == audio / "c/2.wav"
    assert sounds.named(str(audio / "c/2.wav"), table) == audio / "c/2.wav"
    touched(tmp_path, "1.wav", "c/1.wav", "c/1.flac")
    assert SoundFiles([audio / "a"]).named("1.wav", table) == audio / "a/1.wav"  # before the folder of the table
    assert SoundFiles([audio / "a"]).named(str(tmp_path / "1.wav"), table) == tmp_path / "1.wav"
    assert SoundFiles().named("1.FLAC", tmp_path / "c/t.csv") == tmp_path / "c/1.flac"


def test_a_file_that_is_reached_twice_is_one(tmp_path):
    audio = touched(tmp_path / "audio", "1.wav")
    os.symlink(audio / "1.wav", audio / "1.flac")
    assert SoundFiles([audio, audio]).named("1", tmp_path / "t.csv").stem == "1"


def test_links_that_lead_back_do_not_go_round(tmp_path):
    touched(tmp_path, "a/1.wav", ".hidden/2.wav")
    os.symlink(tmp_path, tmp_path / "a/up")
    assert [path.name for path in sounds_within(tmp_path)] == ["1.wav"]


def test_accents_are_found_however_they_are_composed(tmp_path):
    """Disks of a Mac decompose them, and tables are written elsewhere."""
    name = "Dösen/Frühling.wav"
    touched(tmp_path, unicodedata.normalize("NFC", name), "B/Frühling.wav")
    found = SoundFiles([tmp_path]).named(unicodedata.normalize("NFD", name), tmp_path / "t.csv")
    assert found == tmp_path / unicodedata.normalize("NFC", name)


def test_a_recording_has_one_path_however_it_is_named(tmp_path, monkeypatch):
    """Otherwise it would be learnt from twice, each time without the notes of the other."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wood/a").mkdir(parents=True)
    (tmp_path / "wood/a/x.wav").touch()
    sounds = SoundFiles(["wood"])
    table = tmp_path / "t.csv"
    assert {sounds.named(name, table) for name in ("a/x.wav", "x", str(tmp_path / "wood/a/x.wav"))} == {
        Path("wood/a/x.wav")
    }


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "others", "pairs"),
    [
        (["A.WAV"], ["site/a.wav"], {"A.WAV": "site/a.wav"}),
        ([r"D:\x\a.wav"], ["y/a.wav"], {r"D:\x\a.wav": "y/a.wav"}),
        (["a.wav", "a.flac"], ["a.flac", "a.wav"], {"a.wav": "a.wav", "a.flac": "a.flac"}),
        (["x/1.wav", "y/1.wav"], ["y/1.wav", "z/1.wav"], {"x/1.wav": None, "y/1.wav": "y/1.wav"}),
        (["x/1.wav"], ["x/1.wav", "y/1.wav", "1.wav"], {"x/1.wav": "x/1.wav"}),
        (["a.1"], ["a.2", "a"], {"a.1": None}),
    ],
)
def test_pairs(names, others, pairs):
    assert pair_names(names, others) == pairs


def test_short_names_within_one_side():
    assert full_names(["a", "x/a.wav", "a.wav"]) == {"a": "x/a.wav", "x/a.wav": "x/a.wav", "a.wav": "x/a.wav"}
    # not told apart: it stays what it is
    assert full_names(["a", "a.wav", "a.flac"])["a"] == "a"
    assert full_names(["1.wav", "x/1.wav", "y/1.wav"])["1.wav"] == "1.wav"


paths = st.lists(st.sampled_from(["x", "y", "1", "2"]), min_size=1, max_size=3).map("/".join)


@given(st.lists(paths.map(lambda path: f"{path}.wav"), unique=True, max_size=6), st.sampled_from(["", "/data/", "d/"]))
def test_names_below_another_folder_are_all_found(names, folder):
    try:
        found = pair_names(names, [folder + name for name in names])
    except AnnotationError:
        # such as 1.wav, which could be d/1.wav and d/x/1.wav
        assert any(name != other and other.endswith(f"/{name}") for name in names for other in names)
        return
    assert all(other is None or other == folder + name for name, other in found.items())


def test_names_that_differ_in_case_or_accents_alone():
    composed, apart = "\u00e9.wav", "e\u0301.wav"
    assert pair_names(["A.wav", "a.wav"], ["a.wav", "A.wav"]) == {"A.wav": "A.wav", "a.wav": "a.wav"}
    assert pair_names([composed, "x.wav"], [apart, "x.wav"]) == {composed: apart, "x.wav": "x.wav"}
    assert pair_names([composed, apart], [apart, composed]) == {composed: composed, apart: apart}
