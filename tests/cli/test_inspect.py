"""`outlark plot`, `inspect` and `doctor`: looking at models, recordings and tables."""

import json
import re
import warnings

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import NoteDetector, model_file
from outlark.cli.main import main
from outlark.cli.plot import time
from outlark.data.synthetic import SAMPLE_RATE, notes
from tests.recordings_on_disk import outlark, song

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def ran(*args, code=0):
    done = CliRunner().invoke(main, [*map(str, args), "--json"])
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.concatenate([song(0), song(1), song(3)]), SAMPLE_RATE)
    return path


@pytest.mark.parametrize("kind", MAGIC)
def test_a_picture(model, recording, tmp_path, kind):
    (tmp_path / "truth.txt").write_text("0.15\t0.34\ttuti-D\n")
    picture = tmp_path / f"b.{kind}"
    args = ("plot", model, recording, "-o", picture, "--truth", tmp_path / "truth.txt", "--title", "Dawn", "--end", "1")
    report = ran(*args)
    assert picture.read_bytes().startswith(MAGIC[kind])
    assert picture.stat().st_size > 10_000
    assert (report["start_s"], report["end_s"]) == (0.0, 1.0)
    assert [path.name for path in tmp_path.glob(".outlark*")] == []


def test_options_of_pictures_make_a_difference(model, recording, tmp_path):
    (tmp_path / "truth.txt").write_text("0.15\t0.34\ttuti-D\n")
    variants = {
        "plain": (),
        "start": ("--start", "0:00.5"),
        "end": ("--end", "0.7"),
        "truth": ("--truth", tmp_path / "truth.txt"),
        "title": ("--title", "Dawn"),
        "decisions": ("--min-unknown", "5"),
    }
    for name, given in variants.items():
        ran("plot", model, recording, "-o", tmp_path / f"{name}.svg", *given)
    assert len({(tmp_path / f"{name}.svg").read_bytes() for name in variants}) == len(variants)


def test_one_channel_of_two(model, tmp_path):
    left, right = song(0), np.zeros(len(song(0)))
    soundfile.write(tmp_path / "two.wav", np.column_stack([left, right]), SAMPLE_RATE)
    assert ran("plot", model, tmp_path / "two.wav", "-o", tmp_path / "1.svg", "--channel", 1)["why"].endswith("note")
    second = ran("plot", model, tmp_path / "two.wav", "-o", tmp_path / "2.svg", "--channel", 2)
    assert second["why"].startswith("no note in the first 10 minutes")
    assert (tmp_path / "1.svg").read_bytes() != (tmp_path / "2.svg").read_bytes()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("83.5", 83.5), ("83.5s", 83.5), ("1:23.5", 83.5), ("1:02:03.25", 3723.25), ("0:00", 0.0), ("120:00", None),
     ("1:60", None), ("1:2:3", 3723.0), ("1:", None), ("-1", None), ("1:02:99", None), ("soon", None), (".5", 0.5)],
)  # fmt: skip
def test_times(text, seconds):
    if seconds is None:
        with pytest.raises(Exception, match=r"is not a time in a recording; give seconds, or 1:23.5, or 1:02:03.5"):
            time(text)
    else:
        assert time(text) == seconds


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("-o", "b.gif"), "b.gif: figures can be saved as .png, .svg, .pdf"),
        (("-o", "nowhere/b.png"), "the folder nowhere does not exist"),
        (("-o", "b.png", "--start", "5:00"), "--start 300, but the recording is .* s long; give an earlier time"),
        (("-o", "b.png", "--start", "1", "--end", "0.5"), "--end 0.5 is not after --start 1; give a later end"),
        (("-o", "b.png", "--truth", "no.csv"), "no.csv does not exist"),
    ],
)
def test_pictures_that_cannot_be(model, recording, args, told):
    done = CliRunner().invoke(main, ["plot", str(model), str(recording), *args])
    assert done.exit_code == 1
    assert re.search(told, done.stderr)


def test_what_plot_says(model, recording, tmp_path):
    done = outlark("plot", model, recording, "-o", tmp_path / "b.png")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(
        rf"{tmp_path}/b.png: 0.000 to \d.\d+ s of {recording} \(from one second before the first note\)\n", done.stderr
    )


def test_inspect_tells_what_it_is(model, recording, tmp_path):
    table = tmp_path / "a.txt"
    table.write_text("0.15\t0.34\ttuti-D\n1.0\t1.0\tpoint\n")
    done = outlark("inspect", model, recording, table)
    assert (done.returncode, done.stderr) == (0, "")
    of_model, of_recording, of_table = done.stdout.split("\n\n")
    assert of_model.startswith(f"{model}: model, ")
    assert re.search(
        r"class +cach-Z: 3 examples, 0.\d+ to 0.\d+ s, threshold \d.\d+ from the examples\n +recording 6, 0.000 to",
        of_model,
    )
    assert "features    note-level, 12 slices per note; spectra of 40 bands, 500 to 10000 Hz" in of_model
    assert "front end   NoteFrontEnd: change 1.0, high_hz 10000.0" in of_model
    assert re.search(r"sound +22050 Hz, 1 channel, 0:00:0\d.\d{3}\n", of_recording)
    assert re.search(r"peak +-\d+.\d dB re full scale\n", of_recording)
    assert "began       unknown: no GUANO" in of_recording
    assert "format      audacity (Audacity label track)" in of_table
    assert "annotations 2, from 0.150 to 1.000 s" in of_table
    assert f"named like the file: {recording}" in of_table


