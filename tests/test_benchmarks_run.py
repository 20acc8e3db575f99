"""Every benchmark starts and shows its options; a few run on tiny input, and what they rest on is right."""

import importlib
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import class_model_speed
import constants
import costs
import detector_speed
import environments
import numpy as np
import paper_readings
import pytest
import real_note_noise
import real_note_tasks
import real_notes
import review_rounds
import speed
import speed_data
import speed_tables
import sweeps
import throughput

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.segments import Segment

BENCHMARKS = sorted(Path(speed.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_starts(path, monkeypatch, capsys):
    """All are imported; those with options show them."""
    if path.stem == "gpytorch_models":
        pytest.importorskip("gpytorch")
    if "parse_args" not in path.read_text(encoding="utf-8"):
        importlib.import_module(path.stem)
        return
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def planted(seed=1):
    """A recording with one note of each known class and an unknown one."""
    some = notes(seed=seed, counts={"tuti-F": 1, "cach-D": 1, "cach-Z": 1})
    return concatenate(some, gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(seed))


def drawn_of(audio, truth, classes, left_out=()):
    recording = real_note_tasks.Recording(audio, SAMPLE_RATE, truth, left_out=list(left_out))
    return real_note_tasks.Draw([], [recording], classes)


def test_no_example_is_tested_on():
    try:
        real_note_tasks.data_folder()
    except SystemExit as error:
        pytest.skip(str(error))
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


def test_measures_of_real_notes():
    """A perfect answer, none, one that overlaps in part; spans that are left out do not count."""
    audio, truth = planted()
    drawn = drawn_of(audio, truth, ["cach-D", "tuti-F"])
    wanted = [s for s in truth if s.label in drawn.classes]
    assert real_notes.measure(drawn, [wanted], 0.0)[:4] == (1.0, 1.0, 1.0, 0.0)
    silence = Segment(start=0, end=len(audio), sample_rate=SAMPLE_RATE, verdict="silence")
    nothing = real_notes.measure(drawn, [[silence]], 0.0)
    assert nothing.note_f == nothing.event_f == 0.0
    part = [replace(s, end=s.start + int(0.4 * (s.end - s.start))) for s in wanted]
    assert real_notes.measure(drawn, [part], 0.0).event_f == 0.0
    assert real_notes.measure(replace(drawn, min_iou=0.3), [part], 0.0).event_f == 1.0
    example, *rest = truth
    drawn = drawn_of(audio, rest, [s.label for s in truth], left_out=[example])
    assert real_notes.measure(drawn, [truth], 0.0) == real_notes.measure(drawn, [rest], 0.0)


def test_results_of_real_notes_are_joined(tmp_path, capsys):
    for name, f in (("default", 0.5), ("templates", 0.4)):
        found = {
            real_notes.Key("spoken-digits", 5, draw, name): real_notes.Measures(f, f, f, float("nan"), 1.0)
            for draw in range(3)
        }
        real_notes.start_csv(tmp_path / f"{name}.csv")
        real_notes.append_csv(tmp_path / f"{name}.csv", found)
    real_notes.main(["--join", *map(str, sorted(tmp_path.glob("*.csv"))), "--markdown"])
    printed = capsys.readouterr().out
    assert "| outlark, defaults | 0.500 ± 0.000 | 0.500 ± 0.000 | 0.500 ± 0.000 | - | 1.0 |" in printed
    assert "| template matching | +0.100 (p 0.25) | +0.100 (p 0.25) |" in printed


def test_band_power_is_that_of_the_band_alone():
    times = np.arange(32000) / 32000
    low, within = 5 * np.sin(2 * np.pi * 200 * times), np.sin(2 * np.pi * 3000 * times)
    assert real_note_noise.band_power([low + within, within], 32000) == pytest.approx(0.5, rel=0.01)


def test_a_review_says_what_is_true():
    """True notes are confirmed, others rejected, and what lies in spans that are not scored is neither."""
    audio, (right, wrong, unscored) = planted()

    class Detector:
        def detect(self, samples, rate):
            return [right, replace(wrong, label=right.label), replace(unscored, label=right.label)]

    drawn = drawn_of(audio, [right, wrong], [right.label], left_out=[unscored])
    said = review_rounds.review(drawn.test, Detector(), drawn)
    assert said.confirmed == [[right]]
    assert [(s.start, s.label) for s in said.rejected[0]] == [(wrong.start, right.label)]


def test_a_sweep_and_the_readings_of_the_paper_print_their_tables(capsys):
    arguments = ["--settings", "snr_db", "--values", "1", "--methods", "templates", "--seeds", "1", "--jobs", "1"]
    sweeps.main(arguments)
    assert "| snr_db | 1 |" in capsys.readouterr().out
    paper_readings.main(["--seeds", "1", "--rows", "paper-raw", "-j", "1"])
    _, quiet, loud = capsys.readouterr().out.splitlines()
    assert quiet.split()[2] > loud.split()[2] == "0.195"  # as printed, the formula depends on the loudness


def test_the_plain_transcription_decides_as_the_system_does():
    assert throughput.run_plain(2.0)["shared"] > 0.99


@pytest.mark.parametrize("name", list(constants.CONSTANTS))
def test_constants_can_be_moved(name):
    moved, _, others = constants.CONSTANTS[name]
    with moved(others[-1]):
        pass


def test_class_models_of_the_same_formula_agree(tmp_path):
    speed_data.write_frames(tmp_path / "frames.npz", 60, 200)
    for name in class_model_speed.ALIKE:
        assert set(class_model_speed.measured(name, tmp_path)) == {"fit", "score", "MB", "own MB"}
        assert class_model_speed.largest_difference(name, tmp_path) < (1e-3 if name == "mddkm-single" else 1e-9)
    with pytest.raises(costs.FailedError, match="KeyError: 'none'"):
        costs.in_a_process(speed.HERE / "class_model_speed.py", "none", str(tmp_path))


def test_fft_templates_are_normalised_cross_correlation(rng):
    spectrogram, start = rng.normal(size=(7, 40)), 11
    template = spectrogram[:, start : start + 5]
    found = detector_speed.FFTTemplates(44).correlation(spectrogram, template)
    patches = [spectrogram[:, i : i + 5].ravel() for i in range(36)]
    assert np.allclose(found, [np.corrcoef(patch, template.ravel())[0, 1] for patch in patches])


def test_the_page_of_benchmarks_has_its_markers():
    speed_tables.check_markers(environments.ROOT / "docs" / "benchmarks.md")
    for name, needed in environments.NEEDS.items():
        assert name == "outlark" or len(environments.requirements(name)) == len(needed) > 0
