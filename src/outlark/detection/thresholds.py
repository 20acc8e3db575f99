r"""The thresholds of classes: from the examples, set by hand, or calibrated on the recordings to be searched.

Descriptions have length 1, the kernel has one width, and all scores belong to one RKHS. The same score therefore means
the same similarity, whatever the bird, and the threshold depends only on the number of chances to resemble the class by
accident: there are more with more examples, n, and fewer the longer the notes last, L seconds.

.. math:: t_0 = 0.10 + 0.07 \ln n - 0.04 \ln L

with twice the n where copies of another pitch are included. If the examples differ more than that allows, their
leave-one-out scores lower it (docs/decisions/009-one-scale.md).

Notes of a class and other sounds have few scores in common. Over many recordings the peaks of a class's score show a
valley between the two, and t0 says where to look for it:

.. math:: \arg\min_t \; \ln(1 + \hat n(t)) + \frac{(\ln t/t_0)^2}{2 w^2}

with the number :math:`\hat n(t)` of peaks near t, smoothed on the logarithmic axis. Without t0 the emptiest place is
often among the notes themselves; with few peaks there is no valley to see, and t0 stays. False alarms are mostly other
kinds of notes, each found every time it is sung, and may all score above t0. Above t0 w is therefore wider where the
notes of the class score high when left out (l, their median): half of the way to there, on the logarithmic axis. So far
from t0 only a gap counts, with notes above it (docs/decisions/009-one-scale.md).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from outlark.detection.scorer import REFINED_SHARE
from outlark.detection.scores import ScoreBlock, Scores
from outlark.errors import InputError
from outlark.segments import Segment

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector

#: t0 of a single note of one second, its gain when the number of notes grows e-fold, its loss when they last e times as
#: long, and its minimum.
ONE_NOTE, PER_FOLD, PER_LENGTH, LOWEST = 0.10, 0.07, 0.04, 0.10
#: Thresholds are at most this share of the median leave-one-out score, over all classes …
LEFT_OUT_SHARE = 0.6
#: … and never below this share of t0: notes that differ more are not a class.
LEAST_SHARE = 0.5
#: In a class of at least this many notes, all alike but one, that one is odd if it scores less than this share of t0
#: under the others.
ENOUGH_TO_JUDGE, ODD_SHARE = 6, 0.5
#: Where a threshold comes from, as models keep it, and in words.
FROM_EXAMPLES, CALIBRATED, SET_BY_HAND = "examples", "calibration", "hand"
THRESHOLD_SOURCES = {FROM_EXAMPLES: "from the examples", CALIBRATED: "calibrated", SET_BY_HAND: "set by hand"}
#: w, in natural logarithms: how far from t0 the valley may lie. At .3, songs in the field lose up to .05.
VALLEY_WIDTH = 0.2
#: Above t0, the width is at least this share of the way from t0 to this share of the median leave-one-out score.
UPWARD_SHARE, OWN_NOTES_SHARE = 0.5, 0.9
#: More than `VALLEY_WIDTH` above t0, a valley has at most this share of the peaks that are near the highest places on
#: either side of it.
GAP_DEPTH, GAP_SMOOTHING = 0.6, 0.1
#: Smoothing of the peaks, in natural logarithms.
SMOOTHING = 0.06
#: Peaks needed above t0, and between half of it and t0.
LEAST_PEAKS = 10
#: Peaks are collected from this share of t0 on.
PEAKS_FROM = 0.4
#: Two peaks share at most this part of the shorter one.
PEAKS_SHARE = 0.3
#: Places tried lie between t0 divided by this and multiplied by it, or further up where own notes score higher.
VALLEY_SPAN, N_PLACES = 2.0, 161
#: Bins of the histogram that is kept, in units of t0.
PEAK_BINS = np.geomspace(PEAKS_FROM, 8.0, 61)


def absolute_threshold(n_notes: int, duration_s: float, *, pitch: bool) -> float:
    """t0 of a class, from the number and duration of its notes.

    >>> [round(absolute_threshold(n, 0.08, pitch=False), 3) for n in (1, 2, 5, 20)]
    [0.201, 0.25, 0.314, 0.411]
    >>> round(absolute_threshold(5, 0.08, pitch=True), 3), round(absolute_threshold(5, 2.0, pitch=False), 3)
    (0.362, 0.185)
    """
    chances = PER_FOLD * np.log(n_notes * (2 if pitch else 1)) - PER_LENGTH * np.log(duration_s)
    return max(LOWEST, ONE_NOTE + float(chances))


def trained_thresholds(t0: np.ndarray, left_out: Sequence[np.ndarray]) -> np.ndarray:
    """The threshold of each class, (C,), from its `absolute_threshold` and its leave-one-out scores.

    All classes are on one scale and have a handful of notes each, so their left-out scores are pooled.

    >>> t0, alike = np.array([0.3, 0.2]), np.array([0.9, 0.8, 0.7, 0.9, 0.8])
    >>> trained_thresholds(t0, [alike, alike])
    array([0.3, 0.2])
    >>> trained_thresholds(t0, [alike / 3, alike / 3]).round(3)
    array([0.16, 0.16])
    """
    pooled = np.concatenate([*left_out, []])
    if not len(pooled):
        return t0
    return np.clip(LEFT_OUT_SHARE * float(np.median(pooled)), LEAST_SHARE * t0, t0)


def odd_one(left_out: np.ndarray, t0: float) -> int | None:
    """The single outlier of a class by leave-one-out score, or None.

    A wrong annotation, or a note of another kind, would open the class to all that is like it. A kind takes two notes.

    >>> odd_one(np.array([0.9, 0.8, 0.7, 0.1, 0.9, 0.8]), 0.3)
    3
    >>> odd_one(np.array([0.9, 0.2, 0.7, 0.1, 0.9, 0.8]), 0.3) is None
    True
    """
    if len(left_out) < ENOUGH_TO_JUDGE:
        return None
    lowest, next_one = np.argsort(left_out, kind="stable")[:2].tolist()
    return lowest if left_out[lowest] < ODD_SHARE * t0 and left_out[next_one] >= t0 else None


@dataclass(frozen=True, kw_only=True)
class ClassCalibration:
    """The calibration of one class."""

    label: Any
    #: The trained threshold.
    prior: float
    #: The threshold now; `prior` if there were too few peaks.
    threshold: float
    #: Peaks from half of t0 up to t0, and above.
    n_below: int
    n_above: int
    #: Peaks in each of `PEAK_BINS` · prior; the first and the last include those outside.
    counts: tuple[int, ...]
    #: Whether `threshold` was set by hand, which takes precedence.
    by_hand: bool = False

    @property
    def moved(self) -> bool:
        """Whether there were enough peaks to find the valley."""
        return not self.by_hand and min(self.n_below, self.n_above) >= LEAST_PEAKS

    @property
    def in_words(self) -> str:
        """The result in a sentence."""
        if self.by_hand:
            return f"threshold {self.threshold:.3f} set by hand: kept"
        peaks = f"{self.n_above} peaks above it and {self.n_below} below"
        if self.moved:
            return f"threshold {self.prior:.3f} → {self.threshold:.3f}: {peaks}"
        return f"threshold {self.prior:.3f} kept: {peaks}, {LEAST_PEAKS} of each are needed; give more recordings"


def calibrated(label: Any, prior: float, peaks: ArrayLike, left_out: ArrayLike = ()) -> ClassCalibration:
    """The calibration of a class from the peaks of its score; `left_out` are the leave-one-out scores of its notes.

    >>> peaks = [*np.linspace(0.1, 0.26, 40), *np.linspace(0.36, 0.9, 40)]
    >>> found = calibrated("A", 0.3, peaks)
    >>> round(found.threshold, 2), found.n_below, found.n_above
    (0.31, 27, 40)
    >>> calibrated("A", 0.3, [0.9, 0.8]).in_words
    'threshold 0.300 kept: 2 peaks above it and 0 below, 10 of each are needed; give more recordings'
    """
    x = np.asarray(peaks, dtype=float)
    n_above, n_below = int((x >= prior).sum()), int(((x < prior) & (x >= prior / VALLEY_SPAN)).sum())
    enough = min(n_above, n_below) >= LEAST_PEAKS
    inside = np.clip(x / prior, PEAK_BINS[0], np.nextafter(PEAK_BINS[-1], 0.0))
    counts, _ = np.histogram(inside, PEAK_BINS)
    return ClassCalibration(
        label=label,
        prior=float(prior),
        threshold=emptiest(x, prior, np.asarray(left_out, dtype=float)) if enough else float(prior),
        n_below=n_below,
        n_above=n_above,
        counts=tuple(counts.tolist()),
    )


def emptiest(peaks: np.ndarray, prior: float, left_out: np.ndarray) -> float:
    """The valley of the peaks, as far up as the notes of the class score when left out if there is a gap.

    >>> another_kind, own = np.geomspace(0.2, 0.4, 60), np.geomspace(0.6, 0.9, 60)
    >>> peaks = np.concatenate([another_kind, own])
    >>> round(emptiest(peaks, 0.25, np.array([0.6, 0.7, 0.8])), 2), round(emptiest(peaks, 0.25, np.empty(0)), 2)
    (0.47, 0.18)
    """
    own = OWN_NOTES_SHARE * float(np.median(left_out)) if len(left_out) else prior
    far = valley(peaks, prior, max(prior, own))
    near_enough = far <= prior * np.exp(VALLEY_WIDTH)
    return far if near_enough or is_gap(peaks, far, prior / VALLEY_SPAN) else valley(peaks, prior, prior)


def valley(peaks: np.ndarray, prior: float, own: float) -> float:
    """The emptiest place near the prior, or between it and `own`; see the module's docstring."""
    places = np.geomspace(prior / VALLEY_SPAN, max(prior * VALLEY_SPAN, own), N_PLACES)
    up = max(VALLEY_WIDTH, UPWARD_SHARE * float(np.log(own / prior)))
    away = np.log(places / prior)
    cost = np.log1p(peaks_near(peaks, places, SMOOTHING)) + 0.5 * (away / np.where(away > 0, up, VALLEY_WIDTH)) ** 2
    return float(places[np.argmin(cost)])


