"""The benchmarks on real notes and of speed run, on the smallest of tasks; their numbers are not looked at closely."""

import numpy as np
import paper_on_recordings
import pytest
import real_note_tasks
import real_notes
import throughput

from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.notes.segments import Segment


@pytest.fixture
def folder():
    try:
        return real_note_tasks.data_folder()
    except SystemExit as error:
        pytest.skip(str(error))


def planted(seed=1):
    """A recording with one note of each known class and an unknown one."""
    some = notes(seed=seed, counts={"tuti-F": 1, "cach-D": 1, "cach-Z": 1})
    return concatenate(some, gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("task", list(real_note_tasks.TASKS))
def test_tasks_draw(folder, task):
    drawn, again = (real_note_tasks.draw(task, 3, 4) for _ in range(2))
    labels = [s.label for r in drawn.train for s in r.segments]
    assert sorted(set(labels)) == drawn.classes
    assert all(labels.count(c) == 4 for c in drawn.classes)
    assert {s.label for r in drawn.test for s in r.segments} >= set(drawn.classes)
    for a, b in zip([*drawn.train, *drawn.test], [*again.train, *again.test], strict=True):
        assert np.array_equal(a.samples, b.samples)
        assert list(a.segments) == list(b.segments)


def test_examples_are_no_test(folder):
    for task in real_note_tasks.TASKS:
        drawn = real_note_tasks.draw(task, 0, 3)
        for test in drawn.test:
            shared = [r for r in drawn.train if np.array_equal(r.samples, test.samples)]
            for example in (s for r in shared for s in r.segments):
                assert example in test.left_out
                assert example not in test.segments


def test_no_data_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("OUTLARK_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit, match="OUTLARK_DATA"):
        real_note_tasks.data_folder("zebra-finch-syllables")


def test_measures_of_a_perfect_and_of_an_empty_answer():
    audio, truth = planted()
    drawn = real_note_tasks.Draw([], [real_note_tasks.Recording(audio, SAMPLE_RATE, truth)], ["cach-D", "tuti-F"])
    perfect = real_notes.measure(drawn, [[s for s in truth if s.label in drawn.classes]], 0.0)
    assert perfect[:4] == (1.0, 1.0, 1.0, 0.0)
    silence = Segment(start=0, end=len(audio), sample_rate=SAMPLE_RATE, verdict="silence")
    nothing = real_notes.measure(drawn, [[silence]], 0.0)
    assert nothing.note_f == nothing.event_f == 0.0
    assert np.isnan(nothing.onset_ms)


def test_left_out_spans_are_not_scored():
    audio, truth = planted()
    example, *rest = truth
    recording = real_note_tasks.Recording(audio, SAMPLE_RATE, rest, left_out=[example])
    drawn = real_note_tasks.Draw([], [recording], [example.label, *(s.label for s in rest)])
    assert real_notes.measure(drawn, [truth], 0.0) == real_notes.measure(drawn, [rest], 0.0)


def test_real_notes_prints_its_table(folder, capsys, tmp_path):
    arguments = ["--sets", "field-recordings-small", "--draws", "2", "--jobs", "1", "--rows", "default", "templates"]
    real_notes.main([*arguments, "--csv", str(tmp_path / "a.csv"), "--markdown"])
    printed = capsys.readouterr().out
    assert "python benchmarks/real_notes.py --sets" in printed
    assert "| template matching |" in printed
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + 4


def test_the_paper_on_recordings_prints_its_table(folder, capsys):
    arguments = ["--sets", "flight-calls-56", "--seeds", "2", "--jobs", "1", "--methods", "mddkm", "templates"]
    paper_on_recordings.main([*arguments, "--markdown"])
    printed = capsys.readouterr().out
    assert "python benchmarks/paper_on_recordings.py --sets" in printed
    assert "| AMRE | BTBW | HOWA | OOD |" in printed
    assert printed.count("| template matching |") == 3


@pytest.mark.parametrize("name", list(throughput.SYSTEMS))
def test_systems_run_as_a_stream(name):
    assert throughput.run_system(name, 6.0)["segments"] > 0


def test_a_process_of_its_own_tells_its_memory():
    found = throughput.in_a_process("whole notes", 6.0)
    assert found["MB"] > 20
    assert found["segments"] == throughput.run_system("whole notes", 6.0)["segments"]


def test_throughput_prints_its_table(monkeypatch, capsys):
    monkeypatch.setattr(throughput, "in_a_process", throughput.measured)  # starting Python seven times is slow
    throughput.main(["--minutes", ".1", "--plain-seconds", "1"])
    assert "times real time" in capsys.readouterr().out


def test_the_plain_transcription_decides_as_the_system_does():
    assert throughput.run_plain(2.0)["shared"] > 0.99
