"""Train, detect, evaluate on real recordings, where they are at hand: OUTLARK_DATA or ../shared/data."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from real_note_tasks import Draw, Recording
from real_notes import measure

from outlark import NoteDetector
from outlark.annotations import Annotation, write_annotations
from outlark.cli.main import main
from tests.recordings_on_disk import outlark

DATA = Path(os.environ.get("OUTLARK_DATA") or Path(__file__).parents[3] / "shared" / "data")


def needed(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"no {name} in {DATA}; OUTLARK_DATA names another folder")
    return DATA / name


def test_syllables_marked_in_raven(tmp_path):
    finches = needed("zebra-finch-syllables")
    recordings = sorted(finches.glob("*.flac"))
    for path in recordings[:4]:
        for file in (path, path.with_suffix(".Table.1.selections.txt")):
            shutil.copy(file, tmp_path)

    def told(*args):
        done = outlark(*args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    model, out = tmp_path / "finch.outlark", tmp_path / "out"
    trained = told("train", tmp_path, "--max-examples", 5, "-o", model)
    assert [of["examples"] for of in trained["classes"]] == [5] * 6
    told("detect", model, *recordings[4:7], "-o", out, "--format", "raven", "-j", 1)
    answer = told("evaluate", out, finches / "annotations.csv", "--audio", finches, "--detected-only")
    assert answer["recordings"] == 3
    measures = answer["measures"]
    # over all ten other recordings: .951, .994, .992 and 3.6 ms
    assert measures["window_f"]["(mean of classes)"] > 0.92
    assert measures["note_f"]["(mean of classes)"] > 0.95
    assert measures["event_f_iou_0.5"]["(pooled)"] > 0.95
    assert measures["onset_error_ms"]["(pooled)"] < 5


def test_a_folder_of_flight_calls_gives_what_the_library_gives(tmp_path):
    # with these calls nothing is good (docs/results.md): the commands must be just as good
    calls = needed("clo-flight-calls")
    with (calls / "protocol_56.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    known = sorted({row["label"] for row in rows if row["role"] == "known"})
    train = [row for label in known for row in [row for row in rows if row["label"] == label][:5]]
    for row in train:
        (tmp_path / "clips" / row["label"]).mkdir(parents=True, exist_ok=True)
        shutil.copy(calls / row["file"], tmp_path / "clips" / row["label"])
    annotations, pieces, at = [], [], 0
    for row in rows[::2]:
        if row not in train:
            samples, rate = soundfile.read(calls / row["file"])
            annotations.append(Annotation(start_s=at / rate, end_s=(at + len(samples)) / rate, label=row["label"]))
            pieces.append(samples)
            at += len(samples)
    soundfile.write(tmp_path / "joined.wav", np.concatenate(pieces), rate)
    write_annotations(tmp_path / "joined.labels.txt", annotations, format="audacity")
    model, out = tmp_path / "calls.outlark", tmp_path / "out"
    for args in (
        ["train", tmp_path / "clips", "-o", model],
        ["detect", model, tmp_path / "joined.wav", "-o", out, "-j", 1],
        ["evaluate", out, tmp_path / "joined.labels.txt", "--model", model, "--json"],
    ):
        done = CliRunner().invoke(main, list(map(str, args)))
        assert done.exit_code == 0, done.stderr
    measures = json.loads(done.stdout)["measures"]

    paths = sorted((tmp_path / "clips").rglob("*.flac"))
    detector = NoteDetector().fit(paths, [path.parent.name for path in paths])
    samples, rate = soundfile.read(tmp_path / "joined.wav")
    recording = Recording(samples, rate, [annotation.segment(rate) for annotation in annotations])
    by_library = measure(Draw([], [recording], known), [detector.detect(samples, rate)], 0.0)
    assert measures["window_f"]["(mean with unknown)"] == pytest.approx(by_library.window_f, abs=1e-6)
    assert measures["note_f"]["(mean of classes)"] == pytest.approx(by_library.note_f)
    assert measures["event_f_iou_0.5"]["(pooled)"] == pytest.approx(by_library.event_f)
    onset_ms = measures["onset_error_ms"]["(pooled)"]  # none when no event was found
    assert (np.nan if onset_ms is None else onset_ms) == pytest.approx(by_library.onset_ms, abs=1e-3, nan_ok=True)
