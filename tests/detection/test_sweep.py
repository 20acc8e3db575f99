"""The notes at many thresholds are those that `detect` finds at each of them."""

from copy import deepcopy

import numpy as np
import pytest

from outlark import NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.thresholds import FACTORS, sweep_thresholds, swept
from outlark.errors import InputError
from outlark.paper.detector import FrameDetector
from tests.detection.test_second_stage import bands

CHOSEN = [0, 7, 14, 28, 35, 42, 49, -1]


def trained(**more):
    known = notes(counts={"tuti-F": 3, "cach-D": 3})
    return NoteDetector(**more).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def song():
    rng = np.random.default_rng(0)
    audio, _ = concatenate(notes(seed=1), gap_s=0.05, rng=rng)
    return audio + 0.01 * rng.normal(size=len(audio))


@pytest.mark.parametrize("embedding", [None, bands])
def test_they_are_what_detect_finds(song, embedding):
    detector = trained(embedding=embedding)
    detector.set_thresholds({"tuti-F": 1.5 * detector.trained_thresholds[1]})
    thresholds = sweep_thresholds(detector)[CHOSEN]
    found = list(swept(detector, song, thresholds, SAMPLE_RATE))
    if embedding is None:
        scores = detector.scores(song, SAMPLE_RATE)
        assert list(swept(detector, scores, thresholds)) == found
    again = deepcopy(detector)
    for row, of_row in zip(thresholds, found, strict=True):
        expected = [s for s in again.set_thresholds(row).detect(song, SAMPLE_RATE) if s.label is not None]
        # the reason tells the threshold: with an embedding, the lowest one
        places = [[(s.start, s.end, s.label, s.score) for s in segments] for segments in (of_row, expected)]
        assert places[0] == places[1]
        assert embedding is not None or of_row == expected
    assert len({len(of_row) for of_row in found}) > 2


def test_thresholds_reach_from_half_of_the_lower_ones_up_and_the_present_ones_come_last():
    detector = trained()
    low, high = detector.trained_thresholds
    detector.set_thresholds({"cach-D": low / 3, "tuti-F": 3 * high})
    thresholds = sweep_thresholds(detector)
    assert thresholds.shape == (len(FACTORS) + 1, 2)
    np.testing.assert_allclose(thresholds[0], [low / 6, high / 2])
    np.testing.assert_allclose(thresholds[-2], 16 * thresholds[0])
    np.testing.assert_array_equal(thresholds[-1], [low / 3, 3 * high])
    assert 1.0 in FACTORS


def test_frames_are_refused(song):
    known = notes(counts={"tuti-F": 2})
    paper = FrameDetector.paper().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    with pytest.raises(InputError, match=r"a model of frames has thresholds for frames.*detect with --thresh"):
        sweep_thresholds(paper)
