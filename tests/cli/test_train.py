"""`outlark train`: what it prints, writes, refuses, and tells scripts."""

import json
import warnings

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark import NoteDetector, model_file
from outlark.annotations import Annotation, write_annotations
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, notes
from tests.recordings_on_disk import outlark


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    for i, note in enumerate(notes(counts={"tuti-F": 4, "cach-Z": 3})):
        (folder / note.label).mkdir(exist_ok=True)
        soundfile.write(folder / note.label / f"{i}.wav", note.samples, SAMPLE_RATE)
    return folder


def ran(*args, code=0):
    done = CliRunner().invoke(main, ["train", *map(str, args)])
    assert done.exit_code == code, done.stderr
    return done


def test_a_model_from_clips(clips, tmp_path):
    done = outlark("train", clips, "-o", tmp_path / "m.outlark")
    assert done.returncode == 0, done.stderr
    detector = model_file.load(tmp_path / "m.outlark")
    paths = sorted(clips.rglob("*.wav"))
    by_library = NoteDetector().fit(paths, [path.parent.name for path in paths])
    assert detector.model_.training == by_library.model_.training
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["class", "examples", "files", "shortest,", "s", "longest,", "s", "threshold"]
    layout = by_library.layout_
    numbers = zip(layout.shortest_s, layout.longest_s, layout.thresholds, strict=True)
    assert [row[3:] for row in rows] == [[f"{n:.3f}" for n in of] for of in numbers]
    assert [row[:3] for row in rows] == [["cach-Z", "3", "3"], ["tuti-F", "4", "4"]]
    # on a slow machine there are lines before it that tell how far it is
    assert done.stderr.splitlines()[-1] == f"2 classes, 7 notes; saved in {tmp_path / 'm.outlark'}"


def test_one_class_is_a_class(clips, tmp_path):
    done = ran(clips, "-o", tmp_path / "m.outlark", "--class", "tuti-F", "--max-examples", 1)
    assert done.stderr.splitlines()[-1] == f"1 class, 1 note; saved in {tmp_path / 'm.outlark'}"


def test_for_scripts(clips, tmp_path):
    done = ran(clips, "-o", tmp_path / "m.outlark", "--class", "tuti-F", "--max-examples", 2, "--json", "--quiet")
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert told["classes"][0]["label"] == "tuti-F"
    assert told["classes"][0]["examples"] == 2
    assert [(e["recording"], e["start_s"]) for e in told["examples"]] == [
        (str(clips / "tuti-F/1.wav"), 0.0),
        (str(clips / "tuti-F/3.wav"), 0.0),
    ]
    assert told["failures"] == told["remarks"] == told["problems"] == []
    assert told["sample_rate"] == SAMPLE_RATE
    assert told["seconds_of_sound"] == pytest.approx(sum(e["end_s"] for e in told["examples"]), abs=2e-3)
    again = ran(clips, "-o", tmp_path / "n.outlark", "--class", "tuti-F", "--max-examples", 2, "--json")
    assert json.loads(again.stdout)["model_sha256"] == told["model_sha256"]
    assert "examples of tuti-F: 1.wav, 3.wav\n" in again.stderr


def test_from_a_table_with_recordings_elsewhere(clips, tmp_path):
    annotations = [
        Annotation(start_s=0.0, end_s=0.1, label=path.parent.name, recording=f"{path.parent.name}/{path.name}")
        for path in sorted(clips.rglob("*.wav"))
    ]
    table = tmp_path / "marks.birdnet.csv"
    write_annotations(
        table, [*annotations, Annotation(start_s=0, end_s=0.1, recording="tuti-F/0.wav")], format="birdnet"
    )
    done = ran(table, "--audio", clips, "-o", tmp_path / "m.outlark", "--format", "birdnet", "--channel", 1, code=3)
    assert "marks.birdnet.csv, line 9: 0.000 to 0.100 s has no label" in done.stderr
    assert {round(note["end_s"], 4) for note in model_file.load(tmp_path / "m.outlark").model_.training} == {0.1}
    failed = ran(table, "-o", tmp_path / "n.outlark", code=1)
    assert "marks.birdnet.csv, line 2: there is no recording 'cach-Z/4.wav' in" in failed.stderr
    assert "Error: " in ran(table, "--label-column", "Vogel", "--audio", clips, "-o", tmp_path / "n", code=1).stderr


def test_warnings_of_the_library_are_told(clips, tmp_path, monkeypatch):
    """Each of them once."""
    one = (clips, "-o", tmp_path / "m.outlark", "--max-examples", 2, "--json", "--force")
    assert json.loads(ran(*one).stdout)["remarks"] == []
    fit = NoteDetector.fit

    def warned(self, *given):
        for told in ("it rains", "it snows", "it rains"):
            warnings.warn(told, UserWarning, stacklevel=2)
        return fit(self, *given)

    monkeypatch.setattr(NoteDetector, "fit", warned)
    done = ran(*one)
    assert json.loads(done.stdout)["remarks"] == ["it rains", "it snows"]
    assert done.stderr.count("Note: it rains\n") == done.stderr.count("Note: it snows\n") == 1


