"""Long recordings in parts: what comes of them is that of one pass, and nothing that is done is done again."""

import json
import os
import shutil

import numpy as np
import pytest
import soundfile

from outlark.batch import run as run_module
from outlark.batch.engine import Engine
from outlark.batch.journal import Journal
from outlark.batch.pool import WorkerPool
from outlark.batch.run import n_parts, run
from outlark.batch.task import RecordingPart, Source, Unit, find
from outlark.data.synthetic import SAMPLE_RATE
from outlark.paper.detector import FrameDetector
from tests.batch.in_process import InProcess, task_for
from tests.recordings_on_disk import contents, outlark, save_long_recording, save_model, song, start_and

PART_S = 8.0
SECONDS = 30.0


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A long recording, one at another rate, and two short ones."""
    folder = tmp_path_factory.mktemp("night")
    save_long_recording(folder / "a/long.wav", SECONDS)
    save_long_recording(folder / "b/LONG_20260501_043000.wav", SECONDS, rate=32000, seed=1)
    for i in range(2):
        soundfile.write(folder / f"a/{i}.wav", song(i), SAMPLE_RATE)
    return folder


def go(model, output, *paths, part_s=PART_S, jobs=2, watch=lambda state: None, driver=InProcess, **more):
    settings = {"formats": ("csv", "raven", "jsonl"), "verdicts": ("known", "ambiguous", "unknown", "silence")} | more
    task = task_for(model, output, **settings)
    return run(task, find(paths), driver=driver(task, jobs), combined=True, part_s=part_s, watch=watch)


@pytest.fixture(scope="module")
def in_one_piece(model, night, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    go(model, folder, night, part_s=1e6, keep_scores=True)
    assert not any("part" in entry for entry in lines_of(folder))
    return contents(folder)


def lines_of(output):
    return [json.loads(line) for line in (output / ".outlark/journal.jsonl").read_text().splitlines()]


def parts_in(output, recording="a/long.wav"):
    return [line["part"] for line in lines_of(output) if line["recording"] == recording and line["state"] == "part"]


@pytest.mark.parametrize(("part_s", "driver"), [(PART_S, WorkerPool), (PART_S, InProcess), (13.0, InProcess)])
def test_parts_change_not_a_byte(model, night, in_one_piece, tmp_path, part_s, driver):
    seen = []
    report = go(
        model, tmp_path / "out", night, part_s=part_s, keep_scores=True, driver=driver,
        watch=lambda state: seen.append((state.bytes_done, state.bytes_total)),
    )  # fmt: skip
    assert (report.total, report.done, report.failures, report.resumed) == (4, 4, [], 0)
    assert contents(tmp_path / "out") == in_one_piece
    assert sorted(parts_in(tmp_path / "out")) == list(range(round(SECONDS / part_s)))
    assert sorted(os.listdir(tmp_path / "out/.outlark")) == ["combined.csv.sha256", "journal.jsonl", "lock", "workers"]
    assert report.seconds == pytest.approx(2 * SECONDS + sum(len(song(i)) for i in range(2)) / SAMPLE_RATE, rel=1e-6)
    assert seen[-1][0] == pytest.approx(seen[-1][1])
    assert all(done <= total * (1 + 1e-9) for done, total in seen)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_stopped_within_a_recording_it_goes_on_with_the_parts_that_are_left(model, night, tmp_path, how):
    recording, output = night / "a/long.wav", tmp_path / "out"
    command = ("detect", model, recording, "--part-length", 4, "-j", 1, "-o", output, "--json")
    process = start_and(how, f"open({str(output / '.outlark/journal.jsonl')!r}).read().count('\\n') == 2", *command)
    said = process.communicate()[1].decode()
    assert process.returncode == {"kill": -9, "stop": 130}[how]
    assert "Traceback" not in said
    done_before = parts_in(output, "long.wav")
    assert done_before == [0, 1]
    resumed = outlark(*command)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["parts_resumed"] == 2
    assert sorted(parts_in(output, "long.wav")) == list(range(8))  # each of them once
    assert "2 parts of long recordings already done" in resumed.stderr
    outlark("detect", model, recording, "-j", 1, "-o", tmp_path / "whole")
    assert contents(output) == contents(tmp_path / "whole")


@pytest.fixture
def interrupted(model, night, tmp_path):
    """A folder in which a run was stopped after two parts, and a copy of the recording."""

    class StoppedError(Exception):
        pass

    recording = shutil.copy(night / "a/long.wav", tmp_path / "long.wav")

    def stop(state):
        if len(lines_of(tmp_path / "out")) == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        go(model, tmp_path / "out", recording, jobs=1, watch=stop)
    assert parts_in(tmp_path / "out", "long.wav") == [0, 1]
    return tmp_path / "out", tmp_path / "long.wav"


def test_what_is_there_is_not_done_again(model, interrupted, in_one_piece):
    output, recording = interrupted
    assert go(model, output, recording).resumed == 2
    assert sorted(parts_in(output, "long.wav")) == [0, 1, 2, 3]
    table = (output / "long.wav.outlark.csv").read_bytes()
    assert table.replace(b"long.wav", b"a/long.wav") == in_one_piece["a/long.wav.outlark.csv"]


def test_parts_of_what_is_not_the_same_any_more_do_not_count(model, interrupted, tmp_path):
    output, recording = interrupted
    assert go(model, shutil.copytree(output, tmp_path / "o"), recording, verdicts=("known",)).resumed == 0
    assert go(model, shutil.copytree(output, tmp_path / "p"), recording, part_s=5.0).resumed == 0
    save_long_recording(recording, SECONDS, seed=7)
    assert go(model, output, recording).resumed == 0
    go(model, tmp_path / "whole", recording, part_s=1e6)
    assert contents(output) == contents(tmp_path / "whole")


def test_a_part_that_was_damaged_is_told_and_done_again(model, interrupted):
    output, recording = interrupted
    (part,) = (output / ".outlark/parts").glob("*/1.npz")
    blob = bytearray(part.read_bytes())
    blob[len(blob) // 2] ^= 1
    part.write_bytes(blob)
    (failure,) = go(model, output, recording).failures
    assert "a part of a recording that can no longer be read" in failure.message
    assert "give the same command again" in failure.message
    again = go(model, output, recording)
    assert (again.resumed, again.failures) == (0, [])
    (output / "long.wav.outlark.csv").unlink()
    assert go(model, output, recording).failures == []


def test_parts_that_nobody_knows_are_deleted(model, interrupted, night):
    output, recording = interrupted
    (output / ".outlark/parts/0123456789abcdef").mkdir()
    go(model, output, night / "a/0.wav")
    assert len(os.listdir(output / ".outlark/parts")) == 1
    assert go(model, output, recording).resumed == 2


def test_what_is_wrong_within_a_recording_is_told_as_ever(model, tmp_path):
    save_long_recording(tmp_path / "long.wav", SECONDS)
    audio, rate = soundfile.read(tmp_path / "long.wav")
    audio[[round(17.5 * rate), round(28.0 * rate)]] = np.nan
    soundfile.write(tmp_path / "long.wav", audio, rate, subtype="DOUBLE")
    whole, parts = (
        go(model, tmp_path / name, tmp_path / "long.wav", part_s=part_s)
        for name, part_s in (("whole", 1e6), ("parts", PART_S))
    )
    assert whole.failures == parts.failures
    assert "at 17.500 s" in parts.failures[0].message
    assert set(parts_in(tmp_path / "parts", "long.wav")) <= {0, 1}  # the others cannot be of use


@pytest.mark.parametrize(("size", "told"), [(10**6, "grew"), (-(10**6), "shrank")])
def test_a_recording_that_changes_between_its_parts_is_done_in_part(model, tmp_path, size, told):
    path = save_long_recording(tmp_path / "long.wav", SECONDS)
    before, changed = path.stat().st_size, []

    def recorder(state):
        if state.seconds > PART_S and not changed:
            changed.append(True)
            os.truncate(path, before + size)

    (partial,) = go(model, tmp_path / "out", path, jobs=1, watch=recorder).partial
    assert f"{told} while it was read: {before} bytes before, {before + size} after" in partial.message


def test_which_recordings_are_worked_on_in_parts(tmp_path, monkeypatch):
    def n(name, seconds, rate=8000, **how):
        soundfile.write(tmp_path / name, np.zeros(round(seconds * rate)), rate, **how)
        return n_parts(Source(tmp_path / name, name), 2.0)

    assert n("small.wav", 60.0) == 1  # whatever its length
    monkeypatch.setattr(run_module, "SPLIT_BYTES", 0)
    assert [n("a.wav", seconds) for seconds in (0.0, 2.9, 3.1, 5.1, 8.9)] == [1, 1, 2, 3, 4]
    assert n("a.flac", 8.0) == 4
    assert n("a.ogg", 8.0) == 1
    assert n("a.mp3", 8.0) == 1
    (tmp_path / "junk.wav").write_bytes(b"RIFF")
    assert n_parts(Source(tmp_path / "junk.wav", "junk.wav"), 2.0) == 1
    assert n_parts(Source(tmp_path / "none.wav", "none.wav"), 2.0) == 1


def test_models_of_frames_work_in_one_piece(tmp_path, night):
    from outlark import model_file
    from outlark.data.synthetic import notes

    known = notes(counts={"tuti-D": 2, "cach-Z": 2})
    detector = FrameDetector.paper().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    model_file.save(detector, tmp_path / "m.outlark")
    report = go(tmp_path / "m.outlark", tmp_path / "out", night / "a/long.wav", formats=("csv",))
    assert (report.done, report.failures) == (1, [])
    assert parts_in(tmp_path / "out", "long.wav") == []


def test_a_part_is_a_function_of_the_recording_alone(model, night, tmp_path):
    """Whoever does it, and whatever it did before."""
    first, second = save_model(tmp_path / "m.outlark"), []
    for jobs in ((2, 1), (1, 2)):
        output = tmp_path / f"out{jobs[0]}"
        task = task_for(first, output, formats=("csv",))
        engine = Engine(task, task.work_folder / "partial" / "1")
        assert engine.splits
        digests = {}
        for number in jobs:
            part = Unit(Source(night / "a/long.wav", "long.wav"), RecordingPart(number, 4, PART_S))
            digests |= engine.work([part], lambda *_: None)[0]["done"]["outputs"]
        second.append(digests)
    assert second[0] == second[1]


def test_lines_about_parts(tmp_path):
    journal = Journal(tmp_path)
    part = {"state": "part", "of": 2, "length_s": 1.0, "file": {}, "identity": {}, "outputs": {"x": "y"}}
    done = {"state": "done", **dict.fromkeys(("path", "file", "formats", "scores", "identity", "outputs", "segments"))}
    journal.add({"recording": "a", **done})
    journal.add({"recording": "a", "part": 0, **part})
    journal.add({"recording": "b", "part": 1, **part})
    journal.add({"recording": "b", "state": "failed", "message": "x"})
    journal.add({"recording": "b", "part": 0, **part, "of": None})
    for known in (journal, Journal(journal.path.parents[1])):
        assert {name: sorted(of_name) for name, of_name in known.parts.items()} == {"a": [0], "b": [0, 1]}
        assert known.entries["a"]["state"] == "done"  # that of the recording as it was before
        assert known.entries["b"]["state"] == "failed"
    journal.add({"recording": "a", **done})
    assert list(Journal(journal.path.parents[1]).parts) == ["b"]
    with journal.path.open("a") as file:
        file.write('{"recording": "c", "state": "part", "part": 0}\n')
    assert list(Journal(journal.path.parents[1]).parts) == ["b"]
    journal.clear()
    assert journal.parts == Journal(journal.path.parents[1]).parts == {}


def test_the_quality_of_a_recording_is_that_of_its_parts(model, tmp_path):
    rng = np.random.default_rng(0)
    samples = np.clip(rng.normal(size=(round(SECONDS * SAMPLE_RATE), 2)), -0.999, 0.999)
    samples[:, 1] *= -1.0
    samples[: 3 * SAMPLE_RATE] = 0.0
    samples[5 * SAMPLE_RATE : 9 * SAMPLE_RATE] = 1.0
    soundfile.write(tmp_path / "odd.wav", samples, SAMPLE_RATE)
    lines = []
    for name, part_s in (("whole", 1e6), ("parts", PART_S)):
        report = go(model, tmp_path / name, tmp_path / "odd.wav", part_s=part_s)
        assert len(report.quality) >= 2
        lines.append(lines_of(tmp_path / name)[-1])
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    assert lines[0]["quality"] == lines[1]["quality"]
