"""`outlark data`: what it prints, and that the commands it tells of work."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlark.cli.data import FIRST_SONG_TABLE, SETS, SYNTHETIC_TRIAL
from outlark.cli.main import main
from outlark.data.great_tits import WHEEL, labels, songs
from tests.data.test_great_tits import fetched
from tests.recordings_on_disk import environment


@pytest.fixture
def cache(tmp_path_factory, tmp_path, monkeypatch):
    """A copy of what was fetched, and no network."""
    shutil.copytree(fetched(tmp_path_factory.getbasetemp() / "great_tits_cache"), tmp_path / "the cache")
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "the cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    return tmp_path / "the cache"


def data(*args):
    return CliRunner().invoke(main, ["data", *map(str, args)])


def test_the_commands_that_are_told_work(cache, tmp_path):
    done = data("get", "great-tits")
    assert (done.exit_code, done.stdout) == (0, f"{cache / 'great-tits'}\n")
    told = [line.strip() for line in done.stderr.splitlines() if line.startswith("  outlark ")]
    assert [line.split()[1] for line in told] == ["train", "detect", "evaluate"]
    for line in told:
        program, *words = shlex.split(line)
        run = subprocess.run(
            [sys.executable, "-m", program, *words], cwd=tmp_path, env=environment(), capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
    assert "20 recordings, 58 s" in run.stdout
    table = {line.split()[0]: line.split() for line in run.stdout.splitlines() if line.startswith(("B32", "SW83"))}
    # true \ found: B32-a B32-b (unknown); notes of other types are unknown
    assert int(table["B32-a"][1]) >= 25  # of 29
    assert table["B32-b"][1:] == ["0", "26", "0"]
    assert int(table["B32-d"][3]) >= 18
    assert {table[f"SW83-{letter}"][1:3] == ["0", "0"] for letter in "abcd"} == {True}  # another bird


def test_get_to_a_folder_and_again(cache, tmp_path):
    done = data("get", "great-tits", "--to", tmp_path / "tits", "--json")
    told = json.loads(done.stdout)
    assert told.keys() == {"name", "folder", "replaced", "next"}
    assert (told["name"], told["folder"], told["replaced"]) == ("great-tits", str(tmp_path / "tits"), [])
    assert len(list(Path(told["folder"]).glob("*.wav"))) == len(songs())
    (tmp_path / "tits" / FIRST_SONG_TABLE).write_text("mine")
    again = data("get", "great-tits", "--to", tmp_path / "tits")
    assert f"{FIRST_SONG_TABLE} had changed: replaced, and the old one kept as {FIRST_SONG_TABLE}.old\n" in again.stderr
    assert (tmp_path / "tits" / f"{FIRST_SONG_TABLE}.old").read_text() == "mine"
    quiet = data("get", "great-tits", "--to", tmp_path / "tits", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (f"{tmp_path / 'tits'}\n", "")


def test_list(cache):
    assert json.loads(data("list", "--json").stdout)["data"][1:] == [
        {"name": "great-tits", "what": SETS["great-tits"], "there": True, "folder": str(cache / "great-tits")}
    ]
    shutil.rmtree(cache / "great-tits")
    assert data("list").stdout.splitlines()[2].split()[:2] == ["great-tits", "no"]


def test_what_is_said_of_it_is_true(cache):
    notes, types = len(labels()), len({row["Annotation"] for row in labels()})
    assert SETS["great-tits"].startswith(f"{len(songs())} songs of two great tits, {notes} notes of {types} types")
    size = sum(path.stat().st_size for path in (cache / "great-tits").iterdir())
    assert f"; {size / 1e6:.0f} MB, {(cache / WHEEL).stat().st_size / 1e6:.0f} MB to download" in SETS["great-tits"]


def test_without_network(cache):
    shutil.rmtree(cache)
    done = data("get", "great-tits", "--json")
    assert done.exit_code == 1
    assert "could not be downloaded; pip said: 'ERROR: " in json.loads(done.stdout)["error"]


def test_with_a_wheel(cache, tmp_path):
    shutil.move(cache / WHEEL, tmp_path / "w.whl")
    shutil.rmtree(cache)
    assert data("get", "great-tits", "--wheel", tmp_path / "w.whl").exit_code == 0
    assert json.loads(data("list", "--json").stdout)["data"][1]["there"]
    done = data("get", "great-tits", "--wheel", __file__, "--to", tmp_path / "other")
    assert "this is not the expected pykanto-0.1.8" in done.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["get"], "get needs a NAME; choose from synthetic, great-tits"),
        (["get", "blue-tits"], "'blue-tits' is not one of 'synthetic', 'great-tits'"),
        (["list", "great-tits"], "list takes no NAME, --to or --wheel"),
        (["fetch"], "'fetch' is not one of 'list', 'get'"),
    ],
)
def test_wrong_usage(args, told):
    done = data(*args)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


def test_inspect_reads_a_table(cache):
    done = CliRunner().invoke(main, ["inspect", str(cache / "great-tits" / FIRST_SONG_TABLE), "--json"])
    content = json.loads(done.stdout)["files"][0]
    assert (content["format"], content["labels"]) == ("raven", {"B32-a": 4, "B32-b": 4})
    assert content["recordings"][0]["path"] is not None


def test_synthetic_recordings_need_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path / "cache"))
    made = json.loads(data("get", "synthetic", "--json").stdout)
    assert len(list(Path(made["folder"]).glob("*.wav"))) == 4
    assert [line.split()[1] for line in made["next"]] == ["train", "detect", "evaluate"]
    assert data("get", "synthetic", "--wheel", "x.whl").exit_code == 2
    table, gone = Path(made["folder"], SYNTHETIC_TRIAL[0]), Path(made["folder"], "20240512_061500.wav")
    table.write_text("mine")
    gone.unlink()
    assert data("list").stdout.splitlines()[1].split()[:2] == ["synthetic", "no"]
    data("get", "synthetic")
    assert (table.read_text(), gone.exists()) == ("mine", True)
