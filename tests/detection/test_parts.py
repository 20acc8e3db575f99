"""Parts of a recording that were heard one by one, put together: the segments of the whole, to the last digit."""

import numpy as np
import pytest

from outlark import NoteDetector
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection import scorer as contrast
from outlark.detection.scores_file import block_arrays, block_of
from outlark.detection.stream import PartStream, WholeStream, first_frame
from tests.detection.made_up_scores import decider

BLOCK = 50_000


@pytest.fixture(autouse=True)
def short_memory(monkeypatch):
    """Seconds in place of minutes, so that forty seconds are a long recording."""
    monkeypatch.setattr(contrast, "FORGOTTEN_S", 5.0)
    monkeypatch.setattr("outlark.audio.sound.RENEW_S", 7)


def spectrum_of(samples, rate):
    """An embedding: how much there is in eight bands."""
    power = np.abs(np.fft.rfft(samples, 4096)) ** 2
    return np.log1p([band.sum() for band in np.array_split(power, 8)])


def fitted(**more):
    known = notes(counts=dict.fromkeys(("tuti-D", "tuti-F", "cach-Z"), 3))
    return NoteDetector(**more).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def night():
    """Half a minute; a song, six seconds of silence, and songs without end."""
    rng = np.random.default_rng(1)
    pieces = [concatenate(notes(seed=i), gap_s=gap, rng=rng)[0] for i, gap in ((0, 0.3), (1, 0.01))]
    audio = np.concatenate([pieces[0][: 12 * SAMPLE_RATE], np.zeros(6 * SAMPLE_RATE), pieces[1][: 14 * SAMPLE_RATE]])
    return audio + 0.002 * rng.normal(size=len(audio))


def blocks_from(audio, first):
    return (audio[at : at + BLOCK] for at in range(first, len(audio), BLOCK))


def in_parts(detector, audio, rate, seconds):
    """The segments, how many candidates were heard in parts, and how much of the recording each part needed."""
    edges = [first_frame(detector, seconds * k) for k in range(int(len(audio) / rate / seconds) + 1)]
    parts, second, needed = [], {}, []
    for first, stop in zip(edges, [*edges[1:], None], strict=True):
        stream = PartStream(detector, rate, first, stop)
        blocks = []
        for block in blocks_from(audio, stream.first_sample):
            blocks.append(stream.push(block))
            if stream.complete:
                break
        else:
            blocks.append(stream.finish())
        assert stop is None or sum(map(len, blocks)) == stop - first
        needed.append(stream.n_samples - stream.first_sample)
        parts += [block_of(block_arrays(block), 3) for block in blocks if len(block)]
        second |= stream.second
    whole = WholeStream(detector, rate, second, lambda first: blocks_from(audio, first))
    found = [segment for block in parts for segment in whole.push(block)]
    return [*found, *whole.finish(len(audio))], len(second), needed


@pytest.mark.parametrize("rate", [SAMPLE_RATE, 32000])
@pytest.mark.parametrize("seconds", [3.0, 13.0, 50.0])
def test_together_they_are_the_whole(night, rate, seconds):
    audio = night if rate == SAMPLE_RATE else resample(night, SAMPLE_RATE, rate)
    detector = fitted(decisions=decider("note", 2.0))
    expected = detector.detect(audio, rate)
    assert {segment.verdict for segment in expected} >= {"known", "unknown", "silence"}
    found, _, needed = in_parts(detector, audio, rate, seconds)
    assert found == expected
    if seconds == 3.0:
        assert max(needed) < 30 * rate


@pytest.mark.parametrize("rate", [SAMPLE_RATE, 32000])
def test_candidates_of_a_second_stage_are_heard_in_the_parts(night, rate, monkeypatch):
    audio = night if rate == SAMPLE_RATE else resample(night, SAMPLE_RATE, rate)
    detector = fitted(embedding=spectrum_of, decisions=decider("note", 2.0))
    expected = detector.detect(audio, rate)
    again = []
    heard = WholeStream._samples
    monkeypatch.setattr(WholeStream, "_samples", lambda self, *at: again.append(at) or heard(self, *at))
    found, n_second, _ = in_parts(detector, audio, rate, 7.0)
    assert found == expected
    candidates = [segment for segment in expected if "joined" in segment.reason or segment.label is not None]
    assert n_second > 20
    assert 0 < len(again) < 0.5 * len(candidates)  # those at the edges, of which there are many here


def test_a_recording_of_nothing_and_one_shorter_than_a_frame():
    detector = fitted()
    for n in (0, 1, 100):
        audio = np.zeros(n)
        assert in_parts(detector, audio, SAMPLE_RATE, 3.0)[0] == detector.detect(audio, SAMPLE_RATE)
