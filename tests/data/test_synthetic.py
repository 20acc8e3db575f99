"""Made-up notes: sizes, seeds, spans, and that each class sounds as its recipe says."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.signal import welch

from outlark.data.synthetic import CLASSES, KNOWN_CLASSES, SAMPLE_RATE, UNKNOWN_CLASSES, Note, concatenate, note, notes
from outlark.errors import InputError


def spectrum(samples):
    frequency, power = welch(samples, SAMPLE_RATE, nperseg=512)
    return frequency, power / power.sum()


def centroid_and_spread(samples):
    frequency, power = spectrum(samples)
    centre = power @ frequency
    return centre, np.sqrt(power @ (frequency - centre) ** 2)


def test_classes_are_those_of_the_paper():
    assert CLASSES == {
        "tuti-D": 15,
        "tuti-F": 6,
        "cach-Z": 4,
        "tuti-A": 4,
        "tuti-Z": 4,
        "cach-C": 6,
        "cach-D": 7,
        "cach-E": 10,
    }
    assert tuple(CLASSES) == KNOWN_CLASSES + UNKNOWN_CLASSES
    labels = [n.label for n in notes()]
    assert len(labels) == 56
    assert {name: labels.count(name) for name in CLASSES} == CLASSES


@pytest.mark.parametrize("variation", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_samples_are_usable(seed, variation):
    for n in notes(seed, variation=variation):
        assert n.samples.ndim == 1
        assert n.samples.dtype == float
        assert np.isfinite(n.samples).all()
        assert 0.05 < np.abs(n.samples).max() <= 1
        if variation <= 1:
            assert 0.14 < len(n.samples) / SAMPLE_RATE < 0.45


def test_nearly_noiseless_and_quiet_at_both_ends():
    for n in notes():
        ends = np.r_[n.samples[:20], n.samples[-20:]]
        assert np.abs(ends).max() < 0.15 * np.abs(n.samples).max()
        below = spectrum(n.samples)[1][:5].sum()  # under 200 Hz, where no note is
        assert 10 * np.log10(below) < -35


def test_same_seed_same_notes():
    np.random.seed(1)  # noqa: NPY002 - the global state has no say
    first = notes(7)
    np.random.seed(2)  # noqa: NPY002
    for a, b, other in zip(first, notes(7), notes(8), strict=True):
        assert np.array_equal(a.samples, b.samples)
        assert not np.array_equal(a.samples[:1000], other.samples[:1000])


def test_more_of_one_class_changes_nothing_else():
    few = notes(3, counts={"tuti-F": 2, "cach-E": 3})
    many = notes(3, counts={"tuti-D": 4, "tuti-F": 5, "cach-E": 3, "cach-C": 0})
    assert [n.label for n in many] == ["tuti-D"] * 4 + ["tuti-F"] * 5 + ["cach-E"] * 3
    for a, b in zip(few, many[4:6] + many[9:], strict=True):
        assert np.array_equal(a.samples, b.samples)


def test_instances_of_a_class_differ_and_variation_scales_it():
    def spread_of_lengths_and_levels(variation):
        made = notes(0, variation=variation, counts={"cach-E": 30})
        levels = [20 * np.log10(np.abs(n.samples).max()) for n in made]
        return np.std([len(n.samples) for n in made]), np.ptp(levels), made

    length0, level0, same = spread_of_lengths_and_levels(0.0)
    length1, level1, _ = spread_of_lengths_and_levels(1.0)
    length2, level2, _ = spread_of_lengths_and_levels(2.0)
    assert length0 == 0
    assert level0 < 0.2
    assert not np.array_equal(same[0].samples, same[1].samples)
    assert length2 > 1.5 * length1 > 0
    assert level2 > level1
    assert 1.5 < level1 < 3


# centroid and spread in kHz, from the recipes
@pytest.mark.parametrize(
    ("name", "centre", "spread"),
    [
        ("tuti-D", (2.6, 2.8), (0.4, 0.6)),
        ("tuti-F", (5.6, 5.9), (0.35, 0.55)),
        ("cach-Z", (7.9, 8.2), (0.1, 0.2)),
        ("tuti-A", (6.6, 7.1), (1.1, 1.5)),
        ("tuti-Z", (9.4, 9.7), (0.1, 0.25)),
        ("cach-C", (3.8, 4.2), (1.0, 1.4)),
        ("cach-D", (4.4, 4.6), (0.6, 0.9)),
        ("cach-E", (5.1, 5.4), (1.75, 2.0)),
    ],
)
def test_where_in_the_spectrum(name, centre, spread):
    for n in notes(4, counts={name: 8}):
        found = np.array(centroid_and_spread(n.samples)) / 1000
        assert centre[0] < found[0] < centre[1]
        assert spread[0] < found[1] < spread[1]


def test_classes_differ_more_between_than_within():
    """Nearest mean log spectrum, fitted on some seeds, tried on others; the closest two classes are well apart."""

    def features(made):
        logs = np.array([np.log10(spectrum(n.samples)[1] + 1e-6) for n in made])
        return logs, np.array([n.label for n in made])

    X, y = features([n for seed in (10, 11) for n in notes(seed)])
    Z, truth = features(notes(12) + notes(13))
    names = np.array(list(CLASSES))
    means = np.array([X[y == name].mean(axis=0) for name in names])
    distances = np.linalg.norm(Z[:, None] - means, axis=2)
    recall = [np.mean(names[distances[truth == name].argmin(axis=1)] == name) for name in names]
    assert min(recall) >= 0.9
    within = np.mean(distances[truth[:, None] == names])
    apart = np.linalg.norm(means[:, None] - means, axis=2)
    assert apart[np.triu_indices(8, 1)].min() > 1.5 * within


def test_joined_notes_are_contiguous_and_untouched():
    made = notes(1)
    audio, segments = concatenate(made)
    assert segments[0].start == 0
    assert segments[-1].end == len(audio) == sum(len(n.samples) for n in made)
    assert all(a.end == b.start for a, b in pairwise(segments))
    for n, s in zip(made, segments, strict=True):
        assert (s.label, s.sample_rate) == (n.label, SAMPLE_RATE)
        assert np.array_equal(audio[s.start : s.end], n.samples)


def test_gaps_and_edges_hold_the_floor(rng):
    made = notes(1, counts={"tuti-A": 3})
    audio, segments = concatenate(made, gap_s=0.1, edge_s=0.25, rng=rng)
    gap, edge = round(0.1 * SAMPLE_RATE), round(0.25 * SAMPLE_RATE)
    assert segments[0].start == edge
    assert len(audio) == segments[-1].end + edge
    outside = np.ones(len(audio), dtype=bool)
    for before, after in pairwise(segments):
        assert after.start - before.end == gap
    for n, s in zip(made, segments, strict=True):
        assert np.array_equal(audio[s.start : s.end], n.samples)
        outside[s.start : s.end] = False
    assert 1e-4 < np.std(audio[outside]) < 1e-3
    assert np.count_nonzero(audio) == len(audio)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_signal_to_noise_ratio(rng, snr_db):
    """The edge before the first note holds noise only, so it tells the noise power; what the notes add is theirs."""
    audio, segments = concatenate(notes(2), edge_s=4.0, gap_s=0.3, snr_db=snr_db, rng=rng)
    noise = np.mean(audio[: segments[0].start] ** 2)
    inside = np.concatenate([audio[s.start : s.end] for s in segments])
    assert 10 * np.log10((np.mean(inside**2) - noise) / noise) == pytest.approx(snr_db, abs=0.2)
    assert np.abs(audio).max() <= 1


def test_same_generator_same_clip():
    made = notes(2, counts={"tuti-F": 2})
    clips = [concatenate(made, gap_s=0.05, snr_db=10, rng=np.random.default_rng(seed))[0] for seed in (5, 5, 6)]
    assert np.array_equal(clips[0], clips[1])
    assert not np.array_equal(clips[0], clips[2])


ONE = [Note("tuti-D", np.zeros(10))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: note("tuti-X", np.random.default_rng(0)), "'tuti-X' is not a class of notes: expected one of tuti-D"),
        (lambda: notes(counts={"robin": 1}), "'robin' is not a class"),
        (lambda: notes(counts={"tuti-D": -1}), r"counts\['tuti-D'\]=-1"),
        (lambda: notes(variation=-1), "variation=-1: expected a number from 0 to 3"),
        (lambda: notes(variation=np.nan), "variation=nan"),
        (lambda: concatenate([]), "no notes"),
        (lambda: concatenate(ONE, gap_s=-1, rng=np.random.default_rng(0)), "gap_s=-1"),
        (lambda: concatenate(ONE, edge_s=1), "pass rng="),
        (lambda: concatenate(ONE, snr_db=0), "pass rng="),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
