"""Runs over many files: what is done, what is left alone, what is refused, and what fails."""

import csv
import json
import os
import shutil
import time

import numpy as np
import pytest
import soundfile

from outlark.annotations import read_annotations
from outlark.annotations.own_formats import RUN_COLUMNS
from outlark.batch.engine import Engine
from outlark.batch.journal import Journal, file_sha256, fingerprint, lock
from outlark.batch.run import run
from outlark.batch.task import Event, Source, Unit, find
from outlark.data.synthetic import SAMPLE_RATE
from outlark.errors import InputError, ModelFileError
from tests.batch.in_process import InProcess, task_for
from tests.recordings_on_disk import contents, save_model, song, start_and, without_paths

NAMES = ("a.wav", "b.wav", "c/a.wav", "d.flac")
#: One in each folder.
ABOUT = ("outlark.about.json", "c/outlark.about.json")
SUFFIXES = (".outlark.csv", ".Table.1.selections.txt")


def go(model, output, *sources, **more):
    how = {key: more.pop(key) for key in ("resume", "combined", "jobs", "watch") if key in more}
    return run(task_for(model, output, **more), find(sources), **how)


@pytest.fixture(scope="module")
def once(model, tmp_path_factory):
    """Four recordings, and an output folder in which they are done."""
    folder = tmp_path_factory.mktemp("once")
    for i, name in enumerate(NAMES):
        path = folder / "four" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, song(i), SAMPLE_RATE)
    go(model, folder / "out", folder / "four")
    return folder


@pytest.fixture
def four(once, tmp_path):
    """The recordings, to do with as one likes."""
    return shutil.copytree(once / "four", tmp_path / "four")


@pytest.fixture
def done(once, tmp_path):
    """The output folder, likewise."""
    folder = shutil.copytree(once / "out", tmp_path / "out")
    journal = folder / ".outlark/journal.jsonl"
    journal.write_text(journal.read_text().replace(str(once), str(tmp_path)))
    return folder


def changed(folder, before):
    """What has been written since."""
    return {path.relative_to(folder).as_posix() for path, at in before.items() if path.stat().st_mtime_ns != at}


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.outlark.csv")}


def test_everything_is_done_once(model, four, tmp_path):
    states = []
    first = go(model, tmp_path / "out", four, combined=True, watch=lambda s: states.append((s.done, s.bytes_done)))
    assert (first.total, first.done, first.skipped, first.failures) == (4, 4, 0, [])
    assert sum(first.segments.values()) >= 4
    sound = [soundfile.info(four / name).duration for name in NAMES]
    assert first.seconds == pytest.approx(sum(sound))
    assert states[0] == (0, 0.0)
    assert states[-1] == (4, sum((four / name).stat().st_size for name in NAMES))
    before, at = contents(tmp_path / "out"), times(tmp_path / "out")
    assert set(before) == {
        "combined.csv",
        *ABOUT,
        *(name + suffix for name in NAMES for suffix in SUFFIXES),
    }

    again = go(model, tmp_path / "out", four, combined=True)
    assert (again.total, again.done, again.skipped) == (4, 0, 4)
    assert again.segments == first.segments
    assert contents(tmp_path / "out") == before
    assert not changed(tmp_path / "out", at)
    assert sorted(os.listdir(tmp_path / "out/.outlark")) == ["combined.csv.sha256", "journal.jsonl", "lock", "workers"]


def test_the_combined_table_has_the_rows_of_earlier_runs(model, four, tmp_path):
    whole = go(model, tmp_path / "out", four, combined=True).combined.read_bytes()
    smaller = go(model, tmp_path / "out", four / "c/a.wav", four / "a.wav", combined=True)
    assert (smaller.total, smaller.skipped) == (2, 2)
    assert smaller.combined.read_bytes() == whole


