"""Template matching: correlations against plain loops, planted notes found, and the interface of a detector."""

import numpy as np
import pytest

from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
from outlark.errors import InputError
from outlark.paper.experiment.rivals import TemplateMatching, correlations

KNOWN = {"tuti-F": 3, "cach-D": 3}


def planted(seed=1):
    """A recording with one note of each known class and an unknown one."""
    some = notes(seed=seed, counts={"tuti-F": 1, "cach-D": 1, "cach-Z": 1})
    return concatenate(some, gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(seed))


def trained(counts=KNOWN, threshold=None):
    known = notes(counts=counts)
    return TemplateMatching(threshold).fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)


def finds_all(model, audio, truth):
    found = model.detect(audio, SAMPLE_RATE)
    return all(
        any(s.label == note.label and abs(s.start_s - note.start_s) < 0.03 for s in found)
        for note in truth
        if note.label in KNOWN
    )


def test_correlations_are_those_of_numpy(rng):
    spectra, template = rng.random((40, 5)), rng.random((7, 5))
    expected = [np.corrcoef(spectra[t : t + 7].ravel(), template.ravel())[0, 1] for t in range(34)]
    np.testing.assert_allclose(correlations(spectra, template), expected, atol=1e-9)


def test_nothing_correlates_with_what_is_flat_or_too_short(rng):
    template = rng.random((7, 5))
    assert correlations(rng.random((6, 5)), template).shape == (0,)
    assert not correlations(np.ones((20, 5)), template).any()


@pytest.mark.parametrize("threshold", [None, 0.6])
@pytest.mark.parametrize("as_clips", [True, False])
def test_planted_notes_are_found(threshold, as_clips):
    model = trained(threshold=threshold)
    if not as_clips:
        audio, annotations = concatenate(notes(counts=KNOWN), gap_s=0.3, edge_s=0.5, rng=np.random.default_rng(0))
        model.fit_recordings([audio], [annotations], SAMPLE_RATE)
    assert finds_all(model, *planted())


def test_a_given_threshold_is_used():
    assert trained(threshold=0.6).layout_.thresholds.tolist() == [0.6, 0.6]
    assert trained(threshold=0.999).layout_.thresholds.tolist() == [0.999, 0.999]
    audio, _ = planted()
    assert not [s for s in trained(threshold=0.999).detect(audio, SAMPLE_RATE) if s.verdict == "known"]


def test_one_note_of_each_class_will_do():
    model = trained({"tuti-F": 1, "cach-D": 1})
    assert (model.layout_.thresholds > 0.3).all()
    assert (model.layout_.thresholds < 0.95).all()


def test_no_notes_are_refused():
    with pytest.raises(InputError, match="no notes are annotated"):
        TemplateMatching().fit_recordings([np.zeros(SAMPLE_RATE)], [[]], SAMPLE_RATE)
