"""What is in a file: a model, stored scores, a recording or an annotation file, recognised from its content."""

import hashlib
import math
import os
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from outlark.annotations import FORMATS, Table, read_annotations
from outlark.annotations.tables import SUFFIXES
from outlark.audio.facts import Quality
from outlark.audio.recording import Recording
from outlark.audio.sound_files import SoundFiles, is_sound
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import KIND as SCORES
from outlark.detection.scores_file import load_scores
from outlark.errors import AnnotationError, AudioError, InputError, OutlarkError
from outlark.files.container import read
from outlark.files.io import NOT_REGULAR, is_endless, size_of, starts_a_model
from outlark.plain_text import first_bytes
from outlark.storage.model_file import load


def content_of(
    path: str | os.PathLike[str], sounds: SoundFiles | None = None, *, label_column: str | int | None = None
) -> dict[str, Any]:
    """What is in a file, as JSON values; "kind" is "model", "scores", "recording" or "table".

    `sounds` finds the recordings of an annotation file, by default beside it.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give files: models, recordings or annotation files")
    if is_endless(path):
        raise InputError(f"{path} {NOT_REGULAR}")
    try:
        with path.open("rb") as file:
            head = file.read(9)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path and your permissions") from None
    if not head:
        raise InputError(f"{path} is empty (0 bytes); copy or record it again")
    if starts_a_model(head, path.stat().st_size) or path.suffix.lower() == ".outlark":
        return model_content(path)
    return _sound_or_table(path, sounds or SoundFiles(), label_column, head)


def _sound_or_table(path: Path, sounds: SoundFiles, label_column: str | int | None, head: bytes) -> dict[str, Any]:
    ways = [
        lambda: sound_content(path),
        lambda: table_content(read_annotations(path, label_column=label_column), sounds),
    ]
    # text in UTF-16 starts like some MP3 files
    by_name = path.name.lower().endswith(SUFFIXES)
    errors: list[OutlarkError] = []
    for way in reversed(ways) if by_name else ways:
        try:
            return way()
        except (AudioError, AnnotationError) as error:
            errors.append(error)
    if by_name or is_sound(path.name):
        raise errors[0]
    raise InputError(
        f"{path} is not a model, a recording or an annotation file: it begins with {first_bytes(head)}; check the "
        "path, or convert a recording to WAV or FLAC"
    )


def table_content(table: Table, sounds: SoundFiles) -> dict[str, Any]:
    """What is in an annotation file, and which of its recordings were found."""
    annotations = table.annotations
    counts = Counter(annotation.recording for annotation in annotations)
    return {
        "kind": "table",
        "path": str(table.path),
        "size_bytes": table.path.stat().st_size,
        "format": table.format,
        "what": FORMATS[table.format].what,
        "annotations": len(annotations),
        "labels": dict(sorted(Counter(m.label for m in annotations if m.label is not None).items())),
        "blank": sum(annotation.label is None for annotation in annotations),
        "verdicts": dict(sorted(Counter(m.verdict for m in annotations if m.verdict is not None).items())),
        "points": sum(annotation.start_s == annotation.end_s for annotation in annotations),
        "start_s": min((annotation.start_s for annotation in annotations), default=None),
        "end_s": max((annotation.end_s for annotation in annotations), default=None),
        "recordings": [
            {"name": name, "annotations": n, "path": _found(name, table.path, sounds)}
            for name, n in (counts or {None: 0}).items()
        ],
        "remarks": list(table.remarks),
        "refused": list(table.refused),
        "about": dict(table.about),
    }


def _found(name: str | None, table: Path, sounds: SoundFiles) -> str | None:
    try:
        return str(sounds.of_table(table) if name is None else sounds.named(name, table))
    except AnnotationError:
        return None


def model_content(path: str | PathLike[str]) -> dict[str, Any]:
    """What is in a model, or in stored scores."""
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
        "front_end": _part(header["front_end"], detector.front_end_.in_words()) | {"why": detector.choice_},
        "class_model": _part(header["describer"]),
        "decisions": _part(header["decisions"]),
        "lineage": detector.lineage_,
        "second_stage": None if stage is None else {"embedding": stage["embedding"], "threshold": stage["threshold"]},
    }


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


def sound_content(path: str | PathLike[str]) -> dict[str, Any]:
    """What is in a recording, which is decoded to its end.

    "duration_s" is what was decoded, "announced_s" what was expected before, and "partial" says what is missing or
    wrong with the header; "damaged" says why decoding failed. "peak_db", "rms_db" and "mean" have a number for each
    channel, None for minus infinity. "clipped" is the share of all samples at full scale, "silent" that of digital
    silence, and "cancelling" that of the time in which the mean of all channels is nearly silent; "quality" is what
    `outlark detect` remarks on them. "clock" is None if the start time is unknown.
    """
    audio = Recording(path)
    levels = _Levels(audio)
    # libsndfile gives an impossible number if it does not know the length
    announced = audio.n_samples / audio.sample_rate if 0 <= audio.n_samples < 2**62 else None
    return {
        "kind": "recording",
        "path": str(path),
        "size_bytes": size_of(audio.path),
        "format": audio.format,
        "subtype": audio.subtype,
        "what": audio.what,
        "sample_rate": audio.sample_rate,
        "channels": audio.channels,
        "samples": levels.n,
        "duration_s": levels.n / audio.sample_rate,
        "announced_s": announced,
        "partial": audio.partial,
        **levels.content(),
        "remarks": list(audio.remarks),
        "clock": _clock(audio),
    }


class _Levels:
    """Statistics of a file, which is decoded to its end, or as far as possible."""

    def __init__(self, audio: Recording) -> None:
        self._quality = Quality(audio)
        self.n = self._bad = 0
        self._peak, self._sum, self._squares = (np.zeros(audio.channels) for _ in range(3))
        self._damaged: str | None = None
        try:
            for x in audio.decoded():
                self._push(x)
        except AudioError as error:
            self._damaged = str(error).removeprefix(f"{audio.path}: ")

    def _push(self, x: np.ndarray) -> None:
        good = np.isfinite(x)
        self._bad += int((~good).sum())
        x = np.where(good, x, 0.0)
        self._quality.push(x)
        self._peak = np.maximum(self._peak, np.abs(x).max(axis=0))
        self._sum += x.sum(axis=0)
        self._squares += (x**2).sum(axis=0)
        self.n += len(x)

    def content(self) -> dict[str, Any]:
        n, shares = max(1, self.n), self._quality.shares
        return {
            "damaged": self._damaged,
            "not_finite": self._bad,
            "peak_db": [_decibels(peak) for peak in self._peak.tolist()],
            "rms_db": [_decibels(math.sqrt(squares / n)) for squares in self._squares.tolist()],
            "mean": [round(total / n, 6) for total in self._sum.tolist()],
            "clipped": shares["at_full_scale"],
            "silent": shares["silent"],
            "cancelling": shares["cancelling"],
            "quality": list(self._quality.remarks),
            "counts": bool(self.n) and not self._quality.is_spoilt,
        }


def _decibels(level: float) -> float | None:
    return round(20.0 * math.log10(level), 2) if level > 0.0 else None


def _clock(audio: Recording) -> dict[str, Any] | None:
    found = audio.clock
    if found is None:
        return None
    return {
        "began": found.began.isoformat(),
        "zone_told": found.began.tzinfo is not None,
        "source": found.source,
        "differences": list(found.differences),
        "expansion": found.expansion,
    }
