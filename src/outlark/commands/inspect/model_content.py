"""What is in a model file, and in a file of scores."""

import hashlib
import math
from os import PathLike
from pathlib import Path
from typing import Any

from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import KIND as SCORES
from outlark.detection.scores_file import load_scores
from outlark.features.array import ArrayFrontEnd
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.files.container import read
from outlark.storage.model_file import load


def model_content(path: str | PathLike[str]) -> dict[str, Any]:
    """What is in a file that outlark saved: a model, or scores of a recording.

    Returns
    -------
    dict
        JSON values; "kind" is "model" or "scores".

    Raises
    ------
    ModelFileError
        For anything but a whole, undamaged file; the message begins with the path.
    """
    header, _ = read(path)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    whole = {
        "path": str(path),
        "size_bytes": Path(path).stat().st_size,
        "sha256": digest,
        "versions": header.get("versions", {}),
    }
    if header.get("kind") == SCORES:
        return {"kind": "scores", **whole, **_scores(path)}
    detector = load(path)
    stage = header.get("second_stage")
    return {
        "kind": "model",
        **whole,
        "sample_rate": int(detector.sample_rate_),
        "classes": _classes(detector),
        "front_end": _part(header["front_end"], in_words(detector.front_end_)) | {"why": detector.choice_},
        "describer": _part(header["describer"]),
        "decisions": _part(header["decisions"]),
        "lineage": detector.lineage_,
        "second_stage": None if stage is None else {"embedding": stage["embedding"], "threshold": stage["threshold"]},
    }


def in_words(front_end: FrontEnd) -> str:
    """What a front end listens to.

    >>> in_words(NoteFrontEnd())
    'whole notes, 12 slices of each and 20 ms around it; spectra of 40 bands from 500 to 10000 Hz, of 16 ms every 2 ms'
    >>> in_words(NoteFrontEnd(surroundings_s=0.0))
    'whole notes, 12 slices of each; spectra of 40 bands from 500 to 10000 Hz, of 16 ms every 2 ms'
    """
    match front_end:
        case NoteFrontEnd():
            around_ms = 1e3 * front_end.surroundings_s
            around = f" and {around_ms:.3g} ms around it" if around_ms else ""
            return f"whole notes, {front_end.n_slices} slices of each{around}; {_spectra(front_end)}"
        case HLDSFrontEnd():
            span = f"{1e3 * front_end.window_s:.3g} ms every {1e3 * front_end.hop_s:.3g} ms"
            return f"frames of {span}: level, slope and curvature of each band, as in the paper"
        case ArrayFrontEnd():
            return "a series of numbers that is no sound"
    return type(front_end).__name__


def _spectra(front_end: NoteFrontEnd) -> str:
    band = f"from {front_end.low_hz:g} to {front_end.high_hz:g} Hz"
    span = f"{1e3 * front_end.window_s:g} ms every {1e3 * front_end.hop_s:g} ms"
    return f"spectra of {front_end.n_bands} bands {band}, of {span}"


def _part(state: dict[str, Any], words: str | None = None) -> dict[str, Any]:
    named = {"name": state["kind"], "settings": state.get("parameters", {})}
    return named if words is None else {**named, "words": words}


def _classes(detector: NoteDetector) -> list[dict[str, Any]]:
    layout, trained, found = detector.layout_, detector.trained_thresholds, []
    for c, label in enumerate(detector.classes_.tolist()):
        notes, negatives = (
            [{key: value for key, value in note.items() if key != "label"} for note in own if note["label"] == label]
            for own in (detector.training_, detector.negatives_)
        )
        found.append(
            {
                "label": label,
                "threshold": _finite(layout.thresholds[c]),
                "threshold_from": detector.threshold_sources_[c],
                "trained_threshold": _finite(trained[c]),
                "shortest_s": float(layout.shortest_s[c]),
                "longest_s": float(layout.longest_s[c]),
                "examples": notes,
                "negatives": negatives,
            }
        )
    return found


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _scores(path: str | PathLike[str]) -> dict[str, Any]:
    kept = load_scores(path)
    return {
        "recording": kept.recording,
        "channel": kept.channel,
        "sample_rate": kept.sample_rate,
        "duration_s": kept.n_samples / kept.sample_rate,
        "model_sha256": kept.model_sha256,
        "classes": kept.scores.layout.classes.tolist(),
    }
