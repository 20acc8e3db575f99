"""Copies of training notes: how many, in which order, and each against a transcription."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlark.detection.note_training import LOUDEST, PITCH_STEPS, AnnotatedNote, in_pitch, note_samples
from outlark.features.note import NoteFrontEnd

N_BANDS = 6


def front_end_with(surroundings_s=0.02, shifts_s=(-0.004, 0.0, 0.004)):
    front_end = NoteFrontEnd(n_bands=N_BANDS, n_slices=4, surroundings_s=surroundings_s, shifts_s=shifts_s)
    return front_end.fit([], 8000)


def some_notes(seed=0, n=3):
    """In recordings of 120 frames, some reaching over their ends."""
    rng = np.random.default_rng(seed)
    return [
        AnnotatedNote(rng.gamma(1.0, size=(120, N_BANDS)), rng.uniform(0, 100), rng.uniform(4, 40), "ba"[i % 2], i)
        for i in range(n)
    ]


def moved_by_hand(spectra, step):
    found = np.zeros_like(spectra)
    for t in range(len(spectra)):
        for band in range(spectra.shape[1]):
            if 0 <= band + step < spectra.shape[1]:
                found[t, band + step] = spectra[t, band]
    return found


def samples_by_hand(front_end, note, masks, pitch):
    """From the whole recording: shifts, steps of pitch; then each mask and its steps of pitch."""

    def described(spectra, shift=0.0):
        return front_end.describe(spectra, start=note.start + shift, n_starts=1, length=note.length)[0]

    inside = note.spectra[int(note.start) : int(np.ceil(note.start + note.length))]
    loudest = np.quantile(inside, LOUDEST)
    found = [described(note.spectra, shift * front_end.frame_rate) for shift in front_end.shifts_s]
    for number, mask in enumerate([0.0, *masks]):
        masked = np.array([[max(level - mask * loudest, 0.0) for level in row] for row in note.spectra])
        if number:
            found.append(described(masked))
        if pitch:
            found += [described(moved_by_hand(masked, step)) for step in (-1, 1)]
    return found


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 99),
    surroundings_s=st.sampled_from([0.0, 0.02, 0.09]),
    shifts_s=st.sampled_from([(0.0,), (-0.004, 0.0, 0.004), (0.05, -0.0307)]),
    masks=st.sampled_from([(), (0.3,), (0.25, 0.5)]),
    pitch=st.booleans(),
)
def test_samples_are_those_of_a_transcription(seed, surroundings_s, shifts_s, masks, pitch):
    front_end, notes = front_end_with(surroundings_s, shifts_s), some_notes(seed)
    X, y, groups = note_samples(front_end, notes, masks=masks, pitch=pitch)
    expected = [sample for note in notes for sample in samples_by_hand(front_end, note, masks, pitch)]
    np.testing.assert_allclose(X, expected, atol=1e-9)
    n = len(shifts_s) + len(masks) + (2 * (1 + len(masks)) if pitch else 0)
    assert y.tolist() == [note.label for note in notes for _ in range(n)]
    assert groups.tolist() == [i for i in range(len(notes)) for _ in range(n)]


def test_without_copies_there_are_just_the_shifts():
    front_end, notes = front_end_with(), some_notes()
    plain, _, groups = note_samples(front_end, notes)
    assert np.bincount(groups).tolist() == [3, 3, 3]
    everything, _, _ = note_samples(front_end, notes, masks=(0.25, 0.5), pitch=True)
    np.testing.assert_array_equal(plain, everything.reshape(3, 11, -1)[:, :3].reshape(9, -1))


def test_a_mask_of_a_half_covers_what_is_less_than_half_as_loud():
    front_end = front_end_with(0.0, (0.0,))
    spectra = np.zeros((50, N_BANDS))
    spectra[10:30, 2], spectra[10:30, 4] = 10.0, 4.0
    alone = np.where(np.arange(N_BANDS) == 2, spectra, 0.0)
    both, one = (
        note_samples(front_end, [AnnotatedNote(s, 10.0, 20.0, "a")], masks=(0.5,))[0] for s in (spectra, alone)
    )
    assert not np.allclose(both[0], one[0])
    np.testing.assert_allclose(both[1], one[1], atol=1e-12)


def test_the_loudest_part_is_that_of_the_note_and_not_of_what_surrounds_it():
    front_end, (note,) = front_end_with(), some_notes(n=1)
    spectra = note.spectra.copy()
    first, last = int(note.start), int(np.ceil(note.start + note.length))
    around = np.r_[max(0, first - 40) : max(0, first - 20), last + 15 : min(120, last + 30)]
    spectra[around] += 1000.0
    louder = AnnotatedNote(spectra, note.start, note.length, note.label)
    np.testing.assert_allclose(
        note_samples(front_end, [louder], masks=(0.5,))[0], note_samples(front_end, [note], masks=(0.5,))[0], atol=1e-9
    )


@pytest.mark.parametrize("start", [-30.0, 119.0, 400.0])
def test_a_note_outside_its_recording_is_silence(start):
    note = AnnotatedNote(np.ones((100, N_BANDS)), start, 5.0, "a")
    X, _, _ = note_samples(front_end_with(0.0, (0.0,)), [note], masks=(0.5,), pitch=True)
    assert X.shape == (6, 4 * N_BANDS)
    assert not X.any()


@given(st.integers(-9, 9), st.integers(1, 7))
def test_steps_of_pitch_move_bands_and_never_wrap(step, n_bands):
    spectra = np.random.default_rng(n_bands).uniform(1.0, 2.0, size=(3, n_bands))
    kept = spectra.copy()
    np.testing.assert_array_equal(in_pitch(spectra, step), moved_by_hand(spectra, step))
    np.testing.assert_array_equal(spectra, kept)


def test_steps_of_pitch_are_up_and_down():
    assert PITCH_STEPS == (-1, 1)
