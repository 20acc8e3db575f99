"""Runs over recordings of two sites and several hours, counted by the program and one by one."""

import csv
import json
import re
import shutil
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import load, save
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE
from tests.recordings_on_disk import song

#: By name, the songs in it; crossing an hour, crossing midnight, and one in which nothing is.
RECORDINGS = {
    "pond/20240430_235958.wav": [0, 1, 2, 3, 5, 6, 7, 8],
    "pond/20240501_045959.wav": [10, 11, 12],
    "pond/20240501_050500.wav": [],
    "ridge/R1_20240501_050000.wav": [15, 16, 17, 18],
    "ridge/R1_20240502_050000.wav": [20, 4],
    "ridge/undated.wav": [21, 22],
}
MOTH = "Recorded at 03:30:00 01/05/2024 (UTC) by AudioMoth 24F3190361DA539A"


def write(path: Path, songs: list[int], comment: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    quiet = 1e-4 * np.random.default_rng(0).normal(size=2 * SAMPLE_RATE)
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1) as file:
        if comment:
            file.comment = comment
        file.write(np.concatenate([song(seed) for seed in songs]) if songs else quiet)


def outlark(*args):
    return CliRunner().invoke(main, [*map(str, args)])


def summary(*args, code=0):
    done = outlark("summary", *args, "--json", "--quiet")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(model, tmp_path_factory) -> Path:
    """A run; not to be changed."""
    folder = tmp_path_factory.mktemp("season")
    for name, songs in RECORDINGS.items():
        write(folder / "in" / name, songs)
    write(folder / "in/moth/A.wav", [25, 26], MOTH)
    (folder / "in/pond/20240501_060000.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    whole = folder / "in/ridge/R1_20240503_050000.wav"
    write(whole, [27, 28, 30, 31])
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    done = outlark(
        "detect", model, folder / "in", "-o", folder / "out", "--format", "csv,raven", "--jobs", 1, "--quiet"
    )
    assert done.exit_code == 3, done.output
    return folder / "out"


@pytest.fixture
def copy(results, tmp_path) -> Path:
    shutil.copytree(results, tmp_path / "out")
    return tmp_path / "out"


def one_by_one(results: Path) -> tuple[dict, dict]:
    """Notes and hours by site, day and hour, from the table of all and from the files."""
    notes, hours = Counter(), defaultdict(float)
    with (results / "combined.csv").open() as file:
        for row in csv.DictReader(file):
            then = datetime.fromisoformat(row["start_time"]) if row["start_time"] else None
            when = (None, None) if then is None else (then.date().isoformat(), then.hour)
            label = "(unknown)" if row["verdict"] == "unknown" else row["label"]
            kind = "ambiguous" if row["verdict"] == "ambiguous" else "notes"
            notes[row["recording"].split("/")[0], *when, label, kind] += 1
    for path in (results.parent / "in").rglob("*.wav"):
        if path.name == "20240501_060000.wav":  # the damaged one
            continue
        site, frames = path.parent.name, soundfile.info(path).frames
        digits = path.stem.removeprefix("R1_")
        began = datetime(2024, 5, 1, 3, 30) if site == "moth" else None
        if digits[:1].isdigit():
            began = datetime.strptime(digits, "%Y%m%d_%H%M%S")
        for sample in range(0, frames, 5):  # a grid that is fine enough
            then = None if began is None else began + timedelta(seconds=sample / SAMPLE_RATE)
            when = (None, None) if then is None else (then.date().isoformat(), then.hour)
            hours[site, *when] += min(5, frames - sample) / SAMPLE_RATE / 3600
    return notes, hours


def test_counted_one_by_one(results):
    notes, hours = one_by_one(results)
    content = summary(results, "--by", "class,site,day", "--by", "hour")
    assert content["by"] == ["class", "site", "day", "hour"]
    assert content["sites"] == ["moth", "pond", "ridge"]
    found = {(row["site"], row["day"], row["hour"], row["class"]): row for row in content["rows"]}
    assert {key[:3] for key in found} == set(hours)
    assert {("pond", "2024-04-30", 23), ("pond", "2024-05-01", 0), ("ridge", None, None)} <= set(hours)
    for key, row in found.items():
        assert row["hours"] == pytest.approx(hours[key[:3]], rel=1e-3)
        assert row["notes"] == notes[*key, "notes"]
        assert row["ambiguous"] == (None if key[3] == "(unknown)" else notes[*key, "ambiguous"])
    assert sum(row["notes"] for row in content["rows"]) == sum(n for key, n in notes.items() if key[4] == "notes") > 15
    assert content["hours"] == pytest.approx(sum(hours.values()), rel=1e-6)


def test_what_was_not_heard_or_not_all_is_reported(results):
    content = summary(results)
    assert [one["recording"] for one in content["failed"]] == ["pond/20240501_060000.wav"]
    assert [one["recording"] for one in content["partial"]] == ["ridge/R1_20240503_050000.wav"]
    assert content["time_unknown"] == ["ridge/undated.wav"]
    assert content["zones"] == {"UTC+00:00": 1, "no zone": 6}
    assert (content["missing"], content["recordings"]) == ([], 8)
    done = outlark("summary", results)
    told = done.stderr
    assert "1 recording without a known start time, under 'time unknown': ridge/undated.wav" in told
    assert "1 recording that failed, not counted: pond/20240501_060000.wav" in told
    assert "1 recording processed in part, counted as far as they go: ridge/R1_2024" in told
    assert "recorders in different time zones (UTC+00:00: 1, no zone: 6): hours are local" in told
    assert re.search(r"8 recordings, 0\.00\d+ h, 3 sites, 2024-04-30 to 2024-05-03", told)
    assert done.stdout.split()[:5] == ["site", "class", "hours", "notes", "per"]


def test_the_partial_recording_counts_as_far_as_it_goes(results):
    row = next(row for row in summary(results, "--by", "site,day")["rows"] if row["day"] == "2024-05-03")
    info = soundfile.info(results.parent / "in/ridge/R1_20240503_050000.wav")
    assert 3600 * row["hours"] == pytest.approx(info.frames / SAMPLE_RATE)
    assert 3600 * row["hours"] < 0.6 * sum(len(song(seed)) for seed in (27, 28, 30, 31)) / SAMPLE_RATE


def test_another_zone(results):
    content = summary(results, "--by", "site,hour", "--timezone", "Europe/Berlin")
    assert {row["hour"] for row in content["rows"] if row["site"] == "moth"} == {5}  # 3:30 UTC in summer
    assert {row["hour"] for row in content["rows"] if row["site"] == "pond"} == {23, 0, 4, 5}
    told = outlark("summary", results, "--timezone", "Europe/Berlin").stderr
    assert "6 recordings without a time zone: assuming that their clocks show Europe/Berlin" in told


def test_sites_by_file_name(results):
    assert summary(results, "--site-from", "name")["sites"] == ["(no site)", "R1"]


def test_tables_that_were_worked_on(copy):
    table = copy / "ridge/R1_20240501_050000.wav.Table.1.selections.txt"
    before = summary(copy, "--by", "class", "--format", "raven")["rows"]
    assert [row["notes"] for row in before] == [row["notes"] for row in summary(copy, "--by", "class")["rows"]]
    lines = table.read_text().splitlines()
    known = next(i for i, line in enumerate(lines) if "\tknown\t" in line)
    table.write_text("\n".join(lines[:known] + lines[known + 1 :]) + "\n")
    after = summary(copy, "--by", "class", "--format", "raven")["rows"]
    assert sum(row["notes"] for row in before) - sum(row["notes"] for row in after) == 1


def test_a_table_that_is_gone_is_not_taken_for_silence(copy):
    (copy / "pond/20240501_045959.wav.outlark.csv").unlink()
    content = summary(copy, code=3)
    assert [one["recording"] for one in content["missing"]] == ["pond/20240501_045959.wav"]
    assert content["recordings"] == 7
    assert "1 recording without a readable annotation file, not counted: pond" in outlark("summary", copy).stderr


def test_files_and_figure(results, tmp_path):
    paths = [tmp_path / name for name in ("s.csv", "s.parquet", "s.png")]
    done = outlark("summary", results, "-o", paths[0], "-o", paths[1], "--figure", paths[2])
    assert done.exit_code == 0, done.output
    with paths[0].open() as file:
        assert len(list(csv.DictReader(file))) == len(summary(results)["rows"])
    assert paths[1].read_bytes()[:4] == b"PAR1"
    assert paths[2].stat().st_size > 20_000


def test_classes(results, model, tmp_path):
    labels = {row["class"] for row in summary(results, "--model", model)["rows"]}
    assert labels == {"tuti-D", "tuti-F", "cach-Z", "(unknown)"}
    assert {row["class"] for row in summary(results, "--class", "tuti-D")["rows"]} == {"tuti-D", "(unknown)"}
    broken, other, detector = tmp_path / "broken.outlark", tmp_path / "other.outlark", load(model)
    broken.write_bytes(b"other")
    detector.set_thresholds({"tuti-D": 9.0})
    save(detector, other)
    for args, told in (
        (["--class", "wren"], "no note has the label 'wren'; the labels are "),
        (["--model", broken], "broken.outlark: not a model file, or damaged or cut short: it begins with 'other'"),
        (["--model", other], "is not the model of the run"),
        (["-o", "s.txt"], "s.txt: a summary is written as .csv or .parquet"),
        (["--format", "dcase"], "files in the format dcase do not hold class labels"),
    ):
        assert told in summary(results, *args, code=1)["error"]


def test_wrong_usage(results, tmp_path):
    assert "no .outlark/journal.jsonl" in summary(tmp_path, code=1)["error"]
    for args, told in (
        (["--by", "week"], "'week' is not a column to count by; choose from class, site, day, hour"),
        (["--timezone", "Mars/North"], "'Mars/North' is not a known time zone"),
        (["--timezone", "../etc"], "'../etc' is not a known time zone"),
        (["--confidence", "1"], "1.0 is not in the range"),
    ):
        assert told in summary(results, *args, code=2)["error"]


def test_known_notes_alone(model, tmp_path):
    write(tmp_path / "in/20240501_050000.wav", [15, 16, 17, 18])
    args = ["detect", model, tmp_path / "in", "--jobs", 1, "--quiet"]
    assert outlark(*args, "-o", tmp_path / "known", "--verdict", "known").exit_code == 0
    (row, *more) = summary(tmp_path / "known", "--by", "site")["rows"]
    assert (more, row["ambiguous"], row["class"], row["site"]) == ([], None, "(known)", "in")
    assert outlark(*args, "-o", tmp_path / "unknown", "--verdict", "unknown").exit_code == 0
    assert "known notes were not written (--verdict unknown)" in summary(tmp_path / "unknown", code=1)["error"]


def test_scores_that_were_decided_on_later(model, tmp_path):
    write(tmp_path / "in/pond/20240501_045959.wav", [10, 11, 12])
    write(tmp_path / "in/ridge/20240501_045959.wav", [15, 16])
    run = ["--jobs", 1, "--quiet"]
    assert outlark("detect", model, tmp_path / "in", "-o", tmp_path / "a", "--keep-scores", *run).exit_code == 0
    assert outlark("decide", model, tmp_path / "a", "-o", tmp_path / "b", *run).exit_code == 0
    one, other = (summary(tmp_path / out, "--by", "class,site,hour") for out in "ab")
    assert one["rows"] == other["rows"]
    assert {row["hour"] for row in one["rows"]} == {4, 5}


def partition(results: Path) -> None:
    """The rows of all tables as Parquet by site and date."""
    arrow, dataset = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    with (results / "combined.csv").open() as file:
        rows = [
            {**row, "start_s": float(row["start_s"]), "label": row["label"] or None} for row in csv.DictReader(file)
        ]
    for row in rows:
        row |= {"site": row["recording"].split("/")[0], "date": row["start_time"][:10] or "unknown"}
    partitions = dataset.partitioning(arrow.schema([("site", arrow.string()), ("date", arrow.string())]), flavor="hive")
    table = arrow.Table.from_pylist(rows)
    dataset.write_dataset(table, results / "parquet/segments", format="parquet", partitioning=partitions)


def test_parquet_by_site_and_date_gives_the_same(copy):
    by = ["--by", "class,site,day,hour"]
    expected = summary(copy, *by)
    partition(copy)
    for table in copy.rglob("*.outlark.csv"):
        table.unlink()  # it is the Parquet that is read
    assert summary(copy, *by) == expected


def test_parquet_that_lacks_rows_is_not_taken_for_silence(copy):
    partition(copy)
    found = next((copy / "parquet/segments/site=pond/date=2024-04-30").glob("*.parquet"))
    found.unlink()
    content = summary(copy, code=3)
    assert [one["recording"] for one in content["missing"]] == ["pond/20240430_235958.wav"]
    assert " rows of it, but " in content["missing"][0]["message"]
    assert summary(copy, "--format", "csv")["missing"] == []


def test_parquet_that_is_damaged(copy):
    partition(copy)
    next((copy / "parquet").rglob("*.parquet")).write_bytes(b"PAR1 and no more")
    assert "the Parquet in it cannot be read" in summary(copy, code=1)["error"]