def test_inspect_as_json(model, recording):
    report = ran("inspect", model, recording)
    assert [file["kind"] for file in report["files"]] == ["model", "recording"]
    assert (report["failed"], report["failures"]) == (0, [])


def test_one_file_that_is_nothing_does_not_hide_the_others(recording, tmp_path):
    report = ran("inspect", tmp_path / "gone", recording, code=3)
    assert [file["kind"] for file in report["files"]] == ["recording"]
    assert "gone cannot be read" in report["failures"][0]["message"]
    assert "gone cannot be read" in ran("inspect", tmp_path / "gone", code=1)["error"]


def test_inspect_of_odd_recordings(tmp_path):
    loud = np.column_stack([np.full(8000, 1.0), np.zeros(8000)])
    soundfile.write(tmp_path / "SITE_20231024_120000.wav", loud, 8000)
    said = CliRunner().invoke(main, ["inspect", str(tmp_path / "SITE_20231024_120000.wav")]).stdout
    assert "2 channels, 0:00:01.000" in said
    assert "peak        -0.0, -∞ dB re full scale" in said
    assert "offset      the mean is 1.000, 0.000 of full scale, not 0" in said
    assert "clipped     50 % of the samples are at full scale" in said
    assert "silence     100 % of the recording is digital silence" in said
    assert "began       2023-10-24 12:00:00, time zone unknown (from the file name)" in said
    assert "damaged" not in said
    soundfile.write(tmp_path / "a.flac", np.random.default_rng(0).uniform(-0.5, 0.5, 160_000), 8000)
    (tmp_path / "b.flac").write_bytes((tmp_path / "a.flac").read_bytes()[:130_000])
    said = CliRunner().invoke(main, ["inspect", str(tmp_path / "b.flac")]).stdout
    assert "partial     cut short: its header announces 20.000 s" in said
    right = np.random.default_rng(0).uniform(-0.5, 0.5, 8000)
    soundfile.write(tmp_path / "c.wav", np.column_stack([right, -right]), 8000)
    said = CliRunner().invoke(main, ["inspect", str(tmp_path / "c.wav")]).stdout
    assert "its channels cancel each other in 100 % of it" in said
    assert "outlark summary does not count it" in said
    (tmp_path / "d.wav").write_bytes((tmp_path / "c.wav").read_bytes()[:40] + bytes(4))
    said = CliRunner().invoke(main, ["inspect", str(tmp_path / "d.wav")]).stdout
    assert "it holds no sound, only a header" in said


def test_inspect_lists_no_more_than_one_reads(tmp_path):
    rows = "".join(f"{i}.wav,0,1,label{i}\n" for i in range(50))
    (tmp_path / "t.csv").write_text("file,start,end,label\n" + rows)
    said = CliRunner().invoke(main, ["inspect", str(tmp_path / "t.csv")]).stdout
    assert said.count("… and 30 more") == 2
    assert "recordings  0.wav: not found" in said
    (report,) = ran("inspect", tmp_path / "t.csv")["files"]
    assert len(report["labels"]) == len(report["recordings"]) == 50


def test_the_doctor_is_content(model):
    done = outlark("doctor", model, "--strict")
    assert done.returncode == 0
    assert "good: steady white noise: none of 3 taken for a note" in done.stdout
    assert re.search(r"^problems: 0, warnings: \d+, good: \d+$", done.stderr, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def bad_model(tmp_path_factory):
    """Two classes of the same clips, so that each note is an example of both."""
    known = notes(counts={"tuti-D": 3})
    path = tmp_path_factory.mktemp("bad") / "bad.outlark"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = NoteDetector().fit([n.samples for n in known] * 2, ["a"] * 3 + ["b"] * 3, SAMPLE_RATE)
    model_file.save(detector, path)
    return path


def test_the_doctor_finds_problems(bad_model):
    report = ran("doctor", bad_model)
    assert report["problem"] >= 1
    assert report["problem"] + report["warning"] + report["good"] == len(report["findings"])
    severities = [finding["severity"] for finding in report["findings"]]
    assert severities == sorted(severities, key=["problem", "warning", "good"].index)
    assert any("labelled 'a' and 'b'" in finding["what"] for finding in report["findings"])
    assert ran("doctor", bad_model, "--strict", code=1)["findings"] == report["findings"]
    quiet = CliRunner().invoke(main, ["doctor", str(bad_model), "-q"])
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert quiet.stdout.startswith("problem: ")
