"""The doctor: a good model is found good, and of a bad one it says what is wrong."""

import warnings

import numpy as np
import pytest

from outlark import PKNN, ArrayFrontEnd, HLDSFrontEnd, NoteDetector, Segment, model_file
from outlark.commands.doctor import Finding, click, examine, hum, in_background, note_scores, pink, sound_tests, whistle
from outlark.data.synthetic import KNOWN_CLASSES, SAMPLE_RATE, concatenate, notes
from outlark.detection.note_training import annotated_notes, note_samples
from outlark.paper.detector import FrameDetector

SOUNDS = {
    "digital silence", "steady white noise", "steady pink noise", "bursts of white noise", "bursts of pink noise",
    "hum switched on and off", "clicks", "pure tones", "rising and falling whistles",
}  # fmt: skip


def clips(counts, seed=0):
    found = notes(seed=seed, counts=counts)
    return [n.samples for n in found], [n.label for n in found]


def trained(counts, detector=None):
    return (detector or NoteDetector()).fit(*clips(counts), SAMPLE_RATE)


def told(findings, check):
    return [f for f in findings if f.check == check]


@pytest.fixture(scope="module")
def good():
    return trained(dict.fromkeys(KNOWN_CLASSES, 4))


# --- whole models ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def findings_of_good(good):
    return examine(good)


def test_a_good_model(findings_of_good):
    findings = findings_of_good
    assert {f.severity for f in findings} == {"good"}
    assert {f.check for f in findings} > SOUNDS | {"left-out notes", "number of notes"}
    assert not any(f.advice for f in findings)


def test_a_model_from_a_file_has_the_same_findings(good, findings_of_good, tmp_path):
    model_file.save(good, tmp_path / "good.outlark")
    assert examine(model_file.load(tmp_path / "good.outlark")) == findings_of_good


def test_a_class_of_noise():
    """No burst of noise is like another: its own notes would be missed, and that is told."""
    rng = np.random.default_rng(0)
    hiss = [0.1 * rng.normal(size=4000) for _ in range(4)]
    findings = examine(NoteDetector().fit(hiss, ["hiss"] * 4, SAMPLE_RATE))
    (missed,) = [f for f in findings if f.check == "left-out notes"]
    assert missed.severity == "problem"
    assert missed.what.startswith("4 of 4 notes of 'hiss' would be missed if not learnt from")
    assert missed.advice.startswith("Listen to them")


def test_a_class_of_noise_beside_a_good_one():
    """The good one holds up the threshold of both: nothing else is taken for a note."""
    rng = np.random.default_rng(0)
    known, labels = clips({"cach-E": 4})
    hiss = [0.1 * rng.normal(size=1200) for _ in range(4)]
    findings = examine(NoteDetector().fit(known + hiss, labels + ["hiss"] * 4, SAMPLE_RATE))
    (missed,) = [f for f in findings if f.severity != "good"]
    assert (missed.severity, missed.check) == ("problem", "left-out notes")
    assert "4 of 4 notes of 'hiss'" in missed.what


def test_two_classes_with_the_same_notes():
    known, _ = clips({"tuti-F": 4})
    findings = examine(NoteDetector().fit(known * 2, ["A"] * 4 + ["B"] * 4, SAMPLE_RATE))
    (copies,) = told(findings, "copies")
    assert copies.severity == "problem"
    assert copies.what.startswith("4 notes labelled 'A' and 'B': recording 0 = recording 4, ")
    one, other = told(findings, "classes taken for each other")
    assert (one.severity, other.severity) == ("problem", "problem")
    assert "of 4 notes of 'A', other classes also accept: 'B' (4)" in one.what
    assert "'A' (4)" in other.what


def test_two_classes_of_one_kind():
    known, _ = clips({"tuti-F": 8})
    fitted = NoteDetector().fit(known, ["A", "B"] * 4, SAMPLE_RATE)
    findings = examine(fitted)
    assert [f.severity for f in told(findings, "classes taken for each other")] == ["problem", "problem"]
    assert not told(findings, "copies")
    assert not told(findings, "suspected labels")  # it is the classes, not the notes
    audio, _ = concatenate(notes(seed=3, counts={"tuti-F": 6}), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(0))
    verdicts = [s.verdict for s in fitted.detect(audio, SAMPLE_RATE) if s.label]
    assert verdicts.count("ambiguous") > 3  # it is as the doctor says


def test_the_literal_system():
    findings = examine(trained(dict.fromkeys(KNOWN_CLASSES, 3), FrameDetector.paper()))
    (steady,) = told(findings, "steady white noise")
    assert steady.severity == "problem"
    assert "2 of 3 taken for a note" in steady.what
    (silence,) = told(findings, "silence")
    assert "does not distinguish silence from sound" in silence.what


