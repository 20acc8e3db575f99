"""Training material: clips and annotations end up at the right samples and frames."""

from dataclasses import replace

import numpy as np
import pytest

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection import note_training as whole_notes
from outlark.detection.detector import NoteDetector
from outlark.detection.note_training import AnnotatedNote
from outlark.detection.thresholds import LEAST_SHARE, LEFT_OUT_SHARE, absolute_threshold
from outlark.detection.training import Material, at_one_rate, join_clips
from outlark.errors import InputError
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.paper.detector import frame_samples, note_frames, scores_of_other_notes
from outlark.paper.front_end import HLDSFrontEnd
from outlark.segments import Segment


def annotation(start, end, label="A", rate=1000):
    return Segment(start=start, end=end, sample_rate=rate, label=label)


def test_clips_lie_where_their_marks_are(rng):
    clips = [rng.normal(size=n) for n in (30, 7, 120)]
    material = join_clips(clips, ["A", "B", "A"], 1000, gap_s=0.05)
    (audio,), (annotations,) = material.recordings, material.segments
    for clip, m in zip(clips, annotations, strict=True):
        np.testing.assert_array_equal(audio[m.start : m.end], clip)
        assert not audio[m.start - 50 : m.start].any()
    assert not audio[-50:].any()


def test_marks_move_with_the_recording(rng):
    t = np.arange(8000) / 8000
    tone = np.sin(2 * np.pi * 440 * t) * ((t > 0.25) & (t < 0.5))
    material = at_one_rate([tone, tone[::2]], [8000, 4000], [[annotation(2000, 4000, rate=8000)]] * 2, 4000)
    assert [(s.start, s.end, s.sample_rate) for annotations in material.segments for s in annotations] == [
        (1000, 2000, 4000)
    ] * 2
    assert np.abs(material.recordings[0][1010:1990]).max() > 0.9
    assert np.abs(material.recordings[0][:950]).max() < 0.05


def test_a_mark_beyond_the_end_is_cut_with_a_warning_or_refused(rng):
    audio = rng.normal(size=1000)
    with pytest.warns(UserWarning, match=r"is annotated from 0.900 to 1.200 s; it is used up to the end"):
        (annotations,) = at_one_rate([audio], [1000], [[annotation(900, 1200)]], 1000).segments
    assert annotations[0].end == 1000
    with pytest.raises(InputError, match="do annotations and recording belong together"):
        at_one_rate([audio], [1000], [[annotation(1000, 1200)]], 1000)


@pytest.mark.parametrize("offset", [0, 5])
def test_frames_of_a_note_have_their_middle_in_it(offset):
    front_end = HLDSFrontEnd()
    front_end.hop_samples_, front_end.offset_samples_ = 10, offset
    frames = Frames(np.zeros((50, 1)), np.zeros(50))
    for start, end in ((0, 500), (3, 17), (95, 205), (100, 200), (7, 9), (480, 505), (498, 505)):
        middles = offset + 10 * np.arange(50) + 5
        expected = np.flatnonzero((middles >= start) & (middles < end))
        found = note_frames(front_end, frames, annotation(start, end))
        if len(expected):
            np.testing.assert_array_equal(found, expected)
        else:
            assert len(found) == 1


def test_quiet_frames_do_not_describe_a_class():
    front_end = HLDSFrontEnd()
    front_end.hop_samples_, front_end.offset_samples_ = 10, 0
    features = np.arange(20.0)[:, np.newaxis]
    activity = np.where(np.arange(20) % 2, 5.0, -5.0)
    activity[10:] = -5.0
    material = Material(
        recordings=[np.zeros(200)], segments=[[annotation(0, 100), annotation(150, 200, "B")]], sample_rate=1000
    )
    X, y, groups = frame_samples(front_end, [Frames(features, activity)], material)
    assert X[y == "A"].ravel().tolist() == [1, 3, 5, 7, 9]
    assert X[y == "B"].ravel().tolist() == [15, 16, 17, 18, 19]  # nothing rises above the noise: all of it
    assert sorted(set(groups.tolist())) == [0, 1]


