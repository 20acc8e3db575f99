"""What is not a note of a class: sounds that the class would accept, and that somebody has rejected.

A rejected sound is described as a note is, by the same kernel, and what is nearer to the sounds that were rejected for
a class than to the class is not a note of it (docs/decisions/013-negative-examples.md). Annotations are loose, and may
be long: what is described is what the class would find within them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from outlark.errors import InputError
from outlark.maths.description import Description, describe, left_out_scores
from outlark.notes.copies import MarkedNote, note_samples
from outlark.notes.front_ends.base import Frames
from outlark.notes.front_ends.note import NoteFrontEnd
from outlark.notes.scorers import LOOKED_AT
from outlark.notes.scores import joined_scores
from outlark.notes.segments import Segment
from outlark.notes.training import Material, training_record
from outlark.notes.viterbi import candidates
from outlark.notes.whole_notes import NoteModel

#: At most so many sounds are rejected for a class, those that score highest: more would take time and add little.
MOST = 200
#: A threshold that is raised above a score is so many times as high.
ABOVE = 1.05


class Span(NamedTuple):
    """Where a class would find a note: first frame, length in frames, and score."""

    start: int
    length: int
    score: float


class Negative(NamedTuple):
    """A sound that was rejected: its annotation, the number of its recording, and what the class would find in it."""

    recording: int
    segment: Segment
    spans: list[Span]

    @property
    def score(self) -> float:
        """The best score of the class, 0 where it would find nothing."""
        return max((span.score for span in self.spans), default=0.0)


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
            if note.label == segment.label and _covers(note.start, note.end, segment.start, segment.end):
                raise InputError(
                    f"{where} is not {segment.label!r}, but a note {note.label!r} is marked there as well, at "
                    f"{note.start_s:.3f} to {note.end_s:.3f} s; keep one of them"
                )


def take_in(front_end: NoteFrontEnd, model: NoteModel, negatives: Material) -> tuple[NoteModel, list[dict[str, Any]]]:
    """The model, whose classes reject these negatives, and a record of each.

    Records are those of `training_record`, and "score": the best score that the class had there, 0 for less than half
    of its threshold.
    """
    transform = front_end.transform_clips if negatives.clips else front_end.transform
    pairs = zip(negatives.recordings, negatives.segments, strict=True)
    frames = [transform(recording if own else recording[:0]) for recording, own in pairs]
    new, found = with_negatives(front_end, model, frames, negatives.segments)
    records = training_record(negatives)
    return new, [{**record, "score": negative.score} for record, negative in zip(records, found, strict=True)]


def with_negatives(
    front_end: NoteFrontEnd, model: NoteModel, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]]
) -> tuple[NoteModel, list[Negative]]:
    """A model whose classes reject what is annotated, and what they would have found there.

    Parameters
    ----------
    front_end : NoteFrontEnd, fitted
    model : NoteModel
        On the absolute scale. What it rejects already stays rejected.
    frames : for each recording its frames
    segments : for each recording the spans that are not notes, each with the label of the class that it is not of
    """
    labels, rejected, thresholds = model.describer.classes_.tolist(), [], np.array(model.thresholds, dtype=float)
    found = [
        negative
        for number, (recording, own) in enumerate(zip(frames, segments, strict=True))
        for negative in _would_find(front_end, replace(model, rejected=None), number, recording, own)
    ]
    before = [None for _ in labels] if model.rejected is None else model.rejected
    for c, label in enumerate(labels):
        own = [negative for negative in found if negative.segment.label == label]
        description, survivors = _described(front_end, model.describer.descriptions_[c], before[c], frames, own)
        rejected.append(description)
        left_out = np.empty(0) if model.left_out is None else model.left_out[c]
        thresholds[c] = raised(float(thresholds[c]), survivors, left_out)
    return replace(
        model, rejected=rejected if any(d is not None for d in rejected) else None, thresholds=thresholds
    ), found


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


def raised(threshold: float, survivors: np.ndarray, left_out: np.ndarray) -> float:
    """The threshold of a class above the scores of negatives, as far as it loses none of the notes of the class.

    Parameters
    ----------
    threshold : float
    survivors : ndarray
        What negatives score that are not rejected by the other negatives: there are more sounds of that kind.
    left_out : ndarray
        What the notes of the class score when left out.

    Examples
    --------
    >>> [round(raised(0.3, np.array(scores), np.array([0.5, 0.7])), 3) for scores in ([], [0.2], [0.4], [0.6])]
    [0.3, 0.3, 0.42, 0.5]
    >>> raised(0.3, np.array([0.4]), np.array([0.2]))
    0.3
    """
    if not len(survivors) or not len(left_out):
        return threshold
    return max(threshold, min(ABOVE * float(survivors.max()), float(left_out.min())))


def spans_within(values: np.ndarray, lengths: np.ndarray, start: float, end: float, least: float) -> list[Span]:
    """What a class would find in an annotation: the best note, and others that do not overlap a better one by half.

    Parameters
    ----------
    values, lengths : ndarrays (T,)
        Of the class, as in `ScoreBlock`.
    start, end : float
        Of the annotation, in frames. A note lies in it if half of the shorter of the two does.
    least : float
        From which score on there is a note.

    Examples
    --------
    >>> values = np.array([0.0, 0.0, 0.4, 0.5, 0.4, 0.0, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.9])
    >>> spans_within(values, np.full(13, 3), 3.0, 13.0, least=0.2)
    [Span(start=3, length=3, score=0.5), Span(start=9, length=3, score=0.3)]
    """
    starts = np.flatnonzero(candidates(values[:, np.newaxis], np.array([least]))[:, 0])
    ends = starts + lengths[starts]
    shared = np.minimum(ends, end) - np.maximum(starts, start)
    inside = starts[2 * shared >= np.minimum(ends - starts, end - start)]
    taken: list[Span] = []
    for at in inside[np.argsort(-values[inside], kind="stable")].tolist():
        span = Span(at, int(lengths[at]), float(values[at]))
        if not any(_covers(at, at + span.length, b.start, b.start + b.length) for b in taken):
            taken.append(span)
    return taken


def _covers(start: float, end: float, other_start: float, other_end: float) -> bool:
    """Whether two spans share half of the shorter of them, or more."""
    shared = min(end, other_end) - max(start, other_start)
    return 2 * shared >= min(end - start, other_end - other_start)


def _would_find(
    front_end: NoteFrontEnd, model: NoteModel, number: int, frames: Frames, segments: Sequence[Segment]
) -> Iterator[Negative]:
    if not segments:
        return
    scorer, labels, hop = model.scorer(front_end), model.describer.classes_.tolist(), front_end.hop_samples_
    block = joined_scores([scorer.push(frames), scorer.finish()])
    assert block.lengths is not None
    for segment in segments:
        c = labels.index(segment.label)
        place, least = (segment.start / hop, segment.end / hop), LOOKED_AT * float(model.thresholds[c])
        yield Negative(number, segment, spans_within(block.values[:, c], block.lengths[:, c], *place, least))


def _described(
    front_end: NoteFrontEnd,
    of_class: Description,
    before: Description | None,
    frames: Sequence[Frames],
    negatives: Sequence[Negative],
) -> tuple[Description | None, np.ndarray]:
    """What a class rejects, before and now, and what those score that the others do not reject."""
    spans = sorted(((span, n.recording) for n in negatives for span in n.spans), key=lambda pair: -pair[0].score)
    n_shifts = len(front_end.shifts_s)
    spans = spans[: MOST - (0 if before is None else len(before.X) // n_shifts)]
    if not spans:
        return before, np.empty(0)
    notes = [MarkedNote(frames[r].features, float(span.start), float(span.length), "") for span, r in spans]
    X, _, _ = note_samples(front_end, notes)
    X = X if before is None else np.concatenate([before.X, X])
    description = describe(X, of_class.ell, of_class.ratio)
    scores = np.array([span.score for span, _ in spans])
    if len(X) == n_shifts:
        return description, scores
    by_others = left_out_scores(description, np.split(np.arange(len(X)), len(X) // n_shifts))
    by_others = by_others.reshape(-1, n_shifts).max(axis=1)[-len(spans) :]
    return description, scores[by_others <= scores]