def test_the_combined_table_has_the_rows_of_all_in_order(model, four, tmp_path):
    report = go(model, tmp_path / "out", four, combined=True, jobs=2)
    assert report.combined == tmp_path / "out/combined.csv"
    with report.combined.open(newline="") as file:
        rows = list(csv.DictReader(file))
    single = []
    for name in NAMES:
        with (tmp_path / "out" / f"{name}.outlark.csv").open(newline="") as file:
            single += list(csv.DictReader(file))
    run = [{name: row.pop(name) for name in RUN_COLUMNS} for row in single]
    assert rows == single
    assert {len(line) for line in run} == {4}
    whole = read_annotations(report.combined)
    for name in NAMES:
        assert read_annotations(tmp_path / "out" / f"{name}.outlark.csv").about == whole.about
    assert whole.about["settings"]["verdicts"]
    # what all rows have in common is not in them
    assert b"sha256" not in report.combined.read_bytes()
    assert run[0]["model_sha256"].encode() not in report.combined.read_bytes()
    assert [row["recording"] for row in rows] == sorted(row["recording"] for row in rows)
    assert {row["recording"] for row in rows} == set(NAMES)


def test_rows_of_several_runs_still_say_which(model, four, tmp_path):
    """As scores of several channels give them, for example."""
    report = go(model, tmp_path / "out", four, combined=True)
    table = tmp_path / "out" / f"{NAMES[0]}.outlark.csv"
    table.write_text(table.read_text().replace('""mix""', "2"))
    again = go(model, tmp_path / "out", four, combined=True)
    assert again.skipped == report.total
    with again.combined.open(newline="") as file:
        told = {row["settings"] for row in csv.DictReader(file)}
    assert len(told) == 2
    assert not (tmp_path / "out/combined.csv.about.json").exists()


@pytest.mark.parametrize("why", ["no-resume", "one missing", "another format", "recording changed"])
def test_an_edited_table_is_kept_when_its_recording_is_done_again(model, four, done, why):
    edited = done / "a.wav.Table.1.selections.txt"
    mine = edited.read_bytes().replace(b"tuti-D", b"mine")
    edited.write_bytes(mine)
    more = {}
    if why == "no-resume":
        more = {"resume": False}
    elif why == "one missing":
        (done / "a.wav.outlark.csv").unlink()
    elif why == "another format":
        more = {"formats": ("csv", "raven", "audacity")}
    else:
        soundfile.write(four / "a.wav", np.concatenate([song(0), song(1)]), SAMPLE_RATE)
    report = go(model, done, four, **more)
    assert report.edited == ["a.wav.Table.1.selections.txt.edited"]
    assert (done / report.edited[0]).read_bytes() == mine
    assert b"mine" not in edited.read_bytes()
    edited.write_bytes(b"again")
    assert go(model, done, four, resume=False).edited == ["a.wav.Table.1.selections.txt.2.edited"]
    assert (done / report.edited[0]).read_bytes() == mine


class Stopped(InProcess):
    """Ctrl-C before anything is done."""

    def submit(self, bundle):
        raise KeyboardInterrupt


@pytest.mark.parametrize("resume", [True, False])
def test_an_edited_table_stays_in_its_place_until_another_replaces_it(model, four, done, resume):
    edited = done / "a.wav.Table.1.selections.txt"
    edited.write_bytes(mine := edited.read_bytes() + b"mine\n")
    (done / "a.wav.outlark.csv").unlink()
    task = task_for(model, done)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(task, find([four]), driver=Stopped(task), resume=resume)
        assert edited.read_bytes() == mine
    go(model, done, four, resume=resume)
    assert edited.read_bytes() != mine
    assert [path.read_bytes() for path in done.rglob("*.edited")] == [mine]


def test_nothing_counts_as_edited_that_nobody_has_edited(model, four, done):
    assert go(model, done, four, combined=True).edited == []
    assert go(model, done, four, combined=True, resume=False).edited == []
    assert not list(done.rglob("*.edited"))


def test_an_edited_combined_table_is_kept(model, four, done):
    combined = go(model, done, four, combined=True).combined
    written = combined.read_bytes()
    combined.write_bytes(mine := written + b"mine\n")
    report = go(model, done, four, combined=True)
    assert report.edited == ["combined.csv.edited"]
    assert ((done / "combined.csv.edited").read_bytes(), combined.read_bytes()) == (mine, written)


def test_a_combined_table_without_rows(model, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 8000)
    report = go(model, tmp_path / "out", tmp_path / "a.wav", combined=True)
    found = read_annotations(report.combined, format="csv")
    assert found.annotations == ()
    assert found.about["settings"]["verdicts"]


