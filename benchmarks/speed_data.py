"""What the speed benchmarks run on, written to a folder so that every process reads the same.

- ``busy.wav``: songs of zebra finches, Bengalese finches and canaries, one recording after the other.
- ``quiet.wav``: a night without birds; a few seconds of song in every minute. ``first.wav``: the first seconds of busy.
- ``examples-C-N.npz``: N clips of each of C classes, cut out of the songs; flight calls where there are not enough.
- ``frames.npz``: training frames of three classes (X, y) and frames to be scored (Z).

Without the data folder (`real_note_tasks.data_folder`) the audio is synthetic, of `outlark.data.synthetic`.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from real_note_noise import stretch
from real_note_tasks import Recording, _annotated, data_folder

from outlark.audio.recording import read
from outlark.audio.sound import resample
from outlark.data import synthetic

RATE = 22_050
SONGS = ("zebra-finch-syllables", "bengalese-finch-syllables", "canary-syllables")
#: Shorter notes are not examples.
SHORTEST_S = 0.02
#: The quiet recording: seconds of song in each minute, and by how much its noise is weaker than the song, in RMS.
SONG_S, WEAKER = 4.0, 10.0
#: Seconds of the recording that comes before those that are timed.
FIRST_S = 6.0
SMALL, LARGE = (3, 5), (30, 20)
FEATURES, FRAME_CLASSES = 36, 3


class Sounds(NamedTuple):
    """Songs, background noise, and clips of every class, all at `RATE`; and where they come from."""

    songs: list[np.ndarray]
    noise: np.ndarray
    clips: dict[str, list[np.ndarray]]
    source: str


def write_audio(folder: Path, seconds: float) -> str:
    """Write both recordings and both sets of examples; says what they were made from."""
    sounds = real() if has_data() else made()
    n = round(seconds * RATE)
    busy = np.resize(np.concatenate(sounds.songs), n)
    quiet = stretch(sounds.noise, n, RATE, np.random.default_rng(0))
    quiet = quiet * (np.sqrt(np.mean(busy**2) / np.mean(quiet**2)) / WEAKER)
    for start in range(0, n, 60 * RATE):
        part = quiet[start : start + round(SONG_S * RATE)]
        part += busy[start : start + len(part)]
    for name, samples in (("busy", busy), ("quiet", quiet), ("first", busy[: round(FIRST_S * RATE)])):
        soundfile.write(folder / f"{name}.wav", samples / max(1.0, np.abs(samples).max()), RATE, subtype="PCM_16")
    for n_classes, n_examples in (SMALL, LARGE):
        write_examples(folder / f"examples-{n_classes}-{n_examples}.npz", sounds.clips, n_classes, n_examples)
    return sounds.source


def has_data() -> bool:
    try:
        return data_folder().is_dir()
    except SystemExit:
        return False


def real() -> Sounds:
    """All songs of the three sets, resampled; notes longer than `SHORTEST_S`, classes with enough of them first."""
    songs, clips = [], {}
    for name in SONGS:
        for recording in _annotated(name).values():
            songs.append(resample(recording.samples, recording.rate, RATE))
            for label, clip in _cut(recording):
                clips.setdefault(f"{name} {label}", []).append(clip)
    for label, clip in _flight_calls():
        clips.setdefault(f"flight call {label}", []).append(clip)
    noise = read(data_folder("long-audio-machine-labels") / "birdvox_night_background_10s.flac")
    return Sounds(songs, resample(*noise, RATE), clips, "real recordings: " + ", ".join(SONGS))


def made() -> Sounds:
    """Synthetic notes 0.1 s apart; more classes than there are come from playing notes at other speeds."""
    labels = [*synthetic.KNOWN_CLASSES, *synthetic.UNKNOWN_CLASSES]
    notes = synthetic.notes(seed=0, counts=dict.fromkeys(labels, LARGE[1]))
    rng = np.random.default_rng(0)
    some = [notes[i] for i in rng.permutation(len(notes))]
    songs = [synthetic.concatenate(some, gap_s=0.1, edge_s=0.5, snr_db=40.0, rng=rng)[0]]
    clips: dict[str, list[np.ndarray]] = {}
    for speed in (1.0, 0.8, 1.25, 0.64, 1.5625):
        for note in notes:
            clips.setdefault(f"{note.label} {speed}", []).append(resample(note.samples, round(RATE * speed), RATE))
    noise = 0.001 * rng.normal(size=10 * RATE)
    return Sounds([resample(s, synthetic.SAMPLE_RATE, RATE) for s in songs], noise, clips, "synthetic notes")


def _cut(recording: Recording) -> Iterator[tuple[str, np.ndarray]]:
    for s in recording.segments:
        if s.duration_s > SHORTEST_S:
            yield s.label, resample(recording.samples[s.start : s.end], recording.rate, RATE)


def _flight_calls() -> Iterator[tuple[str, np.ndarray]]:
    folder = data_folder("clo-flight-calls")
    with (folder / "clips.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row["label"], resample(*read(folder / row["file"]), RATE)


def write_examples(path: Path, clips: dict[str, list[np.ndarray]], n_classes: int, n_examples: int) -> None:
    """The first classes that have enough clips, and their first clips."""
    enough = [label for label, of_class in clips.items() if len(of_class) >= n_examples][:n_classes]
    chosen = [(label, clip) for label in enough for clip in clips[label][:n_examples]]
    np.savez(
        path,
        samples=np.concatenate([clip for _, clip in chosen]),
        lengths=[len(clip) for _, clip in chosen],
        labels=[label for label, _ in chosen],
    )


def write_frames(path: Path, n_train: int, n_score: int) -> None:
    """Frames of three classes, near in time = near in space, as the features of notes are."""
    rng = np.random.default_rng(1)
    y = np.arange(n_train) * FRAME_CLASSES // n_train
    steps = rng.normal(size=(n_train, FEATURES)).cumsum(axis=0)
    X = 0.1 * steps + rng.normal(size=(FRAME_CLASSES, FEATURES))[y] + 0.3 * rng.normal(size=(n_train, FEATURES))
    Z = X[rng.integers(n_train, size=n_score)] + 0.5 * rng.normal(size=(n_score, FEATURES))
    np.savez(path, X=X, y=y, Z=Z)
