"""A round of review: what is found in some recordings is confirmed or rejected, and the model is trained again.

A model from a few examples searches half of the test recordings of a draw of `real_note_tasks` (of a single one: its
first half). What matches a true note is confirmed; what lies for less than half of its length in true notes of its
class is rejected. The other half of the recordings is the test. Rows: the model as it was; with thresholds above what
was rejected, as far as they stay below what left-out notes score; with what was rejected described, as
`NoteDetector.reject` does it; with both; with confirmed notes as examples; and with these and what was rejected.
Event F, pooled over the classes, with precision and recall; mean ± standard error.

    python benchmarks/review_rounds.py                                       # the sets of decision 13
    python benchmarks/review_rounds.py --lower .6                            # from thresholds that are .6 as high
    python benchmarks/review_rounds.py --sets canary-syllables --draws 3     # a quick look
"""

import argparse
import copy
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from real_note_tasks import TASKS, Draw, Recording, data_folder, draw
from real_notes import as_text, compare, mean_text, versions_text
from threadpoolctl import threadpool_limits

from outlark.detection.detector import NoteDetector
from outlark.metrics import EventScores
from outlark.segments import Segment

#: Settings were compared on these …
CHOSEN_ON = ("bengalese-finch-syllables", "clo-flight-calls", "spoken-digits")
#: … and are judged on these.
JUDGED_ON = ("zebra-finch-syllables", "canary-syllables", "field-neotropical-songs", "finch-segmentation",
             "zebra-finch-in-noise-10dB")  # fmt: skip
EXAMPLES, DRAWS = 3, 10
#: Confirmed notes of a class that become examples: with those that there are, as many as `outlark train --from` takes.
CONFIRMED = 17
#: A threshold lies so many times above a score.
ABOVE = 1.05
ROWS = {
    "before": "before the review",
    "thresholds": "thresholds above what was rejected",
    "described": "what was rejected described",
    "both": "both of these",
    "examples": "confirmed notes as examples",
    "all": "these, and what was rejected described",
}


class Review(NamedTuple):
    """For each recording the true notes that were found, and what was found and is not a note of its label."""

    confirmed: list[list[Segment]]
    rejected: list[list[Segment]]


class Measures(NamedTuple):
    """Of one row on one draw."""

    f: float
    precision: float
    recall: float