def test_only_what_changed_is_done_again(model, four, done):
    soundfile.write(four / "b.wav", song(9), SAMPLE_RATE)  # another recording
    (done / "c/a.wav.Table.1.selections.txt").unlink()  # a table is lost
    soundfile.write(four / "e.wav", song(10), SAMPLE_RATE)  # one more
    (done / "d.flac.outlark.csv").write_text("worked on by hand\n")  # which is nobody's business
    before = times(done)
    report = go(model, done, four)
    assert (report.total, report.done, report.skipped) == (5, 3, 2)
    assert changed(done, before) == {"b.wav.outlark.csv", "c/a.wav.outlark.csv"}
    assert (done / "e.wav.outlark.csv").exists()
    assert (done / "d.flac.outlark.csv").read_text() == "worked on by hand\n"


def test_a_new_format_is_made_of_all(model, four, done):
    before = without_paths(contents(done))  # made elsewhere
    report = go(model, done, four, formats=("csv", "raven", "audacity"), keep_scores=True)
    assert (report.done, report.skipped) == (4, 0)
    after = without_paths(contents(done))
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {name + suffix for name in NAMES for suffix in (".labels.txt", ".scores")}
    assert go(model, done, four).skipped == 4


def test_recordings_that_moved_with_their_folder_are_not_done_again(model, four, done, tmp_path):
    shutil.move(four, tmp_path / "moved")
    assert go(model, done, tmp_path / "moved").skipped == 4


def test_another_recorder_with_files_of_the_same_name_size_and_time_is_refused(model, tmp_path):
    """Recorders that are switched on together write such files."""
    for folder, seed in (("A", 0), ("B", 1)):
        (tmp_path / folder).mkdir()
        soundfile.write(tmp_path / folder / "0430.wav", np.resize(song(seed), 9000), SAMPLE_RATE)
        os.utime(tmp_path / folder / "0430.wav", ns=(10**18, 10**18))
    go(model, tmp_path / "out", tmp_path / "A")
    before = contents(tmp_path / "out")
    with pytest.raises(
        InputError, match=r"holds results of another 0430.wav, .*A/0430.wav, and would now get those of "
    ):
        go(model, tmp_path / "out", tmp_path / "B")
    assert contents(tmp_path / "out") == before


def test_copies_are_left_alone_but_every_byte_counts(model, tmp_path):
    for folder in "AB":
        (tmp_path / folder).mkdir()
        soundfile.write(tmp_path / folder / "0430.wav", np.resize(song(0), 200_000), SAMPLE_RATE)
        os.utime(tmp_path / folder / "0430.wav", ns=(10**18, 10**18))
    go(model, tmp_path / "out", tmp_path / "A")
    assert go(model, tmp_path / "out", tmp_path / "B").skipped == 1
    copy = tmp_path / "B/0430.wav"
    blob = bytearray(copy.read_bytes())
    before = fingerprint(copy)
    blob[90_000] ^= 1  # between the blocks that are looked at
    copy.write_bytes(blob)
    os.utime(copy, ns=(10**18, 10**18))
    assert fingerprint(copy) == before
    with pytest.raises(InputError, match=r"holds results of another 0430.wav"):
        go(model, tmp_path / "out", tmp_path / "B")


def test_a_card_that_was_swapped_under_one_mount_point_is_seen(model, tmp_path):
    (tmp_path / "card").mkdir()
    for seed in (0, 1):
        soundfile.write(tmp_path / "card/0430.wav", np.resize(song(seed), 9000), SAMPLE_RATE)
        os.utime(tmp_path / "card/0430.wav", ns=(10**18, 10**18))
        report = go(model, tmp_path / "out", tmp_path / "card")
        assert (report.done, report.skipped, report.changed) == (1, 0, ["0430.wav"] if seed else [])
    go(model, tmp_path / "anew", tmp_path / "card")
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")


def cut(path, seconds, new):
    """A copy of a WAV of 16 bits without all that comes after so many seconds."""
    new.write_bytes(path.read_bytes()[: 44 + 2 * round(seconds * SAMPLE_RATE)])


