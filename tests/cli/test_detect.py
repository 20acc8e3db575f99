"""`outlark detect` and `outlark decide`: the same segments as the library and the stream, whatever the way there."""

import csv
import json
import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import Decisions, model_file
from outlark.annotations import About, Annotation, read_annotations, write_annotations
from outlark.audio.facts import remark_on_bandwidth
from outlark.audio.sound import resample
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE
from outlark.version import __version__
from tests.recordings_on_disk import contents, journal_lines, outlark, save_model, song, start_and


def ran(*args, code=0, jobs=1):
    """In this process, which has imported everything already; the workers are processes of their own as always."""
    done = CliRunner().invoke(main, [*map(str, args), "-j", str(jobs), "--json"])
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def detected(model, recordings, tmp_path_factory):
    """All of it, with one process."""
    out = tmp_path_factory.mktemp("detected")
    report = ran("detect", model, recordings, "-o", out, "--format", "csv,raven", "--all", "--keep-scores")
    return out, report


def test_library_command_and_stream_find_the_same(model, recordings, detected, tmp_path):
    out, report = detected
    detector = model_file.load(model)
    for table in sorted(out.rglob("*.outlark.csv")):
        name = table.relative_to(out).as_posix().removesuffix(".outlark.csv")
        by_library = detector.detect(recordings / name)
        samples, rate = soundfile.read(recordings / name)
        stream = detector.stream(rate)
        by_stream = [s for at in range(0, len(samples), 777) for s in stream.push(samples[at : at + 777]).segments]
        assert by_stream + stream.finish().segments == by_library
        found = read_annotations(table)
        settings = {
            "channel": "mix",
            "decisions": detector.decisions.get_params(),
            "verdicts": ["known", "ambiguous", "unknown", "silence"],
        }
        about = About(version=__version__, model_sha256=report["model_sha256"], settings=settings)
        assert found.about == about.as_dict()
        low = remark_on_bandwidth(rate, None, 10_000.0) or ""
        annotations = [replace(Annotation.from_segment(segment, name), remark=low) for segment in by_library]
        write_annotations(tmp_path / "library.csv", annotations, format="csv", about=about)
        assert (tmp_path / "library.csv").read_bytes() == table.read_bytes()
        assert [annotation.segment(rate).start for annotation in found.annotations] == [
            segment.start for segment in by_library
        ]


def test_what_is_reported(recordings, detected):
    out, report = detected
    assert (report["recordings"], report["done"], report["skipped"], report["failed"]) == (12, 12, 0, 0)
    assert report["segments"].keys() == {"known", "ambiguous", "unknown", "silence"}
    assert report["segments"]["known"] >= 4
    assert report["segments"]["silence"] >= 12
    (low,) = [name for name in sorted(contents(recordings)) if soundfile.info(recordings / name).samplerate == 8000][:1]
    assert report["remarks"][0]["recording"] == low
    expected = "ends at 4000 Hz (sample rate 8000 Hz), but the model uses sound up to 10000"
    assert expected in report["remarks"][0]["message"]
    with (out / "remarks.csv").open(newline="") as file:
        assert [row["recording"] for row in csv.DictReader(file)] == [one["recording"] for one in report["remarks"]]
    assert report["combined"] == str(out / "combined.csv")
    assert len(read_annotations(report["combined"]).annotations) == sum(report["segments"].values())
    assert report["seconds_of_sound"] == pytest.approx(
        sum(soundfile.info(path).duration for path in recordings.rglob("*.*")), abs=1e-3
    )


def test_more_processes_change_nothing(model, recordings, detected, tmp_path):
    ran(
        "detect", model, recordings, "-o", tmp_path, "--format", "raven", "-f", "csv", "--all", "--keep-scores", "-j", 3
    )
    assert contents(tmp_path) == contents(detected[0])


