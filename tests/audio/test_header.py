"""When and where a recording was made: real files with real chunks, every kind of name, and what is no time."""

import struct
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from outlark.audio.facts import Facts
from outlark.audio.header import RecorderTime, recorder_site, recorder_time, time_in_name
from outlark.audio.recording import Recording
from outlark.audio.sound_files import site_of
from outlark.errors import AudioError, InputError

STAMP = "GUANO|Version: 1.0\nMake: Open Acoustic Devices\nTimestamp: 2023-10-24T12:34:56+02:00\nTE: 1\n"
MOTH = "Recorded at {} by AudioMoth 24F3190361DA539A at medium gain while battery was 4.1V and temperature was 9.8C."
PLUS_2 = timezone(timedelta(hours=2))
NOON = datetime(2023, 10, 24, 12, 34, 56)


def sound(path: Path, container: str = "WAV", subtype: str = "PCM_16", comment: str = "", guano: str | bytes = ""):
    """A sound file of 100 samples, with a comment, and a GUANO chunk at its end."""
    with soundfile.SoundFile(path, "w", 8000, 1, format=container, subtype=subtype) as file:
        if comment:
            file.comment = comment
        file.write(np.zeros(100))
    return with_chunk(path, b"guan", guano.encode() if isinstance(guano, str) else guano) if guano else path


def with_chunk(path: Path, name: bytes, body: bytes, size: int | None = None) -> Path:
    size = len(body) if size is None else size
    data = path.read_bytes() + name + struct.pack("<I", size) + body + b"\0" * (len(body) % 2)
    if data[:4] == b"RIFF":
        data = data[:4] + struct.pack("<I", len(data) - 8) + data[8:]
    path.write_bytes(data)
    return path


def clock(path):
    return Recording(path).clock


# --- GUANO ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "subtype", "name"),
    [
        ("WAV", "PCM_16", "a.wav"),
        ("WAV", "FLOAT", "no_extension"),
        ("RF64", "PCM_16", "a.rf64"),
    ],
)
def test_guano_is_found_in_every_kind_of_wav(tmp_path, container, subtype, name):
    found = clock(sound(tmp_path / name, container, subtype, guano=STAMP))
    assert found == RecorderTime(began=NOON.replace(tzinfo=PLUS_2), source="guano")


def test_the_reference_implementation_reads_the_same(tmp_path):
    guano = pytest.importorskip("guano")
    for stamp in ("2023-10-24T12:34:56+02:00", "2023-10-24T12:34:56Z", "2023-10-24T12:34:56"):
        path = sound(tmp_path / "a.wav", guano=f"GUANO|Version: 1.0\nTimestamp: {stamp}\n")
        theirs = guano.GuanoFile(str(path))["Timestamp"]
        ours = clock(path).began
        assert ours.replace(tzinfo=None) == theirs.replace(tzinfo=None)
        assert ours.utcoffset() == theirs.utcoffset()


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2023-10-24T12:34:56.500 -03:30", NOON.replace(microsecond=500_000, tzinfo=timezone(-timedelta(hours=3.5)))),
        ("2023-10-24 12:34:56+1:00", NOON.replace(tzinfo=timezone(timedelta(hours=1)))),  # a Song Meter Mini
        ("20231024T123456Z", NOON.replace(tzinfo=UTC)),
        ("2023-10-24", None),
        ("2023-02-30T12:34:56", None),
        ("1970-01-01T00:00:05", None),
        ("", None),
    ],
)
def test_time_stamps_of_guano(stamp, expected):
    found = recorder_time(f"GUANO|Version: 1.0\nTimestamp: {stamp}\n", "", "a.wav")
    assert (found.began if found else None) == expected
    if expected is not None:
        assert found.began.utcoffset() == expected.utcoffset()


@pytest.mark.parametrize(("told", "seconds"), [("10", 2.5), ("0", 25.0), ("x", 25.0)])
def test_slowed_down_recordings_run_slowly(told, seconds):
    found = recorder_time(STAMP.replace("TE: 1", f"TE: {told}"), "", "a.wav")
    assert found.at(25.0) - found.began == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "guano",
    [
        b"not a field\n\xff\xfe latin \xe9: 1\nTimestamp: 2023-10-24T12:34:56\n",
        b"GUANO|Version: 1.0\r\nTimestamp: 2023-10-24T12:34:56\r\n\0\0\0Timestamp: 1999-01-01T00:00:00",
        b"Timestamp: 2023-10-24T12:34:56\nTimestamp: 1999-01-01T00:00:00\n",
    ],
)
def test_untidy_guano_is_read_as_far_as_it_makes_sense(tmp_path, guano):
    assert clock(sound(tmp_path / "a.wav", guano=guano)).began == NOON


