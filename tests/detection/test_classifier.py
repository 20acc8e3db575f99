"""Clips of one note each: scores by hand, and what must not matter does not."""

import numpy as np
import pytest
import soundfile
from sklearn.base import clone

from outlark import MDDKM, InputError, NoteClassifier
from outlark.audio.sound import resample
from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.detection.classifier import CLIP_SETTINGS
from outlark.estimators.open_set import low_end
from outlark.features.clip import ClipFrontEnd
from outlark.storage import model_file

KNOWN = {"tuti-F": 4, "cach-D": 4, "cach-Z": 4}


def clips_of(seed, counts):
    found = notes(seed=seed, counts=counts)
    return [n.samples for n in found], [n.label for n in found]


@pytest.fixture(scope="module")
def trained():
    return NoteClassifier().fit(*clips_of(0, KNOWN), SAMPLE_RATE)


@pytest.fixture(scope="module")
def new():
    return clips_of(7, {"tuti-F": 3, "cach-D": 3, "cach-Z": 3})


def test_new_notes_are_told_apart_and_unknown_ones_are_told(trained, new):
    samples, labels = new
    assert np.mean(trained.predict(samples, SAMPLE_RATE) == labels) > 0.75
    assert set(trained.verdicts(samples, SAMPLE_RATE)) <= {"known", "ambiguous", "unknown"}
    never_heard, _ = clips_of(3, {"tuti-Z": 4})
    best = trained.score_samples(samples, SAMPLE_RATE)
    assert np.median(best) > np.median(trained.score_samples(never_heard, SAMPLE_RATE))
    assert not trained.membership(never_heard, SAMPLE_RATE).all()


def test_scores_are_those_of_mddkm_for_the_best_view(trained, new):
    train, labels = clips_of(0, KNOWN)
    front_end = ClipFrontEnd().fit(train, labels, SAMPLE_RATE)
    X = np.array([front_end.views(clip)[0] for clip in train])
    by_hand = MDDKM(**CLIP_SETTINGS).fit(X, labels)
    expected = [by_hand.class_scores(front_end.views(clip)).max(axis=0) for clip in new[0]]
    np.testing.assert_allclose(trained.class_scores(new[0], SAMPLE_RATE), expected, rtol=1e-9)
    # and MDD-KM itself, for one clip, one class and one view
    z, own = front_end.views(new[0][0])[0], X[np.array(labels) == by_hand.classes_[0]]
    k = np.exp(-((own - z) ** 2).sum(axis=1) / 0.49)
    K = np.exp(-((own[:, np.newaxis] - own) ** 2).sum(axis=2) / 0.49) + 0.1 * np.eye(len(own))
    d = 1.0 - k @ np.linalg.solve(K, k)
    found = by_hand.class_scores(z[np.newaxis])[0, 0]
    np.testing.assert_allclose(found, -0.5 * np.log(d), rtol=1e-6)


def test_thresholds_are_a_quantile_of_left_out_scores(trained):
    train, labels = clips_of(0, KNOWN)
    left_out = []
    # what is learnt about the range of the bands stays, as in the classifier
    views = [trained.front_end_.views(clip) for clip in train]
    of_class = {label: [i for i, own in enumerate(labels) if own == label] for label in KNOWN}
    for fold in range(4):
        out = [numbers[fold] for numbers in of_class.values()]
        seen = [i for i in range(len(train)) if i not in out]
        model = MDDKM(**CLIP_SETTINGS).fit(np.array([views[i][0] for i in seen]), [labels[i] for i in seen])
        columns = model.classes_.tolist()
        left_out += [model.class_scores(views[i])[:, columns.index(labels[i])].max() for i in out]
    np.testing.assert_allclose(trained.thresholds_, low_end(np.array(left_out), 0.1), rtol=1e-9)


