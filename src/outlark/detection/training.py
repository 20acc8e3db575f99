"""Training material: recordings with annotated notes. Clips are joined into one recording, as in the paper."""

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import fsdecode
from os.path import basename
from typing import Any, NamedTuple, Self

import numpy as np

from outlark.audio.clips import is_path, loaded, outside_s, without_silence
from outlark.audio.sound import resample
from outlark.errors import InputError
from outlark.features.base import Frames, FrontEnd
from outlark.plain_text import number_of
from outlark.segments import REST, VERDICTS, Segment, in_order

#: No class has such a name, in any case: in annotation files it could not be told from the verdict.
RESERVED = frozenset({*VERDICTS, REST})


@dataclass(frozen=True, eq=False, kw_only=True)
class Material:
    """Recordings at one sample rate and the notes annotated in each."""

    recordings: list[np.ndarray]
    #: In samples of `sample_rate`.
    segments: list[list[Segment]]
    sample_rate: int
    #: File names of the recordings.
    names: Sequence[str | None] | None = None
    #: Whether the recording was joined from clips, each a note.
    clips: bool = False

    @property
    def notes(self) -> list[tuple[int, Segment]]:
        """Every annotated note with the number of its recording."""
        return [(r, segment) for r, segments in enumerate(self.segments) for segment in segments]

    @property
    def durations_s(self) -> dict[Any, list[float]]:
        """Of the notes of each class, in the order of the labels."""
        labels = sorted({segment.label for _, segment in self.notes})
        return {label: [s.duration_s for _, s in self.notes if s.label == label] for label in labels}

    def frames(self, front_end: FrontEnd) -> list[Frames]:
        """The frames of each recording, by a front end that is fitted to them."""
        if self.clips:
            front_end.for_clips()
        front_end.fit(self.recordings, self.sample_rate, self.segments)
        transform = front_end.transform_clips if self.clips else front_end.transform
        return [transform(recording) for recording in self.recordings]


class Signals(NamedTuple):
    """Recordings as a front end takes them, their sample rates, and the names of their files."""

    signals: list[np.ndarray]
    rates: list[int]
    names: list[str | None]

    @classmethod
    def of(cls, sounds: Any, sample_rate: Any, what: str, front_end: FrontEnd | type[FrontEnd]) -> Self:
        """From arrays or paths."""
        given = loaded(sounds, sample_rate, what)
        rates = [front_end.check_rate(rate) for _, rate in given]
        if not front_end.is_sound and len(set(rates)) > 1:
            raise InputError(f"series at the rates {sorted(set(rates))} Hz; resample them to one rate first")
        names = [basename(fsdecode(sound)) if is_path(sound) else None for sound in sounds]
        return cls([front_end.signal(audio) for audio, _ in given], rates, names)

    def as_clips(self, labels: Sequence[Any], gap_s: float, rate: int | None = None) -> Material:
        """Each is a note. At this rate, or the lowest of them."""
        rate = min(self.rates, default=0) if rate is None else rate
        joined = join_clips(self._at(rate), list(labels), rate, gap_s)
        return replace(joined, names=self.names)

    def as_recordings(self, segments: Sequence[Iterable[Segment]], rate: int | None = None) -> Material:
        """With annotated notes. At this rate, or the lowest of them."""
        if not self.signals:
            raise InputError("no recordings; give at least one with an annotated note")
        annotations = check_annotations(segments, len(self.signals))
        return replace(at_one_rate(*self[:2], annotations, min(self.rates) if rate is None else rate), names=self.names)

    def _at(self, rate: int) -> list[np.ndarray]:
        return [s if own == rate else resample(s, own, rate) for s, own in zip(self.signals, self.rates, strict=True)]