def test_a_chunk_that_promises_more_than_there_is(tmp_path):
    path = with_chunk(sound(tmp_path / "a.wav"), b"guan", STAMP.encode(), size=2**32 - 2)
    assert clock(path).began == NOON.replace(tzinfo=PLUS_2)
    path = with_chunk(sound(tmp_path / "b.wav"), b"junk", b"", size=2**32 - 2)
    assert clock(with_chunk(path, b"guan", STAMP.encode())) is None


@given(cut=st.integers(0, 400), at=st.integers(0, 400), value=st.integers(0, 255))
def test_damaged_files_never_fail(tmp_path_factory, cut, at, value):
    path = tmp_path_factory.mktemp("damaged") / "a.wav"
    data = bytearray(sound(path, comment=MOTH.format("12:34:56 24/10/2023 (UTC)"), guano=STAMP).read_bytes())
    data[at] = value
    path.write_bytes(data[: len(data) - cut])
    try:
        found = clock(path)
    except AudioError:
        return  # no sound either
    assert found is None or found.source in ("guano", "comment")


def test_the_sound_is_not_read(tmp_path):
    """A sparse file of 3 GB, as recorders write them through a whole night."""
    path = sound(tmp_path / "long.wav", guano=STAMP)
    data = path.read_bytes()
    place = data.index(b"data")
    size = 3 * 2**30
    with path.open("wb") as file:
        file.write(data[: place + 4] + struct.pack("<I", size))
        file.seek(place + 8 + size)
        file.write(data[data.index(b"guan") :])
    tracemalloc.start()
    found = clock(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.source == "guano"
    assert most < 2**20


def test_many_empty_chunks_come_to_an_end(tmp_path):
    path = sound(tmp_path / "a.wav")
    path.write_bytes(path.read_bytes() + b"junk\0\0\0\0" * 5000)
    assert clock(with_chunk(path, b"guan", STAMP.encode())) is None  # too far behind


# --- header comment -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "zone", "microsecond"),
    [
        ("12:34:56 24/10/2023", None, 0),
        ("12:34:56 24/10/2023 (UTC)", UTC, 0),
        ("12:34:56 24/10/2023 (UTC+2)", PLUS_2, 0),
        ("12:34:56 24/10/2023 (UTC-3:30)", timezone(-timedelta(hours=3, minutes=30)), 0),
        ("12:34:56.789 24/10/2023 (UTC-11)", timezone(-timedelta(hours=11)), 789_000),
    ],
)
@pytest.mark.parametrize("by", ["by AudioMoth 24F3190361DA539A", "during deployment 24F3190361DA539A"])
def test_comments_of_audiomoth_through_the_years(told, zone, microsecond, by):
    found = recorder_time("", MOTH.format(told).replace("by AudioMoth 24F3190361DA539A", by), "a.wav")
    assert found == RecorderTime(began=NOON.replace(tzinfo=zone, microsecond=microsecond), source="comment")
    assert found.began.utcoffset() == (None if zone is None else zone.utcoffset(None))


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("AIFF", "PCM_16"), ("RF64", "PCM_16"), ("MP3", "MPEG_LAYER_III")],
)
def test_comments_survive_conversion(tmp_path, container, subtype):
    comment = MOTH.format("12:34:56 24/10/2023 (UTC+2)")
    found = clock(sound(tmp_path / "a", container, subtype, comment=comment))
    assert found == RecorderTime(began=NOON.replace(tzinfo=PLUS_2), source="comment")


@pytest.mark.parametrize("container", ["W64", "CAF", "AU", "RF64", "WAV", "FLAC"])
def test_files_that_say_nothing(tmp_path, container):
    assert clock(sound(tmp_path / "a.wav", container)) is None
    assert clock(sound(tmp_path / "20231024_123456.wav", container)).source == "file name"


