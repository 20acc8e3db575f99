"""One scale: the formula, trained_thresholds between their bounds, and left-out scores against refitting by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.data.synthetic import SAMPLE_RATE, notes
from outlark.detection import note_training as absolute_scale
from outlark.detection.note_training import (
    MASKS,
    MAX_PLACES,
    SEARCH_SHARE,
    AnnotatedNote,
    in_pitch,
    left_out_scores,
    note_samples,
    pitch_matters,
    trial_lengths,
)
from outlark.detection.thresholds import (
    ENOUGH_TO_JUDGE,
    LEAST_SHARE,
    LEFT_OUT_SHARE,
    ODD_SHARE,
    absolute_threshold,
    odd_one,
    trained_thresholds,
)
from outlark.features.note import NoteFrontEnd

# ------------------------------------------------------------------- trained_thresholds


@given(st.integers(1, 10_000), st.floats(0.001, 100.0))
def test_t0_is_the_formula(n, duration_s):
    plain = absolute_threshold(n, duration_s, pitch=False)
    assert plain == pytest.approx(max(0.1, 0.10 + 0.07 * np.log(n) - 0.04 * np.log(duration_s)))
    assert absolute_threshold(n, duration_s, pitch=True) == absolute_threshold(2 * n, duration_s, pitch=False)
    assert absolute_threshold(n + 1, duration_s, pitch=False) >= plain
    assert absolute_threshold(n, 2 * duration_s, pitch=False) <= plain


classes = st.lists(st.tuples(st.floats(0.1, 0.6), st.lists(st.floats(0.0, 3.0), max_size=8)), min_size=1, max_size=5)


@given(classes)
def test_thresholds_are_a_share_of_the_median_of_all_between_their_bounds(given_classes):
    every_t0, left_out = zip(*given_classes, strict=True)
    found = trained_thresholds(np.array(every_t0), [np.array(scores) for scores in left_out])
    pooled = sorted(score for scores in left_out for score in scores)
    for t0, threshold in zip(every_t0, found, strict=True):
        assert LEAST_SHARE * t0 <= threshold <= t0
        if not pooled:
            assert threshold == t0
        elif LEAST_SHARE * t0 < threshold < t0:
            middle = (pooled[(len(pooled) - 1) // 2] + pooled[len(pooled) // 2]) / 2
            assert threshold == pytest.approx(LEFT_OUT_SHARE * middle)


def test_classes_tell_their_threshold_together():
    """One class of odd notes beside two good ones stays strict, and one odd note among good ones changes nothing."""
    good, odd, t0 = np.full(5, 1.5), np.full(5, 0.05), np.full(3, 0.3)
    np.testing.assert_allclose(trained_thresholds(t0, [good, odd, good]), t0)
    np.testing.assert_allclose(trained_thresholds(t0, [odd, odd, good]), LEAST_SHARE * t0)
    np.testing.assert_allclose(trained_thresholds(t0[:1], [np.append(good, 0.0)]), t0[:1])


def test_a_class_of_one_note_follows_the_others():
    t0 = np.array([0.2, 0.3])
    np.testing.assert_allclose(trained_thresholds(t0, [np.empty(0), np.full(4, 0.3)]), LEFT_OUT_SHARE * 0.3)
    assert trained_thresholds(t0[:1], [np.empty(0)]) == t0[:1]


@given(st.lists(st.floats(0.0, 2.0), max_size=15), st.floats(0.1, 0.6))
def test_an_odd_note_is_far_below_all_others_which_are_alike(scores, t0):
    odd = odd_one(np.array(scores), t0)
    below = [i for i, score in enumerate(scores) if score < t0]
    alone = len(scores) >= ENOUGH_TO_JUDGE and len(below) == 1 and scores[below[0]] < ODD_SHARE * t0
    assert odd == (below[0] if alone else None)


# --------------------------------------------------------------- left-out scores

SMALL = NoteFrontEnd(n_bands=5, n_slices=3).fit([], 8000)
LENGTHS = [np.array([7.0, 11.3]), np.array([9.0])]


def random_notes(counts, n_recordings=3, seed=0):
    """Of classes "a" and "b", in noise."""
    rng = np.random.default_rng(seed)
    recordings = [rng.gamma(1.0, size=(150, 5)) for _ in range(n_recordings)]
    labels = rng.permutation([label for label, n in zip("ab", counts, strict=True) for _ in range(n)]).tolist()
    found = []
    for i, label in enumerate(labels):
        r = i % n_recordings
        found.append(AnnotatedNote(recordings[r], rng.uniform(0, 130), rng.uniform(6, 40), label, 7 + 2 * r))
    return found


def scores_by_hand(X, samples):
    """-log √d, d = 1 - kᵀ(K + 0.1 I)⁻¹k."""
    K = np.array([[np.exp(-((a - b) ** 2).sum()) for a in X] for b in X])
    inverse = np.linalg.inv(K + 0.1 * np.eye(len(X)))
    for x in samples:
        k = np.array([np.exp(-((a - x) ** 2).sum()) for a in X])
        yield max(-0.5 * np.log(1.0 - k @ inverse @ k), 0.0)


def best_near(X, note, lengths):
    n_starts = min(MAX_PLACES, int(2 * SEARCH_SHARE * note.length) + 1)
    step = max(1, int(2 * SEARCH_SHARE * note.length / n_starts))
    starts = [note.start + step * (k - n_starts // 2) for k in range(n_starts)]
    assert max(abs(start - note.start) for start in starts) <= SEARCH_SHARE * note.length + step
    samples = [SMALL.describe(note.spectra, start=s, n_starts=1, length=n)[0] for n in lengths for s in starts]
    return max(scores_by_hand(X, samples))


@pytest.mark.parametrize("pitch", [False, True])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("counts", [(3, 4), (12, 2)])
def test_left_out_scores_are_those_of_refitting_by_hand(counts, apart, pitch):
    notes = random_notes(counts)
    found = left_out_scores(SMALL, notes, LENGTHS, pitch=pitch, apart=apart)
    for label, lengths, scores in zip("ab", LENGTHS, found, strict=True):
        own = [note for note in notes if note.label == label]
        part = [n.origin if apart else i for i, n in enumerate(own)]
        for i, (note, score) in enumerate(zip(own, scores, strict=True)):
            others = [other for other, p in zip(own, part, strict=True) if p != part[i]]
            X, _, _ = note_samples(SMALL, others, masks=MASKS, pitch=pitch)
            assert score == pytest.approx(best_near(X, note, lengths), abs=1e-9)


def test_a_copy_in_another_recording_is_found_and_one_in_the_same_is_not():
    """What is left out together does not help: the same two notes score much, or nothing to speak of."""
    rng = np.random.default_rng(3)
    spectra = rng.gamma(1.0, size=(400, 5))
    spectra[200:250] = spectra[40:90]
    here, twin, stranger = (AnnotatedNote(spectra, float(at), 12.0, "a", 0) for at in (59, 219, 350))
    lengths = [np.array([12.0])]
    together = [here, twin, replace(stranger, origin=1)]
    (scores,) = left_out_scores(SMALL, together, lengths, pitch=False, apart=True)
    (elsewhere,) = left_out_scores(SMALL, [here, replace(twin, origin=1)], lengths, pitch=False, apart=True)
    assert elsewhere.min() > 1.0 > scores.max()


@pytest.mark.parametrize("apart", [False, True])
def test_what_has_no_other_note_or_recording_has_no_score(apart):
    notes = [replace(note, origin=4) for note in random_notes((1, 3))]
    of_one, of_three = left_out_scores(SMALL, notes, LENGTHS, pitch=False, apart=apart)
    assert len(of_one) == 0
    assert len(of_three) == (0 if apart else 3)


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(7)))
def test_scores_are_in_the_order_of_the_notes(order):
    notes = random_notes((3, 4))
    plain = left_out_scores(SMALL, notes, LENGTHS, pitch=False)
    shuffled = left_out_scores(SMALL, [notes[i] for i in order], LENGTHS, pitch=False)
    for label, before, after in zip("ab", plain, shuffled, strict=True):
        own = [i for i in range(7) if notes[i].label == label]
        now = [own.index(i) for i in order if notes[i].label == label]
        np.testing.assert_allclose(after, before[now], atol=1e-12)


# ------------------------------------------------------------------------- pitch


@pytest.fixture(scope="module")
def voice():
    """Six notes of each of two classes by one voice, each in a recording of its own, and the front end."""
    front_end = NoteFrontEnd().fit([], SAMPLE_RATE)
    made, rng = [], np.random.default_rng(0)
    for i, note in enumerate(notes(counts={"tuti-F": 6, "cach-D": 6})):
        audio = 3e-4 * rng.normal(size=2 * SAMPLE_RATE)
        audio[SAMPLE_RATE : SAMPLE_RATE + len(note.samples)] += note.samples
        length = len(note.samples) / front_end.hop_samples_
        made.append(
            AnnotatedNote(
                front_end.transform(audio).features, SAMPLE_RATE / front_end.hop_samples_, length, note.label, i
            )
        )
    return front_end, made


def matters(front_end, made):
    lengths, allowed = trial_lengths(front_end, made, np.unique([note.label for note in made]))
    return pitch_matters(front_end, made, [lengths[column] for column in allowed.T])


def test_pitch_does_not_matter_where_recordings_are_of_one_voice(voice):
    front_end, made = voice
    assert matters(front_end, made) is False


def test_pitch_matters_where_nothing_is_known(voice):
    front_end, made = voice
    assert matters(front_end, [replace(note, origin=0) for note in made]) is True
    of_each = [made[0], made[6]]  # a single note of each class
    assert matters(front_end, of_each) is True


def test_pitch_matters_where_recordings_differ_in_pitch(voice):
    front_end, made = voice
    halves = [replace(note, origin=i % 2, spectra=in_pitch(note.spectra, i % 2)) for i, note in enumerate(made)]
    assert matters(front_end, halves) is True


def test_a_class_from_one_recording_says_nothing_about_pitch(voice):
    """The other class does, and is enough."""
    front_end, made = voice
    mixed = [replace(note, origin=0) if note.label == "tuti-F" else note for note in made]
    assert matters(front_end, mixed) is False


def test_ratios_at_the_border(monkeypatch, voice):
    """Copies are taken in where the middle note gains more than a certain factor."""
    front_end, made = voice
    for gain, expected in ((1.14, False), (1.16, True)):
        plain = [np.array([0.1, 1.0, 2.0]), np.empty(0)]
        both = iter([plain, [scores * np.array([9.0, gain, 0.5])[: len(scores)] for scores in plain]])
        monkeypatch.setattr(absolute_scale, "left_out_scores", lambda *a, both=both, **k: next(both))
        assert matters(front_end, made) is expected


def test_six_notes_are_enough_to_call_one_odd():
    six = np.array([0.9, 0.8, 0.7, 0.1, 0.9, 0.8])
    assert odd_one(six, 0.3) == 3
    assert odd_one(six[1:], 0.3) is None
