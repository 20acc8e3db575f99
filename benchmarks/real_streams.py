"""Real recordings as one stream at 22,050 Hz, and models for it: what `throughput` runs where the data is at hand."""

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from real_note_tasks import data_folder, draw

from outlark.audio.recording import read
from outlark.audio.sound import resample
from outlark.detection.detector import NoteDetector
from outlark.segments import Segment

RATE = 22_050
#: What "busy" is, and "30 x 20": sets whose notes are annotated in time, then one of clips.
BUSY, SEED = "zebra-finch-syllables", 0
NOTES, CLIPS = (BUSY, "bengalese-finch-syllables", "canary-syllables"), "clo-flight-calls"
N_CLASSES, N_EXAMPLES = 30, 20
#: A garden: a third of it rises above the noise.
QUIET = "birdnet_soundscape_2min.flac"


def there() -> bool:
    """Whether the recordings are."""
    try:
        data_folder()
    except SystemExit:
        return False
    return True


def audio(quiet: bool) -> np.ndarray:
    """The song of a zebra finch, two minutes that are not trained on, or two minutes of a garden."""
    if quiet:
        return _read(data_folder("long-audio-machine-labels") / QUIET)
    return np.concatenate([resample(r.samples, r.rate, RATE) for r in draw(BUSY, SEED, 5).test])


def few() -> NoteDetector:
    """3 syllables of a zebra finch, 5 examples of each."""
    train = draw(BUSY, SEED, 5).train
    sounds = [resample(r.samples, r.rate, RATE) for r in train]
    segments = [[_at_rate(s) for s in r.segments] for r in train]
    return NoteDetector().fit_recordings(sounds, segments, RATE)


def many() -> NoteDetector:
    """30 classes with 20 examples of each, as clips: syllables of three birds, and flight calls."""
    examples: dict[str, list[np.ndarray]] = defaultdict(list)
    for name in NOTES:
        for row in _rows(data_folder(name) / "annotations.csv"):
            label = f"{name} {row['label']}"
            if len(examples[label]) < N_EXAMPLES:
                samples = _read(data_folder(name) / row["file"])
                start, end = (round(float(row[edge]) * RATE) for edge in ("begin_s", "end_s"))
                examples[label].append(samples[start:end])
    for row in _rows(data_folder(CLIPS) / "clips.csv"):
        if len(examples[row["label"]]) < N_EXAMPLES:
            examples[row["label"]].append(_read(data_folder(CLIPS) / row["file"]))
    classes = [label for label, own in examples.items() if len(own) == N_EXAMPLES][:N_CLASSES]
    labels = [label for label in classes for _ in range(N_EXAMPLES)]
    return NoteDetector().fit([clip for label in classes for clip in examples[label]], labels, RATE)


def _at_rate(segment: Segment) -> Segment:
    start, end = (round(at * RATE / segment.sample_rate) for at in (segment.start, segment.end))
    return replace(segment, start=start, end=end, sample_rate=RATE)


def _read(path: Path) -> np.ndarray:
    return resample(*read(path), RATE)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