def test_scores_of_other_notes_are_means_over_notes():
    class Sums:
        classes_ = np.array(["A", "B"])

        def class_scores(self, X):
            return np.column_stack([X.sum(axis=1), -X.sum(axis=1)])

    X, y, groups = np.arange(6.0)[:, np.newaxis], np.array(list("AABBBB")), np.array([0, 0, 1, 1, 2, 2])
    of_a, of_b = scores_of_other_notes(Sums(), X, y, groups)
    assert of_a.tolist() == [2.5, 4.5]
    assert of_b.tolist() == [-0.5]


def test_notes_are_looked_for_at_about_their_own_lengths():
    audio, annotations = concatenate(
        notes(seed=0, counts={"tuti-F": 3, "cach-Z": 4}), gap_s=0.2, edge_s=0.2, rng=np.random.default_rng(0)
    )
    front_end = NoteFrontEnd().fit([], SAMPLE_RATE)
    hop, spectra = front_end.hop_samples_, front_end.transform(audio).features
    every = [AnnotatedNote(spectra, m.start / hop, (m.end - m.start) / hop, m.label) for m in annotations]
    lengths, allowed = whole_notes.trial_lengths(front_end, every, np.array(["cach-Z", "tuti-F"]))
    for c, label in enumerate(("cach-Z", "tuti-F")):
        own = [note.length for note in every if note.label == label]
        mine = lengths[allowed[:, c]]
        assert min(own) / 1.4 < mine.min() < min(own) * 1.15
        assert max(own) / 1.15 < mine.max() < max(own) * 1.4
    assert (np.diff(np.log(lengths)) < np.log(1.131)).all()


def test_what_a_model_was_made_of_is_kept(tmp_path):
    clips = notes(seed=0, counts={"tuti-F": 2, "cach-Z": 2})
    detector = NoteDetector().fit([n.samples for n in clips], [n.label for n in clips], SAMPLE_RATE)
    assert [record["label"] for record in detector.model_.training] == [n.label for n in clips]
    assert len({record["sha256"] for record in detector.model_.training}) == 4


@pytest.mark.parametrize("clips", [True, False])
def test_a_class_of_many_kinds_lowers_its_threshold(clips):
    kinds = ["tuti-F", "cach-D", "cach-Z", "tuti-D", "cach-C"]
    different = [notes(counts={kind: 1})[0] for kind in kinds]
    if clips:
        detector = NoteDetector().fit([n.samples for n in different], ["x"] * 5, SAMPLE_RATE)
    else:
        recording, annotations = concatenate(different, edge_s=0.3, gap_s=0.2, rng=np.random.default_rng(0))
        detector = NoteDetector().fit_recordings(
            [recording], [[replace(m, label="x") for m in annotations]], SAMPLE_RATE
        )
    n_samples = len(detector.class_model_.descriptions_[0].X) // 5
    pitch = {5: False, 11: True}[n_samples]  # three shifts, two masks; and two steps of pitch for it and each mask
    assert pitch or clips  # one recording says nothing about pitch
    last_s = float(np.median([note["end_s"] - note["start_s"] for note in detector.model_.training]))
    t0, threshold = absolute_threshold(5, last_s, pitch=pitch), detector.layout_.thresholds[0]
    assert LEAST_SHARE * t0 <= threshold < 0.6 * t0
    model, left_out = detector.note_model_, detector.note_model_.left_out[0]
    if not clips:  # thresholds are set before what is around the notes counts
        own = [replace(m, label="x") for m in annotations]
        marked = whole_notes.annotated_notes(model.front_end, [model.front_end.transform(recording)], [own])
        left_out = whole_notes.left_out_scores(model.front_end, marked, [model.lengths], pitch=pitch)[0]
    assert threshold == pytest.approx(max(LEFT_OUT_SHARE * np.median(left_out), LEAST_SHARE * t0))
