"""Real song, where the recordings are at hand: few examples, automatic thresholds, other recordings."""

import numpy as np
import pytest
from real_note_tasks import data_folder, draw
from real_notes import measure

from outlark import NoteDetector
from outlark.experiment.template_matching import TemplateMatching


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
    literal = measured("zebra-finch-syllables", NoteDetector.paper())
    assert literal.window_f < 0.5


@pytest.mark.parametrize("task", ["field-recordings-small", "spoken-digits"])
def test_whole_notes_hold_against_template_matching(task):
    ours, theirs = measured(task, NoteDetector()), measured(task, TemplateMatching())
    assert np.mean(ours[:3]) > np.mean(theirs[:3]) - 0.1