def test_a_recording_that_was_cut_short_is_done_in_part(model, four, tmp_path):
    soundfile.write(tmp_path / "whole.wav", np.tile(song(0), 3), SAMPLE_RATE)
    whole_s = soundfile.info(tmp_path / "whole.wav").duration
    cut(tmp_path / "whole.wav", 0.7, four / "cut.wav")
    for skipped in (0, 5):  # it is told again when nothing is left to do
        report = go(model, tmp_path / "out", four, combined=True, formats=("csv", "raven", "audacity"))
        assert (report.total, report.skipped, report.failures) == (5, skipped, [])
        ((name, message),) = [(partial.where, partial.message) for partial in report.partial]
        assert name == "cut.wav"
        assert f"its header announces {whole_s:.3f} s, but it holds 0.700 s" in message
        with report.failures_file.open(newline="") as file:
            assert [row["recording"] for row in csv.DictReader(file)] == ["cut.wav"]
        with report.combined.open(newline="") as file:
            remarks = {row["recording"]: row["remark"] for row in csv.DictReader(file)}
        assert remarks["cut.wav"] == f"partial: {message}"
        assert not any(remark for name, remark in remarks.items() if name != "cut.wav")
    raven = (tmp_path / "out/cut.wav.Table.1.selections.txt").read_text().splitlines()
    assert all(row.endswith(f"\tpartial: {message}") for row in raven[1:])
    shutil.copy(tmp_path / "whole.wav", four / "cut.wav")  # a whole copy is found
    mended = go(model, tmp_path / "out", four, formats=("csv", "raven", "audacity"))
    assert (mended.done, mended.partial, mended.failures_file) == (1, [], None)


def test_little_to_hear_and_unfinished_headers_are_told(model, tmp_path):
    folder, sound = tmp_path / "in", np.tile(song(0), 3)
    folder.mkdir()
    odd = {"dead": 0 * sound, "clipped": np.clip(1e3 * sound, -1, 1), "cancelling": np.column_stack([sound, -sound])}
    for name, samples in {**odd, "fine": sound, "unfinished": sound}.items():
        soundfile.write(folder / f"{name}.wav", samples, SAMPLE_RATE)
    blob = (folder / "fine.wav").read_bytes()
    (folder / "unfinished.wav").write_bytes(blob[:4] + bytes(4) + blob[8:40] + bytes(4) + blob[44:])
    (folder / "header.wav").write_bytes(blob[:40] + bytes(4))
    for skipped in (0, 5):  # it is told again when nothing is left to do
        report = go(model, tmp_path / "out", folder)
        assert report.skipped == skipped
        assert [one.where for one in report.quality] == ["cancelling.wav", "clipped.wav", "dead.wav"]
        assert [one.where for one in report.partial] == ["unfinished.wav"]
        ((name, message),) = [(one.where, one.message) for one in report.failures]
        assert (name, "holds no sound" in message) == ("header.wav", True)
        with report.failures_file.open(newline="") as file:
            rows = {row["recording"]: row["message"] for row in csv.DictReader(file)}
        assert {name for name, message in rows.items() if message.startswith("remark: ")} == {f"{n}.wav" for n in odd}
    fine, unfinished = (read_annotations(tmp_path / f"out/{name}.wav.outlark.csv") for name in ("fine", "unfinished"))
    assert [(m.start_s, m.score) for m in unfinished.annotations] == [(m.start_s, m.score) for m in fine.annotations]
    assert len(fine.annotations) >= 3


@pytest.mark.parametrize(("how", "told"), [(1, "grew"), (-1, "shrank")])
def test_a_recording_that_changes_while_it_is_read_is_done_in_part(model, tmp_path, how, told):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.tile(song(0), 20), SAMPLE_RATE)
    size = path.stat().st_size

    def recorder(*_):
        os.truncate(path, size + how * 1000)

    (tmp_path / "out").mkdir()
    engine = Engine(task_for(model, tmp_path / "out"), tmp_path / "scratch")
    found = engine.work([Unit(Source(path, "a.wav"))], recorder)[0]["done"]
    assert f"{told} while it was read: {size} bytes before, {size + how * 1000} after" in found["partial"]
    assert found["file"]["size"] == size  # so that the next run sees that it is another one
    assert "partial: " in (tmp_path / "out/a.wav.outlark.csv").read_text()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"decisions": {"activity_db": 9.0}}, r"decisions \{\}, now \{'activity_db': 9.0\}"),
        ({"channel": 1}, "channel None, now 1"),
        ({"verdicts": ("known",)}, r"verdicts \['known', 'ambiguous', 'unknown'\], now \['known'\]"),
    ],
)
def test_other_settings_are_refused(model, four, done, more, told):
    with pytest.raises(
        InputError, match=rf"made with other settings \(.*: {told}\); choose another .* or use --no-resume"
    ):
        go(model, done, four, **more)


