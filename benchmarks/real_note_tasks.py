"""Tasks on real notes: a few examples train, and the rest of the recordings, or of the clips, is the test.

The audio is not part of the repository. It is looked for in the folder that OUTLARK_DATA names, else in
``../shared/data`` beside the repository; its README says where each set comes from.
"""

import csv
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from real_note_noise import mixed, spread_out, stretch

from outlark.audio.recording import read
from outlark.audio.sound import resample
from outlark.segments import Segment, in_order

#: Clips of each known and of each unknown digit in the test.
KNOWN_DIGITS, UNKNOWN_DIGITS = 12, 7
#: Where known classes are drawn: examples last longer than this, the test holds so many notes of a class at least, and
#: so often it is tried.
SHORTEST_S, LEAST_TO_FIND, TRIES = 0.02, 3, 100
SPEAKERS = ("jackson", "theo")
FIELD = ("hermit_lbh1.flac", "hermit_lbh2.flac", "spinetail.flac")
#: Test clips of each syllable in noise, what the noise is taken from, and its levels.
IN_NOISE = 12
NOISE = ("birdvox_night_background_10s.flac", "birdvox_night_unit03_1min.flac", "birdnet_soundscape_2min.flac")
SNRS_DB = (20, 15, 10, 5, 0)
#: Endings of labels that the READMEs of the sets say to ignore.
ODD = ("_odd", "_part", "_short")
Clips = list[dict[str, str]]


@dataclass(frozen=True, eq=False)
class Recording:
    """Samples (n,), their rate, the marked notes, and spans that are left out of all scoring."""

    samples: np.ndarray
    rate: int
    segments: Sequence[Segment]
    left_out: Sequence[Segment] = ()


@dataclass(frozen=True, eq=False)
class Draw:
    """Training recordings with the examples marked, test recordings with all notes marked, and the known classes.

    With ``clips`` every training recording is one note. Events count as found from ``min_iou`` on.
    """

    train: list[Recording]
    test: list[Recording]
    classes: list[str]
    clips: bool = False
    min_iou: float = 0.5

    def fit(self, detector: Any) -> Any:
        """Train a detector on the examples, the way they come."""
        if self.clips:
            labels = [r.segments[0].label for r in self.train]
            return detector.fit([r.samples for r in self.train], labels, self.train[0].rate)
        rates = [r.rate for r in self.train]
        return detector.fit_recordings([r.samples for r in self.train], [r.segments for r in self.train], rates)


class Task(NamedTuple):
    """How a draw is made, from which overlap an event counts as found, and the family of tasks that share their draws.

    The tasks of a family have the same examples and the same test notes at the same places.
    """

    make: Callable[[np.random.Generator, int, int], Draw]
    min_iou: float = 0.5
    family: str = ""


class TooFewError(Exception):
    """A set does not hold as many examples as were asked for."""


def draw(task: str, seed: int, n_examples: int) -> Draw:
    """One of `TASKS`, with `n_examples` of each known class to train on; the same for the same numbers."""
    make, min_iou, family = TASKS[task]
    drawn = make(np.random.default_rng([zlib.crc32((family or task).encode()), seed]), seed, n_examples)
    labels = [s.label for r in drawn.train for s in r.segments]
    for label in drawn.classes:
        if labels.count(label) < n_examples:
            raise TooFewError(f"draw {seed} has {labels.count(label)} examples of {label}, not {n_examples}")
    return replace(drawn, min_iou=min_iou)


