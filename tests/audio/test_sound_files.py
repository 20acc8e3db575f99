"""Which recording a table is about."""

import os
import unicodedata
from pathlib import Path

import pytest

from outlark.audio.sound_files import SoundFiles, recording_of_table, sounds_within
from outlark.errors import AnnotationError, InputError


def touched(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("table", "recording"),
    [
        ("x.Table.1.selections.txt", "x"),
        ("x.Table.12.selections.txt", "x"),
        ("x.selections.txt", "x"),
        ("x.labels.txt", "x"),
        ("x.txt", "x"),
        ("x.1.txt", "x.1"),
        ("x.wav.outlark.csv", "x.wav"),
        ("x.WAV.Table.1.selections.txt", "x.WAV"),
        ("x.BirdNET.selection.table.txt", "x"),
        ("x.aoef.json", "x"),
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


def test_a_path_that_leads_there_is_taken(tmp_path):
    touched(tmp_path, "here/1.wav", "there/1.wav", "there/t.csv")
    name = str(tmp_path / "here/1.wav")
    assert SoundFiles([tmp_path / "there"]).named(name, tmp_path / "there/t.csv") == tmp_path / "here/1.wav"


def test_given_folders_come_before_the_folder_of_the_table(tmp_path):
    touched(tmp_path, "1.wav", "audio/1.wav")
    assert SoundFiles([tmp_path / "audio"]).named("1.wav", tmp_path / "t.csv") == tmp_path / "audio/1.wav"


def test_the_ending_in_the_table_decides(tmp_path):
    touched(tmp_path, "1.wav", "1.flac")
    assert SoundFiles().named("1.flac", tmp_path / "t.csv") == tmp_path / "1.flac"
    assert SoundFiles().named("1.FLAC", tmp_path / "t.csv") == tmp_path / "1.flac"


def test_two_of_that_name(tmp_path):
    audio = touched(tmp_path, "a/1.wav", "b/1.wav")
    with pytest.raises(AnnotationError, match=r"t.csv, line 7: the recording '1.wav' could be .*a/1.wav or .*b/1.wav;"):
        SoundFiles([audio]).named("1.wav", tmp_path / "t.csv", 7)


def test_a_file_that_is_reached_twice_is_one(tmp_path):
    audio = touched(tmp_path / "audio", "1.wav")
    os.symlink(audio / "1.wav", audio / "1.flac")
    assert SoundFiles([audio, audio]).named("1", tmp_path / "t.csv").stem == "1"


def test_none_of_that_name(tmp_path):
    with pytest.raises(AnnotationError, match=r"t.txt: there is no recording 't' \(with any ending\) in .*; put it"):
        SoundFiles().of_table(tmp_path / "t.txt")
    with pytest.raises(AnnotationError, match=r"t.txt, line 2: there is no recording 'a.wav' in .* or .*; put it"):
        SoundFiles([tmp_path]).named("a.wav", tmp_path / "t.txt", 2)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(InputError, match="x is not there; give a folder that holds recordings"):
        SoundFiles([tmp_path / "x"])
    touched(tmp_path, "1.wav")
    with pytest.raises(InputError, match=r"1.wav is a file; give a folder"):
        SoundFiles([tmp_path / "1.wav"])


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