def test_other_settings_when_all_is_done_again(model, four, done):
    more = {"verdicts": ("known",)}
    assert go(model, done, four, resume=False, **more).done == 4
    assert go(model, done, four, **more).skipped == 4
    assert b",unknown," not in b"".join(contents(done).values())


def test_another_model_is_refused(model, four, done, tmp_path):
    other = save_model(tmp_path / "other.outlark", ("tuti-D", "cach-Z"))
    with pytest.raises(InputError, match=r"model_sha256 [0-9a-f]{12}…, now [0-9a-f]{12}…\)"):
        go(other, done, four)


def test_bad_files_do_not_stop_the_others(model, four, tmp_path):
    (four / "empty.wav").touch()
    (four / "junk.wav").write_bytes(b"RIFF" + bytes(range(256)))
    (four / "=text.mp3").write_text("no sound")
    (four / "folder.wav").mkdir()
    samples = song(0)
    samples[100] = np.nan
    soundfile.write(four / "nan.wav", samples, SAMPLE_RATE, subtype="FLOAT")
    (four / "gone.wav").symlink_to(tmp_path / "nowhere")
    sources = find([four])
    (four / "b.wav").unlink()  # between listing and reading
    report = run(task_for(model, tmp_path / "out"), sources, combined=True)
    assert report.done == 3
    told = {failure.where: failure.message for failure in report.failures}
    assert list(told) == sorted(told)
    assert set(told) == {"b.wav", "empty.wav", "gone.wav", "junk.wav", "nan.wav", "=text.mp3"}
    assert "is empty (0 bytes)" in told["empty.wav"]
    assert "cannot be decoded as a sound file" in told["junk.wav"]
    assert "is nan, which is no sound" in told["nan.wav"]
    assert "cannot be found" in told["b.wav"]
    assert report.failures_file == tmp_path / "out/failures.csv"
    with report.failures_file.open(newline="") as file:
        rows = {row["recording"]: row["message"] for row in csv.DictReader(file)}
    assert rows == {name.replace("=", "'="): message for name, message in told.items()}
    left = {name for name in contents(tmp_path / "out") if name.endswith(".outlark.csv")}
    assert left == {"a.wav.outlark.csv", "c/a.wav.outlark.csv", "d.flac.outlark.csv"}

    for name in told:  # mended, they are tried again
        (four / name).unlink(missing_ok=True)
    soundfile.write(four / "empty.wav", song(1), SAMPLE_RATE)
    mended = go(model, tmp_path / "out", four, combined=True)
    assert (mended.done, mended.skipped, mended.failures, mended.failures_file) == (1, 3, [], None)
    assert not (tmp_path / "out/failures.csv").exists()


def test_settings_that_do_not_fit_the_model_are_told_once(model, four, tmp_path):
    with pytest.raises(InputError, match=r"least_s=-1\.0 must be 'auto' or a number of seconds"):
        go(model, tmp_path / "out", four, decisions={"least_s": -1.0})
    assert not contents(tmp_path / "out")


def test_what_is_no_model(four, tmp_path):
    (tmp_path / "m.outlark").write_text("no model, not at all")
    with pytest.raises(InputError, match=r"m.outlark: not a model file"):
        go(tmp_path / "m.outlark", tmp_path / "out", four)
    with pytest.raises(ModelFileError, match=r"x.outlark: cannot be read \(No such file or directory\); give the path"):
        go(tmp_path / "x.outlark", tmp_path / "out", four)


