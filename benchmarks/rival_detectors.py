"""Detectors to compare `outlark.NoteDetector` with: other class models of whole notes, and template matching.

Spectra, decisions and the way thresholds are learnt (`outlark.paper.detector.note_thresholds`) are the same for all, so
only the score differs. `METHODS` adds them to those of `outlark experiment`, under the names that the tables use.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from rivals import ClassMahalanobis, ClassSVM, GPReject, IndependentOCCGP, NearestNeighbour, PlattReject
from scipy.ndimage import maximum_filter1d
from scipy.signal import oaconvolve
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import mono, resample
from outlark.detection.decisions import Decisions
from outlark.detection.detector import GAP_S, NoteDetector
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.model import NoteModel
from outlark.detection.note_training import (
    AnnotatedNote,
    annotated_notes,
    note_samples,
    of_any_model,
    transformed,
    trial_lengths,
)
from outlark.detection.scorer import learn_edges
from outlark.detection.scores import ScoreBlock, ScoreLayout, Scores
from outlark.detection.training import Material, at_one_rate, check_annotations, check_material, join_clips
from outlark.estimators.pknn import PKNN
from outlark.features.base import Frames
from outlark.features.note import NoteFrontEnd
from outlark.paper.detector import FrameDetector, note_thresholds
from outlark.paper.experiment import run
from outlark.paper.experiment.run import Method
from outlark.segments import Segment

#: The class model is refitted without some of the notes at most this many times.
MAX_REFIT_FOLDS = 10
#: A left-out note is searched for within this share of its length around its annotation, every SEARCH_STEP frames.
SEARCH_AROUND, SEARCH_STEP = 0.3, 2
#: The only note of a class cannot be left out: this share of the score of its own samples stands in.
SINGLE_NOTE_SHARE = 0.9
#: A patch weaker than this share of the strongest is rounding error and has no shape to compare.
LEAST_PATCH_NORM = 1e-4


class LearntNoteDetector(NoteDetector):
    """A `NoteDetector` with another class model, to compare it with MDD-KM: nothing else differs.

    The scale of its scores is unknown, so thresholds are learnt from leave-one-out scores and from the rest of the
    training recordings. It cannot be calibrated, learn from negatives, or be saved.

    Parameters
    ----------
    class_model : estimator
        Any estimator with `fit(X, y, groups)`, `classes_` and `class_scores(X)`.
    front_end, decisions
        As in `NoteDetector`.
    """

    def __init__(
        self, class_model: Any, front_end: NoteFrontEnd | None = None, decisions: Decisions | None = None
    ) -> None:
        super().__init__(front_end, decisions)
        self.class_model = class_model

    def _fit(self, material: Material) -> NoteModel:
        frames, front_end, choice = transformed(material, self.front_end)
        notes = annotated_notes(front_end, frames, material.segments, clips=material.clips)
        X, y, groups = note_samples(front_end, notes)
        fitted = clone(self.class_model).fit(X, y, groups=groups)
        lengths, allowed = trial_lengths(front_end, notes, fitted.classes_)
        model = NoteModel(
            front_end=front_end, class_model=fitted, lengths=lengths, allowed=allowed, choice=choice,
            spectral_thresholds=np.zeros(len(fitted.classes_)), **of_any_model(material),
        )  # fmt: skip
        own = left_out_by_refit(self.class_model, notes, model)
        thresholds = raised(note_thresholds(own, scores_of_the_rest(model, frames, material.segments)))
        spans = [(note.spectra, note.start, note.start + note.length, note.label) for note in notes]
        edges = learn_edges(spans, fitted.classes_.tolist(), inside=material.clips)
        left_out = [np.sort(scores) for scores in own]
        return replace(model, spectral_thresholds=thresholds, left_out=left_out, edges=edges)


def raised(thresholds: np.ndarray) -> np.ndarray:
    """Thresholds (C,), none below their mean.

    All classes share one scale. A class whose threshold lies well below the others has it because its few notes happen
    to differ, not because it is worth more false alarms.

    >>> raised(np.array([1.0, 2.0, 3.0]))
    array([2., 2., 3.])
    """
    return np.maximum(thresholds, thresholds.mean())


def left_out_by_refit(class_model: Any, notes: Sequence[AnnotatedNote], model: NoteModel) -> list[np.ndarray]:
    """For each class the best score of each of its notes, near its annotation, under a model that has not seen it.

    A model that has seen fewer notes gives lower scores for that reason alone. The notes that both have seen show by
    how much, and the scores are corrected for it.
    """
    front_end = model.front_end
    classes = model.class_model.classes_.tolist()
    own: list[list[float]] = [[] for _ in classes]
    for held_out, seen in _folds(notes, classes):
        X, y, groups = note_samples(front_end, [notes[i] for i in seen])
        with warnings.catch_warnings():  # about single notes: its own thresholds are not used
            warnings.simplefilter("ignore", UserWarning)
            fitted = clone(class_model).fit(X, y, groups=groups)
        for i in held_out:
            c = classes.index(notes[i].label)
            both = X[y == notes[i].label]
            gain = np.median(model.class_model.class_scores(both)[:, c]) - np.median(fitted.class_scores(both)[:, c])
            own[c].append(_best_near(front_end, fitted, notes[i], model.lengths[model.allowed[:, c]], c) + float(gain))
    for c, label in enumerate(classes):
        if not own[c]:
            own[c].append(_guess(model, next(n for n in notes if n.label == label), c))
    return [np.array(scores) for scores in own]


def scores_of_the_rest(
    model: NoteModel, frames: Sequence[Frames], segments: Sequence[Sequence[Segment]]
) -> list[np.ndarray]:
    """For each class the peaks of its scores in the training recordings where none of its notes is annotated."""
    classes = model.class_model.classes_.tolist()
    found: list[list[np.ndarray]] = [[np.zeros(1)] for _ in classes]
    for recording, annotations in zip(frames, segments, strict=True):
        scorer = model.scorer()
        values = np.concatenate([scorer.push(recording).values, scorer.finish().values])
        for c, label in enumerate(classes):
            column = values[:, c].copy()
            for annotation in (m for m in annotations if m.label == label):
                length = (annotation.end - annotation.start) / model.front_end.hop_samples_
                start = annotation.start / model.front_end.hop_samples_
                column[max(0, int(start - length)) : int(start + length) + 1] = 0.0
            width = int(model.lengths[model.allowed[:, c]].min()) | 1
            found[c].append(column[(column > 0.0) & (column == maximum_filter1d(column, width))])
    return [np.concatenate(peaks) for peaks in found]


def _folds(notes: Sequence[AnnotatedNote], classes: Sequence[Any]) -> Iterator[tuple[list[int], list[int]]]:
    """Notes to leave out and notes to keep; of every class the same number at a time, and never all of a class."""
    of_class = [[i for i, note in enumerate(notes) if note.label == label] for label in classes]
    n_folds = min(MAX_REFIT_FOLDS, max(len(numbers) for numbers in of_class))
    for fold in range(n_folds):
        held_out = [i for numbers in of_class if len(numbers) > 1 for i in numbers[fold::n_folds]]
        if held_out:
            yield held_out, [i for i in range(len(notes)) if i not in held_out]


def _guess(model: NoteModel, note: AnnotatedNote, c: int) -> float:
    """A guess at what the only note of class c would score when left out."""
    warnings.warn(
        f"class {note.label!r} has a single training note, so its threshold is a guess; give two or more",
        stacklevel=2,
    )
    return SINGLE_NOTE_SHARE * _best_near(
        model.front_end, model.class_model, note, model.lengths[model.allowed[:, c]], c
    )


def _best_near(front_end: NoteFrontEnd, class_model: Any, note: AnnotatedNote, lengths: np.ndarray, c: int) -> float:
    """The best score of class c for a span near the annotation of the note."""
    first = np.floor(note.start - SEARCH_AROUND * note.length)
    n_starts = int(2 * SEARCH_AROUND * note.length / SEARCH_STEP) + 2
    return max(
        float(
            class_model.class_scores(
                front_end.describe(note.spectra, start=first, n_starts=n_starts, length=length, step=SEARCH_STEP)
            )[:, c].max()
        )
        for length in lengths
    )


# ------------------------------------------------------------------ template matching


class Template(NamedTuple):
    """An example: its spectra (n, bands), its class, and where it comes from (recording, first frame)."""

    spectra: np.ndarray
    label: Any
    recording: int
    start: int


class TemplateMatching(BaseEstimator):
    """Every example slides along the recording; the best normalised cross-correlation is the score of its class.

    `threshold` is the same for all classes; by default thresholds are learnt from the training recordings.
    """

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def fit(self, clips: Sequence[ArrayLike], labels: Sequence[Any], sample_rate: int) -> Self:
        return self._fit(join_clips([mono(c) for c in clips], list(labels), sample_rate, GAP_S))

    def fit_recordings(
        self,
        recordings: Sequence[ArrayLike],
        segments: Sequence[Iterable[Segment]],
        sample_rate: int | Sequence[int],
    ) -> Self:
        """Learn from notes annotated in longer recordings."""
        rates = np.broadcast_to(sample_rate, len(recordings)).tolist()
        annotations = check_annotations(segments, len(recordings))
        return self._fit(at_one_rate([mono(r) for r in recordings], rates, annotations, min(rates)))

    def detect(self, audio: ArrayLike, sample_rate: int) -> list[Segment]:
        """The segments of a recording, in samples at the rate of the training recordings."""
        check_is_fitted(self)
        samples = resample(mono(audio), sample_rate, self.front_end_.sample_rate_)
        block = self._scores(self.front_end_.transform(samples))
        return Decisions().decide(Scores(layout=self.layout_, block=block, n_samples=len(samples)))

    def _fit(self, material: Material) -> Self:
        check_material(material)
        self.front_end_ = choose_front_end(material).front_end.fit(material.recordings, material.sample_rate)
        transform = self.front_end_.transform_clips if material.clips else self.front_end_.transform
        frames = [transform(recording) for recording in material.recordings]
        self.classes_ = sorted({segment.label for _, segment in material.notes})
        self.templates_ = [_template(frames[r], r, s, self.front_end_.hop_samples_) for r, s in material.notes]
        thresholds: Any = self.threshold
        if thresholds is None:
            own = [self._left_out_scores(label, frames) for label in self.classes_]
            thresholds = raised(note_thresholds(own, self._scores_of_the_rest(frames)))
        durations = [[s.duration_s for _, s in material.notes if s.label == label] for label in self.classes_]
        self.layout_ = ScoreLayout(
            classes=np.array(self.classes_),
            thresholds=np.broadcast_to(thresholds, len(self.classes_)).astype(float),
            sample_rate=material.sample_rate,
            hop_samples=self.front_end_.hop_samples_,
            offset_samples=self.front_end_.offset_samples_,
            shortest_s=np.array([min(d) for d in durations]),
            longest_s=np.array([max(d) for d in durations]),
        )
        return self

    def _scores(self, frames: Frames) -> ScoreBlock:
        """For every start and class the best example and its length."""
        values = np.zeros((len(frames), len(self.classes_)))
        lengths = np.ones(values.shape, dtype=np.int64)
        for template in self.templates_:
            c = self.classes_.index(template.label)
            found = correlations(frames.features, template.spectra)
            better = np.flatnonzero(found > values[: len(found), c])
            values[better, c], lengths[better, c] = found[better], len(template.spectra)
        return ScoreBlock(values, frames.activity, lengths)

    def _left_out_scores(self, label: Any, frames: Sequence[Frames]) -> np.ndarray:
        """The best score that the other examples of its class give each example near its annotation."""
        examples = [t for t in self.templates_ if t.label == label]
        if len(examples) == 1:
            return np.array([SINGLE_NOTE_SHARE])
        found = []
        for example in examples:
            slack = int(SEARCH_AROUND * len(example.spectra)) + 1
            others = [t.spectra for t in examples if t is not example]
            spectra = frames[example.recording].features
            found.append(max(_best_correlation(spectra, other, example.start, slack) for other in others))
        return np.array(found)

    def _scores_of_the_rest(self, frames: Sequence[Frames]) -> list[np.ndarray]:
        """For each class the peaks of its scores in the training recordings outside its annotated notes."""
        found = [[np.zeros(1)] for _ in self.classes_]
        for r, recording in enumerate(frames):
            values = self._scores(recording).values
            for c, label in enumerate(self.classes_):
                column, examples = values[:, c].copy(), [t for t in self.templates_ if t.label == label]
                for t in (t for t in examples if t.recording == r):
                    column[max(0, t.start - len(t.spectra)) : t.start + len(t.spectra) + 1] = 0.0
                width = min(len(t.spectra) for t in examples) | 1
                found[c].append(column[(column > 0.0) & (column == maximum_filter1d(column, width))])
        return [np.concatenate(peaks) for peaks in found]


def correlations(spectra: np.ndarray, template: np.ndarray) -> np.ndarray:
    """Normalised cross-correlation of the template (n, bands) with every patch of the spectra; 0 where it is flat.

    >>> ramp = np.arange(6.0)[:, np.newaxis]
    >>> correlations(ramp, ramp[2:4]).round(6)
    array([1., 1., 1., 1., 1.])
    """
    n, size = len(template), template.size
    if len(spectra) < n:
        return np.empty(0)
    shape = template - template.mean()
    shape /= max(float(np.linalg.norm(shape)), LEAST_PATCH_NORM)
    products = oaconvolve(spectra, shape[::-1], mode="valid", axes=0).sum(axis=1)
    sums, squares = _sums_over(spectra.sum(axis=1), n), _sums_over(np.einsum("ij,ij->i", spectra, spectra), n)
    norms = np.sqrt(np.maximum(squares - sums**2 / size, 0.0))
    audible = norms > LEAST_PATCH_NORM * max(norms.max(), LEAST_PATCH_NORM)
    return np.divide(products, norms, out=np.zeros(len(products)), where=audible)


def _sums_over(values: np.ndarray, n: int) -> np.ndarray:
    totals = np.concatenate([[0.0], np.cumsum(values)])
    return totals[n:] - totals[:-n]


def _template(frames: Frames, recording: int, segment: Segment, hop: int) -> Template:
    start = min(round(segment.start / hop), len(frames) - 1)
    end = max(round(segment.end / hop), start + 1)
    return Template(frames.features[start:end], segment.label, recording, start)


def _best_correlation(spectra: np.ndarray, template: np.ndarray, start: int, slack: int) -> float:
    """The best score of the template at a start within `slack` frames."""
    first = max(0, start - slack)
    found = correlations(spectra[first : start + slack + len(template)], template)
    return float(found.max(initial=0.0))


# ------------------------------------------------------------------ methods of the experiment

#: Note-level class models by name: title and estimator. MDD-KM's settings for samples of length 1 are those of OCC-GP.
#: PKNN has as many prototypes in a fit without a note as with it: left-out scores would otherwise reflect their number.
CLASS_MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "pknn": ("PKNN", lambda: PKNN(n_prototypes=2)),
    "occgp": (
        "independent OCC-GPs",
        lambda: IndependentOCCGP(metric="euclidean", sigma=1.0, sigma_reg=0.1**0.5),
    ),
    "knn": ("nearest neighbour", NearestNeighbour),
    "svm": ("one-class SVM", ClassSVM),
    "mahalanobis": ("Mahalanobis", ClassMahalanobis),
    "gp-reject": ("GP classifier with reject", GPReject),
    "platt-reject": ("SVM-Platt with reject", PlattReject),
}


def _learnt(name: str) -> LearntNoteDetector:
    return LearntNoteDetector(CLASS_MODELS[name][1]())


def _occgp_paper() -> FrameDetector:
    return FrameDetector.paper(IndependentOCCGP.paper())


#: All rows of the tables in docs/results.md, in their order.
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        **{name: one for name, one in run.METHODS.items() if name != "mddkm"},
        "occgp-paper": Method("occgp-paper", "as published, independent OCC-GPs, left-out thresholds", _occgp_paper),
        "mddkm": run.METHODS["mddkm"],
        **{
            name: Method(name, f"note-level, {title}", partial(_learnt, name))
            for name, (title, _) in CLASS_MODELS.items()
        },
        "templates": Method("templates", "template matching", TemplateMatching),
    }
)
