"""The whole system: recordings in, labelled segments out. Training, batch and live share the same path."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from numbers import Integral
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outlark.audio.clips import is_path
from outlark.audio.recording import Recording
from outlark.detection.decisions import Decisions, DecisionStream, Rescore
from outlark.detection.model import DetectorModel, NoteModel
from outlark.detection.negatives import AsGoodAsNotes, check_negatives
from outlark.detection.note_training import fit_notes
from outlark.detection.scores import ScoreLayout, Scores
from outlark.detection.second_stage import Memory, SecondStage, joint_score
from outlark.detection.stream import DetectorStream, ScoreStream, score_blocks, together
from outlark.detection.thresholds import PEAKS_FROM, ClassCalibration, by_class, score_peaks
from outlark.detection.training import Material, Signals
from outlark.errors import InputError
from outlark.features.base import FrontEnd
from outlark.features.clip import Embedding
from outlark.features.note import NoteFrontEnd
from outlark.segments import Segment

#: Digital silence between training clips: longer than the context of any front end.
GAP_S = 0.1
#: Samples read from a file at once.
BLOCK_SAMPLES = 2**17


class NoteDetector(BaseEstimator):
    """Finds notes of known classes in recordings, and reports other sounds as unknown.

    Parameters
    ----------
    front_end : NoteFrontEnd, optional
        From sound to spectra; by default with settings chosen for the training notes.
    decisions : Decisions, optional
        From class scores to segments.
    embedding : callable, optional
        A second stage: ``embedding(samples, sample_rate)`` → vector (d,) describes each candidate again
        (`outlark.detection.second_stage`). ``outlark.embeddings.BirdNET(output="species")`` is one.

    Attributes
    ----------
    model_ : DetectorModel
        All that training has learnt; the other attributes show parts of it.
    classes_ : ndarray (C,)
    sample_rate_ : int
        Of the training recordings; others are resampled to it.
    layout_ : ScoreLayout
        Thresholds in use, durations, frame rate.

    Examples
    --------
    >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
    >>> known = [note for note in notes(counts={"tuti-F": 4, "cach-D": 4})]
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, truth = concatenate(notes(seed=1, counts={"cach-D": 1}), edge_s=0.5, rng=np.random.default_rng(0))
    >>> [s.label for s in detector.detect(audio, SAMPLE_RATE) if s.verdict == "known"]
    ['cach-D']
    """

    model_: DetectorModel
    #: Digital silence before, between and after training clips, in seconds.
    gap_s: float = GAP_S

    def __init__(
        self,
        front_end: NoteFrontEnd | None = None,
        decisions: Decisions | None = None,
        *,
        embedding: Embedding | None = None,
    ) -> None:
        self.front_end = front_end
        self.decisions = decisions
        self.embedding = embedding

    def fit(self, clips: Sequence[Any], labels: Sequence[Any], sample_rate: int | Sequence[int] | None = None) -> Self:
        """Learn from clips that each hold one note.

        Parameters
        ----------
        clips : sequence of arrays (n,) or (n, channels), or paths
        labels : sequence
            The class of each clip.
        sample_rate : int or sequence of int
            Of the arrays; files have their own. The lowest becomes the model's.
        """
        self._check_parameters()
        self.model_ = self._fit(self._signals(clips, sample_rate, "clips").as_clips(labels, self.gap_s))
        return self

    def fit_recordings(
        self,
        recordings: Sequence[Any],
        segments: Sequence[Iterable[Segment]],
        sample_rate: int | Sequence[int] | None = None,
        *,
        negatives: Sequence[Iterable[Segment]] | None = None,
    ) -> Self:
        """Learn from notes annotated in longer recordings; the rest of them shows what other sounds there are.

        Parameters
        ----------
        recordings : sequence of arrays or paths
        segments : the annotated notes of each recording
        sample_rate : int or sequence of int
            Of the arrays; files have their own. The lowest becomes the model's.
        negatives : spans of each recording that are not notes, optional
            Each is labelled with the class that it does not belong to; see `reject`.
        """
        self._check_parameters()
        given = self._signals(recordings, sample_rate, "recordings")
        material = given.as_recordings(segments)
        rejected = None if negatives is None else given.as_recordings(negatives, material.sample_rate)
        if rejected is not None:
            check_negatives(rejected, list(material.durations_s), material)
        self.model_ = self._fit(material)
        return self if rejected is None else self._reject(rejected)

    def reject(
        self,
        recordings: Sequence[Any],
        segments: Sequence[Iterable[Segment]],
        sample_rate: int | Sequence[int] | None = None,
    ) -> Self:
        """Learn what is not a note of a class, such as false alarms, in addition to earlier negatives.

        A class no longer accepts a sound that is nearer to a rejected one than to the class. Thresholds and other
        classes do not change (docs/decisions/013-negative-examples.md).

        Parameters
        ----------
        recordings : sequence of arrays or paths
        segments : the spans of each recording that are not notes
            Each is labelled with the class that it does not belong to, and may be longer than a note.
        sample_rate : int or sequence of int
            Of the arrays; files have their own.

        Warns
        -----
        UserWarning
            When a sound scores as high as left-out notes of the class.

        Examples
        --------
        >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
        >>> known = notes(counts={"tuti-D": 3})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> rng, played = np.random.default_rng(0), notes(seed=1, counts={"tuti-D": 1, "cach-C": 2})
        >>> audio, _ = concatenate(played, gap_s=0.3, edge_s=0.3, rng=rng)
        >>> found = [s for s in detector.set_thresholds([0.05]).detect(audio, SAMPLE_RATE) if s.label == "tuti-D"]
        >>> [round(s.start_s, 1) for s in found]  # only the first is one
        [0.3, 0.8, 1.3]
        >>> detector = detector.reject([audio], [found[2:]], SAMPLE_RATE)
        >>> [round(s.start_s, 1) for s in detector.detect(audio, SAMPLE_RATE) if s.label == "tuti-D"]
        [0.3]
        """
        self._note_model()
        given = self._signals(recordings, sample_rate, "recordings")
        return self._reject(given.as_recordings(segments, self.sample_rate_))

    def reject_clips(
        self, clips: Sequence[Any], labels: Sequence[Any], sample_rate: int | Sequence[int] | None = None
    ) -> Self:
        """The same as `reject`, from clips of sounds that are not notes of the class they are labelled with."""
        self._note_model()
        return self._reject(self._signals(clips, sample_rate, "clips").as_clips(labels, self.gap_s, self.sample_rate_))

    def detect(
        self,
        audio: ArrayLike | str | PathLike[str] | Recording,
        sample_rate: int | None = None,
        *,
        layout: ScoreLayout | None = None,
    ) -> list[Segment]:
        """The segments of a recording, from its start to its end.

        Parameters
        ----------
        audio : array (n,) or (n, channels), path or `Recording`
        sample_rate : int
            Of an array; files have their own. By default that of the training recordings.
        layout : ScoreLayout, optional
            With thresholds other than those in use.
        """
        stream, blocks = self._opened(audio, sample_rate, layout)
        found = [segment for block in blocks for segment in stream.push(block).segments]
        return found + stream.finish().segments

    def scores(self, audio: ArrayLike | str | PathLike[str] | Recording, sample_rate: int | None = None) -> Scores:
        """The class scores of a whole recording, for `decide`; with an embedding, those of the first stage."""
        return self.scores_and_segments(audio, sample_rate)[0]

    def scores_and_segments(
        self, audio: ArrayLike | str | PathLike[str] | Recording, sample_rate: int | None = None
    ) -> tuple[Scores, list[Segment]]:
        """What `scores` and `detect` return, in one pass."""
        stream, blocks = self._opened(audio, sample_rate)
        found = together([*(stream.push(block) for block in blocks), stream.finish()])
        layout = self.model_.score_layout
        return Scores(layout=layout, block=found.scores, n_samples=stream.n_model_samples), found.segments

    def decide(self, scores: Scores) -> list[Segment]:
        """Segments from scores, without the recording; in samples at the model's rate."""
        check_is_fitted(self)
        if not isinstance(scores, Scores):
            raise InputError(f"decide takes the result of scores(), not {type(scores).__name__}")
        if self.second_stage_ is not None:
            raise InputError(
                "a detector with an embedding needs the sound of its candidates, so scores are not enough to decide; "
                "give detect() the recording"
            )
        return self.decisions_.decide(scores)

    def calibrate(self, recordings: Iterable[Any], sample_rate: int | Sequence[int] | None = None) -> Self:
        """Move the threshold of each class to the valley of its scores in these recordings; no labels are needed.

        Give the recordings to be searched, or some hours of them. Calibrating again starts from the thresholds of the
        training. A class with too few peaks keeps its threshold, and so does one whose threshold was set by hand;
        `calibration_` says so. Only for scores on the absolute scale: note-level, with the default class model.

        Parameters
        ----------
        recordings : iterable of arrays (n,) or (n, channels), paths, `Recording`, or `Scores` of this detector
            One of them is in memory at a time.
        sample_rate : int or sequence of int
            Of the arrays; files have their own.

        Examples
        --------
        >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
        >>> known = notes(counts={"tuti-F": 4, "cach-D": 4})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> audio, _ = concatenate(notes(seed=1), gap_s=0.2, rng=np.random.default_rng(0))
        >>> [found.in_words for found in detector.calibrate([audio], SAMPLE_RATE).calibration_][0]
        'threshold 0.233 kept: 7 peaks above it and 0 below, 10 of each are needed; give more recordings'
        """
        one_rate = sample_rate is None or isinstance(sample_rate, Integral)
        rates: Any = repeat(sample_rate) if one_rate else sample_rate
        return self.calibrate_peaks([self.peaks(*each) for each in zip(recordings, rates, strict=not one_rate)])

    def peaks(self, recording: Any, sample_rate: int | None = None) -> list[np.ndarray]:
        """For each class the scores of its possible notes in a recording, for `calibrate_peaks`."""
        least, kept = PEAKS_FROM * self._note_model().trained_thresholds, isinstance(recording, Scores)
        if self.second_stage_ is not None:  # candidates are scored again one by one
            layout = replace(self.layout_, thresholds=least)
            found = self.decide(recording) if kept else self.detect(recording, sample_rate, layout=layout)
            return [np.array([float(s.score) for s in found if s.label == label]) for label in self.classes_.tolist()]
        return score_peaks([recording.block] if kept else score_blocks(*self._opened(recording, sample_rate)), least)

    def calibrate_peaks(self, peaks: Sequence[Sequence[np.ndarray]]) -> Self:
        """Calibrate on what `peaks` returned for each recording, so that a night can be analysed piece by piece."""
        self.model_ = self._note_model().calibrated_on(peaks)
        return self

    def stream(self, sample_rate: int | None = None, *, layout: ScoreLayout | None = None) -> DetectorStream:
        """A fresh stream: `push` blocks of any size, then `finish`; the same segments as `detect`."""
        check_is_fitted(self)
        rate, stage = self._rate(sample_rate), self.second_stage_
        layout = self.layout_ if layout is None else layout
        if stage is None:
            return DetectorStream(self.score_stream(rate), self.decisions_.stream(layout, None, rate))
        memory = Memory(stage, self.sample_rate_)
        decisions = self.decisions_.stream(layout, lambda s, *at: joint_score(s, memory.scores(*at)), rate)
        return DetectorStream(self.score_stream(rate, memory=memory), decisions, memory)

    def try_out(self) -> None:
        """Pass a frame of silence through the whole system, so that settings that do not fit show now."""
        stream = self.stream()
        stream.push(self.front_end_.silence(self.front_end_.hop_samples_ + sum(self.front_end_.context_samples_)))
        stream.finish()

    def score_stream(
        self, sample_rate: int | None = None, *, first: int = 0, memory: Memory | None = None
    ) -> ScoreStream:
        """The same scores as from `scores`, block by block, starting at any frame that is a multiple of `grain`.

        Parameters
        ----------
        sample_rate : int
        first : int
            The first frame to be scored. Samples have to be pushed from the attribute `first_sample` of the stream on,
            some minutes earlier.
        memory : Memory, optional
            For a second stage, which needs the samples.
        """
        check_is_fitted(self)
        if first and self.grain is None:
            raise InputError(
                f"first={first}: frames of this front end depend on everything before them, so a recording can only be "
                "analysed from its start"
            )
        if first and (first < 0 or first % (self.grain or 1)):
            raise InputError(f"first={first}: give a multiple of {self.grain}, at which parts start")
        return ScoreStream(self.front_end_, self.model_.scorer(), self._rate(sample_rate), memory=memory, first=first)

    def decision_stream(self, rescore: Rescore | None = None, sample_rate: int | None = None) -> DecisionStream:
        """Blocks of scores in, segments out; in samples at the model's rate by default.

        With a second stage, `rescore` turns the scores (C,) of a candidate, its first sample and the one after its last
        into the joint scores of both stages.
        """
        check_is_fitted(self)
        return self.decisions_.stream(self.layout_, rescore, sample_rate)

    # ------------------------------------------------------------------ what it knows

    @property
    def classes_(self) -> np.ndarray:
        """The labels, (C,)."""
        return self.model_.classes

    @property
    def sample_rate_(self) -> int:
        """Of the training recordings; others are resampled to it."""
        return self.model_.front_end.sample_rate_

    @property
    def front_end_(self) -> FrontEnd:
        """The fitted front end."""
        return self.model_.front_end

    @property
    def class_model_(self) -> Any:
        """The fitted class model."""
        return self.model_.class_model

    @property
    def layout_(self) -> ScoreLayout:
        """Thresholds in use, durations, frame rate; with an embedding, thresholds are those of joined scores."""
        return self.model_.layout

    @property
    def note_model_(self) -> NoteModel | None:
        """The model, if it is one of whole notes."""
        return self.model_ if isinstance(self.model_, NoteModel) else None

    @property
    def second_stage_(self) -> SecondStage | None:
        """With an embedding."""
        return self.model_.second_stage

    @property
    def decisions_(self) -> Decisions:
        """The decisions in use: those given, or the default."""
        return Decisions() if self.decisions is None else self.decisions

    @property
    def trained_thresholds(self) -> np.ndarray:
        """The thresholds of the training, (C,), before any calibration or setting by hand."""
        check_is_fitted(self)
        return self.model_.trained_thresholds

    @property
    def calibration_(self) -> list[ClassCalibration]:
        """What `calibrate` did to the threshold of each class; empty before."""
        by_hand = self.model_.by_hand
        return [
            replace(c, threshold=by_hand[c.label], by_hand=True) if c.label in by_hand else c
            for c in self.model_.calibration
        ]

    @property
    def grain(self) -> int | None:
        """Parts of a recording start at a multiple of this many frames; None if it must be analysed as a whole."""
        check_is_fitted(self)
        return self.model_.scorer().grain

    def set_thresholds(self, thresholds: ArrayLike | Mapping[Any, float] | None) -> Self:
        """Set the lowest score that classes accept; with an embedding, the lowest joined score.

        Parameters
        ----------
        thresholds : mapping of class to number, array (C,), or None
            For some of the classes, or for all in the order of `classes_`. None: back to those of the training.

        Examples
        --------
        >>> from outlark.data.synthetic import SAMPLE_RATE, notes
        >>> known = notes(counts={"tuti-F": 2, "cach-D": 2})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> detector.set_thresholds({"tuti-F": 0.5}).layout_.thresholds.round(3)
        array([0.185, 0.5  ])
        >>> detector.model_.threshold_sources
        ['examples', 'hand']
        """
        check_is_fitted(self)
        if thresholds is None:
            self.model_ = replace(self.model_, by_hand={}, calibration=())
        else:
            given = by_class(thresholds, self.classes_.tolist())
            self.model_ = replace(self.model_, by_hand={**self.model_.by_hand, **given})
        return self

    def p_values(self, segments: Iterable[Segment]) -> np.ndarray:
        """How typical each detected note is of its class, (n,): its rank among the left-out training notes.

        ``p = (1 + #{notes of the class that score no higher when left out}) / (n_notes + 1)``. This bounds the share
        of known notes that are *missed*: if new notes of a class are exchangeable with its training notes, ``p ≤ a``
        for at most a share a of them. It says nothing about how many unknown notes are accepted. A left-out note is
        scored by a model that lacks this one note, so the bound is not exact: detected notes score a little higher.

        Parameters
        ----------
        segments : iterable of Segment
            From `detect`, `decide` or a stream of this detector.

        Returns
        -------
        ndarray (n,)
            From ``1 / (n_notes + 1)`` to 1. NaN for a segment without label or score, for a class with fewer than 20
            training notes, and at frame level.

        Examples
        --------
        >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
        >>> known = notes(counts={"tuti-F": 20, "cach-D": 4})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> played = notes(seed=1, counts={"tuti-F": 2, "cach-D": 1})
        >>> audio, truth = concatenate(played, gap_s=0.3, edge_s=0.3, rng=np.random.default_rng(0))
        >>> found = [s for s in detector.detect(audio, SAMPLE_RATE) if s.label is not None]
        >>> for segment, p in zip(found, detector.p_values(found), strict=True):
        ...     print(segment.label, p.round(2))
        tuti-F 0.24
        tuti-F 0.81
        cach-D nan
        """
        check_is_fitted(self)
        found = list(segments) if isinstance(segments, Iterable) else [segments]
        if isinstance(segments, Segment) or not all(isinstance(segment, Segment) for segment in found):
            raise InputError(f"segments={segments!r:.200}; give a list of Segment objects, as returned by detect()")
        return self.model_.p_values(found)

    # ------------------------------------------------------------------ inside

    def _fit(self, material: Material) -> DetectorModel:
        return fit_notes(material, self.front_end, self.embedding)

    def _reject(self, material: Material) -> Self:
        self.model_, doubts = self._note_model().rejecting(material)
        for doubt in doubts:
            warnings.warn(doubt, AsGoodAsNotes, stacklevel=3)
        return self

    def _note_model(self) -> NoteModel:
        """The model, or an error if it is not on the absolute scale."""
        check_is_fitted(self)
        return self.model_.on_the_absolute_scale()

    def _check_parameters(self) -> None:
        check_kind("front_end", self.front_end, NoteFrontEnd)
        check_kind("decisions", self.decisions, Decisions)
        if self.decisions is not None and self.decisions.level != "note":
            raise InputError(f"decisions={self.decisions!r} are for frames; give Decisions(), or None")
        if self.embedding is not None and (not callable(self.embedding) or isinstance(self.embedding, type)):
            raise InputError(
                f"embedding={self.embedding!r:.100} must be a function from (samples, sample_rate) to a vector (d,), "
                'or a callable object such as BirdNET(output="species")'
            )

    @property
    def _kind(self) -> FrontEnd | type[FrontEnd]:
        """Knows which signals and rates there can be."""
        return FrontEnd if self.front_end is None else self.front_end

    def _rate(self, sample_rate: Any) -> int:
        return self._kind.check_rate(self.sample_rate_ if sample_rate is None else sample_rate)

    def _signals(self, sounds: Any, sample_rate: Any, what: str) -> Signals:
        return Signals.of(sounds, sample_rate, what, self._kind)

    def _opened(
        self, audio: Any, sample_rate: int | None, layout: ScoreLayout | None = None
    ) -> tuple[DetectorStream, Iterable[np.ndarray]]:
        """A stream for the recording, and its blocks."""
        check_is_fitted(self)
        if is_path(audio) or isinstance(audio, Recording):
            file = audio if isinstance(audio, Recording) else Recording(audio)
            return self.stream(file.sample_rate, layout=layout), file.blocks(BLOCK_SAMPLES)
        signal = self._kind.signal(audio)
        blocks = (signal[at : at + BLOCK_SAMPLES] for at in range(0, len(signal), BLOCK_SAMPLES))
        return self.stream(sample_rate, layout=layout), blocks


def check_kind(name: str, value: Any, kind: type) -> None:
    """Refuse a parameter of another kind."""
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name}={value!r} must be a {kind.__name__}, such as {kind.__name__}(), or None")
