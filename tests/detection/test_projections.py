"""Scores by projections: those of spans that are described one by one."""

import numpy as np
import pytest

from outlark import MDDKM
from outlark.detection import projections
from outlark.detection.note_training import NOTE_SETTINGS
from outlark.detection.projections import SAMPLES_AT_ONCE, Projections
from outlark.detection.scorer import NoteScorer
from outlark.features.note import NoteFrontEnd

LENGTHS = np.array([3.0, 4.2, 9.0, 30.7, 41.0])
ALLOWED = np.array([[True, False], [True, False], [True, True], [False, True], [True, True]])
BEFORE, T = 64, 300


@pytest.fixture(scope="module", params=[0.0, 0.02], ids="{:g} s around".format)
def front_end(request):
    return NoteFrontEnd(n_bands=7, n_slices=5, change=0.7, surroundings_s=request.param).fit([], 22050)


@pytest.fixture
def spectra(rng):
    """Sounds of very different loudness, and silence."""
    spectra = rng.random((BEFORE + T + 80, 7)) * 10.0 ** rng.uniform(-3, 0, (BEFORE + T + 80, 1))
    spectra[BEFORE + 100 : BEFORE + 150] = 0.0
    return spectra


def some_class_model(front_end, rng, n=(6, 9), **settings):
    """Fitted on descriptions of noise, so many of each class."""
    X = np.concatenate([
        front_end.describe(rng.random((60, 7)) ** 3, start=10.0, n_starts=1, length=20.0) for _ in range(sum(n))
    ])  # fmt: skip
    return MDDKM(**{**NOTE_SETTINGS, **settings}).fit(X, np.repeat(["a", "b"], n))


def one_by_one(front_end, class_model, spectra, starts):
    values, numbers = np.zeros((T, 2)), np.full((T, 2), -1)
    for number, (length, own) in enumerate(zip(LENGTHS, starts, strict=True)):
        for start in own:
            sample = front_end.describe(spectra, start=float(BEFORE + start), n_starts=1, length=length)
            scores = class_model.class_scores(sample)[0]
            for c in np.flatnonzero(ALLOWED[number] & (scores > values[start])):
                values[start, c], numbers[start, c] = scores[c], number
    return values, numbers


@pytest.mark.parametrize("n", [(6, 9), (SAMPLES_AT_ONCE, 2 * SAMPLES_AT_ONCE + 3)], ids=str)
@pytest.mark.parametrize("settings", [{}, {"length_scale": 1.7, "sigma_reg": 0.05, "balance": "size"}], ids=str)
def test_scores_are_those_of_descriptions(front_end, spectra, rng, n, settings):
    class_model = some_class_model(front_end, rng, n, **settings)
    starts = [np.sort(rng.choice(T - 41, 90, replace=False)) for _ in LENGTHS]
    starts[1] = starts[1][:0]
    found = Projections.of(front_end, class_model, LENGTHS, ALLOWED, 1, BEFORE).best(spectra, starts, T)
    values, numbers = one_by_one(front_end, class_model, spectra, starts)
    np.testing.assert_allclose(found.values, values, atol=1e-10)
    np.testing.assert_array_equal(found.numbers, numbers)
    assert (numbers >= 0).sum() > 100


def test_a_span_without_a_shape_is_one_length_away_from_every_note(front_end, rng):
    class_model = some_class_model(front_end, rng)
    projections = Projections.of(front_end, class_model, LENGTHS, ALLOWED, 1, BEFORE)
    starts = [np.arange(0, 200, 7)] * len(LENGTHS)
    flat = class_model.class_scores(np.zeros((1, 35)))[0]
    for level in (0.0, 0.3, 1e-4):
        found = projections.best(np.full((BEFORE + T + 80, 7), level), starts, T)
        np.testing.assert_allclose(found.values[starts[0]], np.tile(flat, (len(starts[0]), 1)), rtol=1e-9)


def test_a_narrow_class_is_scored_part_by_part(front_end, rng, monkeypatch):
    """Starts that are scored at once are few where there are many samples; the parts make no difference."""
    class_model = some_class_model(front_end, rng, (40, 60))
    spectra, starts = rng.random((BEFORE + T + 80, 7)), [np.arange(0, T - 41, 3)] * len(LENGTHS)
    found = []
    for fewest in (1, 50, 1000):
        monkeypatch.setattr(projections, "CACHE", 1)
        monkeypatch.setattr(projections, "FEWEST_FRAMES", fewest)
        lengths = LENGTHS.copy()  # what was prepared for others is not used again
        found.append(Projections.of(front_end, class_model, lengths, ALLOWED, 3, BEFORE).best(spectra, starts, T))
    for other in found[1:]:
        np.testing.assert_allclose(other.values, found[0].values, rtol=1e-12)
        np.testing.assert_array_equal(other.numbers, found[0].numbers)


def test_what_is_prepared_is_kept_until_something_changes(front_end, rng):
    class_model = some_class_model(front_end, rng)
    first = Projections.of(front_end, class_model, LENGTHS, ALLOWED, 2, BEFORE)
    assert Projections.of(front_end, class_model, LENGTHS, ALLOWED, 2, BEFORE) is first
    assert Projections.of(front_end, class_model, LENGTHS, ALLOWED, 3, BEFORE) is not first
    class_model.add_note(np.roll(class_model.plain_samples()[0][:1], 3, axis=1), "a")
    spectra, starts = rng.random((BEFORE + T + 80, 7)), [np.arange(0, 90, 2)] * len(LENGTHS)
    found = Projections.of(front_end, class_model, LENGTHS, ALLOWED, 2, BEFORE).best(spectra, starts, T)
    np.testing.assert_allclose(found.values, one_by_one(front_end, class_model, spectra, starts)[0], atol=1e-10)


@pytest.mark.parametrize("length_scale", [0.1, 5.0])
def test_any_length_scale_gives_the_scores_of_descriptions(front_end, rng, length_scale):
    """A very short one, whose exponentials would overflow, is left to descriptions."""
    class_model = some_class_model(front_end, rng, length_scale=length_scale)
    prepared = Projections.of(front_end, class_model, LENGTHS, ALLOWED, 2, BEFORE)
    assert (prepared is None) == (length_scale == 0.1)


@pytest.mark.parametrize("settings", [{"center": True}, {"metric": "within"}], ids=str)
def test_class_models_of_another_kind_are_not_projected(front_end, rng, settings):
    class_model = some_class_model(front_end, rng, **settings)
    assert class_model.plain_samples() is None
    assert Projections.of(front_end, class_model, LENGTHS, ALLOWED, 1, BEFORE) is None


def test_the_samples_of_a_class_are_given_back(rng):
    X, y = rng.normal(size=(20, 3)) + 5.0, np.repeat(["a", "b"], 10)
    found = MDDKM(metric="euclidean").fit(X, y).plain_samples()
    np.testing.assert_allclose(np.concatenate(found), X, atol=1e-12)


def test_a_scorer_takes_whichever_way_fits(front_end, rng):
    for settings, projected in (({}, True), ({"center": True}, False)):
        scorer = NoteScorer(front_end, some_class_model(front_end, rng, **settings), LENGTHS, ALLOWED, 2)
        assert (scorer._projections is not None) == projected
