"""Examples as people have them, and what is learnt from them."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile

from outlark import NoteDetector, Segment
from outlark.annotations import Annotation, write_annotations
from outlark.commands.train import sound
from outlark.commands.train.examples import Example, Examples, find_examples
from outlark.commands.train.learning import learn
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.errors import AnnotationError, AudioError, InputError

CLASSES = ("tuti-F", "cach-Z")


def clip_folder(folder, n=3):
    for i, note in enumerate(notes(counts=dict.fromkeys(CLASSES, n))):
        (folder / note.label).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / note.label / f"{i}.wav", note.samples, SAMPLE_RATE, subtype="FLOAT")
    return folder


def recording(folder, name="night.wav", seconds=8.0, n=3, channels=1):
    """Noise with notes in it, and the annotations of the notes."""
    rng = np.random.default_rng(1)
    audio = 1e-3 * rng.normal(size=int(seconds * SAMPLE_RATE))
    annotations = []
    played = notes(counts=dict.fromkeys(CLASSES, n))
    for i, note in enumerate(played):
        at = int((i + 0.5) / len(played) * len(audio))
        audio[at : at + len(note.samples)] += note.samples
        annotations.append(
            Annotation(start_s=at / SAMPLE_RATE, end_s=(at + len(note.samples)) / SAMPLE_RATE, label=note.label)
        )
    columns = np.zeros((len(audio), channels))
    columns[:, -1] = audio
    soundfile.write(folder / name, columns, SAMPLE_RATE, subtype="FLOAT")
    return annotations


def same(one, other):
    np.testing.assert_array_equal(one.layout_.thresholds, other.layout_.thresholds)
    assert one.model_.training == other.model_.training


# ---------------------------------------------------------------------- clips


def test_clips_are_learnt_as_the_library_does(tmp_path):
    folder = clip_folder(tmp_path)
    found = find_examples([folder])
    assert (found.clips, found.labels, found.remarks) == (True, sorted(CLASSES), ())
    told = []
    learnt = learn(found, watch=lambda done, total: told.append((done, total)))
    paths = [note.recording for note in found.notes]
    same(learnt.detector, NoteDetector().fit(paths, [path.parent.name for path in paths]))
    assert told == [(i, 6) for i in range(1, 7)]
    assert [(of.label, of.examples, of.recordings) for of in learnt.classes] == [("cach-Z", 3, 3), ("tuti-F", 3, 3)]
    assert learnt.classes[0].threshold == learnt.detector.layout_.thresholds[0]
    assert learnt.seconds == pytest.approx(sum(soundfile.info(path).duration for path in paths))
    assert learnt.remarks == learnt.unread == ()


def test_what_is_no_clip_is_left_out_and_counted(tmp_path):
    folder = clip_folder(tmp_path)
    for name in ("tuti-F/readme.txt", "tuti-F/._0.wav", "loose.wav"):
        (folder / name).touch()
    (folder / "empty").mkdir()
    (folder / ".git").mkdir()
    (folder / "tuti-F" / "more").mkdir()
    (folder / "tuti-F" / "0.wav").rename(folder / "tuti-F" / "more" / "0.wav")
    found = find_examples([folder])
    assert len(found.notes) == 6
    assert found.remarks == (
        "2 files in the class folders skipped: hidden, or not a sound file",
        f"1 sound file skipped: in {folder} itself, not in the folder of a class",
        "the folder empty contains no sound files, so it is not a class",
    )


def test_clips_that_cannot_be_read_are_left_out_and_told(tmp_path):
    folder = clip_folder(tmp_path)
    (folder / "tuti-F" / "a.wav").write_bytes(b"")
    soundfile.write(folder / "tuti-F" / "b.wav", np.zeros(0), SAMPLE_RATE)
    learnt = learn(find_examples([folder]))
    assert [Path(clip.where).name for clip in learnt.unread] == ["a.wav", "b.wav"]
    assert "a.wav is empty (0 bytes)" in learnt.unread[0].message
    assert "b.wav contains no samples" in learnt.unread[1].message
    assert len(learnt.examples.notes) == len(learnt.detector.model_.training) == 6


def test_a_class_of_which_nothing_can_be_read(tmp_path):
    folder = clip_folder(tmp_path)
    (folder / "tuti-F" / "a.wav").write_bytes(b"no sound")  # not the reason
    (folder / "wren").mkdir()
    (folder / "wren" / "a.wav").write_bytes(b"")
    with pytest.raises(AudioError, match=r"no clip of the class 'wren' can be read: .*a.wav is empty"):
        learn(find_examples([folder]))


def test_odd_clips_are_told(tmp_path):
    folder = clip_folder(tmp_path)
    (folder / "tuti-F" / "again.wav").write_bytes((folder / "tuti-F" / "0.wav").read_bytes())
    soundfile.write(folder / "tuti-F" / "long.wav", 0.1 * np.sin(np.arange(SAMPLE_RATE * 6)), SAMPLE_RATE)
    soundfile.write(folder / "tuti-F" / "low.wav", 0.1 * np.sin(np.arange(4000)), 16000)
    with pytest.warns(UserWarning, match="note 6 of the 6 examples of 'tuti-F' is unlike all the others"):
        remarks = learn(find_examples([folder])).remarks
    assert remarks[0].startswith("sample rates from 16000 to 22050 Hz; everything is resampled to 16000 Hz")
    assert remarks[1].startswith("1 clip longer than 5 s: long.wav (tuti-F) 6.0 s")
    assert remarks[2].startswith("the same sound twice: 0.wav at 0.000 s (tuti-F) and again.wav at 0.000 s (tuti-F)")


def padded(folder, level, n=2):
    """Clips of one class with half a second around the note: digital silence, or quiet noise."""
    rng = np.random.default_rng(2)
    (folder / "tuti-F").mkdir(parents=True)
    around = SAMPLE_RATE // 2
    for i, note in enumerate(notes(counts={"tuti-F": n})):
        samples = np.pad(note.samples, around)
        samples += level * rng.normal(size=len(samples))
        soundfile.write(folder / "tuti-F" / f"{i}.wav", samples, SAMPLE_RATE, subtype="PCM_16")
    return folder


def recall(detector):
    audio, truth = concatenate(notes(seed=1, counts={"tuti-F": 5}), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(0))
    return sum(segment.label == "tuti-F" for segment in detector.detect(audio, SAMPLE_RATE)) / len(truth)


def test_digital_silence_around_clips_is_cut_off_and_told(tmp_path):
    learnt = learn(find_examples([padded(tmp_path, 0.0)]))
    assert recall(learnt.detector) == 1.0
    (remark,) = learnt.remarks
    assert remark == "digital silence at the ends of 2 clips removed, such as 1.000 s of 0.wav (tuti-F)"
    first = learnt.detector.model_.training[0]
    assert first["start_s"] == pytest.approx(0.5, abs=1e-3)
    assert first["end_s"] - first["start_s"] == pytest.approx(0.169, abs=2e-3)


def test_digital_silence_in_arrays_is_warned_of():
    clip = np.pad(notes(counts={"tuti-F": 1})[0].samples, SAMPLE_RATE // 2)
    with pytest.warns(UserWarning, match=r"clip 0 \('a'\) has 1.000 s of digital silence at its ends"):
        NoteDetector().fit([clip], ["a"], SAMPLE_RATE)


def test_quiet_margins_of_clips_are_told_and_trimmed_on_demand(tmp_path):
    found = find_examples([padded(tmp_path, 1e-3)])
    (remark,) = learn(found).remarks
    assert remark.startswith("2 clips with quiet margins longer than the note, such as 0.9")
    assert remark.endswith(".wav (tuti-F); outlark train … --trim removes them")
    learnt = learn(found, trim=True)
    assert recall(learnt.detector) == 1.0
    assert learnt.remarks[0].startswith("2 clips trimmed, such as 0.9")
    assert learnt.detector.model_.training[0]["start_s"] == pytest.approx(0.49, abs=0.01)


def test_clips_without_margins_are_not_spoken_of(tmp_path):
    found = find_examples([clip_folder(tmp_path)])
    assert learn(found).remarks == ()
    same(learn(found).detector, learn(found, trim=True).detector)


def test_marks_are_not_trimmed(tmp_path):
    write_annotations(tmp_path / "night.csv", recording(tmp_path), format="csv")
    with pytest.raises(InputError, match="--trim applies only to clips"):
        learn(find_examples([tmp_path / "night.csv"]), trim=True)


def test_a_folder_of_sounds_alone(tmp_path):
    recording(tmp_path)
    with pytest.raises(
        InputError, match=r"contains 1 sound file \(night.wav\), but neither subfolders nor annotation files"
    ):
        find_examples([tmp_path])


def test_a_folder_of_nothing(tmp_path):
    (tmp_path / "readme.txt").write_text("labels to come")
    with pytest.raises(InputError, match=r"no examples in .* \(skipped: .*readme.txt, line 1: .*\); expected a folder"):
        find_examples([tmp_path])


def test_a_folder_that_is_one_too_high(tmp_path):
    clip_folder(tmp_path / "clips")
    with pytest.raises(InputError, match=r"has one subfolder of sounds, clips, .*\(cach-Z, tuti-F …\).*give .*clips"):
        find_examples([tmp_path])


def test_tables_and_folders_of_sounds(tmp_path):
    clip_folder(tmp_path)
    write_annotations(tmp_path / "night.csv", [Annotation(start_s=0, end_s=1, label="a")], format="csv")
    with pytest.raises(InputError, match=r"contains annotation files \(night.csv\) and folders of sounds \(cach-Z\)"):
        find_examples([tmp_path])


def test_clips_and_tables_together(tmp_path):
    annotations = recording(tmp_path)
    write_annotations(tmp_path / "night.labels.txt", annotations, format="audacity")
    with pytest.raises(InputError, match="clips and annotation files together; train on one kind"):
        find_examples([clip_folder(tmp_path / "clips"), tmp_path / "night.labels.txt"])


def test_a_recording_is_no_example(tmp_path):
    recording(tmp_path)
    with pytest.raises(InputError, match=r"night.wav is a recording; expected a folder"):
        find_examples([tmp_path / "night.wav"])


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(AnnotationError, match=r"x.csv does not exist; check the name"):
        find_examples([tmp_path / "x.csv"])


# --------------------------------------------------------------------- tables


def test_marks_are_learnt_as_the_library_does(tmp_path):
    annotations = recording(tmp_path)
    write_annotations(tmp_path / "night.jsonl", annotations, format="jsonl")
    learnt = learn(find_examples([tmp_path / "night.jsonl"]))
    segments = [
        Segment.from_seconds(annotation.start_s, annotation.end_s, annotation.label, SAMPLE_RATE)
        for annotation in annotations
    ]
    same(learnt.detector, NoteDetector().fit_recordings([tmp_path / "night.wav"], [segments]))
    assert learnt.seconds == pytest.approx(8.0)


def test_detections_beside_the_recordings_are_no_examples(tmp_path):
    annotations = recording(tmp_path)
    write_annotations(tmp_path / "night.Table.1.selections.txt", annotations[:3], format="raven")
    found = [dataclasses.replace(m, verdict="known", score=2.0, reason="2 ≥ 1") for m in annotations]
    theirs = tmp_path / "night.wav.Table.1.selections.txt"
    write_annotations(theirs, found, format="raven")
    examples = find_examples([tmp_path])
    assert len(examples.notes) == 3
    assert any("passed over" in remark and theirs.name in remark for remark in examples.remarks)
    assert len(find_examples([theirs]).notes) == len(annotations)  # somebody corrected it, and gives it by name
    (tmp_path / "night.Table.1.selections.txt").unlink()
    with pytest.raises(InputError, match="passed over"):
        find_examples([tmp_path])


def test_tables_of_all_kinds_give_each_note_once(tmp_path):
    annotations = recording(tmp_path)
    write_annotations(tmp_path / "night.Table.1.selections.txt", annotations[:4], format="raven")
    named = [dataclasses.replace(annotation, recording="night.wav") for annotation in annotations[2:]]
    write_annotations(tmp_path / "all.csv", named, format="csv")
    write_annotations(tmp_path / "day.labels.txt", annotations[:1], format="audacity")
    (tmp_path / "broken.csv").write_text("start_s,end_s\nx,1\n")
    found = find_examples([tmp_path])
    assert [(note.annotation.start_s, note.label) for note in found.notes] == [
        (pytest.approx(annotation.start_s, abs=1e-8), annotation.label) for annotation in annotations
    ]
    assert {note.recording for note in found.notes} == {tmp_path / "night.wav"}
    told = "\n".join(found.remarks)
    assert list(found.refused) == [tmp_path / "broken.csv", tmp_path / "day.labels.txt"]
    assert "there is no recording 'day'" in found.refused[tmp_path / "day.labels.txt"][0]
    assert "1 annotation skipped: recording not found" in told
    assert "2 annotations skipped: repeated" in told


def test_marks_that_are_no_examples(tmp_path):
    annotations = recording(tmp_path)
    more = [
        Annotation(start_s=0.1, end_s=0.2),
        Annotation(start_s=0.1, end_s=0.2, verdict="unknown"),
        Annotation(start_s=0.1, end_s=0.2, label="tuti-F", verdict="ambiguous"),
        Annotation(start_s=0.1, end_s=0.2, verdict="silence"),
        Annotation(start_s=0.1, end_s=0.1, label="tuti-F"),
        dataclasses.replace(annotations[0], label="wren"),
    ]
    write_annotations(tmp_path / "night.csv", [*annotations, *more], format="csv")
    found = find_examples([tmp_path / "night.csv"])
    assert len(found.notes) == len(annotations) + 1
    assert len(found.refused[tmp_path / "night.csv"]) == 2  # neither label nor verdict, and no duration
    assert found.remarks == (
        "1 annotation skipped: verdict unknown",
        "1 annotation skipped: verdict ambiguous",
        "1 annotation skipped: verdict silence",
        f"night.wav at {annotations[0].start_s:.3f} s is labelled both 'tuti-F' and 'wren'; keep one of them",
    )


def test_a_recording_that_is_not_there(tmp_path):
    write_annotations(tmp_path / "t.csv", [Annotation(start_s=0, end_s=1, label="a", recording="x.wav")], format="csv")
    with pytest.raises(AnnotationError, match=r"t.csv, line 2: there is no recording 'x.wav'"):
        find_examples([tmp_path / "t.csv"])


def test_a_mark_after_the_end(tmp_path):
    recording(tmp_path)
    (tmp_path / "night.labels.txt").write_text("1\t2\ta\n9\t9.5\ta\n")
    with pytest.raises(
        AnnotationError, match=r"labels.txt, line 2: 'a' is annotated from 9.000 to 9.500 s, but .* 8.000 s"
    ):
        learn(find_examples([tmp_path / "night.labels.txt"]))


def test_a_mark_that_reaches_beyond_the_end_is_told(tmp_path):
    recording(tmp_path)
    (tmp_path / "night.labels.txt").write_text("0.6\t0.9\ta\n7.2\t8.3\ta\n7.5\t8.0004\ta\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the annotations are not alike
        learnt = learn(find_examples([tmp_path / "night.labels.txt"]))
    (remark,) = [remark for remark in learnt.remarks if "annotated" in remark]
    assert "night.labels.txt, line 2: 'a' is annotated from 7.200 to 8.300 s, but " in remark
    assert remark.endswith("ends at 8.000 s: used up to there")
    assert [record["end_s"] for record in learnt.detector.model_.training] == pytest.approx([0.9, 8.0, 8.0])
    (tmp_path / "night.labels.txt").write_text("0.6\t0.9\ta\n7.8\t8.3\ta\n")
    with pytest.raises(
        AnnotationError,
        match=r"line 2: 'a' is annotated from 7.800 to 8.300 s, but .* check that this annotation file belongs",
    ):
        learn(find_examples([tmp_path / "night.labels.txt"]))


def test_a_mark_that_reaches_beyond_the_end_of_an_array_is_warned_of():
    audio = 0.01 * np.random.default_rng(0).normal(size=SAMPLE_RATE)
    audio[5000:9000] += np.sin(np.arange(4000))
    annotations = [Segment(start=5000, end=9000, sample_rate=SAMPLE_RATE, label="a")]
    annotations.append(dataclasses.replace(annotations[0], start=19000, end=25000))
    with pytest.warns(UserWarning, match=r"ends at 1.000 s, but a note 'a' is annotated from 0.862 to 1.134"):
        NoteDetector().fit_recordings([audio], [annotations], SAMPLE_RATE)


def table_of(folder, annotations, name="night.labels.txt"):
    (folder / name).write_text("".join(f"{m.start_s:.9f}\t{m.end_s:.9f}\t{m.label}\n" for m in annotations))
    return folder / name


@pytest.mark.parametrize("seconds", [1e-6, 1 / SAMPLE_RATE, 0.001, 0.012])
def test_marks_shorter_than_a_window_are_refused_row_by_row(tmp_path, seconds):
    annotations = recording(tmp_path)
    expected = learn(find_examples([table_of(tmp_path, annotations)]))
    click = Annotation(start_s=0.2, end_s=0.2 + seconds, label=annotations[0].label)
    table = table_of(tmp_path, [annotations[0], click, *annotations[1:]])
    learnt = learn(find_examples([table]))
    same(learnt.detector, expected.detector)
    assert len(learnt.examples.notes) == len(annotations)
    (refused,) = learnt.unread
    assert refused.message.startswith(f"{table}, line 2: ")
    assert "less than a window" in refused.message


def test_a_class_of_clicks_is_refused_and_the_others_are_learnt(tmp_path):
    annotations = recording(tmp_path)
    clicks = [dataclasses.replace(m, end_s=m.start_s + 1 / SAMPLE_RATE, label="click") for m in annotations[:3]]
    learnt = learn(find_examples([table_of(tmp_path, [*annotations, *clicks])]))
    assert learnt.detector.classes_.tolist() == sorted({m.label for m in annotations})
    assert len(learnt.unread) == 3
    with pytest.raises(InputError, match=r"no example is long enough: .*line 3"):
        learn(find_examples([table_of(tmp_path, clicks)]))


def test_clips_shorter_than_a_window_are_refused(tmp_path):
    folder = clip_folder(tmp_path / "clips")
    label = sorted(path.name for path in folder.iterdir())[0]
    soundfile.write(folder / label / "tiny.wav", 0.1 * np.random.default_rng(0).normal(size=20), SAMPLE_RATE)
    learnt = learn(find_examples([folder]))
    assert [Path(refused.where).name for refused in learnt.unread] == ["tiny.wav"]


def test_one_channel(tmp_path):
    annotations = recording(tmp_path, channels=2)
    write_annotations(tmp_path / "night.csv", annotations, format="csv")
    found = find_examples([tmp_path / "night.csv"])
    second = learn(found, channel=1).detector
    recording(tmp_path, "mono.wav")
    write_annotations(tmp_path / "mono.csv", annotations, format="csv")
    alone = learn(find_examples([tmp_path / "mono.csv"])).detector
    assert [note["sha256"] for note in second.model_.training] == [note["sha256"] for note in alone.model_.training]
    with pytest.raises(AudioError, match=r"channel=2, but the audio has 2 channels"):
        learn(found, channel=2)


# ------------------------------------------------------------ long recordings


def test_of_long_recordings_excerpts_around_annotations_are_read(tmp_path, monkeypatch):
    annotations = recording(tmp_path, seconds=60.0)
    annotations = [*annotations[:2], *annotations[-2:]]
    write_annotations(tmp_path / "night.csv", annotations, format="csv")
    found = find_examples([tmp_path / "night.csv"])
    whole = learn(found)
    monkeypatch.setattr(sound, "WHOLE_S", 16.0)
    monkeypatch.setattr(sound, "MARGIN_S", 1.0)
    part = learn(found)
    # 2 s on each side of 5, 15, 45 and 55 s
    assert part.seconds == pytest.approx(
        16.0 + sum(annotation.end_s - annotation.start_s for annotation in annotations), abs=1e-3
    )
    assert part.remarks[-1] == "used 17 s around the annotations, out of 60 s of recordings"
    for one, other in zip(part.detector.model_.training, whole.detector.model_.training, strict=True):
        assert one.pop("start_s") == pytest.approx(other.pop("start_s"), abs=1e-9)
        assert one.pop("end_s") == pytest.approx(other.pop("end_s"), abs=1e-9)
        assert one == other  # the samples too: their digest is in it
    assert part.detector.layout_.thresholds == pytest.approx(whole.detector.layout_.thresholds, abs=0.3)


def test_excerpts_that_overlap_are_one(tmp_path, monkeypatch):
    recording(tmp_path, seconds=30.0)
    (tmp_path / "night.labels.txt").write_text("5\t5.5\ta\n7\t7.5\tb\n20\t20.5\ta\n25\t25.5\tb\n")
    monkeypatch.setattr(sound, "WHOLE_S", 8.0)
    monkeypatch.setattr(sound, "MARGIN_S", 1.0)
    learnt = learn(find_examples([tmp_path / "night.labels.txt"]))
    assert learnt.seconds == pytest.approx(4.5 + 2.5 + 2.5)
    found = [(record["start_s"], record["label"]) for record in learnt.detector.model_.training]
    assert found == [(5.0, "a"), (7.0, "b"), (20.0, "a"), (25.0, "b")]


# --------------------------------------------------------------------- choice


def example_list(**counts):
    return Examples(
        notes=tuple(Example(label=k, recording=f"{k}{i}") for k, n in counts.items() for i in range(n)), clips=True
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 20])
def test_examples_are_spread_evenly(n):
    chosen = example_list(a=7, b=2).at_most(n)
    numbers = [int(note.recording[1:]) for note in chosen.notes if note.label == "a"]
    assert len(numbers) == min(n, 7)
    assert sum(note.label == "b" for note in chosen.notes) == min(n, 2)
    gaps = np.diff([-1 - numbers[0], *numbers])[1:]
    assert len(gaps) == 0 or max(gaps) - min(gaps) <= 1
    assert abs(numbers[0] - (6 - numbers[-1])) <= 1


def test_only_some_classes():
    assert example_list(a=2, b=1).of_classes(["b"]).labels == ["b"]
    with pytest.raises(InputError, match="no examples of the class 'c'; there are a, b"):
        example_list(a=2, b=1).of_classes(["a", "c"])


def test_a_recording_that_was_cut_short_is_told(tmp_path):
    annotations = recording(tmp_path)
    write_annotations(tmp_path / "night.csv", annotations[:4], format="csv")
    path = tmp_path / "night.wav"
    blob = path.read_bytes()
    path.write_bytes(blob[: blob.index(b"data") + 8 + 4 * round(6.5 * SAMPLE_RATE)])
    remarks = learn(find_examples([tmp_path / "night.csv"])).remarks
    assert (
        "night.wav: cut short: its header announces 8.000 s, but it holds 6.500 s; get a complete copy if there is one"
    ) in remarks


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("Species", "labels in the column 'Species': call (1), song (1)"),
        ("View", "labels in the column 'View': Spectrogram 1 (2); are these classes of notes? If not, choose another"),
        ("Channel", "labels in the column 'Channel': 1 (2); are these classes of notes? If not, choose another"),
    ],
)
def test_labels_of_a_chosen_column_are_reported_and_doubted(tmp_path, column, told):
    (tmp_path / "night.wav").touch()
    head = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\tSpecies\n"
    rows = "".join(
        f"{n}\tSpectrogram 1\t1\t{n}\t{n}.5\t100\t9000\t{label}\n" for n, label in ((1, "song"), (2, "call"))
    )
    table = tmp_path / "night.Table.1.selections.txt"
    table.write_text(head + rows)
    assert find_examples([table], label_column=column).remarks[-1].startswith(told)


def test_labels_that_are_numbers_are_doubted(tmp_path):
    (tmp_path / "night.wav").touch()
    (tmp_path / "night.labels.txt").write_text("0.5\t1.0\t1\n2.0\t2.5\t1\n")
    (remark,) = find_examples([tmp_path / "night.labels.txt"]).remarks
    assert remark == (
        "the labels are numbers: 1 (2); are these classes of notes? If not, choose another --label-column"
    )


# -------------------------------------------------------------------- remarks


def told_of(folder, annotations):
    write_annotations(folder / "night.csv", annotations, format="csv")
    return learn(find_examples([folder / "night.csv"])).remarks


def test_a_class_with_a_single_example_is_told(tmp_path):
    annotations = recording(tmp_path)
    one = next(i for i, annotation in enumerate(annotations) if annotation.label == "tuti-F")
    rest = [annotation for annotation in annotations if annotation.label != "tuti-F"]
    said = "a single example of 'tuti-F': its threshold could not be tested on an example that was left out; give more"
    assert any(remark.startswith(said) for remark in told_of(tmp_path, [annotations[one], *rest]))
    assert not any("single example" in remark for remark in told_of(tmp_path, annotations))


def test_frequency_limits_that_were_read_are_told(tmp_path):
    annotations = recording(tmp_path)
    boxes = [dataclasses.replace(annotation, low_hz=500.0, high_hz=4000.0) for annotation in annotations[:2]]
    said = (
        "2 annotations have frequency limits, which are kept with the examples but do not narrow what the model hears"
    )
    assert said in told_of(tmp_path, [*boxes, *annotations[2:]])
    assert not any("frequency limits" in remark for remark in told_of(tmp_path, annotations))


def test_a_label_that_is_a_verdict_is_named_with_file_and_line(tmp_path):
    annotations = recording(tmp_path)
    wrong = dataclasses.replace(annotations[1], label="Unknown")
    with pytest.raises(InputError) as caught:
        told_of(tmp_path, [annotations[0], wrong, *annotations[2:]])
    assert f"{tmp_path / 'night.csv'}, line 3: 'Unknown' at {wrong.start_s:.3f} s" in str(caught.value)
    assert "rename the label" in str(caught.value)
