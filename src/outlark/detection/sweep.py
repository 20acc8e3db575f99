"""The notes that a detector finds at many thresholds, from scores computed once."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from outlark.detection.detector import NoteDetector
from outlark.detection.scorers import LOOKED_AT
from outlark.detection.scores import Scores
from outlark.errors import InputError
from outlark.segments import Segment

#: Factors of the thresholds: from where edges are refined to sixteen times that, fourteen per octave.
FACTORS = LOOKED_AT * 2.0 ** (np.arange(57) / 14)


def sweep_thresholds(detector: NoteDetector) -> np.ndarray:
    """Thresholds to try, all classes moving together, and those of the detector as they are; (K, C)."""
    if detector.note_model_ is None:
        raise InputError(
            "a model of frames has thresholds for frames, not for notes, so the scores of notes do not show what "
            "another threshold would find; detect with --threshold and evaluate that, or train without --paper"
        )
    now = detector.layout_.thresholds
    return np.vstack([FACTORS[:, np.newaxis] * np.minimum(now, detector.trained_thresholds), now])


def swept(
    detector: NoteDetector, recording: Any, thresholds: np.ndarray, sample_rate: int | None = None
) -> Iterator[list[Segment]]:
    """The notes that `detect` would find at each of many thresholds.

    Without an embedding they are decided each time, because an accepted note can take the place of another. With one,
    thresholds are those of joined scores, and candidates do not depend on them.

    Parameters
    ----------
    detector : NoteDetector, fitted
    recording : array, path, `AudioFile`, or `Scores` of this detector
    thresholds : ndarray (K, C)
    sample_rate : int
        Of an array.

    Yields
    ------
    list of Segment
        Those with a label, in order, for one row of the thresholds after the other.

    >>> from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
    >>> known = notes(counts={"tuti-F": 4})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, _ = concatenate(notes(seed=1, counts={"tuti-F": 2}), gap_s=0.2, rng=np.random.default_rng(0))
    >>> [len(found) for found in swept(detector, audio, np.array([[0.2], [9.0]]), SAMPLE_RATE)]
    [2, 0]
    """
    if detector.second_stage_ is not None:
        column = {label: c for c, label in enumerate(detector.classes_.tolist())}
        lowest = replace(detector.layout_, thresholds=thresholds.min(axis=0))
        found = _notes(detector.detect(recording, sample_rate, layout=lowest))
        for row in thresholds:
            yield [s for s in found if s.score >= row[column[s.label]]]
        return
    scores = recording if isinstance(recording, Scores) else detector.scores(recording, sample_rate)
    highest = scores.block.values.max(axis=0, initial=0.0)
    for row in thresholds:
        layout = replace(scores.layout, thresholds=row)
        yield _notes(detector.decide(replace(scores, layout=layout))) if (highest >= row).any() else []


def _notes(segments: list[Segment]) -> list[Segment]:
    return [s for s in segments if s.label is not None]