@pytest.mark.parametrize(
    "detector",
    [FrameDetector(HLDSFrontEnd()), FrameDetector(HLDSFrontEnd(), PKNN())],
    ids=["frames", "frames, PKNN"],
)
def test_other_detectors(detector):
    findings = examine(trained(dict.fromkeys(KNOWN_CLASSES[:2], 3), detector))
    assert {f.check for f in findings} >= SOUNDS | {"number of notes"}
    assert {f.severity for f in findings if f.check.startswith("steady")} == {"good"}


def test_series_of_numbers(rng):
    t = np.arange(200)[:, np.newaxis]
    series = [np.sin(t * (0.1 + 0.05 * (i % 2))) + 0.1 * rng.normal(size=(200, 3)) for i in range(6)]
    findings = examine(FrameDetector(ArrayFrontEnd()).fit(series, ["a", "b"] * 3, 50))
    assert {f.check for f in findings} & SOUNDS == {"digital silence"}
    assert told(findings, "number of notes")[0].severity == "good"


def test_not_trained():
    with pytest.raises(ValueError, match="not fitted"):
        examine(NoteDetector())


def test_a_finding_as_text():
    assert str(Finding(severity="warning", check="x", what="it rains", advice="Go in")) == "warning: it rains. Go in"


# --- the notes ------------------------------------------------------------------------------------------------------


def test_left_out_scores_are_those_of_a_class_without_the_note():
    """The closed form, against detectors that have not seen the note; masks and steps of pitch are no notes."""
    audio, annotations = concatenate(
        notes(counts={"tuti-D": 4, "cach-Z": 3}), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(0)
    )
    whole = NoteDetector().fit_recordings([audio], [annotations], SAMPLE_RATE)
    front_end, in_order = whole.front_end_, sorted(annotations, key=lambda m: (m.label, m.start))
    every = annotated_notes(front_end, [front_end.transform(audio)], [in_order])
    for i, (found, annotation) in enumerate(zip(note_scores(whole), in_order, strict=True)):
        rest = [m for m in in_order if m is not annotation]
        without = NoteDetector().fit_recordings([audio], [rest], SAMPLE_RATE)
        c = whole.classes_.tolist().index(annotation.label)
        own = without.class_model_.class_scores(note_samples(front_end, every[i : i + 1])[0])[:, c].max()
        assert found.label == annotation.label
        assert found.own == pytest.approx(own, abs=1e-6)


def test_the_only_note_of_a_class_cannot_be_left_out():
    findings = examine(trained({"tuti-D": 1, "tuti-F": 4}))
    assert [f.what for f in told(findings, "left-out notes")] == ["left-out notes: all 4 would be found"]


def on_disk(folder, clips):
    import soundfile

    paths = [folder / f"clip{i}.wav" for i in range(len(clips))]
    for path, samples in zip(paths, clips, strict=True):
        soundfile.write(path, samples, SAMPLE_RATE)
    return paths


def test_a_note_that_would_be_missed_is_named(tmp_path):
    """Of four notes it is not known which of them is odd."""
    known, labels = clips({"tuti-D": 3, "cach-Z": 5})
    wrong = notes(seed=9, counts={"cach-E": 1})[0].samples
    findings = examine(NoteDetector().fit(on_disk(tmp_path, [*known, wrong]), [*labels, "tuti-D"]))
    (missed,) = [f for f in told(findings, "left-out notes") if f.severity != "good"]
    assert missed.severity == "warning"
    assert missed.what.startswith("1 of 4 notes of 'tuti-D' would be missed if not learnt from (clip8.wav: ")
    assert not told(findings, "notes not used")


def test_a_note_that_was_not_used_is_named(tmp_path):
    """And is neither left out nor taken for another: the class does not know it."""
    known, labels = clips({"tuti-D": 5, "cach-Z": 5})
    wrong = notes(seed=9, counts={"cach-E": 1})[0].samples
    paths = on_disk(tmp_path, [wrong, *known])
    with pytest.warns(UserWarning, match="note 1 of the 6 examples of 'tuti-D'"):
        fitted = NoteDetector().fit(paths, ["tuti-D", *labels])
    model_file.save(fitted, tmp_path / "m.outlark")
    findings = examine(model_file.load(tmp_path / "m.outlark"))
    (unused,) = [f for f in findings if f.severity != "good"]
    assert (unused.severity, unused.check) == ("warning", "notes not used")
    assert (
        unused.what == "labelled 'tuti-D', but unlike all other notes of this class and therefore not used: clip0.wav"
    )
    assert [note.name for note in note_scores(fitted)] == [path.name for path in [*paths[6:], *paths[1:6]]]


def test_a_wrong_label_is_named():
    known, labels = clips({"tuti-D": 4, "cach-Z": 3})
    labels[2] = "cach-Z"
    findings = examine(NoteDetector().fit(known, labels, SAMPLE_RATE))
    (suspected,) = told(findings, "suspected labels")
    assert "labelled 'cach-Z'" in suspected.what
    assert "recording 2 ('tuti-D'" in suspected.what


