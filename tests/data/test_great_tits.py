"""The great tit songs: downloaded once from PyPI, completed where files are missing, and annotated correctly."""

import csv
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
import soundfile

from outlark.annotations import read_annotations
from outlark.commands.train.examples import find_examples
from outlark.commands.train.learning import learn
from outlark.data import great_tits
from outlark.data.great_tits import (
    TABLE_ENDING,
    WHEEL,
    WHEEL_SHA256,
    get,
    missing_or_changed,
    songs,
    tables,
    usual_folder,
)
from outlark.errors import InputError
from outlark.files.io import cache_folder
from outlark.metrics import Events, event_f

PYPI = "https://pypi.org/simple/pykanto/"
SOURCE = Path(great_tits.__file__).parents[2]
OWN = ("groups.csv", "README.md")
SONG = "2021-SW83-0418_04-92.wav"
TABLE = "2021-SW83-0418_04-92" + TABLE_ENDING


@functools.cache
def fetched(folder: Path) -> Path:
    """A cache with the wheel and the songs, really fetched."""
    try:
        urllib.request.urlopen(PYPI, timeout=30).close()
    except OSError as error:
        pytest.skip(f"{PYPI} cannot be reached: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTLARK_CACHE", str(folder))
        assert get() == folder / "great-tits"
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    return fetched(tmp_path_factory.getbasetemp() / "great_tits_cache")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")


@pytest.fixture
def copied(cache: Path, tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache to change, without a network."""
    shutil.copytree(cache, tmp_path / "cache")
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def birds_in(wheel: Path) -> dict[str, str]:
    """Which bird sings each song, by the metadata in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        folder = "pykanto/data/segmented/great_tit/JSON"
        return {name: json.loads(archive.read(f"{folder}/{Path(name).stem}.JSON"))["ID"] for name in songs()}


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---------------------------------------------------------------------- getting


def test_what_is_there(cache):
    found = bytes_in(cache / "great-tits")
    assert found.keys() == {*songs(), *tables(), "LICENSE", *OWN}
    assert all(found[name][:4] == b"RIFF" for name in songs())
    assert sha256_of((cache / WHEEL).read_bytes()) == WHEEL_SHA256
    assert b"MIT License" in found["LICENSE"]
    assert b"Nilo M. Recalde" in found["LICENSE"]
    assert sorted(path.name for path in cache.iterdir()) == ["great-tits", WHEEL]
    groups = list(csv.DictReader(found["groups.csv"].decode().splitlines()))
    assert {row["recording"]: row["group"] for row in groups} == birds_in(cache / WHEEL)


def test_nothing_is_done_when_all_is_there(copied):
    (copied / WHEEL).unlink()
    before = {path: path.stat().st_mtime_ns for path in (copied / "great-tits").iterdir()}
    told = []
    assert get(watch=told.append) == copied / "great-tits"
    assert told == []
    assert {path: path.stat().st_mtime_ns for path in (copied / "great-tits").iterdir()} == before


def test_another_folder_comes_from_the_wheel_that_was_kept(copied, tmp_path):
    told = []
    folder = get(tmp_path / "new" / "tits", watch=told.append)
    assert bytes_in(folder) == bytes_in(copied / "great-tits")
    assert told == [f"writing {len(bytes_in(folder))} files to {folder}"]
    assert [path.name for path in folder.parent.iterdir()] == ["tits"]


@pytest.mark.parametrize("name", [TABLE, *OWN])
def test_a_changed_file_is_replaced_and_kept(copied, name):
    folder = copied / "great-tits"
    whole = bytes_in(folder)
    (folder / name).write_bytes(whole[name][:100])
    (folder / "mine.outlark").write_text("a model")
    assert missing_or_changed(folder) == [name]
    get()
    assert bytes_in(folder) == whole | {f"{name}.old": whole[name][:100], "mine.outlark": b"a model"}


def test_what_is_missing_is_written(copied):
    folder = copied / "great-tits"
    whole = bytes_in(folder)
    for name in (SONG, TABLE):
        (folder / name).unlink()
    get()
    assert bytes_in(folder) == whole


def test_tables_need_no_wheel(copied):
    (copied / WHEEL).unlink()
    (copied / "great-tits" / TABLE).unlink()
    assert missing_or_changed(get()) == []


# ---------------------------------------------------------------------- what goes wrong


@pytest.mark.usefixtures("offline")
def test_without_network(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "cache"))
    told = []
    with pytest.raises(InputError, match=r"could not be downloaded; pip said: 'ERROR: .*'; connect .* --wheel FILE$"):
        get(watch=told.append)
    assert told == ["downloading pykanto 0.1.8, 8 MB"]
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_network_and_with_the_wheel(cache, tmp_path, offline, monkeypatch):
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "cache"))
    folder = get(wheel=cache / WHEEL)
    assert folder == tmp_path / "cache" / "great-tits"
    assert bytes_in(folder) == bytes_in(cache / "great-tits")


