"""Negative examples: sounds that a class would accept but that are not notes of it.

A rejected sound is described as notes are, with the same kernel, and a sound that is nearer to those rejected for a
class than to the class is not a note of it (docs/decisions/013-negative-examples.md). Annotations are loose and may
be long: what is described is whatever the class would find within them, at any onset and length.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from outlark.detection.confirmation import joined
from outlark.detection.scorer import ACTIVE_SHARE, ClassScorer
from outlark.detection.second_stage import CANDIDATE_SHARE
from outlark.detection.thresholds import LEAST_SHARE, LOWEST
from outlark.detection.training import Material, training_record
from outlark.errors import InputError
from outlark.features.base import Frames
from outlark.maths.description import Description, Distances, describe, score
from outlark.segments import Segment

if TYPE_CHECKING:
    from outlark.detection.model import NoteModel

#: At most this many samples describe what a class rejects, those that score highest: more would be slow.
MAX_NEGATIVES = 500
#: Starts scored together.
STARTS_TOGETHER = 4096
#: Nothing below this score is a note or, with a second stage, a candidate: weaker scores need no comparison.
WEAK = CANDIDATE_SHARE * LOWEST * LEAST_SHARE


class Spans(NamedTuple):
    """What a class would find in an annotation: samples (n, d), and what they score, before and after confirmation."""

    samples: np.ndarray
    scores: np.ndarray
    confirmed: np.ndarray

    @property
    def best(self) -> float:
        """The best score, or 0."""
        return float(self.confirmed.max(initial=0.0))


def check_negatives(negatives: Material, classes: Collection[Any], notes: Material | None = None) -> None:
    """Refuse negatives of unknown classes, and those that overlap a note of the class in the same recordings."""
    for number, (r, segment) in enumerate(negatives.notes):
        where = (
            f"clip {number}" if negatives.clips else f"{segment.start_s:.3f} to {segment.end_s:.3f} s of recording {r}"
        )
        if segment.label not in classes:
            known = ", ".join(map(str, sorted(set(classes))))
            raise InputError(f"{where} is not {segment.label!r}, but there is no such class; there are {known}")
        for note in [] if notes is None else notes.segments[r]:
            if note.label == segment.label and note.span.shares_half(segment.span):
                raise InputError(
                    f"{where} is not {segment.label!r}, but a note {note.label!r} is annotated there as well, at "
                    f"{note.start_s:.3f} to {note.end_s:.3f} s; keep one of them"
                )


def negatives_within(
    model: "NoteModel", material: Material, least: np.ndarray
) -> tuple[list[list[Spans]], list[dict[str, Any]]]:
    """For each class what it would find in its negatives, and a record of each negative.

    Found is what scores `least` (C,) or more. Records are those of `training_record`, and "score": the best score of
    the class there, or 0.
    """
    front_end = model.front_end
    transform = front_end.transform_clips if material.clips else front_end.transform
    labels, best = model.classes.tolist(), []
    found: list[list[Spans]] = [[] for _ in labels]
    for recording, segments in zip(material.recordings, material.segments, strict=True):
        frames = transform(recording if segments else recording[:0])
        for segment in segments:
            c = labels.index(segment.label)
            found[c].append(spans_within(model, frames, segment, c, float(least[c])))
            best.append(found[c][-1].best)
    records = [{**record, "score": score} for record, score in zip(training_record(material), best, strict=True)]
    return found, records


def spans_within(model: "NoteModel", frames: Frames, segment: Segment, c: int, least: float) -> Spans:
    """What class c would find in an annotation: notes of its lengths that score `least` or more.

    A note lies in the annotation if they share half of the shorter of the two.
    """
    front_end, confirmation = model.front_end, model.confirmation
    hop, step = front_end.hop_samples_, model.step
    start, end = segment.start / hop, segment.end / hop
    n_active = np.concatenate([[0], np.cumsum(frames.activity > 0.0)])
    found = [Spans(np.empty((0, model.class_model.n_features_in_)), np.empty(0), np.empty(0))]
    for length in model.lengths[model.allowed[:, c]].tolist():
        whole = max(1, round(length))
        starts = np.arange(max(0, int(start) - whole) // step * step, min(int(end) + 1, len(frames) - whole + 1), step)
        inside = 2 * (np.minimum(starts + whole, end) - np.maximum(starts, start)) >= min(whole, end - start)
        inside &= n_active[starts + whole] - n_active[starts] >= ACTIVE_SHARE * whole
        for some in (starts[inside][at : at + STARTS_TOGETHER] for at in range(0, int(inside.sum()), STARTS_TOGETHER)):
            n_starts = int(some[-1] - some[0]) // step + 1
            described = front_end.describe(
                frames.features, start=float(some[0]), n_starts=n_starts, length=length, step=step
            )
            Z = described[(some - some[0]) // step]
            own = model.class_model.class_scores(Z)[:, c]
            high = np.flatnonzero(own >= least)
            confirmed = own[high]
            if confirmation is not None:
                lengths = np.full(len(high), whole)
                confirmed = joined(confirmed, confirmation.scores(frames.features, some[high], lengths, c))
            found.append(Spans(Z[high], own[high], confirmed))
    return _together(found)


def _together(spans: Sequence[Spans]) -> Spans:
    return Spans(*(np.concatenate(column) for column in zip(*spans, strict=True)))


def nearest_first(spans: Spans, of_class: Description, before: np.ndarray, most: int = MAX_NEGATIVES) -> np.ndarray:
    """The samples (m, d) that describe what a class rejects: the earlier ones, and new ones until all are rejected.

    New ones are added one by one, each the highest-scoring of those still nearer to the class than to what it rejects,
    up to `most` in all.

    >>> of_class = describe(np.array([[0.0], [0.2]]), 1.0, 0.1)
    >>> Z = np.array([[0.9], [1.0], [1.1]])
    >>> scores = np.array([0.3, 0.2, 0.1])
    >>> nearest_first(Spans(Z, scores, scores), of_class, np.empty((0, 1)))
    array([[0.9]])
    """
    X, left, scores = before, spans.samples, spans.scores
    while True:
        if len(X) and len(left):
            by_rejected = score(Distances([describe(X, of_class.ell, of_class.ratio)])(left)[:, 0])
            left, scores = left[by_rejected <= scores], scores[by_rejected <= scores]
        if not len(left) or len(X) >= most:
            return X
        X = np.concatenate([X, left[[scores.argmax()]]])


class AsGoodAsNotes(UserWarning):
    """Negatives that score as high as the notes of their class."""


def as_good_as_notes(model: "NoteModel", records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each class with negatives that score as high as its own notes when left out."""
    for c, label in enumerate(model.classes.tolist()):
        left_out = model.left_out[c] if model.left_out else np.empty(0)
        own = [record for record in records if record["label"] == label]
        high = [record for record in own if len(left_out) and record["score"] >= left_out.min()]
        if high:
            best = max(high, key=lambda record: record["score"])
            where = best["name"] or f"recording {best['recording']}"
            yield (
                f"{len(high)} of {len(own)} negatives of {label!r} cannot be told apart from its notes by their score, "
                f"such as the one at {best['start_s']:.3f} s of {where}, which scores {best['score']:.2f} (left-out "
                f"notes score {left_out.min():.2f} or more): sounds more like them than like the class are rejected, "
                "true notes included"
            )


