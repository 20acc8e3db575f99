"""`outlark evaluate --curve`: what each threshold finds, which one is suggested, and that it keeps its word."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark.annotations import Annotation, write_annotations
from outlark.cli.main import main
from outlark.commands.curve import ClassCurve, Point, tried_together
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.model_file import load, save
from tests.recordings_on_disk import save_model


def invoke(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def ran(*args):
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two noisy songs of known and unknown notes, with tables of what is there."""
    folder = tmp_path_factory.mktemp("songs")
    for seed in range(2):
        rng = np.random.default_rng(seed)
        audio, truth = concatenate(notes(seed=seed), gap_s=0.1, edge_s=0.2, rng=rng)
        soundfile.write(folder / f"song{seed}.wav", audio + 0.003 * rng.normal(size=len(audio)), SAMPLE_RATE)
        write_annotations(
            folder / f"song{seed}.csv", [Annotation.from_segment(s, f"song{seed}.wav") for s in truth], format="csv"
        )
    return folder


@pytest.fixture(scope="module")
def found(model, folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("found")
    ran("detect", model, folder, "-o", out, "-j", 1, "--keep-scores", "-q")
    return out


@pytest.fixture(scope="module")
def plain(model, folder, tmp_path_factory):
    """The same without scores."""
    out = tmp_path_factory.mktemp("plain")
    ran("detect", model, folder, "-o", out, "-j", 1, "-q")
    return out


def told(found, folder, model, *more):
    return json.loads(ran("evaluate", found, folder, "--model", model, "--json", "-q", *more).stdout)


def test_from_kept_scores_and_from_recordings_it_is_the_same(model, folder, found, plain, tmp_path):
    for path in folder.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    by_scores = told(found, tmp_path, model, "--curve")["curve"]  # the recordings are elsewhere
    assert told(plain, folder, model, "--curve")["curve"] == by_scores
    measures = told(plain, folder, model)["measures"]
    for of_class in by_scores["classes"]:
        label, now = of_class["label"], of_class["now"]
        assert now["score"] == load(model).layout_.thresholds[load(model).classes_.tolist().index(label)]
        assert now in of_class["points"]
        for count, measure in (
            ("found", "true_positives"),
            ("false", "false_positives"),
            ("missed", "false_negatives"),
        ):
            assert now[count] == measures[f"event_{measure}_iou_0.5"][label]
        scores = [point["score"] for point in of_class["points"]]
        assert scores == sorted(scores)


@pytest.mark.parametrize("aim", [[], ["--precision", "1"]])
def test_what_is_suggested_keeps_its_word(model, folder, aim, tmp_path):
    """Followed as it is printed, it finds what it promised; without --precision F never falls."""
    detector = load(model)
    detector.set_thresholds(dict.fromkeys(detector.classes_.tolist(), 0.13))  # so that there is something to gain
    save(detector, tmp_path / "low")
    ran("detect", tmp_path / "low", folder, "-o", tmp_path / "found", "-j", 1, "--keep-scores", "-q")
    before = told(tmp_path / "found", folder, tmp_path / "low")["measures"]["event_f_iou_0.5"]["(pooled)"]
    done = ran("evaluate", tmp_path / "found", folder, "--model", tmp_path / "low", "--curve", "-q", *aim)
    *_, line = done.stdout.splitlines()
    options = shlex.split(line.partition(": ")[2])
    assert set(options[::2]) == {"--threshold"}
    ran("decide", tmp_path / "low", tmp_path / "found", "-o", tmp_path / "again", "-j", 1, "-q", *options)
    after = told(tmp_path / "again", folder, tmp_path / "low")["measures"]
    assert after["event_f_iou_0.5"]["(pooled)"] > before
    suggested = told(tmp_path / "found", folder, tmp_path / "low", "--curve", *aim)["curve"]["classes"]
    for measure in ("recall", "precision"):
        promised = {c["label"]: c["suggested"][measure] for c in suggested if c["suggested"]}
        assert promised
        assert promised.items() <= after[f"event_{measure}_iou_0.5"].items()


def test_for_people(model, folder, found, tmp_path):
    done = ran("evaluate", found, folder, "--model", model, "--curve", tmp_path / "c.png", "--iou", 0.3)
    assert (tmp_path / "c.png").stat().st_size > 20_000
    table = done.stdout[
        done.stdout.index("each class against its threshold; events match at an IoU of 0.3") :
    ].splitlines()
    assert table[1].split() == ["class", "score", "found", "false", "missed", "precision", "recall", "F"]
    assert sum(" now" in line and ": " not in line for line in table) == 3
    assert sum("best F" in line and "(" in line for line in table) == 2  # the third class has fewer than ten notes
    rows = [line.split() for line in table[2:] if line.startswith("tuti-F")]
    assert 4 < len(rows) < 20
    assert float(rows[0][1]) == pytest.approx(load(model).trained_thresholds[2] / 2, abs=1e-3)
    assert "at an IoU of 0.3" in done.stdout.splitlines()[0]


def test_without_a_model_the_scores_in_the_tables_count(model, folder, plain):
    done = ran("evaluate", plain, folder, *(f"--class={c}" for c in load(model).classes_), "--curve", "--json")
    curve = json.loads(done.stdout)["curve"]
    assert "Note: the curve starts at the lowest score of the detections; --model also tries lower" in done.stderr
    by_model = told(plain, folder, model, "--curve")["curve"]
    for mine, its in zip(curve["classes"], by_model["classes"], strict=True):
        assert mine["now"] is None
        assert mine["points"][0]["found"] == its["now"]["found"]


def test_recordings_of_the_training_are_told(model, folder, found, tmp_path):
    detector = load(model)
    detector.model_.training[0]["name"] = "song0.wav"
    save(detector, tmp_path / "m")
    ran("detect", tmp_path / "m", folder, "-o", tmp_path / "out", "-j", 1, "-q")
    for curve in (["--curve"], []):
        done = ran("evaluate", tmp_path / "out", folder, "--model", tmp_path / "m", *curve)
        assert "Note: the model was trained on song0.wav, where notes score higher than elsewhere" in done.stderr
    another = save_model(tmp_path / "o", ("tuti-D", "cach-Z"))
    other = invoke("evaluate", found, folder, "--model", another, "--curve")
    assert other.exit_code == 1
    assert "scores of another model" in other.stderr


def test_what_cannot_be_is_refused(model, folder, found, plain, tmp_path):
    first = invoke("evaluate", "--curve", found, folder, "--model", model)
    assert first.exit_code == 2
    assert "is not the name of a figure (.png, .svg, .pdf); put --curve after DETECTIONS and TRUTH" in first.stderr
    alone = invoke("evaluate", found, folder, "--model", model, "--precision", 0.9)
    assert alone.exit_code == 2
    assert "--precision goes with --curve" in alone.stderr
    for value in ("0", "1.5", "nan"):
        assert invoke("evaluate", found, folder, "--curve", "--precision", value).exit_code == 2
    for path in folder.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    silent = invoke("evaluate", plain, tmp_path, "--model", model, "--curve")
    assert silent.exit_code == 1
    assert "song0.wav: --curve needs the recording or its scores, and found neither" in silent.stderr
    nowhere = invoke("evaluate", found, folder, "--model", model, "--curve", tmp_path / "no" / "c.png")
    assert nowhere.exit_code == 2
    assert "the folder does not exist" in nowhere.stderr


def test_a_suggestion_never_rests_on_few_detections_and_never_lowers_f(tmp_path):
    """Two sure detections reach any precision; following them would lose all other notes."""
    truth = [Annotation(start_s=t, end_s=t + 0.5, label="a", recording="x.wav") for t in range(1, 20)]
    found = [Annotation(start_s=t, end_s=t + 0.5, label="a", recording="x.wav", score=0.3) for t in range(1, 40)]
    best = [Annotation(start_s=t, end_s=t + 0.5, label="a", recording="x.wav", score=0.9) for t in (0.9, 2.1)]
    write_annotations(tmp_path / "truth.csv", truth, format="csv")
    write_annotations(tmp_path / "found.csv", [*best, *found[2:]], format="csv")

    def said(*more):
        return ran("evaluate", tmp_path / "found.csv", tmp_path / "truth.csv", "--curve", *more).stdout

    assert "--threshold" not in said("--precision", 0.95)
    assert "no suggestion" in said("--precision", 0.95)
    assert "--threshold a=0.3" in said("--precision", 0.4).splitlines()[-1]
    plain = said().splitlines()
    assert "--threshold a=0.3" in plain[-1]
    assert "chosen on these recordings" in plain[-2]
    few = [*best, *found[2:7]]
    write_annotations(tmp_path / "found.csv", few, format="csv")
    assert "--threshold" not in said()
    assert "7 detections at most" in said()


@pytest.mark.parametrize(("together", "kept"), [(18, True), (9, False)])
def test_suggestions_that_find_less_together_are_withheld(together, kept):
    """Each is the best of its curve, where all thresholds move at once; together they may not be."""
    now, better = Point(0.3, 15, 5, 5), Point(0.4, 18, 2, 2)
    found = [ClassCurve(label=label, points=(now, better), now=now) for label in "ab"]

    def at(thresholds):
        assert thresholds.tolist() == [[0.4, 0.4]]
        return [replace(curve, points=(Point(0.4, together, 2, 20 - together),), now=None) for curve in found]

    checked = tried_together(found, at)
    assert [curve.suggested() for curve in checked] == ([better, better] if kept else [None, None])
    alone = [found[0], replace(found[1], now=better)]
    assert tried_together(alone, at) == alone  # only one changes: its curve says it all
