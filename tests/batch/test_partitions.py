"""Rows by site and day, as other programs read them: DuckDB and Arrow say what combined.csv says."""

import csv
import json
import os

import numpy as np
import pytest
import soundfile

from outlark.batch.report import NULL_FOLDER, days_of
from outlark.batch.run import run
from outlark.batch.task import find
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE
from outlark.version import __version__
from tests.batch.in_process import InProcess, task_for
from tests.recordings_on_disk import song

pytest.importorskip("pyarrow")


@pytest.fixture
def season(tmp_path):
    """Two sites by their folders, over a midnight, and one recording without a clock."""
    names = ("x/POND_20260531_235957.wav", "x/POND_20260601_040000.wav", "wood/20260601_050000.wav", "x/y/none.wav")
    for i, name in enumerate(names):
        path = tmp_path / "rec" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.concatenate([song(i)] * 10), SAMPLE_RATE)
    soundfile.write(tmp_path / "rec/x/silent_20260602_000000.wav", np.zeros(8000), 8000)
    return tmp_path / "rec"


def go(model, output, *paths, **more):
    task = task_for(model, output, formats=("csv",), **more)
    return run(task, find(paths), driver=InProcess(task), combined=True, parquet=True)


def rows_of_all(report):
    with report.combined.open(newline="") as file:
        return sorted((row["recording"], round(float(row["start_s"]), 6), row["label"]) for row in csv.DictReader(file))