def test_a_damaged_wheel_is_fetched_again_and_nothing_is_taken_from_it(copied):
    (copied / WHEEL).write_bytes((copied / WHEEL).read_bytes()[:-1])
    (copied / "great-tits" / SONG).unlink()
    before = bytes_in(copied / "great-tits")
    with pytest.raises(InputError, match="could not be downloaded"):
        get()
    assert bytes_in(copied / "great-tits") == before


def test_a_wheel_of_the_same_name_that_is_another(copied, tmp_path, monkeypatch):
    other = tmp_path / "links" / WHEEL
    other.parent.mkdir()
    shutil.move(copied / WHEEL, other)
    with zipfile.ZipFile(other, "a") as archive:
        archive.writestr("pykanto/more.py", "")
    shutil.rmtree(copied / "great-tits")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(other.parent))
    expected = rf"not the expected {WHEEL}: its SHA-256 is {sha256_of(other.read_bytes())}, not {WHEEL_SHA256}"
    with pytest.raises(InputError, match=expected):
        get()
    with pytest.raises(InputError, match=expected):
        get(wheel=other)
    assert list(copied.iterdir()) == []


@pytest.mark.usefixtures("offline")
def test_a_wheel_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"no\.whl: there is no such file; give the wheel pykanto-0.1.8"):
        get(tmp_path / "tits", wheel=tmp_path / "no.whl")
    assert list(tmp_path.iterdir()) == []


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="contains other files and none of the songs; give a folder"):
        get(tmp_path)
    with pytest.raises(InputError, match=r"diary\.txt is a file; give a folder"):
        get(tmp_path / "diary.txt")
    assert bytes_in(tmp_path) == {"diary.txt": b"mine"}


def test_without_pip(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    code = (
        f"import sys\nsys.path.insert(0, {str(SOURCE)!r})\nfrom outlark.data.great_tits import get\n"
        "try: get()\nexcept ValueError as error: print(error)"
    )
    environment = {**os.environ, "OUTLARK_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ""}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert "No module named pip" in done.stdout
    assert "--wheel FILE" in done.stdout
    assert list((tmp_path / "cache").iterdir()) == []


# ---------------------------------------------------------------------- where it is kept


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    monkeypatch.delenv("OUTLARK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    for platform, folder in {
        "linux": "/home/me/.cache/outlark",
        "darwin": "/home/me/Library/Caches/outlark",
        "win32": "/local/outlark/Cache",
    }.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert cache_folder() == Path(folder)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/me/.cache/outlark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "outlark"
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "mine"))
    assert usual_folder() == tmp_path / "mine" / "great-tits"


# ---------------------------------------------------------------------- labels


def test_marks_lie_in_their_songs_and_apart(cache):
    for name in songs():
        table = read_annotations(cache / "great-tits" / (Path(name).stem + TABLE_ENDING))
        assert table.format == "raven"
        annotations = sorted(table.annotations, key=lambda annotation: annotation.start_s)
        sound = soundfile.info(cache / "great-tits" / name)
        assert {annotation.recording for annotation in annotations} == {name}
        assert all(0 <= annotation.start_s < annotation.end_s <= sound.duration for annotation in annotations)
        assert all(before.end_s < after.start_s for before, after in pairwise(annotations))
        assert all(500 < annotation.low_hz < annotation.high_hz < sound.samplerate / 2 for annotation in annotations)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2021-B32-0415_05-11", "2021-B32-0415_05-6"),
        ("2021-B32-0416_04-21", "2021-B32-0416_05-20"),
        ("2021-SW83-0418_04-77", "2021-SW83-0418_04-79"),
        ("2021-SW83-0418_04-86", "2021-SW83-0418_04-92"),
    ],
)
def test_notes_of_one_song_are_found_in_another(cache, one, other):
    folder = cache / "great-tits"
    detector = learn(find_examples([folder / (one + TABLE_ENDING)])).detector
    found = [segment for segment in detector.detect(folder / f"{other}.wav") if segment.verdict == "known"]
    truth = read_annotations(folder / (other + TABLE_ENDING)).annotations
    score = event_f(events(truth), events(found)).pooled
    # over all pairs of songs of the same types: .99 and .94; what is found too often are echoes
    assert score.recall > 0.85
    assert score.f > 0.8


def events(spans):
    starts, ends, names = zip(*((span.start_s, span.end_s, span.label) for span in spans), strict=True)
    return Events(starts, ends, names)
