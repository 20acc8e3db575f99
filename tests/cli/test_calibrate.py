"""`outlark calibrate`, and the runs that calibrate first."""

import json
import shutil

import numpy as np
import soundfile
from click.testing import CliRunner

from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.model_file import load, save
from tests.recordings_on_disk import contents, outlark


def songs(folder, n=3):
    """So many recordings with many notes each, known and unknown."""
    folder.mkdir()
    for seed in range(n):
        audio, _ = concatenate(notes(seed=seed), gap_s=0.1, edge_s=0.2, rng=np.random.default_rng(seed))
        soundfile.write(folder / f"song{seed}.wav", audio, SAMPLE_RATE)
    return folder


def test_it_writes_what_the_library_finds_and_draws_it(model, tmp_path):
    folder = songs(tmp_path / "songs")
    mine = shutil.copy(model, tmp_path / "m.outlark")
    done = outlark("calibrate", mine, folder, "--figure", tmp_path / "c.png", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    expected = load(model).calibrate(sorted(folder.glob("*.wav")))
    assert load(mine).calibration_ == expected.calibration_
    assert [of["threshold"] for of in answer["classes"]] == [c.threshold for c in expected.calibration_]
    for c in expected.calibration_:
        assert f"{c.label}: {c.in_words}" in done.stderr
    assert (tmp_path / "c.png").stat().st_size > 10_000


def test_the_model_stays_as_it_is_with_another_output(model, tmp_path):
    folder, before = songs(tmp_path / "songs", 1), model.read_bytes()
    done = CliRunner().invoke(main, ["calibrate", str(model), str(folder), "-o", str(tmp_path / "m"), "-q"])
    assert (done.exit_code, done.output) == (0, "")
    assert model.read_bytes() == before
    assert load(tmp_path / "m").calibration_


def test_what_cannot_be_read_is_told_and_the_rest_counts(model, tmp_path):
    folder = songs(tmp_path / "songs", 1)
    (folder / "broken.wav").write_bytes(b"RIFF")
    done = CliRunner().invoke(main, ["calibrate", str(model), str(folder), "-o", str(tmp_path / "m")])
    assert done.exit_code == 3
    assert "broken.wav: " in done.stderr
    assert load(tmp_path / "m").calibration_


def test_scores_of_another_model_do_not_count(model, tmp_path):
    folder, found, other = songs(tmp_path / "songs", 1), tmp_path / "found", tmp_path / "other.outlark"
    known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    save(NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE), other)
    done = CliRunner().invoke(main, ["detect", str(other), str(folder), "-o", str(found), "--keep-scores", "-q"])
    assert done.exit_code == 0, done.stderr
    (kept,) = found.glob("*.scores")
    done = CliRunner().invoke(main, ["calibrate", str(model), str(kept), "-o", str(tmp_path / "m")])
    assert done.exit_code == 3
    assert "song0.wav.scores: scores of another model (sha256 " in done.stderr
    done = CliRunner().invoke(main, ["calibrate", str(other), str(kept), "-o", str(tmp_path / "m")])
    assert done.exit_code == 0, done.stderr


def test_scores_are_decided_with_other_thresholds_of_the_same_model(model, tmp_path):
    """Only thresholds have changed, whether by calibration or by hand; the audio is not needed again."""
    folder, found, other = songs(tmp_path / "songs", 1), tmp_path / "found", tmp_path / "other.outlark"
    run = CliRunner().invoke(main, ["detect", str(model), str(folder), "-o", str(found), "--keep-scores", "-q"])
    assert run.exit_code == 0, run.stderr
    calibrated = CliRunner().invoke(main, ["calibrate", str(model), str(folder), "-o", str(other), "-q"])
    assert calibrated.exit_code == 0, calibrated.stderr
    save(load(other).set_thresholds([0.5] * len(load(other).classes_)), other)
    decided, detected = tmp_path / "decided", tmp_path / "detected"
    again = CliRunner().invoke(main, ["decide", str(other), str(found), "-o", str(decided), "-q"])
    assert again.exit_code == 0, again.stderr
    CliRunner().invoke(main, ["detect", str(other), str(folder), "-o", str(detected), "-q"])
    assert contents(decided)["song0.wav.outlark.csv"] == contents(detected)["song0.wav.outlark.csv"]


def test_the_channel_that_is_searched_is_the_one_that_counts(model, tmp_path):
    """The second channel is silent: nothing is to be found on it, whatever the first one holds."""
    folder, stereo = songs(tmp_path / "songs", 3), tmp_path / "stereo"
    stereo.mkdir()
    for path in folder.iterdir():
        audio, rate = soundfile.read(path)
        soundfile.write(stereo / path.name, np.column_stack([audio, np.zeros_like(audio)]), rate)
    for verb, more in (("calibrate", []), ("detect", ["--calibrate"])):
        told = {}
        for channel in ("1", "2"):
            output = tmp_path / f"{verb}{channel}"
            given = [verb, str(model), str(stereo), "-o", str(output), "--channel", channel, *more]
            told[channel] = CliRunner().invoke(main, given).stderr
        assert "0 peaks above" not in told["1"]
        assert told["2"].count("0 peaks above it and 0 below") == len(load(model).classes_)


def test_detect_and_decide_calibrate_first_and_agree(model, tmp_path):
    folder = songs(tmp_path / "songs")
    found, again = tmp_path / "found", tmp_path / "again"
    for verb, given, output, more in (("detect", folder, found, ["--keep-scores"]), ("decide", found, again, [])):
        done = CliRunner().invoke(main, [verb, str(model), str(given), "-o", str(output), "--calibrate", "-q", *more])
        assert done.exit_code == 0, done.stderr
    tables = {name: text for name, text in contents(found).items() if not name.endswith(".scores")}
    assert tables == contents(again)
