"""Embeddings of windows against a transcription in loops; songs found by them; BirdNET where it is installed."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from outlark import NoteDetector, embeddings, model_file
from outlark.embeddings import BirdNET
from outlark.errors import InputError
from outlark.experiment.synthetic import SAMPLE_RATE, Note, concatenate, note
from outlark.field.model_content import in_words
from outlark.notes.decisions import Decisions
from outlark.notes.detector import UNIT_SETTINGS
from outlark.notes.front_ends.base import joined
from outlark.notes.front_ends.embedding import EmbeddingFrontEnd
from outlark.notes.segments import Segment

with_birdnet = pytest.mark.skipif(not embeddings.is_there(), reason=f"BirdNET is not installed: {embeddings.INSTALL}")
RATE = 4000
#: The notes that a song repeats; Y has one of A and one of B.
SONGS = {
    "A": ("tuti-D", "cach-C"),
    "B": ("tuti-F", "cach-D"),
    "C": ("cach-Z", "tuti-A"),
    "X": ("tuti-Z", "cach-E"),
    "Y": ("cach-C", "tuti-F"),
}
KNOWN = "ABC"


def bands(samples, sample_rate):
    """The power in 40 bands of equal width, as levels above -90 dB of the whole."""
    power = np.abs(np.fft.rfft(samples)) ** 2
    each = np.array([part.sum() for part in np.array_split(power, 40)])
    return np.log10(each / power.sum() + 1e-9) + 9.0


def song(name, seed):
    rng = np.random.default_rng([seed, ord(name)])
    parts = []
    while sum(map(len, parts)) < 1.2 * SAMPLE_RATE:
        for part in SONGS[name]:
            parts += [note(part, rng), 3e-4 * rng.normal(size=700)]
    return Note(name, np.concatenate(parts))


def recording(names, seed=50):
    return concatenate([song(n, seed) for n in names], gap_s=1.0, edge_s=1.0, rng=np.random.default_rng(seed))


def sound(seconds=7.3, seed=0):
    """Noise, with bursts of it here and there."""
    rng = np.random.default_rng(seed)
    x = 0.001 * rng.normal(size=round(seconds * RATE))
    for start in (0.4, 2.05, 2.5, 5.9):
        x[round(start * RATE) : round((start + 0.2) * RATE)] *= 100.0
    return x


def fitted(window_s=0.5, hop_s=0.1, embedding=bands, rate=RATE):
    return EmbeddingFrontEnd(embedding, window_s, hop_s).fit([np.ones(1)], rate)


def streamed(front_end, blocks):
    stream = front_end.stream()
    parts = [*(stream.push(block) for block in blocks), stream.finish()]
    assert all(part.features.shape == (len(part.activity), front_end.n_features_) for part in parts)
    return joined(parts)


def frames_by_hand(x, window, hop, n_steps):
    """Features and activity, sample by sample where it matters."""
    features, levels = [], []
    for k in range(-(-len(x) // hop)):
        s = np.zeros(window)
        for i in range(window):
            at = k * hop - (window - hop) // 2 + i
            if 0 <= at < len(x):
                s[i] = x[at]
        vector = bands(s, RATE)
        features.append(vector / np.sqrt((vector**2).sum()))
        edges = [k * hop + i * hop // n_steps for i in range(n_steps + 1)]
        pieces = [x[a:b] for a, b in itertools.pairwise(edges) if a < len(x)]
        levels.append([10 * np.log10(max(piece.var(), 1e-30)) for piece in pieces])
    in_chunk = round(RATE / hop) or 1  # spans in about a second
    before, ahead = (round(s * RATE / (hop * in_chunk)) for s in (10, 2))
    n = hop // n_steps - 1
    noise = 10 * np.log10(chi2.ppf(0.99, n) / chi2.ppf(0.1, n))
    activity = []
    for k, of_span in enumerate(levels):
        c = k // in_chunk
        around = sorted(np.concatenate(levels[max(0, c - before) * in_chunk : (c + ahead + 1) * in_chunk]))
        floor = around[int(0.1 * (len(around) - 1))]
        activity.append(10 * np.log10(np.mean([10 ** ((level - floor - noise) / 10) for level in of_span])))
    return np.array(features), np.array(activity)


@pytest.mark.parametrize(
    ("window_s", "hop_s", "n_steps"),
    [(0.5, 0.1, 10), (0.3, 0.3, 30), (3.0, 1.0, 100), (0.1003, 0.0333, 3), (0.2, 0.01, 1)],
)
def test_frames_are_those_of_a_transcription(window_s, hop_s, n_steps):
    front_end, x = fitted(window_s, hop_s), sound()
    found = front_end.transform(x)
    features, activity = frames_by_hand(x, round(window_s * RATE), round(hop_s * RATE), n_steps)
    np.testing.assert_allclose(found.features, features, atol=1e-9)
    np.testing.assert_allclose(found.activity, activity, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.features, axis=1), 1.0)


@settings(deadline=None, max_examples=30)
@given(
    n=st.one_of(st.integers(0, 500), st.integers(0, 29_200)),
    cuts=st.lists(st.integers(0, 29_200), max_size=6),
    lengths=st.sampled_from([(0.5, 0.1), (3.0, 1.0), (0.2, 0.07)]),
)
def test_any_blocks_give_the_same_bits(n, cuts, lengths):
    front_end, x = fitted(*lengths), sound()[:n]
    whole, cut = front_end.transform(x), streamed(front_end, np.split(x, sorted(min(c, n) for c in cuts)))
    np.testing.assert_array_equal(cut.features, whole.features)
    np.testing.assert_array_equal(cut.activity, whole.activity)
    assert len(whole) == -(-n // front_end.hop_samples_)


def test_blocks_of_one_sample_give_the_same_bits():
    front_end, x = fitted(), sound(1.0)
    cut = streamed(front_end, x[:, np.newaxis])
    np.testing.assert_array_equal(cut.features, front_end.transform(x).features)


def test_what_the_embedding_gets():
    seen = []

    def embedding(samples, sample_rate):
        seen.append((samples.shape, samples.flags.c_contiguous, sample_rate))
        samples[:] = 0.0  # does no harm
        return np.ones(3)

    front_end, x = fitted(embedding=embedding), sound(1.0)
    kept = x.copy()
    front_end.transform(x)
    assert set(seen) == {((2000,), True, RATE)}
    assert len(seen) == 1 + 10
    np.testing.assert_array_equal(x, kept)


def test_declared_numbers():
    front_end = fitted(3.0, 1.0, rate=22050)
    found = (front_end.window_samples_, front_end.hop_samples_, front_end.offset_samples_, front_end.n_features_)
    assert found == (66150, 22050, 0, 40)
    assert front_end.context_samples_ == (22050, 22050)
    assert front_end.delay_samples_ == 2 * 22050
    assert fitted(0.501, 0.1).context_samples_ == (802, 802)
    assert fitted(0.50025, 0.1).context_samples_ == (800, 801)


@pytest.mark.parametrize("at", [8000, 8011, 8399])
def test_each_frame_looks_where_declared(at):
    front_end, x = fitted(0.50025), sound()
    other = x.copy()
    other[at] += 1.0
    changed = (front_end.transform(other).features != front_end.transform(x).features).any(axis=1)
    starts = 400 * np.arange(len(changed))
    before, after = front_end.context_samples_
    np.testing.assert_array_equal(changed, (starts - before <= at) & (at < starts + 400 + after))


@pytest.mark.parametrize("lengths", [(0.5, 0.1), (3.0, 1.0), (0.2, 0.07), (8.0, 1.0), (4.0, 4.0)])
def test_each_frame_comes_when_declared(lengths):
    front_end, block = fitted(*lengths), 40
    stream, hop = front_end.stream(), front_end.hop_samples_
    ready = np.cumsum([len(stream.push(x)) for x in np.split(sound(40.0), 160_000 // block)])
    pushed = block * (np.searchsorted(ready, np.arange(1, ready[-1] + 1)) + 1)
    longest = (pushed - hop * np.arange(1, ready[-1] + 1)).max()
    assert front_end.delay_samples_ <= longest < front_end.delay_samples_ + block
    assert ready[-1] + len(stream.finish()) == -(-160_000 // hop)


def test_the_span_of_a_frame_is_where_its_activity_is():
    front_end = fitted()
    activity = front_end.transform(sound()).activity
    loud = [4, 5, 20, 21, 22, 25, 26, 59, 60]
    assert set(np.flatnonzero(activity > 6.0)) == set(loud)
    assert front_end.frame_at(2050 * 4) == 20


def test_steady_noise_is_not_active(rng):
    for lengths in ((0.5, 0.1), (3.0, 1.0)):
        activity = fitted(*lengths).transform(0.01 * rng.normal(size=60 * RATE)).activity
        assert (activity < 0.0).all()


def test_a_song_without_an_end_stays_active(rng):
    """Ten seconds of half-second calls with pauses of 50 ms: no span of a second is quiet."""
    t = np.arange(60 * RATE) / RATE
    x = 0.001 * rng.normal(size=t.size) + 0.1 * np.sin(2 * np.pi * 1000 * t) * (t % 0.4 > 0.05)
    assert (fitted(3.0, 1.0).transform(x).activity > 20.0).all()


def test_digital_silence_is_0_and_is_not_shown():
    calls = []
    front_end = fitted(embedding=lambda x, rate: calls.append(x.any()) or bands(x, rate))
    x = np.zeros(8000)
    x[4000:4100] = sound(1.0)[:100]
    frames = front_end.transform(x)
    silent = np.r_[0:8, 13:20]  # whose windows of .5 s do not reach the sound at 1 to 1.025 s
    np.testing.assert_array_equal(frames.features[silent], 0.0)
    np.testing.assert_allclose(np.linalg.norm(frames.features[8:13], axis=1), 1.0)
    assert (np.delete(frames.activity, 10) < -60.0).all()
    assert all(calls)
    nothing = front_end.transform(np.zeros(3000))
    assert not nothing.features.any()
    assert (nothing.activity < -60.0).all()


@pytest.mark.parametrize("n", [0, 1, 399, 400, 401])
def test_short_signals(n):
    for x in (np.zeros(n), np.ones(n), np.full(n, 1e6)):
        frames = fitted().transform(x)
        assert frames.features.shape == (-(-n // 400), 40)
        assert np.isfinite(frames.features).all()
        assert (frames.activity < 0.0).all()


# ------------------------------------------------------------------ clips


def joined_clips(clips, gap):
    pieces, marks, at = [np.zeros(gap)], [], gap
    for clip in clips:
        marks.append(Segment(start=at, end=at + len(clip), sample_rate=RATE, label="A"))
        pieces += [clip, np.zeros(gap)]
        at += len(clip) + gap
    return np.concatenate(pieces), marks


def test_joined_clips_are_embedded_one_by_one():
    clips = [sound(seconds, seed) for seed, seconds in enumerate((1.5, 0.07, 2.0))]
    x, marks = joined_clips(clips, 480)
    front_end = EmbeddingFrontEnd(bands, 3.0, 0.1).fit([x], RATE, [marks])
    frames = front_end.transform_clips(x)
    plain = front_end.transform(x)
    owned = np.zeros(len(frames), dtype=bool)
    for mark in marks:
        alone = np.zeros_like(x)
        alone[mark.start : mark.end] = x[mark.start : mark.end]
        middles = 400 * np.arange(len(frames)) + 200
        rows = np.flatnonzero((middles >= mark.start) & (middles < mark.end))
        rows = rows if len(rows) else [(mark.start + mark.end) // 800]
        np.testing.assert_allclose(frames.features[rows], front_end.transform(alone).features[rows], atol=1e-12)
        assert np.abs(frames.features[rows] - plain.features[rows]).max() > 1e-3  # with the others around it
        owned[rows] = True
    np.testing.assert_array_equal(frames.features[~owned], 0.0)
    np.testing.assert_array_equal(frames.activity, plain.activity)


def test_clips_that_share_a_frame_are_refused_and_the_advice_helps():
    clips, labels = [sound(0.6, seed) for seed in range(4)], list("AABB")
    with pytest.raises(InputError, match=r"clips 1 and 2 lie in one frame of 1 s.*NoteDetector\(gap_s=1\)"):
        NoteDetector(EmbeddingFrontEnd(bands)).fit(clips, labels, RATE)
    assert NoteDetector(EmbeddingFrontEnd(bands), gap_s=1.0).fit(clips, labels, RATE).classes_.tolist() == ["A", "B"]


def test_clips_that_were_not_fitted():
    with pytest.raises(InputError, match="9 samples that fit was not given"):
        fitted().transform_clips(np.ones(9))


# ------------------------------------------------------------------ songs


@pytest.fixture(scope="module")
def examples():
    return [song(name, seed) for name in KNOWN for seed in range(4)]


@pytest.fixture(scope="module")
def detector(examples):
    front_end = EmbeddingFrontEnd(bands, window_s=0.5, hop_s=0.1)
    return NoteDetector(front_end).fit([s.samples for s in examples], [s.label for s in examples], SAMPLE_RATE)


def assert_songs_are_found(detector, audio, truth):
    segments = detector.detect(audio, SAMPLE_RATE)
    heard = [s for s in segments if s.verdict != "silence"]
    expected = [(s.label, "known") if s.label in KNOWN else (None, "unknown") for s in truth]
    assert [(s.label, s.verdict) for s in heard] == expected
    np.testing.assert_allclose([s.start_s for s in heard], [s.start_s for s in truth], atol=0.2)
    np.testing.assert_allclose([s.end_s for s in heard], [s.end_s for s in truth], atol=0.2)


def test_known_songs_are_found_and_others_are_unknown(detector):
    assert_songs_are_found(detector, *recording("AXBYC"))


def test_songs_marked_in_recordings(examples):
    marked = [concatenate(examples[i::2], gap_s=1.0, edge_s=1.0, rng=np.random.default_rng(i)) for i in range(2)]
    audio, marks = zip(*marked, strict=True)
    front_end = EmbeddingFrontEnd(bands, window_s=0.5, hop_s=0.1)
    detector = NoteDetector(front_end).fit_recordings(audio, marks, SAMPLE_RATE)
    assert_songs_are_found(detector, *recording("AXBYC"))


def test_live_is_batch_and_deciding_again_needs_no_audio(detector):
    audio, _ = recording("AX")
    segments, scores = detector.detect(audio, SAMPLE_RATE), detector.scores(audio, SAMPLE_RATE)
    stream = detector.stream(SAMPLE_RATE)
    found = [*map(stream.push, np.split(audio, [1, 700, 701, 60_000])), stream.finish()]
    assert [s for f in found for s in f.segments] == segments
    np.testing.assert_array_equal(np.concatenate([f.scores.values for f in found]), scores.block.values)
    assert detector.decide(scores) == segments
    assert [s.label for s in segments if s.label] == ["A"]


def test_other_decisions(detector):
    audio, _ = recording("AX")
    other = clone(detector).set_params(decisions=Decisions(decoder="viterbi"))
    examples = [song(name, seed) for name in "AB" for seed in range(2)]
    other.fit([s.samples for s in examples], [s.label for s in examples], SAMPLE_RATE)
    assert [s.label for s in other.detect(audio, SAMPLE_RATE) if s.label] == ["A"]


def test_the_describer_has_the_settings_for_length_1(detector):
    parameters = detector.describer_.get_params()
    assert {name: parameters[name] for name in UNIT_SETTINGS} == UNIT_SETTINGS


def test_saving_is_refused_with_the_reason(detector, tmp_path):
    path = tmp_path / "songs.outlark"
    path.write_text("before")
    with pytest.raises(
        InputError, match=r"EmbeddingFrontEnd cannot be saved: its embedding, <function bands.* is code"
    ):
        model_file.save(detector, path)
    assert path.read_text() == "before"


def test_in_words(detector):
    assert in_words(detector.front_end_) == "embeddings by bands of 0.5 s around each moment, every 0.1 s"
    assert in_words(embeddings.front_end()) == "embeddings by BirdNET of 3 s around each moment, every 1 s"


def test_a_model_that_cannot_be_copied_is_shared():
    class Model:
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, samples, sample_rate):
            return bands(samples, sample_rate)

    model = Model()
    detector = NoteDetector(EmbeddingFrontEnd(model, 0.5, 0.1))
    assert clone(detector).front_end.embedding is model
    detector.fit([sound(1.0, 0), sound(1.0, 1)], ["A", "A"], RATE)
    assert detector.front_end_.embedding is model
    assert detector.front_end_ is not detector.front_end


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("answer", [[], [[1.0, 2.0]], [np.nan, 1.0], [0.0, 0.0], 3.0, [np.inf, 1.0]])
def test_what_is_no_embedding(answer):
    with pytest.raises(InputError, match="it must give a vector"):
        fitted(embedding=lambda x, rate: answer)


@pytest.mark.parametrize(
    ("answer", "message"), [(np.ones(3), "gives 3 numbers, before it gave 2"), ([np.nan, 1], "vec")]
)
def test_an_embedding_that_goes_wrong_later(answer, message):
    front_end = fitted(embedding=lambda x, rate: np.ones(2) if x[1000] == 1.0 or not x[1200] else answer)
    with pytest.raises(InputError, match=message):
        front_end.transform(sound(1.0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"embedding": None}, "embedding=None must be a function"),
        ({"embedding": BirdNET}, "must be a function .* such as BirdNET"),
        ({"window_s": 0.0}, "window_s=0.0 must be a number of seconds, more than 0"),
        ({"hop_s": np.nan}, "hop_s=nan must be"),
        ({"hop_s": 4.0}, "hop_s=4.0 is 16000 samples at 4000 Hz and window_s=3.0 is 12000"),
        ({"hop_s": 0.0005}, "give a hop of 16 samples or more"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        EmbeddingFrontEnd(**{"embedding": bands} | parameters).fit([sound()], RATE)


def test_training_material_that_is_refused():
    late = [Segment(start=0, end=9000, sample_rate=RATE, label="A")]
    for recordings, segments, message in (
        ([], None, "there is no training note"),
        ([np.zeros(9000)], None, "1 recordings of digital silence"),
        ([sound(1.0)], [late], "but a segment of it ends at sample"),
        ([np.zeros((9, 2))], None, "one channel"),
        ([np.array([0.0, np.nan])], None, "NaN or infinite"),
    ):
        with pytest.raises(InputError, match=message):
            EmbeddingFrontEnd(bands).fit(recordings, RATE, segments)


def test_what_is_over_is_over_and_what_is_not_fitted_says_so():
    stream = fitted().stream()
    stream.push(sound(0.33))
    stream.finish()
    for call in (lambda: stream.push([]), lambda: stream.push([1.0]), stream.finish):
        with pytest.raises(InputError, match="finished"):
            call()
    new = EmbeddingFrontEnd(bands)
    for call in (new.stream, lambda: new.transform(np.zeros(9)), lambda: new.transform_clips(np.zeros(9))):
        with pytest.raises(NotFittedError):
            call()


# ------------------------------------------------------------------ BirdNET


def test_front_ends_of_embeddings():
    usual = embeddings.front_end()
    assert (usual.embedding.speeds, usual.window_s, usual.hop_s) == ((1.0,), 3.0, 1.0)
    other = embeddings.front_end(bands, 0.5, hop_s=0.1)
    assert (other.embedding, other.window_s, other.hop_s) == (bands, 0.5, 0.1)


@with_birdnet
def test_birdnet_finds_songs(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLARK_CACHE", str(tmp_path))
    examples = [song(name, seed) for name in "AC" for seed in range(2)]
    detector = NoteDetector(embeddings.front_end(hop_s=0.5), gap_s=0.5)
    detector.fit([s.samples for s in examples], [s.label for s in examples], SAMPLE_RATE)
    assert detector.front_end_.n_features_ == 1024
    audio, truth = concatenate([song(n, 50) for n in "ACA"], gap_s=2.0, edge_s=2.0, rng=np.random.default_rng(50))
    scores = detector.scores(audio, SAMPLE_RATE)
    n_files = len(list(tmp_path.rglob("*.npy")))
    best = detector.classes_[scores.block.values.argmax(axis=1)]
    for mark in truth:
        inside = (scores.times_s > mark.start_s) & (scores.times_s < mark.end_s)
        assert (best[inside] == mark.label).all()
    assert [s.label for s in detector.detect(audio, SAMPLE_RATE) if s.label] == ["A", "C", "A"]
    assert len(list(tmp_path.rglob("*.npy"))) == n_files > len(audio) / (0.5 * SAMPLE_RATE)
    with pytest.raises(InputError, match=r"its embedding, BirdNET\(speeds=\(1.0,\)\), is code"):
        model_file.save(detector, tmp_path / "a.outlark")
