"""What is in a file: a model, stored scores, a recording or an annotation file, recognised from its content."""

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from outlark.annotations import FORMATS, Table, read_annotations
from outlark.annotations.formats import TABLE_SUFFIXES
from outlark.audio.facts import Quality
from outlark.audio.recording import Recording
from outlark.audio.sound_files import SoundFiles, is_sound
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import SCORES_KIND as SCORES
from outlark.detection.scores_file import load_scores
from outlark.detection.thresholds import FROM_EXAMPLES, THRESHOLD_SOURCES
from outlark.errors import AnnotationError, AudioError, InputError, OutlarkError
from outlark.files.container import read
from outlark.files.io import NOT_REGULAR, is_endless, size_of, starts_a_model
from outlark.model_file import load, settings_of
from outlark.plain_text import Alert, Line, first_bytes, listed, number_of, on_refused


@dataclass(frozen=True)
class Inspection:
    """What is in several files, and why others could not be read."""

    files: list[dict[str, Any]]
    failures: list[dict[str, str]]

    @property
    def incomplete(self) -> bool:
        return bool(self.failures) or any(content.get("refused") for content in self.files)

    def as_json(self) -> dict[str, Any]:
        return {"files": self.files, "failed": len(self.failures), "failures": self.failures}

    def lines(self) -> Iterator[Line]:
        for number, content in enumerate(self.files):
            if number:
                yield ""
            kind = {"table": "annotation file"}.get(content["kind"], content["kind"])
            yield f"{content['path']}: {kind}, {number_of(content['size_bytes'], 'byte')}"
            yield from (f"  {name:<11} {text}" for name, text in _LINES[content["kind"]](content))
            yield from on_refused(content.get("refused", []))
        yield from (Alert(failure["message"]) for failure in self.failures)


def inspect(paths: Sequence[str], sounds: SoundFiles, *, label_column: str | int | None = None) -> Inspection:
    """What is in each file; a single file that cannot be read is an error."""
    found, failures = [], []
    for path in paths:
        try:
            found.append(content_of(path, sounds, label_column=label_column))
        except OutlarkError as error:
            if len(paths) == 1:
                raise
            failures.append({"path": path, "message": str(error)})
    return Inspection(found, failures)


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
    by_name = path.name.lower().endswith(TABLE_SUFFIXES)
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
    stage = detector.model_.second_stage
    return {
        "kind": "model",
        **whole,
        "sample_rate": int(detector.sample_rate_),
        "classes": _classes(detector),
        "front_end": {
            **_named(detector.front_end_),
            "words": detector.front_end_.in_words(),
            "why": list(detector.model_.choice),
        },
        "class_model": _named(detector.class_model_),
        "decisions": _named(detector.decisions_),
        "lineage": detector.model_.lineage,
        "second_stage": None if stage is None else {"embedding": stage.identity, "threshold": stage.threshold},
    }


def _named(estimator: BaseEstimator) -> dict[str, Any]:
    return {"name": type(estimator).__name__, "settings": settings_of(estimator)}


