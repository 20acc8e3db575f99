"""What users get wrong has an answer in outlark's own words."""

import numpy as np
import pytest
import soundfile

from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.detection.decisions import Decisions
from outlark.detection.detector import NoteDetector
from outlark.errors import AudioError, InputError
from outlark.paper.decisions import Rules
from outlark.paper.detector import FrameDetector
from outlark.segments import Segment

CLIPS = [note.samples for note in notes(counts={"tuti-F": 2, "cach-Z": 2})]
LABELS = ["F", "F", "Z", "Z"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["F", "F", 1, 1], "labels are of the types"),
        (["F", "F", "Z", None], "clip 3 has the label None"),
        (["F", "F", "Z", float("nan")], "clip 3 has the label nan"),
        (["F"], "one label for each clip"),
    ],
)
def test_labels(labels, message):
    with pytest.raises(InputError, match=message):
        NoteDetector().fit(CLIPS, labels, SAMPLE_RATE)


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (FrameDetector(gap_s=-1), "gap_s=-1 must be a number of seconds"),
        (NoteDetector("notes"), "front_end='notes' must be a NoteFrontEnd"),
        (NoteDetector(decisions="best"), "decisions='best' must be a Decisions"),
        (NoteDetector(decisions=Rules()), "are for frames"),
        (FrameDetector(decisions=Decisions()), "must be a Rules"),
    ],
)
def test_parameters(detector, message):
    with pytest.raises(InputError, match=message):
        detector.fit(CLIPS, LABELS, SAMPLE_RATE)


def test_marks(tmp_path):
    audio, annotation = np.ones(8000), Segment.from_seconds(0, 0.5, "A", 8000)
    with pytest.raises(InputError, match="give a list, even of one"):
        NoteDetector().fit_recordings(tmp_path / "a.wav", [[annotation]])
    with pytest.raises(InputError, match="give a list, even of one"):
        NoteDetector().fit_recordings(audio, [[annotation]], 8000)
    with pytest.raises(InputError, match=r"segments\[0\] is .* list of Segment for each recording"):
        NoteDetector().fit_recordings([audio], [annotation], 8000)
    with pytest.raises(InputError, match=r"segments\[0\] holds \(0, 0.5, 'A'\)"):
        NoteDetector().fit_recordings([audio], [[(0, 0.5, "A")]], 8000)
    with pytest.raises(InputError, match="1 recordings, but 2 lists of segments"):
        NoteDetector().fit_recordings([audio], [[annotation], [annotation]], 8000)
    for bad in ("0.5", float("nan"), None):
        with pytest.raises(InputError, match="must be a finite number"):
            Segment.from_seconds(0.0, bad, "A", 8000)


def test_decide_takes_scores():
    detector = NoteDetector().fit(CLIPS, LABELS, SAMPLE_RATE)
    with pytest.raises(InputError, match="the result of scores"):
        detector.decide(np.zeros((3, 2)))


def test_clips_may_be_files_of_several_rates(tmp_path):
    paths = []
    for number, clip in enumerate(CLIPS):
        paths.append(tmp_path / f"{number}.wav")
        soundfile.write(paths[-1], clip, SAMPLE_RATE, subtype="DOUBLE")
    from_files = NoteDetector().fit(paths, LABELS)
    np.testing.assert_array_equal(
        from_files.layout_.thresholds, NoteDetector().fit(CLIPS, LABELS, SAMPLE_RATE).layout_.thresholds
    )
    assert from_files.model_.training[2]["name"] == "2.wav"
    soundfile.write(paths[0], np.repeat(CLIPS[0], 2), 2 * SAMPLE_RATE, subtype="DOUBLE")
    assert NoteDetector().fit(paths, LABELS).sample_rate_ == SAMPLE_RATE
    with pytest.raises(AudioError, match=r"missing\.wav"):
        NoteDetector().fit([tmp_path / "missing.wav"], ["A"])


def test_digital_silence_is_no_note():
    noise = np.random.default_rng(0).normal(size=3000)
    with pytest.raises(InputError, match=r"clip 1 \('b'\) is digital silence throughout; omit it"):
        NoteDetector().fit([noise, np.zeros(3000)], ["a", "b"], 22050)
    recording = np.concatenate([noise, np.zeros(3000)])
    annotations = [Segment(start=3100, end=5000, sample_rate=22050, label="a")]
    with pytest.raises(InputError, match=r"the note at 0\.141 s of recording 0 \('a'\) is digital silence"):
        NoteDetector().fit_recordings([recording], [annotations], 22050)


@pytest.mark.parametrize("label", ["unknown", "Unknown", "silence", "(unknown)"])
def test_no_class_has_the_name_of_a_verdict(label):
    """In formats with one place for a label it could not be told from a sound that no class accepts."""
    clips = [np.random.default_rng(i).normal(size=2000) for i in range(4)]
    with pytest.raises(InputError, match=r"2 notes .*rename"):
        NoteDetector().fit(clips, ["song", label, "song", label], 8000)
