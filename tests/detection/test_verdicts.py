"""Limits in frames, and the verdict and reason of a span."""

from dataclasses import replace

import numpy as np
import pytest

from outlark.detection.decisions import Decisions, Limits, Verdicts, rival_scores
from outlark.detection.scores import Batch, ScoreBlock, ScoreLayout, Scores
from outlark.paper.decisions import FrameVerdicts, Rules

LAYOUT = ScoreLayout(
    classes=np.array(["A", "B", "C"]),
    thresholds=np.array([1.0, 2.0, 3.0]),
    sample_rate=1000,
    hop_samples=10,
    offset_samples=4,
    shortest_s=np.array([0.4, 0.8, 1.6]),
    longest_s=np.array([1.0, 1.0, 2.0]),
)


def limits(**settings) -> Limits:
    return Decisions(**settings).limits(LAYOUT)


def verdicts(**settings) -> Verdicts:
    return Verdicts(LAYOUT, limits(**settings))


def note(scores, made=None, label=0):
    """A note of five frames with these scores; other classes have theirs for the same span."""
    block = ScoreBlock(np.full((10, 3), -np.inf), np.zeros(10), np.full((10, 3), 5))
    block.values[3] = scores
    batch = Batch(0, block, np.array([[0, 10]]))
    return (made or verdicts()).note(3, 8, label, batch, np.array([3, 8]))


# --------------------------------------------------------------------------- limits


def test_the_automatic_limits_are_shares_of_the_shortest_training_note():
    found = limits()  # 100 frames for each second, and notes of 0.4 s
    assert (found.bridge, found.unknown, found.most, found.least) == (5, 20, 6000, 0)
    assert Rules().limits(LAYOUT).least == 20


def test_without_silence_nothing_unknown_is_too_short():
    assert (limits().edges, limits(unknown_s=0.1).edges) == (True, False)
    found = limits(activity_db=None, unknown_s=0.5)
    assert (found.unknown, found.edges) == (0, False)


def test_a_shortest_note_is_rounded_up_to_frames():
    assert [limits(least_s=s).least for s in (0.1, 0.101, 0.11)] == [10, 11, 11]


def test_a_region_holds_the_shortest_and_the_longest_note():
    assert limits(least_s=100.0).most == 10_000
    long = replace(LAYOUT, longest_s=np.array([1.0, 200.0, np.inf]))
    assert (Decisions().limits(long).most, Rules().limits(long).most) == (30_001, 30_001)


# ----------------------------------------------------------------------------- notes


def test_a_note_that_one_class_accepts_is_known():
    found = note([1.5, 1.0, -np.inf])
    assert (found.verdict, found.label, found.start, found.end) == ("known", "A", 34, 84)
    assert (found.score, found.runner_up, found.runner_up_score) == (1.5, "B", 1.0)
    assert found.reason == "A 1.50 ≥ 1.00; next B 1.00"


def test_of_the_classes_that_accept_a_note_the_best_has_it():
    """Whatever the decoder chose; and a class beside it that does not accept it is not the runner-up."""
    found = note([1.5, 2.5, 2.9])
    assert (found.verdict, found.label, found.runner_up) == ("ambiguous", "B", "A")
    assert found.reason == "between B (2.50 ≥ 2.00) and A (1.50 ≥ 1.00)"
    at_the_threshold = note([1.0, 2.0, 0.0])
    assert (at_the_threshold.verdict, at_the_threshold.label) == ("ambiguous", "B")


def test_a_second_stage_can_turn_a_candidate_down():
    layout = replace(LAYOUT, thresholds=np.array([1.0, 1.0, 1.0]), candidate_thresholds=LAYOUT.thresholds)
    seen = []

    def rescore(scores, start, end):
        seen.append((start, end))
        return np.array([0.9, 0.5, -np.inf])

    found = note([5.0, 5.0, -np.inf], Verdicts(layout, limits(), rescore))
    assert seen == [(34, 84)]
    assert (found.verdict, found.label, found.score) == ("unknown", None, 0.9)
    assert found.reason == "joined score 0.90 (A) < 1.00"


