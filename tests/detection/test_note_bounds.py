"""Bounds of notes in frequency: against a naive transcription, made-up tones, and boxes that people drew."""

from itertools import pairwise

import numpy as np
import pytest
from real_note_tasks import data_folder

from outlark import NoteDetector
from outlark.annotations import Annotation, read_annotations
from outlark.audio.recording import read
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.scores import BoundsStream, bounds_of, spans_of
from outlark.features.note import NoteFrontEnd
from outlark.segments import Segment


@pytest.fixture(scope="module")
def detector():
    known = notes(counts={"tuti-F": 3, "cach-Z": 3})
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def audio():
    return concatenate(notes(seed=1), gap_s=0.1, edge_s=0.3, rng=np.random.default_rng(0))[0]


def naive(frames, front_end, segment):
    """Frame by frame and band by band."""
    middles = [500.0 * 20.0 ** (k / 41) for k in range(42)]
    edges = [(a * b) ** 0.5 for a, b in pairwise(middles)]
    heard = []
    for k in range(len(frames)):
        if not segment.start <= k * front_end.hop_samples_ < segment.end:
            continue
        powers = [a**5 for a in frames.features[k]]
        if frames.activity[k] <= 0.0 or not max(powers):
            continue
        inside = [b for b, power in enumerate(powers) if power >= max(powers) / 100.0 * (1 - 1e-9)]
        heard.append((round(10 * np.log10(max(powers))), edges[inside[0]], edges[inside[-1] + 1]))
    loudest = max((level for level, *_ in heard), default=None)
    loud = [row for row in heard if row[0] >= loudest - 20]
    lows, highs = sorted(row[1] for row in loud), sorted(row[2] for row in loud)
    n = len(loud) - 1
    return lows[int(0.1 * n + 1e-9)], highs[int(np.ceil(0.9 * n - 1e-9))]


def test_as_a_naive_transcription(detector, audio):
    frames = detector.front_end_.transform(audio)
    found = [segment for segment in detector.detect(audio, SAMPLE_RATE) if segment.verdict != "silence"]
    assert len(found) >= 8
    for segment in found:
        low, high = naive(frames, detector.front_end_, segment)
        assert (segment.low_hz, segment.high_hz) == pytest.approx((low, high), abs=0.51)
        assert 500.0 < low < high < 10_000.0


def test_silence_has_no_bounds(detector, audio):
    silent = [segment for segment in detector.detect(audio, SAMPLE_RATE) if segment.verdict == "silence"]
    assert silent
    assert {(segment.low_hz, segment.high_hz) for segment in silent} == {(None, None)}