def test_decide_gives_what_detect_gives(model, detected, tmp_path):
    report = ran("decide", model, detected[0], "-o", tmp_path, "--format", "csv,raven", "--all")
    assert report["done"] == 12
    scores = {name for name in contents(detected[0]) if name.endswith(".scores")}
    assert len(scores) == 12
    others = {*scores, "remarks.csv"}  # which names the files that were worked on
    decided, expected = contents(tmp_path), contents(detected[0])
    assert {name: blob for name, blob in decided.items() if name not in others} == {
        name: blob for name, blob in expected.items() if name not in others
    }


def test_decide_otherwise(model, recordings, detected, tmp_path):
    given = ("--activity-db", "none", "--min-unknown", "50ms", "--verdict", "unknown")
    ran("decide", model, detected[0], "-o", tmp_path, *given)
    detector = model_file.load(model).set_params(decisions=Decisions(activity_db=None, unknown_s=0.05))
    for table in tmp_path.rglob("*.outlark.csv"):
        name = table.relative_to(tmp_path).as_posix().removesuffix(".outlark.csv")
        expected = [s for s in detector.detect(recordings / name) if s.verdict == "unknown"]
        assert expected
        found = read_annotations(table).annotations
        assert [annotation.start_s for annotation in found] == pytest.approx([s.start_s for s in expected], abs=1e-8)
        assert {annotation.verdict for annotation in found} == {"unknown"}


def test_scores_of_another_model(detected, tmp_path):
    other = save_model(tmp_path / "other.outlark", ("tuti-D", "cach-Z"))
    (one, *_) = sorted(detected[0].rglob("*.scores"))
    report = ran("decide", other, one, "-o", tmp_path / "out", code=3)
    assert "scores of another model (sha256 " in report["failures"][0]["message"]


def test_one_channel_of_two(model, tmp_path):
    left, right = song(0), song(1)
    n = min(len(left), len(right))
    soundfile.write(tmp_path / "two.wav", np.column_stack([left[:n], right[:n]]), SAMPLE_RATE, subtype="FLOAT")
    ran("detect", model, tmp_path / "two.wav", "-o", tmp_path / "out", "--channel", 2, "--keep-scores")
    found = read_annotations(tmp_path / "out/two.wav.outlark.csv")
    assert {annotation.channel for annotation in found.annotations} == {2}
    assert found.about["settings"]["channel"] == 2
    known = [s for s in model_file.load(model).detect(right[:n].astype("f4"), SAMPLE_RATE) if s.verdict == "known"]
    assert [annotation.label for annotation in found.annotations if annotation.verdict == "known"] == [
        s.label for s in known
    ]
    ran("decide", model, tmp_path / "out", "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == {k: v for k, v in contents(tmp_path / "out").items() if ".scores" not in k}
    missing = ran("detect", model, tmp_path / "two.wav", "-o", tmp_path / "third", "--channel", 3, code=3)
    assert (
        "has 2 channels, but channel 3 was asked for; give mix, or a number from 1 to 2"
        in (missing["failures"][0]["message"])
    )


def test_stopped_and_resumed(model, recordings, detected, tmp_path):
    folder = tmp_path / "out"
    command = ("detect", model, recordings, "-o", folder, "--format", "csv,raven", "--all", "--keep-scores")
    process = start_and("stop", "state.done == 2", *command, "-j", 1)
    said = process.communicate()[1].decode()
    assert 2 <= journal_lines(folder) < 12
    assert process.returncode == 130, said
    assert said.endswith("\nstopped; give the same command again to resume\n\n")
    report = ran(*command)
    assert report["skipped"] >= 2
    assert contents(folder) == contents(detected[0])


def test_what_is_said(model, recordings, tmp_path):
    (tmp_path / "bad.wav").write_bytes(b"")
    done = outlark("detect", model, tmp_path / "bad.wav", recordings, "-o", tmp_path / "out", "-f", "audacity", "-j", 1)
    assert done.returncode == 3
    assert done.stdout == ""
    lines = done.stderr.splitlines()  # on a busy machine how far it is comes first
    summary, failed, which, odd, *_ = lines[next(i for i, line in enumerate(lines) if " processed in " in line) :]
    assert odd == f"2 with remarks, see {tmp_path / 'out/remarks.csv'}:"
    assert re.match(r"12 of 13 files processed in \d+:\d\d:\d\d, ", summary)
    assert summary.endswith(f"; results in {tmp_path / 'out'}")
    assert failed == f"1 failed, see {tmp_path / 'out/failures.csv'}:"
    assert "bad.wav is empty (0 bytes); copy or record it again" in which
    assert not (tmp_path / "out/combined.csv").exists()
    args = ("detect", model, recordings, "-o", tmp_path / "quiet", "--quiet", "--no-combined", "-j", 1)
    quiet = CliRunner().invoke(main, [*map(str, args)])
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    assert not (tmp_path / "quiet/combined.csv").exists()


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("--combined", "--format", "raven"), 2, "--combined joins files of the format csv; add --format csv"),
        (("-o", __file__), 1, f"{__file__} is a file; give a folder for the results with -o"),
    ],
)
def test_what_does_not_go_together(model, recordings, tmp_path, args, code, told):
    done = CliRunner().invoke(main, ["detect", str(model), str(recordings), "-o", str(tmp_path), *args])
    assert done.exit_code == code
    assert told in done.stderr


