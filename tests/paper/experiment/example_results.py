"""Results to make tables, pictures and reports of: of real detectors, or of the truth with mistakes."""

from dataclasses import replace
from functools import cache

from outlark import PKNN, FrameDetector, NoteDetector
from outlark.data.synthetic import Note
from outlark.paper.experiment.dataset import Dataset, Protocol, draw
from outlark.paper.experiment.run import Method, Results, outcome

DETECTORS = (
    Method("mddkm-paper", "literal", FrameDetector.paper),
    Method("mddkm", "whole notes", NoteDetector),
    Method("pknn-paper", "PKNN", lambda: FrameDetector.paper(PKNN.paper())),
)
SMALL = Protocol(max_test=2)
synthetic = cache(Dataset.synthetic)


def fitted(method, drawn):
    return method.make().fit([n.samples for n in drawn.train], [n.label for n in drawn.train], drawn.sample_rate)


@cache
def run(seeds=(1, 2, 3)):
    """Results of real detectors, and what each of them found: (method, seed) → draw, segments."""
    data, outcomes, found = synthetic(), [], {}
    for seed in seeds:
        drawn = draw(data, SMALL, seed)
        for method in DETECTORS:
            detector = fitted(method, drawn)
            segments = detector.detect(drawn.audio, drawn.sample_rate)
            learnt = {
                "thresholds": dict(zip(detector.layout_.classes.tolist(), detector.layout_.thresholds, strict=True))
            }
            found[method.name, seed] = drawn, segments
            outcomes.append(outcome(method.name, seed, drawn, segments, learnt))
    return Results(data=data, protocol=SMALL, methods=DETECTORS, seeds=seeds, outcomes=outcomes), found


def with_mistakes(data, protocol=SMALL, seeds=(1, 2), methods=(("mddkm", "ours"), ("other", "theirs"))):
    """Results of methods that find the truth, but miss a note: the first one the first known note, and so on."""
    chosen = [Method(name, title, NoteDetector) for name, title in methods]
    outcomes = []
    for seed in seeds:
        drawn = draw(data, protocol, seed)
        right = [segment for segment in drawn.truth if segment.label in drawn.known]
        for i, method in enumerate(chosen):
            learnt = {"thresholds": dict.fromkeys(drawn.known, seed + i / 4), "length_scale": 2.0 * seed}
            missed = right[: i % len(right)] + right[i % len(right) + 1 :]
            outcomes.append(outcome(method.name, seed, drawn, missed, learnt))
    return Results(data=data, protocol=protocol, methods=chosen, seeds=tuple(seeds), outcomes=outcomes)


def renamed(names):
    """The made-up notes with other names; the known classes stay known."""
    data = synthetic()
    notes = tuple(Note(names.get(note.label, note.label), note.samples) for note in data.notes)
    return replace(data, name="renamed", notes=notes, known=tuple(names.get(label, label) for label in data.known))


def without_known():
    """The made-up notes, with known classes that differ from seed to seed."""
    return replace(synthetic(), known=None)