def halves(drawn: Draw, seed: int) -> tuple[list[Recording], list[Recording]]:
    """What is reviewed, and what is the test."""
    if len(drawn.test) == 1:
        (whole,) = drawn.test
        notes = sorted(whole.segments, key=lambda s: s.start)
        at = notes[len(notes) // 2].start
        first = replace(whole, samples=whole.samples[:at], segments=[s for s in notes if s.end <= at])
        moved = [replace(s, start=s.start - at, end=s.end - at) for s in notes if s.start >= at]
        return [first], [replace(whole, samples=whole.samples[at:], segments=moved)]
    order = np.random.default_rng([13, seed]).permutation(len(drawn.test)).tolist()
    half = len(order) // 2
    return [drawn.test[i] for i in order[:half]], [drawn.test[i] for i in order[half:]]


def shared(one: Segment, other: Segment) -> float:
    """Seconds that they have in common."""
    return max(0.0, min(one.end_s, other.end_s) - max(one.start_s, other.start_s))


def review(recordings: Sequence[Recording], detector: Any, drawn: Draw) -> Review:
    """What somebody who knows the truth says of all that was found."""
    found = Review([], [])
    for recording in recordings:
        confirmed, rejected = [], []
        for segment in detector.detect(recording.samples, recording.rate):
            if segment.label is None or any(2 * shared(segment, s) > segment.duration_s for s in recording.left_out):
                continue
            true = [s for s in recording.segments if s.label == segment.label]
            if sum(shared(segment, s) for s in true) < segment.duration_s / 2:
                rejected.append(segment)
            confirmed += [s for s in true if _iou(segment, s) >= drawn.min_iou]
        found.confirmed.append(confirmed)
        found.rejected.append(rejected)
    return found


def _iou(one: Segment, other: Segment) -> float:
    return shared(one, other) / (max(one.end_s, other.end_s) - min(one.start_s, other.start_s))


def with_confirmed(drawn: Draw, reviewed: Sequence[Recording], confirmed: Sequence[Sequence[Segment]]) -> Draw:
    """The draw with confirmed notes as further examples, at most `CONFIRMED` of each class."""
    left, more = dict.fromkeys(drawn.classes, CONFIRMED), []
    for recording, notes in zip(reviewed, confirmed, strict=True):
        taken = []
        for note in notes:
            if left[note.label] > 0:
                left[note.label] -= 1
                taken.append(note)
        if taken and drawn.clips:
            more += [
                Recording(
                    recording.samples[s.start : s.end], recording.rate, [replace(s, start=0, end=s.end - s.start)]
                )
                for s in taken
            ]
        elif taken:
            more.append(replace(recording, segments=taken))
    return replace(drawn, train=[*drawn.train, *more])


def _cut(recording: Recording, note: Segment) -> Recording:
    alone = replace(note, start=0, end=note.end - note.start)
    return Recording(recording.samples[note.start : note.end], recording.rate, [alone])


def lowered(detector: NoteDetector, share: float) -> NoteDetector:
    return detector if share == 1.0 else detector.set_thresholds(share * detector.layout_.thresholds)


def rejecting(detector: NoteDetector, reviewed: Sequence[Recording], said: Review) -> NoteDetector:
    """A copy that was given the rejected sounds."""
    pairs, other = [pair for pair in zip(reviewed, said.rejected, strict=True) if pair[1]], copy.copy(detector)
    if not pairs:
        return other
    return other.reject([r.samples for r, _ in pairs], [s for _, s in pairs], [r.rate for r, _ in pairs])


def raised(detector: NoteDetector) -> np.ndarray:
    """Thresholds (C,) above what the negatives of a detector score, as far as no left-out note is lost."""
    model, found = detector.note_model_, []
    assert model is not None
    assert model.left_out is not None
    for label, threshold, left_out in zip(detector.classes_.tolist(), model.thresholds, model.left_out, strict=True):
        scores = [note["score"] for note in detector.model_.negatives if note["label"] == label]
        found.append(max(threshold, min(ABOVE * max(scores, default=0.0), left_out.min(initial=np.inf))))
    return np.array(found)


#: A detector, and thresholds in place of its own.
Variant = tuple[NoteDetector, np.ndarray]


def variants(
    drawn: Draw, reviewed: Sequence[Recording], lower: float, rows: Sequence[str]
) -> tuple[dict[str, Variant], Review]:
    """The detector of each row, and what the review said. Rows that differ in thresholds alone share one."""
    before = lowered(drawn.fit(NoteDetector()), lower)
    said = review(reviewed, before, drawn)
    any_rejected = any(said.rejected)
    described = rejecting(before, reviewed, said) if any_rejected else before
    own, higher = before.layout_.thresholds, raised(described)
    found = {
        "before": (before, own),
        "thresholds": (before, higher),
        "described": (described, own),
        "both": (described, higher),
    }
    if {"examples", "all"} & set(rows):
        more = lowered(with_confirmed(drawn, reviewed, said.confirmed).fit(NoteDetector()), lower)
        found["examples"] = (more, more.layout_.thresholds)
        found["all"] = (rejecting(more, reviewed, said) if any_rejected else more, more.layout_.thresholds)
    return {row: found[row] for row in rows}, said


def measured(found: Sequence[Variant], test: Sequence[Recording], drawn: Draw) -> list[Measures]:
    """Of each variant; scores are computed once for each detector."""
    events: list[EventScores | None] = [None for _ in found]
    for recording in test:
        scores = {id(d): d.scores(recording.samples, recording.rate) for d in {id(d): d for d, _ in found}.values()}
        for number, (detector, thresholds) in enumerate(found):
            of_detector = scores[id(detector)]
            segments = detector.decide(replace(of_detector, layout=replace(of_detector.layout, thresholds=thresholds)))
            part = compare(recording, segments, drawn.classes, drawn.min_iou).events
            before = events[number]
            events[number] = part if before is None else before + part
    pooled = [of_row.pooled for of_row in events if of_row is not None]
    return [Measures(p.f, p.precision, p.recall) for p in pooled]


def run_draw(task: str, seed: int, lower: float, rows: Sequence[str]) -> tuple[list[Measures], int, int]:
    """The measures of all rows, and how many notes were confirmed and sounds rejected."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        drawn = draw(task, seed, EXAMPLES)
        reviewed, test = halves(drawn, seed)
        detectors, said = variants(drawn, reviewed, lower, rows)
        found = measured([detectors[row] for row in rows], test, drawn)
    return found, sum(map(len, said.confirmed)), sum(map(len, said.rejected))


def table(results: Sequence[tuple[list[Measures], int, int]], rows: Sequence[str]) -> list[list[str]]:
    found = [["", "event F", "precision", "recall"]]
    for number, row in enumerate(rows):
        values = np.array([measures[number] for measures, _, _ in results])
        found.append([ROWS[row], *(mean_text(values[:, m]) for m in range(3))])
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(TASKS), default=[*CHOSEN_ON, *JUDGED_ON], metavar="SET")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--lower", type=float, default=1.0, metavar="SHARE", help="of the thresholds that are learnt")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    data_folder()
    print(" ".join(["python benchmarks/review_rounds.py", *arguments]))
    print(versions_text(), end="\n\n")
    for task in options.sets:
        jobs = (delayed(run_draw)(task, seed, options.lower, options.rows) for seed in range(options.draws))
        results = Parallel(n_jobs=options.jobs)(jobs)
        confirmed, rejected = (np.array([result[i] for result in results]) for i in (1, 2))
        with_some = int((rejected > 0).sum())
        said = f"{confirmed.mean():.0f} confirmed, {rejected.mean():.1f} rejected ({with_some} of {len(results)} draws)"
        print(as_text(f"{task}: {said}", table(results, options.rows), options.markdown), end="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
