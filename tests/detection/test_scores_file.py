"""Scores in a file come back to the last bit, and give the segments of the recording itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from outlark import Decisions, HLDSFrontEnd, NoteDetector
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.scores import ScoreBlock, ScoreLayout, Scores
from outlark.detection.scores_file import KeptScores, ScoreKeeper, load_scores
from outlark.errors import ModelFileError
from outlark.files.container import read, write
from outlark.paper.detector import FrameDetector


def save_scores(kept, path):
    of = {"recording": kept.recording, "channel": kept.channel, "model_sha256": kept.model_sha256}
    keeper = ScoreKeeper(kept.scores.layout, kept.sample_rate, **of)
    keeper.push(kept.scores.block)
    keeper.save(path, n_samples=kept.n_samples, n_model_samples=kept.scores.n_samples, facts=kept.facts)


def trained(detector=None):
    known = notes(counts={"tuti-D": 3, "tuti-F": 3})
    return (detector or NoteDetector()).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def detector():
    return trained()


@pytest.fixture(scope="module")
def song():
    played = notes(seed=5, counts={"tuti-D": 2, "tuti-F": 1, "cach-C": 2})
    return concatenate(played, gap_s=0.2, edge_s=0.3, rng=np.random.default_rng(1))[0]


def kept(detector, audio, rate):
    return KeptScores(scores=detector.scores(audio, rate), sample_rate=rate, n_samples=len(audio))


def assert_equal(one: Scores, other: Scores):
    assert one.n_samples == other.n_samples
    for name in ("classes", "thresholds", "shortest_s", "longest_s", "mean_thresholds"):
        mine, theirs = getattr(one.layout, name), getattr(other.layout, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)
    for name in ("sample_rate", "hop_samples", "offset_samples"):
        assert getattr(one.layout, name) == getattr(other.layout, name)
    for mine, theirs in zip(vars(one.block).values(), vars(other.block).values(), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("rate", [SAMPLE_RATE, 44100, 16000])
def test_segments_from_the_file_are_those_of_the_recording(detector, song, rate, tmp_path):
    audio = resample(song, SAMPLE_RATE, rate)
    before = kept(detector, audio, rate)
    save_scores(before, tmp_path / "a.scores")
    after = load_scores(tmp_path / "a.scores")
    assert_equal(after.scores, before.scores)
    found = detector.detect(audio, rate)
    assert after.decide(detector) == found
    assert {s.verdict for s in found} >= {"known", "silence"}


def test_other_decisions_on_the_same_scores(detector, song, tmp_path):
    save_scores(kept(detector, song, SAMPLE_RATE), tmp_path / "a.scores")
    other = trained(NoteDetector(decisions=Decisions(activity_db=None)))
    found = load_scores(tmp_path / "a.scores").decide(other)
    assert found == other.detect(song, SAMPLE_RATE)
    assert "silence" not in {s.verdict for s in found}


def test_scores_of_frames(song, tmp_path):
    detector = trained(FrameDetector(HLDSFrontEnd()))
    before = kept(detector, song, SAMPLE_RATE)
    assert before.scores.block.lengths is None
    save_scores(before, tmp_path / "a.scores")
    after = load_scores(tmp_path / "a.scores")
    assert_equal(after.scores, before.scores)
    assert after.decide(detector) == detector.detect(song, SAMPLE_RATE)


@pytest.mark.parametrize("n", [1, 60, 300])
def test_recordings_of_next_to_nothing(detector, n, tmp_path):
    audio = np.full(n, 0.1)
    save_scores(kept(detector, audio, 44100), tmp_path / "a.scores")
    assert load_scores(tmp_path / "a.scores").decide(detector) == detector.detect(audio, 44100)


def test_block_by_block_gives_the_same_bytes(detector, song, tmp_path):
    save_scores(kept(detector, song, SAMPLE_RATE), tmp_path / "whole.scores")
    stream = detector.stream(SAMPLE_RATE)
    keeper = ScoreKeeper(detector.layout_, SAMPLE_RATE)
    for at in range(0, len(song), 5000):
        keeper.push(stream.push(song[at : at + 5000]).scores)
    keeper.push(stream.finish().scores)
    keeper.save(tmp_path / "blocks.scores", n_samples=stream.n_samples, n_model_samples=stream.n_model_samples)
    assert (tmp_path / "blocks.scores").read_bytes() == (tmp_path / "whole.scores").read_bytes()


def test_silence_takes_little_room(detector, tmp_path):
    scores = kept(detector, np.zeros(60 * SAMPLE_RATE), SAMPLE_RATE)
    save_scores(scores, tmp_path / "a.scores")
    assert (tmp_path / "a.scores").stat().st_size < scores.scores.block.activity.nbytes * 1.05 + 5000


numbers = st.one_of(st.just(0.0), st.floats(0, 10), st.just(-np.inf))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 40), st.integers(1, 4), st.booleans())
def test_any_scores_come_back(tmp_path_factory, data, n, n_classes, whole):
    values = data.draw(arrays(float, (n, n_classes), elements=numbers))
    activity = data.draw(arrays(float, n, elements=st.floats(-50, 50) | st.just(np.inf)))
    lengths = data.draw(arrays(np.int64, (n, n_classes), elements=st.integers(1, 10**6))) if whole else None
    layout = ScoreLayout(
        classes=np.arange(n_classes), thresholds=np.full(n_classes, np.inf), sample_rate=8000, hop_samples=16,
        offset_samples=0, shortest_s=np.full(n_classes, 0.1), longest_s=np.full(n_classes, 0.2),
    )  # fmt: skip
    scores = Scores(layout=layout, block=ScoreBlock(values, activity, lengths), n_samples=16 * n + 5)
    path = tmp_path_factory.mktemp("scores") / "a.scores"
    whose = {"recording": "é/a.wav", "channel": 2, "model_sha256": "ab"}
    save_scores(KeptScores(scores=scores, sample_rate=8000, n_samples=16 * n + 5, **whose), path)
    again = load_scores(path)
    assert_equal(again.scores, scores)
    assert (again.sample_rate, again.n_samples, again.recording) == (8000, 16 * n + 5, "é/a.wav")
    assert (again.channel, again.model_sha256) == (2, "ab")


def test_a_file_that_is_no_scores_is_refused(detector, tmp_path):
    from outlark import model_file

    model_file.save(detector, tmp_path / "m.outlark")
    with pytest.raises(ModelFileError, match=r"m.outlark: it holds a 'NoteDetector', not scores; give a file"):
        load_scores(tmp_path / "m.outlark")
    write(tmp_path / "b.scores", {"kind": "Scores"}, {})
    with pytest.raises(ModelFileError, match=r"b.scores: damaged: KeyError 'classes'; keep the scores again"):
        load_scores(tmp_path / "b.scores")


def test_a_damaged_file_is_refused(detector, song, tmp_path):
    path = tmp_path / "a.scores"
    save_scores(kept(detector, song, SAMPLE_RATE), path)
    blob = bytearray(path.read_bytes())
    blob[-100] ^= 1
    path.write_bytes(blob)
    with pytest.raises(ModelFileError, match=r"a.scores: damaged: the digest does not match"):
        load_scores(path)


ABSURD = {
    ("samples",): [-5, 2**63, 0, 10**9, 1.5, "3", True, None],
    ("rate",): [0, -1, 2**63, 1, 22050.0, None],
    ("layout", "hop_samples"): [0, -1, 2**63, 10**6, 80.0],
    ("layout", "offset_samples"): [-1, 2**40],
    ("layout", "sample_rate"): [0, 2**63, 3],
    ("layout", "samples"): [-5, 2**63, 10**9],
    ("channel",): [0, -1, 2**63, "1", True],
    ("recording",): [5, ["a"]],
    ("model_sha256",): [5],
}


@pytest.mark.parametrize(("where", "value"), [(where, value) for where, bad in ABSURD.items() for value in bad])
def test_numbers_that_cannot_be_are_refused_although_the_digest_matches(detector, song, tmp_path, where, value):
    path = tmp_path / "a.scores"
    save_scores(kept(detector, song, SAMPLE_RATE), path)
    header, stored = read(path)
    within = header
    for key in where[:-1]:
        within = within[key]
    within[where[-1]] = value
    write(path, header, stored)
    with pytest.raises(ModelFileError, match=r"a.scores: damaged: .*; keep the scores again"):
        load_scores(path)


ARRAYS = {
    "NaN": ("values", lambda a: a * np.nan),
    "one class more": ("values", lambda a: np.c_[a, a[:, :1]]),
    "activity": ("activity", lambda a: a * np.nan),
    "fewer bits": ("scored", lambda a: a[:-1]),
    "other bits": ("scored", lambda a: ~a),
    "lengths below 0": ("lengths", lambda a: -a.astype(np.int64)),
    "lengths of years": ("lengths", lambda a: a.astype(np.int64) + 2**62),
    "lengths that are no whole numbers": ("lengths", lambda a: a + 0.5),
    "moves": ("moves", lambda a: a.astype(np.int64) + 2**40),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays_that_cannot_be_are_refused_although_the_digest_matches(detector, song, tmp_path, what):
    path = tmp_path / "a.scores"
    save_scores(kept(detector, song, SAMPLE_RATE), path)
    header, stored = read(path)
    name, change = ARRAYS[what]
    write(path, header, {**stored, name: change(stored[name])})
    with pytest.raises(ModelFileError, match=r"a.scores: "):
        load_scores(path)
