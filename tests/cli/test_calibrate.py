"""`outlark calibrate`, and the runs that calibrate first."""

import json
import shutil

import numpy as np
import soundfile
from click.testing import CliRunner

from outlark.cli.main import main
from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.model_file import load
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


def test_detect_and_decide_calibrate_first_and_agree(model, tmp_path):
    folder = songs(tmp_path / "songs")
    found, again = tmp_path / "found", tmp_path / "again"
    for verb, given, output, more in (("detect", folder, found, ["--keep-scores"]), ("decide", found, again, [])):
        done = CliRunner().invoke(main, [verb, str(model), str(given), "-o", str(output), "--calibrate", "-q", *more])
        assert done.exit_code == 0, done.stderr
    tables = {name: text for name, text in contents(found).items() if not name.endswith(".scores")}
    assert tables == contents(again)
