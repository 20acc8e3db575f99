"""`outlark convert` and `outlark formats`."""

import json

import pytest
from click.testing import CliRunner

from outlark.annotations import FORMATS, read_annotations, write_annotations
from outlark.cli.main import main
from outlark.commands.convert import EXAMPLE
from tests.recordings_on_disk import outlark


def ran(*args, code=0):
    done = CliRunner().invoke(main, list(map(str, args)))
    assert done.exit_code == code, done.stderr
    return done


@pytest.fixture
def table(tmp_path):
    write_annotations(tmp_path / "night.outlark.csv", EXAMPLE, format="csv")
    return tmp_path / "night.outlark.csv"


def test_a_table(table, tmp_path):
    target = tmp_path / "night.Table.1.selections.txt"
    done = outlark("convert", table, target)
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        done.stderr
        == f"{table} (csv, 2 annotations) → {target} (raven, 2 annotations)\n  lost: sample rate (2 annotations)\n"
    )
    assert [annotation.label for annotation in read_annotations(target).annotations] == ["song", None]


def test_for_scripts(table, tmp_path):
    done = ran("convert", table, tmp_path / "x.txt", "--to", "audacity", "--json", "--quiet")
    assert done.stderr == ""
    (told,) = json.loads(done.stdout)["tables"]
    assert (told["from"], told["to"], told["annotations"], told["written"]) == ("csv", "audacity", 2, 2)
    assert "lost: reason (2 annotations)" in told["lost"]


def test_into_a_folder(table, tmp_path):
    (tmp_path / "out").mkdir()
    ran("convert", table, tmp_path / "out", "--to", "audacity")
    assert (tmp_path / "out/night.labels.txt").exists()


def test_the_output_as_an_option(table, tmp_path):
    target = tmp_path / "night.labels.txt"
    ran("convert", table, "-o", target)
    assert target.exists()
    assert "Give OUT once" in ran("convert", table, target, "-o", target, code=2).stderr
    assert "Missing argument 'OUT'" in ran("convert", table, code=2).stderr


def test_a_folder(table, tmp_path):
    (tmp_path / "bad.csv").write_text("start_s,end_s\n1,x\n")
    done = ran("convert", tmp_path, tmp_path / "out", "--to", "jsonl", "--json", code=3)
    told = json.loads(done.stdout)
    assert [one["target"] for one in told["tables"]] == [str(tmp_path / "out/night.jsonl")]
    assert told["failures"][0]["table"] == str(tmp_path / "bad.csv")
    assert f"failed: {told['failures'][0]['message']}\n" in done.stderr
    ran("convert", tmp_path, tmp_path / "out2", code=2)


def test_label_column_and_format_of_the_source(tmp_path):
    (tmp_path / "t.csv").write_text("start_s,end_s,label,who\n1,2,x,wren\n")
    ran("convert", tmp_path / "t.csv", tmp_path / "t.jsonl", "--from", "csv", "--label-column", "who")
    assert read_annotations(tmp_path / "t.jsonl").annotations[0].label == "wren"


def test_the_list_of_formats():
    done = outlark("formats")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[1:]] == list(FORMATS)
    assert lines[1][:4] == ["raven", "yes", "yes", ".Table.1.selections.txt"]
    told = json.loads(ran("formats", "--json").stdout)["formats"]
    assert {one["name"]: one["writes"] for one in told} == {name: format.writes for name, format in FORMATS.items()}
    assert all("example" not in one for one in told)


def test_one_format():
    done = ran("formats", "audacity", "birdnet")
    assert done.stdout.startswith("0.5\t0.75\tsong 2.50\n1.0\t1.1\tunknown 0.50\nStart (s),End (s),")
    assert "audacity: Audacity label track; can be read and written; files end in .labels.txt\n" in done.stderr
    assert json.loads(ran("formats", "raven", "--json").stdout)["formats"][0]["example"].startswith("Selection\t")
    assert "no example" in ran("formats", "textgrid").stderr
    assert "'rave' is not a format; choose from raven, audacity" in " ".join(
        ran("formats", "rave", code=2).stderr.split()
    )


def test_what_files_are_taken_for(tmp_path):
    (tmp_path / "a.txt").write_text("Begin Time (s)\tEnd Time (s)\tSpecies\n1\t2.5\tEATO\n3\t3\tEATO\n4\t5\t\n")
    (tmp_path / "b.csv").write_text("start_s,end_s,label\n1,y,x\n")
    done = ran("inspect", tmp_path / "a.txt", tmp_path / "b.csv", code=3)
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()[2:6]] == [
        ["annotations", "3, from 1.000 to 5.000 s"],
        ["labels", "EATO: 2"],
        ["without", "a label: 1"],
        ["points", "1 annotation without a duration"],
    ]
    assert "labels from the column 'Species'" in done.stdout
    assert done.stderr.startswith(f"{tmp_path / 'b.csv'}, line 2: ")
    told = json.loads(ran("inspect", tmp_path / "a.txt", tmp_path / "b.csv", "--json", code=3).stdout)
    (good,), (bad,) = told["files"], told["failures"]
    assert (good["format"], good["labels"], good["points"], good["blank"]) == ("raven", {"EATO": 2}, 1, 1)
    assert bad["message"].startswith(f"{tmp_path / 'b.csv'}, line 2: ")