def join_clips(clips: Sequence[np.ndarray], labels: Sequence[Any], sample_rate: int, gap_s: float) -> Material:
    """One recording of all clips, each a note, with digital silence of `gap_s` before, between and after them.

    >>> material = join_clips([np.ones(3), np.ones(2)], ["A", "B"], sample_rate=10, gap_s=0.1)
    >>> material.recordings[0].tolist(), [(s.start, s.end) for s in material.segments[0]]
    ([0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0], [(1, 4), (5, 7)])
    """
    if len(clips) != len(labels):
        raise InputError(f"{len(clips)} clips but {len(labels)} labels; give one label for each clip")
    gap = np.zeros((round(gap_s * sample_rate), *np.shape(clips[0])[1:]) if len(clips) else 0)
    pieces, segments, at = [gap], [], len(gap)
    for number, (clip, label) in enumerate(zip(clips, labels, strict=True)):
        if len(clip) == 0:
            raise InputError(f"clip {number} ({label!r}) is empty; omit it or give its samples")
        _warn_of_silence(clip, f"clip {number} ({label!r})", sample_rate)
        segments.append(Segment(start=at, end=at + len(clip), sample_rate=sample_rate, label=_plain(label)))
        pieces += [clip, gap]
        at += len(clip) + len(gap)
    return Material(recordings=[np.concatenate(pieces)], segments=[segments], sample_rate=sample_rate, clips=True)


def _warn_of_silence(clip: np.ndarray, what: str, sample_rate: int) -> None:
    """A clip is all note: whatever surrounds it would be learnt as part of it."""
    silent_s = outside_s(without_silence(clip, sample_rate), len(clip), sample_rate) if clip.ndim == 1 else 0.0
    if silent_s:
        warnings.warn(
            f"{what} has {silent_s:.3f} s of digital silence at its ends, which would be learnt as part of the "
            "note; trim it (outlark.audio.clips.without_silence finds where)",
            UserWarning,
            stacklevel=3,
        )


def at_one_rate(
    recordings: Sequence[np.ndarray], rates: Sequence[int], segments: Sequence[Sequence[Segment]], sample_rate: int
) -> Material:
    """Resample recordings, move their annotations with them, and check these against the end of the recording."""
    if not len(recordings) == len(rates) == len(segments):
        raise InputError(
            f"{len(recordings)} recordings, {len(rates)} sample rates and {len(segments)} lists of segments; give one "
            "of each for every recording"
        )
    moved = []
    for number, (audio, rate, annotations) in enumerate(zip(recordings, rates, segments, strict=True)):
        moved.append(
            [_moved(annotation, len(audio), rate, sample_rate, number) for annotation in in_order(annotations)]
        )
    audio_at_rate = [
        audio if rate == sample_rate else resample(audio, rate, sample_rate)
        for audio, rate in zip(recordings, rates, strict=True)
    ]
    return Material(recordings=audio_at_rate, segments=moved, sample_rate=sample_rate)


def training_record(material: Material) -> list[dict[str, Any]]:
    """Where each training note comes from, and a digest of it.

    Returns
    -------
    list of dict
        "recording": the number of its recording or clip. "name": the file, or None. "label". "start_s", "end_s": in
        its recording or clip. "sha256": of its samples as used in training, float64, little-endian, at the
        model's sample rate. "low_hz", "high_hz": if its frequencies are annotated. "clip": True if it is a clip.

    >>> material = join_clips([np.ones(3), np.ones(2)], ["A", "B"], sample_rate=10, gap_s=0.1)
    >>> note = training_record(material)[1]
    >>> note["recording"], note["label"], note["start_s"], note["end_s"]
    (1, 'B', 0.0, 0.2)
    >>> note["sha256"] == hashlib.sha256(np.ones(2).astype("<f8").tobytes()).hexdigest()
    True
    """
    found = []
    for number, (r, segment) in enumerate(material.notes):
        samples = material.recordings[r][segment.start : segment.end]
        file = number if material.clips else r
        found.append(
            {
                "recording": file,
                "name": material.names[file] if material.names is not None else None,
                "label": segment.label,
                "start_s": 0.0 if material.clips else segment.start_s,
                "end_s": segment.duration_s if material.clips else segment.end_s,
                "sha256": hashlib.sha256(samples.astype("<f8").tobytes()).hexdigest(),
                **({"clip": True} if material.clips else {}),
                **{name: float(hz) for name in ("low_hz", "high_hz") if (hz := getattr(segment, name)) is not None},
            }
        )
    return found


