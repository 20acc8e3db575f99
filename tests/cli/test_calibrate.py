"""`outlark calibrate`, and the runs that calibrate first."""

import json
import shutil

import hypothesis
import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from hypothesis import strategies as st

from outlark.batch import calibration
from outlark.batch.task import find
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


# ------------------------------------------------------------------ by default


def run(*words):
    done = CliRunner().invoke(main, [*map(str, words), "-j", "1"])
    assert done.exit_code == 0, done.stderr
    return done


@pytest.fixture
def stored(model, tmp_path):
    """A folder of songs, and what the library finds in them."""
    folder = songs(tmp_path / "songs", 8)
    expected = load(model).calibrate(sorted(folder.glob("*.wav"))).calibration_
    assert any(c.moved for c in expected)
    return folder, {c.label: c.threshold for c in expected if c.moved}


def thresholds_in(output):
    about = json.loads((output / "outlark.about.json").read_text())
    return about["settings"].get("thresholds", {})


def test_a_folder_is_listened_to_first_and_a_recording_is_not(model, stored, tmp_path):
    folder, expected = stored
    told = run("detect", model, folder, "-o", tmp_path / "all").stderr
    assert "thresholds fitted to 8 of 8 files" in told
    assert thresholds_in(tmp_path / "all") == expected
    answer = json.loads(run("detect", model, folder, "-o", tmp_path / "json", "--json").stdout)
    assert {c["label"]: c["threshold"] for c in answer["calibration"] if c["moved"]} == expected
    for output, given in (("off", [folder, "--no-calibrate"]), ("one", [folder / "song0.wav"])):
        assert "fitted" not in run("detect", model, *given, "-o", tmp_path / output).stderr
        assert thresholds_in(tmp_path / output) == {}
    asked = run("detect", model, folder / "song0.wav", "-o", tmp_path / "asked", "--calibrate").stderr
    assert "thresholds fitted to 1 of 1 file" in asked


def test_a_model_that_is_calibrated_stays_so(model, stored, tmp_path):
    folder, _ = stored
    mine = tmp_path / "m.outlark"
    run_of_calibrate = CliRunner().invoke(main, ["calibrate", str(model), str(folder / "song1.wav"), "-o", str(mine)])
    assert run_of_calibrate.exit_code == 0
    assert "fitted" not in run("detect", mine, folder, "-o", tmp_path / "out").stderr


def test_more_recordings_are_searched_with_the_thresholds_of_the_others(model, stored, tmp_path):
    folder, expected = stored
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in sorted(folder.iterdir())[6:]:
        path.rename(aside / path.name)
    run("detect", model, folder, "-o", tmp_path / "out")
    first = thresholds_in(tmp_path / "out")
    for path in aside.iterdir():
        path.rename(folder / path.name)
    told = run("detect", model, folder, "-o", tmp_path / "out").stderr
    assert "as fitted for the results that are there" in told
    assert "6 already done" in told
    assert thresholds_in(tmp_path / "out") == first
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    assert "8 already done" in run("detect", model, folder, "-o", moved).stderr
    assert "fitted to 8 of 8" in run("detect", model, folder, "-o", moved, "--no-resume").stderr
    assert thresholds_in(moved) == expected


def test_another_model_leaves_what_was_fitted_for_the_first(model, stored, tmp_path):
    folder, _ = stored
    known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    other = tmp_path / "other.outlark"
    save(NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE), other)
    run("detect", model, folder, "-o", tmp_path / "out")
    before = contents(tmp_path / "out")
    refused = CliRunner().invoke(main, ["detect", str(other), str(folder), "-o", str(tmp_path / "out"), "-j", "1"])
    assert refused.exit_code == 1
    assert contents(tmp_path / "out") == before
    assert "8 already done" in run("detect", model, folder, "-o", tmp_path / "out").stderr


def test_results_of_one_recording_are_continued_as_they_are(model, stored, tmp_path):
    folder, _ = stored
    run("detect", model, folder / "song0.wav", "-o", tmp_path / "out")
    told = run("detect", model, folder, "-o", tmp_path / "out").stderr
    assert "1 already done" in told
    assert "fitted" not in told
    asked = CliRunner().invoke(main, ["detect", str(model), str(folder), "-o", str(tmp_path / "out"), "--calibrate"])
    assert asked.exit_code == 1
    assert "calibrated None, now [" in asked.stderr


def test_scores_are_decided_with_what_was_fitted_unless_told_otherwise(model, stored, tmp_path):
    folder, _ = stored
    found = tmp_path / "found"
    run("detect", model, folder, "-o", found, "--keep-scores")
    tables = {name: text for name, text in contents(found).items() if not name.endswith(".scores")}
    run("decide", model, found, "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == tables
    run("detect", model, folder, "-o", tmp_path / "plain", "--no-calibrate")
    run("decide", model, found, "-o", tmp_path / "decided", "--no-calibrate")
    assert contents(tmp_path / "decided") == contents(tmp_path / "plain")


def test_long_recordings_are_heard_in_the_middle_and_no_more_than_enough(model, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "SAMPLE_S", 6.0)
    monkeypatch.setattr(calibration, "LEAST_EXCERPT_S", 1.0)
    rng, loud = np.random.default_rng(0), notes(counts={"tuti-F": 40})
    audio, _ = concatenate(loud, gap_s=0.1, edge_s=0.2, rng=rng)
    quiet = rng.normal(scale=1e-4, size=SAMPLE_RATE * 20)
    for number in range(3):
        soundfile.write(tmp_path / f"{number}.wav", np.concatenate([quiet, audio, quiet]), SAMPLE_RATE)
    found = calibration.calibrated_on_sample(load(model), find([tmp_path]), None, lambda *_: None)
    assert found.n_heard == 3
    assert found.seconds == pytest.approx(6.0)
    label = {c.label: c for c in found.classes}["tuti-F"]
    assert label.n_above >= 10  # the quiet ends hold none


@hypothesis.given(st.integers(2, 400))
def test_the_first_of_a_spread_lie_evenly(n):
    order = calibration.spread(n)
    assert sorted(order) == list(range(n))
    some = sorted(order[: -(-n // 4)])
    gaps = np.diff([*some, n + some[0]])
    assert gaps.max() <= 8