def score_peaks(blocks: Iterable[ScoreBlock], least: np.ndarray) -> list[np.ndarray]:
    """For each class the scores of its possible notes, from `least` (C,) on, after non-maximum suppression.

    The blocks of a recording follow each other. Of spans that share more than `PEAKS_SHARE` of the shorter one, the one
    that scores highest is taken: not those that cover most of the recording, as `decode_notes` prefers above the
    threshold.

    >>> block = ScoreBlock(np.array([[0.5], [0.9], [0.4], [0.0], [0.3]]), np.zeros(5), lengths=np.full((5, 1), 3))
    >>> score_peaks([block], np.array([0.2]))
    [array([0.3, 0.9])]
    """
    rows: list[list[np.ndarray]] = [[np.empty((0, 3))] for _ in least]
    at = 0
    for block in blocks:
        assert block.lengths is not None
        for c, of_class in enumerate(rows):
            starts = np.flatnonzero(block.values[:, c] >= least[c])
            ends = starts + block.lengths[starts, c]
            of_class.append(np.column_stack([at + starts, at + ends, block.values[starts, c]]))
        at += len(block)
    return [_highest(*np.concatenate(of_class).T) for of_class in rows]


def _highest(starts: np.ndarray, ends: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Non-maximum suppression of spans in the order of their starts, (N,) each: the scores of those that are kept."""
    reach = np.maximum.accumulate(ends)
    apart = np.flatnonzero(starts[1:] >= reach[:-1]) + 1
    kept: list[float] = []
    for group in np.split(np.arange(len(starts)), apart):
        left = group[np.argsort(-scores[group], kind="stable")]
        while len(left):
            best = left[0]
            kept.append(float(scores[best]))
            shared = np.minimum(ends[left], ends[best]) - np.maximum(starts[left], starts[best])
            shorter = np.minimum(ends[left] - starts[left], ends[best] - starts[best])
            left = left[shared <= PEAKS_SHARE * shorter]
    return np.sort(kept)


def is_gap(peaks: np.ndarray, place: float, lowest: float) -> bool:
    """Whether there are clearly fewer peaks near this place than below it, from `lowest` on, and than above it."""
    if (peaks >= place).sum() < LEAST_PEAKS:
        return False
    below, above = np.geomspace(lowest, place, N_PLACES), np.geomspace(place, max(place, peaks.max()), N_PLACES)
    modes = [peaks_near(peaks, side, GAP_SMOOTHING).max() for side in (below, above)]
    return bool(peaks_near(peaks, np.array([place]), GAP_SMOOTHING)[0] <= GAP_DEPTH * min(modes))


def peaks_near(peaks: np.ndarray, places: np.ndarray, width: float) -> np.ndarray:
    """How many peaks are near each place, smoothed on the logarithmic axis, (n,)."""
    distance = np.log(places)[:, np.newaxis] - np.log(peaks[peaks > 0.0])
    return np.exp(-0.5 * (distance / width) ** 2).sum(axis=1)


def by_class(thresholds: ArrayLike | Mapping[Any, float], classes: Sequence[Any]) -> dict[Any, float]:
    """Thresholds by class, from a mapping for some of the classes, or a sequence for all of them in order.

    >>> by_class({"song": 0.5}, ["alarm", "song"]), by_class([0.3, 0.5], ["alarm", "song"])
    ({'song': 0.5}, {'alarm': 0.3, 'song': 0.5})
    >>> by_class({"sogn": 0.5}, ["alarm", "song"])
    Traceback (most recent call last):
    outlark.errors.InputError: a threshold for 'sogn', which is not a class; did you mean 'song'? There are alarm, song
    """
    if isinstance(thresholds, Mapping):
        for label in thresholds:
            if label not in classes:
                raise InputError(f"a threshold for {label!r}, which is not a class; {there_are(label, classes)}")
        return {label: checked(value, f"the threshold of {label!r}") for label, value in thresholds.items()}
    given = np.asarray(thresholds, dtype=object)
    if given.shape != (len(classes),):
        raise InputError(f"thresholds={thresholds!r:.200}; give a number above 0 for each class of {list(classes)}")
    return {
        label: checked(value, f"thresholds[{c}]") for c, (label, value) in enumerate(zip(classes, given, strict=True))
    }


def checked(value: Any, what: str) -> float:
    """The value as a threshold, or an error."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise InputError(f"{what} is {value!r:.60}; give a number above 0 for each class, not infinite")
    return float(value)


def there_are(name: Any, classes: Sequence[Any]) -> str:
    """The classes, and the one that a misspelt name probably means.

    >>> there_are("Buz", ["buzz", "trill"]), there_are("x", ["buzz", "trill"])
    ("did you mean 'buzz'? There are buzz, trill", 'there are buzz, trill')
    """
    names = {str(label).casefold(): str(label) for label in classes}
    near = get_close_matches(str(name).casefold(), names, n=1)
    listed = f"here are {', '.join(map(str, classes))}"
    return f"did you mean {names[near[0]]!r}? T{listed}" if near else f"t{listed}"


#: Factors of the thresholds: from where edges are refined to sixteen times that, fourteen per octave.
FACTORS = REFINED_SHARE * 2.0 ** (np.arange(57) / 14)


def sweep_thresholds(detector: "NoteDetector") -> np.ndarray:
    """Thresholds to try, all classes moving together, and those of the detector as they are; (K, C)."""
    if detector.note_model_ is None:
        raise InputError(
            "a model of frames has thresholds for frames, not for notes, so the scores of notes do not show what "
            "another threshold would find; detect with --threshold and evaluate that, or train without --paper"
        )
    now = detector.layout_.thresholds
    return np.vstack([FACTORS[:, np.newaxis] * np.minimum(now, detector.trained_thresholds), now])


def swept(
    detector: "NoteDetector", recording: Any, thresholds: np.ndarray, sample_rate: int | None = None
) -> Iterator[list[Segment]]:
    """The notes that `detect` would find at each of many thresholds.

    Without an embedding they are decided each time, because an accepted note can take the place of another. With one,
    thresholds are those of joined scores, and candidates do not depend on them. Yields the segments with a label, in
    order, for one row of the thresholds (K, C) after the other; the recording may also be `Scores` of this detector.

    >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
    >>> from outlark import NoteDetector
    >>> known = notes(counts={"tuti-F": 4})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, _ = concatenate(notes(seed=1, counts={"tuti-F": 2}), gap_s=0.2, rng=np.random.default_rng(0))
    >>> [len(found) for found in swept(detector, audio, np.array([[0.2], [9.0]]), SAMPLE_RATE)]
    [2, 0]
    """
    if detector.second_stage_ is not None:
        column = {label: c for c, label in enumerate(detector.classes_.tolist())}
        lowest = replace(detector.layout_, thresholds=thresholds.min(axis=0))
        found = _notes(detector.detect(recording, sample_rate, layout=lowest))
        for row in thresholds:
            yield [s for s in found if s.score >= row[column[s.label]]]
        return
    scores = recording if isinstance(recording, Scores) else detector.scores(recording, sample_rate)
    highest = scores.block.values.max(axis=0, initial=0.0)
    for row in thresholds:
        layout = replace(scores.layout, thresholds=row)
        yield _notes(detector.decide(replace(scores, layout=layout))) if (highest >= row).any() else []


def _notes(segments: list[Segment]) -> list[Segment]:
    return [s for s in segments if s.label is not None]
