"""Formats that crowsetta reads: TextGrid, .not.mat, simple-seq and others."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from outlark.annotations.annotation import Annotation, Remarks
from outlark.annotations.files import needed, read_bytes
from outlark.audio.recording import Recording
from outlark.errors import AnnotationError, AudioError, InputError

#: Name, as in crowsetta → usual file name ending, and what it is.
FORMATS = {
    "textgrid": (".TextGrid", "Praat's tiers of intervals and points"),
    "notmat": (".not.mat", "evsonganaly's segments"),
    "simple-seq": (".csv", "onset_s, offset_s and label"),
    "generic-seq": (".csv", "crowsetta's own CSV"),
    "timit": (".phn", "TIMIT transcriptions, in samples"),
    "yarden": (".mat", "SongAnnotationGUI's segments"),
    "birdsong-recognition-dataset": (".xml", "annotations of the BirdsongRecognition data set, in samples"),
}


def read(path: Path, format: str, label_column: str | int | None, remarks: Remarks) -> list[Annotation]:
    """The segments of the file; for a TextGrid, `label_column` chooses a tier by name or number from 1."""
    crowsetta = needed("crowsetta", "formats")
    read_bytes(path)  # for outlark's error messages
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing recordings: `_rate` reports them
            found = crowsetta.Transcriber(format).from_file(path)
            if format == "textgrid":
                return [m for m in _tiers(path, found, label_column, remarks) if m is not None]
            return [m for m in _segments(path, found, format, remarks) if m is not None]
    except AnnotationError:
        raise
    except Exception as error:  # crowsetta and its parsers raise anything
        raise AnnotationError(
            f"{path} cannot be read as {format} ({type(error).__name__}: {error!s:.300}); check that it is such a file"
        ) from error


def _segments(path: Path, found: Any, format: str, remarks: Remarks) -> Iterator[Annotation | None]:
    options: dict[str, Any] = {} if format == "generic-seq" else {"round_times": False}
    if format in ("timit", "birdsong-recognition-dataset"):
        # a rate of 1 keeps times in samples; they are divided by each recording's own rate below
        options["samplerate"] = 1
    annotations = found.to_annot(**options)
    for annotation in annotations if isinstance(annotations, list) else [annotations]:
        recording = annotation.notated_path
        rate = _rate(path, recording) if "samplerate" in options else 1
        for i, segment in enumerate(annotation.seq.segments, start=1):
            span = (segment.onset_s / rate, segment.offset_s / rate)
            yield _annotation(path, remarks, i, *span, segment.label, recording)


def _rate(path: Path, recording: Any) -> int:
    try:
        return Recording(recording).sample_rate
    except (AudioError, TypeError) as error:
        raise AnnotationError(
            f"{path} counts in samples, and the sample rate of its recording {recording} cannot be found ({error}); "
            "put the recording there"
        ) from None


def _tiers(path: Path, grid: Any, wanted: str | int | None, remarks: Remarks) -> Iterator[Annotation | None]:
    names = list(grid.tier_names)
    chosen = list(range(len(names)))
    if wanted is not None:
        text = str(wanted)
        number = int(text) if text.isascii() and text.isdigit() else 0
        if text not in names and not 1 <= number <= len(names):
            raise AnnotationError(f"{path}: there is no tier {wanted!r}; give one of {names}, or its number from 1")
        chosen = [names.index(text) if text in names else number - 1]
    elif len(names) > 1:
        remarks.append(f"all of the tiers {names} (label_column= chooses one)")
    i = 0
    for tier in (grid.tiers[k] for k in chosen):
        for item in getattr(tier, "intervals", None) or getattr(tier, "points", []):
            i += 1
            is_point = hasattr(item, "number")
            span = (item.number, item.number, item.mark) if is_point else (item.xmin, item.xmax, item.text)
            yield _annotation(path, remarks, i, *span, grid.audio_path, more={"tier": tier.name})


def _annotation(
    path: Path, remarks: Remarks, i: int, start: Any, end: Any, label: Any, recording: Any, **rest: Any
) -> Annotation | None:
    """The segment; None if it is refused."""
    try:
        return Annotation(
            start_s=float(np.float64(start)),
            end_s=float(np.float64(end)),
            label=str(label).strip() or None,
            recording=None if recording is None else str(recording),
            line=i,
            **rest,
        )
    except InputError as error:
        remarks.refused.append(f"{path}, segment {i}: {error}")
        return None