def test_loudness_and_number_type_do_not_matter(trained, new):
    expected = trained.class_scores(new[0], SAMPLE_RATE)
    # spectra have single precision
    np.testing.assert_allclose(trained.class_scores([0.01 * x for x in new[0]], SAMPLE_RATE), expected, atol=2e-6)
    whole = [np.round(20000 * x / np.abs(x).max()).astype(np.int16) for x in new[0]]
    floats = [x / 32768 for x in whole]
    np.testing.assert_array_equal(trained.class_scores(whole, SAMPLE_RATE), trained.class_scores(floats, SAMPLE_RATE))
    stereo = [np.column_stack([x, x]) for x in floats]
    np.testing.assert_allclose(trained.class_scores(stereo, SAMPLE_RATE), trained.class_scores(floats, SAMPLE_RATE))


def test_noise_and_silence_are_unknown(trained, rng):
    noise = [level * rng.normal(size=n) for level in (0.5, 1e-4) for n in (2000, 5000)]
    assert set(trained.predict(noise, SAMPLE_RATE)) == {"unknown"}
    silence = [np.zeros(3000), np.zeros(7), np.full(3000, 0.25)]
    assert trained.predict(silence, SAMPLE_RATE).tolist() == ["unknown"] * 3
    assert not trained.class_scores(silence[:2], SAMPLE_RATE).any()


def test_the_order_of_clips_and_the_names_of_classes_do_not_matter(trained, new):
    train, labels = clips_of(0, KNOWN)
    expected = trained.class_scores(new[0], SAMPLE_RATE)
    order = np.random.default_rng(1).permutation(len(train))
    mixed = NoteClassifier().fit([train[i] for i in order], [labels[i] for i in order], SAMPLE_RATE)
    np.testing.assert_allclose(mixed.class_scores(new[0], SAMPLE_RATE), expected, rtol=1e-6)
    names = {"cach-D": 9, "cach-Z": 4, "tuti-F": 1}  # the other way round, and numbers
    numbered = NoteClassifier(outlier_label=-1).fit(train, [names[label] for label in labels], SAMPLE_RATE)
    np.testing.assert_allclose(numbered.class_scores(new[0], SAMPLE_RATE)[:, ::-1], expected, rtol=1e-6)
    assert set(numbered.predict(new[0], SAMPLE_RATE).tolist()) <= {9, 4, 1, -1}


def test_paths_rates_and_arrays_give_the_same(trained, new, tmp_path):
    for i, clip in enumerate(new[0]):
        soundfile.write(tmp_path / f"{i}.wav", clip, SAMPLE_RATE, subtype="DOUBLE")
    paths = [tmp_path / f"{i}.wav" for i in range(len(new[0]))]
    expected = trained.class_scores(new[0], SAMPLE_RATE)
    np.testing.assert_array_equal(trained.class_scores(paths), expected)
    np.testing.assert_array_equal(trained.class_scores(new[0]), expected)  # the rate of the training clips
    higher = [resample(x, SAMPLE_RATE, 2 * SAMPLE_RATE) for x in new[0]]
    np.testing.assert_allclose(trained.class_scores(higher, 2 * SAMPLE_RATE), expected, atol=0.05)
    assert trained.class_scores([], SAMPLE_RATE).shape == (0, 3)


def test_a_call_that_is_higher_and_cut_otherwise_is_the_same_call(rng):
    """A sweep, 1 semitone up and with a tenth cut off; the views are what makes it the same."""
    t = np.arange(3000) / 22050
    sweep = np.sin(2 * np.pi * (3000 * t + 8000 * t**2)) * np.hanning(3000)
    moved = np.sin(2 * np.pi * 2 ** (1 / 12) * (3000 * t + 8000 * t**2)) * np.hanning(3000)
    train = [sweep + 0.01 * rng.normal(size=3000) for _ in range(3)]
    scores = {}
    for name, front_end in {"views": None, "one": ClipFrontEnd(crops=((0.0, 1.0),), shifts=(0,))}.items():
        model = NoteClassifier(front_end=front_end).fit(train, ["a"] * 3, 22050)
        scores[name] = model.class_scores([moved[300:] + 0.01 * rng.normal(size=2700)])[0, 0]
    assert scores["views"] > scores["one"] + 0.2


