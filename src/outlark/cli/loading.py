"""What verbs that use a model share: the model, with the decisions that were asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlark.batch.task import sha256_of
from outlark.cli.options import given_decisions
from outlark.cli.thresholds import set_on

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector


def detector_of(given: Mapping[str, Any]) -> "tuple[NoteDetector, str]":
    """The detector of the option `model` with those of `decisions` and `thresholds`, and the digest of its file."""
    from outlark.storage.detectors import state_of
    from outlark.storage.model_file import load

    detector = load(given["model"])
    detector.set_params(**{f"decisions__{name}": value for name, value in given_decisions(given).items()})
    set_on(detector, given["thresholds"])
    state_of(detector)  # what does not fit shows now and not in the midst of work
    return detector, sha256_of(given["model"])
