"""p-values of whole notes: ranks among the left-out notes, at most the promised share of known notes missed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.detection.detector import NoteDetector
from outlark.detection.model import LEAST_NOTES_FOR_P, note_p_values
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.model_file import load, save
from outlark.paper.detector import FrameDetector
from outlark.paper.front_end import HLDSFrontEnd
from outlark.segments import Segment

scores_of_notes = st.floats(-5, 5).map(lambda score: round(score, 1))  # rounded: with ties
left_out_notes = st.lists(scores_of_notes, min_size=LEAST_NOTES_FOR_P, max_size=40).map(lambda s: np.sort(np.array(s)))


@pytest.fixture(scope="module")
def detector():
    """Enough notes of one class, too few of the other."""
    known = notes(counts={"tuti-F": LEAST_NOTES_FOR_P, "cach-Z": LEAST_NOTES_FOR_P - 1})
    return NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


@pytest.fixture(scope="module")
def found(detector):
    """Both classes, an unknown one and silence."""
    played = notes(seed=1, counts={"tuti-F": 12, "cach-Z": 2, "cach-C": 1})
    audio, _ = concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(1))
    return detector.detect(audio, SAMPLE_RATE)


def labelled(label="tuti-F", score=3.0):
    return Segment(start=0, end=10, sample_rate=SAMPLE_RATE, label=label, score=score)


# ----------------------------------------------------------------------- ranks


@given(left_out_notes, st.lists(scores_of_notes, max_size=9))
def test_p_values_count_the_left_out_notes_that_score_no_higher(left_out, scores):
    naive = [(1 + sum(1 for other in left_out if other <= score)) / (len(left_out) + 1) for score in scores]
    np.testing.assert_array_equal(note_p_values(np.array(scores), left_out), naive)


@given(left_out_notes, st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_p_values_rise_with_the_score_between_their_bounds(left_out, scores):
    p = note_p_values(np.sort(scores), left_out)
    assert (np.diff(p) >= 0.0).all()
    assert p.min() >= 1 / (len(left_out) + 1)
    assert p.max() <= 1.0
    assert note_p_values(np.array([-np.inf, np.inf]), left_out).tolist() == [1 / (len(left_out) + 1), 1.0]


@pytest.mark.parametrize("digits", [9, 0])
@pytest.mark.parametrize("n_notes", [LEAST_NOTES_FOR_P, 37])
def test_at_most_the_promised_share_of_known_notes_is_missed(n_notes, digits, rng):
    """Exchangeable scores, with ties when rounded; without ties the share is also not much less."""
    # one level and one spread for each class: exchangeable, not independent
    drawn = rng.normal(size=(20000, 1)) + rng.exponential(size=(20000, 1)) * rng.normal(size=(20000, n_notes + 1))
    drawn = drawn.round(digits)
    p = np.array([note_p_values(row[:1], np.sort(row[1:]))[0] for row in drawn])
    for a in (0.05, 0.1, 0.25, 0.5, 0.9):
        missed, error = np.mean(p <= a), 4 * np.sqrt(a * (1 - a) / len(p))
        assert missed <= a + error
        if digits == 9:
            assert missed >= a - 1 / (n_notes + 1) - error


def test_few_notes_have_no_p_values():
    left_out = np.arange(float(LEAST_NOTES_FOR_P))
    assert np.isnan(note_p_values(np.ones(3), left_out[1:])).all()
    assert note_p_values(np.array([1.0, np.nan]), left_out)[0] == 3 / (LEAST_NOTES_FOR_P + 1)
    assert np.isnan(note_p_values(np.array([1.0, np.nan]), left_out)[1])


# -------------------------------------------------------------------- detector


def test_left_out_scores_are_kept_in_order_for_each_class(detector):
    left_out = detector.note_model_.left_out
    assert [len(scores) for scores in left_out] == [LEAST_NOTES_FOR_P - 1, LEAST_NOTES_FOR_P]
    assert all((np.diff(scores) >= 0.0).all() for scores in left_out)
    # the thresholds come from the same scores
    assert all(scores[0] > threshold for scores, threshold in zip(left_out, detector.layout_.thresholds, strict=True))


def test_found_notes_are_ranked_among_the_left_out_notes_of_their_label(detector, found):
    p = detector.p_values(iter(found))
    assert p.shape == (len(found),)
    assert {s.label for s in found} == {"tuti-F", "cach-Z", None}
    left_out = detector.note_model_.left_out[1].tolist()
    for segment, value in zip(found, p, strict=True):
        if segment.label == "tuti-F":
            assert value == (1 + sum(score <= segment.score for score in left_out)) / (LEAST_NOTES_FOR_P + 1)
        else:
            assert np.isnan(value)


def test_fresh_notes_are_as_typical_as_left_out_ones(detector, found):
    p = detector.p_values([s for s in found if s.label == "tuti-F"])
    assert len(p) == 12
    assert 0.25 < p.mean() < 0.75
    assert np.ptp(p) > 0.3


def test_what_has_no_p_value(detector):
    given = [labelled(), labelled(None), labelled("cach-Z"), labelled("cach-E"), labelled(score=0.0)]
    given += [labelled(score=np.nan), Segment.from_seconds(0.0, 0.1, "tuti-F", SAMPLE_RATE)]
    assert np.isnan(detector.p_values(given)).tolist() == [False, *[True] * 6]
    assert detector.p_values([]).shape == (0,)


def test_labels_that_are_numbers():
    known = notes(counts={"tuti-F": LEAST_NOTES_FOR_P, "cach-Z": 2})
    labels = [{"tuti-F": 7, "cach-Z": 3}[n.label] for n in known]
    numbered = NoteDetector().fit([n.samples for n in known], labels, SAMPLE_RATE)
    p = numbered.p_values([labelled(7), labelled(np.int64(7)), labelled(3), labelled("7")])
    assert np.isnan(p).tolist() == [False, False, True, True]


def test_p_values_outlive_the_file(detector, found, tmp_path):
    save(detector, tmp_path / "m")
    again = load(tmp_path / "m")
    for kept, scores in zip(again.note_model_.left_out, detector.note_model_.left_out, strict=True):
        np.testing.assert_array_equal(kept, scores)
    p = again.p_values(found)
    np.testing.assert_array_equal(p, detector.p_values(found))
    assert np.isfinite(p).sum() == 12


def test_models_without_left_out_scores_have_no_p_values(detector):
    model = replace(detector.note_model_, left_out=[])
    assert np.isnan(model.p_values([labelled(), labelled()])).tolist() == [True, True]


def test_frames_have_no_p_values():
    known = notes(counts={"tuti-F": 2, "cach-Z": 2})
    frames = FrameDetector(HLDSFrontEnd(), MDDKM(metric="euclidean", sigma_reg=0.1))
    frames.fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    assert np.isnan(frames.p_values([labelled(), labelled(None)])).tolist() == [True, True]
    with pytest.raises(InputError, match=r"give a list of Segment"):
        frames.p_values([3])


@pytest.mark.parametrize("segments", [labelled(), 3.0, [labelled(), None], [(0, 10, "tuti-F")], "tuti-F"])
def test_what_is_no_list_of_segments(detector, segments):
    with pytest.raises(InputError, match=r"give a list of Segment objects, as returned by detect\(\)"):
        detector.p_values(segments)


def test_a_detector_that_has_not_learnt():
    with pytest.raises(NotFittedError):
        NoteDetector().p_values([labelled()])


def test_twenty_notes_are_enough():
    left_out = np.arange(20.0)
    assert np.isnan(note_p_values(np.array([5.0]), left_out[:19]))
    assert note_p_values(np.array([5.0]), left_out) == pytest.approx(7 / 21)
