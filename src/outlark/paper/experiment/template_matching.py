"""Template matching, the usual alternative to class models: every example slides along the recording.

Spectra, decisions and the way thresholds are learnt are those of note-level detection, so only the score differs.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import maximum_filter1d
from scipy.signal import oaconvolve
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outlark.audio.sound import mono, resample
from outlark.detection.decisions import Decisions
from outlark.detection.detector import GAP_S
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.scores import ScoreBlock, ScoreLayout, Scores
from outlark.detection.training import Material, at_one_rate, check_annotations, check_material, join_clips
from outlark.features.base import Frames
from outlark.paper.learnt_thresholds import SEARCH_AROUND, SINGLE_NOTE_SHARE, note_thresholds, raised
from outlark.segments import Segment

#: A patch weaker than this share of the strongest is rounding error and has no shape to compare.
LEAST_PATCH_NORM = 1e-4


class Template(NamedTuple):
    """An example: its spectra (n, bands), its class, and where it comes from (recording, first frame)."""

    spectra: np.ndarray
    label: Any
    recording: int
    start: int


class TemplateMatching(BaseEstimator):
    """The score of a class is the largest normalised cross-correlation with any of its examples.

    Parameters
    ----------
    threshold : float, optional
        The same for all classes; by default learnt from the training recordings.
    """

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def fit(self, clips: Sequence[ArrayLike], labels: Sequence[Any], sample_rate: int) -> Self:
        """Learn from clips of one note each."""
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
        self.templates_ = [_cut(frames[r], r, s, self.front_end_.hop_samples_) for r, s in material.notes]
        thresholds = self.threshold if self.threshold is not None else self._thresholds(frames)
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

    def _thresholds(self, frames: Sequence[Frames]) -> np.ndarray:
        own = [self._left_out_scores(label, frames) for label in self.classes_]
        return raised(note_thresholds(own, self._scores_of_the_rest(frames)))

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
            found.append(max(_best_near(spectra, other, example.start, slack) for other in others))
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
    """Normalised cross-correlation of the template (n, bands) with every patch of the spectra (T, bands), (T - n + 1,).

    Mean and norm are those of the whole patch. 0 where the patch is flat.

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
    """The sum of every n consecutive values."""
    totals = np.concatenate([[0.0], np.cumsum(values)])
    return totals[n:] - totals[:-n]


def _cut(frames: Frames, recording: int, segment: Segment, hop: int) -> Template:
    start = min(round(segment.start / hop), len(frames) - 1)
    end = max(round(segment.end / hop), start + 1)
    return Template(frames.features[start:end], segment.label, recording, start)


def _best_near(spectra: np.ndarray, template: np.ndarray, start: int, slack: int) -> float:
    """The best score of the template at a start within `slack` frames."""
    first = max(0, start - slack)
    found = correlations(spectra[first : start + slack + len(template)], template)
    return float(found.max(initial=0.0))
