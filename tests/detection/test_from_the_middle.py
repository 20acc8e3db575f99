"""A recording heard from its middle on: the same numbers as from its start, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark import NoteDetector
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection import scorer as contrast
from outlark.detection.scorer import NoteScorer
from outlark.detection.scores import joined_scores
from outlark.errors import InputError
from outlark.features.base import joined
from outlark.features.noise_floor import LevelFloor
from outlark.features.note import NoteFrontEnd, Spectrum, SpectrumSettings, SpectrumSource
from outlark.paper.detector import FrameDetector

NOISE = np.random.default_rng(0).normal(size=300_000)


@settings(max_examples=40)
@given(
    frame_rate=st.sampled_from([1.0, 7.3, 501.1]),
    first_chunk=st.integers(0, 20),
    n_chunks=st.floats(0.0, 30.0),
    window_s=st.sampled_from([0.0, 3.0, 10.0]),
    ahead_s=st.sampled_from([0.0, 2.0]),
)
def test_floors_are_those_of_the_whole_from_the_look_back_on(frame_rate, first_chunk, n_chunks, window_s, ahead_s):
    settings = {"frame_rate": frame_rate, "window_s": window_s, "ahead_s": ahead_s}
    whole, late = LevelFloor(**settings), LevelFloor(**settings, first_chunk=first_chunk)
    levels = np.resize(NOISE, (round(n_chunks * whole.chunk), 2))
    begin = first_chunk * whole.chunk
    expected = np.concatenate([whole.push(levels), whole.finish()])
    found = np.concatenate([late.push(levels[begin:]), late.finish()]) if len(levels) > begin else expected[:0]
    n_unlike = whole.look_back if begin else 0
    np.testing.assert_array_equal(found[n_unlike:], expected[begin + n_unlike :])


SHORT = {"window_s": 0.016, "hop_s": 0.004, "low_hz": 200.0, "high_hz": 900.0, "n_bands": 6}


@settings(max_examples=40, deadline=None)
@given(
    first=st.one_of(st.integers(0, 12_000), st.sampled_from([256, 2500, 2750, 3000])),
    n_samples=st.integers(0, 90_000),
    size=st.integers(200, 50_000),
    overlap=st.sampled_from([1.0, 20.0, 200.0]),
)
def test_spectra_from_a_frame_on(first, n_samples, size, overlap):
    """With windows that overlap by a little, by much, and by more than the frames of a block."""
    spectrum = Spectrum(SpectrumSettings(**{**SHORT, "window_s": 0.004 * overlap}), sample_rate=2000)
    x = NOISE[:n_samples] * np.repeat([1.0, 0.01, 0.3], 30_000)[:n_samples]
    whole, late = SpectrumSource(spectrum), SpectrumSource(spectrum, first=first)
    expected = joined([whole.push(x), whole.finish()])
    x = x[late.first_sample :]
    found = joined([*(late.push(x[i : i + size]) for i in range(0, len(x), size)), late.finish()])
    np.testing.assert_array_equal(found.features, expected.features[first:])
    np.testing.assert_array_equal(found.activity, expected.activity[first:])


def test_not_much_more_is_heard_than_what_the_noise_floor_looks_back_to():
    spectrum = NoteFrontEnd().fit([], SAMPLE_RATE).spectrum_
    late = SpectrumSource(spectrum, first=100_000)
    before_s = (100_000 * spectrum.hop - late.first_sample) / SAMPLE_RATE
    assert 10.0 < before_s < 13.0


@pytest.fixture(scope="module")
def detector():
    known = notes(counts=dict.fromkeys(("tuti-D", "tuti-F", "cach-Z"), 3))
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def night():
    """Forty seconds in which the level, and so the contrast, goes up and down."""
    rng = np.random.default_rng(1)
    pieces = [concatenate(notes(seed=i), gap_s=0.2, edge_s=0.4, rng=rng)[0][: 10 * SAMPLE_RATE] for i in range(4)]
    audio = np.concatenate([piece * loud for piece, loud in zip(pieces, (1.0, 0.02, 0.3, 0.1), strict=True)])
    return audio + 0.002 * rng.normal(size=len(audio))


@pytest.fixture
def short_memory(monkeypatch):
    """Seconds in place of minutes, so that forty seconds are a long recording."""
    monkeypatch.setattr(contrast, "FORGOTTEN_S", 5.0)
    monkeypatch.setattr("outlark.audio.sound.RENEW_S", 7)


@pytest.mark.parametrize("rate", [SAMPLE_RATE, 32000])
def test_scores_from_a_frame_on(detector, night, rate, short_memory):
    audio = night if rate == SAMPLE_RATE else resample(night, SAMPLE_RATE, rate)
    stream = detector.score_stream(rate)
    whole = joined_scores([stream.push(audio), stream.finish()])
    assert {len(np.unique(column)) > 3 for column in whole.columns.values()} == {True}
    grain = detector.grain
    for first in (grain, 23 * grain, 38 * grain, len(whole) // grain * grain):
        late = detector.score_stream(rate, first=first)
        rest = audio[late.first_sample :]
        found = joined_scores([*(late.push(rest[i : i + 70_001]) for i in range(0, len(rest), 70_001)), late.finish()])
        for name, of_whole in whole.columns.items():
            np.testing.assert_array_equal(found.columns[name], of_whole[first:])
        assert (late.n_samples, late.n_model_samples) == (stream.n_samples, stream.n_model_samples)
    assert late.first_sample > 15 * rate


def test_what_the_run_in_is_for(detector, night, short_memory, monkeypatch):
    """Without it the scores are others, so that the tests above can fail."""
    whole = detector.score_stream(SAMPLE_RATE)
    expected = joined_scores([whole.push(night), whole.finish()])
    first = 38 * detector.grain
    monkeypatch.setattr(NoteScorer, "run_in", lambda self, frames: None)
    late = detector.score_stream(SAMPLE_RATE, first=first)
    found = joined_scores([late.push(night[late.first_sample :]), late.finish()])
    assert (found.values != expected.values[first:]).any()


def test_only_whole_notes_from_the_middle(detector):
    assert FrameDetector.paper().fit(*three_notes()).grain is None
    with pytest.raises(InputError, match=r"first=7: .* a multiple of 512"):
        detector.score_stream(SAMPLE_RATE, first=7)
    with pytest.raises(InputError, match=r"first=512: .* only be analysed from its start"):
        FrameDetector.paper().fit(*three_notes()).score_stream(SAMPLE_RATE, first=512)


def three_notes():
    known = notes(counts={"tuti-D": 2, "cach-Z": 2})
    return [n.samples for n in known], [n.label for n in known], SAMPLE_RATE
