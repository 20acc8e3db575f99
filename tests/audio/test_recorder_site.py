"""Where a recording was made: real files with GUANO, and how people arrange their folders."""

import pytest

from outlark.audio.recorder_site import recorder_site, site_of
from outlark.audio.recorder_time import recorder_time
from tests.audio.test_recorder_time import sound


@pytest.mark.parametrize(
    ("guano", "site"),
    [
        ("GUANO|Version: 1.0\nNABat|Site Name: Upper pond\nSerial: 7", "Upper pond"),
        ("Serial:SMA00646\nWA|Song Meter|Prefix:SMA00646", None),  # as it comes from the shop
        ("Serial:SMA00646\nWA|Song Meter|Prefix:RIDGE", "RIDGE"),
        ("Site: \nLoc Position: 54.75 -1.59", None),
    ],
)
def test_the_recorder_may_tell(tmp_path, guano, site):
    assert recorder_site(sound(tmp_path / "a.wav", guano=guano)) == site


def test_a_file_that_is_not_made_of_chunks_tells_nothing(tmp_path):
    assert recorder_site(sound(tmp_path / "a.flac", "FLAC")) is None


@pytest.mark.parametrize(
    ("recording", "way", "site"),
    [
        ("pond/a.wav", "auto", "pond"),
        ("2023/pond/2023-10-24/a.wav", "auto", "pond"),
        ("SM4/Data/S4A_20231024_120000.wav", "auto", "SM4"),
        ("SM4/Data/S4A_20231024_120000.wav", "name", "S4A"),
        ("north/pond/20231024/a.wav", "folder", "north"),
        ("north/pond/20231024/a.wav", "parent", "pond"),
        ("S4A_20231024_120000.wav", "auto", "S4A"),
        ("S4A_20231024_120000.wav", "folder", "disk"),
        ("20231024_120000.wav", "auto", "disk"),
        ("a.wav", "name", "(no site)"),
    ],
)
def test_folders_and_names(recording, way, site):
    assert site_of(recording, f"/mnt/disk/{recording}", way) == site


def test_a_song_meter_writes_its_zone_with_one_digit(tmp_path):
    path = sound(tmp_path / "SMA00646_20201017_130500.wav", guano="Timestamp:2020-10-17 13:05:00+1:00")
    found = recorder_time(path)
    assert (found.source, found.began.isoformat()) == ("guano", "2020-10-17T13:05:00+01:00")
