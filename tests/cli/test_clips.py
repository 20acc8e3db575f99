"""`outlark clips`: from what was found to folders of clips that `train` takes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark.annotations import read_annotations
from outlark.cli.main import main
from outlark.commands.train.examples import find_examples
from tests.recordings_on_disk import contents, outlark


def ran(*args, code=0):
    done = CliRunner().invoke(main, [*map(str, args), "--json"])
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(model, recordings, tmp_path_factory):
    """The table of all that was found in twelve recordings."""
    out = tmp_path_factory.mktemp("found")
    return ran("detect", model, recordings, "-o", out, "-f", "csv,raven", "-j", 1)["combined"]


def test_what_was_found_becomes_clips(found, recordings, tmp_path):
    report = ran("clips", found, "-o", tmp_path / "clips", "--audio", recordings)
    known = [annotation for annotation in read_annotations(found).annotations if annotation.verdict == "known"]
    assert report["clips"] == len(known) >= 4
    assert report["folders"] == {label: sum(m.label == label for m in known) for label in {m.label for m in known}}
    assert report["list"] == str(tmp_path / "clips/clips.csv")
    lines = (tmp_path / "clips/clips.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(known)
    for line, annotation in zip(lines[1:], sorted(known, key=lambda m: (m.recording, m.start_s)), strict=True):
        clip, rate = soundfile.read(tmp_path / "clips" / line.split(",")[0])
        whole, _ = soundfile.read(recordings / annotation.recording)
        segment = annotation.segment(rate)
        assert np.array_equal(clip, whole[segment.start : segment.end])
    examples = find_examples([tmp_path / "clips"])
    assert (examples.clips, examples.labels) == (True, sorted(report["folders"]))


def test_what_is_said(found, recordings, tmp_path):
    done = outlark(
        "clips", found, "-o", tmp_path / "a", "--audio", recordings, "--verdict", "unknown", "--max", 2, "--pad", "50ms"
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert f"2 clips in {tmp_path / 'a'}: 2 unknown" in done.stderr
    assert "annotations skipped: another verdict or class" in done.stderr
    args = ["clips", found, "-o", str(tmp_path / "b"), "--audio", str(recordings), "-q", "--format", "flac"]
    quiet = CliRunner().invoke(main, args)
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    assert all(name.endswith((".flac", "clips.csv")) for name in contents(tmp_path / "b"))


def test_the_same_command_gives_the_same_clips(found, recordings, tmp_path):
    args = ("clips", found, "--audio", recordings, "--class", "tuti-D", "--pad", 0.1)
    ran(*args, "-o", tmp_path / "a")
    ran(*args, "-o", tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    (tmp_path / "a/clips.csv").write_text("")
    assert "is not empty; give another folder, or --overwrite" in ran(*args, "-o", tmp_path / "a", code=1)["error"]
    ran(*args, "-o", tmp_path / "a", "--overwrite")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_one_missing_recording_does_not_stop_the_others(recordings, tmp_path):
    (one, *_) = sorted(recordings.rglob("*.wav"))
    table = tmp_path / "marks.csv"
    table.write_text(f"file,start,end,label\n{one},0.1,0.2,a\ngone.wav,0.1,0.2,a\n")
    report = ran("clips", table, "-o", tmp_path / "out", code=3)
    assert (report["clips"], report["failed"]) == (1, 1)
    assert "line 3: there is no recording 'gone.wav'" in report["failures"][0]["message"]
    assert "gone.wav" in (tmp_path / "out/failures.csv").read_text()


@pytest.mark.parametrize(
    ("text", "args", "told"),
    [
        (
            "a.wav,0.1,0.2,song",
            ("--verdict", "unknown"),
            "nothing to cut: 1 annotation skipped: another verdict or class",
        ),
        ("a.wav,0.1,0.2,song", ("--class", "call"), "no annotation has the label 'call'; the labels are song"),
        ("gone.wav,0.1,0.2,song", (), "nothing to cut: .*line 2: there is no recording 'gone.wav'"),
        ("a.wav,0.2,0.1,song", (), "line 2: the end, 0.1 s, is before the start, 0.2 s"),
        ("a.wav,0.1,0.2,song", ("--audio", "nowhere"), "nowhere is not there; give a folder that holds recordings"),
        ("a.wav,0.1,0.2,song", ("-o", __file__), "is a file; give a folder for the clips with -o"),
    ],
)
def test_errors(tmp_path, text, args, told):
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 8000)
    (tmp_path / "marks.csv").write_text(f"file,start,end,label\n{text}\n")
    done = CliRunner().invoke(main, ["clips", str(tmp_path / "marks.csv"), "-o", str(tmp_path / "out"), *args])
    assert done.exit_code == 1
    assert re.search(told, done.stderr)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_results(found, recordings, tmp_path):
    """Formats of one run count once, and the run knows where its recordings are."""
    folder = Path(found).parent
    whole = ran("clips", found, "-o", tmp_path / "a", "--audio", recordings)
    assert ran("clips", folder, "-o", tmp_path / "b")["folders"] == whole["folders"]


def test_rows_that_cannot_be_read_are_failures(found, recordings, tmp_path):
    lines = Path(found).read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines, ",".join(["x.wav", "?"])]) + "\n")
    told = ran("clips", tmp_path / "t.csv", "-o", tmp_path / "a", "--audio", recordings, code=3)
    assert f"line {len(lines) + 1}" in told["failures"][0]["message"]
    assert told["clips"] > 0
