"""The whole system: recordings in, labelled segments out. Training, batch and live go through the same path."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from numbers import Integral
from os import PathLike, fsdecode
from os.path import basename
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from outlark.audio.loading import is_path, loaded
from outlark.audio.resampling import resample
from outlark.audio.sound import AudioFile, check_sample_rate, mono
from outlark.detection.decode.decisions import Decisions, DecisionStream
from outlark.detection.decode.verdicts import Joined, check_decoder
from outlark.detection.frame_notes import FrameModel, fit_frames
from outlark.detection.front_end_choice import choose_front_end
from outlark.detection.negatives import AsGoodAsNotes, as_good_as_notes, check_negatives, take_in
from outlark.detection.note_level import NOTE_SETTINGS, NoteModel, fit_whole_notes, segment_p_values
from outlark.detection.scorers import LOOKED_AT, FrameScorer, NoteScorer
from outlark.detection.scores import ScoreLayout, Scores
from outlark.detection.second_stage import CANDIDATE, Embedding, Memory, SecondStage
from outlark.detection.stream import DetectorStream, ScoreStream, together
from outlark.detection.thresholds import EXAMPLES, HAND, by_class, sources_of
from outlark.detection.training import Material, at_one_rate, check_marks, check_material, join_clips, training_record
from outlark.detection.valley import FROM, ClassCalibration, calibrated
from outlark.errors import InputError
from outlark.estimators.mddkm import MDDKM
from outlark.features.array import ArrayFrontEnd, as_columns, check_series_rate
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.noise_floor import check_seconds
from outlark.features.note import NoteFrontEnd
from outlark.segments import Segment

#: Digital silence between training clips: longer than any context of a front end.
GAP_S = 0.1
#: Samples that are taken from a file at once.
BLOCK = 2**17
#: MDD-KM for frames of length 1: σ = 1, and σ_reg²/σ² = .1 because there are few of them in many dimensions.
UNIT_SETTINGS: dict[str, Any] = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5}


class NoteDetector(BaseEstimator):
    """Finds the notes you know in recordings, and tells which ones you don't.

    Parameters
    ----------
    front_end : FrontEnd, optional
        From sound to frames; by default `NoteFrontEnd`, whole notes, with settings for the notes at hand.
    describer : estimator, optional
        From frames, or whole notes, to class scores; `MDDKM` by default. Anything with `fit(X, y, groups)`,
        `classes_`, `thresholds_` and `class_scores(X)` will do.
    decisions : Decisions, optional
        From class scores to segments.
    gap_s : float
        Digital silence between training clips.
    embedding : callable, optional
        A second stage, for the default front end and describer: ``embedding(samples, sample_rate)`` → vector (d,)
        describes each candidate once more (`outlark.detection.second_stage`).
        ``outlark.embeddings.BirdNET(output="species")`` is one.

    Attributes
    ----------
    classes_ : ndarray (C,)
    sample_rate_ : int
        Of the training recordings; others are resampled to it.
    front_end_, describer_ : fitted
    layout_ : ScoreLayout
        Thresholds, durations, frame rate.
    note_model_ : NoteModel or None
        For whole notes.
    second_stage_ : SecondStage or None
        With an embedding; `layout_` then has the thresholds of the joined scores.
    threshold_sources_ : list of str
        For each class where its threshold comes from: "examples", "calibration" or "hand".
    training_ : list of dict
        What it was made from: see `training_record`.
    negatives_ : list of dict
        The same of what `reject` was given, with the best "score" of the class that is their label, and that they are
        not of.
    lineage_ : list of dict
        The models that it was trained from, the oldest first: see `outlark.commands.train.retraining`.
    choice_ : list of str
        Why the front end has its settings; empty where it was given.
    calibration_ : list of ClassCalibration
        What `calibrate` did to the threshold of each class; empty before.

    Examples
    --------
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
    >>> known = [note for note in notes(counts={"tuti-F": 4, "cach-D": 4})]
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, truth = concatenate(notes(seed=1, counts={"cach-D": 1}), edge_s=0.5, rng=np.random.default_rng(0))
    >>> [s.label for s in detector.detect(audio, SAMPLE_RATE) if s.verdict == "known"]
    ['cach-D']
    """

    layout_: ScoreLayout
    note_model_: NoteModel | None
    second_stage_: SecondStage | None
    threshold_sources_: list[str]
    calibration_: list[ClassCalibration]
    negatives_: list[dict[str, Any]]
    lineage_: list[dict[str, Any]]

    def __init__(
        self,
        front_end: FrontEnd | None = None,
        describer: Any = None,
        decisions: Decisions | None = None,
        *,
        gap_s: float = GAP_S,
        embedding: Embedding | None = None,
    ) -> None:
        self.front_end = front_end
        self.describer = describer
        self.decisions = decisions
        self.gap_s = gap_s
        self.embedding = embedding

    @classmethod
    def paper(cls, describer: Any = None) -> Self:
        """The system of the paper to the letter (Sec. 4.2): top layer of HLDS, literal MDD-KM, six rules."""
        describer = MDDKM.paper() if describer is None else describer
        return cls(HLDSFrontEnd.paper(), describer, Decisions.paper(), gap_s=0.0)

    def fit(self, clips: Sequence[Any], labels: Sequence[Any], sample_rate: int | Sequence[int] | None = None) -> Self:
        """Learn from clips that each hold one note.

        Parameters
        ----------
        clips : sequence of arrays (n,) or (n, channels), or paths
        labels : sequence
            The class of each clip.
        sample_rate : int or sequence of int
            Of the arrays; paths bring their own. The lowest becomes the model's.
        """
        self._check_parameters()
        return self._fit(self._joined(clips, labels, sample_rate))

    def fit_recordings(
        self,
        recordings: Sequence[Any],
        segments: Sequence[Iterable[Segment]],
        sample_rate: int | Sequence[int] | None = None,
        *,
        negatives: Sequence[Iterable[Segment]] | None = None,
    ) -> Self:
        """Learn from notes marked in longer recordings; what is not marked tells what else there is to hear.

        Parameters
        ----------
        recordings : sequence of arrays or paths
        segments : for each recording the marked notes
        sample_rate : int or sequence of int
            Of the arrays; paths bring their own. The lowest becomes the model's.
        negatives : for each recording the spans that are not notes, optional
            Each has the label of the class that it is not of; see `reject`.
        """
        self._check_parameters()
        given, names = self._loaded(recordings, sample_rate, "recordings"), _names(recordings)
        material = self._marked(given, segments, names)
        if negatives is None:
            return self._fit(material)
        rejected = self._marked(given, negatives, names, material.sample_rate)
        check_negatives(rejected, [s.label for _, s in material.notes], material)
        return self._fit(material)._reject(rejected)

    def reject(
        self,
        recordings: Sequence[Any],
        segments: Sequence[Iterable[Segment]],
        sample_rate: int | Sequence[int] | None = None,
    ) -> Self:
        """Learn what is not a note of a class, such as false alarms; what was rejected before stays rejected.

        What is nearer to a rejected sound than to the class is not accepted by that class any more. Thresholds and
        other classes stay as they are (docs/decisions/013-negative-examples.md).

        Parameters
        ----------
        recordings : sequence of arrays or paths
        segments : for each recording the spans that are not notes
            Each has the label of the class that it is not of, and may be longer than a note.
        sample_rate : int or sequence of int
            Of the arrays; paths bring their own.

        Raises
        ------
        InputError
            For a label that is not a class, and for a detector whose scores are not on the absolute scale.

        Warns
        -----
        UserWarning
            When a sound scores as high as the notes of the class do when left out.

        Examples
        --------
        >>> from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
        >>> known = notes(counts={"tuti-D": 3})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> rng, played = np.random.default_rng(0), notes(seed=1, counts={"tuti-D": 1, "cach-C": 2})
        >>> audio, _ = concatenate(played, gap_s=0.3, edge_s=0.3, rng=rng)
        >>> found = [s for s in detector.set_thresholds([0.05]).detect(audio, SAMPLE_RATE) if s.label == "tuti-D"]
        >>> [round(s.start_s, 1) for s in found]  # the first is one, the others are notes of another kind
        [0.3, 0.8, 1.3]
        >>> detector = detector.reject([audio], [found[2:]], SAMPLE_RATE)
        >>> [round(s.start_s, 1) for s in detector.detect(audio, SAMPLE_RATE) if s.label == "tuti-D"]
        [0.3]
        """
        self._priors()
        given = self._loaded(recordings, sample_rate, "recordings")
        return self._reject(self._marked(given, segments, _names(recordings), self.sample_rate_))

    def reject_clips(
        self, clips: Sequence[Any], labels: Sequence[Any], sample_rate: int | Sequence[int] | None = None
    ) -> Self:
        """The same as `reject` from clips, each of a sound that is not a note of the class of its label."""
        self._priors()
        return self._reject(self._joined(clips, labels, sample_rate, self.sample_rate_))

    def scores(self, audio: ArrayLike | str | PathLike[str], sample_rate: int | None = None) -> Scores:
        """The class scores of a whole recording, for `decide`; with an embedding, those of the first stage."""
        return self.scores_and_segments(audio, sample_rate)[0]

    def scores_and_segments(
        self, audio: ArrayLike | str | PathLike[str], sample_rate: int | None = None
    ) -> tuple[Scores, list[Segment]]:
        """What `scores` and `detect` give, in one go."""
        stream, blocks = self._opened(audio, sample_rate)
        found = together([*(stream.push(block) for block in blocks), stream.finish()])
        layout = self.layout_
        if self.second_stage_ is not None and self.note_model_ is not None:
            layout = replace(layout, thresholds=self.note_model_.thresholds)
        return Scores(layout=layout, block=found.scores, n_samples=stream.n_model_samples), found.segments

    def detect(self, audio: ArrayLike | str | PathLike[str], sample_rate: int | None = None) -> list[Segment]:
        """The segments of a recording, from its start to its end.

        Parameters
        ----------
        audio : array (n,) or (n, channels), or path
        sample_rate : int
            Of an array; files bring their own. Left out: that of the training recordings.
        """
        return self._detected(audio, sample_rate)

    def decide(self, scores: Scores) -> list[Segment]:
        """Segments from scores, without the recording; in samples of the model's rate."""
        check_is_fitted(self)
        if not isinstance(scores, Scores):
            raise InputError(f"decide takes what scores() gives, not {type(scores).__name__}")
        if self.second_stage_ is not None:
            raise InputError(
                "a detector with an embedding has to hear the candidates, so that scores are not enough to decide; "
                "give detect() the recording"
            )
        return self._decisions().decide(scores)

    def calibrate(self, recordings: Iterable[Any], sample_rate: int | Sequence[int] | None = None) -> Self:
        """Move the threshold of each class to the valley of its scores in these recordings; no labels are needed.

        Give the recordings that are to be searched, or some hours of them. The thresholds of the training are kept,
        and calibrating again starts from them. A class with too few peaks keeps its threshold, and so does one whose
        threshold was set by hand; `calibration_` says so.

        Parameters
        ----------
        recordings : iterable of arrays (n,) or (n, channels), paths, `AudioFile`, or `Scores` of this detector
            One of them is in memory at a time.
        sample_rate : int or sequence of int
            Of the arrays; files bring their own.

        Raises
        ------
        InputError
            For a detector whose scores are not on the absolute scale: one of frames, or with a describer of its own.

        Examples
        --------
        >>> from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
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
        """For each class the scores of what could be its notes in a recording, for `calibrate_peaks`.

        Parameters
        ----------
        recording : array, path, `AudioFile` or `Scores`, as `calibrate` takes them
        sample_rate : int
            Of an array.
        """
        check_is_fitted(self)
        layout = replace(self.layout_, thresholds=FROM * self._priors())
        found = (
            self.decide(replace(recording, layout=layout))
            if isinstance(recording, Scores)
            else self._detected(recording, sample_rate, layout)
        )
        return [np.array([float(s.score) for s in found if s.label == label]) for label in self.classes_.tolist()]

    def calibrate_peaks(self, peaks: Sequence[Sequence[np.ndarray]]) -> Self:
        """Calibrate by what `peaks` gave for each recording; a night can be listened to piece by piece."""
        priors, labels = self._priors(), self.classes_.tolist()
        of_class = [np.concatenate([*(p[c] for p in peaks), []]) for c in range(len(labels))]
        found = [calibrated(*each) for each in zip(labels, priors.tolist(), of_class, strict=True)]
        for c, source in enumerate(self.threshold_sources_):
            if source == HAND:
                found[c] = replace(found[c], threshold=float(self.layout_.thresholds[c]), by_hand=True)
        self.layout_ = replace(self.layout_, thresholds=np.array([c.threshold for c in found]))
        self.calibration_, self.threshold_sources_ = found, sources_of(found)
        return self

    def set_thresholds(self, thresholds: ArrayLike | Mapping[Any, float] | None) -> Self:
        """Let classes accept from a score on that is set by hand; with an embedding, from a joined score on.

        Parameters
        ----------
        thresholds : mapping of class to number, array (C,), or None
            For some of the classes, or for all in the order of `classes_`. None: those of the training again.

        Examples
        --------
        >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
        >>> known = notes(counts={"tuti-F": 2, "cach-D": 2})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> detector.set_thresholds({"tuti-F": 0.5}).layout_.thresholds.round(3)
        array([0.185, 0.5  ])
        >>> detector.threshold_sources_
        ['examples', 'hand']
        """
        check_is_fitted(self)
        labels = self.classes_.tolist()
        if thresholds is None:
            self.layout_ = replace(self.layout_, thresholds=self.trained_thresholds)
            self.threshold_sources_, self.calibration_ = [EXAMPLES] * len(labels), []
            return self
        given = by_class(thresholds, labels)
        values = [given.get(label, old) for label, old in zip(labels, self.layout_.thresholds.tolist(), strict=True)]
        self.layout_ = replace(self.layout_, thresholds=np.array(values))
        self.threshold_sources_ = [
            HAND if label in given else source for label, source in zip(labels, self.threshold_sources_, strict=True)
        ]
        self.calibration_ = [
            replace(c, threshold=given[c.label], by_hand=True) if c.label in given else c for c in self.calibration_
        ]
        return self

    @property
    def trained_thresholds(self) -> np.ndarray:
        """The thresholds that training has given, (C,), whatever was calibrated or set by hand since."""
        check_is_fitted(self)
        if self.note_model_ is None:
            return np.array(self.describer_.thresholds_, dtype=float)
        of_notes = np.array(self.note_model_.thresholds, dtype=float)
        return of_notes if self.second_stage_ is None else self.second_stage_.thresholds(of_notes)

    def p_values(self, segments: Iterable[Segment]) -> np.ndarray:
        """How typical each found note is of its class, (n,): its rank among the training notes when left out.

        ``p = (1 + #{notes of the class that score no higher when left out}) / (n_notes + 1)``. What this bounds is the
        share of known notes that are *missed*: if new notes of a class are exchangeable with its training notes,
        ``p ≤ a`` for at most a share a of those that are looked at. Nothing is promised about how many unknown notes
        are accepted. The model that a left-out note is scored by is smaller by that note, so that the bound is not an
        exact one: found notes score a little higher.

        Parameters
        ----------
        segments : iterable of Segment
            What `detect`, `decide` or a stream of this detector gave.

        Returns
        -------
        ndarray (n,)
            From ``1 / (n_notes + 1)`` to 1. NaN for a segment without label or score, for a class with fewer than
            `outlark.detection.calibration.ENOUGH_NOTES` (20) training notes or none, for front ends of frames, and for
            models from files that do not hold left-out scores.

        Examples
        --------
        >>> from outlark.experiment.synthetic import SAMPLE_RATE, concatenate, notes
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
        return segment_p_values(self.note_model_, segments)

    def stream(self, sample_rate: int | None = None) -> DetectorStream:
        """A fresh stream: `push` blocks of any size, then `finish`; the same segments as `detect`."""
        check_is_fitted(self)
        return self._stream(sample_rate, self.layout_)

    @property
    def grain(self) -> int | None:
        """Parts of a recording begin with a multiple of this many frames; None if it can only be heard as a whole."""
        check_is_fitted(self)
        scorer = self._scorer()
        return scorer.grain if isinstance(scorer, NoteScorer) else None

    def score_stream(
        self, sample_rate: int | None = None, *, first: int = 0, memory: Memory | None = None
    ) -> ScoreStream:
        """Scores as `scores` gives them, block by block, from a frame of the recording on; the same to the last bit.

        Parameters
        ----------
        sample_rate : int
        first : int
            The frame with which the scores begin, a multiple of `grain`. Samples have to be pushed from the attribute
            `first_sample` of the stream on, some minutes earlier.
        memory : Memory, optional
            For a second stage, which will look at the samples.

        Examples
        --------
        >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
        >>> known = notes(counts={"tuti-F": 2})
        >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
        >>> late = detector.score_stream(SAMPLE_RATE, first=900 * detector.grain)
        >>> round(900 * detector.grain / detector.front_end_.frame_rate - late.first_sample / SAMPLE_RATE)  # seconds
        312
        """
        rate = self._rate(sample_rate if sample_rate is not None else self.sample_rate_)
        if first and self.grain is None:
            raise InputError(
                f"first={first}: frames of this front end depend on all that came before, so that a recording can only "
                "be heard from its start"
            )
        if first and (first < 0 or first % (self.grain or 1)):
            raise InputError(f"first={first}: give a multiple of {self.grain}, which parts begin with")
        return ScoreStream(
            self.front_end_, self._scorer(), model_rate=self.sample_rate_,
            sample_rate=rate, signal=self._signal, memory=memory, first=first,
        )  # fmt: skip

    def decision_stream(self, joined: Joined | None = None) -> DecisionStream:
        """Scores in, block by block, segments in samples of the model's rate out.

        Parameters
        ----------
        joined : function, with a second stage
            From the scores (C,) of a candidate, its first sample and the one after its last to the joined scores.
        """
        check_is_fitted(self)
        return self._decisions().stream(self._candidates(self.layout_), joined)

    # ------------------------------------------------------------------ inside

    def _joined(
        self, clips: Sequence[Any], labels: Sequence[Any], sample_rate: Any, rate: int | None = None
    ) -> Material:
        """Clips as material, at this rate or the lowest of them."""
        given = self._loaded(clips, sample_rate, "clips")
        rate = min((rate for _, rate in given), default=0) if rate is None else rate
        signals = [self._signal(clip) for clip, _ in given]
        at_rate = [s if r == rate else resample(s, r, rate) for s, (_, r) in zip(signals, given, strict=True)]
        return replace(join_clips(at_rate, list(labels), rate, self.gap_s), names=_names(clips))

    def _marked(
        self,
        given: Sequence[tuple[Any, int]],
        segments: Sequence[Iterable[Segment]],
        names: Sequence[str | None],
        rate: int | None = None,
    ) -> Material:
        """Marked recordings as material, at this rate or the lowest of them."""
        if not given:
            raise InputError("no recordings; give at least one with a marked note")
        rates = [rate for _, rate in given]
        marks = check_marks(segments, len(given))
        at_rate = min(rates) if rate is None else rate
        material = at_one_rate([self._signal(audio) for audio, _ in given], rates, marks, at_rate)
        return replace(material, names=names)

    def _reject(self, material: Material) -> Self:
        """Take in what is not a note."""
        self._priors()
        model = self.note_model_
        assert isinstance(self.front_end_, NoteFrontEnd)
        assert model is not None
        check_negatives(material, self.classes_.tolist())
        # what would be found is a matter of the thresholds in use; those of candidates are the training's
        used, share = self.layout_.thresholds, LOOKED_AT
        if self.second_stage_ is not None:
            used, share = model.thresholds, CANDIDATE
        taken, records = take_in(self.front_end_, replace(model, thresholds=used), material, share)
        self.note_model_ = replace(taken, thresholds=model.thresholds)
        for told in as_good_as_notes(self.note_model_, records):
            warnings.warn(told, AsGoodAsNotes, stacklevel=3)
        self.negatives_ = [*self.negatives_, *records]
        return self

    def _priors(self) -> np.ndarray:
        """The thresholds that calibrating starts from, (C,)."""
        check_is_fitted(self)
        if self.note_model_ is None or self.note_model_.contrast_db is None:
            raise InputError(
                "only a detector of whole notes with the default describer is on the absolute scale and can be "
                "calibrated, or learn from negatives; train one without front_end and describer"
            )
        return self.trained_thresholds

    def _stream(self, sample_rate: int | None, layout: ScoreLayout) -> DetectorStream:
        rate = self._rate(sample_rate if sample_rate is not None else self.sample_rate_)
        memory = None if self.second_stage_ is None else Memory(self.second_stage_, self.sample_rate_)
        scores = self.score_stream(rate, memory=memory)
        layout = self._candidates(layout)
        return DetectorStream(scores, self._decisions(), layout, sample_rate=rate, memory=memory)

    def _candidates(self, layout: ScoreLayout) -> ScoreLayout:
        """The layout for decisions: with a second stage, that of its candidates."""
        if self.second_stage_ is None:
            return layout
        assert self.note_model_ is not None
        return self.second_stage_.layout(layout, self.note_model_.thresholds)

    def _detected(self, audio: Any, sample_rate: int | None, layout: ScoreLayout | None = None) -> list[Segment]:
        """The segments of a recording, by thresholds other than the model's if a layout is given."""
        stream, blocks = self._opened(audio, sample_rate, layout)
        found = [segment for block in blocks for segment in stream.push(block).segments]
        return found + stream.finish().segments

    def _fit(self, material: Material) -> Self:
        check_material(material)
        front_end, self.choice_ = choose_front_end(material) if self.front_end is None else (clone(self.front_end), [])
        if material.clips and isinstance(front_end, NoteFrontEnd):
            front_end.set_params(surroundings_s=0.0)  # silence that we put between clips is no evidence
        front_end.fit(material.recordings, material.sample_rate, material.segments)
        transform = front_end.transform_clips if material.clips else front_end.transform
        frames = [transform(recording) for recording in material.recordings]
        if isinstance(front_end, NoteFrontEnd):
            model: NoteModel | FrameModel = fit_whole_notes(
                front_end, self.describer, frames, material.segments, clips=material.clips
            )
        else:
            model = fit_frames(front_end, self._frame_describer(), frames, material)
        self.describer_ = model.describer
        self.note_model_ = model if isinstance(model, NoteModel) else None
        self.front_end_, self.classes_ = front_end, self.describer_.classes_
        self.sample_rate_ = material.sample_rate
        self.layout_ = _layout(front_end, model, material)
        self.second_stage_ = None if self.embedding is None else self._second_stage(model, material)
        self.training_ = training_record(material)
        self.threshold_sources_, self.calibration_ = [EXAMPLES] * len(self.classes_), []
        self.negatives_, self.lineage_ = [], []
        return self

    def _second_stage(self, model: Any, material: Material) -> SecondStage:
        """Learnt from the notes that the first stage has learnt from; the layout gets the joined thresholds."""
        used = np.unique(np.concatenate(model.describer.notes_))
        assert self.embedding is not None
        stage = SecondStage.fit(
            self.embedding, NOTE_SETTINGS, material.recordings, [material.notes[i] for i in used.tolist()]
        )
        self.layout_ = replace(self.layout_, thresholds=stage.thresholds(model.thresholds))
        return stage

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
                'or an object that can be called so, such as BirdNET(output="species")'
            )
        if self.describer is not None or not (self.front_end is None or isinstance(self.front_end, NoteFrontEnd)):
            raise InputError(
                "an embedding goes with the default front end and describer, whose scores it can be joined with; leave "
                "front_end and describer out"
            )

    def _frame_describer(self) -> Any:
        if self.describer is not None:
            return clone(self.describer)
        return MDDKM()

    def _rate(self, sample_rate: Any) -> int:
        return (check_series_rate if isinstance(self.front_end, ArrayFrontEnd) else check_sample_rate)(sample_rate)

    def _loaded(self, sounds: Any, sample_rate: Any, what: str) -> list[tuple[Any, int]]:
        """Samples and rate of each array or file."""
        found = [(sound, self._rate(rate)) for sound, rate in loaded(sounds, sample_rate, what)]
        rates = sorted({rate for _, rate in found})
        if isinstance(self.front_end, ArrayFrontEnd) and len(rates) > 1:
            raise InputError(f"series at the rates {rates} Hz; resample them to one rate first")
        return found

    def _signal(self, audio: ArrayLike) -> np.ndarray:
        if isinstance(self.front_end, ArrayFrontEnd):
            return as_columns(audio)
        return mono(audio)

    def _decisions(self) -> Decisions:
        return Decisions() if self.decisions is None else self.decisions

    def _scorer(self) -> FrameScorer | NoteScorer:
        if self.note_model_ is not None:
            assert isinstance(self.front_end_, NoteFrontEnd)
            model = self.note_model_
            if self.second_stage_ is None:  # edges are looked at from half of these on, so that both can be decided on
                model = replace(model, thresholds=np.minimum(model.thresholds, self.layout_.thresholds))
            return model.scorer(self.front_end_)
        return FrameScorer(self.describer_, len(self.classes_))

    def _opened(
        self, audio: Any, sample_rate: int | None, layout: ScoreLayout | None = None
    ) -> tuple[DetectorStream, Iterable[np.ndarray]]:
        """A stream for the recording, and its blocks."""
        check_is_fitted(self)
        layout = self.layout_ if layout is None else layout
        if is_path(audio) or isinstance(audio, AudioFile):
            file = audio if isinstance(audio, AudioFile) else AudioFile(audio)
            return self._stream(file.sample_rate, layout), file.blocks(BLOCK)
        signal = self._signal(audio)
        return self._stream(sample_rate, layout), (signal[at : at + BLOCK] for at in range(0, len(signal), BLOCK))


def _layout(front_end: FrontEnd, model: NoteModel | FrameModel, material: Material) -> ScoreLayout:
    classes = model.describer.classes_
    durations = [[s.duration_s for _, s in material.notes if s.label == label] for label in classes.tolist()]
    return ScoreLayout(
        classes=classes,
        thresholds=np.array(model.thresholds, dtype=float),
        note_thresholds=model.note_thresholds if isinstance(model, FrameModel) else None,
        sample_rate=material.sample_rate,
        hop_samples=front_end.hop_samples_,
        offset_samples=front_end.offset_samples_,
        shortest_s=np.array([min(d) for d in durations]),
        longest_s=np.array([max(d) for d in durations]),
    )


def _names(sounds: Sequence[Any]) -> list[str | None]:
    """The names of files, without their folders."""
    return [basename(fsdecode(sound)) if is_path(sound) else None for sound in sounds]
