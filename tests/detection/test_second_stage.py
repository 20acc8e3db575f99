"""Two stages: candidates by spectra, then an embedding of each."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark import InputError, NoteDetector, embeddings
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.note_training import NOTE_SETTINGS
from outlark.detection.scores import ScoreBlock
from outlark.detection.second_stage import LEAST_ALIKE, Memory, SecondStage, joint_score
from outlark.embeddings import BirdNET
from outlark.errors import ModelFileError
from outlark.estimators.mddkm import MDDKM
from outlark.model_file import load, save
from outlark.paper.front_end import HLDSFrontEnd

KNOWN = {"tuti-F": 4, "cach-D": 4}


def bands(samples, sample_rate):
    """An embedding: the power in 20 bands of equal width, compressed."""
    power = np.abs(np.fft.rfft(samples, 4096)) ** 2
    return np.array([part.sum() for part in np.array_split(power, 20)]) ** 0.2


class ToldApart:
    """An embedding to which nothing sounds like what it heard at first."""

    def __init__(self, n):
        self.n = n

    def __call__(self, samples, sample_rate):
        self.n -= 1
        return bands(samples, sample_rate) if self.n >= 0 else -bands(samples, sample_rate)


def trained(embedding, **more):
    known = notes(counts=KNOWN)
    detector = NoteDetector(embedding=embedding, **more)
    return detector.fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def detector():
    return trained(bands)


@pytest.fixture(scope="module")
def song():
    played = notes(seed=1, counts={"tuti-F": 3, "cach-D": 3, "cach-Z": 3})
    return concatenate(played, gap_s=0.2, edge_s=0.3, rng=np.random.default_rng(0))


def found(segments):
    return [s for s in segments if s.label is not None]


def test_the_score_is_the_geometric_mean_of_both_stages(detector, song):
    audio, truth = song
    one_stage = trained(None)
    first = {s.start: s for s in found(one_stage.detect(audio, SAMPLE_RATE))}
    second = found(detector.detect(audio, SAMPLE_RATE))
    assert [s.label for s in second] == [s.label for s in truth if s.label in KNOWN]
    clips = notes(counts=KNOWN)
    X = np.array([bands(n.samples, 0) for n in clips])
    class_model = MDDKM(**NOTE_SETTINGS).fit(X / np.linalg.norm(X, axis=1)[:, np.newaxis], [n.label for n in clips])
    for segment in second:
        z = bands(audio[segment.start : segment.end], 0)
        scores = dict(zip(class_model.classes_, class_model.class_scores([z / np.linalg.norm(z)])[0], strict=True))
        assert segment.score == pytest.approx((first[segment.start].score * scores[segment.label]) ** 0.5, rel=1e-9)
    np.testing.assert_allclose(detector.layout_.thresholds, np.sqrt(one_stage.layout_.thresholds * LEAST_ALIKE))


def test_what_the_embedding_does_not_know_is_unknown_and_says_so(song):
    audio, _ = song
    segments = trained(ToldApart(sum(KNOWN.values()))).detect(audio, SAMPLE_RATE)
    assert not found(segments)
    assert sum(s.reason.startswith("joined score ") for s in segments) >= 6
    assert segments[0].start == 0
    assert segments[-1].end == len(audio)
    assert all(a.end == b.start for a, b in pairwise(segments))


@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, 60_000), max_size=12))
def test_the_segments_do_not_depend_on_the_blocks(detector, song, cuts):
    audio, _ = song
    stream = detector.stream(SAMPLE_RATE)
    ends = sorted({min(cut, len(audio)) for cut in cuts} | {len(audio)})
    segments = [s for a, b in zip([0, *ends], ends, strict=False) for s in stream.push(audio[a:b]).segments]
    assert segments + stream.finish().segments == detector.detect(audio, SAMPLE_RATE)


def test_only_candidates_are_embedded_and_the_past_is_forgotten(song):
    audio, _ = song
    heard = []

    def counting(samples, sample_rate):
        heard.append(len(samples) / sample_rate)
        return bands(samples, sample_rate)

    detector = trained(counting)
    heard.clear()
    stream = detector.stream(SAMPLE_RATE)
    kept = []
    for at in range(0, 40 * len(audio), 4096):
        stream.push(np.take(audio, np.arange(at, at + 4096), mode="wrap"))
        kept.append(sum(len(block) for block in stream._memory._blocks))
    stream.finish()
    assert 40 * 6 <= len(heard) < 40 * 12
    assert max(heard) < 1.0
    assert max(kept) < 10 * SAMPLE_RATE < 5 * len(audio)


def test_memory_gives_the_samples_that_were_pushed():
    class Echo:
        def scores(self, samples, sample_rate):
            return np.array([samples.sum(), len(samples)])

    memory, x = Memory(Echo(), 8000), np.arange(100.0)
    for at in range(0, 100, 7):
        memory.push(x[at : at + 7])
        if at == 49:
            np.testing.assert_allclose(memory.scores(30, 40), [x[30:40].sum(), 10])
            memory.forget(40)
    np.testing.assert_allclose(memory.scores(40, 99), [x[40:99].sum(), 59])
    memory.forget(100)
    assert not memory._blocks


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1))
def test_a_joined_score_lies_between_both_and_stays_in_order(pairs):
    first, second = np.array(pairs).T
    both = joint_score(first, second)
    assert (both >= np.minimum(first, second) - 1e-12).all()
    assert (both <= np.maximum(first, second) + 1e-12).all()
    assert (joint_score(first + 0.1, second) >= both).all()


def test_a_single_note_of_a_single_class_is_enough():
    (note,) = notes(counts={"tuti-F": 1})
    detector = NoteDetector(embedding=bands).fit([note.samples], ["a"], SAMPLE_RATE)
    audio = np.concatenate([np.zeros(9000), note.samples, np.zeros(9000)])
    assert [s.label for s in found(detector.detect(audio, SAMPLE_RATE))] == ["a"]


def test_notes_in_recordings_train_it_too(song):
    audio, truth = song
    detector = NoteDetector(embedding=bands).fit_recordings([audio], [truth], SAMPLE_RATE)
    assert [s.label for s in found(detector.detect(audio, SAMPLE_RATE))] == [s.label for s in truth]


def test_calibration_moves_the_joined_thresholds(detector, song):
    again = trained(bands)
    before = again.note_model_.spectral_thresholds.copy()
    again.calibrate([song[0]], SAMPLE_RATE)
    assert [c.prior for c in again.calibration_] == detector.layout_.thresholds.tolist()
    again.set_thresholds([9.0, 9.0])
    assert not found(again.detect(song[0], SAMPLE_RATE))
    np.testing.assert_array_equal(again.note_model_.spectral_thresholds, before)


def test_scores_are_those_of_the_first_stage_and_cannot_be_decided_on(detector, song):
    scores, segments = detector.scores_and_segments(song[0], SAMPLE_RATE)
    assert segments == detector.detect(song[0], SAMPLE_RATE)
    np.testing.assert_array_equal(scores.block.values, trained(None).scores(song[0], SAMPLE_RATE).block.values)
    with pytest.raises(InputError, match=r"needs the sound of its candidates.*give detect\(\) the recording"):
        detector.decide(scores)


# ------------------------------------------------------------------ files


def test_a_file_holds_the_name_and_not_the_code(detector, song, tmp_path):
    save(detector, tmp_path / "m")
    again = load(tmp_path / "m", embedding=bands)
    assert again.detect(song[0], SAMPLE_RATE) == detector.detect(song[0], SAMPLE_RATE)
    save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    with pytest.raises(
        ModelFileError, match=r"trained with the embedding '.*test_second_stage.bands'.*load\(path, emb"
    ):
        load(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"but this is '.*ToldApart'"):
        load(tmp_path / "m", embedding=ToldApart(0))


def test_another_version_is_refused(tmp_path):
    class Versioned:
        def __init__(self, version):
            self.version = version

        def __call__(self, samples, sample_rate):
            return bands(samples, sample_rate)

    save(trained(Versioned("1")), tmp_path / "m")
    load(tmp_path / "m", embedding=Versioned("1"))
    with pytest.raises(ModelFileError, match=r"version '1', but this is .* version '2'"):
        load(tmp_path / "m", embedding=Versioned("2"))


def test_birdnet_is_found_by_its_name(detector, tmp_path, monkeypatch):
    """Without its weights: a file can be looked at where they are not installed."""
    birdnet = BirdNET(output="species", speeds=(1.0,), keep=False)
    like_it = replace(detector.second_stage_, embedding=birdnet)
    other = trained(bands)
    other.model_ = replace(other.model_, second_stage=like_it)
    save(other, tmp_path / "m")
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    again = load(tmp_path / "m")
    assert again.embedding.get_params() == birdnet.get_params()
    with pytest.raises(embeddings.MissingExtraError, match="pip install"):
        again.second_stage_.try_out(SAMPLE_RATE)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"embedding": 3}, "embedding=3 must be a function"),
        ({"embedding": BirdNET}, "must be a function .* or a callable object"),
        ({"embedding": bands, "front_end": HLDSFrontEnd()}, "must be a NoteFrontEnd"),
    ],
)
def test_what_cannot_be_joined_is_refused(more, message):
    with pytest.raises(InputError, match=message):
        NoteDetector(**more).fit([np.ones(9)], ["a"], SAMPLE_RATE)


def test_a_threshold_of_an_embedding_is_a_number():
    class Wrong:
        threshold = -1.0

        def __call__(self, samples, sample_rate):
            return bands(samples, sample_rate)

    with pytest.raises(InputError, match=r"threshold is -1\.0; it must be a number above 0"):
        trained(Wrong())


def test_digital_silence_is_like_nothing(detector):
    assert isinstance(detector.second_stage_, SecondStage)
    assert detector.second_stage_.scores(np.zeros(100), SAMPLE_RATE).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("share", "is_candidate"), [(0.41, True), (0.39, False)])
def test_candidates_need_not_reach_the_threshold_of_the_spectra(detector, share, is_candidate):
    """What the embedding is sure of counts from two fifths of that threshold on."""
    of_spectra = detector.model_.spectral_thresholds
    block = ScoreBlock(np.zeros((200, 2)), np.full(200, 20.0), np.full((200, 2), 40))
    block.values[50, 0] = share * of_spectra[0]
    stream = detector.decision_stream(lambda scores, start, end: np.where(scores > 0.0, 9.0, 0.0))
    segments = stream.push(block) + stream.finish(200 * detector.layout_.hop_samples)
    assert (len(found(segments)) == 1) == is_candidate
