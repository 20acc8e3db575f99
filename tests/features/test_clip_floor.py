"""Clips cut closely: the floor of a band that sounds all the time."""

import numpy as np
import pytest

from outlark import NoteDetector
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd

FITTED = NoteFrontEnd().fit([], SAMPLE_RATE)


def tone(rng):
    t = np.arange(4000) / SAMPLE_RATE
    return 0.5 * np.sin(2 * np.pi * 3000 * t) + 0.001 * rng.normal(size=4000)


def test_a_steady_tone_is_no_floor(rng):
    silence = np.zeros(2205)
    joined = np.concatenate([silence, tone(rng), silence, tone(rng), silence])
    inside = slice(60, 120)  # in the first clip
    usual, of_clips = FITTED.transform(joined), FITTED.transform_clips(joined)
    assert usual.features[inside].max() < 0.05 * of_clips.features[inside].max()
    loudest = of_clips.features[inside].mean(axis=0).argmax()
    centre = 500.0 * 20.0 ** ((loudest + 1) / 41)
    assert centre == pytest.approx(3000, rel=0.06)
    # away from the tone there is nothing but noise
    assert (of_clips.features[inside, :15] > 0.0).mean() < 0.6 * (of_clips.features[inside, loudest] > 0.0).mean()


def test_other_front_ends_take_clips_as_they_are(rng):
    front_end = HLDSFrontEnd().fit([], SAMPLE_RATE)
    signal = rng.normal(size=3000)
    np.testing.assert_array_equal(front_end.transform_clips(signal).features, front_end.transform(signal).features)


@pytest.mark.parametrize("counts", [{"cach-D": 4}, {"cach-Z": 4}, {"tuti-F": 4, "cach-D": 4}])
def test_clips_of_one_or_two_classes_are_enough(counts):
    known = notes(counts=counts)
    detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    more = notes(seed=10, counts={"cach-D": 3, "tuti-F": 3, "cach-Z": 3})
    rng = np.random.default_rng(0)
    audio, truth = concatenate(more, edge_s=0.3, gap_s=0.3, snr_db=25.0, rng=rng)
    found = [s for s in detector.detect(audio, SAMPLE_RATE) if s.label is not None]
    wanted = [t for t in truth if t.label in counts]
    hits = [t for t in wanted if any(s.label == t.label and s.start < t.end and t.start < s.end for s in found)]
    assert len(hits) == len(wanted)
    assert len(found) == len(wanted)
