"""Clips of one note each as rows of features, in a pipeline; and the noise floor of joined clips."""

import numpy as np
import pytest
import soundfile
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from outlark import MDDKM, ClipFeatures, InputError, NoteDetector
from outlark.audio.clips import Sound
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.features.note import NoteFrontEnd

KNOWN = {"tuti-F": 4, "cach-D": 4, "cach-Z": 4}


def clips_of(seed, counts):
    found = notes(seed=seed, counts=counts)
    return [n.samples for n in found], [n.label for n in found]


def bands(samples, sample_rate):
    power = np.abs(np.fft.rfft(samples, 2048)) ** 2
    return np.array([part.sum() for part in np.array_split(power, 40)]) ** 0.2


@pytest.fixture(scope="module")
def features():
    return ClipFeatures(SAMPLE_RATE).fit(*clips_of(0, KNOWN))


@pytest.fixture(scope="module")
def new():
    return clips_of(7, {"tuti-F": 3, "cach-D": 3, "cach-Z": 3})


@pytest.mark.parametrize("embedding", [None, bands])
def test_a_pipeline_tells_notes_apart_and_rejects_unknown_ones(new, embedding):
    model = make_pipeline(ClipFeatures(SAMPLE_RATE, embedding), MDDKM(outlier_label="unknown"))
    model.fit(*clips_of(0, KNOWN))
    assert np.mean(model.predict(new[0]) == new[1]) > 0.75
    silence = [np.zeros(3000), np.zeros(7)]
    assert model.predict([*clips_of(3, {"tuti-Z": 4})[0], *silence]).tolist()[-2:] == ["unknown"] * 2


def test_noise_is_unknown(rng):
    model = make_pipeline(ClipFeatures(SAMPLE_RATE), MDDKM(outlier_label="unknown")).fit(*clips_of(0, KNOWN))
    noise = [level * rng.normal(size=n) for level in (0.5, 1e-4) for n in (2000, 5000)]
    assert set(model.predict(noise)) == {"unknown"}


def test_loudness_number_type_and_channels_do_not_matter(features, new):
    expected = features.transform(new[0])
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1.0)
    np.testing.assert_allclose(features.transform([0.01 * x for x in new[0]]), expected, atol=2e-6)
    whole = [np.round(20000 * x / np.abs(x).max()).astype(np.int16) for x in new[0]]
    floats = [x / 32768 for x in whole]
    np.testing.assert_array_equal(features.transform(whole), features.transform(floats))
    stereo = [np.column_stack([x, x]) for x in floats]
    np.testing.assert_allclose(features.transform(stereo), features.transform(floats))
    assert not features.transform([np.zeros(3000)]).any()


def test_paths_rates_and_arrays_give_the_same(features, new, tmp_path):
    paths = [tmp_path / f"{i}.wav" for i in range(len(new[0]))]
    for path, clip in zip(paths, new[0], strict=True):
        soundfile.write(path, clip, SAMPLE_RATE, subtype="DOUBLE")
    expected = features.transform(new[0])
    np.testing.assert_array_equal(features.transform(paths), expected)
    higher = [Sound(resample(x, SAMPLE_RATE, 2 * SAMPLE_RATE), 2 * SAMPLE_RATE) for x in new[0]]
    assert ((features.transform(higher) * expected).sum(axis=1) > 0.98).all()


def test_bands_lie_where_the_calls_are_not_where_the_wind_is(rng):
    t = np.arange(3000) / 22050
    wind = np.cumsum(rng.normal(size=(6, 3000)), axis=1)
    call = 0.3 * np.sin(2 * np.pi * (5000 * t + 4000 * t**2)) * np.hanning(3000)
    clips = [call + 0.3 * w / np.abs(w).max() for w in wind]
    low, high = ClipFeatures(22050).fit(clips, ["a", "b"] * 3).front_end_.band_hz
    assert 2500 < low < 5000 < 6500 < high
    given = ClipFeatures(22050, low_hz=800.0, high_hz=9000.0)
    assert given.fit(clips).front_end_.band_hz == (800.0, 9000.0)