def test_groups_are_left_out_together(new):
    """Copies of a clip flatter the threshold, unless they are known to be of one bird."""
    train, labels = clips_of(0, {"tuti-F": 3, "cach-D": 3})
    twice, names = train * 2, labels * 2
    flattered = NoteClassifier().fit(twice, names, SAMPLE_RATE)
    honest = NoteClassifier().fit(twice, names, SAMPLE_RATE, groups=[*range(len(train))] * 2)
    assert honest.thresholds_.max() < flattered.thresholds_.min()


def test_a_single_clip_is_said_to_be_a_guess():
    train, labels = clips_of(0, {"tuti-F": 1, "cach-D": 1})
    with pytest.warns(UserWarning, match="a guess"):
        model = NoteClassifier().fit(train, labels, SAMPLE_RATE)
    assert model.predict(train, SAMPLE_RATE).tolist() == labels
    assert NoteClassifier(threshold=0.5).fit(train, labels, SAMPLE_RATE).thresholds_.tolist() == [0.5, 0.5]


def test_bands_lie_where_the_calls_are_not_where_the_wind_is(rng):
    t = np.arange(3000) / 22050
    wind = np.cumsum(rng.normal(size=(6, 3000)), axis=1)
    call = 0.3 * np.sin(2 * np.pi * (5000 * t + 4000 * t**2)) * np.hanning(3000)
    clips = [call + 0.3 * w / np.abs(w).max() for w in wind]
    front_end = ClipFrontEnd().fit(clips, ["a", "b"] * 3, 22050)
    assert 2500 < front_end.range_.low_hz < 5000 < 6500 < front_end.range_.high_hz
    assert tuple(ClipFrontEnd(low_hz=800.0, high_hz=9000.0).fit(clips, ["a"] * 6, 22050).range_) == (800.0, 9000.0)


def test_a_tone_that_lasts_throughout_is_no_background():
    t = np.arange(4000) / 22050
    low, high = (np.sin(2 * np.pi * hz * t) for hz in (2500.0, 5000.0))
    rng = np.random.default_rng(0)
    clips = [x + 0.01 * rng.normal(size=4000) for x in (low, low, low, high, high, high)]
    model = NoteClassifier().fit(clips, ["low"] * 3 + ["high"] * 3, 22050)
    scores = model.class_scores([low + 0.01 * rng.normal(size=4000)])[0]
    assert scores[1] > 0.5 > scores[0]


def test_errors_say_what_to_do(trained):
    train, labels = clips_of(0, {"tuti-F": 2})
    for arguments, message in (
        ((train, labels[:1], SAMPLE_RATE), "2 clips but 1 labels"),
        (([], [], SAMPLE_RATE), "no clips"),
        ((train, labels), "without sample_rate"),
        ((train[0], labels, SAMPLE_RATE), "give a list"),
        (([train[0], np.zeros(100)], labels, SAMPLE_RATE), "clip 1 .* holds no sound"),
        (([train[0], np.zeros(0)], labels, SAMPLE_RATE), r"clips\[1\] is empty"),
        ((train, ["unknown"] * 2, SAMPLE_RATE), "outlier_label='unknown' is also a class"),
        ((train, labels, [SAMPLE_RATE]), "1 sample rates"),
    ):
        with pytest.raises(InputError, match=message):
            NoteClassifier().fit(*arguments)
    with pytest.raises(InputError, match="must be callable"):
        NoteClassifier(embedding="birdnet").fit(train, labels, SAMPLE_RATE)
    with pytest.raises(InputError, match="must be a ClipFrontEnd"):
        NoteClassifier(front_end="clip").fit(train, labels, SAMPLE_RATE)
    with pytest.raises(InputError, match="start < end"):
        NoteClassifier(front_end=ClipFrontEnd(crops=((1.0, 0.0),))).fit(train, labels, SAMPLE_RATE)


def test_it_is_a_scikit_learn_estimator_that_no_file_holds(trained, tmp_path):
    assert clone(trained).get_params() == trained.get_params()
    with pytest.raises(InputError, match="NoteClassifier cannot be saved"):
        model_file.save(trained, tmp_path / "a.outlark")
    assert not list(tmp_path.iterdir())
