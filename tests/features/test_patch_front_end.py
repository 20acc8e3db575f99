"""Patches against a transcription in loops; every declared number against an experiment."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from outlark.errors import InputError
from outlark.experiment.synthetic import KNOWN, SAMPLE_RATE, concatenate, notes
from outlark.features.base import joined
from outlark.features.components import principal_components, projected
from outlark.features.patch import PatchFrontEnd, slice_weights
from outlark.features.spectrum import Spectrum, SpectrumSettings, SpectrumSource
from outlark.segments import Segment

CLIP, MARKS = concatenate(notes(counts=dict.fromkeys(KNOWN, 2)), gap_s=0.1, edge_s=0.3, rng=np.random.default_rng(0))
FITTED = PatchFrontEnd().fit([CLIP], SAMPLE_RATE, [MARKS])
SMALL = {"low_hz": 100.0, "high_hz": 400.0, "n_bands": 5}  # at 1 kHz: windows of 16 samples, a hop of 2


def patches_by_hand(x, context_s=0.048, n_slices=12, step=2, rate=SAMPLE_RATE, **parameters):
    """Patches (T, n_slices·n_bands) and their activity, one by one."""
    spectrum = Spectrum(SpectrumSettings(**parameters), rate)
    source = SpectrumSource(spectrum)
    spectra, activity = joined([source.push(x), source.finish()])
    context = context_s * rate / spectrum.hop
    rows, loud = [], []
    for k in range(-(-len(spectra) // step)):
        middle, v = k * step + step / 2, []
        for i in range(n_slices):
            start, end = (middle - context + 2 * context * j / n_slices for j in (i, i + 1))
            total = np.zeros(spectra.shape[1])
            for t in range(max(0, int(np.floor(start))), min(len(spectra), int(np.ceil(end)))):
                total += (min(end, t + 1) - max(start, t)) * spectra[t]
            v.append(total / (end - start))
        v = np.concatenate(v) - np.mean(v)
        length = np.sqrt((v**2).sum())
        rows.append(v / length if length > 1e-12 else 0 * v)
        loud.append(np.mean(activity[k * step : (k + 1) * step]))
    return np.array(rows), np.array(loud)


def streamed(front_end, blocks):
    stream = front_end.stream()
    parts = [*(stream.push(block) for block in blocks), stream.finish()]
    assert all(part.features.shape[:1] == part.activity.shape for part in parts)
    return joined(parts)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"step": 3, "n_slices": 5, "context_s": 0.0333},
        {"context_s": 0.001, "n_slices": 1},
        {"step": 1, "n_bands": 7},
    ],
    ids=str,
)
def test_frames_are_those_of_a_transcription(parameters):
    front_end = PatchFrontEnd(**parameters).fit([CLIP], SAMPLE_RATE, [MARKS])
    patches, activity = patches_by_hand(CLIP, **parameters)
    hop = front_end.hop_samples_
    own = np.zeros(len(patches), dtype=bool)
    for mark in MARKS:
        own[mark.start // hop : (mark.end - 1) // hop + 1] = True
    pca = PCA(min(30, patches.shape[1]), svd_solver="full").fit(patches[own & (activity > 0)])
    pca.components_ *= np.sign([row[np.abs(row).argmax()] for row in pca.components_])[:, np.newaxis]
    inside = pca.transform(patches)
    beyond = np.linalg.norm(patches - pca.inverse_transform(inside), axis=1)
    if len(front_end.components_) < len(pca.components_):  # one that does not vary: patches have mean 0
        inside = inside[:, : len(front_end.components_)]
    found = front_end.transform(CLIP)
    np.testing.assert_allclose(found.features, np.column_stack([inside, beyond]), atol=1e-7)
    np.testing.assert_allclose(found.activity, activity, atol=1e-9)
    assert found.features.shape[1] == front_end.n_features_ == len(front_end.components_) + 1


@settings(deadline=None)
@given(context=st.floats(0.1, 40), n_slices=st.integers(1, 20), step=st.integers(1, 6))
def test_weights_are_overlaps(context, n_slices, step):
    weights = slice_weights(context, n_slices, step)
    around = (weights.shape[1] - step) // 2
    assert weights.shape == (n_slices, step + 2 * around)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights, weights[::-1, ::-1], atol=1e-9)
    middles = weights @ (np.arange(weights.shape[1]) + 0.5) - around - step / 2
    expected = context * (2 * np.arange(n_slices) + 1 - n_slices) / n_slices
    np.testing.assert_allclose(middles, expected, atol=0.5)


def test_distances_to_the_training_frames_are_honest():
    """With all components kept, a sound of any kind is as far from the training frames as its patch is."""
    front_end = PatchFrontEnd(n_components=480).fit([CLIP], SAMPLE_RATE, [MARKS])
    foreign = np.pad(notes(seed=3, counts={"cach-D": 1})[0].samples, 3000)
    own, other = (patches_by_hand(x) for x in (CLIP, foreign))
    inside = np.zeros(len(own[0]), dtype=bool)
    for mark in MARKS:
        inside[mark.start // 88 : (mark.end - 1) // 88 + 1] = True
    inside &= own[1] > 0
    found = cdist(front_end.transform(foreign).features, front_end.transform(CLIP).features[inside])
    np.testing.assert_allclose(found, cdist(other[0], own[0][inside]), atol=1e-6)


def test_what_the_components_leave_out_is_large_for_a_sound_that_is_like_no_note():
    t = np.arange(22050) / SAMPLE_RATE
    low = np.where((t > 0.4) & (t < 0.6), 0.3 * np.sin(2 * np.pi * 700 * t), 0.0) + 3e-4 * np.sin(1e5 * t**2)
    own, other = FITTED.transform(CLIP), FITTED.transform(low)
    beyond_own = own.features[own.activity > 6, -1]
    beyond_other = other.features[other.activity > 6, -1]
    assert np.median(beyond_other) > 2 * np.median(beyond_own)
    np.testing.assert_array_less(other.features[:, -1], 2.0)


def test_loudness_does_not_matter():
    plain, loud = FITTED.transform(0.125 * CLIP), FITTED.transform(CLIP)
    np.testing.assert_allclose(loud.features, plain.features, atol=1e-8)
    np.testing.assert_allclose(loud.activity, plain.activity, atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(
    n=st.one_of(st.integers(0, 300), st.integers(0, 60_000)),
    cuts=st.lists(st.integers(0, 60_000), max_size=6),
    seed=st.integers(0, 99),
)
def test_any_blocks_give_the_same_bits(n, cuts, seed):
    x = np.random.default_rng(seed).normal(size=n) * 0.1
    whole, cut = FITTED.transform(x), streamed(FITTED, np.split(x, sorted(min(c, n) for c in cuts)))
    np.testing.assert_array_equal(cut.features, whole.features)
    np.testing.assert_array_equal(cut.activity, whole.activity)


@pytest.mark.parametrize("size", [1, 88, 1000, 2**16 + 1])
def test_small_and_large_blocks_give_the_same_bits(size, rng):
    x = rng.normal(size=5000 if size < 88 else 160_000)
    whole, cut = FITTED.transform(x), streamed(FITTED, [x[i : i + size] for i in range(0, len(x), size)])
    np.testing.assert_array_equal(cut.features, whole.features)
    np.testing.assert_array_equal(cut.activity, whole.activity)


def test_declared_numbers():
    assert (FITTED.sample_rate_, FITTED.hop_samples_, FITTED.offset_samples_, FITTED.n_features_) == (22050, 88, 0, 31)
    assert FITTED.frame_rate == 22050 / 88
    # 24.05 spectra on either side of the middle of 2: 24 before and after these; each looks 154 and 155 samples around
    assert FITTED.context_samples_ == (24 * 44 + 154, 24 * 44 + 155)
    assert PatchFrontEnd(step=5).fit([CLIP], SAMPLE_RATE).hop_samples_ == 220


@pytest.mark.parametrize("at", [8000, 8011, 8043, 8087])
def test_each_frame_looks_where_declared(rng, at):
    """In the middle of a loud sound in all bands, so that the noise floor stays as it is."""
    x = 0.001 * rng.normal(size=22050)
    x[7000:9000] *= 1000.0
    other = x.copy()
    other[at] += 10.0
    change = np.abs(FITTED.transform(other).features - FITTED.transform(x).features).max(axis=1)
    starts = 88 * np.arange(len(change))
    before, after = FITTED.context_samples_
    looks = np.flatnonzero((starts - before <= at) & (at < starts + 88 + after))
    changed = np.flatnonzero(change > 0)
    assert set(changed) <= set(looks)
    assert set(looks[1:-1]) <= set(changed)  # the window is 0 at its ends


@pytest.mark.parametrize("step", [1, 3])
def test_each_frame_comes_when_declared(step, rng):
    training = rng.normal(size=1000) * np.repeat([0.01, 1.0], 500)
    front_end = PatchFrontEnd(step=step, **SMALL).fit([training], 1000)
    stream, hop, block = front_end.stream(), 2 * step, 10
    # long enough for every position of a frame in the chunks of the floor and in the blocks
    ready = np.cumsum([len(stream.push(x)) for x in rng.normal(size=(7000, block))])
    pushed = block * (np.searchsorted(ready, np.arange(1, ready[-1] + 1)) + 1)
    longest = (pushed - hop * np.arange(1, ready[-1] + 1)).max()
    assert 0.95 * front_end.delay_samples_ < longest < front_end.delay_samples_ + block
    assert ready[-1] + len(stream.finish()) == -(-7000 * block // hop)


def test_the_own_span_of_a_frame_is_where_its_energy_is(rng):
    for k in (60, 61, 200):
        x = 1e-4 * rng.normal(size=22050)
        x[88 * k + 22 : 88 * k + 66] += rng.normal(size=44)
        assert FITTED.transform(x).activity.argmax() == k
        assert FITTED.frame_at(88 * k) == FITTED.frame_at(88 * k + 87) == k


def test_steady_noise_is_not_active(rng):
    activity = FITTED.transform(0.01 * rng.normal(size=20 * SAMPLE_RATE)).activity
    assert (activity > 0).mean() < 0.02


@pytest.mark.parametrize("n", [0, 1, 43, 45, 88, 89, 352])
def test_short_signals(n):
    for x in (np.zeros(n), np.ones(n)):
        frames = FITTED.transform(x)
        assert frames.features.shape == (-(-n // 88), 31)
        assert frames.activity.shape == (-(-n // 88),)
        assert np.isfinite(frames.features).all()
        assert np.isfinite(frames.activity).all()


def test_digital_silence_is_the_origin_of_patches():
    frames = FITTED.transform(np.zeros(30_000))
    assert (frames.activity < -60).all()
    origin = projected(np.zeros((1, 480)), FITTED.mean_, FITTED.components_)
    np.testing.assert_allclose(frames.features, np.repeat(origin, len(frames), axis=0), atol=1e-12)


def test_silence_after_a_loud_sound_has_no_shape(rng):
    x = np.zeros(44_100)
    x[5000:9000] = rng.normal(size=4000)
    frames = FITTED.transform(x)
    origin = projected(np.zeros((1, 480)), FITTED.mean_, FITTED.components_)[0]
    late = (9000 + sum(FITTED.context_samples_)) // 88
    np.testing.assert_allclose(frames.features[late:], np.repeat([origin], len(frames) - late, axis=0), atol=1e-12)


def test_clipped_and_offset_signals():
    for x in (np.clip(10 * CLIP, -1, 1), 1e6 * CLIP, np.sign(CLIP)):
        assert np.isfinite(FITTED.transform(x).features).all()
    plain, offset = FITTED.transform(CLIP), FITTED.transform(CLIP + 0.02)
    heard = (plain.activity > 10) & (np.arange(len(plain)) > 30) & (np.arange(len(plain)) < len(plain) - 30)
    shift = np.linalg.norm(offset.features[heard] - plain.features[heard], axis=1)
    assert np.median(shift) < 0.1


@pytest.mark.parametrize("rate", [8000, 48000, 384_000])
def test_every_sample_rate(rate, rng):
    t = np.arange(rate // 2) / rate
    x = 0.2 * np.sin(2 * np.pi * (1000 + 2000 * t) * t) * (t > 0.25) + 1e-4 * rng.normal(size=t.size)
    front_end = PatchFrontEnd().fit([x], rate)
    assert front_end.frame_rate == pytest.approx(250, rel=0.01)
    frames = front_end.transform(x)
    assert len(frames) == -(-len(x) // front_end.hop_samples_)
    assert np.median(frames.activity[80:100]) > 10


def test_only_active_frames_of_marked_notes_are_learnt_from():
    patches, activity = patches_by_hand(CLIP)
    inside = np.zeros(len(patches), dtype=bool)
    for mark in MARKS:
        inside[mark.start // 88 : (mark.end - 1) // 88 + 1] = True
    np.testing.assert_allclose(FITTED.mean_, patches[inside & (activity > 0)].mean(axis=0), atol=1e-10)


def test_without_segments_each_recording_is_a_note():
    clips = [CLIP[: MARKS[2].end], CLIP[MARKS[2].end :]]
    whole = [[Segment(start=0, end=len(x), sample_rate=SAMPLE_RATE, label="all")] for x in clips]
    one, two = PatchFrontEnd().fit(clips, SAMPLE_RATE), PatchFrontEnd().fit(clips, SAMPLE_RATE, whole)
    np.testing.assert_array_equal(one.components_, two.components_)


def test_fewer_frames_than_components():
    short = [Segment(start=MARKS[0].start + 1500, end=MARKS[0].start + 1500 + 88 * 4, sample_rate=22050, label="A")]
    front_end = PatchFrontEnd().fit([CLIP], SAMPLE_RATE, [short])
    assert 1 <= front_end.n_features_ - 1 < 6
    frames = front_end.transform(CLIP).features[front_end.frame_at(short[0].start) :][:4]
    np.testing.assert_array_equal(frames[:, -1], 0.0)  # exactly: rounding must not be stretched by a metric later
    single = [
        Segment(start=short[0].start // 88 * 88, end=short[0].start // 88 * 88 + 88, sample_rate=22050, label="A")
    ]
    assert PatchFrontEnd().fit([CLIP], SAMPLE_RATE, [single]).n_features_ == 1


def test_notes_of_silence_can_be_fitted():
    front_end = PatchFrontEnd().fit([np.zeros(5000)], SAMPLE_RATE)
    assert front_end.transform(np.zeros(880)).features.tolist() == [[0.0]] * 10
    assert (front_end.transform(CLIP).features <= 1.0 + 1e-12).all()


def test_components(rng):
    X = rng.normal(size=(50, 8)) * np.arange(1, 9)
    mean, components = principal_components(X, 3)
    pca = PCA(3, svd_solver="full").fit(X)
    np.testing.assert_allclose(mean, pca.mean_)
    np.testing.assert_allclose(np.abs(components), np.abs(pca.components_), atol=1e-9)
    assert (components.max(axis=1) == np.abs(components).max(axis=1)).all()
    np.testing.assert_allclose(components @ components.T, np.eye(3), atol=1e-12)
    found = projected(X, mean, components)
    np.testing.assert_allclose((found**2).sum(axis=1), ((X - mean) ** 2).sum(axis=1))
    assert principal_components(X[:4], 8)[1].shape == (3, 8)
    assert principal_components(X[:1], 8)[1].shape == (0, 8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"context_s": 0.0}, "context_s=0.0 must be a number of seconds, more than 0"),
        ({"context_s": np.inf}, "context_s=inf must be"),
        ({"n_slices": 0}, "n_slices=0 must be a whole number, 1 or more"),
        ({"n_components": 0.5}, "n_components=0.5 must be a whole number"),
        ({"step": -1}, "step=-1 must be a whole number"),
        ({"n_bands": 2}, "n_bands=2 must be"),
        ({"hop_s": 1.0}, "hop_s=1.0 is longer than window_s"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        PatchFrontEnd(**parameters).fit([CLIP], SAMPLE_RATE)


def test_training_material_that_is_refused():
    late = [Segment(start=0, end=len(CLIP) + 1, sample_rate=SAMPLE_RATE, label="A")]
    for recordings, segments, message in (
        ([], None, "there is no training note"),
        ([np.zeros(0)], None, "there is no training note"),
        ([CLIP], [], "segments for 0 recordings, but 1 recordings"),
        ([CLIP], [late], "but a segment of it ends at sample"),
        ([np.zeros((9, 2))], None, "one channel"),
        ([np.array([0.0, np.nan])], None, "NaN or infinite"),
    ):
        with pytest.raises(InputError, match=message):
            PatchFrontEnd().fit(recordings, SAMPLE_RATE, segments)


def test_what_is_over_is_over_and_what_is_not_fitted_says_so():
    stream = FITTED.stream()
    stream.finish()
    for call in (lambda: stream.push([]), lambda: stream.push([1.0]), stream.finish):
        with pytest.raises(InputError, match="finished"):
            call()
    for call in (PatchFrontEnd().stream, lambda: PatchFrontEnd().transform(np.zeros(9))):
        with pytest.raises(NotFittedError):
            call()


def test_it_is_an_estimator_and_fits_the_same_twice():
    again = clone(FITTED).fit([CLIP], SAMPLE_RATE, [MARKS])
    np.testing.assert_array_equal(again.components_, FITTED.components_)
    assert again.get_params() == FITTED.get_params()
