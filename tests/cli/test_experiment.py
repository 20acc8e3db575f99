"""`outlark experiment` and `outlark demo`: tables on the screen, files in the folder, messages."""

import csv
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark.annotations import Annotation, read_annotations, write_annotations
from outlark.cli.main import main
from outlark.data.great_tits import get
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from tests.data.test_great_tits import fetched
from tests.paper.experiment.test_dataset import clip_folder as clips

FILES = {
    *("results.csv", "results.json", "figure1.png", "report.html", "test_clip.wav"),
    *("test_clip.Table.1.selections.txt", "test_clip.Table.1.selections.txt.about.json"),
}


def outlark(*args):
    return CliRunner().invoke(main, list(map(str, args)))


def experiment(*args):
    return outlark("experiment", *args, "-j", 1)


def test_demo(tmp_path):
    done = outlark("demo", "--seeds", 1, "-o", tmp_path / "a", "-j", 1)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "a").iterdir()} == FILES
    assert "tuti-D" in done.stdout
    assert "its own recordings" in done.stdout  # the paper's figures are set apart
    assert f"report: {tmp_path / 'a' / 'report.html'}" in done.stderr
    content = json.loads((tmp_path / "a" / "results.json").read_text())
    of_default = [row["f"] for row in content["table_2"] if row["method"] == "mddkm"]
    assert min(of_default) > 0.9
    clip, rate = soundfile.read(tmp_path / "a" / "test_clip.wav")
    table = read_annotations(tmp_path / "a" / "test_clip.Table.1.selections.txt")
    assert len(table.annotations) == 50
    assert table.annotations[-1].end_s == pytest.approx(len(clip) / rate, abs=1e-3)
    assert "not public" in (tmp_path / "a" / "report.html").read_text()


def test_an_experiment_is_the_same_with_any_number_of_processes(tmp_path):
    args = ("--seeds", 2, "-m", "mddkm", "-m", "pknn-paper", "--max-test", 2)
    for jobs in (1, 2):
        assert outlark("experiment", *args, "-o", tmp_path / str(jobs), "-j", jobs, "-q").exit_code == 0
    one, two = ((tmp_path / name / "results.csv").read_bytes() for name in "12")
    assert one == two
    seeds = {row["seed"] for row in csv.DictReader(one.decode().splitlines())}
    assert seeds == {"1", "2"}


def test_an_experiment_that_is_stopped_goes_on(tmp_path):
    args = ["-m", "mddkm", "--max-test", "1", "-j", "1", "-q"]
    whole = [sys.executable, "-m", "outlark", "experiment", *args, "-o", str(tmp_path / "a"), "--seeds", "5000"]
    kept = tmp_path / "a" / "seeds_done"
    process = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True)
    while len(list(kept.rglob("output.pkl"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told = process.communicate()[1]
    assert process.returncode not in (0, None)
    assert f"kept in {kept}: give the same command again to resume" in told
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    n_seeds = len(list(kept.rglob("output.pkl"))) + 1
    for folder in "ab":
        assert outlark("experiment", *args, "-o", tmp_path / folder, "--seeds", n_seeds).exit_code == 0
    assert not kept.exists()
    assert (tmp_path / "a" / "results.csv").read_bytes() == (tmp_path / "b" / "results.csv").read_bytes()


def test_a_folder_of_clips_and_groups(tmp_path):
    folder = clips(tmp_path / "clips", {"tuti-F": 4, "cach-E": 4, "cach-C": 3})
    files = sorted(folder.rglob("*.wav"))
    table = tmp_path / "groups.csv"
    table.write_text("file,group\n" + "".join(f"{f.parent.name}/{f.name},{i % 4}\n" for i, f in enumerate(files)))
    args = ("--groups", table, "--train", 1, "--known", "tuti-F", "--known", "cach-E", "--seeds", 1, "-m", "mddkm")
    done = experiment(folder, *args, "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["data"]["classes"] == {"tuti-F": 4, "cach-E": 4, "cach-C": 3}
    assert content["outcomes"][0]["known"] == ["tuti-F", "cach-E"]
    assert set(content["files"]) >= {"report", "Figure 1"}


def test_a_folder_of_tables_whose_recordings_are_elsewhere(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "sounds").mkdir()
    for night in range(3):
        played = notes(seed=night, counts={"tuti-F": 1, "cach-E": 1, "cach-C": 1})
        audio, truth = concatenate(played, gap_s=0.2, edge_s=0.2, rng=np.random.default_rng(night))
        soundfile.write(tmp_path / f"sounds/{night}.wav", audio, SAMPLE_RATE)
        annotations = [Annotation(start_s=n.start_s, end_s=n.end_s, label=n.label) for n in truth]
        write_annotations(tmp_path / f"tables/{night}.labels.txt", annotations, format="audacity")
    args = ("--seeds", 1, "-m", "mddkm", "--n-known", 2, "--train", 1, "--json")
    done = experiment(tmp_path / "tables", "--audio", tmp_path / "sounds", *args, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["data"]["classes"] == {"cach-C": 3, "cach-E": 3, "tuti-F": 3}
    without = experiment(tmp_path / "tables", *args, "-o", tmp_path / "out2")
    assert without.exit_code == 1
    assert "--audio" in without.stderr


def test_great_tits(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("OUTLARK_CACHE", str(fetched(tmp_path_factory.getbasetemp() / "great_tits_cache")))
    get()
    done = experiment("great-tits", "--seeds", 1, "-m", "mddkm", "-o", tmp_path, "--json", "--max-test", 4)
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert sum(content["data"]["classes"].values()) == 175
    assert len(content["outcomes"][0]["known"]) == 3
    assert np.mean([f for f in content["outcomes"][0]["note_f"].values() if f is not None]) > 0.6


def test_list_methods():
    done = experiment("--list-methods")
    assert done.exit_code == 0
    assert "mddkm-paper" in done.stdout
    assert "pknn-paper-left-out" in json.loads(experiment("--list-methods", "--json").stdout)["methods"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-m", "magic"], "there is no method 'magic'; choose one of mddkm-paper"),
        (["synthetic", "great-tits"], "'synthetic' and other data together"),
        (["--known", "song"], "synthetic has no class 'song'; it has tuti-D"),
        (["--train", "9"], "notes of 'tuti-F' to train on, expected 9"),
        (["nowhere"], "nowhere"),
        (["--gap", "long"], "'long' is not a duration"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, args, message):
    done = experiment(*args, "--seeds", 1, "-o", tmp_path / "out")
    assert done.exit_code != 0
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_results_do_not_go_among_the_data(tmp_path):
    folder = clips(tmp_path / "clips", {"tuti-F": 3, "cach-E": 3, "cach-C": 3})
    done = experiment(folder, "-m", "mddkm", "--seeds", 1, "-o", folder / "results")
    assert done.exit_code == 1
    assert "inside the data in" in done.stderr
    assert not (folder / "results").exists()


def test_nothing_unknown_is_told(tmp_path):
    folder = clips(tmp_path / "clips", {"tuti-F": 3, "cach-E": 3})
    args = ("--known", "tuti-F", "--known", "cach-E", "-m", "mddkm", "--seeds", 1)
    done = experiment(folder, *args, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "every class is known" in done.stderr


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = experiment("-m", "mddkm", "--seeds", 1, "--max-test", 1, "-o", tmp_path / "file" / "out")
    assert done.exit_code == 1
    assert "cannot be created" in done.stderr