def check_material(material: Material) -> None:
    """Refuse material without notes, notes without a label or with that of a verdict, and labels of two types."""
    if not material.notes:
        raise InputError("no notes are annotated in the training recordings; give at least one example of a class")
    for number, (r, segment) in enumerate(material.notes):
        where = f"clip {number}" if material.clips else f"the note at {segment.start_s:.3f} s of recording {r}"
        if not isinstance(segment.label, str | int):
            raise InputError(f"{where} has the label {segment.label!r}; give a name or a whole number, or omit it")
        if not np.any(material.recordings[r][segment.start : segment.end]):
            raise InputError(f"{where} ({segment.label!r}) is digital silence throughout; omit it")
    labels = [segment.label for _, segment in material.notes]
    taken = next((label for label in labels if str(label).casefold() in RESERVED), None)
    if taken is not None:
        raise InputError(
            f"{number_of(labels.count(taken), 'note')} with the label {taken!r}, a word that says in results whether a "
            "class accepts a sound; rename the label, or choose the other classes (train --class)"
        )
    kinds = {type(label).__name__ for label in labels}
    if len(kinds) > 1:
        raise InputError(f"labels are of the types {sorted(kinds)}; give all classes names, or all numbers")


def check_annotations(segments: Sequence[Any], n_recordings: int) -> list[list[Segment]]:
    """A list of `Segment` for each recording, or an error."""
    if len(segments) != n_recordings:
        raise InputError(
            f"{n_recordings} recordings, but {len(segments)} lists of segments; give one list for each recording"
        )
    annotations = []
    for number, of_recording in enumerate(segments):
        if isinstance(of_recording, Segment) or not isinstance(of_recording, Iterable):
            raise InputError(f"segments[{number}] is {of_recording!r}; give a list of Segment for each recording")
        annotations.append(list(of_recording))
        strange = next((annotation for annotation in annotations[-1] if not isinstance(annotation, Segment)), None)
        if strange is not None:
            raise InputError(
                f"segments[{number}] holds {strange!r}; give Segment.from_seconds(start_s, end_s, label, sample_rate)"
            )
    return annotations


def _moved(annotation: Segment, n_samples: int, rate: int, new_rate: int, number: int) -> Segment:
    if annotation.sample_rate != rate:
        bounds = {"low_hz": annotation.low_hz, "high_hz": annotation.high_hz}
        annotation = Segment.from_seconds(annotation.start_s, annotation.end_s, annotation.label, rate, **bounds)
    if annotation.start >= n_samples:
        raise InputError(
            f"recording {number} ends at {n_samples / rate:.3f} s, but a note {annotation.label!r} is annotated at "
            f"{annotation.start_s:.3f} to {annotation.end_s:.3f} s; do annotations and recording belong together?"
        )
    if annotation.end > n_samples + rate // 1000:  # annotation files round
        warnings.warn(
            f"recording {number} ends at {n_samples / rate:.3f} s, but a note {annotation.label!r} is annotated from "
            f"{annotation.start_s:.3f} to {annotation.end_s:.3f} s; it is used up to the end of the recording",
            UserWarning,
            stacklevel=3,
        )
    start = annotation.start * new_rate // rate
    end = max(start + 1, min(annotation.end, n_samples) * new_rate // rate)
    return replace(annotation, start=start, end=end, sample_rate=new_rate, label=_plain(annotation.label))


def _plain(label: Any) -> Any:
    """A NumPy scalar as a Python value."""
    return label.item() if isinstance(label, np.generic) else label
