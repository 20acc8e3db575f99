"""A model that is trained again: the same as one that is trained on all at once, and it says where it comes from."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from outlark import NoteDetector, model_file
from outlark.annotations import Annotation, write_annotations
from outlark.commands.train.examples import find_examples
from outlark.commands.train.learning import learn
from outlark.commands.train.retraining import USUAL_EXAMPLES, Parent, examples_of, retrain, reviewed
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.errors import InputError

COUNTS = {"tuti-D": 3, "cach-Z": 3}


def record(folder, name, seed, counts=COUNTS, rate=SAMPLE_RATE):
    """A recording, and where its notes are."""
    audio, truth = concatenate(
        notes(seed=seed, counts=counts), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(seed), sample_rate=SAMPLE_RATE
    )
    folder.mkdir(exist_ok=True)
    soundfile.write(folder / name, audio, rate, subtype="DOUBLE")
    scale = SAMPLE_RATE / rate
    return [Annotation(start_s=scale * t.start_s, end_s=scale * t.end_s, label=t.label, recording=name) for t in truth]


def write(path, annotations, **more):
    path.parent.mkdir(exist_ok=True)
    write_annotations(path, [replace(annotation, **more) for annotation in annotations], format="csv")
    return path


def parent_of(path):
    return Parent(path=path, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), detector=model_file.load(path))


@pytest.fixture
def here(tmp_path):
    """old.outlark, trained on audio/old.wav; audio/new.wav, and what is in it."""
    old = record(tmp_path / "audio", "old.wav", 0)
    write(tmp_path / "old.csv", old)
    model_file.save(
        learn(find_examples([tmp_path / "old.csv"], audio=[tmp_path / "audio"])).detector, tmp_path / "old.outlark"
    )
    return tmp_path, record(tmp_path / "audio", "new.wav", 1, {**COUNTS, "cach-C": 2})


def again(here, corrected, found=None, *, max_examples=None, more=None, **options):
    folder, parent = here[0], parent_of(here[0] / "old.outlark")
    paths = [write(folder / "corrected" / "new.wav.csv", corrected)]
    found_in = [] if found is None else [write(folder / "found" / "new.wav.csv", found)]
    new = reviewed(parent.classes, paths, found_in=found_in, audio=[folder / "audio"], **options)
    return retrain(parent, new, audio=[folder / "audio"], max_examples=max_examples)


def test_it_is_the_model_of_all_at_once(here, tmp_path):
    folder, truth = here
    new = [annotation for annotation in truth if annotation.label in COUNTS]
    learnt = again(here, new)
    together = learn(find_examples([folder / "old.csv", folder / "corrected"], audio=[folder / "audio"])).detector
    detector = learnt.detector
    assert detector.model_.training == together.model_.training
    assert len(detector.model_.training) == 12
    np.testing.assert_array_equal(detector.layout_.thresholds, together.layout_.thresholds)
    audio, _ = soundfile.read(folder / "audio" / "new.wav")
    assert detector.detect(audio, SAMPLE_RATE) == together.detect(audio, SAMPLE_RATE)
    assert "12 examples: 6 of old.outlark, 6 new; 0 new negatives" in learnt.remarks


def test_it_says_where_it_comes_from(here):
    folder, truth = here
    first = again(here, truth[:2]).detector
    sha256 = hashlib.sha256((folder / "old.outlark").read_bytes()).hexdigest()
    line = {"name": "old.outlark", "sha256": sha256, "kept": 6, "added": 2, "negatives": 0}
    assert first.model_.lineage == [line]
    model_file.save(first, folder / "second.outlark")
    assert model_file.load(folder / "second.outlark").model_.lineage == [line]
    parent = parent_of(folder / "second.outlark")
    new = reviewed(parent.classes, [write(folder / "c.csv", truth[2:3])], audio=[folder / "audio"])
    second = retrain(parent, new, audio=[folder / "audio"]).detector
    assert [(a["name"], a["kept"], a["added"]) for a in second.model_.lineage] == [
        ("old.outlark", 6, 2),
        ("second.outlark", 8, 1),
    ]
    assert second.model_.lineage[1]["sha256"] == hashlib.sha256((folder / "second.outlark").read_bytes()).hexdigest()


def test_settings_are_those_of_the_model(here):
    folder, truth = here
    parent = parent_of(folder / "old.outlark")
    parent.detector.set_params(decisions__activity_db=9.0)
    model_file.save(parent.detector, folder / "old.outlark")
    assert again(here, truth[:1]).detector.decisions.activity_db == 9.0


def test_rows_that_are_gone_are_negatives_and_stay_so(here):
    folder, truth = here
    foreign = [annotation for annotation in truth if annotation.label == "cach-C"]
    true = [annotation for annotation in truth if annotation.label in COUNTS]
    found = [*true, *(replace(annotation, label="tuti-D") for annotation in foreign)]
    learnt = again(here, true, found)
    assert [(n["label"], n["name"]) for n in learnt.detector.model_.negatives] == [("tuti-D", "new.wav")] * 2
    assert learnt.detector.model_.lineage[0]["negatives"] == 2
    model_file.save(learnt.detector, folder / "old.outlark")
    kept = again(here, [replace(true[0], start_s=true[0].start_s + 0.01)]).detector  # an example already
    assert [(n["name"], n["sha256"]) for n in kept.model_.negatives] == [
        (n["name"], n["sha256"]) for n in learnt.detector.model_.negatives
    ]


def test_negatives_alone_need_no_recordings_of_the_model(here):
    folder, truth = here
    (folder / "audio" / "old.wav").unlink()
    before = model_file.load(folder / "old.outlark")
    foreign = [replace(annotation, label="-tuti-D") for annotation in truth if annotation.label == "cach-C"]
    learnt = again(here, foreign)
    assert learnt.detector.model_.training == before.model_.training
    assert [n["label"] for n in learnt.detector.model_.negatives] == ["tuti-D", "tuti-D"]
    assert learnt.detector.model_.lineage[0] | {"sha256": ""} == {
        "name": "old.outlark", "sha256": "", "kept": 6, "added": 0, "negatives": 2,
    }  # fmt: skip
    assert [(of.label, of.examples, of.negatives) for of in learnt.classes] == [("cach-Z", 3, 0), ("tuti-D", 3, 2)]


def test_recordings_that_are_missing_are_named(here):
    folder, truth = here
    (folder / "audio" / "old.wav").rename(folder / "audio" / "other.wav")
    with pytest.raises(InputError) as told:
        again(here, truth[:1])
    assert "old.outlark was trained on: not found: old.wav (6 notes). They were looked for in" in str(told.value)
    assert "--from" not in str(told.value)  # the review page says the same and has no such option


def test_recordings_that_hold_something_else_are_named(here):
    folder, truth = here
    record(folder / "audio", "old.wav", 7)
    told = r"found, but with other sound: old.wav \(6 notes\). .* the same channel"
    with pytest.raises(InputError, match=told):
        again(here, truth[:1])


def test_the_right_one_of_two_files_of_a_name(here):
    folder, truth = here
    record(folder / "audio" / "0", "old.wav", 7)
    assert len(again(here, truth[:1]).detector.model_.training) == 7


def test_what_was_resampled_is_known_by_its_name(here):
    """Its digest is that of the resampled sound, which depends on how much was read."""
    folder, truth = here
    record(folder / "audio", "low.wav", 2, rate=SAMPLE_RATE // 2)
    write(folder / "low.csv", record(folder / "audio", "low.wav", 2, rate=SAMPLE_RATE // 2))
    both = find_examples([folder / "old.csv", folder / "low.csv"], audio=[folder / "audio"])
    model_file.save(learn(both).detector, folder / "old.outlark")
    assert len(again(here, truth[:1]).detector.model_.training) == 13
    record(folder / "audio" / "0", "old.wav", 3)
    with pytest.raises(InputError, match=r"old.wav \(6 notes; 2 files have this name\)"):
        again(here, truth[:1])


def test_what_contradicts_the_model_counts(here):
    folder, _ = here
    old = [note.annotation for note in find_examples([folder / "old.csv"], audio=[folder / "audio"]).notes]
    learnt = again(here, [replace(old[0], label=f"-{old[0].label}"), replace(old[1], label="wren"), old[2]])
    labels = [n["label"] for n in learnt.detector.model_.training]
    assert (len(labels), labels.count("wren")) == (5, 1)
    told = [remark for remark in learnt.remarks if "because the new annotations contradict it" in remark]
    assert len(told) == 2
    assert "'wren' is a new class" in learnt.remarks
    model_file.save(learnt.detector, folder / "old.outlark")
    back = again(here, [old[0]])
    assert not back.detector.model_.negatives
    assert len(back.detector.model_.training) == 6


def test_an_example_that_is_rejected_is_no_example_even_where_nothing_else_is_new(here):
    folder, _ = here
    old = [note.annotation for note in find_examples([folder / "old.csv"], audio=[folder / "audio"]).notes]
    learnt = again(here, [replace(old[0], label=f"-{old[0].label}")])
    assert (len(learnt.detector.model_.training), len(learnt.detector.model_.negatives)) == (5, 1)
    with pytest.raises(InputError, match=r"no example of '.*' is left: the new annotations contradict all of them"):
        again(here, [replace(annotation, label=f"-{annotation.label}") for annotation in old])


def test_a_calibration_does_not_outlive_new_examples(here):
    folder, truth = here
    detector = model_file.load(folder / "old.outlark").calibrate([folder / "audio" / "new.wav"])
    model_file.save(detector, folder / "old.outlark")
    told = "old.outlark was calibrated, but its thresholds are learnt anew; calibrate again"
    assert told in again(here, truth[:1]).remarks
    alone = again(here, [replace(annotation, label="-tuti-D") for annotation in truth if annotation.label == "cach-C"])
    assert told not in alone.remarks
    assert alone.detector.calibration_ == detector.calibration_


def test_no_more_than_are_asked_for(here):
    _, truth = here
    new = [annotation for annotation in truth if annotation.label in COUNTS]
    learnt = again(here, new, max_examples=4)
    assert [(of.label, of.examples) for of in learnt.classes] == [("cach-Z", 4), ("tuti-D", 4)]
    assert "1 of 3 new notes of 'tuti-D' are used; change this with --max-examples" in learnt.remarks
    assert [of.examples for of in again(here, new, max_examples=1).classes] == [3, 3]  # those of the model stay
    negatives = [Annotation(start_s=i, end_s=i + 0.1, label="-tuti-D", recording="new.wav") for i in range(3)]
    told = "6 examples: 6 of old.outlark, 0 new; 1 new negative of 3; for more, give --max-examples"
    assert told in again(here, negatives, max_examples=1).remarks
    many = [
        Annotation(start_s=0.01 * i, end_s=0.01 * i + 0.005, label="tuti-D", recording="new.wav") for i in range(40)
    ]
    assert again(here, many).classes[1].examples == USUAL_EXAMPLES


def test_a_label_over_an_unknown_sound_is_an_example(here):
    _, truth = here
    by_hand = replace(truth[0], verdict="unknown")
    doubtful = replace(truth[1], verdict="ambiguous")
    learnt = again(here, [by_hand, doubtful])
    assert learnt.detector.model_.lineage[0]["added"] == 1
    assert "1 annotation skipped: verdict ambiguous" in learnt.remarks


def test_nothing_new(here):
    with pytest.raises(InputError, match="there are no new notes or negatives"):
        again(here, [])


def test_a_model_of_clips(here, tmp_path):
    """Confirmed notes are cut out of their recordings; files of one name are told apart by what is in them."""
    folder, truth = here
    for i, note in enumerate(notes(counts=COUNTS)):
        (folder / "clips" / note.label).mkdir(parents=True, exist_ok=True)
        samples = np.concatenate([np.zeros(500), note.samples])
        soundfile.write(folder / "clips" / note.label / f"{i % 3}.wav", samples, SAMPLE_RATE, subtype="DOUBLE")
    before = learn(find_examples([folder / "clips"])).detector
    model_file.save(before, folder / "old.outlark")
    parent = parent_of(folder / "old.outlark")
    new = reviewed(parent.classes, [write(folder / "c.csv", truth[:1])], audio=[folder / "audio"])
    detector = retrain(parent, new, audio=[folder / "clips"]).detector
    kept = [n for n in detector.model_.training if n["name"] != "new.wav"]
    assert sorted(n["sha256"] for n in kept) == sorted(n["sha256"] for n in before.model_.training)
    assert all(n["clip"] for n in detector.model_.training)
    assert all(n["start_s"] == pytest.approx(500 / SAMPLE_RATE) for n in kept)
    (added,) = [n for n in detector.model_.training if n["name"] == "new.wav"]
    assert added["start_s"] == pytest.approx(truth[0].start_s, abs=1e-4)
    np.testing.assert_array_equal(detector.front_end_.surroundings_s, 0.0)


def test_clips_for_a_model_of_recordings(here):
    folder, _ = here
    (folder / "clips" / "tuti-D").mkdir(parents=True)
    note = notes(seed=5, counts={"tuti-D": 1})[0]
    soundfile.write(folder / "clips" / "tuti-D" / "1.wav", note.samples, SAMPLE_RATE)
    parent = parent_of(folder / "old.outlark")
    new = reviewed(parent.classes, [folder / "clips"])
    with pytest.raises(
        InputError, match="the model was trained on annotated recordings, and these are clips; give annotation files"
    ):
        retrain(parent, new, audio=[folder / "audio"])


def test_annotated_frequencies_are_kept(here):
    folder, truth = here
    old = find_examples([folder / "old.csv"], audio=[folder / "audio"])
    write(folder / "old.csv", [note.annotation for note in old.notes], low_hz=2000.0, high_hz=7000.0)
    before = learn(find_examples([folder / "old.csv"], audio=[folder / "audio"])).detector
    model_file.save(before, folder / "old.outlark")
    detector = again(here, [replace(truth[0], low_hz=2000.0, high_hz=7000.0)]).detector
    assert {(note["low_hz"], note["high_hz"]) for note in detector.model_.training} == {(2000.0, 7000.0)}


def test_models_that_cannot_be_trained_again(here):
    folder, truth = here
    clips = notes(counts=COUNTS)
    arrays = NoteDetector().fit([n.samples for n in clips], [n.label for n in clips], SAMPLE_RATE)
    model_file.save(arrays, folder / "old.outlark")
    with pytest.raises(InputError, match=r"not found: arrays, not files \(6 notes\)"):
        again(here, truth[:1])
    numbers = NoteDetector().fit([n.samples for n in clips], [ord(n.label[0]) for n in clips], SAMPLE_RATE)
    model_file.save(numbers, folder / "old.outlark")
    with pytest.raises(InputError, match=r"the classes of .*old.outlark are numbers, not names"):
        again(here, truth[:1])


def test_examples_of_a_model(here):
    folder, _ = here
    parent = parent_of(folder / "old.outlark")
    found = examples_of(parent, [folder / "audio"])
    direct = find_examples([folder / "old.csv"], audio=[folder / "audio"])
    assert [(n.label, n.recording) for n in found.notes] == [(n.label, n.recording) for n in direct.notes]
    assert (found.clips, found.negatives) == (False, ())