# --- file names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("S4A01234_20231024_123456.wav", NOON),
        ("20231024_123456.WAV", NOON),
        ("SITE-7_0+1_20231024_123456.Wac", NOON),
        ("SITE_20231024$123456.wav", NOON),
        ("20231024_123456-0100.wav", NOON),
        ("20231024_123456_-0001.wav", NOON),
        ("20231024T123456+1000_REC.flac", NOON.replace(tzinfo=timezone(timedelta(hours=10)))),
        ("20231024t123456Z.wav", NOON.replace(tzinfo=UTC)),
        ("SwiftOne_20231024_123456_-0400.wav", NOON.replace(tzinfo=timezone(-timedelta(hours=4)))),
        ("99999999_999999_20231024_123456.wav", NOON),
        ("site1_2023-10-24_12-34-56.wav", NOON),
        ("2023-10-24T12:34:56+02:00.wav", NOON.replace(tzinfo=PLUS_2)),
        ("SM4_20231024_123456+0200.wav", NOON.replace(tzinfo=PLUS_2)),
        ("2023-10-24-birdnet-12:34:56.wav", NOON),
        ("6537B9F0.WAV", datetime(2023, 10, 24, 12, 34, 56, tzinfo=UTC)),
        ("0FE081F8.wav", None),
        ("x6537B9F0.wav", None),
        ("20231324_123456.wav", None),
        ("20230229_123456.wav", None),
        ("10661014_123456.wav", None),
        ("20231024_1234567.wav", None),
        ("song.wav", None),
        ("", None),
    ],
)
def test_names(name, expected):
    found = time_in_name(name)
    assert (found.began if found else None) == expected
    if found:
        assert found.source == "file name"
        assert found.began.utcoffset() == expected.utcoffset()


@given(st.datetimes(datetime(1990, 1, 1), datetime(2099, 12, 31)), st.sampled_from(["", "A_", "24F3_", "x-1 "]))
def test_every_second_comes_back_from_its_name(when, prefix):
    when = when.replace(microsecond=0)
    assert time_in_name(f"{prefix}{when:%Y%m%d_%H%M%S}.WAV").began == when


@given(st.text(max_size=40))
def test_no_name_is_too_strange(name):
    found = time_in_name(name)
    assert found is None or 1990 <= found.began.year <= 2099


# --- several sources ------------------------------------------------------------------------------------------------


def test_the_more_trusted_source_wins_and_the_difference_is_told():
    comment = MOTH.format("12:34:56 24/10/2023 (UTC)")
    found = recorder_time(STAMP, comment, "20231024_133456.wav")
    assert found.source == "guano"
    assert found.began == NOON.replace(tzinfo=PLUS_2)
    assert found.differences == (
        "the comment says 2023-10-24 12:34:56+00:00, 2:00:00 later than the guano (2023-10-24 12:34:56+02:00)",
        "the file name says 2023-10-24 13:34:56, 1:00:00 later than the guano (2023-10-24 12:34:56+02:00)",
    )
    earlier = recorder_time(STAMP.replace("+02:00", ""), MOTH.format("11:34:56 24/10/2023 (UTC)"), "b.wav")
    assert "1:00:00 earlier than the guano" in earlier.differences[0]  # which has no zone


@pytest.mark.parametrize("name", ["20231024_123456.wav", "20231024_103456.wav", "20231024_123458.wav", "65379DD0.wav"])
def test_a_name_in_local_time_or_utc_agrees(name):
    assert recorder_time(STAMP, MOTH.format("12:34:56 24/10/2023 (UTC+2)"), name).differences == ()


# --- site ---


@pytest.mark.parametrize(
    ("guano", "site"),
    [
        ("GUANO|Version: 1.0\nNABat|Site Name: Upper pond\nSerial: 7", "Upper pond"),
        ("Serial:SMA00646\nWA|Song Meter|Prefix:SMA00646", None),  # as it comes from the shop
        ("Serial:SMA00646\nWA|Song Meter|Prefix:RIDGE", "RIDGE"),
        ("Site: \nLoc Position: 54.75 -1.59", None),
    ],
)
def test_the_recorder_may_tell(guano, site):
    assert recorder_site(guano) == site


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


# --- facts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kept",
    [{"began": "soon"}, {"began": 5}, {"other": 1}, {"began": "2026-05-01T04:30:00", "expansion": 0}, {"remarks": [1]}],
)
def test_what_was_never_said(kept):
    with pytest.raises(InputError, match=r"the description of the recording is damaged .*; keep the scores again"):
        Facts.of_dict(kept)


def test_the_journal_and_the_tables_tell_when_and_where(tmp_path):
    path = sound(tmp_path / "a.wav", guano="Timestamp: 2023-10-24T12:34:56+02:00\nTE: 10\nSite: pond")
    facts = Recording(path).facts
    told = {"began": "2023-10-24T12:34:56+02:00", "expansion": 10.0, "site": "pond"}
    usual = {"partial": None, "remarks": [], "quality": [], "counts": True}
    assert facts.for_journal() == {**told, **usual}
    assert facts.as_dict() == {**told, "source": "guano"}
    assert Facts.of_dict(facts.as_dict()) == facts
    assert Facts(partial="cut", remarks=("odd",), quality=("silent",)).all_remarks == ("partial: cut", "odd", "silent")
    assert Facts().as_dict() == {}
    assert Facts().for_journal() == {"began": None, "expansion": 1.0, "site": None, **usual}
