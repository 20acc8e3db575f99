"""What is not a note of a class: sounds that the class would accept, and that somebody has rejected.

A rejected sound is described as a note is, by the same kernel, and what is nearer to the sounds that were rejected for
a class than to the class is not a note of it (docs/decisions/013-negative-examples.md). Annotations are loose, and may
be long: what is described is what the class would find within them, at whatever start and length.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from outlark.detection.note_level import NoteModel
from outlark.detection.scorers import ACTIVE_SHARE, LOOKED_AT
from outlark.detection.training import Material, training_record
from outlark.errors import InputError
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.maths.description import Description, describe, score
from outlark.maths.scoring import distances_to_all
from outlark.segments import Segment

#: At most so many samples describe what a class rejects, those that score highest: more would take time.
MOST = 500
#: Starts that are looked at together.
AT_ONCE = 4096


class Spans(NamedTuple):
    """What a class would find in an annotation: samples (n, d), and what they score, (n,)."""

    samples: np.ndarray
    scores: np.ndarray

    @property
    def best(self) -> float:
        """The best score, 0 where nothing would be found."""
        return float(self.scores.max(initial=0.0))


def check_negatives(negatives: Material, classes: Collection[Any], notes: Material | None = None) -> None:
    """Refuse what no class can reject, and what is said to be a note of the class as well.

    Parameters
    ----------
    negatives : Material
    classes : labels of the classes
    notes : Material, optional
        The notes in the same recordings.
    """
    for number, (r, segment) in enumerate(negatives.notes):
        where = (
            f"clip {number}" if negatives.clips else f"{segment.start_s:.3f} to {segment.end_s:.3f} s of recording {r}"
        )
        if segment.label not in classes:
            known = ", ".join(map(str, sorted(set(classes))))
            raise InputError(f"{where} is not {segment.label!r}, but there is no such class; there are {known}")
        for note in [] if notes is None else notes.segments[r]:
            shared = min(note.end, segment.end) - max(note.start, segment.start)
            shorter = min(note.end - note.start, segment.end - segment.start)
            if note.label == segment.label and 2 * shared >= shorter:
                raise InputError(
                    f"{where} is not {segment.label!r}, but a note {note.label!r} is marked there as well, at "
                    f"{note.start_s:.3f} to {note.end_s:.3f} s; keep one of them"
                )


def take_in(
    front_end: NoteFrontEnd, model: NoteModel, negatives: Material, share: float = LOOKED_AT
) -> tuple[NoteModel, list[dict[str, Any]]]:
    """The model, whose classes reject these negatives, and a record of each.

    Records are those of `training_record`, and "score": the best score that the class had there, 0 for less than this
    share of its threshold.
    """
    transform = front_end.transform_clips if negatives.clips else front_end.transform
    labels = model.describer.classes_.tolist()
    found: list[tuple[Any, Spans]] = []
    for recording, segments in zip(negatives.recordings, negatives.segments, strict=True):
        frames = transform(recording if segments else recording[:0])
        found += [(s.label, spans_within(front_end, model, frames, s, labels.index(s.label), share)) for s in segments]
    rejected = [_rejected(model, c, [spans for of, spans in found if of == label]) for c, label in enumerate(labels)]
    records = [
        {**record, "score": spans.best} for record, (_, spans) in zip(training_record(negatives), found, strict=True)
    ]
    return replace(model, rejected=rejected if any(d is not None for d in rejected) else None), records


def spans_within(
    front_end: NoteFrontEnd, model: NoteModel, frames: Frames, segment: Segment, c: int, share: float = LOOKED_AT
) -> Spans:
    """All that class c would find in an annotation: notes of its lengths that reach a share of its threshold.

    A note lies in the annotation if half of the shorter of the two does.
    """
    hop, step, least = front_end.hop_samples_, model.step, share * float(model.thresholds[c])
    start, end = segment.start / hop, segment.end / hop
    heard = np.concatenate([[0], np.cumsum(frames.activity > 0.0)])
    samples, scores = [np.empty((0, model.describer.n_features_in_))], [np.empty(0)]
    for length in model.lengths[model.allowed[:, c]].tolist():
        whole = max(1, round(length))
        starts = np.arange(max(0, int(start) - whole) // step * step, min(int(end) + 1, len(frames) - whole + 1), step)
        inside = 2 * _shared(starts, starts + whole, start, end) >= min(whole, end - start)
        inside &= heard[starts + whole] - heard[starts] >= ACTIVE_SHARE * whole
        for some in (starts[inside][at : at + AT_ONCE] for at in range(0, int(inside.sum()), AT_ONCE)):
            n_starts = int(some[-1] - some[0]) // step + 1
            described = front_end.describe(
                frames.features, start=float(some[0]), n_starts=n_starts, length=length, step=step
            )
            Z = described[(some - some[0]) // step]
            of_class = model.describer.class_scores(Z)[:, c]
            samples.append(Z[of_class >= least])
            scores.append(of_class[of_class >= least])
    return Spans(np.concatenate(samples), np.concatenate(scores))


def nearest_first(spans: Spans, of_class: Description, before: np.ndarray, most: int = MOST) -> np.ndarray:
    """The samples (m, d) that describe what a class rejects: those of before, and new ones until all are rejected.

    One after the other, the one that scores highest of those that are still nearer to the class than to what it
    rejects. At most `most`.

    >>> of_class = describe(np.array([[0.0], [0.2]]), 1.0, 0.1)
    >>> Z = np.array([[0.9], [1.0], [1.1]])
    >>> nearest_first(Spans(Z, np.array([0.3, 0.2, 0.1])), of_class, np.empty((0, 1)))
    array([[0.9]])
    """
    X, left, scores = before, spans.samples, spans.scores
    while True:
        if len(X) and len(left):
            by_rejected = score(distances_to_all([describe(X, of_class.ell, of_class.ratio)], left)[:, 0])
            left, scores = left[by_rejected <= scores], scores[by_rejected <= scores]
        if not len(left) or len(X) >= most:
            return X
        X = np.concatenate([X, left[[scores.argmax()]]])


class AsGoodAsNotes(UserWarning):
    """Negatives score as high as the notes of their class."""


def as_good_as_notes(model: NoteModel, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For each class, in words, which negatives score as high as its own notes do when left out."""
    for c, label in enumerate(model.describer.classes_.tolist()):
        left_out = np.empty(0) if model.left_out is None else model.left_out[c]
        own = [record for record in records if record["label"] == label]
        high = [record for record in own if len(left_out) and record["score"] >= left_out.min()]
        if high:
            best = max(high, key=lambda record: record["score"])
            where = best["name"] or f"recording {best['recording']}"
            yield (
                f"{len(high)} of {len(own)} negatives of {label!r} cannot be told apart from its notes by the score, "
                f"such as the one at {best['start_s']:.3f} s of {where}, which has {best['score']:.2f} (its notes, "
                f"when left out, from {left_out.min():.2f} on): what is more like them than like the class is "
                "rejected, true notes as well"
            )


def _rejected(model: NoteModel, c: int, negatives: Sequence[Spans]) -> Description | None:
    """What class c rejects, before and now."""
    before = None if model.rejected is None else model.rejected[c]
    if not negatives:
        return before
    of_class = model.describer.descriptions_[c]
    together = Spans(*(np.concatenate(column) for column in zip(*negatives, strict=True)))
    none = np.empty((0, together.samples.shape[1]))
    X = nearest_first(together, of_class, none if before is None else before.X)
    return describe(X, of_class.ell, of_class.ratio) if len(X) else None


def _shared(starts: np.ndarray, ends: np.ndarray, start: float, end: float) -> np.ndarray:
    """How much spans have in common with one, negative if there is something between them."""
    return np.minimum(ends, end) - np.maximum(starts, start)
