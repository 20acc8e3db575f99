"""Whole notes: descriptions against exact integrals of brute force; every declared number against an experiment."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.errors import InputError
from outlark.features.note import NoteFrontEnd

FITTED = NoteFrontEnd().fit([], 22050)


def mean_between(spectra, start, end):
    """The mean of the step function that is spectra[t] from t to t + 1, and 0 outside, from start to end."""
    total = np.zeros(spectra.shape[1])
    for t in range(len(spectra)):
        total += max(0.0, min(end, t + 1) - max(start, t)) * spectra[t]
    return total / (end - start)


def described_by_hand(spectra, start, length, n_slices, change, around):
    """The slices and their differences side by side: as long as the description, and with the same inner products."""
    start, length = start - around, length + 2 * around
    edges = [start + length * i / n_slices for i in range(n_slices + 1)]
    slices = np.array([mean_between(spectra, a, b) for a, b in pairwise(edges)])
    slices = slices - slices.mean()
    v = np.concatenate([slices.ravel(), change**0.5 * np.diff(slices, axis=0).ravel()])
    return v / np.linalg.norm(v) if np.linalg.norm(v) > 1e-12 else 0.0 * v


@pytest.fixture
def signal(rng):
    t = np.arange(22050) / 22050
    return 0.01 * rng.normal(size=t.size) + 0.3 * np.sin(2 * np.pi * (2000 + 3000 * t) * t) * (t % 0.25 < 0.1)


@settings(deadline=None, max_examples=100)
@given(
    n=st.integers(1, 30),
    start=st.floats(-20, 40).map(lambda x: round(x, 6)),
    length=st.floats(0.3, 25),
    n_starts=st.integers(1, 6),
    step=st.integers(1, 4),
    n_slices=st.integers(1, 9),
    change=st.sampled_from([0.0, 0.5, 1.0, 7.0]),
    around=st.sampled_from([0.0, 0.7, 3.0, 10.0]),
    seed=st.integers(0, 99),
)
def test_descriptions_are_integrals(n, start, length, n_starts, step, n_slices, change, around, seed):
    front_end = NoteFrontEnd(n_slices=n_slices, change=change, surroundings_s=around / 500).fit([], 8000)
    assert front_end.surroundings == pytest.approx(around)
    spectra = np.random.default_rng(seed).uniform(size=(n, 4))
    found = front_end.describe(spectra, start=start, n_starts=n_starts, length=length, step=step)
    assert found.shape == (n_starts, n_slices * 4)
    starts = start + step * np.arange(n_starts)
    expected = np.array([described_by_hand(spectra, at, length, n_slices, change, around) for at in starts])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)
    if change == 0.0:
        np.testing.assert_allclose(found, expected[:, : n_slices * 4], atol=1e-6)


def test_descriptions_have_length_one_whatever_the_mean(rng):
    spectra = rng.uniform(size=(200, 40))
    found = FITTED.describe(spectra, start=13.3, n_starts=100, length=41.7)  # its surroundings are inside as well
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    louder = FITTED.describe(spectra + 0.7, start=13.3, n_starts=100, length=41.7)
    np.testing.assert_allclose(louder, found, atol=1e-12)


@pytest.mark.parametrize("start", [-100.3, 100.1, 30.7])
def test_silence_has_no_shape_even_after_a_loud_sound(rng, start):
    spectra = np.zeros((100, 40))
    spectra[:20] = rng.uniform(size=(20, 40))
    assert not FITTED.describe(spectra, start=start, n_starts=7, length=13.77).any()


def test_noise_that_is_flat_has_no_shape():
    assert not FITTED.describe(np.full((100, 40), 0.3), start=20.0, n_starts=5, length=20.0).any()


def test_loudness_does_not_matter(signal):
    descriptions = []
    for loudness in (0.125, 1.0, 8.0):
        spectra = FITTED.transform(loudness * signal).features
        descriptions.append(FITTED.describe(spectra, start=110.0, n_starts=30, length=50.0, step=3))
    np.testing.assert_allclose(descriptions[0], descriptions[1], atol=1e-9)
    np.testing.assert_allclose(descriptions[2], descriptions[1], atol=1e-9)


def test_a_stretched_note_is_described_alike():
    """The note itself: what surrounds it is as long as it was."""
    front_end, descriptions = NoteFrontEnd(surroundings_s=0.0).fit([], 22050), []
    for seconds in (0.1, 0.2):
        t = np.arange(round(seconds * 22050)) / 22050 / seconds  # the same glide, slower
        note = 0.3 * np.sin(2 * np.pi * np.cumsum(2000 + 4000 * t) / 22050) * np.sin(np.pi * t)
        spectra = front_end.transform(np.pad(note, 11025) + 1e-4 * np.random.default_rng(0).normal(size=len(t) + 22050))
        length = seconds * front_end.frame_rate
        descriptions.append(front_end.describe(spectra.features, start=11025 / 44, n_starts=1, length=length)[0])
    assert descriptions[0] @ descriptions[1] > 0.9


def test_a_piece_of_a_longer_sound_is_no_note():
    """With surroundings a note has to begin and to end; without them a piece is as good as the whole."""
    likeness = {}
    short, long = np.zeros((300, 40)), np.zeros((300, 40))
    short[140:160, 7] = long[80:220, 7] = 1.0
    for seconds in (0.0, 0.02):
        front_end = NoteFrontEnd(surroundings_s=seconds).fit([], 22050)
        one, other = (front_end.describe(s, start=140.0, n_starts=1, length=20.0)[0] for s in (short, long))
        likeness[seconds] = one @ other
    assert likeness[0.0] == pytest.approx(1.0)
    assert likeness[0.02] < 0.8


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=5))
def test_trial_lengths_cover_the_notes_in_small_steps(durations):
    lengths = FITTED.lengths(durations) / FITTED.frame_rate
    assert lengths[0] == pytest.approx(min(durations) / 1.3)
    assert lengths[-1] == pytest.approx(max(durations) * 1.3)
    steps = lengths[1:] / lengths[:-1]
    assert (steps <= 1.13 + 1e-9).all()
    np.testing.assert_allclose(steps, steps[0])
    assert (steps > 1.05).all()  # no finer than it has to be


def test_declared_numbers():
    assert (FITTED.sample_rate_, FITTED.hop_samples_, FITTED.offset_samples_, FITTED.n_features_) == (22050, 44, 0, 40)
    assert FITTED.frame_rate == 22050 / 44
    assert FITTED.context_samples_ == (154, 155)  # 353 samples around 44


@pytest.mark.parametrize("at", [6000, 6011, 6043, 6044])
def test_each_frame_looks_where_declared(rng, at):
    """In the middle of a loud sound in all bands, so that the noise floor stays as it is."""
    x = 0.001 * rng.normal(size=22050)
    x[5000:7000] *= 1000.0
    other = x.copy()
    other[at] += 10.0
    change = np.abs(FITTED.transform(other).features - FITTED.transform(x).features).max(axis=1)
    starts = 44 * np.arange(len(change))
    before, after = FITTED.context_samples_
    looks = np.flatnonzero((starts - before <= at) & (at < starts + 44 + after))
    changed = np.flatnonzero(change > 0)
    assert set(changed) <= set(looks)
    assert set(looks[1:-1]) <= set(changed)  # the window is 0 at its ends


def test_the_own_span_of_a_frame_is_where_its_energy_is(rng):
    for k in (100, 101, 357):
        x = 1e-4 * rng.normal(size=22050)
        x[44 * k + 22] = 1.0
        assert FITTED.transform(x).features.sum(axis=1).argmax() == k
        assert FITTED.frame_at(44 * k) == FITTED.frame_at(44 * k + 43) == k


@pytest.mark.parametrize("n", [0, 1, 43, 45, 352])
def test_descriptions_of_short_signals(n):
    for x in (np.zeros(n), np.ones(n)):
        found = FITTED.describe(FITTED.transform(x).features, start=-3.0, n_starts=2, length=10.0)
        assert found.shape == (2, 480)
        assert np.isfinite(found).all()


@pytest.mark.parametrize("rate", [8000, 48000, 384_000])
def test_every_sample_rate(rate):
    front_end = NoteFrontEnd().fit([], rate)
    assert front_end.frame_rate == pytest.approx(500, rel=0.01)
    assert front_end.transform(np.ones(rate // 10)).features.shape[1] == 40


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_slices": 0}, "n_slices=0 must be a whole number, 1 or more"),
        ({"n_slices": 2.5}, "n_slices=2.5 must be a whole number"),
        ({"change": -0.1}, "change=-0.1 must be a number, 0 or more"),
        ({"change": "much"}, "change='much' must be"),
        ({"surroundings_s": -0.01}, "surroundings_s=-0.01 must be"),
        ({"surroundings_s": np.inf}, "surroundings_s=inf must be"),
        ({"n_bands": 1}, "n_bands=1 must be"),
        ({"hop_s": 0.0}, "hop_s=0.0 must be"),
    ],
)
def test_settings_that_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        NoteFrontEnd(**parameters).fit([], 22050)
