"""Every message about wrong options, names and files: what is wrong, and what to do; and that nothing is written."""

import json
import re
import shutil

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from outlark.annotations import Annotation, write_annotations
from outlark.cli.main import main
from outlark.data.synthetic import SAMPLE_RATE, notes
from tests.recordings_on_disk import song

#: A command in a folder with a model, clips, recordings and tables → its message, a regular expression.
USAGE = {
    "fly": "No such command 'fly'. The commands are train, calibrate, detect",
    "detct": "No such command 'detct'. Did you mean detect[?]",
    "Evaluate": "Did you mean evaluate",
    "inspekt m": "Did you mean inspect[?]",
    "detect m": "Missing argument 'RECORDINGS...'",
    "detect m r": "Missing option '--output'",
    "detect m r -o x --format csv,exel": "'exel' is not a format that can be written; choose from",
    "detect m r -o x --min-duration soon": "'soon' is not a duration; give seconds, such as 0.076, or 76ms",
    "detect m r -o x --activity-db loud": "'loud' is not a level in decibels; give a number",
    "detect m r -o x --channel 0": "'0' is not a channel; give mix, or a number from 1",
    "detect m a.wav -o x --all --verdict known": "give --all or --verdict, not both",
    "detect m a.wav -o x --combined --format raven": "--combined joins files of the format csv; add --format csv",
    "train -o x": "Missing argument 'EXAMPLES...'",
    "train clips -o x --format exel": "'exel' is not a format that can be read; choose from raven,",
    "train clips -o x --max-examples 0": "0 is not in the range x>=1",
    "train clips -o x --found y": "--found is only for training a model again",
    "train --from m -o x": "Give the corrected annotation files",
    "train --from m --negative x.csv --found x -o x": "Give the corrected annotation files",
    "train --from m clips -o x --paper": "--paper cannot be changed when a model is trained again",
    "train --from m clips -o x --trim": "--trim cannot be changed when a model is trained again",
    "evaluate marks.csv marks.csv --class song --unknown x": "--unknown does not go with --class or --model",
    "evaluate marks.csv marks.csv --iou 0": "0 is not in the range 0<x<=1",
    "evaluate marks.csv marks.csv --precision 0.9": "--precision goes with --curve",
    "evaluate marks.csv marks.csv --curve --precision 1.5": "1.5 is not in the range 0<x<=1",
    "evaluate marks.csv marks.csv --curve --precision nan": "--precision nan must be a number above 0",
    "evaluate --curve marks.csv marks.csv": r"not the name of a figure \(.png, .svg, .pdf\); put --curve after",
    "evaluate marks.csv marks.csv --curve no/c.png": "the folder does not exist; create it first",
    "summary x --by week": "'week' is not a column to count by; choose from class, site, day, hour",
    "summary x --timezone Mars/North": "'Mars/North' is not a known time zone",
    "summary x --timezone ../etc": "'../etc' is not a known time zone",
    "summary x --confidence 1": "1.0 is not in the range",
    "convert clips x": "IN is a folder; give the format of the new files with --to",
    "formats rave": "'rave' is not a format; choose from raven, audacity",
    "data get": "get needs a NAME; choose from synthetic, great-tits",
    "data get blue-tits": "'blue-tits' is not one of 'synthetic', 'great-tits'",
    "data list great-tits": "list takes no NAME, --to or --wheel",
    "data fetch": "'fetch' is not one of 'list', 'get'",
    "data get synthetic --wheel x.whl": "--wheel goes with great-tits",
    "experiment --gap long -o x": "'long' is not a duration",
    **{
        f"detect m a.wav -o x --threshold {value}": "is not a threshold; give a number above 0, or NAME=X for one class"
        for value in ("0", "-1", "inf", "nan", "loud", "tuti-F=", "tuti-F=0", "=0.5", "tuti-F=1e999")
    },
}
ERRORS = {
    "detect no.outlark a.wav -o x": "there is no model file no.outlark; check the path, or train a model with",
    "detect bad.outlark a.wav -o x": "not a model file, or damaged or cut short: it begins with 'no model'",
    "detect m a.wav -o marks.csv": "marks.csv is a file; give a folder for the results with -o",
    "detect m a.wav -o x --threshold tuti-f=0.5": "no class 'tuti-f'; did you mean 'tuti-F'[?] There are cach-Z, tuti",
    "detect m a.wav -o x --threshold robin=0.5": "no class 'robin'; there are cach-Z, tuti-D, tuti-F",
    "detect m a.wav -o x --threshold tuti-F=1 --threshold tuti-F=2": "two thresholds for 'tuti-F', 1 and 2; give one",
    "detect m a.wav -o x --threshold 1 --threshold 2": "two thresholds for all classes, 1 and 2",
    "detect m a.wav -o x --calibrate --threshold 1": "leaves nothing to --calibrate",
    "decide m a.wav -o x --threshold robin=0.5": "no class 'robin'",
    "plot m a.wav -o x.png --threshold robin=0.5": "no class 'robin'",
    "plot m a.wav -o x.gif": "x.gif: figures can be saved as .png, .svg, .pdf",
    "plot m a.wav -o no/x.png": "the folder no does not exist",
    "plot m a.wav -o x.png --start 5:00": "--start 300, but the recording is .* s long; give an earlier time",
    "plot m a.wav -o x.png --start 0.2 --end 0.1": "--end 0.1 is not after --start 0.2; give a later end",
    "plot m a.wav -o x.png --truth no.csv": "no.csv does not exist",
    "train clips -o no/x": "no does not exist; create it first",
    "train clips -o clips": "is a folder; give the name of a model file",
    "train clips -o marks.csv --force": "marks.csv exists and is not a model, so it is not replaced",
    "train clips -o m": "already exists; choose another name, or replace it with --force",
    "train no.csv -o x": "no.csv does not exist; check the name",
    "train a.wav -o x": "a.wav is a recording; expected a folder",
    "train clips -o x --class wren": "no examples of the class 'wren'; there are cach-Z, tuti-F",
    "train clips -o x --channel 3": "channel=2, but the audio has 1 channel",
    "train clips/tuti-F -o x": r"contains 2 sound files \(.*\), but neither subfolders nor annotation files",
    "train empty -o x": r"no examples in .* \(skipped: .*readme.txt, line 1: .*\); expected a folder",
    "train high -o x": r"has one subfolder of sounds, clips, .*\(cach-Z, tuti-F …\).*give .*clips",
    "train mixed -o x": r"contains annotation files \(t.csv\) and folders of sounds \(cach-Z\)",
    "train clips marks.csv -o x": "clips and annotation files together; train on one kind",
    "train gone.csv -o x": "gone.csv, line 2: there is no recording 'gone.wav'",
    "train marks.csv -o x --trim": "--trim applies only to clips",
    "train clips -o x --threshold tuti-X=1": "--threshold: the model has no class 'tuti-X'; did you mean 'tuti-F'",
    "train clips -o x --paper --embedding birdnet": "which has no --embedding; give one of them",
    "clips marks.csv -o x --verdict unknown": "nothing to cut: 1 annotation skipped: another verdict or class",
    "clips marks.csv -o x --class call": "no annotation has the label 'call'; the labels are song",
    "clips gone.csv -o x": "nothing to cut: .*line 2: there is no recording 'gone.wav'",
    "clips back.csv -o x": "line 2: the end, 0.1 s, is before the start, 0.2 s",
    "clips marks.csv -o x --audio no": "no is not there; give a folder that holds recordings",
    "clips marks.csv -o a.wav": "is a file; give a folder for the clips with -o",
    "convert marks.csv x.abc": "the name 'x.abc' does not determine the format; give one",
    "convert marks.csv marks.csv --to csv --force": "is the file to convert and is not overwritten",
    "convert marks.csv gone.csv --to csv": "gone.csv already exists; give another name, or replace it",
    "convert empty x --to csv": "empty contains no readable annotation files .*; give an annotation file, or a folder",
    "evaluate marks.csv marks.csv --class wren": "no annotation has the label 'wren'; the labels are song",
    "evaluate marks.csv marks.csv --unknown song": "neither the truth nor the detections name a class",
    "evaluate marks.csv marks.csv -o no/x.csv": "no/x.csv cannot be written: no does not exist",
    "evaluate marks.csv marks.csv --audio no": "no is not there; give a folder that holds recordings",
    "evaluate empty marks.csv": "empty contains no readable annotation files",
    "evaluate gone.csv gone.csv --model m --curve": "--curve needs the recording or its scores, and found neither",
    "summary empty": "no .outlark/journal.jsonl",
    "inspect readme.txt": "readme.txt, line 1: 'labels to come' is not the start of a known format",
    "inspect a.py": "a.py is not a model, a recording or .* file: it begins with 'labels t';",
    "inspect bad.outlark": "bad.outlark: not a model file",
    "inspect bad.wav": "bad.wav cannot be decoded as a sound file",
    "inspect empty.wav": "empty.wav is empty",
    "inspect empty": "is a folder; give files",
    "inspect no": r"no cannot be read \(No such file or directory\)",
    "experiment -m magic -o x": "there is no method 'magic'; choose one of mddkm-paper",
    "experiment synthetic great-tits -o x": "'synthetic' and other data together",
    "experiment --known song -o x": "synthetic has no class 'song'; it has tuti-D",
    "experiment --train 9 -o x": "notes of 'tuti-F' to train on, expected 9",
    "experiment no -o x": "no",
}


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """What the commands name; nothing of it is changed by a command that fails."""
    here = tmp_path_factory.mktemp("messages")
    shutil.copy(model, here / "m")
    soundfile.write(here / "a.wav", song(0), SAMPLE_RATE)
    for i, note in enumerate(notes(counts={"tuti-F": 2, "cach-Z": 2})):
        for clips in ("clips", "high/clips", "mixed"):
            (here / clips / note.label).mkdir(parents=True, exist_ok=True)
            soundfile.write(here / clips / note.label / f"{i}.wav", note.samples, SAMPLE_RATE)
    (here / "empty").mkdir()
    for path in ("empty/readme.txt", "readme.txt", "a.py"):
        (here / path).write_text("labels to come")
    head, row = (
        "file,start,end,label\n",
        {"marks": "a.wav,0.1,0.2", "gone": "gone.wav,0.1,0.2", "back": "a.wav,0.2,0.1"},
    )
    for name, cells in row.items():
        (here / f"{name}.csv").write_text(f"{head}{cells},song\n")
    write_annotations(here / "mixed/t.csv", [Annotation(start_s=0, end_s=1, label="a")], format="csv")
    (here / "bad.outlark").write_bytes(b"no model")
    (here / "bad.wav").write_bytes(np.full(100, 0xFF00, ">u2").tobytes())
    (here / "empty.wav").touch()
    return here


@pytest.mark.parametrize(("line", "code"), [*((line, 2) for line in USAGE), *((line, 1) for line in ERRORS)])
def test_what_is_wrong_is_told_and_nothing_is_written(folder, monkeypatch, line, code):
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    done = CliRunner().invoke(main, [*line.split(), "--json"])
    answer = json.loads(done.stdout)
    assert (answer["exit_code"], done.exit_code) == (code, code), done.stderr
    assert re.search((USAGE | ERRORS)[line], answer["error"]), answer["error"]
    assert " ".join(answer["error"].split()) in " ".join(done.stderr.split())
    assert sorted(folder.rglob("*")) == before
