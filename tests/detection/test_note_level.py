"""Training at note level: what the defaults are, single notes, odd notes, rejected sounds."""

import warnings

import numpy as np
import pytest

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.detection.model import DetectorModel
from outlark.detection.negatives import WEAK, Rejecting
from outlark.detection.note_training import annotated_notes, trial_lengths
from outlark.estimators.mddkm import MDDKM
from outlark.features.note import NoteFrontEnd
from outlark.maths.description import describe
from outlark.paper import learnt_thresholds
from outlark.paper.learnt_thresholds import LearntNoteDetector

OWN = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.3, "length_scale": 1.0, "balance": None, "threshold": 0.0}


def annotated(counts):
    audio, truth = concatenate(notes(counts=counts), gap_s=0.2, edge_s=0.2, rng=np.random.default_rng(0))
    front_end = NoteFrontEnd().fit([], SAMPLE_RATE)
    return front_end, front_end.transform(audio), truth, audio


def fitted(**parts) -> DetectorModel:
    known = notes(counts={"tuti-F": 2, "cach-D": 2})
    return NoteDetector(**parts).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE).model_


# ------------------------------------------------------------------ the defaults


def test_the_default_front_end_is_chosen_and_says_why():
    model = fitted()
    assert type(model.front_end) is NoteFrontEnd
    assert len(model.choice) >= 1


def test_a_front_end_that_is_given_is_taken_as_it_is():
    given = NoteFrontEnd(n_slices=7, surroundings_s=0.0)
    model = fitted(front_end=given)
    assert model.choice == []
    assert model.front_end.get_params() == given.get_params()
    assert model.front_end is not given


def test_a_given_front_end_equal_to_the_default_is_still_a_given_one():
    """Nothing is compared but whether there is one."""
    assert fitted(front_end=NoteFrontEnd()).choice == []


def test_clips_have_no_surroundings_and_recordings_do():
    assert fitted(front_end=NoteFrontEnd()).front_end.surroundings_s == 0.0
    audio, truth = concatenate(notes(counts={"tuti-F": 2}), gap_s=0.2, edge_s=0.2, rng=np.random.default_rng(0))
    detector = NoteDetector(NoteFrontEnd()).fit_recordings([audio], [truth], SAMPLE_RATE)
    assert detector.front_end_.surroundings_s == NoteFrontEnd().surroundings_s > 0.0


# ------------------------------------------------------------------ single notes


def test_the_threshold_of_a_single_note_is_nine_tenths_of_what_it_scores_itself():
    front_end, frames, truth, audio = annotated({"tuti-F": 1, "cach-D": 3})
    every = annotated_notes(front_end, [frames], [truth])
    with pytest.warns(UserWarning, match="'tuti-F' has a single training note, so its threshold is a guess"):
        model = LearntNoteDetector(MDDKM(**OWN), NoteFrontEnd()).fit_recordings([audio], [truth], SAMPLE_RATE).model_
    c = model.class_model.classes_.tolist().index("tuti-F")
    (note,) = [note for note in every if note.label == "tuti-F"]
    best = 0.0
    for length in model.lengths[model.allowed[:, c]]:
        for start in range(int(note.start - 0.3 * note.length), int(note.start + 0.3 * note.length) + 1):
            sample = front_end.describe(frames.features, start=float(start), n_starts=1, length=length)
            best = max(best, float(model.class_model.class_scores(sample)[0, c]))
    assert len(model.left_out[c]) == 1
    assert model.left_out[c][0] == pytest.approx(0.9 * best, rel=0.02)
    assert len(model.left_out[1 - c]) == 3


def test_on_the_absolute_scale_a_single_note_is_not_left_out_and_nobody_is_warned():
    _, _, truth, audio = annotated({"tuti-F": 1, "cach-D": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NoteDetector(NoteFrontEnd()).fit_recordings([audio], [truth], SAMPLE_RATE).model_
    assert [len(scores) for scores in model.left_out] == [3, 0]


def test_every_note_is_left_out_once():
    front_end, frames, truth, _ = annotated({"tuti-F": 2, "cach-D": 12})
    every = annotated_notes(front_end, [frames], [truth])
    folds = list(learnt_thresholds._folds(every, ["cach-D", "tuti-F"]))
    assert len(folds) <= 10
    assert sorted(i for held_out, _ in folds for i in held_out) == list(range(14))
    for held_out, seen in folds:
        assert {every[i].label for i in seen} == {"cach-D", "tuti-F"}
        assert not set(held_out) & set(seen)


# ------------------------------------------------------------------------ lengths


def test_a_class_is_looked_for_at_its_own_lengths_only():
    front_end, frames, truth, _ = annotated({"tuti-F": 2, "cach-D": 2})
    every = annotated_notes(front_end, [frames], [truth])
    lengths, allowed = trial_lengths(front_end, every, np.array(["cach-D", "tuti-F"]))
    assert (np.diff(lengths) > 0.0).all()
    for c, label in enumerate(("cach-D", "tuti-F")):
        own = [note.length for note in every if note.label == label]
        assert allowed[:, c].any()
        assert lengths[allowed[:, c]].min() <= min(own)
        assert lengths[allowed[:, c]].max() >= max(own)
        assert lengths[allowed[:, c]].max() < 2.0 * max(own)


# ----------------------------------------------------------------------- rejecting


class Fixed:
    def __init__(self, scores):
        self.scores = np.asarray(scores, dtype=float)

    def class_scores(self, X):
        return self.scores[: len(X)].copy()


def test_what_is_nearer_to_a_rejected_sound_scores_nothing_for_that_class_alone():
    rejected = describe(np.array([[1.0]]), 1.0, 0.1)
    near, far = np.array([[1.0]]), np.array([[9.0]])
    scores = Rejecting(Fixed([[0.5, 0.5]]), [rejected, None]).class_scores(near)
    assert scores.tolist() == [[0.0, 0.5]]
    assert Rejecting(Fixed([[0.5, 0.5]]), [rejected, None]).class_scores(far).tolist() == [[0.5, 0.5]]


def test_weak_scores_are_not_compared():
    rejected = describe(np.array([[1.0]]), 1.0, 0.1)
    weak = 0.99 * WEAK
    assert Rejecting(Fixed([[weak]]), [rejected]).class_scores(np.array([[1.0]])).tolist() == [[weak]]
    assert pytest.approx(0.4 * 0.10 * 0.5) == WEAK
