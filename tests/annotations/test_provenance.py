"""Which annotation files a model of outlark made, and how they say so."""

import shutil
from dataclasses import replace

import pytest

from outlark.annotations import About, Annotation, read_annotations, write_annotations
from outlark.annotations.formats import FOLDER_ABOUT, FORMATS
from outlark.commands.tables import is_made_by_a_model

ABOUT = About(version="0.1.0", model_sha256="ab" * 32, settings={"channel": "mix"})
FOUND = [
    Annotation(start_s=0.5, end_s=0.75, label="song", recording="n.wav", verdict="known", score=2.5, reason="2.5 ≥ 2",
               sample_rate=8000),
    Annotation(start_s=1.0, end_s=1.25, recording="n.wav", verdict="unknown", score=0.5, reason="0.5 < 2",
               sample_rate=8000),
]  # fmt: skip
FORMATS_HERE = ["raven", "audacity", "kaleidoscope", "birdnet", "dcase", "csv", "jsonl"]


def named(folder, format, name="n.wav"):
    return folder / f"{name}{FORMATS[format].suffix}"


@pytest.mark.parametrize("format", FORMATS_HERE)
@pytest.mark.parametrize("rows", [FOUND, []])
def test_what_a_model_found_is_its_own_in_every_format(tmp_path, format, rows):
    path = named(tmp_path, format)
    write_annotations(path, rows, format=format, about=ABOUT)
    assert is_made_by_a_model(read_annotations(path, format=format))


@pytest.mark.parametrize("format", ["raven", "audacity", "csv", "jsonl"])
def test_also_as_a_copy_under_another_name(tmp_path, format):
    path, copy = named(tmp_path, format), tmp_path / f"copy/other{FORMATS[format].suffix}"
    write_annotations(path, FOUND, format=format, about=ABOUT)
    copy.parent.mkdir()
    shutil.copy(path, copy)
    assert is_made_by_a_model(read_annotations(copy))


@pytest.mark.parametrize("format", FORMATS_HERE)
def test_what_people_annotated_is_theirs(tmp_path, format):
    """Also after `outlark convert` wrote it, and beside the results of a run."""
    theirs = [Annotation(start_s=0.5, end_s=0.75, label="song", recording="n.wav")]
    write_annotations(named(tmp_path, "audacity", "m.wav"), FOUND, format="audacity", about=ABOUT)
    for name in ("n", "n.wav"):
        write_annotations(named(tmp_path, format, name), theirs, format=format)
        assert not is_made_by_a_model(read_annotations(named(tmp_path, format, name)))
    assert is_made_by_a_model(read_annotations(named(tmp_path, "audacity", "m.wav")))


def test_what_was_reviewed_is_of_a_person(tmp_path):
    by_hand = [replace(FOUND[0], reason="by hand: drawn")]
    write_annotations(named(tmp_path, "csv"), by_hand, format="csv", about=ABOUT)
    assert not is_made_by_a_model(read_annotations(named(tmp_path, "csv")))


def test_a_table_of_a_run_without_its_columns(tmp_path):
    """A spreadsheet saved only times and labels, under the same name, in the output folder."""
    (tmp_path / "out/.outlark").mkdir(parents=True)
    (tmp_path / "out/.outlark/journal.jsonl").touch()
    path = named(tmp_path / "out", "raven")
    path.write_text("Begin Time (s)\tEnd Time (s)\tAnnotation\n1\t2\tsong\n")
    assert is_made_by_a_model(read_annotations(path))
    shutil.copy(path, tmp_path / "out/n.Table.1.selections.txt")  # as Raven names those of people
    assert not is_made_by_a_model(read_annotations(tmp_path / "out/n.Table.1.selections.txt"))


def test_one_file_about_all_of_a_folder(tmp_path):
    for name in ("n.wav", "m.flac"):
        for format in ("raven", "audacity", "birdnet"):
            write_annotations(named(tmp_path, format, name), FOUND, format=format, about=ABOUT)
    assert [path.name for path in tmp_path.glob("*.about.json")] == [FOLDER_ABOUT]
    found = read_annotations(named(tmp_path, "audacity", "m.flac"))
    assert (found.about["model_sha256"], found.annotations[0].label) == (ABOUT.model_sha256, "song")
    other = replace(ABOUT, model_sha256="cd" * 32)
    write_annotations(named(tmp_path, "audacity"), FOUND, format="audacity", about=other)  # of another run
    models = [read_annotations(named(tmp_path, "audacity", name)).about["model_sha256"] for name in ("n.wav", "m.flac")]
    assert models == [other.model_sha256, ABOUT.model_sha256]
