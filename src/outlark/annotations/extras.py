"""Formats that need an extra: AOEF (Whombat, soundevent), and what crowsetta reads: TextGrid, .not.mat and others.

AOEF requires scores from 0 to 1, outlark's have no upper limit: `confidence` is written in their place, and the score
itself is a feature of the sound event.
"""

import datetime
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from outlark.annotations.annotation import About, Annotation, confidence, within_one
from outlark.annotations.columns import LABEL_COLUMNS
from outlark.annotations.files import Reading, key_of, needed, read_bytes
from outlark.audio.recording import Recording
from outlark.errors import AnnotationError, AudioError, InputError
from outlark.files.io import dumps, loads, without_doubles
from outlark.plain_text import writable
from outlark.segments import AMBIGUOUS

_SPACE = UUID("6c0f5a0e-7b1f-5f43-9d6e-6f75746c6172")
#: Equal annotations must give equal bytes, so files carry no date.
_NO_TIME = datetime.datetime(1970, 1, 1)


# --------------------------------------------------------------- AOEF: reading


def is_aoef(content: Any) -> bool:
    """Whether JSON is an AOEF object."""
    return isinstance(content, dict) and "created_on" in content and "data" in content


def read_aoef(reading: Reading) -> list[Annotation]:
    """The sound events of predictions or annotations; the label column is the key of the tag that is the label."""
    aoef = needed("soundevent.io.aoef", "aoef")
    text = reading.text()
    try:
        json.loads(text, object_pairs_hook=without_doubles)
        found = aoef.to_soundevent(aoef.AOEFObject.model_validate_json(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # pydantic's errors are ValueErrors
        raise AnnotationError(f"{reading.path}: not AOEF, or damaged ({error!s:.300}); export it again") from None
    clips = getattr(found, "clip_predictions", None) or getattr(found, "clip_annotations", None) or []
    events = [event for clip in clips for event in clip.sound_events]
    keys = _label_keys([_tags(event) for event in events], reading)
    annotations = []
    for i, event in enumerate(events, start=1):
        try:
            annotations.append(_of_event(i, event, keys))
        except InputError as error:
            reading.refuse(f"sound event {i} ({event.uuid})", error)
    if getattr(found, "name", None) == "outlark":
        reading.about = _run(getattr(found, "description", None))
    return annotations


def _run(said: str | None) -> dict[str, Any]:
    try:
        return loads(said or "{}", "its description")
    except InputError:
        return {}


def _tags(event: Any) -> dict[str, str]:
    """Key → value of the tags of a prediction or an annotation; the first of each key."""
    found: dict[str, str] = {}
    for tag in event.tags:
        tag = getattr(tag, "tag", tag)
        found.setdefault(tag.term.name, tag.value)
    return found


def _label_keys(tags: list[dict[str, str]], reading: Reading) -> list[str]:
    """Keys of the tag that is the label, the best first."""
    seen = list(dict.fromkeys(key for found in tags for key in found))
    wanted = reading.label_column
    if wanted is not None:
        if str(wanted) not in seen:
            raise AnnotationError(f"{reading.path}: no tag has the key {wanted!r}; give one of {seen}")
        return [str(wanted)]
    short = {key: key_of(key.split(":")[-1]) for key in seen}
    usual = [key for name in (*LABEL_COLUMNS, "scientificname", "vernacularname") for key in seen if short[key] == name]
    keys = usual or [key for key in seen if key not in ("verdict", "runner_up")]
    if keys and keys[0] != "label":
        reading.remarks.append(f"labels from the tag {keys[0]!r}")
    return keys


def _of_event(i: int, event: Any, keys: list[str]) -> Annotation:
    tags, sound = _tags(event), event.sound_event
    features = {feature.term.name: feature.value for feature in sound.features}
    times, frequencies = _bounds(sound.geometry)
    label = next((tags[key] for key in keys if key in tags), None)
    return Annotation(
        start_s=min(times),
        end_s=max(times),
        label=label,
        recording=str(sound.recording.path),
        verdict=tags.get("verdict"),
        score=features.get("score", getattr(event, "score", None) if "verdict" not in tags else None),
        runner_up=tags.get("runner_up"),
        runner_up_score=features.get("runner_up_score"),
        low_hz=min(frequencies, default=None),
        high_hz=max(frequencies, default=None),
        sample_rate=sound.recording.samplerate,
        start_time=_start_time(sound.recording, min(times)),
        line=i,
    )


def _start_time(recording: Any, start_s: float) -> str | None:
    """Date and time, if the recording has both."""
    if recording.date is None or recording.time is None or recording.time_expansion != 1.0:
        return None
    began = datetime.datetime.combine(recording.date, recording.time)
    return (began + datetime.timedelta(seconds=start_s)).isoformat(timespec="microseconds")


def _bounds(geometry: Any) -> tuple[list[float], list[float]]:
    """All times and all frequencies of a geometry of any kind."""
    where = geometry.coordinates
    if geometry.type == "TimeStamp":
        return [where], []
    if geometry.type == "TimeInterval":
        return list(where), []
    if geometry.type == "BoundingBox":
        return [where[0], where[2]], [where[1], where[3]]
    points = list(_points(where))
    return [time for time, _ in points], [frequency for _, frequency in points]


def _points(where: Any) -> Iterator[tuple[float, float]]:
    """The (time, frequency) pairs in nested lists of any depth."""
    if isinstance(where[0], list | tuple):
        for part in where:
            yield from _points(part)
    else:
        yield where[0], where[1]


# --------------------------------------------------------------- AOEF: writing


def write_aoef(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """All annotations, silence included, as one prediction set."""
    data, aoef = needed("soundevent.data", "aoef"), needed("soundevent.io.aoef", "aoef")
    names = dict.fromkeys(_path(annotation) for annotation in annotations)
    began = about.recording.get("began") if len(names) == 1 and "expansion" not in about.recording else None
    clips = [_clip(data, name, [m for m in annotations if m.recording == name], durations, began) for name in names]
    said = dumps(about.as_dict(), "about")
    whole = data.PredictionSet(
        uuid=uuid5(_SPACE, said + "".join(str(clip.uuid) for clip in clips)),
        clip_predictions=clips,
        name="outlark",
        description=said,
        created_on=_NO_TIME,
    )
    made = aoef.to_aeof(whole)
    made.created_on = _NO_TIME
    yield json.dumps(made.model_dump(mode="json", exclude_none=True), ensure_ascii=False, indent=1) + "\n"


def _path(annotation: Annotation) -> str:
    if annotation.recording is None or annotation.sample_rate is None:
        lacks = "recording" if annotation.recording is None else "sample_rate"
        raise AnnotationError(
            f"an annotation at {annotation.start_s} s has no {lacks}, which AOEF needs; give Annotation({lacks}=…)"
        )
    return annotation.recording


def _clip(
    data: Any, name: str, annotations: list[Annotation], durations: Mapping[str, float], began: str | None
) -> Any:
    """One recording with all its annotations; if its duration is unknown, it ends with the last of them."""
    last = max(annotation.end_s for annotation in annotations)
    when = None if began is None else datetime.datetime.fromisoformat(began)
    recording = data.Recording(
        uuid=uuid5(_SPACE, writable(name)),
        path=Path(writable(name)),
        duration=max(durations.get(name, 0.0), last),
        channels=max(annotation.channel or 1 for annotation in annotations),
        samplerate=max(annotation.sample_rate or 1 for annotation in annotations),
        date=None if when is None else when.date(),
        time=None if when is None else when.timetz(),
    )
    clip = data.Clip(
        uuid=uuid5(recording.uuid, "clip"), recording=recording, start_time=0.0, end_time=recording.duration
    )
    events = [_prediction(data, recording, i, annotation) for i, annotation in enumerate(annotations)]
    return data.ClipPrediction(uuid=uuid5(recording.uuid, "predictions"), clip=clip, sound_events=events)


def _prediction(data: Any, recording: Any, i: int, annotation: Annotation) -> Any:
    own = uuid5(recording.uuid, f"{i} {annotation.start_s!r} {annotation.end_s!r} {writable(annotation.label or '')}")
    scores = {"score": annotation.score, "runner_up_score": annotation.runner_up_score}
    sure, rival = confidence(annotation), annotation.runner_up_score
    ambiguous = annotation.verdict == AMBIGUOUS
    tags = {
        "label": (annotation.label, sure),
        "runner_up": (annotation.runner_up, None if rival is None else within_one(rival, accepted=ambiguous)),
    }
    event = data.SoundEvent(
        uuid=uuid5(own, "event"),
        recording=recording,
        geometry=_geometry(data, annotation),
        features=[data.Feature(term=data.term_from_key(k), value=v) for k, v in scores.items() if v is not None],
    )
    predicted = [
        data.PredictedTag(tag=_tag(data, key, value), score=1.0 if score is None else score)
        for key, (value, score) in tags.items()
        if value is not None
    ]
    if annotation.verdict is not None:
        predicted.append(data.PredictedTag(tag=_tag(data, "verdict", annotation.verdict), score=1.0))
    score = 1.0 if sure is None else sure
    return data.SoundEventPrediction(uuid=own, sound_event=event, score=score, tags=predicted)


def _geometry(data: Any, annotation: Annotation) -> Any:
    if annotation.low_hz is not None and annotation.high_hz is not None:
        return data.BoundingBox(
            coordinates=[annotation.start_s, annotation.low_hz, annotation.end_s, annotation.high_hz]
        )
    if annotation.start_s == annotation.end_s:
        return data.TimeStamp(coordinates=annotation.start_s)
    return data.TimeInterval(coordinates=[annotation.start_s, annotation.end_s])


def _tag(data: Any, key: str, value: str) -> Any:
    return data.Tag(term=data.term_from_key(key), value=writable(value))


# -------------------------------------------------------------------- crowsetta


def crowsetta_reader(format: str) -> Callable[[Reading], list[Annotation]]:
    """A function that reads a format by its name in crowsetta; the label column of a TextGrid is a tier."""

    def read(reading: Reading) -> list[Annotation]:
        crowsetta = needed("crowsetta", "formats")
        read_bytes(reading.path)  # for outlark's error messages
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about missing recordings: `_rate` reports them
                found = crowsetta.Transcriber(format).from_file(reading.path)
                rows = _tiers(reading, found) if format == "textgrid" else _segments(reading, found, format)
                return [annotation for annotation in rows if annotation is not None]
        except AnnotationError:
            raise
        except Exception as error:  # crowsetta and its parsers raise anything
            why = f"{type(error).__name__}: {error!s:.300}"
            raise AnnotationError(
                f"{reading.path} cannot be read as {format} ({why}); check that it is such a file"
            ) from error

    return read


def _segments(reading: Reading, found: Any, format: str) -> Iterator[Annotation | None]:
    options: dict[str, Any] = {} if format == "generic-seq" else {"round_times": False}
    if format in ("timit", "birdsong-recognition-dataset"):
        # a rate of 1 keeps times in samples; they are divided by each recording's own rate below
        options["samplerate"] = 1
    annotations = found.to_annot(**options)
    for annotation in annotations if isinstance(annotations, list) else [annotations]:
        recording = annotation.notated_path
        rate = _rate(reading.path, recording) if "samplerate" in options else 1
        for i, segment in enumerate(annotation.seq.segments, start=1):
            span = (segment.onset_s / rate, segment.offset_s / rate)
            yield _of_segment(reading, i, *span, segment.label, recording)


def _rate(path: Path, recording: Any) -> int:
    try:
        return Recording(recording).sample_rate
    except (AudioError, TypeError) as error:
        raise AnnotationError(
            f"{path} counts in samples, and the sample rate of its recording {recording} cannot be found ({error}); "
            "put the recording there"
        ) from None


def _tiers(reading: Reading, grid: Any) -> Iterator[Annotation | None]:
    names, wanted = list(grid.tier_names), reading.label_column
    chosen = list(range(len(names)))
    if wanted is not None:
        text = str(wanted)
        number = int(text) if text.isascii() and text.isdigit() else 0
        if text not in names and not 1 <= number <= len(names):
            raise AnnotationError(
                f"{reading.path}: there is no tier {wanted!r}; give one of {names}, or its number from 1"
            )
        chosen = [names.index(text) if text in names else number - 1]
    elif len(names) > 1:
        reading.remarks.append(f"all of the tiers {names} (label_column= chooses one)")
    i = 0
    for tier in (grid.tiers[k] for k in chosen):
        for item in getattr(tier, "intervals", None) or getattr(tier, "points", []):
            i += 1
            is_point = hasattr(item, "number")
            span = (item.number, item.number, item.mark) if is_point else (item.xmin, item.xmax, item.text)
            yield _of_segment(reading, i, *span, grid.audio_path, more={"tier": tier.name})


def _of_segment(
    reading: Reading, i: int, start: Any, end: Any, label: Any, recording: Any, **rest: Any
) -> Annotation | None:
    """The segment; None if it is refused."""
    try:
        return Annotation(
            start_s=float(start),
            end_s=float(end),
            label=str(label).strip() or None,
            recording=None if recording is None else str(recording),
            line=i,
            **rest,
        )
    except InputError as error:
        reading.refuse(f"segment {i}", error)
        return None
