"""Thresholds that are set by hand: for which classes, where they come from, and what they change."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from outlark import HLDSFrontEnd, NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.scorer import REFINED_SHARE
from outlark.errors import InputError
from outlark.model_file import load, save
from outlark.paper.detector import FrameDetector
from tests.detection.test_second_stage import bands


@pytest.fixture(scope="module")
def fitted():
    known = notes(counts={"tuti-F": 4, "cach-D": 4})
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture
def detector(fitted):
    return deepcopy(fitted)


@pytest.fixture(scope="module")
def songs():
    rng = np.random.default_rng(0)
    return [concatenate(notes(seed=seed), gap_s=0.1, rng=rng)[0] for seed in range(1, 4)]


def peaks(detector, n=40):
    """Of two classes in one recording, with a valley for the first one only."""
    t0 = detector.trained_thresholds[0]
    return [[t0 * np.concatenate([np.linspace(0.5, 1.1, n), np.linspace(1.7, 3.0, n)]), np.array([9.0])]]


def labels(segments):
    return [s.label for s in segments if s.label is not None]


def test_one_class_is_set_and_the_others_stay(detector):
    before = detector.layout_.thresholds.copy()
    assert detector.model_.threshold_sources == ["examples", "examples"]
    detector.set_thresholds({"tuti-F": 0.5})
    assert detector.layout_.thresholds.tolist() == [before[0], 0.5]
    assert detector.model_.threshold_sources == ["examples", "hand"]
    detector.set_thresholds({"cach-D": 0.7})
    assert detector.layout_.thresholds.tolist() == [0.7, 0.5]
    np.testing.assert_array_equal(detector.trained_thresholds, before)
    detector.set_thresholds(None)
    assert detector.layout_.thresholds.tolist() == before.tolist()
    assert detector.model_.threshold_sources == ["examples", "examples"]
    assert detector.set_thresholds([0.3, 0.4]).model_.threshold_sources == ["hand", "hand"]


def test_what_is_set_by_hand_wins_over_calibration(detector):
    trained = detector.trained_thresholds
    found = detector.calibrate_peaks(peaks(detector)).calibration_
    assert detector.model_.threshold_sources == ["calibration", "examples"]
    assert found[0].threshold == detector.layout_.thresholds[0] != trained[0]
    calibrated = detector.layout_.thresholds[0]
    detector.set_thresholds({"cach-D": 0.7})  # after
    assert detector.model_.threshold_sources == ["hand", "examples"]
    assert detector.calibration_[0].in_words == "threshold 0.700 set by hand: kept"
    detector.calibrate_peaks(peaks(detector))  # and before
    assert detector.layout_.thresholds.tolist() == [0.7, trained[1]]
    assert detector.calibration_[0].by_hand
    assert not detector.calibration_[0].moved
    detector.set_thresholds(None).calibrate_peaks(peaks(detector))
    assert detector.layout_.thresholds[0] == calibrated


@pytest.mark.parametrize("how", ["plain", "hand", "calibrated", "both"])
def test_where_they_come_from_is_kept_with_the_model(detector, songs, tmp_path, how):
    if how in ("calibrated", "both"):
        detector.calibrate_peaks(peaks(detector))
    if how in ("hand", "both"):
        detector.set_thresholds({"tuti-F": 0.5})
    save(detector, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.model_.threshold_sources == detector.model_.threshold_sources
    assert again.calibration_ == detector.calibration_
    np.testing.assert_array_equal(again.layout_.thresholds, detector.layout_.thresholds)
    np.testing.assert_array_equal(again.trained_thresholds, detector.trained_thresholds)
    assert again.detect(songs[0], SAMPLE_RATE) == detector.detect(songs[0], SAMPLE_RATE)
    again.set_thresholds(None)
    np.testing.assert_array_equal(again.layout_.thresholds, detector.trained_thresholds)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, True, "0.5", None])
def test_values_that_cannot_be_thresholds_are_refused(detector, value):
    before = detector.layout_.thresholds.copy()
    with pytest.raises(InputError, match=r"the threshold of 'tuti-F' is .*; give a number above 0"):
        detector.set_thresholds({"tuti-F": value})
    np.testing.assert_array_equal(detector.layout_.thresholds, before)


def test_classes_that_do_not_exist_are_named_with_those_that_do(detector):
    with pytest.raises(InputError, match=r"'tuti-f', which is not a class; did you mean 'tuti-F'\? There are cach-D,"):
        detector.set_thresholds({"tuti-f": 0.5})
    with pytest.raises(InputError, match="'robin', which is not a class; there are cach-D, tuti-F"):
        detector.set_thresholds({"robin": 0.5})


def test_lower_thresholds_find_more_and_higher_ones_less(detector, songs):
    trained = detector.trained_thresholds
    counts = []
    for factor in (0.1, 1.0, 50.0):
        detector.set_thresholds(factor * trained)
        counts.append(sum(len(labels(detector.detect(song, SAMPLE_RATE))) for song in songs))
    assert counts[0] > counts[1] > counts[2] == 0


@pytest.mark.parametrize("kept_at", [1.0, 4.0])
def test_scores_can_be_decided_on_from_half_of_the_thresholds_of_training_on(detector, songs, kept_at):
    """Edges have been looked at from there on, also when higher thresholds were set while the scores were made."""
    trained = detector.trained_thresholds
    scores = detector.set_thresholds(kept_at * trained).scores(songs[0], SAMPLE_RATE)
    assert (scores.block.moves != 0).any()
    for factor in (REFINED_SHARE, 1.0, 2.0):
        detector.set_thresholds(factor * trained)
        found = detector.detect(songs[0], SAMPLE_RATE)
        assert labels(found)
        assert detector.decide(replace(scores, layout=detector.layout_)) == found


def test_models_of_frames_have_thresholds_of_frames(songs):
    known = notes(counts={"tuti-F": 3, "cach-D": 3})
    detector = FrameDetector(HLDSFrontEnd()).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    trained = detector.trained_thresholds
    np.testing.assert_array_equal(trained, detector.layout_.thresholds)
    before = labels(detector.detect(songs[0], SAMPLE_RATE))
    assert "tuti-F" in before
    detector.set_thresholds({"tuti-F": 99.0})
    assert detector.model_.threshold_sources == ["examples", "hand"]
    assert "tuti-F" not in labels(detector.detect(songs[0], SAMPLE_RATE))
    np.testing.assert_array_equal(detector.trained_thresholds, trained)


def test_with_an_embedding_they_are_those_of_the_joined_score(songs):
    known = notes(counts={"tuti-F": 4, "cach-D": 4})
    detector = NoteDetector(embedding=bands).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    first_stage = detector.note_model_.spectral_thresholds.copy()
    np.testing.assert_array_equal(detector.trained_thresholds, np.sqrt(first_stage * detector.second_stage_.threshold))
    scores = [s.score for s in detector.detect(songs[0], SAMPLE_RATE) if s.label == "tuti-F"]
    wanted = (min(scores) + max(scores)) / 2
    detector.set_thresholds({"tuti-F": wanted})
    found = [s.score for s in detector.detect(songs[0], SAMPLE_RATE) if s.label == "tuti-F"]
    assert found == [score for score in scores if score >= wanted] != scores
    np.testing.assert_array_equal(detector.note_model_.spectral_thresholds, first_stage)
