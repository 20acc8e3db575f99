"""`outlark train` with negatives, and with a model that is trained again from what was corrected."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import model_file
from outlark.annotations import Annotation, read_annotations, write_annotations
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes

COUNTS = {"tuti-D": 3, "cach-Z": 3}


def ran(*args, code=0):
    done = CliRunner().invoke(main, [str(arg) for arg in args])
    assert done.exit_code == code, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """audio/a.wav and audio/b.wav, what is in them, a model of a.wav, and what it finds in b.wav. Not to be changed."""
    folder = tmp_path_factory.mktemp("again")
    (folder / "audio").mkdir()
    for seed, name in enumerate(("a", "b")):
        played = notes(seed=seed, counts={**COUNTS, "cach-C": 2})
        audio, truth = concatenate(played, gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(seed))
        soundfile.write(folder / "audio" / f"{name}.wav", audio, SAMPLE_RATE, subtype="FLOAT")
        annotations = [
            Annotation(start_s=t.start_s, end_s=t.end_s, label=t.label, recording=f"{name}.wav") for t in truth
        ]
        write_annotations(folder / f"{name}.csv", annotations, format="csv")
    known = [annotation for annotation in read_annotations(folder / "a.csv").annotations if annotation.label in COUNTS]
    write_annotations(folder / "known.csv", known, format="csv")
    ran("train", folder / "known.csv", "--audio", folder / "audio", "-o", folder / "old.outlark", "--no-check")
    ran("detect", folder / "old.outlark", folder / "audio/b.wav", "-o", folder / "found", "--format", "raven", "-j", 1)
    return folder


TABLE = "b.wav.Table.1.selections.txt"


@pytest.fixture
def here(made, tmp_path):
    """corrected/, a copy of what was found."""
    shutil.copytree(made / "found", tmp_path / "corrected")
    return made, tmp_path


def foreign(made, label):
    """The notes of no known class in b.wav, with this label."""
    return [
        replace(annotation, label=label)
        for annotation in read_annotations(made / "b.csv").annotations
        if annotation.label == "cach-C"
    ]


# ---------------------------------------------------------------- negatives


def test_negatives_in_a_file_of_their_own(here):
    made, folder = here
    write_annotations(folder / "not.csv", foreign(made, "tuti-D"), format="csv")
    args = ["train", made / "known.csv", "--audio", made / "audio", "--negative", folder / "not.csv"]
    done = ran(*args, "-o", folder / "m.outlark")
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head[:4] == ["class", "examples", "negatives", "recordings"]
    assert [row[:3] for row in rows] == [["cach-Z", "3", "0"], ["tuti-D", "3", "2"]]
    assert done.stderr.splitlines()[-1] == f"2 classes, 6 notes, 2 negatives; saved in {folder / 'm.outlark'}"
    told = json.loads(ran(*args, "-o", folder / "n.outlark", "--json", "--max-examples", 1, "--quiet").stdout)
    (negative,) = told["negatives"]
    assert (negative["label"], negative["recording"]) == ("tuti-D", "b.wav")
    assert [of["negatives"] for of in told["classes"]] == [0, 1]
    assert told["lineage"] == []


def test_negatives_with_a_minus(here):
    made, folder = here
    annotations = [*read_annotations(made / "known.csv").annotations, *foreign(made, "-tuti-D")]
    write_annotations(folder / "all.csv", annotations, format="csv")
    args = ["train", folder / "all.csv", "--audio", made / "audio", "--no-check"]
    done = ran(*args, "-o", folder / "m.outlark")
    assert "Note: 2 '-tuti-D' taken as not 'tuti-D' (if it is a class of its own, give --class=-tuti-D)" in done.stderr
    assert len(model_file.load(folder / "m.outlark").model_.negatives) == 2
    ran(*args, "-o", folder / "n.outlark", "--class", "tuti-D", "--class=-tuti-D")
    assert model_file.load(folder / "n.outlark").classes_.tolist() == ["-tuti-D", "tuti-D"]
    failed = ran(*args, "-o", folder / "p.outlark", "--paper", code=1)
    assert "which has no negatives" in failed.stderr
    assert not (folder / "p.outlark").exists()


def test_without_negatives_nothing_is_said_of_them(made, tmp_path):
    done = ran("train", made / "known.csv", "--audio", made / "audio", "-o", tmp_path / "m.outlark", "--no-check")
    assert "negatives" not in done.stdout
    assert done.stderr.splitlines()[-1].startswith("2 classes, 6 notes; saved in ")
    assert (tmp_path / "m.outlark").read_bytes() == (made / "old.outlark").read_bytes()


# ---------------------------------------------------------------- a model that is trained again


def corrected(folder, change):
    """The corrected table, its cells changed as somebody does it in Raven or a spreadsheet."""
    path = folder / "corrected" / TABLE
    head, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    rows = change([dict(zip(head, row, strict=True)) for row in rows])
    lines = ["\t".join(head), *("\t".join(row.values()) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def again(made, folder, *more, code=0):
    args = ["--from", made / "old.outlark", "--audio", made / "audio", "--no-check", "-o", folder / "new.outlark"]
    return ran("train", *args, *more, code=code)


def test_from_corrected_tables(here):
    made, folder = here

    def change(rows):
        unknown = [row for row in rows if row["Verdict"] == "unknown"]
        unknown[0]["Annotation"] = "wren"
        known = [row for row in rows if row["Verdict"] == "known"]
        known[0]["Annotation"] = f"-{known[0]['Annotation']}"
        return [row for row in rows if row is not known[1]]

    found = [
        annotation
        for annotation in read_annotations(made / "found" / TABLE).annotations
        if annotation.verdict == "known"
    ]
    corrected(folder, change)
    done = again(made, folder, folder / "corrected", "--found", made / "found", "--json")
    told = json.loads(done.stdout)
    assert [of["label"] for of in told["classes"]] == ["cach-Z", "tuti-D", "wren"]
    assert [n["start_s"] for n in told["negatives"]] == pytest.approx([m.start_s for m in found[:2]], abs=1e-4)
    assert told["lineage"][0] | {"sha256": ""} == {
        "name": "old.outlark", "sha256": "", "kept": 6, "added": len(found) - 2 + 1, "negatives": 2,
    }  # fmt: skip
    assert (
        f"Note: {6 + len(found) - 1} examples: 6 of old.outlark, {len(found) - 1} new; 2 new negatives" in done.stderr
    )
    assert "Note: 'wren' is a new class" in done.stderr
    alone = json.loads(again(made, folder, folder / "corrected", "--json", "--force").stdout)
    assert len(alone["negatives"]) == 1  # a row that is gone says nothing by itself


def test_inspect_shows_parent_and_negatives(here):
    made, folder = here
    write_annotations(folder / "not.csv", foreign(made, "tuti-D"), format="csv")
    again(made, folder, "--negative", folder / "not.csv")
    shown = ran("inspect", folder / "new.outlark").stdout
    (content,) = json.loads(ran("inspect", folder / "new.outlark", "--json").stdout)["files"]
    (old,) = json.loads(ran("inspect", made / "old.outlark", "--json").stdout)["files"]
    assert content["lineage"][0]["sha256"] == old["sha256"]
    assert (
        f"made from   old.outlark (sha256 {old['sha256']}): 6 examples kept, 0 examples and 2 negatives added" in shown
    )
    assert "2 negatives (not tuti-D):" in shown
    first = content["classes"][1]["negatives"][0]
    assert f"b.wav, {first['start_s']:.3f} to {first['end_s']:.3f} s, score {first['score']:.3f}" in shown
    assert "made from" not in ran("inspect", made / "old.outlark").stdout


def test_only_this_class(here):
    made, folder = here
    done = again(made, folder, folder / "corrected", "--class", "tuti-D", "--json", "--quiet")
    assert {of["label"]: of["examples"] for of in json.loads(done.stdout)["classes"]}["cach-Z"] == 3


def test_recordings_that_are_missing(here):
    made, folder = here
    (folder / "audio").mkdir()
    shutil.copy(made / "audio" / "b.wav", folder / "audio")
    # from another computer: the paths of the tables lead nowhere
    for table in (folder / "corrected").glob("*.selections.txt"):
        table.write_text(table.read_text().replace(str(made), "/nowhere"))
    args = ["train", "--from", made / "old.outlark", folder / "corrected", "-o", folder / "new.outlark"]
    failed = ran(*args, "--audio", folder / "audio", code=1)
    assert "was trained on: not found: a.wav (6 notes)" in failed.stderr
    assert not (folder / "new.outlark").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--from", "{old}"], "Give the corrected annotation files"),
        (["--from", "{old}", "--negative", "x.csv", "--found", "x"], "Give the corrected annotation files"),
        (["x", "--found", "y"], "--found is only for training a model again"),
        (["--from", "{old}", "x", "--paper"], "--paper cannot be changed when a model is trained again"),
        (["--from", "{old}", "x", "--trim"], "--trim cannot be changed when a model is trained again"),
        ([], "Missing argument 'EXAMPLES...'"),
    ],
)
def test_what_does_not_go_together(made, tmp_path, more, told):
    done = ran("train", *(word.format(old=made / "old.outlark") for word in more), "-o", tmp_path / "m", code=2)
    assert told in done.stderr


def test_a_corrected_table_with_a_blank_cell(here):
    """Somebody added a row in a spreadsheet and filled in its times and label alone."""
    made, tmp_path = here
    path = tmp_path / "corrected" / TABLE
    header, *rows = path.read_text().splitlines()
    added = foreign(made, "new")
    for note in added:
        cells = dict.fromkeys(header.split("\t"), "")
        cells |= {"Begin Time (s)": str(note.start_s), "End Time (s)": str(note.end_s), "Annotation": "new"}
        rows.append("\t".join(cells.values()))
    path.write_text("\n".join([header, *rows]) + "\n")
    args = ("--from", made / "old.outlark", tmp_path / "corrected", "--found", made / "found")
    args = (*args, "--audio", made / "audio", "--no-check", "--json")
    told = json.loads(ran("train", *args, "-o", tmp_path / "new.outlark").stdout)
    assert sum(note["label"] == "new" for note in told["examples"]) == len(added)
    path.write_text("\n".join([header, *rows[:-1], rows[-1].replace(str(added[-1].start_s), "?")]) + "\n")
    done = ran("train", *args, "-o", tmp_path / "again.outlark", code=3)
    told = json.loads(done.stdout)
    assert sum(note["label"] == "new" for note in told["examples"]) == len(added) - 1
    assert f"{path}, line {1 + len(rows)}" in told["refused"][0]
    assert told["refused"][0] in done.stderr