@pytest.mark.parametrize("block", [1, 97, 5000])
def test_live_as_in_a_file_and_from_scores(detector, audio, block):
    expected = detector.detect(audio, SAMPLE_RATE)
    assert detector.decide(detector.scores(audio, SAMPLE_RATE)) == expected
    stream = detector.stream(SAMPLE_RATE)
    short = audio[: SAMPLE_RATE // 4] if block == 1 else audio
    found = [s for at in range(0, len(short), block) for s in stream.push(short[at : at + block]).segments]
    assert found + stream.finish().segments == detector.detect(short, SAMPLE_RATE)


def test_the_bounds_of_tones(rng):
    """A sweep is as wide as it is, whatever its loudness, and a click for a moment does not count."""
    rate, seconds = 22050, 0.5
    t = np.arange(int(seconds * rate)) / rate
    low, high = 2000.0, 4000.0
    sweep = np.sin(2 * np.pi * (low * t + (high - low) / (2 * seconds) * t**2)) * np.hanning(len(t)) ** 0.25
    front_end = NoteFrontEnd().fit([], rate)
    for level in (1.0, 0.01):
        audio = np.pad(level * sweep, rate) + 1e-4 * level * rng.normal(size=len(sweep) + 2 * rate)
        audio[rate + 4000] += 2 * level
        spans = spans_of(front_end.transform(audio), front_end.spectrum_)
        first, end = (at // front_end.hop_samples_ for at in (rate, rate + len(sweep)))
        assert bounds_of(spans[first:end]) == pytest.approx((low, high), rel=0.12)


def test_what_was_never_heard_has_no_bounds():
    stream = BoundsStream(10, 0)
    segments = [Segment(start=0, end=50, sample_rate=1000, label="a")]
    assert stream.on(segments) == segments
    stream.push(np.full((20, 3), -1000.0, dtype=np.float32))
    assert stream.on(segments) == segments


def test_bounds_as_segments_become_final(rng):
    """However they come, those of all frames at once; and hours of silence take no memory."""
    spans = np.column_stack([rng.integers(-90, 0, 500), rng.uniform(1e3, 2e3, 500), rng.uniform(2e3, 9e3, 500)])
    spans[rng.random(500) < 0.4] = (-1000.0, 0.0, 0.0)
    stream, found, segments = BoundsStream(10, 0), [], []
    for _ in range(50):
        stream.push(np.full((1000, 3), -1000.0))
    assert sum(len(numbers) for numbers, _ in stream._held) == 0
    found += stream.on([Segment(start=0, end=500_000, sample_rate=1000, verdict="silence")])
    for start in range(0, 500, 100):
        stream.push(spans[start : start + 100])
        if start % 200:
            segments = [(start - 130 + i, start - 130 + i + 65) for i in (0, 65, 130)]
            found += stream.on(
                [Segment(start=500_000 + 10 * a, end=500_000 + 10 * b, sample_rate=1000) for a, b in segments if a >= 0]
            )
    assert len(found) > 4
    for segment in found[1:]:
        first, end = (segment.start // 10 - 50_000, segment.end // 10 - 50_000)
        assert (segment.low_hz, segment.high_hz) == bounds_of(spans[first:end])


def test_marks_and_segments_hand_them_on():
    segment = Segment(start=0, end=100, sample_rate=1000, label="a", low_hz=2000.0, high_hz=3000.0)
    annotation = Annotation.from_segment(segment)
    assert (annotation.low_hz, annotation.high_hz) == (2000.0, 3000.0)
    assert annotation.segment(1000).low_hz == 2000.0


def test_boxes_that_people_drew():
    """By how much of the two, in octaves, lies in both; .72 when this was written, of 53 boxes."""
    try:
        folder = data_folder("field-recordings-small")
    except SystemExit as error:
        pytest.skip(str(error))
    shared = []
    for table in sorted(folder.glob("*.selections.txt")):
        audio, rate = read(str(table).replace(".Table.1.selections.txt", ".flac"))
        front_end = NoteFrontEnd().fit([], rate)
        spans = spans_of(front_end.transform(audio), front_end.spectrum_)
        for annotation in read_annotations(table).annotations:
            if not annotation.low_hz:
                continue
            first, end = (int(at * rate / front_end.hop_samples_) for at in (annotation.start_s, annotation.end_s))
            bounds = bounds_of(spans[first:end])
            if bounds is None:
                shared.append(0.0)
                continue
            low, high = np.log2(bounds)
            drawn_low, drawn_high = np.log2(
                [max(annotation.low_hz, 500.0), min(annotation.high_hz, 10_000.0, 0.46 * rate)]
            )
            both = max(0.0, min(high, drawn_high) - max(low, drawn_low))
            shared.append(both / (max(high, drawn_high) - min(low, drawn_low)))
    assert len(shared) > 40
    assert np.mean(shared) > 0.65


def test_bounds_are_those_of_quantiles(rng):
    """The lower quantile rounded down, the higher one up."""
    for n in (*range(1, 40), 100, 101, 1234):
        spans = np.column_stack([rng.uniform(-30, -20, n), rng.uniform(500, 2000, n), rng.uniform(2000, 9000, n)])
        low = np.quantile(spans[:, 1], 0.1, method="lower")
        high = np.quantile(spans[:, 2], 0.9, method="higher")
        assert bounds_of(spans) == (np.round(low), np.round(high))