def test_frames_are_confirmed_by_the_mean_over_the_note():
    layout = replace(LAYOUT, level="frame", mean_thresholds=np.array([1.4, 9.0, 9.0]))
    values = np.repeat([[1.3, 0.0, 0.0]], 20, axis=0)
    scores = Scores(layout=layout, block=ScoreBlock(values, np.full(20, 9.0)), n_samples=204)
    (strict,) = Rules().decide(scores)
    assert (strict.verdict, strict.reason) == ("unknown", "mean score 1.30 (A) < 1.40 of whole notes")
    (lenient,) = Rules(confirm=False).decide(scores)
    assert lenient.verdict == "known"


# ------------------------------------------------------------------------ between notes


def interval(below, *, peaks=(0, 0, 0), lasting=(0, 0, 0), active=True, activity=9.0, **settings):
    means, highest = np.array([0.1, 0.1, 0.1, activity]), np.array([*below, *peaks, *lasting, 1.0, 12.0], dtype=float)
    return verdicts(**settings).interval(3, 8, active, means, highest)


def test_sound_that_no_class_accepts_is_unknown():
    found = interval([0.5, 1.9, 0.3])
    assert (found.verdict, found.score, found.runner_up) == ("unknown", 1.9, "A")
    assert found.reason == "best score 1.90 (B) < 2.00"


def test_why_what_reached_its_threshold_is_not_a_note():
    beside = interval([0.4, 0, 0], peaks=[1.5, 0, 0], lasting=[30, 0, 0])
    assert (beside.score, beside.reason.partition("; ")) == (
        0.4,
        ("best score 0.40 (A) < 1.00", "; ", "A reached 1.50 ≥ 1.00, but such a note would overlap a better one"),
    )
    short = interval([0.4, 0, 0], peaks=[1.5, 0, 0], lasting=[9, 0, 0], least_s=0.1)
    assert short.reason.endswith("; A reached 1.50 ≥ 1.00, but such a note lasts 90 ms, less than 100 ms")


def test_frames_that_reach_their_threshold_for_too_short_do_not_raise_the_score():
    means, highest = np.array([1.2, 0.1, 0.1, 9.0]), np.array([0.7, 0, 0, 1.5, 0, 0, 3, 0, 0, 1.0, 12.0])
    found = FrameVerdicts(LAYOUT, limits()).interval(3, 8, True, means, highest)
    assert (found.verdict, found.score) == ("unknown", 0.7)


def test_why_it_is_silent():
    assert interval([0] * 3, active=False, activity=2.0).reason == "activity 2.0 dB, less than 6 dB"
    brief = interval([0] * 3, active=False, activity=9.0)
    assert brief.verdict == "silence"
    assert brief.reason == "never active for 200 ms or longer, but for remainders of notes"


# ------------------------------------------------------------------------------- scores


def test_rivals_cover_more_than_half_of_the_longer_of_the_two():
    """Against a naive transcription."""
    rng = np.random.default_rng(0)
    block = ScoreBlock(rng.uniform(size=(40, 3)), np.zeros(40), lengths=rng.integers(1, 15, size=(40, 3)))
    found = rival_scores(block, 12, 20, 1, (5, 36))
    for c in (0, 2):
        fitting = [-np.inf]
        for at in range(5, 36):
            length = int(block.lengths[at, c])
            shared = min(at + length, 20) - max(at, 12)
            if shared > max(length, 8) / 2:
                fitting.append(block.values[at, c])
        assert found[c] == max(fitting)
    assert found[1] == block.values[12, 1]


@pytest.mark.parametrize(("start", "counts"), [(15, True), (16, False)])
def test_exactly_half_is_not_enough_for_a_rival(start, counts):
    block = ScoreBlock(np.zeros((30, 2)), np.zeros(30), lengths=np.ones((30, 2), dtype=int))
    block.values[12, 0], block.lengths[12, 0] = 1.0, 8
    block.values[start, 1], block.lengths[start, 1] = 0.7, 8
    assert (rival_scores(block, 12, 20, 0, (0, 30))[1] == 0.7) == counts