def _classes(detector: NoteDetector) -> list[dict[str, Any]]:
    layout, trained, found = detector.layout_, detector.trained_thresholds, []
    for c, label in enumerate(detector.classes_.tolist()):
        notes, negatives = (
            [{key: value for key, value in note.items() if key != "label"} for note in own if note["label"] == label]
            for own in (detector.model_.training, detector.model_.negatives)
        )
        found.append(
            {
                "label": label,
                "threshold": _finite(layout.thresholds[c]),
                "threshold_from": detector.model_.threshold_sources[c],
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
    levels = _levels_of(audio)
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
        "announced_s": announced,
        "partial": audio.partial,
        **levels,
        "remarks": list(audio.remarks),
        "clock": _clock(audio),
    }


def _levels_of(audio: Recording) -> dict[str, Any]:
    """Statistics of a file, which is decoded to its end, or as far as possible."""
    quality, damaged, n, not_finite = Quality(audio), None, 0, 0
    peak, total, squares = (np.zeros(audio.channels) for _ in range(3))
    try:
        for x in audio.decoded():
            good = np.isfinite(x)
            not_finite += int((~good).sum())
            x = np.where(good, x, 0.0)
            quality.push(x)
            peak = np.maximum(peak, np.abs(x).max(axis=0))
            total += x.sum(axis=0)
            squares += (x**2).sum(axis=0)
            n += len(x)
    except AudioError as error:
        damaged = str(error).removeprefix(f"{audio.path}: ")
    shares = quality.shares
    return {
        "samples": n,
        "duration_s": n / audio.sample_rate,
        "damaged": damaged,
        "not_finite": not_finite,
        "peak_db": [_decibels(of_channel) for of_channel in peak.tolist()],
        "rms_db": [_decibels(math.sqrt(of_channel / max(1, n))) for of_channel in squares.tolist()],
        "mean": [round(of_channel / max(1, n), 6) for of_channel in total.tolist()],
        "clipped": shares["at_full_scale"],
        "silent": shares["silent"],
        "cancelling": shares["cancelling"],
        "quality": list(quality.remarks),
        "counts": bool(n) and not quality.is_spoilt,
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


# ---------------------------------------------------------------------- for people: names and texts


def _model_lines(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "sha256", content["sha256"]
    yield "made with", _versions(content)
    yield from _column("made from", [_ancestor(ancestor) for ancestor in reversed(content["lineage"])])
    yield "sample rate", f"{content['sample_rate']} Hz; other rates are resampled"
    yield "features", content["front_end"]["words"]
    yield from (("", sentence) for sentence in content["front_end"]["why"])
    for kind in content["classes"]:
        lengths = f"{kind['shortest_s']:.3f} to {kind['longest_s']:.3f} s"
        examples = number_of(len(kind["examples"]), "example")
        yield "class", f"{kind['label']}: {examples}, {lengths}, threshold {_threshold(kind)}"
        yield from (("", f"  {line}") for line in listed([_example(note) for note in kind["examples"]]))
        if kind["negatives"]:
            yield "", f"  {number_of(len(kind['negatives']), 'negative')} (not {kind['label']}):"
            negatives = [f"{_example(note)}, score {note['score']:.3f}" for note in kind["negatives"]]
            yield from (("", f"    {line}") for line in listed(negatives))
    stage = content["second_stage"]
    if stage is not None:
        embedding = stage["embedding"]
        yield "embedding", f"{embedding['version']} ({embedding['name']}), from a score of {stage['threshold']:g} on"
    for part in ("front_end", "class_model", "decisions"):
        settings = ", ".join(f"{name} {_plain(value)}" for name, value in content[part]["settings"].items())
        yield part.replace("_", " "), f"{content[part]['name']}: {settings}"


def _threshold(kind: Mapping[str, Any]) -> str:
    """The threshold of a class and its source."""
    numbers = (kind["threshold"], kind["trained_threshold"])
    now, trained = ("none" if number is None else f"{number:.3f}" for number in numbers)
    source = kind["threshold_from"]
    before = "" if source == FROM_EXAMPLES else f", {trained} {THRESHOLD_SOURCES[FROM_EXAMPLES]}"
    return f"{now} {THRESHOLD_SOURCES[source]}{before}"


def _scores_lines(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "recording", f"{content['recording']}, {_length(content['duration_s'])}, {content['sample_rate']} Hz"
    yield "model", f"sha256 {content['model_sha256']}"
    yield "made with", _versions(content)
    yield "classes", ", ".join(map(str, content["classes"]))


def _recording_lines(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "format", content["what"]
    channels = f"{content['channels']} channel{'s'[: content['channels'] > 1]}"
    yield "sound", f"{content['sample_rate']} Hz, {channels}, {_length(content['duration_s'])}"
    if content["partial"]:
        yield "partial", content["partial"]
    elif not content["samples"]:
        yield "damaged", "it holds no sound, only a header"
    elif (
        content["announced_s"] is None
        or abs(content["announced_s"] - content["duration_s"]) > 0.5 / content["sample_rate"]
    ):
        stated = "no duration" if content["announced_s"] is None else f"a duration of {_length(content['announced_s'])}"
        yield "", f"the header states {stated}, which differs from what was decoded"
    if content["damaged"]:
        yield "damaged", content["damaged"]
    if content["not_finite"]:
        yield "damaged", f"{content['not_finite']} samples are NaN or infinite"
    yield "peak", f"{_levels(content['peak_db'])} dB re full scale"
    yield "level", f"{_levels(content['rms_db'])} dB re full scale (RMS)"
    if max(map(abs, content["mean"])) > 0.01:
        yield "offset", f"the mean is {', '.join(f'{mean:.3f}' for mean in content['mean'])} of full scale, not 0"
    yield "clipped", f"{_share(content['clipped'])} of the samples are at full scale"
    yield "silence", f"{_share(content['silent'])} of the recording is digital silence"
    yield from _column("remarks", [*content["remarks"], *content["quality"]])
    if content["samples"] and not content["counts"]:
        yield "effort", "outlark summary does not count it: half of it or more cannot be listened to"
    clock = content["clock"]
    if clock is None:
        yield "began", "unknown: no GUANO metadata, no recorder comment, no time in the file name"
        return
    zone = "" if clock["zone_told"] else ", time zone unknown"
    yield "began", f"{clock['began'].replace('T', ' ')}{zone} (from the {clock['source']})"
    yield from (("", difference) for difference in clock["differences"])
    if clock["expansion"] != 1.0:
        yield "", f"slowed down by {clock['expansion']:g}"


def _table_lines(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "format", f"{content['format']} ({content['what']})"
    times = f", from {content['start_s']:.3f} to {content['end_s']:.3f} s" if content["annotations"] else ""
    yield "annotations", f"{content['annotations']}{times}"
    counts = [f"{label}: {n}" for label, n in content["labels"].items()]
    if content["blank"]:
        counts.append(f"without a label: {content['blank']}")
    yield from _column("labels", counts)
    if content["verdicts"]:
        yield "verdicts", ", ".join(f"{verdict}: {n}" for verdict, n in content["verdicts"].items())
    if content["points"]:
        yield "points", f"{number_of(content['points'], 'annotation')} without a duration"
    recordings = [
        f"{one['name'] or 'named like the file'}: {one['path'] or 'not found'}" for one in content["recordings"]
    ]
    yield from _column("recordings", recordings)
    about = content["about"]
    if about:
        yield "made with", f"outlark {about.get('version')}, model {about.get('model_sha256')}"
    yield from _column("remarks", content["remarks"])


def _column(name: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from zip([name, *[""] * len(lines)], listed(lines), strict=False)


def _example(note: Mapping[str, Any]) -> str:
    name = note["name"] or f"recording {note['recording']}"
    return f"{name}, {note['start_s']:.3f} to {note['end_s']:.3f} s"


def _ancestor(model: Mapping[str, Any]) -> str:
    """A model that this one was trained from."""
    added = f"{number_of(model['added'], 'example')} and {number_of(model['negatives'], 'negative')} added"
    return f"{model['name']} (sha256 {model['sha256']}): {number_of(model['kept'], 'example')} kept, {added}"


def _versions(content: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(content["versions"].items()))


def _plain(value: Any) -> str:
    """A setting as the file stores it, which marks tuples."""
    if isinstance(value, dict) and list(value) == ["tuple"]:
        value = value["tuple"]
    return "none" if value is None else str(value)


def _length(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds // 60 % 60):02}:{seconds % 60:06.3f}"


def _levels(levels: Sequence[float | None]) -> str:
    return ", ".join("-∞" if level is None else f"{level:.1f}" for level in levels)


def _share(share: float) -> str:
    return "none" if share == 0 else f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.3g} %"


_LINES: dict[str, Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]] = {
    "model": _model_lines,
    "scores": _scores_lines,
    "recording": _recording_lines,
    "table": _table_lines,
}