def rejected_by(model: "NoteModel", found: Sequence[Sequence[Spans]]) -> list[Description | None] | None:
    """What each class rejects, with what it rejected before; None if no class rejects anything."""
    before = [None] * len(found) if model.rejected is None else model.rejected
    rejected = [
        _rejected(own, of_class, spans)
        for own, of_class, spans in zip(before, model.class_model.descriptions_, found, strict=True)
    ]
    return rejected if any(d is not None for d in rejected) else None


def _rejected(before: Description | None, of_class: Description, found: Sequence[Spans]) -> Description | None:
    if not found:
        return before
    together = _together(found)
    X = nearest_first(together, of_class, together.samples[:0] if before is None else before.X)
    return describe(X, of_class.ell, of_class.ratio) if len(X) else None


class Rejecting:
    """The scores of a class model, but 0 for a sound that is nearer to one rejected for the class than to the class.

    `rejected` describes for each class the sounds that are not notes of it, if any, with the kernel of the classes, so
    that scores are comparable.

    >>> from outlark.estimators.mddkm import MDDKM
    >>> from outlark.maths.description import describe
    >>> settings = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5, "length_scale": 1.0}
    >>> class_model = MDDKM(**settings, balance=None, threshold=0.1).fit([[0.0], [0.1]], ["a", "a"])
    >>> rejecting = Rejecting(class_model, [describe(np.array([[1.0]]), 1.0, 0.1)])
    >>> near = np.array([[0.0], [0.9]])
    >>> class_model.class_scores(near).round(2).ravel(), rejecting.class_scores(near).round(2).ravel()
    (array([1.48, 0.15]), array([1.48, 0.  ]))
    """

    def __init__(self, class_model: ClassScorer, rejected: Sequence[Description | None]) -> None:
        self._class_model, self._rejected = class_model, rejected

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """High = member, (n, C)."""
        found = np.array(self._class_model.class_scores(X))
        for c, description in enumerate(self._rejected):
            rows = np.flatnonzero(found[:, c] >= WEAK) if description is not None else ()
            if description is not None and len(rows):
                nearer = score(Distances([description])(X[rows])[:, 0]) > found[rows, c]
                found[rows[nearer], c] = 0.0
        return found
