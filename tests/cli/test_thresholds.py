"""`--threshold` and `--min-duration`: what they change, where they are kept, and what is refused."""

import csv
import json

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import model_file
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.paper.detector import FrameDetector
from tests.cli.test_calibrate import songs
from tests.recordings_on_disk import contents

CLASSES = ["cach-Z", "tuti-D", "tuti-F"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return songs(tmp_path_factory.mktemp("audio") / "songs", 2)


@pytest.fixture(scope="module")
def kept(model, folder, tmp_path_factory):
    """What a run with --keep-scores leaves."""
    return ran("detect", model, folder, tmp_path_factory.mktemp("kept") / "out", "--keep-scores")


def invoke(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def ran(verb, model, given, output, *more):
    done = invoke(verb, model, given, "-o", output, "-j", 1, *more)
    assert done.exit_code == 0, done.output
    return output


def rows(output, *labels):
    with (output / "combined.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["label"] and row["label"] in (labels or CLASSES)]


def tables(output):
    return {name: text for name, text in contents(output).items() if not name.endswith(".scores")}


def durations(output):
    return [float(row["end_s"]) - float(row["start_s"]) for row in rows(output)]


# ------------------------------------------------------------------ runs


def test_a_threshold_changes_labelled_notes_without_the_recordings(model, folder, kept, tmp_path):
    before = rows(kept, "tuti-F")
    scores = sorted(float(row["score"]) for row in before)
    wanted = (scores[0] + scores[-1]) / 2
    decided = ran("decide", model, kept, tmp_path / "decided", "--threshold", f"tuti-F={wanted}")
    after = rows(decided, "tuti-F")
    assert 0 < len(after) < len(before)
    assert all(float(row["score"]) >= wanted for row in after)
    assert rows(decided, "cach-Z", "tuti-D") == rows(kept, "cach-Z", "tuti-D")
    detected = ran("detect", model, folder, tmp_path / "detected", "--threshold", f"tuti-F={wanted}")
    assert tables(detected) == tables(decided)
    about = json.loads((decided / "outlark.about.json").read_text())
    assert about["settings"]["thresholds"] == {"tuti-F": wanted}


def test_one_for_all_and_one_by_name(model, kept, tmp_path):
    none = ran("decide", model, kept, tmp_path / "none", "--threshold", 99)
    assert rows(none) == []
    one = ran("decide", model, kept, tmp_path / "one", "--threshold", "tuti-F=0.2", "--threshold", 99)
    assert {row["label"] for row in rows(one)} == {"tuti-F"}
    low = ran("decide", model, kept, tmp_path / "low", "--threshold", 0.1)
    assert len(rows(low)) > len(rows(kept))


def test_a_shortest_note_holds_for_models_of_whole_notes(model, folder, kept, tmp_path):
    least = sorted(durations(kept))[len(durations(kept)) // 2] + 0.001
    decided = ran("decide", model, kept, tmp_path / "decided", "--min-duration", f"{least:.6f}")
    assert 0 < len(rows(decided)) < len(rows(kept))
    assert min(durations(decided)) >= least - 1e-4
    detected = ran("detect", model, folder, tmp_path / "detected", "--min-duration", f"{least:.6f}")
    assert tables(detected) == tables(decided)


def test_results_of_other_thresholds_are_not_taken_as_done(model, folder, tmp_path):
    out = ran("detect", model, folder, tmp_path / "out")
    again = invoke("detect", model, folder, "-o", out, "-j", 1, "--threshold", "tuti-F=0.9")
    assert again.exit_code == 1
    assert "results made with other settings" in again.stderr
    assert "thresholds None, now [None, None, 0.9]" in again.stderr
    other = ran("detect", model, folder, tmp_path / "other", "--threshold", "tuti-F=0.9")
    back = invoke("detect", model, folder, "-o", other, "-j", 1)
    assert back.exit_code == 1
    assert "thresholds [None, None, 0.9], now None" in back.stderr
    same = invoke("detect", model, folder, "-o", other, "-j", 1, "--threshold", "tuti-F=0.9")
    assert same.exit_code == 0
    assert "2 already done" in same.stderr


def test_the_thresholds_of_a_run_are_not_those_of_the_next(model, folder, tmp_path):
    """What was kept with other thresholds is decided on with those of the model, unless others are given."""
    plain = ran("detect", model, folder, tmp_path / "plain", "--no-calibrate")
    high = ran("detect", model, folder, tmp_path / "high", "--threshold", 99, "--keep-scores")
    assert rows(high) == []
    assert tables(ran("decide", model, high, tmp_path / "decided")) == tables(plain)


def test_below_what_was_looked_at_the_tables_say_that_edges_are_not_exact(model, folder, kept, tmp_path):
    half = model_file.load(model).trained_thresholds[2] / 2
    exact = ran("decide", model, kept, tmp_path / "exact", "--threshold", f"tuti-F={half}")
    assert {row["remark"] for row in rows(exact)} == {""}
    low = invoke("decide", model, kept, "-o", tmp_path / "low", "-j", 1, "--threshold", f"tuti-F={half / 2}")
    assert low.exit_code == 0
    assert "2 with remarks" in low.stderr
    (remark,) = {row["remark"] for row in rows(tmp_path / "low")}
    assert remark.startswith(f"the threshold {half / 2:.3g} of tuti-F is below {half:.3g}, from which edges were refin")
    # what was kept with a low threshold is exact from half of that on
    exact = ran("detect", model, folder, tmp_path / "again", "--threshold", half, "--keep-scores")
    below = ran("decide", model, exact, tmp_path / "below", "--threshold", f"tuti-F={half / 2}")
    assert {row["remark"] for row in rows(below)} == {""}


def test_what_is_set_by_hand_wins_over_calibration(model, folder, tmp_path):
    done = invoke("detect", model, folder, "-o", tmp_path / "out", "-j", 1, "--calibrate", "--threshold", "tuti-F=0.9")
    assert done.exit_code == 0
    assert "tuti-F: threshold 0.900 set by hand: kept" in done.stderr
    assert "tuti-D: threshold 0." in done.stderr
    about = json.loads((tmp_path / "out" / "outlark.about.json").read_text())["settings"]["thresholds"]
    assert about == {"tuti-F": 0.9}  # the others have too few sounds on either side
    assert about["tuti-F"] == 0.9
    useless = invoke("detect", model, folder, "-o", tmp_path / "no", "--calibrate", "--threshold", 0.5)
    assert useless.exit_code == 1
    assert "leaves nothing to --calibrate" in useless.stderr
    assert not (tmp_path / "no").exists()


# ------------------------------------------------------------------ models


def test_train_keeps_them_and_inspect_says_where_each_comes_from(folder, tmp_path):
    clips, plain, mine = tmp_path / "clips", tmp_path / "plain.outlark", tmp_path / "mine.outlark"
    for i, note in enumerate(notes(counts=dict.fromkeys(CLASSES, 3))):
        (clips / note.label).mkdir(parents=True, exist_ok=True)
        soundfile.write(clips / note.label / f"{i}.wav", note.samples, SAMPLE_RATE)
    assert invoke("train", clips, "-o", plain, "--no-check").exit_code == 0
    trained = model_file.load(plain).trained_thresholds
    told = invoke("train", clips, "-o", mine, "--no-check", "--threshold", "tuti-F=0.9", "--json")
    assert [of["threshold"] for of in json.loads(told.stdout)["classes"]] == [*trained[:2], 0.9]
    # the same as setting it for the run
    by_model = ran("detect", mine, folder, tmp_path / "by_model")
    by_run = ran("detect", plain, folder, tmp_path / "by_run", "--threshold", "tuti-F=0.9")
    assert rows(by_model) == rows(by_run) != []

    model_file.save(model_file.load(mine).calibrate_peaks([[valley(t) for t in trained]]), tmp_path / "all.outlark")
    (content,) = json.loads(invoke("inspect", tmp_path / "all.outlark", "--json").stdout)["files"]
    assert [of["threshold_from"] for of in content["classes"]] == ["calibration", "calibration", "hand"]
    assert [of["trained_threshold"] for of in content["classes"]] == trained.tolist()
    lines = invoke("inspect", tmp_path / "all.outlark").stdout
    calibrated = model_file.load(tmp_path / "all.outlark").layout_.thresholds[0]
    assert f"threshold {calibrated:.3f} calibrated, {trained[0]:.3f} from the examples" in lines
    assert f"threshold 0.900 set by hand, {trained[2]:.3f} from the examples" in lines
    assert f"threshold {trained[1]:.3f} from the examples\n" in invoke("inspect", plain).stdout


def valley(t0):
    """Scores of a class with few of them a little above t0."""
    return t0 * np.concatenate([np.linspace(0.5, 1.1, 40), np.linspace(1.7, 3.0, 40)])


def test_train_refuses_before_it_learns(tmp_path):
    (tmp_path / "clips" / "song").mkdir(parents=True)
    (tmp_path / "clips" / "song" / "1.wav").write_bytes(b"not sound: reading it would fail")
    done = invoke("train", tmp_path / "clips", "-o", tmp_path / "m", "--threshold", "sogn=0.4")
    assert done.exit_code == 1
    assert "--threshold: the model has no class 'sogn'; did you mean 'song'? There are song" in done.stderr


def test_other_commands_take_them_for_the_run(model, folder, tmp_path):
    recording = sorted(folder.iterdir())[0]
    samples, rate = soundfile.read(recording, dtype="int16")
    raw = samples.tobytes()
    heard = {}
    for name, more in (("plain", []), ("none", ["--threshold", "99"])):
        done = CliRunner().invoke(main, ["listen", str(model), "--rate", str(rate), *more], input=raw)
        assert done.exit_code == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        heard[name] = [line["label"] for line in lines if line.get("label")]
    assert heard["plain"]
    assert heard["none"] == []
    done = invoke("plot", model, recording, "-o", tmp_path / "a.png", "--threshold", "tuti-X=1")
    assert done.exit_code == 1
    assert "did you mean" in done.stderr
    assert invoke("plot", model, recording, "-o", tmp_path / "a.png", "--threshold", "tuti-F=0.5").exit_code == 0


def test_a_model_with_a_class_that_never_accepts_takes_a_threshold_for_another(tmp_path, folder):
    known = notes(counts=dict.fromkeys(CLASSES, 2))
    detector = FrameDetector.paper().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    detector.layout_.thresholds[0] = np.inf
    model_file.save(detector, tmp_path / "paper.outlark")
    ran("detect", tmp_path / "paper.outlark", folder, tmp_path / "out", "--threshold", "tuti-F=0.7")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["tuti-f=0.5"], "no class 'tuti-f'; did you mean 'tuti-F'? There are cach-Z, tuti-D, tuti-F"),
        (["robin=0.5"], "no class 'robin'; there are cach-Z, tuti-D, tuti-F"),
        (["tuti-F=0.5", "tuti-F=0.6"], "two thresholds for 'tuti-F', 0.5 and 0.6; give one of them"),
        (["0.5", "0.6"], "two thresholds for all classes, 0.5 and 0.6"),
    ],
)
@pytest.mark.parametrize("verb", ["detect", "decide"])
def test_classes_that_cannot_be_meant_are_refused(model, folder, kept, tmp_path, verb, given, message):
    more = [word for threshold in given for word in ("--threshold", threshold)]
    done = invoke(verb, model, folder if verb == "detect" else kept, "-o", tmp_path / "out", *more)
    assert (done.exit_code, message in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "loud", "tuti-F=", "tuti-F=0", "=0.5", "tuti-F=1e999", ""])
def test_values_that_cannot_be_are_refused(model, folder, tmp_path, value):
    done = invoke("detect", model, folder, "-o", tmp_path / "out", "--threshold", value)
    assert done.exit_code == 2
    assert "is not a threshold; give a number above 0, or NAME=X for one class" in done.stderr