def test_duckdb_finds_the_rows_of_all_by_site_and_day(model, season, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    report = go(model, tmp_path / "out", season)
    assert report.parquet == tmp_path / "out/parquet"
    files = str(report.parquet / "segments/**/*.parquet")
    with duckdb.connect() as base:
        rows = base.sql(f"select * from read_parquet('{files}', hive_partitioning=true, hive_types_autocast=false)")
        found = rows.project("recording, start_s, coalesce(label, ''), site, date, start_time").fetchall()
    assert sorted((name, round(start, 6), label) for name, start, label, *_ in found) == rows_of_all(report)
    days = {(name, site, str(day) if day else None) for name, _, _, site, day, _ in found}
    assert days == {
        ("wood/20260601_050000.wav", "wood", "2026-06-01"),
        ("x/POND_20260531_235957.wav", "x", "2026-05-31"),
        ("x/POND_20260531_235957.wav", "x", "2026-06-01"),
        ("x/POND_20260601_040000.wav", "x", "2026-06-01"),
        ("x/y/none.wav", "x", None),
    }
    assert all(time is None or time[:10] == str(day) for *_, day, time in found)


def test_a_summary_reads_them(model, season, tmp_path):
    """Of the rows by site and day it says what it says of the tables."""
    from click.testing import CliRunner

    go(model, tmp_path / "out", season)
    by = ["summary", str(tmp_path / "out"), "--by", "class,site,day,hour", "--json", "-q"]
    of_rows, of_tables = (CliRunner().invoke(main, [*by, *more]) for more in ([], ["--format", "csv"]))
    assert of_rows.exit_code == of_tables.exit_code == 0
    assert json.loads(of_rows.stdout) == json.loads(of_tables.stdout)
    assert len(json.loads(of_rows.stdout)["rows"]) > 5


def test_arrow_finds_how_long_was_listened_where_and_when(model, season, tmp_path):
    from pyarrow import dataset

    report = go(model, tmp_path / "out", season)
    table = dataset.dataset(report.parquet / "recordings", partitioning="hive").to_table().to_pylist()
    heard = {(row["recording"], row["site"], str(row["date"])): row["seconds"] for row in table}
    assert heard["x/POND_20260531_235957.wav", "x", "2026-05-31"] == pytest.approx(3.0)
    total = sum(soundfile.info(path).duration for path in season.rglob("*.wav"))
    assert sum(heard.values()) == pytest.approx(total)
    assert ("x/silent_20260602_000000.wav", "x", "2026-06-02") in heard  # in which nothing was found
    assert {row["version"] for row in table} == {__version__}


def test_recordings_without_date_or_site_are_read_by_arrow_and_pandas(model, tmp_path):
    import pandas
    from pyarrow import dataset

    (tmp_path / "rec").mkdir()
    soundfile.write(tmp_path / "rec/none.wav", np.concatenate([song(0)] * 10), SAMPLE_RATE)
    report = go(model, tmp_path / "out", tmp_path / "rec")
    frame = pandas.read_parquet(report.parquet / "segments")
    assert len(frame) == len(rows_of_all(report)) > 0
    table = dataset.dataset(report.parquet / "recordings", partitioning="hive").to_table()
    assert set(table["date"].to_pylist()) == {"unknown"}
    (tmp_path / "rec/20260601_050000.wav").write_bytes((tmp_path / "rec/none.wav").read_bytes())
    go(model, tmp_path / "out", tmp_path / "rec")  # now one day is known
    table = dataset.dataset(report.parquet / "recordings", partitioning="hive").to_table()
    assert set(map(str, table["date"].to_pylist())) == {"2026-06-01", "None"}
    assert len(table) == 2


def test_a_manifest_knows_better(model, season, tmp_path):
    manifest = season / "m.csv"
    manifest.write_text("path,site,date\nx/POND_20260531_235957.wav,north / 7,2026-05-30\nx/y/none.wav,,2026-05-29\n")
    report = go(model, tmp_path / "out", manifest)
    segments = report.parquet / "segments"
    found = {path.parent.relative_to(segments).as_posix() for path in segments.rglob("*.parquet")}
    assert found == {"site=north%20%2F%207/date=2026-05-30", "site=y/date=2026-05-29"}
    from pyarrow import dataset

    table = dataset.dataset(report.parquet / "segments", partitioning="hive").to_table()
    assert set(table["site"].to_pylist()) == {"north / 7", "y"}


def test_only_what_changed_is_written_again(model, season, tmp_path):
    report = go(model, tmp_path / "out", season)
    files = {path: path.stat().st_mtime_ns for path in report.parquet.rglob("*.parquet")}
    assert len(files) == 10
    soundfile.write(season / "wood/20260601_050000.wav", song(7), SAMPLE_RATE)
    go(model, tmp_path / "out", season)
    changed = {path for path, at in files.items() if path.stat().st_mtime_ns != at}
    assert {path.parent.name + path.parent.parent.name for path in changed} == {"date=2026-06-01site=wood"}
    table = tmp_path / "out/x/y/none.wav.outlark.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:3]) + "\n")  # somebody deleted rows
    go(model, tmp_path / "out", season)
    from pyarrow import parquet

    (own,) = (report.parquet / f"segments/site=x/date={NULL_FOLDER}").rglob("*.parquet")
    assert parquet.read_table(own, partitioning=None).num_rows == 2
    (tmp_path / "out/wood/20260601_050000.wav.outlark.csv").unlink()
    (season / "wood/20260601_050000.wav").unlink()
    go(model, tmp_path / "out", season)
    assert "site=wood" not in os.listdir(report.parquet / "segments")


def test_days():
    def days(**entry):
        whole = {"recording": "a.wav", "path": "/card/DATA/a.wav", "began": None, "expansion": 1.0, **entry}
        return [(stay.site, stay.date, stay.seconds) for stay in days_of(whole)]

    assert days(seconds=5.0) == [("card", None, 5.0)]
    assert days(seconds=5.0, date="2026-01-01", site="x") == [("x", "2026-01-01", 5.0)]
    began = "2026-03-28T23:00:00+01:00"
    assert days(seconds=26 * 3600.0, began=began) == [
        ("card", "2026-03-28", 3600.0), ("card", "2026-03-29", 86400.0), ("card", "2026-03-30", 3600.0),
    ]  # fmt: skip
    assert days(seconds=3600.0, began=began) == [("card", "2026-03-28", 3600.0)]
    assert days(seconds=7200.0, began=began, expansion=10.0) == [("card", "2026-03-28", 720.0)]
    assert days(seconds=0.0, began=began) == [("card", "2026-03-28", 0.0)]


def test_parquet_needs_csv(model, season, tmp_path):
    from click.testing import CliRunner

    args = ["detect", str(model), str(season), "-o", str(tmp_path / "o"), "--parquet", "--format", "raven"]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2
    assert "--parquet joins files of the format csv; add --format csv" in done.output
