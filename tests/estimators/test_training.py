"""The correction for class size: what it undoes, what it leaves alone, and classes too small for the reference."""

import numpy as np
import pytest

from outlark.estimators import training
from outlark.estimators.training import Size, mean_left_out_score, score_at_size, size_factor, size_of, smallest
from outlark.maths.landmarks import Setting

SETTING = Setting(2.0, 0.1)


def factor_of(samples, notes, reference, c=0):
    return size_factor(c, samples, notes, mean_left_out_score(samples[c], notes[c], SETTING), reference, SETTING)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ratio", [1e-4, 0.1])
def test_size_factor_brings_a_large_class_to_the_score_of_a_small_one(rng, center, ratio):
    large, small = rng.normal(size=(600, 2)), [rng.normal(size=(60, 2)) for _ in range(10)]
    setting = Setting(3.0, ratio, center)
    own_mean = mean_left_out_score(large, np.arange(600), setting)
    factor = size_factor(0, [large], [np.arange(600)], own_mean, Size(60, 60), setting)
    at_full = mean_left_out_score(large, np.arange(600), setting)
    at_small = np.mean([mean_left_out_score(Z, np.arange(60), setting) for Z in small])
    assert factor * at_full == pytest.approx(at_small, rel=0.04)
    assert at_full > 1.2 * at_small


def test_sizes_are_notes_and_samples():
    assert size_of(np.array(["a", "b", "a"])) == Size(n_notes=2, n_samples=3)
    assert smallest([Size(2, 90), Size(5, 40)]) == Size(2, 40)


def test_nearly_the_same_size_is_the_same(rng):
    Z = rng.normal(size=(105, 2))
    assert factor_of([Z], [np.arange(105)], Size(100, 100)) == 1.0
    assert factor_of([Z], [np.arange(105)], Size(99, 99)) < 1.0


def test_a_single_sample_cannot_be_left_out(rng):
    assert mean_left_out_score(rng.normal(size=(1, 2)), np.zeros(1), SETTING) == 0.0


def test_the_score_at_its_own_size_is_the_class_itself(rng):
    Z, notes = rng.normal(size=(30, 2)), np.repeat(np.arange(10), 3)
    assert score_at_size(Z, notes, Size(10, 30), SETTING) == pytest.approx(mean_left_out_score(Z, notes, SETTING))


@pytest.mark.parametrize(
    ("notes", "size", "subsets"),
    [
        (np.arange(40), Size(8, 8), 5),
        (np.arange(41), Size(8, 8), 6),
        (np.repeat(np.arange(4), [1, 1, 1, 38]), Size(4, 10), 5),  # by samples: a note may be long
        (np.arange(9), Size(8, 8), 2),
        (np.arange(400), Size(2, 2), training.MAX_SUBSETS),
    ],
)
def test_every_note_is_used_about_once(rng, monkeypatch, notes, size, subsets):
    seen = []
    monkeypatch.setattr(training, "mean_left_out_score", lambda Z, notes, setting: seen.append(len(notes)) or 1.0)
    score_at_size(rng.normal(size=(len(notes), 2)), notes, size, SETTING)
    assert seen == [size.n_samples] * subsets


@pytest.mark.parametrize(("exact_up_to", "subsets"), [(399, 2), (400, 4)])
def test_subsets_of_a_large_class_hold_enough_samples_together(rng, monkeypatch, exact_up_to, subsets):
    seen = []
    monkeypatch.setattr(training, "mean_left_out_score", lambda Z, notes, setting: seen.append(1) or 1.0)
    monkeypatch.setattr(training, "EXACT_UP_TO", exact_up_to)
    monkeypatch.setattr(training, "MAX_SUBSET_SAMPLES", 250)
    score_at_size(rng.normal(size=(400, 2)), np.arange(400), Size(100, 100), SETTING)
    assert len(seen) == subsets


def test_notes_that_last_longer_make_a_class_larger(rng):
    Z = rng.normal(size=(90, 2))
    assert factor_of([Z], [np.repeat(np.arange(30), 3)], Size(30, 60)) < 1.0


def test_a_small_class_learns_from_all_classes_of_at_least_the_reference_size(rng):
    sizes = (10, 40, 80)
    samples, notes = [rng.normal(size=(n, 2)) for n in sizes], [np.arange(n) for n in sizes]
    alone = [factor_of([samples[0], samples[c]], [notes[0], notes[c]], Size(40, 40)) for c in (1, 2)]
    assert factor_of(samples, notes, Size(40, 40)) == pytest.approx(np.mean(alone))


def test_a_class_smaller_than_the_reference_grows_as_the_others_do(rng):
    """A class of few notes, such as one that was added later, scores what it would at the reference size."""
    few, many = rng.normal(size=(10, 2)), [rng.normal(size=(80, 2)) for _ in range(3)]
    notes = [np.arange(10), *[np.arange(80)] * 3]
    factor = factor_of([few, *many], notes, Size(80, 80))
    at_reference, at_ten = (
        np.mean([score_at_size(Z, np.arange(80), size, SETTING) for Z in many]) for size in (Size(80, 80), Size(10, 10))
    )
    assert factor == pytest.approx(at_reference / at_ten, rel=0.1)
    assert factor > 1.2
    assert factor_of([few], notes[:1], Size(80, 80)) == 1.0  # no other class to learn from


def test_a_single_note_counts_as_half_of_two(rng):
    others = [rng.normal(size=(40, 2)), rng.normal(size=(40, 2))]
    of_others = [np.repeat(np.arange(8), 5)] * 2
    single = factor_of([others[0][:5], *others], [np.zeros(5), *of_others], Size(8, 40))
    two = factor_of([others[0][:10], *others], [np.repeat([0, 1], 5), *of_others], Size(8, 40))
    assert single == two > 1.0


def test_a_class_that_scores_nothing_is_left_as_it_is():
    Z = 1e3 * np.arange(6.0)[:, np.newaxis]  # far from one another: every left-out score is 0
    assert factor_of([Z], [np.arange(6)], Size(2, 2)) == 1.0
