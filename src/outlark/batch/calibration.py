"""A run listens to a sample of its recordings first, and fits the thresholds to them.

The sample depends on the names and lengths of the recordings alone. The journal keeps what it gave, so that a run that
is resumed, or that finds more recordings, searches all of them with the same thresholds.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from outlark.audio.recording import Recording
from outlark.batch.engine import opened
from outlark.batch.journal import JOURNAL, entries_in
from outlark.batch.task import SCORES_SUFFIX, Source, Sources, Task
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import load_scores
from outlark.detection.thresholds import ClassCalibration
from outlark.errors import OutlarkError, Problem
from outlark.model_file import scoring_sha256
from outlark.plain_text import ProgressCallback

#: Seconds of sound in a sample, and how much of a recording is heard at least if there are many.
SAMPLE_S, LEAST_EXCERPT_S = 1200.0, 60.0
#: Multiples of the golden ratio, less their whole parts, are spread evenly.
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Calibrated:
    """What recordings say about the thresholds: `n_heard` of them, `seconds` in all, were in the sample."""

    classes: tuple[ClassCalibration, ...]
    n_heard: int
    seconds: float

    @property
    def thresholds(self) -> tuple[float | None, ...]:
        """Of each class; None where there were too few sounds to tell."""
        return tuple(of_class.threshold if of_class.moved else None for of_class in self.classes)


def spread(n: int) -> list[int]:
    """The numbers below n in an order in which the first ones lie evenly among all.

    >>> spread(10)
    [0, 5, 2, 7, 4, 9, 1, 6, 3, 8]
    """
    return sorted(range(n), key=lambda i: i * GOLDEN % 1.0)


class Excerpt(Recording):
    """The middle of a recording, of about `seconds`; its start, if it can only be read from there.

    `heard_s` is how long it is.
    """

    def __init__(self, recording: Recording, seconds: float) -> None:
        vars(self).update(vars(recording))
        self._n = min(self.n_samples, round(seconds * self.sample_rate))
        self.heard_s = self._n / self.sample_rate

    def blocks(self, n_samples: int, *, first: int = 0, heard: Any = None) -> Iterator[np.ndarray]:
        first = (self.n_samples - self._n) // 2 if self.seekable else 0
        return islice(super().blocks(n_samples, first=first, heard=heard), -(-self._n // n_samples))


def peaks_of_all(
    detector: NoteDetector, model_sha256: str, sources: Sources, channel: int | None, watch: ProgressCallback
) -> tuple[list[list[np.ndarray]], list[Problem]]:
    """The peaks of all recordings, or stored scores, that can be read; and what is wrong with the others."""
    digests = model_sha256, scoring_sha256(detector)

    def heard(source: Source) -> Any:
        if str(source.path).endswith(SCORES_SUFFIX):
            return load_scores(source.path, *digests).scores
        return opened(source.path, channel)

    found, failures = [], [*sources.failures]
    for number, source in enumerate(sources.files, start=1):
        try:
            found.append(detector.peaks(heard(source)))
        except OutlarkError as error:
            failures.append(Problem(source.name, str(error)))
        watch(number, len(sources.files))
    return found, failures


def calibrated_on_sample(
    detector: NoteDetector, sources: Sources, channel: int | None, watch: ProgressCallback
) -> Calibrated:
    """Calibrate on a sample of recordings; those that cannot be read are left to the run, which reports them."""
    excerpts, found = _sample(sources.files, channel), []
    for number, excerpt in enumerate(excerpts, start=1):
        with suppress(OutlarkError):
            found.append(detector.peaks(excerpt))
        watch(number, len(excerpts))
    detector.calibrate_peaks(found)
    return Calibrated(tuple(detector.calibration_), len(excerpts), sum(excerpt.heard_s for excerpt in excerpts))


def _sample(files: Sequence[Source], channel: int | None) -> list[Excerpt]:
    """Evenly spread recordings, or the middle of each, until there is enough sound; in the order of the list."""
    most_s = max(LEAST_EXCERPT_S, SAMPLE_S / len(files))
    chosen: dict[int, Excerpt] = {}
    left_s = SAMPLE_S
    for i in spread(len(files)):
        if left_s <= 0.0:
            break
        with suppress(OutlarkError):
            chosen[i] = Excerpt(opened(files[i].path, channel), most_s)
            left_s -= chosen[i].heard_s
    return [chosen[i] for i in sorted(chosen)]


def of_former_results(task: Task) -> Mapping[str, Any] | None:
    """What the results in the output folder depend on, if they are from the same model and channel; else None."""
    journal = Path(task.output, JOURNAL)
    found = (entry.get("identity") for entry in entries_in(journal)) if journal.is_file() else ()
    whose = {name: task.identity[name] for name in ("model_sha256", "channel", "version")}
    return next((one for one in found if one and {name: one.get(name) for name in whose} == whose), None)
