"""Real song, where the recordings are at hand: few examples, automatic thresholds, other recordings."""

import numpy as np
import pytest
from real_note_tasks import data_folder, draw
from real_notes import measure
from rival_detectors import TemplateMatching

from outlark import FrameDetector, NoteDetector
from outlark.commands.train.examples import find_examples
from outlark.commands.train.learning import learn
from outlark.detection.decisions import SHORTEST_NOTE_SHARE, Decisions


def measured(task, detector, seed=0, n_examples=5):
    try:
        data_folder()
    except SystemExit as error:
        pytest.skip(str(error))
    drawn = draw(task, seed, n_examples)
    fitted = drawn.fit(detector)
    return measure(drawn, [fitted.detect(r.samples, r.rate) for r in drawn.test], 0.0)


def test_zebra_finch_syllables_are_found():
    ours = measured("zebra-finch-syllables", NoteDetector())
    # template matching with a threshold chosen by hand has about .94 / .97 / .96 over many draws
    assert ours.window_f > 0.92
    assert ours.note_f > 0.95
    assert ours.event_f > 0.95
    assert ours.onset_ms < 5


def test_two_examples_are_enough_for_most():
    ours = measured("zebra-finch-syllables", NoteDetector(), n_examples=2)
    assert ours.note_f > 0.85


def test_the_literal_system_fails_on_a_real_recording():
    # It has no notion of background: this is why it is not the default.
    literal = measured("zebra-finch-syllables", FrameDetector.paper())
    assert literal.window_f < 0.5


@pytest.mark.parametrize("task", ["field-recordings-small", "spoken-digits"])
def test_whole_notes_hold_against_template_matching(task):
    ours, theirs = measured(task, NoteDetector()), measured(task, TemplateMatching())
    assert np.mean(ours[:3]) > np.mean(theirs[:3]) - 0.1


def test_remainders_beside_notes_are_not_reported_as_unknown():
    """A canary trill: notes of 40 ms whose decay goes on for some milliseconds, among classes of notes of 6 ms."""
    try:
        folder = data_folder("canary-syllables")
    except SystemExit as error:
        pytest.skip(str(error))
    examples = find_examples([folder]).at_most(5)
    detector = learn(examples).detector
    scores = detector.scores(folder / "llb3_0310_2018_04_24_12_45_00.flac")
    shown = detector.decide(scores)
    shortest_s = SHORTEST_NOTE_SHARE * detector.layout_.shortest_s.min()
    everything = detector.set_params(decisions=Decisions(unknown_s=shortest_s))
    before, after = (
        [s for s in segments if s.verdict == "unknown" and s.duration_s <= 0.02]
        for segments in (everything.decide(scores), shown)
    )
    assert len(before) > 60
    assert len(after) < 25
    notes = [s for s in shown if s.label is not None]
    assert notes == [s for s in everything.decide(scores) if s.label is not None]