def test_one_run_at_a_time(model, four, tmp_path):
    (tmp_path / "out/.outlark").mkdir(parents=True)
    with (
        lock(tmp_path / "out/.outlark/lock"),
        pytest.raises(InputError, match=r"out: another run is using this folder; wait for it to finish"),
    ):
        go(model, tmp_path / "out", four)


def detect_and(what, model, four, output, jobs=1):
    """Something happens while a long file is being worked on; what was said and the last line on each file."""
    soundfile.write(four / "b.wav", np.tile(song(0), 200), SAMPLE_RATE)
    process = start_and(what, "state.done == 1 and not state.failures", "detect", model, four, "-o", output, "-j", jobs)
    said = process.communicate()[1].decode()
    assert "Traceback" not in said
    lines = (output / ".outlark/journal.jsonl").read_text().splitlines()
    assert not (output / ".outlark/partial").exists()
    return process.returncode, said, {entry["recording"]: entry for entry in map(json.loads, lines)}


def test_what_a_worker_that_died_was_at_work_on_is_done_again(model, four, tmp_path):
    code, said, states = detect_and("kill_worker", model, four, tmp_path / "out")
    assert code == 0, said
    assert [states[name]["state"] for name in NAMES] == ["done"] * 4
    go(model, tmp_path / "undisturbed", four, formats=("csv",), combined=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_a_file_whose_worker_dies_twice_is_told_and_the_others_are_done(model, four, tmp_path):
    code, said, states = detect_and("kill_each_worker", model, four, tmp_path / "out")
    assert code == 3, said
    assert [states[name]["state"] for name in NAMES] == ["done", "failed", "done", "done"]
    assert "b.wav: the process was ended by signal 9 (SIGKILL); out of memory?" in states["b.wav"]["message"]


class DiesOfB(InProcess):
    """Its process dies of one recording, whenever that is in a bundle."""

    def __init__(self, task):
        super().__init__(task)
        self.bundles = []

    def events(self):
        (bundle,) = self._bundles
        self.bundles.append([unit.source.name for unit in bundle])
        if "b.wav" not in self.bundles[-1]:
            yield from super().events()
            return
        self._bundles.clear()
        for unit in bundle:
            yield Event(unit, {"died": "out of memory?"})


def test_of_a_bundle_whose_process_died_only_the_recording_at_fault_fails(model, four, tmp_path):
    for name in "efgh":
        shutil.copy(four / "a.wav", four / f"{name}.wav")
    driver = DiesOfB(task := task_for(model, tmp_path / "out"))
    report = run(task, find([four]), driver=driver)
    assert (report.done, [one.where for one in report.failures]) == (7, ["b.wav"])
    assert report.seconds == pytest.approx(sum(soundfile.info(path).duration for path in four.rglob("*.*")), abs=1.0)
    first, *rest = driver.bundles
    assert "b.wav" in first
    assert len(first) > 1
    assert all([name] in rest for name in first)  # each by itself
    entries = Journal(task.output).entries
    assert {name: entry["state"] for name, entry in entries.items()} == {
        source.name: "failed" if source.name == "b.wav" else "done" for source in find([four]).files
    }


def test_results_of_a_bundle_are_on_the_disk_before_the_journal_tells(model, four, tmp_path, monkeypatch):
    add, told = Journal.add, []

    def checked(journal, *entries):
        for entry in entries:
            told.append(entry["recording"])
            for name, digest in entry["outputs"].items():
                assert file_sha256(tmp_path / "out" / name) == digest
        add(journal, *entries)
        told.append("")

    monkeypatch.setattr(Journal, "add", checked)
    run(task := task_for(model, tmp_path / "out"), find([four]), driver=InProcess(task))
    assert sorted(filter(None, told)) == sorted(NAMES)
    assert told.count("") < len(NAMES)  # several lines at once


def test_workers_of_a_run_that_was_just_killed_are_waited_for(model, four, done, monkeypatch):
    holding = lock(done / ".outlark/workers", shared=True)
    holding.__enter__()
    waited = []

    def let_go(seconds):
        """The first time that somebody waits."""
        if not waited:
            waited.append(seconds)
            holding.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", let_go)
    assert go(model, done, four).skipped == 4
    assert waited