def test_notes_of_another_length_are_not_mistaken(rng):
    """A long and a short whistle of one pitch: a short note cannot be a long one."""
    tones = [whistle(n, 3000.0, 3000.0, 16000) for n in (1600, 1700, 1650, 6400, 6500, 6600)]
    tones = [0.1 * tone + 1e-3 * rng.normal(size=len(tone)) for tone in tones]
    fitted = NoteDetector().fit(tones, ["short"] * 3 + ["long"] * 3, 16000)
    scores = note_scores(fitted)
    assert any(note.best_other > note.threshold for note in scores)
    assert not any(note.accepted_by for note in scores)


def test_a_class_that_is_no_class():
    known = [n.samples for n in notes(counts=dict.fromkeys(("tuti-D", "tuti-F", "cach-E", "cach-C"), 1))]
    again, labels = clips({"cach-Z": 5})
    findings = examine(NoteDetector().fit([*again, *known], [*labels, *["mixed"] * 4], SAMPLE_RATE))
    problems = [f for f in findings if f.severity == "problem"]
    assert [f.check for f in problems] == ["left-out notes"]
    assert all("'mixed'" in f.what for f in problems)
    assert any("two kinds of notes may be two classes" in f.advice for f in problems)


def test_few_notes_and_copies():
    known, labels = clips({"tuti-D": 1, "tuti-F": 2, "cach-Z": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = NoteDetector().fit([*known, known[-1]], [*labels, "cach-Z"], SAMPLE_RATE)
    findings = examine(fitted)
    assert [f.what.split(",")[0] for f in told(findings, "number of notes")] == [
        "'tuti-D' has 1 training note",
        "'tuti-F' has 2 training notes",
    ]
    (copies,) = told(findings, "copies")
    assert copies.severity == "warning"
    assert copies.what == "1 note of 'cach-Z' repeated: recording 5 = recording 6"


# --- how it is set up -----------------------------------------------------------------------------------------------


def test_durations_that_vary(rng):
    bats = [0.1 * rng.normal(size=n) for n in (5_000, 5_250, 30_000)]
    findings = examine(NoteDetector().fit(bats, ["x"] * 3, 96_000))
    assert "the duration of 'x' varies from 0.052 to 0.312 s" in told(findings, "durations")[0].what


@pytest.mark.parametrize(("threshold", "word"), [(np.inf, "nothing"), (0.0, "all")])
def test_thresholds_that_cannot_be(good, threshold, word, tmp_path):
    import copy
    from dataclasses import replace

    bad = copy.copy(good)
    bad.model_ = replace(good.model_, by_hand=dict(zip(good.classes_.tolist(), [threshold, 2.0, 2.0], strict=True)))
    (finding,) = told(examine(bad), "thresholds")
    assert finding.severity == "problem"
    assert f"it accepts {word}" in finding.what


def test_notes_marked_in_recordings_have_their_times(tmp_path):
    audio, truth = concatenate(notes(counts={"tuti-D": 5}), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(0))
    annotations = [Segment(start=s.start, end=s.end, sample_rate=SAMPLE_RATE, label=s.label) for s in truth]
    fitted = NoteDetector().fit_recordings([audio], [annotations], SAMPLE_RATE)
    names = [note.name for note in note_scores(fitted)]
    assert names[0] == "recording 0 at 0.500 s"
    assert len(set(names)) == 5


# --- the sounds -----------------------------------------------------------------------------------------------------


def test_sounds_are_what_they_are_called(rng):
    def peak_hz(x, rate):
        return np.abs(np.fft.rfft(x)).argmax() * rate / len(x)

    assert peak_hz(hum(8000, 50.0, 8000), 8000) == pytest.approx(50)
    assert peak_hz(whistle(8000, 1000.0, 1000.0, 8000), 8000) == pytest.approx(1000, abs=2)
    rising = whistle(8000, 500.0, 2000.0, 8000)
    assert peak_hz(rising[:2000], 8000) < 900 < 1300 < peak_hz(rising[-2000:], 8000)
    power = np.abs(np.fft.rfft(pink(2**16, rng))) ** 2
    low, high = power[100:200].mean(), power[10_000:20_000].mean()
    assert low / high == pytest.approx(100, rel=0.3)
    for sound in (hum(8000, 60.0, 8000), pink(8000, rng), whistle(8000, 900.0, 700.0, 8000)):
        assert np.sqrt((sound**2).mean()) == pytest.approx(1.0, rel=0.02)
    assert np.abs(click(1.0, 8000, rng)).max() == 1.0
    assert len(click(0.0, 8000, rng)) == 1


def test_sounds_are_in_their_places(good, rng):
    samples, spans = in_background([np.ones(50), 2 * np.ones(80)], 1000, rng)
    assert [round(float(samples[a:b].mean())) for a, b in spans] == [1, 2]
    for trial, again in zip(sound_tests(good), sound_tests(good), strict=True):
        np.testing.assert_array_equal(trial.recordings[0][0], again.recordings[0][0])
        for samples, spans in trial.recordings:
            assert np.isfinite(samples).all()
            assert np.abs(samples).max() <= 1.0 or "noise" in trial.name
            assert all(0 <= a < b <= len(samples) for a, b in spans)