def data_folder(name: str = "") -> Path:
    """Where the data, or one set of it, is; ends the program when it is not there."""
    folder = Path(os.environ.get("OUTLARK_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / name
    if not folder.is_dir():
        raise SystemExit(f"no real recordings in {folder}; set OUTLARK_DATA to the folder that holds the sets")
    return folder


def _zebra_finch(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """3 of 6 syllables of one bird are known; examples from 4 recordings, test on the other 10."""
    recordings = _annotated("zebra-finch-syllables")
    order = rng.permutation(sorted(recordings)).tolist()
    labels = sorted({s.label for r in recordings.values() for s in r.segments})
    known = sorted(rng.choice(labels, 3, replace=False).tolist())
    train = {name: recordings[name] for name in order[:4]}
    return Draw(_with_examples(train, known, n_examples, rng), [recordings[name] for name in order[4:]], known)


def _bengalese_finch(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """3 of 9 syllables of one bird are known; examples from two recordings, test on the other 13."""
    return _known_among_others("bengalese-finch-syllables", 2, 3, rng, n_examples)


def _canary(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """3 of 12 syllables of one bird are known; classes occur in few recordings, so the rest of the same is the test."""
    recordings = _annotated("canary-syllables")
    pool = [label for label, n in _counts(recordings.values()).items() if n >= n_examples + LEAST_TO_FIND]
    known = sorted(rng.choice(pool, 3, replace=False).tolist())
    train = _with_examples(recordings, known, n_examples, rng, SHORTEST_S)
    examples = [s for r in train for s in r.segments]
    test = [
        replace(
            r, segments=[s for s in r.segments if s not in examples], left_out=[s for s in r.segments if s in examples]
        )
        for r in recordings.values()
    ]
    return Draw(train, test, known)


def _neotropical_songs(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """One song or call of one species is known; examples from four recordings of any species, test on the other 26."""
    return _known_among_others("field-neotropical-songs", 4, 1, rng, n_examples)


def _zebra_finch_2(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """3 of 8 syllables of one bird are known; examples from four recordings, test on the other 26."""
    return _known_among_others("zebra-finch-2-syllables", 4, 3, rng, n_examples)


def _neotropical_songs_2(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """As `_neotropical_songs`: one of four other species, test on 24 recordings."""
    return _known_among_others("field-neotropical-songs-2", 4, 1, rng, n_examples)


def _many_kinds(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """One of 17 songs and calls of nine genera is known; examples from 12 recordings of any of them, test on 76."""
    return _known_among_others("field-many-kinds", 12, 1, rng, n_examples)


def _mouse(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """All calls are one class; examples from two recordings, test on the other five."""
    return _known_among_others("mouse-calls", 2, 1, rng, n_examples)


def _known_among_others(folder: str, n_train: int, n_known: int, rng: np.random.Generator, n_examples: int) -> Draw:
    """Known classes that the training recordings hold enough of, and the others something to find."""
    recordings = _annotated(folder)
    for _ in range(TRIES):
        order = rng.permutation(sorted(recordings)).tolist()
        train, test = ({name: recordings[name] for name in names} for names in (order[:n_train], order[n_train:]))
        there, to_find = _counts(train.values()), _counts(test.values())
        pool = [label for label in there if there[label] >= n_examples and to_find.get(label, 0) >= LEAST_TO_FIND]
        if len(pool) >= n_known:
            known = sorted(rng.choice(pool, n_known, replace=False).tolist())
            return Draw(
                _with_examples(train, known, n_examples, rng, SHORTEST_S),
                [_without_odd(r) for r in test.values()],
                known,
            )
    raise TooFewError(f"no {n_train} recordings of {folder} hold {n_examples} examples of {n_known} classes")


def _finch(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """All notes of a bird are one class, against background; examples from one of its recordings, test on the others.

    Where a bird has recordings with enough notes, the examples come from one of these.
    """
    recordings = {name: r for name, r in _annotated("finch-segmentation").items() if r.segments}
    of_bird = defaultdict(list)
    for name in sorted(recordings):
        of_bird[_bird(name)].append(name)
    several = [names for names in of_bird.values() if len(names) > 1]
    names = several[seed % len(several)]
    most = max(len(recordings[name].segments) for name in names)
    rich = [name for name in names if len(recordings[name].segments) >= min(n_examples, most)]
    chosen = str(rng.choice(rich))
    known = [recordings[chosen].segments[0].label]
    train = _with_examples({chosen: recordings[chosen]}, known, n_examples, rng)
    return Draw(train, [recordings[name] for name in names if name != chosen], known)


def _field(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """The most frequent class of one recording is known; examples from anywhere in it, the rest of it is the test."""
    name = FIELD[seed % len(FIELD)]
    recording = _annotated("field-recordings-small")[name]
    labels = [s.label for s in recording.segments]
    known = max(sorted(set(labels)), key=labels.count)
    _check_enough(labels.count(known), n_examples, f"notes in {name}")
    train = _with_examples({name: recording}, [known], n_examples, rng)
    examples = train[0].segments
    rest = [s for s in recording.segments if s not in examples]
    return Draw(train, [replace(recording, segments=rest, left_out=examples)], [known])


def _piha(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """All bird sounds are one class, against forest; examples from two recordings, test on the other five."""
    recordings = _annotated("screaming-piha-field")
    sizes = {name: len(r.segments) for name, r in recordings.items()}
    pairs = [pair for pair in combinations(sorted(recordings), 2) if sum(sizes[name] for name in pair) >= n_examples]
    if not pairs:
        raise TooFewError(f"no two recordings have {n_examples} boxes")
    chosen = pairs[rng.integers(len(pairs))]
    train = _with_examples({name: recordings[name] for name in chosen}, ["bird"], n_examples, rng)
    return Draw(train, [recordings[name] for name in sorted(recordings) if name not in chosen], ["bird"])


def _in_noise(rng: np.random.Generator, seed: int, n_examples: int, *, snr_db: float) -> Draw:
    """Syllables cut out of `_zebra_finch`: clean clips train, clips of other recordings in field noise are the test.

    Signal-to-noise ratio: mean power of the test notes against that of the noise, within .5 to 10 kHz (`mixed`).
    """
    clean = _zebra_finch(rng, seed, n_examples)
    notes = [(r, s) for r in clean.test for s in r.segments]
    labels = np.array([s.label for _, s in notes])
    some = [rng.permutation(np.flatnonzero(labels == label))[:IN_NOISE] for label in np.unique(labels)]
    clips = [_cut(*notes[i]) for i in rng.permutation(np.concatenate(some))]
    rate = clips[0].rate
    samples, starts = spread_out([clip.samples for clip in clips], rate, rng)
    segments = [
        replace(clip.segments[0], start=start, end=start + len(clip.samples))
        for clip, start in zip(clips, starts, strict=True)
    ]
    noise = stretch(_noise(NOISE[seed % len(NOISE)], rate), len(samples), rate, rng)
    noisy = mixed(samples, [slice(s.start, s.end) for s in segments], noise, rate, snr_db)
    train = [_cut(r, s) for r in clean.train for s in r.segments]
    return Draw(train, [Recording(noisy, rate, segments)], clean.classes, clips=True)


def _flight_calls(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """The paper's protocol: a few clips of 3 species train; all other clips, 5 more species, one after the other."""
    folder = data_folder("clo-flight-calls")
    rows = _rows(folder / "protocol_56.csv")
    known = sorted({row["label"] for row in rows if row["role"] == "known"})
    for label in known:
        _check_enough(sum(row["label"] == label for row in rows), n_examples, f"clips of {label}")
    train = [row for label in known for row in _some(rows, label, n_examples, rng)]
    return _clip_draw(folder, train, [row for row in rows if row not in train], known, rng)


def _digits(rng: np.random.Generator, seed: int, n_examples: int) -> Draw:
    """3 of 10 digits are known; examples of one speaker, test on the other one."""
    folder = data_folder("spoken-digits")
    rows = _rows(folder / "clips.csv")
    own, other = ([row for row in rows if row["source_group"] == who] for who in np.roll(SPEAKERS, seed).tolist())
    labels = sorted({row["label"] for row in rows})
    known = sorted(rng.choice(labels, 3, replace=False).tolist())
    train = [row for label in known for row in _some(own, label, n_examples, rng)]
    test = [
        row for label in labels for row in _some(other, label, KNOWN_DIGITS if label in known else UNKNOWN_DIGITS, rng)
    ]
    return _clip_draw(folder, train, test, known, rng)


def _counts(recordings: Iterable[Recording]) -> dict[str, int]:
    """How many notes of each class there are; very short and odd ones and sounds of other birds are not counted."""
    labels = sorted(s.label for r in recordings for s in r.segments if s.duration_s > SHORTEST_S)
    return {label: labels.count(label) for label in labels if label != "other_bird" and not label.endswith(ODD)}


def _without_odd(recording: Recording) -> Recording:
    """Notes that their README says to ignore are left out of the scoring."""
    odd = [s for s in recording.segments if s.label.endswith(ODD)]
    return replace(recording, segments=[s for s in recording.segments if s not in odd], left_out=odd)


IN_NOISE_FAMILY = "zebra-finch-in-noise"
TASKS: Mapping[str, Task] = {
    "zebra-finch-syllables": Task(_zebra_finch),
    "bengalese-finch-syllables": Task(_bengalese_finch),
    "canary-syllables": Task(_canary),
    "field-neotropical-songs": Task(_neotropical_songs, min_iou=0.3),
    "zebra-finch-2-syllables": Task(_zebra_finch_2),
    "field-neotropical-songs-2": Task(_neotropical_songs_2, min_iou=0.3),
    "field-many-kinds": Task(_many_kinds, min_iou=0.3),
    "mouse-calls": Task(_mouse),
    "finch-segmentation": Task(_finch),
    "field-recordings-small": Task(_field, min_iou=0.3),
    "screaming-piha-field": Task(_piha, min_iou=0.3),
    "clo-flight-calls": Task(_flight_calls),
    "spoken-digits": Task(_digits),
    **{f"{IN_NOISE_FAMILY}-{snr}dB": Task(partial(_in_noise, snr_db=snr), family=IN_NOISE_FAMILY) for snr in SNRS_DB},
}


@cache
def _annotated(name: str) -> dict[str, Recording]:
    """File name → recording; those without notes, too."""
    folder = data_folder(name)
    annotations: dict[str, list[dict[str, str]]] = {path.name: [] for path in sorted(folder.glob("*.flac"))}
    for row in _rows(folder / "annotations.csv"):
        annotations[row["file"]].append(row)
    found = {}
    for file, rows in annotations.items():
        samples, rate = read(folder / file)
        segments = [Segment.from_seconds(float(r["begin_s"]), float(r["end_s"]), r["label"], rate) for r in rows]
        found[file] = Recording(samples, rate, in_order(segments))
    return found


@cache
def _clip(path: Path) -> Recording:
    samples, rate = read(path)
    return Recording(samples, rate, [Segment(start=0, end=len(samples), sample_rate=rate, label=path.parent.name)])


@cache
def _noise(name: str, rate: int) -> np.ndarray:
    return resample(*read(data_folder("long-audio-machine-labels") / name), rate)


def _cut(recording: Recording, note: Segment) -> Recording:
    """The note alone."""
    samples = recording.samples[note.start : note.end]
    return Recording(samples, recording.rate, [replace(note, start=0, end=len(samples))])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _bird(name: str) -> str:
    """The bird that a file of finch-segmentation is of: the word after the species."""
    found = re.match(r"(zebra_finch|bengalese_finch|canary)_[A-Za-z0-9]+", name)
    return found[0] if found else name


def _check_enough(there: int, n_examples: int, what: str) -> None:
    if there <= n_examples:
        raise TooFewError(f"{n_examples} examples of {there} {what} leave none to test on")


def _some(rows: Clips, label: str, n: int, rng: np.random.Generator) -> Clips:
    """At most n rows of the label, in random order."""
    own = [row for row in rows if row["label"] == label]
    return [own[i] for i in rng.permutation(len(own))[:n]]


def _with_examples(
    recordings: Mapping[str, Recording],
    known: Iterable[str],
    n_examples: int,
    rng: np.random.Generator,
    shortest_s: float = 0.0,
) -> list[Recording]:
    """The recordings that hold a drawn example, longer than `shortest_s`, with nothing but the examples marked."""
    drawn = defaultdict(list)
    for label in known:
        pool = [
            (name, s)
            for name, r in recordings.items()
            for s in r.segments
            if s.label == label and s.duration_s > shortest_s
        ]
        for i in rng.permutation(len(pool))[:n_examples]:
            drawn[pool[i][0]].append(pool[i][1])
    return [replace(recordings[name], segments=in_order(drawn[name])) for name in sorted(drawn)]


def _clip_draw(folder: Path, train: Clips, test: Clips, known: list[str], rng: np.random.Generator) -> Draw:
    """Clips to train on; test clips joined without gaps in random order."""
    clips = [_clip(folder / test[i]["file"]) for i in rng.permutation(len(test))]
    ends = np.cumsum([len(clip.samples) for clip in clips]).tolist()
    segments = [
        replace(clip.segments[0], start=end - len(clip.samples), end=end) for clip, end in zip(clips, ends, strict=True)
    ]
    joined = Recording(np.concatenate([clip.samples for clip in clips]), clips[0].rate, segments)
    return Draw([_clip(folder / row["file"]) for row in train], [joined], known, clips=True)
