"""Training at note level: what the defaults are, single notes, odd notes, rejected sounds."""

import warnings

import numpy as np
import pytest

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.detection.model import DetectorModel
from outlark.detection.negatives import WEAK, Rejecting
from outlark.detection.note_training import annotated_notes, trial_lengths
from outlark.features.note import NoteFrontEnd
from outlark.maths.description import describe

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


def test_on_the_absolute_scale_a_single_note_is_not_left_out_and_nobody_is_warned():
    _, _, truth, audio = annotated({"tuti-F": 1, "cach-D": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NoteDetector(NoteFrontEnd()).fit_recordings([audio], [truth], SAMPLE_RATE).model_
    assert [len(scores) for scores in model.left_out] == [3, 0]


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