def test_the_system_of_the_paper(clips, tmp_path):
    ran(clips, "-o", tmp_path / "m.outlark", "--paper")
    assert type(model_file.load(tmp_path / "m.outlark").front_end).__name__ == "HLDSFrontEnd"


def test_clips_that_cannot_be_read(clips, tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    for name in ("tuti-F", "cach-Z"):
        (folder / name).mkdir()
        for clip in (clips / name).iterdir():
            (folder / name / clip.name).symlink_to(clip)
    (folder / "tuti-F" / "bad.wav").write_bytes(b"RIFF")
    done = ran(folder, "-o", tmp_path / "m.outlark", "--json", "--quiet", code=3)
    (failure,) = json.loads(done.stdout)["failures"]
    assert failure["recording"] == str(folder / "tuti-F" / "bad.wav")
    assert done.stderr == f"skipped: {failure['message']}\n"
    assert len(model_file.load(tmp_path / "m.outlark").model_.training) == 7


def test_nothing_but_a_model_is_replaced(clips, model, tmp_path):
    target = tmp_path / "x.outlark"
    target.write_text("my thesis")
    for force in ([], ["--force"]):
        done = ran(clips, "-o", target, *force, code=1)
        assert "x.outlark exists and is not a model, so it is not replaced" in done.stderr
    assert target.read_text() == "my thesis"
    target.write_bytes(model.read_bytes())
    assert "already exists; choose another name, or replace it with --force" in ran(clips, "-o", target, code=1).stderr
    assert target.read_bytes() == model.read_bytes()
    ran(clips, "-o", target, "--force")
    assert model_file.load(target).classes_.tolist() == ["cach-Z", "tuti-F"]


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["{clips}", "-o", "{tmp}/no/m.outlark"], 1, "no does not exist; create it first"),
        (["{clips}", "-o", "{tmp}"], 1, "is a folder"),
        (["{tmp}/none.csv", "-o", "{tmp}/m"], 1, "none.csv does not exist"),
        (
            ["{clips}", "-o", "{tmp}/m", "--class", "wren"],
            1,
            "no examples of the class 'wren'; there are cach-Z, tuti-F",
        ),
        (
            ["{clips}", "-o", "{tmp}/m", "--format", "exel"],
            2,
            "'exel' is not a format that can be read; choose from raven,",
        ),
        (["{clips}", "-o", "{tmp}/m", "--max-examples", "0"], 2, "0 is not in the range x>=1"),
        (["{clips}", "-o", "{tmp}/m", "--channel", "3"], 1, "channel=2, but the audio has 1 channel"),
        (["{clips}/tuti-F", "-o", "{tmp}/m"], 1, "neither subfolders nor annotation files"),
    ],
)
def test_errors_say_what_to_do(clips, tmp_path, args, code, told):
    done = ran(*(arg.format(clips=clips, tmp=tmp_path) for arg in args), code=code)
    assert told in " ".join(done.stderr.split())
    assert not list(tmp_path.glob("m*"))


def test_a_model_that_would_miss_its_own_notes_is_told(tmp_path):
    """No burst of noise is like another."""
    rng = np.random.default_rng(0)
    (tmp_path / "clips/hiss").mkdir(parents=True)
    for i in range(4):
        soundfile.write(tmp_path / f"clips/hiss/{i}.wav", 0.1 * rng.normal(size=4000), SAMPLE_RATE)
    done = ran(tmp_path / "clips", "-o", tmp_path / "m.outlark", "--json")
    problems = json.loads(done.stdout)["problems"]
    (problem,) = [p for p in problems if p["check"] == "left-out notes"]
    assert problem["what"].startswith("4 of 4 notes of 'hiss' would be missed")
    assert f"problem: {problem['what']}" in done.stderr
    unchecked = ran(tmp_path / "clips", "-o", tmp_path / "n.outlark", "--json", "--no-check")
    assert json.loads(unchecked.stdout)["problems"] == []


def test_quiet_margins_are_told_with_the_command_that_trims_them(tmp_path):
    (tmp_path / "clips/tuti-F").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i, note in enumerate(notes(counts={"tuti-F": 2})):
        samples = np.pad(note.samples, SAMPLE_RATE // 2)
        samples += 1e-3 * rng.normal(size=len(samples))
        soundfile.write(tmp_path / f"clips/tuti-F/{i}.wav", samples, SAMPLE_RATE)
    model = tmp_path / "m.outlark"
    said = ran(tmp_path / "clips", "-o", model, "--no-check").stderr
    assert "Note: 2 clips with quiet margins longer than the note, such as 0.9" in said
    assert "outlark train … --trim removes them" in said
    said = ran(tmp_path / "clips", "-o", model, "--no-check", "--trim", "--force").stderr
    assert "Note: 2 clips trimmed, such as 0.9" in said
    assert model_file.load(model).layout_.longest_s[0] < 0.25
