"""The whole system: recordings in, labelled segments out. Training, batch and live share the same path."""

import warnings
from collections.abc import Iterable, Sequence
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
from outlark.detection.decode.decisions import Decisions, DecisionStream
from outlark.detection.decode.verdicts import Joined, check_decoder
from outlark.detection.model import fit_model
from outlark.detection.negatives import AsGoodAsNotes, check_negatives
from outlark.detection.scorers import NoteScorer
from outlark.detection.scores import ScoreLayout, Scores
from outlark.detection.second_stage import Embedding, Memory
from outlark.detection.stream import DetectorStream, ScoreStream, together
from outlark.detection.thresholds import FROM
from outlark.detection.trained import Trained
from outlark.detection.training import ClassModel, Material, Signals
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_seconds
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.segments import Segment

#: Digital silence between training clips: longer than the context of any front end.
GAP_S = 0.1
#: Samples read from a file at once.
BLOCK = 2**17
#: MDD-KM for frames of length 1: σ = 1, and σ_reg²/σ² = .1 because there are few of them in many dimensions.
UNIT_SETTINGS: dict[str, Any] = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5}


class NoteDetector(Trained, BaseEstimator):
    """Finds notes of known classes in recordings, and reports other sounds as unknown.

    Parameters
    ----------
    front_end : FrontEnd, optional
        From sound to frames; by default `NoteFrontEnd`, note-level, with settings chosen for the training notes.
    class_model : estimator, optional
        The class model: from frames, or whole notes, to class scores; `MDDKM` by default. Any estimator with
        `fit(X, y, groups)`, `classes_`, `thresholds_` and `class_scores(X)`.
    decisions : Decisions, optional
        From class scores to segments.
    gap_s : float
        Digital silence between training clips.
    embedding : callable, optional
        A second stage, for the default front end and class model: ``embedding(samples, sample_rate)`` → vector (d,)
        describes each candidate again (`outlark.detection.second_stage`).
        ``outlark.embeddings.BirdNET(output="species")`` is one.

    Attributes
    ----------
    model_ : DetectorModel
        All that training has learnt; the other attributes show parts of it (`outlark.detection.trained`).
    classes_ : ndarray (C,)
    sample_rate_ : int
        Of the training recordings; others are resampled to it.
    front_end_, class_model_ : fitted
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

    def __init__(
        self,
        front_end: FrontEnd | None = None,
        class_model: ClassModel | None = None,
        decisions: Decisions | None = None,
        *,
        gap_s: float = GAP_S,
        embedding: Embedding | None = None,
    ) -> None:
        self.front_end = front_end
        self.class_model = class_model
        self.decisions = decisions
        self.gap_s = gap_s
        self.embedding = embedding

    @classmethod
    def paper(cls, class_model: ClassModel | None = None) -> Self:
        """The system as published (Sec. 4.2): top layer of HLDS, literal MDD-KM, six rules."""
        class_model = MDDKM.paper() if class_model is None else class_model
        return cls(HLDSFrontEnd.paper(), class_model, Decisions.paper(), gap_s=0.0)

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
        return self._fit(self._signals(clips, sample_rate, "clips").as_clips(labels, self.gap_s))

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
        if negatives is None:
            return self._fit(material)
        rejected = given.as_recordings(negatives, material.sample_rate)
        check_negatives(rejected, list(material.durations_s), material)
        return self._fit(material)._reject(rejected)

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
        self._check_scale()
        given = self._signals(recordings, sample_rate, "recordings")
        return self._reject(given.as_recordings(segments, self.sample_rate_))

    def reject_clips(
        self, clips: Sequence[Any], labels: Sequence[Any], sample_rate: int | Sequence[int] | None = None
    ) -> Self:
        """The same as `reject`, from clips of sounds that are not notes of the class they are labelled with."""
        self._check_scale()
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
        self._check_scale()
        layout = replace(self.layout_, thresholds=FROM * self.trained_thresholds)
        found = (
            self.decide(replace(recording, layout=layout))
            if isinstance(recording, Scores)
            else self.detect(recording, sample_rate, layout=layout)
        )
        return [np.array([float(s.score) for s in found if s.label == label]) for label in self.classes_.tolist()]

    @property
    def decisions_(self) -> Decisions:
        """The decisions in use: those given, or the default."""
        return Decisions() if self.decisions is None else self.decisions

    def stream(self, sample_rate: int | None = None, *, layout: ScoreLayout | None = None) -> DetectorStream:
        """A fresh stream: `push` blocks of any size, then `finish`; the same segments as `detect`."""
        check_is_fitted(self)
        rate = self._rate(sample_rate)
        memory = None if self.second_stage_ is None else Memory(self.second_stage_, self.sample_rate_)
        scores = self.score_stream(rate, memory=memory)
        return DetectorStream(
            scores, self.decisions_, self.model_.decision_layout(layout), sample_rate=rate, memory=memory
        )

    def try_out(self) -> None:
        """Pass a frame of silence through the whole system, so that settings that do not fit show now."""
        check_seconds("gap_s", self.gap_s, zero=True)
        stream = self.stream()
        stream.push(self.front_end_.silence(self.front_end_.hop_samples_ + sum(self.front_end_.context_samples_)))
        stream.finish()

    @property
    def grain(self) -> int | None:
        """Parts of a recording start at a multiple of this many frames; None if it must be analysed as a whole."""
        check_is_fitted(self)
        scorer = self.model_.scorer()
        return scorer.grain if isinstance(scorer, NoteScorer) else None

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

        Examples
        --------
        >>> from outlark.data.synthetic import SAMPLE_RATE, notes
        >>> known = notes(counts={"tuti-F": 2})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> late = detector.score_stream(SAMPLE_RATE, first=900 * detector.grain)
        >>> round(900 * detector.grain / detector.front_end_.frame_rate - late.first_sample / SAMPLE_RATE)  # seconds
        312
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

    def decision_stream(self, joined: Joined | None = None) -> DecisionStream:
        """Blocks of scores in, segments in samples at the model's rate out.

        With a second stage, `joined` turns the scores (C,) of a candidate, its first sample and the one after its last
        into the joined scores.
        """
        check_is_fitted(self)
        return self.decisions_.stream(self.model_.decision_layout(), joined)

    def _fit(self, material: Material) -> Self:
        self.model_ = fit_model(material, self.front_end, self.class_model, self.embedding)
        return self

    def _reject(self, material: Material) -> Self:
        self._check_scale()
        self.model_, doubts = self.model_.rejecting(material)
        for doubt in doubts:
            warnings.warn(doubt, AsGoodAsNotes, stacklevel=3)
        return self

    def _check_parameters(self) -> None:
        for name, kind in (("front_end", FrontEnd), ("decisions", Decisions)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"{name}={value!r} must be a {kind.__name__}, such as {kind.__name__}(), or None")
        check_seconds("gap_s", self.gap_s, zero=True)
        if self.embedding is not None:
            self._check_embedding()
        if self.decisions is not None:
            check_decoder(self.decisions.decoder)

    def _check_embedding(self) -> None:
        if not callable(self.embedding) or isinstance(self.embedding, type):
            raise InputError(
                f"embedding={self.embedding!r:.100} must be a function from (samples, sample_rate) to a vector (d,), "
                'or a callable object such as BirdNET(output="species")'
            )
        if self.class_model is not None or not (self.front_end is None or self.front_end.note_level):
            raise InputError(
                "an embedding needs the default front end and class model, whose scores it can be joined with; omit "
                "front_end and class_model"
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
            return self.stream(file.sample_rate, layout=layout), file.blocks(BLOCK)
        signal = self._kind.signal(audio)
        blocks = (signal[at : at + BLOCK] for at in range(0, len(signal), BLOCK))
        return self.stream(sample_rate, layout=layout), blocks