def test_a_tone_that_lasts_throughout_is_no_background(rng):
    t = np.arange(4000) / 22050
    low, high = (np.sin(2 * np.pi * hz * t) for hz in (2500.0, 5000.0))
    clips = [x + 0.01 * rng.normal(size=4000) for x in (low, low, low, high, high, high)]
    model = make_pipeline(ClipFeatures(22050), MDDKM()).fit(clips, ["low"] * 3 + ["high"] * 3)
    assert model.predict([low + 0.01 * rng.normal(size=4000)]).tolist() == ["low"]


def test_every_clip_is_embedded_at_its_own_rate():
    asked = []
    clips = [Sound(clip, rate) for clip, rate in zip(clips_of(0, {"tuti-F": 3})[0], (22050, 44100, 48000), strict=True)]
    rows = ClipFeatures(embedding=lambda x, rate: asked.append((len(x), rate)) or bands(x, rate)).fit_transform(clips)
    assert asked == [(len(x), rate) for x, rate in clips]
    expected = [bands(*clip) / np.linalg.norm(bands(*clip)) for clip in clips]
    np.testing.assert_allclose(rows, expected)


@pytest.mark.parametrize(
    ("parameters", "clips", "message"),
    [
        ({}, [np.ones(9)], "without sample_rate"),
        ({"sample_rate": 22050}, [], "no clips"),
        ({"sample_rate": 22050}, np.ones(9), "give a list"),
        ({"sample_rate": 22050, "bands_per_octave": 0}, [np.ones(9)], "bands_per_octave=0 must be"),
        *(
            ({"sample_rate": 22050, "embedding": lambda x, rate, answer=answer: answer}, [np.ones(9)], "give a vector")
            for answer in ([], [[1.0, 2.0]], [np.nan, 1.0], [0.0, 0.0], 3.0)
        ),
        ({"sample_rate": 22050, "embedding": lambda x, rate: np.ones(len(x))}, [np.ones(9), np.ones(8)], "equally"),
    ],
)
def test_what_is_refused(parameters, clips, message):
    with pytest.raises(InputError, match=message):
        ClipFeatures(**parameters).fit_transform(clips)


def test_it_is_an_estimator():
    assert clone(ClipFeatures(22050, n_slices=5)).get_params()["n_slices"] == 5


# ------------------------------------------------------------------ clips that are joined to train a detector


def test_a_steady_tone_is_no_floor(rng):
    fitted, silence, t = NoteFrontEnd().fit([], SAMPLE_RATE), np.zeros(2205), np.arange(4000) / SAMPLE_RATE
    tones = [0.5 * np.sin(2 * np.pi * 3000 * t) + 0.001 * rng.normal(size=4000) for _ in range(2)]
    joined = np.concatenate([silence, tones[0], silence, tones[1], silence])
    inside = slice(60, 120)  # in the first clip
    usual, of_clips = fitted.transform(joined), fitted.transform_clips(joined)
    assert usual.features[inside].max() < 0.05 * of_clips.features[inside].max()
    loudest = of_clips.features[inside].mean(axis=0).argmax()
    centre = 500.0 * 20.0 ** ((loudest + 1) / 41)
    assert centre == pytest.approx(3000, rel=0.06)
    # away from the tone there is nothing but noise
    assert (of_clips.features[inside, :15] > 0.0).mean() < 0.6 * (of_clips.features[inside, loudest] > 0.0).mean()


@pytest.mark.parametrize("counts", [{"cach-D": 4}, {"tuti-F": 4, "cach-D": 4}])
def test_clips_of_one_or_two_classes_are_enough(counts):
    detector = NoteDetector().fit(*clips_of(0, counts), SAMPLE_RATE)
    more = notes(seed=10, counts={"cach-D": 3, "tuti-F": 3, "cach-Z": 3})
    rng = np.random.default_rng(0)
    audio, truth = concatenate(more, edge_s=0.3, gap_s=0.3, snr_db=25.0, rng=rng)
    found = [s for s in detector.detect(audio, SAMPLE_RATE) if s.label is not None]
    wanted = [t for t in truth if t.label in counts]
    hits = [t for t in wanted if any(s.label == t.label and s.start < t.end and t.start < s.end for s in found)]
    assert len(hits) == len(wanted) == len(found)
