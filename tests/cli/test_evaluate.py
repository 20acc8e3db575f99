"""`outlark evaluate`: tables for people, numbers for scripts."""

import csv
import json

import pytest
from click.testing import CliRunner

from outlark.annotations import Annotation, write_annotations
from outlark.cli.main import main
from tests.recordings_on_disk import outlark


def annotation(start_s, label=None, recording="night.wav", **more):
    return Annotation(start_s=start_s, end_s=start_s + 0.5, label=label, recording=recording, **more)


@pytest.fixture
def tables(tmp_path):
    found = [annotation(1, "a"), annotation(2.05, "a"), annotation(3, "b"), annotation(9, "a", "other.wav")]
    found.append(annotation(5, verdict="unknown"))
    truth = [annotation(1, "a"), annotation(2, "a"), annotation(5, "b"), annotation(3, "x")]
    truth.append(annotation(1, "a", "day.wav"))
    write_annotations(tmp_path / "found.csv", found, format="csv")
    write_annotations(tmp_path / "truth.csv", truth, format="csv")
    return tmp_path / "found.csv", tmp_path / "truth.csv"


def ran(*args, code=0):
    done = CliRunner().invoke(main, ["evaluate", *map(str, args)])
    assert done.exit_code == code, done.stderr
    return done


def told(*args):
    return json.loads(ran(*args, "--json").stdout)


def test_numbers_for_scripts(tables):
    answer = told(*tables, "--unknown", "x", "--iou", 0.5, "--iou", 0.9)
    assert answer["classes"] == ["a", "b"]
    assert (answer["missed"], answer["left_out"]) == (["day.wav"], ["other.wav"])
    measures = answer["measures"]
    assert measures["event_f_iou_0.5"] == {"a": 0.8, "b": 0.0, "(pooled)": 4 / 7, "(mean of classes)": 0.4}
    assert measures["event_recall_iou_0.9"]["a"] == pytest.approx(1 / 3)
    assert measures["onset_error_ms"]["(pooled)"] == pytest.approx(25.0)
    assert answer["answers"] == {
        "a": {"a": 2, "b": 0, "(unknown)": 1},
        "b": {"a": 0, "b": 0, "(unknown)": 1},
        "x": {"a": 0, "b": 1, "(unknown)": 0},
    }
    assert measures["window_f"]["(mean of classes)"] == pytest.approx(
        (measures["window_f"]["a"] + measures["window_f"]["b"]) / 2
    )
    assert any("the duration of 2 recordings (night.wav, day.wav) is unknown" in remark for remark in answer["remarks"])


def test_tables_for_people(tables, tmp_path):
    quiet = ran(*tables, "--detected-only", "--quiet")
    assert (quiet.stderr, "window F" in quiet.stdout) == ("", True)
    done = outlark("evaluate", *tables, "--class", "a", "-o", tmp_path / "m.csv")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["a", "3", "0.760", "0.800", "1.000", "0.667", "0.800", "25.0", "25.0"] in lines
    assert ["IoU", "0.5", "2", "0", "1", "1.000", "0.667", "0.800"] in lines
    assert ["x", "0", "1"] in lines
    assert "1 recording (day.wav) without detections: all their notes count as missed\n" in done.stderr
    assert "1 recording (other.wav) with detections but without truth: skipped\n" in done.stderr
    with (tmp_path / "m.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (f,) = [float(row["value"]) for row in rows if (row["measure"], row["class"]) == ("event_f_iou_0.5", "a")]
    assert f == pytest.approx(0.8)


def test_the_classes_of_a_model(tables, model):
    assert told(*tables, "--model", model)["classes"] == ["cach-Z", "tuti-D", "tuti-F"]
    assert told(*tables, "--model", model, "--class", "tuti-D")["classes"] == ["tuti-D"]
    assert "tuti-F" in ran(*tables, "--model", model, "--class", "a", code=1).stderr  # the classes that there are


def test_detections_without_labels_are_reported(tables, tmp_path):
    nameless = tmp_path / "nameless.csv"
    write_annotations(nameless, [annotation(1, verdict="known")], format="csv")
    assert [remark for remark in told(nameless, tables[1])["remarks"] if "no detection has a label" in remark]
    assert not [remark for remark in told(*tables)["remarks"] if "no detection has a label" in remark]


def test_rows_that_cannot_be_read_give_an_exit_code(tables):
    truth = tables[1]
    n_lines = len(truth.read_text().splitlines())
    with truth.open("a") as file:
        file.write("night.wav,?\n")
    done = ran(*tables, "--unknown", "x", code=3)
    assert f"{truth}, line {n_lines + 1}" in done.stderr
    assert "precision" in done.stdout


def test_labels_of_the_truth_from_another_column(tables, tmp_path):
    (tmp_path / "t.csv").write_text("recording,start_s,end_s,label,who\nnight.wav,1,1.5,x,a\n")
    assert told(tables[0], tmp_path / "t.csv", "--label-column", "who")["measures"]["notes"]["a"] == 1


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--class", "wren"], 1, "no annotation has the label 'wren'; the labels are a, b, x"),
        (["--class", "a", "--unknown", "x"], 2, "--unknown does not go with --class or --model"),
        (
            ["--unknown", "a", "--unknown", "b", "--unknown", "x"],
            1,
            "neither the truth nor the detections name a class",
        ),
        (["--iou", "0"], 2, "0 is not in the range 0<x<=1"),
        (["-o", "no/m.csv"], 1, "no/m.csv cannot be written: no does not exist"),
        (["--audio", "no"], 1, "no is not there; give a folder that holds recordings"),
    ],
)
def test_errors_say_what_to_do(tables, args, code, message):
    assert message in " ".join(ran(*tables, *args, code=code).stderr.split())