def test_a_recording_that_was_resampled_upwards_is_told(model, tmp_path):
    low = resample(np.tile(song(0), 4), SAMPLE_RATE, 8000)
    low += 0.003 * np.random.default_rng(0).normal(size=len(low))
    soundfile.write(tmp_path / "up.wav", resample(low, 8000, SAMPLE_RATE), SAMPLE_RATE)
    report = ran("detect", model, tmp_path / "up.wav", "-o", tmp_path / "out", "-f", "csv,raven")
    (remark,) = report["remarks"]
    assert re.match(r"holds no sound above (39|40)\d\d Hz \(resampled .* uses sound up to 10000 Hz", remark["message"])
    for table in (tmp_path / "out/up.wav.outlark.csv", tmp_path / "out/up.wav.Table.1.selections.txt"):
        assert {annotation.remark for annotation in read_annotations(table).annotations} == {remark["message"]}
    said = outlark("detect", model, tmp_path / "up.wav", "-o", tmp_path / "out", "-f", "csv,raven").stderr
    assert f"1 with remarks, see {tmp_path / 'out/remarks.csv'}:\n  up.wav: holds no sound above" in said


def test_tables_have_the_time_of_day_where_the_recorder_tells_it(model, tmp_path):
    (tmp_path / "night").mkdir()
    for name in ("SITE_20231024_235959.wav", "unnamed.wav"):
        soundfile.write(tmp_path / "night" / name, np.tile(song(0), 4), SAMPLE_RATE)
    args = ("-f", "csv,raven,audacity", "--all")
    ran("detect", model, tmp_path / "night", "-o", tmp_path / "out", *args, "--keep-scores")
    (began, nothing) = sorted((tmp_path / "out").rglob("*.outlark.csv"))
    annotations = read_annotations(began).annotations
    assert annotations[0].start_time == "2023-10-24T23:59:59.000000"
    began_at = datetime(2023, 10, 24, 23, 59, 59)
    for annotation in annotations:
        late = datetime.fromisoformat(annotation.start_time) - began_at
        assert late.total_seconds() == pytest.approx(annotation.start_s, abs=1e-6)
    assert any(annotation.start_time.startswith("2023-10-25T00:00:0") for annotation in annotations)
    assert {annotation.start_time for annotation in read_annotations(nothing).annotations} == {None}
    raven = read_annotations(tmp_path / "out/SITE_20231024_235959.wav.Table.1.selections.txt").annotations
    assert [m.start_time for m in raven] == [m.start_time for m in annotations if m.verdict != "silence"]
    bounds = [(m.low_hz, m.high_hz) for m in annotations if m.verdict != "silence"]
    assert [(m.low_hz, m.high_hz) for m in raven] == bounds  # those of the note, not 0 to half the sample rate
    assert all(500.0 < low < high < 10_000.0 for low, high in bounds)
    ran("decide", model, tmp_path / "out", "-o", tmp_path / "again", *args)
    assert contents(tmp_path / "again") == {k: v for k, v in contents(tmp_path / "out").items() if ".scores" not in k}
